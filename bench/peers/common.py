# SPDX-License-Identifier: Apache-2.0
"""What every contender of bench-peers shares: the photos, the protocol and the measuring.

A contender is one script beside this file.  It names itself in constants (TITLE, MODULES it imports,
PACKAGES it needs, SETTINGS to try, NOTE) and has two functions (a third, before_clock(), where naming
modules is not enough to import them before the clock starts):

    prepare(data)               writes the photos in its own format, once
    batches(data, **setting)    yields (images, labels) for ever: float32 N,3,224,224 and whole numbers

    NAME.py prepare --data FOLDER
    NAME.py run --data FOLDER [--setting JSON] [--seconds S] [--warm S] [--check BATCHES]

`run` prints one JSON object in its last line.  A contender that cannot run raises Absent with the reason.
All photos are the same for all, repeated to `samples`; the label of sample n is the number of its photo,
so that a label on another's picture is noticed.
"""

import argparse
import importlib
import importlib.metadata
import io
import json
import os
import shutil
import sys
import tarfile
import time
import warnings
from pathlib import Path

SIZE, BATCH = 224, 64
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SHARDS = 8
TICKS = os.sysconf("SC_CLK_TCK")


class Absent(Exception):
    """This contender cannot take part; the message says why, in a few words."""


# ---- the photos -------------------------------------------------------------------------------------

class Data:
    """A work folder: photos.json names the photos; beside it lies what contenders prepare."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        told = json.loads((self.folder / "photos.json").read_text())
        self.files, self.samples, self.brightness = told["files"], told["samples"], told["brightness"]

    def path(self, n):
        return self.files[n % len(self.files)]

    def label(self, n):
        return n % len(self.files)

    def jpeg(self, n):
        return Path(self.path(n)).read_bytes()

    def once(self, name, write):
        """folder/name, made by write(path) unless it is there; a broken attempt leaves nothing behind."""
        path = self.folder / name
        if not path.exists():
            part = self.folder / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            write(part)
            part.replace(path)
        return path

    def shards(self):
        """Tar shards as WebDataset lays them out: key.jpg, key.cls."""
        def write(folder):
            folder.mkdir()
            for shard in range(SHARDS):
                with tarfile.open(folder / f"photos-{shard:06d}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
                    for n in range(self.samples * shard // SHARDS, self.samples * (shard + 1) // SHARDS):
                        add(tar, f"{n:08d}.jpg", self.jpeg(n))
                        add(tar, f"{n:08d}.cls", str(self.label(n)).encode())
        return self.once("tar", write)


def add(tar, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def need_torchvision():
    """Import torchvision also where torch is a CPU build: the wheel's compiled half wants CUDA and does not load
    there, its transforms in Python need of it no more than the names of two operators."""
    import torch
    try:
        return importlib.import_module("torchvision")
    except RuntimeError:
        for name in [m for m in sys.modules if m.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        need_torchvision.library = torch.library.Library("torchvision", "DEF")      # lives as long as its operators
        for name in ("nms", "qnms"):
            need_torchvision.library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return importlib.import_module("torchvision")


# ---- what a run used --------------------------------------------------------------------------------

def session_processes(session):
    """Process ids of a session: a contender's is its own, so its workers are in it, however they were started."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                yield int(entry.name), fields


def cpu_seconds():
    """Of all processes of this session, those that ended and were waited for too."""
    return sum(sum(map(int, fields[11:15])) for _, fields in session_processes(os.getsid(0))) / TICKS


def process_age():
    """Seconds since this process began, interpreter and imports too."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]) / TICKS
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def memory_bytes(session):
    """Resident memory of a session; a page that n processes share counts n times one n-th (PSS)."""
    total = 0
    for pid, _ in session_processes(session):
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) << 10
        except OSError:
            pass
    return total


# ---- what came out ----------------------------------------------------------------------------------

class Look:
    """Describes batches: type, shape, and numbers in which another sampling or a wrong label would show."""

    def __init__(self, data):
        self.data, self.kinds, self.sums, self.pairs = data, set(), [], []

    def take(self, images, labels):
        import numpy as np
        array = images.numpy() if hasattr(images, "numpy") else images
        kind = "torch" if hasattr(images, "numpy") else "numpy"
        whole = array.flags.c_contiguous
        self.kinds.add(f"{kind} {array.dtype} {list(array.shape[1:])}{'' if whole else ' not contiguous'}")
        for image, label in zip(array, labels):             # one by one: keeps memory small
            image = image[:, ::4].astype(np.float64)        # every fourth row tells enough
            self.sums.append([*image.mean((1, 2)), *(image ** 2).mean((1, 2)), np.abs(np.diff(image, axis=2)).mean()])
            self.pairs.append((image.mean(), self.data.brightness[int(label)]))

    def result(self):
        import numpy as np
        sums = np.array(self.sums).mean(0)
        mean, square = sums[:3], sums[3:6]
        ours, theirs = np.array(self.pairs).T
        fit = np.corrcoef(ours, theirs)[0, 1] if len(set(theirs)) > 1 and ours.std() > 0 else 0.0
        return {"samples": len(self.sums), "kinds": sorted(self.kinds), "mean": list(mean.round(4)),
                "std": list(np.sqrt(square - mean ** 2).round(4)), "edges": round(float(sums[6]), 5),
                "label_fit": round(float(fit), 3)}


# ---- the protocol -----------------------------------------------------------------------------------

def versions(peer):
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    names = {*(p.split("==")[0] for p in peer.PACKAGES), "torch", "numpy", "pillow"}
    for name in sorted(names):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found | getattr(peer, "versions", dict)()


def clock(batches, seconds, least=1):
    """Samples, and the seconds they took, until `seconds` are over."""
    start, samples, count = time.perf_counter(), 0, 0
    while True:
        images, labels = next(batches)
        if not images[-1, -1, -1, -1] < 1e9:                # it is there, and it is a number
            raise RuntimeError("a batch holds what is no number")
        samples, count = samples + len(labels), count + 1
        took = time.perf_counter() - start
        if took >= seconds and count >= least:
            return samples, took


def run(peer, data, args):
    for name in peer.MODULES:
        importlib.import_module(name)
    getattr(peer, "before_clock", dict)()
    start = time.perf_counter()
    batches = peer.batches(data, **args.setting)
    images, labels = next(batches)
    first, age = time.perf_counter() - start, process_age()
    look = Look(data)
    for _ in range(args.check):
        look.take(images, labels)
        images, labels = next(batches)
    del images, labels
    if args.warm:
        clock(batches, args.warm, least=8)
    cpu = cpu_seconds()
    samples, seconds = clock(batches, args.seconds)
    cpu = cpu_seconds() - cpu
    batches.close()
    return {"samples": samples, "seconds": seconds, "samples_per_s": samples / seconds,
            "cpu_s_per_1000": 1000 * cpu / samples, "first_batch_s": first, "start_to_first_s": age,
            "setting": args.setting, "versions": versions(peer), **({"look": look.result()} if args.check else {})}


def main(peer):
    parser = argparse.ArgumentParser(description=f"{peer.TITLE}, to be measured by bench/peers/run.py")
    parser.add_argument("command", choices=("prepare", "run"))
    parser.add_argument("--data", required=True, type=Path, help="the work folder")
    parser.add_argument("--setting", type=json.loads, default=peer.SETTINGS[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warm", type=float, default=1.0)
    parser.add_argument("--check", type=int, default=0, metavar="BATCHES")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        data = Data(args.data)
        found = peer.prepare(data) if args.command == "prepare" else run(peer, data, args)
    except Absent as reason:
        found = {"absent": str(reason)}
    print(json.dumps(found or {}), flush=True)
