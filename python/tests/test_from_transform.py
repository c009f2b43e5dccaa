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
    (al("ColorJitter", 0.8, brightness=(0.8, 1.2), contrast=(0.8, 1.2), saturation=(0.8, 1.2), hue=(-0.5, 0.5)), "random_apply(color_jitter(0.2, 0.2, 0.2, 0.5), p=0.8)"),
    ([al("Normalize", mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), max_pixel_value=255.0), al("ToTensorV2")], "normalize((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)) | to(f32)"),
    (al("OneOf", 0.5, transforms=[al("ToGray", 1.0), al("Equalize", 1.0)]), "one_of(grayscale(p=1), equalize(p=1), p=0.5)"),
    (al("Solarize", 0.5, threshold_range=(0.5, 0.5)), "solarize(128, p=0.5)"),
])
def test_translation(given, chain):
    made = f(given)
    assert str(made) == (f"image | {chain}" if chain else "image")
    assert str(f(given, "jpg", "png")).startswith("from(jpg, png) | image")


@pytest.mark.parametrize("given, says", [
    (tv("Lambda", lambd=None), "Lambda has no equivalent in a chain: do it in a function"), (lambda x: x, "<lambda> has no equivalent"),
    (tv("RandomOrder", transforms=[]), "write the order out"), (tv("MixUp", "torchvision.transforms.v2"), r"batch_ops=\[\"mixup"), (7, "int has no equivalent"),
    (tv("ElasticTransform"), "ElasticTransform has no equivalent"), (tv("Resize", size=8, interpolation=Mode.BOX), "Resize: the filter box is not one of"),
    (tv("RandomRotation", degrees=(0, 9), interpolation=Mode.NEAREST, expand=True, center=None), "RandomRotation: its expand=True"),
    (tv("Resize"), "Resize is not as this version knows it"), (al("CoarseDropout"), r"random_erasing\(p\) erases one box"),
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

def test_published_recipes(urls):
    """All of them translate, and run where this build has their ops."""
    child = subprocess.run([sys.executable, transform_recipes.__file__], capture_output=True, text=True, timeout=300, env={
        **os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "NO_ALBUMENTATIONS_UPDATE": "1"})
    assert child.returncode == 0, child.stderr
    made = json.loads(child.stdout)
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
