# SPDX-License-Identifier: Apache-2.0
"""Chains as objects: stoker.from_("jpg", "png").image().random_resized_crop(224).hflip().

The methods are made from the library's registry, so a new op is here at once; what they are given
is checked by the library, in one place for text and objects.  chains.pyi and _codecs.pyi, which
editors and type checkers read, are written by _stub.py.
"""

from __future__ import annotations

import inspect
import keyword
import re
from typing import Any

from . import _stoker
from .errors import StokerError, invalid, printable, shown

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def _text(value: Any) -> str:
    """A value as the grammar writes it."""
    if isinstance(value, Chain):
        if not value._calls:
            invalid("a chain that is an argument needs a step")
        only = value._calls[0] if len(value._calls) == 1 else ""
        return f"{only}()" if only and "(" not in only else str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        if _WORD.fullmatch(value) and value not in ("true", "false"):
            return value
        quote = "'" if '"' in value else '"'
        if quote in value:
            invalid(f"a chain cannot quote {value!r}: it has both kinds of quotes")
        return f"{quote}{value}{quote}"
    if isinstance(value, (list, tuple)) and value:
        return f"({', '.join(map(_text, value))})"
    if hasattr(value, "item"):
        return _text(value.item())
    invalid(f"a chain takes numbers, words, True, False, chains and tuples of them, not {shown(value)}")


def _call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    inside = [_text(a) for a in args]
    inside += [f"{key}={_text(value)}" for key, value in kwargs.items() if value is not None]
    return f"{name}({', '.join(inside)})" if inside else name


_SHORT = {"bool": "u8", "uint8": "u8", "int8": "i8", "uint16": "u16", "int16": "i16", "uint32": "u32", "int32": "i32",
          "int64": "i64", "float16": "f16", "float32": "f32", "float64": "f64"}


def _short(dtype: Any) -> str:
    """A dtype of NumPy or torch, or its name, as chains write it."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype)).removeprefix("torch.")
    return _SHORT.get(name, name)


class Called(str):
    """The step call(): its text, and the function that it stands for."""

    function: Any
    name: str
    given: dict[str, Any]

    @classmethod
    def of(cls, function: Any, dtype: Any, shape: Any) -> Called:
        if not callable(function):
            invalid(f"call takes a function, not {shown(function)}")
        owner = getattr(function, "func", function)     # functools.partial
        if not hasattr(owner, "__qualname__"):
            owner = type(owner)
        name = f"{getattr(owner, '__module__', None) or 'builtins'}.{owner.__qualname__}"
        if shape is not None and not isinstance(shape, int):
            shape = tuple(shape) or 0           # a number
        given = {"dtype": None if dtype is None else _short(dtype), "shape": shape}
        made = cls(_call("call", (name,), given))
        made.function, made.name, made.given = function, name, given
        return made

    def numbered(self, which: int) -> str:
        return _call("call", (self.name,), {"which": which or None, **self.given})


class Chain:
    """Steps from a field to an output; every method answers a longer chain.  str() is its text."""

    __slots__ = ("_calls",)

    def __init__(self, *calls: str) -> None:
        self._calls = calls

    def __str__(self) -> str:
        return " | ".join(self._calls)

    def __repr__(self) -> str:
        return f"<chain {printable(str(self))}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chain) and self._calls == other._calls

    def __hash__(self) -> int:
        return hash(self._calls)

    @classmethod
    def from_transform(cls, transform: Any, *fields: str, approximate: bool = False) -> Chain:
        """The chain that does what a transform of torchvision (v1 or v2), timm or Albumentations does: a Compose, a list, or
        one step.  What has no equivalent, or only one that is close, is an error that names the step and what to do.

        fields: of the data, tried in this order; none: the field is called as the output.
        approximate: steps that are close to a transform, and not the same, are taken, and logged.
        """
        from ._from_transform import steps_of
        head = (_call("from", fields, {}),) if fields else ()
        return cls(*head, "image", *steps_of(transform, approximate))

    def call(self, function: Any, dtype: Any = None, shape: Any = None) -> Chain:
        """A function of your own on the value at this point: a picture as a uint8 array (height, width, channels), text,
        bytes, JSON, numbers.  It runs in worker processes, and returns the same kind of value; a picture may have another
        size.  random, NumPy and torch are seeded for each sample by (seed, epoch, position).  (docs/chains.md)

        dtype, shape: it returns numbers of this type instead, of any shape, or of this one, with -1 where rows differ;
            shape=() is one number
        """
        longer = Chain(*self._calls, Called.of(function, dtype, shape))
        _stoker.check_chain(str(longer))
        return longer

    def __getattr__(self, name: str) -> Any:
        """No step has this name: what it is called here, if other libraries have it."""
        said = f"no step is called `{name}`"
        from . import own_ops                   # which imports this file
        if name in own_ops.names():
            return _method(name, "", []).__get__(self)
        if not name.startswith("_"):
            try:
                _stoker.check_chain(name)
            except (StokerError, ValueError) as e:
                said = str(e)
        raise AttributeError(said, name=name, obj=self)


def from_(*fields: str, default: Any = None) -> Chain:
    """Begin at the first of these fields that a sample has, else at `default` as its text."""
    return Chain(_call("from", fields, {"default": default}))


# ---- from the registry ---------------------------------------------------------------------------

def python_name(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) else name


def _signature(args: list[tuple[str, str, str | None, str]]) -> inspect.Signature:
    kind = inspect.Parameter
    params = [kind("self", kind.POSITIONAL_ONLY)]
    for name, type_, fallback, _ in args:
        if type_ in ("names", "chains"):
            params.append(kind(name, kind.VAR_POSITIONAL))
        else:
            default = kind.empty if fallback is None else None
            after = params[-1].kind in (kind.VAR_POSITIONAL, kind.KEYWORD_ONLY)
            params.append(kind(python_name(name), kind.KEYWORD_ONLY if after else kind.POSITIONAL_OR_KEYWORD,
                               default=default))
    return inspect.Signature(params)


def describe(text: str, args: list[tuple[str, str, str | None, str]]) -> str:
    lines = [text]
    for name, _, fallback, what in args:
        lines.append(f"    {name}: {what}" + (f"; default {fallback}" if fallback else ""))
    return "\n".join(lines)


def _method(name: str, text: str, args: list[tuple[str, str, str | None, str]]) -> Any:
    def method(self, *given, **named):
        while given and given[-1] is None:
            given = given[:-1]
        named = {key.removesuffix("_"): value for key, value in named.items()}
        longer = Chain(*self._calls, _call(name, given, named))
        _stoker.check_chain(str(longer))        # at once: here the traceback shows the wrong line
        return longer

    method.__name__ = method.__qualname__ = python_name(name)
    method.__doc__ = describe(text, args)
    method.__signature__ = _signature(args)
    return method


_registry = _stoker.registry()
codecs = tuple(name for name, _, _ in _registry["codec"])
steps = _registry["codec"] + _registry["op"]
for _name, _help_text, _args in steps:
    if _name == "call":                         # takes a function
        continue
    setattr(Chain, python_name(_name), _method(_name, _help_text, _args))


def begin(name: str) -> Any:
    """The function that begins a chain with codec `name`: stoker.image is begin("image")."""
    method = getattr(Chain, python_name(name))

    def function(*args, **kwargs):
        return method(Chain(), *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    return function
