#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench-all: every figure that README and docs/measured.md compare with another program, in one run and one table.

    bench/all.py [--only recipes,stores] [--name 0.3]    run the benches one after another, then write bench/results/all-NAME.md
    bench/all.py --read FOLDER                           no run: the table of what is in FOLDER (NAME.txt for each bench)

A bench is a target of the Makefile; what it prints is kept in build/bench-all/NAME.txt.  A claim is a title, the bench, and two
patterns, for our figure and for the other one.  Where a line occurs several times the best counts, on both sides.  A figure
that is not found is said to be missing, never left out.  GPU figures come from `make gpu-bench` on the machine that has one.
"""

import argparse
import datetime
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
NUMBER = r"([\d,]+(?:\.\d+)?)"


class Claim(NamedTuple):
    title: str
    bench: str
    ours: str           # patterns; <N> stands for the number
    other_name: str
    other: str
    unit: str
    more: bool = True   # a larger figure is the better one


BENCHES = {             # target of the Makefile -> its variables
    "recipes": "bench-recipes ROUNDS=3", "python": "bench-python", "stores": "bench-stores ROUNDS=3", "tables": "bench-tables ROUNDS=3 SCALE=1",
    "prepare": "bench-prepare", "tokens": "bench-tokens THREADS=2 ROUNDS=3", "peers": "bench-peers",
    "video": "bench-video",
}
CLAIMS = [
    Claim("torchvision's training recipe", "recipes", r"^stoker, 2 workers +<N>", "DataLoader", r"^DataLoader \+ torchvision v2, .* workers +<N>", "pictures/s"),
    Claim("DINO's chain after the decode", "recipes", r"^stoker +<N>$", "AlbumentationsX", r"^AlbumentationsX +<N> ", "us CPU", False),
    Claim("crop, flip, normalize, from tar", "peers", r"^\| Stoker \| <N>", "DataLoader", r"^\| PyTorch DataLoader \+ Pillow \| \**<N>", "samples/s"),
    Claim("the same", "peers", r"^\| Stoker \| <N>", "DALI, CPU", r"^\| NVIDIA DALI, CPU pipeline \| \**<N>", "samples/s"),
    Claim("the same", "peers", r"^\| Stoker \| <N>", "FFCV", r"^\| FFCV \| \**<N>", "samples/s"),
    Claim("memory of the same", "peers", r"^\| Stoker \| [^|]*\|[^|]*\| <N>", "Grain", r"^\| Grain \| [^|]*\|[^|]*\| \**<N>", "MB", False),
    Claim("a Python data set, samples of 602 KB", "python", r"^602 KB samples, stoker 2 fork: <N> samples", "DataLoader",
          r"^602 KB samples, torch \d \w+: <N> samples", "samples/s"),
    Claim("the same", "python", r"^602 KB samples, stoker 2 fork: <N> samples", "a bare ring in C", r"^602 KB samples, bare ring in C, 2 writers: <N> samples",
          "samples/s"),
    Claim("small dicts from Python", "python", r"^dicts of 17 numbers, stoker 2 workers: <N> samples", "DataLoader",
          r"^dicts of 17 numbers, torch 2 workers: <N> samples", "samples/s"),
    Claim("ranges of 100 KB from S3", "stores", r"^stoker, signed: 100 KB, 16 in flight: .* <N> us CPU", "bare libcurl",
          r"^bare libcurl: 100 KB, 16 in flight: .* <N> us CPU", "us CPU", False),
    Claim("the same", "stores", r"^stoker, signed: 100 KB, 16 in flight: .* <N> us CPU", "boto3", r"^boto3: 100 KB, 16 in flight: .* <N> us CPU", "us CPU", False),
    Claim("random rows of 108 KB from Parquet", "tables", r"^random rows of 108 KB, default .*parquet <N> rows/s", "Lance", r"^random rows of 108 KB, .*lance <N> rows/s",
          "rows/s"),
    Claim("scan of a float column in batches", "tables", r"^scan of .* float values, .*stoker <N> rows/s", "pyarrow, the whole file at once",
          r"^scan of .* float values, .*pyarrow whole <N> rows/s", "rows/s"),
    Claim("shuffled rows of 512 tokens from Arrow", "tables", r"^shuffled rows of 512 tokens, Arrow: stoker <N> rows/s", "Hugging Face, ds[64 rows]",
          r"^shuffled rows of 512 tokens, Arrow: .* ds\[64 rows\] <N> rows/s", "rows/s"),
    Claim("resize to 256 and encode, from 1,500 pixels", "prepare", r"from 1500 pixels: stoker pack <N> per CPU second", "img2dataset's Resizer",
          r"from 1500 pixels: .*Resizer <N>:", "per CPU s"),
    Claim("token windows of 2,048", "tokens", r'"case": "u16".*"rows_per_s": <N>', "a bare copying loop", r'"case": "u16".*"bare_rows_per_s": <N>', "rows/s"),
]


def figure(pattern, text, more):
    found = [float(n.replace(",", "")) for n in re.findall(pattern.replace("<N>", NUMBER), text, re.M)]
    return (max if more else min)(found) if found else None


def shown(value):
    return "missing" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"


def row(claim, texts):
    text = texts.get(claim.bench)
    ours, other = (figure(p, text or "", claim.more) for p in (claim.ours, claim.other))
    ratio = "" if not ours or not other else f"{ours / other if claim.more else other / ours:.2f}x"
    wins = ours and other and (other > ours if claim.more else other < ours)
    theirs = f"**{shown(other)}**" if wins else shown(other)
    return f"| {claim.title} | {shown(ours)} {claim.unit} | {claim.other_name}: {theirs} | {ratio} | `make {BENCHES[claim.bench]}` |"


def table(texts):
    lines = ["| the same work | Stoker | the other | ratio | from |", "|---|---:|---:|---:|---|"]
    return "\n".join(lines + [row(c, texts) for c in CLAIMS if c.bench in texts]) + "\n"


def head():
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    cpu = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?")
    return (f"`make bench-all`, {datetime.date.today():%d %B %Y}, commit {commit or '?'}, {len(os.sched_getaffinity(0))} cores of {cpu}, "
            f"load {os.getloadavg()[0]:.1f} when it began. **Bold**: better than Stoker.\n")


def run(names, folder):
    """What each bench printed; one that fails is said, and the others go on."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        start = time.monotonic()
        with open(folder / f"{name}.txt", "w") as out:
            done = subprocess.run(["make", *BENCHES[name].split()], cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        print(f"{name}: {time.monotonic() - start:.0f} s" + (f", failed with {done.returncode}" if done.returncode else ""), flush=True)


def read(folder, names):
    texts = {name: "\n".join(p.read_text() for p in sorted(folder.glob(f"{name}*.*")) if p.suffix in (".txt", ".md")) for name in names}
    return {name: text for name, text in texts.items() if text}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="benches, with commas")
    parser.add_argument("--read", type=Path, help="folder of earlier output")
    parser.add_argument("--name", default="last", help="of bench/results/all-NAME.md")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else list(BENCHES)
    unknown = [n for n in names if n not in BENCHES]
    if unknown:
        sys.exit(f"bench-all: no bench '{unknown[0]}'; there are: {' '.join(BENCHES)}")
    about = head()
    if not args.read:
        run(names, ROOT / "build/bench-all")
    text = table(read(args.read or ROOT / "build/bench-all", names))
    print(text, end="")
    if not args.read:
        (ROOT / f"bench/results/all-{args.name}.md").write_text(about + "\n" + text)


if __name__ == "__main__":
    main()
