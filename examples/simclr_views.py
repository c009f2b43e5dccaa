# SPDX-License-Identifier: Apache-2.0
"""SimCLR: two views of every picture, decoded once and drawn apart: python simclr_views.py photos"""
import sys

import stoker
import torch

loader = stoker.Loader(sys.argv[1], batch_size=16, shuffle=True, drop_last=True, fields={
    "views": "from(image) | image | views(2) | random_resized_crop(32) | hflip"
             " | random_apply(color_jitter(0.8, 0.8, 0.8, 0.2), p=0.8) | grayscale(p=0.2) | gaussian_blur(5, p=0.5)"
             " | normalize(imagenet) | to(f32)"})
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in loader:
    views = batch["views"]                      # (n, 2, 3, 32, 32)
    first, second = (torch.nn.functional.normalize(model(views[:, i]), dim=1) for i in range(2))
    loss = torch.nn.functional.cross_entropy(first @ second.T / 0.1, torch.arange(len(first)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
assert (views[:, 0] != views[:, 1]).any()
print(f"{tuple(views.shape)}: loss {loss.item():.3f}")
