# SPDX-License-Identifier: Apache-2.0
"""Train a small network from shards: python train.py 'train-{000..099}.tar' [classes]"""
import sys

import stoker
import torch

classes = int(sys.argv[2]) if len(sys.argv) > 2 else 10
loader = stoker.Loader(sys.argv[1], batch_size=32, shuffle=True, fields={
    "image": "image | random_resized_crop(32) | hflip | normalize(imagenet)",
    "label": "from(cls) | int"})
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, classes))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(3):
    for batch in loader:
        loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
