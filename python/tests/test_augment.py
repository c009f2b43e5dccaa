# SPDX-License-Identifier: Apache-2.0
"""Ops that change pixels: in loaders and transforms alike, on pictures of any size, refused in one line."""

import io

import numpy as np
import pytest
from conftest import picture, write_tar

import stoker

SIZES = [(80, 60), (61, 47), (24, 24), (33, 90), (200, 31), (40, 40), (77, 78), (25, 120)]
JITTER = "color_jitter(0.4, 0.4, 0.4, 0.1)"
OPS = [                                         # each op of its own, always done
    "brightness((0.5, 1.5))", "contrast((0.5, 1.5))", "saturation((0, 2))", "hue(0.5)", JITTER, "grayscale(p=1)",
    "solarize((0, 256), p=1)", "posterize((0, 8), p=1)", "autocontrast(p=1)", "equalize(p=1)", "invert(p=1)",
    "channel_shuffle", "hsv", "gaussian_blur(9)", "gaussian_blur((3, 23), sigma=(1, 9))", "sharpness((0, 3), p=1)",
    "gaussian_noise(sigma=(0, 0.3))", "random_erasing(p=1)", "random_erasing(p=1, value=random)", "jpeg_artifacts((1, 100))", "rand_augment(3, 20)",
    "timm_rand_augment(9)", "timm_auto_augment(v0)", "timm_augmix(3)", "rand_augment(interpolation=bilinear, fill=(1, 2, 3))", "trivial_augment", "auto_augment(imagenet)", "auto_augment(cifar10)",
    "auto_augment(svhn)", f"random_apply({JITTER} | hflip, p=0.5)", "one_of(invert(p=1), equalize(p=1) | grayscale(p=1))",
]


@pytest.fixture(scope="module")
def pictures():
    return [np.asarray(picture(i, *size)) for i, size in enumerate(SIZES)]


@pytest.fixture(scope="module")
def tar(tmp_path_factory):
    members = []
    for i, size in enumerate(SIZES):
        out = io.BytesIO()
        picture(i, *size).save(out, "PNG")
        members.append((f"{i:03d}.png", out.getvalue()))
    return str(write_tar(tmp_path_factory.mktemp("augment") / "a.tar", members))


def array(values):
    return np.asarray(values).copy()


@pytest.mark.asan
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("ops", [
    f"random_resized_crop(24) | hflip | {JITTER} | normalize(imagenet) | to(f32)",
    f"{JITTER} | center_crop(20) | resize((30, 17)) | solarize(100) | hflip | to(u8, hwc)",
    f"resize((19, 23)) | random_apply({JITTER} | hflip(p=1), p=0.5) | one_of(invert, equalize(p=1)) | to(f32)",
])
def test_the_loader_and_the_transform_make_the_same(tar, pictures, ops, workers):
    loader = stoker.Loader(tar, {"image": f"from(png) | image | {ops}"}, batch_size=8, seed=11, num_workers=workers)
    transform = stoker.Transform(f"from(png) | image | {ops}", seed=11)
    for epoch in range(3):
        transform.set_epoch(epoch)
        assert np.array_equal(array(transform(pictures)), array(next(iter(loader))["image"]))


@pytest.mark.asan
@pytest.mark.parametrize("op", OPS)
def test_pictures_of_any_size(op):
    for height, width in ((1, 1), (1, 5000), (5000, 1), (2, 2), (3, 7)):
        given = np.random.default_rng(3).integers(0, 256, (height, width, 3), dtype=np.uint8)
        made = array(stoker.Transform(f"{op} | to(u8, hwc)", seed=5)([given])[0])
        assert made.shape == (height, width, 3)


@pytest.mark.parametrize("op", OPS)
def test_draws_are_the_samples_own(op):
    """Not by the batch: two pictures in one call, or each in its own, are the same."""
    given = np.random.default_rng(4).integers(0, 256, (6, 9, 9, 3), dtype=np.uint8)
    t = stoker.Transform(f"{op} | to(u8, hwc)", seed=5, layout="hwc")
    together = array(t(given, positions=range(6)))
    for i in range(6):
        assert np.array_equal(together[i], array(t(given[i:i + 1], positions=[i]))[0])


@pytest.mark.parametrize("chain,says", [
    ("brightness(nan)", "brightness: `brightness` must be a number or a tuple of them"),
    ("brightness(-1)", "brightness: brightness=-1 is not in 0..99"),
    ("brightness((2, 1))", "brightness: brightness from 2 to 1: it must go up and be in 0..100"),
    ("hue(0.6)", "hue: hue=0.6 is not in 0..0.5"),
    ("color_jitter(0.4, p=1.5)", "color_jitter: p=1.5 is not in 0..1"),
    ("solarize(128, 1e999)", "solarize: p=inf is not in 0..1"),
    ("posterize(9)", "posterize: bits from 9 to 9: it must go up and be in 0..8"),
    ("gaussian_blur(4)", "gaussian_blur: kernel=4 is not an odd number of 1 to 127 pixels"),
    ("gaussian_blur(9, sigma=0)", "gaussian_blur: sigma from 0 to 0: it must go up and be in 0.01..100"),
    ("gaussian_noise(sigma=nan)", "gaussian_noise: `sigma` must be a number or a tuple of them"),
    ("random_erasing(value=300)", "random_erasing: value=300 is not in 0..255, which it is before normalize"),
    ("random_erasing(value=black)", "random_erasing: value is one number, three, `random` or `color`"),
    ("random_erasing(scale=(0.5, 2))", "random_erasing: scale from 0.5 to 2: it must go up and be in 0..1"),
    ("to(f32) | random_erasing", "random_erasing comes after `to`"),
    ("jpeg_artifacts(0)", "jpeg_artifacts: quality from 0 to 0: it must go up and be in 1..100"),
    ("rand_augment(17)", "rand_augment: n=17 is not in 0..16"),
    ("rand_augment(2, 31)", "rand_augment: m=31 is not in 0..30"),
    ("rand_augment(interpolation=bicubic)", "rand_augment: interpolation is nearest or bilinear, not bicubic"),
    ("auto_augment(coco)", "auto_augment: policy is imagenet, cifar10 or svhn, not coco"),
    ("normalize(imagenet) | invert", "invert comes after `normalize`: put it before"),
    ("to(f32) | invert", "invert comes after `to`: `to` must be the last of a chain"),
    ("random_apply(resize(8), p=0.5)", "random_apply: `resize` changes the size, and would not always run: put it outside"),
    ("random_apply(to(f32))", "random_apply: `to` does not work on pixels: put it outside"),
    ("one_of(nothing)", "no step is called `nothing`"),
    ("random_apply(int)", "random_apply: `int` does not work on pixels: put it outside"),
])
def test_one_line_says_what_is_wrong(chain, says):
    with pytest.raises(stoker.StokerError) as e:
        stoker.Transform(chain)
    assert says in str(e.value) and "\n" not in str(e.value)


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["f32", "f16", "f32, hwc", "f16, channels_last"])
def test_erasing_after_normalize_is_in_its_units(kind):
    given = np.random.default_rng(4).integers(0, 256, (8, 40, 30, 3), dtype=np.uint8)
    whole = array(stoker.Transform(f"normalize(imagenet) | to({kind})", layout="hwc")(given))
    for value, expect in (("(0.5, -1, 2)", (0.5, -1, 2)), ("random", None)):
        t = stoker.Transform(f"normalize(imagenet) | random_erasing(p=1, value={value}) | to({kind})", layout="hwc", seed=3)
        made = array(t(given))
        for a, b in zip(made, whole, strict=True):
            a, b = (a, b) if a.shape[-1] == 3 else (a.transpose(1, 2, 0), b.transpose(1, 2, 0))
            changed = (a != b).any(axis=2)
            ys, xs = np.nonzero(changed)
            inside = np.zeros_like(changed)
            inside[ys.min():ys.max() + 1, xs.min():xs.max() + 1] = True
            assert 0.015 < inside.mean() < 0.35 and (a[~inside] == b[~inside]).all()
            if expect:
                assert np.array_equal(a[inside], np.broadcast_to(np.array(expect, a.dtype), a[inside].shape))
            else:
                assert abs(a[inside].mean()) < 0.5 and 0.6 < a[inside].std() < 1.4


def test_geometry_and_pixels_may_take_turns_only_so_often():
    turns = " | ".join(["invert(p=1) | hflip(p=1)"] * 4)
    with pytest.raises(stoker.StokerError, match="take turns too often"):
        stoker.Transform(f"{turns} | to(u8)")(np.zeros((1, 8, 8, 3), np.uint8))


def test_builders_write_the_same_chains():
    built = stoker.image().random_apply(stoker.chains.Chain().color_jitter(0.8, hue=0.2), p=0.8).one_of(
        stoker.chains.Chain().invert(), stoker.chains.Chain().equalize(p=1), p=0.5)
    assert str(built) == "image | random_apply(color_jitter(0.8, hue=0.2), p=0.8) | one_of(invert(), equalize(p=1), p=0.5)"


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["f32", "f16", "f32, layout=hwc"])
@pytest.mark.parametrize("value", ["0", "1.5", "random"])
def test_gray_is_erased_in_the_units_of_normalize(tar, value, kind):
    """The one channel of a gray picture has the values of the first of three."""
    ops = f"random_crop(20) | normalize((0.3, 0.3, 0.3), (0.2, 0.2, 0.2)) | random_erasing(1, scale=(0.2, 0.3), value={value}) | to({kind})"
    one, gray = ((stoker.Loader(tar, {"x": f"from(png) | image(mode=gray) | {steps}"}, batch_size=8, seed=3)) for steps in (ops, "random_crop(20)"))
    with one, gray:
        made, pixels = array(next(iter(one))["x"]), array(next(iter(gray))["x"])
    whole = stoker.Transform(f"from(png) | {ops}".replace("random_crop(20)", "image | hflip(0)"), seed=3)
    three = array(whole(np.repeat(pixels.transpose(0, 2, 3, 1), 3, 3)))
    assert np.array_equal(made, three[..., :1] if "hwc" in kind else three[:, :1])
