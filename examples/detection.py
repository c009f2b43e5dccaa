# SPDX-License-Identifier: Apache-2.0
"""Detection: boxes that follow their picture's crop and mirror: python detection.py SHARDS

Samples have a picture (jpg) and JSON: {"boxes": [[x0, y0, x1, y1], ...], "labels": [3, ...]}, in pixels of the picture.  Boxes that
leave the picture are dropped, and their labels with them.
"""
import sys

import stoker
import torch

loader = stoker.Loader(sys.argv[1], batch_size=4, shuffle=True, seed=1, collate={"boxes": "list", "labels": "list"}, fields={
    "image": "from(jpg) | image | scale_jitter(96, scale=(0.8, 1.5)) | random_crop(96, pad_if_needed=true) | hflip | to(f32)",
    "boxes": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(image)",
    "labels": "from(json) | json(labels) | ints | like(boxes)"})
seen = 0
for batch in loader:
    images = list(batch["image"])                               # as torchvision.models.detection takes them
    targets = [{"boxes": boxes, "labels": labels} for boxes, labels in zip(batch["boxes"], batch["labels"], strict=True)]
    for target in targets:
        assert len(target["boxes"]) == len(target["labels"]) and target["boxes"].dtype == torch.float32
        assert (target["boxes"] >= 0).all() and (target["boxes"] <= 96).all()
        seen += len(target["labels"])
print(f"{len(loader)} batches of {tuple(images[0].shape)}, {seen} boxes in the pictures")
