# SPDX-License-Identifier: Apache-2.0
"""What a function does, as a hash: the key of prepared(), and of packs that go on.

A function counts by its code, its defaults, the values of its closure, and by what of its globals it uses: functions and classes
of one's own modules are followed, values count by what they hold, installed packages by name and version.  Nothing of it
depends on the process: no address, no order of a set, no line number.  A function (or object, or class) with an attribute
`stoker_version` counts by its name and that alone.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import os
import sys
import sysconfig
import types
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import invalid

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
_OF_NO_USE = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__", "__static_attributes__",
              "__annotate__", "__annotations_cache__", "__annotate_func__", "__annotate_", "_abc_impl"}
_INSTALLED = tuple({os.path.join(p, "") for p in (sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib"))}
                   | {os.path.join(os.path.dirname(os.path.abspath(__file__)), "")})


def name_of(fn: Any) -> str:
    """Module and name, as far as it has one."""
    fn = fn.func if isinstance(fn, functools.partial) else fn
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{_module(named)}.{named.__qualname__}"


def function_print(fn: Any) -> str:
    """Name and hash; "" of None."""
    return "" if fn is None else f"{name_of(fn)}.{value_print(fn)[:16]}"


def value_print(value: Any) -> str:
    """The hash of an argument."""
    try:
        return _Print().of(value)
    except RecursionError:
        invalid(f"what {name_of(value)} uses is nested too deep to be compared: set its stoker_version, a number that you change with it")


def version_of(fn: Any) -> str | None:
    """What says itself which version it is."""
    try:
        said = fn.stoker_version
    except Exception:           # some objects answer any name, and not all by AttributeError
        return None
    return str(said) if isinstance(said, (int, float, str)) else None


def _module(named: Any) -> str:
    name = getattr(named, "__module__", None) or ""
    return "__main__" if name == "__mp_main__" else name       # a spawned process has the script under that name


def _own(module: str) -> bool:
    """Code that changes from run to run; not Python's, not an installed package's, not ours."""
    if module in ("", "__main__"):
        return True
    path = getattr(sys.modules.get(module), "__file__", None)
    if path is None:
        return module in sys.modules and module not in sys.builtin_module_names and module not in sys.stdlib_module_names
    path = os.path.abspath(path)
    return not path.startswith(_INSTALLED) and not {"site-packages", "dist-packages"} & set(path.split(os.sep))


def _package(module: str) -> str:
    top = module.partition(".")[0]
    return f"{module} {getattr(sys.modules.get(top), '__version__', '')}"


class _Print:
    """One hash, of a value and what it leads to.  Values are known by their identity while it is made."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[str, Any]] = {}     # the value too: its identity stays its own
        self._open: set[int] = set()

    def of(self, value: Any) -> str:
        if type(value) is bytes:
            return self._buffer(value)
        if type(value) in _PLAIN:
            return self._hash("plain", type(value).__name__, repr(value))
        if id(value) in self._done:
            return self._done[id(value)][0]
        if id(value) in self._open:
            return "itself"
        self._open.add(id(value))
        try:
            made = self._compound(value)
        finally:
            self._open.discard(id(value))
        self._done[id(value)] = made, value
        return made

    def _hash(self, *parts: str) -> str:
        whole = hashlib.sha256()
        for part in parts:
            raw = part.encode("utf-8", "surrogatepass")
            whole.update(b"%d:" % len(raw) + raw)
        return whole.hexdigest()

    def _all(self, kind: str, values: Iterable[Any]) -> str:
        return self._hash(kind, *(self.of(v) for v in values))

    def _compound(self, value: Any) -> str:
        said = version_of(value) if not isinstance(value, types.ModuleType) else None
        if said is not None:
            return self._hash("said", name_of(value), said)
        for kind, make in self._kinds.items():
            if isinstance(value, kind):
                return make(self, value)
        if type(value).__module__ == "torch" and type(value).__qualname__ == "Tensor" and value.layout.__repr__() == "torch.strided":
            return self._tensor(value)
        return self._all("cached", [value.__wrapped__]) if isinstance(value, functools._lru_cache_wrapper) else self._object(value)

    # ---- what holds others ----

    def _sequence(self, value: Any) -> str:
        return self._all(type(value).__qualname__, value) if type(value) in (list, tuple) else self._object(value)

    def _set(self, value: Any) -> str:
        return self._hash(type(value).__qualname__, *sorted(self.of(v) for v in value))

    def _dict(self, value: Any) -> str:
        return self._all("dict", [x for pair in value.items() for x in pair]) if type(value) is dict else self._object(value)

    def _buffer(self, value: Any) -> str:
        return self._hash(type(value).__qualname__, hashlib.sha256(value).hexdigest())

    # ---- code ----

    def _method(self, value: Any) -> str:
        return self._all("method", [value.__self__, value.__func__])

    def _builtin(self, value: Any) -> str:
        bound = getattr(value, "__self__", None)
        parts = [] if bound is None or isinstance(bound, types.ModuleType) else [self.of(bound)]
        return self._hash("builtin", _package(_module(value)), value.__qualname__, *parts)

    def _module_itself(self, value: Any) -> str:
        return self._hash("module", _package(value.__name__))

    def _code(self, value: types.CodeType) -> str:
        return self._hash("code", value.co_code.hex(), value.co_exceptiontable.hex(), repr(value.co_names), repr(value.co_freevars),
                          self.of(value.co_consts))

    def _function(self, value: types.FunctionType) -> str:
        module = _module(value)
        if not _own(module) and "<locals>" not in value.__qualname__:
            return self._hash("function", _package(module), value.__qualname__)
        parts = [value.__code__, value.__defaults__, value.__kwdefaults__, [_cell(c) for c in value.__closure__ or ()],
                 self._globals(value)]
        return self._all("function " + value.__qualname__, parts)

    def _globals(self, fn: types.FunctionType) -> list[Any]:
        """Names and values that the code uses; of one's own modules the members it may use."""
        used: list[Any] = []
        names = _names(fn.__code__)
        for name in sorted(names[0]):
            value = fn.__globals__.get(name)
            used += [name, value]
            if isinstance(value, types.ModuleType) and _own(value.__name__):
                used += [x for n in sorted(names[1]) if n in vars(value) for x in (n, vars(value)[n])]
        return used

    def _class(self, value: type) -> str:
        module = _module(value)
        if not _own(module):
            return self._hash("class", _package(module), value.__qualname__)
        members = [x for name in sorted(vars(value)) if name not in _OF_NO_USE for x in (name, _unwrapped(vars(value)[name]))]
        return self._all("class " + value.__qualname__, [*members, *value.__bases__])

    # ---- values ----

    def _tensor(self, value: Any) -> str:
        import torch
        raw = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        return self._hash("tensor", str(value.dtype), repr(tuple(value.shape)), hashlib.sha256(raw).hexdigest())

    def _object(self, value: Any) -> str:
        """What pickle would keep; where it keeps nothing, the class."""
        try:
            kept = None if _draws(value) else value.__reduce_ex__(4)
        except Exception:
            kept = None
        if kept is None:
            return self._all("object", [type(value)])
        if isinstance(kept, str):
            return self._hash("named", _package(_module(value)), kept)
        return self._all("object", [type(value), *(list(part) if hasattr(part, "__next__") else part for part in kept)])

    _kinds = {tuple: _sequence, list: _sequence, dict: _dict, frozenset: _set, set: _set,
              bytearray: _buffer, types.FunctionType: _function, types.MethodType: _method, types.BuiltinFunctionType: _builtin,
              types.CodeType: _code, types.ModuleType: _module_itself, type: _class}


def _draws(value: Any) -> bool:
    """Generators of random numbers count by their kind: ranks that seed them by the clock do the same all the same."""
    module = type(value).__module__
    return module == "random" or module.startswith("numpy.random") or type(value).__qualname__ == "Generator"


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ...          # it has no value yet


def _unwrapped(member: Any) -> Any:
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    return (member.fget, member.fset, member.fdel) if isinstance(member, property) else member


def _names(code: types.CodeType) -> tuple[set[str], set[str]]:
    """Globals that the code and the code in it use, and all names of attributes."""
    used = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    names = set(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            more = _names(inner)
            used |= more[0]
            names |= more[1]
    return used, names


def file_print(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def options_print(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Arguments of pack() by what they hold: functions by what they do, a list of bad samples by its text.  The engine makes no
    difference to the bytes."""
    return sorted((k, file_print(v) if k == "exclude" else value_print(v)) for k, v in options.items()
                  if v is not None and k != "engine")
