# SPDX-License-Identifier: Apache-2.0
"""bench/pack.py: the textbook's packer by hand, and that ours is within 1 % of it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np

BENCH = Path(__file__).resolve().parents[2] / "bench" / "pack.py"


def test_the_textbook():
    spec = importlib.util.spec_from_file_location("pack_bench", BENCH)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    assert bench.textbook(np.array([5, 7, 5, 2, 4, 2, 5, 1, 6]), 10) == 4
    assert bench.textbook(np.array([25, 10, 5]), 10) == 4
    assert bench.textbook(np.array([], int), 10) == 0


def test_within_a_hundredth():
    done = subprocess.run([sys.executable, BENCH, "20000", "512"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "within 1 %" in done.stdout, done.stdout + done.stderr
