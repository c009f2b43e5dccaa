# SPDX-License-Identifier: Apache-2.0
"""Transform of batches that lie on the GPU: the bits of Transform on the CPU, on whatever stream, however many in flight."""

import random

import numpy as np
import on_gpu
import pytest
import stoker
from on_gpu import DEVICE, bits

torch = pytest.importorskip("torch")

CHAINS = [
    "random_resized_crop(64) | hflip | normalize(imagenet) | to(f16)",
    "random_resized_crop(64) | hflip | normalize(imagenet) | to(bf16)",
    "random_resized_crop(48) | hflip | normalize(imagenet) | to(f32)",
    "random_resized_crop((40, 72)) | hflip | to(u8)",
    "random_resized_crop(33) | hflip | to(u8, hwc)",
    "random_resized_crop(32) | hflip | normalize(half) | to(f16, channels_last)",
    "random_resized_crop(24, scale=(0.01, 0.05)) | to(f32)",
    "random_resized_crop(200, scale=(0.9, 1)) | to(f16)",
    "resize(70) | center_crop(64) | normalize(clip) | to(f16)",
    "resize((50, 40)) | hflip(p=1) | to(f32, scale=false)",
    "center_crop(300) | normalize(imagenet) | to(f16)",     # black all around
    "hflip | to(u8)",
    *on_gpu.PIXEL_CHAINS,
]


def made(seed, *shape):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8))


def layouts(nchw):
    """The same batch as it may lie: planes, interleaved, parts of larger ones, rows at odd addresses."""
    n, c, h, w = nchw.shape
    odd = torch.zeros(n, c, h, w + 5, dtype=torch.uint8)
    odd[..., 3:-2] = nchw
    wide = torch.zeros(n, h, w + 1, c, dtype=torch.uint8)
    wide[:, :, 1:] = nchw.permute(0, 2, 3, 1)
    yield nchw.to(DEVICE)
    yield nchw.contiguous(memory_format=torch.channels_last).to(DEVICE)
    yield nchw.permute(0, 2, 3, 1).contiguous().to(DEVICE)
    yield odd.to(DEVICE)[..., 3:-2]
    yield wide.to(DEVICE)[:, :, 1:]
    yield torch.cat([nchw, nchw]).to(DEVICE)[:n]


def same(got, want):
    assert got.device.type == DEVICE and got.shape == want.shape and got.dtype == want.dtype
    assert got.stride() == want.stride()
    assert torch.equal(bits(got), bits(want))


@pytest.mark.parametrize("chain", CHAINS)
def test_chains_and_layouts(chain):
    for n, height, width in ((1, 64, 64), (7, 113, 75), (33, 96, 128)):
        nchw = made(on_gpu.SEED + n, n, 3, height, width)
        want = stoker.Transform(chain, seed=2)(nchw)
        for batch in layouts(nchw):
            same(stoker.Transform(chain, seed=2)(batch), want)
    gray = made(3, 5, 1, 60, 50)
    same(stoker.Transform(chain)(gray.to(DEVICE)), stoker.Transform(chain)(gray))


def test_lists_of_different_sizes():
    rng = random.Random(on_gpu.SEED)
    pictures = [made(i, 3, rng.randrange(1, 200), rng.randrange(1, 200)) for i in range(60)]
    there = [p.to(DEVICE) for p in pictures]
    same(stoker.Transform(CHAINS[0])(there), stoker.Transform(CHAINS[0])(pictures))
    for chain in ("resize(40) | hflip | to(u8)", "hflip | normalize(half) | to(f16, hwc)"):
        for got, want in zip(stoker.Transform(chain)(there), stoker.Transform(chain)(pictures), strict=True):
            same(got, want)


def test_large_pictures():
    """More scratch memory than one launch has."""
    batch = made(5, 26, 3, 1500, 2000)
    chain = "random_resized_crop(1024, scale=(0.8, 1)) | hflip | to(u8)"
    same(stoker.Transform(chain)(batch.to(DEVICE)), stoker.Transform(chain)(batch))


def test_the_loaders_pixels(tmp_path):
    pictures = [(f"{i}", "jpg", on_gpu.encoded(on_gpu.photo(i, 90 + i, 70 + i % 9), quality=90)) for i in range(24)]
    tar = on_gpu.write_pictures(tmp_path / "a.tar", pictures)
    whole = f"from(pic) | image(exact=true) | {CHAINS[0]}"
    [decoded] = stoker.Loader(tar, {"x": "from(pic) | image(exact=true) | to(u8)"}, batch_size=24,
                              collate={"x": "list"})
    loader = stoker.Loader(tar, {"x": whole}, batch_size=24, seed=8)
    augment = stoker.Transform(whole, seed=8)
    there = [torch.as_tensor(p).to(DEVICE) for p in decoded["x"]]
    for epoch in range(3):
        [batch] = loader
        augment.set_epoch(epoch)
        same(augment(there), batch["x"])


@pytest.mark.parametrize("side", [False, True])
def test_in_order_on_the_stream(side):
    """Input that is made late and overwritten at once, memory that torch uses again, and nothing waited for."""
    rng = random.Random(on_gpu.SEED)
    augment = stoker.Transform(CHAINS[3], seed=4)
    batches = [made(i, 16, 3, 80, 90) for i in range(8)]
    wants = [augment(b, positions=range(16)).to(DEVICE) for b in batches]
    sources = [b.to(DEVICE) for b in batches]
    streams = [on_gpu.side_stream() if side else None for _ in range(3)]
    verdict = on_gpu.Verdict()
    on_gpu.settle()
    for step in range(600):
        stream, k = streams[step % 3], rng.randrange(8)
        with on_gpu.on(stream):
            batch = torch.full_like(sources[k], 170)
            on_gpu.delay(rng)
            batch.copy_(sources[k])
            images = augment(batch, positions=range(16))
            batch.fill_(85)
            del batch
            wrong = (images != wants[k]).sum()
            images.fill_(3)
            del images
        on_gpu.meet(stream)
        if stream is not None:
            wrong.record_stream(torch.cuda.current_stream())
        verdict.equal(wrong, torch.zeros_like(wrong))
    verdict.check()


def test_positions_and_state():
    augment, cpu = stoker.Transform(CHAINS[0], seed=9), stoker.Transform(CHAINS[0], seed=9)
    for i in range(4):
        batch = made(i, 5 + i, 3, 50, 60)
        same(augment(batch.to(DEVICE)), cpu(batch))
    assert augment.state_dict() == cpu.state_dict() == {"epoch": 0, "position": 26}


@pytest.mark.real_gpu
def test_errors():
    batch = made(0, 2, 3, 40, 40).cuda()
    augment = stoker.Transform(CHAINS[0])
    for given, said in ((batch.float(), "the batch is float32"), (batch[:, :2], "3 channels"), (batch[0], "four dimensions"),
                        ([batch[0], batch[1].cpu()], "picture 1 is on the CPU and picture 0 on cuda:0")):
        with pytest.raises(stoker.StokerError, match=said):
            augment(given)
    with pytest.raises(NotImplementedError, match="256 times"):
        stoker.Transform("resize((8, 8)) | to(u8)")(torch.zeros(1, 3, 3000, 4, dtype=torch.uint8, device="cuda"))
    same(augment(batch), stoker.Transform(CHAINS[0])(batch.cpu()))      # and works on
