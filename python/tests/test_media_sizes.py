# SPDX-License-Identifier: Apache-2.0
"""HASH.media: sizes of pictures as columns, without decoding; damaged and stale files are made again, never believed."""

import io
import os
import shutil
import struct
import subprocess
import zlib

import numpy as np
import pytest
from conftest import picture, write_tar
from PIL import Image

import stoker

pytestmark = pytest.mark.asan
N = 24
KINDS = [("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("WEBP", {}), ("PPM", {}), ("JPEG", {"exif": 6})]


def encoded(i, shift=0):
    kind, options = KINDS[i % len(KINDS)]
    image = picture(i, 150 + 3 * i + shift, 100 + i)
    if "exif" in options:
        exif = Image.Exif()
        exif[0x0112] = options["exif"]
        exif[0x010e] = "x" * (9000 if i % 2 else 3)    # the header ends after 4 KiB
        options = {"exif": exif}
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def shard(path, numbers, shift=0, key=""):
    return write_tar(path, [m for i in numbers for m in (
        (f"{key}{i:04d}.img", encoded(i, shift)), (f"{key}{i:04d}.json", b'{"width": %d}' % (1000 + i)),
        (f"{key}{i:04d}.txt", b"P6 is not a picture"))])


def sizes(n=N, shift=0):
    return [(150 + 3 * i + shift, 100 + i) for i in range(n)]


def read(ds):
    return list(zip(ds.column("img.width").tolist(), ds.column("img.height").tolist()))


def beside(folder, ending=".media"):
    found = [p for p in (folder / ".stoker").iterdir() if p.name.endswith(ending)]
    assert len(found) <= 1
    return found[0] if found else None


@pytest.fixture
def folder(tmp_path):
    shard(tmp_path / "a.tar", range(N))
    return tmp_path


def test_every_kind_of_picture(folder):
    ds = stoker.open(folder)
    assert ds.columns == {} and beside(folder) is None       # opening reads nothing
    assert read(ds) == sizes()
    assert ds.columns == {"img.width": np.dtype("int64"), "img.height": np.dtype("int64")}
    turn = ds.column("img.turn").tolist()
    assert [t for i, t in enumerate(turn) if i % 6 == 5] == [6] * 4
    assert [t for i, t in enumerate(turn) if i % 6 in (0, 1, 3, 4)] == [1] * 16
    assert ds.column("img.units").tolist() == [1] * N
    assert ds.column("json.width", read=True).tolist() == [1000 + i for i in range(N)]      # JSON's own
    assert stoker.open(folder).columns == ds.columns         # found, not made again
    assert 64 + 8 * N <= os.path.getsize(beside(folder)) <= 64 + 8 * N + 80


def large(i, quality=95):
    """More than 64 KiB; every other JPEG has its turn beyond the first 4 KiB."""
    out, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    exif[0x010e] = "x" * 9000
    noise = np.random.default_rng(i).integers(0, 256, (200, 300 + i, 3), dtype=np.uint8)
    options = {"exif": exif} if i % 4 == 0 else {}
    Image.fromarray(noise).save(out, "WEBP" if i % 2 else "JPEG", quality=quality, **options)
    return out.getvalue()


def turned_at_the_end(kind, i):
    """A PNG or WebP whose EXIF is after its pixels."""
    out, exif = io.BytesIO(), Image.Exif()
    noise = np.random.default_rng(i).integers(0, 256, (400, 300 + i, 3), dtype=np.uint8)
    exif[0x0112] = 8
    if kind == "WEBP":
        Image.fromarray(noise).save(out, kind, quality=95, exif=exif)
        return out.getvalue()
    Image.fromarray(noise).save(out, kind)
    raw, tiff = out.getvalue(), exif.tobytes().removeprefix(b"Exif\0\0")
    chunk = struct.pack(">I", len(tiff)) + b"eXIf" + tiff
    return raw[:-12] + chunk + struct.pack(">I", zlib.crc32(chunk[4:])) + raw[-12:]


def read_so_far():
    return int(open("/proc/self/io").read().split()[1])


def test_only_heads_are_read(tmp_path):
    blobs = [large(i) for i in range(N)]
    write_tar(tmp_path / "a.tar", [(f"{i:04d}.img", blob) for i, blob in enumerate(blobs)])
    ds = stoker.open(tmp_path)
    before = read_so_far()
    assert ds.column("img.width").tolist() == [300 + i for i in range(N)]
    took, all_of_it = read_so_far() - before, sum(map(len, blobs))
    assert all_of_it > 65536 * N and took < all_of_it / 2, (took, all_of_it)     # of every other JPEG 68 KiB, of all others 4
    assert ds.column("img.turn").tolist() == [6 if i % 4 == 0 else 1 for i in range(N)]


def test_what_the_head_does_not_say(tmp_path):
    """Turns in the last chunk of a picture."""
    blobs = [("img", turned_at_the_end("WEBP" if i % 2 else "PNG", i)) for i in range(6)]
    assert all(len(blob) > 65536 for _, blob in blobs)
    write_tar(tmp_path / "a.tar", [(f"{i:04d}.{name}", blob) for i, (name, blob) in enumerate(blobs)])
    ds = stoker.open(tmp_path)
    assert ds.column("img.turn").tolist() == [8] * 6 and ds.column("img.width").tolist() == [300 + i for i in range(6)]


@pytest.mark.parametrize("ending", ["mkv", "mp4", "webm"])
def test_frames_of_a_video(tmp_path, ending):
    if not shutil.which("ffmpeg"):
        pytest.skip("the ffmpeg program makes the videos: apt install ffmpeg")
    codec = ["-c:v", "libvpx", "-deadline", "realtime"] if ending == "webm" else ["-c:v", "libx264", "-preset", "ultrafast"]
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=320x180:rate=30,noise=alls=20:allf=t", "-frames:v", "90",
                    *codec, tmp_path / f"x.{ending}"], check=True, stdin=subprocess.DEVNULL)
    blob = (tmp_path / f"x.{ending}").read_bytes()
    assert len(blob) > 65536
    write_tar(tmp_path / "a.tar", [(f"0.{ending}", blob)])
    ds = stoker.open(tmp_path / "a.tar")
    assert ds.column(f"{ending}.units").tolist() == [90] and ds.column(f"{ending}.width").tolist() == [320]


def test_where_and_sql(folder):
    chosen = stoker.open(folder, where="img.width >= 180 AND img.height < 118 AND json.width <> 1012")
    assert len(chosen) == sum(w >= 180 and h < 118 and i != 12 for i, (w, h) in enumerate(sizes()))
    pa = pytest.importorskip("pyarrow")
    table = pa.table(stoker.open(folder))
    assert table["img.width"].to_pylist() == [w for w, _ in sizes()]


def test_by_columns_and_by_points(folder):
    ds = stoker.open(folder, columns=["img.width", "json.width"])
    assert set(ds.columns) == {"img.width", "img.height", "json.width"}
    os.remove(beside(folder))
    subprocess.run([os.environ["STOKER_CLI"], "index", "--points", str(folder)], check=True, capture_output=True)
    assert beside(folder) and beside(folder, ".seek")
    assert read(stoker.open(folder)) == sizes()
    os.remove(beside(folder))
    subprocess.run([os.environ["STOKER_CLI"], "index", "--columns", "img.height", str(folder)], check=True, capture_output=True)
    assert beside(folder)


def test_damaged_is_made_again(folder):
    assert read(stoker.open(folder)) == sizes()
    path = beside(folder)
    whole = path.read_bytes()
    for at in range(0, len(whole), 11):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1:])
        assert read(stoker.open(folder)) == sizes(), at
        assert path.read_bytes() == whole, at
    for cut in (0, 10, 64, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert read(stoker.open(folder)) == sizes()
        assert path.read_bytes() == whole


def test_stale_is_made_again(folder):
    assert read(stoker.open(folder)) == sizes()
    shard(folder / "a.tar", range(N), shift=1)
    subprocess.run([os.environ["STOKER_CLI"], "index", str(folder)], check=True, capture_output=True)
    assert read(stoker.open(folder)) == sizes(shift=1)


def test_carried_over_when_the_list_grows(folder):
    assert read(stoker.open(folder)) == sizes()
    shard(folder / "b.tar", range(5), key="b")
    before = (folder / "a.tar").stat()
    with open(folder / "a.tar", "r+b") as f:
        f.seek(512)
        f.write(bytes(64))                                    # the first picture is not one any more, ...
    os.utime(folder / "a.tar", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert read(stoker.open(folder)) == sizes() + sizes(5)    # ... which no one read


def test_bad_pictures_have_no_size(tmp_path):
    good = encoded(0)
    write_tar(tmp_path / "a.tar", [("0.img", good[:30]), ("1.img", b""), ("2.img", good), ("3.img", b"\x89PNG\r\n\x1a\n" + b"\0" * 9000),
                                   ("4.cls", b"1"), ("5.img", good[:-40])])
    width = stoker.open(tmp_path).column("img.width")
    assert np.isnan(width[[0, 1, 3, 4]]).all() and width[[2, 5]].tolist() == [150, 150]    # cut off pictures have their header
    with pytest.raises(stoker.StokerError, match="img.width|no column|cls"):
        stoker.open(tmp_path).column("cls.width")


def test_tables(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq
    rows = {"image": [{"bytes": encoded(i), "path": f"{i}.jpg"} for i in range(N)], "label": list(range(N))}
    pq.write_table(pa.table(rows), tmp_path / "x.parquet")
    ds = stoker.open(tmp_path / "x.parquet")
    name = "image.bytes" if "image.bytes" in ds.fields else "image"
    assert ds.column(f"{name}.width").tolist() == [w for w, _ in sizes()]
    assert len(stoker.open(tmp_path / "x.parquet", where=f"{name}.width >= 180 AND label < 20")) == sum(w >= 180 and i < 20 for i, (w, _) in enumerate(sizes()))
