# SPDX-License-Identifier: Apache-2.0
"""LitData's chunks: what tests/made_litdata.py writes is read back, plain and packed, in any order."""
import base64
import hashlib
import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest

import stoker

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
import made_litdata  # noqa: E402

SEED = 4


def samples(n=50):
    return [{"image": b"x" * i, "label": i - 3, "score": i / 2, "flag": i % 2 == 0, "text": "é" * i, "meta": {"n": np.arange(i, dtype=np.int32)},
             "grid": np.ones((2, 3), np.float32) * i} for i in range(n)]


def zstd(raw):
    return pytest.importorskip("pyarrow").compress(raw, codec="zstd", asbytes=True)


@pytest.mark.asan
@pytest.mark.parametrize(("pack", "old", "rows"), [(None, 0, 0), (None, 1, 0), (zstd, 0, 0), (zstd, 1, 0), (zstd, 0, 3), (zstd, 0, 256)])
def test_samples(tmp_path, pack, old, rows):
    want = samples()
    folder = made_litdata.write(tmp_path / "l", want, 8, pack, old, rows)
    ds = stoker.open(str(folder))
    assert len(ds) == 50 and ds.fields == ["image", "label", "score", "flag", "text", "meta.n", "grid"] and len(ds.shards) == 7
    for i in random.Random(SEED).sample(range(50), 50):
        got, s = ds[i], want[i]
        assert got["image"] == s["image"] and got["label"] == s["label"] and got["score"] == s["score"] and got["flag"] == s["flag"]
        assert got["text"].decode() == s["text"] and got["meta.n"].tolist() == s["meta"]["n"].tolist() and len(got["grid"]) == 16 + 24
    chains = {"y": "from(label) | int", "x": "columns(score, label) | to(f32)", "n": "from(meta.n) | ints"}
    with stoker.Loader(str(folder), chains, batch_size=7, shuffle=True, seed=SEED, collate={"n": "list"}) as loader:
        for batch in loader:
            ids = batch.sample_ids.tolist()
            assert np.asarray(batch["y"]).tolist() == [i - 3 for i in ids]
            np.testing.assert_array_equal(np.asarray(batch["x"]), np.array([[i / 2, i - 3] for i in ids], "f4"))
            assert [len(v) for v in batch["n"]] == ids


def test_other_trees(tmp_path):
    assert stoker.open(str(made_litdata.write(tmp_path / "bare", [b"a", b"bb"])))[1]["value"] == b"bb"
    got = stoker.open(str(made_litdata.write(tmp_path / "tuple", [(b"a", {"k": 5}), (b"b", {"k": 6})])))[1]
    assert (got["0"], got["1.k"]) == (b"b", 6)


@pytest.mark.asan
def test_refused_and_damaged(tmp_path):
    folder = made_litdata.write(tmp_path / "l", samples(20))
    index, file = folder / "index.json", folder / "chunk-0-0.bin"
    good, text = file.read_bytes(), json.loads(index.read_text())
    for config, match in [({"encryption": {"a": 1}}, "encrypted"), ({"compression_level": "sample"}, "one by one"),
                          ({"compression_level": "batch"}, "compression_batch_size"), ({"ipc_compression": "zstd"}, "Arrow"),
                          ({"item_loader": "TokensLoader"}, "TokensLoader"), ({"data_format": ["int"]}, "leaves and 1 formats"),
                          ({"data_spec": "[1]"}, "1"), ({"data_spec": None}, "text is missing")]:
        index.write_text(json.dumps({**text, "config": {**text["config"], **config}}))
        with pytest.raises(stoker.StokerError, match=match):
            stoker.open(str(folder))
    index.write_text(json.dumps(text))
    damage(folder, file, good)
    file.unlink()
    with pytest.raises(stoker.StokerError, match="chunk-0-0.bin"):
        stoker.open(str(folder))


@pytest.mark.asan
def test_damaged_frames(tmp_path):
    folder = made_litdata.write(tmp_path / "l", samples(20), 8, zstd, 0, 3)
    file = folder / "chunk-0-0.bin"
    good = file.read_bytes()
    damage(folder, file, good)
    file.write_bytes(good[:12] + b"\x09" + good[13:])
    with pytest.raises(stoker.StokerError, match="not the 8 samples in frames of 3"):
        stoker.open(str(folder))[0]


def damage(folder, file, good):
    rng = random.Random(SEED)
    for k in range(100):
        bad = bytearray(good[:rng.randrange(len(good))] if k % 3 == 0 else good)
        for _ in range(3):
            if bad:
                bad[rng.randrange(len(bad))] = rng.randrange(256)
        file.write_bytes(bad)
        try:
            list(stoker.open(str(folder)))
        except stoker.StokerError:
            pass


def test_our_writer_is_theirs():
    """The bytes that BinaryWriter of litdata 0.2.76 makes of these samples, four to a chunk."""
    made = b"".join(made_litdata.chunk(samples(10)[k:k + 4]) for k in range(0, 10, 4))
    assert hashlib.sha256(made).hexdigest() == "7783fae205c059627bd4dd2a0e660471e724b924b665107ad82461abad28fb3a"


FRAMED = base64.b64decode(
    "TERGWjAxAAABAAAABwAAAAABAAABAAAAAAAAABQAAAAuAAAATgAAAGgAAACIAAAArgAAAM4AAAAAAAAABwAAAFAAAAAAAAAAWwAAAM4AAAAotS/9IM6VAgD4CAACAAAABAAAAAHD"
    "qQAAgD8GA8OpCgUMBsOpw6nDqRYA4AjkGwOJojYAc5C5C9t6buwWgkCgZ8ChDAMpdlr6OaDngKIIcgbQk2CQd9MCHsAC")


def test_frames_that_they_wrote(tmp_path):
    """A chunk of litdata 0.2.76: optimize(..., compression="zstd")."""
    want = [{"n": i, "text": "é" * i, "x": np.arange(i % 3).astype("f4")} for i in range(7)]
    folder = made_litdata.write(tmp_path / "l", want, 7, zstd, 0, 256)
    (folder / "chunk-0-0.bin").write_bytes(FRAMED)
    ds = stoker.open(str(folder))
    for i, s in enumerate(want):
        assert ds[i]["n"] == i and ds[i]["text"].decode() == s["text"] and ds[i]["x"].tolist() == s["x"].tolist()
