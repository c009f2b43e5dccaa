#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_arrow beside this script (needs pyarrow)."""

import io
import pathlib
import sys
from decimal import Decimal

import pyarrow as pa

TABLE = pa.table({
    "i": pa.array([1, None, 3], pa.int16()), "b": [True, None, False], "s": ["a", None, "ccc"],
    "v": pa.array(["short", None, "a long text, out of line"], pa.string_view()), "l": [[1, 2], [], None],
    "w": pa.array([[1.5, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2)), "f": pa.array([b"12", b"34", b"56"], pa.binary(2)),
    "st": [{"bytes": b"x", "path": "p"}, None, {"bytes": None, "path": "q"}], "d": pa.array(["k", "m", None]).dictionary_encode()})
MORE = TABLE.append_column("m", pa.array([[(1, 2.5)], None, []], pa.map_(pa.int8(), pa.float64()))).append_column(
    "money", pa.array([Decimal("1.25"), None, Decimal("-3")], pa.decimal128(9, 2)))

folder = pathlib.Path(__file__).parent / "arrow"
folder.mkdir(exist_ok=True)
for name, make in {"stream": pa.ipc.new_stream, "file": pa.ipc.new_file}.items():
    out = io.BytesIO()
    with make(out, TABLE.schema) as w:
        w.write_table(TABLE, max_chunksize=2)
    (folder / name).write_bytes(out.getvalue())
for name in ("lz4", "zstd"):
    out = io.BytesIO()
    with pa.ipc.new_stream(out, MORE.schema, options=pa.ipc.IpcWriteOptions(compression=name)) as w:
        w.write_table(MORE, max_chunksize=2)
    (folder / name).write_bytes(out.getvalue())
(folder / "cut").write_bytes((folder / "stream").read_bytes()[:1500])
(folder / "no_schema").write_bytes(b"\xff\xff\xff\xff\0\0\0\0")

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "python" / "tests"))
from test_arrow_big_endian import big_stream  # noqa: E402

LISTS = pa.table({
    "i": pa.array([[1, None], [], None], pa.list_(pa.int16())), "b": [[True, None], None, [False]], "u": pa.array([[None], [1, 2], []], pa.list_(pa.uint64())),
    "d": pa.array([[Decimal("1.25"), None], [], [Decimal(2)]], pa.list_(pa.decimal128(9, 2))), "w": pa.array([[1.5, None], None, [5, 6]], pa.list_(pa.float32(), 2)),
    "s": pa.array([[{"a": 1, "b": {"c": None}}, None], [], [{"a": None, "b": None}]], pa.list_(pa.struct([("a", pa.int8()), ("b", pa.struct([("c", pa.float64())]))])))})
TEXTS = pa.table({
    "s": [["a", None, 'q"\\\n'], [], None], "w": pa.array([["x"], None, ["y", ""]], pa.large_list(pa.large_string())),
    "v": pa.array([["short", None, "a long text, out of line"], [], ["z"]], pa.list_(pa.string_view())), "f": pa.array([["a", None], None, ["b", "c"]], pa.list_(pa.string(), 2)),
    "d": pa.array([["k", "m", "k"], [None], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "o": pa.array([[{"a": 1, "t": "x"}, None], [], [{"a": None, "t": None}]], pa.list_(pa.struct([("a", pa.int8()), ("t", pa.string())])))})
for name, table, codec, turn in (("texts", TEXTS, None, False), ("texts_zstd", TEXTS, "zstd", False), ("lists", LISTS, None, False), ("lists_lz4", LISTS, "lz4", False), ("big", MORE, None, True), ("big_zstd", LISTS, "zstd", True)):
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as w:
        w.write_table(table, max_chunksize=2)
    (folder / name).write_bytes(big_stream(out.getvalue(), table, codec and pa.Codec(codec)) if turn else out.getvalue())
