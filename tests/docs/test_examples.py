# SPDX-License-Identifier: Apache-2.0
"""Every example runs as it stands; those with frameworks where these are installed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve()


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Two classes of 20 small pictures, each with a caption."""
    root = tmp_path_factory.mktemp("examples") / "photos"
    rng = np.random.default_rng(1)
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True)
        for i in range(20):
            Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).resize((64, 48)).save(root / name / f"{i:02d}.jpg")
            (root / name / f"{i:02d}.txt").write_text(f"a {name} number {i % 7}")
    return root


def run(cwd, *command, code=0):
    env = os.environ | {"PYTHONPATH": str(BUILD / "python"), "STOKER_CACHE": str(cwd / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done.stdout


def example(cwd, name, *args):
    return run(cwd, ROOT / "examples" / name, *args)


def wants(*names):
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


def test_mixup(photos, tmp_path):
    assert "labels add up to 1.000" in example(tmp_path, "mixup.py", photos)


def test_simclr(photos, tmp_path):
    assert "(16, 2, 3, 32, 32): loss" in example(tmp_path, "simclr_views.py", photos)


def test_numba_op(photos, tmp_path):
    wants("numba")
    assert "(16, 3, 64, 64) mean 0." in example(tmp_path, "numba_op.py", photos)


def test_clip_pairs(photos, tmp_path):
    wants("tokenizers")
    assert "3 batches, 13 words; the last: (8, 3, 64, 64), (8, 4)" in example(tmp_path, "clip_pairs.py", photos)


def test_ddp_goes_on_after_a_kill_with_another_number_of_ranks(photos, tmp_path):
    """40 samples in global batches of 16: 3 steps an epoch.  Two ranks die after step 4, one goes on."""
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    script = [ROOT / "examples/ddp_resume.py", photos, tmp_path / "checkpoint.pt", 2]
    run(tmp_path, *torchrun, 2, *script, 4, code=1)
    out = run(tmp_path, *torchrun, 1, *script)
    assert "epoch 1, step 1 of 3" in out and "rank 0: epoch 2, 2 steps" in out
    for listed in ("--twice", "--never"):           # over both lives: every sample once an epoch
        counted = subprocess.run([BUILD / "cli/stoker", "ledger", tmp_path / "checkpoint.pt.ledger", listed], capture_output=True, text=True,
                                 timeout=60)
        assert counted.returncode == 0, counted.stdout + counted.stderr


def test_accelerate(photos, tmp_path):
    wants("accelerate")
    assert "epoch 1, step 0 of 3" in example(tmp_path, "accelerate_train.py", photos, tmp_path / "checkpoint")


def test_lightning(photos, tmp_path):
    wants("lightning")
    assert "6 steps" in example(tmp_path, "lightning_train.py", photos)


def test_hf_trainer(photos, tmp_path):
    wants("transformers", "accelerate")
    assert "6 steps" in example(tmp_path, "hf_trainer.py", photos, tmp_path / "output")
