#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_png into png/ beside this script."""

import pathlib
import random
import struct
import sys
import zlib

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "codec"))

import rawpng  # noqa: E402


def main():
    out, rng, seeds = HERE / "png", random.Random(7), {}
    out.mkdir(exist_ok=True)
    colors = rawpng.chunk(b"PLTE", bytes(rng.randrange(256) for _ in range(48)))
    for color, depths in rawpng.DEPTHS.items():
        for depth in depths:
            for lace in (0, 1):
                top = min(2**depth - 1, 15) if color == rawpng.INDEXED else None
                pixels = rawpng.noise(11, 10, depth, color, rng, top)
                before = colors[:0] if color != rawpng.INDEXED else rawpng.chunk(b"PLTE", bytes(range(3 * min(16, 2**depth))))
                seeds[f"color{color}_depth{depth}_{'laced' if lace else 'plain'}"] = rawpng.write(pixels, depth, color, lace, before)
    rgb = seeds["color2_depth8_plain"]
    body = rgb[33:]
    seeds |= {
        "cut": rgb[: len(rgb) // 2],
        "cut_laced": seeds["color6_depth16_laced"][:400],
        "no_end": rgb[:-12],
        "huge": rawpng.SIGNATURE + rawpng.header(2**31 - 1, 2**31 - 1, 16, 6, 1) + body,
        "taller": rawpng.SIGNATURE + rawpng.header(11, 900, 8, 2) + body,
        "no_palette": seeds["color3_depth4_plain"].replace(b"PLTE", b"prIv"),
        "text": rgb[:33] + rawpng.chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(8 << 20))) + body,
        "exif": rgb[:33] + rawpng.chunk(b"eXIf", b"II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0") + body,
        "profile": rgb[:33] + rawpng.chunk(b"iCCP", b"p\0\0" + zlib.compress(b"profile" * 30)) + body,
        "gamma": rgb[:33] + rawpng.chunk(b"gAMA", struct.pack(">I", 45455)) + body,
        "bad_crc": rgb[:60] + b"\0" + rgb[61:],
        "empty": b"",
    }
    text = b"\nexif\n    26\n49492a0008000000010012010300\n010000000600000000000000\n"
    key = b"Raw profile type exif\0"
    seeds |= {
        "raw_text": rgb[:33] + rawpng.chunk(b"tEXt", key + text) + body,
        "raw_packed": rgb[:33] + rawpng.chunk(b"zTXt", key + b"\0" + zlib.compress(text)) + body,
        "raw_app1": rgb[:33] + rawpng.chunk(b"iTXt", b"Raw profile type APP1\0\1\0en\0x\0" + zlib.compress(text)) + body,
        "raw_bomb": rgb[:33] + rawpng.chunk(b"zTXt", key + b"\0" + zlib.compress(bytes(1 << 20))) + body,
        "raw_torn": rgb[:33] + rawpng.chunk(b"zTXt", key + b"\0" + zlib.compress(text)[:20]) + body,
    }
    for name, data in seeds.items():
        (out / name).write_bytes(data)


if __name__ == "__main__":
    main()
