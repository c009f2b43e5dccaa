# SPDX-License-Identifier: Apache-2.0
"""Shards that are compressed while they are packed: what is in them, in which frames, and who can read them."""

import gzip
import os
import shutil
import struct
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from conftest import SAMPLES
from pack_functions import keep, nothing

import stoker

WAYS = {"gz": ".tar.gz", "zstd": ".tar.zst", "lz4": ".tar.lz4"}
CLI = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))
SMALL = {"jpg": "image | resize(32) | encode(jpeg, 90)"}


@pytest.fixture(params=WAYS)
def way(request):
    if f"{request.param.replace('gz', 'zlib')}: none" in stoker.build_info():
        pytest.skip("this build has no " + request.param)
    return request.param


def unpacked(way, packed):
    """By a program that is not ours; None: there is none here."""
    if way == "gz":
        return gzip.decompress(packed)
    program = shutil.which(way)
    return subprocess.run([program, "-dc"], input=packed, capture_output=True, check=True).stdout if program else None


def shards_of(folder, suffix):
    return {p.name.removesuffix(suffix): p.read_bytes() for p in sorted(Path(folder).glob("*" + suffix))}


def fields_of(sample):
    return {k: v for k, v in sample.items() if k != "__url__"}


@pytest.mark.parametrize("fields", [None, SMALL], ids=["copied", "made"])
def test_shards_unpack_to_plain_ones(urls, tmp_path, way, fields):
    stoker.pack(urls, tmp_path / "plain", fields=fields, samples=30, shuffle=1)
    done = stoker.pack(urls, tmp_path / "one", fields=fields, samples=30, shuffle=1, compress=way, num_proc=1)
    stoker.pack(urls, tmp_path / "eight", fields=fields, samples=30, shuffle=1, compress=way, num_proc=8)
    plain, packed = shards_of(tmp_path / "plain", ".tar"), shards_of(tmp_path / "one", WAYS[way])
    assert packed == shards_of(tmp_path / "eight", WAYS[way]) and set(packed) == set(plain)
    assert done["pattern"].endswith(WAYS[way]) and done["bytes"] == sum(map(len, packed.values()))
    for name, raw in packed.items():
        assert unpacked(way, raw) in (plain[name], None)
    again = stoker.pack(urls, tmp_path / "one", fields=fields, samples=30, shuffle=1, compress=way)
    assert again["kept_shards"] == again["shards"] == len(plain)


def test_shards_are_read_back(urls, tmp_path, way):
    stoker.pack(urls, tmp_path / "out", samples=30, compress=way)
    before = stoker.open(urls)
    after = stoker.open(str(tmp_path / "out" / ("*" + WAYS[way])), store=stoker.Store(cache=tmp_path / "cache"))
    assert [fields_of(after[i]) for i in range(len(after))] == [fields_of(before[i]) for i in range(SAMPLES)]


def test_functions_and_writers(urls, tmp_path, way):
    stoker.pack(urls, tmp_path / "plain", filter=keep, samples=30, num_proc=2)
    stoker.pack(urls, tmp_path / "out", filter=keep, samples=30, num_proc=2, compress=way)
    plain, packed = shards_of(tmp_path / "plain", ".tar"), shards_of(tmp_path / "out", WAYS[way])
    assert {n: unpacked(way, raw) or plain[n] for n, raw in packed.items()} == plain
    none = stoker.pack(urls, tmp_path / "none", filter=nothing, samples=50, num_proc=2, compress=way)
    assert (none["shards"], none["samples"]) == (2, 0)
    for raw in shards_of(tmp_path / "none", WAYS[way]).values():
        assert not tarfile.open(fileobj=BytesIO(unpacked(way, raw) or bytes(1024))).getmembers()
    with stoker.Writer(tmp_path / ("w-%d" + WAYS[way])) as out:
        out.write({"__key__": "a", "txt": "x" * 100_000})
    raw = (tmp_path / ("w-0" + WAYS[way])).read_bytes()
    assert len(raw) < 10_000
    if unpacked(way, raw) is not None:
        assert tarfile.open(fileobj=BytesIO(unpacked(way, raw))).getnames() == ["a.txt"]


def frames_of(raw):
    """(packed, unpacked) sizes from the seek table of the seekable format."""
    n, descriptor, magic = struct.unpack("<IBI", raw[-9:])
    assert (descriptor, magic) == (0, 0x8F92EAB1)
    start = len(raw) - 9 - 8 * n
    assert struct.unpack("<II", raw[start - 8:start]) == (0x184D2A5E, 8 * n + 9)
    sizes = [struct.unpack_from("<II", raw, start + 8 * i) for i in range(n)]
    assert sum(packed for packed, _ in sizes) == start - 8
    return sizes


def test_zstd_is_seekable_by_samples(tmp_path):
    if "zstd: none" in stoker.build_info():
        pytest.skip("this build has no libzstd")
    rng = np.random.default_rng(3)
    with stoker.Writer(tmp_path / "src-%d.tar") as out:
        for i in range(60):
            out.write({"__key__": f"{i:04d}", "bin": rng.integers(0, 16, rng.integers(1, 60_000), dtype=np.uint8).tobytes(), "cls": i})
    stoker.pack(tmp_path / "src-0.tar", tmp_path / "out", compress="zstd")
    raw, plain = (tmp_path / "out/shard-000000.tar.zst").read_bytes(), (tmp_path / "src-0.tar").read_bytes()
    sizes = frames_of(raw)
    assert len(sizes) > 3 and sum(u for _, u in sizes) == len(plain)
    starts = [m.offset for m in tarfile.open(fileobj=BytesIO(plain)) if m.name.endswith(".bin")]
    at = back = 0
    for packed, size in sizes:
        assert back in starts
        one = unpacked("zstd", raw[at:at + packed])
        assert one in (None, plain[back:back + size])
        at, back = at + packed, back + size


def test_a_sample_larger_than_a_frame(tmp_path, way):
    big = bytes(70 << 20)
    with stoker.Writer(tmp_path / ("a-%d" + WAYS[way])) as out:
        out.write({"__key__": "a", "bin": big})
        out.write({"__key__": "b", "bin": b"end"})
    after = stoker.open(tmp_path / ("a-0" + WAYS[way]), store=stoker.Store(cache=tmp_path / "cache"))
    assert after[0]["bin"] == big and after[1]["bin"] == b"end"


def test_errors_name_the_remedy(urls, tmp_path):
    with pytest.raises(stoker.StokerError, match="compress is"):
        stoker.pack(urls, tmp_path / "out", compress="xz")
    with pytest.raises(stoker.StokerError, match=r"%06d\.tar\.zst"):
        stoker.pack(urls, tmp_path / "s-%06d.tar", compress="zstd")
    with pytest.raises(stoker.StokerError, match="seek points"):
        stoker.pack(urls, tmp_path / "out", compress="gz", jpeg=True)
    with pytest.raises(stoker.StokerError, match="tokenize"):
        stoker.pack(urls, tmp_path / "out", compress="gz", tokenize=keep)
    done = subprocess.run([CLI, "pack", urls, str(tmp_path / "cli"), "--compress", "xz"], capture_output=True, text=True, timeout=180)
    assert done.returncode and "gz, zstd or lz4" in done.stderr
    subprocess.run([CLI, "pack", urls, str(tmp_path / "cli"), "--compress", "lz4"], check=True, capture_output=True, timeout=180)
    assert [p.name for p in (tmp_path / "cli").glob("*.tar*")] == ["shard-000000.tar.lz4"]
