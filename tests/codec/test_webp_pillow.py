# SPDX-License-Identifier: Apache-2.0
"""The WebP decoder against Pillow: the same pixels as open().convert("RGB"), and errors where Pillow raises."""

import io
import os
import random

import numpy as np
import pytest
from PIL import Image, features

from oracle import CLI, ours, pillow, refused, same

SEED = 20250304

if not os.path.exists(CLI):
    pytest.skip(f"{CLI} is not built", allow_module_level=True)
if not features.check("webp") or "no WebP" in str(ours("webp", b"RIFF\0\0\0\0WEBP")):
    pytest.skip("no libwebp here or there", allow_module_level=True)


def encode(mode, w, h, **options):
    rng = np.random.default_rng(SEED)
    y, x = np.mgrid[0:h, 0:w]
    planes = [np.sin(x / (5 + c)) * 60 + np.cos(y / (7 + c)) * 50 + 128 + rng.normal(0, 12, (h, w)) for c in range(len(mode))]
    out = io.BytesIO()
    Image.fromarray(np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8), mode).save(out, "WEBP", **options)
    return out.getvalue()


OPTIONS = {
    "lossy": {"quality": 75},
    "lossy, poor": {"quality": 2},
    "lossy, good": {"quality": 100, "method": 6},
    "lossless": {"lossless": True},
    "lossless, exact": {"lossless": True, "exact": True},
    "nearly lossless": {"lossless": True, "quality": 40},
    "with profile and EXIF": {"icc_profile": b"p" * 3000, "exif": b"Exif\0\0" + b"x" * 99},
}


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("name", OPTIONS)
def test_same_pixels(name, mode):
    rng = random.Random(SEED)
    for w, h in [(1, 1), (2, 3), (16, 16), (17, 33), (131, 97)]:
        data = encode(mode, w, h, **OPTIONS[name])
        same("webp", data, note=f"{w}x{h}")
        for _ in range(4):
            x, y = rng.randrange(w), rng.randrange(h)
            same("webp", data, (x, y, rng.randint(1, w - x), rng.randint(1, h - y)), f"{w}x{h} seed {SEED}")


@pytest.mark.parametrize("options", [{"quality": 60}, {"lossless": True}])
def test_truncated(options):
    data = encode("RGB", 30, 20, **options)
    for n in sorted({*range(0, len(data), 7), *range(len(data) - 9, len(data))}):
        assert pillow(data[:n]) is None
        refused("webp", data[:n], "ECORRUPT: WebP", f"{n} of {len(data)} bytes")


@pytest.mark.parametrize("options", [{"quality": 60}, {"lossless": True}])
def test_damage(options):
    """Damaged pixels that Pillow decodes give Pillow's pixels; what it refuses is an error.  There is no checksum."""
    rng = random.Random(SEED)
    data = encode("RGB", 60, 50, **options)
    for round in range(60):
        bad = bytearray(data)
        for _ in range(3):
            bad[rng.randrange(40, len(bad))] = rng.randrange(256)
        want, got = pillow(bytes(bad)), ours("webp", bytes(bad))
        if want is None:
            assert isinstance(got, str) and got.startswith("ECORRUPT: WebP"), f"round {round}: Pillow raises"
        else:
            assert not isinstance(got, str), f"round {round}: {got}"
            np.testing.assert_array_equal(got, want, err_msg=f"round {round}, seed {SEED}")


def test_animation_is_refused():
    out = io.BytesIO()
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:])
    refused("webp", out.getvalue(), "ENOTSUP: WebP is an animation")
