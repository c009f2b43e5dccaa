# SPDX-License-Identifier: Apache-2.0
"""What is missing is named; memory that is not there is an error and not a crash; pinned batches are pinned."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import on_gpu
import pytest
import stoker
from on_gpu import options

torch = pytest.importorskip("torch")


def python(code, **env):
    path = os.pathsep.join([str(Path(stoker.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONPATH": path, **env})


OPEN = """
    import numpy as np, stoker
    try:
        next(iter(stoker.Loader({"x": np.zeros((64, 8), np.float32)}, batch_size=8, device="cuda")))
    except stoker.StokerError as e:
        print("said:", e)
    else:
        print("worked")
    stoker.Loader({"x": np.zeros((64, 8), np.float32)}, batch_size=8)      # all else works
"""


@pytest.mark.real_gpu
def test_a_missing_library_is_named():
    done = python(OPEN, STK_CUDA_LIB="/nonexistent/libstoker_cuda.so")
    assert done.returncode == 0, done.stderr
    assert "said:" in done.stdout and "/nonexistent/libstoker_cuda.so" in done.stdout


@pytest.mark.real_gpu
def test_no_visible_gpu_is_said():
    done = python(OPEN, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stderr
    assert "said:" in done.stdout and "cuda" in done.stdout.lower()


@pytest.mark.real_gpu
def test_no_such_gpu():
    with pytest.raises(stoker.StokerError, match="cuda:99"):
        stoker.Loader({"x": np.zeros((64, 8), np.float32)}, batch_size=8, device="cuda:99")


@pytest.mark.real_gpu
def test_out_of_device_memory():
    """A batch that cannot fit is an error with its size; a loader made behind it works."""
    done = python("""
        import numpy as np, stoker, torch
        free, total = torch.cuda.mem_get_info()
        hog = torch.empty(free - (256 << 20), dtype=torch.uint8, device="cuda")
        data = {"x": np.zeros((4096, 1 << 18), np.uint8)}
        try:
            kept = [b["x"] for b in stoker.Loader(data, batch_size=1024, device="cuda")]
            print("worked")
        except (stoker.StokerError, MemoryError, torch.cuda.OutOfMemoryError) as e:
            print("said:", type(e).__name__, e)
        kept = hog = None
        torch.cuda.empty_cache()
        small = stoker.Loader({"x": np.ones((64, 8), np.float32)}, batch_size=8, device="cuda")
        print("then:", sum(int(b["x"].sum()) for b in small))
    """)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "said:" in done.stdout and "memory" in done.stdout.lower()
    assert "then: 512" in done.stdout


@pytest.mark.real_gpu
def test_pin_memory_on_the_cpu(tmp_path):
    torch.cuda.init()                           # before it, torch calls nothing pinned
    np.arange(40_000, dtype=np.uint16).tofile(tmp_path / "t.bin")
    loader = stoker.Loader(str(tmp_path / "t.bin"), {"x": "tokens(block=1024)"}, batch_size=8, pin_memory=True)
    plain = stoker.Loader(str(tmp_path / "t.bin"), {"x": "tokens(block=1024)"}, batch_size=8)
    for a, b in zip(loader, plain, strict=True):
        assert a["x"].is_pinned() and not b["x"].is_pinned() and torch.equal(a["x"], b["x"])
        there = a["x"].to("cuda", non_blocking=True)
        assert torch.equal(there.cpu(), b["x"])


@pytest.mark.real_gpu
def test_the_loader_says_what_it_holds():
    loader = stoker.Loader({"x": np.zeros((4096, 1024), np.float32)}, batch_size=64, **options())
    for _ in loader:
        pass
    stats = loader.stats()
    assert stats["batches"] == 64 and stats["gpu"]["bytes"] >= 4096 * 1024 * 4
    assert 0 < stats["gpu"]["memory"] <= stats["gpu"]["memory_peak"] <= stats["gpu"]["memory_limit"]


@pytest.mark.real_gpu
def test_device_memory_is_bounded():
    """Under a bound of a few batches, all of them come; what is held counts against it."""
    data = {"x": np.arange(4096, dtype=np.int32)[:, None].repeat(4096, 1)}
    loader = stoker.Loader(data, batch_size=256, device="cuda", device_memory_limit="64MB")
    rows = 0
    for batch in loader:
        assert int(batch["x"][:, 0].sum()) == sum(range(rows, rows + 256))
        rows += 256
    assert rows == 4096 and loader.stats()["gpu"]["memory_peak"] <= 64_000_000 * 1.05 + (1 << 20)


@pytest.mark.real_gpu
def test_first_batch_comes_within_a_second(tmp_path):
    import time
    torch.zeros(1, device="cuda")               # the context is not the loader's
    tar = on_gpu.write_pictures(tmp_path / "a.tar", on_gpu.every_kind())
    stoker.open(tar, jpeg=True)
    start = time.perf_counter()
    batch = next(iter(stoker.Loader(tar, {
        "image": "from(pic) | image | random_resized_crop(224) | hflip | normalize(imagenet) | to(f16)"},
        batch_size=32, **options())))
    torch.cuda.synchronize()
    assert batch["image"].is_cuda and time.perf_counter() - start < 1.0


@pytest.mark.real_gpu
def test_many_loaders_leave_nothing_behind():
    torch.cuda.synchronize()
    before = torch.cuda.mem_get_info()[0]
    for _ in range(30):
        loader = stoker.Loader({"x": np.zeros((256, 1 << 16), np.uint8)}, batch_size=32, **options())
        next(iter(loader))
        loader.close()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    assert before - torch.cuda.mem_get_info()[0] < 256 << 20
