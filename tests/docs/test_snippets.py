# SPDX-License-Identifier: Apache-2.0
"""Runs the code blocks of docs/ that stand below a line `<!-- run -->`, a page at a time, in order.

A page's blocks share a fresh folder with photos/ (two classes of small pictures) and a path on which
`stoker` is the built one.  A python block stands on its own, in a process of its own.  `<!-- run: torch -->` wants torch,
`<!-- run: torchvision -->` that too, where tests have it (.venv/oracles).  More lines in that comment are code that a reader does not
see: what makes the data, and after a line `then` what looks at the result.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from forked_python import TORCH, python  # noqa: E402

BUILD = Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve()
CLI = Path(os.environ.get("STOKER_CLI", BUILD / "cli/stoker")).resolve()
BLOCK = re.compile(r"^<!-- run(?:: (torch|torchvision))?(?:\n((?:(?!-->).)*?)\n| )-->\n```(python|sh)\n(.*?)^```$", re.M | re.S)
ORACLES = Path(sys.prefix, "oracles/torchvision")
# torchvision's compiled ops need a CUDA build of torch; its transforms do not.
SOFTENED = f"import sys, torch\nsys.path += {[str(ORACLES.parent), str(ROOT / 'tests/recipes')]}\nfrom tv_oracle import soften\nsoften(torch)\n"
PAGES = sorted(p for p in (ROOT / "docs").rglob("*.md") if BLOCK.search(p.read_text()))


def has_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def make_photos(folder):
    rng = np.random.default_rng(1)
    for name in ("cat", "dog"):
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(60):
            pixels = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).resize((96, 72))
            pixels.save(folder / "photos" / name / f"{i:03d}.jpg", quality=90)


def run_python(code, folder, env):
    done = python(*(TORCH if has_torch() else [])).run(["-c", code], cwd=folder, env=env)
    return str(done.returncode), done.stdout + done.stderr


def run_shell(code, folder, env):
    done = subprocess.run(["bash", "-euc", code], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    return str(done.returncode), done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_page(page, tmp_path):
    make_photos(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/stoker").symlink_to(CLI)
    env = {**os.environ, "STOKER_CACHE": str(tmp_path / "cache"),
           "PATH": os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]]),
           "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(BUILD / "python")])}
    ran = 0
    for wants, beside, language, code in BLOCK.findall(page.read_text()):
        if wants and not has_torch() or wants == "torchvision" and not ORACLES.exists():
            continue
        before, _, after = beside.partition("then\n")
        code = "\n".join([SOFTENED if wants == "torchvision" else "", before, code, after])
        status, said = run_python(code, tmp_path, env) if language == "python" else run_shell(code, tmp_path, env)
        assert status == "0", f"{page.name}:\n{code}\n{said}"
        ran += 1
    assert ran


def test_the_pages_are_there():
    assert "quickstart" in [p.stem for p in PAGES]


def test_each_of_the_ten_questions_has_code_that_runs():
    parts = re.split(r"^## \d+\. ", (ROOT / "docs/questions.md").read_text(), flags=re.M)[1:]
    assert len(parts) == 10 and all(BLOCK.search(part) for part in parts)
