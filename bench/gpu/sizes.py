#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pictures of any size beside pictures of one size, decoded by the GPU: pixels a second, by turns, the best of each.

    bench/gpu/sizes.py --shards DIR [--rounds 3] [--seconds 3] [--name first] [--only patches]

sizes: f16, normalized, short side 256: as they are (a list), or as (256, 384).  patches: 576 patches of 16 at each picture's own
ratio, packed, beside (384, 384), which has as many pixels; whole, and random crops.  What differs by picture costs nothing if its
number is at least 0.9 of one size.  The first batch of each is compared with the CPU's beforehand.
"""

import time

import measure
import stoker
import torch

END = "normalize(imagenet) | to({})"
FIT, CUT = "resize_to_patches(16, max_patches=576)", "normalize(imagenet) | patches(16) | to({})"
CROP, CROP_FIT = "random_resized_crop(384, interpolation=bicubic)", "random_resized_crop_to_patches(16, max_patches=576)"

# Of each table what the others are compared with comes first: name -> (chain, collate).
TABLES = {
    "sizes": {"one size": (f"resize((256, 384)) | {END.format('f16')}", "stack"),
              "any size": (f"resize(256) | {END.format('f16')}", "list"),
              "any size, cache=device": (f"resize(256) | {END.format('f16')}", "list")},
    "patches": {"384 x 384, f16": (f"resize((384, 384), interpolation=bicubic) | {END.format('f16')}", "stack"),
                "576 patches, packed, f16": (f"{FIT} | {CUT.format('f16')}", "pack"),
                "576 patches, packed, bf16": (f"{FIT} | {CUT.format('bf16')}", "pack"),
                "576 patches, padded, f16": (f"{FIT} | {CUT.format('f16')}", "pad"),
                "576 patches, packed, cache=device": (f"{FIT} | {CUT.format('f16')}", "pack")},
    "crops": {"crops of 384, f16": (f"{CROP} | hflip | {END.format('f16')}", "stack"),
              "crops to 576 patches, packed, f16": (f"{CROP_FIT} | hflip | {CUT.format('f16')}", "pack"),
              "crops to 576 patches, packed, bf16": (f"{CROP_FIT} | hflip | {CUT.format('bf16')}", "pack")},
}


def loader(args, name, side, device):
    chain, collate = side
    options = {"cache": "device"} if "cache" in name and device == "cuda" else {}
    return stoker.Loader(f"{args.shards}/seek/*.tar", {"x": f"from(jpg) | image | {chain}"}, batch_size=args.batch, shuffle=True, seed=1,
                         collate=collate, device=device, drop_last=True, **options)


def parts(batch):
    """A list, or the one tensor that all pictures are in."""
    return batch["x"] if isinstance(batch["x"], list) else [batch["x"]]


def pixels_of(batch):
    """Without those that fill up a row."""
    if "x" in batch.grid:
        return int(batch.grid["x"].prod(1).sum()) * 256
    return sum(x.numel() for x in parts(batch)) // 3


def check(args, results, sides, device):
    for name, side in sides.items():
        with loader(args, name, side, "cpu") as cpu, loader(args, name, side, device) as gpu:
            pairs = list(zip(parts(next(iter(cpu))), parts(next(iter(gpu))), strict=True))
        same = sum(torch.equal(a, b.cpu()) for a, b in pairs)
        results.say(f"  {name}: {same} of {len(pairs)} tensors of the first batch equal the CPU's")


def run(args, name, side, device):
    """(pixels a second, pictures a second), of whole batches after a warm-up; with a cache, of the second epoch on."""
    pixels = pictures = 0
    with loader(args, name, side, device) as feed:
        start, warm, epochs = None, time.perf_counter(), 0
        while True:
            for batch in feed:
                if start is None:
                    if time.perf_counter() - warm > min(1, args.seconds) and (epochs or "cache" not in name):
                        measure.sync(device)
                        start = time.perf_counter()
                    continue
                pictures += len(batch.sample_ids)
                pixels += pixels_of(batch)
                if time.perf_counter() - start > args.seconds:
                    measure.sync(device)
                    took = time.perf_counter() - start
                    return pixels / took, pictures / took, (feed.stats().get("gpu") or {}).get("jpegs", 0)
            epochs += 1


def table(args, results, sides, device):
    check(args, results, sides, device)
    best, first = {}, next(iter(sides))
    for _ in range(args.rounds):
        for name, side in sides.items():
            best.setdefault(name, []).append(run(args, name, side, device))
    for name, found in best.items():
        pixels, pictures, jpegs = max(found)
        results.add(f"{name:<36}{pixels / 1e9:8.2f} Gpixel/s {pictures:12,.0f} pictures/s   {jpegs:,} JPEGs decoded by the GPU   "
                    f"{pixels / max(best[first])[0]:.2f} of {first}", name=name, pixels_per_s=round(pixels),
                    pictures_per_s=round(pictures), rounds=[round(p) for p, *_ in found])


def main():
    args = measure.arguments(__doc__, shards={"required": True}, rounds={"type": int, "default": 3},
                             seconds={"type": float, "default": 3.0}, batch={"type": int, "default": 256},
                             only={"choices": list(TABLES), "help": "one table"})
    device = measure.device(args)
    results = measure.Results("sizes", args)
    for name, sides in TABLES.items():
        if args.only in (None, name):
            table(args, results, sides, device)


if __name__ == "__main__":
    main()
