# SPDX-License-Identifier: Apache-2.0
"""stoker.SharedList: a list as one block of memory."""

import io
import pickle
from typing import NamedTuple

import numpy as np
import pytest

import stoker
from stoker import _wire

ITEMS = ["a", "ü", 1, -2**70, 1.5, None, True, b"x", ("p", 3), ("q", (1, 2)), [1, "b"], {"k": [1]}, np.arange(3), (), ""]


def same(a, b):
    return type(a) is type(b) and (np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b)


def test_items_come_back():
    shared = stoker.SharedList(ITEMS)
    assert len(shared) == len(ITEMS) and all(map(same, shared, ITEMS))
    assert same(shared[-3], ITEMS[-3]) and shared[1:4] == ITEMS[1:4] and shared[::-7] == ITEMS[::-7]
    again = pickle.loads(pickle.dumps(shared))
    assert all(map(same, again, ITEMS)) and "15 items" in repr(shared)
    assert stoker.SharedList(range(5)) == [0, 1, 2, 3, 4] and stoker.SharedList([]) == []
    for index in (15, -16):
        with pytest.raises(IndexError):
            shared[index]
    with pytest.raises(TypeError):
        shared["a"]
    for wrong in ("text", 5):
        with pytest.raises(ValueError, match="SharedList takes a list"):
            stoker.SharedList(wrong)


def test_an_item_that_does_not_pickle_is_named():
    with pytest.raises(ValueError, match=r"SharedList: item 2, a function, does not pickle \(.*<lambda>"):
        stoker.SharedList([1, "a", lambda: 1])


def test_an_array_is_not_flattened_to_bytes():
    """marshal writes whatever has a buffer as bytes: such items are pickled."""
    items = [(np.arange(2),), bytearray(b"z"), (bytearray(b"y"), 1)]
    assert all(type(a) is type(b) for a, b in zip(stoker.SharedList(items), items))
    assert type(stoker.SharedList(items)[0][0]) is np.ndarray


def private_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("Private_Dirty"))


def test_forked_workers_copy_nothing():
    """After an epoch over 200,000 tuples a worker has no copy of them; of a plain list it has."""
    pytest.importorskip("torch")
    items = [(f"/data/train/{i:08d}.jpg", i) for i in range(200_000)]
    grown = {}
    for name, data in (("list", items), ("shared", stoker.SharedList(items))):
        with stoker.Loader(data, batch_size=1000, num_workers=2, worker_type="fork") as loader:
            it = iter(loader)
            next(it)
            pids = [w.pid for w in loader._crew._workers]
            before = sum(map(private_kib, pids))
            for _ in it:
                pass
            grown[name] = sum(map(private_kib, pids)) - before
    assert grown["shared"] < 6_000 < grown["list"], grown


class Listed:
    """As torchvision's ImageFolder, whose `imgs` is its `samples`; `held` is the same list in a dict."""

    def __init__(self, n):
        self.samples = [(f"/data/{i}.jpg", i) for i in range(n)]
        self.imgs = self.samples
        self.held = {"train": self.samples, "deep": [[("a", (i, (None, b"x"))) for i in range(n)]]}
        self.reals = [i / 7 for i in range(n)]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        return {"i": self.samples[i][1], "same": self.imgs is self.samples is self.held["train"]}


def carried(value):
    """As it arrives in another process, and how many bytes of pickle that took."""
    stream, beside, lists = _wire.packed_whole(value)
    return _wire.unpacked_whole(io.BytesIO(stream), beside, lists), len(stream), len(lists)


@pytest.mark.asan
def test_long_lists_of_a_data_set_are_apart():
    data = Listed(20_000)
    again, pickled, apart = carried(data)
    assert vars(again) == vars(data) and pickled < 1000 and apart == 3
    assert again.imgs is again.samples is again.held["train"] and type(again.samples) is list
    again.samples.append(1)                     # a list as any other
    assert again.imgs[-1] == 1
    one = ("x" * 50, 1)
    again, pickled, apart = carried([one] * 20_000)
    assert apart == 1 and all(item is again[0] for item in again)


class Text(str):
    pass


class Pair(NamedTuple):
    a: int
    b: int


@pytest.mark.asan
@pytest.mark.parametrize("odd", [bytearray(b"x"), [1], {"k": 1}, Text("t"), Pair(1, 2), (np.float64(1), 2), (1, [2]), {1},
                                 np.arange(3), memoryview, 1j, ((((((1,),),),),),)], ids=repr)
def test_other_lists_are_pickled(odd):
    """What marshal would change (subclasses, arrays), what could be shared with others (mutable), what is deep."""
    items = [*range(20_000), odd]
    again, pickled, apart = carried(items)
    assert apart == 0 and pickled > 20_000 and same(again[-1], odd) and again[:-1] == items[:-1]
    items = [odd] * 20_000                      # one object
    again, _, apart = carried(items)
    assert apart == 0 and all(item is again[0] for item in again)


def test_a_list_that_holds_itself():
    items = [*range(20_000)]
    items.append(items)
    again, _, apart = carried(items)
    assert apart == 0 and again[-1] is again


@pytest.mark.asan
def test_a_list_that_is_made_while_it_is_pickled():
    """Its memory may be used for the next one: ids of objects that are gone say nothing."""
    data = [Fleeting(k) for k in range(5)]
    again, _, apart = carried(data)
    assert apart == 5 and [d.items for d in again] == [[k] * 20_000 for k in range(5)]


class Fleeting:
    def __init__(self, k, items=()):
        self.k, self.items = k, items

    def __reduce__(self):
        return Fleeting, (self.k, [self.k] * 20_000)


@pytest.mark.parametrize("method, what", [("spawn", Listed), ("forkserver", lambda n: [(f"{i}", i) for i in range(n)])],
                         ids=["attribute", "data set"])      # each imports torch
def test_workers_have_the_long_list(method, what):
    pytest.importorskip("torch")
    data = what(10_000)
    with stoker.Loader(data, batch_size=1000, num_workers=1, worker_type=method) as loader:
        for batch in loader:
            if isinstance(data, list):
                assert [(a, int(b)) for a, b in zip(*batch)] == [data[i] for i in batch.sample_ids]
            else:
                assert batch["i"].tolist() == batch.sample_ids.tolist() and batch["same"].all()
