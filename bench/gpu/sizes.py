#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures of any size beside pictures of one size, decoded by the GPU: pixels a second, by turns, the best of each.

    bench/gpu/sizes.py --shards DIR [--rounds 3] [--seconds 3] [--name first]

f16, normalized, short side 256: as they are (a list), or as (256, 384).  Sizes of a batch cost no one a fixed shape if the second
number is at least 0.9 of the first.  The first batch of both is compared with the CPU's beforehand.
"""

import time

import measure
import stoker
import torch

END = "normalize(imagenet) | to(f16)"
SIDES = {"one size": ("from(jpg) | image | resize((256, 384)) | " + END, "stack"),
         "any size": ("from(jpg) | image | resize(256) | " + END, "list"),
         "any size, cache=device": ("from(jpg) | image | resize(256) | " + END, "list")}


def loader(args, side, device):
    chain, collate = SIDES[side]
    options = {"cache": "device"} if "cache" in side and device == "cuda" else {}
    return stoker.Loader(f"{args.shards}/seek/*.tar", {"x": chain}, batch_size=args.batch, shuffle=True, seed=1, collate=collate,
                         device=device, drop_last=True, **options)


def rows(batch):
    return list(batch["x"])


def check(args, results, device):
    for side in SIDES:
        with loader(args, side, "cpu") as cpu, loader(args, side, device) as gpu:
            pairs = list(zip(rows(next(iter(cpu))), rows(next(iter(gpu))), strict=True))
        same = sum(torch.equal(a, b.cpu()) for a, b in pairs)
        results.say(f"  {side}: {same} of {len(pairs)} pictures of the first batch equal the CPU's")


def run(args, side, device):
    """(pixels a second, pictures a second), of whole batches after a warm-up; with a cache, of the second epoch on."""
    pixels = pictures = 0
    with loader(args, side, device) as feed:
        start, warm, epochs = None, time.perf_counter(), 0
        while True:
            for batch in feed:
                if start is None:
                    if time.perf_counter() - warm > 1 and (epochs or "cache" not in side):
                        measure.sync(device)
                        start = time.perf_counter()
                    continue
                made = rows(batch)
                pictures += len(made)
                pixels += sum(x.shape[1] * x.shape[2] for x in made)
                if time.perf_counter() - start > args.seconds:
                    measure.sync(device)
                    took = time.perf_counter() - start
                    return pixels / took, pictures / took, (feed.stats().get("gpu") or {}).get("jpegs", 0)
            epochs += 1


def main():
    args = measure.arguments(__doc__, shards={"required": True}, rounds={"type": int, "default": 3},
                             seconds={"type": float, "default": 3.0}, batch={"type": int, "default": 256})
    device = measure.device(args)
    results = measure.Results("sizes", args)
    check(args, results, device)
    best = {}
    for _ in range(args.rounds):
        for side in SIDES:
            best.setdefault(side, []).append(run(args, side, device))
    for side, found in best.items():
        pixels, pictures, jpegs = max(found)
        results.add(f"{side:<24}{pixels / 1e9:8.2f} Gpixel/s {pictures:12,.0f} pictures/s   {jpegs:,} JPEGs decoded by the GPU   "
                    f"{pixels / max(best['one size'])[0]:.2f} of one size", name=side, pixels_per_s=round(pixels),
                    pictures_per_s=round(pictures), rounds=[round(p) for p, *_ in found])


if __name__ == "__main__":
    main()
