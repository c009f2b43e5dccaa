# SPDX-License-Identifier: Apache-2.0
"""A generator of causes and severities for stoker.watch(), on real PyTorch DataLoaders.

    python tests/soak/watch_cases.py 1000 1100      seeds 1000 .. 1099; exit status 1 when under 95 % are right

A seed draws what is wrong with a loop and how badly.  Slow disks are reads of a pipe that is filled slowly, slow
networks a server on this machine that answers late, the rest sleeps; cores are taken by processes that burn them.
"""

import os
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, os.path.join(os.environ.get("STOKER_BUILD", str(Path(__file__).resolve().parents[2] / "build")), "python"))

import stoker  # noqa: E402
import torch  # noqa: E402
from stoker import _diagnosis, _stoker, _watch  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

CAUSES = ("storage", "network", "augmentation", "python", "collate", "consumer", "workers", "ring", "start", "neighbour",
          "rank", "model")
BATCH, WORKERS = 4, 4


def spin(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


class Pipe:
    """A file that gives one byte per `seconds`, to any reader."""

    def __init__(self, seconds, folder):
        self.path = os.path.join(folder, f"pipe-{os.getpid()}-{threading.get_native_id()}")
        os.mkfifo(self.path)
        self.read = os.open(self.path, os.O_RDWR)
        self.on, self.seconds = True, seconds
        threading.Thread(target=self._fill, daemon=True).start()

    def _fill(self):
        while self.on:
            time.sleep(self.seconds)
            os.write(self.read, b"x")

    def close(self):
        self.on = False
        time.sleep(2 * self.seconds)
        os.close(self.read)
        os.unlink(self.path)


class Server:
    """Answers one byte for each, after `seconds`."""

    def __init__(self, seconds):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.seconds = self.listener.getsockname()[1], seconds
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(one,), daemon=True).start()

    def _answer(self, one):
        with one:
            while one.recv(1):
                time.sleep(self.seconds)
                one.sendall(b"x")

    def close(self):
        self.listener.close()


class Data(Dataset):
    def __init__(self, case):
        self.case, self.pipe, self.port, self.connection = case, None, None, None
        self.transform = self.slow if case["cause"] == "augmentation" else None
        self.begun = False

    def slow(self, x):
        time.sleep(self.case["item"])
        return x

    def __len__(self):
        return self.case["steps"] * BATCH

    def __getitem__(self, i):
        c = self.case
        if not self.begun:
            self.begun = True
            time.sleep(c.get("open", 0))
        if self.pipe is not None:
            os.read(self.pipe, 1)
        if self.port is not None:
            if self.connection is None:
                self.connection = socket.create_connection(("127.0.0.1", self.port))
            self.connection.sendall(b"?")
            self.connection.recv(1)
        if self.transform is not None:
            return self.transform(torch.zeros(4))
        time.sleep(c.get("item", 0) + (c.get("spike", 0) if i % (8 * BATCH) == 0 else 0))
        spin(c.get("spin", 0))
        return torch.zeros(4)


class Collate:
    def __init__(self, seconds):
        self.seconds = seconds

    def __call__(self, samples):
        time.sleep(self.seconds)
        return torch.stack(samples)


def draw(seed):
    rng = random.Random(seed)
    step, bad = rng.uniform(0.008, 0.014), rng.uniform(1.6, 4)
    c = {"cause": CAUSES[seed % len(CAUSES)], "step": step, "steps": 60, "workers": WORKERS, "prefetch": 3, "cores": WORKERS}
    cause = c["cause"]
    per_item = bad * step * WORKERS / BATCH             # of each worker, so that loading takes `bad` steps
    if cause == "storage":
        c["pipe"] = bad * step / BATCH
    elif cause == "network":
        c["server"] = per_item
    elif cause in ("augmentation", "python"):
        c["item"] = per_item
    elif cause == "collate":
        c["collate"] = bad * step * WORKERS
    elif cause == "consumer":
        c.update(spin_step=step * rng.uniform(2, 3), step=step / 4)
    elif cause == "workers":
        c.update(workers=1, cores=8, item=bad * step / BATCH)
    elif cause == "ring":
        c.update(prefetch=1, workers=2, cores=2, spike=step * rng.uniform(7, 9), item=step / 16)
    elif cause == "start":
        c.update(open=step * c["steps"] * rng.uniform(0.8, 2))
    elif cause == "neighbour":
        c.update(workers=1, cores=1, spin=step * rng.uniform(0.75, 0.95) / BATCH, burners=1 + rng.randrange(3), steps=40)
    elif cause == "rank":
        c.update(rank=rng.randrange(4), item=bad * step / BATCH, workers=0, cores=1)
    else:
        c.update(item=rng.uniform(0.1, 0.6) * step * WORKERS / BATCH, steps=200)
    return c


def loop(watched, case, barrier=None):
    for _ in watched:
        time.sleep(case["step"])
        spin(case.get("spin_step", 0))
        if barrier is not None:
            barrier.wait()


def loader_of(case, folder, closers):
    data = Data(case)
    if "pipe" in case:
        pipe = Pipe(case["pipe"], folder)
        data.pipe = pipe.read
        closers.append(pipe.close)
    if "server" in case:
        server = Server(case["server"])
        data.port = server.port
        closers.append(server.close)
    return stoker.watch(DataLoader(data, batch_size=BATCH, num_workers=case["workers"],
                                   prefetch_factor=case["prefetch"] if case["workers"] else None,
                                   collate_fn=Collate(case.get("collate", 0)), multiprocessing_context="fork" if case["workers"] else None))


def run_ranks(case):
    """Four loops that wait for each other in every step; one of them loads slowly."""
    barrier = threading.Barrier(4)
    watched = [stoker.watch(DataLoader(Data({**case, "item": case["item"] if r == case["rank"] else 0}), batch_size=BATCH))
               for r in range(4)]
    threads = [threading.Thread(target=loop, args=(w, case, barrier)) for w in watched]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return _diagnosis.Diagnosis(_stoker.diagnose([], [w._figures.sight() for w in watched], None, True))


def run(case, folder):
    """The diagnosis of a case, and the share of the cores that other processes took."""
    if case["cause"] == "rank":
        return run_ranks(case), 0.0
    closers, burners, ours = [], [], os.sched_getaffinity(0)
    try:
        if case.get("burners"):
            os.sched_setaffinity(0, {min(ours)})
            burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(case["burners"])]
        watched = loader_of(case, folder, closers)
        loop(watched, case)
        sight = watched._figures.sight()
        real = len(os.sched_getaffinity(0))
        others = 0.0 if burners else sight["others_s"] / (sight["at_s"] * real)
        return _diagnosis.diagnose([{"others_s": 0.0}], [{**sight, "cores": float(case["cores"])}], foreign=True), others
    finally:
        for process in burners:
            process.kill()
            process.wait()
        os.sched_setaffinity(0, ours)
        for close in closers:
            close()


def judge(seed, folder):
    case = draw(seed)
    found, others = run(case, folder)
    right = found.cause == case["cause"] and (found.cause != "rank" or found.rank == case["rank"])
    blamed = case["cause"] == "model" and found.cause not in ("model", "consumer")
    print(f"seed {seed}: {case['cause']}, said {found.cause}{'' if right else '  WRONG'}\n    {found.sentence}", flush=True)
    return right, blamed, others


def main(first, last):
    import tempfile
    right = blamed = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, last):
            good, bad, _ = judge(seed, folder)
            right, blamed = right + good, blamed + bad
    print(f"{right} of {last - first} right; the model was blamed on the loader {blamed} times")
    return 0 if right >= 0.95 * (last - first) and not blamed else 1


if __name__ == "__main__":
    _watch.LOOK_S = 0.004
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
