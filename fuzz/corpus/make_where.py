#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_where into where/ beside this script."""

import pathlib

OUT = pathlib.Path(__file__).parent / "where"
SEEDS = {
    "and": "abc >= 300 AND ab IN (1, 2)", "like": "ab LIKE '%tr_in%' OR NOT abc", "null": "a IS NOT NULL and b = NULL", "quote": "\"a b\" = 'it''s'",
    "between": "a NOT BETWEEN -1e3 AND 2.5", "nested": "((((a = 1)))) OR (b <> 2)", "truth": "TRUE AND NOT FALSE", "bad": "a = 'x", "number": "abc = '3'",
}
OUT.mkdir(exist_ok=True)
for name, text in SEEDS.items():
    (OUT / name).write_text(text)
