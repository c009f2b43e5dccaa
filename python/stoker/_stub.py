# SPDX-License-Identifier: Apache-2.0
"""Writes the stubs that editors and type checkers read chains from: python -m stoker._stub python/stoker"""

from __future__ import annotations

import sys
from pathlib import Path

from .chains import codecs, describe, python_name, steps

_TYPES = {"int": "builtins.int", "float": "builtins.float", "bool": "bool", "name": "str",
          "names": "str", "ints": "builtins.int | Sequence[builtins.int]",
          "floats": "builtins.float | Sequence[builtins.float]",
          "chain": "Chain | Sequence[Chain]", "chains": "Chain",
          "any": "str | builtins.float | Sequence[builtins.float]"}
_HEAD = """# SPDX-License-Identifier: Apache-2.0
# Written by _stub.py; a test compares.  Methods hide int and float: hence builtins.
import builtins
from collections.abc import Callable, Sequence
from typing import Any

codecs: tuple[str, ...]
steps: list[tuple[str, str, list[tuple[str, str, str | None, str]]]]

def from_(*fields: str, default: Any = None) -> Chain: ...
def begin(name: str) -> Callable[..., Chain]: ...
def python_name(name: str) -> str: ...
def describe(text: str, args: Any) -> str: ...

class Called(str):
    function: Any
    name: str
    def numbered(self, which: builtins.int) -> str: ...

class Chain:
    _calls: tuple[str, ...]
    def __init__(self, *calls: str) -> None: ...
    @classmethod
    def from_transform(cls, transform: Any, *fields: str, approximate: bool = False) -> Chain: ...
    def call(self, function: Callable[[Any], Any], dtype: Any = None, shape: builtins.int | Sequence[builtins.int] | None = None) -> Chain:
        '''A function of your own on the value at this point, in worker processes.
            dtype, shape: it returns numbers of this type, and of this shape, with -1 where rows differ
        '''
"""


def _parameter(name: str, type_: str, fallback: str | None) -> str:
    if type_ in ("names", "chains"):
        return f"*{name}: {_TYPES[type_]}"
    optional = "" if fallback is None else " | None = None"
    return f"{python_name(name)}: {_TYPES[type_]}{optional}"


def _method(name: str, text: str, args: list[tuple[str, str, str | None, str]]) -> str:
    params = "".join(f",\n            {_parameter(*arg[:3])}" for arg in args)
    doc = describe(text, args).replace("\n", "\n    ")
    end = "\n        " if args else ""
    return (f"\n    def {python_name(name)}(self{params}) -> Chain:\n"
            f'        """{doc}{end}"""\n')


_BEGIN = """# SPDX-License-Identifier: Apache-2.0
# Written by _stub.py; a test compares.  stoker.image() and its like, which stoker/__init__.py makes when they are asked for.
from .chains import Chain

_empty: Chain
"""


def stubs() -> dict[str, str]:
    """File -> its text."""
    chains = _HEAD + "".join(_method(*step) for step in steps if step[0] != "call")
    begin = _BEGIN + "".join(f"{name} = _empty.{name}\n" for name in codecs if name != "open")     # stoker.open() opens data
    return {"chains.pyi": chains, "_codecs.pyi": begin}


if __name__ == "__main__":
    for name, text in stubs().items():
        (Path(sys.argv[1]) / name).write_text(text)
