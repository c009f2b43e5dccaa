# SPDX-License-Identifier: Apache-2.0
"""A TensorDataset and an MLP in the main process, the first script that people write; then the same with batches of indices."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import BatchSampler, RandomSampler, TensorDataset

torch.manual_seed(0)
X, y = torch.randn(22, 3), torch.randn(22, 1)
dataset = TensorDataset(X, y)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
loss_fn = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(dataloader):
    size = len(dataloader.dataset)
    for batch, (inputs, targets) in enumerate(dataloader):
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"loss: {loss.item().hex()}  [{batch * len(inputs)}/{size}]")


train(DataLoader(dataset, batch_size=8, shuffle=True))
train(DataLoader(dataset, 8, True, num_workers=1))
train(DataLoader(dataset, sampler=BatchSampler(RandomSampler(dataset), 8, False), batch_size=None))
for inputs, target in DataLoader(dataset, batch_size=None, shuffle=True):
    print(loss_fn(model(inputs), target).item().hex())
