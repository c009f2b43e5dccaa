# SPDX-License-Identifier: Apache-2.0
"""stoker.watch(), stoker.sweep() and stoker doctor -- on PyTorch's DataLoader and on plain iterables."""

import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
import stoker
from stoker import _watch

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, Dataset, IterableDataset  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CLI = Path(os.environ.get("STOKER_CLI", ROOT / "build/cli/stoker")).resolve()
sys.path.insert(0, str(ROOT / "tests/soak"))


class Numbers(Dataset):
    def __init__(self, n=40):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.tensor(i)


class Batched(Numbers):
    def __getitems__(self, indices):
        return [torch.tensor(i) for i in indices]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(12))


def flat(loader):
    return [x for batch in loader for x in batch.tolist()]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("data", [Numbers(), Batched(), Stream()], ids=["map", "batched", "stream"])
def test_batches_are_the_same(data, workers):
    options = {"batch_size": 4, "num_workers": workers}
    expected = flat(DataLoader(data, **options))
    watched = stoker.watch(DataLoader(data, **options))
    assert flat(watched) == expected == flat(watched)
    assert isinstance(watched.dataset, type(data)) and watched.batch_size == 4
    if not isinstance(data, Stream):
        assert len(watched) == 10 and len(watched.dataset) == 40
        watched.dataset.n = 8                   # reaches the real one
        assert data.n == 8 and len(flat(watched)) == 8
        data.n = 40
    f = watched._figures
    assert f.steps >= 2 * len(expected) // 4 and f.deaths == 0
    assert sum(row[0] for row in f.rows()) > 0
    assert stoker.watch(watched) is watched


class Sleepy(Numbers):
    def __getitem__(self, i):
        time.sleep(0.01)
        return super().__getitem__(i)


@pytest.mark.parametrize("make", [
    lambda: stoker.DataLoader(Sleepy(), batch_size=4, num_workers=2),
    lambda: stoker.Loader(Sleepy(), batch_size=4, num_workers=2),
], ids=["DataLoader", "Loader"])
def test_our_loaders_of_python_data_sets(make):
    """40 samples of 10 ms on two workers: most of 0.2 s is waiting, and it is the data set's Python."""
    expected = [batch.tolist() if torch.is_tensor(batch) else batch for batch in make()]
    loader = make()
    watched = stoker.watch(loader)
    assert watched is not loader
    assert [batch.tolist() if torch.is_tensor(batch) else batch for batch in watched] == expected
    f = watched._figures
    assert f.workers == 2 and f.steps == 10
    assert sum(row[0] for row in f.rows()) >= 0.4, f.rows()
    assert watched.diagnose().cause != "network"
    loader.close() if hasattr(loader, "close") else None


def slow_collate(samples):
    time.sleep(0.04)
    return torch.stack(samples)


class Locked(Numbers):
    """Workers take turns: what one reads, no other can."""

    def __init__(self):
        super().__init__(24)
        self.lock = multiprocessing.get_context("fork").Lock()

    def __getitem__(self, i):
        with self.lock:
            time.sleep(0.02)
        return torch.tensor(i)


OURS = {"torch": DataLoader, "DataLoader": stoker.DataLoader,
        "Loader": lambda data, collate_fn=None, **o: stoker.Loader(data, worker_type="fork", **o, **({"collate": collate_fn} if collate_fn else {}))}


def blamed(watched):
    """The cause; on a busy machine workers wait for cores as well, which is not what is asked here."""
    for _ in watched:
        time.sleep(0.002)
    return stoker._diagnosis.diagnose([{"others_s": 0.0}], [{**watched._figures.sight(), "delay_s": 0.0, "start_s": 0.0, "cores": 2.0}],
                                  foreign=True)


@pytest.mark.parametrize("kind", OURS)
def test_a_slow_collate_function_is_named(kind):
    """Time of a worker that was not counted looked as if it rested: then too few batches are made ahead."""
    found = blamed(stoker.watch(OURS[kind](Numbers(), collate_fn=slow_collate, batch_size=4, num_workers=2)))
    assert found.cause == "collate", found.sentence
    assert 1 <= found.gain_low <= found.gain and f"{found.gain:.2f}x" in found.sentence


@pytest.mark.serial
@pytest.mark.parametrize("kind", OURS)
def test_a_lock_that_workers_share_is_named(kind):
    found = blamed(stoker.watch(OURS[kind](Locked(), batch_size=4, num_workers=4)))
    assert found.cause == "lock" and "waiting for a lock" in found.sentence, found.sentence


def test_errors_pass_through():
    class Bad(Numbers):
        def __getitem__(self, i):
            raise KeyError(f"sample {i}")

    with pytest.raises(KeyError, match="sample 0"):
        flat(stoker.watch(DataLoader(Bad())))
    with pytest.raises(stoker.StokerError, match=r"watch\(\) takes a loader"):
        stoker.watch(3)


def test_a_consumer_that_stops_in_the_middle():
    watched = stoker.watch(DataLoader(Numbers(), batch_size=4, num_workers=1))
    for _ in watched:
        break
    assert watched.diagnose().sentence
    assert "batches in 1 epoch" in watched.report()
    assert flat(watched) == list(range(40))


def test_plain_iterables():
    def slow():
        for i in range(20):
            time.sleep(0.02)
            yield i

    class Loop:
        def __iter__(self):
            return slow()

    watched = stoker.watch(Loop())
    assert list(watched) == list(range(20))
    d = watched.diagnose()
    assert d.cause in ("python", "workers", "start", "neighbour") and d.share > 0.5, d      # other tests run beside it
    with pytest.raises(TypeError):
        len(watched)


def test_spawned_workers_are_seen():
    """The counters and the wrapped data set go to a worker by pickle."""
    counters = _watch.Counters(2)
    again = pickle.loads(pickle.dumps(_watch.WatchedDataset(stoker._diagnosis.Diagnosis, counters)))
    again.__dict__["_counters"].values[3] = 7.0
    assert counters.row(0)[3] == 7.0
    path = counters.path
    assert not path.startswith("/dev/shm")      # a process that is killed removes nothing
    del counters, again
    assert not os.path.exists(path)


@pytest.mark.serial
@pytest.mark.parametrize("cause", ["storage", "network", "augmentation", "model"])
def test_one_seed_of(cause, tmp_path):
    """tests/soak/watch_cases.py has all causes and seeds."""
    import watch_cases
    seed = watch_cases.CAUSES.index(cause)
    print("seed", seed, random.Random(seed).random())
    for _ in range(3):
        right, blamed, others = watch_cases.judge(seed, tmp_path)
        if right and not blamed:
            return
    assert others > 0.4, "other processes did not have the cores, and it was wrong three times"


# ---- sweep --------------------------------------------------------------------------------------

def test_sweep_finds_the_fastest(monkeypatch):
    """By a clock of its own, which other work of the machine does not move."""
    now = [0.0]
    monkeypatch.setattr("stoker._sweep.time", types.SimpleNamespace(perf_counter=lambda: now[0]))

    def make(sleep, size):
        def batches():
            for _ in range(40 + size):
                now[0] += 0.001 + sleep
                yield 0
        return batches()

    found = stoker.sweep(make, {"sleep": [0.02, 0.0, 0.01], "size": [0, 1]}, batches=10, warmup=1)
    assert len(found.rows) == 6 and found.best["sleep"] == 0.0
    assert found.line.startswith("make(sleep=0.0, size=")
    text = str(found)
    assert "sleep down, size across" in text and text.endswith("batches/s") and "@" in text
    one = str(stoker.sweep(make, {"sleep": [0.0], "size": [3], }, batches=5))
    assert "make(sleep=0.0, size=3)" in one
    for bad in (lambda: stoker.sweep(3, {"a": [1]}), lambda: stoker.sweep(make, {}), lambda: stoker.sweep(make, {"sleep": []}),
                lambda: stoker.sweep(lambda n: iter(()), {"n": [1]})):
        with pytest.raises(stoker.StokerError, match="sweep"):
            bad()


# ---- stoker doctor -- ---------------------------------------------------------------------------

SCRIPT = """
import sys, time, torch
from torch.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 200
    def __getitem__(self, i):
        time.sleep(0.004)
        return torch.zeros(3)
for batch in DataLoader(Slow(), batch_size=4, num_workers=2):
    time.sleep(0.001)
print("trained", batch.shape)
{end}
"""


@pytest.mark.parametrize("end, code", [("sys.exit(5)", 5), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_an_unedited_script(end, code, tmp_path):
    if not CLI.exists():
        pytest.skip(f"{CLI} is not built")
    (tmp_path / "train.py").write_text(SCRIPT.format(end="time.sleep(1)\n" + end if code == 137 else end))
    package = os.path.dirname(os.path.dirname(stoker.__file__))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([package, os.environ.get("PYTHONPATH", "")]), "TMPDIR": str(tmp_path)}
    done = subprocess.run([CLI, "doctor", "--", sys.executable, "train.py"], cwd=tmp_path, env=env, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == code, done.stderr
    assert "trained torch.Size([4, 3])" in done.stdout
    assert "50 batches in 1 epoch" in done.stdout and "2 workers" in done.stdout
    assert ". Try: " in done.stdout.splitlines()[-1]
    assert "sitecustomize" not in done.stderr
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith("stoker-doctor")] == []


def test_a_script_without_loaders(tmp_path):
    if not CLI.exists():
        pytest.skip(f"{CLI} is not built")
    done = subprocess.run([CLI, "doctor", "--json", "--", sys.executable, "-c", "print(1)"], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(stoker.__file__))})
    assert done.returncode == 0 and "nothing was seen" in done.stderr
