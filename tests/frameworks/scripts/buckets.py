# SPDX-License-Identifier: Apache-2.0
"""Batches of sentences of like length: a batch sampler of one's own, shuffled with `random`, wrapping torch's BatchSampler."""
import random

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import BatchSampler, Dataset, Sampler, SequentialSampler


class Sentences(Dataset):
    def __init__(self):
        self.sentences = [torch.randint(1, 50, (int(n),)) for n in torch.randint(3, 20, (32,))]

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, i):
        return self.sentences[i], len(self.sentences[i])


class BucketSampler(Sampler):
    def __init__(self, data, batch_size):
        self.lengths, self.batch_size = [n for _, n in data], batch_size

    def __iter__(self):
        by_length = sorted(range(len(self.lengths)), key=lambda i: (self.lengths[i], random.random()))
        batches = [[by_length[k] for k in batch] for batch in BatchSampler(SequentialSampler(by_length), self.batch_size, drop_last=False)]
        random.shuffle(batches)
        yield from batches

    def __len__(self):
        return -(-len(self.lengths) // self.batch_size)


def pad(batch):
    batch.sort(key=lambda pair: -pair[1])
    return nn.utils.rnn.pad_sequence([s for s, _ in batch], batch_first=True), torch.tensor([n for _, n in batch])


torch.manual_seed(6)
random.seed(6)
data = Sentences()
loader = DataLoader(data, batch_sampler=BucketSampler(data, 7), collate_fn=pad, num_workers=1)
embed, rnn, head = nn.Embedding(50, 8, padding_idx=0), nn.GRU(8, 12, batch_first=True), nn.Linear(12, 1)
optimizer = torch.optim.Adam([*embed.parameters(), *rnn.parameters(), *head.parameters()], 1e-2)
print(len(loader))
for tokens, lengths in loader:
    _, last = rnn(nn.utils.rnn.pack_padded_sequence(embed(tokens), lengths, batch_first=True))
    loss = nn.functional.l1_loss(head(last[0]).squeeze(1), lengths.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(tuple(tokens.shape), loss.item().hex())
