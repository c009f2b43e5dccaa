# SPDX-License-Identifier: Apache-2.0
"""Packed fields and vocabularies through the loader: x.gz, x.zst and x.lz4 stand in for x, bombs and torn files are bad samples."""

import gzip
import io
import json
import random
import shutil
import subprocess
import tempfile
import zlib

import numpy as np
import pytest
from PIL import Image

import shards

SEED = 20250308


def zst(data, *options):
    if not shutil.which("zstd"):
        pytest.skip("no zstd program here")
    return subprocess.run(["zstd", "-q", "-c", *options], input=data, capture_output=True, check=True).stdout


def lz4(data, *options):
    if not shutil.which("lz4"):
        pytest.skip("no lz4 program here")
    return subprocess.run(["lz4", "-q", "-c", *options], input=data, capture_output=True, check=True).stdout


def lz4_sized(data):
    """With the size in the frame's head, which lz4 knows of files alone."""
    with tempfile.NamedTemporaryFile() as f:
        f.write(data)
        f.flush()
        return lz4(b"", "--content-size", f.name)


def texts():
    rng = random.Random(SEED)
    return [b"", b"x", b"hello " * 1000, bytes(rng.randrange(256) for _ in range(70000)), bytes(3_000_000)]


PACKERS = {
    "gz": lambda d: gzip.compress(d),
    "gz, fast": lambda d: gzip.compress(d, 1),
    "gz, in members": lambda d: gzip.compress(d[: len(d) // 3]) + gzip.compress(d[len(d) // 3 :]),
    "gz, with a name": lambda d: gzip_named(d),
    "zst": lambda d: zst(d),
    "zst, no size": lambda d: zst(d, "--no-content-size"),
    "zst, in frames": lambda d: zst(d[: len(d) // 3]) + zst(d[len(d) // 3 :]),
    "lz4": lambda d: lz4(d),
    "lz4, blocks that go on": lambda d: lz4(d, "-BD", "-B4", "-BX"),
    "lz4, with its size": lambda d: lz4(d, "--content-size", "--no-frame-crc"),
    "lz4, sized or not": lambda d: lz4_sized(d[: len(d) // 3]) + lz4(d[len(d) // 3 :], "-B4"),
    "lz4, in frames": lambda d: lz4(d[: len(d) // 3]) + b"\x51\x2A\x4D\x18\x03\0\0\0abc" + lz4(d[len(d) // 3 :]),
}


def gzip_named(data):
    out = io.BytesIO()
    with gzip.GzipFile("a name.txt", "wb", fileobj=out, mtime=7) as f:
        f.write(data)
    return out.getvalue()


@pytest.mark.parametrize("name", PACKERS)
def test_unpacked_unasked(tmp_path, name):
    ext = name.split(",")[0]
    path = shards.write(tmp_path / "a.tar", [{f"bin.{ext}": PACKERS[name](t)} for t in texts()])
    assert shards.rows(path, "from(bin) | bytes") == texts()
    assert shards.rows(path, "from(bin) | bytes", num_workers=2) == texts()
    step = {"gz": "gunzip", "zst": "unzstd", "lz4": "unlz4"}[ext]
    assert shards.rows(path, f"from('bin.{ext}') | {step} | bytes") == texts()


def test_the_field_itself_goes_first(tmp_path):
    path = shards.write(tmp_path / "a.tar", [{"txt": b"plain", "txt.gz": gzip.compress(b"packed")}, {"txt.gz": gzip.compress(b"only")}])
    assert shards.rows(path, "from(txt) | text") == ["plain", "only"]
    packed = shards.rows(path, "from('txt.gz') | bytes")
    assert [gzip.decompress(p) for p in packed] == [b"packed", b"only"], "asked for by its whole name: as it is"


def test_before_any_chain(tmp_path):
    pixels = np.random.default_rng(SEED).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    png = io.BytesIO()
    Image.fromarray(pixels).save(png, "PNG")
    samples = [{"json.gz": gzip.compress(json.dumps({"a": {"b": i}}).encode()), "png.gz": gzip.compress(png.getvalue())} for i in range(5)]
    path = shards.write(tmp_path / "a.tar", samples)
    assert [int(v) for v in shards.rows(path, "from(json) | json(a.b) | int", collate="stack")] == list(range(5))
    for row in shards.rows(path, "from(png) | image"):
        np.testing.assert_array_equal(np.asarray(row).transpose(1, 2, 0), pixels)


def bad(tmp_path, ext, data, says):
    import stoker

    path = shards.write(tmp_path / f"{len(list(tmp_path.iterdir()))}.tar", [{f"bin.{ext}": data}])
    with pytest.raises(stoker.StokerError, match=says):
        shards.rows(path, "from(bin) | bytes")


def test_torn_gzip(tmp_path):
    data = gzip.compress(random.Random(SEED).randbytes(300))
    for n in [0, 5, 17, 18, 60, len(data) - 9, len(data) - 8, len(data) - 1]:
        bad(tmp_path, "gz", data[:n], "gunzip: truncated")
    bad(tmp_path, "gz", b"x" * 100, "gunzip: .* not a gzip")
    bad(tmp_path, "gz", data[:-5] + b"x" + data[-4:], "gunzip: .* damaged")
    bad(tmp_path, "gz", zlib.compress(bytes(1000) + b"x" * 50), "gunzip: .* not a gzip|truncated")


def test_torn_zstd(tmp_path):
    data = zst(random.Random(SEED).randbytes(300))
    for n in [0, 3, 20, len(data) - 1]:
        bad(tmp_path, "zst", data[:n], "unzstd: ")
    bad(tmp_path, "zst", b"x" * 100, "unzstd: ")
    bad(tmp_path, "zst", data[:-1] + bytes([data[-1] ^ 1]), "unzstd: ")


def test_torn_lz4(tmp_path):
    data = lz4(random.Random(SEED).randbytes(300) + bytes(1000), "-BX")
    for n in [0, 3, 6, 20, len(data) - 5, len(data) - 1]:
        bad(tmp_path, "lz4", data[:n], "unlz4: truncated")
    bad(tmp_path, "lz4", b"x" * 100, "unlz4: .* damaged")
    for at in (5, 6, 15, 40, len(data) - 9, len(data) - 1):     # head, blocks, checksums
        bad(tmp_path, "lz4", data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :], "unlz4: ")


def test_bombs(tmp_path):
    bad(tmp_path, "lz4", lz4(bytes(300 << 20)), "unlz4: .* more than the limit of 268435456")
    nothing = gzip.compress(bytes(32 << 20), 9)
    bad(tmp_path, "gz", nothing * 9, "gunzip: .* more than the limit of 268435456")
    bad(tmp_path, "zst", zst(bytes(300 << 20)), "unzstd: .* more than the limit of 268435456")


def test_vocab(tmp_path):
    import stoker

    names = tmp_path / "names.txt"
    names.write_text("zebra\ngolden retriever\ncat\n")
    path = shards.write(tmp_path / "a.tar", [{"cls": b"cat\n", "json": b'{"l": "zebra"}'}, {"cls": b"golden retriever", "json": b'{"l":"cat"}'}])
    assert [int(v) for v in shards.rows(path, f"from(cls) | vocab('{names}')", collate="stack")] == [2, 1]
    assert [int(v) for v in shards.rows(path, f"from(json) | json(l) | text | vocab('{names}')", collate="stack")] == [0, 2]
    names.write_text("zebra\ncat\n")
    with pytest.raises(stoker.StokerError, match='vocab: "golden retriever" is none of the 2 names.*000001'):
        shards.rows(path, f"from(cls) | vocab('{names}')", collate="stack")
    with pytest.raises(stoker.StokerError, match="nowhere.txt"):
        shards.rows(path, "from(cls) | vocab('nowhere.txt')", collate="stack")
