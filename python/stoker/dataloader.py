# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader: torch's DataLoader by name, arguments, defaults and batches, on Stoker's workers and ring.

It is not a subclass of torch's: frameworks take a subclass apart and build another one from its arguments.
"""

from __future__ import annotations

import array
import multiprocessing
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import _collate, _crew, _make, _stoker, _streams, sets
from ._arrays import torch_or_none
from .errors import Batched, ClosedError, Whole, invalid, shown, unsupported
from .seeing import profiled

_VERSION = 1
_FIXED = ("dataset", "batch_size", "batch_sampler", "sampler", "drop_last", "persistent_workers")     # in torch too


class DataLoader(Batched, Whole, has=("dataset", "batch_size", "sampler", "batch_sampler", "num_workers", "drop_last", "generator")):
    """torch.utils.data.DataLoader with another engine: change the import and nothing else.

    The arguments mean what they mean in torch (docs/python-data.md has the list).  Differences: with shuffle=True the
    permutation is Stoker's, seeded by the next 64 bits of `generator`; random, NumPy and torch are seeded for every
    sample, so that what it draws does not depend on num_workers; state_dict() and load_state_dict() resume within an
    epoch; batches are views of shared memory that is used again when they are gone.
    """

    _crew: Any = None                           # of persistent workers
    _running: _Pass | None = None
    _looped = False                             # an iterable was read before
    _made = False                               # the constructor is done

    def __init__(self, dataset: Any, batch_size: int | None = 1, shuffle: bool | None = None, sampler: Any = None,
                 batch_sampler: Any = None, num_workers: int = 0, collate_fn: Callable[[list[Any]], Any] | None = None,
                 pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
                 worker_init_fn: Callable[[int], None] | None = None, multiprocessing_context: Any = None,
                 generator: Any = None, *, prefetch_factor: int | None = None, persistent_workers: bool = False,
                 pin_memory_device: str = "", in_order: bool = True) -> None:
        if isinstance(dataset, str):
            invalid(f"stoker.DataLoader takes a data set, not the path {shown(dataset)}: stoker.Loader(path, fields) reads files")
        if torch_or_none() is None:
            unsupported("stoker.DataLoader gives torch's batches and torch is not installed: use stoker.Loader(dataset)")
        self.dataset, self.batch_size, self.drop_last = dataset, batch_size, bool(drop_last)
        self.num_workers, self.timeout, self.generator = num_workers, timeout, generator
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.worker_init_fn, self.persistent_workers = worker_init_fn, persistent_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self._iterable = sets.is_stream(dataset)
        self._check_workers(prefetch_factor)
        self.multiprocessing_context = multiprocessing_context
        self._method = _start_method(multiprocessing_context, num_workers)
        self._check_order(shuffle, sampler, batch_sampler)
        self._shuffle, self._own = bool(shuffle), sampler is None and batch_sampler is None
        self._samplers(sampler, batch_sampler)
        self._collation(collate_fn)
        self._pin = sets.pinner(bool(pin_memory))
        self._loaded: dict[str, Any] | None = None
        self._made = True

    def __setattr__(self, name: str, value: Any) -> None:
        """As in torch: some may be changed before the next loop, others not at all."""
        if self._made and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after DataLoader is initialized: make another one")
        super().__setattr__(name, value)
        if self._made and name == "collate_fn":
            self._collation(value)
        elif self._made and name == "multiprocessing_context":
            self._method = _start_method(value, self.num_workers)
        elif self._made and name == "pin_memory":
            self._pin = sets.pinner(bool(value))

    # ---- arguments, in torch's words -----------------------------------------------------------------

    def _check_workers(self, prefetch: Any) -> None:
        if not isinstance(self.num_workers, int) or self.num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if self.timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if self.num_workers == 0 and prefetch is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing. let num_workers > 0 to "
                             "enable multiprocessing, otherwise set prefetch_factor to None.")
        if prefetch is not None and prefetch < 1:
            raise ValueError("prefetch_factor option should be positive")
        if self.persistent_workers and self.num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")

    def _check_order(self, shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
        if self._iterable:
            for name, value in (("shuffle", shuffle or None), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                if value is not None:
                    raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                                     f"{name}={shown(value)}")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if self.batch_size != 1 or shuffle or sampler is not None or self.drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
                                 "drop_last")
            self.batch_size, self.drop_last = None, False
        elif self.batch_size is None and self.drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        elif self.batch_size is not None and (not isinstance(self.batch_size, int) or isinstance(self.batch_size, bool)
                                              or self.batch_size < 1):
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={shown(self.batch_size)}")

    def _samplers(self, sampler: Any, batch_sampler: Any) -> None:
        """What frameworks read; of our own order they describe the kind, not the permutation."""
        from torch.utils import data
        if sampler is None:
            if self._iterable:
                sampler = data.dataloader._InfiniteConstantSampler()    # type: ignore[attr-defined]
            elif self._shuffle:
                sampler = data.RandomSampler(self.dataset, generator=self.generator)
            else:
                sampler = data.SequentialSampler(self.dataset)
        if self.batch_size is not None and batch_sampler is None:
            batch_sampler = data.BatchSampler(sampler, self.batch_size, self.drop_last)
        self.sampler, self.batch_sampler = sampler, batch_sampler

    def _collation(self, collate_fn: Any) -> None:
        from torch.utils.data import default_collate, default_convert
        self._single = self.batch_size is None and self.batch_sampler is None
        super().__setattr__("collate_fn", collate_fn or (default_convert if self._single else default_collate))
        usual = not self._single and self.collate_fn is default_collate
        self._recipe_collate = _collate.TorchCollate() if usual else self.collate_fn
        self._recipe_own = not usual

    # ---- epochs --------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Any]:
        state, self._loaded = self._loaded, None
        if self._running is not None and self.persistent_workers:
            self._running.stop()
        self._running = _Pass(self, state)
        return self._running

    def _workers(self, seed: int) -> Any:
        if self._crew is not None:
            return self._crew
        recipe = _make.Recipe(self.dataset, self._recipe_collate, self._recipe_own, self._single, seed,
                              sets.is_pure(self.dataset), max(self.num_workers, 1), self.worker_init_fn)
        crew = sets.start(recipe, self._method, self.num_workers, None)
        if self.persistent_workers:
            self._crew = crew
        return crew

    def _indices(self, seed: int) -> Iterator[Any]:
        """The batches of an epoch as lists of indices; single samples as lists of one."""
        if not self._own:
            return iter(self.batch_sampler) if not self._single else ([i] for i in self.sampler)
        return self._ordered(seed, 0)

    def _ordered(self, seed: int, first: int) -> Iterator[list[int]]:
        """Our own order, from batch `first` on."""
        n, rows = len(self.dataset), self.batch_size or 1
        if not n or self.drop_last and n < rows:
            return
        words = {"batch_size": str(rows), "seed": str(seed), "shuffle": "exact" if self._shuffle else "none"}
        sampler = _stoker.Sampler((n,), {**words, **({"drop_last": "yes"} if self.drop_last else {})})
        for step in range(first, sampler.steps(0)):
            yield memoryview(sampler.at(0, 0, step)[0]).cast("Q").tolist()

    def __len__(self) -> int:
        if self._iterable:
            n = len(self.dataset)
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(self.sampler) if self._single else len(self.batch_sampler)

    # ---- state ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the loop stands: batches handed out, the seed of the order, and of an iterable its workers' states."""
        if self._loaded is not None:
            return dict(self._loaded)
        if self._running is None or self._running.over:
            return {"version": _VERSION, "batches": 0, "seed": None, "stream": None}
        return self._running.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The next loop goes on after the last batch of `state`: at once in our own order, by replay with a sampler."""
        if not isinstance(state, Mapping) or state.get("version") != _VERSION:
            invalid(f"this is not a state of stoker.DataLoader: {shown(state)[:80]}")
        self._loaded = dict(state)

    def close(self) -> None:
        """End persistent workers now, not when the loader goes."""
        crew, self._crew = self._crew, None
        if self._running is not None:
            self._running.stop()
        if crew is not None:
            crew.close()

    def __del__(self) -> None:
        if self._crew is not None:
            self._crew.close()

    def __repr__(self) -> str:
        return (f"stoker.DataLoader({type(self.dataset).__name__}, batch_size={self.batch_size}, "
                f"num_workers={self.num_workers})")


def _start_method(context: Any, workers: int) -> str:
    if context is None:
        return "process"
    if workers == 0:
        raise ValueError(f"multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                         f"num_workers={workers}")
    name = context if isinstance(context, str) else getattr(context, "get_start_method", lambda: None)()
    known = [m for m in multiprocessing.get_all_start_methods() if m in _crew.METHODS]
    if isinstance(context, str) and name not in known:
        raise ValueError(f"multiprocessing_context option should specify a valid start method in {known!r}, but got "
                         f"multiprocessing_context={context!r}")
    if name not in known:
        raise TypeError(f"multiprocessing_context option should be a valid context object or a string specifying the "
                        f"start method, but got multiprocessing_context={shown(context)}")
    return name


class _Pass(_stoker.Giver):
    """One loop over a DataLoader, with workers of its own unless they persist."""

    def __init__(self, loader: DataLoader, state: dict[str, Any] | None) -> None:
        import torch
        self._loader = loader
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=loader.generator).item())
        self._seed = seed if state is None or state["seed"] is None else state["seed"]
        self._first = 0 if state is None else state["batches"]
        self.over = False
        self._stopped = False
        self._failed = 0
        self._crew = loader._workers(self._seed)
        self._tickets: deque[tuple[int, Any]] = deque()
        self._sent = self._first
        self._rows = 0
        self._ready: dict[int, tuple[Any]] = {}     # step -> its batch, until it is handed out
        self._lock = threading.RLock()          # threads take turns
        self._reader: _streams.Reader | None = None
        if loader._iterable:
            self._begin_stream(state)
        else:
            self._indices = self._begin_map()

    def _begin_stream(self, state: dict[str, Any] | None) -> None:
        o = self._loader
        shape = _streams.Shape(o.batch_size or 1, 0, 1, o.drop_last, o._single)
        from torch.utils.data import IterableDataset
        shared = isinstance(o.dataset, IterableDataset)     # torch knows no other: one worker reads them, or those who ask
        self._reader = _streams.Reader(shape, max(o.num_workers, 1), everyone=shared)
        if not shared:
            _streams.warn_if_spent(o.dataset, o._looped)
        o._looped = True
        if state is not None and state.get("stream") is not None:
            self._reader.load(state["stream"], self._first)
        self._reader.begin(self._seed, self._first)

    def _begin_map(self) -> Iterator[Any]:
        o = self._loader
        if o._own:
            self._rows = self._first * (o.batch_size or 1)
            return o._ordered(self._seed, self._first)
        found = o._indices(self._seed)
        for _ in range(self._first):
            self._rows += len(_listed(next(found, ())))
        return found

    @profiled
    def _make(self) -> tuple[Any, Any, tuple[int, None]]:
        with self._lock:
            return self._made()

    def _made(self) -> tuple[Any, Any, tuple[int, None]]:
        if self.over:
            raise StopIteration
        if self._stopped:
            raise ClosedError("this iterator is over: its loader was closed, or another loop has taken its persistent workers; use "
                              "one iterator at a time, or persistent_workers=False", "ECLOSED")
        step = self._first + self.given + self._failed
        if step not in self._ready:
            self._ready.clear()
            try:
                self._ready[step] = (self._batch(step),)
            except StopIteration:
                self.over = True
                self.stop()
                raise
            except Exception:
                self._failed += self._step_failed()     # not what a signal's handler raised
                raise
        return self._ready[step][0], self._ready.pop, (step, None)

    def _batch(self, step: int) -> Any:
        if self._reader is not None:
            made = self._reader.next(self._crew, self._wait)
        else:
            while self._tickets and self._tickets[0][0] < step:
                self._tickets.popleft()
            self._fill()
            if not self._tickets:
                raise StopIteration
            made = self._wait(self._crew, self._tickets[0][1])
        pin = self._loader._pin
        return made.batch if pin is None else pin(made.batch)

    def _step_failed(self) -> bool:
        if self._reader is not None:
            return self._reader.failed()
        return bool(self._tickets) and self._tickets[0][1].failed

    def _wait(self, crew: Any, ticket: Any) -> Any:
        return crew.result(ticket, self._loader.timeout)

    def _fill(self) -> None:
        o = self._loader
        ahead = max((o.prefetch_factor or 0) * o.num_workers, 1)
        while len(self._tickets) < ahead:
            indices = next(self._indices, None)
            if indices is None:
                return
            indices = _listed(indices)
            positions = array.array("Q", range(self._rows, self._rows + len(indices))).tobytes()
            task = _make.Task(self._seed & 2**63 - 1, indices, positions)
            self._tickets.append((self._sent, self._crew.submit(task)))
            self._sent += 1
            self._rows += len(indices)

    def state(self) -> dict[str, Any]:
        return {"version": _VERSION, "batches": self._first + self.given, "seed": self._seed,
                "stream": None if self._reader is None else self._reader.saved(True)}

    def stop(self) -> None:
        """End the workers of this loop; of persistent ones the tickets are forgotten."""
        self._stopped = True
        self._tickets.clear()
        if self._crew is not None and self._crew is not self._loader._crew:
            self._crew.close()
        self._crew = None

    def __len__(self) -> int:
        return len(self._loader)

    def __del__(self) -> None:
        if getattr(self, "_crew", None) is not None:
            self.stop()


def _listed(indices: Any) -> list[Any]:
    """What a batch sampler gives, as a list; tensors of indices too."""
    return indices.tolist() if hasattr(indices, "tolist") else list(indices)
