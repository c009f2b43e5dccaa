# SPDX-License-Identifier: Apache-2.0
"""States of stoker.DataLoader: a resume goes on exactly, or is refused; after errors and interrupts nothing is lost."""

import itertools
import json
import os
import random
import signal
import warnings

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch")
from torch.utils import data as theirs  # noqa: E402


class Numbers(theirs.Dataset):
    bad = ()

    def __init__(self, n=40):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if i in self.bad:
            raise OSError(f"{i} can't be read")
        return i


class Flow(theirs.IterableDataset):
    """Each worker its own share, in an order that it draws."""

    def __init__(self, n=40):
        self.n, self.bad = n, None

    def __iter__(self):
        info = theirs.get_worker_info()
        numbers = list(range(info.id if info else 0, self.n, info.num_workers if info else 1))
        random.shuffle(numbers)
        for i in numbers:
            if i == self.bad:
                raise OSError(f"{i} can't be read")
            yield i


class Kept(Flow):
    """With a state of its own, which counts its epochs too."""

    def __init__(self, n=40):
        super().__init__(n)
        self.at, self.epoch = 0, 0

    def __iter__(self):
        while self.at < self.n:
            self.at += 1
            yield 1000 * self.epoch + self.at - 1
        self.at, self.epoch = 0, self.epoch + 1

    def state_dict(self):
        return {"at": self.at, "epoch": self.epoch}

    def load_state_dict(self, state):
        self.at, self.epoch = state["at"], state["epoch"]


class Begun(Flow):
    """A state says where the next iter() begins; at the end that is the end, of this epoch alone."""

    def __init__(self, n=40):
        super().__init__(n)
        self.at, self.resumed = 0, None

    def __iter__(self):
        info = theirs.get_worker_info()
        numbers = list(range(info.id if info else 0, self.n, info.num_workers if info else 1))
        self.at, self.resumed = self.resumed or 0, None
        for i in numbers[self.at:]:
            self.at += 1
            yield i

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.resumed = state["at"]


class Shaken(Begun):
    """It draws, by iter() and for each sample."""

    def __iter__(self):
        order = random.random()
        return (i + order + random.random() for i in super().__iter__())


class OwnIterator(theirs.IterableDataset):
    """iter() does not begin it again."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.at == 40:
            raise StopIteration
        self.at += 1
        return self.at

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class Uneven(Flow):
    """Worker 1 gives all, worker 0 one batch; both draw."""

    def __iter__(self):
        numbers = [random.random() for _ in range(3 if theirs.get_worker_info().id == 0 else self.n)]
        return iter(numbers)


class Foreign(theirs.Sampler):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __iter__(self):
        numbers = np.random.permutation(self.n).tolist()
        random.shuffle(numbers)
        return iter(numbers)


ORDERS = {
    "plain": dict, "shuffle": lambda: {"shuffle": True}, "generator": lambda: {"shuffle": True, "generator": torch.Generator()},
    "sampler": lambda: {"sampler": theirs.RandomSampler(range(40))},
    "its generator": lambda: {"sampler": theirs.RandomSampler(range(40), generator=torch.Generator().manual_seed(9))},
    "batches": lambda: {"batch_sampler": theirs.BatchSampler(theirs.RandomSampler(range(40)), 3, True), "batch_size": 1},
    "foreign": lambda: {"sampler": Foreign(40)}, "flow": dict, "kept": dict, "begun": dict,
}


def made(order, **more):
    data = {"flow": Flow, "kept": Kept, "begun": Begun}.get(order, Numbers)()
    return stoker.DataLoader(data, **{"batch_size": 3, **ORDERS[order](), **more})


def fresh():
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


def values(batches):
    return [b.tolist() for b in batches]


TWO, KEPT = {"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}
FLOWING = {"num_workers": 2, "persistent_workers": True}


@pytest.mark.parametrize("order,workers", [*((order, {}) for order in ORDERS), ("shuffle", TWO), ("foreign", TWO), ("flow", TWO),
                                           ("generator", KEPT), ("kept", KEPT), ("flow", KEPT), ("flow", FLOWING),
                                           ("begun", KEPT), ("begun", FLOWING)], ids=str)
def test_resume_is_as_if_nothing_had_happened(order, workers):
    """The rest of the epoch and the next two, from states at the beginning, in the middle and at the end of an epoch, in a
    program that begins with the seeds of the first one."""
    places = ((0, 4), (1, 2), (0, None))
    for epochs, batches in places:
        fresh()
        first = made(order, **workers)
        for _ in range(epochs):
            list(first)
        if batches != 0:
            it = iter(first)
            seen = values(itertools.islice(it, batches))
        state = first.state_dict()
        expected = [values(it) if batches else []] + [values(first) for _ in range(2)]
        if batches and order != "kept":
            assert len({i for b in seen + expected[0] for i in b}) >= 39
        fresh()
        second = made(order, **workers)
        second.load_state_dict(state)
        assert second.state_dict() == state
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [values(second) if batches else []] + [values(second) for _ in range(2)]
        assert found == expected, (order, epochs, batches)
        for one in (first, second):
            one.close()


@pytest.mark.parametrize("begun", [0, 3])
def test_what_persistent_workers_drew_in_an_epoch_left_in_the_middle_is_not_in_a_state(begun):
    """Also where a worker has not begun yet: it went on with another order."""
    loader = made("flow", **FLOWING)
    next(iter(loader))
    it = iter(loader)
    for _ in range(begun):
        next(it)
    with pytest.raises(ValueError, match="a later epoch of persistent workers.*left in the middle.*persistent_workers=False"):
        made("flow", **FLOWING).load_state_dict(loader.state_dict())
    loader.close()


@pytest.mark.parametrize("workers", [{}, KEPT, FLOWING], ids=str)
@pytest.mark.parametrize("epochs", [1, 2])
def test_the_end_of_an_epoch_is_not_read_again(epochs, workers):
    """A data set that goes on at its end has nothing left: looking there draws nothing."""
    fresh()
    first = stoker.DataLoader(Shaken(), batch_size=3, **workers)
    for _ in range(epochs):
        list(first)
    state = json.loads(json.dumps(first.state_dict()))
    expected = [values(first) for _ in range(2)]
    assert all(len(epoch) >= 14 for epoch in expected)
    fresh()
    second = stoker.DataLoader(Shaken(), batch_size=3, **workers)
    second.load_state_dict(state)
    assert [values(second) for _ in range(2)] == expected
    for one in (first, second):
        one.close()


@pytest.mark.parametrize("batches", [0, 1, 5])
def test_a_data_set_that_is_its_own_iterator_goes_back(batches):
    """Also to where it was when nothing was handed out."""
    data = OwnIterator()
    it = iter(first := stoker.DataLoader(data, batch_size=3))
    seen = values(itertools.islice(it, batches))
    state = json.loads(json.dumps(first.state_dict()))
    rest = values(it)
    second = stoker.DataLoader(data, batch_size=3)
    second.load_state_dict(state)
    assert values(second) == rest and [i for b in seen + rest for i in b] == list(range(1, 41))


@pytest.mark.parametrize("order", ["flow", "kept", "uneven", "begun"])
def test_persistent_workers_that_had_nothing_to_do_go_on_in_the_next_epoch(order):
    """One worker is over, and the other one is not, when the state is made."""
    def loader():
        if order == "uneven":
            return stoker.DataLoader(Uneven(), batch_size=3, **FLOWING)
        return made(order, **FLOWING)

    fresh()
    first = loader()
    list(first)
    it = iter(first)
    seen = values(itertools.islice(it, 13 if order != "kept" else 26))      # the last batch but one
    state = json.loads(json.dumps(first.state_dict()))
    expected = [values(it), values(first), values(first)]
    assert seen and len(expected[0]) >= 1
    fresh()
    second = loader()
    second.load_state_dict(state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [values(second) for _ in range(3)] == expected
    for one in (first, second):
        one.close()


def test_states_survive_torch_save(tmp_path):
    loader = made("foreign", num_workers=1)
    next(iter(loader))
    torch.save(loader.state_dict(), tmp_path / "state")
    other = made("foreign", num_workers=1)
    other.load_state_dict(torch.load(tmp_path / "state", weights_only=False))
    assert other.state_dict() == loader.state_dict()


@pytest.mark.parametrize("change,words", [
    ({"batch_size": 8}, "batch_size=4, and this one has batch_size=8"), ({"drop_last": True}, "drop_last=False"),
    ({"num_workers": 1}, "num_workers=0, and this one has num_workers=1"), ({"n": 44}, "40 samples, and this one has 44"),
    ({"shuffle": True}, "BatchSampler of SequentialSampler"), ({"sampler": range(20)}, "10 batches an epoch, and this one has 5")])
def test_another_loader_refuses_the_state(change, words):
    """It lost or repeated samples."""
    first = stoker.DataLoader(Numbers(), batch_size=4)
    next(iter(first))
    options = {"batch_size": 4, **change}
    other = stoker.DataLoader(Numbers(options.pop("n", 40)), **options)
    with pytest.raises(ValueError, match=words) as e:
        other.load_state_dict(first.state_dict())
    assert "\n" not in str(e.value)
    for wrong in ({}, {"version": 1, "batches": 3}, None, {"version": 9, "shape": {}}):
        with pytest.raises(ValueError, match="state"):
            other.load_state_dict(wrong)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_after_an_exception_loses_nothing(workers):
    """As in torch, the loop goes on after the batch that failed; a resume makes that one first."""
    first = stoker.DataLoader(Numbers(), batch_size=4, num_workers=workers)
    first.dataset.bad = (13,)
    it, got = iter(first), []
    for _ in range(6):
        try:
            got += next(it).tolist()
        except OSError as e:
            assert "13 can't be read" in str(e)
    assert got == [*range(12), *range(16, 24)]
    second = stoker.DataLoader(Numbers(), batch_size=4, num_workers=workers)     # the disk is back
    second.load_state_dict(first.state_dict())
    rest = values(second)
    assert rest[0] == [12, 13, 14, 15] and sorted(got + sum(rest, [])) == list(range(40))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterable_that_raised_goes_on_after_a_resume(workers):
    """It raised without end."""
    fresh()
    first = stoker.DataLoader(Flow(), batch_size=4, num_workers=workers)
    first.dataset.bad = 20
    it, got = iter(first), []
    with pytest.raises(OSError, match="20 can't be read"):
        while True:
            got += next(it).tolist()
    fresh()
    second = stoker.DataLoader(Flow(), batch_size=4, num_workers=workers)
    second.load_state_dict(first.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert sorted(got + sum(values(second), [])) == list(range(40))


class Alarm(Exception):
    pass


ROUNDS = int(os.environ.get("STOKER_INTERRUPTS", "30"))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("order", ["shuffle", "flow"])
def test_a_handler_that_raises_loses_no_batch(order, workers):
    armed = False

    def handler(number, frame):
        if armed:
            raise Alarm

    old = signal.signal(signal.SIGALRM, handler)
    draws, hits, rounds = random.Random(5), 0, 0
    try:
        while hits < ROUNDS and rounds < 20:
            rounds += 1
            fresh()
            loader = made(order, num_workers=workers, multiprocessing_context="fork" if workers else None)
            it, got, batch, over = iter(loader), [], None, False
            while not over:
                try:
                    try:
                        armed = True
                        signal.setitimer(signal.ITIMER_REAL, draws.choice((5e-5, 2e-4, 1e-3)) * draws.random() + 1e-6)
                        for batch in it:
                            got.append(batch)
                        over = True
                    finally:
                        armed = False
                except Alarm:
                    hits += 1
                if batch is not None and (not got or got[-1] is not batch):
                    got.append(batch)               # it was bound; the signal came before it was noted
            signal.setitimer(signal.ITIMER_REAL, 0)
            fresh()
            reference = made(order, num_workers=workers, multiprocessing_context="fork" if workers else None)
            assert values(got) == values(reference), (order, workers, rounds)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert hits
