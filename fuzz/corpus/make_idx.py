#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_idx into idx/ beside this script."""

import pathlib
import struct

OUT = pathlib.Path(__file__).parent / "idx"
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}


def index(lengths, marks, code=8, version=1):
    at = [sum(lengths[:i]) * SIZES.get(code, 1) for i in range(len(lengths))]
    return (b"MMIDIDX\0\0" + struct.pack("<QBQQ", version, code, len(lengths), len(marks))
            + struct.pack(f"<{len(lengths)}i", *lengths) + struct.pack(f"<{len(at)}q", *at)
            + struct.pack(f"<{len(marks)}q", *marks))


def main():
    OUT.mkdir(exist_ok=True)
    good = index([3, 0, 5, 7], [0, 1, 3, 4])
    seeds = {f"type{c}": index([4, 2], [0, 1, 2], c) for c in range(10)}
    seeds |= {"good": good, "modes": good + bytes(4), "empty": b"", "head": good[:34], "magic": good[:9], "cut": good[:50],
              "none": index([], [0]), "no_marks": index([1], []), "version": index([1], [0, 1], version=2),
              "back": good[:34 + 16 + 16] + struct.pack("<q", 1) + good[34 + 16 + 24:],
              "marks": index([3, 4], [0, 2, 1]), "late": index([3, 4], [1, 2]), "short": index([3, 4], [0, 1]),
              "many": good[:18] + struct.pack("<Q", 2**62) + good[26:], "negative": index([-3, 4], [0, 2])}
    for name, data in seeds.items():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
