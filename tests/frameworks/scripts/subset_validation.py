# SPDX-License-Identifier: Apache-2.0
"""One data set, two SubsetRandomSamplers, and a validation in the middle of the epoch while the training loop is open."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset
from torch.utils.data.sampler import SubsetRandomSampler


class Table(Dataset):
    def __init__(self):
        self.rows = np.random.randn(50, 4)
        self.names = [f"row{i}" for i in range(50)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"name": self.names[i], "x": self.rows[i], "y": self.rows[i].sum() > 0, "weight": 1.0 + torch.rand(1).item()}


torch.manual_seed(23)
np.random.seed(23)
dataset = Table()
indices = list(range(len(dataset)))
np.random.shuffle(indices)
split = int(np.floor(0.2 * len(dataset)))
train_loader = DataLoader(dataset, batch_size=10, sampler=SubsetRandomSampler(indices[split:]), num_workers=2)
valid_loader = DataLoader(dataset, batch_size=5, sampler=SubsetRandomSampler(indices[:split]), num_workers=1)
model = nn.Linear(4, 1).double()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3)
for step, batch in enumerate(train_loader):
    def closure(batch=batch):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(batch["x"]).squeeze(1), batch["y"].double(), batch["weight"])
        loss.backward()
        return loss
    print(step, batch["name"][0], optimizer.step(closure).item().hex())
    if step % 2 == 1:
        with torch.no_grad():
            for held in valid_loader:
                print("valid", nn.functional.mse_loss(model(held["x"]).sigmoid().squeeze(1), held["y"].double()).item().hex())
