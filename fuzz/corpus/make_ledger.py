#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the seeds of fuzz_ledger: a byte that says how many files, then files of equal length.  The
target fills in the checksums where that byte's highest bit is set."""

import struct
from pathlib import Path

HEAD = struct.Struct("<8s6I7Q6QII")
STEP = struct.Struct("<II4Q")


def head(rank=0, world=1, generation=0, epoch=0, position=0, started=1, max_rows=4, id_bytes=4,
         samples=10):
    return HEAD.pack(b"STKLEDG\n", 1, HEAD.size, rank, world, max_rows, id_bytes, generation,
                     4 * world, 7, started, epoch, position, samples, samples, 1, 100, 0, 0, 0, 0, 0)


def step(number, ids, epoch=0, valid=15, start=None, id_bytes=4):
    body = b"".join(i.to_bytes(id_bytes, "little") for i in ids) + bytes([valid])
    start = 4 * number if start is None else start
    return STEP.pack(len(ids), 0, epoch, number, start, 4) + body + bytes(-len(body) % 8)


def files(*parts):
    longest = max(map(len, parts))
    return bytes([128 | (len(parts) - 1)]) + b"".join(p + bytes(longest - len(p)) for p in parts)


ONE = head() + step(0, [1, 2, 3, 4]) + step(1, [5, 6, 7, 8]) + step(2, [9, 0], epoch=1)
SEEDS = {
    "empty": b"",
    "one": files(ONE),
    "no_sums": b"\0" + ONE,
    "torn": files(ONE[:-11]),
    "wide": files(head(id_bytes=8) + step(0, [1, 2], id_bytes=8)),
    "beyond": files(head() + step(0, [1, 10])),
    "no_rows": files(head() + step(0, [])),
    "many_rows": files(head(max_rows=2) + step(0, [1, 2, 3]) + step(1, [4])),
    "resumed": files(ONE, head(generation=1, position=4, started=9) + step(1, [5, 6, 7, 8])),
    "given_up": files(head(generation=2, position=8, started=3) + step(2, [1]),
                      head(generation=1, position=4, started=9) + step(1, [2]), ONE),
    "ranks": files(*(head(rank=r, world=4) + step(0, [r]) for r in range(4))),
    "same_rank": files(ONE, ONE),
    "version": files(ONE[:8] + b"\2" + ONE[9:]),
    "id_bytes": files(head(id_bytes=3) + step(0, [1])),
}

if __name__ == "__main__":
    folder = Path(__file__).parent / "ledger"
    folder.mkdir(exist_ok=True)
    for name, data in SEEDS.items():
        (folder / name).write_bytes(data)
