# SPDX-License-Identifier: Apache-2.0
"""to_device(): batches of any loader on the GPU, copied while the step before runs.

There is no thread: next() pulls batches until `depth` are in flight and hands out the first.  What
comes out is what the loader gave, in its order, errors too, each in its place.  The state is taken
before every pull, so that state_dict() says what was handed out and not what was pulled.

A signal's handler may raise anywhere in here.  So a batch that the loader gave is kept in the queue from
that moment on, and leaves it when C hands it out (_stoker.Giver): none is lost, none comes twice.
"""

from __future__ import annotations

import copy
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from . import _staging, _stoker
from ._options import whole
from .errors import Batched, ClosedError, Whole, by_handler, invalid, shown


class _Pulled:
    """A place in the queue: the loader's state before its batch was pulled, then the batch, or the end, or an
    error.  Each step is one assignment, so one that was cut short is done again."""

    def __init__(self, state: Any) -> None:
        self.state = state
        self.raw: Any = _NOTHING                # as the loader gave it
        self.sent: Any = _NOTHING               # in flight
        self.error: Exception | None = None


_NOTHING = object()


class _DevicePass(_stoker.Giver):
    """One loop over the loader.  Threads take turns: each batch goes to one of them."""

    def __init__(self, owner: ToDevice, inner: Iterator[Any]) -> None:
        self._owner = owner
        self._inner: Iterator[Any] | None = inner
        self._mover: Any = None
        self._queue: dict[int, _Pulled] = {}    # in order, by number; giving one is to pop it
        self._pulled = 0
        self._over = False
        self._lock = threading.RLock()
        self._busy = False                      # next() runs, in the thread that has the lock

    def _make(self) -> tuple[Any, Any, tuple[int, None]]:
        with self._lock:
            self._busy = True
            try:
                return self._made()
            finally:
                self._busy = False
                if self._inner is None:         # closed meanwhile
                    self._let_go()

    def _made(self) -> tuple[Any, Any, tuple[int, None]]:
        """Of two threads that are given one batch, one takes it, and the other one comes again."""
        if self._over:
            raise StopIteration
        inner = self._inner
        if inner is None:
            raise ClosedError("this iterator is over: it was closed, or its loader has gone on since; use "
                              "one iterator at a time", "ECLOSED")
        if self._mover is None:
            self._mover = _staging.place(self._owner.device, self._owner.depth)
        self._fill(inner)
        number, first = next(iter(self._queue.items()))
        if first.error is not None:
            error, first.error = first.error, None  # its place stays, and next() again tries again
            if isinstance(error, StopIteration):
                del self._queue[number]
                self._end()
            raise error
        return self._mover.receive(first.sent), self._queue.pop, (number, None)

    def _fill(self, inner: Iterator[Any]) -> None:
        """`depth` batches are in flight, or all that are left."""
        while True:
            last = next(reversed(self._queue.values()), None)
            if last is not None and last.sent is _NOTHING and last.error is None:
                self._pull(last, inner)
            elif len(self._queue) < self._owner.depth and (last is None or last.error is None):
                self._pulled += 1
                self._queue[self._pulled] = _Pulled(self._owner._state_now())
            else:
                return

    def _pull(self, into: _Pulled, inner: Iterator[Any]) -> None:
        try:
            if into.raw is _NOTHING:
                for into.raw in inner:
                    break                       # a loop: next() looks at signals before it is stored
                else:
                    into.error = StopIteration()
                    return
            into.sent = self._mover.send(into.raw)
            into.raw = None
        except Exception as e:                  # not KeyboardInterrupt: that is not the loader's
            if by_handler(e):
                raise
            into.error = e

    def _end(self) -> None:
        self._over = True
        self._queue.clear()
        self.close()

    def close(self) -> None:
        """Let go of what is in flight, and of the loader's iterator.  A next() that runs does so when it ends."""
        self._inner = None
        if self._lock.acquire(blocking=False):
            try:
                if not self._busy:              # else a signal's handler came upon it
                    self._let_go()
            finally:
                self._lock.release()

    def _let_go(self) -> None:
        for pulled in self._queue.values():     # their states say where the loop was left
            pulled.raw = pulled.sent = None
        mover, self._mover = self._mover, None
        if mover is not None:
            mover.close()

    def __del__(self, ending: Any = sys.is_finalizing) -> None:
        if not ending():                        # CUDA may be gone by then, and memory soon is
            self.close()


class _NoState:
    """The loader could not say where it stands: so it is said when somebody asks."""

    def __init__(self, why: Exception) -> None:
        self.why = why


class ToDevice(Batched, Whole, has=("loader", "device", "depth")):
    """What to_device() answers: iterate over it as over the loader.

    len(), set_epoch(), state_dict() and load_state_dict() are there as far as the loader has them, and
    so is everything else of it.
    """

    _running: weakref.ref[_DevicePass] | None = None

    def __init__(self, loader: Iterable[Any], device: Any, depth: int) -> None:
        self.loader = loader
        self.device = device
        self.depth = depth
        self._once: _DevicePass | None = None         # of a loader that is its own iterator: no loop loses any
        self._queue: dict[int, _Pulled] = {}    # of the last loop: the first has the state after what was given
        self._passed: _Pulled | None = None     # while it is the first, the loader's own state counts

    def __iter__(self) -> Iterator[Any]:
        if self._once is not None and self._once._inner is not None:
            return self._once
        inner = iter(self.loader)
        made = _DevicePass(self, inner)
        self._drop()
        self._running = weakref.ref(made)
        self._queue = made._queue
        if inner is self.loader:
            self._once = made
        return made

    def __len__(self) -> int:
        return len(self.loader)                 # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "loader" not in self.__dict__:
            return super().__getattr__(name)
        found = getattr(self.loader, name)      # which says so if there is none
        return {"state_dict": self._state_dict, "load_state_dict": self._load_state_dict,
                "set_epoch": self._set_epoch}.get(name, found)

    # ---- state -----------------------------------------------------------------------------------

    def _first(self) -> _Pulled | None:
        """The batch that is handed out next, if it was pulled."""
        for pulled in list(self._queue.values()):
            return pulled
        return None

    def _state_now(self) -> Any:
        ask = getattr(self.loader, "state_dict", None)
        try:
            return None if ask is None else copy.deepcopy(ask())
        except Exception as e:
            return _NoState(e)

    def _state_dict(self, *args: Any, **kwargs: Any) -> Any:
        first = self._first()
        if first is None or first is self._passed:
            return self.loader.state_dict(*args, **kwargs)      # type: ignore[attr-defined]
        if isinstance(first.state, _NoState):
            raise first.state.why
        return copy.deepcopy(first.state)

    def _load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        answer = self.loader.load_state_dict(*args, **kwargs)   # type: ignore[attr-defined]
        self._drop()                            # what is in flight is of another place
        return answer

    def _set_epoch(self, *args: Any, **kwargs: Any) -> Any:
        answer = self.loader.set_epoch(*args, **kwargs)         # type: ignore[attr-defined]
        self._passed = self._first()
        return answer

    # ---- the end ---------------------------------------------------------------------------------

    def _drop(self) -> None:
        running = None if self._running is None else self._running()
        if running is not None:
            running.close()
        self._running = self._once = self._passed = None
        self._queue = {}

    def close(self) -> None:
        """Let go of what is in flight, and close the loader if it can be."""
        self._drop()
        close = getattr(self.__dict__.get("loader"), "close", None)
        if callable(close):
            close()

    def __enter__(self) -> ToDevice:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def to_device(iterable: Iterable[Any], device: Any = "cuda", depth: int = 3) -> ToDevice:
    """Batches of `iterable` with their tensors on `device`, copied while the step before runs.

        for images, labels in stoker.to_device(loader, "cuda"):
            train(images, labels)

    iterable: any loader, or a generator.  Tensors and NumPy arrays are found in tuples, lists, dicts,
        named tuples, dataclasses and mappings; what is none is passed on as it is
    device: "cuda" (the current GPU), "cuda:1", or "cpu": nothing moves, all else is the same
    depth: batches pulled and copied ahead, the one handed out included.  Each takes its size in pinned
        memory and in the GPU's

    What comes out is safe on the stream that is current when it is handed out.  state_dict() is that of
    the last batch handed out.
    """
    if not isinstance(iterable, Iterable) and not hasattr(iterable, "__getitem__"):
        invalid(f"to_device takes a loader or another iterable, not {shown(iterable)}")
    made = ToDevice(iterable, device, whole("depth", depth, 1))
    _staging.check(device)                      # now, not at the first batch
    return made
