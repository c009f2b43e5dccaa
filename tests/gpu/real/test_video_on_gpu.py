# SPDX-License-Identifier: Apache-2.0
"""NVDEC: every frame of small clips has the planes that the CPU decodes, and batches of clips have its bits."""
import os
import subprocess
from pathlib import Path

import pytest

from on_gpu import DRY, ROOT, write_tar

BUILD = Path(os.environ.get("STOKER_BUILD", ROOT / "build"))
CLIPS = Path(__file__).with_name("clips")
NAMES = ["h264.mp4", "hevc.mp4", "hevc10.mkv", "vp9.webm"]
CHAINS = ["video(frames=8) | random_resized_crop(112) | hflip | normalize(imagenet) | to(f16)",
          "video(frames=5, start=uniform, pad=wrap) | views(2) | random_resized_crop(48) | brightness(0.4) | to(bf16)",
          "video(frames=6) | resize((70, 90), interpolation=bicubic) | to(u8, hwc)"]
pytestmark = pytest.mark.skipif(DRY, reason="a dry run has no NVDEC")


def run(program, *args):
    env = {**os.environ, "STK_CUDA_LIB": str(BUILD / "python/stoker/libstoker_cuda.so")}   # beside no program of tests
    return subprocess.run([BUILD / program, *args], capture_output=True, text=True, timeout=300, env=env)


@pytest.mark.parametrize("name", NAMES)
def test_frames(name):
    p = run("tests/gpu/real/nvdec_gpu", CLIPS / name, CLIPS / f"{name}.crc")
    if p.returncode == 77:
        pytest.skip(p.stdout.strip())
    assert p.returncode == 0 and " 0 differ" in p.stdout, p.stdout + p.stderr


@pytest.mark.parametrize("decode", ["gpu", "auto", "cpu"])
def test_batches(tmp_path, decode):
    names = NAMES * 3
    path = write_tar(tmp_path / "clips.tar", [(f"{i:02}.mp4", (CLIPS / name).read_bytes()) for i, name in enumerate(names)])
    p = run("tests/gpu/host/clips_compare", path, decode, "6", *(f"from(mp4) | {c}" for c in CHAINS))
    if p.returncode and ("libavcodec" in p.stdout or "libnvcuvid" in p.stdout):
        pytest.skip(p.stdout.strip())
    lines = p.stdout.splitlines()
    assert p.returncode == 0 and all(line.startswith("same: 24 batches") for line in lines), p.stdout + p.stderr
    if decode == "gpu":
        assert all(" 0 redecoded" in line and int(line.split(" clips by the GPU")[0].split()[-1]) >= 60 for line in lines), lines
