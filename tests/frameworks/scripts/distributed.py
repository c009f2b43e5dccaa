# SPDX-License-Identifier: Apache-2.0
"""Rank 0 of 2 without a process group: DistributedSampler with set_epoch, and the state of the model's average."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset, DistributedSampler


class Vectors(Dataset):
    def __len__(self):
        return 25

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return index, torch.randn(5, generator=generator) + 0.1 * torch.randn(5)


torch.manual_seed(19)
dataset = Vectors()
sampler = DistributedSampler(dataset, num_replicas=2, rank=0, shuffle=True, seed=3)
loader = DataLoader(dataset, batch_size=5, sampler=sampler, num_workers=2, pin_memory=True, drop_last=False)
model = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 5))
average = torch.optim.swa_utils.AveragedModel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1, nesterov=True, momentum=0.9)
for epoch in range(2):
    loader.sampler.set_epoch(epoch)
    for index, x in loader:
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        print(epoch, index.tolist(), loss.item().hex(), nn.functional.mse_loss(average(x), x).item().hex())
