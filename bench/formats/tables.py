# SPDX-License-Identifier: Apache-2.0
"""Tables against the libraries that people read them with, in one run: ratios, and what was promised of each.

    python bench/formats/tables.py [PART ...]      parts: rows memory photos scan tokens mds open; without one: all
    ROUNDS=5 SCALE=1 PEERS=folder DATA=folder      PEERS: a folder with pylance and mosaicml-streaming (pip install --target)
                                                   DATA: a folder of JPEGs, for photos

Two threads, from the page cache; rounds alternate, the best of each side counts.  A peer that is not installed is left out.
"""
import contextlib
import io
import os
import pathlib
import random
import sys
import tarfile
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import stoker

os.environ |= {"LANCE_CPU_THREADS": "2", "LANCE_IO_THREADS": "2"}       # as many as ours
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]
sys.path.append(os.environ.get("PEERS", ""))
import made_mds  # noqa: E402
from unused import Unused  # noqa: E402

SEED = 1
ROUNDS, SCALE = int(os.environ.get("ROUNDS", "5")), float(os.environ.get("SCALE", "1"))


UNUSED = ("torchvision", "transformers", "boto3", "botocore", "snappy", "brotli", "zstd")     # by reading local shards


def peer(name):
    with contextlib.suppress(ImportError):
        return __import__(name)
    print(f"  ({name} is not installed: left out)")
    return None


def best(calls, n):
    """name -> rows/s; a call reads n rows."""
    took = {name: [] for name in calls}
    for k in range(ROUNDS + 1):                 # the first one warms up
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            took[name] += [time.perf_counter() - start] if k else []
    return {name: n / min(t) for name, t in took.items()}


def say(what, ours, theirs, promised, rates):
    ratio = rates[ours] / rates[theirs]
    print(f"{what}: " + ", ".join(f"{name} {rate:,.0f} rows/s" for name, rate in rates.items()))
    print(f"  {ours} / {theirs}: {ratio:.2f}x (promised {promised}x){'' if ratio >= promised else '  BELOW'}")


def epochs(data, fields, **options):
    """A function that opens a loader of an open data set and runs one epoch: one that stays open would read ahead while others are measured."""
    data = stoker.open(data) if isinstance(data, str) else data

    def run():
        with stoker.Loader(data, fields, num_workers=2, **options) as loader:
            for _ in loader:
                pass
    return run


def write_both(folder, values):
    """The values as a default pyarrow file and as tar."""
    pq.write_table(pa.table({"jpg": values}), folder / "t.parquet")
    with tarfile.open(folder / "t.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, row in enumerate(values):
            info = tarfile.TarInfo(f"{i:06d}.jpg")
            info.size = len(row)
            tar.addfile(info, io.BytesIO(row))


def anonymous():
    """MB of this process that do not belong to files."""
    return int(pathlib.Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0]) / 1024


def memory(folder):
    """Of random rows of 108 KB from a default pyarrow file, in a process of its own: its memory beside the batches, and the index."""
    n = int(1500 * SCALE)
    rng = random.Random(SEED)
    pq.write_table(pa.table({"jpg": [rng.randbytes(108_000) for _ in range(n)]}), folder / "t.parquet")
    size = (folder / "t.parquet").stat().st_size
    stoker.open(str(folder / "t.parquet"))
    index = sum(f.stat().st_size for f in (folder / ".stoker").rglob("*") if f.is_file())
    peer("torch")                               # a loader would import it now
    child = os.fork()
    if not child:
        before, most = anonymous(), 0
        with stoker.Loader(str(folder / "t.parquet"), {"jpg": "bytes"}, batch_size=64, shuffle=True, num_workers=2, prefetch=4) as loader:
            for _ in range(3):
                for _ in loader:
                    most = max(most, anonymous() - before)
            stats = loader.stats()
        ring, beside = stats["memory_of"]["batches"] / 1e6, most * 1.048576 - stats["memory_of"]["batches"] / 1e6
        print(f"memory of random rows of 108 KB, ring of {stats['slots']} batches of 64: {most * 1.048576:.0f} MB more than before the loader; the ring has room for "
              f"{ring:.0f} MB, so {max(0, beside):.0f} MB beside it (promised 64){'' if beside <= 64 else '  ABOVE'}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(f"  index {index / 1e3:.0f} KB for {size / 1e6:.0f} MB: {100 * index / size:.3f} % (promised 0.1){'' if index <= size / 1000 else '  ABOVE'}")


def photos(folder):
    data = os.environ.get("DATA", "")
    files = sorted(pathlib.Path(data).glob("*.[jJ][pP]*[gG]")) if data else []
    if not files:
        print("photos: no DATA=folder of JPEGs, left out")
        return
    values = [f.read_bytes() for f in files] * max(1, int(1000 * SCALE) // len(files))
    write_both(folder, values)
    fields = {"jpg": "image | random_resized_crop(224) | hflip | to(f16)"}
    calls = {name: epochs(str(folder / f"t.{name}"), fields, batch_size=64, shuffle=True) for name in ("parquet", "tar")}
    say(f"{len(values)} photos of {sum(map(len, values)) / len(values) / 1e3:.0f} KB, shuffled, cropped to 224", "parquet", "tar", 0.9, best(calls, len(values)))


def rows(folder):
    n = int(1500 * SCALE)
    rng = random.Random(SEED)
    values = [rng.randbytes(108_000) for _ in range(n)]
    write_both(folder, values)
    calls = {name: epochs(str(folder / f"t.{name}"), {"jpg": "bytes"}, batch_size=64, shuffle=True) for name in ("parquet", "tar")}
    lance = peer("lance")
    if lance:
        lance.write_dataset(pa.table({"jpg": pa.array(values, pa.large_binary())}), str(folder / "t.lance"))
        data, ids = lance.dataset(str(folder / "t.lance")), list(range(n))
        rng.shuffle(ids)
        calls["lance"] = lambda: [data.take(sorted(ids[k:k + 64])) for k in range(0, n, 64)]
    rates = best(calls, n)
    say("random rows of 108 KB, default pyarrow file", "parquet", "tar", 0.7, rates)
    if lance:
        say("  and Lance's take of 64 rows", "parquet", "lance", 3, rates)


def scan(folder):
    n = int(2_000_000 * SCALE)
    rng = np.random.default_rng(SEED)
    pa.set_cpu_count(2)
    lists = pa.ListArray.from_arrays(np.arange(0, 64 * (n // 20) + 1, 64, dtype=np.int32), rng.integers(0, 50000, 64 * (n // 20), dtype=np.int32))
    cases = {"float": (pa.table({"x": rng.random(n, np.float32)}), n, {"x": "from(x)"}, 16384),
             "int-list": (pa.table({"x": lists}), n // 20, {"x": "ints(shape=64)"}, 2048)}
    for name, (table, count, fields, batch) in cases.items():
        path = str(folder / f"{name}.parquet")
        pq.write_table(table, path)

        def theirs(path=path, batch=batch):
            for b in pq.ParquetFile(path).iter_batches(batch, use_threads=True):
                np.asarray(b.column(0).values if pa.types.is_list(b.column(0).type) else b.column(0))
        say(f"scan of {count:,} rows, a column of {name} values, batches of {batch}", "stoker", "pyarrow", 1.0, best({
            "stoker": epochs(path, fields, batch_size=batch), "pyarrow": theirs,
            "pyarrow whole": lambda path=path: pq.read_table(path, use_threads=True)}, count))


def tokens(folder):
    os.environ["HF_DATASETS_OFFLINE"] = "1"
    datasets = peer("datasets")
    if not datasets:
        return
    n = int(20_000 * SCALE)
    values = np.random.default_rng(SEED).integers(0, 50000, (n, 512), dtype=np.int32)
    table = pa.table({"ids": pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 512)})
    with pa.ipc.new_stream(folder / "t.arrow", table.schema) as w:
        w.write_table(table, max_chunksize=1000)
    ds = datasets.Dataset.from_file(str(folder / "t.arrow"))
    order = np.random.default_rng(SEED).permutation(n)
    part = order[:n // 10]                      # they are slow: a tenth of the rows, and the rate counts
    rates = best({"stoker": epochs(str(folder / "t.arrow"), {"ids": "from(ids)"}, batch_size=64, shuffle=True)}, n)
    rates |= best({"ds[64 rows]": lambda: [ds[part[k:k + 64].tolist()]["ids"] for k in range(0, len(part), 64)]}, len(part))
    say("shuffled rows of 512 tokens, Arrow", "stoker", "ds[64 rows]", 10, rates)
    by_numpy = ds.with_format("numpy")
    rates |= best({"with_format('numpy')": lambda: [by_numpy[part[k:k + 64].tolist()]["ids"] for k in range(0, len(part), 64)]}, len(part))
    say("  with their NumPy format", "stoker", "with_format('numpy')", 10, rates)


def mds(folder):
    n = int(20_000 * SCALE)
    rng = random.Random(SEED)
    samples = [{"image": rng.randbytes(2000), "label": i} for i in range(n)]
    path = str(made_mds.write(folder / "mds", {"image": "bytes", "label": "int"}, samples, 2000))
    calls = {"stoker": epochs(path, {"image": "bytes", "label": "int"}, batch_size=64, shuffle=True)}
    sys.meta_path.append(Unused(UNUSED))
    streaming = peer("streaming")
    if streaming:
        from torch.utils.data import DataLoader
        data = streaming.StreamingDataset(local=path, shuffle=True, batch_size=64)
        loader = DataLoader(data, batch_size=64, num_workers=2, persistent_workers=True, collate_fn=list)
        calls["mosaicml"] = lambda: [None for _ in loader]
    rates = best(calls, n)
    if streaming:
        say("shuffled samples of 2 KB, MDS", "stoker", "mosaicml", 2, rates)
    else:
        print(f"shuffled samples of 2 KB, MDS: stoker {rates['stoker']:,.0f} rows/s")


def open_(folder):
    path = str(folder / "groups.parquet")
    pq.write_table(pa.table({c: np.arange(50_000) for c in "abcd"}), path, row_group_size=5)
    rates = best({"stoker": lambda: stoker.open(path), "pyarrow": lambda: pq.read_metadata(path)}, 1)
    say("opening a file of 10,000 row groups of 4 columns (files/s)", "stoker", "pyarrow", 0.5, rates)
    n = int(400_000 * SCALE)
    path = str(folder / "rows.parquet")
    pq.write_table(pa.table({"x": np.random.default_rng(SEED).random(n, np.float32), "l": [list(range(i % 20)) for i in range(n)],
                             "s": [str(i) * 3 for i in range(n)]}), path, row_group_size=50_000)
    resident = []
    with stoker.Loader(path, {"x": "from(x)", "l": "from(l)", "s": "text"}, batch_size=1024, shuffle="block", collate={"l": "pad"}) as loader:
        for _ in range(5):
            for _ in loader:
                pass
            status = pathlib.Path("/proc/self/status").read_text()
            resident.append(int(status.split("VmRSS:")[1].split()[0]) / 1024)
    print("resident memory after each of 5 epochs: " + ", ".join(f"{r:.1f}" for r in resident) +
          f" MB; {resident[-1] - resident[0]:+.1f} MB from the first (promised within 5)")


PARTS = {"rows": rows, "memory": memory, "photos": photos, "scan": scan, "tokens": tokens, "mds": mds, "open": open_}
print(f"seed {SEED}, {ROUNDS} rounds, scale {SCALE}, pyarrow {pa.__version__}, {os.cpu_count()} CPUs")
for part in sys.argv[1:] or PARTS:
    with tempfile.TemporaryDirectory() as tmp:
        PARTS[part](pathlib.Path(tmp))
