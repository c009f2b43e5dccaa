#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens and rows of arrays to the GPU, against what the machine can do bare in the same run.

    bench/gpu/tokens.py --work DIR [--mb 2048] [--rounds 3] [--seconds 2] [--threads 16] [--name first]

Bare are a copy from pinned memory (torch, 64 MiB at a time, one behind the other) and a gather of the same rows by memcpy in
so many threads, shuffled, pages there (build/bench/bench_tokens; NumPy's take in threads where that is not built).  The bar: 0.9
of the smaller of the two.  Types are as stored, so that bytes out are bytes in; int64, which is widened, stands below them.
"""

import json
import subprocess
import threading
import time
from pathlib import Path

import measure
import numpy as np
import torch

import stoker

BLOCK, ROW = 2048, 3 * 224 * 224
TARGET = 0.9


def files(work, mb):
    """train.bin and rows.npy, made once, read once so that they lie in the page cache."""
    work.mkdir(parents=True, exist_ok=True)
    tokens, rows = work / "train.bin", work / "rows.npy"
    part = np.random.default_rng(1).integers(0, 50000, 500_000).astype(np.uint16)
    if not tokens.exists():
        with open(tokens, "wb") as f:
            for _ in range(mb):
                f.write(part.data)
    if not rows.exists():
        made = np.lib.format.open_memmap(rows, "w+", np.uint8, (mb * 1_000_000 // ROW, 3, 224, 224))
        for i in range(len(made)):
            made[i].reshape(-1)[:] = part.view(np.uint8)[i:i + ROW]
        made.flush()
    for path in (tokens, rows):
        with open(path, "rb") as f:
            while f.read(1 << 24):
                pass
    return tokens, rows


# ---- bare ---------------------------------------------------------------------------------------

def copy_speed(where, seconds, size=64 << 20):
    """GB/s of copies from pinned memory."""
    source = [torch.ones(size, dtype=torch.uint8, pin_memory=where == "cuda") for _ in range(3)]
    made = [torch.empty(size, dtype=torch.uint8, device=where) for _ in range(3)]
    for a, b in zip(made, source, strict=True):
        a.copy_(b, non_blocking=True)
    measure.sync(where)
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        for a, b in zip(made, source, strict=True):
            a.copy_(b, non_blocking=True)
            done += size
        measure.sync(where)
    return done / (time.perf_counter() - start) / 1e9


def gather_c(work, threads, mb):
    """GB/s of the bare loops of bench_tokens, by case; {} where it is not built."""
    program = measure.ROOT / "build/bench/bench_tokens"
    if not program.exists():
        return {}
    done = subprocess.run([program, work, str(threads), "3", str(mb)], capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    size = {"u16": 2 * BLOCK, "npy rows of 150 KB": ROW}
    return {row["case"]: row["bare_rows_per_s"] * size[row["case"]] / 1e9 for row in lines if row["case"] in size}


def gather_numpy(data, threads, seconds):
    """GB/s of np.take() in threads, which lets go of the interpreter while it copies."""
    rows = max(1, (4 << 20) // data[0].nbytes)
    total = [0] * threads
    stop = time.perf_counter() + seconds

    def work(k):
        rng = np.random.default_rng(k)
        out = np.empty((rows, *data.shape[1:]), data.dtype)
        orders = [rng.integers(0, len(data), rows) for _ in range(16)]
        while time.perf_counter() < stop:
            for order in orders:
                np.take(data, order, axis=0, out=out, mode="clip")
                total[k] += out.nbytes

    running = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    start = time.perf_counter()
    for t in running:
        t.start()
    for t in running:
        t.join()
    return sum(total) / (time.perf_counter() - start) / 1e9


# ---- ours ---------------------------------------------------------------------------------------

def speed(make, seconds, where):
    """GB/s of batches on the device."""
    loader = make()
    try:
        def batches():
            while True:
                yield from loader
        it = batches()
        warm = time.perf_counter() + min(0.5, seconds)
        while time.perf_counter() < warm:
            next(it)
        measure.sync(where)
        start, done = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            x = next(it)["x"]
            done += x.numel() * x.element_size()
        measure.sync(where)
        return done / (time.perf_counter() - start) / 1e9
    finally:
        loader.close()


def sides(tokens, rows, where, args):
    device = {} if where == "cpu" else {"device": "cuda"}
    how = {"shuffle": True, "drop_last": not args.dry, **device}
    if args.threads:
        how["num_workers"] = args.threads

    def of(path, fields, batch):
        return lambda: stoker.Loader(str(path), fields, batch_size=batch, **how)

    return {
        "tokens u16, 512 x 2048": ("tokens", of(tokens, {"x": f"tokens(block={BLOCK}) | to(stored)"}, 512)),
        "tokens u16, 4096 x 2048": ("tokens", of(tokens, {"x": f"tokens(block={BLOCK}) | to(stored)"}, 4096)),
        "rows of 150 KB, 256": ("rows", of(rows, {"x": "from(array) | to(stored)"}, 256)),
        "rows of 150 KB, 1024": ("rows", of(rows, {"x": "from(array) | to(stored)"}, 1024)),
        "tokens int64, 512 x 2048": (None, of(tokens, {"x": f"tokens(block={BLOCK})"}, 512)),
    }


def main():
    args = measure.arguments(__doc__, work={"required": True, "type": Path}, mb={"type": int, "default": 2048},
                             rounds={"type": int, "default": 3}, seconds={"type": float, "default": 2.0},
                             threads={"type": int, "default": 0, "help": "0: the cores there are"})
    where = measure.device(args)
    threads = args.threads or measure.machine()["cores"]
    tokens, rows = files(args.work, args.mb)
    results = measure.Results("tokens", args)
    ours = sides(tokens, rows, where, args)
    found = {name: [] for name in ours}
    copies, gathers = [], {"tokens": [], "rows": []}
    data = {"tokens": np.memmap(tokens, np.uint16, "r"), "rows": np.load(rows, mmap_mode="r")}
    data["tokens"] = data["tokens"][:len(data["tokens"]) // BLOCK * BLOCK].reshape(-1, BLOCK)
    bare = gather_c(args.work, threads, args.mb)
    for _ in range(args.rounds):
        copies.append(copy_speed(where, args.seconds))
        for kind in gathers:
            gathers[kind].append(gather_numpy(data[kind], threads, args.seconds))
        for name, (_, make) in ours.items():
            found[name].append(speed(make, args.seconds, where))
    gather = {kind: max([*gathers[kind], bare.get(case, 0)])
              for kind, case in (("tokens", "u16"), ("rows", "npy rows of 150 KB"))}
    results.add(f"{'bare copy from pinned memory':<34}{max(copies):>9.2f} GB/s", name="copy", gb_per_s=max(copies))
    for kind, value in gather.items():
        results.add(f"{f'bare gather of {kind}, {threads} threads':<34}{value:>9.2f} GB/s", name=f"gather {kind}", gb_per_s=value,
                    c=bare, numpy=gathers[kind])
    for name, (kind, _) in ours.items():
        best = max(found[name])
        limit = min(max(copies), gather[kind]) if kind else None
        share = "" if limit is None else f"   {best / limit:5.2f} of the smaller{measure.bar(best / limit, TARGET)}"
        results.add(f"{name:<34}{best:>9.2f} GB/s{share}", name=name, gb_per_s=best, rounds=found[name],
                    share=None if limit is None else best / limit)


if __name__ == "__main__":
    main()
