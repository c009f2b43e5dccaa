# SPDX-License-Identifier: Apache-2.0
"""How Stoker and the bare loops grow with threads, on a machine that has some.

    python3 bench/scaling.py BUILD [--data FOLDER] [--threads 1,2,4,8,16] [--rounds 3]

BUILD is a build folder (`meson setup BUILD && ninja -C BUILD`). Photos are made by tools/demo where
no folder is given. Rounds are interleaved, the best of each side counts.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools/demo"))


def pack(files, folder, shards=8):
    for s in range(shards):
        with tarfile.open(folder / f"s-{s:03d}.tar", "w") as tar:
            for i, path in list(enumerate(files))[s::shards]:
                for name, data in (("cls", b"1"), ("jpg", path.read_bytes())):
                    info = tarfile.TarInfo(f"{i:06d}.{name}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return str(folder / f"s-{{000..{shards - 1:03d}}}.tar")


def photos(data, folder, count):
    if data is None:
        import photos as maker
        maker.make_photos(folder, count=count)
        data = folder
    found = sorted(p for p in Path(data).rglob("*") if p.suffix.lower() in (".jpg", ".jpeg"))
    return [found[i % len(found)] for i in range(count)]


def answer(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def small(args, folder, cores):
    make = [str(args.build / "bench/make_tar"), str(folder / "kb"), "4", "100000", "bin:1024"]
    subprocess.run(make, check=True, capture_output=True)
    shards = str(folder / "kb-*.tar")
    print("1 KB bytes samples in memory, batch 256, shuffled; the bare loop only copies")
    print(f"{'threads':>8}{'Stoker M/s':>12}{'bare M/s':>12}{'ratio':>8}")
    for n in [int(t) for t in args.threads.split(",") if int(t) <= cores]:
        best, bare = 0.0, 0.0
        for _ in range(args.rounds):
            rest = [shards, n, 3, 256, "bin"]
            best = max(best, answer(args.build / "bench/engine_bytes", "mem", *rest)["samples_per_s"])
            bare = max(bare, answer(args.build / "bench/limit_memcpy", *rest)["samples_per_s"])
        print(f"{n:>8}{best / 1e6:>12.2f}{bare / 1e6:>12.2f}{best / bare:>8.2f}", flush=True)


def once(args, shards, threads):
    """The best epoch of one run: samples/s, CPU seconds per 1,000 samples."""
    ours = answer(args.build / "cli/stoker", "bench", shards, "--shuffle", "--batch-size", 256, "--epochs", 4,
                  "--workers", threads, "--json")
    return max(e["samples"] / e["seconds"] for e in ours["epochs"]), ours["cpu_s_per_1000_samples"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--data")
    parser.add_argument("--threads", default="1,2,4,8,16")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as tmp:
        files = photos(args.data, Path(tmp) / "photos", 1600)
        for name in ("plain", "points"):
            (Path(tmp) / name).mkdir()
        plain, points = pack(files, Path(tmp) / "plain"), pack(files, Path(tmp) / "points")
        subprocess.run([str(args.build / "cli/stoker"), "index", points, "--jpeg"], check=True,
                       capture_output=True)
        print(f"{cores} cores; photos to 224x224 f32, batch 256, shuffled; the bare loop only decodes, whole")
        print(f"{'threads':>8}{'Stoker/s':>12}{'seek points':>13}{'bare/s':>12}{'ratios':>14}{'CPU s/1000':>16}")
        for n in [int(t) for t in args.threads.split(",") if int(t) <= cores]:
            best, bare = {plain: (0.0, 0.0), points: (0.0, 0.0)}, 0.0
            for _ in range(args.rounds):
                for shards in (plain, points):
                    best[shards] = max(best[shards], once(args, shards, n))
                bare = max(bare, answer(args.build / "bench/limit_jpeg", plain, n, 2)["samples_per_s"])
            (a, cpu_a), (b, cpu_b) = best[plain], best[points]
            print(f"{n:>8}{a:>12,.0f}{b:>13,.0f}{bare:>12,.0f}{a / bare:>7.2f}{b / bare:>7.2f}"
                  f"{cpu_a:>8.3f}{cpu_b:>8.3f}", flush=True)
        small(args, Path(tmp), cores)


if __name__ == "__main__":
    main()
