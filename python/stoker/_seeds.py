# SPDX-License-Identifier: Apache-2.0
"""Seeds with addresses, for Python data sets: what a sample draws depends on (seed, epoch, position) and on nothing
else, so it is the same for any number of workers, after a resume, on any rank and for any batch size.

Every sample is seeded, whether it draws or not: nothing that can be seen of a generator afterwards tells for certain
that it was not used.  So seeding is cheap.  The generators of random and NumPy are Mersenne Twisters whose 624 words
are written directly, where a test at start has found them; elsewhere setstate() gives them the same words, more
slowly.
"""

from __future__ import annotations

import array
import ctypes
import functools
import random
import struct
import sys
import threading
from typing import Any

from . import _stoker

_now = threading.local()
_TWISTER = 2500                                 # bytes: 624 words, and where the generator stands in them


def sample_seed() -> int:
    """A number of 64 bits for the sample that is being made: the same whenever it is made again.

    It depends on the loader's seed, the epoch and the sample's position in it.  While a collate function runs it is a
    number of the batch's own.  For data sets in thread workers, where random, NumPy and torch have one generator for
    all threads: `numpy.random.default_rng(stoker.sample_seed())`.  Outside of a loader it is 0.
    """
    return getattr(_now, "address", 0)


def _twister_memory() -> int:
    """The address of {int index; uint32_t words[624]} in random's generator; 0: it is not there."""
    made = random._inst
    version, words, _ = random.getstate()
    if sys.implementation.name != "cpython" or version != 3 or type(made).__basicsize__ < object.__basicsize__ + _TWISTER:
        return 0
    at = id(made) + object.__basicsize__
    expected = array.array("I", (words[624], *words[:624])).tobytes()
    return at if ctypes.string_at(at, _TWISTER) == expected else 0


@functools.cache
def _gauss_place() -> int:
    """Where in a RandomState {int has_gauss; double gauss} is; 0: it was not found."""
    from numpy.random import RandomState
    made, mark = RandomState(1), -1.2345678e-200
    if sys.implementation.name != "cpython":
        return 0

    def memory(has_gauss: int) -> bytes:
        made.set_state(("MT19937", range(1, 625), 624, has_gauss, mark))   # type: ignore[arg-type]
        return ctypes.string_at(id(made), type(made).__basicsize__)

    yes, no = memory(1), memory(0)
    at = yes.find(struct.pack("d", mark)) - 8
    found = at >= object.__basicsize__ and yes.count(struct.pack("d", mark)) == 1
    return at if found and yes[at:at + 4] == struct.pack("i", 1) and no[at:at + 4] == bytes(4) else 0


class _NumPy:
    """NumPy's own generator: the one of numpy.random.rand() and its like."""

    def __init__(self) -> None:
        import numpy.random as module
        self._module = module
        self.now: Any = getattr(module, "get_bit_generator")  # noqa: B009  (not in NumPy's stubs)
        self.bits: Any = None
        self.words = self.gauss = 0             # addresses of {uint32_t words[624]; int index} and of has_gauss
        self.look()

    def look(self) -> None:
        """Find it; numpy.random.set_bit_generator() puts another in its place."""
        self.bits = self.now()
        self.words = self.gauss = 0
        place = _gauss_place()
        if type(self.bits).__name__ != "MT19937" or not place:
            return
        words, state = self.bits.ctypes.state_address, self.bits.state["state"]
        if ctypes.string_at(words, _TWISTER) == state["key"].astype("=u4").tobytes() + struct.pack("i", state["pos"]):
            self.words, self.gauss = words, id(self._module.mtrand._rand) + place

    def moved(self) -> bool:
        return self.now() is not self.bits

    def seed(self, address: int) -> None:
        """Where its memory was not found."""
        if type(self.bits).__name__ == "MT19937":
            words = array.array("I", _stoker.twister(address, 1))
            self._module.set_state(("MT19937", words, 624, 0, 0.0))  # type: ignore[arg-type]
        else:
            self.bits.state = type(self.bits)(address).state

    def save(self) -> Any:
        if self.words:
            return ctypes.string_at(self.words, _TWISTER), ctypes.string_at(self.gauss, 16)
        return self._module.get_state(legacy=False)

    def restore(self, state: Any) -> None:
        if self.moved():
            return                              # the data set has put another in its place
        if isinstance(state, tuple):
            ctypes.memmove(self.words, state[0], _TWISTER)
            ctypes.memmove(self.gauss, state[1], 16)
        else:
            self._module.set_state(state)


class Seeder:
    """Sets the generators of random, NumPy and torch that a sample may use."""

    def __init__(self, shared: bool = False) -> None:
        self._shared = shared                   # threads: one generator for all of them, which is left alone
        self._random = 0 if shared else _twister_memory()
        self._numpy: _NumPy | None = None
        self._torch: Any = None
        self._instance: Any = random._inst
        self._all = shared                      # nothing is left to be found
        if not shared:
            self._find()

    def _find(self) -> None:
        """Modules that are imported later are found later."""
        if self._numpy is None and sys.modules.get("numpy") is not None:
            self._numpy = _NumPy()
        if self._torch is None and sys.modules.get("torch") is not None:    # None: its import is forbidden
            self._torch = sys.modules["torch"].default_generator
        self._all = self._numpy is not None and self._torch is not None

    def _look(self) -> None:
        """Where the generators are now."""
        if not self._all:
            self._find()
        if self._numpy is not None and self._numpy.moved():
            self._numpy.look()

    def seed(self, address: int) -> None:
        """It is called for every sample."""
        _now.address = address
        if self._shared:
            return
        self._look()
        numpy = self._numpy
        words, gauss = (0, 0) if numpy is None else (numpy.words, numpy.gauss)
        _stoker.set_twisters(address, self._random, words, gauss)
        if self._random:
            self._instance.gauss_next = None
        else:
            random.setstate((3, (*array.array("I", _stoker.twister(address, 0)), 624), None))
        if not words and numpy is not None:
            numpy.seed(address)
        if self._torch is not None:
            self._torch.manual_seed(address >> 1)

    def save(self) -> Any:
        """The generators as they are, before a batch is made in the process that trains."""
        if self._shared:
            return None
        self._look()
        words = (ctypes.string_at(self._random, _TWISTER), self._instance.gauss_next) if self._random \
            else random.getstate()
        return (words, None if self._numpy is None else self._numpy.save(),
                None if self._torch is None else self._torch.get_state(), getattr(_now, "address", 0))

    def restore(self, state: Any) -> None:
        if state is None:
            return
        if self._random:
            ctypes.memmove(self._random, state[0][0], _TWISTER)
            self._instance.gauss_next = state[0][1]
        else:
            random.setstate(state[0])
        if state[1] is not None:
            self._numpy.restore(state[1])       # type: ignore[union-attr]
        if state[2] is not None:
            self._torch.set_state(state[2])
        _now.address = state[3]
