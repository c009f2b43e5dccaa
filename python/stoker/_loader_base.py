# SPDX-License-Identifier: Apache-2.0
"""What every loader is, whatever makes its batches: epochs, states, weights of mixtures, the ledger.

Loader (files), SetLoader (Python data sets) and StreamLoader (shards without an index) implement it.  stoker.Loader(data)
makes the one that the data needs, and isinstance(x, stoker.Loader) holds for all of them.
"""

from __future__ import annotations

import abc
import atexit
import os
import weakref
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Self

from . import _mix, _monitor, _options, _state, _stoker
from ._arrays import prepare
from .batch import Batch
from .errors import Batched, ClosedError, StokerError, Whole, invalid, shown

open_loaders: weakref.WeakSet[LoaderBase] = weakref.WeakSet()
_monitors: dict[int, _monitor.Monitor] = {}     # of this process; a child has its own


@atexit.register
def _close_all() -> None:
    """Join worker threads while the interpreter still stands."""
    for loader in list(open_loaders):
        loader.close()
    for monitor in _monitors.values():
        monitor.close()
    _stoker.stop_logging()


def _reports() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for loader in list(open_loaders):
        try:
            found.append({"report": loader.report(), "stats": loader.stats()})
        except StokerError:                     # closed meanwhile
            continue
    return found


class LoaderType(abc.ABCMeta):
    """The type of loaders.  A class with kind_of(), which stoker.Loader is, makes an object of the class that it answers."""

    if not TYPE_CHECKING:                       # to a checker Loader(...) is a Loader
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            kind = cls.kind_of(*args, **kwargs) if "kind_of" in cls.__dict__ else cls
            return type.__call__(kind, *args, **kwargs)


class Epoch(_stoker.Giver):
    """One pass over a loader; only the newest one of a loader gives batches.

    __next__ is the base class's: it calls _make() and then takes the batch, in C.  So a signal's handler that raises in
    here loses nothing: the batch is still the next one.
    """

    failed = False                              # next() raised an error; nothing was handed out since

    def __init__(self, loader: Any, epoch: int, names: tuple[str, ...] | None) -> None:
        self._loader, self._epoch = loader, epoch
        self._names = names                     # batches come as tuples of these outputs; None: as they are
        self._over = False

    def _check_newest(self) -> None:
        if self._loader._running is not self:
            if self._over:
                raise StopIteration
            self._loader._check_open()
            raise ClosedError("this iterator is over: its loader has gone on to another epoch since; use one iterator at "
                              "a time, or two loaders", "ECLOSED")

    def _end(self) -> None:
        self._over = True                       # first: another thread may look at both
        if self._loader._running is self:
            self._loader._running = None

    def __len__(self) -> int:
        return len(self._loader)


class LoaderBase(Batched, Whole, metaclass=LoaderType):
    """A loader: what a kind of data has to answer is abstract, or `unsupported` where it can't."""

    _functions: tuple[Any, ...]                 # of batch_ops=
    _identity: dict[str, Any]                   # what a state is the state of
    _samples: int                               # of an epoch
    _mixed: dict[str, float]                    # weights of a mixture, by name
    _changes: list[_mix.Change]                 # of its weights, all from the first on

    def _stand_at_start(self) -> None:
        self._pid = os.getpid()
        self._running: Any = None               # the Epoch that is in flight
        self._next: tuple[int, int] | None = None   # where set_epoch or load_state_dict points
        self._life = 0, 0, 0                    # generation, and the epoch and position it took up at
        self._loaded: tuple[int, int, int] | None = None    # the next life, until a loop begins it
        self._ledger: bytes | None = None

    def _open_for_use(self) -> None:
        open_loaders.add(self)
        prepare()                               # here and not within the first next()

    # ---- what a kind of data answers ---------------------------------------------------------------

    @abc.abstractmethod
    def _check_open(self) -> None:
        """Raise where the loader is closed."""

    @abc.abstractmethod
    def _begin(self, names: tuple[str, ...] | None) -> Any:
        """The next Epoch; names: of the outputs, where its batches are tuples."""

    @abc.abstractmethod
    def _where(self) -> tuple[int, int]:
        """(epoch, position) where the consumer stands."""

    @abc.abstractmethod
    def _positions(self, epoch: int) -> int:
        """Positions of an epoch."""

    @abc.abstractmethod
    def _mixer(self) -> Any:
        """What mixes data sets by weight: set_weights(), set_mix() and mix() are its."""

    @abc.abstractmethod
    def _what(self) -> dict[str, Any]:
        """What a state is the state of."""

    @abc.abstractmethod
    def _write_ledger(self, path: bytes | None, life: tuple[int, int, int]) -> None:
        """Begin a ledger there; None: end it."""

    @property
    @abc.abstractmethod
    def fields(self) -> dict[str, str]:
        """Output name -> the text of its chain."""

    @abc.abstractmethod
    def __len__(self) -> int:
        """Batches of an epoch."""

    @abc.abstractmethod
    def stats(self) -> dict[str, Any]:
        """Figures since the loader was opened."""

    @abc.abstractmethod
    def report(self) -> str:
        """stats() as text for people."""

    @abc.abstractmethod
    def close(self) -> None:
        """Stop and free."""

    # ---- epochs ------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Batch]:
        batches: Iterator[Batch] = self._begin(None)
        return batches

    def _begin_life(self) -> None:
        """The first loop after load_state_dict() begins a generation, and its ledger."""
        if self._loaded is not None and self._ledger is not None:
            self._write_ledger(None, (0, 0, 0))     # a second try from one checkpoint replaces the first
            self._write_ledger(self._ledger, self._loaded)
        self._life = self._loaded or self._life
        self._loaded = None

    def _check_known(self, epoch: int, position: int) -> None:
        """A state brings the weights of a mixture along that hold from there on, and no earlier ones."""
        if self._changes and epoch * self._samples + position < self._changes[0][0]:
            begin, at = divmod(self._changes[0][0], self._samples)
            invalid(f"epoch {epoch} is mixed by weights that this loader does not know: the state that it "
                    f"took up knows them from epoch {begin}, position {at} on")

    def _coming(self) -> tuple[int, int]:
        """Where the next loop begins."""
        epoch, position = self._where()
        run = self._running
        if self._next is None and run is not None and run.given and run._epoch == epoch and not run.failed:
            return epoch + 1, 0                 # left by break: the next loop is the next epoch
        return epoch, position

    @property
    def epoch(self) -> int:
        """Where the consumer stands: the running epoch, or the next one if none is running."""
        return self._where()[0]

    def set_epoch(self, epoch: int) -> None:
        """The next loop is epoch `epoch`.

        After load_state_dict() of a state from within that epoch, the loop goes on from there: frameworks
        and scripts call this before every loop, also before the resumed one.
        """
        epoch = _options.whole("epoch", epoch, 0, 2**32 - 1)
        if self._next is None or self._next[0] != epoch:
            self._next = epoch, 0

    # ---- state -------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the consumer stands, in a small dict that JSON can keep: the same on every rank, but
        for what is under "local".

        It counts the batches received, not those made ahead, and none for which next() raised.
        """
        epoch, position = self._where()
        order = self._order_of(epoch)
        if "mix" in order:
            changes = _mix.holding(order["mix"]["changes"], epoch * self._samples + position)
            order = {**order, "mix": {**order["mix"], "changes": changes}}
        return {"version": _state.VERSION, "epoch": epoch, "position": position, "generation": self._life[0],
                **self._identity, "order": order, "local": {"skipped": self._skipped_samples()}}

    def _order_of(self, epoch: int) -> dict[str, Any]:
        order: dict[str, Any] = self._identity["order"]
        return order

    @abc.abstractmethod
    def _skipped_samples(self) -> int:
        """How many bad samples were left out."""

    def _go_on_at(self, generation: int, place: tuple[int, int]) -> None:
        """A state was taken up."""
        self._life = generation, *place
        self._loaded = generation + 1, *place
        self._next = place
        self._running = None

    def _take_changes(self, changes: Any, place: tuple[int, int], strict: bool) -> None:
        """The weights of a mixture as a state has them."""
        known = _mix.restored(changes, len(self._mixed))
        self._mixer().set_mix(tuple(_mix.from_there(known, place[0] * self._samples + place[1], strict)))
        self._note_changes()

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Mix by other weights from the next batch on, in a loop or between two; batches made ahead are
        dropped.  Data sets that are not named keep theirs.

        Call it on all ranks after the same step.  The state keeps every change.
        """
        if not self._changes:
            invalid("set_weights() changes a mixture: this loader's data is none, see stoker.mix()")
        mixed = _mix.changed(self._mixed, weights)
        self._mixer().set_weights(tuple(mixed.values()), *self._where())
        self._drop_ahead()
        self._note_changes()
        self._mixed = mixed
        self._identity = self._what()

    def _drop_ahead(self) -> None:
        """Batches made ahead have other samples than those that come now."""

    def _note_changes(self) -> None:
        self._changes = self._mixer().mix()
        self._mixed = {name: n / _mix.PARTS for name, n in zip(self._mixed, self._changes[-1][1], strict=True)}

    def ledger(self, folder: str | bytes | os.PathLike[Any] | None) -> None:
        """Write down which samples every batch has, before it is handed out; None: no longer.

        One file in `folder` (made if missing) for each rank and each life of the run; all ranks give
        the same folder, and every loader one of its own.  `stoker ledger FOLDER` reads it: when was a
        sample seen, what was in a step, what was seen twice or never.
        """
        if folder is not None and not isinstance(folder, (str, bytes, os.PathLike)):
            invalid(f"a ledger is written to a folder, not {shown(folder)}")
        path = None if folder is None else os.fsencode(folder)
        if path is not None and b"\0" in path:
            invalid("ledger: a path has a null character")
        self._write_ledger(path, self._life)
        self._ledger = path

    # ---- the rest ----------------------------------------------------------------------------------

    def monitor(self) -> str:
        """Let `stoker top` look at all loaders of this process, over a socket that only this user can open; its path.
        STOKER_MONITOR=1 in the environment does it when a loader is made."""
        if os.getpid() not in _monitors:
            _monitors[os.getpid()] = _monitor.Monitor(_reports)
        return _monitors[os.getpid()].path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise StokerError("a Loader does not pickle: its threads live in this process; make one "
                          "there, or use stoker.open(...), which does", "ENOTSUP")
