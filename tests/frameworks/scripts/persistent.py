# SPDX-License-Identifier: Apache-2.0
"""Workers that live through all epochs and cache what they have read; an epoch is left early by a break."""
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset


class Cached(Dataset):
    def __init__(self):
        self.cache = {}

    def __len__(self):
        return 20

    def __getitem__(self, i):
        seen = i in self.cache
        if not seen:
            self.cache[i] = torch.randn(6) + i / 10
        return {"x": self.cache[i], "noise": torch.rand(6), "meta": {"index": i, "cached": seen}}


torch.manual_seed(13)
loader = DataLoader(Cached(), batch_size=5, shuffle=True, num_workers=2, persistent_workers=True)
model = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 6))
optimizer = torch.optim.SGD(model.parameters(), 0.05)
for epoch in range(4):
    for step, batch in enumerate(loader):
        loss = nn.functional.mse_loss(model(batch["x"] + 0.1 * batch["noise"]), batch["x"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, step, batch["meta"]["index"].tolist(), batch["meta"]["cached"].tolist(), loss.item().hex())
        if epoch == 1 and step == 1:
            break
