# SPDX-License-Identifier: Apache-2.0
"""device="cuda" of Python data sets.  Where there is no GPU, one that copies to other memory stands in for it."""

import json
import time

import pytest

import stoker
from stoker import _staging

torch = pytest.importorskip("torch")


class Squares:
    def __len__(self):
        return 50

    def __getitem__(self, i):
        if i == 31:
            raise ValueError("thirty-one")
        return {"x": torch.full((4,), float(i)), "y": i * i, "name": f"s{i}"}


class Stream:
    def __iter__(self):
        return iter(torch.arange(20))


class Memory:
    """A GPU's part: what is sent is copied at once, and given when it is asked for."""

    def __init__(self):
        self.sent, self.received = 0, 0
        self.ahead = 0

    def send(self, batch):
        self.sent += 1
        self.ahead = max(self.ahead, self.sent - self.received)
        return _staging.rebuild(batch, lambda v: v.clone() if isinstance(v, torch.Tensor) else v)

    def receive(self, sent):
        self.received += 1
        return sent

    def close(self):
        pass


@pytest.fixture
def memory(monkeypatch):
    """The real GPU where there is one (None), else Memory."""
    if torch.cuda.is_available():
        return None
    made = Memory()
    monkeypatch.setattr(_staging, "place", lambda device, depth: made)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return made


def plain(loader):
    return [(b["x"].tolist(), b["y"].tolist(), b["name"], b.sample_ids.tolist(), b.valid.tolist()) for b in loader]


@pytest.mark.parametrize(("workers", "kind"), [(0, "process"), (2, "fork"), (2, "thread")])
def test_the_same_batches_there(memory, workers, kind):
    options = {"batch_size": 4, "shuffle": True, "seed": 3, "on_error": "skip", "num_workers": workers, "worker_type": kind}
    with stoker.Loader(Squares(), **options) as here, stoker.Loader(Squares(), device="cuda", **options) as there:
        assert plain(here) == plain(there)
        batches = iter(there)
        for _ in range(3):
            batch = next(batches)
        if memory is None:
            assert batch["x"].device.type == "cuda" and batch["y"].device.type == "cuda"
        state = json.loads(json.dumps(there.state_dict()))
        assert state["position"] == 12
        rest = plain(batches)
        there.load_state_dict(state)
        assert plain(there) == rest


@pytest.mark.parametrize("kind", ["fork", "thread"])
def test_ready_batches_are_sent_before_they_are_asked_for(memory, kind):
    if memory is None:
        pytest.skip("the real GPU does not count")
    with stoker.Loader(Squares(), batch_size=4, device="cuda", on_error="skip", num_workers=2, worker_type=kind) as loader:
        end = time.monotonic() + 60
        while memory.ahead < 2 and time.monotonic() < end:
            for _ in loader:
                time.sleep(0.01)                # the workers' time: a loaded machine gives them less than a step
    assert memory.ahead > 1


def test_errors_stay_in_their_place(memory):
    with stoker.Loader(Squares(), batch_size=10, device="cuda", num_workers=1, worker_type="fork") as loader:
        batches = iter(loader)
        for k in range(3):
            assert next(batches)["y"].tolist() == [i * i for i in range(10 * k, 10 * k + 10)]
        with pytest.raises(ValueError, match="thirty-one"):
            next(batches)


def test_an_iterable(memory):
    with stoker.Loader(Stream(), batch_size=6, device="cuda", num_workers=0) as loader:
        assert [b.tolist() for b in loader] == [list(range(k, min(k + 6, 20))) for k in range(0, 20, 6)]


def test_without_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(NotImplementedError, match="torch sees no GPU"):
        stoker.Loader(Squares(), device="cuda")
