# SPDX-License-Identifier: Apache-2.0
"""The environment of child processes that do without torch.

Not in conftest.py: several folders have a module of that name, and a child that imports a test module may find another one."""

import os

import stoker


def lean_env(**more):
    """An environment for processes that load without torch, whose import takes three seconds of CPU time."""
    package = os.path.dirname(os.path.dirname(stoker.__file__))
    notorch = os.path.join(os.path.dirname(__file__), "../../tools/notorch")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([notorch, package, os.environ.get("PYTHONPATH", "")]), **more}
