# SPDX-License-Identifier: Apache-2.0
"""make bench-peers: Stoker and its peers on the same photos, the same work, the same cores, one table.

Each contender is a script beside this one (common.py has the protocol) in an environment of its own
(venvs.py).  First every contender's settings are tried, its output is looked at, and its fastest
setting kept; then rounds, one run of each in turn, and the best of each counts, so that a noisy
neighbour hurts all alike.  One that cannot run stands in the table with the reason.
"""

import argparse
import datetime
import importlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent)]

import common  # noqa: E402
import report  # noqa: E402
import venvs  # noqa: E402

CONTENDERS = ("stoker_tar", "stoker_seek", "stoker_numpy", "dataloader", "webdataset_tar", "dali_cpu", "spdl_threads",
              "mosaic_mds", "litdata_chunks", "grain_records", "ffcv_beton")
PATIENCE_S = 120
SAMPLE_S = 1.0                  # a look at memory costs milliseconds a process: often would slow down those with many
CHECK_BATCHES = 10
WORK = "RandomResizedCrop(224), flip, normalize; float32 N,3,224,224; batches of 64"


def say(text):
    print(f"-- {text}", flush=True)


# ---- one process ------------------------------------------------------------------------------------

class Process:
    """A contender at work: its output, and the most memory that its processes had together."""

    def __init__(self, command, env, cores):
        self.peak, self.start = 0, time.monotonic()
        self.process = subprocess.Popen(
            [str(c) for c in command], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=HERE,
            preexec_fn=lambda: os.sched_setaffinity(0, cores))

    def finish(self, patience):
        """(exit status, stdout, stderr); one that takes too long is ended, and so is all it left running."""
        try:
            while time.monotonic() - self.start < patience:
                try:
                    out, err = self.process.communicate(timeout=SAMPLE_S)
                    return self.process.returncode, out, err
                except subprocess.TimeoutExpired:
                    self.peak = max(self.peak, common.memory_bytes(self.process.pid))
            return 1, "", f"RuntimeError: did not end within {patience} s"
        finally:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.process.communicate()


def last_json(text):
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return None


class Contender:
    """One of the scripts, and how to run it here."""

    def __init__(self, name, args):
        peer = importlib.import_module(name)
        self.name, self.title, self.note, self.settings = name, peer.TITLE, peer.NOTE, list(peer.SETTINGS)
        self.packages, self.optional = peer.PACKAGES, getattr(peer, "OPTIONAL", False)
        self.args, self.python = args, Path(sys.executable)
        self.absent, self.setting, self.look = None, None, None
        self.rows, self.tried, self.remarks, self.versions = [], [], [], {}

    def set_up(self):
        if self.args.no_install:
            found, reason = (venvs.python_of(self.name), None) if self.packages else (self.python, None)
            if not found.exists():
                found, reason = None, "not installed"
        else:
            found, reason = venvs.ensure(self.name, self.packages, say)
        if found:
            self.python = found
        elif not self.optional:
            self.absent = reason

    def call(self, command, *options, patience=PATIENCE_S):
        env = {**os.environ, "PYTHONPATH": str(self.args.build / "python"), "STOKER_BUILD": str(self.args.build),
               "PYTHONWARNINGS": "ignore"}
        run = Process([self.python, f"{self.name}.py", command, "--data", self.args.work, *options], env,
                      self.args.cores)
        status, out, err = run.finish(patience)
        found = last_json(out) if status == 0 else None
        if found is None:
            return {"absent": f"does not run: {venvs.short_reason(err)}"}
        return {**found, "peak_memory_mb": run.peak / 2**20}

    def prepare(self):
        self.absent = self.absent or self.call("prepare", patience=5 * PATIENCE_S).get("absent")

    def run(self, setting, seconds, check=0):
        return self.call("run", "--setting", json.dumps(setting), "--seconds", seconds, "--warm", self.args.warm,
                         "--check", check)

    def tune(self):
        """Try every setting; keep the fastest.  One that fails is left out; if all do, so is the contender."""
        for setting in self.settings * self.args.tune_rounds:
            row = self.run(setting, self.args.tune_seconds, CHECK_BATCHES)
            self.tried.append({"setting": setting, **row})
            rate = row.get("absent") or f"{row['samples_per_s']:,.0f}/s"
            say(f"{self.title}: {report.setting_text(setting)}: {rate}")
        good = [row for row in self.tried if "absent" not in row]
        if not good:
            self.absent = self.tried[0]["absent"]
            return
        fastest = max(good, key=lambda row: row["samples_per_s"])
        self.setting, self.look, self.versions = fastest["setting"], fastest["look"], fastest["versions"]
        self.absent = report.differs(self.look, [3, common.SIZE, common.SIZE])

    def entry(self):
        kept = {"title": self.title, "note": self.note, "tried": self.tried, "look": self.look}
        if self.absent or not self.rows:
            return {**kept, "absent": self.absent or "not run"}
        return {**kept, "setting": self.setting, "rows": self.rows, "remarks": self.remarks, "versions": self.versions}


# ---- the whole --------------------------------------------------------------------------------------

def brightness(path):
    """Of a photo, to tell later whether a label belongs to its picture."""
    import numpy as np
    from PIL import Image
    with Image.open(path) as image:
        return round(float(np.asarray(image.convert("L").resize((64, 64))).mean()), 2)


def write_photos(work, files, samples):
    work.mkdir(parents=True, exist_ok=True)
    told = {"files": [str(f) for f in files], "samples": samples, "brightness": [brightness(f) for f in files]}
    (work / "photos.json").write_text(json.dumps(told))


def find_data(args):
    """The work folder: one for each set of photos and number of samples."""
    import hashlib

    from data import find_photos
    base = args.build / "bench-data"
    base.mkdir(parents=True, exist_ok=True)
    files = [f.resolve() for f in find_photos(base, args.data)]
    samples = max(args.samples // len(files), 1) * len(files)
    names = "\n".join([str(samples), *(f"{f} {f.stat().st_size}" for f in files)])
    work = base / f"peers-{hashlib.sha256(names.encode()).hexdigest()[:8]}"
    if not (work / "photos.json").exists():
        write_photos(work, files, samples)
    return work, len(files), samples


def warm_cache(work):
    """Read what is there once, so that the first of all contenders finds it in memory as the others do."""
    for path in work.rglob("*"):
        if path.is_file():
            with open(path, "rb", buffering=0) as file:
                while file.read(1 << 22):
                    pass


def check_outputs(contenders):
    """Leave out whoever does other work than the reference; remark on smaller differences."""
    looks = {c.name: c.look for c in contenders if not c.absent}
    reference = looks.get(report.REFERENCE) or looks.get(report.OURS)
    for c in contenders:
        if not c.absent and reference:
            c.absent, c.remarks = report.compare(c.look, reference)


def measure(contenders, args):
    for c in contenders:
        if not c.absent:
            c.tune()
    check_outputs(contenders)
    for number in range(args.rounds):
        running = [c for c in contenders if not c.absent]
        say(f"round {number + 1} of {args.rounds}")
        turn = number % max(len(running), 1)
        for c in running[turn:] + running[:turn]:
            row = c.run(c.setting, args.seconds)
            if "absent" in row:
                c.remarks.append(f"round {number + 1}: {row['absent']}")
            else:
                c.rows.append(row)
    for c in contenders:
        if not c.absent and not c.rows:
            c.absent = c.remarks[-1]


def cpu_model():
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found.group(1) if found else platform.machine()


def about(args, photos, samples, contenders):
    git = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=ROOT)
    versions = {}
    for c in contenders:
        versions |= {k: v for k, v in c.versions.items() if k not in versions}
    return {"date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), "commit": git.stdout.strip() or "?",
            "cpu": cpu_model(), "cores": len(args.cores), "kernel": platform.release(), "work": WORK,
            "photos": f"{photos} photos repeated to {samples} samples, in the page cache", "rounds": args.rounds,
            "seconds a run": args.seconds, "versions": versions}


def write(entries, facts, name):
    folder = ROOT / "bench/results"
    folder.mkdir(exist_ok=True)
    head = "\n".join(f"- {key}: {', '.join(f'{k} {v}' for k, v in value.items()) if isinstance(value, dict) else value}"
                     for key, value in facts.items())
    text = "\n".join(["# Stoker and its peers", "", report.table(entries),
                      "Bold: better than Stoker as it is. Each figure is the best of its column over the rounds.", "",
                      head, "", report.notes(entries)])
    (folder / f"peers-{name}.md").write_text(text)
    kept = json.dumps({"about": facts, "contenders": entries}, indent=1)
    (folder / f"peers-{name}.json").write_text(kept.replace(f"{ROOT}/", "") + "\n")    # results travel, paths do not
    caption = f"{WORK}; {facts['cores']} cores"
    (folder / f"peers-{name}.svg").write_text(report.chart(entries, caption))
    print(report.table(entries) + "\n" + report.notes(entries))
    say(f"kept in bench/results/peers-{name}.md, .json and .svg")


def arguments():
    parser = argparse.ArgumentParser(description="measure Stoker against its peers")
    parser.add_argument("--data", help="a folder of JPEGs or of shards; default: made photos")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="a run in a round is measured")
    parser.add_argument("--tune-seconds", type=float, default=2.0, help="a run while looking for the best setting")
    parser.add_argument("--tune-rounds", type=int, default=1, help="that every setting is tried in")
    parser.add_argument("--warm", type=float, default=1.0, help="seconds that a run loads before the clock starts")
    parser.add_argument("--samples", type=int, default=4000, help="an epoch: photos are repeated up to it")
    parser.add_argument("--only", action="append", choices=CONTENDERS, help="only this one; may be repeated")
    parser.add_argument("--name", default="last", help="of bench/results/peers-NAME.* (default: last)")
    parser.add_argument("--cores", type=int, default=2, help="that every contender may use")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build of Stoker to measure")
    parser.add_argument("--no-install", action="store_true", help="use what is installed; others are absent")
    args = parser.parse_args()
    args.build = args.build.resolve()
    args.cores = set(sorted(os.sched_getaffinity(0))[:args.cores])
    return args


def main():
    args = arguments()
    args.work, photos, samples = find_data(args)
    contenders = [Contender(name, args) for name in CONTENDERS if name in (args.only or CONTENDERS)]
    for c in contenders:
        c.set_up()
    for c in contenders:
        c.prepare()
    warm_cache(args.work)
    start = time.monotonic()
    measure(contenders, args)
    say(f"measured for {time.monotonic() - start:.0f} s")
    write({c.name: c.entry() for c in contenders}, about(args, photos, samples, contenders), args.name)


if __name__ == "__main__":
    main()
