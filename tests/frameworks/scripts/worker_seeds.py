# SPDX-License-Identifier: Apache-2.0
"""The recipe of PyTorch's page on reproducibility: worker_init_fn seeds NumPy and random, and the loader has a generator."""
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset


def seed_worker(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    np.random.seed(worker_seed)
    random.seed(worker_seed)
    torch.utils.data.get_worker_info().dataset.rng = np.random.default_rng(worker_seed + worker_id)


class Noisy(Dataset):
    rng = None

    def __len__(self):
        return 18

    def __getitem__(self, i):
        x = np.random.normal(i, 1, 4) + self.rng.normal(size=4)
        return x.astype(np.float32), np.float32(random.gauss(i, 0.1)), int(self.rng.integers(2))


torch.manual_seed(0)
g = torch.Generator()
g.manual_seed(0)
loader = DataLoader(Noisy(), batch_size=6, shuffle=True, num_workers=2, worker_init_fn=seed_worker, generator=g)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-4)
for epoch in range(2):
    for x, y, flag in loader:
        loss = ((model(x).squeeze(1) - y) ** 2 * (1 + flag)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, y.dtype, loss.item().hex())
