# SPDX-License-Identifier: Apache-2.0
"""A worker process of stoker.DataLoader: torch's worker in what it does and in which order, so that the same numbers
are drawn; batches are collated into a slot of the ring.

random, NumPy and torch are seeded once, by torch's rule, before worker_init_fn runs.  Nothing is seeded later.
"""

from __future__ import annotations

import copy
import functools
import os
import pickle
import random
import select
import signal
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils.data import IterDataPipe, _DatasetKind
from torch.utils.data._utils import worker as theirs
from torch.utils.data.graph_settings import apply_random_seed

from . import _collate, _iterable, _make, _stoker, _worker
from ._places import Draws, draws_of_worker, set_draws_of_worker
from .errors import by_handler


class TorchJob(NamedTuple):
    """What every task of an iterable says: a worker that has just been started, or whose epoch is new, begins there."""

    epoch: int              # of this iterator: persistent workers see several
    shared_seed: int | None  # of DataPipes
    attempt: int            # the worker's number of this batch
    known: int              # the attempt that `state` belongs to
    state: Any              # of the data set; None: batches are read again
    draws: bytes | None     # the worker's generators, as an epoch that is resumed began


class How(NamedTuple):
    """What of torch's loader its workers need to know.  It is called as a server (Recipe.server)."""

    kind: int
    batched: bool
    drop_last: bool
    seed: int
    workers: int
    persistent: bool
    states: dict[int, Any]  # of a map-style data set, by worker: it begins there

    def __call__(self, link: _worker.Link, maker: Any) -> TorchServer:
        return TorchServer(link, TorchMaker(maker.recipe, self, link.number))


class TorchServer(_worker._Server):
    """Seeds as torch does; worker_init_fn runs after that."""

    def __init__(self, link: _worker.Link, maker: TorchMaker) -> None:
        super().__init__(link, maker)           # type: ignore[arg-type]
        how, seed = maker.how, maker.how.seed + link.number
        random.seed(seed)
        torch.manual_seed(seed)
        if theirs.HAS_NUMPY:  # type: ignore[attr-defined]
            import numpy
            numpy.random.seed(theirs._generate_state(how.seed, link.number))  # type: ignore[no-untyped-call]
        _worker._introduce(theirs.WorkerInfo(id=link.number, num_workers=how.workers, seed=seed,    # type: ignore[arg-type]
                                             dataset=maker.recipe.dataset))


def state_of(fetcher: Any) -> Any:
    """The state of an iterable after what was read; None: it has none, or one that does not say all."""
    if not _iterable._forgets(fetcher.dataset):
        for one in (fetcher.dataset_iter, fetcher.dataset):
            save = getattr(one, "state_dict", None)
            if callable(save):
                return save()
    return None


def has_state(dataset: Any) -> bool:
    """Whether a map-style data set has a state of its own.  A model's weights are none."""
    return (callable(getattr(dataset, "state_dict", None)) and callable(getattr(dataset, "load_state_dict", None))
            and not isinstance(dataset, torch.nn.Module))


def snapshot(state: Any) -> Any:
    """A copy of a state of this process's data set, which may be what the data set works with; itself, if it can't be copied."""
    try:
        return copy.deepcopy(state)
    except Exception:
        return state


def open_stream(dataset: Any, batched: bool, collate: Callable[[Any], Any], drop_last: bool, state: Any) -> Any:
    """torch's fetcher of an iterable, which begins at a state."""
    load = getattr(dataset, "load_state_dict", None)
    if state is not None and callable(load):
        load(state)
    made = _DatasetKind.create_fetcher(_DatasetKind.Iterable, dataset, batched, collate, drop_last)  # type: ignore[no-untyped-call]
    load = getattr(made.dataset_iter, "load_state_dict", None)
    if state is not None and callable(load):
        load(state)
    return made


def skip(fetcher: Any, index: Any, n: int) -> None:
    """Reads n batches again; those that failed then may fail now."""
    collate, fetcher.collate_fn = fetcher.collate_fn, lambda samples: None
    for _ in range(n):
        try:
            fetcher.fetch(index)
        except StopIteration:
            break
        except Exception as e:
            if by_handler(e):
                raise
    fetcher.collate_fn = collate


class TorchStream:
    """torch's fetcher of an iterable, from batch number `attempt` on; `state` is of batch `known`.

    A state that no batch of this epoch belongs to is that of the epoch before, at its end.  A data set that begins there has
    nothing left, and the epoch after it begins with the next iter(), as it would have without a state."""

    def __init__(self, made: Callable[[Any], Any], index: Any, attempt: int, known: int, state: Any) -> None:
        self._made, self._index, self._skipped = made, index, attempt - known
        self._at_an_end = state is not None and not known
        self._draws: Any = Draws.every() if self._at_an_end else None
        self._begin(state)
        self._begun = draws_of_worker() if self._at_an_end else {}

    def _begin(self, state: Any) -> None:
        self.fetcher = self._made(state)
        skip(self.fetcher, self._index, self._skipped)

    def fetch(self, index: Any) -> Any:
        if not self._at_an_end:
            return self.fetcher.fetch(index)
        self._at_an_end = False
        now, unused = Draws.every(), draws_of_worker() == self._begun
        try:
            return self.fetcher.fetch(index)
        except StopIteration:                   # what was drawn for nothing is drawn again
            Draws.put_every(self._draws if unused else now)
            self._begin(None)
            return self.fetcher.fetch(index)


class TorchMaker:
    """Fetches and collates, in place of _make.Maker."""

    def __init__(self, recipe: _make.Recipe, how: How, number: int) -> None:
        self.recipe, self.how, self._number = recipe, how, number
        self.note: Callable[[int], None] = lambda row: None
        self._dataset = recipe.dataset
        self._stream: Any = None
        self._epoch: int | None = None
        self._over = False
        self._place: Any = None
        self._shared = torch.Generator()
        self._stateful = how.kind == _DatasetKind.Map and has_state(self._dataset)
        self._state = how.states.get(number)    # that is not loaded yet

    def make(self, task: _make.Task, slot: _stoker.Slot, ask: Any) -> tuple[Any, int]:
        """(Made or End, the end of what the slot has now)."""
        rows = len(task.indices) if self.how.batched else 1
        self._place = place = _collate.SlotMemory(slot, rows, self.recipe.collate)
        if self.how.kind == _DatasetKind.Iterable:
            return self._read(task.stream, task.indices, rows), place.end
        if self._state is not None:
            self._dataset.load_state_dict(self._state)
            self._state = None
        batch = self._collated(self._samples(task.indices)) if self.how.batched else self._one(task.indices)
        state = self._dataset.state_dict() if self._stateful else None
        return _make.Made(batch, (), None, state=state, rows=rows), place.end

    def _collated(self, samples: Any) -> Any:
        self.note(_make.IDLE)
        try:
            return self.recipe.collate(samples) if self.recipe.own else self.recipe.collate(samples, self._place)
        except StopIteration as e:
            raise _make.not_the_end(e) from e

    # ---- map-style -----------------------------------------------------------------------------------

    def _samples(self, indices: Any) -> Any:
        many = getattr(self._dataset, "__getitems__", None)
        if many:
            self.note(0)
            return many(indices)
        return _make.one_by_one(self._dataset, indices, self.note, None if self.recipe.own else self._place)

    def _one(self, index: Any) -> Any:
        self.note(0)
        try:
            sample = self._dataset[index]
        except Exception as e:
            raise _make.bad(index, e) from e
        return self._collated(sample)

    # ---- iterables -----------------------------------------------------------------------------------

    def _begin(self, job: TorchJob, index: Any) -> None:
        if job.draws is not None:
            set_draws_of_worker(pickle.loads(job.draws))
        if isinstance(self._dataset, IterDataPipe):
            self._shared.manual_seed(job.shared_seed)   # type: ignore[arg-type]
            self._dataset = apply_random_seed(self._dataset, self._shared)
        self._over = False
        made = functools.partial(open_stream, self._dataset, self.how.batched, self._collated, self.how.drop_last)
        self._stream = TorchStream(made, index, job.attempt, job.known, job.state)
        self._epoch = job.epoch

    def _read(self, job: TorchJob, index: Any, rows: int) -> Any:
        if self._epoch != job.epoch:
            self._begin(job, index)
        try:
            if self._over:
                raise StopIteration
            batch = self._stream.fetch(index)
        except StopIteration:
            self._over = True
            return _make.Made(None, (), None, state=self._last())
        begun(self._dataset)
        return _make.Made(batch, (), None, state=state_of(self._stream.fetcher), rows=rows)

    def _last(self) -> Any:
        """What the next epoch goes on with: the state of the data set, and the generators."""
        return (last_state(self._dataset), draws_of_worker()) if self.how.persistent else None


def begun(dataset: Any) -> None:
    """Hugging Face's streams would begin at a state again in later loops."""
    if getattr(dataset, "_starting_state_dict", None) is not None:
        dataset._starting_state_dict = None


def last_state(dataset: Any) -> Any:
    """Of a data set whose epoch is over."""
    save = getattr(dataset, "state_dict", None)
    return save() if callable(save) and callable(getattr(dataset, "load_state_dict", None)) else None


def end_of(made: Any) -> bool:
    """Whether a worker answered that its iterable is over."""
    return bool(made.rows == 0)


class WorkerView:
    """A worker as scripts look at one of torch's iterators' `_workers`: what they ask a multiprocessing.Process."""

    daemon = True

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self.pid = self.ident = worker.pid
        self.name = worker.name

    def join(self, timeout: float | None = None) -> None:
        if self._worker.fd >= 0:                # else it has ended, and its status is known
            poll = select.poll()
            poll.register(self._worker.fd, select.POLLIN)
            poll.poll(None if timeout is None else max(timeout, 0) * 1000)

    def is_alive(self) -> bool:
        if self._worker.fd < 0:
            return False
        poll = select.poll()
        poll.register(self._worker.fd, select.POLLIN)
        return not poll.poll(0)

    @property
    def exitcode(self) -> int | None:
        return None if self.is_alive() else self._worker.status()

    def terminate(self, how: int = signal.SIGTERM) -> None:
        if self.is_alive():
            os.kill(self.pid, how)

    def kill(self) -> None:
        self.terminate(signal.SIGKILL)

    def __repr__(self) -> str:
        return f"<{self.name}, process {self.pid}>"
