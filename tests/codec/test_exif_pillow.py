# SPDX-License-Identifier: Apache-2.0
"""image(exif=true) against ImageOps.exif_transpose(), and pictures whose names lie, through the loader."""

import io
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps, PngImagePlugin

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


def profile(turn, order, name=b"exif", digits=72):
    """EXIF as ImageMagick writes it into a PNG's text: lines of hexadecimal digits."""
    exif = Image.Exif()
    exif.endian = order
    exif[0x010F] = "maker " * 40
    exif[0x0112] = turn
    block = exif.tobytes()
    if name == b"exif":
        assert block.startswith(b"Exif\0\0")
    text = block.hex()
    lines = [text[i:i + digits] for i in range(0, len(text), digits)]
    return f"\n{name.decode()}\n{len(block):8}\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize("way", ["tEXt", "zTXt", "iTXt", "iTXt packed"])
@pytest.mark.parametrize("order", "<>")
def test_raw_profiles_of_png(tmp_path, way, order):
    files = []
    for turn in range(1, 9):
        info = PngImagePlugin.PngInfo()
        if way.startswith("iTXt"):
            info.add_itxt("Raw profile type exif", profile(turn, order), "en", "profile", zip="packed" in way)
        else:
            info.add_text("Raw profile type exif", profile(turn, order), zip=way == "zTXt")
        out = io.BytesIO()
        Image.open(io.BytesIO(picture("PNG", 0))).save(out, "PNG", pnginfo=info, exif=b"")
        assert b"eXIf" not in out.getvalue()
        assert Image.open(io.BytesIO(out.getvalue())).getexif()[0x0112] == turn
        files.append(out.getvalue())
    path = shards.write(tmp_path / "a.tar", [{"png": data} for data in files])
    for got, data in zip(arrays(shards.rows(path, "from(png) | image(exif=true)")), files, strict=True):
        np.testing.assert_array_equal(got, np.asarray(upright(data)))
    app1 = [data.replace(b"Raw profile type exif", b"Raw profile type APP1") for data in files]    # Pillow does not know it
    path = shards.write(tmp_path / "b.tar", [{"png": crc(data)} for data in app1])
    for got, data in zip(arrays(shards.rows(path, "from(png) | image(exif=true)")), files, strict=True):
        np.testing.assert_array_equal(got, np.asarray(upright(data)))


def crc(png):
    """The same chunks with right checksums."""
    out, at = png[:8], 8
    while at < len(png):
        n = int.from_bytes(png[at:at + 4], "big")
        out += png[at:at + 8 + n] + zlib.crc32(png[at + 4:at + 8 + n]).to_bytes(4, "big")
        at += 12 + n
    return out


def test_content_decides_not_the_name(tmp_path):
    files = [picture(format, 1) for format in ("PNG", "WEBP", "JPEG")]
    path = shards.write(tmp_path / "a.tar", [{"jpg": data} for data in files])
    for got, data in zip(arrays(shards.rows(path, "from(jpg) | image")), files, strict=True):
        np.testing.assert_array_equal(got, np.asarray(Image.open(io.BytesIO(data)).convert("RGB")))
