# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's test_dataloader.py and torchdata's state tests look at, one case for each of their classes: run with torch's
loader (or torchdata's StatefulDataLoader) and with Stoker's, and compared.  Nothing waits for a time: what has to come late waits
for what has to come early."""

import collections
import ctypes
import itertools
import json
import os
import re
import resource
import signal
import sys
import time
import warnings

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch")
from torch.utils import data as theirs  # noqa: E402
from torch.utils.data.datapipes.iter import IterableWrapper  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tests"))
from forked_python import TORCH, python  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_collections")
PATIENCE = 100                                  # seconds for what has to happen


class Counting(theirs.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return i


class CountingStream(theirs.IterableDataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __iter__(self):
        return iter(range(self.n))


class BySize(CountingStream):
    """Worker i gives `sizes[i]` samples."""

    def __init__(self, *sizes):
        super().__init__(sum(sizes))
        self.sizes = sizes

    def __iter__(self):
        return iter(range(self.sizes[theirs.get_worker_info().id]))


class Of(theirs.Dataset):
    """Samples by a function of their number."""

    def __init__(self, sample, n=8):
        self.sample, self.n = sample, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.sample(i)


class KeptList(list):
    pass


class KeptDict(dict):
    pass


Batch, Pair = collections.namedtuple("Batch", "data label drawn"), collections.namedtuple("Pair", "positive negative")


class OwnBatch:
    """With a pin_memory of its own."""

    def __init__(self, rows):
        self.x, self.pinned = torch.stack(rows), False

    def pin_memory(self):
        self.pinned = True
        return self


def plain(value):
    """With the types and bits of everything in it."""
    if isinstance(value, torch.Tensor):
        parts = value.unbind() if value.is_nested else ()
        return "tensor", str(value.dtype), tuple(value.shape) if not value.is_nested else (), [plain(p) for p in parts] or value.tolist()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(k, plain(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    if isinstance(value, OwnBatch):
        return "OwnBatch", plain(value.x), value.pinned
    return type(value).__name__, repr(value)


def all_of(make, data, epochs=1, **options):
    """Batches and warnings of some epochs; of an error its type and text."""
    loader = make(data, **options)
    found = []
    for _ in range(epochs):
        try:
            found += [plain(b) for b in loader]
        except Exception as e:
            lines = [line for line in str(e).splitlines() if line]
            found.append((type(e).__name__, lines[0], lines[-1]))
    return found


def bulk_order(n):
    return [x.tolist() for x in torch.randperm(n).split(4)]


def packed(rows):
    return torch.nn.utils.rnn.pack_padded_sequence(torch.stack(rows, 1), torch.randint(1, 5, (len(rows),)), enforce_sorted=False)


def lengths_warned(make):
    """torch warns for each batch beyond len(), once that was asked for."""
    loader = make(CountingStream(5), num_workers=2)
    found = []
    for asked in (False, True):
        if asked:
            found.append(len(loader))
        it = iter(loader)
        for _ in range(10):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                next(it)
            found.append([str(w.message).replace(hex(id(loader.dataset)), "") for w in said])
    return found


def not_set_again(make):
    """Persistent workers keep the data set that they were started with."""
    data = Counting(6)
    data.start = 0
    data.__class__ = type("Started", (Counting,), {"__getitem__": lambda self, i: (self.start, i)})
    found = []
    loader = make(data, num_workers=2, persistent_workers=True)
    for data.start in range(3):
        found += [plain(b) for b in loader]
    return found


def grown(make):
    data = [torch.ones(4)] * 4
    loaders = make(data), make(data, shuffle=True)
    data.append(torch.ones(4))
    return [len(one) for one in loaders]


def refused(make):
    loader, found = make(Counting(4)), []
    for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError) as e:
            setattr(loader, name, {})
        found.append(str(e.value))
    return found


def affinity(make):
    core = max(os.sched_getaffinity(0))
    return all_of(make, Of(lambda i: sorted(os.sched_getaffinity(0)), 2), num_workers=2,
                  worker_init_fn=lambda worker: os.sched_setaffinity(0, [core])) + [core]


def after_threads(make):
    """A worker is forked after this process computed with threads of its own."""
    def filtered(i):
        return torch.nn.functional.conv1d(torch.ones(1, 1, 24000), torch.ones(1, 1, 2)).sum()

    return all_of(make, Of(filtered, 2), num_workers=1)


def interleaved(make):
    """Two loaders at once."""
    one, two = iter(make(Counting(6), num_workers=1)), iter(make(Counting(6), num_workers=2, shuffle=True))
    return [plain(next(it)) for it in (one, one, two, two, one, two)]


def workers_of(make):
    """pids and numbers that get_worker_info() and _workers say."""
    it = iter(make(Of(lambda i: torch.tensor([theirs.get_worker_info().id, os.getpid()]), 6), num_workers=2))
    pids = [w.pid for w in it._workers]
    return [int(b[0, 1]) == pids[int(b[0, 0])] for b in it]


CASES = {
    "bulk": lambda make: all_of(make, Of(torch.as_tensor, 35), batch_size=None, sampler=bulk_order(35), num_workers=2),
    "no batches": lambda make: all_of(make, Counting(5), batch_size=None, num_workers=1),
    "streams without batches": lambda make: all_of(make, BySize(0, 4, 9), batch_size=None, num_workers=3, prefetch_factor=3),
    "streams": lambda make: all_of(make, BySize(0, 4, 20), batch_size=7, num_workers=3),
    "streams, full batches": lambda make: all_of(make, BySize(0, 4, 20), batch_size=7, num_workers=3, drop_last=True),
    "chained": lambda make: all_of(make, CountingStream(6) + CountingStream(3), num_workers=1),
    "chained wrongly": lambda make: all_of(make, theirs.ChainDataset([CountingStream(6), Counting(3)]), num_workers=1),
    "concatenated": lambda make: all_of(make, Counting(6) + Counting(3), batch_size=2, num_workers=1),
    "stacked": lambda make: all_of(make, theirs.StackDataset(a=Counting(6), b=theirs.TensorDataset(torch.arange(6.))), batch_size=4,
                                   num_workers=1),
    "split": lambda make: all_of(make, theirs.random_split(range(10), [0.3, 0.7], torch.Generator().manual_seed(42))[1], num_workers=1),
    "subsets of subsets": lambda make: all_of(make, theirs.Subset(theirs.Subset(range(10), [5, 1, 7]), [2, 0]), num_workers=1),
    "__iter__ fails": lambda make: all_of(make, Counting(3), collate_fn=None, num_workers=1,
                                          sampler=type("S", (theirs.Sampler,), {"__iter__": lambda self: 1 // 0})()),
    "kept types": lambda make: all_of(make, [KeptDict(a=1, b=2)] * 2, batch_size=2, num_workers=1)
    + all_of(make, [KeptList([1, 2, 3])] * 2, batch_size=2, num_workers=1)
    + all_of(make, [KeptDict(a=np.ones(2)), KeptList([1])], batch_size=None, num_workers=1) + all_of(make, [range(2)] * 2, num_workers=1),
    "named tuples": lambda make: all_of(make, Of(lambda i: Batch(Pair(i, -i), str(i), torch.randn(3))), batch_size=2, num_workers=1)
    + all_of(make, Of(lambda i: Batch(Pair(i, -i), str(i), torch.randn(3))), batch_size=None, num_workers=1),
    "scalars of NumPy": lambda make: [all_of(make, Of(lambda i, t=t: t(i)), batch_size=8, num_workers=1) for t in (
        np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint64, np.bool_, np.complex64)],
    "own batches": lambda make: all_of(make, [torch.ones(2)] * 4, batch_size=2, collate_fn=OwnBatch, num_workers=1),
    "packed sequences": lambda make: all_of(make, [torch.arange(5.)] * 4, batch_size=2, collate_fn=packed, num_workers=1),
    "nested tensors": lambda make: all_of(make, Of(lambda i: torch.nested.nested_tensor([torch.arange(3.), torch.ones(1) * i])),
                                          collate_fn=lambda rows: [r.clone() for r in rows], num_workers=2),
    "nested tensors, collated": lambda make: all_of(make, Of(lambda i: torch.nested.nested_tensor([torch.ones(3)])), num_workers=1),
    "individual workers": lambda make: all_of(make, Of(lambda i: (theirs.get_worker_info().id, i), 24), batch_size=4, num_workers=3,
                                              timeout=PATIENCE),
    "epochs": lambda make: all_of(make, Counting(4), epochs=3, shuffle=True, num_workers=2),
    "seeds": lambda make: all_of(make, Of(lambda i: torch.initial_seed(), 4), num_workers=2)
    + all_of(make, Of(lambda i: torch.initial_seed(), 4), num_workers=2, worker_init_fn=lambda worker: torch.manual_seed(12345)),
    "functions of one's own in pipes": lambda make: all_of(make, IterableWrapper([[1, 2, 3], [1, 2]]).filter(lambda row: len(row) == 3),
                                                           shuffle=True, num_workers=2),
    "length of streams": lambda make: [len(make(CountingStream(10), batch_size=n, drop_last=d)) for n in (1, 2, 3) for d in (False, True)],
    "longer than len()": lengths_warned, "set again": not_set_again, "grown": grown, "refused": refused, "affinity": affinity,
    "after threads": after_threads, "interleaved": interleaved, "workers": workers_of,
}


@pytest.mark.parametrize("name", CASES)
def test_as_in_torch(name):
    found = []
    for make in (stoker.DataLoader, theirs.DataLoader):
        torch.manual_seed(3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(CASES[name](make))
    assert found[0] == found[1] and found[0]


def overlapping(rows):
    x = torch.stack(rows)
    return {"input": x[:, :-1], "target": x[:, 1:], "flat": x.view(-1), "bits": x.view(torch.int32), "column": x[:, 50], "turned": x.t(),
            "doubled": [x[:2], x[:2]], "apart": (x[:2].clone(), x[4:].clone()), "whole": x, "again": x, "empty": x[:, :0],
            "spread": x[:, :1].expand(-1, 7)}


@pytest.mark.parametrize("batch_size", [6, None])
def test_views_of_one_memory_stay_views_of_it(batch_size):
    """What was written to one of them was not seen in the others."""
    torch.manual_seed(1)
    data = list(torch.randn(12, 101))
    data = [data[:6], data[6:]] if batch_size is None else data
    found = []
    for make in (stoker.DataLoader, theirs.DataLoader):
        found.append([])
        for batch in make(data, batch_size=batch_size, collate_fn=overlapping, num_workers=1, multiprocessing_context="fork"):
            batch["input"].mul_(2)
            batch["bits"][0, 3] = 5
            batch["column"] += 9
            batch["doubled"][1].neg_()
            assert batch["whole"] is batch["again"]
            found[-1].append([{k: plain(v) for k, v in batch.items()}, {k: v.stride() for k, v in batch.items() if torch.is_tensor(v)},
                              {k: v.storage_offset() for k, v in batch.items() if torch.is_tensor(v) and k not in ("whole", "again", "empty")}])
    assert found[0] == found[1] and len(found[0]) == 2


def test_views_far_apart_are_not_made_one_memory():
    """Two pairs of overlapping rows of 80 MB: 64 KB are copied, not all that lies between."""
    large = torch.arange(20_000_000, dtype=torch.float32)

    def few(rows):
        return large[:4000], large[2000:6000], large[-4000:], large[-6000:-2000], large[::5_000_000], large[1:][::5_000_000]

    it = iter(stoker.DataLoader([0, 1], collate_fn=few, num_workers=1, multiprocessing_context="fork"))
    batch = next(it)
    assert all(map(torch.equal, batch, few(None)))
    assert batch[0].untyped_storage().nbytes() < 100_000 and batch[4].untyped_storage().nbytes() < 100_000
    batch[0][3000] = -1
    assert batch[1][1000] == -1 and batch[3][3000] == large[-3000]


def test_views_in_a_data_set_that_is_pickled():
    data = Views()
    (found,) = stoker.DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context="forkserver")
    assert found.tolist() == [-1, 1, 2, 3]


class Views(theirs.Dataset):
    def __init__(self):
        self.whole = torch.arange(6)
        self.part = self.whole[:4]

    def __len__(self):
        return 4

    def __getitem__(self, i):
        self.part[0] = -1
        return self.whole[i]


# ---- workers that fail ---------------------------------------------------------------------------

ENDS = {
    "segfault": (lambda: ctypes.string_at(0), "is killed by signal: Segmentation fault. "),
    "kill": (lambda: os.kill(os.getpid(), signal.SIGKILL), "is killed by signal: Killed. "),
    "exit": (lambda: os._exit(3), "exited unexpectedly with exit code 3. "),
}


class Ending(Counting):
    def __init__(self, how):
        super().__init__(4)
        self.how = how

    def __getitem__(self, i):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        return ENDS[self.how][0]()


@pytest.mark.parametrize("how", ENDS)
def test_a_worker_that_ends_is_said_in_torchs_words(how):
    with pytest.raises(RuntimeError, match=rf"^DataLoader worker \(pid \d+\) {re.escape(ENDS[how][1])}worker 0 .* while making sample 0"):
        next(iter(stoker.DataLoader(Ending(how), num_workers=1, multiprocessing_context="fork")))


FEW_DESCRIPTORS = """
import resource, torch, stoker
resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
held = list(stoker.DataLoader([torch.ones(2, 2)] * 200, multiprocessing_context="fork", num_workers=1))
print(len(held), int(sum(b.sum() for b in held)))
"""

RAISES = """
import torch, stoker
class Empty(torch.utils.data.Dataset):
    def __len__(self): return 1_000_000
    def __getitem__(self, i): return torch.empty(0)
it = iter(stoker.DataLoader(Empty(), batch_size=40960, num_workers=1, multiprocessing_context="fork", persistent_workers={kept}))
for x in it:
    raise RuntimeError("My Error")
"""


def test_held_batches_need_no_descriptors():
    done = python(*TORCH).run(["-c", FEW_DESCRIPTORS])
    assert (done.returncode, done.stdout.split()) == (0, ["200", "800"]), done.stderr


@pytest.mark.parametrize("kept", [False, True])
def test_a_process_with_long_index_lists_ends(kept):
    done = python(*TORCH).run(["-c", RAISES.replace("{kept}", str(kept))])
    assert done.returncode == 1 and done.stderr.rstrip().endswith("RuntimeError: My Error")


# ---- in_order ------------------------------------------------------------------------------------

class Awaiting(theirs.Dataset):
    """Sample 0 is made when sample `last` was."""

    def __init__(self, folder, last):
        self.folder, self.last = folder, last

    def __len__(self):
        return 10

    def __getitem__(self, i):
        until = time.monotonic() + PATIENCE
        while i == 0 and not (self.folder / str(self.last)).exists():
            assert time.monotonic() < until
            time.sleep(0.005)
        (self.folder / str(i)).touch()
        return theirs.get_worker_info().id, i


class AwaitingStream(theirs.IterableDataset):
    """Two workers; the second one begins when the first one is over."""

    def __init__(self, folder):
        self.folder = folder

    def __iter__(self):
        me, until = theirs.get_worker_info().id, time.monotonic() + PATIENCE
        while me == 1 and not (self.folder / "over").exists():
            assert time.monotonic() < until
            time.sleep(0.005)
        yield from ((me, i) for i in range(5 * me, 5 * me + 5))
        (self.folder / "over").touch()


@pytest.mark.parametrize("make", [stoker.DataLoader, theirs.DataLoader])
def test_out_of_order_as_in_torch(make, tmp_path):
    """What is ready goes first: the order is torch's, where one worker has to wait for the other."""
    (tmp_path / "map").mkdir()
    found = [(int(w), int(i)) for w, i in make(Awaiting(tmp_path / "map", 9), num_workers=2, in_order=False)]
    assert found == [(1, i) for i in (1, 3, 4, 5, 6, 7, 8, 9)] + [(0, 0), (0, 2)]
    found = [(int(w), int(i)) for w, i in make(AwaitingStream(tmp_path), num_workers=2, in_order=False)]
    assert found == [(i // 5, i) for i in range(10)]


def test_in_order_whatever_is_ready(tmp_path):
    found = [(int(w), int(i)) for w, i in stoker.DataLoader(Awaiting(tmp_path, 3), num_workers=2)]
    assert found == [(i % 2, i) for i in range(10)]


# ---- torchdata's state tests -----------------------------------------------------------------------

class Drawn(theirs.Dataset):
    """A map-style data set that draws, and whose state is the generator."""

    def __len__(self):
        return 40

    def __getitem__(self, i):
        return [i, *torch.rand(2).tolist()]

    def state_dict(self):
        return {"g": torch.get_rng_state().tolist()}

    def load_state_dict(self, state):
        torch.set_rng_state(torch.tensor(state["g"], dtype=torch.uint8))


class Numbers:
    """An iterator with a state: draws with replacement from its numbers."""

    def __init__(self, numbers):
        self.numbers, self.at = numbers, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= len(self.numbers):
            raise StopIteration
        self.at += 1
        return self.numbers[int(torch.randint(len(self.numbers), ()))]

    def state_dict(self):
        return {"at": self.at, "g": torch.get_rng_state().tolist()}

    def load_state_dict(self, state):
        self.at = state["at"]
        torch.set_rng_state(torch.tensor(state["g"], dtype=torch.uint8))


class Sized(theirs.IterableDataset):
    """Shares of 20 and 9; its iterator has the state."""

    def __iter__(self):
        info = theirs.get_worker_info()
        shares = [range(20), range(20, 29)]
        return Numbers(list(shares[info.id]) if info else list(range(29)))


class ItsOwn(Numbers, theirs.IterableDataset):
    """The data set is the iterator."""

    def __init__(self):
        super().__init__(list(range(20)))


class Plain(theirs.IterableDataset):
    """Without a state: it is read again."""

    def __iter__(self):
        info = theirs.get_worker_info()
        return iter(range(info.id if info else 0, 29, info.num_workers if info else 1))


def first(rows):
    return rows


@pytest.mark.parametrize("data,workers,kept", [(d, w, k) for d in (Drawn, Sized, ItsOwn, Plain) for w, k in (
    (0, False), (2, False), (2, True))])
def test_states_as_torchdata_has_them(data, workers, kept):
    """After 0, 1 and 4 batches and at the end: the rest, and the next epoch, by way of JSON."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader

    batch_size = 4 if kept or not workers else None

    def made(make):
        options = {"batch_size": batch_size, "collate_fn": first, "num_workers": workers, "generator": torch.Generator().manual_seed(13)}
        if workers:
            options |= {"persistent_workers": kept, "multiprocessing_context": "fork"}
        order = {"sampler": theirs.RandomSampler(range(40), generator=options["generator"])} if data is Drawn else {}
        return make(data(), **options, **order)

    for n in (0, 1, 4, None):
        heads = []
        for make in (stoker.DataLoader, stateful):
            torch.manual_seed(2)
            loader = made(make)
            it = iter(loader)
            head = list(itertools.islice(it, n)) if n != 0 else []
            state = json.loads(json.dumps(loader.state_dict())) if make is stoker.DataLoader else loader.state_dict()
            rest = list(it)
            if n is None:                       # the end was seen: the state is that of the next epoch's beginning
                rest = list(loader)
            torch.manual_seed(2)
            again = made(make)
            again.load_state_dict(state)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                heads.append((head, rest))
                if make is stoker.DataLoader or n is not None:
                    assert list(again) == rest, (make, n)
            del it
        assert heads[0] == heads[1], n


def test_a_model_as_a_data_set_is_not_copied_with_each_batch():
    class Model(torch.nn.Module):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return i

        def state_dict(self, *args, **kwargs):
            raise AssertionError("its weights are asked for")

    for workers in (0, 1):
        assert len(list(stoker.DataLoader(Model(), num_workers=workers))) == 4
