#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds of fuzz_numbers: lists as people write them, and what is almost one."""

import pathlib

SEEDS = {
    "json": b"[1, -2, 3e5, 0.25]", "plain": b"464 2068\t7586\n", "commas": b"1,2 ,3\n", "empty": b"[ ]",
    "open": b"[1, 2", "closed": b"1]", "lone": b"[", "gap": b"1,,2", "tail": b"[1,]", "nested": b"[[1], [2]]",
    "huge": b"9223372036854775808", "words": b"[1, true, null]", "long": b"1" * 600, "null": b"1\0 2", "none": b"",
    "boxes": b"[[1, 2], [3, 4]]", "boxes_uneven": b"[[1, 2], [3, 4, 5]]", "boxes_open": b"[[1, 2], [3",
}

folder = pathlib.Path(__file__).with_name("numbers")
folder.mkdir(exist_ok=True)
for name, data in SEEDS.items():
    (folder / name).write_bytes(data)
