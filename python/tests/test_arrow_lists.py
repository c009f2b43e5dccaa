# SPDX-License-Identifier: Apache-2.0
"""Lists with nulls in Arrow files, streams and memory: the values that pyarrow has, and those that Parquet files of the same table give."""
import math
import random

import numpy as np
import pytest

import stoker

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

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
            elif k == "in":
                flat["in.l"] = v and v["l"]
            else:
                flat[k] = v
        floats = {"float16", "float32", "float64", "decimal", "structs.in.f"}
        out.append({k: v and [("nan" if k in floats else fill) if x is None else float(x) if k in floats else int(x) for x in v] for k, v in flat.items()})
    return out


def shown(sample):
    return {k: v if v is None else ["nan" if math.isnan(x) else x for x in v.tolist()] for k, v in sample.items() if not k.startswith("__")}


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
    fields = {k: f"from({k}) | {'floats' if k.startswith(('float', 'dec')) or k.endswith('.f') else 'ints'}" for k in want[0]}
    some = [i for i, row in enumerate(want) if None not in row.values()]
    assert some
    with stoker.Loader(stoker.open(data, null=1), fields, batch_size=4, select=some, collate="list") as loader:
        for k in want[0]:
            loaded = [["nan" if math.isnan(x) else x for x in v.tolist()] for b in loader for v in b[k]]
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
