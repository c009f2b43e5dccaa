# SPDX-License-Identifier: Apache-2.0
"""Lists with nulls in Arrow files, streams and memory: the values that pyarrow has, and those that Parquet files of the same table give."""
import math
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest

import stoker

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

CLI = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))
SEED = 11
WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "date32", "time64", "bool_")


def random_lists(rng, n, value, length=None):
    """Lists of which some, in every fourth row, are null, some empty, and some have nulls."""
    size = lambda: rng.randrange(6) if length is None else length  # noqa: E731
    return [None if i % 4 == 3 and rng.random() < 0.5 else [None if rng.random() < 0.3 else value(rng) for _ in range(size())] for i in range(n)]


def made_table(n=60):
    rng = random.Random(SEED)
    small = lambda r: r.randrange(100)  # noqa: E731
    flag = lambda r: r.random() < 0.5  # noqa: E731
    kinds = {k: getattr(pa, k)(*(["us"] if k == "time64" else [])) for k in WHOLE}
    columns = {k: pa.array(random_lists(rng, n, flag if k == "bool_" else small), pa.list_(t)) for k, t in kinds.items()}
    for k in ("float16", "float32", "float64"):
        columns[k] = pa.array(random_lists(rng, n, lambda r: np.float16(small(r) / 4)), pa.list_(getattr(pa, k)()))
    columns["decimal"] = pa.array(random_lists(rng, n, small), pa.list_(pa.decimal128(20, 3)))
    columns["large"] = pa.array(random_lists(rng, n, small), pa.large_list(pa.int16()))
    columns["fixed"] = pa.array(random_lists(rng, n, small, 3), pa.list_(pa.int32(), 3))
    columns["map"] = pa.array([v and [(i, x) for i, x in enumerate(v)] for v in random_lists(rng, n, small)], pa.map_(pa.int32(), pa.int64()))
    columns["structs"] = pa.array(random_lists(rng, n, lambda r: {"a": r.choice([None, 5]), "in": r.choice([None, {"f": 0.5}, {"f": None}]), "t": "x"}),
                                  pa.list_(pa.struct([("a", pa.int32()), ("in", pa.struct([("f", pa.float32())])), ("t", pa.string())])))
    columns["in"] = pa.StructArray.from_arrays([pa.array(random_lists(rng, n, small), pa.list_(pa.int64()))], ["l"],
                                               mask=pa.array([i % 8 == 3 for i in range(n)]))
    return pa.table(columns)


def expected(table, fill):
    """What each row is, by pyarrow; nan is "nan", to be compared."""
    plain = {"date32": pa.int32(), "time64": pa.int64()}
    for k, t in plain.items():
        if k in table.column_names:
            i = table.column_names.index(k)
            table = table.set_column(i, k, table[k].cast(pa.list_(t)))
    out = []
    for row in table.to_pylist():
        flat = {}
        for k, v in row.items():
            if k == "map":
                flat["map.key"], flat["map.value"] = (v and [p[i] for p in v] for i in range(2)) if v is not None else (None, None)
            elif k == "structs":
                flat["structs.a"] = v and [s and s["a"] for s in v]
                flat["structs.in.f"] = v and [s and s["in"] and s["in"]["f"] for s in v]
                flat["structs.t"] = v and [s and s["t"] for s in v]
            elif k == "in":
                flat["in.l"] = v and v["l"]
            else:
                flat[k] = v
        floats = {"float16", "float32", "float64", "decimal", "structs.in.f"}
        out.append({k: v if k == "structs.t" else v and [("nan" if k in floats else fill) if x is None else float(x) if k in floats else int(x) for x in v] for k, v in flat.items()})
    return out


def shown(sample):
    return {k: v if v is None or k == "structs.t" else ["nan" if math.isnan(x) else x for x in v.tolist()] for k, v in sample.items() if not k.startswith("__")}


def write(path, table, stream=False, rows=17, **options):
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as f:
        f.write_table(table, max_chunksize=rows)


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["plain", "lz4", "zstd", "stream", "memory", "sliced", "parquet"])
def test_nulls_in_lists(tmp_path, kind):
    table = made_table()
    path = str(tmp_path / "t.arrow")
    data = path
    if kind == "sliced":
        table = table.slice(7, 40)
    if kind in ("memory", "sliced"):
        data = table
    elif kind == "parquet":
        data = str(tmp_path / "t.parquet")
        pq.write_table(table, data)
    else:
        write(path, table, kind == "stream", compression=kind if kind in ("lz4", "zstd") else None)
    want = expected(table, 1)
    got = [shown(s) for s in stoker.open(data, null=1)]
    assert got == want, f"seed {SEED}"
    fields = {k: "from(structs.t)" if k == "structs.t" else f"from({k}) | {'floats' if k.startswith(('float', 'dec')) or k.endswith('.f') else 'ints'}" for k in want[0]}
    some = [i for i, row in enumerate(want) if None not in row.values()]
    assert some
    with stoker.Loader(stoker.open(data, null=1), fields, batch_size=4, select=some, collate="list") as loader:
        for k in want[0]:
            loaded = [v if k == "structs.t" else ["nan" if math.isnan(x) else x for x in v.tolist()] for b in loader for v in b[k]]
            assert loaded == [want[i][k] for i in some], k


def test_nulls_without_a_value(tmp_path):
    lists = [[1, None], [2, 3], [4, 5]]
    for kind in WHOLE:
        of = getattr(pa, kind)(*(["us"] if kind == "time64" else []))
        t = pa.table({"l": pa.array([[x and x % 2 == 1 for x in v] for v in lists] if kind == "bool_" else lists, pa.list_(of))})
        write(tmp_path / "t.arrow", t)
        write(tmp_path / "z.arrow", t, compression="zstd")
        for data in (t, str(tmp_path / "t.arrow"), str(tmp_path / "z.arrow")):
            ds = stoker.open(data)
            with pytest.raises(stoker.StokerError, match="column l: the list has a null, .*null=-1"):
                ds[0]
            assert ds[1]["l"].tolist() == [int(x) for x in ([False, True] if kind == "bool_" else lists[1])]
    for kind, bad in (("int8", 128), ("uint8", -1), ("uint32", -1), ("int32", 2**31)):
        t = pa.table({"l": pa.array(lists, pa.list_(getattr(pa, kind)()))})
        write(tmp_path / "t.arrow", t)
        for data in (t, str(tmp_path / "t.arrow")):
            with pytest.raises(stoker.StokerError, match=f"null={bad} is not a value of column l"):
                stoker.open(data, null=bad)
    big = pa.table({"l": pa.array([[1, 2**63], [None, 7]], pa.list_(pa.uint64()))})
    write(tmp_path / "z.arrow", big, compression="zstd")
    for data in (big, str(tmp_path / "z.arrow")):
        ds = stoker.open(data, null=-1)
        with pytest.raises(stoker.StokerError, match="2\\^63"):
            ds[0]
        assert ds[1]["l"].tolist() == [-1, 7]


def test_the_files_types_are_named(tmp_path):
    first = {"i": pa.array([1]), "t": pa.array([1], pa.timestamp("us")), "l": pa.array([[1]]), "s": ["x"], "v": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2))}

    def why(**changed):
        columns = {**first, **changed}
        write(tmp_path / "0.arrow", pa.table(first))
        write(tmp_path / "1.arrow", pa.table({k: v for k, v in columns.items() if v is not None}))
        with pytest.raises(stoker.StokerError) as e:
            stoker.open(str(tmp_path / "*.arrow"))
        assert "1.arrow" in str(e.value)
        return str(e.value)

    both = "column {} is {} here and {} in the files before: open them apart, or cast it"
    assert both.format("i", "f32", "i64") in why(i=pa.array([1], pa.float32()))
    assert both.format("i", "text", "i64") in why(i=["x"])
    assert both.format("i", "date", "i64") in why(i=pa.array([1], pa.date32()))
    assert both.format("t", "timestamp[ms]", "timestamp[us]") in why(t=pa.array([1], pa.timestamp("ms")))
    assert both.format("t", "duration[us]", "timestamp[us]") in why(t=pa.array([1], pa.duration("us")))
    assert both.format("l", "list of f64", "list of i64") in why(l=[[0.5]])
    assert both.format("l", "bool", "list of i64") in why(l=[True])
    assert both.format("v", "list of 3 f32", "list of 2 f32") in why(v=pa.array([[1.0, 2, 3]], pa.list_(pa.float32(), 3)))
    assert both.format("l", "list of text", "list of i64") in why(l=[["x"]])
    assert "column l can be read in some files and not in others, because it is a list of bytes" in why(l=[[b"x"]])
    assert "column more is not in the files before" in why(more=[1])
    assert "column t is in the files before and not here" in why(t=None)
    write(tmp_path / "0.arrow", pa.table(first))
    write(tmp_path / "1.arrow", pa.table(dict(reversed(first.items()))))
    with pytest.raises(stoker.StokerError, match="column v has another place here .*one order"):
        stoker.open(str(tmp_path / "*.arrow"))
    for i, x in enumerate((pa.nulls(1), pa.array([1]), pa.array([0.5]))):       # the first says nothing, the others not the same
        write(tmp_path / f"{i}.feather", pa.table({"x": x}))
    with pytest.raises(stoker.StokerError, match="column x is f64 here and i64 in the files before"):
        stoker.open(str(tmp_path / "*.feather"))


def test_schema_lists_what_is_not_read(tmp_path):
    """Every column of the schema is there, with a type or a reason."""
    union = pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])
    columns = {"x": pa.array([1]), "lists": pa.array([[[1]]]), "texts": pa.array([["a"]]), "bytes": pa.array([[b"a"]]), "nulls": pa.array([[None]], pa.list_(pa.null())),
               "empty": pa.array([{}], pa.struct([])), "union": union, "views": pa.array([[1]], pa.list_view(pa.int32())),
               "run": pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array(["a"])),
               "coded": pa.array([["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))), "some": pa.array([[{"n": 1, "t": "x"}]])}
    arrow, parquet = tmp_path / "t.arrow", tmp_path / "t.parquet"
    write(arrow, pa.table(columns))
    pq.write_table(pa.table({k: v for k, v in columns.items() if k not in ("empty", "union", "views", "run")}), parquet)
    for path in (arrow, parquet):
        out = subprocess.run([CLI, "ls", "--schema", str(path)], capture_output=True, text=True, check=True).stdout
        said = {line.split()[0]: line.partition("  not read: ")[2] for line in out.splitlines()}
        names = set(columns) if path == arrow else set(pq.read_schema(path).names)
        assert set(said) == names - {"some"} | {"some.n", "some.t"}
        assert {k for k, why in said.items() if not why} == {"x", "texts", "coded", "some.n", "some.t"} | ({"nulls"} if path == parquet else set())   # which has them as int32
    assert "list of lists" in said["lists"] and "list of bytes" in said["bytes"]
