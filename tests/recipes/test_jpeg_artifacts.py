# SPDX-License-Identifier: Apache-2.0
"""jpeg_artifacts makes Pillow's pixels, bit for bit, without writing a file; hsv is near its float equations."""

import colorsys
import io

import numpy as np
import pytest
from PIL import Image

import stoker


def textured(height, width, seed=1):
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    return np.clip(np.asarray(coarse) + rng.normal(0, 10, (height, width, 3)), 0, 255).astype(np.uint8)


def made(chain, picture):
    return np.asarray(stoker.Transform(f"{chain} | to(u8, hwc)", layout="hwc", num_workers=1)([picture])[0])


@pytest.mark.asan
@pytest.mark.parametrize("quality", [1, 10, 49, 50, 75, 95, 100])
def test_pixels_are_pillows(quality):
    for height, width in ((64, 64), (48, 81), (65, 47), (1, 1), (1, 50), (50, 1), (17, 16), (5, 3), (9, 4), (9, 5)):
        picture, out = textured(height, width, quality), io.BytesIO()
        Image.fromarray(picture).save(out, "JPEG", quality=quality)
        assert np.array_equal(made(f"jpeg_artifacts({quality})", picture), np.asarray(Image.open(out))), (height, width)


def test_hsv_is_the_equations():
    picture = textured(20, 20)
    got = made("hsv((0.1, 0.1), (1.4, 1.4), (0.8, 0.8))", picture)
    for pixel, result in zip(picture.reshape(-1, 3), got.reshape(-1, 3), strict=True):
        h, s, v = colorsys.rgb_to_hsv(*(pixel / 255))
        expect = np.array(colorsys.hsv_to_rgb((h + 0.1) % 1, min(1, s * 1.4), min(1, v * 0.8))) * 255
        assert np.abs(result - expect).max() <= 1
