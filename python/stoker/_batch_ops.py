# SPDX-License-Identifier: Apache-2.0
"""batch_ops=: texts, which the library runs on whole batches, and functions of the user's.

Functions run ahead of the loop, in one thread: the library hands it each batch when its rows are made, and counts the
batch as made when the functions have returned.  So order, len(), state, ranks and ledger are those of a loader without
them.  With num_workers=0, and for batches on a GPU, they run in the loop's own thread, when a batch is taken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _stoker
from .batch import Batch, from_parts
from .errors import StokerError, invalid, shown

Function = Callable[[Batch], Mapping[str, Any]]


def split(given: Any) -> tuple[str, tuple[Function, ...]]:
    """(the texts as one, the functions) of batch_ops=."""
    if given is None:
        return "", ()
    steps = [given] if isinstance(given, str) or callable(given) else given
    if not isinstance(steps, Iterable):
        invalid(f"batch_ops is a list of texts and functions, not {shown(given)}")
    texts: list[str] = []
    functions: list[Function] = []
    for step in steps:
        if callable(step):
            functions.append(step)
        elif not isinstance(step, str) or not step.strip() or "\0" in step:
            invalid(f"batch_ops is a list of texts and functions, and one of them is {shown(step)}")
        elif functions:
            invalid(f"batch_ops: {step!r} comes after a function: texts run first, so put it before, or do its work in a "
                    "function")
        else:
            texts.append(step)
    return " | ".join(texts), tuple(functions)


def name_of(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__


def apply(functions: tuple[Function, ...], batch: Batch, epoch: int, step: int) -> Batch:
    """The batch as the functions make it; an error names the function, the epoch and the step."""
    for function in functions:
        where = f"batch_ops: the function {name_of(function)}, in epoch {epoch}, step {step}"
        try:
            made = function(batch)
        except Exception as e:
            raise StokerError(f"{where}, raised {type(e).__name__}: {e}"[:600], "EINVAL") from e
        if not isinstance(made, Mapping):
            raise StokerError(f"{where}, returned {shown(made)}: return the batch, or a dict of outputs", "EINVAL")
        if not isinstance(made, Batch):
            new = Batch(made)
            new.__dict__.update(batch.__dict__)     # whose samples they are
            made = new
        batch = made
    return batch


class Ahead:
    """The thread that runs the functions, and what they made."""

    def __init__(self, core: _stoker.Loader, functions: tuple[Function, ...], data: tuple[Any, ...], numbered: bool) -> None:
        self._core = core
        self._functions = functions
        self._source = data, numbered
        self._made: dict[int, Batch] = {}           # by the batch's serial number
        self._failed: dict[tuple[int, int], BaseException] = {}
        threading.Thread(target=self._run, name="stoker-batch-ops", daemon=True).start()

    def _run(self) -> None:
        while (found := self._core.ahead()) is not None:
            parts, serial, epoch, step = found
            try:
                self._made[serial] = apply(self._functions, from_parts(parts, *self._source), epoch, step)
                why = None
            except BaseException as e:
                self._failed[epoch, step] = e
                why = str(e)
            del parts, found
            self._core.ahead_done(why)

    def take(self, serial: int) -> Batch:
        """What became of a batch; those before it are over."""
        for old in [s for s in list(self._made) if s < serial]:
            self._made.pop(old, None)
        return self._made[serial]

    def cause(self, error: StokerError) -> BaseException | None:
        """The exception of a function that an error of the library stands for."""
        for place, failed in list(self._failed.items()):
            if str(failed).startswith(str(error)[:100]):
                self._failed.pop(place, None)
                return failed
        return None
