# SPDX-License-Identifier: Apache-2.0
"""Stoker over tar shards as where torch is not installed: NumPy arrays, as Grain gives them."""

import sys

import common
import stoker_tar

TITLE, MODULES, PACKAGES = "Stoker, without torch", ("numpy", "stoker"), ()
SETTINGS = ({},)
NOTE = "tar shards, as Stoker's; NumPy arrays, torch not loaded"
versions, prepare = stoker_tar.versions, stoker_tar.prepare


def batches(data, **options):
    sys.modules["torch"] = None     # an import of it fails, as where it is not installed
    yield from stoker_tar.batches(data, **options)


if __name__ == "__main__":
    common.main(sys.modules[__name__])
