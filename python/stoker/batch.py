# SPDX-License-Identifier: Apache-2.0
"""A batch: a dict of tensors that knows which samples it is made of."""

from __future__ import annotations

import dis
import json
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from . import _stoker
from ._arrays import array, from_bytes, inside, rows_of, torch_or_none
from .errors import from_code, invalid, nearest, printable


class _Later:
    """An attribute that is made of the batch's raw bytes when it is first asked for, then like any other:
    at tens of thousands of batches a second, tensors that the caller does not look at would cost as much as the batch."""

    def __init__(self, raw: str, dtype: str) -> None:
        self._raw = raw
        self._dtype = dtype

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, batch: Batch | None, owner: type) -> Any:
        raw = None if batch is None else batch.__dict__.get(self._raw)
        if raw is None:
            return None                         # unknown
        return batch.__dict__.setdefault(self._name, from_bytes(bytearray(raw), self._dtype))


BESIDE = ("lengths", "offsets", "grid", "times", "frames", "pictures")      # what a batch has by output

_UNPACK = {dis.opmap[name] for name in ("UNPACK_SEQUENCE", "UNPACK_EX") if name in dis.opmap}


def _unpacks(frame: FrameType) -> bool:
    """Whether this code is at `a, b = ...` or at `for a, b in ...` now."""
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and code[frame.f_lasti] in _UNPACK


class Batch(dict[str, Any]):
    """Output name -> torch tensor (NumPy array without torch), or list for bytes, text, json.

    sample_keys: the samples' keys, one a row
    sample_ids: their numbers in the data set, int64
    lengths: padded output -> real sizes of its rows, int64: rows x dimensions, or rows if it has one
    offsets: of patches, and outputs with collate="pack": where each row begins, and the end, int32 (cu_seqlens)
    grid: of patches: how many a row has down and across, int64 (n, 2); of patches with frames (n, 3), 1 in time
    times: of clips: when each frame is shown, in seconds, float64 (n, frames)
    frames: of clips: the number of each frame in its video, int64 (n, frames)
    pictures: of outputs with several pictures per sample: which are a sample's, int32 bounds (rows + 1); offsets and
        grid then have one entry per picture
    valid: False where another sample stands in for a bad one, or where a rank had nothing left

    It is a dict in every way: `Batch(plain_dict)` makes one, whose samples are then unknown (None).
    """

    _ids: Any = None
    _valid: Any = None
    _keys: list[str] | None = None
    _source: tuple[tuple[_stoker.Dataset, ...], bytes] | None = None   # whence keys, until asked for
    sample_ids: Any = _Later("_ids", "int64")
    valid: Any = _Later("_valid", "bool")
    lengths: dict[str, Any]
    offsets: dict[str, Any]
    grid: dict[str, Any]
    times: dict[str, Any]
    frames: dict[str, Any]
    pictures: dict[str, Any]
    _blocks: dict[str, int]
    _joined: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for beside in BESIDE:
            setattr(self, beside, {})
        self._blocks = {}
        if args and isinstance(args[0], Batch):
            self.__dict__.update(args[0].__dict__)

    @property
    def sample_keys(self) -> list[str] | None:
        """The samples' keys, one a row; made when first asked for, also after the loader is closed."""
        source = self._source                   # once: another thread may be here too
        if source is not None:
            data, ids = source
            self._keys = _stoker.keys(data, ids) if data else [str(i) for i in memoryview(ids).cast("q")]
            self._source = None
        return self._keys

    @sample_keys.setter
    def sample_keys(self, keys: list[str] | None) -> None:
        self._source = None
        self._keys = keys

    def mask(self, name: str) -> Any:
        """Where a padded output has values and no padding: bool, of the output's shape.  For rows with
        one dimension this is the attention mask."""
        if name not in self.lengths or name in self._joined:
            invalid(f"there is no mask of {name!r}: it is not padded{nearest(name, list(self.lengths))}")
        if name in self.grid:                   # of patches, not of their values
            return inside(self.lengths[name][:, 0], tuple(self[name].shape[:2]))
        return inside(self.lengths[name], tuple(self[name].shape))

    def coords(self, name: str) -> Any:
        """(y, x) of every patch, int64, in the order in which they come: (patches, 2) of rows that are joined, (rows,
        patches, 2) of rows in one tensor, with zeros where they are padded, else one array per row."""
        if name not in self.grid:
            invalid(f"there are no coordinates of {name!r}: it has no patches{nearest(name, list(self.grid))}")
        import numpy
        value = self[name]
        each = [_places(high, wide, self._blocks[name]) for high, wide in self.grid[name][:, -2:].tolist()]
        if name in self._joined:
            return _like(numpy.concatenate([numpy.zeros((0, 2), "int64"), *each]), value)
        if name in self.pictures:               # of a row: those of all its pictures
            bounds = self.pictures[name].tolist()
            each = [numpy.concatenate([numpy.zeros((0, 2), "int64"), *each[a:b]]) for a, b in zip(bounds, bounds[1:])]
        if isinstance(value, list):
            return [_like(places, v) for places, v in zip(each, value)]
        made = numpy.zeros((len(each), value.shape[1], 2), "int64")
        for row, places in zip(made, each):
            row[:len(places)] = places
        return _like(made, value)

    def only_valid(self) -> Batch:
        """The rows that are valid: what an evaluation counts.  A row stands in for a bad sample, or fills up a rank's
        last batch, where `valid` is False.  Values without a row per sample stay as they are."""
        valid = self.valid
        if valid is None or bool(valid.all()):
            return self
        rows = [i for i, ok in enumerate(valid.tolist()) if ok]

        def chosen(value: Any) -> Any:
            if isinstance(value, (list, tuple)):
                kind: Any = type(value)
                return kind(value[i] for i in rows) if len(value) == len(valid) else value
            shape: Any = getattr(value, "shape", ())
            return value[rows] if len(shape) and shape[0] == len(valid) else value

        made = self._each(lambda value: value)
        made.sample_ids, made.valid = chosen(self.sample_ids), chosen(valid)
        made.sample_keys = [self.sample_keys[i] for i in rows] if self.sample_keys is not None else None
        made.update({name: chosen(value) for name, value in self.items() if name not in self._joined})
        for beside in ("lengths", "times", "frames"):
            setattr(made, beside, {name: chosen(value) for name, value in getattr(self, beside).items()})
        for name, bounds in self.offsets.items():
            self._choose_parts(made, name, bounds, rows)
        return made

    def _choose_parts(self, made: Batch, name: str, bounds: Any, rows: list[int]) -> None:
        """Of these rows: what an output has for each of its pictures, or each row, and its rows that are joined."""
        parts = rows
        if name in self.pictures:
            first = self.pictures[name].tolist()
            made.pictures[name] = _bounds((self.pictures[name][1:] - self.pictures[name][:-1])[rows])
            parts = [k for row in rows for k in range(first[row], first[row + 1])] if name in self.grid else rows
        if name in self.grid:
            made.grid[name] = self.grid[name][parts]
        made.offsets[name] = _bounds((bounds[1:] - bounds[:-1])[parts])
        if name in self._joined:
            at = bounds.tolist()
            made[name] = self[name][[i for k in parts for i in range(at[k], at[k + 1])]]

    def __iter__(self) -> Iterator[str]:
        """Names, as of any dict.  `for image, label in loader` would make names of a batch's outputs without an error,
        so a batch that is unpacked says what to do instead."""
        caller = sys._getframe(1)
        if _unpacks(caller):
            invalid(f"a batch is a dict of its outputs {', '.join(map(repr, self.keys()))}, and unpacking it would give their "
                    f"names: take them by name, batch[{next(iter(self.keys()), 'image')!r}], or loop over loader.as_tuples("
                    f"{', '.join(map(repr, self.keys()))})")
        return super().__iter__()

    def __getstate__(self) -> dict[str, Any]:
        _ = self.sample_keys, self.sample_ids, self.valid   # data sets don't pickle with a batch, keys do
        return {name: value for name, value in self.__dict__.items() if name not in ("_ids", "_valid")}

    def copy(self) -> Batch:
        return Batch(self)

    def _each(self, one: Callable[[Any], Any]) -> Batch:
        """The same batch of one(value) for every value, ids, flags and lengths too."""
        made = Batch({name: one(value) for name, value in self.items()})
        made._source = self._source             # before keys: another thread may be making them
        made._keys = self._keys
        made.sample_ids = one(self.sample_ids)
        made.valid = one(self.valid)
        for beside in BESIDE:
            setattr(made, beside, {name: one(value) for name, value in getattr(self, beside).items()})
        made._blocks, made._joined = self._blocks, self._joined
        return made

    def _map(self, method: str, *args: Any, **kwargs: Any) -> Batch:
        from ._tree import rebuild              # which imports this file

        def leaf(value: Any) -> Any:
            call = getattr(value, method, None)
            return value if call is None else call(*args, **kwargs)

        return self._each(lambda value: leaf(value) if hasattr(value, method) else rebuild(value, leaf))

    def to(self, *args: Any, **kwargs: Any) -> Batch:
        """As torch.Tensor.to, for every tensor.  A dtype turns outputs only, not ids, flags and lengths."""
        made = self._map("to", *args, **kwargs)
        def moved(old: Any, new: Any) -> Any:
            return old.to(new.device) if hasattr(new, "device") and new.dtype != old.dtype else new

        made.sample_ids = moved(self.sample_ids, made.sample_ids)
        made.valid = moved(self.valid, made.valid)
        for beside in BESIDE:
            before, new = getattr(self, beside), getattr(made, beside)
            new.update({name: moved(before[name], value) for name, value in new.items()})
        return made

    def pin_memory(self, *args: Any) -> Batch:
        """As torch.Tensor.pin_memory, for every tensor."""
        return self._map("pin_memory", *args)

    def __repr__(self) -> str:
        def look(value: Any) -> str:
            if hasattr(value, "shape"):
                return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
            return f"{type(value).__name__} of {len(value)}" if isinstance(value, list) else repr(value)

        return "Batch(" + ", ".join(f"{printable(k)}: {look(v)}" for k, v in self.items()) + ")"


def _like(made: Any, value: Any) -> Any:
    """A NumPy array as what a batch has: a tensor, where `value` is one, on its device."""
    torch = torch_or_none()
    return torch.from_numpy(made).to(value.device) if torch is not None and isinstance(value, torch.Tensor) else made


def cu_seqlens(positions: Any) -> tuple[Any, int]:
    """(bounds, longest) for attention over packed rows laid end to end: int32 bounds of the documents
    from 0 to the number of tokens, and the tokens of the longest.  `positions` is a batch's output
    tokens(..., give=positions), or some of its rows; what fills a row is a document of its own."""
    flat = positions.reshape(-1)
    torch = torch_or_none()
    if torch is not None and isinstance(flat, torch.Tensor):
        end = torch.tensor([flat.numel()], device=flat.device)
        bounds = torch.cat([(flat == 0).nonzero().reshape(-1), end]).to(torch.int32)
        longest = bounds.diff().max().item() if flat.numel() else 0
    else:
        import numpy
        bounds = numpy.append(numpy.flatnonzero(flat == 0), flat.size).astype("int32")
        longest = int(numpy.diff(bounds).max()) if flat.size else 0
    return bounds, longest


def _value(value: Any) -> Any:
    if isinstance(value, tuple):
        whole, places = value
        return rows_of(array(whole), places)
    if not isinstance(value, list):
        return array(value)
    if value and not isinstance(value[0], (str, bytes)):
        return [array(v) for v in value]
    return value


def _parsed(name: str, rows: list[Any], data: tuple[_stoker.Dataset, ...], ids: bytes) -> list[Any]:
    """JSON values as Python's.  The library has checked them; what Python itself bounds (the digits of an integer
    by sys.set_int_max_str_digits(), recursion) is an error with the sample's address."""
    values = []
    for row, text in enumerate(rows):
        try:
            values.append(json.loads(text))
        except (ValueError, RecursionError) as e:
            number = memoryview(ids).cast("q")[row]
            key = _stoker.keys(data, ids)[row]
            sample = number
            for ds in data:
                if sample < len(ds):
                    break
                sample -= len(ds)
            shard = ds.read(sample)["__url__"]
            why = str(e).partition("\n")[0]
            raise from_code("ECORRUPT", f"output {name}: Python makes no value of this JSON: {why} [shard {shard}, key {key}]",
                            shard, None, key, number) from e
    return values


def _note_grid(batch: Batch, name: str, joined: int, block: int, raw: bytearray, pictures: bytearray | None) -> None:
    """Of rows that are joined, or patches: where each begins, and how many patches it has each way; of rows of several
    pictures the same of each picture, and which are a row's."""
    if pictures is not None:
        bounds = from_bytes(pictures, "int64")
        batch.pictures[name] = _bounds(bounds[1:] - bounds[:-1])
    if block:
        grid = from_bytes(raw, "int64").reshape(-1, 3)
        frames = joined & 2 if pictures is not None else grid[0, 0]
        batch.grid[name] = grid if frames else grid[:, 1:]
        batch._blocks[name] = block
        counts = grid[:, 1] * grid[:, 2]
    elif name in batch.lengths:
        sizes = batch.lengths[name]
        counts = sizes if sizes.ndim == 1 else sizes[:, 0]
    else:
        return
    batch.offsets[name] = _bounds(counts)
    if joined & 1:
        batch._joined = batch._joined | {name}


def _bounds(counts: Any) -> Any:
    """0 and the sums of counts, int32: cu_seqlens."""
    torch = torch_or_none()
    if torch is not None and isinstance(counts, torch.Tensor):
        return torch.nn.functional.pad(counts.cumsum(0), (1, 0)).to(torch.int32)
    import numpy
    return numpy.concatenate([[0], numpy.cumsum(counts)]).astype("int32")


def _places(high: int, wide: int, block: int) -> Any:
    """(y, x) of each patch, in the order in which they come."""
    import numpy
    y, x = numpy.divmod(numpy.arange(high * wide), wide)
    both = numpy.stack([y, x], -1).reshape(high // block, block, wide // block, block, 2)
    return both.transpose(0, 2, 1, 3, 4).reshape(-1, 2)


def from_parts(parts: tuple[Any, ...], data: tuple[_stoker.Dataset, ...],
               numbered: bool = False) -> Batch:
    """A Batch from what the extension's next() answers; `data`: the loader's data sets; `numbered`:
    their samples are rows, which have numbers and no keys."""
    outputs, ids, valid = parts
    batch = Batch()
    for name, is_json, value, lengths, grid, frames in outputs:
        batch[name] = _parsed(name, value, data, ids) if is_json else _value(value)
        if lengths is not None:
            ndim, raw = lengths
            sizes = from_bytes(raw, "int64")
            batch.lengths[name] = sizes if ndim == 1 else sizes.reshape(len(ids) // 8, ndim)
        if grid is not None:
            _note_grid(batch, name, *grid)
        if frames is not None:
            n, numbers, seconds = frames
            batch.frames[name] = from_bytes(numbers, "int64").reshape(-1, n)
            batch.times[name] = from_bytes(seconds, "float64").reshape(-1, n)
    batch._source = () if numbered else data, ids
    batch._ids, batch._valid = ids, valid
    return batch
