# SPDX-License-Identifier: Apache-2.0
"""NVDEC: every frame of small clips has the planes that the CPU decodes, and batches of clips have its bits.

The CPU's side of batches is libavcodec.  A machine without one gets it with PyAV's wheel: `pip install --target build/gpu-python av`, and
`make gpu-test` finds it there; or STOKER_LIBAVCODEC names av.libs/libavcodec-*.so.* of another place.  Where it is named, it has to be there:
these tests fail without it, and are skipped only where nothing is.
"""
import os
import random
import subprocess
import time
from pathlib import Path

import on_gpu
import pytest
import stoker
from on_gpu import DRY, ROOT, Verdict, delay, meet, on, side_stream, write_tar

BUILD = Path(os.environ.get("STOKER_BUILD", ROOT / "build"))
CLIPS = Path(__file__).with_name("clips")
NAMES = ["h264.mp4", "hevc.mp4", "hevc10.mkv", "vp9.webm"]
MORE = ["odd.webm", "uneven.mp4", "small.mp4", "vfr.mp4", "edit.mp4", "fragmented.mp4", "full.mp4", "bt709.mp4", "open.mp4", "halves.mp4"]
CHAINS = ["video(frames=8) | random_resized_crop(112) | hflip | normalize(imagenet) | to(f16)",
          "video(frames=5, start=uniform, pad=wrap) | views(2) | random_resized_crop(48) | brightness(0.4) | to(bf16)",
          "video(frames=6) | resize((70, 90), interpolation=bicubic) | to(u8, hwc)",
          "video(frames=6) | random_resized_crop(56) | normalize(half) | to(f16, cthw)"]
pytestmark = pytest.mark.skipif(DRY, reason="a dry run has no NVDEC")


def run(program, *args):
    env = {**os.environ, "STK_CUDA_LIB": str(BUILD / "python/stoker/libstoker_cuda.so")}   # beside no program of tests
    return subprocess.run([BUILD / program, *args], capture_output=True, text=True, timeout=300, env=env)


def cannot(why):
    """Skips; but what was promised and is missing is a failure."""
    if "libavcodec" in why and os.environ.get("STOKER_LIBAVCODEC"):
        pytest.fail(f"STOKER_LIBAVCODEC={os.environ['STOKER_LIBAVCODEC']} gives no libavcodec: {why}")
    pytest.skip(why)


def tar_of(tmp_path, names):
    return write_tar(tmp_path / "clips.tar", [(f"{i:03}.mp4", (CLIPS / name).read_bytes()) for i, name in enumerate(names)])


def compare(tmp_path, names, decode, epochs, chains):
    p = run("tests/gpu/host/clips_compare", tar_of(tmp_path, names), decode, str(epochs), *(f"from(mp4) | {c}" for c in chains))
    if p.returncode and ("libavcodec" in p.stdout or "libnvcuvid" in p.stdout):
        cannot(p.stdout.strip())
    assert p.returncode == 0, p.stdout + p.stderr
    lines = p.stdout.splitlines()
    assert len(lines) == len(chains), lines
    return lines


def count(line, what):
    return int(line.split(f" {what}")[0].split()[-1])


@pytest.mark.parametrize("name", NAMES)
def test_frames(name):
    p = run("tests/gpu/real/nvdec_gpu", CLIPS / name, CLIPS / f"{name}.crc")
    if p.returncode == 77:
        pytest.skip(p.stdout.strip())
    assert p.returncode == 0 and " 0 differ" in p.stdout, p.stdout + p.stderr


@pytest.mark.parametrize("decode", ["gpu", "auto", "cpu"])
def test_batches(tmp_path, decode):
    lines = compare(tmp_path, NAMES * 3, decode, 6, CHAINS)
    assert all(line.startswith("same: 24 batches") and count(line, "skipped") == 0 for line in lines), lines
    if decode == "gpu":
        assert all(count(line, "redecoded") == 0 and count(line, "clips by the GPU") >= 60 for line in lines[:3]), lines


@pytest.mark.parametrize("name", MORE)
def test_more_files(tmp_path, name):
    for line in compare(tmp_path, [name, *NAMES, name], "gpu", 4, CHAINS[:2]):
        assert count(line, "skipped") == 0, line
        if name not in ("odd.webm", "open.mp4"):        # those may come back: an odd size, keyframes that are no IDR
            assert count(line, "redecoded") == 0, line
        assert count(line, "clips by the GPU") >= 16, line      # of NAMES; more, where it takes all clips of the other


def test_damage(tmp_path):
    """One in the middle of a group, which clips of its second half refer to without showing it."""
    chains = ["video(frames=2, start=8) | resize((48, 48)) | to(u8)", CHAINS[0]]
    for line in compare(tmp_path, ["damaged.mp4", "h264.mp4"] * 3, "gpu", 4, chains):
        assert count(line, "redecoded") > 0 and count(line, "skipped") > 0, line


def test_a_thousand_clips(tmp_path):
    line, = compare(tmp_path, NAMES * 10, "gpu", 25, ["video(frames=8) | random_resized_crop(64) | hflip | to(f16)"])
    assert line.startswith("same: 350 batches") and count(line, "redecoded") == 0, line
    assert count(line, "clips by the GPU") >= 1000, line


# ---- beside a consumer's work ----

def loaders(tmp_path, start="random", **more):
    """The CPU's, and the GPU's."""
    torch = pytest.importorskip("torch")
    tar, fields = str(tar_of(tmp_path, NAMES * 4)), {"video": f"from(mp4) | {CHAINS[0].replace('frames=8', f'frames=8, start={start}')}"}
    how = {"batch_size": 4, "shuffle": True, "seed": 5, "drop_last": True, "num_workers": 4}
    try:
        cpu, gpu = stoker.Loader(tar, fields, **how), stoker.Loader(tar, fields, **how, **{"device": "cuda", "decode": "gpu", **more})
        next(iter(cpu))
        cpu.close()
        return torch, stoker.Loader(tar, fields, **how), gpu
    except stoker.StokerError as error:
        cannot(str(error))


@pytest.mark.parametrize("sm_limit", [None, 8])
def test_side_streams(tmp_path, sm_limit):
    """A slow consumer on streams of its own, which spoils what it was given."""
    torch, cpu, gpu = loaders(tmp_path, sm_limit=sm_limit)
    rng, verdict, streams = random.Random(on_gpu.SEED), Verdict(), [None, side_stream(), side_stream()]
    for _ in range(10):
        for want, got in zip(cpu, gpu, strict=True):
            stream = rng.choice(streams)
            reference = want["video"].to("cuda")
            if stream is not None:
                stream.wait_stream(torch.cuda.current_stream())
            with on(stream):
                delay(rng, 2_000_000)
                verdict.equal(got["video"], reference)
                got["video"].fill_(float("nan"))
            for tensor in (got["video"], reference):
                if stream is not None:
                    tensor.record_stream(stream)
            meet(stream)
    verdict.check()
    assert gpu.stats()["gpu"]["clips"] > 0


def test_cuda_graph(tmp_path):
    """A step is captured and replayed while NVDEC's threads are at work."""
    torch, cpu, gpu = loaders(tmp_path)
    verdict, ahead = Verdict(), iter(gpu)
    static = torch.zeros_like(next(ahead)["video"])

    def step(x):
        return torch.relu(x * 2 - 1).transpose(1, 2)

    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step(static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            out = step(static)
        for number, want in enumerate(cpu):
            got = None if number == 0 else next(ahead)      # the first one went into its shape
            reference = want["video"].to("cuda")
            static.copy_(reference if got is None else got["video"])
            graph.replay()
            verdict.equal(static, reference)
            verdict.equal(out, step(reference))
    verdict.check()


def test_two_loaders(tmp_path):
    torch, cpu, one = loaders(tmp_path)
    (tmp_path / "other").mkdir()
    _, _, two = loaders(tmp_path / "other")
    verdict = Verdict()
    for _ in range(3):
        for want, a, b in zip(cpu, one, two, strict=True):
            reference = want["video"].to("cuda")
            verdict.equal(a["video"], reference)
            verdict.equal(b["video"], reference)
    verdict.check()


@pytest.mark.parametrize("limit", ["500MB", "3MB"])
def test_cached_frames(tmp_path, limit):
    """Clips that are the same each time: all or some of their frames stay on the GPU."""
    torch, cpu, gpu = loaders(tmp_path, cache="device", device_cache_limit=limit, start="center")
    verdict = Verdict()
    for _ in range(4):
        for want, got in zip(cpu, gpu, strict=True):
            verdict.equal(got["video"], want["video"].to("cuda"))
    verdict.check()
    cache = gpu.stats()["gpu"]["cache"]
    assert 0 < cache["bytes"] <= cache["limit"] and cache["hits"] > 0, cache


def test_small_memory(tmp_path):
    """Little of the GPU's memory, and of the host's: workers make what sessions have no room for."""
    torch, cpu, gpu = loaders(tmp_path, decode=None, device_memory_limit="160MB", memory_limit="64MB")
    verdict = Verdict()
    for _ in range(3):
        for want, got in zip(cpu, gpu, strict=True):
            verdict.equal(got["video"], want["video"].to("cuda"))
    verdict.check()
    used = gpu.stats()["gpu"]
    assert used["memory_peak"] <= used["memory_limit"], used


def test_closing_in_mid_clip(tmp_path):
    """A loader is closed while clips are on their way; memory comes back, and the next one is right."""
    torch, cpu, gpu = loaders(tmp_path)
    want, rng, free = next(iter(cpu))["video"], random.Random(on_gpu.SEED), []
    gpu.close()
    for _ in range(20):
        _, near, gpu = loaders(tmp_path)
        near.close()
        it = iter(gpu)
        got = next(it)["video"].cpu()
        for _ in range(rng.randrange(3)):
            next(it)
        time.sleep(rng.random() / 50)
        gpu.close()
        assert torch.equal(on_gpu.bits(got), on_gpu.bits(want))
        free.append(torch.cuda.mem_get_info()[0])
    assert min(free[5:]) > free[4] - (64 << 20), free
