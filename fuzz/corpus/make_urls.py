#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make corpus/urls: brace patterns, sound and broken."""
import pathlib

HERE = pathlib.Path(__file__).parent / "urls"

SEEDS = {
    "train": "train-{000000..000012}.tar", "nested": "x{a,b{1..3..2},{c}}y", "chars": "{Z..a..2}{e..a}", "unbalanced": "{a,{b}",
    "reversed": "}{{a,b}", "escapes": "{a\\,b,\\\\\\{}\\", "huge": "{0..999999999999}" * 4, "digits": "{1..99999999999999999999}",
    "deep": "{" * 80 + "}" * 80, "minus": "{-010..5..3}", "step": "{1..9..99999999999999999999}", "empty": "",
    "limits": "{-99999999999999999..99999999999999999}",
}


def main():
    HERE.mkdir(exist_ok=True)
    for name, text in SEEDS.items():
        (HERE / name).write_bytes(text.encode())


if __name__ == "__main__":
    main()
