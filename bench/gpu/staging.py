#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Batches of a loader in ordinary memory to the GPU: to_device() with torch's copy into its slabs, as it is, and .to().

    PYTHONPATH=build/python bench/gpu/staging.py PHOTOS [ROUNDS]
"""

import sys
import time

import torch

import stoker
from stoker import _staging

FIELDS = {"image": "image | random_resized_crop(224) | hflip | normalize(imagenet) | to(f16)"}
AS_IT_IS = _staging.Gpu._lay
WARM, SECONDS, BATCH = 40, 4, 256


def by_torch(self, sent, tensor):
    """What to_device() did up to 0.2: torch's threads fill the slab."""
    move, _staging.ctypes.memmove = _staging.ctypes.memmove, lambda *a: None
    try:
        return AS_IT_IS(self, sent, tensor).copy_(tensor)
    finally:
        _staging.ctypes.memmove = move


def rate(photos, way):
    with stoker.Loader(photos, FIELDS, batch_size=BATCH, shuffle=True, repeat=400, pin_memory=way == "pinned, .to()") as loader:
        _staging.Gpu._lay = by_torch if way == "to_device, torch's copy" else AS_IT_IS
        moved = stoker.to_device(loader, "cuda") if way.startswith("to_device") else \
            (b["image"].to("cuda", non_blocking=True) for b in loader)
        for k, _ in enumerate(moved):
            if k == WARM:
                torch.cuda.synchronize()
                start = time.monotonic()
            if k > WARM and time.monotonic() - start > SECONDS:
                break
        torch.cuda.synchronize()
        return (k - WARM) * BATCH / (time.monotonic() - start)


best = {way: 0.0 for way in ("to_device, torch's copy", "to_device", "pinned, .to()", "pageable, .to()")}
for turn in range(int(sys.argv[2]) if len(sys.argv) > 2 else 3):
    for way in best:
        best[way] = max(best[way], rate(sys.argv[1], way))
for way, figure in best.items():
    print(f"{way:28}{figure:12,.0f} pictures/s")
