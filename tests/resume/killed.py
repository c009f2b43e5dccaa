# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed and resumed with other ranks, against one that never was: killed.py --runs N.

A run trains with 4 processes, is killed (SIGKILL, all of them, at a random step), goes on from its
last checkpoint with 3, is killed, with 5, is killed, and ends with 1.  Batch sizes, workers and
prefetch change each time.  Then `stoker ledger` must show every sample exactly once an epoch, and
the pixels of every row ever handed out must be those of the undisturbed run.
"""

import argparse
import collections
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
import one_rank  # noqa: E402
from forked_python import python  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve()
CLI = Path(os.environ.get("STOKER_CLI", BUILD / "cli/stoker")).resolve()
SAMPLES, SHARDS, EPOCHS = 90, 4, 3
BAD = (7, 40, 41, 88)
WORLDS = (4, 3, 5, 1)
CHAIN = "from(jpg) | image | random_resized_crop(16) | hflip"
TIMEOUT = 600
LATE = 3    # steps that a run goes on after the one at which it is to be killed; then it waits for that

# What a run is like, and which of its samples can't be decoded.  A mix: the first half of the shards by
# weight 0.7, the others by 0.3, so that of some samples an epoch has several, of others none.
VARIANTS = {
    "plain": ({"shuffle": True, "seed": 5}, ()),
    "skip": ({"shuffle": True, "seed": 6, "on_error": "skip"}, BAD),
    "block": ({"shuffle": "block", "seed": 7, "streams": 4, "window": 32}, ()),
    "block-skip": ({"shuffle": "block", "seed": 8, "streams": 2, "on_error": "skip"}, BAD),
    "mix": ({"shuffle": True, "seed": 9}, ()),
    "mix-skip": ({"shuffle": True, "seed": 10, "on_error": "skip", "epoch_size": 110}, BAD),
}


def jpeg(number):
    rng = np.random.default_rng(number)
    size = 32 + number % 9, 24 + number % 7
    picture = Image.fromarray(rng.integers(0, 256, (4, 5, 3), np.uint8)).resize(size)
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=85)
    return out.getvalue()


def write_data(folder, bad, mixed):
    folder.mkdir(parents=True)
    for shard, numbers in enumerate(np.array_split(np.arange(SAMPLES), SHARDS)):
        with tarfile.open(folder / f"s-{shard}.tar", "w") as tar:
            for n in map(int, numbers):
                data = jpeg(n)[:150] if n in bad else jpeg(n)
                info = tarfile.TarInfo(f"{n:04d}.jpg")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    if not mixed:
        return str(folder / f"s-{{0..{SHARDS - 1}}}.tar")
    return {"a": (str(folder / "s-{0..1}.tar"), 0.7), "b": (str(folder / f"s-{{2..{SHARDS - 1}}}.tar"), 0.3)}


class Setting:
    """Data and the undisturbed run of a variant: made once, used by many runs."""

    def __init__(self, variant, folder):
        self.options, self.bad = VARIANTS[variant]
        self.plan = {"data": write_data(Path(folder) / variant, self.bad, "mix" in variant), "chain": CHAIN,
                     "loader": self.options, "epochs": EPOCHS}
        self.rows = collections.Counter()       # (epoch, id, hash)
        code = ("import sys, json, one_rank; sys.modules['torch'] = None\n"
                "plan = json.loads(sys.argv[1])\n"
                "loader = one_rank.open_loader(plan, batch_size=16, rank=0, world_size=1)\n"
                "for epoch in range(plan['epochs']):\n"
                "    for batch in loader:\n"
                "        sys.stdout.writelines(one_rank.lines_of(batch, epoch))\n")
        done = python("numpy", "stoker").run(["-c", code, json.dumps(self.plan)], env=environment(), cwd=Path(__file__).parent,
                                             timeout=TIMEOUT)
        assert done.returncode == 0, done.stderr
        self.rows.update(tuple(line.split()) for line in done.stdout.splitlines())
        self.seen = collections.Counter((epoch, number) for epoch, number, _ in self.rows.elements())

    def expected(self, epoch):
        """(once, twice, never) as the ledger should count them."""
        times = [self.seen[str(epoch), str(n)] for n in range(SAMPLES)]
        return times.count(1), sum(t > 1 for t in times), times.count(0)


def environment(**more):
    path = [str(BUILD / "python")] + [p for p in [os.environ.get("PYTHONPATH")] if p]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1", **more}


# ---- a run -----------------------------------------------------------------------------------------

def start(plan, path, world):
    script = [str(Path(__file__).parent / "one_rank.py"), str(path)]
    if plan["torchrun"]:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                   f"--nproc-per-node={world}", *script]
        return [subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)]
    return [python("numpy", "stoker").start(script, env=environment(
        RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))) for rank in range(world)]


def is_ours(pid, path):
    """Whether a rank that said its number still has it: torchrun's ranks are not our children."""
    try:
        return os.fsencode(path) in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def kill_all(plan, processes, counters, path, rng):
    if plan["torchrun"]:
        processes[0].send_signal(signal.SIGSTOP)        # it would end with an error of its own when a rank is gone
    ranks = {pid for pid, _ in counters.get() if pid} - {p.pid for p in processes}
    doomed = [p.kill for p in processes]        # does nothing to one that has ended
    doomed += [lambda pid=pid: is_ours(pid, path) and os.kill(pid, signal.SIGKILL) for pid in sorted(ranks)]
    for kill in rng.sample(doomed, len(doomed)):
        try:
            kill()
        except ProcessLookupError:
            pass


def live(plan, path, world, steps, rng):
    """One life; killed `steps` steps after its start, or at its end (None).  Whether it was killed."""
    processes, end = start(plan, path, world), time.monotonic() + TIMEOUT
    counters = one_rank.Counters(plan["counters"], world)
    delay = rng.uniform(0, 0.004)
    try:
        while any(p.poll() is None for p in processes):
            assert time.monotonic() < end, "a run hangs"
            if steps is not None and max(taken for _, taken in counters.get()) >= steps:
                time.sleep(delay)
                kill_all(plan, processes, counters, path, rng)
                break
            time.sleep(0.0005)
    finally:
        kill_all(plan, processes, counters, path, rng)
        codes = [p.wait() for p in processes]
    done = all(Path(f"{plan['counters']}-{rank}-done").exists() for rank in range(world))
    assert done or steps is not None, f"the last life failed: {codes}"
    assert all(code in (0, -signal.SIGKILL) for code in codes), f"a process failed: {codes}"
    return not done


def life_options(world, rng):
    out = {"num_workers": rng.choice([0, 1, 2]), "prefetch": rng.randint(1, 4)}
    if rng.random() < 0.5:
        return {**out, "batch_size": rng.randint(1, 4)}
    return {**out, "global_batch_size": world + rng.randint(0, 9)}


def run(setting, seed, scratch, torchrun=0):
    """A whole run, its first `torchrun` lives under torchrun; returns how many of its lives were killed.
    AssertionError: it is not exact."""
    rng, folder, kills = random.Random(seed), Path(scratch), 0
    folder.mkdir(parents=True)
    for life, world in enumerate(WORLDS):
        plan = {**setting.plan, "checkpoint": str(folder / "state.json"), "ledger": str(folder / "ledger"),
                "pixels": str(folder / f"pixels-{life}"), "counters": str(folder / f"counters-{life}"),
                "every": rng.randint(1, 4), "pause": rng.choice([0.001, 0.003]), "torchrun": life < torchrun,
                "life": life_options(world, rng)}
        steps = None if life == len(WORLDS) - 1 else rng.randint(1, 12)
        plan["waits_at"] = steps and steps + LATE
        path = folder / f"plan-{life}.json"
        path.write_text(json.dumps(plan))
        kills += live(plan, path, world, steps, rng)
    check_ledger(setting, folder)
    check_pixels(setting, folder)
    return kills


# ---- is it exact? ------------------------------------------------------------------------------------

def check_ledger(setting, folder):
    done = subprocess.run([CLI, "ledger", folder / "ledger", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [e["epoch"] for e in told["epochs"]] == list(range(EPOCHS))
    for e in told["epochs"]:
        assert (e["once"], e["twice"], e["never"]) == setting.expected(e["epoch"]), json.dumps(told)
        assert e["positions"] == told["epoch_samples"], json.dumps(told)


def check_pixels(setting, folder):
    lines = [tuple(line.split()) for path in folder.glob("pixels-*")
             for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
    strange = [line for line in lines if line not in setting.rows]
    assert not strange, f"rows with other pixels: {strange[:5]}"
    assert set(lines) == set(setting.rows), "rows are missing"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--torchrun", type=int, default=0, help="so many of them under torchrun")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stoker-killed-") as scratch:
        settings = {name: Setting(name, Path(scratch) / "data") for name in VARIANTS}
        kills = 0
        for i in range(args.runs):
            variant = sorted(VARIANTS)[(args.seed + i) % len(VARIANTS)]
            try:
                kills += run(settings[variant], args.seed + i, Path(scratch) / f"run-{i}",
                             len(WORLDS) if i >= args.runs - args.torchrun else 0)
            except AssertionError as e:
                sys.exit(f"seed {args.seed + i}, {variant}: {e}")
    print(f"{args.runs} runs, {kills} lives killed at work, seeds {args.seed}..{args.seed + args.runs - 1}: "
          f"every sample once an epoch, all pixels alike")


if __name__ == "__main__":
    main()
