#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training task that would notice wrong pixels: name which of the photos a random crop shows.

    python bench/jpeg_training.py FOLDER [--photos 250] [--seeds 5] [--json FILE]

A small convolutional net (torch, CPU) learns from random crops with color after sampling (the default) and,
from the same crops, with image(exact=true).  Both are asked for crops that none has seen, made by
image(exact=true).  The bar: top-1 of the two within 2 standard errors of their difference over the seeds, which are
paired: same crops, same weights at the start.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import numpy as np
import stoker
import torch
from torch import nn

SIZE = 64
UNSEEN = 1000           # an epoch that training does not reach


def crops(folder: str, head: str, photos: int, seed: int, repeat: int) -> stoker.Loader:
    chain = f"from(image) | {head} | random_resized_crop({SIZE}, scale=(0.2, 1)) | hflip | normalize(imagenet) | to(f32)"
    return stoker.Loader(folder, {"image": chain}, batch_size=50, shuffle=True, seed=seed, limit=photos, repeat=repeat)


def net(photos: int) -> nn.Module:
    def block(i: int, o: int) -> list[nn.Module]:
        return [nn.Conv2d(i, o, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU()]

    return nn.Sequential(*block(3, 24), *block(24, 48), *block(48, 96), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
                         nn.Linear(96 * 16, photos))


def top1(model: nn.Module, loader: stoker.Loader) -> float:
    model.eval()
    loader.set_epoch(UNSEEN)
    with torch.no_grad():
        right = [(model(b["image"]).argmax(1).cpu() == torch.as_tensor(b.sample_ids)).float().mean().item() for b in loader]
    return float(np.mean(right))


def train(folder: str, head: str, seed: int, given: argparse.Namespace) -> float:
    torch.manual_seed(seed)
    model = net(given.photos)
    with crops(folder, head, given.photos, seed, 8) as loader:
        steps = len(loader) * given.epochs
        opt = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.01)
        plan = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, steps)
        for _ in range(given.epochs):
            model.train()
            for b in loader:
                opt.zero_grad()
                nn.functional.cross_entropy(model(b["image"]), torch.as_tensor(b.sample_ids).long()).backward()
                opt.step()
                plan.step()
    with crops(folder, "image(exact=true)", given.photos, 99, 4) as unseen:
        return top1(model, unseen)


def main() -> int:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("folder")
    args.add_argument("--photos", type=int, default=250)
    args.add_argument("--seeds", type=int, default=5)
    args.add_argument("--epochs", type=int, default=3, help="of 8 crops a photo (default: 3)")
    args.add_argument("--json", help="also write the figures to this file")
    given = args.parse_args()
    torch.set_num_threads(1)                # the loader has the other core
    start = time.monotonic()
    got = {"default": [], "exact": []}
    for seed in range(given.seeds):
        for name, head in (("default", "image"), ("exact", "image(exact=true)")):
            got[name].append(train(given.folder, head, seed, given))
        print(f"seed {seed}: top-1 {got['default'][-1]:.4f} by default, {got['exact'][-1]:.4f} exact", flush=True)
    apart = np.subtract(got["default"], got["exact"])
    error = float(apart.std(ddof=1) / np.sqrt(given.seeds))
    alone = {n: float(np.std(v, ddof=1) / np.sqrt(given.seeds)) for n, v in got.items()}
    held = abs(apart.mean()) <= 2 * error
    print(f"{given.photos} photos, {given.epochs * 8 * given.photos:,} crops of {SIZE}x{SIZE}, {given.seeds} seeds each way, "
          f"{time.monotonic() - start:.0f} s")
    print(f"top-1 by default {np.mean(got['default']):.4f} (standard error {alone['default']:.4f}), "
          f"exact {np.mean(got['exact']):.4f} ({alone['exact']:.4f})")
    print(f"difference {apart.mean():+.4f}, standard error {error:.4f}: {'within' if held else 'BEYOND'} 2 of them")
    if given.json:
        with open(given.json, "w", encoding="utf-8") as f:
            json.dump({"top1": got, "difference": float(apart.mean()), "standard_error": error, "held": bool(held)}, f, indent=1)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
