# SPDX-License-Identifier: Apache-2.0
"""Runs the stoker command (STOKER_CLI, else build/cli/stoker) on shards made here."""

import io
import os
import re
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
CLI = Path(os.environ.get("STOKER_CLI", ROOT / "build/cli/stoker")).resolve()


class Done:
    """What a run said; `out` and `err` have timings and the folder taken out."""

    def __init__(self, process, folder):
        self.code = process.returncode
        self.raw = process.stdout
        self.out = normal(process.stdout, folder)
        self.err = normal(process.stderr, folder)


def normal(text, folder):
    text = text.replace(str(folder), "DIR")
    text = re.sub(r"\d+\.\d+ (m?s)\b", r"N \1", text)
    return re.sub(r"[0-9a-f]{16}\.idx", "HASH.idx", text)


@pytest.fixture
def stoker(tmp_path):
    if not CLI.exists():
        pytest.skip(f"{CLI} is not built")

    def run(*args, **env):
        process = subprocess.run([CLI, *map(str, args)], cwd=tmp_path, capture_output=True, text=True,
                                 timeout=180, env={**os.environ, "STOKER_CACHE": str(tmp_path / "cache"), **env})
        return Done(process, tmp_path)

    run.program = CLI
    return run


def jpeg(seed, width=64, height=48):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return out.getvalue()


def write_tar(path, members):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


@pytest.fixture
def photos(tmp_path):
    """Two shards of six photos with labels."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for shard in range(2):
        write_tar(folder / f"train-{shard:06d}.tar", [
            (f"{shard}{i}.{field}", data) for i in range(6)
            for field, data in (("jpg", jpeg(shard * 6 + i)), ("cls", str(i).encode()))])
    return folder
