#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_tfrecord into tfrecord/ beside this script."""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "python" / "tests"))
from test_tfrecord import example, record  # noqa: E402

OUT = HERE / "tfrecord"
OUT.mkdir(exist_ok=True)
SEEDS = {
    "ints": example({"a": [1, -5, 300]}), "floats": example({"f": [0.5, 2.0]}), "bytes": example({"b": b"xyz", "c": [b"1", b"", b"3"]}),
    "unpacked": example({"a": [1, 2], "f": [1.5]}, packed=False), "plain": b"no example", "empty": b"",
    "shard": record(example({"a": [1]})) + record(b"x"), "odd": b"\x0a\x08\x0a\x06\x0a\x01x\x12\x01\x1a",
}
for name, data in SEEDS.items():
    (OUT / name).write_bytes(data)
