# SPDX-License-Identifier: Apache-2.0
"""HDF5 in order: gzip-chunked pictures against h5py's own read, contiguous ones against a bare copy, in one run.

    python bench/formats/hdf5_rows.py [ROUNDS] [PICTURES]

Pictures of 160x160x3, 4 in a chunk, gzip 4.  2 threads, from the page cache; the best of the rounds, which alternate, counts.
Also the time to open a file of 100,000 chunks and to read their index.
"""
import pathlib
import sys
import tempfile
import time

import h5py
import numpy as np

import stoker

SEED, BATCH, SHAPE = 1, 64, (160, 160, 3)


def write(folder, n):
    rng = np.random.default_rng(SEED)
    small = rng.integers(0, 256, (n, 20, 20, 3), dtype="u1")
    x = small.repeat(8, 1).repeat(8, 2) + rng.integers(0, 4, (n, *SHAPE), dtype="u1")
    with h5py.File(folder / "gzip.h5", "w") as f:
        f.create_dataset("x", data=x, chunks=(4, *SHAPE), compression="gzip", compression_opts=4)
    with h5py.File(folder / "contiguous.h5", "w") as f:
        f["x"] = x
    with h5py.File(folder / "chunks.h5", "w") as f:
        d = f.create_dataset("x", (100_000, 3), "i4", chunks=(1, 3))
        for i in range(100_000):
            d.id.write_direct_chunk((i, 0), b"\0" * 12)
    return x


def by_h5py(path):
    start, n = time.perf_counter(), 0
    with h5py.File(path) as f:
        for i in range(0, len(f["x"]), BATCH):
            n += len(f["x"][i:i + BATCH])
    return n / (time.perf_counter() - start)


def by_stoker(path, warm=False):
    with stoker.Loader(str(path), {"x": "from(x)"}, batch_size=BATCH, num_workers=2) as loader:
        for _ in loader if warm else ():        # threads, files and batches are there; unpacked chunks would be, too
            pass
        start = time.perf_counter()
        n = sum(len(batch.sample_ids) for _ in range(8 if warm else 1) for batch in loader)     # 8: what was ahead is little of it
        return n / (time.perf_counter() - start)


def by_copy(x):
    into = np.empty((BATCH, *SHAPE), "u1")
    start = time.perf_counter()
    for i in range(0, len(x), BATCH):
        into[:len(x[i:i + BATCH])] = x[i:i + BATCH]
    return len(x) / (time.perf_counter() - start)


def main():
    rounds, n = (int(a) for a in (sys.argv[1:] + ["7", "2000"][len(sys.argv) - 1:])[:2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        x = write(folder, n)
        runs = {"h5py, gzip": lambda: by_h5py(folder / "gzip.h5"), "stoker, gzip": lambda: by_stoker(folder / "gzip.h5"),
                "h5py, contiguous": lambda: by_h5py(folder / "contiguous.h5"), "memcpy": lambda: by_copy(x),
                "stoker, contiguous": lambda: by_stoker(folder / "contiguous.h5", True)}
        best = dict.fromkeys(runs, 0.0)
        by_stoker(folder / "contiguous.h5")     # imports
        for _ in range(rounds):
            for what, run in runs.items():
                best[what] = max(best[what], run())
        start = time.perf_counter()
        stoker.open(str(folder / "chunks.h5"))[0]
        opened = time.perf_counter() - start
    for what, rate in best.items():
        print(f"{what:20} {rate:9,.0f} pictures/s {rate * x[0].nbytes / 1e6:8,.0f} MB/s")
    print(f"gzip {best['stoker, gzip'] / best['h5py, gzip']:.2f}x h5py, contiguous {best['stoker, contiguous'] / best['memcpy']:.2f}x memcpy; "
          f"100,000 chunks opened in {opened * 1e3:.0f} ms (seed {SEED}, best of {rounds} rounds)")


main()
