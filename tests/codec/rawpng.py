# SPDX-License-Identifier: Apache-2.0
"""A PNG writer that writes what it is told, also what no other writer would: every color type, depth and pass."""

import struct
import zlib

SIGNATURE = b"\x89PNG\r\n\x1a\n"
GRAY, RGB, INDEXED, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, INDEXED: 1, GRAY_ALPHA: 2, RGBA: 4}
DEPTHS = {GRAY: (1, 2, 4, 8, 16), RGB: (8, 16), INDEXED: (1, 2, 4, 8), GRAY_ALPHA: (8, 16), RGBA: (8, 16)}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def header(w, h, depth, color, interlace=0):
    return chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, interlace))


def pack_row(samples, depth):
    """Samples of one row as bytes."""
    if depth == 16:
        return struct.pack(f">{len(samples)}H", *samples)
    if depth == 8:
        return bytes(samples)
    out, per = bytearray((len(samples) * depth + 7) // 8), 8 // depth
    for i, v in enumerate(samples):
        out[i // per] |= v << (8 - depth - i % per * depth)
    return bytes(out)


def paeth(a, b, c):
    p = a + b - c
    return min((a, b, c), key=lambda v: (abs(p - v), (a, b, c).index(v)))


def filtered(rows, step, first):
    """Filter types in turn, beginning with `first`."""
    out, above = bytearray(), None
    for y, row in enumerate(rows):
        above = above or bytes(len(row))
        kind = (first + y) % 5
        out.append(kind)
        for i, v in enumerate(row):
            a, b, c = (row[i - step], above[i], above[i - step]) if i >= step else (0, above[i], 0)
            out.append((v - (0, a, b, (a + b) // 2, paeth(a, b, c))[kind]) & 255)
        above = row
    return bytes(out)


def scanlines(pixels, depth, interlace):
    """pixels[y][x]: a tuple of samples."""
    h, w = len(pixels), len(pixels[0])
    step = max(1, len(pixels[0][0]) * depth // 8)
    out = b""
    for number, (x0, y0, dx, dy) in enumerate(ADAM7 if interlace else [(0, 0, 1, 1)]):
        if x0 < w and y0 < h:
            rows = [pack_row([s for px in row[x0::dx] for s in px], depth) for row in pixels[y0::dy]]
            out += filtered(rows, step, number)
    return out


def write(pixels, depth, color, interlace=0, before=b"", idat=1000):
    """A whole PNG; `before`: chunks before the pixels, `idat`: bytes a chunk of them."""
    data = zlib.compress(scanlines(pixels, depth, interlace))
    parts = b"".join(chunk(b"IDAT", data[i : i + idat]) for i in range(0, len(data), idat))
    return SIGNATURE + header(len(pixels[0]), len(pixels), depth, color, interlace) + before + parts + chunk(b"IEND", b"")


def noise(w, h, depth, color, rng, top=None):
    """Random pixels with every extreme in them."""
    top = top or 2**depth - 1
    draw = lambda: rng.choice((0, top, rng.randint(0, top), rng.randint(0, min(top, 300))))
    return [[tuple(draw() for _ in range(CHANNELS[color])) for _ in range(w)] for _ in range(h)]
