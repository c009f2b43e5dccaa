# SPDX-License-Identifier: Apache-2.0
"""A loader that tunes itself against the best cell of a sweep: rate, CPU time and memory.

    python bench/tuning.py [--rounds 5] [--batches 200] [KIND...]        photos tokens bytes python

Each cell of a grid (workers, batches ahead) is run once; then the best cell, the cheapest one within 5 % of it, and the default
take turns, and medians count.  A run is a process of its own: 200 batches to settle, then as many that are measured, and a second at least.  Memory (PSS of
the process and its children) is held against PyTorch's DataLoader with Pillow at the same batch size, where torch is installed.
"""

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("STOKER_BUILD", ROOT / "build"))
PHOTO = {"image": "from(jpg) | image | random_resized_crop(224) | hflip | normalize(imagenet) | to(f32)", "label": "from(cls) | int"}
BATCH = {"photos": 16, "tokens": 64, "bytes": 256, "python": 32}
SECONDS = 1.0           # measured at least, or a batch of tokens is over before a clock says anything
CORES = len(os.sched_getaffinity(0))


def make(folder):
    from PIL import Image
    rng = np.random.default_rng(0)

    def tar(name, n, fields):
        with tarfile.open(folder / name, "w", format=tarfile.USTAR_FORMAT) as out:
            for i in range(n):
                for field, data in fields(i):
                    info = tarfile.TarInfo(f"{i:06d}.{field}")
                    info.size = len(data)
                    out.addfile(info, io.BytesIO(data))

    def photo(i):
        small, out = rng.integers(0, 256, (30, 40, 3), np.uint8), io.BytesIO()
        Image.fromarray(small).resize((320, 240), Image.Resampling.BICUBIC).save(out, "JPEG", quality=85)
        return [("jpg", out.getvalue()), ("cls", b"%d" % (i % 10))]

    tar("photos.tar", 256, photo)
    tar("bytes.tar", 8192, lambda i: [("bin", rng.bytes(4096))])
    rng.integers(0, 50000, 8 << 20).astype("<u2").tofile(folder / "tokens.bin")


class Squares:
    """A Python data set whose samples take about 0.2 ms."""

    def __len__(self):
        return 20000

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        return {"x": np.sort(rng.random(3000, dtype=np.float32)), "y": i % 10}


def loader_of(kind, folder, workers, ahead):
    import stoker
    more = {"batch_size": BATCH[kind], "shuffle": True, "num_workers": workers or None, "prefetch": ahead or None}
    if kind == "python":
        return stoker.Loader(Squares(), **more)
    data, fields = {"photos": ("photos.tar", PHOTO), "bytes": ("bytes.tar", {"x": "from(bin) | bytes"}),
                    "tokens": ("tokens.bin", {"x": "tokens(block=1024)", "y": "tokens(block=1024, shift=1)"})}[kind]
    return stoker.Loader(str(folder / data), fields, **more)


def torch_of(kind, folder):
    from stoker import _against
    return _against._loader({"urls": [str(folder / "photos.tar")], "outputs": PHOTO, "batch_size": BATCH[kind], "workers": CORES,
                             "shuffle": True})


def family():
    """This process and its children."""
    me, found = os.getpid(), [os.getpid()]
    for p in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(p.read_text().rpartition(")")[2].split()[1]) == me:
                found.append(int(p.parent.name))
        except OSError:
            pass
    return found


def figures():
    cpu = pss = 0
    for pid in family():
        try:
            cpu += sum(int(p.read_text().split()[0]) for p in Path(f"/proc/{pid}/task").glob("*/schedstat")) * 1e-9
            pss += int(next(line for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines() if line.startswith("Pss:")).split()[1])
        except (OSError, StopIteration):
            pass
    return cpu, pss * 1024


def one(kind, folder, workers, ahead, batches):
    """Rate and CPU time of batches after the first ones, which let it settle."""
    loader = torch_of(kind, folder) if workers < 0 else loader_of(kind, folder, workers, ahead)
    settle, n, start = (batches if workers >= 0 else 20), 0, float("inf")
    while n < settle + batches or time.perf_counter() < start + SECONDS:
        for _ in loader:
            n += 1
            if n == settle:
                start, (cpu, _) = time.perf_counter(), figures()
            if n >= settle + batches and time.perf_counter() >= start + SECONDS:
                break
    seconds, (now, pss) = time.perf_counter() - start, figures()
    samples = (n - settle) * BATCH[kind]
    print(json.dumps({"rate": samples / seconds, "cpu": (now - cpu) / samples, "pss": pss}))


def run(kind, folder, workers, ahead, batches):
    env = {**os.environ, "PYTHONPATH": f"{BUILD}/python", "STOKER_CACHE": str(folder / "cache")}
    done = subprocess.run([sys.executable, __file__, "--one", kind, str(folder), str(workers), str(ahead), str(batches)],
                          env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{kind}: {done.stderr[-800:]}")
    return json.loads(done.stdout)


def measure(kind, folder, rounds, batches):
    grid = [(w, a) for w in sorted({1, CORES, 2 * CORES}) for a in (2, 4, 8)]
    cells = {cell: run(kind, folder, *cell, batches) for cell in grid}
    best = max(cells, key=lambda c: cells[c]["rate"])
    near = [c for c in cells if cells[c]["rate"] >= 0.95 * cells[best]["rate"]]
    cheap = min(near, key=lambda c: cells[c]["cpu"])
    got = {cell: [] for cell in ((0, 0), best, cheap)}
    for _ in range(rounds):
        for cell, results in got.items():
            results.append(run(kind, folder, *cell, batches))
    middle = {cell: {k: statistics.median(r[k] for r in results) for k in ("rate", "cpu", "pss")} for cell, results in got.items()}
    mine, line = middle[0, 0], ""
    if kind == "photos":
        theirs = run(kind, folder, -1, 0, batches // 4)
        line = f"; memory {mine['pss'] / 1e6:.0f} MB, DataLoader's {theirs['pss'] / 1e6:.0f} MB"
    print(f"{kind:8s} default {mine['rate']:10,.0f} samples/s, best cell {best} {middle[best]['rate']:10,.0f}: "
          f"{100 * mine['rate'] / middle[best]['rate']:.0f} % (>= 95); CPU {1e6 * mine['cpu']:,.1f} us a sample, cheapest within 5 % "
          f"{cheap} {1e6 * middle[cheap]['cpu']:,.1f}: {mine['cpu'] / middle[cheap]['cpu']:.2f}x (<= 1.2){line}", flush=True)


def main():
    if sys.argv[1:2] == ["--one"]:
        kind, folder, workers, ahead, batches = sys.argv[2:]
        return one(kind, Path(folder), int(workers), int(ahead), int(batches))
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=200)
    args = parser.parse_args()
    print(f"{CORES} cores, load average {os.getloadavg()[0]:.1f}, {args.rounds} rounds of {args.batches} batches", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        for kind in args.kinds or BATCH:
            measure(kind, Path(folder), args.rounds, args.batches)


if __name__ == "__main__":
    main()
