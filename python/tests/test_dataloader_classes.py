# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's test_dataloader.py looks at: run with torch's loader and with Stoker's, and compared."""

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch")
from torch.utils import data as theirs  # noqa: E402


def plain(value):
    """With the types and bits of everything in it."""
    if isinstance(value, torch.Tensor):
        parts = value.unbind() if value.is_nested else ()
        return "tensor", str(value.dtype), tuple(value.shape) if not value.is_nested else (), [plain(p) for p in parts] or value.tolist()
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(k, plain(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    return type(value).__name__, repr(value)


def overlapping(rows):
    x = torch.stack(rows)
    return {"input": x[:, :-1], "target": x[:, 1:], "flat": x.view(-1), "bits": x.view(torch.int32), "column": x[:, 50], "turned": x.t(),
            "doubled": [x[:2], x[:2]], "apart": (x[:2].clone(), x[4:].clone()), "whole": x, "again": x, "empty": x[:, :0],
            "spread": x[:, :1].expand(-1, 7)}


@pytest.mark.parametrize("batch_size", [6, None])
def test_views_of_one_memory_stay_views_of_it(batch_size):
    """What was written to one of them was not seen in the others."""
    torch.manual_seed(1)
    data = list(torch.randn(12, 101))
    data = [data[:6], data[6:]] if batch_size is None else data
    found = []
    for make in (stoker.DataLoader, theirs.DataLoader):
        found.append([])
        for batch in make(data, batch_size=batch_size, collate_fn=overlapping, num_workers=1, multiprocessing_context="fork"):
            batch["input"].mul_(2)
            batch["bits"][0, 3] = 5
            batch["column"] += 9
            batch["doubled"][1].neg_()
            assert batch["whole"] is batch["again"]
            found[-1].append([{k: plain(v) for k, v in batch.items()}, {k: v.stride() for k, v in batch.items() if torch.is_tensor(v)},
                              {k: v.storage_offset() for k, v in batch.items() if torch.is_tensor(v) and k not in ("whole", "again", "empty")}])
    assert found[0] == found[1] and len(found[0]) == 2


def test_views_far_apart_are_not_made_one_memory():
    """Two pairs of overlapping rows of 80 MB: 64 KB are copied, not all that lies between."""
    large = torch.arange(20_000_000, dtype=torch.float32)

    def few(rows):
        return large[:4000], large[2000:6000], large[-4000:], large[-6000:-2000], large[::5_000_000], large[1:][::5_000_000]

    it = iter(stoker.DataLoader([0, 1], collate_fn=few, num_workers=1, multiprocessing_context="fork"))
    batch = next(it)
    assert all(map(torch.equal, batch, few(None)))
    assert batch[0].untyped_storage().nbytes() < 100_000 and batch[4].untyped_storage().nbytes() < 100_000
    batch[0][3000] = -1
    assert batch[1][1000] == -1 and batch[3][3000] == large[-3000]


def test_views_in_a_data_set_that_is_pickled():
    data = Views()
    (found,) = stoker.DataLoader(data, batch_size=4, num_workers=1, multiprocessing_context="forkserver")
    assert found.tolist() == [-1, 1, 2, 3]


class Views(theirs.Dataset):
    def __init__(self):
        self.whole = torch.arange(6)
        self.part = self.whole[:4]

    def __len__(self):
        return 4

    def __getitem__(self, i):
        self.part[0] = -1
        return self.whole[i]
