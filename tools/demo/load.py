# SPDX-License-Identifier: Apache-2.0
"""Loads epochs through stoker.Loader and tells what that took, stage by stage."""

import contextlib
import time

import stoker
from bar import Bar

with contextlib.suppress(ImportError):
    import torch    # noqa: F401  a training script has it already: its import is not the loader's time

FIELDS = {
    "image": "from(jpg) | image | random_resized_crop(224) | hflip | normalize(imagenet) | to(f32)",
    "label": "from(cls) | int",
}
EPOCHS, BATCH = 2, 32


def load(shards):
    start = time.perf_counter()
    with stoker.Loader(shards, fields=FIELDS, batch_size=BATCH, shuffle=True, seed=0) as loader:
        bar = Bar("loading", EPOCHS * len(loader))
        first, steps, samples = None, 0, 0
        for _ in range(EPOCHS):
            for batch in loader:
                first = first or time.perf_counter() - start
                steps += 1
                samples += len(batch["label"])
                bar.update(steps, f"{samples / (time.perf_counter() - start):.0f} samples/s")
        seconds = time.perf_counter() - start
        bar.close()
        report(loader.stats(), samples, seconds, first)


def report(stats, samples, seconds, first):
    megabytes = stats["bytes"] / 1e6
    print(f"   {samples} samples in {seconds:.2f} s: {samples / seconds:.0f} samples/s, "
          f"{megabytes / seconds:.0f} MB/s, first batch after {first * 1e3:.0f} ms")
    stages = stats["stages"]
    total = sum(stages.values()) or 1.0
    print(f"   {'stage':<10}{'seconds':>9}{'share':>8}{'us/sample':>11}   (summed over "
          f"{stats['workers']} workers)")
    for name, spent in stages.items():
        print(f"   {name:<10}{spent:>9.3f}{spent / total:>8.1%}{spent / samples * 1e6:>11.1f}")
