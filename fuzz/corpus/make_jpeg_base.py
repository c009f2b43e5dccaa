#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_jpeg_base into jpeg_base/ beside this script (needs NumPy and Pillow)."""

import io
import pathlib

import numpy as np
from PIL import Image

OUT = pathlib.Path(__file__).parent / "jpeg_base"


def encode(mode, w, h, quality=50, **options):
    y, x = np.mgrid[0:h, 0:w]
    pixels = np.stack([(x * 9 + y * 5 + c * 70 + (x * y) % 23) % 256 for c in range(3)], -1).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode).save(out, "JPEG", quality=quality, **options)
    return out.getvalue()


def with_factors(data, luma, chroma=0x11):
    """Other sampling factors for the same scan: it ends early or late."""
    at = data.find(b"\xff\xc0")
    return data[: at + 11] + bytes([luma]) + data[at + 12 : at + 14] + bytes([chroma]) + data[at + 15 :]


def main():
    OUT.mkdir(exist_ok=True)
    rgb = encode("RGB", 20, 17)
    scan = rgb.index(b"\xff\xda") + 14
    seeds = {
        "gray": encode("L", 20, 17),
        "gray_wide": encode("L", 150, 9),
        "rgb444": encode("RGB", 37, 17, subsampling="4:4:4"),
        "rgb422": encode("RGB", 37, 17, subsampling="4:2:2"),
        "rgb420": rgb,
        "fine": encode("RGB", 24, 16, quality=98, subsampling="4:4:4"),
        "coarse": encode("RGB", 40, 40, quality=1),
        "optimized": encode("RGB", 40, 20, optimize=True),
        "restart1": encode("RGB", 40, 20, restart_marker_blocks=1),
        "restart3": encode("RGB", 80, 20, restart_marker_blocks=3, subsampling="4:4:4"),
        "factors_1x2": with_factors(rgb, 0x12),
        "factors_4x1": with_factors(rgb, 0x41),
        "factors_mixed": with_factors(rgb, 0x22, 0x21),
        "one_pixel": encode("RGB", 1, 1),
        "progressive": encode("RGB", 20, 17, progressive=True),
        "rgb_kept": encode("RGB", 20, 17, keep_rgb=True),
        "cut_scan": rgb[: scan + 10],
        "early_end": rgb[: scan + 10] + b"\xff\xd9",
        "no_end": rgb[:-2],
        "zeros_in_scan": rgb[:scan] + b"\0" * 40 + rgb[scan + 40 :],
        "ones_in_scan": rgb[:scan] + b"\xff\0" * 20 + rgb[scan + 40 :],
        "empty": b"",
    }
    for name, data in seeds.items():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
