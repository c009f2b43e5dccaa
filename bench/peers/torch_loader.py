# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader with Pillow and the same transforms, to be measured against.

    torch_loader.py files|tar WORKERS BATCH FILE...

Reads one line "go" at a time from stdin, loads one epoch, prints {"samples", "seconds"}; the first is a
warm-up that starts the workers.  Written as one would for speed: one thread a worker, persistent workers,
transforms as in pillow_sample.py; `tar` reads by offset instead of opening files.
"""

import json
import os
import sys
import tarfile
import time

import torch
from pillow_sample import as_torch
from torch.utils.data import DataLoader, Dataset

LEAST = 500


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
        return os.pread(self.opened[path], size, offset)

    def __getitem__(self, i):
        return as_torch(self.read(*self.places[i])), i


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
