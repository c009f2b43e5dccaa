# SPDX-License-Identifier: Apache-2.0
"""image(exif=true) against ImageOps.exif_transpose(), and pictures whose names lie, through the loader."""

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

import shards

SEED = 20250306
FORMATS = {"jpg": "JPEG", "png": "PNG", "webp": "WEBP"}


def picture(format, turn, order="<", w=61, h=40):
    pixels = np.random.default_rng(SEED + turn).integers(0, 256, (h, w, 3), dtype=np.uint8)
    exif = Image.Exif()
    exif.endian = order
    exif[0x010F] = "maker"
    if turn:
        exif[0x0112] = turn
    out = io.BytesIO()
    Image.fromarray(pixels).resize((w, h)).save(out, format, exif=exif, **({"lossless": True} if format == "WEBP" else {}))
    return out.getvalue()


def upright(data):
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")


def arrays(rows):
    return [np.asarray(r).transpose(1, 2, 0) for r in rows]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("order", "<>")
def test_eight_orientations(tmp_path, name, order):
    files = [picture(FORMATS[name], turn, order) for turn in range(0, 10)]
    path = shards.write(tmp_path / "a.tar", [{name: data} for data in files])
    for got, data in zip(arrays(shards.rows(path, f"from({name}) | image(exif=true)")), files, strict=True):
        np.testing.assert_array_equal(got, np.asarray(upright(data)))
    for got, data in zip(arrays(shards.rows(path, f"from({name}) | image")), files, strict=True):
        np.testing.assert_array_equal(got, np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))


@pytest.mark.parametrize("name", FORMATS)
def test_crops_of_turned_pictures(tmp_path, name):
    files = [picture(FORMATS[name], turn) for turn in range(1, 9)]
    path = shards.write(tmp_path / "a.tar", [{name: data} for data in files])
    for got, data in zip(arrays(shards.rows(path, f"from({name}) | image(exif=true) | center_crop((20, 30))")), files, strict=True):
        want = upright(data)
        left, top = round((want.width - 30) / 2), round((want.height - 20) / 2)
        np.testing.assert_array_equal(got, np.asarray(want.crop((left, top, left + 30, top + 20))))
    for got, data in zip(arrays(shards.rows(path, f"from({name}) | image(exif=true, exact=true) | resize((17, 23))")), files, strict=True):
        want = np.asarray(upright(data).resize((23, 17), Image.BILINEAR)).astype(int)
        assert abs(got.astype(int) - want).max() <= 1


def test_content_decides_not_the_name(tmp_path):
    files = [picture(format, 1) for format in ("PNG", "WEBP", "JPEG")]
    path = shards.write(tmp_path / "a.tar", [{"jpg": data} for data in files])
    for got, data in zip(arrays(shards.rows(path, "from(jpg) | image")), files, strict=True):
        np.testing.assert_array_equal(got, np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))
