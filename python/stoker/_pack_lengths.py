# SPDX-License-Identifier: Apache-2.0
"""How well lengths pack, before anything is loaded."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _options, _stoker
from .errors import invalid, shown


class Fit(NamedTuple):
    """What packing makes of lengths."""

    rows: int                   # of `block` tokens
    tokens: int
    padding: float              # the share of the rows that is filled up

    def __str__(self) -> str:
        return f"{self.tokens:,} tokens in {self.rows:,} rows, {self.padding:.2%} padding"


def pack_lengths(lengths: Any, block: int, fit: str = "best", window: int | None = None) -> Fit:
    """How many rows of `block` tokens samples of these lengths take, and how much of them is padding.

        stoker.pack_lengths(lengths, 2048).padding

    It is what `pack(block=..., fit=...)` and `tokens(block=..., pack=...)` do with samples in this order,
    `window` (65,536) of them at a time; those that are longer than a row are cut.
    """
    import numpy as np
    values = np.asarray(lengths)
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        invalid(f"lengths must be whole numbers in one row, not {values.dtype} of shape {values.shape}")
    if values.size and not 0 <= int(values.min()) <= int(values.max()) < 2**32:
        invalid(f"lengths must be 0 to {2**32 - 1}, not {values.min()} to {values.max()}")
    if fit not in ("best", "first"):
        invalid(f'fit must be "best" or "first", not {shown(fit)}')
    block = _options.whole("block", block, 1, 1 << 24)
    size = 0 if window is None else _options.whole("window", window, 1, 1 << 24)
    rows, tokens = _stoker.pack_lengths(np.ascontiguousarray(values, dtype=np.uint32), block, fit == "best", size)
    return Fit(rows, tokens, 1 - tokens / (rows * block) if rows else 0.0)
