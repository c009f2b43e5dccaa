# SPDX-License-Identifier: Apache-2.0
"""For type checkers alone (tools/lint.sh): stoker.DataLoader is generic as torch's is, and its arguments are those of torch's.  A
comment below that ignores nothing is an error."""

from typing import Any, assert_type

import torch
from torch.utils import data

import stoker


class Rows(data.Dataset[torch.Tensor]):
    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.zeros(i)


def train(loader: stoker.DataLoader[torch.Tensor], other: data.DataLoader[torch.Tensor]) -> None:
    for ours, theirs in zip(loader, other, strict=True):
        assert_type(ours, Any)
        assert_type(theirs, Any)


def use() -> None:
    rows = stoker.DataLoader(Rows(), batch_size=2, num_workers=1)
    assert_type(rows, stoker.DataLoader[torch.Tensor])
    as_torchs: data.DataLoader[torch.Tensor] = rows
    train(rows, as_torchs)
    stoker.DataLoader(Rows(), batch_size="2")                   # type: ignore[arg-type]
    wrong: stoker.DataLoader[int] = rows                        # type: ignore[assignment]
    del wrong
