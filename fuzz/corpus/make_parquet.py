#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_parquet, fuzz_parquet_values and fuzz_snappy beside this script (needs pyarrow)."""

import io
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent


def save(table, **options):
    out = io.BytesIO()
    pq.write_table(table, out, store_schema=False, **options)
    return out.getvalue()


def parquet():
    table = pa.table({"a": pa.array([1, None, 3] * 5, pa.int32()), "s": ["x", "yy", None] * 5, "l": [[1.5, 2], [], None] * 5,
                      "b": [{"bytes": b"ab", "path": None}] * 15, "t": [True, False, None] * 5})
    plain = pa.table({"x": pa.array(range(40), pa.int64()), "f": pa.array([b"123"] * 40, pa.binary(3)), "d": [0.5] * 40})
    yield from ((f"{c}_{v[0]}", save(table, compression=c, data_page_version=v))
                for c in ("none", "snappy", "gzip", "lz4", "zstd", "brotli") for v in ("1.0", "2.0"))
    for e, columns in {"DELTA_BINARY_PACKED": ["x"], "BYTE_STREAM_SPLIT": ["x", "d", "f"], "DELTA_BYTE_ARRAY": ["f"]}.items():
        yield e.lower(), save(plain.select(columns), use_dictionary=False, column_encoding={c: e for c in columns})
    lists = pa.array([[1, None], [], None, [None]] * 4, pa.list_(pa.int16()))
    for v in ("1.0", "2.0"):
        yield f"names_{v[0]}", save(pa.Table.from_arrays([lists, lists, pa.nulls(16)], names=["a", "a", "n"]), data_page_version=v)
    texts = pa.table({"t": [["a", None, 'q"'], [], None, ["a", ""]] * 4, "m": pa.array([[("k", "v")], None, [], [("k", None)]] * 4, pa.map_(pa.string(), pa.string()))})
    for v in ("1.0", "2.0"):
        yield f"texts_{v[0]}", save(texts, data_page_version=v, data_page_size=40, write_batch_size=4)
        yield f"texts_delta_{v[0]}", save(texts.select(["t"]), data_page_version=v, use_dictionary=False, column_encoding={"t.list.element": "DELTA_BYTE_ARRAY"})
    whole = save(table)
    yield "cut", whole[:200] + whole[-300:]
    yield "no_rows", save(plain.slice(0, 0))


def values():
    for physical in range(8):
        for encoding in (0, 2, 3, 5, 6, 7, 8, 9):
            yield f"t{physical}e{encoding}", bytes([physical + 24, encoding, 9, 0]) + bytes([3, 0, 6]) + bytes(range(80))
    yield "delta", bytes([2, 5, 40, 0]) + bytes([128, 1, 4, 40, 2, 2, 0, 0, 0, 0]) + bytes(40)


def snappy():
    pack = pa.Codec("snappy").compress
    yield "text", bytes(pack(b"stoker " * 400))
    yield "two_blocks", bytes(pack(bytes(range(256)) * 300))
    yield "empty", bytes(pack(b""))
    yield "crosses", b"\x80\x80\x08" + (b"\xf4\xff\xff" + bytes(65536))[:300]


for name, seeds in {"parquet": parquet(), "parquet_values": values(), "snappy": snappy()}.items():
    (HERE / name).mkdir(exist_ok=True)
    for seed, data in seeds:
        (HERE / name / seed).write_bytes(data)
