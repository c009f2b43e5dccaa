# SPDX-License-Identifier: Apache-2.0
"""Where a loop of stoker.DataLoader stands, and the states that are made of it.

A state has what was handed out, the generators as they were when the epoch began, which give the same order again, and as
they are now, which the next epochs go on with.
"""

from __future__ import annotations

import array
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
        made: dict[str, Any] = {"torch": [bytes(g.get_state().numpy()) for g in self._torch]}
        if self._stateful:
            made["samplers"] = [s.state_dict() for s in self._stateful]
        if self._foreign:
            kind, words, *rest = _numpy().get_state()
            made["random"], made["numpy"] = random.getstate(), (kind, words.tobytes(), *rest)
        return made

    def set(self, saved: Mapping[str, Any]) -> None:
        for one, state in zip(self._torch, saved["torch"], strict=True):
            one.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
        for one, state in zip(self._stateful, saved.get("samplers", ()), strict=False):
            one.load_state_dict(state)
        if self._foreign and "random" in saved:
            version, words, gauss = saved["random"]
            random.setstate((version, tuple(words), gauss))
            kind, words, *rest = saved["numpy"]
            _numpy().set_state((kind, array.array("I", words), *rest))

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


class EpochPlace:
    """What was handed out of an epoch.

    top: the first step after those that were handed out or failed; missing: steps before it that were not handed out
    workers: of an iterable, by worker: (attempt of the state, attempts until the last batch, state)
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
        self.turn = -1                          # the worker of the last batch
        self.over = False

    def running(self) -> Any:
        return None if self.loop is None else self.loop()

    def took(self, step: int, worker: int, attempt: int, state: Any) -> None:
        """Noting it twice is the same as once."""
        if step == self.top and not attempt:
            self.top, self.turn = step + 1, worker
            return
        self.missing = self.missing | frozenset(range(self.top, step)) - {step} if step >= self.top else self.missing - {step}
        self.top = max(self.top, step + 1)
        self.turn = worker
        if attempt:
            known, _, old = self.workers.get(worker, (0, 0, None))
            self.workers[worker] = (known, attempt, old) if state is None else (attempt, attempt, state)

    def failed(self, step: int) -> None:
        self.missing = self.missing | frozenset(range(self.top, step + 1)) if step >= self.top else self.missing | {step}
        self.top = max(self.top, step + 1)

    def load(self, state: Mapping[str, Any]) -> None:
        self.top, self.missing, self.turn = state["batches"], frozenset(state["again"]), state["turn"]
        self.workers = {int(w): tuple(v) for w, v in state["workers"].items()}
        self.ended = {int(w): True for w in state["ended"]}

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
                    "reset": persists, "base_seed": self.base_seed if persists else None}
        return {**made, "batches": self.top, "again": sorted(self.missing) if shape["kind"] == "map" else [], "turn": self.turn,
                "workers": dict(self.workers), "ended": sorted(w for w, over in self.ended.items() if over),
                "start": self.start, "reset": self.reset, "base_seed": self.base_seed}


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
    replayed = any(known < attempt for known, attempt, _ in state["workers"].values())
    if shape["kind"] == "iterable" and state["reset"] and replayed:
        invalid("the state is of a later epoch of persistent workers, and does not have what they drew before: give the data set "
                "state_dict() and load_state_dict(), or use persistent_workers=False")
    return dict(state)
