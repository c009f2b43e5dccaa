# SPDX-License-Identifier: Apache-2.0
"""bench/all.py finds its figures in what the benches print: the results that are kept in bench/results."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import all as bench_all  # noqa: E402


def rows_of(text):
    return {line.split("|")[1].strip(): line for line in text.splitlines()[2:]}


def test_figures_are_found_in_kept_results():
    text, missing = bench_all.table({})
    assert not missing and len(rows_of(text)) == len(bench_all.CLAIMS) > 15
    assert (ROOT / "bench/results/all-kept.md").read_text().endswith(text), "bench/all.py --kept"


def test_the_better_one_is_bold_and_what_lacks_is_said():
    text, missing = bench_all.table({
        "tokens": '{"case": "u16", "rows_per_s": 1,000, "bare_rows_per_s": 4000}\n{"case": "u16", "rows_per_s": 2000, "bare_rows_per_s": 4000}\n'
                  '{"case": "u16", "rows_per_s": 9000}\n',
        "recipes": "DataLoader + torchvision v2, tensor, 2 workers   252  7654\n"})
    rows = rows_of(text)
    assert "| 1,000 rows/s | a bare copying loop: **4,000** | 0.25x | this run |" in rows["token windows of 2,048"]      # of one run, the lower one of two
    assert "torchvision's training recipe, two cores" in missing and "missing pictures/s" in rows["torchvision's training recipe, two cores"]
    assert bench_all.complain([], missing) == 1 and bench_all.complain(["tokens"], []) == 1 and bench_all.complain([], []) == 0


def test_targets_are_there():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert {bench.make.split()[0] for bench in bench_all.BENCHES.values()} <= targets
    assert {claim.bench for claim in bench_all.CLAIMS} == bench_all.BENCHES.keys()
