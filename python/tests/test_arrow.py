# SPDX-License-Identifier: Apache-2.0
"""The index as an Arrow stream: pyarrow, DuckDB and Polars read it; SQL chooses samples."""

import gc
import importlib.util
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import write_tar
from lean import lean_env

import stoker

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/select_sql.py"
N = 500


def need(name):
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install {name}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two shards, one sample in 25 of class 1."""
    d = tmp_path_factory.mktemp("arrow")
    for s in range(2):
        write_tar(d / f"t-{s}.tar", [
            (f"{s}/{i:05d}.{name}", raw) for i in range(N)
            for name, raw in (("cls", b"%d" % (i % 25 == 3)), ("txt", b"w%d" % (i % 3)), *(
                [("json", b'{"score": %d.5, "size": %d}' % (i, i))] if i % 2 else []))])
    stoker.open(d, columns=["cls", "txt", "json.score", "json.size"])
    return d


@pytest.mark.asan
def test_the_stream_says_what_the_index_says(folder):
    pa = need("pyarrow")
    ds = stoker.open(folder)
    reader = pa.RecordBatchReader.from_stream(ds)
    assert {f.name: str(f.type) for f in reader.schema} == {
        "sample": "uint64", "key": "string",
        "shard": "dictionary<values=string, indices=int32, ordered=0>", "offset": "uint64", "size": "uint64",
        "cls": "int64", "txt": "string", "json.score": "double", "json.size": "int64"}
    table = reader.read_all()
    table.validate(full=True)
    rows = table.to_pylist()
    assert len(rows) == len(ds) == 2 * N
    for i in (0, 1, N - 1, N, 2 * N - 1):
        sample = ds[i]
        k = i % N
        assert rows[i] == {
            "sample": i, "key": sample["__key__"], "shard": sample["__url__"], "offset": rows[i]["offset"],
            "size": sum(len(v) for name, v in sample.items() if not name.startswith("__")),
            "cls": int(k % 25 == 3), "txt": f"w{k % 3}", "json.score": k + 0.5 if k % 2 else None,
            "json.size": k if k % 2 else None}
    assert rows[0]["offset"] == rows[N]["offset"] == 0 < rows[1]["offset"]
    assert table.column("cls").to_numpy().tolist() == ds.column("cls").tolist()


@pytest.mark.asan
def test_it_outlives_the_data_set(folder):
    pa = need("pyarrow")
    reader = pa.RecordBatchReader.from_stream(stoker.open(folder))
    gc.collect()
    batch = reader.read_next_batch()
    del reader
    gc.collect()
    assert batch.num_rows == 2 * N and batch.column("shard")[0].as_py().endswith("t-0.tar")
    capsule = stoker.open(folder).__arrow_c_stream__()
    assert 'arrow_array_stream' in repr(capsule)
    del capsule  # no one took the stream
    gc.collect()


def test_many_batches(tmp_path):
    pa = need("pyarrow")
    n = 150_000
    (tmp_path / "m.csv").write_text("path,label\n" + "".join(f"{i}.jpg,{i % 9}\n" for i in range(n)))
    ds = stoker.open(tmp_path / "m.csv", columns=["label"])
    batches = list(pa.RecordBatchReader.from_stream(ds))
    assert [b.num_rows for b in batches] == [65536, 65536, n - 2 * 65536]
    table = pa.Table.from_batches(batches)
    table.validate(full=True)
    assert table.column("sample").to_numpy().tolist() == list(range(n))
    assert table.column("key")[n - 1].as_py() == f"{n - 1}.jpg"
    assert table.column("label").to_numpy().tolist() == [i % 9 for i in range(n)]


def test_what_is_no_utf8_is_binary(tmp_path):
    pa = need("pyarrow")
    write_tar(tmp_path / "a.tar", [("a\udcff.cls", b"\xffx"), ("b.cls", b"y")])
    write_tar(tmp_path / "b.tar", [("é.cls", b"z"), ("w.size", b"1")])
    table = pa.table(stoker.open([tmp_path / "a.tar", tmp_path / "b.tar"], columns=["cls", "size"]))
    assert table.column("key").to_pylist() == [b"a\xff", b"b", "é".encode(), b"w"]
    assert table.column("cls").to_pylist() == [b"\xffx", b"y", b"z", None]
    assert table.column_names == ["sample", "key", "shard", "offset", "size", "cls", "size_"]
    only = pa.table(stoker.open(tmp_path / "b.tar", columns=["cls"]))
    assert only.column("key").to_pylist() == ["é", "w"] and only.column("cls").to_pylist() == ["z", None]


def test_folder_classes(tmp_path):
    pa = need("pyarrow")
    for name in ("cat", "dog"):
        (tmp_path / "d" / name).mkdir(parents=True)
        (tmp_path / "d" / name / "0.jpg").write_bytes(b"12345")
    table = pa.table(stoker.open(tmp_path / "d"))
    assert table.column("cls").to_pylist() == [0, 1] and table.column("size").to_pylist() == [5, 5]
    assert table.column("key").to_pylist() == ["cat/0.jpg", "dog/0.jpg"]


def test_duckdb(folder):
    duckdb = need("duckdb")
    ds = stoker.open(folder)        # noqa: F841  (DuckDB finds it by its name)
    found = duckdb.sql('SELECT txt, count(*), sum(cls), max("json.score") FROM ds GROUP BY txt ORDER BY txt').fetchall()
    want = [(f"w{w}", 2 * len(range(w, N, 3)), 2 * sum(i % 25 == 3 for i in range(w, N, 3)),
             max(i + 0.5 for i in range(w, N, 3) if i % 2)) for w in range(3)]
    assert found == want
    assert duckdb.sql("SELECT count(DISTINCT shard) FROM ds").fetchall() == [(2,)]


def test_polars(folder):
    pl = need("polars")
    frame = pl.DataFrame(stoker.open(folder))
    assert frame.shape == (2 * N, 9) and frame["cls"].sum() == 2 * len(range(3, N, 25))
    assert frame["json.size"].null_count() == N


def example():
    spec = importlib.util.spec_from_file_location("select_sql", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sql_keeps_a_tenth_of_the_negatives(folder):
    need("duckdb")
    need("pyarrow")
    ds = stoker.open(folder)
    chosen = example().choose(ds)
    assert chosen.column_names == ["sample"]
    ids = chosen.column("sample").to_pylist()
    cls = ds.column("cls")
    positive = {i for i in range(len(ds)) if cls[i] == 1}
    assert ids == sorted(set(ids)) and positive <= set(ids)
    assert len(set(ids) - positive) == -(-(len(ds) - len(positive)) // 10)
    assert {i // N for i in set(ids) - positive} == {0, 1}
    assert example().choose(ds).column("sample").to_pylist() == ids


@pytest.mark.skipif("select" not in inspect.signature(stoker.Loader.__init__).parameters,
                    reason="Loader has no select= yet")
def test_the_example_loads_what_sql_chose(folder):
    need("duckdb")
    need("pyarrow")
    out = subprocess.run([sys.executable, EXAMPLE, str(folder)], capture_output=True, text=True, timeout=120, env=lean_env())
    assert out.returncode == 0, out.stderr
    positive = 2 * len(range(3, N, 25))
    rows = positive + -(-(2 * N - positive) // 10)
    assert out.stdout == (f"{rows} of {2 * N} samples\n"
                          f"an epoch has {rows} rows, {positive} of them positive\n")
