# SPDX-License-Identifier: Apache-2.0
"""random_split with a generator into training, validation and test; the best model by validation is tested."""
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset, random_split


class Spirals(Dataset):
    def __len__(self):
        return 60

    def __getitem__(self, i):
        angle = torch.tensor(i / 10.0)
        return torch.stack([angle.cos(), angle.sin()]) * angle + 0.05 * torch.randn(2), i % 2


def run(model, loader, optimizer=None):
    losses = []
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
        print(loss.item().hex())
    return sum(losses) / len(losses)


torch.manual_seed(31)
train_set, val_set, test_set = random_split(Spirals(), [0.7, 0.2, 0.1], generator=torch.Generator().manual_seed(42))
train_loader = DataLoader(train_set, batch_size=14, shuffle=True, num_workers=1)
val_loader = DataLoader(val_set, batch_size=6, num_workers=0)
test_loader = DataLoader(test_set, batch_size=len(test_set))
model = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
best, kept = float("inf"), None
for _ in range(2):
    run(model, train_loader, optimizer)
    with torch.no_grad():
        value = run(model, val_loader)
    if value < best:
        best, kept = value, copy.deepcopy(model.state_dict())
model.load_state_dict(kept)
x, y = next(iter(test_loader))
print("test", nn.functional.cross_entropy(model(x), y).item().hex())
