# SPDX-License-Identifier: Apache-2.0
"""The JPEG decoder against Pillow: the same pixels as open().convert("RGB"), and errors where Pillow raises.

Pillow brings a libjpeg-turbo of its own (3.x); the accurate DCT and the upsampling are the same integer arithmetic in
every release, so the tolerance is zero.
"""

import io
import os
import random

import numpy as np
import pytest
from PIL import Image

import oracle
from oracle import CLI, pillow

SEED = 20240613

if not os.path.exists(CLI):
    pytest.skip(f"{CLI} is not built", allow_module_level=True)


def ours(data, region=()):
    return oracle.ours("jpeg", data, region)


def photo(w, h, channels=3, seed=SEED):
    """Smooth shapes with some noise: every coefficient is in use."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w]
    planes = [np.sin(x / (5 + c)) * 60 + np.cos(y / (7 + c)) * 50 + 128 + rng.normal(0, 12, (h, w)) for c in range(channels)]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def encode(mode, w, h, **options):
    pixels = photo(w, h, {"L": 1, "RGB": 3, "CMYK": 4}[mode])
    out = io.BytesIO()
    Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode).save(out, "JPEG", **options)
    return out.getvalue()


def ycck(data):
    """A CMYK file as Pillow writes it, marked as YCCK: other colors, the same path as Adobe's files."""
    at = data.index(b"Adobe")
    return data[: at + 11] + b"\x02" + data[at + 12 :]


def without_adobe(data):
    at = data.index(b"Adobe") - 4
    return data[:at] + data[at + 16 :]


def without_jfif(data):
    at = data.index(b"\xff\xe0")
    return data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4], "big") :]


SIZES = [(1, 1), (3, 2), (8, 8), (16, 16), (17, 33), (100, 75), (131, 97)]
FILES = {}
for _w, _h in SIZES:
    for _prog in (False, True):
        for _sub in ("4:4:4", "4:2:2", "4:2:0"):
            FILES[f"rgb {_sub} {_w}x{_h} progressive={_prog}"] = encode(
                "RGB", _w, _h, quality=85, subsampling=_sub, progressive=_prog
            )
        FILES[f"gray {_w}x{_h} progressive={_prog}"] = encode("L", _w, _h, quality=70, progressive=_prog)
        _cmyk = encode("CMYK", _w, _h, quality=90, progressive=_prog)
        FILES[f"cmyk {_w}x{_h} progressive={_prog}"] = _cmyk
        FILES[f"ycck {_w}x{_h} progressive={_prog}"] = ycck(_cmyk)
        FILES[f"cmyk, no Adobe marker {_w}x{_h} progressive={_prog}"] = without_adobe(_cmyk)
FILES["restart every block"] = encode("RGB", 100, 75, restart_marker_blocks=1)
FILES["restart every row"] = encode("RGB", 100, 75, restart_marker_rows=1)
FILES["optimized"] = encode("RGB", 100, 75, optimize=True)
FILES["quality 1"] = encode("RGB", 100, 75, quality=1)
FILES["quality 100"] = encode("RGB", 100, 75, quality=100)
FILES["no JFIF marker"] = without_jfif(encode("RGB", 100, 75))
FILES["RGB kept"] = encode("RGB", 100, 75, keep_rgb=True)
FILES["comment and profile"] = encode("RGB", 50, 50, comment=b"x" * 300, icc_profile=b"p" * 70000)
FILES["trailing bytes"] = encode("RGB", 50, 50) + b"trailing" * 99
FILES["padding before markers"] = encode("RGB", 50, 50).replace(b"\xff\xda", b"\xff\xff\xff\xda", 1)


@pytest.mark.parametrize("name", FILES)
def test_same_pixels(name):
    want = pillow(FILES[name])
    assert want is not None
    got = ours(FILES[name])
    assert not isinstance(got, str), got
    np.testing.assert_array_equal(got, want)


def test_same_pixels_in_regions():
    rng = random.Random(SEED)
    for name in rng.sample(sorted(n for n in FILES if "131x97" in n or "100x75" in n), 16):
        want = pillow(FILES[name])
        h, w = want.shape[:2]
        for _ in range(6):
            x, y = rng.randrange(w), rng.randrange(h)
            rw, rh = rng.randint(1, w - x), rng.randint(1, h - y)
            got = ours(FILES[name], (x, y, rw, rh))
            assert not isinstance(got, str), got
            np.testing.assert_array_equal(got, want[y : y + rh, x : x + rw], err_msg=f"{name} {x},{y} {rw}x{rh}")


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("subsampling", ["4:4:4", "4:2:0"])
def test_truncated(progressive, subsampling):
    """An error exactly where Pillow raises."""
    data = encode("RGB", 60, 50, quality=60, progressive=progressive, subsampling=subsampling)
    lengths = {*range(0, len(data), 23), *range(len(data) - 24, len(data) + 1)}
    for n in sorted(lengths):
        want, got = pillow(data[:n]), ours(data[:n])
        if want is None:
            assert isinstance(got, str), f"{n} of {len(data)} bytes: Pillow raises"
            assert got.startswith("ECORRUPT: JPEG") and got.count("\n") == 1, got
        else:
            assert not isinstance(got, str), f"{n} of {len(data)} bytes: {got}"
            np.testing.assert_array_equal(got, want)


def test_garbage():
    """Damaged scans that Pillow decodes give Pillow's pixels; what Pillow refuses to decode is an error."""
    rng = random.Random(SEED)
    print("seed", SEED)
    decoded = 0
    for round in range(150):
        data = bytearray(encode("RGB", 60, 50, quality=60, progressive=bool(round % 3 == 0)))
        scan = data.index(b"\xff\xda") + 14
        for _ in range(3):
            data[rng.randrange(scan, len(data))] = rng.randrange(256)
        data = bytes(data)
        want, got = pillow(data), ours(data)
        if want is None:
            assert isinstance(got, str), f"round {round}: Pillow raises"
        else:
            assert not isinstance(got, str), f"round {round}: {got}"
            np.testing.assert_array_equal(got, want, err_msg=f"round {round}")
            decoded += 1
    assert decoded > 50


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff", b"\xff\xd8", b"\xff\xd8\xff", b"\xff\xd8\xff\xd9", b"\xff\xd8\xff\xe0", b"GIF89a", b"\xff\xd8" + b"\0" * 500,
     b"\xff\xd8" + b"\xff" * 500],
)
def test_no_jpeg(data):
    got = ours(data)
    assert isinstance(got, str) and got.startswith("ECORRUPT: JPEG"), got
    assert got.count("\n") == 1


def test_larger_than_libjpeg_reads():
    data = bytearray(encode("RGB", 16, 16))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = b"\xff" * 4
    got = ours(bytes(data))
    assert got == "ELIMIT: JPEG: Maximum supported image dimension is 65500 pixels\n"
