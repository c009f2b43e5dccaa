#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far training pixels are from Pillow's: random crops and whole pictures resized to 224, over every
photo of a folder.

    python bench/jpeg_quality.py FOLDER [--crops N] [--json FILE]

The bar: within 1 of 255 of crop().resize() everywhere.  Exit code 1 where it is missed.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from typing import Any

import numpy as np
import PIL
import stoker
from PIL import Image

SIZE = 224
CROP, WHOLE = f"random_resized_crop({SIZE})", f"resize(({SIZE}, {SIZE}))"


def loader(folder: str, op: str) -> stoker.Loader:
    return stoker.Loader(folder, {"image": f"from(image) | image | {op} | to(u8, layout=hwc)"}, batch_size=16, seed=1)


def rows(made: stoker.Loader) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(row) for batch in made for row in batch["image"]]


def compare(folder: str, op: str, epochs: int, photos: list[Image.Image]) -> list[list[Any]]:
    """By photo: of each crop, |ours - Pillow|, all bytes."""
    found: list[list[Any]] = [[] for _ in photos]
    with loader(folder, op) as ours:
        for epoch in range(epochs):
            for i, row in enumerate(rows(ours)):
                x, y, w, h = ours.explain(i, epoch).outputs["image"][-1].clip
                p = photos[i].crop((x, y, x + w, y + h)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
                found[i].append(np.abs(row.astype(np.int16) - np.asarray(p)).astype(np.uint8).ravel())
    return found


def figures(crops: list[Any]) -> dict[str, float]:
    """Of one photo, over all its crops."""
    d = np.concatenate(crops)
    return {"mean": float(d.mean()), "p999": float(np.percentile(d, 99.9)), "max": int(d.max()),
            "over_1": int((d > 1).sum()), "values": d.size}


def summary(photos: list[dict[str, float]]) -> dict[str, float]:
    def of(name: str, fn: Any) -> float:
        return float(fn([p[name] for p in photos]))

    return {"photos": len(photos), "values": of("values", sum), "over_1": of("over_1", sum),
            "mean_worst_photo": of("mean", max), "mean_median_photo": of("mean", np.median),
            "p999_median_photo": of("p999", np.median), "p999_worst_photo": of("p999", max), "max": of("max", max)}


def show(title: str, s: dict[str, float]) -> bool:
    print(f"{title}: {s['photos']:.0f} photos; differences from Pillow of 255")
    print(f"  mean {s['mean_median_photo']:.3f} on the median photo, {s['mean_worst_photo']:.3f} on the worst; p99.9 "
          f"{s['p999_median_photo']:.0f} on the median, {s['p999_worst_photo']:.0f} on the worst; at most {s['max']:.0f}")
    print(f"  bar: within 1: {'held' if s['max'] <= 1 else 'MISSED'} ({s['over_1']:.0f} of {s['values']:,.0f} values beyond)")
    return s["max"] <= 1


def main() -> int:
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("folder")
    args.add_argument("--crops", type=int, default=8, help="random crops of every photo (default: 8)")
    args.add_argument("--json", help="also write the figures, photo by photo, to this file")
    given = args.parse_args()
    data = stoker.open(given.folder)
    photos = [Image.open(io.BytesIO(data[i]["image"])).convert("RGB") for i in range(len(data))]
    print(f"stoker {stoker.__version__}, Pillow {PIL.__version__}, {given.crops} random crops a photo")
    good, told = True, {}
    for title, op, epochs in ((f"random_resized_crop({SIZE})", CROP, given.crops), (f"resize to {SIZE}x{SIZE}", WHOLE, 1)):
        found = [figures(c) for c in compare(given.folder, op, epochs, photos)]
        told[title] = {"summary": summary(found), "photos": found}
        good &= show(title, summary(found))
    if given.json:
        with open(given.json, "w", encoding="utf-8") as f:
            json.dump(told, f, indent=1)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
