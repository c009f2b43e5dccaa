# SPDX-License-Identifier: Apache-2.0
"""Whether a fresh process can import the script that runs: workers need it where the data set's class is defined there."""

from __future__ import annotations

import ast
import os
import sys
from typing import Any


class NoMain(Exception):
    """The data set names something of a main module that must not or cannot be imported."""


def _guarded(path: str) -> bool:
    """Has the script an `if __name__ == ...` at its top level?  Without one, importing it would run it once more."""
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return True                             # we can't tell: the import will
    return any(isinstance(node, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))
               for node in tree.body)


def check(main: Any = None) -> None:
    """NoMain: a fresh process would not find what is defined in the main module, or would run it again."""
    main = main or sys.modules["__main__"]
    path, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    if path is None or not os.path.exists(path) or (spec is not None and spec.name.endswith("__main__")):
        raise NoMain("what is defined in a notebook, on the command line or in a package's __main__ is not found by "
                     "processes that start fresh: define it in a module, or use worker_type=\"fork\"")
    if not _guarded(path):
        raise NoMain(f"processes that start fresh import {path}, which would run it once more: put what it does under "
                     "`if __name__ == \"__main__\":`, or use worker_type=\"fork\"")
