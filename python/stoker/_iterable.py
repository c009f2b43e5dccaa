# SPDX-License-Identifier: Apache-2.0
"""Iterable data sets: batches read one after the other, by one worker or, where the data set asks for its worker's
number (get_worker_info), by all of them, each its own share.

Where the data set or its iterator has state_dict(), the state after each batch travels with it, and a resume begins
there.  Elsewhere a resume reads the samples again that were handed out before.
"""

from __future__ import annotations

import array
import contextlib
import copy
import itertools
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from . import _collate, _crew, _make, _options, _stoker, _wire, _worker
from .errors import invalid, shown


class Shape(NamedTuple):
    """What is read at a time."""

    rows: int
    rank: int = 0
    world: int = 1
    drop_last: bool = False
    single: bool = False


class Begin(NamedTuple):
    """Which batch of a worker is wanted, and a place before it where reading can begin."""

    life: int               # of the worker's reading: another one begins it again
    epoch: int
    batch: int              # the worker's batches of the epoch before this one
    known: int              # those that were handed out when this was sent, `read` samples, then `state`
    read: int
    state: Any              # of the data set; None: samples are read again
    shape: Shape
    number: int = 0         # of the worker


_END: Any = (None, -1)      # behind a sample, or nothing, that the iterator gave without an error


def _forgets(source: Any) -> bool:
    """Hugging Face's streams with a shuffle buffer: their state has not what is in the buffer."""
    if not type(source).__module__.startswith("datasets."):
        return False
    if type(source).__name__.startswith("BufferShuffled"):
        return True
    inner = [getattr(source, name, None) for name in ("_ex_iterable", "ex_iterable")] + list(getattr(source, "ex_iterables", ()))
    return any(_forgets(one) for one in inner if one is not None)


class Cursor:
    """One worker's place in an iterable.

    A batch may be asked for again: it could not be collated or sent, or a signal's handler raised.  Then the iterable
    is read again from a place that is known.  One that is its own iterator can't be: what was read of it is kept until
    it is known to be handed out.
    """

    def __init__(self, maker: _make.Maker, begin: Begin) -> None:
        self._maker, self._begin, self._dataset = maker, begin, maker.recipe.dataset
        self.life, self.at = begin.life, -1     # -1: in the middle of a batch
        self._exact = not _forgets(self._dataset)   # its states say all
        self.read = 0                           # samples
        if maker.recipe.epochs and callable(getattr(self._dataset, "set_epoch", None)):
            self._dataset.set_epoch(begin.epoch)
        start = self._start()
        if start is not None and callable(getattr(self._dataset, "load_state_dict", None)):
            self._dataset.load_state_dict(start)
        self._seed()
        self._iterator: Iterator[Any] = iter(self._dataset)
        if begin.state is not None:
            inner = callable(getattr(self._iterator, "load_state_dict", None))
            if inner:
                self._iterator.load_state_dict(begin.state[0])      # type: ignore[attr-defined]
            if inner or callable(getattr(self._dataset, "load_state_dict", None)):
                self.read = begin.state[1]      # else it has lost the way to take up a state, and is read again
        self._first = self.read
        self._once = self._iterator is self._dataset and not callable(getattr(self._dataset, "load_state_dict", None))
        self._cached: deque[tuple[Any, int]] = deque()    # of a data set that is its own iterator: samples and their numbers
        self._source = zip(self._iterator, itertools.count(self.read), strict=False)    # a number is drawn with its sample
        self._broke: BaseException | None = None
        self.over = False                       # the last batch was not full

    def _start(self) -> Any:
        """The data set's state at the place; at the epoch's start the one it had when that was opened first."""
        maker, begin = self._maker, self._begin
        if begin.state is not None:
            return begin.state[0]
        if maker.initial is not None and maker.initial[0] == begin.epoch:
            return maker.initial[1]
        maker.initial = begin.epoch, None
        if callable(getattr(self._dataset, "state_dict", None)):
            with contextlib.suppress(Exception):
                maker.initial = begin.epoch, self._dataset.state_dict()
        return None

    def goes_back(self, begin: Begin) -> bool:
        """A data set that is its own iterator, to a sample that is kept or that comes later; else it is opened again."""
        if not self._once or begin.epoch != self._begin.epoch:
            return False
        self._drop_end()
        first = self._cached[0][1] if self._cached else self.read
        if begin.read < first:
            invalid(f"the data set is its own iterator: it stands at sample {first} and can't go back to {begin.read}: give an object "
                    f"whose __iter__() begins again")
        self.read = min(begin.read, self._cached[-1][1] + 1 if self._cached else first)
        self._begin, self.life, self.over = begin, begin.life, False
        return True

    def _begun(self) -> None:
        """Hugging Face's streams would begin at a state again in later loops over its epoch."""
        if getattr(self._dataset, "_starting_state_dict", None) is not None:
            self._dataset._starting_state_dict = None

    def place(self) -> array.array[int]:
        return array.array("Q", [self.read | self._begin.number << 48])

    def _seed(self) -> None:
        recipe = self._maker.recipe
        if not recipe.pure:
            self._maker.seeder.seed(_stoker.addresses(recipe.seed, self._begin.epoch, self.place())[0])

    def _next(self) -> Any:
        """The next sample; StopIteration is the caller's."""
        if not self._once:
            self._seed()
            value = next(self._iterator)
        else:
            self._drop_end()
            if not self._cached or self.read > self._cached[-1][1]:
                self._take()
            value = self._cached[self.read - self._cached[0][1]][0]
        if self.read == self._first:
            self._begun()
        self.read += 1
        return value

    def _take(self) -> None:
        """From the iterator to what is kept, where no signal's handler can come between."""
        before = len(self._cached)
        self._seed()
        taken = itertools.chain(itertools.islice(self._source, 1), (_END,))     # not below: a handler that raises there is not the data set's
        try:
            self._cached.extend(taken)
        except BaseException as e:
            if not self._cached or self._cached[-1] is not _END:    # else a handler raised, after it
                self._broke = e
            raise
        self._drop_end()
        if len(self._cached) == before:
            if self._broke is not None:
                raise RuntimeError(f"the data set is its own iterator, raised {type(self._broke).__name__} at sample {self.read} and "
                                   f"gives no more: give an object whose __iter__() begins again") from self._broke
            raise StopIteration
        self._broke = None

    def _drop_end(self) -> None:
        if self._cached and self._cached[-1] is _END:
            self._cached.pop()

    def rows(self, begin: Begin) -> tuple[list[Any], bool]:
        """(the rank's rows of the next global batch, whether they are its own); none: it is over."""
        self._begin = begin
        self._drop_end()
        while self._cached and self._cached[0][1] < begin.read:
            self._cached.popleft()
        first, mine, own, n = None, [], False, begin.shape.rows
        low, high = begin.shape.rank * n, (begin.shape.rank + 1) * n
        for i in range(begin.shape.world * n):
            try:
                value = self._next()
            except StopIteration:
                if begin.shape.drop_last:
                    return [], False            # the global batch is not full
                self.over = True
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
                made = save()                   # in this process it may be the data set's own dict
                return made if _worker.get_worker_info() is not None else copy.deepcopy(made), self.read
        return None

    def forward(self, begin: Begin) -> None:
        """From where reading can begin to the batch that is wanted."""
        try:
            while self.read < begin.read:
                self._next()
        except StopIteration:
            raise ValueError(f"{begin.read} samples of the data set were handed out when the state was taken, and it has {self.read} "
                             f"now: give the same data set") from None
        for _ in range(begin.batch - begin.known):
            if not self.rows(begin)[0]:
                return


def _opened(maker: _make.Maker, begin: Begin) -> Cursor:
    stream: Cursor | None = maker.stream
    if stream is None or (stream.life, stream.at) != (begin.life, begin.batch):
        if stream is None or not stream.goes_back(begin):
            stream = maker.stream = Cursor(maker, begin)
        stream.at = -1
        stream.forward(begin)
    stream.at = -1
    return stream


def make(maker: _make.Maker, task: _make.Task, slot: _stoker.Slot) -> tuple[Any, int]:
    info, begin = _worker.get_worker_info(), task.stream
    try:
        if maker.broken == begin.life:
            raise RuntimeError("a batch before this one failed")    # no one asks for it
        stream = _opened(maker, begin)
        first = stream.place()
        samples, own = stream.rows(begin)
        asked = info is not None and info.asked
        if not samples:
            stream.at = begin.batch + 1
            return _make.End(asked), _wire.DATA
        place = _collate.SlotMemory(slot, len(samples), maker.recipe.collate)
        state = None if stream.over else stream.state(), asked, stream.read, stream.over
        if begin.shape.single:
            made = _make.Made(maker.recipe.collate(samples[0]), (), None, None, state, 1)
        else:
            rows = samples if maker.recipe.own else [place.lighter(s) for s in samples]
            batch = maker.collated(rows, place, task.epoch, first)
            lost = () if own else tuple(range(len(samples)))
            made = _make.Made(batch, lost, None, getattr(maker.recipe.collate, "lengths", None), state, len(samples))
    except Exception as e:
        maker.broken = begin.life
        raise _make.bad(None, e) from e
    stream.at = begin.batch + 1
    return made, place.end


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


class Reader:
    """Where the workers of an iterable are; batches come from them in turn.

    A place is what a state saves.  There is one after each number of batches that were handed out, and the consumer
    says that number: so what is made and not yet handed out changes nothing.
    """

    _lives = itertools.count(1)

    def __init__(self, shape: Shape, workers: int, everyone: bool = False) -> None:
        self._shape, self._workers = shape, workers
        self._everyone = everyone               # all workers read from the start, as torch has it
        self._ready = self._fresh()
        self.begin(0, 0)

    def _fresh(self) -> dict[str, Any]:
        active = self._workers if self._everyone else 1
        return {"active": active, "workers": self._workers, "turn": 0, "batches": [0] * active, "read": [0] * active,
                "states": [None] * active, "over": [False] * active, "asked": True if self._everyone else None}

    def begin(self, epoch: int, position: int) -> None:
        """A loop begins: at its start, or where load() says."""
        now = self._ready if position else self._fresh()
        self._epoch, self._ready = epoch, self._fresh()
        self._places = {0: now}                 # batches handed out -> the place after them
        self._lanes: dict[int, tuple[int, deque[Any]]] = {w: (next(self._lives), deque()) for w in range(self._workers)}    # a worker's life and tickets

    def place(self, given: int) -> dict[str, Any]:
        """After so many batches of this loop."""
        return self._places[given]

    @property
    def ready(self) -> dict[str, Any]:
        """Where the next loop begins."""
        return self._ready

    def saved(self, running: bool) -> dict[str, Any]:
        return _copied(self._places[max(self._places)] if running else self._ready)

    def load(self, state: Any, position: int, samples: int | None = None) -> None:
        """position: 0 at the start of an epoch; samples: that were read, where the caller counts them too."""
        if state is None and position:
            invalid("the state has no place in an iterable data set: it is of another kind of data")
        if not position:
            self._ready = self._fresh()
            return
        _check_place(state)
        if samples not in (None, sum(state["read"])):
            invalid(f"the state is damaged: stream reads {sum(state['read'])} samples, and its position is {samples}")
        then = state["workers"]
        if state["asked"] and then != self._workers:
            invalid(f"the state is of {then} workers that share the samples among them, and this loader has "
                    f"{self._workers}: give num_workers={then}")
        if all(s is None for s in state["states"]):
            warn_once("forward", "this data set has no state_dict(), or one without the content of its shuffle buffer: the samples "
                                 "that were handed out are read again")
        self._ready = _copied(state)

    def next(self, crew: Any, wait: Callable[[Any, Any], Any], given: int | None = None) -> _make.Made:
        """The batch after `given` were handed out; None: all that were made."""
        given = max(self._places) if given is None else given
        while True:
            now = self._places[given]
            if all(now["over"]):
                raise StopIteration
            self._fill(crew, now)
            worker = now["turn"]
            ticket = self._lanes[worker][1][0]
            try:
                made = wait(crew, ticket)
            except BaseException:
                if ticket.failed:               # not a signal's handler: the worker's batches are asked for again
                    self._lanes[worker] = next(self._lives), deque()
                raise
            now = self._spread(now, made, crew)
            if isinstance(made, _make.Made):
                state, _, read, over = made.state
                after = _changed(now, worker, batches=now["batches"][worker] + 1, states=state, read=read, over=over)
                self._places = {given: now, given + 1: _turned(after, worker)}
                return made
            self._places = {given: _turned(_changed(now, worker, over=True), worker)}

    def failed(self) -> bool:
        """Whether the batch that comes next is left out: never, it is asked for again."""
        return False

    def _spread(self, now: dict[str, Any], made: Any, crew: Any) -> dict[str, Any]:
        """The first batch says whether the data set shares its samples among workers itself."""
        asked = bool(made.asked if isinstance(made, _make.End) else made.state[1])
        if now["asked"] is False and asked and now["workers"] != self._workers:
            invalid(f"the data set shares its samples among {self._workers} workers, and the state is of num_workers="
                    f"{now['workers']}: give that number")
        if now["asked"] is not None:
            return {**now, "asked": now["asked"] or asked}
        more = self._workers - 1 if asked and isinstance(crew, _crew.Processes) else 0
        fresh = {"batches": 0, "read": 0, "states": None, "over": False}
        return {**now, **{name: now[name] + [value] * more for name, value in fresh.items()}, "asked": asked,
                "active": 1 + more}

    def _fill(self, crew: Any, now: dict[str, Any]) -> None:
        for worker in range(now["active"]):
            tickets = self._lanes[worker][1]
            while tickets and tickets[0].task.stream.batch < now["batches"][worker]:
                tickets.popleft()               # handed out
            most = 2 if crew.ahead and now["asked"] is not None else int(worker == now["turn"])
            while len(tickets) < most and not now["over"][worker]:
                tickets.append(self._send(crew, now, worker))

    def _send(self, crew: Any, now: dict[str, Any], worker: int) -> Any:
        life, tickets = self._lanes[worker]
        known = now["batches"][worker]
        begin = Begin(life, self._epoch, known + len(tickets), known, now["read"][worker], now["states"][worker], self._shape,
                      worker)
        number = worker if isinstance(crew, _crew.Processes) else None
        return crew.submit(_make.Task(self._epoch, self._shape.rows, b"", stream=begin), number)


_EACH = ("batches", "read", "states", "over")   # of a place: one for each worker


def _copied(place: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, (list, tuple)) else v for name, v in place.items()}


def _changed(place: dict[str, Any], worker: int, **values: Any) -> dict[str, Any]:
    """A place with other values of one worker."""
    return {**place, **{n: [v if w == worker else was for w, was in enumerate(place[n])] for n, v in values.items()}}


def _turned(place: dict[str, Any], worker: int) -> dict[str, Any]:
    """A place where the turn has gone on from a worker."""
    later = [(worker + step) % place["active"] for step in range(1, place["active"] + 1)]
    return {**place, "turn": next((w for w in later if not place["over"][w]), 0)}


def _check_place(state: Any) -> None:
    if not isinstance(state, Mapping):
        invalid(f"the state is damaged: stream is {shown(state)[:80]}")
    if "read" not in state:
        invalid("the state counts batches of the iterable, as Stoker 0.2 did, and not samples: finish the epoch with that version")
    missing = [name for name in ("active", "workers", "turn", "asked", *_EACH) if name not in state]
    if missing:
        invalid(f"the state is not whole: stream has no {', '.join(missing)}")
    active = _options.whole("the state's active", state["active"], 1, 2**16)
    _options.whole("the state's workers", state["workers"], 1, 2**16)
    _options.whole("the state's turn", state["turn"], 0, active - 1)
    for name in _EACH:
        if not isinstance(state[name], (list, tuple)) or len(state[name]) != active:
            invalid(f"the state is damaged: {name} of stream is {shown(state[name])[:80]}, for {active} workers")
    for number in (*state["batches"], *state["read"]):
        _options.whole("the state's count", number, 0, 2**48 - 1)
    for one in state["states"]:
        if one is not None and (not isinstance(one, (list, tuple)) or len(one) != 2):
            invalid(f"the state is damaged: a worker's state is {shown(one)[:80]}")
