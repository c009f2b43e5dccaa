# SPDX-License-Identifier: Apache-2.0
"""Opening a Parquet file of 10,000 row groups of 4 columns against pyarrow's footer parse, and resident memory over 5 epochs.

    python bench/formats/parquet_open.py
"""
import pathlib
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import stoker


def best(call, rounds=7):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def resident():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


with tempfile.TemporaryDirectory() as tmp:
    path = f"{tmp}/groups.parquet"
    pq.write_table(pa.table({c: np.arange(50_000) for c in "abcd"}), path, row_group_size=5)
    theirs, ours = best(lambda: pq.read_metadata(path)), best(lambda: stoker.open(path))
    print(f"10,000 row groups of 4 columns: pyarrow's footer {theirs:.1f} ms, stoker.open {ours:.1f} ms, {ours / theirs:.2f}x")
    path = f"{tmp}/rows.parquet"
    n = 400_000
    pq.write_table(pa.table({"x": np.random.default_rng(1).random(n).astype("f4"), "l": [list(range(i % 20)) for i in range(n)],
                             "s": [str(i) * 3 for i in range(n)]}), path, row_group_size=50_000)
    with stoker.Loader(path, {"x": "from(x)", "l": "from(l)", "s": "text"}, batch_size=1024, shuffle="block", collate={"l": "pad"}) as loader:
        for epoch in range(5):
            for _ in loader:
                pass
            print(f"after epoch {epoch + 1}: {resident():.1f} MB resident")
