# SPDX-License-Identifier: Apache-2.0
"""bench/jpeg_quality.py runs, counts right and holds its bar on made pictures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve()


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for i in range(4):
        coarse = np.random.default_rng(i).integers(40, 216, (7, 9, 3), np.uint8)
        Image.fromarray(coarse).resize((300 + 60 * i, 280), Image.Resampling.BICUBIC).save(folder / f"{i}.jpg", quality=90)
    return folder


def run(script, *args):
    env = {**os.environ, "PYTHONPATH": f"{ROOT}/tools/notorch:{BUILD}/python"}
    return subprocess.run([sys.executable, ROOT / "bench" / script, *map(str, args)], env=env, capture_output=True, text=True,
                          timeout=120)


def test_quality(photos, tmp_path):
    done = run("jpeg_quality.py", photos, "--crops", 2, "--json", tmp_path / "q.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(": held") == 2
    told = json.loads((tmp_path / "q.json").read_text())
    crops = told["random_resized_crop(224)"]
    assert len(crops["photos"]) == 4 and crops["photos"][0]["values"] == 2 * 224 * 224 * 3
    assert crops["summary"]["max"] <= 1
