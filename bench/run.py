# SPDX-License-Identifier: Apache-2.0
"""make bench: the numbers we promise, against bare loops in C and against PyTorch's DataLoader.

Rounds are interleaved (one of each side in turn) and the best of each side counts, so that a noisy
neighbour hurts all alike.  One table with targets and verdicts is printed and kept, with what it was
measured on, in bench/results/NAME.txt and .json.
"""

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from data import ROOT, Data  # noqa: E402

BATCH = 64
CORES = len(os.sched_getaffinity(0))


@dataclass
class Line:
    what: str
    value: str
    target: str
    ok: bool | None             # None: only informs


class Table:
    def __init__(self):
        self.lines, self.raw = [], {}

    def add(self, what, value, target="", ok=None):
        self.lines.append(Line(what, value, target, ok))
        print(self.text(self.lines[-1]), flush=True)

    @staticmethod
    def text(line):
        verdict = {None: "", True: "ok", False: "MISSED"}[line.ok]
        return f"{line.what:<58}{line.value:>16}   {line.target:<12}{verdict}"


def say(text):
    print(f"-- {text}", flush=True)


def run_json(*command, **env):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=ROOT,
                          env={**os.environ, **env})
    if done.returncode:
        raise SystemExit(f"bench: {Path(str(command[0])).name}: {done.stderr.strip() or done.returncode}")
    return json.loads(done.stdout)


def best(rows):
    return max(rows, key=lambda r: r["samples_per_s"])["samples_per_s"]


def least_cpu(rows):
    return min(r["cpu_us_per_sample"] for r in rows)


def rounds(n, sides):
    """{name: function} -> {name: results}, one of each in turn, n times."""
    results = {name: [] for name in sides}
    for _ in range(n):
        for name, run in sides.items():
            results[name].append(run())
    return results


# ---- photos ---------------------------------------------------------------------------------------

class Torch:
    """The peer as a process of its own that loads an epoch when told to."""

    def __init__(self, mode, workers, paths):
        script = ROOT / "bench/peers/torch_loader.py"
        self.name = f"{workers} workers, {mode}"
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(script), mode, str(workers), str(BATCH), *map(str, paths)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.epoch()

    def epoch(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("bench: the DataLoader's process ended")
        row = json.loads(line)
        return {**row, "samples_per_s": row["samples"] / row["seconds"]}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def torch_peers(data, quick):
    """The DataLoader with each num_workers and way of reading; all take part in every round, and the best of all
    counts, so that a noisy moment cannot choose a bad one."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return []
    shards = sorted(Path(data.photos).parent.glob(Path(data.photos).name.split("{")[0] + "*.tar"))
    peers = [Torch("files", workers, data.files) for workers in ((CORES,) if quick else (0, 1, 2, 4))]
    return peers if quick else [*peers, Torch("tar", CORES, shards)]


def stoker_photos(build, shards, epochs, workers=CORES):
    """Rate over all epochs but the first, which brings memory and files in."""
    row = run_json(build / "cli/stoker", "bench", shards, "--shuffle", "--batch-size", BATCH, "--epochs", epochs + 1,
                   "--workers", workers, "--json")
    later = row["epochs"][1:]
    return {**row, "samples_per_s": sum(e["samples"] for e in later) / sum(e["seconds"] for e in later)}


def bench_photos(table, build, data, args):
    epochs = 1 if args.quick else 2
    peers = torch_peers(data, args.quick)
    sides = {"stoker": lambda: stoker_photos(build, data.photos, epochs),
             "points": lambda: stoker_photos(build, data.points, epochs),
             "limit": lambda: run_json(build / "bench/limit_jpeg", data.photos, CORES, epochs),
             "points 1": lambda: stoker_photos(build, data.points, epochs, 1),
             "limit 1": lambda: run_json(build / "bench/limit_jpeg", data.photos, 1, epochs)}
    got = rounds(args.rounds, {**sides, **{peer.name: peer.epoch for peer in peers}})
    for peer in peers:
        peer.close()
    table.raw["photos"] = got
    ours, limit, points = best(got["stoker"]), best(got["limit"]), best(got["points"])
    table.add(f"photos, RandomResizedCrop(224) to f32, {CORES} cores", f"{ours:.0f}/s")
    table.add("  with seek points", f"{points:.0f}/s")
    table.add("  bare libjpeg-turbo loop, same crops", f"{limit:.0f}/s")
    table.add("  Stoker / bare loop", f"{ours / limit:.2f}x", ">= 0.8x", ours >= 0.8 * limit)
    table.add("  with seek points / bare loop", f"{points / limit:.2f}x")
    if CORES > 1:
        grown, bare = points / best(got["points 1"]), limit / best(got["limit 1"])
        table.add(f"  from 1 to {CORES} threads: Stoker {grown:.2f}x, bare loop {bare:.2f}x", f"{grown / bare:.2f}",
                  ">= 0.95", grown >= 0.95 * bare)
    if peers:
        for peer in peers:
            table.add(f"  DataLoader + Pillow, {peer.name}", f"{best(got[peer.name]):.0f}/s")
        theirs = max(best(got[peer.name]) for peer in peers)
        table.add("  Stoker / the best of them", f"{ours / theirs:.2f}x", ">= 2.5x", ours >= 2.5 * theirs)
        table.add("  with seek points / the best of them", f"{points / theirs:.2f}x", ">= 4x", points >= 4 * theirs)
    stages = max(got["stoker"], key=lambda r: r["samples_per_s"])["stages"]
    table.add("  stages, us a sample, warm-up too: fetch, decode, resample", ", ".join(
        f"{stages[s]['us_per_sample']:.0f}" for s in ("fetch", "decode", "resample")))


# ---- the engine alone -----------------------------------------------------------------------------

def bench_engine(table, build, data, args):
    last = (CORES, 2 if args.quick else 5, 256, "bin")
    got = rounds(args.rounds, {
        "limit": lambda: run_json(build / "bench/limit_memcpy", data.small, *last),
        "mem": lambda: run_json(build / "bench/engine_bytes", "mem", data.small, *last),
        "tar": lambda: run_json(build / "bench/engine_bytes", "tar", data.small, *last)})
    table.raw["engine"] = got
    limit, mem, tar = best(got["limit"]), best(got["mem"]), best(got["tar"])
    table.add(f"engine alone, 1 KB bytes, batch 256, {CORES} threads", f"{mem / 1e6:.2f} M/s", "> 1 M/s", mem > 1e6)
    table.add("  bare memcpy loop, same order", f"{limit / 1e6:.2f} M/s")
    table.add("  engine / memcpy", f"{mem / limit:.2f}x", ">= 0.5x", mem >= 0.5 * limit)
    table.add("  the same by processor time (steadier on a shared machine)",
              f"{least_cpu(got['limit']) / least_cpu(got['mem']):.2f}x")
    table.add("  the same from tar in page cache (one read each)", f"{tar / 1e6:.2f} M/s")


# ---- cold files -----------------------------------------------------------------------------------

def rings_work(build, data):
    loop = build / "bench/limit_uring"
    return loop.exists() and subprocess.run([loop, data.cold, "seq", "1", "bin"], capture_output=True).returncode == 0


def bench_cold(table, build, data, args):
    """100 KB samples whose shards have just left the page cache; the bare loop has as many reads in flight."""
    if not rings_work(build, data):
        table.add("cold files, against a bare io_uring loop", "no io_uring")
        return
    for order, words in (("seq", "in order"), ("random", "shuffled")):
        engine = (build / "bench/engine_cold", data.cold, order, CORES, BATCH, "bin")
        got = rounds(args.rounds, {
            "limit": lambda: run_json(build / "bench/limit_uring", data.cold, order, 64, "bin"),
            "engine": lambda: run_json(*engine),
            "threads": lambda: run_json(*engine, STK_URING="0")})
        table.raw[f"cold, {order}"] = got
        limit, ours, threads = (best(got[side]) for side in ("limit", "engine", "threads"))
        table.add(f"cold files, 100 KB samples {words}", f"{ours / 10:.0f} MB/s")
        table.add("  bare io_uring loop, same reads", f"{limit / 10:.0f} MB/s")
        table.add("  engine / bare loop", f"{ours / limit:.2f}x", ">= 0.8x", ours >= 0.8 * limit)
        table.add("  processor time a sample: engine, bare loop",
                  f"{least_cpu(got['engine']):.0f}, {least_cpu(got['limit']):.0f} us")
        table.add("  engine with reader threads instead", f"{threads / 10:.0f} MB/s")


# ---- opening --------------------------------------------------------------------------------------

PYTHON_FIRST = """
import json, sys, time, stoker
try:
    import torch                        # a training program has it before it opens a loader
except ImportError:
    pass
start = time.perf_counter()
loader = stoker.Loader(sys.argv[1], fields={"text": "from(txt) | text", "label": "from(cls) | int"},
                       batch_size=256, shuffle=True)
next(iter(loader))
print(json.dumps({"seconds": time.perf_counter() - start}))
"""


def has_python(build):
    return subprocess.run([sys.executable, "-c", "import stoker"], capture_output=True,
                          env={**os.environ, "PYTHONPATH": str(build / "python")}).returncode == 0


def bench_first(table, build, data, args):
    index = run_json(build / "cli/stoker", "index", data.million, "--json")
    sides = {"c": lambda: run_json(build / "bench/first_batch", data.million, 256)}
    if has_python(build):
        sides["python"] = lambda: run_json(sys.executable, "-c", PYTHON_FIRST, data.million,
                                           PYTHONPATH=str(build / "python"))
    got = rounds(args.rounds, sides)
    table.raw["first_batch"], table.raw["index"] = got, index
    for side, rows in got.items():
        ms = min(r["seconds"] for r in rows) * 1e3
        table.add(f"Loader to first batch, 1,000,000 samples, {side}", f"{ms:.1f} ms", "< 100 ms", ms < 100)
    a_sample = index["index_bytes_per_sample"]
    table.add("index, two fields and keys", f"{a_sample:.1f} B/sample", "<= 48", a_sample <= 48)


# ---- epochs and memory ----------------------------------------------------------------------------

def bench_epochs(table, build, data, args):
    limit = 512 << 20
    common = ("bench", data.photos, "--shuffle", "--drop-last", "--batch-size", 32, "--json",
              "--memory-limit", limit)
    flat = run_json(build / "cli/stoker", *common, "--epochs", 4 if args.quick else 6)
    rss = [e["rss_bytes"] for e in flat["epochs"]]
    growth = (max(rss[1:]) - rss[1]) / rss[1]
    peak = flat["memory"]["peak_rss_bytes"]
    # As a training loop that is a little slower than the loader: it should never wait.
    step = 1.5e3 * flat["median_batch_s"]
    paced = min((run_json(build / "cli/stoker", *common, "--epochs", 3, "--step-ms", f"{step:.3f}")
                 for _ in range(1 if args.quick else 3)), key=lambda r: r["epoch_gap_s"])
    table.raw["epochs"] = {"flat": flat, "paced": paced}
    table.add("resident memory, growth after the second epoch", f"{growth:.1%}", "< 2 %", growth < 0.02)
    table.add(f"  peak resident with memory_limit {limit >> 20} MB", f"{peak / 2**20:.0f} MB", "within", peak <= limit)
    gap, batch = paced["epoch_gap_s"], flat["median_batch_s"]
    table.add(f"gap between epochs (a batch takes {batch * 1e3:.1f} ms)", f"{gap * 1e3:.1f} ms",
              "< one batch", gap < batch)


# ---- what the counters cost -----------------------------------------------------------------------

def count_instructions(cli, *args):
    """Of one epoch in the caller's thread: with workers, how far they get ahead differs from run to run."""
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", str(cli), "bench",
                           *map(str, args), "--workers", "0", "--epochs", "1", "--json"],
                          capture_output=True, text=True, cwd=ROOT)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or not found:
        raise SystemExit(f"bench: callgrind: {done.stderr.strip().splitlines()[-1:]}")
    return int(found.group(1))


def bench_counters(table, build, data, args):
    if not shutil.which("valgrind"):
        table.add("cost of the stage counters", "no valgrind")
        return
    other = build.parent / f"{build.name}-nocounters"
    tools = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    if not (other / "build.ninja").exists():
        subprocess.run(["meson", "setup", other, ROOT, "-Dcounters=false", "-Dpython=disabled"], check=True,
                       env=tools, capture_output=True)
    subprocess.run(["ninja", "-C", other, "cli/stoker"], check=True, env=tools, capture_output=True)
    runs = {"photos": (data.few, "--shuffle", "--batch-size", 16),
            "1 KB bytes": (data.tiny, "--shuffle", "--batch-size", 256)}
    for name, options in runs.items():
        run_json(build / "cli/stoker", "index", options[0], "--json")
        on, off = (count_instructions(b / "cli/stoker", *options) for b in (build, other))
        table.raw[f"counters, {name}"] = {"on": on, "off": off}
        table.add(f"cost of the stage counters, {name}, instructions", f"{on / off - 1:.2%}", "< 1 %",
                  on / off - 1 < 0.01)


# ---- the whole ------------------------------------------------------------------------------------

PARTS = {"photos": bench_photos, "engine": bench_engine, "cold": bench_cold, "first": bench_first,
         "epochs": bench_epochs, "counters": bench_counters}


def cpu_model():
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    return found.group(1) if found else platform.machine()


def versions():
    found = {"python": platform.python_version(), "kernel": platform.release()}
    for name in ("torch", "PIL", "numpy"):
        try:
            found[name] = __import__(name).__version__
        except ImportError:
            pass
    return found


def about(build, data, args):
    git = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, cwd=ROOT)
    source = "made photos" if args.data is None else f"{len(data.files)} given photos"
    return {"date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), "commit": git.stdout.strip() or "?",
            "build": subprocess.run([build / "cli/stoker", "--version"], capture_output=True, text=True).stdout.strip(),
            "cpu": cpu_model(), "cores": CORES, "versions": versions(), "photos": source, "rounds": args.rounds,
            "command": "bench/run.py" + (" --quick" if args.quick else "") + (" --data ..." if args.data else "")}


def write(table, facts, name):
    folder = ROOT / "bench/results"
    folder.mkdir(exist_ok=True)
    head = [f"{key}: {value if not isinstance(value, dict) else ', '.join(f'{k} {v}' for k, v in value.items())}"
            for key, value in facts.items()]
    text = "\n".join([*head, "", *map(table.text, table.lines)]) + "\n"
    (folder / f"{name}.txt").write_text(re.sub(r" +\n", "\n", text))
    rows = [asdict(line) for line in table.lines]
    kept = json.dumps({"about": facts, "lines": rows, "raw": table.raw}, indent=1)
    (folder / f"{name}.json").write_text(kept.replace(f"{ROOT}/", "") + "\n")     # results travel, paths do not
    say(f"kept in bench/results/{name}.txt and .json")


def main():
    parser = argparse.ArgumentParser(description="measure Stoker against bare loops and PyTorch's DataLoader")
    parser.add_argument("--data", help="a folder of JPEGs or of shards, or a glob of shards; default: made photos")
    parser.add_argument("--quick", action="store_true", help="a smoke run of a minute: fewer rounds, less data")
    parser.add_argument("--rounds", type=int, help="of each side (default 7; 3 with --quick)")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure only this part; may be repeated")
    parser.add_argument("--name", default="last", help="of the files under bench/results (default: last)")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="the build to measure")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed")
    args = parser.parse_args()
    args.rounds = args.rounds or (3 if args.quick else 7)
    build, start, table = args.build.resolve(), time.monotonic(), Table()
    say("data")
    data = Data(build, args.data, args.quick)
    for name, part in PARTS.items():
        if name in (args.only or PARTS):
            say(name)
            part(table, build, data, args)
    say(f"{time.monotonic() - start:.0f} s")
    write(table, about(build, data, args), args.name)
    missed = [line.what.strip() for line in table.lines if line.ok is False]
    if missed:
        say(f"missed: {'; '.join(missed)}")
    return 1 if missed and args.strict else 0


if __name__ == "__main__":
    sys.exit(main())
