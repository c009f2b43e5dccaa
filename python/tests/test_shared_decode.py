# SPDX-License-Identifier: Apache-2.0
"""Outputs that read the same picture: decoded once, and with the bits that they have when each decodes for itself."""

import io

import numpy as np
import pytest
from conftest import as_numpy, jpeg, picture, write_tar
from PIL import Image

import stoker

GLOBAL = "image | views(2) | random_resized_crop(48, scale=(0.3, 1), interpolation=bicubic) | hflip | color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8) " \
         "| gaussian_blur(5, p=0.5) | normalize(imagenet) | to(f16)"
LOCAL = "image | views(8) | random_resized_crop(24, scale=(0.05, 0.3)) | hflip | grayscale(p=0.2) | to(u8)"
PAIRS = [(GLOBAL, LOCAL), ("image | random_resized_crop(32) | hflip", "image | resize(40) | to(u8)"),
         ("image | to(u8)", "image | views(3) | random_crop(8, pad_if_needed=true) | to(u8)"),
         ("image(mode=gray) | center_crop(20)", "image(mode=gray) | random_resized_crop(20)"),
         ("image(exif=true) | random_resized_crop(32)", "image(exif=true) | views(2) | random_resized_crop(16)"),
         ("image(mode=gray) | center_crop(20)", "image | center_crop(20)")]


def turned(image, turn):
    exif = Image.Exif()
    exif[0x0112] = turn
    out = io.BytesIO()
    image.save(out, "JPEG", quality=90, exif=exif)
    return out.getvalue()


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """Each picture as two fields."""
    files = []
    for i in range(20):
        data = turned(picture(i, 60 + 3 * i, 90 - 2 * i), 1 + i % 8) if i % 2 else jpeg(picture(i, 64, 80), progressive=True)
        files += [(f"{i:04d}.a.jpg", data), (f"{i:04d}.b.jpg", data), (f"{i:04d}.cls", str(i).encode())]
    return write_tar(tmp_path_factory.mktemp("twice") / "twice.tar", files)


def batches(path, fields, **options):
    with stoker.Loader(path, fields, batch_size=5, seed=3, shuffle=True, collate="list", **options) as loader:
        return [{name: [as_numpy(v) for v in b[name]] for name in fields} for b in loader], loader.stats()


def same(a, b):
    for x, y in zip(a, b, strict=True):
        for name in x:
            assert all(np.array_equal(p, q) for p, q in zip(x[name], y[name], strict=True)), name


@pytest.mark.asan
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("workers", [0, 2])
def test_bits_are_those_of_each_alone(twice, pair, workers):
    def fields(second):
        return {"one": f"from(a.jpg) | {pair[0]}", "label": "from(cls) | int", "two": f"from({second}) | {pair[1]}",
                "three": f"from({second}) | {pair[1]}"}
    same(batches(twice, fields("a.jpg"), num_workers=workers)[0], batches(twice, fields("b.jpg"), num_workers=workers)[0])


def progressive_decodes(path, fields):
    return batches(path, fields, num_workers=0)[1]["jpeg_fallback"]


def test_decoded_once(twice):
    shared = {"one": f"from(a.jpg) | {GLOBAL}", "label": "from(cls) | int", "two": f"from(a.jpg) | {LOCAL}"}
    assert progressive_decodes(twice, shared) == 10
    apart = shared | {"two": f"from(b.jpg) | {LOCAL}"}
    assert progressive_decodes(twice, apart) == 20


def test_what_follows_a_shared_picture(twice):
    fields = {"mask": "from(b.jpg) | image(mode=gray) | like(two)", "one": "from(a.jpg) | image | random_resized_crop(16) | to(u8)",
              "two": "from(a.jpg) | image | random_resized_crop(24) | hflip | to(u8)"}
    other = fields | {"one": "from(b.jpg) | image | random_resized_crop(16) | to(u8)"}
    same(batches(twice, fields, num_workers=1)[0], batches(twice, other, num_workers=1)[0])


def test_a_member_that_draws_nothing(tmp_path):
    path = write_tar(tmp_path / "bad.tar", [("0.jpg", jpeg(picture(0, 8, 8)))])
    fields = {"one": "from(jpg) | image | resize((8, 8)) | to(u8)", "two": "from(jpg) | image | random_crop(16) | to(u8)"}
    with pytest.raises(stoker.StokerError, match="smaller than random_crop"), stoker.Loader(path, fields, batch_size=1, num_workers=1) as loader:
        list(loader)


def test_little_memory(tmp_path):
    """Scratch that comes and goes between the outputs of a row: what was shared is decoded again."""
    files = [(f"{i}.{f}.jpg", data) for i in range(12) for data in [jpeg(picture(i, 900, 700))] for f in "ab"]
    path = write_tar(tmp_path / "large.tar", sorted(files))

    def fields(second):
        return {"one": "from(a.jpg) | image | resize((200, 200)) | to(u8)",
                "two": f"from({second}) | image | views(2) | random_resized_crop(300) | gaussian_blur(9) | to(u8)"}
    a, b = (batches(path, fields(f), num_workers=2, memory_limit="48MB")[0] for f in ("a.jpg", "b.jpg"))
    same(a, b)
