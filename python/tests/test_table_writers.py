# SPDX-License-Identifier: Apache-2.0
"""Parquet as other writers leave it: old versions, folders of Spark and Hive, columns without a type or with one name."""
import gzip
import io
import os
import re
import struct
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
from tfrecords import record

import stoker

CLI = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def rows(data, **options):
    return [{k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in s.items() if not k.startswith("__")} for s in stoker.open(data, **options)]


def test_a_column_that_is_all_null_in_one_file(tmp_path):
    kinds = {"i": pa.array([1, None]), "f": pa.array([0.5, None], pa.float32()), "s": pa.array(["x", None]), "b": pa.array([b"x", None]),
             "l": pa.array([[1, 2], None]), "d": pa.array([3, None], pa.timestamp("us"))}
    pq.write_table(pa.table(kinds), tmp_path / "1.parquet")
    pq.write_table(pa.table({k: pa.nulls(2) for k in kinds}), tmp_path / "0.parquet")
    full, empty = pq.read_table(tmp_path / "1.parquet").cast(pa.schema([(k, pa.int64() if k == "d" else v.type) for k, v in kinds.items()])).to_pylist(), dict.fromkeys(kinds)
    assert rows(str(tmp_path / "*.parquet")) == [empty, empty, *full]
    assert rows([str(tmp_path / "1.parquet"), str(tmp_path / "0.parquet")]) == [*full, empty, empty]
    assert rows(str(tmp_path / "*.parquet"), where="i IS NOT NULL AND s = 'x'") == [full[0]]


def test_another_type_names_both(tmp_path):
    types = {"i64": pa.array([1]), "text": pa.array(["x"]), "bytes": pa.array([b"x"]), "list of i32": pa.array([[1]], pa.list_(pa.int32())),
             "f32": pa.array([0.5], pa.float32()), "bytes of one length": pa.array([b"ab"], pa.binary(2))}
    for a, x in types.items():
        for b, y in types.items():
            pq.write_table(pa.table({"c": x}), tmp_path / "0.parquet")
            pq.write_table(pa.table({"c": y}), tmp_path / "1.parquet")
            if a == b or {a, b} == {"text", "bytes"}:
                assert len(stoker.open(str(tmp_path / "*.parquet"))) == 2
                continue
            with pytest.raises(stoker.StokerError, match=re.escape(f"column c is {b} here and {a} in the files before")):
                stoker.open(str(tmp_path / "*.parquet"))


def test_columns_with_one_name(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    for names in (["a", "a"], ["a", "b", "a", "b", "a"]):
        pq.write_table(pa.Table.from_arrays([pa.array([i, -i]) for i in range(len(names))], names=names), tmp_path / "t.parquet")
        want = duckdb.read_parquet(str(tmp_path / "t.parquet"))
        assert [tuple(r.values()) for r in rows(str(tmp_path / "t.parquet"))] == want.fetchall()
        assert stoker.open(str(tmp_path / "t.parquet")).fields == want.columns
    pq.write_table(pa.Table.from_arrays([pa.array([i]) for i in range(3)], names=["a", "a", "a_1"]), tmp_path / "t.parquet")
    assert rows(str(tmp_path / "t.parquet")) == [{"a": 0, "a_2": 1, "a_1": 2}]
    pq.write_table(pa.Table.from_arrays([pa.array([i]) for i in range(1100)], names=["a"] * 1100), tmp_path / "t.parquet")
    with pytest.raises(stoker.StokerError, match="more than 1000 columns have the name of another"):
        stoker.open(str(tmp_path / "t.parquet"))


def test_folders_of_spark_and_hive(tmp_path):
    """Spark calls a folder a.parquet, Hive's files have no ending, and a folder's value counts where a column repeats it, as for DuckDB."""
    duckdb = pytest.importorskip("duckdb")
    spark = tmp_path / "spark" / "a.parquet"
    hive = tmp_path / "hive"
    for folder in (spark, hive / "year=2024", hive / "year=2025"):
        folder.mkdir(parents=True)
    pq.write_table(pa.table({"x": [1, 2]}), spark / "part-00000.snappy.parquet")
    (spark / "_SUCCESS").write_text("")
    assert rows(str(tmp_path / "spark")) == rows(str(spark)) == [{"x": 1}, {"x": 2}]
    pq.write_table(pa.table({"x": [1, 2], "year": [7, 7]}), hive / "year=2024" / "000000_0")
    pq.write_table(pa.table({"x": [3], "year": [8]}), hive / "year=2025" / "000000_0")
    (hive / "README").write_text("no table")
    want = duckdb.sql(f"SELECT x, year FROM read_parquet('{hive}/*/*', hive_partitioning=true) ORDER BY x").fetchall()
    assert [(r["x"], int(r["year"])) for r in rows(str(hive))] == want == [(1, 2024), (2, 2024), (3, 2025)]
    assert [r["x"] for r in rows(str(hive), where="year = 2025")] == [3]
    assert [r["x"] for r in rows(str(hive / "year=2024" / "000000_0"))] == [1, 2]
    pq.write_table(pa.table({"x": [4], "year": [9]}), hive / "more.parquet")
    with pytest.raises(stoker.StokerError, match="column year is in this file, and in the names of other files' folders"):
        stoker.open(str(hive))


# ---- files that today's writers do not make: bytes are changed as the format's history has them ----

def varint(v):
    out = b""
    while v > 127:
        out, v = out + bytes([v & 127 | 128]), v >> 7
    return out + bytes([v])


def zigzag(v):
    return varint(v << 1 if v >= 0 else (-v << 1) - 1)


def edit_footer(path, change):
    raw = path.read_bytes()
    n = struct.unpack("<I", raw[-8:-4])[0]
    footer = change(raw[-8 - n:-8])
    path.write_bytes(raw[:-8 - n] + footer + struct.pack("<I", len(footer)) + b"PAR1")


@pytest.mark.parametrize("compression", ["snappy", "none"])
@pytest.mark.parametrize("page", [64, 1 << 20])
def test_lists_in_version_2_pages_of_arrow_before_12(tmp_path, compression, page):
    """Its header says as many rows as there are values.  DataPageHeaderV2 is field 8 of a page's header: num_values is its field 1,
    num_nulls 2, num_rows 3, each a zigzag varint after one byte of field and type (0x15)."""
    lists = [[j for j in range(i % 7)] if i % 5 else None for i in range(500)]
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"l": pa.array(lists, pa.list_(pa.int32()))}), path, data_page_version="2.0", compression=compression, data_page_size=page,
                   use_dictionary=False, write_statistics=False, write_batch_size=64)
    raw = path.read_bytes()
    changed = 0
    for found in re.finditer(rb"\x5c\x15((?:[\x80-\xff]*[\x00-\x7f]))\x15((?:[\x80-\xff]*[\x00-\x7f]))\x15((?:[\x80-\xff]*[\x00-\x7f]))\x15", raw, re.S):
        values, count = found.group(1), found.group(3)
        if len(values) == len(count):
            raw = raw[:found.start(3)] + values + raw[found.end(3):]
            changed += values != count
    assert changed
    path.write_bytes(raw)
    assert [r["l"] for r in rows(str(path))] == lists


def test_version_2_pages_of_arrow_before_3(tmp_path):
    """ARROW-17100: values are packed though is_compressed (field 7 of DataPageHeaderV2) is false; created_by says which writer it was."""
    path = tmp_path / "t.parquet"
    want = list(range(1000))
    pq.write_table(pa.table({"x": pa.array(want, pa.int64())}), path, data_page_version="2.0", compression="snappy", use_dictionary=False, write_statistics=False)
    raw = path.read_bytes()
    # def bytes (field 5), rep bytes (6), is_compressed: field 7, whose type is its value (0x11: true, 0x12: false)
    at = raw.index(b"\x15\x00\x11") + 2
    assert at < 100
    path.write_bytes(raw[:at] + b"\x12" + raw[at + 1:])
    with pytest.raises(stoker.StokerError, match="a page of"):
        rows(str(path))
    for old in (b"parquet-cpp version 1.5.1-SNAPSHOT", b"parquet-cpp-arrow version 2.0.0"):
        edit_footer(path, lambda f: re.sub(rb"(.)parquet-cpp[ -~]*?version [0-9.]+(-SNAPSHOT)?", lambda m: bytes([len(old)]) + old, f, flags=re.S))
        assert [r["x"] for r in rows(str(path))] == want


def test_chunks_of_old_parquet_mr(tmp_path):
    """Before 1.2.9 (PARQUET-816) a chunk's total_compressed_size leaves out the header of its dictionary page."""
    path = tmp_path / "t.parquet"
    want = [f"w{i % 5}" for i in range(300)]
    pq.write_table(pa.table({"s": want, "n": pa.array(range(300), pa.int32())}), path, write_statistics=False)
    size = pq.ParquetFile(path).metadata.row_group(0).column(0).total_compressed_size
    # ColumnMetaData: field 7 follows field 6, so its head is 0x16 (delta 1, i64)
    edit_footer(path, lambda f: f.replace(b"\x16" + zigzag(size), b"\x16" + zigzag(size - 14), 2))
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).total_compressed_size == size - 14
    assert [(r["s"], r["n"]) for r in rows(str(path))] == list(zip(want, range(300)))


def test_fastparquet_that_guesses_nulls(tmp_path):
    """has_nulls="infer" writes repetition_type as a flag (thrift's true is type 1, false 2) where a number belongs (0x25: field 3, i32).
    pyarrow and DuckDB take it for missing, and read wrong texts; fastparquet reads it as OPTIONAL and REQUIRED."""
    path = tmp_path / "t.parquet"
    schema = pa.schema([pa.field("s", pa.string()), pa.field("i", pa.int64(), nullable=False)])
    want = [{"s": s, "i": i} for i, s in enumerate(["a", None, "c", "", None])]
    pq.write_table(pa.Table.from_pylist(want, schema), path, store_schema=False, use_dictionary=False)

    def change(f):
        for name, was, now in ((b"s", 2, 1), (b"i", 0, 2)):
            old = b"\x25" + bytes([was]) + b"\x18" + bytes([len(name)]) + name
            assert f.count(old) == 1
            f = f.replace(old, bytes([0x20 | now]) + b"\x18" + bytes([len(name)]) + name)
        return f

    edit_footer(path, change)
    assert rows(str(path)) == want


def test_nulls_in_lists_of_whole_numbers(tmp_path):
    """null= says what stands for them; lists of floats have NaN."""
    lists = [[1, None, 3], [], None, [None], [4, 5]]
    path = tmp_path / "t.parquet"
    for kind in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "date32", "bool_"):
        table = pa.table({"l": pa.array(lists if kind != "bool_" else [v and [x and x % 2 == 1 for x in v] for v in lists], pa.list_(getattr(pa, kind)()))}) \
            if kind != "date32" else pa.table({"l": pa.array(lists, pa.list_(pa.int32())).cast(pa.list_(pa.date32()))})
        for version in ("1.0", "2.0"):
            pq.write_table(table, path, data_page_version=version, use_dictionary=version == "1.0")
            fill = 7 if kind.startswith("u") else 1 if kind == "bool_" else -7
            plain = table if kind != "date32" else table.cast(pa.schema([("l", pa.list_(pa.int32()))]))
            want = [v and [fill if x is None else int(x) for x in v] for v in plain["l"].to_pylist()]
            assert [r["l"] for r in rows(str(path), null=fill)] == want
            with stoker.Loader(stoker.open(str(path), null=fill), {"l": "ints"}, batch_size=2, select=[0, 4], collate="list") as loader:
                assert [list(map(int, v)) for b in loader for v in b["l"]] == [want[0], want[4]]
            with pytest.raises(stoker.StokerError, match="list has a null, .*null=-1"):
                stoker.open(str(path))[0]
    for kind, bad in (("int8", 128), ("int8", -129), ("uint8", -1), ("uint16", 65536), ("int32", 2**31), ("uint32", -1)):
        pq.write_table(pa.table({"l": pa.array(lists, pa.list_(getattr(pa, kind)()))}), path)
        with pytest.raises(stoker.StokerError, match=f"null={bad} is not a value of column l"):
            stoker.open(str(path), null=bad)


@pytest.mark.parametrize("compression", ["snappy", "none", "zstd"])
def test_is_null_of_any_column(tmp_path, compression):
    """IS NULL looks at levels alone: of large values, structs, lists and their members, as DuckDB has it."""
    duckdb = pytest.importorskip("duckdb")
    rng = np.random.default_rng(18)
    n = 60
    holes = lambda make: [None if rng.random() < 0.3 else make(i) for i in range(n)]       # noqa: E731
    table = pa.table({
        "image": pa.array([None if i % 5 == 0 else {"bytes": None if i % 7 == 0 else rng.bytes(20_000), "path": None if i % 3 == 0 else f"{i}.jpg"} for i in range(n)],
                          pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        "big": pa.array(holes(lambda i: rng.bytes(30_000)), pa.binary()),
        "l": pa.array(holes(lambda i: [None, 1][:i % 3]), pa.list_(pa.int32())),
        "s": pa.array(holes(lambda i: {"a": None if i % 2 else i, "t": {"b": "x"} if i % 3 else None}), pa.struct([("a", pa.int64()), ("t", pa.struct([("b", pa.string())]))])),
        "whole": pa.array([{"a": i} for i in range(n)], pa.struct([("a", pa.int64())])),
        "none": pa.nulls(n), "x": pa.array(range(n))})
    path = str(tmp_path / "t.parquet")
    for options in ({}, {"data_page_version": "2.0"}, {"write_statistics": False, "row_group_size": 17, "data_page_size": 100}):
        pq.write_table(table, path, compression=compression, **options)
        for name, sql in [(c, c) for c in table.column_names] + [("image.bytes", "image['bytes']"), ("image.path", "image.path"), ("s.a", "s.a"), ("s.t.b", "s.t.b")]:
            for how in ("IS NULL", "IS NOT NULL", "IS NOT NULL AND x > 20", "IS NULL OR x < 3"):
                want = [r[0] for r in duckdb.sql(f"SELECT x FROM '{path}' WHERE {sql} {how} ORDER BY x").fetchall()]
                quoted = f'"{name}"'
                if not want:
                    with pytest.raises(stoker.StokerError, match="no sample satisfies"):
                        stoker.open(path, {"x": "int"}, where=f"{quoted} {how}")
                    continue
                got = [int(s["x"]) for s in stoker.open(path, {"x": "int"}, where=f"{quoted} {how}")]
                assert got == want, (name, how, options)
    with pytest.raises(stoker.StokerError, match="where: "):
        stoker.open(path, where="l = 3")


def test_texts_may_be_called_anything(tmp_path):
    """`check` takes cls and index for whole numbers where they are suffixes of files, not of columns."""
    pq.write_table(pa.table({"index": ["a", "b"], "cls": ["cat", "dog"], "inx": ["x", "y"]}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("index,cls\na,cat\nb,dog\n")
    (tmp_path / "t.jsonl").write_text('{"index": "a", "cls": "cat"}\n')
    for name in ("t.parquet", "t.csv", "t.jsonl"):
        done = subprocess.run([CLI, "check", str(tmp_path / name)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    with tarfile.open(tmp_path / "t.tar", "w") as t:
        info = tarfile.TarInfo("0.cls")
        info.size = 3
        t.addfile(info, io.BytesIO(b"cat"))
    assert subprocess.run([CLI, "check", str(tmp_path / "t.tar")], capture_output=True).returncode != 0


def test_gzip_without_its_ending(tmp_path):
    """tf.io.TFRecordOptions(compression_type="GZIP") names nothing: the first bytes say it."""
    store = stoker.Store(cache=str(tmp_path / "cache"))     # not by the environment: the process would keep it

    records = [b"one", b"two, longer", b""]
    plain = b"".join(map(record, records))
    for name, data in (("plain.tfrecord", plain), ("zipped.tfrecord", gzip.compress(plain)), ("zipped.tfrecord-00000-of-00001", gzip.compress(plain))):
        (tmp_path / name).write_bytes(data)
        assert [s["record"] for s in stoker.open(str(tmp_path / name), store=store)] == records, name


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_arrow_columns_without_a_type_or_with_one_name(tmp_path, compression):
    options = pa.ipc.IpcWriteOptions(compression=compression)

    def write(name, table):
        with pa.ipc.new_file(tmp_path / name, table.schema, options=options) as f:
            f.write_table(table)

    kinds = {"i": pa.array([1, None]), "s": pa.array(["x", None]), "l": pa.array([[1, 2], None]), "f": pa.array([[0.5, 1.5], None], pa.list_(pa.float32(), 2))}
    write("0.arrow", pa.table({k: pa.nulls(2) for k in kinds}))
    write("1.arrow", pa.table(kinds))
    full, empty = pa.table(kinds).to_pylist(), dict.fromkeys(kinds)
    assert rows(str(tmp_path / "*.arrow")) == [empty, empty, *full]
    assert rows([str(tmp_path / "1.arrow"), str(tmp_path / "0.arrow")]) == [*full, empty, empty]
    write("t.feather", pa.Table.from_arrays([pa.array([i, -i]) for i in range(4)], names=["a", "b", "a", "a_1"]))
    assert rows(str(tmp_path / "t.feather")) == [{"a": 0, "b": 1, "a_2": 2, "a_1": 3}, {"a": 0, "b": -1, "a_2": -2, "a_1": -3}]
    fixed = [pa.array([[i] * n], pa.list_(pa.int32(), n)) for i, n in enumerate((2, 3))]
    pq.write_table(pa.Table.from_arrays(fixed, names=["v", "v"]), tmp_path / "v.parquet")
    with stoker.Loader(str(tmp_path / "v.parquet"), {"a": "from(v)", "b": "from(v_1)"}, batch_size=1) as loader:
        batch = next(iter(loader))
        assert (tuple(batch["a"].shape), tuple(batch["b"].shape)) == ((1, 2), (1, 3))


def test_prepared_data_know_how_they_were_read(tmp_path):
    """null= and encoding= decide what a data set gives: prepared() makes it again."""
    from stoker._prepared import _part_of
    pq.write_table(pa.table({"l": [[1, None]]}), tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_bytes(b"a\n\xe4\n")
    parts = [_part_of(stoker.open(str(tmp_path / "t.parquet"), null=v)) for v in (None, 0, -1)]
    parts += [_part_of(stoker.open(str(tmp_path / "t.csv"), encoding=v)) for v in ("latin-1", "cp1251")]
    assert len(set(parts)) == 5
    assert _part_of(stoker.open(str(tmp_path / "t.csv"))) == parts[0]
