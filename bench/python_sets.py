# SPDX-License-Identifier: Apache-2.0
"""Python data sets: stoker.DataLoader against torch's at its best settings, and a bare shared ring in C.

    PYTHONPATH=build/python .venv/bin/python bench/python_sets.py [--rounds 5] [--seconds 2] [--name python-0.2]

Rounds are interleaved, the best of each side counts.  Times of starting are to the first batch, less that of an empty data
set started the same way.  CPU time is that of the parent and its workers together, between the second batch and the last.
`--only cpu` measures that alone, which other work on the machine changes little.  The bars are in docs/python-data.md; a line
that misses its bar says so.
"""

import argparse
import io
import json
import os
import subprocess
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

import stoker

ROOT = Path(__file__).resolve().parents[1]
BYTES = 3 * 224 * 224 * 4


class Pictures(Dataset):
    """602 KB each, cloned."""

    def __init__(self):
        self.x = torch.rand(3, 224, 224)

    def __len__(self):
        return 1_000_000

    def __getitem__(self, i):
        return self.x.clone()


class Small(Dataset):
    def __init__(self):
        self.names = [f"f{k}" for k in range(16)]

    def __len__(self):
        return 10_000_000

    def __getitem__(self, i):
        return {**dict.fromkeys(self.names, 1.5), "label": i}


class Listed(Dataset):
    def __init__(self, n):
        self.items = [(f"/data/train/n{i % 1000:08d}/n{i % 1000:08d}_{i}.JPEG", i % 1000) for i in range(n)]

    def __len__(self):
        return max(len(self.items), 8)

    def __getitem__(self, i):
        return self.items[i][1] if self.items else 0


def rate(make, dataset, batch, seconds, **options):
    """Samples per second after the first two batches."""
    loader = make(dataset, batch_size=batch, **options)
    it = iter(loader)
    next(it), next(it)
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        next(it)
        n += batch
    taken = time.perf_counter() - start
    del it, loader
    return n / taken


def first_batch(make, dataset, method):
    start = time.perf_counter()
    loader = make(dataset, batch_size=4, num_workers=2, multiprocessing_context=method)
    it = iter(loader)
    next(it)
    taken = time.perf_counter() - start
    del it, loader
    return taken


def ticks(pids):
    """Seconds of CPU time of processes."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split() for pid in pids]
    return sum(int(f[11]) + int(f[12]) for f in fields) / os.sysconf("SC_CLK_TCK")


def cpu_seconds(make, dataset, batch, batches, **options):
    """For each sample; what the parent reads of a batch is one byte in each page."""
    it = iter(make(dataset, batch_size=batch, num_workers=2, multiprocessing_context="fork", **options))
    next(it), next(it)
    pids = [os.getpid(), *(w.pid for w in it._workers)]
    before = ticks(pids)
    for _ in range(batches):
        found = next(it)
        if isinstance(found, torch.Tensor):
            found.view(torch.uint8).view(-1)[::4096].sum()
    taken = ticks(pids) - before
    del it
    return taken / (batch * batches)


def hugging_face(n=64):
    """JPEGs of 400x300 that a transform decodes and resizes when they are asked for."""
    import datasets
    import numpy
    from PIL import Image
    rng = numpy.random.default_rng(1)
    cells = []
    for _ in range(n):
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (38, 50, 3), "u1")).resize((400, 300)).save(file, "JPEG", quality=90)
        cells.append({"bytes": file.getvalue(), "path": None})
    table = datasets.Dataset.from_dict({"image": cells, "label": list(range(n))},
                                       features=datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")}))

    def transform(rows):
        pictures = [numpy.asarray(p.convert("RGB").resize((224, 224))) for p in rows["image"]]
        return {"image": [torch.from_numpy(p).permute(2, 0, 1).float().div(255) for p in pictures], "label": rows["label"]}

    return table.with_transform(transform)


def cpu(rounds, say):
    """In CPU time stoker.DataLoader is never above torch's."""
    cases = {"602 KB samples": (Pictures(), 64, 40, 1e6, "us", {}), "dicts of 17 numbers": (Small(), 256, 200, 1e6, "us", {})}
    try:
        cases["Hugging Face with_transform"] = hugging_face(), 16, 8, 1e3, "ms", {"sampler": list(range(64)) * 100}
    except ImportError:
        say("CPU time, Hugging Face with_transform: datasets is not installed")
    for name, (data, batch, batches, scale, unit, more) in cases.items():
        found = best(rounds, {"torch": lambda: cpu_seconds(DataLoader, data, batch, batches, **more),       # noqa: B023
                              "stoker": lambda: cpu_seconds(stoker.DataLoader, data, batch, batches, **more)})      # noqa: B023
        torchs, ours = (min(found[side]) * scale for side in ("torch", "stoker"))
        say(f"CPU time, {name}: torch {torchs:.2f} {unit} a sample, stoker {ours:.2f} {unit}: {torchs / ours:.2f}x (bar 1.0)")


def ring(seconds):
    out = subprocess.run([ROOT / "build/bench/limit_ring", str(BYTES), "64", str(seconds), "2"], check=True, capture_output=True,
                         text=True).stdout
    return json.loads(out)["samples_per_s"]


def pss(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            total += sum(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    return total / 1024


def memory():
    """(MB after the first batch, after three epochs) of the parent and 8 workers over a SharedList."""
    names = stoker.SharedList((f"/data/train/{i:08d}.JPEG", i) for i in range(1_280_000))
    with stoker.Loader(names, batch_size=4096, num_workers=8, worker_type="fork", shuffle=True) as loader:
        it = iter(loader)
        next(it)
        pids = [os.getpid(), *(w.pid for w in loader._crew._workers)]
        first = pss(pids)
        for _ in it:
            pass
        for _ in range(2):
            for _ in loader:
                pass
        return first, pss(pids)


def best(rounds, sides):
    found = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            found[name].append(side())
    return found


def throughput(rounds, seconds, say):
    big, small = Pictures(), Small()
    sides = {"bare ring in C, 2 writers": lambda: ring(seconds)}
    for workers, method in ((0, None), (1, "fork"), (2, "fork"), (2, "spawn")):
        o = {"num_workers": workers, "multiprocessing_context": method}
        sides[f"torch {workers} {method or ''}".strip()] = lambda o=o: rate(DataLoader, big, 64, seconds, **o)
    sides["stoker 2 fork"] = lambda: rate(stoker.DataLoader, big, 64, seconds, num_workers=2, multiprocessing_context="fork")
    found = {name: max(values) for name, values in best(rounds, sides).items()}
    for name, value in found.items():
        say(f"602 KB samples, {name}: {value:,.0f} samples/s, {value * BYTES / 1e9:.2f} GB/s")
    torchs = max(v for n, v in found.items() if n.startswith("torch"))
    say(f"  stoker / torch's best: {found['stoker 2 fork'] / torchs:.2f}x (bar 8)")
    say(f"  stoker / bare ring: {found['stoker 2 fork'] / found['bare ring in C, 2 writers']:.2f}x (bar 0.6)")
    sides = {}
    for name, make in (("torch", DataLoader), ("stoker", stoker.DataLoader)):
        for workers in (0, 2):
            o = {"num_workers": workers, "multiprocessing_context": "fork" if workers else None}
            sides[f"{name} {workers}"] = lambda make=make, o=o: rate(make, small, 256, seconds, **o)
    found = {name: max(values) for name, values in best(rounds, sides).items()}
    for name, value in found.items():
        say(f"dicts of 17 numbers, {name} workers: {value:,.0f} samples/s")
    say(f"  with 2 workers / without: stoker {found['stoker 2'] / found['stoker 0']:.2f}x (bar 1.5), "
        f"torch {found['torch 2'] / found['torch 0']:.2f}x")


def starting(rounds, say):
    many, none = Listed(1_280_000), Listed(0)
    sides = {}
    for name, make in (("torch", DataLoader), ("stoker", stoker.DataLoader)):
        for method in ("fork", "spawn"):
            for what, data in (("", none), (" list", many)):
                sides[f"{name} {method}{what}"] = lambda m=make, d=data, s=method: first_batch(m, d, s)
    found = {name: min(values) for name, values in best(rounds, sides).items()}
    for name in ("torch fork", "torch spawn", "stoker fork", "stoker spawn"):
        more = found[f"{name} list"] - found[name]
        bar = "" if name.startswith("torch") else f" (bar {0.2 if 'fork' in name else 0.5})"
        say(f"first batch, 1.28 M tuples, {name}: {found[f'{name} list']:.2f} s, {more:.2f} s above an empty data set{bar}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--name", default="")
    parser.add_argument("--only", choices=["cpu"])
    args = parser.parse_args()
    lines = []

    def say(line):
        print(line, flush=True)
        lines.append(line)

    say(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, torch {torch.__version__}")
    cpu(args.rounds, say)
    if args.only is None:
        throughput(args.rounds, args.seconds, say)
        first, last = memory()
        say(f"SharedList of 1.28 M tuples, 8 workers: {first:,.0f} MB after the first batch, {last:,.0f} MB after 3 epochs, "
            f"{last / first:.2f}x (bar 1.1)")
        starting(max(args.rounds, 5), say)      # best of fewer is the machine's noise
    if args.name:
        (ROOT / "bench/results" / f"{args.name}.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
