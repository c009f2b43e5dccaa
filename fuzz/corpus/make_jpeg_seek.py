#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_jpeg_seek into jpeg_seek/ beside this script (needs NumPy and Pillow).

A seed is a count, edits (place, byte) of the seek points, and a JPEG: see fuzz_jpeg_seek.c.
"""

import pathlib

from make_jpeg_base import encode

OUT = pathlib.Path(__file__).parent / "jpeg_seek"


def edited(jpeg, *edits):
    return bytes([len(edits)]) + b"".join(p.to_bytes(2, "little") + bytes([b]) for p, b in edits) + jpeg


def main():
    OUT.mkdir(exist_ok=True)
    rgb = encode("RGB", 120, 40, quality=90, subsampling="4:4:4")
    gray = encode("L", 150, 30, optimize=True)
    restart = encode("RGB", 80, 40, restart_marker_blocks=3)
    seeds = {
        "true_rgb": edited(rgb),
        "true_gray": edited(gray),
        "true_restart": edited(restart),
        "rows_only": edited(rgb, (2, 3)),
        "size": edited(rgb, (4, 200), (6, 90)),
        "chunk": edited(rgb, (22, 8)),
        "step": edited(gray, (23, 2)),
        "widths": edited(rgb, (27, 32), (28, 16)),
        "lengths": edited(rgb, (190, 255), (200, 0), (210, 7)),
        "dc": edited(gray, (250, 255)),
        "version": edited(gray, (1, 9)),
        "raw": bytes([0]) + b"J\x01\x01\x01" + bytes(range(60)),
        "empty": b"",
    }
    for name, data in seeds.items():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
