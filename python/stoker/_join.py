# SPDX-License-Identifier: Apache-2.0
"""Arrays as the extension takes them: files by their names, memory as it is, types by any name."""

from __future__ import annotations

import operator
import os
from typing import Any

from . import _options, _stoker
from .errors import invalid, nearest, shown

_CODES = {"u8": 1, "i8": 2, "u16": 3, "i16": 4, "i32": 5, "i64": 6, "f16": 7, "bf16": 8, "f32": 9,
          "f64": 10, "u32": 11}                 # stk_dtype
_LONG = {"uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "int32": "i32", "int64": "i64",
         "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "uint32": "u32",
         "bool": "u8"}


def _name(dtype: Any) -> str:
    """The short name of "u16", numpy.uint16, "<u2", torch.int32; what it says of itself if unknown."""
    text = str(dtype).removeprefix("torch.")
    if text in _CODES or text in _LONG:
        return _LONG.get(text, text)
    import numpy
    try:
        found = numpy.dtype(dtype)
    except TypeError:
        return text
    if found.byteorder == ">" or (found.byteorder == "=" and not _little()):
        return f"{found.str}, big-endian"
    return str(_LONG.get(found.name, found.name))


def _little() -> bool:
    import sys
    return sys.byteorder == "little"


def code(dtype: Any, what: str = "dtype") -> int:
    name = _name(dtype)
    if name not in _CODES:
        invalid(f"{what}: {name} is none of {' '.join(_CODES)}{nearest(name, list(_CODES))}")
    return _CODES[name]


def raw(dtype: Any, shape: Any) -> tuple[int, tuple[int, ...]]:
    """dtype= and shape= of files without a header."""
    if shape is None:
        return 0 if dtype is None else code(dtype), ()
    if dtype is None:
        invalid('shape= needs dtype= too, as in dtype="f32", shape=(3, 224, 224)')
    try:
        sides = tuple(operator.index(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    except TypeError:
        invalid(f"shape= is the shape of a row, like (3, 224, 224), not {shown(shape)}")
    if not sides or len(sides) > 7 or min(sides) < 1:
        invalid(f"shape= is the shape of a row, of 1 to 7 sides of at least 1, not {shown(shape)}")
    return code(dtype), sides


def _memory(name: str, value: Any) -> tuple[str, Any, int, tuple[int, ...], int, int]:
    """A NumPy array or a torch tensor on the CPU, whose memory is taken as it is."""
    kind = None
    if type(value).__module__.partition(".")[0] == "torch":
        if value.device.type != "cpu":
            invalid(f"array {name!r} is on {value.device}: a loader reads CPU memory: give {name}.cpu()")
        if str(value.layout) != "torch.strided":
            invalid(f"array {name!r} is sparse, and rows are read as they are stored: give {name}.to_dense()")
        if str(value.dtype) == "torch.bfloat16":
            import torch
            kind, value = "bf16", value.detach().view(torch.int16)
        value = value.detach().numpy()
    import numpy
    array = numpy.asarray(value)
    if array.dtype.hasobject or array.dtype.names:
        invalid(f"array {name!r} holds objects or records: a loader takes arrays of numbers")
    if array.ndim == 0:
        invalid(f"array {name!r} is one number: it has no rows")
    number = code(kind or array.dtype, f"array {name!r}")
    apart = array.strides[0]
    if not array[:1].flags.c_contiguous or (len(array) > 1 and apart < array[:1].nbytes):
        array = numpy.ascontiguousarray(array)  # a row is scattered: it is gathered once, here
        apart = array.strides[0]
    return name, array, number, array.shape[1:], len(array), apart


def join(arrays: Any, store: Any = None) -> _stoker.Dataset:
    """A data set of {"x": "images.npy", "y": labels}; store: as the extension takes it."""
    if not arrays:
        invalid('a dict of arrays has at least one, in memory or by its path: {"x": "images.npy", "y": labels}')
    found = []
    for name, value in arrays.items():
        if not isinstance(name, str) or not name or "\0" in name:
            invalid(f"an array's name must be a word, not {shown(name)}")
        paths = None
        if isinstance(value, (str, bytes, os.PathLike, list, tuple)):
            paths = _options.url_bytes(value)
        found.append((name, paths, 0, (), 0, 0) if paths else _memory(name, value))
    return _stoker.join(found, store)
