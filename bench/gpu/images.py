#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finished crops in GPU memory: Stoker's ladder and the peers, by turns, the best of each.

    bench/gpu/images.py --shards DIR [--rounds 3] [--seconds 3] [--name first] [--only REGEX]

f16, RandomResizedCrop(224), flip, normalized; batch 256, from shards that bench/gpu/shards.py made and that lie in the
page cache.  The first batch of every Stoker feed on the GPU is compared with the CPU's beforehand.
"""

import re
import time

import feeds
import measure
import numpy as np
import stoker
import torch


def sides(s):
    """name -> (open, seconds to warm up, batches to warm up, target in images a second)."""
    def ours(how, **options):
        return lambda: feeds.Stoker(s, how, **options)

    offsets = s.shards / "offsets.npy"
    epoch = len(np.load(offsets, mmap_mode="r")) // s.batch if offsets.exists() else 0

    found = {
        "Stoker, GPU decode, seek points": (ours("gpu"), 1.0, 8, 150_000),
        "Stoker, GPU decode, cache=device": (ours("gpu", cache="device"), 1.0, epoch + 8, None),
        "Stoker, GPU decode, no seek points": (ours("gpu", shards="plain"), 1.0, 8, 50_000),
        "Stoker, GPU decode, in flight 1": (ours("gpu", in_flight=1), 1.0, 8, None),
        "Stoker, GPU decode, in flight 2": (ours("gpu", in_flight=2), 1.0, 8, None),
        "Stoker, GPU decode, in flight 3": (ours("gpu", in_flight=3), 1.0, 8, None),
        "Stoker, CPU decode, device=cuda": (ours("cpu"), 1.0, 8, None),
        "Stoker, CPU decode, pageable, .to()": (ours("pageable"), 1.0, 8, None),
        "Stoker, CPU decode, pinned, .to()": (ours("pinned"), 1.0, 8, None),
        "Stoker, CPU decode, to_device depth 1": (ours("to_device", depth=1), 1.0, 8, None),
        "Stoker, CPU decode, to_device depth 2": (ours("to_device", depth=2), 1.0, 8, None),
        "Stoker, CPU decode, to_device depth 3": (ours("to_device", depth=3), 1.0, 8, None),
        "torchvision nvJPEG + crop-resize on the GPU": (lambda: feeds.NvJpeg(s), 1.0, 4, None),
        "PyTorch DataLoader + Pillow": (lambda: feeds.DataLoader(s), 0.0, s.workers, None),
        "nvJPEG HARDWARE, decode alone": (lambda: feeds.Hardware(s), 0.5, 2, None),
    }
    return found


def check(s, results):
    """The same pixels by every way, before anything is timed."""
    def first(how, **options):
        feed = feeds.Stoker(s, how, **options)
        images, labels = next(iter(feed))
        images, labels = images.cpu(), labels.cpu()
        feed.close()
        return images, labels

    want = first("pageable")
    for how, more in (("gpu", {}), ("gpu", {"shards": "plain"}), ("gpu", {"cache": "device"}), ("cpu", {}), ("pinned", {}), ("to_device", {})):
        try:
            got = first(how, **more)
        except (stoker.StokerError, TypeError) as e:
            results.say(f"  {how} {more or ''}: {e}")
            continue
        same = all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
        results.say(f"  {how} {more or ''}: first batch {'equals the CPU path' if same else 'DIFFERS from the CPU path'}")


def run(name, side, args, s):
    make, warm, batches, _ = side
    start = time.perf_counter()
    feed = make()
    try:
        opened = time.perf_counter() - start
        speed, first = measure.clock(feed, args.seconds, min(warm, args.seconds), batches, s.where)
    finally:
        measure.close(feed)
    return speed, opened + first


def main():
    args = measure.arguments(__doc__, shards={"required": True}, rounds={"type": int, "default": 3},
                             seconds={"type": float, "default": 3.0}, batch={"type": int, "default": 256},
                             workers={"type": int}, size={"type": int, "default": 224}, only={"help": "feeds whose name fits"})
    s = feeds.Setting(args.shards, measure.device(args), args.batch, args.workers)
    s.size = args.size
    results = measure.Results("images", args)
    chosen = {n: side for n, side in sides(s).items() if not args.only or re.search(args.only, n)}
    check(s, results)
    best, absent = {}, {}
    for number in range(args.rounds):
        for name, side in chosen.items():
            if name in absent:
                continue
            try:
                speed, first = run(name, side, args, s)
            except Exception as e:              # one that cannot run must not end the others' turn
                absent[name] = f"{type(e).__name__}: {e}"
                results.say(f"  round {number + 1}  {name:<46} {absent[name][:150]}")
                continue
            best.setdefault(name, []).append((speed, first))
            results.say(f"  round {number + 1}  {name:<46}{speed:>12,.0f} img/s   first batch {first:6.3f} s")
    results.say()
    for name, side in chosen.items():
        if name in best:
            speed, first = max(v for v, _ in best[name]), min(f for _, f in best[name])
            results.add(f"{name:<46}{speed:>12,.0f} img/s   first batch {first:6.3f} s{measure.bar(speed, side[3])}",
                        name=name, images_per_s=round(speed), first_batch_s=round(first, 4), target=side[3],
                        rounds=[round(v) for v, _ in best[name]])
        else:
            results.add(f"{name:<46}      absent   {absent[name][:120]}", name=name, absent=absent[name])


if __name__ == "__main__":
    main()
