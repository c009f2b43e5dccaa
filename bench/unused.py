# SPDX-License-Identifier: Apache-2.0
"""Modules that a peer imports and does not use for what is measured: empty ones stand for them."""

import importlib.abc
import importlib.machinery
import types


class Unused(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self._names = names

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self._names else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = lambda name: type(name, (), {})
        return module

    def exec_module(self, module):
        module.__path__ = []
