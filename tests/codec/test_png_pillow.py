# SPDX-License-Identifier: Apache-2.0
"""The PNG decoder against Pillow: the same pixels as open().convert("RGB"), of 16-bit gray the high byte, and errors where Pillow raises."""

import io
import os
import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

import rawpng
from oracle import CLI, ours, pillow, refused, same

SEED = 20250301

if not os.path.exists(CLI):
    pytest.skip(f"{CLI} is not built", allow_module_level=True)
if "no PNG" in str(ours("png", rawpng.SIGNATURE)):
    pytest.skip("built without libspng", allow_module_level=True)

KINDS = [(color, depth, lace) for color, depths in rawpng.DEPTHS.items() for depth in depths for lace in (0, 1)]


def palette(n, rng):
    return rawpng.chunk(b"PLTE", bytes(rng.randrange(256) for _ in range(3 * n)))


def make(color, depth, lace, w, h, rng, before=b"", idat=1000):
    if color == rawpng.INDEXED:
        before = palette(2**depth, rng) + before
    return rawpng.write(rawpng.noise(w, h, depth, color, rng), depth, color, lace, before, idat)


@pytest.mark.parametrize("color,depth,lace", KINDS)
def test_same_pixels(color, depth, lace):
    """Every color type and depth, plain and interlaced, sizes around the borders of bytes and passes, and regions."""
    rng = random.Random(SEED + color * 100 + depth * 2 + lace)
    for w, h in [(1, 1), (2, 3), (4, 5), (7, 8), (9, 1), (1, 9), (17, 33), (40, 23)]:
        data = make(color, depth, lace, w, h, rng)
        same("png", data, note=f"{w}x{h}")
        for _ in range(3):
            x, y = rng.randrange(w), rng.randrange(h)
            same("png", data, (x, y, rng.randint(1, w - x), rng.randint(1, h - y)), f"{w}x{h} seed {SEED}")


@pytest.mark.parametrize("lace", [0, 1])
def test_transparency_is_dropped(lace):
    rng = random.Random(SEED)
    for color, depth, trns in [
        (rawpng.GRAY, 1, b"\0\1"), (rawpng.GRAY, 2, b"\0\1"), (rawpng.GRAY, 8, b"\0\x10"), (rawpng.GRAY, 16, b"\1\2"),
        (rawpng.RGB, 8, b"\0\1\0\2\0\3"), (rawpng.RGB, 16, b"\0\1\0\2\0\3"),
        (rawpng.INDEXED, 8, b"\0\x80\xff"), (rawpng.INDEXED, 2, b"\0"),
    ]:
        same("png", make(color, depth, lace, 13, 11, rng, rawpng.chunk(b"tRNS", trns)), note=f"{color} {depth}")


def test_palette_with_holes():
    """Colors that the palette does not have are black, as in Pillow."""
    rng = random.Random(SEED)
    for depth, n in [(8, 3), (4, 3), (2, 1), (8, 256)]:
        pixels = rawpng.noise(9, 9, depth, rawpng.INDEXED, rng)
        same("png", rawpng.write(pixels, depth, rawpng.INDEXED, before=palette(n, rng)), note=f"{depth} bits, {n} colors")


def test_what_pillow_writes():
    rng = np.random.default_rng(SEED)
    pixels = rng.integers(0, 256, (60, 50, 4), dtype=np.uint8)
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        image = Image.fromarray(pixels).convert("L" if mode == "I;16" else mode)
        if mode == "I;16":
            image = Image.fromarray(rng.integers(0, 65536, (60, 50), dtype=np.uint16))
        for options in ({}, {"optimize": True}, {"compress_level": 0}, {"icc_profile": b"p" * 50000}):
            out = io.BytesIO()
            image.save(out, "PNG", **options)
            same("png", out.getvalue(), note=f"{mode} {options}")


def test_chunks_beside_the_pixels():
    rng = random.Random(SEED)
    texts = {
        "gamma": rawpng.chunk(b"gAMA", struct.pack(">I", 45455)),
        "text": rawpng.chunk(b"tEXt", b"Comment\0" + b"x" * 5000),
        "packed text": rawpng.chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"y" * 5000)),
        "private": rawpng.chunk(b"prVt", b"123"),
        "an empty text": rawpng.chunk(b"tEXt", b"Comment\0"),
    }
    for name, before in texts.items():
        same("png", make(rawpng.RGB, 8, 0, 9, 9, rng, before), note=name)
    same("png", make(rawpng.RGB, 8, 0, 9, 9, rng, idat=1), note="a byte a chunk")
    same("png", make(rawpng.RGB, 8, 0, 9, 9, rng) + b"trailing" * 9, note="trailing bytes")


def test_one_large_chunk_of_pixels():
    pixels = np.random.default_rng(SEED).integers(0, 256, (2400, 3000, 3), dtype=np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    data = rawpng.SIGNATURE + rawpng.header(3000, 2400, 8, rawpng.RGB)
    data += rawpng.chunk(b"IDAT", zlib.compress(rows, 0)) + rawpng.chunk(b"IEND", b"")
    assert len(data) > 20 << 20
    np.testing.assert_array_equal(ours("png", data, (100, 50, 300, 200)), pixels[50:250, 100:400])


@pytest.mark.parametrize("color,depth,lace", [(rawpng.RGB, 8, 0), (rawpng.RGBA, 16, 1), (rawpng.INDEXED, 4, 0)])
def test_truncated(color, depth, lace):
    """An error wherever Pillow raises; where it does not, its pixels or (the data's own checksum is cut) an error."""
    rng = random.Random(SEED)
    data = make(color, depth, lace, 30, 20, rng, idat=300)
    for n in sorted({*range(0, len(data), 7), *range(len(data) - 40, len(data) + 1)}):
        want, got = pillow(data[:n]), ours("png", data[:n])
        if want is None:
            refused("png", data[:n], "ECORRUPT: PNG", f"{n} of {len(data)} bytes")
        elif not isinstance(got, str):
            np.testing.assert_array_equal(got, want)
        else:
            assert got.startswith("ECORRUPT: PNG is truncated") and n < len(data) - 12, f"{n} of {len(data)}: {got}"


def test_damage():
    """A flipped byte is met by a checksum, or it lies where nobody looks."""
    rng = random.Random(SEED)
    data = make(rawpng.RGB, 8, 0, 20, 20, rng, idat=300)
    want = pillow(data)
    for at in range(len(data)):
        bad = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        got = ours("png", bad)
        if isinstance(got, str):
            assert got.startswith(("ECORRUPT: PNG", "ELIMIT: PNG")), got
        else:
            assert at >= len(data) - 12 - 8, f"byte {at} of {len(data)} was damaged and nobody noticed"
            np.testing.assert_array_equal(got, want)


def one(raw, w=2, h=1, depth=8, color=0, before=b"", lace=0):
    return (
        rawpng.SIGNATURE + rawpng.header(w, h, depth, color, lace) + before + rawpng.chunk(b"IDAT", zlib.compress(raw))
        + rawpng.chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    "name,data",
    {
        "only a signature": rawpng.SIGNATURE,
        "no pixels": rawpng.SIGNATURE + rawpng.header(2, 1, 8, 0) + rawpng.chunk(b"IEND", b""),
        "unknown filter": one(b"\7\1\2"),
        "too few rows": one(b"\0\1\2", h=2),
        "width 0": one(b"\0", w=0),
        "depth 3": one(b"\0\0", depth=3),
        "color 5": one(b"\0\0", color=5),
        "no palette": one(b"\0\0\1", color=3),
        "text that grows": one(b"\0\1\2", before=rawpng.chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(64 << 20)))),
        "pixels that are no zlib stream": rawpng.SIGNATURE + rawpng.header(2, 1, 8, 0) + rawpng.chunk(b"IDAT", b"abcdefg"),
        "16-bit interlaced, cut": make(rawpng.RGB, 16, 1, 40, 40, random.Random(SEED))[:3000],
    }.items(),
)
def test_refused(name, data):
    refused("png", data, ("ECORRUPT: PNG", "ELIMIT: PNG"), name)
