#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_unlz4 into unlz4/ beside this script (needs the program lz4)."""

import pathlib
import random
import subprocess

OUT = pathlib.Path(__file__).parent / "unlz4"


def lz4(data, *options):
    return subprocess.run(["lz4", "-q", "-c", *options], input=data, capture_output=True, check=True).stdout


def main():
    OUT.mkdir(exist_ok=True)
    noise = random.Random(1).randbytes(300)
    seeds = {"empty": lz4(b""), "text": lz4(b"to and fro " * 50), "noise": lz4(noise),
             "linked": lz4(noise * 300, "-BD", "-B4", "-BX"), "sized": lz4(b"a" * 999, "--content-size"),
             "bare": lz4(b"a" * 999, "--no-frame-crc"),
             "frames": lz4(b"one " * 9) + b"\x50\x2A\x4D\x18\x02\0\0\0ab" + lz4(b"two")}
    seeds |= {"torn": seeds["text"][:-9], "longer": seeds["text"][:15] + b"\xff" * 40 + seeds["text"][15:]}
    for name, data in seeds.items():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
