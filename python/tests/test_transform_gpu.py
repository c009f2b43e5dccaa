# SPDX-License-Identifier: Apache-2.0
"""Transform of tensors on a GPU, where there is none: the GPU is tests/gpu/host/hostgpu.c, whose memory is this process's,
and its tensors are torch's own that say they lie there.  tests/gpu/real has the same on a real one."""

import os
import sys
import textwrap
from pathlib import Path

import pytest

import stoker

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from forked_python import TORCH, python  # noqa: E402

HOSTGPU = Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve() / "tests/gpu/host/libstoker_hostgpu.so"
HEAD = """
    import numpy as np, stoker, torch
    from types import SimpleNamespace

    class There(torch.Tensor):
        is_cuda = property(lambda self: True)
        device = property(lambda self: torch.device("cuda:1"))

    def there(tensor):
        return tensor.as_subclass(There)

    def here(tensor):
        assert isinstance(tensor, There)
        return tensor.as_subclass(torch.Tensor)

    def empty(*size, device=None, **more):
        assert device in (None, torch.device("cuda:1"))
        made = plain(*size, **more)
        return made if device is None else there(made)

    def said(call, *words):
        try:
            call()
        except stoker.StokerError as e:
            assert all(w in str(e) for w in words), e
        else:
            raise AssertionError(f"no error of {words}")

    plain, torch.empty = torch.empty, empty
    torch.cuda.current_stream = lambda device: SimpleNamespace(cuda_stream=0)
    rng = torch.Generator().manual_seed(1)
    nchw = torch.randint(0, 256, (9, 3, 40, 52), dtype=torch.uint8, generator=rng)
    nhwc = nchw.permute(0, 2, 3, 1).contiguous()
    OPS = "random_resized_crop(24) | hflip | normalize(imagenet) | to({})"
"""


def run(code, lib=HOSTGPU):
    if lib == HOSTGPU and not HOSTGPU.exists():
        pytest.skip("the GPU of threads is not built")
    path = os.pathsep.join([str(Path(stoker.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    done = python(*TORCH).run(["-c", textwrap.dedent(HEAD) + textwrap.dedent(code)],
                                         env={**os.environ, "PYTHONPATH": path, "STK_CUDA_LIB": str(lib)})
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_bits_of_the_cpu():
    run("""
        for kind in ("u8", "f16", "bf16", "f32", "f32, hwc", "f16, channels_last"):
            ops = OPS.format(kind) if kind != "u8" else "random_resized_crop(24) | hflip | to(u8)"
            want = stoker.Transform(ops, seed=3)(nchw)
            for batch in (nchw, nhwc, nchw.contiguous(memory_format=torch.channels_last), nhwc[:, :, :, :]):
                augment = stoker.Transform(ops, seed=3)
                got = here(augment(there(batch)))
                assert got.shape == want.shape and got.dtype == want.dtype and got.stride() == want.stride()
                assert torch.equal(got, want) and augment.position == 9
            got = stoker.Transform(ops, seed=3)([there(p) for p in nhwc])
            assert torch.equal(here(got), want)
            part = stoker.Transform(ops, seed=3)(there(nchw[4:]), positions=range(4, 9))
            assert torch.equal(here(part), want[4:])
            cut = stoker.Transform(ops, seed=5)(nchw[:, :, 3:, 5:47])
            assert torch.equal(here(stoker.Transform(ops, seed=5)(there(nchw)[:, :, 3:, 5:47])), cut)
    """)


def test_views():
    run("""
        for ops in ("views(3) | random_resized_crop(24) | hflip | color_jitter(0.4, p=0.5) | gaussian_blur(5) | to(f16)",
                    "hue(0.2) | views(2) | random_resized_crop((9, 17)) | to(u8, hwc)", "five_crop(8) | to(u8)"):
            want = stoker.Transform(ops, seed=3)(nchw)
            augment = stoker.Transform(ops, seed=3)
            got = here(augment(there(nchw)))
            assert got.shape == want.shape and torch.equal(got, want) and augment.position == 9
            assert not torch.equal(want[:, 0], want[:, 1])
            assert torch.equal(here(stoker.Transform(ops, seed=3)([there(p) for p in nhwc])), want)
            assert here(augment(there(nchw[:0]))).shape == (0, *want.shape[1:])
    """)


def test_lists_sizes_gray_and_empty():
    run("""
        sizes = [(30, 41), (17, 9), (64, 64), (1, 5)]
        pictures = [torch.randint(0, 256, (3, *s), dtype=torch.uint8, generator=rng) for s in sizes]
        pictures.append(pictures[0][0])                     # gray
        for ops in ("resize(20) | hflip | to(u8, hwc)", "hflip | normalize(half) | to(f32)"):
            want = stoker.Transform(ops)(pictures)
            got = stoker.Transform(ops)([there(p) for p in pictures])
            assert len(got) == len(want) and all(torch.equal(here(a), b) for a, b in zip(got, want))
            assert torch.equal(here(stoker.Transform(ops)(there(nchw))), stoker.Transform(ops)(nchw))
        assert here(stoker.Transform(OPS.format("f32"))(there(nchw[:0]))).shape == (0, 3, 24, 24)
    """)


def test_errors():
    run("""
        augment = stoker.Transform(OPS.format("f32"))
        said(lambda: augment(there(nchw.float())), "the batch is float32", "uint8")
        said(lambda: augment(there(nchw[:, :2])), "pictures have 3 channels")
        said(lambda: augment(there(nchw[0])), "a batch has four dimensions")
        said(lambda: augment([there(nchw[0]), nchw[1]]), "picture 1 is on the CPU and picture 0 on cuda:1")
        said(lambda: augment([there(nchw[0]), there(nchw[1].float())]), "picture 1 is float32")
        tall = torch.zeros(1, 3, 3000, 4, dtype=torch.uint8)
        said(lambda: stoker.Transform("resize((8, 8))")(there(tall)), "picture 0", "256 times")
        assert augment.position == 0
    """)


def test_no_cuda_part():
    run("""
        said(lambda: stoker.Transform("hflip")(there(nchw)), "nowhere.so")
    """, lib="nowhere.so")
