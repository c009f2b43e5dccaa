# SPDX-License-Identifier: Apache-2.0
"""MosaicML's shards: what tests/made_mds.py writes is read back, plain and packed, in any order."""
import bz2
import gzip
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

import stoker

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
import made_mds  # noqa: E402

SEED = 9
COLUMNS = {"image": "jpeg", "label": "int", "score": "float32", "small": "uint8", "text": "str", "meta": "json", "vector": "ndarray:float32:2,3",
           "tokens": "ndarray:int32", "any": "ndarray", "big": "uint64", "n": "str_int"}


def samples(n=130):
    rng = random.Random(SEED)
    return [{"image": rng.randbytes(rng.randrange(200)), "label": i - 50, "score": i / 3, "small": i, "text": "é" * (i % 9), "meta": {"k": i},
             "vector": np.arange(6).reshape(2, 3) + i, "tokens": np.arange(i * 3), "any": b"\x22\x04\x01\0\0\0\0", "big": i * 2**40,
             "n": i * 7} for i in range(n)]


def pack_by(codec):
    if codec in ("gz", "bz2"):
        return {"gz": gzip, "bz2": bz2}[codec].compress
    pa = pytest.importorskip("pyarrow")
    return lambda raw: pa.compress(raw, codec={"br": "brotli"}.get(codec, codec), asbytes=True)


def check(ds, want):
    assert len(ds) == len(want)
    for i in random.Random(SEED).sample(range(len(want)), len(want)):
        got, s = ds[i], want[i]
        assert got["image"] == s["image"] and got["label"] == s["label"] and got["small"] == s["small"] and got["big"] == s["big"]
        assert got["score"] == np.float32(s["score"]) and got["text"].decode() == s["text"] and json.loads(got["meta"]) == s["meta"]
        np.testing.assert_array_equal(got["vector"].reshape(2, 3), s["vector"])
        np.testing.assert_array_equal(got["tokens"], s["tokens"])
        assert got["any"] == s["any"] and got["n"] == str(s["n"]).encode()


@pytest.mark.parametrize("codec", [None, "gz", "zstd:7", "snappy", "br", "bz2:3"])
def test_samples(tmp_path, codec):
    want = samples()
    folder = made_mds.write(tmp_path / "m", COLUMNS, want, 40, codec, codec and pack_by(codec.partition(":")[0]))
    ds = stoker.open(str(folder))
    assert ds.fields == sorted(COLUMNS) and len(ds.shards) == 4
    check(ds, want)
    check(stoker.open(str(folder / "index.json")), want)


def test_plain_files_are_preferred(tmp_path):
    want = samples(20)
    folder = made_mds.write(tmp_path / "m", COLUMNS, want, 40, "gz", gzip.compress, keep=True)
    (folder / "shard.00000.mds.gz").write_bytes(b"not gzip")
    check(stoker.open(str(folder)), want)


@pytest.mark.parametrize("codec", [None, "gz"])
@pytest.mark.parametrize("workers", [0, 2])
def test_loader(tmp_path, codec, workers):
    want = samples()
    folder = str(made_mds.write(tmp_path / "m", COLUMNS, want, 40, codec, codec and gzip.compress))
    chains = {"label": "int", "vector": "from(vector) | to(f16)", "tokens": "from(tokens)", "image": "bytes", "n": "int", "text": "text"}
    seen = []
    with stoker.Loader(folder, chains, batch_size=16, shuffle=True, seed=SEED, num_workers=workers, collate="list") as loader:
        for batch in loader:
            ids = batch.sample_ids.tolist()
            seen += ids
            assert np.asarray(batch["label"]).tolist() == [want[i]["label"] for i in ids]
            assert np.asarray(batch["n"]).tolist() == [want[i]["n"] for i in ids] and list(batch["text"]) == [want[i]["text"] for i in ids]
            np.testing.assert_array_equal(np.asarray(batch["vector"]), np.stack([want[i]["vector"] for i in ids]).astype("f2"))
            for i, t, b in zip(ids, batch["tokens"], batch["image"], strict=True):
                np.testing.assert_array_equal(np.asarray(t), want[i]["tokens"])
                assert bytes(b) == want[i]["image"]
    assert sorted(seen) == list(range(len(want)))
    assert len(stoker.open(folder, where="label > 0 AND text <> ''")) == sum(s["label"] > 0 and s["text"] != "" for s in want)
    assert stoker.pack(folder, tmp_path / "tar", where="label > 70")["samples"] == 9


@pytest.mark.parametrize("codec", [None, "gz"])
def test_columns_taken_together(tmp_path, codec):
    want = samples()
    folder = str(made_mds.write(tmp_path / "m", COLUMNS, want, 40, codec, codec and gzip.compress))
    with stoker.Loader(folder, {"x": "columns(score, label, 's*') | to(f64)"}, batch_size=16, shuffle=True, seed=SEED) as loader:
        for batch in loader:
            rows = [[np.float32(want[i]["score"]), want[i]["label"], np.float32(want[i]["score"]), want[i]["small"]] for i in batch.sample_ids.tolist()]
            np.testing.assert_array_equal(np.asarray(batch["x"]), np.array(rows, "f8"))


def test_damage(tmp_path):
    want = samples(30)
    folder = made_mds.write(tmp_path / "m", COLUMNS, want)
    index, file = json.loads((folder / "index.json").read_text()), folder / "shard.00000.mds"
    good = file.read_bytes()

    def refused(match):
        with pytest.raises(stoker.StokerError, match=match):
            list(stoker.open(str(folder)))

    file.write_bytes(good[:-1])
    refused("index.json says")
    file.write_bytes(b"\x07" + good[1:])
    refused("samples that index.json says")
    file.write_bytes(good[:8] + b"\xff\xff\xff\xff" + good[12:])
    refused("outside it")
    first = int.from_bytes(good[4:8], "little")
    file.write_bytes(good[:first] + b"\xff\xff\xff\xff" + good[first + 4:])
    refused("goes on after its sample")
    file.unlink()
    refused("No such file|not there|does not exist|cannot be opened|no such")
    file.write_bytes(good)
    for change, match in [({"format": "json"}, "format mds"), ({"column_sizes": []}, "encoding or a size"),
                          ({"raw_data": {"basename": "../x", "bytes": 3}}, "outside its folder"), ({"samples": -1}, "number"),
                          ({"raw_data": None}, "without a file")]:
        broken = {**index, "shards": [{**index["shards"][0], **change}]}
        (folder / "index.json").write_text(json.dumps(broken))
        refused(match)
    (folder / "index.json").write_text(json.dumps({"shards": [], "column_encodings": 1}))
    refused("names no shards")


def test_our_writer_is_theirs():
    """The bytes that MDSWriter of mosaicml-streaming 0.13.0 makes of these samples (its own encoders and encode_joint_shard)."""
    import hashlib
    rng = random.Random(3)
    columns = {**COLUMNS, "bytes": "bytes"}
    del columns["any"]
    made = made_mds.shard(columns, [
        {"image": rng.randbytes(40), "label": i - 3, "score": float(i / 3), "small": i, "text": "é" * i, "meta": {"k": i},
         "vector": np.arange(6).reshape(2, 3) + i, "tokens": np.arange(i * 100 + 1), "big": i * 2**40, "n": i * 7, "bytes": b"b" * i}
        for i in range(5)])
    assert hashlib.sha256(made).hexdigest() == "7973a540c16b952a780558ac15df505df5c723a000bb9a718d3d68211071077d"
