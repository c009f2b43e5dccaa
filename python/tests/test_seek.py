# SPDX-License-Identifier: Apache-2.0
"""Seek points of JPEGs beside the index: who makes them, what they change (nothing but the work), and
what happens when they are damaged, stale or of another picture."""

import io
import os
import shutil
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
from conftest import epoch_of, jpeg, picture, write_tar
from PIL import Image
from tfrecords import crc32c

import stoker

CROP = {"image": "from(jpg) | image | random_resized_crop(48) | hflip | to(u8)"}
SMALL = {"image": "from(jpg) | image | center_crop(16) | to(u8)"}


def textured(seed, width=320, height=240, **options):
    """A JPEG with enough detail that no two pictures have chunks of the same lengths."""
    noise = np.random.default_rng(seed).integers(-20, 20, (height, width, 3))
    pixels = np.asarray(picture(seed, width, height)).astype(int) + noise
    return jpeg(Image.fromarray(pixels.clip(0, 255).astype(np.uint8)), **options)


def pad(data, size):
    return data + b"\0" * (size - len(data))    # after the end marker: no one looks there


@pytest.fixture(scope="module")
def photos():
    """Eight pictures, all files of one size; 2 is progressive, 5 gray with restart markers."""
    made = [textured(i, progressive=i == 2) for i in range(8)]
    out = io.BytesIO()
    picture(5, 320, 240).convert("L").save(out, "JPEG", quality=95, restart_marker_blocks=7)
    made[5] = out.getvalue()
    size = max(map(len, made))
    return [pad(m, size) for m in made]


def write(path, photos, numbers=None):
    return write_tar(path, [m for i, p in enumerate(numbers or range(len(photos)))
                            for m in ((f"{i}.jpg", photos[p]), (f"{i}.cls", b"%d" % i))])


@pytest.fixture
def shard(tmp_path, photos):
    return str(write(tmp_path / "a.tar", photos))


def points(shard):
    found = list((Path(shard).parent / ".stoker").glob("*.seek"))
    assert len(found) == 1
    return found[0]


def load(data, fields=CROP, num_workers=0, **options):
    """The pixels of an epoch, and stats(); without threads nothing is made ahead of it."""
    with stoker.Loader(data, fields, batch_size=3, seed=4, num_workers=num_workers, **options) as loader:
        return np.concatenate([o["image"] for _, o in epoch_of(loader)]), loader.stats()


# ---- who makes them -------------------------------------------------------------------------------

def test_open_makes_them_once(shard):
    plain, stats = load(shard)
    assert (stats["jpeg_seek"], stats["jpeg_fallback"]) == (0, 1)
    stoker.open(shard, jpeg=True)
    before = points(shard).stat()
    stoker.open(shard, jpeg=True)
    assert points(shard).stat().st_mtime_ns == before.st_mtime_ns
    fast, stats = load(shard)
    assert (stats["jpeg_seek"], stats["jpeg_misfit"], stats["jpeg_fallback"]) == (7, 0, 1)
    assert np.array_equal(plain, fast)


def test_open_where_nothing_can_be_written(shard, caplog, monkeypatch):
    monkeypatch.setenv("STOKER_CACHE", "/proc/no")
    folder = Path(shard).parent
    (folder / ".stoker").write_bytes(b"a file in its way")
    with caplog.at_level("WARNING"):
        assert len(stoker.open(shard, jpeg=True)) == 8
    assert "going on without seek points" in caplog.text


@pytest.mark.parametrize("how", ["threads", "map"])
def test_pack_makes_them(shard, tmp_path, how):
    done = stoker.pack(shard, tmp_path / "out", samples=3, jpeg=True, **({"map": dict, "num_proc": 1}
                                                                        if how == "map" else {}))
    _, stats = load(done["pattern"])
    assert stats["jpeg_seek"] == 7
    with pytest.raises(stoker.StokerError, match="beside the index"):
        stoker.pack(shard, tmp_path / "out2", jpeg=True, index=False)


def test_a_longer_list_takes_them_over(tmp_path, photos):
    write(tmp_path / "a.tar", photos)
    stoker.open(tmp_path / "a.tar", jpeg=True)
    write(tmp_path / "b.tar", photos[:2])
    stoker.open(tmp_path, jpeg=True)
    _, stats = load(str(tmp_path))
    assert stats["jpeg_seek"] == 9


def test_small_pictures_have_none(tmp_path):
    """Headers alone would take more than the 2.5 % that are promised."""
    write(tmp_path / "a.tar", [textured(i, 48, 48) for i in range(5)] + [textured(9)])
    stoker.open(tmp_path / "a.tar", jpeg=True)
    assert points(tmp_path / "a.tar").stat().st_size < 0.03 * len(textured(9))
    assert load(str(tmp_path / "a.tar"))[1]["jpeg_seek"] == 1


def test_bytes_before_the_end_do_not_change_colors(tmp_path, photos):
    """Odd files go to libjpeg-turbo, whose pixels are RGB: also where color would come after sampling."""
    whole = [p[: p.rindex(b"\xff\xd9")] for p in photos[:2]]
    write(tmp_path / "sane.tar", [p + b"\xff\xd9" for p in whole])
    odd, stats = load(str(write(tmp_path / "odd.tar", [p + b"odd\xff\xd9" for p in whole])),
                      {"image": "from(jpg) | image | resize((48, 48)) | to(u8)"})
    even, _ = load(str(tmp_path / "sane.tar"), {"image": "from(jpg) | image | resize((48, 48)) | to(u8)"})
    assert stats["jpeg_fallback"] == 2
    assert np.abs(odd.astype(int) - even.astype(int)).mean() < 1


# ---- pixels are the same --------------------------------------------------------------------------

@pytest.mark.parametrize("fields", [CROP, SMALL, {"image": "from(jpg) | image | resize((40, 40)) | to(u8)"}])
def test_same_pixels_for_any_workers(shard, fields):
    made = [load(shard, fields, num_workers=n, shuffle=True)[0] for n in (0, 1, 2, 8)]
    stoker.open(shard, jpeg=True)
    for n in (0, 1, 2, 8):
        pixels, stats = load(shard, fields, num_workers=n, shuffle=True)
        assert stats["jpeg_seek"] >= 7 and stats["jpeg_misfit"] == 0
        made.append(pixels)
    assert all(np.array_equal(made[0], m) for m in made)


# ---- what is wrong with them ----------------------------------------------------------------------

def damage(path, how):
    data = bytearray(path.read_bytes())
    if how == "cut":
        del data[len(data) // 2:]
    elif how == "empty":
        data.clear()
    elif how == "garbage":
        data[:] = np.random.default_rng(1).bytes(len(data))
    elif how == "head":
        data[20] ^= 1
    elif how == "tables":
        data[-5] ^= 1
    elif how == "group":
        data[3000] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["cut", "empty", "garbage", "head", "tables", "group"])
def test_damaged_points_are_told_of_once(shard, caplog, how):
    plain, _ = load(shard)
    stoker.open(shard, jpeg=True)
    damage(points(shard), how)
    caplog.clear()
    with caplog.at_level("WARNING"):
        pixels, stats = load(shard)
    warnings = [r.message for r in caplog.records if r.levelname == "WARNING"]
    assert len(warnings) == 1 and "going on without" in warnings[0] and "stoker index --jpeg" in warnings[0]
    assert np.array_equal(plain, pixels) and stats["jpeg_seek"] == 0
    points(shard).unlink()                      # `stoker index --jpeg --force` does as much
    stoker.open(shard, jpeg=True)
    assert load(shard)[1]["jpeg_seek"] == 7


def test_points_of_other_data(shard, photos, tmp_path, caplog):
    stoker.open(shard, jpeg=True)
    other = tmp_path / "other"
    other.mkdir()
    stoker.open(write(other / "b.tar", photos[:4]), jpeg=True)
    shutil.copy(points(other / "b.tar"), points(shard))
    caplog.clear()
    with caplog.at_level("WARNING"):
        _, stats = load(shard)
    assert stats["jpeg_seek"] == stats["jpeg_misfit"] == 0
    assert len(caplog.records) == 1 and "are of other data" in caplog.text
    stoker.open(shard, jpeg=True)
    assert load(shard)[1]["jpeg_seek"] == 7


def swap(shard, photos, numbers):
    """Other pictures in the same places, as if the shard had never been touched."""
    before = os.stat(shard)
    write(shard, photos, numbers)
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("fields", [CROP, SMALL])
def test_points_of_another_picture(shard, photos, tmp_path, fields):
    stoker.open(shard, jpeg=True)
    swap(shard, photos, [1, 0, 2, 4, 3, 5, 7, 6])
    (tmp_path / "plain").mkdir()
    want, _ = load(str(write(tmp_path / "plain/a.tar", photos, [1, 0, 2, 4, 3, 5, 7, 6])), fields)
    got, stats = load(shard, fields)
    assert np.array_equal(want, got)
    assert (stats["jpeg_seek"], stats["jpeg_misfit"], stats["jpeg_fallback"]) == (1, 6, 1)


def test_points_of_a_picture_of_another_shape(shard, photos, tmp_path):
    """5 is gray, 0 is not: the points say so themselves; a progressive one needs none."""
    stoker.open(shard, jpeg=True)
    swap(shard, photos, [5, 2, 1, 3, 4, 0, 6, 7])
    (tmp_path / "plain").mkdir()
    want, _ = load(str(write(tmp_path / "plain/a.tar", photos, [5, 2, 1, 3, 4, 0, 6, 7])))
    got, stats = load(shard)
    assert np.array_equal(want, got)
    assert (stats["jpeg_seek"], stats["jpeg_misfit"], stats["jpeg_fallback"]) == (4, 2, 1)


def test_hostile_points_with_right_checksums(shard):
    """Bytes of the group at random, its checksum and those of tables and head put right."""
    plain, _ = load(shard)
    stoker.open(shard, jpeg=True)
    whole = points(shard).read_bytes()
    tables = struct.unpack_from("<Q", whole, 40)[0]
    offset, length = struct.unpack_from("<QI", whole, tables + 32)
    rng = np.random.default_rng(3)
    for _ in range(20):
        data = bytearray(whole)
        for at in rng.integers(32, length, 60):
            data[offset + at] = rng.integers(256)
        struct.pack_into("<I", data, tables + 44, crc32c(data[offset:offset + length]))
        struct.pack_into("<I", data, 12, crc32c(data[tables:]))
        struct.pack_into("<I", data, 60, crc32c(data[:60]))
        points(shard).write_bytes(data)
        pixels, stats = load(shard)
        good = [i for i in range(8) if np.array_equal(pixels[i], plain[i])]
        assert len(good) >= 1 and stats["batches"] == 3     # where they lie about brightness alone, no one knows


def test_tar_is_untouched(shard):
    before = Path(shard).read_bytes()
    stoker.open(shard, jpeg=True)
    assert Path(shard).read_bytes() == before
    with tarfile.open(shard) as tar:
        assert len(tar.getnames()) == 16


# ---- found while running --------------------------------------------------------------------------

def learn(shard, epochs=2, **options):
    """Pixels of each epoch, and stats() after each."""
    out = []
    with stoker.Loader(shard, CROP, batch_size=3, seed=4, learn_jpeg=True, **{"num_workers": 0, **options}) as loader:
        for _ in range(epochs):
            out.append((np.concatenate([o["image"] for _, o in epoch_of(loader)]), loader.stats()))
    return out


def test_learned_in_the_first_epoch(shard):
    (first, one), (_, two) = learn(shard)
    assert (one["jpeg_learned"], one["jpeg_seek"]) == (7, 0)
    assert (two["jpeg_learned"], two["jpeg_seek"], two["jpeg_misfit"], two["jpeg_fallback"]) == (7, 7, 0, 2)
    again, stats = load(shard)                  # another run, that learns nothing
    assert (stats["jpeg_seek"], stats["jpeg_learned"]) == (7, 0)
    assert np.array_equal(first, again)
    (_, more), = learn(shard, 1)
    assert (more["jpeg_seek"], more["jpeg_learned"]) == (7, 0)


def test_learned_in_half_an_epoch(shard):
    with stoker.Loader(shard, CROP, batch_size=3, num_workers=0, learn_jpeg=True) as loader:
        next(iter(loader))
    assert load(shard)[1]["jpeg_seek"] == 2     # of 0, 1, 2; and 2 is progressive
    (_, rest), = learn(shard, 1)
    assert (rest["jpeg_seek"], rest["jpeg_learned"]) == (2, 5)
    assert load(shard)[1]["jpeg_seek"] == 7


def test_learned_points_do_not_count_as_all(shard):
    """open(jpeg=True) looks at every sample still, adds short fields beside pictures, and then there is nothing to learn."""
    learn(shard, 1)
    size = points(shard).stat().st_size
    before = points(shard).stat().st_ino
    stoker.open(shard, jpeg=True)
    assert points(shard).stat().st_ino != before and points(shard).stat().st_size >= size
    before = points(shard).stat().st_ino
    learn(shard, 1)
    assert points(shard).stat().st_ino == before


def test_same_pixels_while_learning(shard, tmp_path, photos):
    want = []
    with stoker.Loader(shard, CROP, batch_size=3, seed=4, num_workers=0, shuffle=True) as loader:
        for _ in range(3):
            want.append(np.concatenate([o["image"] for _, o in epoch_of(loader)]))
    for workers in (0, 1, 2, 8):
        for found in (list(Path(shard).parent.glob(".stoker/*.seek"))):
            found.unlink()
        got = learn(shard, 3, num_workers=workers, shuffle=True)
        assert all(np.array_equal(w, g) for w, (g, _) in zip(want, got, strict=True))
        assert got[-1][1]["jpeg_learned"] == 7 and got[-1][1]["jpeg_seek"] > 0


def test_two_runs_learn_at_once(tmp_path, photos):
    """Ranks of one job: what each found is in the file."""
    shard = str(write(tmp_path / "a.tar", photos))
    loaders = [stoker.Loader(shard, CROP, batch_size=1, num_workers=1, learn_jpeg=True, rank=r, world_size=4)
               for r in range(4)]
    for loader in loaders:
        epoch_of(loader)
    for loader in loaders:
        loader.close()
    assert load(shard)[1]["jpeg_seek"] == 7


def test_what_a_killed_writer_left_is_removed(shard):
    stoker.open(shard)
    folder = Path(shard).parent / ".stoker"
    stem = next(folder.glob("*.idx")).stem
    (folder / f".{stem}.seek.tmp.123456780badcafe").write_bytes(b"half")
    (folder / ".other.seek.tmp.123456780badcafe").write_bytes(b"not ours")
    learn(shard, 1)
    assert sorted(p.name for p in folder.glob("*.seek*")) == [".other.seek.tmp.123456780badcafe", f"{stem}.seek"]


def test_damaged_points_are_learned_anew(shard):
    learn(shard, 1)
    damage(points(shard), "cut")
    (_, stats), = learn(shard, 1)
    assert stats["jpeg_learned"] == 7
    assert load(shard)[1]["jpeg_seek"] == 7


def test_learning_where_nothing_can_be_written(shard, caplog, monkeypatch):
    stoker.open(shard)
    folder = Path(shard).parent / ".stoker"
    seek = folder / (next(folder.glob("*.idx")).stem + ".seek")
    seek.mkdir()                                # a folder is in its way
    (seek / "x").touch()
    with caplog.at_level("WARNING"):
        _, (_, two) = learn(shard)
    assert two["jpeg_seek"] == 7
    assert caplog.text.count("are not kept for the next run") == 1
