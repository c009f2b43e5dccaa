# SPDX-License-Identifier: Apache-2.0
"""Ops of your own, by name in chains: from C (load_op) or compiled by Numba (op).

They run in the loader's threads without the GIL.  A loader has the ops that were there when it was opened; later ones, and
later versions of one, are for loaders that are opened later.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _stoker
from ._fingerprint import file_fingerprint
from .chains import _WORD, _short, steps  # type: ignore[attr-defined]
from .errors import invalid, shown

_DTYPES = ("", "u8", "i8", "u16", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "u32")     # stk_dtype
_known: dict[str, tuple[Callable[[_stoker.Ops], Any], list[str]]] = {}      # how to add each, and its ops
_known_by: dict[str, str] = {}                  # by the same key: a version, or a file's content
_functions: list[Any] = []                      # they are not freed: a thread may be in one


def names() -> list[str]:
    """The ops of your own that chains can name."""
    return [name for _, ops in _known.values() for name in ops]


def versions(chains: Iterable[str]) -> list[tuple[str, str]]:
    """Ops of your own that these chains may name, each with what it is known by: its version, or the content of its file."""
    text = " ".join(chains)
    return sorted((name, _known_by[key]) for key, (_, ops) in _known.items() for name in ops if name in text)


def _take(key: str, add: Callable[[_stoker.Ops], list[str]]) -> list[str]:
    """A new list of all ops, with this one: those of open loaders stay as they are."""
    fresh, ops = _stoker.Ops(), {}
    for other, (again, found) in _known.items():
        if other != key:
            again(fresh)
            ops[other] = again, found
    ops[key] = add, add(fresh)
    _stoker.use_ops(fresh)
    _known.clear()
    _known.update(ops)
    return ops[key][1]


def load_op(path: str | os.PathLike[str]) -> list[str]:
    """Load ops from a shared object, written in C against stoker/own_op.h (examples/my_op.c); answers their names.

        stoker.load_op("./my_op.so")
        stoker.Loader("train-*.tar", {"image": "from(jpg) | image | vignette(0.5) | to(f32)"})

    Its code runs in this process.  The object stays loaded: load a new build under another name.
    """
    if not isinstance(path, (str, os.PathLike)):
        invalid(f"load_op takes the path of a shared object, not {shown(path)}")
    whole = os.path.abspath(os.fspath(path))
    loaded = _take(whole, lambda ops: ops.load(os.fsencode(whole)))
    _known_by[whole] = file_fingerprint(whole)
    return loaded


def _address(function: Any) -> int:
    """Of a Numba cfunc, a ctypes function, or as a number."""
    if isinstance(function, int) and not isinstance(function, bool):
        return function
    if isinstance(getattr(function, "address", None), int):
        return int(function.address)
    if isinstance(function, ctypes._CFuncPtr):      # type: ignore[attr-defined]
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    invalid(f"op takes a function that is compiled, as numba.cfunc makes one, not {shown(function)}: a Python function goes into "
            "a chain by .call(function)")


def op(function: Any, name: str | None = None, *, args: Mapping[str, float] | None = None, dtype: Any = None,
       version: int = 1) -> str:
    """A compiled function as an op that chains can name; answers its name.

        @numba.cfunc("void(CPointer(uint8), intp, intp, CPointer(float64), uint64)")
        def curve(pixels, height, width, args, seed): ...
        stoker.op(curve, name="my_curve", args={"gamma": 2.2})

    function: of pixels: void(uint8 *pixels, intp height, intp width, float64 *args, uint64 seed), which changes them
        in place: height x width x 4 bytes, R, G, B and one without meaning; seed is drawn at the picture's address.
        With dtype=, of numbers: void(T *numbers, intp n, float64 *args), in place
    args: its arguments in chains, with their defaults, at most 8; it gets them as float64
    version: raise it when the function gives other results: a state knows it by name and version
    """
    address = _address(function)
    name = name or getattr(function, "__name__", "")
    if not isinstance(name, str) or not _WORD.fullmatch(name) or any(step[0] == name for step in steps):
        invalid(f"op needs a name that is a word and not that of a step of the library, not {shown(name)}")
    kind = 0 if dtype is None else _DTYPES.index(_short(dtype)) if _short(dtype) in _DTYPES[1:] else -1
    if kind < 0:
        invalid(f"op: dtype {shown(dtype)} is not known: {' '.join(_DTYPES[1:])}")
    try:
        given = tuple((str(key), repr(float(value))) for key, value in (args or {}).items())
    except (TypeError, ValueError):
        invalid(f"op: args are names and their defaults, numbers, not {shown(args)}")
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version < 2**32:
        invalid(f"op: version is a whole number, not {shown(version)}")
    if not 65536 <= address < 2**56:            # the first pages are never mapped
        invalid(f"op: {shown(function)} is not the address of a function")
    _functions.append(function)

    def add(ops: _stoker.Ops) -> list[str]:
        ops.add(name, address, kind, given, version)
        return [name]

    _take(name, add)
    _known_by[name] = str(version)
    return name
