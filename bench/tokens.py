# SPDX-License-Identifier: Apache-2.0
"""Token windows: Stoker against np.memmap with PyTorch's DataLoader at its best setting, by turns.

    bench/tokens.py FILE [ROUNDS]

Both give batches of 32 x 2048 int64 in shuffled order, inputs alone and inputs with labels; equal output is checked first (in
order).  The DataLoader is tried with 0, 1, 2 and 4 workers and the quickest is taken.  Prints one line of JSON a case: tokens (of
inputs) a second, medians and their ratio; and processor time a batch, of all threads and processes of this one.
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
        return (len(self.data) - 1) // BLOCK

    def __getitem__(self, i: int) -> torch.Tensor:
        return torch.from_numpy(self.data[i * BLOCK:(i + 1) * BLOCK].astype(np.int64))


class Labelled(Windows):
    """As nanoGPT cuts inputs and labels."""

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        return (torch.from_numpy(self.data[i * BLOCK:(i + 1) * BLOCK].astype(np.int64)),
                torch.from_numpy(self.data[i * BLOCK + 1:(i + 1) * BLOCK + 1].astype(np.int64)))


def tensors(batch) -> tuple[torch.Tensor, ...]:
    return (batch,) if isinstance(batch, torch.Tensor) else tuple(batch.values() if isinstance(batch, dict) else batch)


def speed(batches) -> tuple[float, float]:
    """Tokens a second over about SECONDS, as many epochs as that takes, and processor time a token; what begins an epoch
    is not counted."""
    rows, seconds, cpu = 0, 0.0, 0.0
    while seconds < SECONDS:
        it = iter(batches)
        next(it)
        start, now, before = time.perf_counter(), 0.0, time.process_time()
        for batch in it:
            rows += len(tensors(batch)[0])
            now = time.perf_counter()
            if seconds + now - start > SECONDS:
                break
        seconds += now - start
        cpu += time.process_time() - before
    return rows * BLOCK / seconds, cpu / rows * BATCH


def torch_loader(data: Windows, workers: int, shuffle: bool = True) -> torch.utils.data.DataLoader:
    return torch.utils.data.DataLoader(data, batch_size=BATCH, shuffle=shuffle, num_workers=workers,
                                       persistent_workers=workers > 0)


def ours(path: str, labels: bool, shuffle: bool = True) -> stoker.Loader:
    fields = {"x": f"tokens(block={BLOCK})"}
    if labels:
        fields["y"] = f"tokens(block={BLOCK}, shift=1)"
    return stoker.Loader(path, fields, batch_size=BATCH, shuffle=shuffle)


def measure(path: str, labels: bool, rounds: int) -> dict[str, object]:
    data = Labelled(path) if labels else Windows(path)
    for (a, b), _ in zip(zip(torch_loader(data, 0, False), ours(path, labels, False)), range(20)):  # noqa: B905
        assert all(map(torch.equal, tensors(a), tensors(b)))
    loaders = {n: torch_loader(data, n) for n in (0, 1, 2, 4)}
    best = max(loaders, key=lambda n: speed(loaders[n])[0])
    with ours(path, labels) as mine:
        pairs = [(speed(loaders[best]), speed(mine)) for _ in range(rounds)]
    return {"case": "np.memmap + DataLoader" + (", with labels" if labels else ""), "workers": best, "rounds": rounds,
            "ratio": round(statistics.median(b[0] / a[0] for a, b in pairs), 1),
            "tokens_per_s": round(statistics.median(b[0] for _, b in pairs)),
            "dataloader_tokens_per_s": round(statistics.median(a[0] for a, _ in pairs)),
            "cpu_us_a_batch": round(statistics.median(b[1] for _, b in pairs) * 1e6, 1),
            "dataloader_cpu_us_a_batch": round(statistics.median(a[1] for a, _ in pairs) * 1e6, 1)}


def main() -> None:
    path, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 7
    for labels in (False, True):
        print(json.dumps(measure(path, labels, rounds)), flush=True)


if __name__ == "__main__":
    main()
