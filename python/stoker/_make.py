# SPDX-License-Identifier: Apache-2.0
"""One batch of a Python data set: samples fetched one by one, each with its own seed, and collated into a slot.

The same code makes it in the caller's thread, in thread workers and in worker processes.
"""

from __future__ import annotations

import bisect
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from . import _collate, _stoker
from ._seeds import Seeder

IDLE = 2**64 - 1                                # in a worker's line of the control slot: no sample is being made
_COLLATE = 0x636f6c6c617465                     # makes the seeds of batches other than those of samples


class Recipe(NamedTuple):
    """What workers are given once."""

    dataset: Any
    collate: Any            # TorchCollate, Collate, or a function of the user's own
    own: bool               # `collate` is the user's: it gets the samples and knows no slot
    single: bool            # no batches: the sample itself, converted
    seed: int
    pure: bool              # nothing is drawn, or samples are not to be seeded
    workers: int
    start: Callable[[int], None] | None = None  # worker_init_fn
    epochs: bool = False    # the data set hears of each epoch, where it has set_epoch()
    server: Any = None      # a worker's whole work, in place of filling slots: _calls.CallServer
    process: Any = None     # of stoker.DataLoader: the class of its workers' Process objects.  They have draws of their own, so that
                            # no other takes the place of one that was idle, and complete their batch before they end


class Task(NamedTuple):
    epoch: int
    indices: Any            # list; of an iterable: how many samples
    positions: bytes        # u64 of each row
    replaced: tuple[tuple[int, int], ...] = ()      # (row, attempts so far): a worker died of it
    stream: Any = None      # of an iterable: how the epoch begins


class Bad(Exception):
    """A sample that could not be made; in the words of the worker."""

    def __init__(self, index: Any, kind: type[BaseException], text: str, trace: str, original: Any = None) -> None:
        super().__init__(text)
        self.index, self.kind, self.text, self.trace, self.original = index, kind, text, trace, original

    def __reduce__(self) -> Any:
        return Bad, (self.index, self.kind, self.text, self.trace)


def not_the_end(error: StopIteration) -> RuntimeError:
    """As in a generator: it would end the loop, and the rest of the epoch would be lost without a word."""
    made = RuntimeError("StopIteration was raised while a batch was made")
    made.__cause__ = error
    return made


def bad(index: Any, error: BaseException) -> Bad:
    if isinstance(error, StopIteration):
        error = not_the_end(error)
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Bad(index, type(error), str(error), trace, error)


def timer(recipe: Recipe) -> Callable[..., Any]:
    """What calls the functions that make a batch: of a data set that is watched (_watch.py) it notes how long they take."""
    watched = getattr(type(recipe.dataset), "stoker_fill", None)
    return (lambda fn, *args: fn(*args)) if watched is None else recipe.dataset.stoker_fill


class Several:
    """Map-style data sets one after the other."""

    def __init__(self, sets: list[Any]) -> None:
        self.sets = sets
        self.ends: list[int] = []
        for one in sets:
            self.ends.append((self.ends[-1] if self.ends else 0) + len(one))

    def __len__(self) -> int:
        return self.ends[-1]

    def __getitem__(self, i: int) -> Any:
        number = bisect.bisect_right(self.ends, i)
        return self.sets[number][i - (self.ends[number - 1] if number else 0)]


class Made(NamedTuple):
    batch: Any
    invalid: tuple[int, ...]                    # rows whose sample stands in for another
    indices: Any                                # that the rows have now; None: those of the task
    lengths: Any = None
    state: Any = None                           # of an iterable: (its state, the worker's number was asked for, samples read, over)
    rows: int = 0


class End(NamedTuple):
    """An iterable is over."""

    asked: bool = False


Ask = Callable[[int, Any, int, str], Any]       # row, index, attempt, reason -> another index, or raises


def one_by_one(dataset: Any, indices: Any, note: Callable[[int], None], place: _collate.SlotMemory | None,
               seed: Callable[[int], None] | None = None) -> list[Any]:
    """Samples; place: where their rows are stored at once, as far as they fit; seed: called before each with its row."""
    samples: list[Any] = []
    light, index = place is not None, None
    try:
        for row, index in enumerate(indices):
            note(row)
            if seed is not None:
                seed(row)
            sample = dataset[index]
            if light:
                sample = place.lighter(sample)      # type: ignore[union-attr]
                light = place.has_rows()            # type: ignore[union-attr]
            samples.append(sample)
    except Exception as e:
        raise bad(index, e) from e
    return samples


class Maker:
    def __init__(self, recipe: Recipe, shared: bool = False) -> None:
        self.recipe = recipe
        self.seeder = Seeder(shared)
        many = getattr(recipe.dataset, "__getitems__", None)
        self._many = many if callable(many) else None
        self.note: Callable[[int], None] = lambda row: None
        self.stream: Any = None                 # of an iterable: _iterable.Cursor
        self.broken = 0                         # the life in which a batch failed
        self.initial: Any = None                # (epoch, state of the data set when that was begun)
        self._epoch: int | None = None

    def make(self, task: Task, slot: _stoker.Slot, ask: Ask | None) -> tuple[Any, int]:
        """(Made or End, the end of what the slot has now)."""
        if task.stream is not None:
            from . import _iterable
            return _iterable.make(self, task, slot)
        if self.recipe.epochs and task.epoch != self._epoch:
            self._epoch = task.epoch
            hear = getattr(self.recipe.dataset, "set_epoch", None)
            if callable(hear):
                hear(task.epoch)
        addresses = None if self.recipe.pure else _stoker.addresses(self.recipe.seed, task.epoch, task.positions)
        place = _collate.SlotMemory(slot, len(task.indices), self.recipe.collate)
        if self.recipe.single:
            sample, index, other = self._one(task, 0, addresses, ask)
            return Made(self.recipe.collate(sample), (0,) * other, [index], rows=1), place.end
        samples, swapped, indices = self._samples(task, place, addresses, ask)
        self.note(IDLE)
        batch = self.collated(samples, place, task.epoch, task.positions)
        rows = len(task.indices) if self.recipe.own else len(samples)
        return Made(batch, swapped, indices, getattr(self.recipe.collate, "lengths", None), rows=rows), place.end

    def _given(self, samples: Any, n: int) -> Any:
        """What __getitems__ gave.  A collate function gets it as it is: it may be a batch already."""
        if isinstance(samples, Iterator):
            samples = list(samples)
        if self.recipe.own:
            return samples
        if isinstance(samples, (Mapping, str, bytes)):
            raise TypeError(f"__getitems__ returned a {type(samples).__name__}: without a collate function it returns a list of "
                            f"samples")
        samples = list(samples)
        if self.recipe.epochs and len(samples) != n:        # of stoker.Loader, which says which samples these are
            raise ValueError(f"__getitems__ returned {len(samples)} samples for {n} indices: it returns one for each")
        return samples

    def collated(self, samples: list[Any], place: _collate.SlotMemory, epoch: int, positions: Any) -> Any:
        """A function of the user's own is seeded too: by the position of the batch's first row."""
        try:
            if not self.recipe.own:
                return self.recipe.collate(samples, place)
            if self.recipe.epochs:              # of stoker.Loader
                self.seeder.seed(_stoker.addresses(self.recipe.seed ^ _COLLATE, epoch, positions[:8])[0])
            return self.recipe.collate(samples)
        except StopIteration as e:
            raise not_the_end(e) from e

    def _samples(self, task: Task, place: _collate.SlotMemory, addresses: list[int] | None,
                 ask: Ask | None) -> tuple[Any, tuple[int, ...], Any]:
        """Draws inside of one __getitems__() can't be told apart, so it is for data sets that are not seeded."""
        if self._many is not None and (addresses is None or not self.recipe.epochs) and not task.replaced:
            self.note(0)
            if addresses is not None:
                self.seeder.seed(addresses[0])
            try:
                return self._given(self._many(list(task.indices)), len(task.indices)), (), None
            except Exception as e:
                if ask is None:
                    raise bad(list(task.indices)[:8], e) from e     # else: one by one, to find which
        if ask is None:
            seed = None if addresses is None else lambda row: self.seeder.seed(addresses[row])
            return one_by_one(self.recipe.dataset, task.indices, self.note, None if self.recipe.own else place, seed), (), None
        samples, swapped, indices = [], [], None
        for row in range(len(task.indices)):
            sample, index, was = self._one(task, row, addresses, ask)
            if was:
                swapped.append(row)
                indices = list(task.indices) if indices is None else indices
                indices[row] = index
            samples.append(sample if self.recipe.own else place.lighter(sample))
        return samples, tuple(swapped), indices

    def _one(self, task: Task, row: int, addresses: list[int] | None, ask: Ask | None) -> tuple[Any, Any, bool]:
        """(sample, its index, whether it stands in for another)."""
        index, attempt = task.indices[row], dict(task.replaced).get(row, 0)
        swapped = attempt > 0
        self.note(row)
        while True:
            if addresses is not None:
                self.seeder.seed(addresses[row])
            try:
                return self.recipe.dataset[index], index, swapped
            except Exception as e:
                if ask is None:
                    raise bad(index, e) from e
                attempt += 1
                swapped = True
                index = ask(row, index, attempt, f"{type(e).__name__}: {e}")
