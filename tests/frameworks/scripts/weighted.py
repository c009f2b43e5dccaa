# SPDX-License-Identifier: Apache-2.0
"""Classes that are not equally frequent: WeightedRandomSampler over a TensorDataset with noise added in the loop."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import TensorDataset, WeightedRandomSampler

torch.manual_seed(4)
targets = torch.cat([torch.zeros(30), torch.ones(6), torch.full((4,), 2)]).long()
data = TensorDataset(torch.randn(40, 5) + targets[:, None], targets)
weights = 1.0 / torch.bincount(targets).float()
sampler = WeightedRandomSampler(weights[targets], num_samples=32, replacement=True)
loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=2)
model = nn.Sequential(nn.Linear(5, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 3))
optimizer = torch.optim.RMSprop(model.parameters(), 1e-2)
for x, y in loader:
    x += 0.01 * torch.randn_like(x)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(torch.bincount(y, minlength=3).tolist(), loss.item().hex())
