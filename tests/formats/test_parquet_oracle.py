# SPDX-License-Identifier: Apache-2.0
"""Parquet files by pyarrow and DuckDB, decoded by us and by pyarrow: every value equal; damaged files are errors."""
import datetime
import decimal
import json
import os
import pathlib
import random
import subprocess

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("STOKER_BUILD", ROOT / "build"))
DUMP = BUILD / "tests" / "formats" / "parquet_dump"
DTYPES = {"u8": "u1", "i8": "i1", "u16": "<u2", "i16": "<i2", "i32": "<i4", "u32": "<u4", "i64": "<i8", "f16": "<f2", "f32": "<f4", "f64": "<f8"}
CODECS = ["none", "snappy", "gzip", "brotli", "lz4", "zstd"]
SEED = 20261115


def ours(path, *flags):
    p = subprocess.run([DUMP, *flags, path], capture_output=True, timeout=120)
    if p.returncode:
        assert p.returncode == 1, p
        raise ValueError(p.stderr.decode(errors="replace").strip())
    out = {}
    for line in p.stdout.splitlines():
        c = json.loads(line)
        rows = [None if r is None else bytes.fromhex(r) for r in c["rows"]]
        if c["dtype"]:
            rows = [None if r is None else np.frombuffer(r, DTYPES[c["dtype"]]) for r in rows]
            if not c["list"]:
                rows = [None if r is None else r[0] for r in rows]
        c["rows"] = rows
        out[c["name"]] = c
    return out


def plain(v, column):
    """pyarrow's value as we hand it out."""
    t = column.type
    if v is None:
        return None
    if pa.types.is_list(t) or pa.types.is_large_list(t) or pa.types.is_fixed_size_list(t):
        return np.array([np.nan if x is None else x for x in v])
    if isinstance(v, str):
        return v.encode()
    if isinstance(v, decimal.Decimal):
        return float(v)
    if isinstance(v, (datetime.date, datetime.time, datetime.datetime)):
        raise AssertionError("cast before")
    return v


def equal(a, b):
    if a is None or b is None:
        return a is None and b is None
    if isinstance(a, bytes):
        return a == b
    return np.shape(a) == np.shape(b) and np.array_equal(np.asarray(a, "f8"), np.asarray(b, "f8"), equal_nan=True)


def compare(path, table):
    got = ours(path)
    for name in table.column_names:
        column = table[name].combine_chunks() if table.num_rows else table[name]
        if pa.types.is_temporal(column.type):
            column = column.cast({4: pa.int32(), 8: pa.int64()}[column.type.bit_width // 8])
        want = [plain(v, column) for v in column.to_pylist()]
        rows = got[name]["rows"]
        assert got[name]["refused"] == "" and len(rows) == len(want), name
        for i, (a, b) in enumerate(zip(rows, want)):
            assert equal(a, b), (name, i, a, b)


def random_table(rng, rows, nulls):
    def column(make, type):
        return pa.array([None if nulls and rng.random() < 0.2 else make() for _ in range(rows)], type)

    def text():
        return rng.choice(["", "a", "stoker", "é" * 9, "x" * rng.randrange(300)])

    few = [rng.randrange(-10**9, 10**9) for _ in range(7)]
    return pa.table({
        "i8": column(lambda: rng.randrange(-128, 128), pa.int8()), "u8": column(lambda: rng.randrange(256), pa.uint8()),
        "i16": column(lambda: rng.randrange(-2**15, 2**15), pa.int16()), "u16": column(lambda: rng.randrange(2**16), pa.uint16()),
        "i32": column(lambda: rng.randrange(-2**31, 2**31), pa.int32()), "u32": column(lambda: rng.randrange(2**32), pa.uint32()),
        "i64": column(lambda: rng.randrange(-2**53, 2**53), pa.int64()), "u64": column(lambda: rng.randrange(2**53), pa.uint64()),
        "few": column(lambda: rng.choice(few), pa.int64()), "bool": column(lambda: rng.random() < 0.5, pa.bool_()),
        "runs": column(lambda: False, pa.bool_()), "f16": column(lambda: np.float16(rng.random()), pa.float16()),
        "f32": column(lambda: np.float32(rng.gauss(0, 1)), pa.float32()), "f64": column(lambda: rng.gauss(0, 1), pa.float64()),
        "text": column(text, pa.string()), "bytes": column(lambda: rng.randbytes(rng.randrange(50)), pa.binary()),
        "fixed": column(lambda: rng.randbytes(7), pa.binary(7)),
        "dec": column(lambda: decimal.Decimal(rng.randrange(-10**6, 10**6)).scaleb(-2), pa.decimal128(9, 2)),
        "wide": column(lambda: decimal.Decimal(rng.randrange(-10**15, 10**15)).scaleb(-3), pa.decimal128(30, 3)),
        "date": column(lambda: datetime.date(2000, 1, 1) + datetime.timedelta(rng.randrange(9999)), pa.date32()),
        "time": column(lambda: datetime.time(rng.randrange(24), 3, 4), pa.time64("us")),
        "stamp": column(lambda: datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=rng.randrange(10**8)), pa.timestamp("us")),
        "tokens": column(lambda: [rng.randrange(50000) for _ in range(rng.randrange(20))], pa.list_(pa.int32())),
        "vector": column(lambda: [None if nulls and rng.random() < 0.1 else rng.random() for _ in range(5)], pa.list_(pa.float64())),
    })


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", CODECS)
def test_types(tmp_path, codec, version, nulls):
    rng = random.Random(f"{SEED}{codec}{version}{nulls}")
    table = random_table(rng, 200, nulls)
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, compression=codec, data_page_version=version, row_group_size=90, data_page_size=300,
                   write_batch_size=32, dictionary_pagesize_limit=500, write_page_checksum=True,
                   use_dictionary=rng.random() < 0.7, write_page_index=rng.random() < 0.5)
    compare(path, table)


ENCODINGS = {
    "DELTA_BINARY_PACKED": ["i8", "u16", "i32", "i64", "u32", "date", "stamp", "few"],
    "DELTA_LENGTH_BYTE_ARRAY": ["text", "bytes"], "DELTA_BYTE_ARRAY": ["text", "bytes", "fixed"],
    "BYTE_STREAM_SPLIT": ["f32", "f64", "i32", "i64", "fixed", "f16"], "PLAIN": ["bool", "text", "wide"], "RLE": ["bool", "runs"],
}


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("encoding", list(ENCODINGS))
def test_encodings(tmp_path, encoding, version, nulls):
    table = random_table(random.Random(f"{SEED}{encoding}{version}{nulls}"), 200, nulls).select(ENCODINGS[encoding])
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, use_dictionary=False, column_encoding={c: encoding for c in table.column_names},
                   data_page_version=version, data_page_size=500, write_batch_size=30)
    compare(path, table)


def test_structs_maps_and_what_is_refused(tmp_path):
    table = pa.table({
        "image": pa.array([{"bytes": b"jpeg", "path": "a.jpg"}, None, {"bytes": None, "path": "b"}]),
        "deep": pa.array([[[1, 2]], [], None], pa.list_(pa.list_(pa.int32()))),
        "m": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "boxes": pa.array([[{"x": 1.0}, {"x": None}], None, []], pa.list_(pa.struct([("x", pa.float32())]))),
        "words": pa.array([["a"], None, []], pa.list_(pa.string())),
    })
    pq.write_table(table, tmp_path / "t.parquet")
    got = ours(tmp_path / "t.parquet")
    assert got["image.bytes"]["rows"] == [b"jpeg", None, None] and got["image.path"]["rows"] == [b"a.jpg", None, b"b"]
    assert "list of lists" in got["deep"]["refused"] and "texts" in got["words"]["refused"]
    m, boxes = got["m.value"]["rows"], got["boxes.x"]["rows"]
    assert m[0].tolist() == [1] and m[1].tolist() == [] and m[2] is None
    assert boxes[0][0] == 1 and np.isnan(boxes[0][1]) and boxes[1] is None and boxes[2].size == 0


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(tmp_path, rows):
    table = random_table(random.Random(SEED), rows, False)
    pq.write_table(table, tmp_path / "t.parquet")
    compare(tmp_path / "t.parquet", table)


def test_all_null_and_wide_lists(tmp_path):
    table = pa.table({"n": pa.array([None] * 900, pa.int32()), "s": pa.array([None] * 900, pa.string()),
                      "l": pa.array([list(range(i % 300)) for i in range(900)], pa.list_(pa.int64()))})
    for version in ("1.0", "2.0"):
        pq.write_table(table, tmp_path / "t.parquet", data_page_version=version, data_page_size=2000)
        compare(tmp_path / "t.parquet", table)


def test_dictionary_that_falls_back(tmp_path):
    rng = random.Random(SEED)
    table = pa.table({"b": [rng.randbytes(300) for _ in range(3000)]})
    pq.write_table(table, tmp_path / "t.parquet", dictionary_pagesize_limit=100_000, data_page_size=50_000, write_batch_size=128)
    meta = pq.read_metadata(tmp_path / "t.parquet").row_group(0).column(0)
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(meta.encodings)
    compare(tmp_path / "t.parquet", table)


def test_duckdb_writer(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.parquet"
    for codec in ("snappy", "zstd", "lz4_raw", "gzip"):
        duckdb.sql("SELECT range AS i, range % 7 AS few, 'row ' || range AS s, range / 3.0 AS f, CASE WHEN range % 5 > 0 THEN range END AS n,"
                   " [range, range + 1] AS l FROM range(5000)").write_parquet(str(path), compression=codec, overwrite=True)
        compare(path, pq.read_table(path))


def test_checksum_is_checked(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"b": [bytes(range(256)) * 4]}), path, compression="none", write_page_checksum=True, use_dictionary=False, write_statistics=False)
    data = bytearray(path.read_bytes())
    at = data.index(bytes(range(100)))
    data[at + 50] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="checksum"):
        ours(path)


def test_cut_at_every_byte(tmp_path):
    """A file cut anywhere, alone or with its footer kept, is an error, never a crash."""
    path = tmp_path / "t.parquet"
    table = pa.table({"a": [1, 2, None], "s": ["x", "", None], "l": [[1], [], None], "f": [b"12", b"34", b"56"]})
    for codec in CODECS:
        for version in ("1.0", "2.0"):
            pq.write_table(table, path, compression=codec, data_page_version=version, use_dictionary=version == "1.0",
                           write_page_checksum=True)
            ours(path, "-t")
