# SPDX-License-Identifier: Apache-2.0
"""Token windows: Stoker against np.memmap with PyTorch's DataLoader at its best setting, by turns.

    bench/tokens.py FILE [ROUNDS]

Both give batches of 32 x 2048 int64 in shuffled order; equal output is checked first (in order).  The DataLoader is tried
with 0, 1, 2 and 4 workers and the quickest is taken.  Prints one line of JSON: tokens a second, medians and their ratio.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import numpy as np
import stoker
import torch

BLOCK, BATCH, SECONDS = 2048, 32, 1.0


class Windows(torch.utils.data.Dataset):
    """What people write by hand."""

    def __init__(self, path: str) -> None:
        self.data = np.memmap(path, dtype=np.uint16, mode="r")

    def __len__(self) -> int:
        return len(self.data) // BLOCK

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.from_numpy(self.data[i * BLOCK:(i + 1) * BLOCK].astype(np.int64))


def speed(batches) -> float:
    """Tokens a second over about SECONDS, as many epochs as that takes; what begins an epoch is not counted."""
    rows, seconds = 0, 0.0
    while seconds < SECONDS:
        it = iter(batches)
        next(it)
        start, now = time.perf_counter(), 0.0
        for batch in it:
            rows += len(batch if isinstance(batch, torch.Tensor) else batch["x"])
            now = time.perf_counter()
            if seconds + now - start > SECONDS:
                break
        seconds += now - start
    return rows * BLOCK / seconds


def torch_loader(path: str, workers: int, shuffle: bool = True) -> torch.utils.data.DataLoader:
    return torch.utils.data.DataLoader(Windows(path), batch_size=BATCH, shuffle=shuffle, num_workers=workers,
                                       persistent_workers=workers > 0)


def ours(path: str, shuffle: bool = True) -> stoker.Loader:
    return stoker.Loader(path, {"x": f"tokens(block={BLOCK})"}, batch_size=BATCH, shuffle=shuffle)


def main() -> None:
    path, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    for (a, b), _ in zip(zip(torch_loader(path, 0, False), ours(path, False)), range(20)):  # noqa: B905
        assert torch.equal(a, b["x"])
    loaders = {n: torch_loader(path, n) for n in (0, 1, 2, 4)}
    best = max(loaders, key=lambda n: speed(loaders[n]))
    mine = ours(path)
    pairs = [(speed(loaders[best]), speed(mine)) for _ in range(rounds)]
    print(json.dumps({"case": "np.memmap + DataLoader", "workers": best, "rounds": rounds,
                      "ratio": round(statistics.median(b / a for a, b in pairs), 1),
                      "tokens_per_s": round(statistics.median(b for _, b in pairs)),
                      "dataloader_tokens_per_s": round(statistics.median(a for a, _ in pairs))}))


if __name__ == "__main__":
    main()
