# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader over Python data sets: the same samples for any workers, ranks, resume, ledger, structures."""

import collections
import dataclasses
import os
import random
import subprocess
import sys

import numpy as np
import pytest
from lean import lean_env

import stoker

torch = pytest.importorskip("torch")
from torch.utils.data import Dataset, IterableDataset  # noqa: E402

WORKERS = [(0, "fork"), (1, "fork"), (2, "fork"), (7, "fork"), (1, "thread"), (3, "thread")]


class Numbers(Dataset):
    """Numbers and what is drawn for them."""

    def __init__(self, n=50, draws=True):
        self.n, self.draws = n, draws

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        sample = {"i": i, "x": torch.full((3,), float(i)), "big": np.full((64, 64), i, "f4"), "name": f"n{i}"}
        if self.draws:
            sample |= {"a": random.random(), "b": np.random.rand(2), "c": torch.rand(2)}
        return sample


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


def batches(data, **options):
    with stoker.Loader(data, **{"batch_size": 8, "shuffle": True, "seed": 3, **options}) as loader:
        return [plain(batch) for batch in loader]


@pytest.mark.parametrize("workers,kind", WORKERS)
@pytest.mark.asan
def test_same_batches_for_any_workers(workers, kind):
    draws = kind != "thread"
    expected = batches(Numbers(draws=draws), num_workers=0)
    assert batches(Numbers(draws=draws), num_workers=workers, worker_type=kind) == expected
    assert sorted(i for b in expected for i in b["i"]) == list(range(50))
    assert all(b["big"][0][0][0] == b["i"][0] for b in expected)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_same_batches_in_other_interpreters(method, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import random, stoker, numpy as np\n"
        "class D:\n"
        "    def __init__(self): self.x = np.arange(100000)\n"
        "    def __len__(self): return 20\n"
        "    def __getitem__(self, i): return {'i': i, 'r': random.random(), 'x': self.x[i * 7]}\n"
        "if __name__ == '__main__':\n"
        "    said = []\n"
        f"    for kind, n in (('fork', 0), ({method!r}, 2)):\n"
        "        with stoker.Loader(D(), batch_size=4, shuffle=True, num_workers=n, worker_type=kind) as loader:\n"
        "            said.append([{k: v.tolist() for k, v in b.items()} for b in loader])\n"
        "    print('same' if said[0] == said[1] else said)\n")
    # Those of a fork server have torch: one process imports it for all.  Spawned ones would each, and have NumPy's arrays.
    env = lean_env() if method == "spawn" else {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(stoker.__file__))}
    out = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=180)
    assert out.stdout == "same\n", out.stderr


class Rarely(Dataset):
    """Draws in one sample alone, not the first of its batch."""

    def __len__(self):
        return 32

    def __getitem__(self, i):
        return {"i": i, "r": random.random() if i == 11 else 0.0}


def test_a_rare_draw_is_the_same_everywhere():
    expected = batches(Rarely(), num_workers=0, shuffle=False)
    drawn = [r for b in expected for r in b["r"] if r]
    assert len(drawn) == 1
    assert batches(Rarely(), num_workers=2, worker_type="fork", shuffle=False) == expected
    later = batches(Rarely(), num_workers=0, shuffle=False, batch_size=16)
    assert [r for b in later for r in b["r"] if r] == drawn


def test_the_callers_generators_stay():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    expected = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    batches(Numbers(), num_workers=0)
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == expected


@pytest.mark.parametrize("workers", [0, 2])
def test_resume_on_other_ranks_in_the_middle(workers):
    def open_(**o):
        return stoker.Loader(Numbers(60), shuffle=True, seed=5, num_workers=workers, worker_type="fork", **o)

    whole = open_(batch_size=6)
    everything = {i: r for b in whole for i, r in zip(b["i"].tolist(), b["a"].tolist())}
    whole.close()
    seen = {}
    first = open_(batch_size=6)
    for step, batch in enumerate(first):
        seen |= dict(zip(batch["i"].tolist(), batch["a"].tolist()))
        if step == 3:
            break
    state = first.state_dict()
    first.close()
    assert state["position"] == 24
    for rank in range(3):
        loader = open_(batch_size=2, rank=rank, world_size=3)
        loader.load_state_dict(state)
        for batch in loader:
            for i, r, ok in zip(batch["i"].tolist(), batch["a"].tolist(), batch.valid.tolist()):
                assert not ok or i not in seen
                seen[i] = r
        loader.close()
    assert seen == everything


def test_select_weights_skip_and_repeat():
    assert [i for b in batches(Numbers(), shuffle=False, select=[3, 1, 2], num_workers=0) for i in b["i"]] == [3, 1, 2]
    assert [i for b in batches(Numbers(5), shuffle=False, skip=1, limit=2, repeat=2, num_workers=0) for i in b["i"]] \
        == [1, 2, 1, 2]
    drawn = [i for b in batches(Numbers(3), weights=[0, 1, 0], epoch_size=20, num_workers=0) for i in b["i"]]
    assert drawn == [1] * 20
    with pytest.raises(ValueError, match="columns"):
        batches(Numbers(), weights="w")
    with pytest.raises(ValueError, match="numbers and no keys"):
        batches(Numbers(), select=["a"])


def test_mixture():
    mixed = stoker.mix({"a": (Numbers(10, False), 0.5), "b": (Numbers(30, False), 0.5)}, epoch_size=40)
    loader = stoker.Loader(mixed, batch_size=4, shuffle=True, num_workers=2, worker_type="fork")
    which = [d for b in loader for d in mixed.which(b.sample_ids).tolist()]
    assert which.count(0) == which.count(1) == 20
    loader.set_weights({"a": 0.0, "b": 1.0})
    assert {d for b in loader for d in mixed.which(b.sample_ids).tolist()} == {1}
    state = loader.state_dict()
    loader.close()
    again = stoker.Loader(mixed, batch_size=4, shuffle=True, num_workers=0)
    again.load_state_dict(state)
    assert {d for b in again for d in mixed.which(b.sample_ids).tolist()} == {1}


def test_ledger_of_a_run_that_was_killed(tmp_path):
    """kill -9 in the middle, resume from the last state: every sample once."""
    script = tmp_path / "train.py"
    script.write_text(
        "import json, os, signal, sys, stoker\n"
        "class D:\n"
        "    def __len__(self): return 64\n"
        "    def __getitem__(self, i): return {'i': i}\n"
        "loader = stoker.Loader(D(), batch_size=4, shuffle=True, seed=9, num_workers=2, worker_type='fork')\n"
        "if os.path.exists('state'): loader.load_state_dict(json.load(open('state')))\n"
        "loader.ledger('ledger')\n"
        "for step, batch in enumerate(loader):\n"
        "    json.dump(loader.state_dict(), open('state.new', 'w')); os.rename('state.new', 'state')\n"
        "    if step == 6 and len(sys.argv) > 1: os.kill(os.getpid(), signal.SIGKILL)\n")
    for kill in (["kill"], []):
        subprocess.run([sys.executable, str(script), *kill], env=lean_env(), cwd=tmp_path, timeout=180, check=not kill)
    program = stoker.__file__.replace("__init__.py", "stoker-cli")
    out = subprocess.run([program, "ledger", str(tmp_path / "ledger")], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stderr
    assert "64" in out.stdout


Pair = collections.namedtuple("Pair", "x y")


@dataclasses.dataclass
class Record:
    x: torch.Tensor
    label: int


class Made(Dataset):
    def __init__(self, function, n=6):
        self.function, self.n = function, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.function(i)


@pytest.mark.parametrize("workers", [0, 2])
def test_structures(workers):
    def first(function, **o):
        with stoker.Loader(Made(function), batch_size=3, num_workers=workers, worker_type="fork", **o) as loader:
            return next(iter(loader))

    batch = first(lambda i: (torch.tensor([i]), i, 0.5, "s", b"b", None))
    x, y, *rest = batch
    assert x.tolist() == [[0], [1], [2]] and y.tolist() == [0, 1, 2]
    assert plain(rest) == [[0.5] * 3, ["s"] * 3, [b"b"] * 3, [None] * 3]
    assert batch.sample_ids.tolist() == [0, 1, 2] and batch.valid.all()
    pair = first(lambda i: Pair(np.arange(2) + i, [i, [True]]))
    assert type(pair) is Pair and pair.x.tolist() == [[0, 1], [1, 2], [2, 3]] and pair.y[1][0].tolist() == [True] * 3
    record = first(lambda i: Record(torch.ones(2) * i, i))
    assert type(record) is Record and record.x.shape == (3, 2) and record.label.tolist() == [0, 1, 2]
    assert first(lambda i: torch.ones(3000, dtype=torch.bfloat16) * i).dtype == torch.bfloat16
    assert first(lambda i: {"deep": {"er": [(i, {"x": i})]}})["deep"]["er"][0][1]["x"].tolist() == [0, 1, 2]
    from PIL import Image
    pictures = first(lambda i: {"p": Image.new("RGB", (4, 4), (i, 0, 0))})["p"]
    assert [p.getpixel((0, 0))[0] for p in pictures] == [0, 1, 2]
    assert first(lambda i: {"x": torch.ones(0)})["x"].shape == (3, 0)


@pytest.mark.parametrize("size", [2, 5000])
@pytest.mark.parametrize("workers", [0, 2])
def test_rows_of_different_shapes(workers, size):
    data = Made(lambda i: {"x": torch.ones(size + i), "y": i})
    options = {"batch_size": 3, "num_workers": workers, "worker_type": "fork"}
    with stoker.Loader(data, **options) as loader, pytest.raises(ValueError, match=r"rows differ in shape at \['x'\]"):
        next(iter(loader))
    with stoker.Loader(data, collate="list", **options) as loader:
        assert [len(x) for x in next(iter(loader))["x"]] == [size, size + 1, size + 2]
    with stoker.Loader(data, collate=("pad", -1, 4), **options) as loader:
        batch = next(iter(loader))
    assert batch["x"].shape == (3, -(-(size + 2) // 4) * 4) and batch.lengths["x"].tolist() == [size, size + 1, size + 2]
    assert batch["x"][0, size:].eq(-1).all() and batch.mask("x").sum() == 3 * size + 3
    with stoker.Loader(data, collate=len, **options) as loader:
        assert list(loader) == [3, 3]


@pytest.mark.parametrize("function,message", [
    (lambda i: {"a": 1} if i else {"a": 1, "b": 2}, "row 0 of the batch has a, b, row 1 has a"),
    (lambda i: (1,) * (i + 1), "tuples of 1 and of 3"),
    (lambda i: {"a": i if i else "x"}, None),
    (lambda i: {"a": torch.ones(2) if i else 5}, r"at \['a'\]: int and Tensor"),
])
def test_samples_whose_structure_differs(function, message):
    with stoker.Loader(Made(function), batch_size=3, num_workers=0) as loader:
        if message is None:
            assert next(iter(loader))["a"] == ["x", 1, 2]
            return
        with pytest.raises(ValueError, match=message):
            next(iter(loader))


class Streamed(IterableDataset):
    def __init__(self, n=30):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


class Shared(Streamed):
    def __iter__(self):
        info = stoker.get_worker_info()
        return iter(range(info.id, self.n, info.num_workers) if info else range(self.n))


class Kept:
    """An iterable with a state."""

    def __init__(self):
        self.at, self.begun = 0, 0

    def __iter__(self):
        self.begun = self.at
        while self.at < 30:
            self.at += 1
            yield self.at - 1, self.begun
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


@pytest.mark.parametrize("workers,kind", [(0, "fork"), (1, "fork"), (2, "fork"), (2, "thread")])
def test_iterables(workers, kind):
    def rows(data, **o):
        with stoker.Loader(data, batch_size=4, num_workers=workers, worker_type=kind, **o) as loader:
            return [[plain(b) for b in loader] for _ in range(2)]

    whole = [list(range(k, min(k + 4, 30))) for k in range(0, 30, 4)]
    assert rows(Streamed()) == [whole, whole]
    shared = rows(Shared())[0]
    assert sorted(i for b in shared for i in b) == list(range(30))
    parts = [rows(Streamed(), rank=r, world_size=2, drop_last=True)[0] for r in range(2)]
    assert parts[0] == whole[0:6:2] and parts[1] == whole[1:6:2]


@pytest.mark.parametrize("workers", [0, 2])
def test_iterables_resume(workers):
    def loader(data):
        return stoker.Loader(data, batch_size=4, num_workers=workers, worker_type="fork")

    with loader(Kept()) as first:
        for step, _ in enumerate(first):
            if step == 2:
                break
        state = first.state_dict()
    with loader(Kept()) as again:
        again.load_state_dict(state)
        x, begun = next(iter(again))
    assert x.tolist() == [12, 13, 14, 15] and begun.tolist() == [12] * 4
    with loader(Streamed()) as first:
        it = iter(first)
        next(it), next(it)
        state = first.state_dict()
    with loader(Streamed()) as again:
        again.load_state_dict(state)
        assert plain(list(again)) == [list(range(k, min(k + 4, 30))) for k in range(8, 30, 4)]


def test_lists_generators_and_what_is_refused(tmp_path):
    assert batches([(i, float(i)) for i in range(5)], shuffle=False, num_workers=0) == [[[0, 1, 2, 3, 4], [0., 1., 2., 3., 4.]]]
    assert batches((i for i in range(5)), shuffle=False, num_workers=0) == [[0, 1, 2, 3, 4]]
    for options, message in (({"fields": {"x": "int"}}, "takes no fields="),
                             ({"device": "tpu"}, "device must be"), ({"shuffle": "block"}, "order of shards"),
                             ({"worker_type": "x"}, "worker_type must be"), ({"sampler": 1}, "no argument `sampler`"),
                             ({"io_threads": 2}, "io_threads=")):
        with pytest.raises(ValueError, match=message):
            stoker.Loader(Numbers(), **options)
    with pytest.raises(ValueError, match="only iterable"):
        stoker.Loader(Streamed(), shuffle=True)
    for nothing in (Numbers(0), []):
        with pytest.raises(ValueError, match="no samples"):
            stoker.Loader(nothing)
    for name, hint in (("collate_fn", "it is called collate="), ("multiprocessing_context", 'worker_type="fork"'),
                       ("transform", "__getitem__"), ("persistent_workers", "leave it out"), ("generator", "seed=")):
        with pytest.raises(ValueError, match=f"no argument `{name}`: .*{hint}") as e:
            stoker.Loader(Numbers(), **{name: None})
        assert "threads" not in str(e.value)    # as for files
    with pytest.raises(ValueError, match="worker_type= is for Python data sets"):
        stoker.Loader("x.tar", {}, worker_type="thread")
    growing = [1, 2.0, 3]
    with stoker.Loader(growing, num_workers=0) as loader:
        growing.append(4)
        with pytest.raises(ValueError, match="had 3 samples when the loader was made and has 4"):
            iter(loader)


@pytest.mark.parametrize("workers,kind", [(0, None), (1, "fork"), (1, "thread")])
def test_stop_iteration_does_not_end_the_epoch(workers, kind):
    """A sample, or a collate function, that raises it: the rest of the epoch was lost without a word."""
    class Stops(Numbers):
        def __getitem__(self, i):
            return next(iter([])) if i == 13 else {"i": i}

    def stops(samples):
        return next(iter([])) if samples[0]["i"] == 8 else len(samples)

    options = {"batch_size": 4, "num_workers": workers, "worker_type": kind}
    for data, more in ((Stops(), {}), (Numbers(), {"collate": stops})):
        with stoker.Loader(data, **options, **more) as loader, pytest.raises(RuntimeError, match="StopIteration was raised"):
            list(loader)
    with stoker.Loader(Stops(), on_error="skip", **options) as loader:
        assert sum(len(batch["i"]) for batch in loader) == 50 and loader.stats()["skipped"] == 1


def test_a_generator_says_that_it_is_over(monkeypatch):
    monkeypatch.setattr(stoker._iterable, "_warned", set())
    with stoker.Loader((i for i in range(5)), batch_size=2, num_workers=0) as loader:
        assert len(list(loader)) == 3
        with pytest.warns(UserWarning, match="a generator gives its samples once"):
            assert list(loader) == []


def test_valid_rows_of_tuples():
    found = []
    for rank in range(3):
        with stoker.Loader([(i, f"n{i}") for i in range(10)], global_batch_size=6, rank=rank, world_size=3, num_workers=0) as loader:
            for batch in loader:
                number, name = batch.only_valid()
                assert [f"n{i}" for i in number.tolist()] == name and batch.only_valid().sample_ids.tolist() == number.tolist()
                found += number.tolist()
    assert sorted(found) == list(range(10))


class Epochs(Numbers):
    epoch = -1

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __getitem__(self, i):
        return {"epoch": self.epoch, "i": i}


def test_epochs_len_repr_and_leaving_a_loop():
    with stoker.Loader(Epochs(20), batch_size=8, shuffle=True, num_workers=2, worker_type="fork") as loader:
        assert len(loader) == 3 and loader.batch_size == 8 and isinstance(loader, stoker.Loader)
        orders = []
        for epoch in range(3):
            rows = list(loader)
            assert {e for b in rows for e in b["epoch"].tolist()} == {epoch}
            orders.append([i for b in rows for i in b["i"].tolist()])
        assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])
        for _ in loader:
            break
        assert loader.epoch == 3 and next(iter(loader))["epoch"][0] == 4
        loader.set_epoch(0)
        assert [i for b in loader for i in b["i"].tolist()] == orders[0]
        assert repr(loader) == "Loader(Epochs, 20 samples, batch 8, epoch 1, step 0 of 3)"
        assert loader.stats()["batches"] == 3 * 4 + 2
        pairs = loader.as_tuples("i", "epoch")
        assert len(pairs) == 3 and [tuple(e.tolist())[0] for _, e in pairs] == [1, 1, 1]
        with pytest.raises(ValueError, match="the outputs are epoch, i"):
            next(iter(loader.as_tuples("x")))
    assert repr(loader) == "Loader(Epochs, 20 samples, batch 8, closed)"


def test_batches_that_are_held_stay_and_memory_comes_back():
    data = Made(lambda i: torch.full((4096,), float(i)), 200)
    with stoker.Loader(data, batch_size=4, num_workers=2, worker_type="fork") as loader:
        held = list(loader)                     # more than the ring had slots for
        assert [b[:, 0].tolist() for b in held] == [[float(4 * k + r) for r in range(4)] for k in range(50)]
        del held
        for _ in range(3):
            for batch in loader:
                pass
        most = loader.stats()["ring"]["slots"]
        assert most <= 10, most
    assert batch[0, 0] == 196.0                 # also after close


def test_a_state_of_other_data_is_refused():
    with stoker.Loader(Numbers(50), num_workers=0) as loader:
        state = loader.state_dict()
    with stoker.Loader(Numbers(51), num_workers=0) as loader, pytest.raises(ValueError, match="had 50 samples and has 51"):
        loader.load_state_dict(state)


class Nested:
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return {"x": torch.full((2,), float(i)), "deep": {"pair": (i, torch.tensor([i, -i])), "names": [str(i)]}}


def test_to_reaches_what_is_nested():
    """What Batch.to() and pin_memory() do is done to tensors in dicts and tuples too."""
    batch = next(iter(stoker.Loader(Nested(), batch_size=4)))
    half = batch.to(torch.float16)
    assert half["x"].dtype == half["deep"]["pair"][1].dtype == torch.float16
    assert half["deep"]["pair"][1].tolist() == [[i, -i] for i in range(4)]
    assert half["deep"]["names"] == batch["deep"]["names"] and type(half["deep"]["pair"]) is type(batch["deep"]["pair"])
    assert half.sample_ids.tolist() == [0, 1, 2, 3] and half.sample_ids.dtype == torch.int64
