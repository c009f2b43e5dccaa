# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader against torch's: the same batches, lengths and errors for the same arguments.

What is refused or different is in docs/python-data.md: the permutation of shuffle=True is ours, in_order=False comes in
order, draws of random, NumPy and torch belong to samples.
"""

import collections
import itertools
import random
import warnings

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch")
hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch.utils import data as theirs  # noqa: E402

Point = collections.namedtuple("Point", "x y")


class Kind(dict):
    """A mapping of one's own."""


LEAVES = {
    "tensor": lambda i: torch.arange(i, i + 3), "scalar": lambda i: torch.tensor(float(i)),
    "big": lambda i: torch.full((50, 60), i, dtype=torch.int32), "half": lambda i: torch.ones(4, dtype=torch.float16) * i,
    "array": lambda i: np.full((2, 3), i, "u1"), "bigarray": lambda i: np.full((70, 70), i, "f8"),
    "numpy": lambda i: np.float32(i), "flag": lambda i: np.bool_(i % 2), "int": lambda i: i, "float": lambda i: i / 2,
    "bool": lambda i: i % 2 == 0, "str": lambda i: f"s{i}", "bytes": lambda i: b"b%d" % i, "empty": lambda i: torch.ones(0, 2),
    "strided": lambda i: torch.arange(4096 * 2).reshape(2, -1).t() + i,
}


def build(shape, i):
    """A sample of a structure: a leaf's name, or (kind, parts)."""
    if isinstance(shape, str):
        return LEAVES[shape](i)
    kind, parts = shape
    made = [build(p, i) for p in parts]
    if kind == "dict":
        return {f"k{n}": v for n, v in enumerate(made)}
    if kind == "own":
        return Kind((f"k{n}", v) for n, v in enumerate(made))
    if kind == "point":
        return Point(*(made * 2)[:2])
    return tuple(made) if kind == "tuple" else made


class Built(theirs.Dataset):
    def __init__(self, shape, n, many):
        self.shape, self.n = shape, n
        if many:
            self.__getitems__ = lambda indices: [self[i] for i in indices]

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return build(self.shape, i)


class Stream(theirs.IterableDataset):
    def __init__(self, shape, n):
        self.shape, self.n = shape, n

    def __iter__(self):
        info = theirs.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return (build(self.shape, i) for i in range(first, self.n, step))


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def alike(dataset, **options):
    ours, torchs = stoker.DataLoader(dataset, **options), theirs.DataLoader(dataset, **options)
    for _ in range(2):
        a, b = list(ours), list(torchs)
        assert len(a) == len(b) and all(map(same, a, b)), (options, a[:1], b[:1])
    ours.close()
    try:
        length = len(torchs)
    except TypeError:
        with pytest.raises(TypeError):
            len(ours)
    else:
        assert len(ours) == length
    for name in ("dataset", "batch_size", "num_workers", "drop_last", "generator", "collate_fn", "timeout", "pin_memory",
                 "worker_init_fn", "persistent_workers", "prefetch_factor", "in_order"):
        assert getattr(ours, name) == getattr(torchs, name), name
    assert type(ours.sampler) is type(torchs.sampler) and type(ours.batch_sampler) is type(torchs.batch_sampler)


SHAPES = st.recursive(st.sampled_from(sorted(LEAVES)), lambda inner: st.tuples(
    st.sampled_from(["tuple", "list", "dict", "point", "own"]), st.lists(inner, min_size=1, max_size=3)), max_leaves=5)


@settings(max_examples=40)
@given(shape=SHAPES, n=st.integers(0, 25), batch_size=st.none() | st.integers(1, 9), many=st.booleans(),
       drop_last=st.booleans(), iterable=st.booleans())
def test_like_torch_in_the_callers_thread(shape, n, batch_size, many, drop_last, iterable):
    dataset = Stream(shape, n) if iterable else Built(shape, n, many)
    alike(dataset, batch_size=batch_size, drop_last=drop_last and batch_size is not None)


@settings(max_examples=8)
@given(shape=SHAPES, n=st.integers(1, 25), batch_size=st.none() | st.integers(1, 9), drop_last=st.booleans(),
       iterable=st.booleans(), workers=st.integers(1, 3), persistent=st.booleans())
def test_like_torch_with_workers(shape, n, batch_size, drop_last, iterable, workers, persistent):
    dataset = Stream(shape, n) if iterable else Built(shape, n, False)
    alike(dataset, batch_size=batch_size, drop_last=drop_last and batch_size is not None, num_workers=workers,
          persistent_workers=persistent, multiprocessing_context="fork")


@pytest.mark.parametrize("workers", [0, 2])
def test_samplers_and_collate(workers):
    data = Built(("tuple", ["int", "tensor"]), 12, False)
    more = {"multiprocessing_context": "fork"} if workers else {}
    alike(data, sampler=[5, 1, 3], batch_size=2, num_workers=workers, **more)
    alike(data, sampler=torch.tensor([5, 1, 3]), batch_size=2, num_workers=workers, **more)
    alike(data, batch_sampler=[[5, 1], [3], [0, 2, 4]], num_workers=workers, **more)
    alike(data, batch_size=5, collate_fn=lambda rows: {"rows": rows, "x": torch.stack([r[1] for r in rows])},
          num_workers=workers, **more)
    alike(data, batch_size=None, sampler=[4, 2], collate_fn=lambda row: row[0], num_workers=workers, **more)
    alike({"a": 1, "b": 2}, sampler=["b", "a"], batch_size=2, num_workers=workers, **more)
    alike([3, 1, 2], num_workers=workers, **more)


@pytest.mark.parametrize("options", [
    {"num_workers": -1}, {"timeout": -1}, {"prefetch_factor": 2}, {"prefetch_factor": -1, "num_workers": 1},
    {"persistent_workers": True}, {"sampler": [1], "shuffle": True}, {"batch_sampler": [[1]], "batch_size": 2},
    {"batch_sampler": [[1]], "shuffle": True}, {"batch_size": None, "drop_last": True}, {"batch_size": 0},
    {"batch_size": -3}, {"multiprocessing_context": "bad", "num_workers": 1}, {"multiprocessing_context": "fork"},
    {"multiprocessing_context": 5, "num_workers": 1}])
def test_the_same_arguments_are_refused(options):
    data = Built("int", 10, False)
    with pytest.raises(Exception) as torchs:
        list(theirs.DataLoader(data, **options))
    with pytest.raises(Exception) as ours:
        list(stoker.DataLoader(data, **options))
    assert type(ours.value) is type(torchs.value)
    for name in ("shuffle", "sampler", "batch_sampler"):
        with pytest.raises(ValueError, match=f"expected unspecified {name}"):
            stoker.DataLoader(Stream("int", 4), **{name: [1]})


@pytest.mark.parametrize("sample", [None, object(), {"x": None}, (1, "a", set())])
def test_what_torch_does_not_collate_is_the_same_error(sample):
    data = [sample] * 4
    with pytest.raises(TypeError) as torchs:
        list(theirs.DataLoader(data, batch_size=2))
    with pytest.raises(TypeError) as ours:
        list(stoker.DataLoader(data, batch_size=2))
    assert str(ours.value) == str(torchs.value)


def test_shuffle_is_a_permutation_by_the_generator():
    data = Built("int", 50, False)

    def order(seed, **o):
        generator = torch.Generator().manual_seed(seed)
        loader = stoker.DataLoader(data, batch_size=7, shuffle=True, generator=generator, **o)
        return [[int(i) for b in loader for i in b] for _ in range(2)]

    first = order(1)
    assert order(1) == order(1, num_workers=2, multiprocessing_context="fork") == first
    assert first[0] != first[1] and sorted(first[0]) == sorted(first[1]) == list(range(50)) and order(2) != first


class Draws(theirs.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return random.random(), np.random.rand(), torch.rand(()).item()


def test_draws_do_not_depend_on_workers():
    def drawn(workers):
        loader = stoker.DataLoader(Draws(), batch_size=3, num_workers=workers, generator=torch.Generator().manual_seed(4),
                                   multiprocessing_context="fork" if workers else None)
        return [torch.stack(b).tolist() for b in loader]

    assert drawn(0) == drawn(1) == drawn(3)
    flat = [v for b in drawn(0) for row in b for v in row]
    assert len(set(flat)) == 60


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("how", ["shuffle", "sampler", "iterable"])
def test_resume_in_the_middle(workers, how):
    def loader():
        data = Stream("int", 40) if how == "iterable" else Built("int", 40, False)
        order = {"shuffle": True} if how == "shuffle" else {"sampler": list(range(39, -1, -1))} if how == "sampler" else {}
        return stoker.DataLoader(data, batch_size=4, num_workers=workers, **order,
                                 multiprocessing_context="fork" if workers else None)

    first = loader()
    it = iter(first)
    seen = [next(it).tolist() for _ in range(3)]
    state = first.state_dict()
    rest = [b.tolist() for b in it]
    second = loader()
    second.load_state_dict(state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [b.tolist() for b in second] == rest
    assert sorted(i for b in seen + rest for i in b) == list(range(40))
    assert len(list(second)) == 10              # and the next epoch is a whole one


class Kept(Stream):
    """An iterable with a state of its own."""

    def __init__(self, shape, n):
        super().__init__(shape, n)
        self.at = None

    def __iter__(self):
        info = theirs.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        self.at = first if self.at is None else self.at
        while self.at < self.n:
            self.at += step
            yield build(self.shape, self.at - step)
        self.at = None

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


def like_stateful(kind, shape, n, batches, **options):
    """After `batches` batches and a state, a new loader gives the rest of the epoch, and then whole ones, as torchdata's does."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    def seen(make):
        def loader():
            data = {"map": Built, "many": Built, "stream": Stream, "kept": Kept}[kind]
            order = {"sampler": list(range(n - 1, -1, -1))} if kind == "many" else {}
            return make(data(shape, n, kind == "many") if data is Built else data(shape, n), **order, **options)

        first, second = loader(), loader()
        it = iter(first)
        head = list(itertools.islice(it, batches))
        state = first.state_dict()
        del it
        second.load_state_dict(state)
        found = [head, list(second), list(second)]
        for one in (first, second):
            getattr(one, "close", lambda: None)()
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs_ = seen(stoker.DataLoader), seen(stateful)
    assert same(ours, theirs_), (kind, shape, n, batches, options)


STATEFUL = {"kind": st.sampled_from(["map", "many", "stream", "kept"]), "shape": SHAPES, "n": st.integers(4, 25),
            "batch_size": st.integers(1, 5), "drop_last": st.booleans(), "share": st.integers(0, 9)}


@settings(max_examples=40)
@given(**STATEFUL)
def test_like_stateful_dataloader(kind, shape, n, batch_size, drop_last, share):
    like_stateful(kind, shape, n, (n // batch_size) * share // 10, batch_size=batch_size, drop_last=drop_last)


@settings(max_examples=6)
@given(workers=st.integers(1, 2), **STATEFUL)
def test_like_stateful_dataloader_with_workers(workers, kind, shape, n, batch_size, drop_last, share):
    """Shares of workers differ in length, so that batches before the end are the same for all."""
    batches = (n // workers // batch_size) * workers * share // 10
    like_stateful(kind, shape, n, batches, batch_size=batch_size, drop_last=drop_last, num_workers=workers,
                  multiprocessing_context="fork")


def start(worker):
    random.seed(worker)
    torch.utils.data.get_worker_info().dataset.started = worker


class Started(Built):
    started = -1

    def __getitem__(self, i):
        info = theirs.get_worker_info()
        return self.started, info.id, info.num_workers, info.seed != 0


def test_worker_init_fn_and_get_worker_info():
    data = Started("int", 12, False)
    rows = torch.cat([torch.stack(b, 1) for b in stoker.DataLoader(
        data, batch_size=2, num_workers=2, worker_init_fn=start, multiprocessing_context="fork")])
    assert (rows[:, 0] == rows[:, 1]).all() and set(rows[:, 1].tolist()) == {0, 1} and (rows[:, 2] == 2).all()
    assert theirs.get_worker_info() is None and stoker.get_worker_info() is None

    def broken(worker):
        raise ValueError("no way to start")

    with pytest.raises(ValueError, match="no way to start"):
        list(stoker.DataLoader(data, num_workers=1, worker_init_fn=broken, multiprocessing_context="fork"))


def test_changes_of_the_data_set_are_seen_by_the_next_epoch():
    data = Built("int", 4, False)
    loader = stoker.DataLoader(data, num_workers=1, multiprocessing_context="fork")
    assert torch.cat(list(loader)).tolist() == [0, 1, 2, 3]
    data.shape = "float"
    assert torch.cat(list(loader)).tolist() == [0, 0.5, 1, 1.5]
    again = iter(loader), iter(loader)          # two at once
    assert [next(again[0]).item(), next(again[1]).item(), next(again[0]).item()] == [0, 0, 0.5]


class Slow(Built):
    def __getitem__(self, i):
        import time
        time.sleep(60)


def test_timeout_and_pin_memory_without_a_gpu():
    with pytest.raises(RuntimeError, match="timed out after 0.1 seconds"):
        next(iter(stoker.DataLoader(Slow("int", 4, False), num_workers=1, timeout=0.1, multiprocessing_context="fork")))
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    from stoker import _streams
    _streams._warned.discard("pin")
    with pytest.warns(UserWarning, match="no GPU"):
        loader = stoker.DataLoader(Built("int", 4, False), pin_memory=True)
    assert torch.cat(list(loader)).tolist() == [0, 1, 2, 3]


def test_a_users_own_collation_of_a_type_is_kept():
    from torch.utils.data._utils.collate import default_collate_fn_map
    default_collate_fn_map[Point] = lambda column, collate_fn_map: "mine"
    try:
        alike([Point(1, 2)] * 3, batch_size=3)
        assert list(stoker.DataLoader([Point(1, 2)] * 3, batch_size=3)) == ["mine"]
    finally:
        del default_collate_fn_map[Point]


def test_an_iterator_whose_workers_another_loop_took():
    """It ended without a word, as if the epoch were over."""
    loader = stoker.DataLoader(range(8), batch_size=2, num_workers=1, persistent_workers=True)
    one = iter(loader)
    next(one)
    two = iter(loader)
    with pytest.raises(stoker.StokerError, match="another loop has taken its persistent workers"):
        next(one)
    assert [b.tolist() for b in two] == [[0, 1], [2, 3], [4, 5], [6, 7]] and list(two) == []
    three = iter(loader)
    loader.close()
    with pytest.raises(RuntimeError, match="its loader was closed"):
        next(three)


def test_frameworks_leave_it_alone():
    loader = stoker.DataLoader(Built("int", 8, False), batch_size=2)
    assert not isinstance(loader, theirs.DataLoader)
    accelerate = pytest.importorskip("accelerate")
    assert accelerate.Accelerator(cpu=True).prepare(loader) is loader
