# SPDX-License-Identifier: Apache-2.0
"""The recipe of timm: mixup or cutmix per batch, soft labels, label smoothing: python mixup.py photos"""
import sys

import stoker
import torch

data = stoker.open(sys.argv[1])
classes = len(data.classes)
loader = stoker.Loader(data, batch_size=16, shuffle=True, fields={
    "image": "image | random_resized_crop(32) | hflip | normalize(imagenet) | to(f32)",
    "label": f"from(cls) | int | one_hot({classes}, smoothing=0.1)"},
    batch_ops=["mixup_cutmix(image, label, mixup=0.8, cutmix=1.0, switch=0.5)"])
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, classes))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for images, labels in loader.as_tuples("image", "label"):
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loader}: loss {loss.item():.3f}, labels add up to {labels.sum(1).mean():.3f}")
