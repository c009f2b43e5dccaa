# SPDX-License-Identifier: Apache-2.0
"""What a function does, as a hash: the key of prepared(), and of packs that go on.

A function counts by its code, its defaults, the values of its closure, and by what it uses of its globals and of what it
imports.  Functions and classes of one's own modules are followed, values count by what they hold, installed packages by name
and version.  Nothing of it depends on the process: no address, no order of a set, no line number.

What can't be compared for certain is an error, never a guess: a file, a generator, a source of random numbers, an object that
can't be pickled.  A function, object or class with an attribute `stoker_version` counts by its name and that alone.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import hashlib
import importlib
import importlib.util
import os
import pickle
import re
import sys
import sysconfig
import threading
import types
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Any, NoReturn

from .errors import invalid

_PLAIN = (type(None), bool, int, float, complex, str, type(...), type(NotImplemented))
_LOCKS = (type(threading.Lock()), type(threading.RLock()))      # they hold nothing that a sample could depend on
_OF_NO_USE = {"__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__firstlineno__", "__static_attributes__",
              "__annotate__", "__annotations_cache__", "__annotate_func__", "__annotate_", "_abc_impl",
              "__slotnames__"}      # what copyreg and others note on a class later
_OF_MODULES = {"__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__path__", "__spec__",
               "__annotations__", "__warningregistry__"}
_INSTALLED = tuple({os.path.join(p, "") for p in (sysconfig.get_paths()[k] for k in ("stdlib", "platstdlib", "purelib", "platlib"))}
                   | {os.path.join(os.path.dirname(os.path.abspath(__file__)), "")})
_NAMES = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF", "LOAD_FROM_DICT_OR_GLOBALS"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
_BETWEEN = {"CACHE", "PUSH_NULL", "PRECALL", "COPY_FREE_VARS"}  # instructions that change nothing of what is on the stack


def name_of(fn: Any) -> str:
    """Module and name, as far as it has one."""
    fn = fn.func if isinstance(fn, functools.partial) else fn
    named = fn if isinstance(getattr(fn, "__qualname__", None), str) else type(fn)
    return f"{_module(named)}.{named.__qualname__}"


def function_fingerprint(fn: Any) -> str:
    """Name and hash; "" of None."""
    return "" if fn is None else f"{name_of(fn)}.{value_fingerprint(fn)[:16]}"


def value_fingerprint(value: Any) -> str:
    """The hash of an argument."""
    try:
        return _Fingerprint(name_of(value)).of(value)
    except RecursionError:
        invalid(f"what {name_of(value)} uses is nested too deep to be compared: {_REMEDY}")


_REMEDY = "set its stoker_version, a number that you change with it"


def version_of(fn: Any) -> str | None:
    """What says itself which version it is."""
    try:
        said = fn.stoker_version
    except Exception:           # some objects answer any name, and not all by AttributeError
        return None
    return str(said) if isinstance(said, (int, float, str)) else None


def _module(named: Any) -> str:
    name = getattr(named, "__module__", None) or ""
    if not isinstance(name, str):
        return ""
    return "__main__" if name == "__mp_main__" else name       # a spawned process has the script under that name


def _own(module: str) -> bool:
    """Code that changes from run to run; not Python's, not an installed package's, not ours."""
    if module in ("", "__main__"):
        return True
    if module not in sys.modules:
        return _own_file(_origin(module))
    path = getattr(sys.modules[module], "__file__", None) or next(iter(getattr(sys.modules[module], "__path__", ())), None)
    if path is None:
        return module not in sys.builtin_module_names and module.partition(".")[0] not in sys.stdlib_module_names
    return _own_file(path)


def _own_file(path: str | None) -> bool:
    if path is None:
        return False
    path = os.path.abspath(path)
    return not path.startswith(_INSTALLED) and not {"site-packages", "dist-packages"} & set(path.split(os.sep))


def _origin(module: str) -> str | None:
    """Where a module that was not imported yet would come from."""
    try:
        found = importlib.util.find_spec(module)
    except Exception:           # a parent that is not a package, or whose import fails
        return None
    return found.origin if found is not None and found.has_location else None


def _package(module: str) -> str:
    """Name and version; of a compiled module of one's own, whose code can't be looked at, the file's content."""
    top = module.partition(".")[0]
    return f"{module} {getattr(sys.modules.get(top), '__version__', '')}{_compiled(module)}"


def _compiled(module: str) -> str:
    path = getattr(sys.modules.get(module), "__file__", None) or ""
    return f" {file_fingerprint(path)}" if path.endswith(tuple(EXTENSION_SUFFIXES)) and _own(module) else ""


class _Fingerprint:
    """One hash, of a value and what it leads to.  Values are known by their identity while it is made."""

    def __init__(self, root: str) -> None:
        self._root = root                               # for errors: whose fingerprint it is
        self._done: dict[int, tuple[str, Any]] = {}     # the value too: its identity stays its own
        self._open: dict[int, int] = {}                 # values that lead to the one that is looked at, by depth
        self._path: list[str] = []                      # names that lead to what is looked at

    def of(self, value: Any) -> str:
        if type(value) is bytes:
            return self._buffer(value)
        if type(value) in _PLAIN:
            return self._hash("plain", type(value).__name__, repr(value))
        if id(value) in self._done:
            return self._done[id(value)][0]
        if id(value) in self._open:
            return f"itself {self._open[id(value)]}"
        self._open[id(value)] = len(self._open)
        try:
            made = self._compound(value)
        finally:
            del self._open[id(value)]
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

    def _named(self, kind: str, members: Iterable[tuple[str, Any]]) -> str:
        """Values by name; the names are what an error shows."""
        parts = []
        for name, value in members:
            self._path.append(name)
            parts += [name, self.of(value)]
            self._path.pop()
        return self._hash(kind, *parts)

    def _unknown(self, value: Any, why: str) -> NoReturn:
        place = ".".join(self._path)
        what = f"its {place} is {_shown_kind(value)}" if place else f"it is {_shown_kind(value)}"
        invalid(f"{self._root} can't be compared with what was packed before: {what}, {why}: {_REMEDY}")

    def _compound(self, value: Any) -> str:
        said = version_of(value) if not isinstance(value, types.ModuleType) else None
        if said is not None:
            return self._hash("said", name_of(value), said)
        for kind, make in self._kinds.items():
            if isinstance(value, kind):
                return make(self, value)
        if isinstance(value, functools._lru_cache_wrapper):
            return self._all("cached", [value.__wrapped__])
        if type(value).__name__ in ("cython_function_or_method", "fused_cython_function"):
            return self._builtin(value)
        if isinstance(getattr(value, "py_func", None), types.FunctionType):     # Numba's: pickled, it has a random number
            return self._all("compiled", [value.py_func, getattr(value, "targetoptions", None)])
        if type(value).__module__ == "torch" and type(value).__qualname__ == "Tensor" and value.layout.__repr__() == "torch.strided":
            return self._tensor(value)
        return self._object(value)

    # ---- what holds others ----

    def _sequence(self, value: Any) -> str:
        return self._all(type(value).__qualname__, value) if type(value) in (list, tuple) else self._object(value)

    def _set(self, value: Any) -> str:
        """In no order, also where a class of one's own is a set: what it gives to pickle is in the order of its hashes."""
        held = [] if type(value) in (set, frozenset) else [self.of(type(value)), self._members(value)]
        return self._hash(type(value).__qualname__, *held, *sorted(self.of(v) for v in value))

    def _dict(self, value: Any) -> str:
        if type(value) is not dict:
            return self._object(value)
        if all(type(k) is str for k in value):
            return self._named("dict", value.items())
        return self._all("dict", [x for pair in value.items() for x in pair])

    def _proxy(self, value: types.MappingProxyType[Any, Any]) -> str:
        return self._all("proxy", [dict(value)])

    def _buffer(self, value: Any) -> str:
        if type(value) not in (bytes, bytearray):
            return self._object(value)
        return self._hash(type(value).__qualname__, hashlib.sha256(value).hexdigest())

    def _view(self, value: memoryview) -> str:
        return self._hash("memoryview", value.format, repr(value.shape), hashlib.sha256(value.tobytes()).hexdigest())

    # ---- code ----

    def _method(self, value: Any) -> str:
        bound = [] if _drawn_by_all(value.__self__) else [value.__self__]
        return self._all("method", [*bound, value.__func__])

    def _builtin(self, value: Any) -> str:
        bound = getattr(value, "__self__", None)
        parts = [] if bound is None or isinstance(bound, types.ModuleType) or _drawn_by_all(bound) else [self.of(bound)]
        return self._hash("builtin", _package(_module(value)), value.__qualname__, *parts)

    def _module_itself(self, value: types.ModuleType) -> str:
        """An own module that is handed on as a whole: any member may be used."""
        if not _own(value.__name__):
            return self._hash("module", _package(value.__name__))
        members = [(n, vars(value)[n]) for n in sorted(vars(value)) if n not in _OF_MODULES]
        return self._named("module " + value.__name__, members)

    def _code(self, value: types.CodeType) -> str:
        return self._hash("code", value.co_code.hex(), value.co_exceptiontable.hex(), repr(value.co_names), repr(value.co_freevars),
                          self.of(value.co_consts))

    def _function(self, value: Any) -> str:
        module = _module(value)
        if not _own(module) and "<locals>" not in value.__qualname__:
            return self._hash("function", _package(module), value.__qualname__)
        if isinstance(getattr(value, "registry", None), types.MappingProxyType) and hasattr(value, "dispatch"):
            return self._all("singledispatch", [value.registry])    # its closure has caches besides
        cells = dict(zip(value.__code__.co_freevars, value.__closure__ or (), strict=False))
        parts = [value.__code__, value.__defaults__, value.__kwdefaults__]
        return self._hash("function " + value.__qualname__, *map(self.of, parts),
                          self._named("uses", self._uses(value, {n: _cell(c) for n, c in cells.items()})))

    def _uses(self, fn: types.FunctionType, cells: dict[str, Any]) -> list[tuple[str, Any]]:
        """Names and values that the code uses: of an own module only the members that it names, unless it hands the module on."""
        used: dict[str, Any] = {}
        for chain in _chains(fn.__code__):
            value = cells[chain[0]] if chain[0] in cells else fn.__globals__.get(chain[0])
            name = chain[0]
            for attribute in chain[1:]:
                if not isinstance(value, types.ModuleType) or not _own(value.__name__) or attribute not in vars(value):
                    break
                name, value = f"{name}.{attribute}", vars(value)[attribute]
            used[name] = value
        used.update({n: v for n, v in cells.items() if not isinstance(v, types.ModuleType)})
        for module, names in _imports(fn.__code__, fn.__globals__):
            used.update(_imported(module, names))
        return sorted(used.items(), key=lambda pair: pair[0])

    def _class(self, value: type) -> str:
        module = _module(value)
        if not _own(module):
            return self._hash("class", _package(module), value.__qualname__)
        members = [(name, _unwrapped(vars(value)[name])) for name in sorted(vars(value)) if name not in _OF_NO_USE]
        return self._hash("class " + value.__qualname__ + _compiled(module), self._named("members", members),
                          *map(self.of, value.__bases__), self.of(type(value)))

    # ---- values ----

    def _pattern(self, value: re.Pattern[Any]) -> str:
        return self._all("pattern", [value.pattern, value.flags])

    def _tensor(self, value: Any) -> str:
        import torch
        raw = value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
        return self._hash("tensor", str(value.dtype), repr(tuple(value.shape)), hashlib.sha256(raw).hexdigest())

    def _object(self, value: Any) -> str:
        """All that an object of one's own holds, whatever it gives to pickle; of others, what they give to pickle."""
        if isinstance(value, _LOCKS):
            return self._hash("lock")
        if _drawn_by_all(value):
            return self._hash("draws", type(value).__module__)
        if _draws(value):
            self._unknown(value, "which draws other numbers in every run")
        held = [self._members(value)] if _own(_module(type(value))) else []
        if held and _is_plain_python(type(value)):
            return self._hash("object", self.of(type(value)), *held)
        return self._hash("object", self.of(type(value)), *held, self._pickled(value))

    def _members(self, value: Any) -> str:
        found = dict(getattr(value, "__dict__", {}))
        for kind in type(value).__mro__:
            slots = vars(kind).get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                name = f"_{kind.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot
                if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                    found[name] = getattr(value, name)
        return self._named("members", sorted(((str(k), v) for k, v in found.items()), key=lambda pair: pair[0]))

    def _pickled(self, value: Any) -> str:
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            reduced = reduce(value) if reduce else value.__reduce_ex__(4)
        except RecursionError:
            raise
        except Exception:
            self._unknown(value, "which can't be pickled")
        if isinstance(reduced, str):
            return self._global(value, reduced)
        pieces: Any = reduced
        parts = [list(part) if hasattr(part, "__next__") else part for part in pieces]
        return self._all("pickled", [None if part == {} and type(part) is dict else part for part in parts])    # no state is either

    def _global(self, value: Any, name: str) -> str:
        """What pickle would find again by its name; numpy.frompyfunc() gives names that lead nowhere."""
        try:
            module = pickle.whichmodule(value, name)        # type: ignore[attr-defined]
            found = functools.reduce(getattr, name.split("."), sys.modules[module])
        except Exception:
            found = None
        if found is not value:
            self._unknown(value, f"which pickle would call {name} and not find again")
        return self._hash("named", _package(module), name)

    _kinds = {tuple: _sequence, list: _sequence, dict: _dict, frozenset: _set, set: _set, types.MappingProxyType: _proxy,
              bytearray: _buffer, memoryview: _view, re.Pattern: _pattern,
              types.FunctionType: _function, types.MethodType: _method, types.BuiltinFunctionType: _builtin,
              types.CodeType: _code, types.ModuleType: _module_itself, type: _class}


def _shown_kind(value: Any) -> str:
    kind = type(value)
    return f"of type {kind.__module__}.{kind.__qualname__}"


def _is_plain_python(kind: type) -> bool:
    """Its objects hold nothing but their __dict__ and slots: no class below it is written in C and makes its own objects."""
    return all(base is object or getattr(base.__new__, "__self__", None) is not base for base in kind.__mro__)


def _draws(value: Any) -> bool:
    module = type(value).__module__
    return module == "random" or module.startswith("numpy.random") or type(value).__qualname__ == "Generator" and module.startswith("torch")


def _drawn_by_all(value: Any) -> bool:
    """The generator of a module itself, whose functions anyone calls: every sample is seeded for these."""
    shared = [getattr(sys.modules.get("random"), "_inst", None),
              getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None),
              getattr(sys.modules.get("torch"), "default_generator", None)]
    return any(value is one for one in shared if one is not None)


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ...          # it has no value yet


def _unwrapped(member: Any) -> Any:
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    return (member.fget, member.fset, member.fdel) if isinstance(member, property) else member


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and the code in it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


def _chains(code: types.CodeType) -> set[tuple[str, ...]]:
    """Names that the code reads, each with the attributes that are taken of it at once: ("package", "sub", "g")."""
    found: set[tuple[str, ...]] = set()
    for one in _codes(code):
        chain: tuple[str, ...] = ()
        for i in dis.get_instructions(one):
            if chain and i.opname in _ATTRIBUTES:
                chain = (*chain, i.argval)
            elif i.opname not in _BETWEEN:
                found |= {chain} if chain else set()
                chain = (i.argval,) if i.opname in _NAMES else ()
        found |= {chain} if chain else set()
    return found


def _imports(code: types.CodeType, space: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Modules that the code imports when it runs, and the names that it takes of each; (): the module itself."""
    for one in _codes(code):
        steps = [i for i in dis.get_instructions(one) if i.opname != "CACHE"]
        for at, i in enumerate(steps):
            if i.opname == "IMPORT_NAME":
                level = steps[at - 2].argval if at >= 2 and isinstance(steps[at - 2].argval, int) else 0
                names = steps[at - 1].argval if isinstance(steps[at - 1].argval, tuple) else ()
                yield _absolute(i.argval, level, space), names


def _absolute(name: str, level: int, space: Mapping[str, Any]) -> str:
    if not level:
        return name
    package = (space.get("__package__") or str(space.get("__name__")).rpartition(".")[0]).split(".")
    return ".".join([*package[:len(package) - level + 1], *filter(None, [name])])


def _imported(module: str, names: tuple[str, ...]) -> dict[str, Any]:
    """What an import gives.  One's own modules are imported for that; a module that is missing counts as such."""
    if not _own(module):
        return {f"import {module}": _package(module)}
    try:
        made = importlib.import_module(module)
    except Exception as error:
        return {f"import {module}": type(error).__name__}
    if not names or "*" in names:           # `import a.b` gives a
        top = module.partition(".")[0]
        return {f"import {top}": sys.modules[top], f"import {module}": made}
    return {f"import {module}.{n}": _member(made, n) for n in names}


def _member(module: types.ModuleType, name: str) -> Any:
    """As `from module import name` finds it: a submodule may not be imported yet."""
    if not hasattr(module, name) and hasattr(module, "__path__"):
        try:
            return importlib.import_module(f"{module.__name__}.{name}")
        except Exception as error:
            return type(error).__name__
    return getattr(module, name, ...)


def file_fingerprint(path: str | os.PathLike[str]) -> str:
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def options_fingerprint(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Arguments of pack() by what they hold: functions by what they do, a list of bad samples by its text.  The engine makes no
    difference to the bytes."""
    return sorted((k, file_fingerprint(v) if k == "exclude" else value_fingerprint(v)) for k, v in options.items()
                  if v is not None and k != "engine")
