#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far training pixels are from Pillow's: random crops and whole pictures resized to 224, over every
photo of a folder, by default (color after sampling) and with image(exact=true).

    python bench/jpeg_quality.py FOLDER [--crops N] [--json FILE]

The bars: by default a mean difference of at most 0.5 of 255 on every photo and p99.9 of at most 2 on the
median photo; exact within 1 of 255 of crop().resize() everywhere.  Exit code 1 where one is missed.
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


def loader(folder: str, head: str, op: str) -> stoker.Loader:
    return stoker.Loader(folder, {"image": f"from(image) | {head} | {op} | to(u8, layout=hwc)"}, batch_size=16, seed=1)


def rows(made: stoker.Loader) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(row) for batch in made for row in batch["image"]]


def compare(folder: str, op: str, epochs: int, photos: list[Image.Image]) -> list[list[tuple[Any, ...]]]:
    """By photo: of each crop, |default - Pillow|, |exact - Pillow| and |default - exact|, all bytes."""
    found: list[list[tuple[Any, ...]]] = [[] for _ in photos]
    with loader(folder, "image", op) as fast, loader(folder, "image(exact=true)", op) as exact:
        for epoch in range(epochs):
            for i, (f, e) in enumerate(zip(rows(fast), rows(exact), strict=True)):
                x, y, w, h = exact.explain(i, epoch).outputs["image"][-1].clip
                p = photos[i].crop((x, y, x + w, y + h)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
                a, b, c = (v.astype(np.int16) for v in (f, e, np.asarray(p)))
                found[i].append(tuple(np.abs(d).astype(np.uint8).ravel() for d in (a - c, b - c, a - b)))
    return found


def figures(crops: list[tuple[Any, ...]]) -> dict[str, float]:
    """Of one photo, over all its crops."""
    out = {}
    for name, all_of in zip(("default", "exact", "apart"), zip(*crops, strict=True), strict=True):
        d = np.concatenate(all_of)
        out.update({f"{name}_mean": float(d.mean()), f"{name}_p999": float(np.percentile(d, 99.9)),
                    f"{name}_max": int(d.max()), f"{name}_over_1": int((d > 1).sum()), "values": d.size})
    return out


def summary(photos: list[dict[str, float]]) -> dict[str, float]:
    def of(name: str, fn: Any) -> float:
        return float(fn([p[name] for p in photos]))

    return {"photos": len(photos), "values": of("values", sum), "exact_over_1": of("exact_over_1", sum),
            **{f"{n}_{k}": v for n in ("default", "exact", "apart") for k, v in (
                ("mean_worst_photo", of(f"{n}_mean", max)), ("mean_median_photo", of(f"{n}_mean", np.median)),
                ("p999_median_photo", of(f"{n}_p999", np.median)), ("p999_worst_photo", of(f"{n}_p999", max)),
                ("max", of(f"{n}_max", max)))}}


def show(title: str, s: dict[str, float]) -> bool:
    print(f"{title}: {s['photos']:.0f} photos; differences of 255")
    for name, words in (("default", "default and Pillow"), ("exact", "exact and Pillow"), ("apart", "default and exact")):
        print(f"  {words:20} mean {s[name + '_mean_median_photo']:.3f} on the median photo, "
              f"{s[name + '_mean_worst_photo']:.3f} on the worst; p99.9 {s[name + '_p999_median_photo']:.0f} on the median, "
              f"{s[name + '_p999_worst_photo']:.0f} on the worst; at most {s[name + '_max']:.0f}")
    bars = {"mean at most 0.5 on every photo": s["default_mean_worst_photo"] <= 0.5,
            "p99.9 at most 2 on the median photo": s["default_p999_median_photo"] <= 2,
            "exact within 1": s["exact_max"] <= 1}
    for bar, held in bars.items():
        print(f"  bar: {bar}: {'held' if held else 'MISSED'}", end="")
        print(f" ({s['exact_over_1']:.0f} of {s['values']:,.0f} values beyond)" if bar == "exact within 1" else "")
    return all(bars.values())


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
