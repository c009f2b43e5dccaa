# SPDX-License-Identifier: Apache-2.0
"""What loaders call a batch: any nest of containers, rebuilt with its leaves exchanged.

A container comes out as its own type with its own other attributes; where a type cannot be rebuilt, a
plain dict, list or tuple stands for it.  The value that was given is never changed.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence
from typing import Any

from .batch import BESIDE, Batch

Leaf = Callable[[Any], Any]


def rebuild(value: Any, leaf: Leaf) -> Any:
    """`value` with leaf(x) in place of every x that is no container."""
    if type(value) in _PLAIN:
        return _PLAIN[type(value)](value, leaf)
    if isinstance(value, Batch):
        return _batch(value, leaf)
    if isinstance(value, Mapping):
        return _mapping(value, leaf)
    if isinstance(value, tuple):
        return _tuple(value, leaf)
    if isinstance(value, MutableSequence) and not isinstance(value, bytearray):
        return _sequence(value, leaf)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _dataclass(value, leaf)
    return leaf(value)


_PLAIN: dict[type, Callable[[Any, Leaf], Any]] = {
    dict: lambda value, leaf: {k: rebuild(v, leaf) for k, v in value.items()},
    list: lambda value, leaf: [rebuild(v, leaf) for v in value],
    tuple: lambda value, leaf: tuple(rebuild(v, leaf) for v in value),
}


def _batch(value: Batch, leaf: Leaf) -> Batch:
    """Outputs and all that is beside them; which samples they are stays as it is, made or not."""
    made = value.copy()
    made.update({k: rebuild(v, leaf) for k, v in value.items()})
    for beside in BESIDE:
        setattr(made, beside, {k: rebuild(v, leaf) for k, v in getattr(value, beside).items()})
    return made


def _mapping(value: Mapping[Any, Any], leaf: Leaf) -> Any:
    made = {k: rebuild(v, leaf) for k, v in value.items()}
    try:
        if isinstance(value, MutableMapping):   # a copy keeps what its constructor was given else
            other = copy.copy(value)
            other.update(made)
            return other
        return type(value)(made)                # type: ignore[call-arg]
    except (TypeError, ValueError):
        return made


def _tuple(value: tuple[Any, ...], leaf: Leaf) -> Any:
    if callable(getattr(value, "to", None)):    # PackedSequence: some of its tensors must stay here
        return leaf(value)
    made = tuple(rebuild(v, leaf) for v in value)
    try:
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    except (TypeError, ValueError):
        return made


def _sequence(value: MutableSequence[Any], leaf: Leaf) -> Any:
    made = [rebuild(v, leaf) for v in value]
    try:
        other = copy.copy(value)
        for i, v in enumerate(made):
            other[i] = v
        return other
    except (TypeError, ValueError):             # one of numbers, as array.array: it is a leaf
        return leaf(value)


def _dataclass(value: Any, leaf: Leaf) -> Any:
    other = copy.copy(value)
    for field in dataclasses.fields(value):
        if hasattr(value, field.name):
            object.__setattr__(other, field.name, rebuild(getattr(value, field.name), leaf))
    return other
