#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make bench-all: the figures in which README and docs/measured.md compare Stoker with other programs, in one table.

    bench/all.py [--only recipes,stores] [--name 0.3]    run the benches one after another, then write bench/results/all-NAME.md
    bench/all.py --kept                                  no run: the table of what bench/results keeps, in all-kept.md
    bench/all.py --readme                                no run: README's table, of what bench/results keeps

A bench is a target of the Makefile; what it prints is kept in build/bench-all/NAME.txt.  A claim is a title, the bench, and
patterns for our figure and the others'.  All figures of a row are of one run: of one line, or of one paragraph of the output.
In a paragraph the best of each side counts.  Of several runs the one with the median ratio counts, the lower one of two.
A paragraph that begins with a line "# ... before ..." is of older code and does not count.

A bench that did not run here (no GPU, or not asked for) shows what bench/results keeps of it, with date, commit and machine.  What
failed, or has no figure, is said and makes the exit status 1.
"""

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench/results"
NUMBER = r"([\d,]+(?:\.\d+)?)"
TWO_CORES, EPYC, XEON, BUSY, H200 = "2 cores", "2 cores of an AMD EPYC", "2 cores of an Intel Xeon", "2 cores, with other work", "an H200 with 16 cores"


class Bench(NamedTuple):
    make: str           # target of the Makefile, and its variables
    kept: str = ""      # in bench/results: the newest result of a machine that was fit for it
    date: str = ""
    commit: str = ""    # that was measured, or that brought the result
    machine: str = TWO_CORES


class Claim(NamedTuple):
    title: str
    bench: str
    ours: str           # patterns; <N> stands for the number
    others: dict        # name -> pattern
    unit: str
    more: bool = True   # a larger figure is the better one
    readme: bool = False


BENCHES = {
    "recipes": Bench("bench-recipes ROUNDS=3", "recipes-0.2.txt", "2026-11-16", "14571a8c", EPYC),
    "peers": Bench("bench-peers", "peers-0.1.md", "2026-11-15", "314bb17", EPYC),
    "memory": Bench("bench-peers ONLY=stoker_tar,stoker_seek,stoker_numpy,dataloader,grain_records NAME=memory", "peers-memory-0.3.md", "2026-11-19", "1045fbf2",
                    f"{EPYC}, load 20"),
    "python": Bench("bench-python", "python-0.3.txt", "2026-11-19", "2009c58d", EPYC),
    "tokens": Bench("bench-tokens THREADS=2 ROUNDS=3", "tokens.txt", "2026-11-15", "e9efb5a8"),
    "tables": Bench("bench-tables ROUNDS=3 SCALE=1", "tables-0.2.txt", "2026-11-16", "6407f2b5"),
    "stores": Bench("bench-stores ROUNDS=3", "stores-0.2.txt", "2026-11-16", "94b13deb"),
    "ranges": Bench("bench-ranges", "ranges-0.3.txt", "2026-11-19", "d99e1402", BUSY),
    "prepare": Bench("bench-prepare", "prepare-0.2.txt", "2026-11-16", "c8b783e3"),
    "sound": Bench("bench-sound ROUNDS=5", "sound-0.3.txt", "2026-11-20", "cdb8a022", EPYC),
    "video": Bench("bench-video ROUNDS=2", "video-0.3.txt", "2026-11-19", "faf3bcbd", EPYC),
    "native": Bench("bench-native", "native-0.3.txt", "2026-11-19", "faf3bcbd", EPYC),
    "gpu-images": Bench("gpu-bench ONLY=images", "gpu-images-0.3-ab.txt", "2026-11-19", "6826aa75", H200),
    "gpu-dino": Bench("gpu-bench ONLY=dino", "gpu-dino-0.2.txt", "2026-11-16", "bdc9e5bd", H200),
    "gpu-video": Bench("gpu-bench ONLY=video", "gpu-video-0.3.txt", "2026-11-19", "167e7df8", H200),
}
PEER = r"^\| {} \| \**<N>"
PEER_MEMORY = r"^\| {} \| [^|]*\|[^|]*\| \**<N>"
CLAIMS = [
    Claim("torchvision's training recipe, two cores", "recipes", r"^stoker, 2 workers +<N>", {"DataLoader": r"^DataLoader \+ torchvision v2, .* workers +<N>"},
          "pictures/s", readme=True),
    Claim("DINO's chain after the decode, one thread", "recipes", r"^stoker +<N>$", {"AlbumentationsX": r"^AlbumentationsX +<N> ", "torchvision v2": r"^torchvision v2 +<N> "},
          "us CPU", False),
    Claim("crop, flip, normalize, two cores", "peers", PEER.format("Stoker"), {
        "DALI on the CPU": PEER.format("NVIDIA DALI, CPU pipeline"), "FFCV": PEER.format("FFCV"), "DataLoader": PEER.format(r"PyTorch DataLoader \+ Pillow")},
          "pictures/s", readme=True),
    Claim("the same with seek points", "peers", PEER.format("Stoker, seek points"), {
        "DALI on the CPU": PEER.format("NVIDIA DALI, CPU pipeline"), "FFCV": PEER.format("FFCV")}, "pictures/s"),
    Claim("its peak memory", "memory", PEER_MEMORY.format("Stoker"), {
        "DataLoader": PEER_MEMORY.format(r"PyTorch DataLoader \+ Pillow")}, "MB", False, readme=True),
    Claim("the same without torch", "memory", PEER_MEMORY.format("Stoker, without torch"), {"Grain": PEER_MEMORY.format("Grain")}, "MB", False, readme=True),
    Claim("a Python data set, samples of 602 KB", "python", r"^602 KB samples, stoker 2 fork: <N> samples", {
        "DataLoader": r"^602 KB samples, torch \d(?: \w+)?: <N> samples", "a bare ring in C": r"^602 KB samples, bare ring in C, 2 writers: <N> samples"},
          "samples/s", readme=True),
    Claim("small dicts from Python, 2 workers", "python", r"^dicts of 17 numbers, stoker 2 workers: <N> samples", {
        "DataLoader": r"^dicts of 17 numbers, torch 2 workers: <N> samples"}, "samples/s"),
    Claim("token windows of 2,048", "tokens", r'"case": "u16".*"rows_per_s": <N>', {"a bare copying loop": r'"case": "u16".*"bare_rows_per_s": <N>'},
          "rows/s", readme=True),
    Claim("random rows of 108 KB from Parquet", "tables", r"^random rows of 108 KB, default .*parquet <N> rows/s", {
        "Lance": r"^random rows of 108 KB, .*lance <N> rows/s"}, "rows/s", readme=True),
    Claim("scan of a float column in batches", "tables", r"^scan of .* float values, .*stoker <N> rows/s", {
        "pyarrow by batches": r"^scan of .* float values, .*pyarrow <N> rows/s", "the whole file at once": r"^scan of .* float values, .*pyarrow whole <N> rows/s"}, "rows/s"),
    Claim("shuffled rows of 512 tokens from Arrow", "tables", r"^shuffled rows of 512 tokens, Arrow: stoker <N> rows/s", {
        "Hugging Face, ds[64 rows]": r"^shuffled rows of 512 tokens, Arrow: .* ds\[64 rows\] <N> rows/s"}, "rows/s"),
    Claim("ranges of 100 KB from S3", "stores", r"^stoker, signed: 100 KB, 16 in flight: .* <N> us CPU", {
        "libcurl alone": r"^bare libcurl: 100 KB, 16 in flight: .* <N> us CPU", "boto3": r"^boto3: 100 KB, 16 in flight: .* <N> us CPU"}, "us CPU", False, readme=True),
    Claim("parts of 8 MiB from S3", "stores", r"^8 MiB, 4 in flight: .*stoker, signed [\d,]+/s <N> us CPU", {
        "libcurl alone": r"^8 MiB, 4 in flight: bare libcurl [\d,]+/s <N> us CPU"}, "us CPU", False),
    Claim("what a crop of a photo reads from S3, with seek points", "ranges", r"^exact shuffle: bytes a sample .* whole, <N> with points", {
        "whole files": r"^exact shuffle: bytes a sample <N> whole"}, "bytes", False),
    Claim("resize to 256 and encode, from 1,500 pixels", "prepare", r"from 1500 pixels: stoker pack <N> per CPU second", {
        "img2dataset's Resizer": r"from 1500 pixels: .*Resizer <N>:"}, "per CPU s"),
    Claim("clips of 16 frames, H.264 at 360p, decoded by the CPU", "video", r"^random clips of 16 frames, 360p GOP 12\n(?:.*\n)*?  stoker +<N> frames/s", {
        "torchcodec": r"^  torchcodec, [\w ]+ +<N> frames/s", "PyAV": r"^  PyAV, per clip +<N> frames/s", "decord2": r"^  decord2, [\w ]+ +<N> frames/s"}, "frames/s"),
    Claim("pictures as 576 patches, one core", "native", r"^NaFlex, 576 patches, .*\n(?:.*\n)*?  stoker +<N> pictures/s", {
        "timm": r"^NaFlex, 576 patches, .*\n(?:.*\n)*?  timm NaFlex +<N> pictures/s"}, "pictures/s", readme=True),
    Claim("JPEG crops on one H200, with seek points", "gpu-images", r"^Stoker, GPU decode, seek points +<N> img/s", {
        "nvJPEG, decoding alone": r"^nvJPEG HARDWARE, decode alone +<N> img/s"}, "pictures/s", readme=True),
    Claim("the same without seek points", "gpu-images", r"^Stoker, GPU decode, no seek points +<N> img/s", {
        "nvJPEG's engines, decoding alone": r"^nvJPEG HARDWARE, decode alone +<N> img/s"}, "pictures/s"),
    Claim("DINO's chain on one H200", "gpu-dino", r"^DINO chain +<N> crops/s", {
        "DALI, on decoded crops": r"^DALI on ready crops +<N> crops/s"}, "crops/s"),
    Claim("clips of 16 frames, 360p, one H200 and its 16 cores", "gpu-video",
          r"^360p  stoker auto +<N>", {"NVDEC, decoding alone": r"^360p  bare sessions +<N>", "PyNvVideoCodec": r"^360p  PyNvVideoCodec +<N>"}, "clips/s", readme=True),
    Claim("speech: FLAC, speed, fbank, two cores", "sound", r"^  stoker +<N> s of sound per s$", {"lhotse": r"^  lhotse, .* +<N> s of sound per s"},
          "s/s", readme=True),
    Claim("2 s of a 30-minute MP3", "sound", r"^MP3, 2 s of 30 min\n  stoker +<N> ms", {"soundfile": r"^MP3, 2 s of 30 min\n(?:.*\n)*?  soundfile +<N> ms"}, "ms", False),
]


# ---- from output to figures ---------------------------------------------------------------------

def figure(pattern, text, more):
    found = [float(n.replace(",", "")) for n in re.findall(pattern.replace("<N>", NUMBER), text, re.M)]
    return (max if more else min)(found) if found else None


def ratio(claim, ours, other):
    return ours / other if claim.more else other / ours


def figures(claim, text):
    """[ours, the others'] of one run; what no run has together is None."""
    patterns = [claim.ours, *claim.others.values()]
    paragraphs = [p for p in re.split(r"\n\s*\n", text) if not re.match(r"#.*\bbefore\b", p)]
    runs = []
    for parts in ("\n".join(paragraphs).split("\n"), paragraphs):
        found = [[figure(p, part, claim.more) for p in patterns] for part in parts]
        runs = runs or [row for row in found if None not in row]
    if not runs:
        return [figure(p, text, claim.more) if i == 0 else None for i, p in enumerate(patterns)]
    return sorted(runs, key=lambda row: ratio(claim, row[0], row[1]))[(len(runs) - 1) // 2]


def shown(value):
    return "missing" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"


def times(value):
    return f"{value:.0f}x" if value >= 13.95 else f"{value:.1f}x" if value >= 1.05 else f"{value:.2f}x"


def cells(claim, text):
    """The title, ours, the others and the ratios of a row, and whether all of it was found."""
    ours, *others = figures(claim, text)
    theirs, ratios = [], []
    for name, other in zip(claim.others, others):
        wins = ours and other and ratio(claim, ours, other) < 1
        theirs.append(f"{name}: **{shown(other)}**" if wins else f"{name}: {shown(other)}")
        ratios += [times(ratio(claim, ours, other))] if ours and other else []
    return [claim.title, f"{shown(ours)} {claim.unit}", "; ".join(theirs), "; ".join(ratios)], ours is not None and None not in others


# ---- tables -------------------------------------------------------------------------------------

def kept_text(name):
    path = RESULTS / BENCHES[name].kept
    return path.read_text() if BENCHES[name].kept else ""


def readme_table():
    lines = ["| the same work | Stoker | the other | ratio |", "|---|---:|---:|---:|"]
    return "\n".join([*lines, *("| " + " | ".join(cells(c, kept_text(c.bench))[0]) + " |" for c in CLAIMS if c.readme)]) + "\n"


def table(texts):
    """(the table, titles of what is missing): of `texts` what ran now, of the others what is kept."""
    lines, missing = ["| the same work | Stoker | the other | ratio | measured | command |", "|---|---:|---:|---:|---|---|"], []
    for claim in CLAIMS:
        bench, now = BENCHES[claim.bench], claim.bench in texts
        row, whole = cells(claim, texts[claim.bench] if now else kept_text(claim.bench))
        if not whole and (now or bench.kept):
            missing.append(claim.title)
        about = "this run" if now else f"{bench.date}, {bench.commit}, {bench.machine}: [{bench.kept}]({bench.kept})" if bench.kept else "no result is kept"
        if now or bench.kept:
            lines.append("| " + " | ".join(row) + f" | {about} | `make {bench.make}` |")
        else:
            lines.append(f"| {claim.title} | | | | {about} | `make {bench.make}` |")
    return "\n".join(lines) + "\n", missing


RULES = ("**Bold**: better than Stoker. All figures of a row are of one run; of several runs that are kept the one with the median ratio. Both sides of a run take turns, "
         "but for clips on a GPU, where one came after the other. Compare ratios, not rates of two machines.\n")


def head():
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    cpu = next((line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "?")
    return (f"`make bench-all`; this run: {datetime.date.today():%Y-%m-%d}, commit {commit or '?'}, {len(os.sched_getaffinity(0))} cores of {cpu}, "
            f"load {os.getloadavg()[0]:.1f} when it began. {RULES}")


def run(names, folder):
    """The benches that failed; the others go on."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = []
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "ONLY", "NAME")}    # ours, not a bench's
    for name in names:
        start = time.monotonic()
        with open(folder / f"{name}.txt", "w") as out:
            done = subprocess.run(["make", *BENCHES[name].make.split()], cwd=ROOT, env=env, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        failed += [name] if done.returncode else []
        print(f"{name}: {time.monotonic() - start:.0f} s" + (f", failed with {done.returncode}" if done.returncode else ""), flush=True)
    return failed


def can_run(name):
    return not name.startswith("gpu-") or shutil.which("nvidia-smi") is not None


def chosen(only):
    names = only.split(",") if only else [name for name in BENCHES if can_run(name)]
    unknown = [n for n in names if n not in BENCHES]
    if unknown:
        sys.exit(f"bench-all: no bench '{unknown[0]}'; there are: {' '.join(BENCHES)}")
    return names


def complain(failed, missing):
    for name in failed:
        print(f"bench-all: {name} failed: build/bench-all/{name}.txt", file=sys.stderr)
    for title in missing:
        print(f"bench-all: no figure of '{title}' in what its bench printed", file=sys.stderr)
    return 1 if failed or missing else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="benches, with commas")
    parser.add_argument("--kept", action="store_true", help="run nothing: bench/results/all-kept.md of what is kept")
    parser.add_argument("--readme", action="store_true", help="run nothing: print README's table")
    parser.add_argument("--name", default="last", help="of bench/results/all-NAME.md")
    args = parser.parse_args()
    if args.readme:
        return print(readme_table(), end="")
    names = [] if args.kept else chosen(args.only)
    about = "# Every comparison that README and docs make\n\n" + (f"`bench/all.py --kept`. {RULES}" if args.kept else head())
    folder = ROOT / "build/bench-all"
    failed = run(names, folder)
    text, missing = table({name: (folder / f"{name}.txt").read_text() for name in names})
    print(text, end="")
    (RESULTS / f"all-{'kept' if args.kept else args.name}.md").write_text(about + "\n" + text)
    return complain(failed, missing)


if __name__ == "__main__":
    sys.exit(main())
