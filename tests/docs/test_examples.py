# SPDX-License-Identifier: Apache-2.0
"""Every example runs as it stands; those with frameworks where these are installed."""

import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from forked_python import TORCH, python  # noqa: E402

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
    done = python(*TORCH).run(command, cwd=cwd, env=env)
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done.stdout


def example(cwd, name, *args):
    return run(cwd, ROOT / "examples" / name, *args)


def add(tar, name, what, form=None):
    data = what
    if form:
        out = io.BytesIO()
        what.save(out, form)
        data = out.getvalue()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def wants(*names):
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


def test_mixup(photos, tmp_path):
    assert "labels add up to 1.000" in example(tmp_path, "mixup.py", photos)


def losses(out):
    return [float(line.split("loss ")[1].split(",")[0]) for line in out.splitlines() if "loss " in line]


def test_naflex(photos, tmp_path):
    parts = Path(os.environ.get("STOKER_TRANSFORMS", Path(sys.prefix) / "transforms"))
    if importlib.util.find_spec("timm") is None and not (parts / "timm" / "models" / "naflexvit.py").exists():
        pytest.skip("timm is not installed: make setup")
    out = run(tmp_path, ROOT / "tests/docs/with_timm.py", parts, ROOT / "examples/naflex_train.py", photos)
    assert len(losses(out)) == 4 and "patches [12, 20]" in out


def test_qwen_vl(tmp_path):
    wants("transformers")
    rng = np.random.default_rng(4)
    with tarfile.open(tmp_path / "chats.tar", "w") as tar:
        for i in range(12):
            for k in range(i % 3):
                add(tar, f"{i:02d}.{k}.jpg", Image.fromarray(rng.integers(0, 256, (40 + 10 * k, 60, 3), np.uint8)), "JPEG")
            add(tar, f"{i:02d}.ids.json", json.dumps([10, 9, 11] * (i % 3) + [20 + (i + j) % 7 for j in range(6)]).encode())
    found = losses(example(tmp_path, "qwen_vl_train.py", tmp_path / "chats.tar"))
    assert len(found) == 3 and found[-1] < found[0]


def test_simclr(photos, tmp_path):
    assert "(16, 2, 3, 32, 32): loss" in example(tmp_path, "simclr_views.py", photos)


def test_segmentation(tmp_path):
    rng = np.random.default_rng(2)
    (tmp_path / "data").mkdir()
    for i in range(20):                         # a folder: 1.jpg beside 1.png; shards are read the same
        mask = np.kron(rng.integers(0, 3, (4, 5), np.uint8), np.ones((20, 20), np.uint8))
        Image.fromarray(np.stack([mask * 80] * 3, 2)).save(tmp_path / f"data/{i}.jpg")
        Image.fromarray(mask).save(tmp_path / f"data/{i}.png")
    out = example(tmp_path, "segmentation.py", tmp_path / "data")
    losses = [float(line.split()[3].rstrip(",")) for line in out.splitlines()]
    assert len(losses) == 3 and losses[-1] < losses[0] and "classes [0, 1, 2]" in out


def test_detection(tmp_path):
    rng = np.random.default_rng(3)
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i in range(12):
            add(tar, f"{i}.jpg", Image.fromarray(rng.integers(0, 256, (90, 120, 3), np.uint8)), "JPEG")
            corners = rng.integers(0, 60, (i % 4, 2))
            boxes = np.concatenate([corners, corners + 25], 1).tolist()
            add(tar, f"{i}.json", json.dumps({"boxes": boxes, "labels": list(range(len(boxes)))}).encode())
    out = example(tmp_path, "detection.py", tmp_path / "a.tar")
    assert "3 batches of (3, 96, 96)" in out and 0 < int(out.split()[-5]) <= 18


def test_audio_clips(tmp_path):
    for name in ("high", "low"):
        (tmp_path / "clips" / name).mkdir(parents=True)
        for i in range(10):
            with wave.open(str(tmp_path / "clips" / name / f"{i}.wav"), "wb") as clip:
                clip.setparams((1, 2, 8000, 0, "NONE", ""))
                tone = np.sin(np.arange(4000 * (1 + i % 4)) * (0.5 if name == "high" else 0.1))
                clip.writeframes((tone * 10000).astype("<i2").tobytes())
    out = example(tmp_path, "audio_clips.py", tmp_path / "clips")
    assert "3 batches of (8, 8000), ['high', 'low']; resumed after the first: the same" in out


def test_ctc_speech(tmp_path):
    if not shutil.which("espeak-ng"):
        pytest.skip("espeak-ng is not installed")
    out = example(tmp_path, "ctc_speech.py", tmp_path / "digits.tar", 6).splitlines()
    losses = [float(line.split()[-1]) for line in out[:-1]]
    assert len(losses) == 6 and losses[-1] < 0.6 * losses[0] and " is heard as '" in out[-1]


def test_jax(photos, tmp_path):
    wants("jax")
    assert "3 steps, loss 0." in example(tmp_path, "jax_train.py", photos)


def test_the_notebook_says_what_it_says(photos, tmp_path):
    """Its cells, run in order, print what is stored below them."""
    cells = json.loads((ROOT / "examples/first_look.ipynb").read_text())["cells"]
    code, expected = [], ""
    for cell in cells:
        if cell["cell_type"] == "code":
            code.append("".join(cell["source"]))
            expected += "".join("".join(o["text"]) for o in cell["outputs"] if o["output_type"] == "stream")
    (tmp_path / "photos").symlink_to(photos)
    (tmp_path / "cells.py").write_text("\n".join(code))
    assert run(tmp_path, tmp_path / "cells.py") == expected and expected.count("\n") > 5


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
