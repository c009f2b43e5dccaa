#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_json into json/ beside this script: a path, a newline, a JSON text."""

import pathlib

OUT = pathlib.Path(__file__).parent / "json"

SEEDS = {
    "whole": ("", ' {"a": [1, 2.5e-3, true, null], "b": {"c": "x"}} '),
    "nested": ("a.b.2.c", '{"a": {"b": [0, 1, {"c": "caption \\u00e9"}]}}'),
    "array": ("1.0", "[[1], [2, 3]]"),
    "twice": ("a", '{"a": 1, "a": "last"}'),
    "escaped_key": ("key", '{"k\\u0065y": -0}'),
    "surrogates": ("a", '{"a": "\\ud83d\\ude00 \\ud83d"}'),
    "escapes": ("", '"\\"\\\\\\/\\b\\f\\n\\r\\t"'),
    "utf8": ("", '"caf\u00e9 \U0001f600"'),
    "missing": ("a.b", '{"a": 1}'),
    "deep": (".".join("0" * 60), "[" * 64 + "]" * 64),
    "too_deep": ("", "[" * 65 + "]" * 65),
    "open": ("", '{"a": [1, {"b": "'),
    "comma": ("", "[1,]"),
    "word": ("", "nul"),
    "number": ("", "-1.e5"),
    "trailing": ("", "{} x"),
}


def main():
    OUT.mkdir(exist_ok=True)
    for name, (path, text) in SEEDS.items():
        (OUT / name).write_bytes(path.encode() + b"\n" + text.encode())


if __name__ == "__main__":
    main()
