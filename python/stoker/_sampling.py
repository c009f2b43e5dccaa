# SPDX-License-Identifier: Apache-2.0
"""Which samples take part, how often, and how they are drawn: checks of Loader's arguments.

Samples are called by their number through all data (batch.sample_ids); whatever the user says
becomes an array over those numbers.
"""

from __future__ import annotations

import array
import contextlib
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from . import _options, _stoker
from ._mix import Mix
from .dataset import Dataset
from .errors import NotFoundError, StokerError, invalid, shown

if TYPE_CHECKING:
    import numpy as np

_SHOWN = 3


def plan(data: list[Dataset], *, select: Any = None, where: Any = None, skip: Any = 0, limit: Any = None, repeat: Any = 1,
         epoch_size: Any = None, weights: Any = None, replacement: Any = None, balance: Any = None,
         stratify: Any = None, mix: Mix | None = None, lengths: Any = None,
         shuffle: int = 0, seconds: bool = False) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(what the extension takes, what a state remembers); `...` stands for a fingerprint there."""
    drawn = _one_way(weights=weights, balance=balance, stratify=stratify, mix=mix)
    if drawn is not None and shuffle > 1:
        invalid(f'{drawn} and shuffle="{_options.SHUFFLES[shuffle]}" each say how samples are drawn: give one of them')
    if replacement is not None and drawn not in ("weights", "balance"):
        invalid("replacement= says how weights= or balance= draw: give one of them too")
    if mix is not None:
        _whole_sets(select=select, where=where, skip=skip or None, limit=limit, repeat=None if repeat == 1 else repeat)
        if any(d._ids is not None for d in data):
            invalid("stoker.mix walks whole data sets: open them without where=")
        epoch_size = mix.epoch_size if epoch_size is None else epoch_size
    size = _options.or_chosen("epoch_size", epoch_size)
    again = True if replacement is None else _options.flag("replacement", replacement)
    core = (_taking_part(select, where, data),
            _options.number("skip", skip),
            _options.or_chosen("limit", limit),
            _options.number("repeat", repeat), size,
            None if weights is None else weights_of(weights, data),
            None if balance is None else classes_of("balance", balance, data), again,
            None if stratify is None else classes_of("stratify", stratify, data),
            None if mix is None else array.array("d", mix.weights.values()),
            None if lengths is None else lengths_of(lengths, data, seconds))
    order: dict[str, Any] = {}
    if mix is not None:
        order["mix"] = {"names": list(mix.weights), "changes": []}
    elif drawn is not None:
        order[drawn] = ...
    if drawn in ("weights", "balance"):
        order["replacement"] = again
    if size:
        order["epoch_size"] = size
    return core, order


def _one_way(**ways: Any) -> str | None:
    given = [name for name, value in ways.items() if value is not None]
    if len(given) > 1:
        invalid(f"{' and '.join(given)} each say how samples are drawn: give one of them")
    return given[0] if given else None


def _whole_sets(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            invalid(f"{name}= does not go with stoker.mix, which walks whole data sets: exclude= does")


# ---- weights and classes: one entry for each sample of the data ----------------------------------


def _rows(data: Iterable[Dataset | _stoker.Dataset]) -> bool:
    """Are samples rows of arrays?  With tokens() they are windows, and how many is known when the loader is open."""
    return any((d._core if isinstance(d, Dataset) else d).kind() for d in data)


def _field(name: str, data: list[Dataset]) -> np.ndarray[Any, Any]:
    """The values of a field, of all samples: from the index, or read."""
    import numpy as np
    if _rows(data):
        invalid(f"{name!r} is to name a field of shards with an index; for arrays and token files give one number for each "
                "sample, which is a row, or a window of tokens")
    values = np.concatenate([d.column(name, read=True) for d in data])
    missing = np.array([v is None for v in values]) if values.dtype == object else \
        np.isnan(values) if values.dtype.kind == "f" else np.zeros(0, bool)
    if missing.any():
        invalid(f"{missing.sum():,} of {len(values):,} samples have no {name!r}, the first is sample "
                f"{np.flatnonzero(missing)[0]}")
    return values


def _array(name: str, value: Any, data: list[Dataset]) -> np.ndarray[Any, Any]:
    import numpy as np
    if isinstance(value, str):
        try:
            return _field(value, data)
        except StokerError as e:
            e.args = (f"{name}={shown(value)}: {e}",)
            raise
    try:
        values = np.asarray(value)
    except ValueError as e:
        invalid(f"{name} must be an array: {e}")
    samples = sum(len(d) for d in data)
    if values.ndim != 1 or len(values) != samples and not _rows(data):
        size = "x".join(f"{n:,}" for n in values.shape) or "one"
        invalid(f"{name} must have one entry for each of the {samples:,} samples of the data, not {size}")
    return values


def weights_of(value: Any, data: list[Dataset]) -> np.ndarray[Any, Any]:
    import numpy as np
    values = _array("weights", value, data)
    if values.dtype.kind in "biufO" and not (isinstance(value, str) and values.dtype == object):
        with contextlib.suppress(TypeError, ValueError):
            return np.ascontiguousarray(values, dtype=np.float64)
    first = repr(values[:1].tolist()[0]) if len(values) else "none"
    invalid(f"weights must be numbers, not {first[:60]}")


def lengths_of(value: Any, data: list[Dataset], seconds: bool = False) -> np.ndarray[Any, Any]:
    """How long each sample is, as uint32; seconds: in tenths of a millisecond, rounded up."""
    import numpy as np
    values = _array("lengths", value, data)
    if seconds:
        try:
            values = values.astype(np.float64)      # of one's own: what follows is done in place
        except (TypeError, ValueError):
            invalid(f"lengths must be seconds, not {values.dtype}")
        values *= 10000
        values -= 1e-6
        np.ceil(values, out=values)
        if len(values) and not (np.isfinite(values.min()) and np.isfinite(values.max())):
            invalid("lengths must be seconds, not NaN or infinity")
    elif values.dtype.kind not in "iu":
        invalid(f"lengths must be whole numbers, not {values.dtype}")
    if len(values) and not 0 <= int(values.min()) <= int(values.max()) < 2**32:
        invalid(f"lengths must be 0 to {2**32 - 1}, not {values.min()} to {values.max()}")
    return np.ascontiguousarray(values, dtype=np.uint32)


def classes_of(name: str, value: Any, data: list[Dataset]) -> np.ndarray[Any, Any]:
    """Classes as numbers from 0, whatever they are called."""
    import numpy as np
    values = _array(name, value, data)
    if values.dtype.kind not in "iubUST" and not isinstance(value, str):
        invalid(f"{name} must be whole numbers or names of classes, not {values.dtype}")
    if values.dtype == object:                  # NumPy's own texts lose a NUL at the end: two classes would be one
        texts = [str(v) for v in values]
        number = {text: i for i, text in enumerate(sorted(set(texts)))}
        return np.fromiter((number[text] for text in texts), np.uint32, len(texts))
    return np.unique(values, return_inverse=True)[1].astype(np.uint32)


# ---- select and where ----------------------------------------------------------------------------


def _taking_part(select: Any, where: Any, data: list[Dataset]) -> np.ndarray[Any, Any] | None:
    """The ids that take part; None: all.  With both, those of `select` that satisfy `where`, and what the data sets
    were opened with."""
    cores = tuple(d._core for d in data)
    chosen = None if select is None else selection(select, cores)
    if where is None and all(d._ids is None for d in data):
        return chosen
    if where is not None and not isinstance(where, str):
        invalid(f"where is a condition as text, like \"width >= 300\", not {shown(where)}")
    import numpy as np
    parts, first = [], 0
    for d, core in zip(data, cores, strict=True):
        own = np.arange(len(core), dtype=np.uint64) if d._ids is None else d._ids
        if where is not None:
            fits = np.frombuffer(core.where(where), np.uint64)
            own = fits if d._ids is None else own[np.isin(own, fits)]
        parts.append(own + np.uint64(first))
        first += len(core)
    ids = np.concatenate(parts)
    if chosen is not None:
        ids = chosen[np.isin(chosen, ids)]
    if not len(ids):
        invalid(f"where: no sample satisfies {shown(where)}")
    return np.ascontiguousarray(ids, dtype=np.uint64)



def selection(value: Any, data: tuple[_stoker.Dataset, ...]) -> np.ndarray[Any, Any]:
    """The ids that `select` names, as uint64."""
    import numpy as np
    if isinstance(value, (str, bytes, os.PathLike)):
        value = _parquet(value)
    elif hasattr(value, "__arrow_c_stream__"):
        value = _arrow(value)
    if not hasattr(value, "__array__"):
        if not isinstance(value, Iterable):
            invalid(f"select must be indices, a mask, keys or an Arrow stream, not {shown(value)}")
        value = list(value)
        texts = sum(isinstance(v, str) for v in value)
        if texts and texts < len(value):
            invalid("select: give keys or indices, not both")
    values = np.asarray(value)
    if values.ndim != 1:
        invalid(f"select must have one dimension, not {values.ndim}")
    if values.dtype.kind in "UT" or values.dtype == object and all(isinstance(v, str) for v in values):
        return _by_keys([str(v) for v in values], data)
    samples = sum(len(d) for d in data)
    if values.dtype == bool:
        if len(values) != samples:
            invalid(f"select: the mask has {len(values):,} entries and the data {samples:,} "
                    + ("rows; of windows of tokens give indices: numpy.flatnonzero(mask)" if _rows(data) else "samples"))
        return np.flatnonzero(values).astype(np.uint64)
    return _by_number(values, samples)


def _by_number(values: np.ndarray[Any, Any], samples: int) -> np.ndarray[Any, Any]:
    import numpy as np
    if values.size and values.dtype.kind not in "iu":
        what = values.dtype
        if what == object:                      # also numbers beyond 64 bits
            odd = next((v for v in values if isinstance(v, bool) or not isinstance(v, int)), values[0])
            what = repr(odd)[:60]
        invalid(f"select: indices must be whole numbers, and keys texts, not {what}")
    wrong = values[(values < 0) | (values >= samples)] if values.size else values
    if len(wrong):
        invalid(f"select: {len(wrong):,} of {len(values):,} indices are not in the data, which has 0 to "
                f"{samples - 1}: {_few(wrong)}")
    return np.ascontiguousarray(values, dtype=np.uint64)


def _by_keys(keys: list[str], data: tuple[_stoker.Dataset, ...]) -> np.ndarray[Any, Any]:
    """Every sample that has one of the keys, in the order of the keys."""
    import numpy as np
    wanted = [key.encode("utf-8", "surrogateescape") for key in keys]
    pairs = np.frombuffer(_stoker.find_keys(data, wanted), dtype=np.uint64).reshape(-1, 2)
    missing = np.ones(len(keys), dtype=bool)
    missing[pairs[:, 0]] = False
    if missing.any():
        wrong = [keys[i] for i in np.flatnonzero(missing)]
        raise NotFoundError(f"select: {len(wrong):,} of {len(keys):,} keys are not in the data: "
                            f"{_few(wrong)}; ds[0][\"__key__\"] shows what keys look like, and where= finds samples by their columns",
                            "ENOTFOUND")
    return np.ascontiguousarray(pairs[np.argsort(pairs[:, 0], kind="stable"), 1])


def _few(values: Any) -> str:
    shown = ", ".join(repr(v) if isinstance(v, str) else str(v) for v in values[:_SHOWN])
    return shown + (", ..." if len(values) > _SHOWN else "")


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        invalid("select: Arrow streams and .parquet files are read by pyarrow, which is not "
                "installed: install it, or give indices or keys")
    return pyarrow


def _parquet(path: Any) -> Any:
    name = os.fsdecode(path)
    if not name.endswith((".parquet", ".pq")):
        invalid(f"select: a file must be a .parquet table with a column `sample` or `key`, not {shown(name)}")
    _pyarrow()
    from pyarrow import parquet
    try:
        with parquet.ParquetFile(name) as table:
            column = _column(table.schema_arrow.names, "the table")
            return _values(table.read([column]).column(0))
    except StokerError:
        raise
    except FileNotFoundError:
        raise NotFoundError(f"select: there is no file {name}", "ENOTFOUND") from None
    except (OSError, ValueError) as e:
        invalid(f"select: {name} can't be read: {str(e).splitlines()[0]}")


def _arrow(value: Any) -> Any:
    pa = _pyarrow()
    try:
        stream = pa.RecordBatchReader.from_stream(value)
    except (TypeError, ValueError, AttributeError) as e:
        invalid(f"select: that is not an Arrow stream of a table: {e}")
    name = _column(stream.schema.names, "the stream")
    return _values(stream.read_all().column(name))


def _column(names: Iterable[str], what: str) -> str:
    have = list(names)
    for name in ("sample", "key"):
        if name in have:
            return name
    invalid(f"select: {what} needs a column `sample` (indices) or `key`, it has {', '.join(have)}")


def _values(column: Any) -> Any:
    if column.null_count:
        invalid(f"select: {column.null_count:,} entries are null")
    kind = str(column.type)
    if kind in ("string", "large_string", "string_view") or kind.startswith("dictionary"):
        return list(_texts(column))
    return column.to_numpy()


def _texts(column: Any) -> Iterator[str]:
    for chunk in column.chunks:
        yield from chunk.to_pylist()
