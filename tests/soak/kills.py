# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random times, then reopen: nothing that was cut off may spoil what comes after.

Each round starts a process that builds an index (`--what index`, on shards that have none) or that
loads without end (`--what load`), kills it at a seeded random time, and then checks in a fresh process
that the data set opens and that one shuffled epoch is a permutation of its samples, with the right
bytes in each.  Prints the seed of the round that failed, to run again with `--seed S --kills 1`.
"""

import argparse
import io
import os
import random
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

SHARDS, PER_SHARD = 16, 1500
SAMPLES = SHARDS * PER_SHARD
CHECK_TIMEOUT = 120
LABEL = "from(cls) | int"


# ---- what the child processes do -----------------------------------------------------------------

def pattern(folder):
    return f"{folder}/s-{{{0:06d}..{SHARDS - 1:06d}}}.tar"


def child_index(folder, seed):
    import stoker
    ready()
    stoker.open(pattern(folder))


def child_load(folder, seed):
    loader = open_loader(folder, seed)
    ready()
    while True:
        for _ in loader:
            pass


def child_check(folder, seed):
    import stoker
    dataset = stoker.open(pattern(folder))
    assert len(dataset) == SAMPLES, f"{len(dataset)} samples, not {SAMPLES}"
    seen = []
    for batch in open_loader(folder, seed):
        for key, label in zip(batch.sample_keys, batch["label"]):
            assert int(key.rsplit("/", 1)[-1]) == int(label), f"{key} came with label {int(label)}"
        seen.extend(int(i) for i in batch.sample_ids)
    assert sorted(seen) == list(range(SAMPLES)), "the epoch is not a permutation of the samples"
    for i in random.Random(seed).sample(range(SAMPLES), 16):
        sample = dataset[i]
        assert sample["bin"] == payload(int(sample["cls"])), f"sample {i} has wrong bytes"


def open_loader(folder, seed):
    import stoker
    return stoker.Loader(pattern(folder), fields={"label": LABEL}, batch_size=256,
                         shuffle=True, seed=seed)


def ready():
    print("ready", flush=True)


CHILDREN = {"index": child_index, "load": child_load, "check": child_check}


# ---- data ------------------------------------------------------------------------------------------

def payload(n):
    return f"sample {n} ".encode() * (1 + n % 7)


def write_shards(folder):
    folder.mkdir()
    for shard in range(SHARDS):
        with tarfile.open(folder / f"s-{shard:06d}.tar", "w") as tar:
            for n in range(shard * PER_SHARD, (shard + 1) * PER_SHARD):
                for field, data in (("bin", payload(n)), ("cls", str(n).encode())):
                    info = tarfile.TarInfo(f"{n:08d}.{field}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))


def link_shards(source, folder):
    """The same shards under a folder of their own, where there is no index yet."""
    folder.mkdir()
    for path in source.glob("*.tar"):
        os.link(path, folder / path.name)


# ---- rounds ----------------------------------------------------------------------------------------

def start(what, folder, seed):
    return subprocess.Popen([sys.executable, __file__, "--child", what, "--folder", str(folder),
                             "--seed", str(seed)], stdout=subprocess.PIPE, text=True)


def run_and_kill(what, folder, seed, longest):
    """Returns whether the child was still at work when the signal came."""
    child = start(what, folder, seed)
    assert child.stdout.readline() == "ready\n", f"{what} failed before it began"
    time.sleep(random.Random(seed).uniform(0, longest))
    alive = child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    return alive


def check(folder, seed):
    child = start("check", folder, seed)
    try:
        child.communicate(timeout=CHECK_TIMEOUT)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        sys.exit(f"seed {seed}: the data set did not open within {CHECK_TIMEOUT} s")
    if child.returncode:
        sys.exit(f"seed {seed}: check failed with status {child.returncode}")


def time_of(what, folder, seed):
    """How long an undisturbed child works after it is ready."""
    child = start(what, folder, seed)
    child.stdout.readline()
    begin = time.monotonic()
    if child.wait():
        sys.exit(f"{what} failed undisturbed")
    child.stdout.close()
    return time.monotonic() - begin


def rounds(what, kills, seed, scratch):
    source = scratch / "shards"
    write_shards(source)
    if what == "index":
        link_shards(source, scratch / "timing")
        longest = 1.2 * time_of("index", scratch / "timing", seed)
    else:
        check(source, seed)  # builds the index
        longest = 0.5
    hit = 0
    for i in range(kills):
        folder = source
        if what == "index":
            folder = scratch / f"round-{i}"
            link_shards(source, folder)
        hit += run_and_kill(what, folder, seed + i, longest)
        check(folder, seed + i)
        if what == "index":
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            folder.rmdir()
    print(f"{kills} kills of {what}, {hit} while at work, seeds {seed}..{seed + kills - 1}: all sound")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--what", choices=("index", "load"))
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        CHILDREN[args.child](args.folder, args.seed)
        return
    if not args.what:
        parser.error("--what index or --what load")
    with tempfile.TemporaryDirectory(prefix="stoker-kills-") as scratch:
        rounds(args.what, args.kills, args.seed, Path(scratch))


if __name__ == "__main__":
    main()
