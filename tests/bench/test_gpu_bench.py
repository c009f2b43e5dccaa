# SPDX-License-Identifier: Apache-2.0
"""The GPU benches' scripts, tried without a GPU: shards of distinct valid JPEGs, and runs with --dry."""

import importlib.util
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench/gpu"
sys.path.insert(0, str(ROOT / "tests"))
from forked_python import TORCH, python  # noqa: E402
from made import jpeg  # noqa: E402


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu-bench")
    (folder / "photos").mkdir()
    for i in range(12):
        (folder / "photos" / f"{i}.jpg").write_bytes(jpeg(i, 90 + i, 70))
    done = run("shards.py", "--data", folder / "photos", "--out", folder / "shards", "--gib", "0.0005")
    assert json.loads(done)["samples"] > 24
    return folder / "shards"


def run(script, *args):
    build = Path(os.environ.get("STOKER_BUILD", ROOT / "build")) / "python"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(build)])}
    done = python(*TORCH).run([BENCH / script, *args], timeout=120, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_copies_are_distinct_and_decode_alike(shards):
    rows, seen = np.load(shards / "offsets.npy"), set()
    tars = sorted((shards / "seek").glob("*.tar"))
    pixels = {}
    for shard, offset, size, label in rows.tolist():
        with open(tars[shard], "rb") as f:
            f.seek(offset)
            data = f.read(size)
        seen.add(data)
        image = np.asarray(Image.open(io.BytesIO(data)))
        assert np.array_equal(pixels.setdefault(label, image), image)
    assert len(seen) == len(rows) and len(pixels) == 12
    assert [p.name for p in (shards / "plain").glob("*.tar")] == [p.name for p in tars]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None or os.environ.get("TORCH") == "0", reason="torch is not installed")
def test_dry_runs(shards, tmp_path):
    said = run("images.py", "--shards", shards, "--dry", "--rounds", 1, "--seconds", 0.05, "--batch", 4, "--size", 32,
               "--only", "GPU decode, seek|depth 3")
    assert "first batch equals the CPU path" in said and "DIFFERS" not in said and "absent" not in said
    said = run("sizes.py", "--shards", shards, "--dry", "--rounds", 1, "--seconds", 0.05, "--batch", 4)
    assert len(re.findall(r"\b(\d+) of \1 tensors of the first batch equal the CPU's", said)) == 11
    assert "576 patches, packed, f16" in said and "of 384 x 384, f16" in said
    said = run("tokens.py", "--work", tmp_path, "--mb", 1, "--dry", "--rounds", 1, "--seconds", 0.05, "--threads", 1)
    assert "of the smaller" in said


@pytest.mark.skipif(importlib.util.find_spec("torch") is None or os.environ.get("TORCH") == "0", reason="torch is not installed")
@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the ffmpeg program makes the videos")
def test_dry_runs_of_videos(tmp_path):
    said = run("video.py", "--work", tmp_path, "--dry", "--rounds", 1, "--seconds", 0.05, "--batch", 2, "--size", 32, "--copies", 6, "--workers", 1, "--only", "cpu,pynv")
    assert [line.split()[:3] for line in said.splitlines() if " stoker " in line] == [["360p", "stoker", "cpu"], ["720p", "stoker", "cpu"]]
    assert said.count("PyNvVideoCodec     absent: a dry run has no GPU") == 2
    said = run("train_video.py", "--work", tmp_path, "--dry", "--seconds", 0.05, "--copies", 6, "--workers", 1, "--decodes", "gpu", "--models", "vit")
    [row] = [line.split() for line in said.splitlines() if line.startswith("vit")]
    assert row[7] == "%" and 0 <= float(row[6]) <= 100, said     # the share of a step that waited for data
