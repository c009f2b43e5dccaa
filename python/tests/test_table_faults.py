# SPDX-License-Identifier: Apache-2.0
"""Tables of other programs, value by value: texts and floats of columns, old encodings of Arrow, decimals, claims that files make."""
import os
import random
import re
import resource
import struct
import subprocess
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import stoker

pa = pytest.importorskip("pyarrow")
import pyarrow.feather as feather  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402

CLI = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))


def write_arrow(path, table, **options):
    with pa.ipc.new_file(str(path), table.schema, options=pa.ipc.IpcWriteOptions(**options)) as w:
        w.write_table(table)
    return str(path)


def write(kind, folder, table):
    """The table as a file of this kind, or as it is."""
    if kind == "memory":
        return table
    path = folder / f"t.{kind.split('-')[0]}"
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "parquet-plain":
        pq.write_table(table, path, use_dictionary=False)
    elif kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as f:
            for name in table.column_names:
                values = table[name].to_pylist()
                f[name] = values if isinstance(values[0], str) else np.array(values, table[name].type.to_pandas_dtype())
    else:
        write_arrow(path, table, compression=kind.partition("-")[2] or None)
    return str(path)


KINDS = ["parquet", "parquet-plain", "arrow", "arrow-zstd", "hdf5", "memory"]


# ---- 12: columns ----


@pytest.mark.asan
@pytest.mark.parametrize("kind", KINDS)
def test_column_of_texts(tmp_path, kind):
    """An empty text has no bytes of its own: the next one is at its address."""
    rng = random.Random(12)
    for texts in (["a", "", "b", "c"], ["", "x", "", "y"], [rng.choice(["", "Howard", "Ann", "a" * 70]) for _ in range(5000)]):
        ds = stoker.open(write(kind, tmp_path, pa.table({"name": texts})))
        rows = [ds[i]["name"] for i in range(4)]
        assert ds.column("name").tolist() == texts == [r if isinstance(r, str) else r.decode() for r in rows] + texts[4:]


def test_classes_of_texts(tmp_path):
    """balance= and stratify= number classes by their whole text, also where it is empty or ends in NUL."""
    names = ["", "a", "b", "a\0"]
    table = pa.table({"name": [names[i % 4] for i in range(400)], "x": list(range(400))})
    source = write("parquet", tmp_path, table)
    for option in ({"balance": "name"}, {"stratify": "name", "shuffle": True}):
        with stoker.Loader(source, {"x": "from(x)"}, batch_size=40, epoch_size=4000, seed=3, **option) as loader:
            seen = np.array([x for b in loader for x in b["x"].tolist()])
        counts = np.bincount(seen % 4, minlength=4)
        assert counts.min() > 800, f"{option}: {counts}"
    with pytest.raises(stoker.StokerError, match="weights must be numbers"):
        stoker.Loader(source, {"x": "from(x)"}, weights="name")


@pytest.mark.asan
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_stay_floats(tmp_path, kind, dtype):
    values = np.array([-0.0, 1.0, 2.0, 300.0], dtype)
    ds = stoker.open(write(kind, tmp_path, pa.table({"x": pa.array(values), "n": [1, 2, 3, 4]})))
    x = ds.column("x")
    assert x.dtype == np.float64 == ds.columns["x"] and x.tolist() == values.tolist() and np.signbit(x[0])
    assert ds.column("n").dtype == np.int64


# ---- 13: old encodings of Arrow ----


def tables_of(raw):
    """(where it is, header's type) of the messages of a stream or file."""
    at = 8 if raw[:6] == b"ARROW1" else 0
    while True:
        mark, n = struct.unpack_from("<II", raw, at)
        assert mark == 0xFFFFFFFF
        if not n:
            return
        start = at + 8
        root = start + struct.unpack_from("<I", raw, start)[0]
        kind = raw[field(raw, root, 1)]
        yield root, kind
        body = struct.unpack_from("<q", raw, field(raw, root, 3))[0] if field(raw, root, 3) else 0
        at = start + n + body


def field(raw, table, i):
    """Where field i of a table is; 0: nowhere."""
    vtable = table - struct.unpack_from("<i", raw, table)[0]
    if 4 + 2 * i >= struct.unpack_from("<H", raw, vtable)[0]:
        return 0
    to = struct.unpack_from("<H", raw, vtable + 4 + 2 * i)[0]
    return table + to if to else 0


def forget(raw, table, i):
    vtable = table - struct.unpack_from("<i", raw, table)[0]
    struct.pack_into("<H", raw, vtable + 4 + 2 * i, 0)


def as_of_0_17(path, table, codec, name):
    """The codec in the message's own metadata, and nowhere else, as pyarrow 0.17 wrote it."""
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4, compression=codec)
    with pa.ipc.new_file(str(path), table.schema, options=options) as w:
        for batch in table.to_batches(max_chunksize=700):
            w.write_batch(batch, custom_metadata={"other": "x", "ARROW:experimental_compression": name})
    raw = bytearray(path.read_bytes())
    batches = 0
    for root, kind in tables_of(raw):
        if kind == 3:
            header = field(raw, root, 2)
            forget(raw, header + struct.unpack_from("<I", raw, header)[0], 3)
            batches += 1
    assert batches == 3
    path.write_bytes(raw)
    return str(path)


@pytest.mark.asan
@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_codec_in_the_messages_metadata(tmp_path, codec):
    rng = np.random.default_rng(13)
    table = pa.table({"x": rng.integers(0, 9, 2000), "s": [f"n{i % 7}" for i in range(2000)], "f": rng.random(2000)})
    path = as_of_0_17(tmp_path / "old.feather", table, codec, codec.upper())
    with pa.ipc.open_file(path) as f:
        assert f.read_all().equals(table)               # what we wrote is what pyarrow takes it for
    ds = stoker.open(path)
    assert {n: ds.column(n).tolist() for n in table.column_names} == table.to_pydict()
    other = as_of_0_17(tmp_path / "odd.feather", table, codec, "brotli")
    with pytest.raises(stoker.StokerError, match="compressed in a way that is not known"):
        stoker.open(other)[0]
    listed = subprocess.run([CLI, "ls", "--schema", other], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(listed) == 3 and all("not read: the file is compressed in a way that is not known" in line for line in listed)


@pytest.mark.parametrize("version", ["V4", "V5"])
@pytest.mark.parametrize("legacy", [False, True])
def test_unions_of_old_metadata_move_no_column(tmp_path, version, legacy):
    """Up to version 4 a union had bits of validity: columns after it have other buffers."""
    kinds = pa.array([0, 1, 0, 1], pa.int8())
    parts = [pa.array([1, 2, 3, 4]), pa.array(["a", "b", "c", "d"])]
    for union in (pa.UnionArray.from_sparse(kinds, parts), pa.UnionArray.from_dense(kinds, pa.array([0, 0, 1, 1], pa.int32()), parts)):
        table = pa.table({"u": union, "after": pa.array([10, 20, None, 40])})
        path = write_arrow(tmp_path / "u.arrow", table, metadata_version=getattr(pa.ipc.MetadataVersion, version), use_legacy_format=legacy)
        got = stoker.open(path).column("after")
        assert got[[0, 1, 3]].tolist() == [10, 20, 40] and np.isnan(got[2])


def test_feather_of_version_1(tmp_path):
    table, path = pa.table({"x": [1, 2, 3]}), tmp_path / "one.feather"
    try:
        feather.write_feather(table, str(path), version=1)
    except Exception:                                   # a pyarrow that no longer writes it
        path.write_bytes(b"FEA1" + bytes(200) + b"FEA1")
    with pytest.raises(stoker.StokerError, match="Feather version 1 is not read: write it again"):
        stoker.open(str(path))


# ---- 15: decimals ----


def decimals(rng, digits, scale, n):
    most = 10 ** digits - 1
    whole = [0, 1, -1, most, -most] + [rng.randint(-(10 ** rng.randint(1, digits)), 10 ** rng.randint(1, digits)) for _ in range(n)]
    whole = [max(-most, min(most, w)) for w in whole]
    return [Decimal(w).scaleb(-scale) for w in whole] if digits <= 28 else [Decimal(f"{w}E{-scale}") for w in whole]


DECIMALS = [(9, 2), (18, 2), (18, 9), (28, 6), (38, 2), (38, 20), (38, 37), (76, 30), (76, 2)]


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["parquet", "parquet-plain", "parquet-int", "arrow", "arrow-zstd", "memory"])
def test_decimals_are_rounded_once(tmp_path, kind):
    """The double nearest to the decimal, as Python's float() has it, from every place where it is stored."""
    rng = random.Random(15)
    columns, want = {}, {}
    for digits, scale in DECIMALS:
        if digits > 18 and kind == "parquet-int":
            continue
        values = decimals(rng, digits, scale, 300) + ([Decimal("-990.79")] if scale == 2 else [Decimal(0)])
        name = f"d{digits}_{scale}"
        columns[name] = pa.array(values, pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale))
        want[name] = [float(v) for v in values]
    table = pa.table(columns)
    if kind == "parquet-int":
        path = str(tmp_path / "t.parquet")
        pq.write_table(table, path, store_decimal_as_integer=True)
        assert {c.physical_type for c in map(pq.ParquetFile(path).schema.column, range(len(columns)))} == {"INT32", "INT64"}
    else:
        path = write(kind, tmp_path, table)
    ds = stoker.open(path)
    for name in columns:
        assert ds.column(name).tolist() == want[name], name
        assert ds[3][name] == want[name][3]
        if name.endswith("_2"):
            assert len(stoker.open(path, where=f"{name} = -990.79")) == want[name].count(-990.79) > 0


def of_bytes(values):
    """A decimal's whole number in as few bytes as hold it, the most significant one first, as byte arrays of Parquet have it."""
    whole = [None if v is None else int(v.scaleb(2)) for v in values]
    return [None if w is None else w.to_bytes(w.bit_length() // 8 + 1, "big", signed=True) for w in whole]


def write_byte_arrays(path, values, **options):
    """No writer at hand makes decimals of byte arrays: a column of texts, whose entry in the schema is made one of decimals."""
    raw = pa.array(of_bytes(values), pa.binary()).view(pa.string())
    pq.write_table(pa.table({"byte_array": raw}), path, store_schema=False, write_statistics=False, **options)
    data = path.read_bytes()
    text = b"byte_array" + bytes.fromhex("2500 4c 1c 00 00 00")  # UTF8, of the old and of the new kind
    assert data.count(text) == 1
    path.write_bytes(data.replace(text, b"byte_array" + bytes.fromhex("250a 1504 1524 00")))  # DECIMAL(18, 2)
    have = pq.read_table(path)
    assert pq.ParquetFile(path).schema.column(0).physical_type == "BYTE_ARRAY" and have.schema.types == [pa.decimal128(18, 2)]
    assert have["byte_array"].to_pylist() == values
    return str(path)


def same_texts(source, columns):
    """`text` of a column of decimals is exact, in batches and in columns, and its doubles stay beside."""
    ds = stoker.open(source)
    fields = {f"{n}_text": f"from({n}, default=none) | text" for n in columns} | {f"{n}_f64": f"from({n}, default=-1)" for n in columns}
    got = {name: [] for name in fields}
    with stoker.Loader(ds, fields, batch_size=64) as loader:
        for b in loader:
            for name in fields:
                got[name] += list(b[name]) if name.endswith("text") else b[name].tolist()
    for name, values in columns.items():
        assert got[f"{name}_text"] == ["none" if v is None else format(v, "f") for v in values], name
        assert got[f"{name}_f64"] == [-1 if v is None else float(v) for v in values], name
        assert [ds[i][name] for i in range(0, len(values), 50)] == [None if v is None else float(v) for v in values[::50]]
        if None not in values:
            assert ds.column(f"{name}.text").tolist() == [format(v, "f") for v in values], name
        assert name + ".text" not in ds[0]
    with pytest.raises(stoker.StokerError, match="there is no column|no sample satisfies"):
        stoker.open(source, where=f"{name}.text = '1.005'")


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["parquet", "parquet-plain", "parquet-int", "arrow", "arrow-zstd", "memory"])
def test_decimals_as_text(tmp_path, kind):
    rng = random.Random(16)
    columns, types = {}, {}
    for digits, scale in [*DECIMALS, (5, -3)]:
        if digits > 18 and kind == "parquet-int" or scale < 0 and kind.startswith("parquet"):
            continue
        name = f"d{digits}_{abs(scale)}"
        columns[name] = decimals(rng, digits, scale, 300)
        if scale == 2:
            columns[name][7:10] = [Decimal("-990.79"), Decimal("0.00"), Decimal("-0.05")]
            assert format(columns[name][7], "f") == "-990.79"
        else:
            columns[name][::7] = [None] * len(columns[name][::7])
        types[name] = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
    table = pa.table({n: pa.array(v, types[n]) for n, v in columns.items()})
    columns = {n: table[n].to_pylist() for n in columns}
    if kind == "parquet-int":
        path = str(tmp_path / "t.parquet")
        pq.write_table(table, path, store_decimal_as_integer=True)
    else:
        path = write(kind, tmp_path, table)
    same_texts(path, columns)


@pytest.mark.asan
@pytest.mark.parametrize("options", [{"use_dictionary": True}, {"use_dictionary": False},
                                     {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}, {"data_page_version": "2.0"}], ids=str)
def test_decimals_of_byte_arrays(tmp_path, options):
    rng = random.Random(17)
    values = [Decimal(rng.randint(-(10 ** k), 10 ** k)).scaleb(-2) for k in range(1, 17) for _ in range(20)] + [Decimal("-990.79"), Decimal("0.00")]
    whole = write_byte_arrays(tmp_path / "whole.parquet", values, **options)
    same_texts(whole, {"byte_array": values})
    assert len(stoker.open(whole, where="byte_array = -990.79")) == 1
    values[::5] = [None] * len(values[::5])
    same_texts(write_byte_arrays(tmp_path / "nulls.parquet", values, **options), {"byte_array": values})


def test_decimals_as_text_among_others(tmp_path):
    """Files and data sets of which not all have decimals; a chain that names a column that is not one."""
    pq.write_table(pa.table({"d": pa.array([Decimal("1.50")], pa.decimal128(9, 2))}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"d": pa.array([Decimal("2.500")], pa.decimal128(30, 3))}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"d": pa.array([3.5])}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"d": pa.array(["four"])}), tmp_path / "d.parquet")
    a, b, c, d = (str(tmp_path / f"{x}.parquet") for x in "abcd")

    def texts(sources):
        with stoker.Loader(sources, {"d": "text"}, batch_size=1) as loader:
            return [x["d"][0] for x in loader]

    assert texts([a, b]) == ["1.50", "2.500"]
    assert texts([stoker.open(a), stoker.open(d)]) == ["1.50", "four"]
    for mixed in ([a, c], [stoker.open(c), stoker.open(a)]):
        with pytest.raises(stoker.StokerError, match=r"text reads bytes; the field d has a type \(f64\)"):
            texts(mixed)


# ---- 17: claims and limits ----


def zigzag(n):
    n = (n << 1) ^ (n >> 63)
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def thrift(*fields):
    """A struct of Thrift's compact protocol: (id, value), a value being an int (i32), ("l", int), bytes, a list of bytes or structs, a struct."""
    out, last = b"", 0
    for number, value in fields:
        kind = 5 if isinstance(value, int) else 6 if value[0] == "l" else 9 if isinstance(value, list) else 8 if isinstance(value, bytes) else 12
        out += bytes([(number - last) << 4 | kind])
        last = number
        out += coded(value)
    return ("s", out + b"\0")


def coded(value):
    if isinstance(value, int):
        return zigzag(value)
    if isinstance(value, bytes):
        return bytes(varint(len(value))) + value
    if isinstance(value, list):
        kind = 5 if isinstance(value[0], int) else 8 if isinstance(value[0], bytes) else 12
        head = bytes([len(value) << 4 | kind]) if len(value) < 15 else bytes([0xF0 | kind]) + bytes(varint(len(value)))
        return head + b"".join(map(coded, value))
    return zigzag(value[1]) if value[0] == "l" else value[1]


def varint(n):
    while n > 127:
        yield n & 127 | 128
        n >>= 7
    yield n


def parquet_of(columns, rows):
    """A file with one row group: columns of byte arrays, each one page: (name, codec, unpacked size that it claims, packed bytes)."""
    out, chunks = b"PAR1", []
    for name, codec, size, packed in columns:
        page = thrift((1, 0), (2, size), (3, len(packed)), (5, thrift((1, rows), (2, 0), (3, 3), (4, 3))))[1] + packed
        meta = thrift((1, 6), (2, [0]), (3, [name.encode()]), (4, codec), (5, ("l", rows)), (6, ("l", len(page) + size)), (7, ("l", len(page))),
                      (9, ("l", len(out))))
        chunks.append(thrift((2, ("l", len(out))), (3, meta)))
        out += page
    schema = [thrift((4, b"root"), (5, len(columns)))] + [thrift((1, 6), (3, 0), (4, name.encode())) for name, *_ in columns]
    group = thrift((1, chunks), (2, ("l", len(out))), (3, ("l", rows)))
    footer = thrift((1, 1), (2, schema), (3, ("l", rows)), (4, [group]))[1]
    return out + footer + struct.pack("<I", len(footer)) + b"PAR1"


def plain(values):
    return b"".join(struct.pack("<I", len(v)) + v for v in values)


@pytest.mark.asan
def test_a_page_over_the_limit(tmp_path):
    """A value of 1.2 GB, as it is claimed: an error of ds[i] and check, and a bad sample of a loader."""
    path = tmp_path / "t.parquet"
    good = plain([b"aa", b"bb"])
    path.write_bytes(parquet_of([("a", 0, len(good), good)], 2))
    assert [r["a"] for r in stoker.open(str(path))[:2]] == [b"aa", b"bb"] == pq.read_table(path)["a"].to_pylist()
    path.write_bytes(parquet_of([("a", 0, len(good), good), ("big", 6, 1_200_000_000, bytes(100))], 2))
    ds = stoker.open(str(path))
    with pytest.raises(stoker.StokerError, match="decodes to 12000000.. bytes, at most"):
        ds[0]
    assert ds.column("a", read=True).tolist() == ["aa", "bb"]
    with stoker.Loader(str(path), {"big": "from(big) | bytes"}, batch_size=1) as loader, \
            pytest.raises(stoker.StokerError, match="decodes to 12000000.. bytes") as e:
        next(iter(loader))
    assert not isinstance(e.value, MemoryError)
    small = tmp_path / "u.parquet"
    small.write_bytes(parquet_of([("a", 0, len(good), good), ("big", 0, len(good), good)], 2))
    with stoker.Loader([str(path), str(small)], {"big": "from(big) | bytes"}, batch_size=2, shuffle=True, on_error="skip") as loader:
        got = [bytes(v) for b in loader for v in b["big"]]
        assert len(got) == 4 and set(got) <= {b"aa", b"bb"} and len(loader.stats()["bad_samples"]) > 0


def test_a_sample_larger_than_memory_limit(tmp_path):
    """Larger than all that reads may take: never an OutOfMemoryError that on_error="skip" does not skip."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [b"x" * 10, bytes(60_000_000), b"y" * 10, b"z" * 10]}), path, use_dictionary=False, compression="none", row_group_size=1)
    fields = {"a": "from(a) | bytes"}
    with stoker.Loader(str(path), fields, batch_size=1, memory_limit="100MB", on_error="skip") as loader:
        assert sorted({len(b["a"][0]) for b in loader}) == [10]
    with stoker.Loader(str(path), fields, batch_size=1, memory_limit="100MB") as loader, pytest.raises(stoker.StokerError, match="memory_limit"):
        list(loader)


def claim(raw, rows):
    """All record batches claim so many rows, and so do their columns."""
    for root, kind in tables_of(raw):
        if kind == 3:
            header = field(raw, root, 2)
            batch = header + struct.unpack_from("<I", raw, header)[0]
            struct.pack_into("<q", raw, field(raw, batch, 0), rows)
            at = field(raw, batch, 1)
            nodes = at + struct.unpack_from("<I", raw, at)[0]
            for i in range(struct.unpack_from("<I", raw, nodes)[0]):
                struct.pack_into("<q", raw, nodes + 4 + 16 * i, rows)


@pytest.mark.asan
@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
def test_rows_that_an_arrow_batch_claims(tmp_path, codec):
    tables = {"numbers": pa.table({"x": list(range(50)), "s": [str(i) for i in range(50)]}), "nulls": pa.table({"n": pa.nulls(50)}),
              "lists": pa.table({"v": pa.array([[1.0, 2.0]] * 50, pa.list_(pa.float32(), 2))}), "flags": pa.table({"b": [True, False] * 25}),
              "words": pa.table({"w": pa.array(["a", "b"] * 25).dictionary_encode()}), "deep": pa.table({"d": [{"a": 1, "b": "x"}] * 50})}
    for name, table in tables.items():
        path = tmp_path / f"{name}.arrow"
        write_arrow(path, table, compression=codec)
        assert len(stoker.open(str(path))) == 50
        raw = bytearray(path.read_bytes())
        claim(raw, 4 * 10**18)
        path.write_bytes(raw)
        with pytest.raises(stoker.StokerError, match=r"claims 4000000000000000000 rows"):
            stoker.open(str(path))


@pytest.mark.asan
def test_rows_in_chunks_of_which_few_were_written(tmp_path):
    """Fill values where nothing was written, and no step for each of the 3,000 chunks that a row could have."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "t.h5", "w") as f:
        x = f.create_dataset("x", (12, 3000), "i2", chunks=(4, 1), fillvalue=7, compression="gzip")
        for at in (0, 5, 6, 2999):
            x[:, at] = np.arange(12) + at % 1000
        x[4:8, 1700] = 1
        want = x[:]
    ds = stoker.open(str(tmp_path / "t.h5"))
    assert all(np.array_equal(ds[i]["x"], want[i]) for i in range(12))
    with stoker.Loader(ds, {"x": "from(x)"}, batch_size=3, shuffle=True) as loader:
        assert all(np.array_equal(b["x"], want[np.asarray(b.sample_ids)]) for b in loader)


CLAIMS = {
    "rows that were never written": (lambda f: f.create_dataset("x", (10**9, 100_000), "f8", fillvalue=1.5), "the data set x claims 1000000000 rows, and the file has"),
    "texts": (lambda f: f.create_dataset("x", (10**8,), "S9", chunks=(1,))[:3], "the data set x claims 100000000 rows, and the file has"),
    # one chunk of a column makes a slab of 2 GB, which no cache keeps: it was made again for each row
    "columns as chunks": (lambda f: f.create_dataset("x", (4_000_000, 1000), "i2", chunks=(1_000_000, 1), compression="gzip").__setitem__((slice(None), 5), 2),
                          "the data set x claims chunks of 1000000 rows, which are 2000000000 bytes, and the file has"),
    "wide rows": (lambda f: f.create_dataset("x", (1000, 2**30), "i1", chunks=(1, 1024)).__setitem__((0, 5), 2),
                  "the data set x claims chunks of 1 rows, which are 1073741824 bytes, and the file has"),
    "chunks of a row": (lambda f: f.create_dataset("x", (1000, 2**33), "i1", chunks=(1, 1024)), "x: its chunks are too large, or its rows are in too many of them"),
    "more rows than are counted": (lambda f: f.create_dataset("x", (2**62,), "i1", chunks=(1024,)), "x: it has too many rows"),
    # as many as may be claimed: all rows are gone through in a moment
    "chunks that a row could have": (lambda f: f.create_dataset("x", (1000, 1_000_000), "i1", chunks=(1, 1), fillvalue=3).__setitem__((0, 0), 1), None),
    "rows of which one was written": (lambda f: f.create_dataset("x", (1_000_000, 1_000_000), "i1", chunks=(1, 1_000_000), compression="gzip").__setitem__(0, 1), None),
    "columns of half the slab": (lambda f: f.create_dataset("x", (60_000, 1000), "i1", chunks=(60_000, 1)).__setitem__((slice(None), 5), 2), None),
}


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_a_small_hdf5_file_claims(tmp_path, claim):
    """check, bench, ds[i] and a loader end within seconds of CPU time, or the file is refused with the data set and its claim."""
    h5py = pytest.importorskip("h5py")
    path = str(tmp_path / "t.h5")
    write_it, why = CLAIMS[claim]
    with h5py.File(path, "w") as f:
        write_it(f)
    assert os.path.getsize(path) < 200_000
    if why:
        with pytest.raises(stoker.StokerError, match=re.escape(why)):
            stoker.open(path)
    for command in (["check"], ["bench", "--seconds", "0.2", "--batch-size", "4"]):
        cli = [os.environ.get("STOKER_CLI", "stoker"), command[0], path, *command[1:]]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(cli, capture_output=True, text=True, timeout=300)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert why in done.stderr and done.returncode == 3 if why else done.returncode == 0, done.stderr
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 20
    if not why:
        ds = stoker.open(path)
        assert ds[0]["x"].size in (1000, 1_000_000)
        with stoker.Loader(ds, {"x": "from(x)"}, batch_size=4, shuffle=True) as loader:
            batches = iter(loader)
            assert all(next(batches)["x"].shape[0] == 4 for _ in range(3))
