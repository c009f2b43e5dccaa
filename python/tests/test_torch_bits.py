# SPDX-License-Identifier: Apache-2.0
"""The rule of stoker.DataLoader: the same batches as torch's, bit for bit, draws in workers included.  `make soak` compares
2,000 sets of arguments; this is a slice of them."""

import pytest

pytest.importorskip("torch")
import torch_bits  # noqa: E402

pytestmark = pytest.mark.usefixtures("no_collections")


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_the_same_bits(first):
    for number in range(first, first + 20):
        torch_bits.compare(number)


def test_the_same_bits_of_a_fork_server():
    """torch's side is forked: its draws do not depend on the start method, and that saves an import of torch.  `make soak`
    spawns workers too, on both sides."""
    torch_bits.compare(24, context="forkserver")
