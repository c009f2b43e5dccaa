# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader against torch's: the same batches, lengths, warnings and errors for the same arguments; its states against
torchdata's.  What samples draw is compared in test_torch_bits.py."""

import collections.abc
import contextlib
import gc
import itertools
import os
import pickle
import random
import re
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch")
hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch.utils import data as theirs  # noqa: E402
from torch.utils.data.datapipes.iter import IterableWrapper  # noqa: E402

from stoker import dataloader  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tests"))
from forked_python import TORCH, python  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_collections")
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
    assert str(ours.value) == str(torchs.value)


def test_an_iterable_has_its_own_order():
    for name, value in (("shuffle", True), ("sampler", [1]), ("batch_sampler", [[1]])):
        with pytest.raises(ValueError, match=f"expected unspecified {name}"):
            stoker.DataLoader(Stream("int", 4), **{name: value})


@pytest.mark.parametrize("sample", [None, object(), {"x": None}, (1, "a", set())])
def test_what_torch_does_not_collate_is_the_same_error(sample):
    data = [sample] * 4
    with pytest.raises(TypeError) as torchs:
        list(theirs.DataLoader(data, batch_size=2))
    with pytest.raises(TypeError) as ours:
        list(stoker.DataLoader(data, batch_size=2))
    assert str(ours.value) == str(torchs.value)


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
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator is found"):
        made = list(stoker.DataLoader(Built("int", 4, False), pin_memory=True))
    assert torch.cat(made).tolist() == [0, 1, 2, 3]


def test_a_users_own_collation_of_a_type_is_kept():
    from torch.utils.data._utils.collate import default_collate_fn_map
    default_collate_fn_map[Point] = lambda column, collate_fn_map: "mine"
    try:
        alike([Point(1, 2)] * 3, batch_size=3)
        assert list(stoker.DataLoader([Point(1, 2)] * 3, batch_size=3)) == ["mine"]
    finally:
        del default_collate_fn_map[Point]


class Seen(theirs.Dataset):
    """Large leaves in a container, among them a view that a Row would stand for."""

    def __init__(self, kind):
        self.kind = kind

    def __len__(self):
        return 6

    def __getitem__(self, i):
        big = torch.full((3000,), float(i))
        return {"dict": {"a": big, "b": i}, "list": [big, np.full(3000, i)], "tuple": (big, i), "object": {"a": [big]}, "pair": (big, i)}[self.kind]


def of_containers(column, *, collate_fn_map=None):
    """A user's own function: it looks into the containers."""
    def leaves(value):
        inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else None
        return [f"{type(value).__name__} {float(value if isinstance(value, (int, float)) else value.sum())}"] if inside is None else [
            leaf for v in inside for leaf in leaves(v)]
    return [leaves(value) for value in column]


@pytest.mark.parametrize("kind, key", [("dict", dict), ("list", list), ("tuple", tuple), ("object", object), ("pair", (set, tuple)),
                                       ("dict", collections.abc.Mapping)])
def test_a_users_own_collation_of_containers_gets_what_the_data_set_made(kind, key):
    from torch.utils.data._utils.collate import default_collate_fn_map
    default_collate_fn_map[key] = of_containers
    try:
        options = {"batch_size": 3, "num_workers": 1, "multiprocessing_context": "fork"}
        found, expected = list(stoker.DataLoader(Seen(kind), **options)), list(theirs.DataLoader(Seen(kind), **options))
    finally:
        del default_collate_fn_map[key]
    assert found == expected and "Tensor 3000.0" in str(found) and "Row" not in str(found)


def test_more_workers_than_cores_is_torchs_warning():
    said = []
    for make in (theirs.DataLoader, stoker.DataLoader):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            make(range(4), num_workers=len(os.sched_getaffinity(0)) + 1)
        said.append([str(w.message) for w in caught if "suggested max number of worker" in str(w.message)])
    assert said[0] == said[1] and len(said[0]) == 1


def test_persistent_workers_have_one_iterator():
    """As in torch: another loop begins it again."""
    loader = stoker.DataLoader(range(8), batch_size=2, num_workers=1, persistent_workers=True)
    one = iter(loader)
    next(one)
    pid = one._crew.workers[0].pid
    two = iter(loader)
    assert two is one and [b.tolist() for b in two] == [[0, 1], [2, 3], [4, 5], [6, 7]] and list(two) == []
    assert one._crew.workers[0].pid == pid
    three = iter(loader)
    loader.close()
    with pytest.raises(RuntimeError, match="its loader was closed"):
        next(three)
    assert len(list(loader)) == 4


def children():
    """Processes of this one that still run, or that no one has waited for."""
    with open(f"/proc/self/task/{threading.get_native_id()}/children") as f:
        return set(f.read().split())


@pytest.mark.parametrize("how", ["break", "del", "exception", "kept", "persistent"])
def test_workers_end_with_the_last_reference(how):
    """The garbage collector had to look for cycles."""
    before, kept = children(), []

    def loop(i):
        loader = stoker.DataLoader(Built("int", 40, False), num_workers=2, multiprocessing_context="fork",
                                   persistent_workers=how == "persistent")
        if how == "kept":
            kept.append(loader)
        if how == "del":
            it = iter(loader)
            next(it)
            del it
        for batch in loader:
            if how == "exception":
                raise KeyError(i)
            break

    gc.collect()
    gc.disable()
    try:
        for i in range(3):
            with contextlib.suppress(KeyError):
                loop(i)
            assert children() <= before, how
    finally:
        gc.enable()


def test_it_is_torchs():
    loader = stoker.DataLoader(Built("int", 8, False), batch_size=2, num_workers=np.int64(1))
    assert isinstance(loader, theirs.DataLoader) and stoker.DataLoader[torch.Tensor].__origin__ is stoker.DataLoader
    with pytest.raises(AttributeError, match="'DataLoader' object has no attribute 'nothing'"):
        loader.nothing
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert len(list(pickle.loads(pickle.dumps(loader)))) == 4


class Told(theirs.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        info = theirs.get_worker_info()
        return [i, info.id, info.seed, torch.initial_seed(), repr(info).startswith("WorkerInfo(id=") and "dataset=<" in repr(info)]


def test_batch_i_is_made_by_worker_i_modulo_n():
    torch.manual_seed(1)
    for step, (_, number, seed, initial, shown) in enumerate(stoker.DataLoader(Told(), batch_size=1, num_workers=2)):
        assert number.item() == step % 2 and seed.item() == initial.item() and shown.all()


def test_scripts_that_look_at_the_workers():
    """Names of torch's iterator that begin with _, and are used all the same."""
    it = iter(stoker.DataLoader(range(100), num_workers=2, multiprocessing_context="fork"))
    first, second = it._workers
    assert first.is_alive() and first.exitcode is None and first.pid != second.pid
    first.join(0.01)
    second.kill()
    second.join(100)
    assert not second.is_alive() and second.exitcode == -9 and re.fullmatch(rf"<ForkProcess-\d+, process {second.pid}>", repr(second))
    it._shutdown_workers()
    first.join(100)
    assert not first.is_alive() and first.exitcode is not None and it._workers == []
    with pytest.raises(RuntimeError, match="its loader was closed"):
        next(it)


AT_THE_END = """
import json, stoker
it = iter(stoker.DataLoader(range(8), num_workers=1, multiprocessing_context="fork"))
mine = iter(stoker.Loader([1, 2, 3], num_workers=1, worker_type="fork"))
print(int(next(it)), len(next(mine)))
json.keep = lambda: (it, mine)      # outlives this module's names
"""


def test_iterators_that_outlive_the_modules_say_nothing():
    done = python(*TORCH).run(["-c", AT_THE_END])
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["0", "1"], "")


class Late(theirs.Dataset):
    """Worker 0 waits for a file: worker 1 is at its second sample ("3"), or the loader handed out a batch ("taken")."""

    def __init__(self, folder, awaited):
        self.folder, self.awaited = folder, awaited

    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i == 0:
            until = time.monotonic() + 100
            while not (self.folder / self.awaited).exists() and time.monotonic() < until:
                time.sleep(0.01)
        (self.folder / str(i)).touch()
        return i


@pytest.mark.parametrize("in_order", [True, False])
def test_in_order(tmp_path, in_order):
    data = Late(tmp_path, "3" if in_order else "taken")
    loader = stoker.DataLoader(data, num_workers=2, in_order=in_order)
    got = []
    for b in loader:
        got.append(int(b))
        (tmp_path / "taken").touch()
    assert sorted(got) == list(range(6)) and (got == sorted(got)) == in_order
    it = iter(loader)
    first = [int(next(it)) for _ in range(2)]
    again = stoker.DataLoader(data, num_workers=2, in_order=in_order)
    again.load_state_dict(loader.state_dict())
    assert sorted(first + [int(b) for b in again]) == list(range(6))


def test_the_start_method_that_is_set(monkeypatch):
    loader = stoker.DataLoader(range(4), num_workers=1, multiprocessing_context="spawn")
    assert loader.multiprocessing_context.get_start_method() == "spawn"
    found = []
    monkeypatch.setattr(dataloader._crew, "processes", lambda *args: found.append(args[4]))
    monkeypatch.setattr(dataloader._Pass, "_reset", lambda *args, **named: None)
    iter(loader)
    monkeypatch.setattr(dataloader.multiprocessing, "get_start_method", lambda: "forkserver")      # as set_start_method() does
    iter(stoker.DataLoader(range(4), num_workers=1))
    assert found == ["spawn", "forkserver"]


class Whole(theirs.IterableDataset):
    def __len__(self):
        return 5

    def __iter__(self):
        return iter(range(5))


@pytest.mark.parametrize("workers", [0, 2])
def test_an_iterable_is_read_by_every_worker_and_torch_warns(workers):
    loader = stoker.DataLoader(Whole(), num_workers=workers)
    assert len(loader) == 5
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert sorted(int(b) for b in loader) == sorted(list(range(5)) * max(workers, 1))
    assert bool(workers) == any("was reported to be 5(when accessing len(dataloader))" in str(w.message) for w in said)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffle", [None, False, True])
def test_data_pipes(workers, shuffle):
    def pipe(n):
        return n + 0.5

    for sharded in (False, True):
        found = []
        for make in (stoker.DataLoader, theirs.DataLoader):
            source = IterableWrapper(range(12)).shuffle()
            source = (source.sharding_filter() if sharded else source).map(pipe)
            torch.manual_seed(4)
            loader = make(source, batch_size=2, shuffle=shuffle, num_workers=workers)
            found.append([[b.tolist() for b in loader] for _ in range(2)])
        assert found[0] == found[1] and found[0][0]


ODD = {
    "strings": lambda i: np.array(["a", "b"]), "objects": lambda i: np.array([None, i], dtype=object), "set": lambda i: {i},
    "None": lambda i: None, "ragged": lambda i: list(range(i + 1)), "shapes": lambda i: torch.ones(i + 1), "keys": lambda i: {i: 1},
    "mixed": lambda i: 1 if i else "a", "floats": lambda i: 1.5 if i == 0 else "b", "ints": lambda i: 1 if i == 0 else None,
    "big": lambda i: 2**70, "huge": lambda i: 2**63, "complex": lambda i: 1j, "types": lambda i: torch.ones(2, dtype=[torch.int32, torch.int64][i % 2]),
    "grad": lambda i: torch.ones(2, requires_grad=True), "arrays": lambda i: np.ones(2, "f4" if i else "f8"),
    "longdouble": lambda i: np.longdouble(1), "memory": lambda i: memoryview(b"ab"), "deque": lambda i: collections.deque([i]),
    "default": lambda i: collections.defaultdict(int, {"a": i}), "ordered": lambda i: collections.OrderedDict(a=i),
    "counter": lambda i: collections.Counter("ab"), "range": lambda i: range(i, i + 2), "bytes": lambda i: bytearray(b"x"),
    "nan": lambda i: float("nan"), "bool": lambda i: True if i else 3, "scalar": lambda i: np.float64(i), "bfloat": lambda i: torch.ones(2).bfloat16(),
    "swapped": lambda i: np.ones(3, ">i4"), "u16": lambda i: np.uint16(i), "empty": lambda i: (), "dates": lambda i: np.datetime64("2020-01-01"),
    "float and int": lambda i: 1.5 if i == 0 else 2, "large": lambda i: np.full((40, 60), i), "large mixed": lambda i: torch.ones(3000 + i),
    "view": lambda i: torch.arange(20000.).reshape(100, 200).t(), "point": lambda i: Point(i, "s"), "nested": lambda i: [{"a": (i, [i])}],
}


def layouts(rows):
    """What a collate_fn may hand over: views with holes, of one place, turned."""
    x = torch.stack(rows)
    return {"input": x[:, :-1], "target": x[:, 1:], "halved": x[:, ::2], "flat": x.view(-1)[1::3], "turned": x.t(),
            "mask": torch.ones(len(rows), 1, 1).expand(-1, 4, 5), "part": torch.complex(x, x).imag, "few": x.clone()[:, 50], "none": x[:, :0],
            "image": x[:, :96].reshape(-1, 4, 6, 4).to(memory_format=torch.channels_last)}


def test_views_keep_their_layout():
    """Sums over another layout have other bits."""
    torch.manual_seed(1)
    data = list(torch.randn(6, 1001))
    ours, torchs = (list(make(data, batch_size=3, collate_fn=layouts, num_workers=1, multiprocessing_context="fork"))
                    for make in (stoker.DataLoader, theirs.DataLoader))
    assert len(ours) == len(torchs) == 2
    for mine, other in zip(ours, torchs, strict=True):
        for name in other:
            assert mine[name].shape == other[name].shape and torch.equal(mine[name], other[name]), name
            if name == "few":                   # its holes would be most of what is copied
                assert mine[name].is_contiguous() and not other[name].is_contiguous()
            elif name != "none":
                assert mine[name].stride() == other[name].stride(), name
                assert mine[name].sum().item() == other[name].sum().item(), name


def collated(make, data, workers):
    try:
        [batch] = make(data, batch_size=len(data), num_workers=workers)
        return "batch", batch
    except Exception as e:
        text = [line for line in str(e).splitlines() if line]
        return "error", type(e).__name__, (text[0], text[-1]) if workers else str(e)


@pytest.mark.parametrize("workers", [0, 1])
def test_every_kind_of_sample_is_collated_as_by_torch(workers):
    """All in one data set of each worker: the kinds by batch."""
    for name, sample in ODD.items():
        data = [sample(i) for i in range(3)]
        ours, torchs = collated(stoker.DataLoader, data, workers), collated(theirs.DataLoader, data, workers)
        if torchs[0] == "batch":
            assert ours[0] == "batch" and type(ours[1]) is type(torchs[1]), (name, ours, torchs)
            batches = [dict(b[1]) if isinstance(b[1], dict) else b[1] for b in (ours, torchs)]
            assert repr(batches[0]) == repr(batches[1]), name
        else:
            assert ours == torchs, name


class Unfinished:
    """In a cycle that only the garbage collector ends; it notes where it was ended."""

    def __init__(self, path):
        self.path, self.me = path, self

    def __del__(self):
        with open(self.path, "a") as f:
            f.write(f"{os.getpid()}\n")


class Collecting(theirs.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        gc.collect()
        return i


def test_the_parents_garbage_is_not_ended_by_workers(tmp_path):
    """Its finalizers would run in a worker, in the middle of an import too, which importlib does not survive before Python 3.12."""
    path = tmp_path / "ended"
    for make in (stoker.DataLoader, stoker.Loader):
        gc.collect()
        gc.disable()
        try:
            Unfinished(str(path))
            assert len(list(make(Collecting(), batch_size=2, num_workers=1))) == 2
            assert not path.exists()
        finally:
            gc.enable()
        gc.collect()
        assert path.read_text() == f"{os.getpid()}\n"
        path.unlink()
