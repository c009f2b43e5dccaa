# SPDX-License-Identifier: Apache-2.0
"""Every kind of output reaches the GPU as it is on the CPU; what no tensor can hold stays on the host."""

import json

import numpy as np
import on_gpu
import pytest
import stoker
from on_gpu import bits, options, write_tar

torch = pytest.importorskip("torch")

N = 60


def npy(array):
    import io
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.fixture(scope="module")
def tar(tmp_path_factory):
    rng, members = np.random.default_rng(on_gpu.SEED), []
    for i in range(N):
        members += [(f"{i:04d}.cls", str(i % 9).encode()), (f"{i:04d}.score", f"{i / 7:.6f}".encode()),
                    (f"{i:04d}.txt", f"text {i}".encode()), (f"{i:04d}.json", json.dumps({"n": i}).encode()),
                    (f"{i:04d}.raw", bytes(rng.integers(0, 256, i % 11, np.uint8))),
                    (f"{i:04d}.npy", npy(rng.standard_normal((3, 5)).astype(np.float32))),
                    (f"{i:04d}.long.npy", npy(rng.integers(0, 1000, (i % 13 + 1, 4)).astype(np.int32))),
                    (f"{i:04d}.jpg", on_gpu.encoded(on_gpu.photo(i, 40 + i, 70 - i)))]
    return str(write_tar(tmp_path_factory.mktemp("outputs") / "a.tar", members))


def pairs(data, fields, **how):
    how = {"batch_size": 8, "shuffle": True, "seed": 3, **how}
    cpu, gpu = stoker.Loader(data, fields, **how), stoker.Loader(data, fields, **how, **options())
    yield from zip(cpu, gpu, strict=True)
    cpu.close()
    gpu.close()


def same(got, want):
    assert isinstance(got, torch.Tensor) and got.device.type == on_gpu.DEVICE
    assert got.shape == want.shape and got.dtype == want.dtype and torch.equal(bits(got), bits(want))


def test_values_of_every_kind(tar):
    fields = {"label": "from(cls) | int", "score": "from(score) | float", "array": "from(npy) | npy(shape=(3, 5), dtype=f32)",
              "text": "from(txt) | text", "json": "json", "raw": "from(raw) | bytes",
              "image": "from(jpg) | image | random_resized_crop(16) | to(f32)"}
    for want, got in pairs(tar, fields):
        for name in ("label", "score", "array", "image"):
            same(got[name], want[name])
        for name in ("text", "json", "raw"):                # what no tensor can hold
            assert got[name] == want[name]
        assert got.sample_keys == want.sample_keys
        assert torch.as_tensor(got.sample_ids).cpu().tolist() == want.sample_ids.tolist()
        assert torch.as_tensor(got.valid).cpu().tolist() == want.valid.tolist()


def test_ragged_lists(tar):
    fields = {"rows": "from(long.npy) | npy", "image": "from(jpg) | image | to(f16)"}
    for want, got in pairs(tar, fields, collate="list"):
        for name in fields:
            assert isinstance(got[name], list) and len(got[name]) == len(want[name])
            for a, b in zip(got[name], want[name], strict=True):
                same(a, b)


@pytest.mark.parametrize("more", [{}, {"cache": "device"}])
@pytest.mark.parametrize("chain", ["image | to(u8)", "image | resize(40) | hflip | normalize(imagenet) | to(f16)",
                                   "image | resize(50) | color_jitter(0.4, 0.4, 0.2, 0.1) | random_erasing(p=0.5) | to(u8, hwc)"])
def test_pictures_of_any_size(tar, chain, more):
    """Decoded there: the same bits as here, epoch after epoch."""
    fields = {"image": f"from(jpg) | {chain}", "again": f"from(jpg) | {chain}"}
    common = dict(batch_size=8, shuffle=True, seed=5, collate="list")
    with stoker.Loader(tar, fields, **common) as cpu, stoker.Loader(tar, fields, **common, **options(), **more) as gpu:
        for _ in range(3):
            for want, got in zip(cpu, gpu, strict=True):
                for name in fields:
                    for a, b in zip(got[name], want[name], strict=True):
                        same(a, b)
        assert gpu.stats()["gpu"]["jpegs"] > 0


def test_padded(tar):
    for want, got in pairs(tar, {"rows": "from(long.npy) | npy"}, collate=("pad", -1)):
        same(got["rows"], want["rows"])
        assert torch.as_tensor(got.lengths["rows"]).cpu().tolist() == want.lengths["rows"].tolist()
        assert torch.equal(got.mask("rows").cpu(), want.mask("rows"))


@pytest.mark.parametrize("chain", ["tokens(block=128)", "tokens(block=128) | to(i32)", "tokens(block=128) | to(stored)",
                                   "tokens(block=128, random=true)"])
def test_tokens(tmp_path, chain):
    np.random.default_rng(1).integers(0, 50000, 60_001).astype(np.uint16).tofile(tmp_path / "t.bin")
    shifted = chain.replace("block=128", "block=128, shift=1")
    for want, got in pairs(str(tmp_path / "t.bin"), {"input": chain, "label": shifted}):
        same(got["input"], want["input"])
        same(got["label"], want["label"])


def test_shared_token_windows(tmp_path):
    np.arange(60_000, dtype=np.uint16).tofile(tmp_path / "t.bin")
    fields = {"input": "tokens(block=64, share=true)", "label": "tokens(block=64, shift=1, share=true)"}
    for want, got in pairs(str(tmp_path / "t.bin"), fields):
        assert torch.equal(got["input"].cpu(), want["input"]) and torch.equal(got["label"].cpu(), want["label"])
        assert got["input"].device.type == got["label"].device.type == on_gpu.DEVICE


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"])
def test_arrays_of_every_type(dtype):
    rng = np.random.default_rng(2)
    data = {"x": (rng.standard_normal((301, 7, 3)) * 100).astype(dtype), "y": np.arange(301)}
    for want, got in pairs(data, None, batch_size=32):
        same(got["x"], want["x"])
        same(got["y"], want["y"])


@pytest.mark.parametrize("bytes_a_row", [1, 64, 4096, 1 << 20])
def test_rows_of_every_size(bytes_a_row):
    rows = max(16, min(2000, (32 << 20) // bytes_a_row))
    data = {"x": np.random.default_rng(3).integers(0, 256, (rows, bytes_a_row), np.uint8)}
    for want, got in pairs(data, None, batch_size=8):
        same(got["x"], want["x"])


def test_a_batch_is_a_dict_that_moves(tar):
    loader = stoker.Loader(tar, {"label": "from(cls) | int", "text": "from(txt) | text"}, batch_size=8, **options())
    batch = next(iter(loader))
    home = batch.to("cpu")
    assert home["label"].device.type == "cpu" and home["text"] == batch["text"] and home.sample_keys == batch.sample_keys


def test_batches_outlive_their_loader(tar):
    fields = {"label": "from(cls) | int", "image": "from(jpg) | image | random_resized_crop(16) | to(f32)"}
    loader = stoker.Loader(tar, fields, batch_size=8, **options())
    kept = [b for b, _ in zip(loader, range(5), strict=False)]
    want = [(b["label"].cpu().clone(), b["image"].cpu().clone()) for b in kept]
    loader.close()
    del loader
    if not on_gpu.DRY:
        junk = [torch.full((1 << 22,), 7.0, device="cuda") for _ in range(8)]
        del junk
    for batch, (label, image) in zip(kept, want, strict=True):
        assert torch.equal(batch["label"].cpu(), label) and torch.equal(batch["image"].cpu(), image)
