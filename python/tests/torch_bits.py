# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader against torch's, bit for bit: random argument sets, data sets that draw, loops that stop early.

    python torch_bits.py FROM TO [SHARE]     sets FROM to TO - 1; one in SHARE of those with workers is spawned, one comes
                                             from a fork server
"""

import gc
import itertools
import os
import random
import signal
import sys
import traceback
import warnings

import numpy as np
import torch
from torch.utils import data as theirs

import stoker


class Draws:
    """What a sample is made of: its number and draws of all generators, in an order and of sizes that a seed says."""

    def __init__(self, seed, n):
        r = random.Random(seed)
        self.n, self.kinds = n, r.sample(["random", "numpy", "torch"], r.randint(0, 3))
        self.size = r.choice([1, 3, 312, 624, 4000])
        self.shape = r.choice(["tuple", "dict", "tensor", "list"])
        self.bad = r.choice([None, None, None, r.randrange(max(n, 1))])
        self.own = None                     # a generator that worker_init_fn sets

    def made(self, i):
        if i == self.bad:
            raise ValueError(f"sample {i} is bad")
        drawn = []
        for kind in self.kinds:
            if kind == "random":
                drawn.append(random.random() if i % 2 else random.gauss(0, 1))
            elif kind == "numpy":
                drawn.append(np.random.rand(self.size))
            else:
                drawn.append(torch.rand(self.size, 2))
        if self.own is not None:
            drawn.append(self.own.random())
        if self.shape == "tensor":
            return torch.cat([torch.tensor([float(i)]), *(torch.as_tensor(d, dtype=torch.float64).reshape(-1) for d in drawn)])
        if self.shape == "dict":
            return {"i": i, "name": f"s{i}", "flag": i % 3 == 0, **{f"d{k}": d for k, d in enumerate(drawn)}}
        return [i, *drawn] if self.shape == "list" else (i, np.int32(i), *drawn)


class Map(Draws, theirs.Dataset):
    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.made(int(i))


class Many(Map):
    def __getitems__(self, indices):
        first = random.random()
        return [self.made(int(i)) if self.shape == "tensor" else (first, self.made(int(i))) for i in indices]


class Stream(Draws, theirs.IterableDataset):
    """Every worker gives all samples."""

    def __iter__(self):
        for i in range(self.n):
            yield self.made(i)


class Uneven(Stream):
    def __iter__(self):
        info = theirs.get_worker_info()
        return (self.made(i) for i in range(self.n + (5 * info.id if info else 0)))


class Sharded(Stream):
    def __len__(self):
        return self.n

    def __iter__(self):
        info = theirs.get_worker_info()
        numbers = list(range(self.n))
        random.shuffle(numbers)
        return (self.made(i) for i in numbers[info.id if info else 0::info.num_workers if info else 1])


class Eager(theirs.Sampler):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __iter__(self):
        return iter(torch.randperm(self.n).tolist())


class Lazy(Eager):
    def __iter__(self):
        for _ in range(self.n):
            yield int(torch.randint(self.n, ())) if random.random() < 0.5 else np.random.randint(self.n)


def start_random(worker):
    random.seed(worker)


def start_own(worker):
    theirs.get_worker_info().dataset.own = np.random.default_rng(theirs.get_worker_info().seed + worker)


def as_list(samples):
    return {"n": len(samples), "samples": samples}


def arguments(r, iterable, n):
    """(a function that makes the arguments afresh, whether a generator is among them)."""
    seed, workers = r.randrange(1000), r.choice([0, 1, 2, 3])
    o = {"batch_size": r.choice([None, 1, 2, 3, 7]), "num_workers": workers}
    if o["batch_size"] is not None:
        o["drop_last"] = r.random() < 0.3
    if workers:
        o["prefetch_factor"], o["persistent_workers"] = r.choice([None, 1, 3]), r.random() < 0.4
        o["worker_init_fn"] = r.choice([None, None, start_random, start_own])
        o["timeout"] = r.choice([0, 300])
    if r.random() < 0.2:
        o["collate_fn"] = as_list if o["batch_size"] is not None else tuple
    order = "none" if iterable or not n else r.choice(["none", "shuffle", "list", "random", "replace", "weights", "subset", "eager",
                                                       "lazy", "batches", "random batches"])
    with_generator = r.random() < 0.4
    if "batches" in order:
        o.pop("drop_last", None)
        o.pop("batch_size")
    numbers = r.sample(range(n), r.randint(0, n)) if n else []

    def made():
        g = torch.Generator().manual_seed(seed) if with_generator else None
        extra = {"shuffle": {"shuffle": True}, "list": {"sampler": numbers}, "random": {"sampler": lambda: theirs.RandomSampler(
            range(n), generator=g)}, "replace": {"sampler": lambda: theirs.RandomSampler(range(n), True, 2 * n, g)},
            "weights": {"sampler": lambda: theirs.WeightedRandomSampler([1.0 + i for i in range(n)], n, generator=g)},
            "subset": {"sampler": lambda: theirs.SubsetRandomSampler(numbers, g)}, "eager": {"sampler": lambda: Eager(n)},
            "lazy": {"sampler": lambda: Lazy(n)}, "batches": {"batch_sampler": [numbers[i:i + 3] for i in range(0, len(numbers), 3)]},
            "random batches": {"batch_sampler": lambda: theirs.BatchSampler(theirs.RandomSampler(range(n)), 4, False)}}.get(order, {})
        return {**o, "generator": g, **{k: v() if callable(v) else v for k, v in extra.items()}}, g

    return made


def plain(value):
    """With the type and bits of everything in it."""
    if isinstance(value, torch.Tensor):
        return "tensor", str(value.dtype), tuple(value.shape), value.contiguous().numpy().tobytes()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return type(value).__name__, [(k, plain(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    return type(value).__name__, repr(value)


def run(make, data, made, seed, stops, context):
    """Everything that a program sees of two epochs."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    options, generator = made()
    if context is not None and options["num_workers"]:
        options["multiprocessing_context"] = context
    loader = make(data, **options)
    seen = []
    for stop in stops:
        it = iter(loader)
        for _ in itertools.islice(itertools.count(), stop):
            try:
                batch = next(it)
            except StopIteration:
                seen.append("end")
                break
            except Exception as e:
                seen.append((type(e).__name__, str(e).splitlines()[0]))
                continue
            seen.append(plain(batch))
            random.random(), torch.rand(3), np.random.rand(2)      # as a training step does
        del it
    seen.append((torch.rand(1).item(), random.random(), np.random.rand(), None if generator is None else
                 torch.rand(1, generator=generator).item()))
    return seen


def compare(number, context="fork", torchs="fork"):
    """One set, and its arguments; context, torchs: the start methods of both sides, which draw the same."""
    r = random.Random(number)
    kind = r.choice([Map, Map, Many, Stream, Uneven, Sharded])
    n = r.choice([0, 1, 5, 12, 23, 30])
    seed = r.randrange(10**6)
    made = arguments(r, issubclass(kind, Stream), n)
    stops = [r.choice([None, None, 0, 1, 4]), None]
    if issubclass(kind, Stream) and made()[0].get("persistent_workers"):
        stops[0] = None     # torch: what workers read ahead after another one has ended depends on when that is heard
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = run(theirs.DataLoader, kind(seed, n), made, seed, stops, torchs)
        found = run(stoker.DataLoader, kind(seed, n), made, seed, stops, context)
    if found == expected:
        return made()[0]
    at = next((i for i, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))   # noqa: B905
    raise AssertionError(f"set {number}: {kind.__name__} of {n}, {made()[0]}, stops {stops}, {context}: differs at {at} of "
                         f"{len(found)} and {len(expected)}: {str(found[at:at + 1])[:300]} {str(expected[at:at + 1])[:300]}")


def main(first, past, share):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    failed = 0
    gc.freeze()
    gc.disable()                                # or workers that are forked would end torch's iterators of this process
    for number in range(first, past):
        context = {0: "spawn", 1: "forkserver"}.get(number % share, "fork")
        gc.collect()
        try:
            compare(number, context, context)
        except AssertionError as e:
            failed += 1
            print(e, flush=True)
        except Exception:
            failed += 1
            print(f"set {number}:", traceback.format_exc(), flush=True)
    print(f"torch_bits: {past - first} sets, {failed} differ", flush=True)
    return failed


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import torch_bits                           # by its name, which spawned workers import
    sys.exit(bool(torch_bits.main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 40)))
