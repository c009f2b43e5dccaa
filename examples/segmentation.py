# SPDX-License-Identifier: Apache-2.0
"""Semantic segmentation: pictures and masks that are cropped and mirrored alike: python segmentation.py FOLDER_OR_SHARDS

Samples have a picture (jpg) and a mask (png) whose pixels are class numbers: 1.jpg beside 1.png.
"""
import sys

import stoker
import torch

CLASSES = 3
loader = stoker.Loader(sys.argv[1], batch_size=8, shuffle=True, seed=1, fields={
    "image": "from(jpg) | image | random_resized_crop(64, scale=(0.5, 1)) | hflip | color_jitter(0.3, 0.3) | normalize(imagenet) | to(f32)",
    "mask": "from(png) | image(mode=index) | like(image, interpolation=nearest) | to(i64)"})
model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, CLASSES, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for epoch in range(3):
    for images, masks in loader.as_tuples("image", "mask"):     # (8, 3, 64, 64) and (8, 64, 64)
        loss = torch.nn.functional.cross_entropy(model(images), masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}, classes {masks.unique().tolist()}")
