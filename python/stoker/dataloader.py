# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader: torch's DataLoader with Stoker's workers and ring.

It is a subclass: arguments, samplers, seeds, warnings and errors are torch's own code, so that batches are the same, bit
for bit.  Only the iterator over workers is ours (_Pass), and what num_workers=0 needs for states (_Alone).

A loader does not hold its running iterator, and the iterator does not hold the loader: workers end with the last reference
to the iterator.  Both hold an EpochPlace, which says what was handed out.
"""

from __future__ import annotations

import functools
import itertools
import multiprocessing
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch._utils import ExceptionWrapper
from torch.utils.data import IterDataPipe, MapDataPipe, _DatasetKind, dataloader as theirs, default_collate
from torch.utils.data._utils.pin_memory import pin_memory

from . import _collate, _crew, _iterable, _make, _stoker, _torchlike
from ._monitor import profiled
from ._places import Draws, EpochPlace, checked, shape_of
from .errors import ClosedError, StokerError, by_handler, invalid, shown

_T_co = TypeVar("_T_co", covariant=True)


class _Ours(str):
    """A pin_memory_device that Accelerate carries from a loader of ours to the one that it builds."""


class _AskedByAccelerate:
    """Accelerate builds a loader of torch's own class from the attributes of the one that it prepares.  It asks for
    `_is_accelerate_prepared` first: from then on the loader bears a mark, and the one that is built from it becomes ours."""

    def __get__(self, loader: Any, kind: Any = None) -> bool:
        if loader is not None:
            loader.pin_memory_device = _Ours(loader.pin_memory_device)
            adapter = sys.modules["accelerate.data_loader"].DataLoaderAdapter if "accelerate.data_loader" in sys.modules else None
            if adapter is not None and not hasattr(adapter, "_stoker"):
                _hook(adapter)
        return False


def _hook(adapter: Any) -> None:
    real = adapter.__init__

    @functools.wraps(real)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        real(self, *args, **kwargs)
        made = self.base_dataloader
        if not isinstance(getattr(made, "pin_memory_device", None), _Ours):
            return
        if type(made) is theirs.DataLoader:
            object.__setattr__(made, "__class__", DataLoader)
            self.dl_state_dict = made.state_dict()  # type: ignore[attr-defined]
        elif not isinstance(made, DataLoader):
            _iterable.warn_once("accelerate", f"Accelerate has made a {type(made).__name__} of a stoker.DataLoader: batches are the same "
                                             "and come from its workers, not from Stoker's")

    adapter.__init__, adapter._stoker = __init__, True


class DataLoader(theirs.DataLoader[_T_co]):
    """torch.utils.data.DataLoader with another engine: change the import and nothing else.

    The same batches, bit for bit, random numbers included (docs/python-data.md).  Beyond torch's: state_dict() and
    load_state_dict() resume within an epoch; batches are views of shared memory that is used again when they are gone.
    """

    _place: EpochPlace | None = None            # of the last loop
    _loaded: dict[str, Any] | None = None
    _is_accelerate_prepared = _AskedByAccelerate()

    if not TYPE_CHECKING:                       # to a checker the arguments are those of torch's
        def __new__(cls, dataset: Any = None, *args: Any, **kwargs: Any) -> Any:
            if isinstance(dataset, str):
                invalid(f"stoker.DataLoader takes a data set, not the path {shown(dataset)}: stoker.Loader(path, fields) reads files")
            return super().__new__(cls)

    def __iter__(self) -> Any:
        if self._loaded is not None and self._iterator is not None:
            self._iterator.stop()               # type: ignore[attr-defined]
            self._iterator = None
        return super().__iter__()

    def _get_iterator(self) -> Any:
        state, self._loaded = self._loaded, None
        if self.num_workers == 0:
            return _Alone(self, state)
        self.check_worker_number_rationality()
        return _Pass(self, state)

    # ---- state ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What was handed out of this epoch, the seeds of its order and workers, and the states of an iterable."""
        if self._loaded is not None:
            return dict(self._loaded)
        draws = Draws(self)
        if self._place is None:
            return EpochPlace(draws).state(shape_of(self), draws)
        return self._place.state(shape_of(self), draws)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop goes on after what `state` says was handed out."""
        self._loaded = checked(state, shape_of(self))

    def close(self) -> None:
        """End the workers now, not when the iterator goes."""
        running = self._place.running() if self._place is not None else None
        if running is not None:
            running.stop()
        self._iterator = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_place"}

    def __repr__(self) -> str:
        if "num_workers" not in self.__dict__:
            return f"<{type(self).__name__} that was not made: its constructor failed>"
        return (f"stoker.{type(self).__name__}({type(self.dataset).__name__}, batch_size={self.batch_size}, "
                f"num_workers={self.num_workers})")


class _Loop(_stoker.Giver):
    """One loop over a loader.  What was handed out is counted by C, so that a signal's handler that raises loses no batch.

    Steps count index lists of the sampler.  The batch of the step that is on offer stays in `_ready` until it is taken.
    """

    # torch's part of a class that is made of this one and torch's
    _dataset: Any
    _dataset_kind: Any
    _index_sampler: Any
    _num_workers: int
    _num_yielded: int
    _IterableDataset_len_called: Any
    _pin_memory: bool
    _pin_memory_device: Any

    _drawn: deque[tuple[int, Any]]              # (step, index) that no one has yet
    _numbered: Iterator[tuple[int, Any]] | None

    def _open(self, loader: DataLoader[Any], state: dict[str, Any] | None) -> None:
        """torch's own preparation: it draws the base seed, and a sampler may draw."""
        self._lock = threading.RLock()          # threads take turns
        self._ready: dict[int, tuple[Any]] = {}
        self._offer: tuple[Any, ...] | None = None
        self._over = self._stopped = False
        self._draws, self._generator = Draws(loader), loader.generator
        if state is not None and not state["reset"]:
            self._draws.set(state["start"])
        start = self._draws.get()
        theirs._BaseDataLoaderIter.__init__(self, loader)   # type: ignore[arg-type]
        if state is not None and state["reset"]:
            self._base_seed = state["base_seed"]
            self._draws.set(state["start"])
            start = state["start"]
        reset = state is not None and state["reset"]
        self.place = loader._place = EpochPlace(self._draws, start, self._base_seed, reset, self)
        if state is not None:
            self.place.load(state)

    def _begin(self, sampler_iter: Any) -> None:
        """Index lists from the first one that is needed on."""
        self._indices, self._drawn = sampler_iter, deque()
        found = {}
        if self._dataset_kind == _DatasetKind.Map:
            for step, index in zip(range(self.place.top), sampler_iter):    # noqa: B905
                if step in self.place.missing:
                    found[step] = index
        self._numbered = enumerate(sampler_iter, self.place.top)
        self._drawn.extend(sorted(found.items()))
        self._sent = -1 if found else self.place.top

    def _draw(self) -> bool:
        """One more index list.  C takes it from the sampler: a handler that raises comes before or after."""
        if self._numbered is None:
            self._replay()
        try:
            self._drawn.extend(itertools.islice(self._numbered, 1))     # type: ignore[arg-type]
        except BaseException as e:
            if not isinstance(e, Exception) or by_handler(e):
                self._numbered = None           # a generator that something is raised in has ended
            raise
        return bool(self._drawn)

    def _replay(self) -> None:
        """The sampler once more, as the epoch began."""
        now, n = self._draws.get(), max([self._sent, self.place.top, *(step + 1 for step, _ in self._drawn)])
        self._draws.set(self.place.start)
        fresh = iter(self._index_sampler)
        if not self.place.reset:                # as _BaseDataLoaderIter.__init__
            torch.empty((), dtype=torch.int64).random_(generator=self._generator)
        if self._num_workers:
            fresh = iter(self._index_sampler)
        numbered = enumerate(fresh)
        deque(itertools.islice(numbered, n), maxlen=0)
        if n:
            self._draws.set(now)                # else it has drawn nothing yet
        self._numbered = numbered

    @profiled
    def _make(self) -> tuple[Any, Any, tuple[int, None]]:
        with self._lock:
            self.settle()
            if self._offer is None:
                self._find()
            step = self._offer[0]               # type: ignore[index]
            return self._ready[step][0], self._ready.pop, (step, None)

    def settle(self) -> None:
        """Notes what was handed out since."""
        if self._offer is not None and self._offer[0] not in self._ready:
            self._took()

    def _took(self) -> None:
        self.place.took(*self._offer)           # type: ignore[misc]
        self._offer = None

    def _find(self) -> None:
        """The next batch into _ready, and what the place will say of it into _offer: step, worker, attempt, state."""
        if self._over:
            raise StopIteration
        if self._stopped:
            raise ClosedError("this iterator is over: its loader was closed", "ECLOSED")
        try:
            self._next()
        except StopIteration:
            self._over = True
            self.place.over = True
            self._ended()
            raise
        self._num_yielded += 1
        if self._dataset_kind == _DatasetKind.Iterable and self._IterableDataset_len_called is not None \
                and self._num_yielded > self._IterableDataset_len_called:
            self._warn_length()

    def _warn_length(self) -> None:
        """In torch's words."""
        said = (f"Length of IterableDataset {self._dataset} was reported to be {self._IterableDataset_len_called}"
                f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. ")
        if self._num_workers > 0:
            said += ("For multiprocessing data-loading, this could be caused by not properly configuring the "
                     "IterableDataset replica at each worker. Please see "
                     "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples.")
        warnings.warn(said, stacklevel=5)

    def _keep(self, step: int, batch: Any) -> None:
        self._ready.clear()
        self._ready[step] = (pin_memory(batch, self._pin_memory_device) if self._pin_memory else batch,)    # type: ignore[no-untyped-call]

    def _next(self) -> None:
        raise NotImplementedError

    def _ended(self) -> None:
        pass

    def stop(self) -> None:
        self._stopped = True


class _Alone(_Loop, theirs._SingleProcessDataLoaderIter):
    """num_workers=0: torch's fetcher makes the batch when it is asked for."""

    def __init__(self, loader: DataLoader[Any], state: dict[str, Any] | None) -> None:
        self._open(loader, state)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            torch.utils.data.graph_settings.apply_sharding(self._dataset, self._world_size, self._rank)
        self._begin(self._sampler_iter)
        self._stateful = self._dataset_kind == _DatasetKind.Map and _torchlike.has_state(self._dataset)
        if self._dataset_kind == _DatasetKind.Iterable:
            self._read_again()
        else:
            if self._stateful and 0 in self.place.workers:
                self._dataset.load_state_dict(self.place.workers[0][2])
            self._dataset_fetcher = _DatasetKind.create_fetcher(self._dataset_kind, self._dataset, self._auto_collation,    # type: ignore[no-untyped-call]
                                                                self._collate_fn, self._drop_last)
        if state is not None and state["now"] is not None:
            self._draws.set(state["now"])

    _attempt = 0
    _from: Any = None                           # the generators, as an iterable began to be read

    def _read_again(self) -> None:
        """An iterable from what was handed out on."""
        known, attempt, state = self.place.workers.get(0, (0, 0, None))
        now, again = self._draws.every(), self._from is not None
        if again:
            self._draws.put_every(self._from)
        self._from = self._draws.every()
        if attempt > known and not self._drawn:
            self._draw()
        made = functools.partial(_torchlike.open_stream, self._dataset, self._auto_collation, self._collate_fn, self._drop_last)
        stream = _torchlike.TorchStream(made, self._drawn[0][1] if attempt > known else None, attempt, known, state)
        if again and attempt > known:           # else it has drawn nothing yet
            self._draws.put_every(now)
        if state is None and stream.fetcher.dataset_iter is self._dataset:      # iter() does not begin it again
            begun = _torchlike.last_state(self._dataset)
            self.place.workers |= {} if begun is None else {0: (attempt, attempt, _torchlike.snapshot(begun))}
        self._dataset_fetcher, self._attempt = stream, attempt

    def _next(self) -> None:
        if self._dataset_fetcher is None:
            self._read_again()
        while self._drawn and self._drawn[0][0] < self._sent:
            self._drawn.popleft()
        if not self._drawn and not self._draw():
            raise StopIteration
        step, index = self._drawn[0]
        try:
            self._keep(step, self._dataset_fetcher.fetch(index))
            attempt, state = 0, None
            if self._dataset_kind == _DatasetKind.Iterable:
                _torchlike.begun(self._dataset)
                attempt, state = self._attempt + 1, _torchlike.snapshot(_torchlike.state_of(self._dataset_fetcher.fetcher))
            elif self._stateful:
                state = _torchlike.snapshot(self._dataset.state_dict())
            self._attempt, self._sent = attempt, step + 1
            self._offer = step, 0, attempt, state
        except BaseException as e:
            if isinstance(e, Exception) and not by_handler(e):
                self._sent = step + 1           # as in torch, the next call goes on after it
                self._attempt += 1
                if not isinstance(e, StopIteration):
                    self.place.failed(step)
            elif self._dataset_kind == _DatasetKind.Iterable:
                self._dataset_fetcher = None    # its generator has ended, or a batch is lost: it is read again
            raise

    def _ended(self) -> None:
        if self._dataset_kind == _DatasetKind.Iterable:
            self.place.last[0] = _torchlike.last_state(self._dataset)
        elif self._stateful:
            self.place.last[0] = self._dataset.state_dict()

    def __del__(self) -> None:
        if hasattr(self, "place"):
            self.settle()


class _Pass(_Loop, theirs._BaseDataLoaderIter):
    """Batches from worker processes: step i is made by worker i % n; of an iterable by those in turn that are not over."""

    _crew: Any = None
    _lives = itertools.count(1)
    _sending = False                            # a ticket is on its way to a worker

    def __init__(self, loader: DataLoader[Any], state: dict[str, Any] | None) -> None:
        self._open(loader, state)
        self._prefetch_factor = 2 if loader.prefetch_factor is None else loader.prefetch_factor     # num_workers was set later
        self._in_order = loader.in_order
        if self._prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        self._crew = self._start(loader)
        self._reset(loader, first_iter=True)
        if state is not None and state["now"] is not None:
            self._draws.set(state["now"])

    def _start(self, loader: DataLoader[Any]) -> Any:
        start = loader.worker_init_fn
        if isinstance(self._dataset, (IterDataPipe, MapDataPipe)):
            start = functools.partial(theirs._sharding_worker_init_fn, start, self._world_size, self._rank)
        usual = self._auto_collation and self._collate_fn is default_collate
        how = _torchlike.How(self._dataset_kind, self._auto_collation, self._drop_last, self._base_seed, self._num_workers,
                             self._persistent_workers, self._states())
        context: Any = loader.multiprocessing_context or multiprocessing
        recipe = _make.Recipe(self._dataset, _collate.TorchCollate() if usual else self._collate_fn, not usual,
                              not self._auto_collation, 0, True, self._num_workers, start, server=how, process=context.Process)
        return _crew.processes(recipe, _stoker.Ring(), None, self._num_workers, context.get_start_method(), False)

    def _states(self) -> dict[int, Any]:
        """Of a map-style data set, as they were resumed."""
        map_style = self._dataset_kind == _DatasetKind.Map
        return {w: state for w, (_, _, state) in self.place.workers.items() if state is not None} if map_style else {}

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        if not first_iter:                      # persistent workers: another epoch
            self.settle()
            self._ready.clear()
            self._offer, self._over = None, False
            self._draws = Draws(loader)
            old = self.place
            self.place = loader._place = EpochPlace(self._draws, self._draws.get(), self._base_seed, True, self)
            self.place.follow(old, self._dataset_kind == _DatasetKind.Iterable)
        seed = self._shared_seed
        theirs._BaseDataLoaderIter._reset(self, loader, first_iter)
        self._pipe_seed = seed if first_iter else self._shared_seed     # as torch gives it to its workers
        self._life = next(self._lives)
        self._tickets: deque[tuple[int, int, Any]] = deque()    # (step, worker, ticket) that were not handed out
        self._turn = self.place.turn            # the worker of the last ticket that was dropped
        self._attempts = {w: attempt for w, (_, attempt, _) in self.place.workers.items()}     # that were dropped
        self._sending = False
        self._most = self._prefetch_factor * self._num_workers if len(self.place.ended) < self._num_workers else 0
        self._begin(self._sampler_iter)
        self._fill(0)

    # ---- tickets -------------------------------------------------------------------------------------

    def _fill(self, held: int) -> None:
        """Sends tasks until as many are in flight as with torch; `held` tickets are complete."""
        tickets, drawn = self._tickets, self._drawn
        while len(tickets) - held < self._most:
            if tickets and tickets[-1][0] >= self._sent:
                self._sent = tickets[-1][0] + 1             # a handler raised before that was noted
            while drawn and drawn[0][0] < self._sent:
                drawn.popleft()
            if not drawn and not self._draw():
                return
            self._send(*drawn[0])

    def _send(self, step: int, index: Any) -> None:
        worker = self._worker_for(step)
        self._sending = True
        task = _make.Task((self._life, step), index, b"", (), self._job(worker))    # type: ignore[arg-type]
        self._tickets.append((step, worker, self._crew.submit(task, worker)))
        self._sent = step + 1
        self._sending = False

    def _adopt(self) -> None:
        """A ticket that a worker has, and that a handler kept from us."""
        for worker in self._crew.workers:
            for ticket in worker.tickets:
                life, step = ticket.task.epoch
                if life == self._life and step >= self._sent and all(ticket is not t for _, _, t in self._tickets):
                    self._tickets.append((step, worker.number, ticket))
        self._sending = False

    def _worker_for(self, step: int) -> int:
        if self._in_order and self._dataset_kind == _DatasetKind.Map:
            return step % self._num_workers
        last = self._tickets[-1][1] if self._tickets else self._turn
        order = [(last + 1 + i) % self._num_workers for i in range(self._num_workers)]
        active = [w for w in order if not self.place.ended.get(w)]
        if self._in_order:
            return active[0]
        load = {w: sum(1 for t in self._tickets if t[1] == w and t[2].result is None) for w in active}
        return min(active, key=lambda w: load[w])

    def _job(self, worker: int) -> Any:
        if self._dataset_kind == _DatasetKind.Map:
            return None
        attempt = next((t.task.stream.attempt + 1 for _, w, t in reversed(self._tickets) if w == worker),
                       self._attempts.get(worker, 0))
        known, _, state = self.place.workers.get(worker, (0, 0, None))
        return _torchlike.TorchJob(self._life, self._pipe_seed, attempt, known, state, self.place.resumed.get(worker))

    def _drop(self, step: int) -> None:
        """A ticket that was handed out or failed."""
        for place, (found, worker, ticket) in enumerate(self._tickets):
            if found == step:
                self._turn = worker
                if ticket.task.stream is not None:
                    self._attempts[worker] = ticket.task.stream.attempt + 1
                del self._tickets[place]
                return

    def _took(self) -> None:
        offer: Any = self._offer
        step, worker, attempt, _ = offer
        if attempt or not self._tickets or self._tickets[0][0] != step:
            self._drop(step)
        else:
            self._turn = worker
            self._tickets.popleft()
        self.place.took(*offer)
        self._offer = None

    def _next(self) -> None:
        while True:
            if self._sending:
                self._adopt()
            if len(self._tickets) < self._most:
                self._fill(0)
            if not self._tickets:
                raise StopIteration
            step, worker, ticket = self._first()
            made = ticket.result
            if self._dataset_kind == _DatasetKind.Iterable and isinstance(made, _make.Made) and _torchlike.end_of(made):
                if made.state is not None:
                    self.place.last[worker], self.place.drawn[worker] = made.state
                self.place.ended = {**self.place.ended, worker: True}
                left = deque(t for t in self._tickets if t[1] != worker)
                over = len(self.place.ended) == self._num_workers       # else its other tasks are in flight without a use
                self._most = 0 if over else max(self._most - (len(self._tickets) - len(left) - 1), 1)
                self._tickets = left
                if not self._persistent_workers and not over:
                    self._crew.retire(worker)
                continue
            self._fill(1)
            if isinstance(made, BaseException):
                self.place.failed(step)
                self._drop(step)
                raise_as_torch(made, worker)
            self._keep(step, made.batch)
            self._offer = step, worker, 0 if ticket.task.stream is None else ticket.task.stream.attempt + 1, made.state
            return

    def _first(self) -> tuple[int, int, Any]:
        """The ticket that is handed out next; it is complete."""
        if self._in_order and self._tickets[0][2].result is not None:
            return self._tickets[0]
        wanted = [self._tickets[0][2]] if self._in_order else [t for _, _, t in self._tickets]
        try:
            done = self._crew.first(wanted, self._timeout)
        except _crew.WorkerDied as e:           # that had no work: the draws that it would make are lost all the same
            if e.status is None:
                raise
            raise _died(e, e.status) from None
        return next(t for t in self._tickets if t[2] is done)

    # ---- end -----------------------------------------------------------------------------------------

    def _ended(self) -> None:
        if not self._persistent_workers:
            self._close()
        elif self._dataset_kind == _DatasetKind.Map:
            self.place.last = {w: state for w, (_, _, state) in self.place.workers.items()}

    def stop(self) -> None:
        """End the workers: next() is an error from now on."""
        self._stopped = True
        self._close()

    _shutdown_workers = stop                    # as scripts call it that end torch's workers

    @property
    def _workers(self) -> list[_torchlike.WorkerView]:
        """Scripts look there for the processes of torch's iterator."""
        return [] if self._crew is None else [_torchlike.WorkerView(worker) for worker in self._crew.workers]

    def _close(self) -> None:
        crew, self._crew = self._crew, None
        self._tickets = deque()
        if crew is not None:
            crew.close()

    def __del__(self, ending: Any = sys.is_finalizing) -> None:
        if self._crew is not None and not ending():     # names of modules may be gone by then
            self.settle()
            self._close()


def _died(error: _crew.WorkerDied, status: int) -> _crew.WorkerDied:
    """In torch's words, which scripts look for, and then ours."""
    if status < 0:
        said = f"is killed by signal: {signal.strsignal(-status) or -status}. "
    else:
        said = f"exited unexpectedly with exit code {status}. "
    return _crew.WorkerDied(f"DataLoader worker (pid {error.pid}) {said}{error}", "ECLOSED", sample=error.sample)


def raise_as_torch(error: BaseException, worker: int) -> None:
    """A worker's exception, in torch's words."""
    if isinstance(error, _crew.WorkerDied) and error.status is not None:
        raise _died(error, error.status) from None
    if not isinstance(error, _make.Bad):
        raise error
    if issubclass(error.kind, StokerError):     # one line
        _crew.raise_bad(error, f"worker process {worker}")
    made = ExceptionWrapper.__new__(ExceptionWrapper)
    made.exc_type, made.exc_msg, made.where = error.kind, error.trace, f"in DataLoader worker process {worker}"
    try:
        made.reraise()  # type: ignore[no-untyped-call]
    except Exception as e:
        if error.index is not None and hasattr(e, "add_note"):
            e.add_note(f"in sample {error.index!r} of the data set")
        raise
