#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the files that tests/stress/tables.c reads, beside this script (needs pyarrow): row i has x = 3 i + 1, f = i / 2, text = "t<i>" i % 7
times, l = [i] * (i % 5)."""

import gzip
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent))
import made_mds  # noqa: E402

N = 200
x, f = [3 * i + 1 for i in range(N)], [i / 2 for i in range(N)]
text, lists = [f"t{i}" * (i % 7) for i in range(N)], [[i] * (i % 5) for i in range(N)]
table = pa.table({"x": pa.array(x, pa.int64()), "f": pa.array(f, pa.float32()), "text": text, "l": pa.array(lists, pa.list_(pa.int32()))})
folder = here / "tables"
folder.mkdir(exist_ok=True)
pq.write_table(table, folder / "t.parquet", row_group_size=70, data_page_size=512, write_batch_size=32, store_schema=False)
for name, packed in (("plain", None), ("packed", "lz4")):
    with pa.ipc.new_file(folder / f"{name}.arrow", table.schema, options=pa.ipc.IpcWriteOptions(compression=packed)) as w:
        w.write_table(table, max_chunksize=60)
made_mds.write(folder / "mds", {"x": "int", "f": "float32", "text": "str", "l": "ndarray:int32"},
               [{"x": x[i], "f": f[i], "text": text[i], "l": lists[i]} for i in range(N)], 60, "gz", lambda raw: gzip.compress(raw, mtime=0))
