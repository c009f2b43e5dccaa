# SPDX-License-Identifier: Apache-2.0
"""The rule of stoker.DataLoader: the same batches as torch's, bit for bit, draws in workers included.  `make soak` compares
2,000 sets of arguments; this is a slice of them."""

import pytest

pytest.importorskip("torch")
import torch_bits  # noqa: E402


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_the_same_bits(first):
    for number in range(first, first + 20):
        torch_bits.compare(number)


@pytest.mark.parametrize("method,number", [("spawn", 7), ("forkserver", 13)])
def test_the_same_bits_of_fresh_processes(method, number):
    """torch's side is forked: its draws do not depend on the start method, and that saves an import of torch."""
    torch_bits.compare(number, context=method)
