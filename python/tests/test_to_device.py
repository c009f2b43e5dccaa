# SPDX-License-Identifier: Apache-2.0
"""to_device() without a GPU: order, nests, state, errors, ends; and the slabs on a make-believe GPU.
What needs a real one is in tests/gpu/real."""

import collections
import dataclasses
import gc
import threading
import time
import types
import weakref

import numpy as np
import pytest

import stoker
from stoker import _staging

torch = pytest.importorskip("torch")

Pair = collections.namedtuple("Pair", "x y")


@dataclasses.dataclass(frozen=True)
class Sample:
    x: object
    name: str = "n"
    late: object = dataclasses.field(init=False, default=None)


class Frozen(collections.abc.Mapping):
    def __init__(self, inner):
        self.inner = dict(inner)

    def __getitem__(self, key):
        return self.inner[key]

    def __iter__(self):
        return iter(self.inner)

    def __len__(self):
        return len(self.inner)


class Counting:
    """A loader of `n` numbers whose state is how many it has handed out."""

    def __init__(self, n, fail_at=None):
        self.n, self.fail_at = n, fail_at
        self.epoch = self.done = 0
        self.state = {"epoch": 0, "done": 0}    # one dict that changes, as some loaders have it
        self.closed = False

    def __len__(self):
        return self.n - self.done

    def __iter__(self):
        for i in range(self.done, self.n):
            if i == self.fail_at:
                raise KeyError(f"at {i}")
            self.state["done"] = i + 1
            yield torch.tensor([i + 100 * self.epoch])
        self.epoch += 1
        self.done = 0
        self.state.update(epoch=self.epoch, done=0)

    def set_epoch(self, epoch):
        self.epoch = self.state["epoch"] = epoch

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = dict(state)
        self.epoch, self.done = state["epoch"], state["done"]

    def close(self):
        self.closed = True


def numbers(it):
    return [int(t) for t in it]


@pytest.mark.parametrize("depth", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 10])
def test_every_batch_comes_once_in_order(n, depth):
    loader = stoker.to_device(Counting(n), "cpu", depth=depth)
    assert len(loader) == n
    assert numbers(loader) == list(range(n))
    assert numbers(loader) == list(range(100, 100 + n))


def test_generators_and_iterators_go_on_where_a_loop_left_them():
    loader = stoker.to_device((torch.tensor(i) for i in range(6)), "cpu", depth=4)
    assert [int(t) for _, t in zip(range(2), loader, strict=False)] == [0, 1]
    assert numbers(loader) == [2, 3, 4, 5]
    assert numbers(loader) == []
    with pytest.raises(TypeError, match="len"):
        len(stoker.to_device(iter([]), "cpu"))


def test_lists_and_sequences_are_loaders_too():
    loader = stoker.to_device([torch.tensor(1), torch.tensor(2)], "cpu")
    assert numbers(loader) == [1, 2] and numbers(loader) == [1, 2]


def test_nests_are_rebuilt_as_they_are():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    counts = collections.defaultdict(int, a=array)
    given = {"pair": Pair(array, "text"), "list": [array, 3, None], "tuple": (array, b"raw"),
             "data": Sample(array), "frozen": Frozen({"x": array}), "counts": counts,
             "ordered": collections.OrderedDict(z=array, a=1), "words": np.array(["a", "b"]),
             "objects": np.array([None], dtype=object), "array": bytearray(b"xy")}
    [made] = stoker.to_device([given], "cpu")
    found = [made["pair"].x, made["list"][0], made["tuple"][0], made["data"].x, made["frozen"]["x"],
             made["counts"]["a"], made["ordered"]["z"]]
    assert all(isinstance(t, torch.Tensor) and t.tolist() == array.tolist() for t in found)
    assert type(made["pair"]) is Pair and made["pair"].y == "text"
    assert type(made["data"]) is Sample and made["data"].name == "n" and made["data"].late is None
    assert type(made["frozen"]) is Frozen and list(made["ordered"]) == ["z", "a"]
    assert made["counts"].default_factory is int and made["counts"]["missing"] == 0
    assert made["words"] is given["words"] and made["objects"] is given["objects"]
    assert made["array"] is given["array"] and made["list"][1:] == [3, None]
    assert given["pair"].x is array and given["counts"]["a"] is array       # nothing given was changed


def test_arrays_that_torch_cannot_wrap_are_copied():
    read_only = np.arange(4)
    read_only.flags.writeable = False
    swapped = np.arange(4).astype(">i4")
    [made] = stoker.to_device([(read_only, np.arange(4)[::-1], swapped)], "cpu")
    assert [t.tolist() for t in made] == [[0, 1, 2, 3], [3, 2, 1, 0], [0, 1, 2, 3]]
    made[0][0] = 9
    assert read_only[0] == 0


def test_a_stoker_batch_keeps_what_it_knows(urls):
    loader = stoker.Loader(urls, {"label": "from(cls) | int"}, batch_size=7)
    for plain, moved in zip(loader, stoker.to_device(
            stoker.Loader(urls, {"label": "from(cls) | int"}, batch_size=7), "cpu"), strict=True):
        assert isinstance(moved, stoker.Batch)
        assert moved["label"].tolist() == plain["label"].tolist()
        assert moved.sample_keys == plain.sample_keys
        assert moved.sample_ids.tolist() == plain.sample_ids.tolist() and moved.valid.all()


def test_padded_lengths_go_with_their_output(tmp_path):
    rows = [np.arange(n) for n in (1, 4, 2)]
    with stoker.Writer(str(tmp_path / "a-%d.tar")) as out:
        for i, row in enumerate(rows):
            out.write({"__key__": str(i), "npy": row})
    loader = stoker.Loader(str(tmp_path / "a-0.tar"), {"x": "from(npy) | npy"}, batch_size=3, collate=("pad", -1))
    [batch] = stoker.to_device(loader, "cpu")
    assert batch["x"].tolist() == [[0, -1, -1, -1], [0, 1, 2, 3], [0, 1, -1, -1]]
    assert batch.lengths["x"].tolist() == [1, 4, 2] and batch.mask("x").sum() == 7


# ---- state --------------------------------------------------------------------------------------

@pytest.mark.parametrize("depth", [1, 2, 3, 20])
def test_state_is_that_of_the_last_batch_handed_out(depth):
    loader = stoker.to_device(Counting(6), "cpu", depth=depth)
    for taken, batch in enumerate(loader, 1):
        state = loader.state_dict()
        assert state == {"epoch": 0, "done": taken}
        again = stoker.to_device(Counting(6), "cpu", depth=depth)
        again.load_state_dict(state)
        assert numbers(again) == list(range(taken, 6)) or taken == 6
        assert int(batch) == taken - 1
    assert loader.state_dict() == {"epoch": 1, "done": 0}


def test_state_after_a_break_and_a_dropped_pass():
    loader = stoker.to_device(Counting(9), "cpu", depth=4)
    for batch in loader:
        if int(batch) == 2:
            break
    del batch
    gc.collect()
    assert loader.state_dict()["done"] == 3
    loader.load_state_dict({"epoch": 0, "done": 7})
    assert numbers(loader) == [7, 8]


def test_load_state_drops_what_is_under_way():
    loader = stoker.to_device(Counting(9), "cpu", depth=4)
    it = iter(loader)
    next(it)
    loader.load_state_dict({"epoch": 0, "done": 5})
    with pytest.raises(stoker.StokerError, match="iterator is over"):
        next(it)
    assert numbers(loader) == [5, 6, 7, 8]


def test_resume_of_a_stoker_loader_mid_epoch(urls):
    def made():
        return stoker.to_device(stoker.Loader(urls, {"label": "from(cls) | int"}, batch_size=6,
                                              shuffle=True, seed=3), "cpu", depth=3)

    whole = [b.sample_ids.tolist() for b in made()]
    loader, seen = made(), []
    for batch in loader:
        seen.append(batch.sample_ids.tolist())
        if len(seen) == 4:
            break
    again = made()
    again.load_state_dict(loader.state_dict())
    again.set_epoch(0)                          # as scripts do before every loop
    assert seen + [b.sample_ids.tolist() for b in again] == whole
    assert again.epoch == 1 and again.stats()["batches"] > 0    # all else of the loader is there too


def test_a_loader_without_state_has_none_here():
    loader = stoker.to_device([1, 2], "cpu")
    for name in ("state_dict", "load_state_dict", "set_epoch", "nothing"):
        assert not hasattr(loader, name)
    loader = stoker.to_device(Counting(2), "cpu")
    loader.set_epoch(4)
    assert numbers(loader) == [400, 401]


def test_a_state_that_fails_is_told_when_it_is_asked_for():
    class Broken(Counting):
        def state_dict(self):
            raise RuntimeError("no snapshot")

    loader = stoker.to_device(Broken(4), "cpu")
    assert numbers(loader) == [0, 1, 2, 3]
    next(iter(loader))
    with pytest.raises(RuntimeError, match="no snapshot"):
        loader.state_dict()


# ---- errors and ends ------------------------------------------------------------------------------

@pytest.mark.parametrize("depth", [1, 3, 9])
def test_an_error_comes_behind_the_batches_before_it(depth):
    seen = []
    with pytest.raises(KeyError, match="at 5"):
        for batch in stoker.to_device(Counting(8, fail_at=5), "cpu", depth=depth):
            seen.append(int(batch))
    assert seen == [0, 1, 2, 3, 4]


def test_a_loader_that_goes_on_behind_an_error():
    class Hiccup:
        at = 0

        def __iter__(self):
            return self

        def __next__(self):
            self.at += 1
            if self.at == 3:
                raise OSError("once")
            if self.at > 5:
                raise StopIteration
            return torch.tensor(self.at)

    it, seen = iter(stoker.to_device(Hiccup(), "cpu", depth=2)), []
    while True:
        try:
            seen.append(int(next(it)))
        except OSError:
            seen.append("error")
        except StopIteration:
            break
    assert seen == [1, 2, "error", 4, 5]
    with pytest.raises(StopIteration):
        next(it)


def test_an_interrupt_is_not_put_off():
    def interrupted():
        yield torch.tensor(0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(iter(stoker.to_device(interrupted(), "cpu", depth=2)))


def test_a_break_lets_go_of_everything():
    alive = []

    def batches():
        for i in range(9):
            t = torch.full((3,), i)
            alive.append(weakref.ref(t))
            yield {"t": t}

    class Loader:
        def __iter__(self):
            return batches()

    loader = stoker.to_device(Loader(), "cpu", depth=5)
    for batch in loader:
        break
    del batch
    gc.collect()
    assert len(alive) == 5 and not any(ref() is not None for ref in alive)
    with stoker.to_device(Counting(3), "cpu") as loader:
        it = iter(loader)
        next(it)
    assert loader.closed
    with pytest.raises(stoker.StokerError, match="closed"):
        next(it)


def test_two_loops_at_once_are_refused():
    loader = stoker.to_device(Counting(5), "cpu")
    one = iter(loader)
    next(one)
    next(iter(loader))
    with pytest.raises(stoker.StokerError, match="one iterator at a time"):
        next(one)


class OneAtATime:
    """A loader that two threads must not ask at once."""

    def __init__(self, n):
        self.n, self.at, self.inside = n, 0, threading.Lock()

    def __iter__(self):
        return self

    def __next__(self):
        assert self.inside.acquire(blocking=False), "two threads in next()"
        try:
            time.sleep(0.0005)                  # others come meanwhile
            self.at += 1
            if self.at > self.n:
                raise StopIteration
            if self.at == 7:
                raise OSError("once")
            return torch.tensor(self.at)
        finally:
            self.inside.release()


@pytest.mark.parametrize("depth", [1, 3])
def test_threads_share_an_iterator(depth):
    """Each batch comes once, and the error too; it was no iterator for several threads."""
    it, seen, errors = iter(stoker.to_device(OneAtATime(200), "cpu", depth=depth)), [], []

    def take():
        while True:
            try:
                seen.append(int(next(it)))
            except StopIteration:
                return
            except BaseException as e:
                errors.append(repr(e))
                if "once" not in repr(e):
                    return

    threads = [threading.Thread(target=take) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert errors == ["OSError('once')"]
    assert sorted(seen) == [n for n in range(1, 201) if n != 7]


def test_closed_while_another_thread_waits():
    waits, go, got = threading.Event(), threading.Event(), []

    def batches():
        waits.set()
        assert go.wait(120)
        yield torch.tensor(1)
        yield torch.tensor(2)

    loader = stoker.to_device(batches(), "cpu", depth=1)
    it = iter(loader)

    def take():
        try:
            got.append(int(next(it)))
        except BaseException as e:
            got.append(repr(e))

    thread = threading.Thread(target=take)
    thread.start()
    assert waits.wait(120)
    it.close()                                  # does not wait for the batch
    go.set()
    thread.join(120)
    assert got == [1]
    with pytest.raises(stoker.StokerError, match="closed"):
        next(it)


def test_bad_arguments():
    for depth in (0, -1, 1.5, "3"):
        with pytest.raises(ValueError, match="depth"):
            stoker.to_device([], "cpu", depth=depth)
    with pytest.raises(ValueError, match="device must be"):
        stoker.to_device([], "gpuu")
    with pytest.raises(ValueError, match="device must be"):
        stoker.to_device([], "meta")
    with pytest.raises(ValueError, match="takes a loader"):
        stoker.to_device(5, "cpu")
    if not torch.cuda.is_available():
        with pytest.raises(NotImplementedError, match="device cuda: torch sees no GPU: "):
            stoker.to_device([], "cuda")


def test_without_torch(monkeypatch):
    monkeypatch.setattr(_staging, "torch_or_none", lambda: None)
    with pytest.raises(NotImplementedError, match="torch is not installed"):
        stoker.to_device([], "cuda")


# ---- slabs, on a GPU that is none -----------------------------------------------------------------

class Event:
    """Passes when the test says so, or when it is waited for."""

    every = []

    def __init__(self):
        self.passed, self.waited = False, 0
        Event.every.append(self)

    def record(self, stream):
        pass

    def query(self):
        return self.passed

    def synchronize(self):
        self.waited += not self.passed
        self.passed = True


class Stream:
    def __init__(self, *device):
        self.waits = []

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def wait_event(self, event):
        self.waits.append(event)


@pytest.fixture
def gpu(monkeypatch):
    """A _staging.Gpu whose device is memory here: copies are done at once, events pass when they like."""
    current = Stream()
    cuda = types.SimpleNamespace(Stream=Stream, Event=Event, stream=lambda s: s,
                                 current_stream=lambda device: current)
    fake = types.SimpleNamespace(
        cuda=cuda, no_grad=torch.no_grad, Tensor=torch.Tensor, strided=torch.strided, uint8=torch.uint8,
        from_numpy=torch.from_numpy,
        empty=lambda n, dtype, pin_memory: torch.empty(n, dtype=dtype),
        empty_like=lambda t, device: torch.empty_like(t, device="meta" if device == "meta" else None))
    monkeypatch.setattr(_staging, "torch_or_none", lambda: fake)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda self, s: None, raising=False)
    Event.every.clear()
    made = _staging.Gpu("made up", depth=2)
    made.current = current
    return made


def batch_of(i, rows=300):
    return {"u": np.full((rows, 7), i, np.uint8), "f": torch.full((2, 3, 8, 8), i / 2).to(
        memory_format=torch.channels_last), "s": torch.arange(40)[::3], "one": torch.tensor(i),
        "none": torch.empty(0, 4), "flag": torch.tensor([True, False]), "text": "t"}


def test_slabs_carry_every_layout_and_are_reused(gpu):
    addresses = set()
    for i in range(12):
        sent = gpu.send(batch_of(i))
        addresses.update(slab.data_ptr() for slab in sent.transfer.slabs)
        got, want = gpu.receive(sent), batch_of(i)
        assert gpu.current.waits[-1] is sent.transfer.event
        for name in ("u", "f", "s", "one", "none", "flag"):
            value = torch.as_tensor(want[name])
            assert torch.equal(got[name], value) and got[name].dtype == value.dtype
        assert got["f"].is_contiguous(memory_format=torch.channels_last) and got["text"] == "t"
    assert len(addresses) <= 3                  # depth + 1
    assert sum(e.waited for e in Event.every) == 12 - 3     # each for the oldest copy, none else
    gpu.close()
    assert not gpu._copying and not gpu._free


def test_slabs_are_not_touched_before_their_event(gpu):
    kept = [gpu.send(batch_of(i)) for i in range(3)]
    slabs = [s.transfer.slabs[0] for s in kept]
    assert len({s.data_ptr() for s in slabs}) == 3
    before = slabs[1].clone()
    Event.every[0].passed = True
    fourth = gpu.send(batch_of(3))
    assert fourth.transfer.slabs[0] is slabs[0] and torch.equal(slabs[1], before)


def test_slabs_grow_with_the_batches_and_stay_bounded(gpu):
    for rows in (10, 400_000, 20, 900_000, 5, 900_000):
        sent = gpu.send(batch_of(1, rows))
        assert torch.equal(gpu.receive(sent)["u"], torch.full((rows, 7), 1, dtype=torch.uint8))
        Event.every[-1].passed = True
        held = sum(s.numel() for s in gpu._free) + sum(s.numel() for f in gpu._copying for s in f.slabs)
        assert held <= 3 * (900_000 * 7 + (2 << 20))


def test_a_batch_that_cannot_be_sent_is_an_error_in_its_place(gpu, monkeypatch):
    real = gpu._lay

    def fails(sent, tensor):
        if tensor.numel() == 13:
            raise MemoryError("no pinned memory")
        return real(sent, tensor)

    monkeypatch.setattr(gpu, "_lay", fails)
    monkeypatch.setattr(_staging, "place", lambda device, depth: gpu)
    monkeypatch.setattr(_staging, "check", lambda device: None)
    seen = []
    with pytest.raises(MemoryError, match="no pinned"):
        for batch in stoker.to_device([(torch.ones(4), torch.ones(n)) for n in (5, 6, 13, 7)], "cuda"):
            seen.append(len(batch[1]))
    assert seen == [5, 6]


def test_leaves_that_move_themselves(gpu):
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    sparse = torch.eye(3).to_sparse()
    sent = gpu.send((packed, sparse))
    assert isinstance(sent.batch[0], _staging.Later) and isinstance(sent.batch[1], _staging.Later)
    gpu._device = "cpu"                         # a real name, for their own .to()
    got = gpu.receive(sent)
    assert torch.equal(got[0].data, packed.data) and torch.equal(got[1].to_dense(), torch.eye(3))


def test_the_name_is_the_function():
    assert callable(stoker.to_device) and stoker.to_device.__module__ == "stoker._to_device"
