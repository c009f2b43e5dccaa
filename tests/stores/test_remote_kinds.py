# SPDX-License-Identifier: Apache-2.0
"""Token files, arrays, Parquet and the commands on addresses: what local files give, through a cache and without."""
import gzip
import os
import pathlib
import shutil
import struct
import subprocess

import faults
import numpy as np
import pytest
from epochs import epoch
from small_shards import EACH, SHARDS

import stoker

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services
TOKENS = {"input": "tokens(block=64)", "label": "tokens(block=64, shift=1) | to(i32)"}
CHUNK = 4 << 20


@pytest.fixture(scope="module")
def arrays(data):
    """Token files of two kinds and an array, more than a chunk of each."""
    folder, rng = data / "arrays", np.random.default_rng(3)
    folder.mkdir()
    for i in range(2):
        rng.integers(0, 60000, 2_500_000 + i, dtype=np.uint16).tofile(folder / f"t{i}.bin")
    np.save(folder / "rows.npy", rng.standard_normal((30_000, 40)).astype(np.float32))
    docs = [rng.integers(0, 60000, n, dtype=np.uint16) for n in (300, 5000, 1)]
    np.concatenate(docs).tofile(folder / "m.bin")
    sizes = np.array([len(d) for d in docs], np.int32)
    at = np.concatenate([[0], np.cumsum(sizes[:-1].astype(np.int64) * 2)]).astype(np.int64)
    (folder / "m.idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(docs), len(docs) + 1) + sizes.tobytes() +
                                   at.tobytes() + np.arange(len(docs) + 1, dtype=np.int64).tobytes())
    return folder


def batches(url, fields, store=None):
    with stoker.Loader(str(url), fields, batch_size=50, shuffle=True, seed=2, num_workers=2, store=store,
                       epoch_size=1000) as loader:
        return [np.asarray(batch[name]).tobytes() for batch in loader for name in sorted(fields)]


@pytest.mark.parametrize("name, fields", [("t{0,1}.bin", TOKENS), ("m.bin", {"input": "tokens(block=64)"}),
                                          ("rows.npy", {"x": "from(array) | to(f16)"})])
def test_tokens_and_arrays(web, arrays, tmp_path, name, fields):
    want = batches(arrays / name, fields)
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/arrays/{name}"
        assert batches(url, fields) == want
        full = stoker.Store(cache=tmp_path / "cache", cache_limit=65536)        # by range, never refused
        assert batches(url, fields, full) == want
        store = stoker.Store(cache=tmp_path / "room")
        assert batches(url, fields, store) == want
        proxy.sizes.clear()
        assert batches(url, fields, store) == want
        assert all(size <= 1 for size in proxy.sizes), proxy.sizes     # mapped: only sizes and versions are asked for


def test_parquet(web, data, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq
    rng, folder = np.random.default_rng(4), data / "tables"
    folder.mkdir()
    for i in range(2):
        pq.write_table(pa.table({"bin": [rng.bytes(int(n)) for n in rng.integers(1, 60000, 100)],
                                 "n": list(range(i * 100, i * 100 + 100))}), folder / f"p{i}.parquet")
    fields = {"bin": "bytes", "n": "int"}

    def rows(url, store=None):
        with stoker.Loader(str(url), fields, batch_size=20, shuffle=True, seed=1, store=store) as loader:
            return [(int(n), bytes(b)) for batch in loader for n, b in zip(batch["n"], batch["bin"], strict=True)]

    want = rows(folder / "p{0,1}.parquet")
    assert sorted(n for n, _ in want) == list(range(200))
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/tables/p{{0,1}}.parquet"
        assert rows(url) == want
        store = stoker.Store(cache=tmp_path / "cache")
        assert rows(url, store) == want
        proxy.sizes.clear()
        assert rows(url, store) == want
        assert all(size <= 1 for size in proxy.sizes), proxy.sizes


def test_arrow(web, data, tmp_path):
    pa = pytest.importorskip("pyarrow")
    rng, folder = np.random.default_rng(5), data / "arrow"
    folder.mkdir()
    for i in range(2):
        table = pa.table({"bin": [rng.bytes(int(n)) for n in rng.integers(1, 60000, 100)], "n": list(range(i * 100, i * 100 + 100))})
        with pa.OSFile(str(folder / f"a{i}.arrow"), "wb") as to, pa.ipc.new_file(to, table.schema) as out:
            out.write_table(table)

    def rows(url, store=None):
        with stoker.Loader(str(url), {"bin": "bytes", "n": "int"}, batch_size=20, shuffle=True, seed=1, store=store) as loader:
            return [(int(n), bytes(b)) for batch in loader for n, b in zip(batch["n"], batch["bin"], strict=True)]

    want = rows(folder / "a{0,1}.arrow")
    assert sorted(n for n, _ in want) == list(range(200))
    with faults.Proxy(web[0]) as proxy:
        url, store = f"http://127.0.0.1:{proxy.port}/arrow/a{{0,1}}.arrow", stoker.Store(cache=tmp_path / "cache")
        assert rows(url, store) == want
        proxy.sizes.clear()
        assert rows(url, store) == want
        assert all(size <= 1 for size in proxy.sizes), proxy.sizes         # mapped from the cache
        for none in (None, stoker.Store(cache=tmp_path / "full", cache_limit=65536)):
            with pytest.raises(stoker.StokerError, match="a cache with room"):
                rows(url, none)


def cli(*words, code=0):
    program = shutil.which("stoker") or str(pathlib.Path(stoker.__file__).parent / "stoker-cli")
    done = subprocess.run([program, *map(str, words)], capture_output=True, timeout=180, env=dict(os.environ))
    assert done.returncode == code, done.stderr
    return done.stdout


def test_commands_take_addresses(web, data, tmp_path):
    here = ("--store-cache", tmp_path / "cache")
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar"
        for more in ((), here):
            assert cli("ls", url, *more).count(b"\n") == SHARDS * EACH
            assert cli("cat", url, "000007", "cls", *more).strip() == b"7"
            assert b"all good" in cli("check", url, *more)
            assert b"samples" in cli("bench", url, "--field", "bin=bytes", "--seconds", "0.5", *more)
        proxy.sizes.clear()
        cli("check", url, *here)
        assert all(size <= 1 for size in proxy.sizes), proxy.sizes


def test_packed_shards(web, data, tmp_path):
    folder = data / "packed"
    folder.mkdir()
    for path in sorted(data.glob("t-*.tar")):
        (folder / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 1))
    want = epoch(data / "t-{000..002}.tar")
    with faults.Proxy(web[0]) as proxy:
        url, store = f"http://127.0.0.1:{proxy.port}/packed/t-{{000..002}}.tar.gz", stoker.Store(cache=tmp_path / "cache")
        assert epoch(url, store) == want
        proxy.requests.clear()
        assert epoch(url, store) == want
        assert proxy.requests == []
