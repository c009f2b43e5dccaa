# SPDX-License-Identifier: Apache-2.0
"""Where a loop of stoker.DataLoader stands, and the states that are made of it.

A state has what was handed out, the generators as they were when the epoch began, which give the same order again, and as
they are now, which the next epochs go on with.
"""

from __future__ import annotations

import array
import base64
import pickle
import random
import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils.data import _DatasetKind

from .errors import invalid, shown

_VERSION = 2


def _samplers(loader: Any) -> list[Any]:
    """The samplers of a loader, and those in them."""
    found: list[Any] = []
    for one in (loader.batch_sampler, loader.sampler):
        while one is not None and all(one is not seen for seen in found) and len(found) < 16:
            found.append(one)
            one = getattr(one, "batch_sampler", None) or getattr(one, "sampler", None)
    return found


class Draws:
    """The generators that the order of a loader is drawn from: torch's own, those of the loader and its samplers, and, for
    samplers that are not torch's, the ones of random and NumPy."""

    def __init__(self, loader: Any) -> None:
        samplers = _samplers(loader)
        self._torch: list[Any] = [torch.default_generator]
        for one in (loader, *samplers):
            made = getattr(one, "generator", None)
            if isinstance(made, torch.Generator) and all(made is not g for g in self._torch):
                self._torch.append(made)
        self._stateful = [s for s in samplers if callable(getattr(s, "state_dict", None))
                          and callable(getattr(s, "load_state_dict", None))]
        alone = loader._dataset_kind == _DatasetKind.Iterable and not loader.num_workers    # it draws from them too
        self._foreign = alone or any(type(s).__module__.partition(".")[0] not in ("torch", "builtins") for s in samplers)

    def get(self) -> dict[str, Any]:
        made: dict[str, Any] = {"torch": [_text(bytes(g.get_state().numpy())) for g in self._torch]}
        if self._stateful:
            made["samplers"] = [s.state_dict() for s in self._stateful]
        if self._foreign:
            made |= _foreign_draws()
        return made

    def set(self, saved: Mapping[str, Any]) -> None:
        for one, state in zip(self._torch, saved["torch"], strict=True):
            one.set_state(torch.frombuffer(bytearray(_raw(state)), dtype=torch.uint8))
        for one, state in zip(self._stateful, saved.get("samplers", ()), strict=False):
            one.load_state_dict(state)
        if self._foreign and "random" in saved:
            _set_foreign(saved)

    @staticmethod
    def every() -> Any:
        """All of this process's generators: what is read again draws nothing."""
        return random.getstate(), _numpy().get_state(), torch.get_rng_state()

    @staticmethod
    def put_every(saved: Any) -> None:
        random.setstate(saved[0])
        _numpy().set_state(saved[1])
        torch.set_rng_state(saved[2])


def _numpy() -> Any:
    import numpy
    return numpy.random


def _foreign_draws() -> dict[str, Any]:
    """The generators that are not torch's."""
    kind, words, *rest = _numpy().get_state()
    return {"random": random.getstate(), "numpy": (kind, _text(words.tobytes()), *rest)}


def _set_foreign(saved: Mapping[str, Any]) -> None:
    version, words, gauss = saved["random"]
    random.setstate((version, tuple(words), gauss))
    kind, words, *rest = saved["numpy"]
    _numpy().set_state((kind, array.array("I", _raw(words)), *rest))


def draws_of_worker() -> dict[str, Any]:
    """All generators of a worker, as a state has them."""
    return {"torch": _text(bytes(torch.get_rng_state().numpy())), **_foreign_draws()}


def set_draws_of_worker(saved: Mapping[str, Any]) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(_raw(saved["torch"])), dtype=torch.uint8))
    _set_foreign(saved)


def _text(raw: bytes) -> str:
    """What JSON can say too."""
    return base64.b64encode(raw).decode()


def _raw(text: str | bytes) -> bytes:
    """bytes: of a state that 0.2 made."""
    return base64.b64decode(text) if isinstance(text, str) else text


class EpochPlace:
    """What was handed out of an epoch.

    top: the first step after those that were handed out or failed; missing: steps before it that were not handed out
    workers: of an iterable, by worker: (attempt of the state, attempts until the last batch, state); of a map-style data set
    with a state of its own (0, 0, state)
    drawn, before: generators of persistent workers when their iterables ended, now and in the epoch before
    resumed: what workers set their generators to, pickled; idle: workers whose share a state said was over
    """

    def __init__(self, draws: Draws, start: Any = None, base_seed: int | None = None, reset: bool = False,
                 loop: Any = None) -> None:
        self.start, self.base_seed, self.reset = start, base_seed, reset
        self.loop = None if loop is None else weakref.ref(loop)
        self.begin()

    def begin(self) -> None:
        self.top, self.missing = 0, frozenset[int]()
        self.workers: dict[int, tuple[int, int, Any]] = {}
        self.ended: dict[int, bool] = {}
        self.last: dict[int, Any] = {}          # states of data sets whose epoch is over
        self.drawn: dict[int, Any] = {}
        self.before: dict[int, Any] = {}
        self.resumed: dict[int, bytes] = {}
        self.idle: set[int] = set()
        self.turn = -1                          # the worker of the last batch
        self.over = False

    def running(self) -> Any:
        return None if self.loop is None else self.loop()

    def took(self, step: int, worker: int, attempt: int, state: Any) -> None:
        """Noting it twice is the same as once."""
        if step == self.top and not attempt:
            self.top, self.turn = step + 1, worker
            if state is not None:
                self.workers[worker] = 0, 0, state
            return
        self.missing = self.missing | frozenset(range(self.top, step)) - {step} if step >= self.top else self.missing - {step}
        self.top = max(self.top, step + 1)
        self.turn = worker
        if attempt:
            known, _, old = self.workers.get(worker, (0, 0, None))
            self.workers[worker] = (known, attempt, old) if state is None else (attempt, attempt, state)
        elif state is not None:
            self.workers[worker] = 0, 0, state

    def failed(self, step: int) -> None:
        self.missing = self.missing | frozenset(range(self.top, step + 1)) if step >= self.top else self.missing | {step}
        self.top = max(self.top, step + 1)

    def load(self, state: Mapping[str, Any]) -> None:
        self.top, self.missing, self.turn = state["batches"], frozenset(state["again"]), state["turn"]
        self.workers = {int(w): tuple(v) for w, v in state["workers"].items()}
        self.ended = {int(w): True for w in state["ended"]}
        self.last, self.drawn, self.before = ({int(w): one for w, one in state.get(name, {}).items()}
                                              for name in ("last", "drawn", "before"))
        self.idle = set(self.ended)
        self.resumed = {w: pickle.dumps(draws) for w, draws in self.before.items()}

    def follow(self, old: EpochPlace, iterable: bool) -> None:
        """The next epoch of persistent workers.  Those that had nothing to do in one that was resumed begin where its state says."""
        self.before = old.drawn
        self.workers = {w: (0, 0, old.last[w]) for w in old.idle if old.last.get(w) is not None} if iterable else dict(old.workers)
        self.resumed = {w: pickle.dumps(old.drawn[w]) for w in old.idle if w in old.drawn}

    def state(self, shape: dict[str, Any], draws: Draws) -> dict[str, Any]:
        loop = self.running()
        if loop is not None:
            loop.settle()
        now = draws.get()
        made = {"version": _VERSION, "shape": shape, "now": now}
        if self.over or self.start is None:
            persists = shape["persistent_workers"] and self.base_seed is not None
            workers = {w: (0, 0, s) for w, s in self.last.items() if s is not None}
            return {**made, "batches": 0, "again": [], "turn": -1, "workers": workers, "ended": [], "start": now, "now": None,
                    "before": dict(self.drawn) if persists else {}, "reset": persists, "base_seed": self.base_seed if persists else None}
        return {**made, "batches": self.top, "again": sorted(self.missing) if shape["kind"] == "map" else [], "turn": self.turn,
                "workers": dict(self.workers), "ended": sorted(w for w, over in self.ended.items() if over),
                "start": self.start, "before": dict(self.before), "drawn": dict(self.drawn),
                "last": dict(self.last), "reset": self.reset, "base_seed": self.base_seed}


def shape_of(loader: Any) -> dict[str, Any]:
    """What must be the same for a state to say the same."""
    def length(of: Any) -> int | None:
        try:
            return len(of)
        except (TypeError, NotImplementedError):
            return None

    iterable = loader._dataset_kind == _DatasetKind.Iterable
    return {"kind": "iterable" if iterable else "map", "batch_size": loader.batch_size, "drop_last": bool(loader.drop_last),
            "num_workers": int(loader.num_workers), "persistent_workers": bool(loader.persistent_workers),
            "samples": None if iterable else length(loader.dataset),
            "batches": None if iterable else length(loader._index_sampler),
            "sampler": type(loader._index_sampler).__name__ + " of " + type(loader.sampler).__name__}


_WORDS = {"kind": "a data set of kind {}", "samples": "{} samples", "batches": "{} batches an epoch", "sampler": "a {}"}


def checked(state: Any, shape: dict[str, Any]) -> dict[str, Any]:
    """A copy of a state that fits the loader, or why it does not."""
    if not isinstance(state, Mapping) or "version" not in state or "shape" not in state:
        invalid(f"this is not a state of stoker.DataLoader: {shown(state)[:80]}")
    if state["version"] != _VERSION:
        invalid(f"this state of stoker.DataLoader is of version {state['version']}, and this is version {_VERSION}: begin the epoch "
                "again")
    for name, now in shape.items():
        was = state["shape"].get(name)
        if was != now:
            say = _WORDS.get(name, name + "={}")
            invalid(f"the state is of a loader with {say.format(was)}, and this one has {say.format(now)}: it would lose or repeat "
                    "samples; resume with the same, or begin an epoch (stoker.Loader resumes with others)")
    known = {int(w) for w, (known, attempt, _) in state["workers"].items() if known == attempt}
    known |= {int(w) for w in (*state.get("before", ()), *state["ended"])}
    if shape["kind"] == "iterable" and state["reset"] and not known.issuperset(range(shape["num_workers"])):
        invalid("the state is of a later epoch of persistent workers, and the epoch before was left in the middle: it does not have "
                "what they drew; give the data set state_dict() and load_state_dict(), or use persistent_workers=False")
    return dict(state)
