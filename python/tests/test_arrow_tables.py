# SPDX-License-Identifier: Apache-2.0
"""Arrow tables as data: IPC files and streams, pyarrow, Polars, DuckDB and Hugging Face objects; pyarrow is the oracle."""
import math
import os
import pickle
import random
from decimal import Decimal

import numpy as np
import pytest
from conftest import check_python

import stoker

pa = pytest.importorskip("pyarrow")

SEED = 5


def table(n=240):
    rng = random.Random(SEED)
    hole = lambda v: None if rng.random() < 0.2 else v  # noqa: E731
    return pa.table({
        "i8": pa.array([hole(i % 100) for i in range(n)], pa.int8()),
        "u16": pa.array([i * 7 for i in range(n)], pa.uint16()),
        "u64": pa.array([hole(i * 2**40) for i in range(n)], pa.uint64()),
        "f16": pa.array(np.arange(n).astype("f2")),
        "f32": pa.array([hole(i / 3) for i in range(n)], pa.float32()),
        "f64": pa.array([i / 7 for i in range(n)]),
        "flag": pa.array([hole(i % 3 == 0) for i in range(n)]),
        "text": pa.array([hole("é" * (i % 30)) for i in range(n)]),
        "large": pa.array([hole(b"x" * i) for i in range(n)], pa.large_binary()),
        "view": pa.array([hole("v" * (i % 40)) for i in range(n)], pa.string_view()),
        "fixed": pa.array([bytes([i % 256]) * 5 for i in range(n)], pa.binary(5)),
        "list": pa.array([hole(list(range(i % 6))) for i in range(n)], pa.list_(pa.int32())),
        "biglist": pa.array([[i / 2] * (i % 3) for i in range(n)], pa.large_list(pa.float64())),
        "vector": pa.array([[i, i + 1, i + 2] for i in range(n)], pa.list_(pa.float32(), 3)),
        "image": pa.array([hole({"bytes": bytes([i % 256]) * 50, "path": f"{i}.jpg"}) for i in range(n)]),
        "word": pa.array([hole(["a", "bb", "ccc"][i % 3]) for i in range(n)]).dictionary_encode(),
        "day": pa.array([i for i in range(n)], pa.date32()),
        "when": pa.array([i * 10**6 for i in range(n)], pa.timestamp("us")),
    })


def plain(column):
    """Values as the data set should give them."""
    t = column.type
    if pa.types.is_date(t):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(t):
        column = column.cast(pa.int64())
    return [int(v) if isinstance(v, bool) else v for v in column.to_pylist()]


def same(got, want):
    if got is None or want is None:
        return got is None and want is None
    if isinstance(want, list):
        return list(got) == want
    return got == want or isinstance(want, float) and math.isclose(got, want, rel_tol=1e-6)


def check(ds, t):
    assert len(ds) == len(t)
    want = {name: plain(t[name]) for name in t.column_names if name != "image"}
    image = t["image"].to_pylist()
    for i in random.Random(SEED).sample(range(len(t)), min(len(t), 80)):
        got = ds[i]
        for name, values in want.items():
            assert same(got[name], values[i]), (i, name, got[name], values[i])
        assert got["image.bytes"] == (image[i] and image[i]["bytes"])
        assert got["image.path"] == (image[i] and image[i]["path"])


def write(path, t, rows, stream, **options):
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(path, t.schema, options=pa.ipc.IpcWriteOptions(**options)) as w:
        w.write_table(t, max_chunksize=rows)


@pytest.mark.parametrize("stream", [0, 1], ids=["file", "stream"])
@pytest.mark.parametrize("rows", [7, 1000])
@pytest.mark.parametrize("packed", [None, "lz4", "zstd"])
def test_files(tmp_path, stream, rows, packed):
    t = table()
    write(tmp_path / "a.arrow", t, rows, stream, compression=packed)
    check(stoker.open(str(tmp_path / "a.arrow")), t)
    write(tmp_path / "b.arrow", t.slice(3, 50), rows, stream)
    both = stoker.open([str(tmp_path / "a.arrow"), str(tmp_path / "b.arrow")])
    check(both, pa.concat_tables([t, t.slice(3, 50)]))
    check(pickle.loads(pickle.dumps(both)), pa.concat_tables([t, t.slice(3, 50)]))


def test_objects(tmp_path):
    t = table()
    check(stoker.open(t), t)
    check(stoker.open(t.slice(17, 100)), t.slice(17, 100))
    check(stoker.open(pa.concat_tables([t.slice(5, 9), t.slice(0, 1), t])), pa.concat_tables([t.slice(5, 9), t.slice(0, 1), t]))
    check(stoker.open(pa.RecordBatchReader.from_batches(t.schema, t.to_batches(13))), t)
    check(pickle.loads(pickle.dumps(stoker.open(t))), t)
    sliced = pa.table({"l": pa.array([[1], [2, 3], [], [4]], pa.list_(pa.int64())).slice(1),
                       "s": pa.StructArray.from_arrays([pa.array([9, 1, 2, 3]).slice(1)], ["x"]),
                       "w": pa.array([[1, 2], [3, 4], [5, 6], [7, 8]], pa.list_(pa.int8(), 2)).slice(1)})
    got = list(stoker.open(sliced))
    assert [(list(s["l"]), s["s.x"], list(s["w"])) for s in got] == [([2, 3], 1, [3, 4]), ([], 2, [5, 6]), ([4], 3, [7, 8])]


def test_other_libraries():
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    frame = pl.DataFrame({"x": [1, None, 3], "name": ["a", "b" * 30, None], "f": [0.5, 1.5, 2.5]})
    want = [{"x": 1, "name": "a", "f": 0.5}, {"x": None, "name": "b" * 30, "f": 1.5}, {"x": 3, "name": None, "f": 2.5}]
    pick = lambda ds: [{k: s[k] for k in ("x", "name", "f")} for s in ds]  # noqa: E731
    assert pick(stoker.open(frame)) == want
    assert pick(stoker.open(duckdb.sql("SELECT x, name, f FROM frame"))) == want


@pytest.mark.parametrize("packed", [None, "lz4"])
def test_loader(tmp_path, packed):
    t = table()
    write(tmp_path / "a.arrow", t, 32, True, compression=packed)
    chains = {"v": "from(vector) | to(f16)", "u": "from(u16) | int", "x": "columns('f[0-9]*', u16) | to(f32)",
              "n": "from(list, default=0) | ints", "t": "from(text, default='') | text"}
    for source in (str(tmp_path / "a.arrow"), t):
        seen = []
        with stoker.Loader(source, chains, batch_size=32, shuffle=True, seed=SEED, collate={"n": "list"}) as loader:
            for batch in loader:
                ids = batch.sample_ids.tolist()
                seen += ids
                part = t.drop(["view"]).take(ids)
                np.testing.assert_array_equal(np.asarray(batch["v"]), np.array(part["vector"].to_pylist(), "f2"))
                np.testing.assert_array_equal(np.asarray(batch["u"]), part["u16"].to_numpy())
                x = np.stack([part[n].to_numpy().astype("f4") for n in ("f16", "f32", "f64", "u16")], 1)
                np.testing.assert_allclose(np.asarray(batch["x"]), x, rtol=1e-6)
                assert [np.asarray(v).tolist() for v in batch["n"]] == [[0] if v is None else v for v in part["list"].to_pylist()]
                assert list(batch["t"]) == [v or "" for v in part["text"].to_pylist()]
        assert sorted(seen) == list(range(len(t)))


@pytest.mark.parametrize("packed", [None, "zstd"])
def test_where_pack_and_columns(tmp_path, packed):
    t = table()
    write(tmp_path / "a.arrow", t, 50, False, compression=packed)
    path = str(tmp_path / "a.arrow")
    want = [i for i, (a, b) in enumerate(zip(t["i8"].to_pylist(), t["word"].to_pylist(), strict=True)) if a is not None and a > 20 and b == "bb"]
    ds = stoker.open(path, where="i8 > 20 AND word = 'bb'")
    assert [s["u16"] for s in ds] == [i * 7 for i in want]
    assert stoker.pack(path, tmp_path / "out", where="i8 > 20 AND word = 'bb'")["samples"] == len(want)
    assert [int(s["u16"]) for s in stoker.open(str(tmp_path / "out"))] == [i * 7 for i in want]


def decimals(n=100):
    hole = lambda i, v: None if i % 7 == 3 else v  # noqa: E731
    money = [hole(i, Decimal(i - 50) / 4) for i in range(n)]
    return pa.table({
        "d64": pa.array(money, pa.decimal128(10, 2)), "d256": pa.array(money, pa.decimal256(60, 2)),
        "huge": pa.array([Decimal(10) ** 30 * (i - 50) for i in range(n)], pa.decimal128(38, 0)),
        "thirds": pa.array([hole(i, Decimal(i) / 8) for i in range(n)], pa.decimal128(20, 3)).dictionary_encode(),
        "x": pa.array([i % 3 for i in range(n)], pa.int16()),
        "m": pa.array([hole(i, [(k, k / 2) for k in range(i % 4)]) for i in range(n)], pa.map_(pa.int32(), pa.float64())),
        "words": pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int8())),
    })


def test_decimals_and_maps(tmp_path):
    t = decimals()
    write(tmp_path / "a.arrow", t, 30, False)
    write(tmp_path / "z.arrow", t, 30, True, compression="lz4")
    for source in (str(tmp_path / "a.arrow"), str(tmp_path / "z.arrow"), t, t.slice(11, 50)):
        part = t.slice(11, 50) if isinstance(source, pa.Table) and len(source) == 50 else t
        ds = stoker.open(source)
        for i in range(len(part)):
            got = ds[i]
            for name in ("d64", "d256", "huge", "thirds"):
                want = part[name][i].as_py()
                assert got[name] == (None if want is None else float(want)), (i, name)
            pairs = part["m"][i].as_py()
            for k, name in enumerate(("m.key", "m.value")):
                assert (got[name] is None) == (pairs is None)
                assert pairs is None or list(got[name]) == [p[k] for p in pairs]
            assert got["words.key"] == ["a"] and list(got["words.value"]) == [1]
        with stoker.Loader(source, {"x": "columns(d64, x, default=0) | to(f64)", "h": "from(huge) | float"}, batch_size=25) as loader:
            got = [(np.asarray(b["x"]), np.asarray(b["h"])) for b in loader]
        want = np.array([[float(a or 0), x] for a, x in zip(part["d64"].to_pylist(), part["x"].to_pylist(), strict=True)])
        np.testing.assert_array_equal(np.concatenate([g[0] for g in got]), want)
        np.testing.assert_allclose(np.concatenate([g[1] for g in got]), [float(v) for v in part["huge"].to_pylist()], rtol=1e-6)
        kept = stoker.open(source, where="d64 > 1.5 AND x = 1")
        assert len(kept) == sum(a is not None and a > 1.5 and x == 1 for a, x in zip(part["d64"].to_pylist(), part["x"].to_pylist(), strict=True))
        assert next(iter(stoker.Loader(source, {"y": "from(words.key)"})))["y"][0] == ["a"]


def test_whole_numbers_taken_together_of_a_packed_file(tmp_path):
    t = pa.table({"a": pa.array([1, None, 3, 4], pa.int32()), "b": pa.array([5, 6, 7, 8], pa.int32())})
    write(tmp_path / "z.arrow", t, 3, False, compression="zstd")
    with stoker.Loader(str(tmp_path / "z.arrow"), {"x": "columns('*')"}, batch_size=1, on_error="skip") as loader:
        assert [np.asarray(b["x"]).tolist() for b in loader if len(b)][0] == [[1, 5]]
    with pytest.raises(stoker.StokerError, match="no value in column a"):
        list(stoker.Loader(str(tmp_path / "z.arrow"), {"x": "columns('*')"}, batch_size=1))


def test_feather(tmp_path):
    feather = pytest.importorskip("pyarrow.feather")
    t = table(300)
    feather.write_feather(t.drop(["view"]), tmp_path / "f.feather", chunksize=90)
    ds = stoker.open(str(tmp_path / "f.feather"))
    assert [s["text"] for s in ds] == plain(t["text"])


def test_hugging_face(tmp_path):
    os.environ["HF_DATASETS_OFFLINE"] = "1"
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_dict({"text": [f"t{i}" for i in range(500)], "ids": [list(range(i % 9)) for i in range(500)]})
    made.save_to_disk(str(tmp_path / "hf"))
    kept = datasets.load_from_disk(str(tmp_path / "hf"))
    for ds in (made, kept, kept.select(range(10, 60)), kept.shuffle(seed=1), kept.filter(lambda r: len(r["ids"]) > 4, keep_in_memory=True),
               kept.select_columns(["ids"]), kept.rename_column("text", "words")):
        ours = stoker.open(ds)
        assert len(ours) == len(ds) and ours.fields == ds.column_names
        for i in (0, 3, len(ds) - 1):
            assert list(ours[i]["ids"]) == ds[i]["ids"]
    mixed = kept.shuffle(seed=3)
    with stoker.Loader(mixed, {"text": "text"}, batch_size=100) as loader:
        assert [v for batch in loader for v in batch["text"]] == list(mixed["text"])
    files = [f["filename"] for f in kept.cache_files]
    assert [s["text"] for s in stoker.open(files)] == list(kept["text"])


def test_a_folder_of_hugging_face(tmp_path):
    """What save_to_disk() wrote is opened by its folder; what map() left there is not part of it."""
    os.environ["HF_DATASETS_OFFLINE"] = "1"
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_dict({"text": [f"t{i}" for i in range(50)]})
    datasets.DatasetDict({"train": made, "test": made.select([3])}).save_to_disk(str(tmp_path / "hf"), num_shards={"train": 3, "test": 1})
    kept = datasets.load_from_disk(str(tmp_path / "hf" / "train"))
    kept.map(lambda row: {"text": row["text"] + "?"}, cache_file_name=str(tmp_path / "hf" / "train" / "cache-1.arrow"))
    assert [s["text"] for s in stoker.open(tmp_path / "hf" / "train")] == list(made["text"])
    with pytest.raises(stoker.StokerError, match='name one, as in ".*/hf/train"'):
        stoker.open(tmp_path / "hf")


def test_refused(tmp_path):
    t = pa.table({"x": [1, 2], "deep": [[[1]], [[2]]], "none": pa.nulls(2), "bytes": [[b"a"], [b"b"]]})
    ds = stoker.open(t)
    assert ds[1]["x"] == 2 and ds.fields[0] == "x"
    for name in ("deep", "bytes"):
        with pytest.raises(stoker.StokerError, match=f"column {name}: not supported because "):
            next(iter(stoker.Loader(t, {"y": f"from({name}) | bytes"})))
    big = stoker.open(pa.table({"u": pa.array([2**63], pa.uint64())}))
    with pytest.raises(stoker.StokerError, match="2\\^63"):
        big[0]
    with pytest.raises(stoker.StokerError):
        stoker.open(str(tmp_path / "none.arrow"))
    assert len(stoker.open(pa.table({"x": pa.array([], pa.int32())}))) == 0


@pytest.mark.asan
@pytest.mark.parametrize("packed", [None, "lz4", "zstd"])
def test_cut_and_damaged_files(tmp_path, packed):
    t = table(20)
    write(tmp_path / "a.arrow", t, 6, True, compression=packed)
    good = (tmp_path / "a.arrow").read_bytes()
    rng = random.Random(SEED)
    for k in range(200):
        bad = bytearray(good[:rng.randrange(len(good))] if k % 3 == 0 else good)
        for _ in range(rng.randrange(1, 4)):
            if bad:
                bad[rng.randrange(len(bad))] = rng.randrange(256)
        path = tmp_path / "bad.arrow"
        path.write_bytes(bad)
        try:
            ds = stoker.open(str(path))
            for i in range(min(len(ds), 25)):
                ds[i]
        except (stoker.StokerError, MemoryError, UnicodeDecodeError):
            pass


def test_a_file_that_is_cut_short(tmp_path):
    """Not a signal: in a process of its own, which would end by SIGBUS."""
    check_python("""
        import os, sys
        sys.modules["torch"] = None
        import pyarrow as pa, pyarrow.ipc as ipc, stoker
        table = pa.table({"a": list(range(20000))})
        with ipc.new_file(sys.argv[1], table.schema) as f:
            f.write_table(table, max_chunksize=1000)
        ds = stoker.open(sys.argv[1])
        assert ds[19999]["a"] == 19999
        os.truncate(sys.argv[1], 4096)
        for use in (lambda: ds[19000], lambda: list(stoker.Loader(ds, {"a": "int"}, batch_size=64))):
            try:
                use()
            except Exception as e:
                assert "shorter than when it was opened" in str(e) and "t.arrow" in str(e), e
            else:
                raise SystemExit("no error")
        """, str(tmp_path / "t.arrow"))
