# SPDX-License-Identifier: Apache-2.0
"""stoker bench --against torch: a fair other side, one sentence, and clear words where it can't be had."""

import json
import os
import sys

import numpy as np
import pytest
from conftest import ROOT
from test_cli import fails

PICTURE = ("--field", "image=from(jpg) | image | random_resized_crop(32) | hflip | normalize(imagenet) | to(f32)",
           "--field", "label=from(cls) | int", "--seconds", "0.1", "--batch-size", "4")


def torch_here():
    tree = os.environ.get("PYTHONPATH", str(ROOT / "build/python"))
    return {"STOKER_PYTHON": sys.executable, "PYTHONPATH": tree}


def test_ratio_and_sentence(stoker, photos, tmp_path):
    pytest.importorskip("torch")
    done = stoker("bench", "photos", "--against", "torch", *PICTURE, "--workers", "1", "--json", "--html", "a.html", **torch_here())
    assert done.code == 0, done.err
    got = json.loads(done.raw)
    assert len(got["rounds"]) == 5 and got["torch_workers"] == 1 and got["batch_size"] == 4
    for side in ("stoker", "torch"):
        assert got[f"{side}_samples_per_s"] == max(r[f"{side}_samples_per_s"] for r in got["rounds"]) > 0
    assert got["ratio"] == pytest.approx(got["stoker_samples_per_s"] / got["torch_samples_per_s"], rel=1e-4)
    larger = max(got["ratio"], 1 / got["ratio"])
    assert f"{larger:.2f}x as fast" in got["sentence"] and got["against"].startswith("torch ")
    assert got["sentence"] in (tmp_path / "a.html").read_text().replace("&#39;", "'")


@pytest.mark.parametrize("chain, what", [
    ("from(jpg) | image | center_crop(16) | to(f32, layout=channels_last)", "to(f32, layout=channels_last)"),
    ("from(jpg) | image | resize(16, antialias=false)", "resize() with these arguments"),
    ("from(jpg) | image(mode=gray)", "the chain"), ("from(cls) | int | one_hot(10)", "the chain"),
    ("tokens(block=16)", "the chain"), ("from(jpg) | image | normalize(0.5, 0.2)", "normalize() by other numbers"),
    ("from(jpg) | image | crop(", "the step"),
])
def test_what_has_no_equal(chain, what):
    pytest.importorskip("torch")
    against = pytest.importorskip("stoker._against")
    with pytest.raises(against.Unsaid) as e:
        against.translate("image", chain)
    assert str(e.value).startswith(what)


def test_wrong_usage_and_missing_parts(stoker, photos, tmp_path):
    fails(stoker("bench", "photos", "--against", "dali"), 2, "--against torch is what there is, not 'dali'")
    fails(stoker("bench", "photos", "--against", "torch", "--sweep"), 2,
          "--against goes with --seconds (of a round), not with --epochs or --sweep")
    fails(stoker("bench", "photos", "--against", "torch", "--seconds", "0.1", STOKER_PYTHON="/no/python"), 3,
          "--against torch needs a Python with stoker, torch and Pillow (/no/python could not be run: "
          "No such file or directory); STOKER_PYTHON names another one")
    (tmp_path / "torch.py").write_text("raise ImportError('not here')\n")
    tree = torch_here()["PYTHONPATH"]
    done = stoker("bench", "photos", "--against", "torch", "--seconds", "0.1",
                  STOKER_PYTHON=sys.executable, PYTHONPATH=f"{tmp_path}:{tree}")
    assert done.code == 3 and done.err.count("\n") == 1
    assert "needs a Python with stoker, torch and Pillow" in done.err and "not here" in done.err


@pytest.mark.parametrize("answer, code, line", [
    ("echo ok torch 0, Pillow 0; read go", 3, "the other side ended in the middle of a round"),
    ("echo failed ValueError: why", 3, "the other side failed: ValueError: why"), ("", 3, "the other side failed: it ended without a word"),
    ("echo 'unsaid rotate()'", 2, None),
])
def test_what_the_other_side_says_is_told(stoker, photos, tmp_path, answer, code, line):
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\nread job; {answer}\nexit 1\n")
    script.chmod(0o755)
    done = stoker("bench", "photos", "--against", "torch", *PICTURE, STOKER_PYTHON=script)
    fails(done, code, f"--against torch: {line}" if line else "--against torch can't say this in PyTorch and Pillow: rotate(); "
          "give --field with image, resize, center_crop, random_resized_crop, hflip, normalize and to")


def test_the_same_pixels(photos):
    """Without resampling and chance both sides make the same picture, but for rounding in JPEG decoders."""
    pytest.importorskip("torch")
    stoker = pytest.importorskip("stoker")
    from stoker import _against
    chain = "from(jpg) | image | center_crop((40, 32)) | normalize(imagenet) | to(f32)"
    ds, made = stoker.open(str(photos)), _against.translate("image", chain)
    want = stoker.open(str(photos), fields={"image": chain})
    for i in range(3):
        ours, theirs = np.asarray(want[i]["image"]), made(ds[i]).numpy()
        assert ours.shape == theirs.shape == (3, 40, 32) and ours.dtype == theirs.dtype
        assert np.abs(ours - theirs).max() < 0.05 and ours.std() > 0.5
