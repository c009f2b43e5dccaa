# SPDX-License-Identifier: Apache-2.0
"""Runs a program with timm's models where torchvision is missing, which timm imports for its transforms: python with_timm.py FOLDER PROGRAM ARGUMENTS

FOLDER has timm, where it is not installed as other packages are.  Every name of torchvision is then an empty class; nothing of it is called."""

import importlib.abc
import importlib.machinery
import importlib.util
import runpy
import sys
import types


class Names(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class Module(types.ModuleType):
    __path__: list = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Names(name, (), {})


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "torchvision" else None

    def create_module(self, spec):
        return Module(spec.name)

    def exec_module(self, module):
        pass


def main():
    if importlib.util.find_spec("torchvision") is None:
        sys.meta_path.append(Finder())
    sys.path.append(sys.argv[1])
    sys.argv = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
