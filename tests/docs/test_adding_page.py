# SPDX-License-Identifier: Apache-2.0
"""The code on docs/adding.md is code of the tree, which is built and tested: nothing on the page is older."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/adding.md").read_text()
BLOCKS = re.findall(r"^```c\n(.*?)^```$", PAGE, re.M | re.S)
FILES = [*ROOT.glob("src/op/*.c"), *ROOT.glob("src/op/*.def"), *ROOT.glob("tests/seams/*.c")]


def plain(text):
    return " ".join(text.split())


@pytest.mark.parametrize("block", BLOCKS, ids=[re.search(r"(\w+)\(|stk_op (\w+)", b).group() for b in BLOCKS])
def test_the_code_is_the_trees(block):
    assert any(plain(block) in plain(p.read_text()) for p in FILES), f"nowhere in the tree:\n{block}"


def test_every_kind_is_shown():
    """A pixel op that ships and one of a plug-in, a neighbourhood op, a decoder and a format of tables."""
    shown = "".join(BLOCKS)
    for table in ("STK_PIXEL_KERNELS", ".can = STK_OP_POINT", ".can = STK_OP_NEAR", "const stk_decoder", "const stk_data_kind"):
        assert table in shown, table
