# SPDX-License-Identifier: Apache-2.0
"""What the GPU benches share: arguments, the clock, what a run used, tables that survive a run cut short.

Every script takes --dry: device="cpu", small sizes, so that the scripts are tried where there is no GPU; its figures mean
nothing and are written nowhere unless --name is given.
"""

import argparse
import contextlib
import datetime
import gc
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/peers"))
if (ROOT / "build/python").is_dir():
    sys.path.insert(0, str(ROOT / "build/python"))

import common  # noqa: E402,F401  (the peers': sessions, PSS, the photos' mean and deviation)


def arguments(about, **more):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry", action="store_true", help="no GPU: try the script itself")
    parser.add_argument("--name", help="write bench/results/gpu-WHAT-NAME.json and .txt")
    for flag, how in more.items():
        parser.add_argument(f"--{flag.replace('_', '-')}", **how)
    return parser.parse_args()


def device(args):
    import torch
    if args.dry:
        return "cpu"
    if not torch.cuda.is_available():
        raise SystemExit("bench: torch sees no GPU; --dry tries the script without one")
    torch.zeros(1, device="cuda")               # making the context is not counted
    return "cuda"


def sync(where):
    if where == "cuda":
        import torch
        torch.cuda.synchronize()


# ---- results ------------------------------------------------------------------------------------

def machine():
    found = {"when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
             "cores": len(os.sched_getaffinity(0)), "cpu": cpu_name(), "python": platform.python_version()}
    for name in ("torch", "torchvision", "numpy", "pillow"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    with contextlib.suppress(Exception):
        import torch
        found["gpu"], found["cuda"] = torch.cuda.get_device_name(), torch.version.cuda
    with contextlib.suppress(Exception):
        import stoker
        found["stoker"] = stoker.build_info()
    return found


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


class Results:
    """A table that is printed as it grows and kept whole in JSON behind every line."""

    def __init__(self, what, args):
        self.what, self.name = what, args.name
        self.found = {"what": what, "command": [a.rsplit("/", 1)[-1] for a in sys.argv], **machine(), "rows": []}
        self.lines = []
        self.say(f"{what}: {self.found.get('gpu', 'no GPU')}, {self.found['cores']} cores" + " (dry run)" * args.dry)

    def say(self, line=""):
        print(line, flush=True)
        self.lines.append(line)
        self.keep()

    def add(self, line, **row):
        self.found["rows"].append(row)
        self.say(line)

    def keep(self):
        if self.name:
            base = f"gpu-{self.what}-{self.name}"       # a name may have a dot: 0.3
            (ROOT / "bench/results" / f"{base}.json").write_text(json.dumps(self.found, indent=1) + "\n")
            (ROOT / "bench/results" / f"{base}.txt").write_text("\n".join(self.lines) + "\n")


def bar(value, target):
    return "" if target is None else f"   target {target:,.10g}: {'ok' if value >= target else 'MISSED'}"


# ---- clocks and use -----------------------------------------------------------------------------

class Gpu:
    """SM use in per cent, sampled beside the run by nvidia-smi; empty where there is none."""

    def __init__(self, where):
        self.samples, self.process = [], None
        if where == "cuda":
            with contextlib.suppress(OSError):
                self.process = subprocess.Popen(["nvidia-smi", "dmon", "-s", "u", "-d", "1"], text=True,
                                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            parts = line.split()
            if len(parts) > 1 and parts[0].isdigit() and parts[1].isdigit():
                self.samples.append((time.perf_counter(), int(parts[1])))

    def mean(self, start, end):
        """Of the samples whose second lay inside."""
        inside = [use for at, use in self.samples if start + 1 <= at <= end + 0.2]
        return sum(inside) / len(inside) if inside else None

    def close(self):
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


def memory(where, before=None):
    """Bytes: of the host (PSS of this session), pinned through torch, of the device beyond `before`."""
    found = {"host": common.memory_bytes(os.getsid(0)), "pinned": None, "device": None}
    if where == "cuda":
        import torch
        free, total = torch.cuda.mem_get_info()
        found["device"] = total - free - (before or 0)
        with contextlib.suppress(Exception):
            stats = torch.cuda.host_memory_stats()
            found["pinned"] = stats.get("allocated_bytes.current", stats.get("segment.current"))
    return found


def clock(feed, seconds, warm_seconds, warm_batches, where):
    """(images a second, seconds to the first batch) of an open feed, whose batches must all be on the device at the end."""
    start = time.perf_counter()
    it = iter(feed)
    images, _ = next(it)
    sync(where)
    first = time.perf_counter() - start
    warm, count = time.perf_counter() + warm_seconds, 1
    while time.perf_counter() < warm or count < warm_batches:
        images, _ = next(it)
        count += 1
    sync(where)
    begin, done = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        images, _ = next(it)
        done += len(images)
    sync(where)
    return done / (time.perf_counter() - begin), first


def close(feed):
    feed.close()
    gc.collect()
