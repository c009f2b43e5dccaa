#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_webp into webp/ beside this script (needs NumPy and Pillow)."""

import io
import pathlib

import numpy as np
from PIL import Image

OUT = pathlib.Path(__file__).parent / "webp"


def encode(mode, w, h, **options):
    y, x = np.mgrid[0:h, 0:w]
    pixels = np.stack([(x * 9 + y * 5 + c * 70 + (x * y) % 23) % 256 for c in range(len(mode))], -1).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels, mode).save(out, "WEBP", **options)
    return out.getvalue()


def main():
    OUT.mkdir(exist_ok=True)
    lossy, lossless = encode("RGB", 40, 35, quality=50), encode("RGB", 20, 17, lossless=True)
    moving = io.BytesIO()
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    frames[0].save(moving, "WEBP", save_all=True, append_images=frames[1:])
    seeds = {
        "lossy": lossy,
        "lossy_alpha": encode("RGBA", 20, 17, quality=50),
        "lossless": lossless,
        "lossless_alpha": encode("RGBA", 20, 17, lossless=True, exact=True),
        "one_pixel": encode("RGB", 1, 1, quality=50),
        "exif": encode("RGB", 9, 9, quality=50, exif=b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0"),
        "moving": moving.getvalue(),
        "cut": lossy[: len(lossy) // 2],
        "cut_lossless": lossless[: len(lossless) // 2],
        "zeros": lossy[:60] + bytes(40) + lossy[100:],
        "huge": lossy[:26] + b"\xff\x3f\xff\x3f" + lossy[30:],
        "empty": b"",
    }
    for name, data in seeds.items():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
