# SPDX-License-Identifier: Apache-2.0
"""Packing: rows and padding of Stoker's fits against the textbook's best-fit decreasing.

    bench/pack.py [DOCUMENTS [BLOCK ...]]

The textbook (Johnson 1973): sort by falling length, put each into the fullest row that still has room, open a new one
when none has.  It is written here on its own, with a sorted list, over all documents at once; Stoker packs
windows of 65,536.  Prints a table; the last column is our rows by the textbook's.
"""

from __future__ import annotations

import bisect
import sys
import time

import numpy as np

import stoker


def textbook(lengths: np.ndarray, block: int) -> int:
    """Rows of best-fit decreasing; documents that are longer than a row are cut first."""
    whole = int((lengths // block).sum())
    rooms: list[int] = []                       # of open rows, sorted
    rows = 0
    for n in sorted((lengths % block)[lengths % block > 0].tolist(), reverse=True):
        at = bisect.bisect_left(rooms, n)       # the least room that is enough
        if at == len(rooms):
            rows += 1
            room = block - n
        else:
            room = rooms.pop(at) - n
        if room:
            bisect.insort(rooms, room)
    return whole + rows


def cases(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    web = rng.lognormal(6.2, 1.1, n)
    chat = np.where(rng.random(n) < 0.35, rng.lognormal(3.4, 0.6, n), rng.lognormal(6.6, 0.7, n))
    books = np.where(rng.random(n) < 0.02, rng.lognormal(11, 0.6, n), rng.lognormal(7.2, 1.3, n))
    made = {"log-normal, median 490": web, "chat: short and long turns": chat, "web pages with some books": books,
            "uniform 1..block": rng.random(n)}
    return {name: (np.ceil(v) if v.max() > 1 else v) for name, v in made.items()}


def tokens_of(values: np.ndarray, block: int) -> np.ndarray:
    scaled = values if values.max() > 1 else np.ceil(values * block)
    return np.clip(scaled, 1, 2_000_000).astype(np.int64)


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 400_000
    blocks = [int(b) for b in sys.argv[2:]] or [2048, 8192]
    print(f"{n:,} documents, seed 0, Stoker {stoker.__version__}\n")
    print(f"{'lengths':28} {'block':>6} {'fit':>6} {'rows':>10} {'textbook':>10} {'padding':>8} {'ms':>7} {'by textbook':>12}")
    worst = 0.0
    for name, values in cases(n).items():
        for block in blocks:
            lengths = tokens_of(values, block)
            want = textbook(lengths, block)
            for fit in ("best", "first"):
                start = time.perf_counter()
                got = stoker.pack_lengths(lengths, block, fit)
                ms = (time.perf_counter() - start) * 1e3
                print(f"{name:28} {block:6} {fit:>6} {got.rows:10,} {want:10,} {got.padding:8.3%} {ms:7.1f} {got.rows / want:12.5f}")
                worst = max(worst, got.rows / want) if fit == "best" else worst
    print(f"\nbest-fit at most {worst:.5f} of the textbook's rows: {'within' if worst <= 1.01 else 'NOT within'} 1 %")
    if worst > 1.01:
        sys.exit(1)


if __name__ == "__main__":
    main()
