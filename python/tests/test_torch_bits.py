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


@pytest.mark.parametrize("number, context, workers", [(332, "forkserver", 3), (307, "spawn", 2)])
def test_the_same_bits_of_fresh_processes(number, context, workers):
    """torch's side is forked: its draws do not depend on the start method, and that saves imports of torch.  `make soak` starts
    both sides so.  Workers are persistent, and all of two epochs is compared."""
    options = torch_bits.compare(number, context=context)
    assert (options["num_workers"], options["persistent_workers"]) == (workers, True)
