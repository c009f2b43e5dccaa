# SPDX-License-Identifier: Apache-2.0
"""The counts that end `make test` are read off what meson and pytest print."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import run_tests  # noqa: E402

MESON = """
1/3 base / err  OK  0.01s
Ok:                 7
Expected Fail:      1
Fail:               2
Unexpected Pass:    0
Skipped:            3
Timeout:            1

Full log written to somewhere
"""


def test_meson_counts():
    assert run_tests.meson_counts(MESON) == (8, 3, 3)
    assert run_tests.meson_counts("ninja: error") == (0, 0, 0)


def test_meson_counts_leave_out_what_is_not_printed():
    """meson 1.12 prints only the rows that are not zero, but Ok and Fail always."""
    assert run_tests.meson_counts("Ok:                2\nFail:              0\n") == (2, 0, 0)


def test_pytest_counts():
    text = "1 passed in 9s of old\n=== 3 failed, 12 passed, 1 skipped, 1 error in 2.10s ===\n"
    assert run_tests.pytest_counts(text) == (12, 4, 1)
    assert run_tests.pytest_counts("12 passed, 2 xfailed in 61.20s (0:01:01)") == (14, 0, 0)
    assert run_tests.pytest_counts("no tests ran in 0.01s") == (0, 0, 0)
