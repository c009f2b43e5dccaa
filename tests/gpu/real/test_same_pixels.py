# SPDX-License-Identifier: Apache-2.0
"""device="cuda" gives the pixels of device="cpu", bit for bit: every kind of picture, chain, type and layout."""

import numpy as np
import on_gpu
import pytest
import stoker
from on_gpu import bits, options
from PIL import Image

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
    "center_crop(90) | to(u8)",
]


@pytest.fixture(scope="module")
def tar(tmp_path_factory):
    return on_gpu.write_pictures(tmp_path_factory.mktemp("pixels") / "a.tar", on_gpu.every_kind())


def compare(tar, fields, batch_size=16, epochs=1, **more):
    jpeg = not more.pop("bare", False)          # seek points in the index, for whoever opens it from here on
    how = {"batch_size": batch_size, "shuffle": True, "seed": on_gpu.SEED, "batch_ops": more.pop("batch_ops", None)}
    cpu = stoker.Loader(stoker.open(tar, jpeg=jpeg), fields, **how)
    gpu = stoker.Loader(stoker.open(tar, jpeg=jpeg), fields, **how, **options(**more))
    for _ in range(epochs):
        for want, got in zip(cpu, gpu, strict=True):
            assert torch.as_tensor(got.sample_ids).cpu().tolist() == want.sample_ids.tolist()
            for name in want:
                a, b = want[name], got[name]
                assert isinstance(b, torch.Tensor) and b.device.type == on_gpu.DEVICE
                assert a.shape == b.shape and a.dtype == b.dtype and a.stride() == b.stride()
                if not torch.equal(bits(a), bits(b)):
                    bad = [i for i in range(len(a)) if not torch.equal(bits(a[i]), bits(b[i]))]
                    pytest.fail(f"{name}: rows {bad} differ: {[want.sample_keys[i] for i in bad]}")
    stats = gpu.stats()
    cpu.close()
    gpu.close()
    return stats


@pytest.mark.parametrize("chain", CHAINS)
def test_chains(tar, chain):
    compare(tar, {"image": f"from(pic) | image | {chain}", "label": "from(cls) | int"})


@pytest.mark.parametrize("chain", on_gpu.PIXEL_CHAINS)
def test_chains_that_change_pixels(tar, chain):
    stats = compare(tar, {"image": f"from(pic) | image | {chain}", "label": "from(cls) | int"}, epochs=1 if on_gpu.DRY else 3)
    if not on_gpu.DRY:
        assert stats["gpu"]["jpegs"] > 0       # it was the GPU that decoded, and went on


@pytest.mark.parametrize("lane", ["gpu", "cpu"])
def test_lanes_of_changed_pixels(tar, lane):
    compare(tar, {"image": f"from(pic) | image | {on_gpu.PIXEL_CHAINS[0]}"}, decode=lane, epochs=2)


@pytest.mark.parametrize("chain", [
    "views(3) | random_resized_crop(31, interpolation=bicubic) | hflip | normalize(half) | to(f16)",
    "views(2) | random_resized_crop(40) | color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8) | gaussian_blur(9, p=0.5) | solarize(128, p=0.2) | "
    "normalize(half) | random_erasing(p=0.5) | to(f32)",
    "resize((40, 50)) | ten_crop(24) | to(u8, hwc)",
])
def test_views(tar, chain):
    stats = compare(tar, {"image": f"from(pic) | image | {chain}"}, epochs=1 if on_gpu.DRY else 3)
    if not on_gpu.DRY:
        assert stats["gpu"]["jpegs"] > 0


@pytest.mark.parametrize("ops", [
    ["mixup_cutmix(image, label)"],
    ["mixup(image, label, mode=pair)", "label_smoothing(label, 0.1)"],
    ["cutmix(image, label, mode=elem)", "mixup(image, label, p=0.5, mode=elem)"],
])
@pytest.mark.parametrize("kind", ["f16", "bf16, channels_last", "f32"])
def test_mixed_batches(tar, ops, kind):
    compare(tar, {"image": f"from(pic) | image | random_resized_crop(48) | hflip | hue(0.1) | normalize(imagenet) | to({kind})",
                  "label": "from(cls) | int | one_hot(1000)"}, batch_ops=ops, epochs=1 if on_gpu.DRY else 3)


@pytest.mark.parametrize("lane", ["gpu", "cpu"])
def test_lanes(tar, lane):
    compare(tar, {"image": f"from(pic) | image | {CHAINS[0]}"}, decode=lane)


@pytest.mark.parametrize("head", ["image(exact=true)", "image(exif=true)"])
def test_heads(tar, head):
    compare(tar, {"image": f"from(pic) | {head} | {CHAINS[0]}"})


@pytest.mark.parametrize("jpeg", [False, True], ids=["no seek points", "seek points"])
def test_with_and_without_seek_points(tmp_path, jpeg):
    tar = on_gpu.write_pictures(tmp_path / "b.tar", on_gpu.every_kind(seed=on_gpu.SEED + 1))
    stats = compare(tar, {"image": f"from(pic) | image | {CHAINS[0]}"}, epochs=2, bare=not jpeg)
    if not on_gpu.DRY:
        assert stats["gpu"]["jpegs"] > 0       # it was the GPU that decoded


def test_several_outputs_of_one_picture(tar):
    compare(tar, {"a": f"from(pic) | image | {CHAINS[0]}", "b": f"from(pic) | image | {CHAINS[4]}",
                  "c": f"from(pic) | image | {CHAINS[8]}"})


@pytest.mark.parametrize("bare", [False, True], ids=["seek points", "no seek points"])
def test_views_and_outputs_share_one_decode(tmp_path, bare):
    pictures = [p for p in on_gpu.every_kind(seed=on_gpu.SEED + 2) if p[0].startswith("jpeg") and "restart" not in p[0] and "progressive" not in p[0]]
    tar = on_gpu.write_pictures(tmp_path / "dino.tar", pictures)
    crop = "random_resized_crop({}, scale={}, interpolation=bicubic) | hflip | color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8)"
    stats = compare(tar, {"global": f"from(pic) | image | views(2) | {crop.format(64, (0.32, 1))} | gaussian_blur(9, p=0.5) | normalize(imagenet) | to(f16)",
                          "local": f"from(pic) | image | views(8) | {crop.format(24, (0.05, 0.32))} | normalize(imagenet) | to(f16)",
                          "plain": "from(pic) | image | resize((40, 40)) | to(u8)"}, prefetch=2, bare=bare)
    if not on_gpu.DRY:
        assert len(pictures) <= stats["gpu"]["jpegs"] < 2 * len(pictures)      # one epoch, and what was made ahead


def mask(seed, w, h):
    """A palette PNG."""
    picture = on_gpu.photo(seed, w, h).quantize(13)
    return on_gpu.encoded(picture, "PNG")


@pytest.mark.skipif("libspng none" in stoker.build_info(), reason="palette PNGs need libspng")
@pytest.mark.parametrize("fields", [
    {"image": "from(jpg) | image | random_resized_crop(64) | hflip | color_jitter(0.4, 0.4, 0.4) | normalize(imagenet) | to(f16)",
     "index": "from(png) | image(mode=index) | like(image) | to(i64)", "gray": "from(jpg) | image(mode=gray) | like(image) | to(f32)"},
    {"image": "from(jpg) | image | views(2) | random_resized_crop(40) | rotate(20) | hue(0.2) | to(u8, hwc)",
     "index": "from(png) | image(mode=index) | like(image, fill=255) | to(u8)"},
    {"gray": "from(jpg) | image(mode=gray) | random_resized_crop(33) | hflip | normalize(half) | to(f16)",
     "index": "from(png) | image(mode=index) | resize((31, 20), interpolation=nearest) | to(i32)"},
    {"gray": "from(jpg) | image(mode=gray) | views(3) | random_resized_crop(33) | to(u8)"},
    {"image": "from(jpg) | image | random_resized_crop(40, interpolation=bicubic) | rotate(20) | color_jitter(0.4) | to(u8)",
     "same": "from(jpg) | image | like(image) | to(u8)", "smooth": "from(jpg) | image | like(image, interpolation=bilinear, fill=(1, 2, 3)) | normalize(half) | to(f16)",
     "depth": "from(deep) | image(mode=gray16) | like(image) | to(f32)", "number": "from(deep) | image(mode=gray16) | like(image, interpolation=nearest) | to(i64)"},
    {"image": "from(jpg) | image | views(2) | random_crop(32, padding=8, fill=(9, 8, 7)) | affine(20, interpolation=bilinear, fill=99) | to(u8)",
     "same": "from(jpg) | image | like(image) | to(u8)", "depth": "from(deep) | image(mode=gray16) | like(image)", "eight": "from(deep) | image(bits=8) | like(image) | to(u8)"},
])
def test_one_channel(tmp_path, fields):
    members, rng = [], np.random.default_rng(on_gpu.SEED)
    for i in range(40):
        w, h = 60 + i * 7 % 100, 50 + i * 11 % 90
        deep = Image.fromarray(rng.integers(0, 65536, (h, w), dtype=np.uint16))
        members += [(f"{i:03d}.jpg", on_gpu.encoded(on_gpu.photo(i, w, h), quality=85)), (f"{i:03d}.png", mask(i, w, h)),
                    (f"{i:03d}.deep", on_gpu.encoded(deep, "PNG"))]
    tar = str(on_gpu.write_tar(tmp_path / "masks.tar", members))
    for lane in (None, "cpu"):
        compare(tar, fields, decode=lane, epochs=2)


@pytest.mark.parametrize("batch_size", [1, 7, 64, 1000])
def test_batch_sizes(tar, batch_size):
    compare(tar, {"image": f"from(pic) | image | {CHAINS[0]}"}, batch_size=batch_size, epochs=2)


def test_thousands_of_views(tar):
    compare(tar, {"image": "from(pic) | image | random_resized_crop(32) | hflip | to(u8)"}, batch_size=64, epochs=40)


def test_exif_turns(tmp_path):
    pictures = []
    for turn in range(1, 9):
        picture = on_gpu.photo(turn, 90, 60)
        exif = picture.getexif()
        exif[0x112] = turn
        pictures.append((f"turn {turn}", "jpg", on_gpu.encoded(picture, quality=90, exif=exif.tobytes())))
    tar = on_gpu.write_pictures(tmp_path / "turns.tar", pictures)
    compare(tar, {"image": "from(pic) | image(exif=true) | random_resized_crop(32) | to(f16)"}, batch_size=8, epochs=4)


def test_bad_pictures_stand_in_for_each_other_alike(tmp_path):
    """What skips and what is put in a bad picture's place does not depend on where pictures are decoded."""
    pictures = on_gpu.every_kind(rounds=1)
    for i in (3, 9, 11):
        name, ext, data = pictures[i]
        pictures[i] = name, ext, data[:len(data) // 2] if i != 9 else b"\xff\xd8 nothing"
    tar = on_gpu.write_pictures(tmp_path / "bad.tar", pictures)
    how = {"batch_size": 5, "seed": 1, "on_error": "skip"}
    fields = {"image": f"from(pic) | image | {CHAINS[0]}"}
    for want, got in zip(stoker.Loader(tar, fields, **how), stoker.Loader(tar, fields, **how, **options()), strict=True):
        assert torch.as_tensor(got.valid).cpu().tolist() == want.valid.tolist()
        assert torch.equal(bits(got["image"]), bits(want["image"]))
    with pytest.raises(stoker.StokerError) as said:
        list(stoker.Loader(tar, fields, batch_size=5, **options()))
    assert said.value.key or said.value.shard


def test_transform_is_the_loader_on_the_device(tar):
    """Transform of a batch on the GPU is that of the same batch on the CPU."""
    batch = torch.randint(0, 256, (32, 3, 80, 100), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    want = stoker.Transform(CHAINS[0], seed=3)(batch)
    assert torch.equal(bits(stoker.Transform(CHAINS[0], seed=3)(batch.to(on_gpu.DEVICE))), bits(want))
