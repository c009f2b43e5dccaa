# SPDX-License-Identifier: Apache-2.0
"""A small GPT on characters, after nanoGPT and minGPT: an infinite iterator over a sampler with replacement."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset, RandomSampler

TEXT = "to be, or not to be, that is the question: whether 'tis nobler in the mind to suffer " * 6
block_size = 16


class CharDataset(Dataset):
    def __init__(self, data):
        chars = sorted(set(data))
        self.stoi = {ch: i for i, ch in enumerate(chars)}
        self.vocab_size, self.data = len(chars), data

    def __len__(self):
        return len(self.data) - block_size

    def __getitem__(self, idx):
        dix = [self.stoi[s] for s in self.data[idx:idx + block_size + 1]]
        return torch.tensor(dix[:-1], dtype=torch.long), torch.tensor(dix[1:], dtype=torch.long)


class GPT(nn.Module):
    def __init__(self, vocab, width=32):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(block_size, width)
        self.attn, self.mlp = nn.Linear(width, 3 * width), nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, width))
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        q, k, v = self.attn(x).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True)
        logits = self.head(x + self.mlp(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


torch.manual_seed(1337)
dataset = CharDataset(TEXT)
loader = DataLoader(dataset, sampler=RandomSampler(dataset, replacement=True, num_samples=12), shuffle=False, pin_memory=False,
                    batch_size=4, num_workers=1)
model = GPT(dataset.vocab_size)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95))
data_iter = iter(loader)
for iter_num in range(5):
    try:
        batch = next(data_iter)
    except StopIteration:
        data_iter = iter(loader)
        batch = next(data_iter)
    loss = model(*batch)
    model.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(f"iter {iter_num}: {loss.item().hex()}")
