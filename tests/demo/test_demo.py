# SPDX-License-Identifier: Apache-2.0
"""The demo's photos are what it says they are, and its shards hold them."""

import io
import sys
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("PIL")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools/demo"))

import pack  # noqa: E402
import photos  # noqa: E402


def encoded(n):
    image, _ = photos.make_photo(0, n)
    out = io.BytesIO()
    image.save(out, "JPEG", quality=photos.QUALITY)
    return out.getvalue()


def test_a_photo_depends_on_seed_and_number_only():
    assert encoded(3) == encoded(3)
    assert photos.make_photo(0, 3)[0].tobytes() != photos.make_photo(1, 3)[0].tobytes()


def test_photos_are_of_the_stated_size():
    sizes = [len(encoded(n)) for n in range(12)]
    assert 90_000 < sum(sizes) / len(sizes) < 120_000


def test_some_photos_are_gray():
    modes = [photos.make_photo(0, n)[0].mode for n in range(20, 26)]
    assert modes.count("L") == 1 and modes.count("RGB") == 5


def test_interrupted_set_is_completed(tmp_path):
    assert photos.make_photos(tmp_path, count=10) == 10
    photos.photo_path(tmp_path, 4, 4).unlink()
    assert photos.make_photos(tmp_path, count=10) == 1
    assert photos.make_photos(tmp_path, count=10) == 0


def test_shards_hold_each_photo_with_its_class(tmp_path, monkeypatch):
    monkeypatch.setattr(pack, "PER_SHARD", 4)
    photos.make_photos(tmp_path / "photos", count=10)
    found = photos.list_photos(tmp_path / "photos")
    shards = pack.pack(found, tmp_path / "shards", "train")
    assert pack.pattern(shards) == str(tmp_path / "shards/train-{000000..000002}.tar")
    names, labels = [], []
    for shard in shards:
        with tarfile.open(shard) as tar:
            for member in tar:
                names.append(member.name)
                if member.name.endswith(".cls"):
                    labels.append(int(tar.extractfile(member).read()))
    assert names == [f"{n:06d}.{field}" for n in range(10) for field in ("jpg", "cls")]
    assert labels == [label for _, label in found]
