# SPDX-License-Identifier: Apache-2.0
"""Seeds with addresses, for Python data sets: what a sample draws depends on (seed, epoch, position) and on nothing
else, so it is the same for any number of workers, after a resume and on any rank.

random's own seed() takes 4 us, longer than a small sample.  So its state is written directly, where a test at
start has found it to be where CPython keeps it; elsewhere setstate() gives it the same words, more slowly.

Most data sets draw nothing.  A batch is begun with one seed, and the generators say afterwards whether they were
used (used()): only then are samples seeded one by one, from there on.
"""

from __future__ import annotations

import array
import ctypes
import random
import sys
import threading
from typing import Any

from . import _stoker

_now = threading.local()


def sample_seed() -> int:
    """A number of 64 bits for the sample that is being made: the same whenever it is made again.

    For data sets in thread workers, where random, NumPy and torch have one generator for all threads:
    `numpy.random.default_rng(stoker.sample_seed())`.  Outside of a loader it is 0.
    """
    return getattr(_now, "address", 0)


def _twister_memory() -> int | None:
    """The address of {int index; uint32_t words[624]} in random's generator; None: it is not there."""
    made = random._inst                         # type: ignore[attr-defined]
    version, words, _ = random.getstate()
    if sys.implementation.name != "cpython" or version != 3 or type(made).__basicsize__ < object.__basicsize__ + 2500:
        return None
    at = id(made) + object.__basicsize__
    expected = array.array("I", (words[624], *words[:624])).tobytes()
    return at if ctypes.string_at(at, 2500) == expected else None


_UNUSED = 624                                   # where a Twister stands before the first number of its words


def _numpy_position() -> int | None:
    """Where NumPy's generator stands in its 624 words; None: it is of another kind."""
    from numpy.random import get_bit_generator
    made = get_bit_generator()
    if type(made).__name__ != "MT19937":
        return None
    return ctypes.c_int.from_address(made.ctypes.state_address + 2496).value


class Seeder:
    """Sets the generators of random, NumPy and torch that a sample may use."""

    def __init__(self, shared: bool = False) -> None:
        self._shared = shared                   # threads: one generator for all of them, which is left alone
        self._memory = None if shared else _twister_memory()
        self._numpy = self._torch = None
        if not shared:
            self._find()

    def _find(self) -> None:
        if "numpy" in sys.modules:
            import numpy.random
            self._numpy = numpy.random.seed
        if sys.modules.get("torch") is not None:    # None: its import is forbidden
            self._torch = sys.modules["torch"].default_generator.manual_seed

    def used(self) -> bool:
        """Whether something was drawn since seed(); True where that can't be seen."""
        if self._shared:
            return False
        if self._memory is None or ctypes.c_int.from_address(self._memory).value != _UNUSED:
            return True
        if self._numpy is not None:
            state = _numpy_position()
            if state is None or state != _UNUSED:
                return True
        torch = sys.modules.get("torch") if self._torch is not None else None
        return torch is not None and not torch.equal(torch.get_rng_state(), self._torch_state)

    def arm(self, address: int) -> None:
        """seed(), to ask used() later."""
        self.seed(address)
        if self._torch is not None:
            self._torch_state = sys.modules["torch"].get_rng_state()

    def seed(self, address: int) -> None:
        _now.address = address
        if self._shared:
            return
        if self._memory is not None:
            _stoker.set_twister(self._memory, address)
            random._inst.gauss_next = None      # type: ignore[attr-defined]
        else:
            random.setstate((3, (*array.array("I", _stoker.twister(address)), 624), None))
        if self._numpy is not None:
            self._numpy(address >> 32)
        if self._torch is not None:
            self._torch(address >> 1)

    def save(self) -> Any:
        """The generators as they are, before a batch is made in the process that trains."""
        if self._shared:
            return None
        self._find()
        import importlib
        state: list[Any] = [random.getstate()]
        state.append(importlib.import_module("numpy.random").get_state() if self._numpy else None)
        state.append(sys.modules["torch"].get_rng_state() if self._torch else None)
        return state

    def restore(self, state: Any) -> None:
        if state is None:
            return
        random.setstate(state[0])
        if state[1] is not None:
            sys.modules["numpy.random"].set_state(state[1])
        if state[2] is not None:
            sys.modules["torch"].set_rng_state(state[2])
