# SPDX-License-Identifier: Apache-2.0
"""Iterable data sets: batches read one after the other, by one worker or, where the data set asks for its worker's
number (get_worker_info), by all of them, each its own share.

Where the data set or its iterator has state_dict(), the state after each batch travels with it, and a resume begins
there.  Elsewhere a resume reads the samples again that were handed out before.
"""

from __future__ import annotations

import array
import itertools
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import _collate, _crew, _make, _stoker, _wire, _worker
from .errors import invalid


class Begin(NamedTuple):
    """How a worker reads an epoch; a new `life` begins it again."""

    life: int
    epoch: int
    skip: int               # batches that are handed out already
    state: Any              # of the data set, after those; None: they are read again
    rank: int = 0
    world: int = 1
    drop_last: bool = False
    single: bool = False    # no batches
    number: int = 0         # of the worker


def _forgets(source: Any) -> bool:
    """Hugging Face's streams with a shuffle buffer: their state has not what is in the buffer."""
    if not type(source).__module__.startswith("datasets."):
        return False
    if type(source).__name__.startswith("BufferShuffled"):
        return True
    inner = [getattr(source, name, None) for name in ("_ex_iterable", "ex_iterable")] + list(getattr(source, "ex_iterables", ()))
    return any(_forgets(one) for one in inner if one is not None)


class Stream:
    """One worker's place in an iterable."""

    def __init__(self, dataset: Any, begin: Begin, seeder: Any, recipe: _make.Recipe) -> None:
        self._dataset, self._begin, self._seeder, self._recipe = dataset, begin, seeder, recipe
        self._exact = not _forgets(dataset)     # its states say all
        if recipe.epochs and callable(getattr(dataset, "set_epoch", None)):
            dataset.set_epoch(begin.epoch)
        self.read = 0                           # samples
        if begin.state is not None and callable(getattr(dataset, "load_state_dict", None)):
            dataset.load_state_dict(begin.state[0])
        self._seed()
        self._iterator: Iterator[Any] = iter(dataset)
        if begin.state is not None:
            if callable(getattr(self._iterator, "load_state_dict", None)):
                self._iterator.load_state_dict(begin.state[0])      # type: ignore[attr-defined]
            self.read = begin.state[1]
        self._first = self.read

    def _begun(self) -> None:
        """Hugging Face's streams would begin at a state again in later loops over its epoch."""
        if getattr(self._dataset, "_starting_state_dict", None) is not None:
            self._dataset._starting_state_dict = None

    def _seed(self) -> None:
        if not self._recipe.pure:
            position = array.array("Q", [self.read | self._begin.number << 48])
            self._seeder.seed(_stoker.addresses(self._recipe.seed, self._begin.epoch, position)[0])

    def _next(self) -> Any:
        self._seed()
        value = next(self._iterator)            # StopIteration is the caller's
        if self.read == self._first:
            self._begun()
        self.read += 1
        return value

    def rows(self, n: int) -> tuple[list[Any], bool]:
        """(the rank's rows of the next global batch, whether they are its own); none: it is over."""
        first, mine, own = None, [], False
        low, high = self._begin.rank * n, (self._begin.rank + 1) * n
        for i in range(self._begin.world * n):
            try:
                value = self._next()
            except StopIteration:
                if self._begin.drop_last:
                    return [], False            # the global batch is not full
                break
            if i == 0:
                first = value
            if low <= i < high:
                mine.append(value)
                own = True
        else:
            return mine, True
        if i > 0 and not mine:
            mine = [first]                      # the others have rows: this rank goes on with them
        return mine, own

    def state(self) -> Any:
        for one in (self._iterator, self._dataset):
            save = getattr(one, "state_dict", None)
            if callable(save) and self._exact:
                return save(), self.read
        return None

    def forward(self, n: int) -> None:
        for _ in range(n):
            if not self.rows(self.size)[0]:
                return

    size = 1                                    # rows of a batch


def _opened(maker: _make.Maker, task: _make.Task) -> Stream:
    begin: Begin = task.stream
    if maker._stream is None or maker._source != begin.life:
        made = Stream(maker.recipe.dataset, begin, maker.seeder, maker.recipe)
        made.size = task.indices
        if begin.state is None:
            made.forward(begin.skip)
        maker._stream, maker._source = made, begin.life     # type: ignore[assignment]
    return maker._stream                        # type: ignore[return-value]


def make(maker: _make.Maker, task: _make.Task, slot: _stoker.Slot) -> tuple[Any, int]:
    info = _worker.get_worker_info()
    try:
        stream = _opened(maker, task)
        samples, own = stream.rows(task.indices)
    except Exception as e:
        raise _make.bad(None, e) from e
    asked = info is not None and info.asked
    if not samples:
        return _make.End(asked), _wire.DATA
    place = _collate.Place(slot, len(samples))
    if task.stream.single:
        return _make.Made(maker.recipe.collate(samples[0]), (), None, None, (stream.state(), asked), 1), place.end
    rows = samples if maker.recipe.own else [place.lighter(s) for s in samples]
    batch = maker.collated(rows, place)
    lost = () if own else tuple(range(len(samples)))
    return _make.Made(batch, lost, None, getattr(maker.recipe.collate, "lengths", None), (stream.state(), asked),
                      len(samples)), place.end


# ---- the consumer's side -----------------------------------------------------------------------------

_warned: set[str] = set()


def warn_once(what: str, message: str) -> None:
    if what not in _warned:
        _warned.add(what)
        warnings.warn(message, stacklevel=4)


def warn_if_spent(dataset: Any, looped: bool) -> None:
    if looped and hasattr(dataset, "__next__"):
        warn_once("once", f"a {type(dataset).__name__} gives its samples once, and later loops what is left of them: give an object "
                          "whose __iter__() begins again")


class Shape(NamedTuple):
    """What is read at a time."""

    rows: int
    rank: int = 0
    world: int = 1
    drop_last: bool = False
    single: bool = False


class Reader:
    """Where the workers of an iterable are, as far as batches were handed out; batches come from them in turn."""

    _lives = itertools.count(1)

    def __init__(self, shape: Shape, workers: int, everyone: bool = False) -> None:
        self._shape, self._workers = shape, workers
        self._everyone = everyone               # all workers read from the start, as torch has it
        self._ready = self._fresh()
        self.begin(0, 0)

    def _fresh(self) -> dict[str, Any]:
        active = self._workers if self._everyone else 1
        return {"active": active, "turn": 0, "batches": [0] * active, "states": [None] * active, "over": [False] * active,
                "asked": True if self._everyone else None}

    def begin(self, epoch: int, position: int) -> None:
        """A loop begins: at its start, or where load() says."""
        self._epoch, self.position = epoch, position
        self._now, self._ready = self._ready if position else self._fresh(), self._fresh()
        self._life = next(self._lives)
        self._tickets: deque[tuple[int, Any]] = deque()

    def saved(self, running: bool) -> dict[str, Any]:
        now = self._now if running else self._ready
        return {name: list(v) if isinstance(v, list) else v for name, v in now.items()}

    def load(self, state: Any, position: int) -> None:
        if state is None:
            if position:
                invalid("the state has no place in an iterable data set: it is of another kind of data")
            state = self._fresh()
        if state["active"] > self._workers or self._everyone and state["active"] != self._workers:
            invalid(f"the state is of {state['active']} workers that share the samples among them, and this loader has "
                    f"{self._workers}: give num_workers={state['active']}")
        if position and all(s is None for s in state["states"]):
            warn_once("forward", "this data set has no state_dict(), or one without the content of its shuffle buffer: the samples "
                                 "that were handed out are read again")
        self._ready = {name: list(v) if isinstance(v, list) else v for name, v in state.items()}

    def next(self, crew: Any, wait: Callable[[Any, Any], Any]) -> _make.Made:
        now = self._now
        while True:
            if all(now["over"]):
                raise StopIteration
            self._fill(crew)
            worker, ticket = self._tickets[0]
            made = wait(crew, ticket)
            if now["asked"] is None:
                self._spread(made, crew)
            if isinstance(made, _make.End):
                now["over"][worker] = True
                self._tickets = deque(t for t in self._tickets if t[0] != worker)
                now["turn"] = self._after(worker)
                continue
            self._tickets.popleft()
            now["batches"][worker] += 1
            now["states"][worker] = made.state[0]
            now["turn"] = self._after(worker)
            self.position += made.rows
            return made

    def failed(self) -> bool:
        """Whether the batch that comes next is an error that was raised; it is skipped then."""
        if not self._tickets or not self._tickets[0][1].failed:
            return False
        self._now["turn"] = self._after(self._tickets.popleft()[0])
        return True

    def _after(self, worker: int) -> int:
        active = self._now["active"]
        for step in range(1, active + 1):
            if not self._now["over"][(worker + step) % active]:
                return (worker + step) % active
        return 0

    def _spread(self, made: Any, crew: Any) -> None:
        """The first batch says whether the data set shares its samples among workers itself."""
        now = self._now
        now["asked"] = bool(made.asked if isinstance(made, _make.End) else made.state[1])
        if now["asked"] and isinstance(crew, _crew.Processes) and self._workers > 1:
            more = self._workers - 1
            now["active"] = self._workers
            for name, value in (("batches", 0), ("states", None), ("over", False)):
                now[name] += [value] * more

    def _fill(self, crew: Any) -> None:
        now = self._now
        most = 1 if not crew.ahead or now["asked"] is None else 2 * (now["active"] - sum(now["over"]))
        worker = self._after(self._tickets[-1][0]) if self._tickets else now["turn"]
        while len(self._tickets) < max(most, 1):
            self._tickets.append((worker, self._send(crew, worker)))
            worker = self._after(worker)

    def _send(self, crew: Any, worker: int) -> Any:
        now, shape = self._now, self._shape
        begin = Begin(self._life, self._epoch, now["batches"][worker], now["states"][worker], shape.rank, shape.world,
                      shape.drop_last, shape.single, worker)
        number = worker if isinstance(crew, _crew.Processes) else None
        return crew.submit(_make.Task(self._epoch, shape.rows, b"", stream=begin), number)
