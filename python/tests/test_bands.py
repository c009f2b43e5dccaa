# SPDX-License-Identifier: Apache-2.0
"""Large pictures are decoded and sampled in bands.  Two outputs of one picture are made from all its pixels: the same bits."""

import io

import numpy as np
import pytest
from conftest import as_numpy, write_tar
from PIL import Image

import stoker

CHAINS = ["resize(100)", "resize((60, 90), interpolation=bicubic)", "center_crop(400)", "resize(1000)", "pad(20, fill=9) | resize(64)",
          "pad(20, padding_mode=reflect) | resize(64)", "random_resized_crop(48) | hflip"]


def jpeg(**options):
    coarse = np.random.default_rng(7).integers(0, 256, (30, 42, 3), dtype=np.uint8)
    out = io.BytesIO()
    mode = options.pop("mode", "RGB")
    Image.fromarray(coarse).resize((667, 501), Image.Resampling.BICUBIC).convert(mode).save(out, "JPEG", **options)
    return out.getvalue()


def torn():
    """Our decoder finds out in the middle that it is damaged, and libjpeg-turbo begins again."""
    whole = bytearray(jpeg(quality=90))
    whole[len(whole) * 2 // 3:len(whole) * 2 // 3 + 2] = b"\xff\xd4"
    return bytes(whole)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    made = [jpeg(quality=90), jpeg(quality=95, subsampling=0), jpeg(quality=80, subsampling=1), jpeg(mode="L"), jpeg(progressive=True),
            torn()]
    return write_tar(tmp_path_factory.mktemp("large") / "a.tar", [(f"{i}.jpg", one) for i, one in enumerate(made)])


def rows(data, fields):
    with stoker.Loader(data, fields, batch_size=1, collate="list", seed=3, num_workers=1) as loader:
        return [as_numpy(b["x"][0]) for b in loader], loader.stats()


@pytest.mark.asan
@pytest.mark.parametrize("chain", CHAINS)
def test_the_same_bits(large, chain):
    one = {"x": f"from(jpg) | image | {chain} | to(u8)"}
    banded, stats = rows(large, one)
    whole, _ = rows(large, {**one, "y": "from(jpg) | image | resize(8)"})
    assert len(banded) == 6 and stats["jpeg_fallback"] >= 2
    assert all(np.array_equal(a, b) for a, b in zip(banded, whole, strict=True))


def test_pixels_are_pillows(large):
    banded, _ = rows(large, {"x": "from(jpg) | image | resize((90, 60), interpolation=bicubic) | to(u8, hwc)"})
    whole = Image.open(io.BytesIO(jpeg(quality=90))).resize((60, 90), Image.Resampling.BICUBIC)
    assert np.abs(banded[0].astype(int) - np.asarray(whole)).max() <= 1


def test_with_seek_points(large):
    chain = {"x": "from(jpg) | image | resize(100) | to(u8)"}
    before, _ = rows(large, chain)
    after, stats = rows(stoker.open(large, jpeg=True), chain)
    assert stats["jpeg_seek"] >= 4              # the next epoch may have begun
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_time_is_told_apart(large):
    _, stats = rows(large, {"x": "from(jpg) | image | resize(100)"})
    assert stats["stages"]["decode"] > 0 and stats["stages"]["resample"] > 0
