#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_jpeg into jpeg/ beside this script (needs NumPy and Pillow)."""

import io
import pathlib

import numpy as np
from PIL import Image

OUT = pathlib.Path(__file__).parent / "jpeg"


def encode(mode, w, h, **options):
    channels = {"L": 1, "RGB": 3, "CMYK": 4}[mode]
    y, x = np.mgrid[0:h, 0:w]
    pixels = np.stack([(x * 9 + y * 5 + c * 70 + (x * y) % 23) % 256 for c in range(channels)], -1).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode).save(out, "JPEG", quality=50, **options)
    return out.getvalue()


def with_size(data, w, h):
    at = max(data.find(b"\xff\xc0"), data.find(b"\xff\xc2"))
    return data[: at + 5] + h.to_bytes(2, "big") + w.to_bytes(2, "big") + data[at + 9 :]


def without_tables(data, marker):
    """Quantization (0xdb) or Huffman (0xc4) tables turned into comments."""
    return data.replace(bytes([0xFF, marker]), b"\xff\xfe")


def main():
    OUT.mkdir(exist_ok=True)
    rgb, progressive = encode("RGB", 20, 17), encode("RGB", 20, 17, progressive=True)
    cmyk = encode("CMYK", 12, 9)
    adobe = cmyk.index(b"Adobe") + 11
    scan = rgb.index(b"\xff\xda") + 14
    first_scan = progressive.index(b"\xff\xda")
    seeds = {
        "gray": encode("L", 20, 17),
        "gray_progressive": encode("L", 20, 17, progressive=True),
        "rgb444": encode("RGB", 20, 17, subsampling="4:4:4"),
        "rgb422": encode("RGB", 20, 17, subsampling="4:2:2"),
        "rgb420": rgb,
        "rgb_kept": encode("RGB", 20, 17, keep_rgb=True),
        "wide": encode("RGB", 150, 3),
        "one_pixel": encode("RGB", 1, 1),
        "progressive": progressive,
        "restart": encode("RGB", 40, 20, restart_marker_blocks=1),
        "cmyk": cmyk,
        "ycck": cmyk[:adobe] + b"\x02" + cmyk[adobe + 1 :],
        "cut_header": rgb[:100],
        "cut_scan": rgb[: scan + 10],
        "no_eoi": rgb[:-2],
        "early_eoi": rgb[: scan + 10] + b"\xff\xd9",
        "zeros_in_scan": rgb[:scan] + b"\0" * 40 + rgb[scan + 40 :],
        "no_quant": without_tables(rgb, 0xDB),
        "no_huffman": without_tables(rgb, 0xC4),
        "taller": with_size(rgb, 20, 900),
        "huge": with_size(rgb, 65535, 65535),
        "huge_progressive": with_size(progressive, 65000, 65000),
        "empty_size": with_size(rgb, 0, 0),
        "many_scans": progressive[:-2] + progressive[first_scan:-2] * 12,
        "not_jpeg": b"\x89PNG\r\n\x1a\n",
        "empty": b"",
    }
    for name, data in seeds.items():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
