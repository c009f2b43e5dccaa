# SPDX-License-Identifier: Apache-2.0
"""make bench-prepare: planning ten million samples; pack on Ray against threads; resize-and-re-encode against img2dataset.

    bench/prepare.py [plan] [resume] [ray] [resizer]

plan      CPU and wall seconds of `stoker pack --write-plan` over SAMPLES (10,000,000) samples
resume    wall time from the start of `stoker pack` to its first new shard, after a SIGKILL in the middle; KILLS (5) times
ray       wall time of one pack with two threads and with two CPUs of Ray, in turns; SECONDS (60) is about how long one takes
resizer   samples per CPU second: stoker.pack() with one worker, and img2dataset's Resizer called directly, in the Python that
          RESIZER names (a venv with img2dataset --no-deps, "albumentations<2", "opencv-python-headless<5"); ROUNDS (3) in turns

Needs .venv/ray for ray (make setup).  Prints; keep it in bench/results/.
"""

from __future__ import annotations

import io
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image

import stoker

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLI = str(ROOT / "build/cli/stoker")
CHAIN = {"jpg": "image | resize(256) | encode(jpeg, 95)"}


def cpu(who: int = resource.RUSAGE_CHILDREN) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


# ---- plan ----

def member(name: bytes) -> bytes:
    """A tar member of one byte; tarfile takes minutes for millions."""
    h = bytearray(512)
    h[:len(name)] = name
    h[100:124] = b"0000644\0" + b"0000000\0" * 2
    h[124:136], h[136:148] = b"00000000001\0", b"00000000000\0"
    h[148:157], h[257:265] = b" " * 8 + b"0", b"ustar\x0000"
    h[148:156] = b"%06o\0 " % sum(h)
    return bytes(h) + b"1" + bytes(511)


def plan(work: pathlib.Path) -> None:
    samples = int(os.environ.get("SAMPLES", "10000000"))
    each, first = 100_000, work / "s-0.tar"
    with open(first, "wb") as f:
        for i in range(each):
            f.write(member(b"%08d.cls" % i))
        f.write(bytes(1024))
    for s in range(1, samples // each):
        os.link(first, work / f"s-{s}.tar")         # the plan does not read them
    subprocess.run([CLI, "index", str(work / "s-*.tar")], check=True, stdout=subprocess.DEVNULL)
    for options in ([], ["--shuffle", "1"], ["--samples", "10000", "--shuffle", "1"],
                    ["--fraction", "0.9", "--split", "train=0.9,val=0.1", "--shuffle", "1"]):
        was, start = cpu(), time.perf_counter()
        subprocess.run([CLI, "pack", str(work / "s-*.tar"), str(work / "out"), *options, "--write-plan", str(work / "plan.json")],
                       check=True, stdout=subprocess.DEVNULL)
        print(f"plan of {samples:,} samples {' '.join(options) or 'as they are'}: {cpu() - was:.2f} s of CPU, "
              f"{time.perf_counter() - start:.2f} s", flush=True)


# ---- resume ----

def resume(work: pathlib.Path) -> None:
    with stoker.Writer(work / "t-%d.tar", 20_000) as w:
        for i in range(100_000):
            w.write({"__key__": f"{i:06d}", "txt": f"number {i}" * 20})
    took, command = [], [CLI, "pack", str(work / "t-*.tar"), str(work / "out"), "--samples", "100", "--field", "txt=text | encode(text)"]
    subprocess.run([CLI, "index", str(work / "t-*.tar")], check=True, stdout=subprocess.DEVNULL)

    def until(least: int) -> float:
        start, one = time.perf_counter(), subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while len(list((work / "out").glob("*.tar"))) < least and one.poll() is None:
            time.sleep(0.005)
        now = time.perf_counter() - start
        one.kill()
        one.wait()
        return now

    until(100)
    for _ in range(int(os.environ.get("KILLS", "5"))):
        took.append(until(len(list((work / "out").glob("*.tar"))) + 1))
    print(f"resume of a killed pack, 100,000 samples in 1,000 shards: first new shard after {min(took):.2f} to {max(took):.2f} s "
          "(at most 1 s is wanted)", flush=True)


# ---- pictures ----

def pictures(folder: pathlib.Path, side: int, n: int) -> str:
    rng = np.random.default_rng(side)
    with stoker.Writer(folder / f"p{side}-%d.tar", max(1, n // 4)) as w:
        for i in range(n):
            coarse = Image.fromarray(rng.integers(0, 256, (side // 24, side // 18, 3), dtype=np.uint8))
            with io.BytesIO() as f:
                coarse.resize((side * 4 // 3, side), Image.Resampling.BICUBIC).save(f, "JPEG", quality=90)
                w.write({"__key__": f"{i:06d}", "jpg": f.getvalue()})
    return str(folder / f"p{side}-*.tar")


# ---- Ray ----

def ray_against_threads(work: pathlib.Path) -> None:
    sys.path.append(str(pathlib.Path(sys.prefix) / "ray"))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    import ray
    src, seconds = stoker.open(pictures(work, 500, 64)), float(os.environ.get("SECONDS", "60"))
    start = time.perf_counter()
    stoker.pack(src, work / "try", fields=CHAIN, num_proc=2)
    times = max(1, round(seconds / (time.perf_counter() - start)))
    ids = list(range(len(src))) * times
    home = tempfile.mkdtemp(prefix="br", dir="/tmp")        # short: Ray's sockets are in it
    ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", _temp_dir=home)
    took: dict[str, list[float]] = {"threads": [], "ray": []}
    for _ in range(int(os.environ.get("ROUNDS", "1"))):
        for name, how in (("threads", {"num_proc": 2}), ("ray", {"engine": "ray"})):
            shutil.rmtree(work / name, ignore_errors=True)
            start = time.perf_counter()
            stoker.pack(src, work / name, fields=CHAIN, select=ids, samples=64, **how)
            took[name].append(time.perf_counter() - start)
    ray.shutdown()
    shutil.rmtree(home, ignore_errors=True)
    threads, on_ray = min(took["threads"]), min(took["ray"])
    print(f"pack of {len(ids):,} pictures of 500 pixels: two threads {threads:.1f} s, Ray with two CPUs {on_ray:.1f} s: "
          f"{threads / on_ray:.2f}x (at least 0.9x is wanted)", flush=True)


# ---- img2dataset's Resizer ----

THEIRS = """
import importlib.util as load, io, json, os, resource, sys, tarfile
import cv2
home = os.path.dirname(load.find_spec("img2dataset").origin)        # the package's own import wants much else
spec = load.spec_from_file_location("resizer", os.path.join(home, "resizer.py"))
module = load.module_from_spec(spec)
spec.loader.exec_module(module)
cv2.setNumThreads(1)
resize = module.Resizer(256, "keep_ratio", False, encode_quality=95, encode_format="jpg")
data = [t.extractfile(m).read() for p in sys.argv[1:] for t in [tarfile.open(p)] for m in t]
resize(io.BytesIO(data[0]))
was = resource.getrusage(resource.RUSAGE_SELF)
for raw in data:
    made = resize(io.BytesIO(raw))
    assert made[0] is not None, made
now = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([len(data), now.ru_utime + now.ru_stime - was.ru_utime - was.ru_stime]))
"""


def resizer(work: pathlib.Path) -> None:
    python = os.environ.get("RESIZER")
    if not python:
        print("resizer: left out; RESIZER names the Python of a venv with img2dataset and what its Resizer imports")
        return
    for side, n, wanted in ((500, 96, 1.4), (1500, 32, 3), (3000, 12, 3)):
        src = pictures(work, side, n)
        data, ours, theirs = stoker.open(src), [], []
        for k in range(int(os.environ.get("ROUNDS", "3"))):
            was = cpu(resource.RUSAGE_SELF)
            stoker.pack(data, work / f"r{side}-{k}", fields=CHAIN, num_proc=1)
            ours.append(n / (cpu(resource.RUSAGE_SELF) - was))
            said = subprocess.run([python, "-c", THEIRS, *data.shards], check=True, capture_output=True, text=True).stdout
            count, used = json.loads(said)
            theirs.append(count / used)
        print(f"resize(256), JPEG 95, from {side} pixels: stoker pack {max(ours):.0f} per CPU second, img2dataset's Resizer "
              f"{max(theirs):.0f}: {max(ours) / max(theirs):.2f}x (at least {wanted}x is wanted)", flush=True)


def main() -> None:
    parts = {"plan": plan, "resume": resume, "ray": ray_against_threads, "resizer": resizer}
    with open("/proc/loadavg") as f:
        print(f"Stoker {stoker.__version__}, {os.cpu_count()} cores, load {' '.join(f.read().split()[:3])} when it began", flush=True)
    for name in sys.argv[1:] or parts:
        with tempfile.TemporaryDirectory() as folder:
            parts[name](pathlib.Path(folder))


if __name__ == "__main__":
    main()
