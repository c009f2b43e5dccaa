# SPDX-License-Identifier: Apache-2.0
"""Random rows of 108 KB from a default pyarrow file and from a tar file of the same values, in one run.

    python bench/formats/parquet_rows.py [ROUNDS] [ROWS]

Prints rows/s and CPU time per row of each, best of the rounds, which alternate.
"""
import io
import pathlib
import random
import sys
import tarfile
import tempfile
import time

import pyarrow as pa
import pyarrow.parquet as pq

import stoker

SEED = 1


def write(folder, n):
    rng = random.Random(SEED)
    rows = [rng.randbytes(108_000) for _ in range(n)]
    pq.write_table(pa.table({"jpg": rows, "cls": list(range(n))}), folder / "t.parquet")
    with tarfile.open(folder / "t.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, row in enumerate(rows):
            info = tarfile.TarInfo(f"{i:06d}.jpg")
            info.size = len(row)
            tar.addfile(info, io.BytesIO(row))


def epoch(path):
    loader = stoker.Loader(str(path), {"jpg": "bytes"}, batch_size=64, shuffle=True, num_workers=2)
    for _ in loader:                            # files and index are warm
        pass
    wall, cpu = time.perf_counter(), time.process_time()
    n = sum(len(batch.sample_ids) for batch in loader)
    return n / (time.perf_counter() - wall), (time.process_time() - cpu) / n * 1e6


def main():
    rounds, n = (int(a) for a in (sys.argv[1:] + ["7", "3000"][len(sys.argv) - 1:])[:2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(folder, n)
        runs = {"t.tar": [], "t.parquet": []}
        for _ in range(rounds):
            for file, results in runs.items():
                results.append(epoch(folder / file))
        best = {file: (max(r for r, _ in results), min(c for _, c in results)) for file, results in runs.items()}
        (points,) = (folder / ".stoker").glob("*.rows")
        share = points.stat().st_size / (folder / "t.parquet").stat().st_size
    for file, (rate, cpu) in best.items():
        print(f"{file:10}  {rate:8.0f} rows/s  {cpu:6.1f} us CPU/row")
    print(f"parquet / tar: {best['t.parquet'][0] / best['t.tar'][0]:.2f}x, seek points {share:.4%} of the file (seed {SEED})")


main()
