# SPDX-License-Identifier: Apache-2.0
"""to_device() on a real GPU: nests, layouts, pinned sources, overlap, memory that is given back."""

import collections
import dataclasses
import gc
import random

import numpy as np
import on_gpu
import pytest
import stoker
from on_gpu import DEVICE, Verdict, delay

torch = pytest.importorskip("torch")

Pair = collections.namedtuple("Pair", "x y")


@dataclasses.dataclass
class Sample:
    x: object
    name: str


def test_nests_and_layouts():
    image = torch.rand(4, 3, 6, 5).to(memory_format=torch.channels_last)
    given = {"pair": Pair(torch.arange(5), "y"), "data": Sample(np.ones((2, 2), np.float32), "n"), "image": image,
             "strided": torch.arange(40).reshape(5, 8)[:, ::3], "scalar": torch.tensor(4), "none": torch.empty(0, 3),
             "list": [torch.ones(3, dtype=torch.bool), None, "text"], "expanded": torch.ones(1, 3).expand(4, 3),
             "packed": torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)]), "sparse": torch.eye(3).to_sparse(),
             "half": torch.rand(5).to(torch.bfloat16), "complex": torch.rand(3, dtype=torch.complex64)}
    [made] = stoker.to_device([given], DEVICE)
    assert type(made["pair"]) is Pair and made["pair"].y == "y" and type(made["data"]) is Sample
    assert made["image"].is_contiguous(memory_format=torch.channels_last)
    assert made["list"][1:] == [None, "text"]
    found = {"image": image, "strided": given["strided"], "scalar": given["scalar"], "none": given["none"],
             "half": given["half"], "complex": given["complex"], "expanded": given["expanded"]}
    for name, want in found.items():
        assert made[name].device.type == DEVICE and torch.equal(made[name].cpu(), want), name
    assert made["pair"].x.tolist() == list(range(5)) and made["data"].x.tolist() == [[1, 1], [1, 1]]
    assert made["list"][0].all() and made["packed"].data.device.type == DEVICE
    assert torch.equal(made["sparse"].to_dense().cpu(), torch.eye(3))


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_batches_of_changing_size(depth, pinned):
    rng, verdict = random.Random(on_gpu.SEED), Verdict()
    sizes = [rng.choice([1, 100, 5000, 300_000]) for _ in range(200)]

    def source():
        buffer = torch.empty(300_000, dtype=torch.int64)    # used again for every batch, as some loaders do
        for i, n in enumerate(sizes):
            if pinned and not on_gpu.DRY:
                yield torch.full((n,), i).pin_memory(), n
            elif on_gpu.DRY:
                yield torch.full((n,), i), n
            else:
                yield buffer[:n].fill_(i), n

    for i, (x, n) in enumerate(stoker.to_device(source(), DEVICE, depth=depth)):
        delay(rng)
        assert len(x) == n == sizes[i]
        verdict.equal(x, torch.full((), i, device=DEVICE))
        x.fill_(-1)
        del x
    verdict.check()


@pytest.mark.real_gpu
def test_memory_is_bounded_and_given_back():
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    size = 32 << 20
    for batch in stoker.to_device((torch.ones(size, dtype=torch.uint8) for _ in range(40)), "cuda", depth=3):
        assert torch.cuda.memory_allocated() - before <= 6 * size
    del batch
    loader = stoker.to_device([torch.ones(size, dtype=torch.uint8)] * 9, "cuda", depth=4)
    for batch in loader:
        break
    del batch
    gc.collect()
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() - before < size


@pytest.mark.real_gpu
def test_copies_do_not_wait_for_the_step():
    """With a step of 20 ms under way, next() answers long before it is over."""
    import time
    loader = stoker.to_device([torch.ones(1 << 20) for _ in range(10)], "cuda", depth=3)
    it, longest = iter(loader), 0.0
    for _ in range(3):
        next(it)
    torch.cuda.synchronize()
    for _ in range(3):
        torch.cuda._sleep(40_000_000)
        start = time.perf_counter()
        next(it)
        longest = max(longest, time.perf_counter() - start)
    torch.cuda.synchronize()
    assert longest < 0.015


@pytest.mark.real_gpu
def test_tensors_that_are_there_already_stay():
    there = torch.ones(3, device="cuda")
    [made] = stoker.to_device([(there, torch.ones(2))], "cuda")
    assert made[0] is there and made[1].is_cuda


@pytest.mark.real_gpu
def test_no_such_gpu():
    with pytest.raises(ValueError, match="torch sees"):
        stoker.to_device([], f"cuda:{torch.cuda.device_count()}")
