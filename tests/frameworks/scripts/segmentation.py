# SPDX-License-Identifier: Apache-2.0
"""Picture and mask, cut and flipped together with draws of `random` and NumPy that no worker_init_fn seeds, in workers that start again each epoch."""
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader


class Scenes(torch.utils.data.Dataset):
    def __init__(self):
        draw = np.random.default_rng(5)
        self.images = draw.integers(0, 256, (15, 20, 20, 3), np.uint8)
        self.masks = draw.integers(0, 4, (15, 20, 20), np.uint8)
        self.masks[:, :2] = 255

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        top, left = random.randint(0, 4), random.randint(0, 4)
        image, mask = self.images[i, top:top + 16, left:left + 16], self.masks[i, top:top + 16, left:left + 16]
        if random.random() < 0.5:
            image, mask = image[:, ::-1], mask[:, ::-1]
        image = np.ascontiguousarray(image.transpose(2, 0, 1), np.float32) / 255 * np.float32(np.random.uniform(0.8, 1.2))
        return {"image": image, "mask": mask.astype(np.int64), "size": (16, 16), "name": f"scene{i:03d}"}


def dice(logits, mask):
    keep = mask != 255
    chance, one = logits.softmax(1)[:, 1] * keep, (mask == 1) * keep
    return 1 - (2 * (chance * one).sum() + 1) / (chance.sum() + one.sum() + 1)


torch.manual_seed(11)
random.seed(11)
loader = DataLoader(Scenes(), batch_size=5, shuffle=True, num_workers=2, prefetch_factor=4, pin_memory=torch.cuda.is_available())
model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
criterion = nn.CrossEntropyLoss(ignore_index=255)
for epoch in range(2):
    for batch in loader:
        logits = model(batch["image"])
        loss = criterion(logits, batch["mask"]) + dice(logits, batch["mask"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, batch["name"][0], batch["size"][0].tolist(), loss.item().hex())
