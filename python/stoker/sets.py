# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader over a Python data set: any object with __getitem__ and __len__, or any iterable.

Order, ranks, resume, weights and ledger are the library's, as for files (_stoker.Sampler); samples are made by the
data set itself, in worker processes or threads (_crew.py), and come through a ring of shared memory.
"""

from __future__ import annotations

import array
import contextlib
import inspect
import itertools
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from . import _collate, _crew, _iterable, _log, _make, _mix, _options, _rank_check, _ranks, _sampling, _staging, _state, _stoker
from ._arrays import _imported, from_bytes, torch_or_none
from ._loader_base import Epoch, LoaderBase, open_loaders
from ._mix import Mix
from ._monitor import profiled
from ._tuples import Tuples
from .batch import Batch
from .dataset import Dataset
from .errors import Batched, ClosedError, invalid, shown, unsupported
from .loader import Loader

_MEANT = {"batch_size", "global_batch_size", "drop_last", "collate", "seed", "shuffle", "rank", "world_size", "mesh",
          "check_ranks", "select", "skip", "limit", "repeat", "epoch_size", "weights", "replacement", "balance", "stratify",
          "on_error", "num_workers", "prefetch", "worker_type", "pin_memory", "device"}
_ORDERED = ("shuffle", "select", "skip", "limit", "repeat", "epoch_size", "weights", "replacement", "balance", "stratify")
_REMEDY = {"batch_ops": "give collate= a function",
           "exclude": "give the other samples by select=",
           "where": "give the numbers of the samples by select=",
           "memory_limit": "batch_size and prefetch bound what is in memory"}


class TupleBatch(tuple[Any, ...]):
    """A batch of tuple samples: one entry for each field, and which samples it is made of.

    sample_ids: their numbers in the data set, int64; valid: False where another sample stands in for a bad one, or
    where a rank had nothing left
    """

    sample_ids: Any
    valid: Any

    def only_valid(self) -> TupleBatch:
        """The rows that are valid, as of a Batch."""
        named = Batch(enumerate(self))
        named.sample_ids, named.valid = self.sample_ids, self.valid
        rows = named.only_valid()
        made = TupleBatch(rows.values())
        made.sample_ids, made.valid = rows.sample_ids, rows.valid
        return made


def is_python(data: Any) -> bool:
    """Whether Loader takes `data` as a data set of Python, not as files or arrays."""
    if isinstance(data, Mix):
        return any(not isinstance(d, Dataset) for d in data.datasets)
    if data is None or isinstance(data, (str, bytes, os.PathLike, Mapping, Dataset)):
        return False
    if isinstance(data, (list, tuple)):
        return not data or not all(isinstance(d, (str, bytes, os.PathLike, Dataset)) for d in data)
    return hasattr(data, "__getitem__") and hasattr(data, "__len__") or hasattr(data, "__iter__") \
        or hasattr(data, "__getitems__")


def is_stream(dataset: Any) -> bool:
    """Only iterable: samples have no numbers.  torch's IterableDataset inherits a __getitem__ that it has not."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and isinstance(dataset, data.IterableDataset) or isinstance(dataset, Batched) or not hasattr(dataset, "__getitem__")


def is_map(dataset: Any) -> bool:
    """Map-style: samples have numbers."""
    return not is_stream(dataset) and hasattr(dataset, "__len__")


def is_pure(dataset: Any) -> bool:
    """Data sets that certainly draw nothing: their samples need no seed, and __getitems__() is called for whole batches."""
    data = sys.modules.get("torch.utils.data")
    if getattr(dataset, "stoker_draws", True) is False:
        return True
    if data is not None and type(dataset) in (data.Subset, data.ConcatDataset):
        return all(is_pure(d) for d in ([dataset.dataset] if type(dataset) is data.Subset else dataset.datasets))
    return type(dataset) in (list, tuple) or type(dataset).__module__ == "stoker.shared_list" \
        or data is not None and type(dataset) is data.TensorDataset or _is_plain_table(dataset)


_FORMATS = (None, "arrow", "jax", "numpy", "pandas", "polars", "tensorflow", "torch")


def _is_plain_table(dataset: Any) -> bool:
    """Of Hugging Face, with no code of the user's: neither a transform nor a type of column."""
    if (type(dataset).__module__, type(dataset).__name__) != ("datasets.arrow_dataset", "Dataset"):
        return False

    def known(feature: Any) -> bool:
        below = feature.values() if isinstance(feature, dict) else feature if isinstance(feature, list) else ()
        return (type(feature) in (dict, list) or type(feature).__module__.startswith("datasets.")) and all(map(known, below))

    return dataset.format["type"] in _FORMATS and known(dataset.features)


class _Counted:
    """What the checks of select and weights look at."""

    _ids = None                                 # all samples take part: there is no where=

    def __init__(self, n: int) -> None:
        self._n = n
        self._core = self

    def __len__(self) -> int:
        return self._n

    def kind(self) -> str:
        return ""

    def column(self, name: str, read: bool = False) -> Any:
        invalid("a Python data set has no columns: give one number for each sample")


class _SetEpoch(Epoch):
    def __init__(self, loader: SetLoader, epoch: int, position: int, names: tuple[str, ...] | None) -> None:
        super().__init__(loader, epoch, names)
        self._from = position
        self._ready: dict[int, tuple[Any]] = {}     # step -> its batch, until it is handed out
        self._lock = threading.RLock()          # threads take turns

    @profiled
    def _make(self) -> tuple[Any, Any, tuple[int, None]]:
        with self._lock:
            return self._made()

    def _made(self) -> tuple[Any, Any, tuple[int, None]]:
        """Of two threads that are given one batch, one takes it, and the other one comes again."""
        loader, step = self._loader, self.given
        loader._check_open()
        self._check_newest()
        if step not in self._ready:
            self._ready.clear()
            try:
                self._ready[step] = (_named(loader._batch(self, step), self._names),)
            except StopIteration:
                loader._at = self._epoch + 1, 0
                self._end()
                raise
        return self._ready[step][0], self._ready.pop, (step, None)


def _named(batch: Any, names: tuple[str, ...] | None) -> Any:
    """The batch, or of a dict these entries as a tuple; no names: all of them."""
    if names is None or isinstance(batch, tuple):
        return batch
    if not isinstance(batch, dict):
        invalid(f"as_tuples: a batch is a {type(batch).__name__} here, and needs to be a dict or a tuple")
    for name in names:
        if name not in batch:
            invalid(f"as_tuples: there is no output {shown(name)}: the outputs are {', '.join(map(str, batch))}")
    return tuple(batch[name] for name in names or batch)


def _not_for_sets(why: str) -> Any:
    """A method of Loader that a Python data set has not."""
    def method(self: SetLoader, *args: Any, **kwargs: Any) -> NoReturn:
        unsupported(why)

    method.__doc__ = why
    return method


class SetLoader(LoaderBase):
    """What stoker.Loader(dataset) answers for a Python data set; its arguments are Loader's."""

    _functions = ()
    _looped = False                             # an iterable was read before
    _crew: Any = None
    _mover: Any = None                          # made with the first batch: workers are forked before CUDA is in use

    def __init__(self, data: Any, fields: None = None, **given: Any) -> None:
        _options.screen(given)
        defaults = {name: p.default for name, p in inspect.signature(Loader.__init__).parameters.items()
                    if p.default is not inspect.Parameter.empty}
        _options.check_unknown({n: v for n, v in given.items() if n not in defaults}, Loader.__init__, python=True)
        _options.refuse_in_worker()
        o = {**defaults, **given}
        for name, value in o.items():
            if name not in _MEANT and value is not None and value != defaults.get(name):
                invalid(f"{name}= is for data that Stoker reads itself, and this is a {type(data).__name__}"
                        + (f": {_REMEDY[name]}" if name in _REMEDY else ""))
        self._stand_at_start()
        self._closed = False
        self._at = 0, 0                         # epoch and position, where no loop is running
        self._queue: deque[Any] = deque()       # (epoch, from, step, ticket, row info)
        self._last: tuple[Any, Any] = None, None
        self._skipped: list[dict[str, Any]] = []    # of batches that were handed out
        self._bad_of: dict[int, int] = {}       # epoch -> bad samples, ahead too
        self._figures = {"batches": 0, "samples": 0, "wait_s": 0.0}
        self._take(data, o)
        self._open_for_use()
        with contextlib.suppress(ImportError):
            _imported("numpy.random")           # one that the data set imports is not seeded in its first sample

    # ---- options -------------------------------------------------------------------------------------

    def _take(self, data: Any, o: dict[str, Any]) -> None:
        self._skip_bad, self._budget = _options.skip_policy(o["on_error"])
        place = _ranks.find(o["rank"], o["world_size"], o["mesh"])
        if _options.shuffle_kind(o["shuffle"]) > 1:
            invalid(f"shuffle={o['shuffle']!r} is an order of shards or documents: a Python data set has shuffle=True")
        self._options = {**_options.share(o["batch_size"], o["global_batch_size"], place),
                         "seed": _options.number("seed", o["seed"]), "shuffle": _options.shuffle_kind(o["shuffle"]),
                         "drop_last": _options.flag("drop_last", o["drop_last"])}
        sets = list(data.datasets) if isinstance(data, Mix) else [data]
        self._mixed = dict(data.weights) if isinstance(data, Mix) else {}
        self._changes = []
        self._of = data if isinstance(data, Mix) else sets[0]
        self._map = all(is_map(d) for d in sets)
        self._type = worker_type(o["worker_type"])
        self._workers = _worker_count(o["num_workers"], self._type)
        self._prefetch = _options.or_chosen("prefetch", o["prefetch"])
        self._device = gpu_of(o["device"])
        self._pins = pinner(o["pin_memory"]) if self._device is None else None
        self._recipe_of(sets, o)
        with _rank_check.Meeting(place, _options.flag("check_ranks", o["check_ranks"])) as meeting:
            self._plan_order(data, sets, o)
            self._identity = self._what()
            place = meeting.compare(self._said())
        place.log()
        if place.rank != self._options["rank"]:
            self._options["rank"] = place.rank
            self._plan_order(data, sets, o)

    def _recipe_of(self, sets: list[Any], o: dict[str, Any]) -> None:
        one = sets[0] if len(sets) == 1 else _make.Several(sets) if self._map else None
        if one is None:
            invalid("a mixture has data sets with __len__ and __getitem__: one of these is iterable only")
        own = callable(o["collate"])
        collate = o["collate"] if own else collation(o["collate"])
        pure = all(is_pure(d) for d in sets)
        self._recipe = _make.Recipe(one, collate, own, False, self._options["seed"], pure, max(self._workers, 1), epochs=True)
        if self._map and not pure and callable(getattr(one, "__getitems__", None)):
            _log.emit(2, f"{type(one).__name__} has __getitems__(), and may draw random numbers in it: it is read sample by sample, "
                         f"each with its own seed; `stoker_draws = False` in the class says that it draws none, and reads whole batches")

    def _plan_order(self, data: Any, sets: list[Any], o: dict[str, Any]) -> None:
        if not self._map:
            for name in _ORDERED:
                if o[name] not in (None, False, 0) and not (name == "repeat" and o[name] == 1):
                    invalid(f"{name}= needs samples with numbers, and this {type(sets[0]).__name__} is only iterable: give "
                            f"it __len__ and __getitem__, or let it do that itself")
            self._sampler: Any = None
            world = self._options["world_size"]
            rows = self._options["batch_size"] or self._options["global_batch_size"] // world
            self._stream = _iterable.Reader(_iterable.Shape(rows, self._options["rank"], world, bool(self._options["drop_last"])),
                                           1 if self._type == "thread" else max(self._workers, 1))
            return
        counts = [_Counted(_length(d)) for d in sets]
        if isinstance(o["select"], (list, tuple)) and any(isinstance(v, str) for v in o["select"]):
            invalid("select: a Python data set has numbers and no keys: give indices or a mask")
        self._sampling, self._order = _sampling.plan(
            counts, select=o["select"], skip=o["skip"], limit=o["limit"], repeat=o["repeat"],    # type: ignore[arg-type]
            epoch_size=o["epoch_size"], weights=o["weights"], replacement=o["replacement"], balance=o["balance"],
            stratify=o["stratify"], mix=data if isinstance(data, Mix) else None, shuffle=self._options["shuffle"])
        self._counts = tuple(len(c) for c in counts)
        self._sampler = _stoker.Sampler(self._counts, _options.words(self._options), self._sampling[:-1])
        self._samples, self._global, self._taken, self._drawn = self._sampler.describe()
        self._steps = self._sampler.steps(0)
        if self._changes:
            self._sampler.set_mix(tuple(self._changes))
        self._changes = self._sampler.mix()
        if isinstance(data, Mix):
            data.counts = list(self._counts)

    def _what(self) -> dict[str, Any]:
        order: dict[str, Any] = {"shuffle": _options.SHUFFLES[self._options["shuffle"]]}
        data = {"samples": 0, "shards": 0, "bytes": 0, "names": _state.word(0), "content": _state.word(0), "taken": _state.word(0)}
        if self._sampler is not None:
            order.update({n: _state.word(self._drawn) if v is ... else v for n, v in self._order.items()})
            data.update(samples=sum(self._counts), taken=_state.word(self._taken))
        if "mix" in order:
            order["mix"] = {**order["mix"], "changes": _mix.saved(self._changes)}
        return {"seed": self._options["seed"], "order": order, "data": data, "chains": {}}

    def _said(self) -> dict[str, str]:
        """What ranks compare."""
        options = {n: str(self._options[n]) for n in ("batch_size", "global_batch_size", "world_size", "drop_last", "seed")}
        return {"samples": str(self._identity["data"]["samples"]), "order": str(self._identity["order"]), **options}

    # ---- epochs --------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("the loader is closed", "ECLOSED")
        if self._pid != os.getpid():
            raise ClosedError(f"this loader was opened by process {self._pid}: open one in this process", "ECLOSED")

    def _begin(self, names: tuple[str, ...] | None) -> Any:
        self._check_open()
        epoch, position = self._coming()
        if self._sampler is not None:
            self._check_known(epoch, position)
            self._check_length()
        self._begin_life()
        running = self._running = _SetEpoch(self, epoch, position, names)
        if self._sampler is None:
            _iterable.warn_if_spent(self._of, self._looped)
            self._looped = True
            self._stream.begin(epoch, position)     # a state that was loaded is taken up there
        elif not self._queue or self._queue[0][:3] != (epoch, position, 0):
            self._queue.clear()
        self._next = None
        return running

    def _check_length(self) -> None:
        sets = self.dataset.datasets if isinstance(self.dataset, Mix) else [self.dataset]
        now = tuple(len(d) for d in sets)
        if now != self._counts:
            invalid(f"the data set had {sum(self._counts):,} samples when the loader was made and has {sum(now):,} now: "
                    f"make a new loader")

    def _where(self) -> tuple[int, int]:
        if self._next is not None:
            return self._next
        run = self._running
        if run is None:
            return self._at
        if self._sampler is None:
            return run._epoch, sum(self._stream.place(run.given)["read"])
        steps = run.given
        if steps >= self._sampler.steps(run._from):
            return run._epoch + 1, 0
        return run._epoch, min(run._from + steps * self._global, self._samples)

    def _batch(self, run: _SetEpoch, step: int) -> Any:
        """The batch of a step, written down first."""
        crew = self._workers_now()
        if self._sampler is None:
            return self._streamed(crew, step)
        if step >= self._sampler.steps(run._from):
            raise StopIteration
        while self._queue and self._queue[0][:3] != (run._epoch, run._from, step):
            self._queue.popleft()
        if self._queue and self._queue[0][3].failed:
            self._bad_of[run._epoch] = self._bad_of.get(run._epoch, 0) - len(self._queue[0][3].bad)
            self._queue[0] = (*self._queue[0][:3], *self._sent(crew, *self._queue[0][:3]))   # the same batch again
        self._fill(run, step)
        ticket, info = self._queue[0][3:]
        made = self._timed(crew, ticket)
        made = self._moved(made, ticket)
        ids, valid = self._rows_of(info, made)
        if not ticket.noted:
            self._sampler.note(run._epoch, ids, valid, *info[3:])
            ticket.noted = True
            self._skipped += ticket.bad
            self._count(made)
        self._send_ahead(crew)
        return self._finished(made, ids, valid)

    def _moved(self, made: Any, ticket: Any = None) -> Any:
        """A batch where it is wanted: its copy to the GPU was begun, or begins here."""
        if self._device is None:
            return made
        if self._mover is None:
            self._mover = _staging.place(self._device, _IN_FLIGHT)
        sent = None if ticket is None else ticket.sent
        if sent is None:
            sent = self._mover.send(made.batch)
            if ticket is not None:
                ticket.sent = sent
        return made._replace(batch=self._mover.receive(sent))

    def _send_ahead(self, crew: Any) -> None:
        """Copies of the batches that come next, as far as they are made, while the loop works on this one."""
        if self._device is None:
            return
        for *_, ticket, _ in itertools.islice(self._queue, 1, _IN_FLIGHT):
            made = ticket.result if crew.is_made(ticket) else None
            if not isinstance(made, _make.Made):
                return                          # they go in order
            if ticket.sent is None:
                ticket.sent = self._mover.send(made.batch)

    def _streamed(self, crew: Any, step: int) -> Any:
        made = self._moved(self._stream.next(crew, self._timed, step))
        self._count(made)
        valid = bytearray(b"\1" * made.rows)
        for row in made.invalid:
            valid[row] = 0
        return self._finished(made, None, valid)

    def _count(self, made: _make.Made) -> None:
        self._figures["batches"] += 1
        self._figures["samples"] += made.rows

    def _timed(self, crew: Any, ticket: Any) -> Any:
        start = time.perf_counter()
        try:
            return crew.result(ticket)
        finally:
            self._figures["wait_s"] += time.perf_counter() - start

    def _rows_of(self, info: Any, made: _make.Made) -> tuple[bytes, bytearray]:
        ids, valid = info[0], bytearray(b"\1" * made.rows if info[2] else bytes(made.rows))
        if made.indices is not None:
            ids = array.array("Q", made.indices).tobytes()
        for row in made.invalid:
            valid[row] = 0
        return ids, valid

    def _finished(self, made: _make.Made, ids: bytes | None, valid: Any) -> Any:
        self._last = ids, valid
        batch = made.batch
        if type(batch) is dict and not self._recipe.own:
            batch = Batch(batch)
            batch._ids, batch._valid = ids, bytes(valid)
            batch._source = None if ids is None else ((), ids)
            for name, sizes in (made.lengths or {}).items():
                batch.lengths[name] = _lengths(sizes)
        elif type(batch) is tuple and not self._recipe.own:
            batch = TupleBatch(batch)
            batch.sample_ids, batch.valid = self.sample_ids, self.valid
        return self._pins(batch) if self._pins is not None else batch

    def _fill(self, run: _SetEpoch, step: int) -> None:
        """Send tasks until enough are in flight, into the next epoch too."""
        crew, steps = self._crew, self._sampler.steps(run._from)
        ahead = 1 if not crew.ahead else self._prefetch or max(crew.ahead, 2)
        while len(self._queue) < ahead or not self._queue:
            epoch, start, at = self._queue[-1][:3] if self._queue else (run._epoch, run._from, step - 1)
            at += 1
            if at >= (steps if (epoch, start) == (run._epoch, run._from) else self._steps):
                epoch, start, at = epoch + 1, 0, 0
            self._queue.append((epoch, start, at, *self._sent(crew, epoch, start, at)))

    def _sent(self, crew: Any, epoch: int, start: int, step: int) -> tuple[Any, Any]:
        info = self._sampler.at(epoch, start, step)
        task = _make.Task(epoch, memoryview(info[0]).cast("Q").tolist(), info[1])
        return crew.submit(task), info

    def _workers_now(self) -> Any:
        if self._crew is None:
            answer = self._substitute if self._skip_bad and self._sampler is not None else None
            one = self._sampler is None and self._type == "thread"      # threads have one iterator between them
            self._crew = start(self._recipe, self._type, min(self._workers, 1) if one else self._workers, answer)
        return self._crew

    def _substitute(self, ticket: Any, row: int, index: Any, attempt: int, reason: str) -> Any:
        """Another sample in the place of a bad one."""
        epoch = ticket.task.epoch
        if attempt > 100:
            invalid(f"100 samples in a row are bad, the last is sample {index}: {reason}")
        ticket.bad.append({"shard": None, "offset": None, "key": str(index), "reason": reason})
        self._bad_of[epoch] = self._bad_of.get(epoch, 0) + 1
        if self._budget and self._bad_of[epoch] > self._budget:
            invalid(f"more than {self._budget} bad samples in epoch {epoch}, the last is sample {index}: {reason}")
        position = memoryview(ticket.task.positions).cast("Q")[row]
        return int(self._sampler.substitute(epoch, position, attempt))

    def __len__(self) -> int:
        """Batches of an epoch, the same on every rank; of an iterable only where that has a length."""
        if self._sampler is not None:
            return int(self._steps)
        try:
            n = len(self.dataset)
        except TypeError:
            raise TypeError(f"a {type(self.dataset).__name__} has no len(): how many batches it gives is known when it "
                            f"ends") from None
        world = self._options["world_size"]
        rows = self._options["global_batch_size"] or self._options["batch_size"] * world
        return n // rows if self._options["drop_last"] else -(-n // rows)

    def _positions(self, epoch: int) -> int:
        return self._samples if self._sampler is not None else 2**63 - 1

    @property
    def sample_ids(self) -> Any:
        """Numbers of the samples in the batch that was made last, int64; of an iterable None."""
        ids = self._last[0]
        return None if ids is None else from_bytes(bytearray(ids), "int64")

    @property
    def valid(self) -> Any:
        """Of the batch that was made last: False where another sample stands in for a bad one."""
        flags = self._last[1]
        return None if flags is None else from_bytes(bytearray(flags), "bool")

    @property
    def dataset(self) -> Any:
        """The data set, or the mixture, as it was given."""
        return self._of

    @property
    def fields(self) -> dict[str, str]:
        """A Python data set has no chains."""
        return {}

    def as_tuples(self, *names: str) -> Tuples:
        """The same batches as tuples: of these entries where samples are dicts, else as they are."""
        made = Tuples(self, ())
        made._names = names
        return made

    @property
    def batch_size(self) -> int:
        """Samples per batch and rank."""
        return self._options["batch_size"] or self._options["global_batch_size"] // self._options["world_size"]

    # ---- state ---------------------------------------------------------------------------------------

    def _skipped_samples(self) -> int:
        return len(self._skipped)

    def state_dict(self) -> dict[str, Any]:
        """As for files; of an iterable data set also where each worker is, under "stream": this rank's own."""
        state = super().state_dict()
        if self._sampler is None:
            run = self._running if self._next is None else None
            state["stream"] = _iterable._copied(self._stream.ready if run is None else self._stream.place(run.given))
        return state

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """As for files."""
        stream = state.get("stream") if isinstance(state, Mapping) else None
        plain = _state.plain({n: v for n, v in state.items() if n != "stream"} if stream is not None else state)
        strict = _options.flag("strict", strict)
        mine = _mix.with_changes(self._identity, plain)
        place = _state.read(plain, mine, self._positions, strict)
        generation = _state.generation(plain)
        if self._sampler is None:
            self._stream.load(stream, place[1], place[1])
        elif self._changes and mine["order"] != self._identity["order"]:
            self._take_changes(mine["order"]["mix"]["changes"], place, strict)
            self._identity = self._what()
        self._go_on_at(generation, place)
        self._queue.clear()

    def _drop_ahead(self) -> None:
        self._queue.clear()
        if self._running is not None:
            self._running._ready.clear()

    def _mixer(self) -> Any:
        return self._sampler

    def _write_ledger(self, path: bytes | None, life: tuple[int, int, int]) -> None:
        if self._sampler is None:
            unsupported("a ledger needs samples with numbers, and this data set is only iterable")
        self._sampler.ledger(path, *life, 0)

    # ---- the rest ------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """Figures since the loader was opened: batches, samples, wait_s (the consumer waited), workers, ring (slots that
        batches and tasks hold), skipped, bad_samples."""
        crew = self._crew
        return {**self._figures, "workers": self._workers, "worker_type": self._type,
                "ring": {"slots": crew.ring.taken() if crew is not None else 0}, "skipped": len(self._skipped),
                "bad_samples": [dict(bad) for bad in self._skipped]}

    preview = _not_for_sets("preview() shows pictures of files: of a Python data set look at dataset[i]")
    explain = _not_for_sets("explain() shows the steps of a chain: a Python data set has none")
    diagnose = _not_for_sets("diagnose() knows the stages of files: of a Python data set use stoker.watch(loader), or stats()")
    report = _not_for_sets("report() knows the stages of files: of a Python data set see stats()")
    metrics = serve_metrics = _not_for_sets("metrics() has the figures of files: of a Python data set see stats()")
    trace = _not_for_sets("trace() has the stages of files: of a Python data set use torch.profiler, which shows stoker.next")
    expect = _not_for_sets("expect() reads the fields of files, and a Python data set has none")
    set_workers = _not_for_sets("the workers of a Python data set are fixed: give num_workers=")

    def close(self) -> None:
        """Stop the workers and free.  Batches that you hold stay good.  Twice is once."""
        self._closed = True
        self._running = None
        self._queue = deque()
        if self._mover is not None:
            self._mover.close()
            self._mover = None
        if self._crew is not None:
            self._crew.close()                  # may be interrupted: then the next call goes on
            self._crew = None

    def __del__(self, ending: Any = sys.is_finalizing) -> None:
        if self._crew is not None and not ending():     # names of modules may be gone by then
            self.close()

    def __repr__(self) -> str:
        epoch, position = self._where()
        said = [type(self.dataset).__name__]
        said += [f"{self._samples} samples"] if self._sampler is not None else []
        said.append(f"batch {self.batch_size}")
        if self._options["world_size"] > 1:
            said.append(f"rank {self._options['rank']} of {self._options['world_size']}")
        said += ["closed"] if self._closed else [f"epoch {epoch}"]
        said += [f"step {-(-position // self._global)} of {self._steps}"] if self._sampler is not None and not self._closed else []
        return f"Loader({', '.join(said)})"


def _length(dataset: Any) -> int:
    if isinstance(dataset, type):
        invalid(f"{dataset.__name__} is a class: give a data set, {dataset.__name__}(...)")
    try:
        n = len(dataset)
    except TypeError as e:
        invalid(f"len({type(dataset).__name__}) fails: {e}")
    return n


def _lengths(sizes: list[list[int]]) -> Any:
    torch = torch_or_none()
    flat = [s[0] for s in sizes] if len(sizes[0]) == 1 else sizes
    if torch is not None:
        return torch.tensor(flat, dtype=torch.int64)
    import numpy
    return numpy.asarray(flat, dtype="int64")


def collation(value: Any) -> _collate.Collate:
    """collate= that is not a function."""
    if isinstance(value, Mapping):
        invalid("collate: one way for all outputs of a Python data set, or a function: stack, list, pad")
    kind, pad, multiple = _options.collations(value, ["batch"])[0]
    return _collate.Collate(("stack", "list", "pad")[kind], pad, multiple)


def gil_is_on() -> bool:
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def worker_type(value: Any) -> str:
    """"thread", "process", or a start method."""
    if value is None:
        return "process" if gil_is_on() else "thread"
    if value not in ("process", "thread", *_crew.METHODS):
        invalid(f'worker_type must be "process", "thread", "fork", "forkserver" or "spawn", not {shown(value)}')
    return str(value)


def _worker_count(value: Any, kind: str) -> int:
    if value is None:
        return min(len(os.sched_getaffinity(0)), 16)
    return _options.number("num_workers", value)


def start(recipe: _make.Recipe, kind: str, workers: int, answer: _crew.Answer | None) -> Any:
    """The crew that makes the batches."""
    ring = _stoker.Ring()
    if not workers:
        return _crew.Alone(recipe, ring, answer)
    if kind == "thread":
        return _crew.Threads(recipe, ring, answer, workers)
    wanted = None if kind == "process" else kind
    method = _crew.method_for(wanted, threads_of_loaders())
    return _crew.processes(recipe, ring, answer, workers, method, wanted is None)


def threads_of_loaders() -> bool:
    """Whether this process has threads of loaders of files, which would be forked with it."""
    return any(not isinstance(x, SetLoader) for x in list(open_loaders))


Loader.register(SetLoader)                      # for isinstance()
_IN_FLIGHT = 3                                  # batches on their way to a GPU


def gpu_of(device: Any) -> str | None:
    """device= as torch knows it, or why that can't be; None: the CPU.  CUDA is not begun: workers may be forked later."""
    name = _options.device_name(device)
    torch = torch_or_none()
    if name != "cpu" and (torch is None or not torch.cuda.is_available()):
        _staging.check(name)                    # says why
    return None if name == "cpu" else name


def pinner(wanted: Any) -> Callable[[Any], Any] | None:
    """What copies a batch to page-locked memory; None: it stays as it is."""
    if not _options.flag("pin_memory", wanted):
        return None
    torch = torch_or_none()
    if torch is None or not torch.cuda.is_available():
        _iterable.warn_once("pin", "pin_memory=True, but there is no GPU that torch sees: batches are in ordinary memory")
        return None
    from torch.utils.data._utils.pin_memory import pin_memory
    return pin_memory
