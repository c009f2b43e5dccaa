# SPDX-License-Identifier: Apache-2.0
"""Chain.from_transform(): what torchvision, timm and Albumentations do, as a chain.

Objects with the classes' names and attributes (of torchvision 0.28.0, timm 1.0.30, Albumentations 2.0.8) are always tried.
The packages themselves are in a process of their own (transform_recipes.py): PyPI's torchvision does not load with a CPU
build of torch, and others try to load it wherever it is.
"""

import enum
import json
import os
import subprocess
import sys
import types

import pytest
import transform_recipes
from conftest import as_numpy

import stoker

f = stoker.Chain.from_transform
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


class Mode(enum.Enum):
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    NEAREST = "nearest"
    BOX = "box"


def tv(name, module="torchvision.transforms.transforms", **attributes):
    return type(name, (), {"__module__": module, **attributes})()


def al(name, p=1.0, **attributes):
    return tv(name, "albumentations.augmentations.x", p=p, **attributes)


def rrc(size=224, scale=(0.08, 1.0), mode=Mode.BILINEAR):
    return tv("RandomResizedCrop", size=(size, size), scale=scale, ratio=(3 / 4, 4 / 3), interpolation=mode, antialias=True)


NORMALIZE = tv("Normalize", **IMAGENET)


@pytest.mark.parametrize("given, chain", [
    ([rrc(), tv("RandomHorizontalFlip", p=0.5), tv("ToTensor"), NORMALIZE], "random_resized_crop(224) | hflip(p=0.5) | normalize(imagenet) | to(f32)"),
    (rrc(192, (0.2, 1.0), Mode.BICUBIC), "random_resized_crop(192, scale=(0.2, 1), interpolation=bicubic)"),
    ([tv("Resize", size=256, interpolation=Mode.BILINEAR, max_size=None, antialias=True), tv("CenterCrop", size=(224, 224))], "resize(256) | center_crop(224)"),
    (tv("Resize", size=[256, 320], interpolation=Mode.NEAREST, max_size=None, antialias=False), "resize((256, 320), interpolation=nearest, antialias=false)"),
    (tv("ColorJitter", brightness=(0.6, 1.4), contrast=(0.6, 1.4), saturation=(0.6, 1.4), hue=(-0.1, 0.1)), "color_jitter(0.4, 0.4, 0.4, 0.1)"),
    (tv("ColorJitter", brightness=(0.5, 1.2), contrast=None, saturation=None, hue=None), "color_jitter((0.5, 1.2))"),
    (tv("ColorJitter", brightness=(0.0, 2.5), contrast=None, saturation=None, hue=None), "color_jitter(1.5)"),
    (tv("RandomApply", transforms=[tv("Grayscale", num_output_channels=3)], p=0.8), "random_apply(grayscale(p=1), p=0.8)"),
    (tv("RandomChoice", transforms=[tv("RandomInvert", p=1.0), tv("RandomEqualize", p=1.0)], p=[0.5, 0.5]), "one_of(invert(p=1), equalize(p=1))"),
    (tv("RandomCrop", size=(32, 32), padding=4, pad_if_needed=False, fill=0, padding_mode="constant"), "random_crop(32, padding=4)"),
    (tv("RandomRotation", degrees=[-30.0, 30.0], interpolation=Mode.NEAREST, expand=False, center=None, fill=0), "rotate(30)"),
    (tv("RandomRotation", degrees=[30.0, 30.0], interpolation=Mode.BILINEAR, expand=False, center=None, fill=0), "rotate((30, 30), interpolation=bilinear)"),
    (tv("RandAugment", num_ops=2, magnitude=9, num_magnitude_bins=31, interpolation=Mode.NEAREST, fill=None), "rand_augment(2, 9)"),
    ([NORMALIZE, tv("RandomErasing", p=0.25, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=0)], "normalize(imagenet) | random_erasing(0.25) | to(f32)"),
    ([tv("ToImage"), tv("ToDtype", dtype="torch.float16", scale=True)], "to(f16)"), (tv("PILToTensor"), ""),
    ([al("RandomResizedCrop", size=(224, 224), scale=(0.08, 1.0), ratio=(0.75, 4 / 3), interpolation=2), al("HorizontalFlip", 0.5)],
     "random_resized_crop(224, scale=(0.08, 1), ratio=(0.75, 1.3333333333333333), antialias=false, interpolation=bicubic) | hflip(p=0.5)"),
    (al("ColorJitter", 0.8, brightness=(0.8, 1.2), contrast=(0.8, 1.2), saturation=(0.8, 1.2), hue=(0, 0)), "random_apply(color_jitter(0.2, 0.2, 0.2), p=0.8)"),
    ([al("Normalize", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), max_pixel_value=255.0), al("ToTensorV2")], "normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)) | to(f32)"),
    (al("OneOf", 0.5, transforms=[al("ToGray", 1.0), al("InvertImg", 1.0)]), "one_of(grayscale(p=1), invert(p=1), p=0.5)"),
    (al("Solarize", 0.5, threshold_range=(0.5, 0.5)), "solarize(127.5, p=0.5)"),
    ([al("Compose", transforms=[al("HorizontalFlip", 0.5)])], "hflip(p=0.5)"),
    (al("Compose", 0.3, transforms=[al("HorizontalFlip", 0.5)]), "random_apply(hflip(p=0.5), p=0.3)"),
    (al("OneOf", transforms=[al("HorizontalFlip", 0.5), al("VerticalFlip", 0.25), al("NoOp", 0.25)]), "one_of(hflip(p=1), hflip(p=1), vflip(p=1), hflip(p=0))"),
    (al("Posterize", 0.5, num_bits=(3, 5)), "posterize((3, 5), p=0.5)"),
    (tv("RandAugment", num_ops=3, magnitude=5, num_magnitude_bins=11, interpolation=Mode.NEAREST, fill=None), "rand_augment(3, 5, bins=11)"),
    (tv("TenCrop", size=(8, 8), vertical_flip=True), "ten_crop(8, vertical_flip=true)"), (tv("RandomApply", transforms=[tv("Identity")], p=0.5), ""),
    (tv("RandomChoice", transforms=[tv("Identity"), tv("RandomInvert", p=1.0)], p=[3, 1]), "one_of(hflip(p=0), hflip(p=0), hflip(p=0), invert(p=1))"),
])
def test_translation(given, chain):
    made = f(given)
    assert str(made) == (f"image | {chain}" if chain else "image")
    assert str(f(given, "jpg", "png")).startswith("from(jpg, png) | image")


@pytest.mark.parametrize("given, says", [
    (tv("Lambda", lambd=None), "Lambda has no equivalent in a chain: do it in a function"), (lambda x: x, "<lambda> has no equivalent"),
    (tv("RandomOrder", transforms=[tv("RandomInvert", p=1.0)] * 4), "write one order out"), (tv("MixUp", "torchvision.transforms.v2"), r"batch_ops=\[\"mixup"), (7, "int has no equivalent"),
    (tv("ElasticTransform"), "ElasticTransform has no equivalent"), (tv("Resize", size=8, interpolation=Mode.BOX), "Resize: the filter box is not one of"),
    (tv("RandomRotation", degrees=(0, 9), interpolation=Mode.NEAREST, expand=True, center=None), "RandomRotation: its expand=True"),
    (tv("Resize"), "Resize is not as this version knows it"), (al("CoarseDropout"), r"random_erasing\(p\) erases one box"),
    ([tv("ToTensor"), tv("RandomErasing", p=1.0, scale=(0.02, 0.33), ratio=(0.3, 3.3), value="random")], "RandomErasing: its value=.random. is normal noise"),
    ([tv("ToTensor"), NORMALIZE, tv("CenterCrop", size=8)], "CenterCrop comes after Normalize.*put it before"),
    (tv("RandomRotation", degrees=(0, 9), interpolation=Mode.BICUBIC, expand=False, center=None), "RandomRotation: rotate: interpolation is nearest or bilinear"),
    ([tv("ToImage"), tv("Resize", size=8, interpolation=Mode.NEAREST)], "Resize: tensors are resized with NEAREST.*NEAREST_EXACT"),
    (tv("RandomApply", transforms=[tv("ToTensor")], p=0.5), "RandomApply: what changes the type of pixels must not depend on chance"),
    (tv("RandomChoice", transforms=[tv("Identity")] * 2, p=[0.517, 0.483]), "RandomChoice: its choices have weights that are not simple shares"),
    (tv("GaussianNoise", mean=0.0, sigma=0.1, clip=False), "GaussianNoise: its clip=False"), (tv("Resize", size=None, max_size=8), "Resize: only its longer side"),
    (al("SafeRotate"), "SafeRotate has no equivalent"), (al("RandomCrop", 0.5, height=8, width=8), "RandomCrop: random_apply: `random_crop` changes the size"),
    (al("OneOf", transforms=[al("GaussianBlur", blur_limit=(3, 7), sigma_limit=(1, 1))]), "GaussianBlur: its blur_limit=.3, 7. draws"),
    (tv("ResizeKeepRatio", "timm.data.transforms", size=(8, 16), longest=0.0), "ResizeKeepRatio: it covers a box that is not square"),
    (tv("AutoAugment", "timm.data.auto_augment", policy=[]), "AutoAugment: its policy is none of v0, v0r, original, originalr and 3a"),
    (al("RandomResizedCrop", size=(8, 8), scale=(0.5, 1), ratio=(1, 1), interpolation=1, area_for_downscale="image"), "RandomResizedCrop: its area_for_downscale=image makes smaller"),
    (al("ColorJitter", brightness=(1, 1), contrast=(1, 1), saturation=(1, 1), hue=(-0.1, 0.1)), r"ColorJitter: color_jitter\(.*\) is close, but OpenCV turns the hue of bytes in 180 steps"),
    (al("Rotate", limit=(-30, 30), interpolation=1, border_mode=0, crop_border=False, fill=0), "Rotate: rotate.* is close, but OpenCV places pixels in 32nds"),
    (al("Rotate", limit=(-30, 30), interpolation=0, border_mode=0, crop_border=False, fill=0), "Rotate: rotate.* is close, but some pixels are their neighbor's"),
    (al("CenterCrop", height=8, width=8), r"CenterCrop: center_crop\(.*\) is close, but the middle of an odd number of pixels may be one further: from_transform\(..., approximate=True\) takes it"),
    (tv("RandAugment", "timm.data.auto_augment", num_layers=2, ops=[types.SimpleNamespace(name="Invert", prob=0.5, magnitude=9, kwargs={})]), "RandAugment: its ops are none of timm's lists"),
    (tv("Grayscale", num_output_channels=1), r"image\(mode=gray\)"), ([rrc(), tv("RandomHorizontalFlop")], "RandomHorizontalFlop has no equivalent.*did you mean"),
])
def test_what_has_no_equivalent(given, says):
    with pytest.raises(stoker.StokerError, match=says) as e:
        f(given)
    assert e.value.code == "ENOTSUP" and "\n" not in str(e.value)


def test_a_translated_chain_loads(urls):
    chain = f([tv("Resize", size=[20, 24], interpolation=Mode.BILINEAR, max_size=None, antialias=True), tv("RandomHorizontalFlip", p=0.0), tv("ToTensor")], "jpg")
    with stoker.Loader(urls, {"image": chain}, batch_size=4) as loader, \
            stoker.Loader(urls, {"image": "from(jpg) | image | resize((20, 24)) | to(f32)"}, batch_size=4) as other:
        assert (as_numpy(next(iter(loader))["image"]) == as_numpy(next(iter(other))["image"])).all()


# ---- the packages themselves ---------------------------------------------------------------------

@pytest.fixture(scope="module")
def translated():
    """What the packages' own transforms become, by a process that has them."""
    child = subprocess.run([sys.executable, transform_recipes.__file__], capture_output=True, text=True, timeout=300, env={
        **os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "NO_ALBUMENTATIONS_UPDATE": "1"})
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout)


def test_published_recipes(urls, translated):
    """All of them translate, and run where this build has their ops."""
    made = translated[0]
    lacking = {name: why for name, (chain, why) in made.items() if not chain}
    assert set(made) == set(transform_recipes.RECIPES)
    for name, (chain, _) in made.items():
        print(name, chain or lacking[name])
        if name in lacking:
            continue
        with stoker.Loader(urls, {"image": chain}, batch_size=1, collate="list") as loader:
            assert as_numpy(next(iter(loader))["image"][0]).ndim == 3, name
    if lacking:
        pytest.skip(f"{len(made) - len(lacking)} of {len(made)} translated and run; not installed (make setup): {lacking}")


def test_timms_recipes_as_timm_does_them(translated):
    """No step is approximated: timm's ops, noise, fill, filters and counts."""
    if not translated[0]["timm default"][0]:
        pytest.skip(translated[0]["timm default"][1])
    for name, (crop, policy, erasing) in transform_recipes.TIMM.items():
        chain = translated[0][name][0]
        steps = chain.removeprefix("from(jpg) | image | ").split(" | ")
        assert steps[:3] == [crop, "hflip(p=0.5)", policy] and steps[4:-1] == [erasing] * bool(erasing), chain


def test_what_is_refused_says_why(translated):
    lacking = [expression for expression, said in translated[2].items() if said is None]
    wrong = {expression: said for expression, said in translated[2].items() if said is not None and transform_recipes.REFUSED[expression] not in said}
    assert not wrong
    if lacking:
        pytest.skip(f"not installed: {lacking}")


def test_close_is_taken_when_asked_for(caplog):
    with caplog.at_level("WARNING"):
        assert str(stoker.Chain.from_transform(al("CenterCrop", height=8, width=8), approximate=True)) == "image | center_crop((8, 8))"
    assert any("one further" in line for line in caplog.messages)


def test_the_same_pixels(translated):
    """Transforms that leave nothing to chance make what their chain makes."""
    fixed = translated[1]
    assert set(fixed) == set(transform_recipes.FIXED)
    lacking = {name: why for name, (chain, why) in fixed.items() if not chain}
    wrong = {name: (chain, off) for name, (chain, off) in fixed.items() if chain and not (isinstance(off, float) and off <= transform_recipes.FIXED[name])}
    assert not wrong
    if lacking:
        pytest.skip(f"{len(fixed) - len(lacking)} of {len(fixed)} compared; not installed (make setup): {lacking}")
