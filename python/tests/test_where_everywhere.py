# SPDX-License-Identifier: Apache-2.0
"""where= in open() and pack(), --where of bench and check; packing tables to tar."""
import json
import os
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pytest

import stoker

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

STOKER = Path(os.environ.get("STOKER_CLI", Path(stoker.__file__).parents[2] / "cli" / "stoker"))
JPEG = b"\xff\xd8\xff\xe0not really\xff\xd9"


def table(path, n=60):
    t = pa.table({"width": pa.array([None if i % 10 == 9 else i * 10 for i in range(n)], pa.int32()),
                  "label": pa.array([i % 4 for i in range(n)], pa.int8()),
                  "score": pa.array([i / 7 for i in range(n)], pa.float32()),
                  "exact": [i / 3 for i in range(n)],
                  "text": [f"caption {i} é" for i in range(n)],
                  "ids": [list(range(i % 5)) for i in range(n)],
                  "image": pa.array([{"bytes": JPEG + bytes([i]), "path": f"{i}.jpg"} for i in range(n)]),
                  "flag": [i % 3 == 0 for i in range(n)]})
    pq.write_table(t, path, row_group_size=25)
    return t


def cli(*args):
    done = subprocess.run([STOKER, *map(str, args)], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


def test_open_where(tmp_path):
    table(tmp_path / "t.parquet")
    ds = stoker.open(str(tmp_path / "t.parquet"), where="width >= 300 AND label IN (1, 2)")
    want = [i for i in range(60) if i % 10 != 9 and i >= 30 and i % 4 in (1, 2)]
    assert len(ds) == len(want) and [s["width"] for s in ds] == [i * 10 for i in want]
    assert ds[-1]["width"] == want[-1] * 10
    assert ds.column("width", read=True).tolist() == [i * 10 for i in want]
    again = pickle.loads(pickle.dumps(ds))
    assert len(again) == len(ds) and again[3]["width"] == ds[3]["width"]
    typed = stoker.open(str(tmp_path / "t.parquet"), {"x": "from(score) | to(f32)"}, where="label = 1")
    assert typed[2]["x"] == pytest.approx(9 / 7)
    with pytest.raises(IndexError):
        ds[len(ds)]
    for bad in ("label = 99", "nope = 1", 7):
        with pytest.raises(stoker.StokerError):
            stoker.open(str(tmp_path / "t.parquet"), where=bad)


def test_loader_over_a_part(tmp_path):
    table(tmp_path / "t.parquet")
    path = str(tmp_path / "t.parquet")
    ds = stoker.open(path, where="label = 1")
    other = stoker.open(path)
    with stoker.Loader([ds, other], {"width": "from(width, default=-1) | int"}, batch_size=100) as loader:
        got = next(iter(loader)).sample_ids.tolist()
    assert got == [i for i in range(60) if i % 4 == 1] + list(range(60, 120))
    with stoker.Loader(ds, {"label": "int"}, where="width < 200", batch_size=100) as loader:
        assert next(iter(loader)).sample_ids.tolist() == [1, 5, 13, 17]
    with pytest.raises(stoker.StokerError, match="whole data sets"):
        stoker.Loader(stoker.mix({"a": (ds, 1), "b": (other, 1)}), {"label": "int"})


def test_shards_too(tmp_path):
    with stoker.Writer(tmp_path / "x-%03d.tar") as w:
        for i in range(20):
            w.write({"__key__": f"k{i}", "cls": i % 5, "txt": f"t{i}"})
    ds = stoker.open(str(tmp_path / "x-*.tar"), where="cls = 3")
    assert [s["__key__"] for s in ds] == ["k3", "k8", "k13", "k18"] and ds["k13"]["txt"] == b"t13"
    with pytest.raises(KeyError, match="satisfy"):
        ds["k4"]
    made = stoker.pack(ds, tmp_path / "out", where="txt <> 't8'")
    assert made["samples"] == 3


def test_bench_and_check(tmp_path):
    table(tmp_path / "t.parquet")
    rc, out, err = cli("bench", tmp_path / "t.parquet", "--where", "label = 2", "--field", "x=from(label) | int", "--epochs", 1, "--batch-size", 5, "--json")
    assert rc == 0, err
    assert json.loads(out)["samples"] == 15
    assert cli("bench", tmp_path / "t.parquet", "--where", "label = 77")[0] != 0
    rc, out, err = cli("bench", tmp_path / "t.parquet", "--epochs", 1, "--json")     # every field as it is, nulls too
    assert rc == 0 and json.loads(out)["samples"] == 60, err
    rc, out, err = cli("check", tmp_path / "t.parquet", "--where", "label = 2", "--json")
    assert json.loads(out)["samples"] == 15, err
    rc, out, err = cli("check", tmp_path / "t.parquet", "--where", "width > 500", "--field", "x=from(score) | to(f32)", "--json")
    assert rc == 0 and json.loads(out)["samples"] == 8, err
    assert cli("check", tmp_path / "t.parquet", "--where", "nope > 500")[0] != 0


@pytest.mark.parametrize("how", ["copy", "chains"])
def test_pack_a_table(tmp_path, how):
    t = table(tmp_path / "t.parquet")
    more = {"fields": {"double": "from(label) | int | encode(text)"}} if how == "chains" else {}
    made = stoker.pack(str(tmp_path / "t.parquet"), tmp_path / "out", samples=25, where="label <> 3", **more)
    rows = [r for r in t.to_pylist() if r["label"] != 3]
    assert made["samples"] == len(rows) and made["shards"] == 2
    ds = stoker.open(str(tmp_path / "out"))
    assert len(ds) == len(rows)
    for sample, row in zip(ds, rows, strict=True):
        assert sample["jpg"] == row["image"]["bytes"] and sample["image.path"].decode() == row["image"]["path"]
        assert sample["text"].decode() == row["text"] and int(sample["label"]) == row["label"]
        assert np.float32(sample["score"]) == np.float32(row["score"]) and float(sample["exact"]) == row["exact"]
        assert json.loads(sample["ids"]) == row["ids"] and sample["flag"] == (b"1" if row["flag"] else b"0")
        assert ("width" in sample) == (row["width"] is not None)
        if how == "chains":
            assert int(sample["double"]) == row["label"]
    chains = {"label": "int", "score": "float", "width": "from(width, default=-1) | int"}
    with stoker.Loader(str(tmp_path / "out"), chains, batch_size=99) as a, \
         stoker.Loader(str(tmp_path / "t.parquet"), chains, where="label <> 3", batch_size=99) as b:
        x, y = next(iter(a)), next(iter(b))
        for name in chains:
            np.testing.assert_array_equal(np.asarray(x[name]).astype("f4"), np.asarray(y[name]).astype("f4"))


def test_pack_parts_of_a_table(tmp_path):
    table(tmp_path / "t.parquet")
    made = stoker.pack(str(tmp_path / "t.parquet"), tmp_path / "out", split={"train": 0.7, "val": 0.3})
    assert made["train"]["samples"] + made["val"]["samples"] == 60 and 30 < made["train"]["samples"] < 55
    first = stoker.pack(str(tmp_path / "t.parquet"), tmp_path / "two", shuffle=3)
    again = stoker.pack(str(tmp_path / "t.parquet"), tmp_path / "two", shuffle=3)
    assert first["samples"] == again["samples"] == 60 and again["kept_shards"] == again["shards"]


@pytest.mark.parametrize("name", ["t.jsonl", "t.csv"])
def test_pack_lines(tmp_path, name):
    rows = [{"text": f'a "{i}", é', "label": str(i)} for i in range(9)]
    if name == "t.jsonl":
        (tmp_path / name).write_text("".join(json.dumps(r) + "\n" for r in rows))
    else:
        import csv
        with open(tmp_path / name, "w", newline="") as f:
            w = csv.DictWriter(f, ["text", "label"])
            w.writeheader()
            w.writerows(rows)
    stoker.pack(str(tmp_path / name), tmp_path / "out")
    got = [{k: s[k].decode() for k in ("text", "label")} for s in stoker.open(str(tmp_path / "out"))]
    assert got == rows
