# SPDX-License-Identifier: Apache-2.0
"""store=stoker.Store(...) reaches everything that reads or writes remote data; the environment has no keys here."""
import io
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

import stoker

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services
KEYS = {"access_key": "test:tester", "secret_key": "testing"}


@pytest.fixture
def store(swift):
    return stoker.Store(endpoint=f"http://127.0.0.1:{swift.port}", credentials=KEYS)


def objects(swift, prefix):
    return {k[len(prefix):]: swift.get("data", k) for k in swift.keys("data") if k.startswith(prefix)}


def test_pack_reads_and_writes_by_a_store(swift, store, data, tmp_path):
    chains = {"txt": "from(cls) | int | encode(text)"}
    stoker.pack(f"{data}/t-000.tar", tmp_path / "local", fields=chains, samples=30)
    made = stoker.pack("s3://data/train/t-000.tar", "s3://data/by/chains", fields=chains, samples=30, store=store)
    there = objects(swift, "by/chains/")
    want = {p.name: p.read_bytes() for p in (tmp_path / "local").glob("*.tar")}
    assert len(want) > 1 and {k: v for k, v in there.items() if k.endswith(".tar")} == want
    assert any(k.startswith(".stoker/") and k.endswith(".idx") for k in there)      # the index is beside it
    again = stoker.pack("s3://data/train/t-000.tar", "s3://data/by/chains", fields=chains, samples=30, store=store)
    assert again["kept_shards"] == len(want) and made["kept_shards"] == 0
    copied = stoker.pack(stoker.open("s3://data/train/t-000.tar", store=store), "s3://data/by/copy-%02d.tar", samples=30, store=store)
    assert len(stoker.open(copied["pattern"], store=store)) == copied["samples"]
    with pytest.raises(stoker.StokerError, match="store must be a stoker.Store"):
        stoker.pack(f"{data}/t-000.tar", tmp_path / "x", store={"endpoint": "x"})


def test_writer_and_stream_by_a_store(swift, store):
    with stoker.Writer("s3://data/by/w-%03d.tar", max_count=3, store=store) as out:
        for i in range(5):
            out.write({"__key__": f"{i}", "txt": f"text {i}"})
    assert [s["txt"] for s in stoker.open("s3://data/by/w-{000..001}.tar", store=store)] == [b"text %d" % i for i in range(5)]
    data = stoker.stream("s3://data/by/w-{000..001}.tar", store=store)
    with stoker.Loader(data, {"txt": "bytes"}, batch_size=5, epoch_size=5) as loader:      # closed while the server runs
        assert [bytes(t) for t in next(iter(loader))["txt"]] == [b"text %d" % i for i in range(5)]
    with pytest.raises(stoker.StokerError, match="store must be a stoker.Store"):
        stoker.Writer("s3://data/by/x-%03d.tar", store="here")


def test_arrays_mix_and_prepared_by_a_store(swift, store, data, tmp_path):
    for name, dtype in (("x", "f4"), ("y", "i8")):
        file = io.BytesIO()
        np.save(file, np.arange(10, dtype=dtype))
        swift.put("data", f"by/{name}.npy", file.getvalue())
    pair = stoker.open({"x": "s3://data/by/x.npy", "y": "s3://data/by/y.npy"}, store=store)
    assert [(s["x"], s["y"]) for s in pair] == [(i, i) for i in range(10)]
    mixed = stoker.mix({"a": ("s3://data/train/t-000.tar", 1), "b": (f"{data}/t-001.tar", 1)}, store=store)
    assert len(mixed) == 2 * len(stoker.open(f"{data}/t-000.tar"))
    ready = stoker.prepared("s3://data/train/t-000.tar", tmp_path / "ready", fields={"bin": None, "cls": "int | encode(text)"}, store=store)
    assert len(ready) == len(mixed.datasets[0]) and "bin" not in ready.fields


def test_an_index_that_is_in_the_cache_is_put_beside_the_data(swift, store, data, monkeypatch):
    for i in range(2):
        swift.put("data", f"late/t-{i}.tar", (data / f"t-00{i}.tar").read_bytes())
    assert len(stoker.open("s3://data/late/", store=store)) and not objects(swift, "late/.stoker/")      # it is in the cache alone
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test:tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{swift.port}")
    program = shutil.which("stoker") or str(pathlib.Path(stoker.__file__).parent / "stoker-cli")
    for _ in range(2):
        done = subprocess.run([program, "index", "s3://data/late/"], capture_output=True, text=True, timeout=180, check=True)
        assert "already there" in done.stdout and len(objects(swift, "late/.stoker/")) == 1
