# SPDX-License-Identifier: Apache-2.0
"""Clips by way of a GPU made of threads (tests/gpu/host) have the bits of the CPU, whatever their planes are."""
import os
import subprocess
import sys

import pytest

from made_video import BUILD, ROOT, make, needs_ffmpeg

sys.path.insert(0, str(ROOT / "tests"))
from made import write_tar  # noqa: E402

pytestmark = needs_ffmpeg
COMPARE = BUILD / "tests" / "gpu" / "host" / "clips_compare"
HOST_GPU = BUILD / "tests" / "gpu" / "host" / "libstoker_hostgpu.so"
CHAINS = ["video(frames=6, stride=2) | random_resized_crop(48) | hflip | normalize(imagenet) | to(f16)",
          "video(frames=5, start=uniform) | resize((40, 56)) | to(u8)",
          "video(frames=12, start=center, pad=wrap) | resize((33, 47), interpolation=bicubic) | to(f32, hwc)",
          "video(frames=3, stride=7) | views(2) | random_resized_crop(31) | brightness(0.4) | to(bf16)",
          "video(frames=4) | resize((9, 7)) | to(f16)",
          "video(frames=4) | center_crop((50, 70)) | to(f16, cthw)",
          "video(frames=3) | views(2) | random_resized_crop((31, 28)) | brightness(0.4) | to(u8, cthw)"]


@pytest.fixture(scope="module")
def tar(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpu_clips")

    def of(*names):
        path = folder / f"{'-'.join(names)[:80]}.tar"
        if path.exists():
            return path
        write_tar(path, [(f"{i:03}.mp4", make(folder, name).read_bytes()) for i, name in enumerate(names)])
        return path
    return of


def compare(path, decode, chains, epochs=2, **env):
    chains = [f"from(mp4) | {c}" for c in chains]
    p = subprocess.run([COMPARE, path, decode, str(epochs), *chains], capture_output=True, text=True, timeout=300,
                       env={**os.environ, "STK_CUDA_LIB": str(HOST_GPU), **env})
    assert p.returncode == 0, p.stdout + p.stderr
    return p.stdout.splitlines()


@pytest.mark.parametrize("decode", ["auto", "cpu"])
def test_every_format(tar, decode):
    names = ["gop12.mp4", "odd.mp4", "odd.webm", "422.mp4", "ten.mp4", "full.mp4", "gray.mp4", "rgb.mkv", "hevc10.mkv", "asp.mp4"]
    lines = compare(tar(*names), decode, CHAINS)
    assert len(lines) == len(CHAINS) and all(line.startswith("same: 8 batches") for line in lines), lines


CLIPS = ROOT / "tests/gpu/real/clips"
FILES = sorted(p.name for p in CLIPS.glob("*.*") if p.suffix in (".mp4", ".mkv", ".webm"))


@pytest.mark.skipif(not (HOST_GPU.parent / "libnvcuvid.so.1").exists(), reason="this build has no NVDEC")
@pytest.mark.parametrize("name", FILES)
def test_nvdec(tmp_path, name):
    """What the machine with a GPU is given too; NVDEC is libavcodec here (tests/gpu/host)."""
    path = write_tar(tmp_path / "a.tar", [(f"{i:03}.mp4", (CLIPS / n).read_bytes()) for i, n in enumerate([name, "h264.mp4", name, "hevc.mp4"])])
    for line in compare(path, "gpu", CHAINS[:2] + CHAINS[3:], 4, LD_LIBRARY_PATH=str(HOST_GPU.parent)):
        assert (" 0 redecoded" in line and " 0 skipped" in line) or name == "damaged.mp4", line
        assert int(line.split(" clips by the GPU")[0].split()[-1]) >= 8, line


def test_clips_are_mixed(tar):
    names = ["gop12.mp4", "odd.webm", "ten.mp4"]
    path = tar(*names)
    labelled = path.with_name("labelled.tar")
    write_tar(labelled, [m for i, name in enumerate(names) for m in ((f"{i}.mp4", make(path.parent, name).read_bytes()), (f"{i}.cls", b"%d" % i))])
    assert len(compare(labelled, "auto", [CHAINS[0] + "; mixup(image, label, alpha=0.4)", CHAINS[1] + "; cutmix(image, label)",
                                            CHAINS[-2] + "; mixup(image, label, alpha=0.4)"])) == 3


def test_damage_is_the_cpus(tar):
    """What the GPU can't make is made again by the CPU, here because its records are spoiled on the way."""
    lines = compare(tar("gop12.mp4", "ten.mp4", "odd.webm"), "auto", CHAINS[:2] + CHAINS[-2:], STK_HOSTGPU_SPOIL_FRAMES="1")
    assert all(" 0 redecoded" not in line for line in lines), lines
