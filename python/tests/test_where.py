# SPDX-License-Identifier: Apache-2.0
"""where=: which samples take part, by a condition on columns; DuckDB answers the same conditions."""
import io
import json
import random
import tarfile

import numpy as np
import pytest

import stoker

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

SEED = 18


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = random.Random(SEED)
    n = 3000

    def some(make):
        return [None if rng.random() < 0.1 else make() for _ in range(n)]

    t = pa.table({
        "id": pa.array(range(n)), "width": pa.array(some(lambda: rng.randrange(200, 500)), pa.int32()), "label": pa.array(some(lambda: rng.randrange(4)), pa.int64()),
        "score": pa.array(some(lambda: rng.choice([rng.random(), 0.5, float("nan"), float("inf")])), pa.float64()),
        "small": pa.array(some(lambda: np.float32(rng.random())), pa.float32()), "split": pa.array(some(lambda: rng.choice(["train", "test", "it's", "", "Train", "träin"])), pa.string()),
        "flag": pa.array(some(lambda: rng.random() < 0.5), pa.bool_()), "big": pa.array(some(lambda: rng.choice([2**53, 2**53 + 1, -5])), pa.int64()),
        "a b": pa.array(some(lambda: rng.randrange(3)), pa.int8()),
    })
    path = tmp_path_factory.mktemp("where") / "t.parquet"
    pq.write_table(t, path, row_group_size=1100, data_page_size=500, write_batch_size=100)
    return str(path)


CONDITIONS = [
    "width >= 300 AND label IN (1, 2)", "width < 300 OR label = 3", "NOT width < 300", "not (width < 300 and label = 1) or split = 'test'",
    "split = 'it''s'", "split <> 'train'", "split > 'test'", "split LIKE 't%n'", "split NOT LIKE '%a_n'", "split LIKE 'tr_in'", "split LIKE ''", "split LIKE '%'",
    "label IS NULL", "label IS NOT NULL AND NOT label = 2", "label IN (1, NULL)", "label NOT IN (1, NULL)", "label NOT IN (1, 2)", "label = NULL",
    "width BETWEEN 250 AND 300", "width NOT BETWEEN 250 AND 300", "score > 0.5", "score >= 0.5", "score = 0.5", "score <> 0.5", "score < 0.5", "score > 2",
    "small > 0.25", "flag", "NOT flag", "flag = TRUE", "flag <> false", "big = 9007199254740993", "big > 9007199254740992", "big > 9007199254740992.0",
    "width > 299.5", "width = 300.0", "300 <= width", "width = '300'", "\"a b\" = 1", "WIDTH >= 400", "width > label", "id < 10 OR id >= 2990", "width >= -1e3",
    "TRUE", "FALSE OR id = 3", "((id = 5))", "id=7", "split in ('train','')",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_as_duckdb(table, condition):
    duckdb = pytest.importorskip("duckdb")
    want = [r[0] for r in duckdb.sql(f"SELECT id FROM '{table}' WHERE {condition} ORDER BY id").fetchall()]
    got = np.frombuffer(stoker.open(table)._core.where(condition), np.uint64).tolist()
    assert got == want


def test_random_conditions_as_duckdb(table):
    duckdb = pytest.importorskip("duckdb")
    rng = random.Random(SEED)

    def leaf():
        column = rng.choice(["width", "label", "score", "split", "flag", "big"])
        value = "'train'" if column == "split" else rng.choice(["1", "2.5", "300", "0"])
        if column == "flag":
            return "flag"
        return rng.choice([f"{column} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {value}", f"{column} IS NULL", f"{column} IN ({value}, {value})"])

    def tree(depth):
        if not depth or rng.random() < 0.2:
            return leaf()
        return rng.choice([f"({tree(depth - 1)} AND {tree(depth - 1)})", f"({tree(depth - 1)} OR {tree(depth - 1)})", f"NOT ({tree(depth - 1)})"])

    ds = stoker.open(table)
    for _ in range(40):
        condition = tree(4)
        want = [r[0] for r in duckdb.sql(f"SELECT id FROM '{table}' WHERE {condition} ORDER BY id").fetchall()]
        assert np.frombuffer(ds._core.where(condition), np.uint64).tolist() == want, condition


@pytest.mark.parametrize("kind", ["parquet", "arrow", "lz4", "memory"])
def test_numbers_compare_as_in_duckdb(tmp_path, kind):
    """A literal beside floats of 32 bits is one; whole numbers beyond 64 bits, and those that a double rounds."""
    duckdb = pytest.importorskip("duckdb")
    rng = random.Random(SEED)
    n = 300

    def some(values):
        return [None if rng.random() < 0.1 else rng.choice(values) for _ in range(n)]

    inf, nan = float("inf"), float("nan")
    t = pa.table({"id": range(n), "f32": pa.array(some([0.1, 1.5, nan, inf, -inf, -0.0, 0.0, 16777216.0, 5.0]), pa.float32()),
                  "f16": pa.array([None if v is None else np.float16(v) for v in some([0.1, 1.5, 5.0])], pa.float16()),
                  "f64": pa.array(some([0.1, 1.5, nan, inf, -inf, -0.0, 2.0**53, 1e300, 5.0])), "i8": pa.array(some([-128, 127, 0, 5]), pa.int8()),
                  "i64": pa.array(some([-2**63, 2**63 - 1, 0, 5, 2**53, 2**53 + 1]), pa.int64()), "u32": pa.array(some([0, 2**32 - 1, 5]), pa.uint32())})
    pq.write_table(t, tmp_path / "t.parquet", row_group_size=70)
    if kind in ("arrow", "lz4"):
        with pa.ipc.new_file(tmp_path / "t.arrow", t.schema, options=pa.ipc.IpcWriteOptions(compression="lz4" if kind == "lz4" else None)) as w:
            w.write_table(t, max_chunksize=70)
    ds = stoker.open(t if kind == "memory" else str(tmp_path / ("t.parquet" if kind == "parquet" else "t.arrow")))
    numbers = ["0.1", "1.5", "1e-1", "16777217", "5", "-0.0", "9007199254740993", "9007199254740992.0", "9223372036854775808", "-9223372036854775809", "1e300", "128", "'0.1'"]
    columns = t.column_names[1:]
    for condition in [f"{c} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {v}" for c in columns for v in numbers if c[0] == "f" or v != "'0.1'"] + [
            f"{a} {rng.choice(['=', '<>', '<', '>='])} {b}" for a in columns for b in columns] + ["f32 IN (0.1, NULL)", "f32 NOT IN (0.1, 5)", "f32 BETWEEN 0.1 AND 0.1", "0.1 = f32"]:
        want = [r[0] for r in duckdb.sql(f"SELECT id FROM '{tmp_path}/t.parquet' WHERE {condition} ORDER BY id").fetchall()]
        assert np.frombuffer(ds._core.where(condition), np.uint64).tolist() == want, condition


@pytest.mark.asan
@pytest.mark.parametrize(("condition", "message"), [
    ("", "where: a number was expected"), ("width >", "at character 8"), ("width > 3 extra", "something follows"), ("widht > 3", "there is no column widht"),
    ("width = 'abc'", "column width has numbers, and 'abc' is none"), ("split = 3", "column split has texts"), ("split", "is a text, not a condition"),
    ("width LIKE 'x'", "LIKE is for texts"), ("(" * 100 + "flag" + ")" * 100, "nested too deep"), ("split = 'abc", "a quote that is not closed"),
    ("label IN ()", "a number was expected"), ("label IN (1", "closing bracket"), ("label IS 3", "IS wants"), ("width BETWEEN 1 OR 2", "BETWEEN wants AND"),
    ("(width = 3) = 4", "not conditions"), ("1x = 3", "a number was expected"), (" OR ".join(["id = 1"] * 3000), "more than 4096 parts"),
])
def test_bad_conditions(table, condition, message):
    with pytest.raises(stoker.StokerError, match=message):
        stoker.open(table)._core.where(condition)


@pytest.mark.asan
def test_loader_of_a_table(table):
    loader = stoker.Loader(table, {"w": "from(width) | int"}, where="width >= 400 AND label = 1", batch_size=8, shuffle=True)
    seen = [i for batch in loader for i in batch.sample_ids.tolist()]
    assert sorted(seen) == np.frombuffer(stoker.open(table)._core.where("width >= 400 AND label = 1"), np.uint64).tolist()
    both = stoker.Loader(table, {"w": "from(id) | int"}, where="id < 100", select=[200, 7, 3, 100])
    assert [int(b["w"][0]) for b in both] == [7, 3]
    with pytest.raises(stoker.StokerError, match="no sample satisfies"):
        stoker.Loader(table, {"w": "from(width) | int"}, where="width > 4000")
    with pytest.raises(stoker.StokerError, match="where is a condition as text"):
        stoker.Loader(table, {"w": "from(width) | int"}, where=3)


def test_partitions_and_missing_columns(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"x": [1, 2, 3], **({"y": [1, 2, 3]} if year == 2024 else {})}), tmp_path / f"year={year}" / "a.parquet")
    ds = stoker.open(str(tmp_path))
    assert np.frombuffer(ds._core.where("year >= 2024 AND x > 1"), np.uint64).tolist() == [4, 5]
    assert np.frombuffer(ds._core.where("y IS NULL"), np.uint64).tolist() == [0, 1, 2]


def test_shards(tmp_path):
    """Columns of the index, or members of JSON fields that are read now."""
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(50):
            for name, data in ((f"{i:03d}.json", json.dumps({"width": i * 10, "name": f"n{i % 3}"}).encode()), (f"{i:03d}.cls", str(i % 5).encode())):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    loader = stoker.Loader(str(tmp_path / "a.tar"), {"y": "from(cls) | int"}, where="json.width >= 300 AND json.name <> 'n1' AND cls IN (1, 2)", batch_size=4)
    assert [i for b in loader for i in b.sample_ids.tolist()] == [i for i in range(50) if i * 10 >= 300 and i % 3 != 1 and i % 5 in (1, 2)]
    short = stoker.open(str(tmp_path / "a.tar"), where="width >= 300 AND name <> 'n1' AND cls IN (1, 2)")       # members of `json`
    assert [short[i]["__key__"] for i in range(len(short))] == [f"{i:03d}" for i in range(50) if i * 10 >= 300 and i % 3 != 1 and i % 5 in (1, 2)]
    with pytest.raises(stoker.StokerError, match="column nosuch"):
        stoker.open(str(tmp_path / "a.tar"), where="nosuch > 1")
