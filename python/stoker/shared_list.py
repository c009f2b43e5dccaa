# SPDX-License-Identifier: Apache-2.0
"""stoker.SharedList: a long Python list as one block of memory.

A list of a million tuples is millions of objects, and looking at one changes its reference count: worker processes
that were forked copy page after page of it.  Here the items are bytes, which looking at does not change; an item is
made when it is asked for.
"""

from __future__ import annotations

import array
import marshal
import mmap
import operator
import pickle
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from .errors import Whole, invalid, shown

_SCALARS = {str, int, float, bool, bytes, type(None)}
_PLAIN, _PICKLED = b"m", b"p"


def _written(item: Any) -> bytes:
    """marshal is twice as fast as pickle, and safe for plain values alone: of other types it keeps less."""
    kind = type(item)
    if kind in _SCALARS or kind is tuple and all(type(v) in _SCALARS for v in item):
        return _PLAIN + marshal.dumps(item)
    return _PICKLED + pickle.dumps(item, 5)


class SharedList(Whole, Sequence[Any]):
    """A list that worker processes share, whatever its items are, as long as they pickle.

        names = stoker.SharedList(ten_million_strings)

    It is read-only.  names[i] makes the item again each time; a slice is a plain list.  Forked workers share its
    memory; sent to another process, its memory goes along in one piece.
    """

    def __init__(self, items: Iterable[Any]) -> None:
        if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
            invalid(f"SharedList takes a list or another iterable, not {shown(items)[:60]}")
        ends, parts, at = array.array("Q"), [], 0
        for number, item in enumerate(items):
            try:
                part = _written(item)
            except Exception as e:
                invalid(f"SharedList: item {number}, {shown(item)}, does not pickle ({type(e).__name__}: {e}): its items do")
            at += len(part)
            ends.append(at)
            parts.append(part)
        memory = memoryview(mmap.mmap(-1, max(at + 8 * len(ends), 1)))
        memory[:8 * len(ends)] = memoryview(ends).cast("B")
        memory[8 * len(ends):8 * len(ends) + at] = b"".join(parts)
        self._take(memory, len(ends))

    def _take(self, memory: memoryview, n: int) -> None:
        self._memory, self._n = memory, n
        self._ends = memory[:8 * n].cast("Q")
        self._items = memory[8 * n:]

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(self._n))]
        at = operator.index(i)
        at += self._n if at < 0 else 0
        if not 0 <= at < self._n:
            raise IndexError(f"SharedList of {self._n} items has no item {i}")
        first = self._ends[at - 1] if at else 0
        part = self._items[first:self._ends[at]]
        return marshal.loads(part[1:]) if part[0] == _PLAIN[0] else pickle.loads(part[1:])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._n))

    @property
    def nbytes(self) -> int:
        """Bytes of memory, of all items and their places."""
        return len(self._memory)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(a == b for a, b in zip(self, other))

    __hash__ = None     # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"stoker.SharedList({self._n} items, {self.nbytes:,} bytes)"

    def __reduce_ex__(self, protocol: Any) -> Any:
        memory = pickle.PickleBuffer(self._memory) if protocol >= 5 else bytes(self._memory)
        return _made, (memory, self._n)


def _made(memory: Any, n: int) -> SharedList:
    made = SharedList.__new__(SharedList)
    made._take(memoryview(memory).cast("B"), n)
    return made
