# SPDX-License-Identifier: Apache-2.0
"""Batches as tuples: a view of a loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from .batch import Batch
from .errors import Batched, Whole, invalid, nearest, shown

if TYPE_CHECKING:
    from ._loader_base import LoaderBase


class Tuples(Batched, Whole):
    """A loader's batches as tuples; see Loader.as_tuples().  What it does not have itself is the loader's."""

    def __init__(self, loader: LoaderBase, names: tuple[str, ...]) -> None:
        if not loader._functions:               # they may add outputs
            check_names(names, loader.fields)
        self._loader = loader
        self._names = names

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        tuples: Iterator[tuple[Any, ...]] = self._loader._begin(self._names)
        return tuples

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        whole = not name.startswith("__") and "_loader" in self.__dict__
        return getattr(self._loader, name) if whole else super().__getattr__(name)

    def __enter__(self) -> Tuples:
        return self

    def __exit__(self, *exc: object) -> None:
        self._loader.close()

    def __repr__(self) -> str:
        return f"{self._loader!r}.as_tuples({', '.join(map(repr, self._names))})"


def check_names(names: tuple[str, ...], there: Iterable[str]) -> None:
    for name in names:
        if name not in there:
            invalid(f"as_tuples: there is no output {shown(name)}: the outputs are {', '.join(there)}"
                    f"{nearest(name, there) if isinstance(name, str) else ''}")


def as_tuple(batch: Batch, names: tuple[str, ...]) -> tuple[Any, ...]:
    check_names(names, batch.keys())
    return tuple(batch[name] for name in names)
