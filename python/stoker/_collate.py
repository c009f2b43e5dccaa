# SPDX-License-Identifier: Apache-2.0
"""Samples of a Python data set to a batch, whose arrays are written once, into a slot of the ring.

Large leaves of a sample (arrays, tensors) are copied to their row as soon as the sample is made, while it is in the
CPU's cache, and a Row takes their place; the rest is collated when the batch is complete.  `torch_batch` has torch's
rules, by torch's own code; `batch` has ours: any structure, None and other objects as lists, rows of different shapes
as asked for.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _stoker, _wire
from ._arrays import torch_or_none
from .errors import InvalidError, shown

LARGE = 8192                                    # bytes of a leaf that is copied at once


class Row:
    """A leaf that is in the slot already: row `number` of `rows`."""

    __slots__ = ("number", "rows")

    def __init__(self, rows: _Rows, number: int) -> None:
        self.rows = rows
        self.number = number

    def value(self) -> Any:
        """The leaf as it was: a tensor, or an array."""
        return self.rows.stored()[self.number]


class _Rows:
    """The rows of one leaf, of one shape and type."""

    def __init__(self, place: SlotMemory, leaf: Any, n: int) -> None:
        self.shape, self.dtype = tuple(leaf.shape), leaf.dtype
        self.size = leaf.nbytes
        self.n = n
        self.at = place.take(self.size * n)
        self._place = place
        self.kind = type(leaf)
        self._tensor = hasattr(leaf, "data_ptr")

    def put(self, number: int, leaf: Any) -> None:
        at = self.at + number * self.size
        if self._tensor:
            whole = leaf if leaf.is_contiguous() else leaf.contiguous()
            self._place.slot.copy_from(at, whole.data_ptr(), self.size)
        else:
            numpy = sys.modules["numpy"]
            self._place.slot.copy(at, numpy.ascontiguousarray(leaf))

    def fits(self, leaf: Any) -> bool:
        return leaf.dtype == self.dtype and tuple(leaf.shape) == self.shape

    def stored(self, n: int | None = None) -> Any:
        shape = (self.n if n is None else n, *self.shape)
        return (self._place.tensor if self._tensor else self._place.array)(shape, self.dtype, self.at)

    def whole(self, n: int) -> Any:
        made, torch = self.stored(n), torch_or_none()
        return made if self._tensor or torch is None else torch.from_numpy(made)


class SlotMemory:
    """The memory of a slot, given out piece by piece; and what of a batch is in it so far."""

    def __init__(self, slot: _stoker.Slot, rows: int, collate: Any = None) -> None:
        """collate: what will make the batch; it may not take rows that are in the slot already."""
        self.slot = slot
        self.end = _wire.DATA
        self._n = rows
        self._plain = not getattr(collate, "takes_rows", True)
        self._row = -1
        self._leaf = 0
        self._found: dict[int, _Rows] = {}      # by the leaf's place in the sample

    def take(self, size: int) -> int:
        at = _wire.aligned(self.end)
        self.slot.check(at, size)
        self.end = at + size
        return at

    def array(self, shape: tuple[int, ...], dtype: Any, at: int | None = None) -> Any:
        import numpy
        dtype = numpy.dtype(dtype)
        count = 1
        for n in shape:
            count *= n
        if not count:
            return numpy.empty(shape, dtype)
        at = self.take(count * dtype.itemsize) if at is None else at
        memory: Any = self.slot
        return numpy.frombuffer(memory, dtype, count, at).reshape(shape)

    def tensor(self, shape: tuple[int, ...], dtype: Any, at: int | None = None) -> Any:
        import torch
        count = 1
        for n in shape:
            count *= n
        if not count:
            return torch.empty(shape, dtype=dtype)
        at = self.take(count * dtype.itemsize) if at is None else at
        return torch.frombuffer(self.slot, dtype=dtype, count=count, offset=at).view(shape)

    def clear(self) -> None:
        self.end, self._row = _wire.DATA, -1
        self._found = {}

    def has_rows(self) -> bool:
        """Whether the first sample has large leaves: then the others are looked at too."""
        return bool(self._found)

    # ---- rows as they come ---------------------------------------------------------------------------

    def lighter(self, sample: Any) -> Any:
        """The sample with its large leaves in the slot."""
        if self._plain:
            return sample
        self._row += 1
        self._leaf = 0
        return self._lighter(sample)

    def _lighter(self, value: Any) -> Any:
        kind = type(value)
        if kind is dict:
            return {key: self._lighter(v) for key, v in value.items()}
        if kind is tuple:
            return tuple([self._lighter(v) for v in value])
        if kind is list:
            return [self._lighter(v) for v in value]
        return self._copied(value) if _is_large(value) else value

    def _copied(self, leaf: Any) -> Any:
        self._leaf += 1
        rows = self._found.get(self._leaf)
        if rows is None and self._row == 0:
            rows = self._found[self._leaf] = _Rows(self, leaf, self._n)
        if rows is None or not rows.fits(leaf):
            return leaf
        rows.put(self._row, leaf)
        return Row(rows, self._row)

    # ---- columns -------------------------------------------------------------------------------------

    def rows(self, column: Sequence[Any]) -> Any:
        """A column of rows as it is in the slot; None: some of it is elsewhere."""
        rows = column[0].rows
        for i, row in enumerate(column):
            if type(row) is not Row or row.rows is not rows or row.number != i:
                return None
        return rows.whole(len(column))

    def tensors(self, column: Sequence[Any], otherwise: Callable[[Any], Any] | None = None) -> Any:
        """otherwise: stacks what differs in shape or type, or says what is wrong with it."""
        torch = sys.modules["torch"]
        otherwise = otherwise or torch.stack
        if not _wire.is_dense(column[0], torch):
            return otherwise(list(column))
        shape, dtype = column[0].shape, column[0].dtype
        try:
            alike = all(t.shape == shape and t.dtype == dtype and not t.requires_grad for t in column)
        except AttributeError:
            alike = False                       # something else than a tensor: torch says which
        if not alike:
            return otherwise(list(column))
        return torch.stack(list(column), 0, out=self.tensor((len(column), *shape), dtype))

    def arrays(self, column: Sequence[Any]) -> Any:
        numpy = sys.modules["numpy"]
        first, torch = column[0], torch_or_none()
        shape, dtype = first.shape, first.dtype
        if any(a.shape != shape or a.dtype != dtype for a in column):
            return None
        made = self.array((len(column), *shape), dtype)
        if shape and made.size:
            numpy.concatenate(list(column), out=made.reshape((-1, *shape[1:])))
        else:
            made[...] = list(column)
        return made if torch is None else torch.from_numpy(made)

    def numbers(self, column: Sequence[Any], kind: str) -> Any:
        torch = torch_or_none()
        at = self.take(8 * len(column))
        self.slot.fill(at, list(column), kind)
        if torch is None:
            return self.array((len(column),), "f8" if kind == "d" else "i8", at)
        return self.tensor((len(column),), torch.float64 if kind == "d" else torch.int64, at)


def _is_large(value: Any) -> bool:
    kind = type(value)
    torch = sys.modules.get("torch")
    if torch is not None and kind is torch.Tensor:
        return (_wire.is_dense(value, torch) and value.nbytes >= LARGE and not value.requires_grad and not value.is_conj()
                and not value.is_neg())
    numpy = sys.modules.get("numpy")
    if numpy is None or kind is not numpy.ndarray or value.nbytes < LARGE:
        return False
    dtype = value.dtype
    return bool(dtype.isnative and (dtype.kind in "biuf" and dtype.itemsize <= 8 or dtype.kind == "c" and dtype.itemsize <= 16))


# ---- torch's rules -----------------------------------------------------------------------------------

@functools.cache
def _torchs() -> Any:
    """torch's module of collate functions.  To import it for each batch takes longer than to make one of a few numbers."""
    from torch.utils.data._utils import collate
    return collate


class TorchCollate:
    """torch.utils.data.default_collate, with the arrays of the batch in a slot."""

    _known: tuple[Any, ...] = ()                # the types of torch's table, as they were looked at
    _rows = True

    @property
    def takes_rows(self) -> bool:
        """Whether samples may have Rows in them: not where a user's own function for a container would see them."""
        if (kinds := tuple(_torchs().default_collate_fn_map)) != self._known:
            self._known = kinds
            self._rows = not any(issubclass(container, kind) for container in (dict, tuple, list) for kind in kinds)
        return self._rows

    def __call__(self, samples: Sequence[Any], place: SlotMemory) -> Any:
        theirs = _torchs()
        table = dict(theirs.default_collate_fn_map)
        ours = self._ours(theirs, place)
        taken = set()
        for kind, (original, function) in ours.items():
            if table.get(kind) is original:     # a user's own function for a type is kept
                table[kind] = function
                taken.add(kind)
        table[Row] = lambda column, collate_fn_map: _row_column(column, place, collate_fn_map, theirs, taken)
        return theirs.collate(samples, collate_fn_map=table)

    def _ours(self, theirs: Any, place: SlotMemory) -> dict[Any, tuple[Any, Callable[..., Any]]]:
        import numpy
        import torch

        def tensors(column: Any, *, collate_fn_map: Any = None) -> Any:
            first = column[0]                   # torch refuses sparse and nested ones, and says what to do
            ours = type(first) is torch.Tensor and first.layout is torch.strided and not first.is_nested
            return place.tensors(column, theirs.collate_tensor_fn) if ours else theirs.collate_tensor_fn(column)

        def arrays(column: Any, *, collate_fn_map: Any = None) -> Any:
            first = column[0]
            made = place.arrays(column) if first.dtype.kind in "biufc" and first.dtype.isnative and all(
                isinstance(a, numpy.ndarray) for a in column) else None
            return theirs.collate_numpy_array_fn(column, collate_fn_map=collate_fn_map) if made is None else made

        def floats(column: Any, *, collate_fn_map: Any = None) -> Any:
            return place.numbers(column, "d")

        def ints(column: Any, *, collate_fn_map: Any = None) -> Any:
            if all(type(v) is int for v in column) and -2**63 <= min(column) and max(column) < 2**63:
                return place.numbers(column, "q")
            return theirs.collate_int_fn(column)

        return {torch.Tensor: (theirs.collate_tensor_fn, tensors),
                numpy.ndarray: (theirs.collate_numpy_array_fn, arrays),
                float: (theirs.collate_float_fn, floats), int: (theirs.collate_int_fn, ints)}


def _row_column(column: Any, place: SlotMemory, table: Any, theirs: Any, taken: set[type]) -> Any:
    """taken: the types whose columns are ours to make."""
    whole = place.rows(column) if column[0].rows.kind in taken else None
    if whole is not None:
        return whole
    values = [v.value() if type(v) is Row else v for v in column]
    return theirs.collate(values, collate_fn_map=table)


def torch_convert(value: Any) -> Any:
    """torch's default_convert; without torch the sample as it is."""
    if torch_or_none() is None:
        return value
    from torch.utils.data._utils.collate import default_convert
    return default_convert(value)  # type: ignore[no-untyped-call]


# ---- our rules ---------------------------------------------------------------------------------------

class Collate:
    """how: "stack", "list" or "pad", for rows of different shapes; the value and the multiple of padding."""

    def __init__(self, how: str = "stack", value: float = 0, multiple: int = 1) -> None:
        self.how, self.value, self.multiple = how, value, max(multiple, 1)
        self.lengths: dict[str, Any] = {}       # of the last batch: padded output -> sizes

    def __call__(self, samples: Sequence[Any], place: SlotMemory) -> Any:
        self.lengths = {}
        return self._collate(samples, place, ())

    def _collate(self, column: Sequence[Any], place: SlotMemory, path: tuple[Any, ...]) -> Any:
        first = column[0]
        if type(first) is Row or any(type(v) is Row for v in column):
            return self._rows(column, place, path)
        kind = type(first)
        if kind is float or kind is int:
            return self._numbers(column, place, path)
        if isinstance(first, (str, bytes, bytearray)) or first is None:
            return list(column)
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if torch is not None and isinstance(first, torch.Tensor) or numpy is not None and isinstance(first, numpy.ndarray):
            return self._leaves(column, place, path)
        if numpy is not None and isinstance(first, (numpy.number, numpy.bool_)) or kind is bool:
            return self._scalars(column, numpy, path)
        return self._nested(column, place, path)

    def _scalars(self, column: Sequence[Any], numpy: Any, path: tuple[Any, ...]) -> Any:
        """Of NumPy, and bool."""
        if numpy is None:
            return list(column)
        if not all(isinstance(v, (int, float, numpy.number, numpy.bool_)) for v in column):
            self._differ(column, path)
        made, torch = numpy.asarray(column), torch_or_none()
        if torch is None:
            return made
        return list(column) if made.dtype in (numpy.longdouble, numpy.clongdouble) else torch.from_numpy(made)

    def _numbers(self, column: Sequence[Any], place: SlotMemory, path: tuple[Any, ...]) -> Any:
        if not all(isinstance(v, (int, float)) for v in column):
            self._differ(column, path)
        try:
            return place.numbers(column, "q" if all(isinstance(v, int) for v in column) else "d")
        except OverflowError:
            return list(column)

    def _nested(self, column: Sequence[Any], place: SlotMemory, path: tuple[Any, ...]) -> Any:
        first = column[0]
        if type(first).__module__.partition(".")[0] == "tensordict":    # a Mapping too
            return sys.modules["torch"].stack(list(column), 0)
        if isinstance(first, Mapping):
            return self._mapping(column, place, path)
        if dataclasses.is_dataclass(first) and not isinstance(first, type):
            made = {f.name: self._collate([getattr(v, f.name) for v in self._alike(column, path)], place, (*path, f.name))
                    for f in dataclasses.fields(first)}
            return _filled(first, made)
        if isinstance(first, (tuple, list)):
            return self._sequence(column, place, path)
        return list(column)

    def _mapping(self, column: Sequence[Any], place: SlotMemory, path: tuple[Any, ...]) -> Any:
        keys = list(column[0])
        for row, v in enumerate(column):
            if not isinstance(v, Mapping) or v.keys() != column[0].keys():
                has = ", ".join(map(str, v)) if isinstance(v, Mapping) else f"a {type(v).__name__}"
                raise InvalidError(f"samples differ in structure: row 0 of the batch has {', '.join(map(str, keys))}"
                                   f"{_at(path)}, row {row} has {has}: give all the same, or collate= a function")
        return {key: self._collate([v[key] for v in column], place, (*path, key)) for key in keys}

    def _sequence(self, column: Sequence[Any], place: SlotMemory, path: tuple[Any, ...]) -> Any:
        first = column[0]
        sizes = {len(v) for v in self._alike(column, path)}
        if len(sizes) > 1 and isinstance(first, list):
            return list(column)                 # lists of different lengths are values, not fields
        if len(sizes) > 1:
            raise InvalidError(f"samples differ in structure{_at(path)}: tuples of {min(sizes)} and of {max(sizes)} "
                               f"fields in one batch: give all the same, or collate= a function")
        made = [self._collate([v[i] for v in column], place, (*path, i)) for i in range(len(first))]
        if isinstance(first, tuple):
            return type(first)(*made) if hasattr(first, "_fields") else tuple(made)
        return made

    def _alike(self, column: Sequence[Any], path: tuple[Any, ...]) -> Sequence[Any]:
        kind = type(column[0])
        if any(type(v) is not kind for v in column):
            self._differ(column, path)
        return column

    def _differ(self, column: Sequence[Any], path: tuple[Any, ...]) -> None:
        kinds = list(dict.fromkeys(type(v).__name__ for v in column))
        raise InvalidError(f"samples differ in structure{_at(path)}: {' and '.join(kinds[:3])} in one batch: give all "
                           f"the same, or collate= a function")

    # ---- arrays and tensors --------------------------------------------------------------------------

    def _rows(self, column: Sequence[Any], place: SlotMemory, path: tuple[Any, ...]) -> Any:
        whole = place.rows(column) if type(column[0]) is Row and self.how != "list" else None
        if whole is not None:
            if self.how == "pad" and self.multiple == 1 or self.how == "stack":
                self._note(path, [tuple(whole.shape[1:])] * len(column))
                return whole
        return self._leaves([v.value() if type(v) is Row else v for v in column], place, path)

    def _leaves(self, column: Sequence[Any], place: SlotMemory, path: tuple[Any, ...]) -> Any:
        torch, numpy = torch_or_none(), sys.modules.get("numpy")
        if torch is None or any(type(v) is not torch.Tensor for v in column):
            known = tuple(getattr(m, k) for m, k in ((torch, "Tensor"), (numpy, "ndarray"), (numpy, "generic")) if m)
            if not all(isinstance(v, known) for v in column):
                self._differ(column, path)
            if any(_is_text(v) for v in column):
                return list(column)
            column = column if torch is None else [_as_tensor(v, torch, path) for v in column]
        if torch is not None and not _wire.is_dense(column[0], torch):
            return self._special(column, torch)
        if self.how == "list":
            return list(column)
        shapes = [tuple(v.shape) for v in column]
        if self.how == "pad":
            self._note(path, shapes)
            return self._padded(column, shapes, place, path)
        if len(set(shapes)) > 1:
            raise InvalidError(f"rows differ in shape{_at(path)}: {shapes[0]} and {next(s for s in shapes if s != shapes[0])}"
                               f': give collate="pad", collate="list" or a function')
        if torch is not None:
            return place.tensors(column)
        made = place.arrays(column)
        return sys.modules["numpy"].stack(column) if made is None else made

    def _special(self, column: Sequence[Any], torch: Any) -> Any:
        """Sparse, nested, quantized, on another device: as torch stacks them, else as they are."""
        if self.how == "stack":
            with contextlib.suppress(RuntimeError, NotImplementedError):
                return torch.stack(list(column), 0)
        return list(column)

    def _padded(self, column: Sequence[Any], shapes: list[tuple[int, ...]], place: SlotMemory, path: tuple[Any, ...]) -> Any:
        if len({len(s) for s in shapes}) > 1:
            raise InvalidError(f"rows differ in their number of dimensions{_at(path)}: {shapes[0]} and "
                               f"{next(s for s in shapes if len(s) != len(shapes[0]))}: padding needs the same")
        most = tuple(-(-max(sizes) // self.multiple) * self.multiple for sizes in zip(*shapes, strict=True))
        torch = torch_or_none()
        widest = torch.promote_types if torch is not None else sys.modules["numpy"].promote_types
        make = place.tensor if torch is not None else place.array
        made = make((len(column), *most), functools.reduce(widest, [v.dtype for v in column]))
        made[...] = self.value
        for row, (value, shape) in enumerate(zip(column, shapes, strict=True)):
            made[(row, *(slice(n) for n in shape))] = value
        return made

    def _note(self, path: tuple[Any, ...], shapes: list[tuple[int, ...]]) -> None:
        if self.how == "pad" and len(path) == 1 and shapes[0]:
            self.lengths[path[0]] = [list(s) for s in shapes]


def _filled(first: Any, made: dict[str, Any]) -> Any:
    """A dataclass like `first` with these fields.  Not by its constructor: that is one for samples, and may check or
    compute what holds for them."""
    other = copy.copy(first)
    for name, value in made.items():
        object.__setattr__(other, name, value)
    return other


def _is_text(value: Any) -> bool:
    """An array of text, times or objects: such values are lists in a batch."""
    return getattr(value.dtype, "kind", "") in tuple("OSUVMm")


def _as_tensor(value: Any, torch: Any, path: tuple[Any, ...]) -> Any:
    if not isinstance(value, torch.Tensor):
        numpy = sys.modules["numpy"]
        if not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        elif not value.flags.writeable or any(s < 0 for s in value.strides):
            value = numpy.array(value)          # torch has no such memory, or warns of it
    try:
        return torch.as_tensor(value)
    except TypeError as e:
        raise InvalidError(f"an array of {value.dtype}{_at(path)} has no tensor of that type: {e}: give collate= a "
                           f"function, or lists") from None


def _at(path: tuple[Any, ...]) -> str:
    return f" at {''.join(f'[{shown(part)}]' for part in path)}" if path else ""
