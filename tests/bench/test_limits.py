# SPDX-License-Identifier: Apache-2.0
"""The programs that bench/run.py measures with: they read what they should and count right."""

import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve()


def run(name, *args, code=0):
    path = BUILD / "bench" / name
    if not path.exists():
        pytest.skip(f"{path} is not built")
    done = subprocess.run([path, *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if done.stdout else None


@pytest.fixture
def shards(tmp_path):
    run("make_tar", tmp_path / "t", 2, 101, "txt:64", "cls:3", "bin:1024")
    return f"{tmp_path}/t-{{000000..000001}}.tar"


def test_make_tar(tmp_path, shards):
    names = []
    for path in sorted(tmp_path.glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                data = tar.extractfile(member).read()
                names.append(member.name)
                assert int(data) < 1000 if member.name.endswith(".cls") else len(data) in (64, 1024)
    assert names == [f"{i:09d}.{f}" for i in range(101) for f in ("txt", "cls", "bin")]


@pytest.mark.parametrize("threads", [1, 3])
def test_memcpy_and_engine_copy_the_same_samples(shards, threads):
    limit = run("limit_memcpy", shards, threads, 2, 16, "bin")
    assert (limit["name"], limit["samples"]) == ("limit_memcpy", 202)
    for mode in ("mem", "tar"):
        engine = run("engine_bytes", mode, shards, threads, 2, 16, "bin")
        assert (engine["name"], engine["samples"]) == (f"engine_{mode}", 202)
        assert engine["samples_per_s"] > 0 and engine["cpu_us_per_sample"] >= 0


def test_first_batch(shards):
    got = run("first_batch", shards, 8)
    assert got["dataset_samples"] == 101 and 0 < got["open_s"] < got["seconds"]


@pytest.mark.parametrize("order", ["seq", "random"])
def test_cold_files_are_read_from_disk(tmp_path, shards, order):
    if subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True).stdout.strip() == "tmpfs":
        pytest.skip("a file system in memory has no cold files")
    engine = run("engine_cold", shards, order, 2, 16, "bin")
    assert (engine["name"], engine["samples"]) == ("engine_cold", 101)
    assert engine["cold_reads"] > 0 and engine["disk_bytes"] > 0 and engine["cold_by"] in ("io_uring", "threads")
    limit = run("limit_uring", shards, order, 8, "bin")
    assert (limit["name"], limit["samples"]) == ("limit_uring", 101)
    assert limit["disk_bytes"] > 0


def test_limit_jpeg(tmp_path):
    with tarfile.open(tmp_path / "p.tar", "w") as tar:
        for i, mode in enumerate(("RGB", "L", "CMYK", "RGB")):
            path = tmp_path / f"{i}.jpg"
            Image.effect_noise((90 + 40 * i, 70), 40).convert(mode).save(path, quality=90)
            tar.add(path, f"{i}.jpg")
    assert run("limit_jpeg", tmp_path / "p.tar", 2, 3)["samples"] == 12


@pytest.mark.parametrize("name", ["limit_jpeg", "limit_memcpy", "engine_bytes", "engine_cold", "limit_uring",
                                  "first_batch", "make_tar"])
def test_usage(name):
    assert run(name, code=2) is None
