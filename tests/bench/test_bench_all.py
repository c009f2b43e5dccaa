# SPDX-License-Identifier: Apache-2.0
"""bench/all.py finds its figures in what the benches print: the results that are kept in bench/results."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))


def table(folder):
    done = subprocess.run([sys.executable, ROOT / "bench/all.py", "--read", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_figures_are_found_in_kept_results():
    rows = table(ROOT / "bench/results").splitlines()[2:]
    assert len(rows) > 15 and not [r for r in rows if "missing" in r]


def test_the_better_one_is_bold_and_what_lacks_is_said(tmp_path):
    (tmp_path / "tokens.txt").write_text('{"case": "u16", "rows_per_s": 1,000, "bare_rows_per_s": 4000}\n{"case": "u16", "rows_per_s": 2000}\n')
    (tmp_path / "recipes.txt").write_text("stoker      291\nDataLoader + torchvision v2, tensor, 2 workers   252  7654\n")
    rows = {r.split("|")[1].strip(): r for r in table(tmp_path).splitlines()[2:]}
    assert "| 2,000 rows/s | a bare copying loop: **4,000** | 0.50x |" in rows["token windows of 2,048"]
    assert "missing pictures/s | DataLoader: 252 |  |" in rows["torchvision's training recipe"]
    assert "| 291 us CPU | AlbumentationsX: missing |" in rows["DINO's chain after the decode"]


def test_targets_are_there():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    text = (ROOT / "bench/all.py").read_text()
    assert set(re.findall(r'"(bench-[\w-]+)', text)) - {"bench-all"} <= targets
