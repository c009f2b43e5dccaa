# SPDX-License-Identifier: Apache-2.0
"""Is what a loader gives still what its data was described as?  See Loader.expect().

The samples that were handed out are noted by their numbers.  Now and then a thread reads some of them once more, describes
them as `stoker describe` does, and compares.  It is one thread, so a check costs at most one core for a moment.
"""

from __future__ import annotations

import json
import os
import struct
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import _stoker
from .errors import StokerError, invalid, printable, shown

_FIRST, _LOOKED_AT = 2000, 1500     # above 1,000 samples drift is measured by distances


class Drift(NamedTuple):
    """One figure of the data: distance (or p) and its bound, as `stoker drift` prints them."""

    feature: str
    test: str
    value: float
    bound: float
    drifted: bool

    def __str__(self) -> str:
        if self.test == "missing":
            return f"{self.feature} is missing or new"
        way = "below p" if self.test in ("ks", "chi-square") else "above"
        return f"{self.feature} ({self.test} {self.value:.3g}, drift {way} {self.bound:.3g})"


def read(description: Any) -> tuple[str, bytes]:
    """Its name and its text: a path, or what json.load() made of one."""
    if isinstance(description, Mapping):
        return "the description", json.dumps(description).encode()
    if not isinstance(description, (str, bytes, os.PathLike)):
        invalid(f"a description is a file that `stoker describe` wrote, or the dict that it holds, not {shown(description)}")
    name = os.fsdecode(description)
    try:
        with open(name, "rb") as f:
            return printable(name), f.read()
    except OSError as e:
        raise StokerError(f"{printable(name)}: the description could not be read: {e.strerror}", "EIO") from None


class Expectation:
    """A description that a loader holds; from Loader.expect().

    rows: what the last check found (None: there was none yet); drifted: those of them that drifted; checks: how many there
    were; wait(): until the check that runs is over
    """

    def __init__(self, core: Any, name: str, text: bytes, every: int) -> None:
        self._core, self._name, self._text, self._every = core, name, text, every
        self._ids = bytearray()
        self._next = min(_FIRST, every, max(len(core), 1))
        self._last: Any = None
        self._thread: threading.Thread | None = None
        self._said: set[str] = set()
        self.rows: list[Drift] | None = None
        self.checks = 0

    @property
    def drifted(self) -> list[Drift]:
        return [row for row in self.rows or [] if row.drifted]

    def note(self, token: Any, ids: bytes) -> None:
        """A batch is handed out; the same token: it was made once more."""
        if token == self._last:
            return
        self._last = token
        self._ids += ids
        if len(self._ids) // 8 >= self._next and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._check, args=(self._chosen(),), name="stoker-expect", daemon=True)
            self._thread.start()
            self._next, self._ids = self._every, bytearray()
        elif len(self._ids) // 8 >= 2 * self._every:
            self._ids = self._ids[8 * self._every:]     # the check before takes its time

    def _chosen(self) -> bytes:
        n = len(self._ids) // 8
        if n <= _LOOKED_AT:
            return bytes(self._ids)
        ids = struct.unpack(f"={n}Q", self._ids)
        return struct.pack(f"={_LOOKED_AT}Q", *(ids[i * n // _LOOKED_AT] for i in range(_LOOKED_AT)))

    def _check(self, ids: bytes) -> None:
        try:
            found = [Drift(*row) for row in _stoker.drift_of(self._text, self._core, ids)]
        except StokerError as e:
            return self._say(f"{self._name}: the data could not be compared with it: {e}")
        fields = set(self._core.fields())
        # Of few samples a text may be no category that is one of all: only whole fields are missing.
        self.rows = [r for r in found if r.test != "missing" or r.feature.rpartition(".")[0] not in fields and r.feature not in fields]
        self.checks += 1
        new = [row for row in self.drifted if row.feature not in self._said]
        if new:
            self._said.update(row.feature for row in new)
            self._say(f"the samples that are loaded are not as {self._name} describes them: {'; '.join(map(str, new))}")

    @staticmethod
    def _say(line: str) -> None:
        import logging
        logging.getLogger("stoker").warning("%s", printable(line))

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()


def expect(cores: tuple[Any, ...], description: Any, every: int) -> Expectation:
    name, text = read(description)
    if len(cores) != 1 or cores[0].kind():
        invalid("expect() compares samples with fields of one data set: of mixtures, arrays and token files use `stoker drift`")
    try:
        _stoker.drift_of(text, cores[0], b"")
    except StokerError as e:
        raise StokerError(f"{name}: {e}", e.code) from None
    return Expectation(cores[0], name, text, every)
