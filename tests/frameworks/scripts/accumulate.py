# SPDX-License-Identifier: Apache-2.0
"""Gradients of several small batches, of which the last incomplete one is left out; batches are kept until the step is done."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset


class Regression(Dataset):
    def __init__(self):
        self.x = torch.randn(43, 7)
        self.y = self.x.sin().sum(1)

    def __len__(self):
        return len(self.x)

    def __getitems__(self, indices):
        noise = torch.randn(len(indices)) * 0.01
        return [(self.x[i], self.y[i] + n) for i, n in zip(indices, noise)]  # noqa: B905


torch.manual_seed(17)
accumulation_steps = 3
loader = DataLoader(Regression(), batch_size=4, shuffle=True, drop_last=True, num_workers=2)
model = nn.Sequential(nn.Linear(7, 16), nn.SiLU(), nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=len(loader))
held = []
for i, (x, y) in enumerate(loader):
    held.append((x, y))
    loss = nn.functional.huber_loss(model(x).squeeze(1), y) / accumulation_steps
    loss.backward()
    if (i + 1) % accumulation_steps == 0 or i + 1 == len(loader):
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        with torch.no_grad():
            after = sum(nn.functional.mse_loss(model(a).squeeze(1), b) for a, b in held)
        print(i, loss.item().hex(), after.item().hex())
        held.clear()
