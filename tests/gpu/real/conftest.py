# SPDX-License-Identifier: Apache-2.0
"""Tests that need a GPU: `make gpu-test` runs them on one; elsewhere they are skipped.

STOKER_GPU_DRY=1 runs what can be run with device="cpu" in its place, so that the tests themselves are tried where there
is no GPU; what is only there on one is skipped then.
"""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import on_gpu  # noqa: E402


def pytest_collection_modifyitems(items):
    why = on_gpu.why_not()
    for item in items:
        if HERE in Path(item.fspath).parents:
            if why:
                item.add_marker(pytest.mark.skip(reason=why))
            elif on_gpu.DRY and item.get_closest_marker("real_gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a real GPU"))


def pytest_configure(config):
    config.addinivalue_line("markers", "real_gpu: cannot be tried with STOKER_GPU_DRY=1")
