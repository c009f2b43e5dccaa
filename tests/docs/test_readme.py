# SPDX-License-Identifier: Apache-2.0
"""README: its code runs, its commands exist, its packages are those that the build looks for, its table is that of bench/all.py."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve()
CLI = Path(os.environ.get("STOKER_CLI", BUILD / "cli/stoker")).resolve()
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]
from forked_python import TORCH, python  # noqa: E402
from made import jpeg, write_tar  # noqa: E402

import all as bench  # noqa: E402

README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)


def replaced(text, *changes):
    for old, new in changes:
        assert text.count(old) == 1, f"README has no '{old}' any more"
        text = text.replace(old, new)
    return text


def run(code, folder):
    pytest.importorskip("torch")
    env = {**os.environ, "STOKER_CACHE": str(folder / "cache"), "PYTHONPATH": str(BUILD / "python")}
    done = python(*TORCH).run(["-c", code], cwd=folder, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_ten_lines(tmp_path):
    """As they stand, but for the GPU and the number of epochs."""
    (tmp_path / "data").mkdir()
    for shard in range(100):
        write_tar(tmp_path / f"data/train-{shard:06d}.tar", [(f"{shard:03d}{i}.{field}", raw) for i in range(6) for field, raw in (("jpg", jpeg(i)), ("cls", b"%d" % i))])
    code, = blocks("python")
    assert len(code.splitlines()) <= 12
    code = replaced(code, ('device="cuda"', 'device="cpu"'), ("range(90)", "range(2)"))
    before = "import torch\nseen = []\ndef train(image, label):\n    seen.append((tuple(image.shape), str(label.dtype)))\n"
    said = run(f"{before}{code}\nprint(seen, len(loader), list(torch.load('checkpoint.pt')))", tmp_path)
    assert said == f"{[((256, 3, 224, 224), 'torch.int64'), ((256, 3, 224, 224), 'torch.int64'), ((88, 3, 224, 224), 'torch.int64')] * 2} 3 ['data']\n"


def test_chains_in_the_text(tmp_path):
    import stoker
    chains = re.findall(r'`"(from\(.*?)"`', README)
    assert len(chains) == 2
    write_tar(tmp_path / "a.tar", [("0.mp4", b"abc"), ("0.flac", b"abc")])
    for chain in chains:
        stoker.Loader(str(tmp_path / "a.tar"), {"x": chain}, collate="list").close()


def test_the_import(tmp_path):
    line, = re.findall(r"^`(from stoker import \w+)`", README, re.M)
    run(f"{line}\nimport torch\nassert issubclass(DataLoader, torch.utils.data.DataLoader)", tmp_path)


def test_doctor(tmp_path):
    """The first thing to try, on a script that knows nothing of Stoker."""
    pytest.importorskip("torch")
    line, = re.findall(r"^(stoker doctor -- python train\.py)\b", README, re.M)
    (tmp_path / "train.py").write_text("import time, torch\nfrom torch.utils.data import DataLoader\n"
                                       "for batch in DataLoader(torch.arange(800), batch_size=8):\n    time.sleep(.002)\n")
    done = subprocess.run(line.replace("stoker", str(CLI)).replace("python", sys.executable).split(), cwd=tmp_path, capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0 and "100 batches" in done.stdout + done.stderr, done.stdout + done.stderr


def test_commands_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for block in blocks("sh"):
        assert set(re.findall(r"\bmake ([\w-]+)", block)) <= targets
    listed = re.search(r"`stoker ((?:\w+ ){5,}\w+)`", README)[1].split()
    said = subprocess.run([CLI, "--help"], capture_output=True, text=True).stdout
    assert set(listed) <= set(re.findall(r"^  (\w+) +\w", said, re.M))


def test_packages_are_those_that_set_up_installs():
    """And those that the ten lines want are among them: without libjpeg a build is whole, and reads fewer pictures."""
    line, = re.findall(r"^apt-get install (.*)$", README, re.M)
    packages = set(line.split())
    known = (ROOT / "tools/setup.sh").read_text()
    assert all(p == "libjpeg-dev" or re.search(rf"\b{p}\b", known) for p in packages)
    assert {"gcc", "pkg-config", "python3-dev", "libjpeg-dev"} <= packages
    assert "nvcc" in blocks("sh")[0]


# ---- its figures ------------------------------------------------------------------------------------

def test_the_table_is_that_of_the_claims():
    """Every row is a claim of bench/all.py, with the figures of a result that is kept: bench/all.py --readme."""
    rows = re.search(r"^\| the same work .*?\n\n", README, re.M | re.S)[0].strip()
    assert rows == bench.readme_table().strip()
    assert "missing" not in rows and rows.count("\n") > 8


def test_the_table_of_all_claims_is_current():
    text, missing = bench.table({})
    assert missing == []
    assert (bench.RESULTS / "all-kept.md").read_text().endswith(text), "run bench/all.py --kept"


def test_results_that_are_kept_are_there_with_date_and_commit():
    for name, b in bench.BENCHES.items():
        assert not b.kept or (re.fullmatch(r"\d{4}-\d\d-\d\d", b.date) and re.fullmatch(r"[0-9a-f]{7,}", b.commit) and (bench.RESULTS / b.kept).exists()), name


CLAIM = bench.Claim("t", "recipes", r"^ours <N>", {"theirs": r"^theirs <N>"}, "/s")


def test_figures_of_a_row_are_of_one_run():
    """The best of different runs are never set beside each other; the median run counts, and none of older code."""
    text = "ours 10\ntheirs 9\n\nours 8\ntheirs 2\n\nours 30\ntheirs 20\n\n# before the change\nours 99\ntheirs 1\n"
    assert bench.figures(CLAIM, text) == [30, 20]
    assert bench.figures(CLAIM, "ours 10\n\ntheirs 4\n") == [10, None]
    assert bench.figures(CLAIM._replace(more=False), "ours 3\nours 2\ntheirs 5\ntheirs 4") == [2, 4]


def test_what_fails_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(bench, "RESULTS", tmp_path)
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    monkeypatch.setattr(bench, "BENCHES", {"good": bench.Bench("good"), "bad": bench.Bench("bad")})
    monkeypatch.setattr(bench, "CLAIMS", [CLAIM._replace(bench=b) for b in ("good", "bad")])
    (tmp_path / "Makefile").write_text("good:\n\t@printf 'ours $(ONLY)4\\ntheirs 8\\n'\nbad:\n\t@echo ours 1; exit 3\n")
    monkeypatch.setenv("MAKEFLAGS", " -- ONLY=good")      # of `make bench-all ONLY=good`: a bench has an ONLY of its own
    for name, status in (("good", 0), ("bad", 1), ("good,bad", 1)):
        monkeypatch.setattr(sys, "argv", ["all.py", "--only", name, "--name", "x"])
        assert bench.main() == status
    assert "bad failed" in capsys.readouterr().err
    assert "| t | 4 /s | theirs: **8** | 0.50x | this run" in (tmp_path / "all-x.md").read_text()
