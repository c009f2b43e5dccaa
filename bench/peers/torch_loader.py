# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader with Pillow and the same transforms, to be measured against.

    torch_loader.py files|tar WORKERS BATCH FILE...

Reads one line "go" at a time from stdin, loads one epoch, prints {"samples", "seconds"}; the first is a
warm-up that starts the workers.  Written as one would for speed: no copy before the crop, one thread a
worker, persistent workers, normalisation in place; `tar` reads by offset instead of opening files.
"""

import io
import json
import math
import os
import random
import sys
import tarfile
import time

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

SIZE, LEAST = 224, 500
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
SCALE, SHIFT = 1 / (255 * STD), -MEAN / STD


def crop_box(width, height, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
    """torchvision's RandomResizedCrop: ten tries, then the center."""
    for _ in range(10):
        area = width * height * random.uniform(*scale)
        aspect = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            x, y = random.randint(0, width - w), random.randint(0, height - h)
            return x, y, x + w, y + h
    w, h = min(width, round(height * ratio[1])), min(height, round(width / ratio[0]))
    x, y = (width - w) // 2, (height - h) // 2
    return x, y, x + w, y + h


class Photos(Dataset):
    def __init__(self, places):
        self.places = places            # (path, offset, size); size None: the whole file
        self.opened = {}

    def __len__(self):
        return len(self.places)

    def read(self, path, offset, size):
        if size is None:
            return path
        if path not in self.opened:
            self.opened[path] = os.open(path, os.O_RDONLY)
        return io.BytesIO(os.pread(self.opened[path], size, offset))

    def __getitem__(self, i):
        with Image.open(self.read(*self.places[i])) as file:
            image = file.convert("RGB")
        image = image.crop(crop_box(*image.size)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)
        pixels = pixels.to(torch.float32, memory_format=torch.contiguous_format)
        return pixels.mul_(SCALE).add_(SHIFT), i


def tar_places(paths):
    for path in paths:
        with tarfile.open(path) as tar:
            for member in tar:
                if member.name.endswith(".jpg"):
                    yield path, member.offset_data, member.size


def epoch(loader):
    start, samples = time.perf_counter(), 0
    for images, labels in loader:
        samples += len(labels)
    return {"samples": samples, "seconds": time.perf_counter() - start}


def main():
    mode, workers, batch, paths = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    places = list(tar_places(paths)) if mode == "tar" else [(p, 0, None) for p in paths]
    places *= -(-LEAST // len(places))
    if not workers:
        torch.set_num_threads(1)
    more = {"persistent_workers": True, "prefetch_factor": 4} if workers else {}
    loader = DataLoader(Photos(places[:LEAST]), batch_size=batch, shuffle=True, num_workers=workers, **more)
    for line in sys.stdin:
        if line.strip() == "go":
            print(json.dumps(epoch(loader)), flush=True)


if __name__ == "__main__":
    main()
