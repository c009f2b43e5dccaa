# SPDX-License-Identifier: Apache-2.0
"""SimCLR: two random views of each sample; the batch is a list of two tensors and a label."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader


class TwoCropsTransform:
    def __init__(self, base):
        self.base = base

    def __call__(self, x):
        return [self.base(x), self.base(x)]


def augment(x):
    x = x.roll(int(torch.randint(0, 8, (1,))), -1)
    return x * torch.empty(1).uniform_(0.8, 1.2) + 0.05 * torch.randn_like(x)


class Signals(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.data, self.transform = torch.linspace(-1, 1, 24 * 16).view(24, 16), transform

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.transform(self.data[i]), i % 4


def info_nce(features, temperature=0.2):
    features = F.normalize(features)
    half = len(features) // 2
    scores = (features @ features.T / temperature).fill_diagonal_(-1e9)
    return F.cross_entropy(scores, torch.arange(2 * half).roll(half))


torch.manual_seed(8)
loader = DataLoader(Signals(TwoCropsTransform(augment)), batch_size=6, shuffle=True, num_workers=2, drop_last=True, pin_memory=True)
model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for images, _ in loader:
    images = torch.cat(images, dim=0)
    loss = info_nce(model(images))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
