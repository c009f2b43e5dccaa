# SPDX-License-Identifier: Apache-2.0
"""examples/nanogpt_dir.py loads a directory as nanoGPT's prepare.py leaves it."""

import os
import pathlib
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve()
sys.path.insert(0, str(ROOT / "tests"))
from forked_python import TORCH, python  # noqa: E402


def test_a_directory_as_it_is(tmp_path):
    rng = np.random.default_rng(0)
    for split, n in (("train", 50_000), ("val", 3_000)):
        rng.integers(0, 65, n).astype(np.uint16).tofile(tmp_path / f"{split}.bin")
    run = python(*TORCH).run([ROOT / "examples" / "nanogpt_dir.py", tmp_path], env=os.environ | {"PYTHONPATH": str(BUILD / "python")})
    assert run.returncode == 0, run.stderr
    assert "train: 50,000 tokens, batches of (64, 256) torch.int64" in run.stdout
    assert "val: 3,000 tokens, batches of (11, 256)" in run.stdout
