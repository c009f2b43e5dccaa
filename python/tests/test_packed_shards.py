# SPDX-License-Identifier: Apache-2.0
"""Shards that are packed as a whole (.tar.gz, .tar.zst, .tar.lz4): unpacked once, then as plain tar."""
import hashlib
import io
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tarfile

import pytest
from tfrecords import record

import stoker

pa = pytest.importorskip("pyarrow")
KINDS = {"gz": "gzip", "zst": "zstd", "lz4": "lz4"}
CLI = [shutil.which("stoker") or str(pathlib.Path(stoker.__file__).parent / "stoker-cli")]
FIELDS = {"bin": "bytes", "cls": "int"}


def make_tar(seed, n=40):
    rng, out = random.Random(seed), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for k in range(n):
            noise = rng.randbytes(rng.randint(1, 60000))
            for ext, data in (("bin", noise + b"the same again " * rng.randint(0, 9000) + noise), ("cls", str(k % 10).encode())):
                info = tarfile.TarInfo(f"{seed}{k:05}.{ext}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def pack(raw, kind):
    return pa.compress(raw, codec=KINDS[kind], asbytes=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    for i in range(2):
        raw = make_tar(i)
        (folder / f"t{i}.tar").write_bytes(raw)
        for kind in KINDS:
            half = len(raw) // 2 if kind != "lz4" else len(raw)     # members and frames one after another
            (folder / f"t{i}.tar.{kind}").write_bytes(pack(raw[:half], kind) + (pack(raw[half:], kind) if half < len(raw) else b""))
    return folder


def epoch(url, store=None):
    with stoker.Loader(str(url), FIELDS, batch_size=8, shuffle=True, seed=3, num_workers=2, store=store) as loader:
        return [(int(i), hashlib.sha256(bytes(x)).hexdigest())
                for batch in loader for i, x in zip(batch.sample_ids, batch["bin"], strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_they_give_what_plain_tar_gives(folder, tmp_path, kind, monkeypatch):
    want, url = epoch(folder / "t{0,1}.tar"), folder / f"t{{0,1}}.tar.{kind}"
    store = stoker.Store(cache=tmp_path / "cache")
    assert epoch(url, store) == want
    objects = sorted((tmp_path / "cache").glob("stoker-cache-1/*.obj"))
    times = [(path.stat().st_ino, path.stat().st_size) for path in objects]
    assert len(objects) == 2 and not list((tmp_path / "cache").glob("stoker-cache-1/*.lock"))
    assert epoch(url, store) == want
    assert [(path.stat().st_ino, path.stat().st_size) for path in objects] == times      # not unpacked again
    raw = bytearray(objects[0].read_bytes())
    raw[1000] ^= 1                                          # and written before the machine was started
    n = (len(raw) - 4096) // ((4 << 20) + 8) + 1
    for i in range(len(raw) - 8 * n, len(raw), 8):
        raw[i + 4] ^= 2
    objects[0].write_bytes(raw)
    assert epoch(url, stoker.Store(cache=tmp_path / "cache")) == want


def test_without_a_cache(folder):
    with pytest.raises(stoker.StokerError, match="unpacked into a cache.*STOKER_STORE_CACHE"):
        stoker.open(folder / "t0.tar.gz")


def test_without_room(folder, tmp_path):
    store = stoker.Store(cache=tmp_path / "cache", cache_limit=100)
    with pytest.raises(stoker.StokerError, match="no room for it.*cache_limit"):
        stoker.open(folder / "t0.tar.gz", store=store)
    assert not list((tmp_path / "cache").glob("stoker-cache-1/*.obj"))


@pytest.mark.parametrize("kind", KINDS)
def test_damage(folder, tmp_path, kind):
    raw, store = (folder / f"t0.tar.{kind}").read_bytes(), stoker.Store(cache=tmp_path / "cache")
    rng = random.Random(1)
    for i in range(12):
        bad = bytearray(raw[:rng.randrange(len(raw))] if i < 5 else raw)
        for _ in range(0 if i < 5 else 20):
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        (tmp_path / f"{i}.tar.{kind}").write_bytes(bad)
        try:
            stoker.open(tmp_path / f"{i}.tar.{kind}", store=store)
            assert i >= 5                               # a flipped bit in a literal is tar's to find
        except stoker.StokerError:
            pass


def test_a_file_that_changes(folder, tmp_path):
    store, path = stoker.Store(cache=tmp_path / "cache"), tmp_path / "a.tar.gz"
    path.write_bytes(pack(make_tar(5), "gz"))
    assert stoker.open(path, store=store)[3]["__key__"] == "500003"
    path.write_bytes(pack(make_tar(6), "gz"))
    os.utime(path, (1, 1))
    with pytest.raises(stoker.StokerError, match="the index was made from"):      # as of a plain shard
        stoker.open(path, store=store)
    subprocess.run([*CLI, "index", "--force", str(path), "--store-cache", str(tmp_path / "cache")], check=True,
                   capture_output=True, timeout=120)
    assert stoker.open(path, store=store)[3]["__key__"] == "600003"


def test_processes_unpack_once(folder, tmp_path):
    code = "import sys, stoker; print(len(stoker.open(sys.argv[1], store=stoker.Store(cache=sys.argv[2]))))"
    all_ = [subprocess.Popen([sys.executable, "-c", code, str(folder / "t{0,1}.tar.zst"), str(tmp_path / "cache")],
                             stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [p.communicate(timeout=180)[0] for p in all_] == ["80\n"] * 3
    assert len(list((tmp_path / "cache").glob("stoker-cache-1/*.obj"))) == 2


@pytest.fixture
def seekable(folder, tmp_path, monkeypatch):
    """The plain shards packed in zstd's seekable format, by our own pack; no cache."""
    monkeypatch.delenv("STOKER_STORE_CACHE", raising=False)
    stoker.pack(str(folder / "t{0,1}.tar"), str(tmp_path / "out"), compress="zstd")
    return sorted((tmp_path / "out").glob("*.tar.zst"))


def test_seekable_zstd_is_read_in_place(folder, seekable, tmp_path):
    want = epoch(folder / "t{0,1}.tar")
    assert epoch(tmp_path / "out" / "*.tar.zst") == want
    ds, plain = stoker.open(str(tmp_path / "out" / "*.tar.zst")), stoker.open(str(folder / "t{0,1}.tar"))
    for i in (79, 0, 41, 40, 3, 78):
        assert {**ds[i], "__url__": None} == {**plain[i], "__url__": None}
    del ds
    store = stoker.Store(cache=tmp_path / "cache")          # with one: the same index, the same batches
    assert epoch(tmp_path / "out" / "*.tar.zst", store) == want
    assert any((tmp_path / "cache").rglob("*.obj"))


def test_frames_that_are_kept_count(folder, seekable, tmp_path):
    """Frames of a data set that stay unpacked are a part of memory_limit, and go with the loader."""
    shards, fields = str(tmp_path / "out" / "*.tar.zst"), {"cls": "int"}
    ds = stoker.open(shards)
    size = min(path.stat().st_size for path in folder.glob("t[01].tar"))
    with stoker.Loader(ds, fields, batch_size=8, num_workers=2) as loader:
        got = [batch["cls"].tolist() for batch in loader]
        kept = loader.stats()["memory_of"]["reads"]
        with stoker.Loader(str(folder / "t{0,1}.tar"), fields, batch_size=8, num_workers=2) as plain:
            assert got == [batch["cls"].tolist() for batch in plain]
            assert plain.stats()["memory_of"]["reads"] + 500_000 < kept <= loader.stats()["memory_peak"]     # "memory" goes up and down
    with stoker.Loader(ds, fields, batch_size=8, num_workers=0, memory_limit=max(size * 2, 1 << 20)) as loader:
        assert got == [batch["cls"].tolist() for batch in loader]
        assert loader.stats()["memory_peak"] <= loader.stats()["memory_limit"]


def test_seek_tables_that_lie(seekable):
    path = seekable[0]
    good = path.read_bytes()
    foot = len(good) - 9
    frames = int.from_bytes(good[foot:foot + 4], "little")
    table = foot - 8 * frames
    assert good[foot + 5:] == bytes.fromhex("b1ea928f") and frames > 0
    words = {table - 8: b"\x5d", table - 4: b"\0", table: b"\xff\xff\xff\xff", table + 4: b"\xff\xff\xff\xff", foot: b"\xff\xff\xff\x7f",
             foot + 4: b"\x7c", foot + 5: b"\0", foot + 3: b"\xff"}
    for at, bad in words.items():                           # not in that format, then: it needs a cache
        path.write_bytes(good[:at] + bad + good[at + len(bad):])
        with pytest.raises(stoker.StokerError, match="cache"):
            len(stoker.open(str(path)))
    path.write_bytes(good[:40] + bytes([good[40] ^ 0x55]) + good[41:])
    with pytest.raises(stoker.StokerError):
        len(stoker.open(str(path)))


@pytest.mark.parametrize("kind", KINDS)
def test_lines_and_records(tmp_path, kind):
    """JSON lines, CSV and TFRecord are packed as a whole too; without a cache an error says what to do."""
    files = {"a.jsonl": b'{"a": 1}\n{"a": "x"}\n', "b.ndjson": b'{"a": 1}\n{"a": "x"}\n', "c.csv": b'a,b\n1,2\n"x",3\n', "d.tsv": b"a\tb\n1\t2\nx\t3\n",
             "e.tfrecord": 2 * record(b"x" * 20), "f.tfrecord-00000-of-00001": 2 * record(b"x" * 20), "g.jsonl": b""}
    store = stoker.Store(cache=tmp_path / "cache")
    for name, data in files.items():
        (tmp_path / f"{name}.{kind}").write_bytes(pack(data, kind))
        got = [s.get("a", s.get("record")) for s in stoker.open(str(tmp_path / f"{name}.{kind}"), store=store)]
        assert got == ([] if not data else [b"x" * 20] * 2 if "tfrecord" in name else [b"1", b"x"]), name
    (tmp_path / f"h.jsonl.{kind}").write_bytes(pack(files["a.jsonl"] * 99, kind)[:-5])
    with pytest.raises(stoker.StokerError):
        stoker.open(str(tmp_path / f"h.jsonl.{kind}"), store=store)
    with pytest.raises(stoker.StokerError, match="STOKER_STORE_CACHE"):
        stoker.open(str(tmp_path / f"a.jsonl.{kind}"))
    with stoker.Loader(str(tmp_path / f"[ab].*json*.{kind}"), {"a": "text"}, batch_size=4, store=store) as loader:
        assert [bytes(t) if not isinstance(t, str) else t.encode() for batch in loader for t in batch["a"]] == [b"1", b"x"] * 2
