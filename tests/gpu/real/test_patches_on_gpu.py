# SPDX-License-Identifier: Apache-2.0
"""Pictures of any size on the GPU: cut into patches, padded, packed, in buckets.  The bits, shapes and what stands beside them are the CPU's."""

import on_gpu
import pytest
import stoker
from on_gpu import bits, options

torch = pytest.importorskip("torch")

FIT = "resize_to_patches(16, max_patches=100)"
QWEN = "resize_to_patches(14, merge=2, min_pixels=3136, max_pixels=50176)"
BLOCKS = "patches(14, order=blocks, frames=2, channels=first)"

PILLOW = "interpolation=bicubic, exact=pillow"

CASES = [
    # exactly Pillow's: across first, down first, either by what is drawn, of a tile that was changed; and torchvision's
    ("resize_to_patches(naflex, max_patches=100) | hflip | normalize(imagenet) | patches(16) | to(f16)", {"collate": {"image": "pack"}}),
    (f"resize((32, 400), {PILLOW}) | hflip | patches(16) | to(u8)", {}),
    (f"resize((48, 300), {PILLOW}) | color_jitter(0.4) | normalize(half) | to(f32)", {}),
    ("random_resized_crop_to_patches(naflex, max_patches=90, ratio=(0.2, 5), interpolation=random) | hflip | normalize(half) | patches(16) | to(bf16)", {"collate": {"image": "pad"}}),
    (f"random_resized_crop(90) | contrast(0.5) | resize((20, 80), {PILLOW}) | vflip | sharpness(2, p=1) | resize((50, 50), interpolation=lanczos, exact=pillow) | to(u8, hwc)", {}),
    ("resize_to_patches(qwen2_vl, max_pixels=50176) | normalize(clip) | patches(qwen2_vl) | to(bf16)", {"collate": {"image": "pack"}}),
    ("resize((40, 300), exact=torchvision) | to(u8)", {}),
    (f"{FIT} | hflip | normalize(imagenet) | patches(16) | to(f16)", {"collate": {"image": "pack"}}),
    (f"{FIT} | hflip | normalize(imagenet) | patches(16) | to(bf16)", {"collate": {"image": "pad"}}),
    (f"{FIT} | patches(16, channels=first) | to(f32)", {"collate": {"image": ("pad", 0, 100)}}),
    (f"{FIT} | patches(16) | to(u8)", {"collate": {"image": ("pad", 114)}}),
    (f"{QWEN} | normalize(clip) | {BLOCKS} | to(bf16)", {"collate": {"image": "pack"}}),
    (f"{QWEN} | color_jitter(0.4, 0.4, 0.2, 0.1) | gaussian_blur(5, p=0.5) | normalize(clip) | random_erasing(p=0.5) | {BLOCKS} | to(f16)", {"collate": {"image": "pack"}}),
    ("random_resized_crop_to_patches(8, max_patches=90) | color_jitter(0.4) | normalize(half) | patches(8, order=blocks, block=1) | to(f32)", {"collate": {"image": "pad"}}),
    ("random_resized_crop((64, 96)) | normalize(half) | patches(16) | to(f16)", {}),
    (f"{FIT} | normalize(half) | patches(16) | to(f16)", {"collate": {"image": "pack"}, "max_tokens": 900}),
    (f"{FIT} | normalize(half) | patches(16) | to(f16)", {"collate": {"image": "pad"}, "max_tokens": 1024, "schedule": ((16, 100), (8, 256))}),
    ("resize(50) | hflip | normalize(imagenet) | to(f16)", {"collate": {"image": "pad"}}),
    ("resize(41) | color_jitter(0.4) | gaussian_blur(5) | to(u8, hwc)", {"collate": {"image": ("pad", 9, 32)}}),
    ("resize_to_bucket(area=4096, step=16, least=32, most=128) | normalize(half) | to(bf16)", {"bucket": True}),
]


@pytest.fixture(scope="module")
def tar(tmp_path_factory):
    return on_gpu.write_pictures(tmp_path_factory.mktemp("patches") / "a.tar", on_gpu.every_kind())


def same_beside(want, got, packed):
    if "image" in want.grid:
        assert torch.equal(torch.as_tensor(got.grid["image"]).cpu(), torch.as_tensor(want.grid["image"]))
        assert torch.equal(torch.as_tensor(got.coords("image")).cpu(), torch.as_tensor(want.coords("image")))
    if "image" in want.offsets:
        assert torch.equal(torch.as_tensor(got.offsets["image"]).cpu(), torch.as_tensor(want.offsets["image"]))
    if "image" in want.lengths and not packed:
        assert torch.equal(torch.as_tensor(got.mask("image")).cpu(), torch.as_tensor(want.mask("image")))


@pytest.mark.parametrize("bare", [False, True], ids=["seek points", "no seek points"])
@pytest.mark.parametrize(("chain", "how"), CASES)
def test_same_bits(tar, chain, how, bare):
    fields = {"image": f"from(pic) | image | {chain}", "label": "from(cls) | int"}
    how = {"shuffle": True, "seed": on_gpu.SEED, **({} if "max_tokens" in how else {"batch_size": 16}), **how}
    cpu = stoker.Loader(stoker.open(tar, jpeg=not bare), fields, **how)
    gpu = stoker.Loader(stoker.open(tar, jpeg=not bare), fields, **how, **options())
    for want, got in zip(cpu, gpu, strict=True):
        assert torch.as_tensor(got.sample_ids).cpu().tolist() == want.sample_ids.tolist()
        a, b = want["image"], got["image"]
        assert b.device.type == on_gpu.DEVICE
        assert a.shape == b.shape and a.dtype == b.dtype
        assert torch.equal(bits(a), bits(b)), chain
        same_beside(want, got, how.get("collate") == {"image": "pack"})
    if not on_gpu.DRY:
        assert gpu.stats()["gpu"]["jpegs"] > 0      # it was the GPU that decoded
    cpu.close()
    gpu.close()


@pytest.mark.parametrize(("chain", "collate"), [
    ("resize_to_patches(16, max_patches=80) | hflip | normalize(half) | patches(16) | to(f16)", "pack"),
    ("resize_to_patches(14, merge=2, min_pixels=3136, max_pixels=50176) | normalize(clip) | patches(qwen2_vl) | to(bf16)", "pad"),
    ("random_resized_crop((48, 40)) | color_jitter(0.4) | normalize(half) | to(f32)", "pad"),
])
def test_several_pictures_of_a_sample(tmp_path, chain, collate):
    members, k = [], 0
    for sample in range(24):
        for i in range(sample * 7 % 5):
            members.append((f"{sample:05d}.{i}.jpg", on_gpu.encoded(on_gpu.photo(k, 60 + 31 * k % 300, 70 + 17 * k % 200), quality=90)))
            k += 1
        members.append((f"{sample:05d}.cls", b"3"))
    tar = str(on_gpu.write_tar(tmp_path / "several.tar", members))
    how = {"batch_size": 6, "shuffle": True, "seed": on_gpu.SEED, "collate": {"image": collate}}
    fields = {"image": f"from(jpg) | pictures | {chain}", "label": "from(cls) | int"}
    cpu, gpu = stoker.Loader(tar, fields, **how), stoker.Loader(tar, fields, **how, **options())
    for want, got in zip(cpu, gpu, strict=True):
        assert want["image"].shape == got["image"].shape
        assert torch.equal(bits(want["image"]), bits(got["image"])), chain
        assert torch.equal(torch.as_tensor(got.pictures["image"]).cpu(), torch.as_tensor(want.pictures["image"]))
        if "image" in want.grid:
            assert torch.equal(torch.as_tensor(got.grid["image"]).cpu(), torch.as_tensor(want.grid["image"]))
            assert torch.equal(torch.as_tensor(got.offsets["image"]).cpu(), torch.as_tensor(want.offsets["image"]))
    if not on_gpu.DRY:
        assert gpu.stats()["gpu"]["jpegs"] > 0
    cpu.close()
    gpu.close()


@pytest.mark.real_gpu
def test_kept_on_the_gpu(tmp_path):
    tar = on_gpu.write_pictures(tmp_path / "kept.tar", [("jpeg", "jpg", on_gpu.encoded(on_gpu.photo(k, 500 + 8 * k, 400 + 12 * k), "JPEG", quality=90)) for k in range(24)])
    fields = {"image": "from(pic) | image | random_resized_crop_to_patches(16, max_patches=100) | hflip | patches(16) | to(f16)"}
    how = {"batch_size": 8, "shuffle": True, "seed": 1, "collate": {"image": "pack"}}
    cpu = stoker.Loader(stoker.open(tar, jpeg=True), fields, **how)
    gpu = stoker.Loader(stoker.open(tar, jpeg=True), fields, **how, device="cuda", cache="device", device_cache_limit="64MB")
    for _ in range(3):
        for want, got in zip(cpu, gpu, strict=True):
            assert torch.equal(bits(want["image"]), bits(got["image"]))
    assert gpu.stats()["gpu"]["cache"]["hits"] > 0
    cpu.close()
    gpu.close()
