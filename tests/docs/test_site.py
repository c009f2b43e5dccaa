# SPDX-License-Identifier: Apache-2.0
"""The site of `make docs`: every public header is on its page, and pages fit wide and narrow windows."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import docs  # noqa: E402


def test_the_page_of_c_has_every_header():
    assert sorted(docs.HEADERS) == sorted(p.stem for p in (ROOT / "include/stoker").glob("*.h"))
    assert "typedef struct stk_stats {" in docs.c_page()
