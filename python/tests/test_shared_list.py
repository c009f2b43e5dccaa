# SPDX-License-Identifier: Apache-2.0
"""stoker.SharedList: a list as one block of memory."""

import os
import pickle

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


def test_an_array_is_not_flattened_to_bytes():
    """marshal writes whatever has a buffer as bytes: such items are pickled."""
    items = [(np.arange(2),), bytearray(b"z"), (bytearray(b"y"), 1)]
    assert all(type(a) is type(b) for a, b in zip(stoker.SharedList(items), items))
    assert type(stoker.SharedList(items)[0][0]) is np.ndarray


def private_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return sum(int(line.split()[1]) for line in f if line.startswith("Private_Dirty"))


@pytest.mark.serial
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


def test_long_lists_of_a_data_set_are_written_by_marshal():
    class Data:
        pass

    data = Data()
    data.plain = [(str(i), i) for i in range(20_000)]
    data.mixed = [*range(20_000), bytearray(b"x")]
    assert isinstance(_wire.shorter(data.plain), _wire.Long) and _wire.shorter(data.mixed) is data.mixed
    stream, beside = _wire.packed(_wire.shorter(data.plain))
    assert pickle.loads(stream, buffers=beside) == data.plain and len(stream) < 1000
    assert _wire.shorter([1, 2]) == [1, 2] and os.getpid()
