# SPDX-License-Identifier: Apache-2.0
"""Ten published recipes as their packages make them, translated: JSON of {name: [chain, ""]}, or [null, why] where a package is absent.
FIXED are transforms that leave nothing to chance: how far what they make is from what their chain makes.

Packages are where `make setup` installs them apart from the others (tools/requirements/oracles.txt, transforms.txt), or in STOKER_TRANSFORMS=FOLDER."""

import importlib
import json
import os
import sys
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests/recipes"))
from tv_oracle import soften  # noqa: E402

MODULES = {"v2": "torchvision.transforms.v2", "T": "torchvision.transforms", "timm": "timm.data", "A": "albumentations",
           "tv_tensors": "torchvision.tv_tensors"}

RECIPES = {
    "torchvision classification reference": "T.Compose([T.RandomResizedCrop(176, interpolation=T.InterpolationMode.BILINEAR, antialias=True), "
    "T.RandomHorizontalFlip(0.5), T.TrivialAugmentWide(interpolation=T.InterpolationMode.BILINEAR), T.PILToTensor(), "
    "T.ConvertImageDtype(torch.float), T.Normalize(MEAN, STD), T.RandomErasing(p=0.1)])",
    "timm RSB-A1": "timm.create_transform(224, is_training=True, auto_augment='rand-m7-mstd0.5-inc1', re_prob=0.0, interpolation='bicubic')",
    "timm RSB-A2": "timm.create_transform(224, is_training=True, auto_augment='rand-m7-mstd0.5-inc1', re_prob=0.0, color_jitter=None, interpolation='bicubic')",
    "timm default": "timm.create_transform(224, is_training=True, auto_augment='rand-m9-mstd0.5-inc1', re_prob=0.25, re_mode='pixel', re_count=1, interpolation='random')",
    "timm counts": "timm.create_transform(96, is_training=True, auto_augment='rand-m14-n3-p0.7-mstd101-mmax20', re_prob=0.5, re_mode='rand', re_count=3, mean=(0.5,) * 3, interpolation='bilinear')",
    "timm weights": "timm.create_transform(64, is_training=True, auto_augment='rand-m6-tweights', interpolation='bicubic', re_prob=0.1)",
    "timm v0": "timm.create_transform(64, is_training=True, auto_augment='v0', interpolation='random')",
    "timm 3a": "timm.create_transform(64, is_training=True, auto_augment='3a', color_jitter=None, interpolation='bicubic')",
    "timm rand 3aw": "timm.create_transform(64, is_training=True, auto_augment='rand-m6-t3aw', color_jitter=None, interpolation='bicubic')",
    "timm original": "timm.create_transform(64, is_training=True, auto_augment='originalr-mstd0.5', interpolation='bicubic')",
    "timm augmix": "timm.create_transform(64, is_training=True, auto_augment='augmix-m5-w4-d2', interpolation='bilinear')",
    "timm augmix noise": "timm.create_transform(64, is_training=True, auto_augment='augmix-mstd0.5', interpolation='random')",
    "DINOv2 global crop": "T.Compose([T.RandomResizedCrop(224, scale=(0.32, 1.0), interpolation=CUBIC), T.RandomHorizontalFlip(p=0.5), "
    "T.RandomApply([T.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), T.RandomGrayscale(p=0.2), T.RandomApply([T.GaussianBlur(9, (0.1, 2.0))], p=0.1), "
    "T.RandomSolarize(128, p=0.2), T.ToTensor(), T.Normalize(MEAN, STD)])",
    "MAE": "T.Compose([T.RandomResizedCrop(224, scale=(0.2, 1.0), interpolation=3), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])",
    "CLIP": "T.Compose([T.Resize(224, interpolation=CUBIC), T.CenterCrop(224), T.ToTensor(), "
    "T.Normalize((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))])",
    "DETR": "v2.Compose([v2.ToImage(), v2.RandomHorizontalFlip(), v2.RandomZoomOut(p=0.3), v2.RandomShortestSize(list(range(480, 801, 32)), max_size=1333), v2.ToDtype(torch.float32, scale=True), "
    "v2.Normalize(MEAN, STD)])",
    "YOLO-like": "v2.Compose([v2.ScaleJitter((640, 640)), v2.RandomCrop(640, pad_if_needed=True, fill=114), v2.RandomHorizontalFlip(), v2.ColorJitter(0.4, 0, 0.7, 0.015), "
    "v2.ToDtype(torch.float32, scale=True)])",
    "mmseg-like": "A.Compose([A.RandomResizedCrop(size=(512, 512), scale=(0.5, 1.0)), A.HorizontalFlip(p=0.5), A.ColorJitter(0.125, 0.5, 0.5, 0, p=0.5), "
    "A.Normalize(), A.ToTensorV2()])",
    "CIFAR": "T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))])",
}

U8, UNIT, NORMAL = 1, 1.1 / 255, 1e-5      # the most that a value is off: bytes, floats of 0..1, of normalize
FIXED = {
    "T.Compose([T.Resize((32, 48), antialias=False), T.ToTensor()])": UNIT,                          # PIL smooths anyway
    "T.Compose([T.PILToTensor(), T.Resize((32, 48), antialias=False)])": U8,
    "T.Compose([T.ToTensor(), T.Pad((1, 2, 3, 4), fill=0.5)])": UNIT,
    "T.Compose([T.ToTensor(), T.RandomSolarize(0.3, p=1.0)])": UNIT,
    "T.Compose([T.RandomSolarize(77, p=1.0), T.ToTensor()])": UNIT,
    "T.Compose([T.ToTensor(), T.RandomRotation((30, 30), fill=0.5)])": UNIT,
    "T.Compose([T.ToTensor(), T.Normalize((0.5,), (0.25,))])": NORMAL,
    "T.Compose([T.ToTensor(), T.Normalize(MEAN, STD), T.RandomHorizontalFlip(1.0)])": NORMAL,
    "T.Compose([T.ToTensor(), T.ToPILImage(), T.CenterCrop(40), T.PILToTensor()])": U8,
    "T.Compose([T.RandomChoice([T.RandomVerticalFlip(1.0), T.RandomVerticalFlip(1.0)]), T.RandomApply([T.RandomInvert(1.0)], 1.0), T.PILToTensor()])": U8,
    "T.Compose([T.RandomOrder([T.RandomVerticalFlip(1.0), T.RandomInvert(1.0), T.RandomHorizontalFlip(1.0)]), T.PILToTensor()])": U8,
    "torch.nn.Sequential(v2.PILToTensor(), T.CenterCrop(40), T.RandomHorizontalFlip(1.0))": U8,
    "v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=False), v2.Normalize([120., 110., 100.], [60., 50., 40.])])": NORMAL,
    "v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32)])": U8,
    "v2.Compose([v2.PILToTensor(), v2.RandomCrop((68, 84), padding=[1, 2, 3, 4], fill=9)])": U8,
    "v2.Compose([v2.PILToTensor(), v2.Pad([2, 3], fill={tv_tensors.Mask: 255, torch.Tensor: 9}, padding_mode='constant')])": U8,
    "v2.Compose([v2.PILToTensor(), v2.Pad([2, 3], padding_mode='symmetric')])": U8,
    "v2.Compose([v2.ToImage(), v2.ToDtype({tv_tensors.Mask: torch.int64, tv_tensors.Image: torch.float32, 'others': None}, scale=True)])": UNIT,
    "v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.ColorJitter(0, 0, (0.5, 0.5)), v2.ToDtype(torch.uint8, scale=True)])": U8 + 1,
    "v2.Compose([v2.PILToTensor(), v2.GaussianNoise(mean=0.2, sigma=0.0)])": U8,
    "v2.Compose([v2.PILToTensor(), v2.Resize((32, 48), T.InterpolationMode.NEAREST_EXACT)])": U8,
    "A.Compose([A.Normalize(mean=(120, 110, 100), std=(60, 50, 40), max_pixel_value=1.0)])": NORMAL,
    "A.Compose([A.ToFloat(), A.Normalize(mean=MEAN, std=STD, max_pixel_value=1.0), A.VerticalFlip(p=1)])": NORMAL,
    "A.Compose([A.OneOf([A.HorizontalFlip(p=0.1), A.HorizontalFlip(p=0.3)], p=1)])": U8,
    "A.Compose([A.Sequential([A.OneOf([A.InvertImg(p=0.5), A.Sequential([A.InvertImg(p=1)], p=0.5)], p=1)], p=1)])": U8,
    "A.Compose([A.Sequential([A.HorizontalFlip(p=1)], p=0), A.VerticalFlip(p=1)])": U8,
    "A.Compose([A.Solarize(threshold_range=(0.3, 0.3), p=1), A.Posterize(num_bits=(3, 3), p=1), A.ToGray(p=1)])": U8,
    "A.Compose([A.GaussianBlur(blur_limit=0, sigma_limit=(3, 3), p=1)])": U8,
    "A.Compose([A.Rotate((30, 30), interpolation=0, fill=99, p=1)])": U8,
    "A.Compose([A.AutoContrast(method='pil', p=1)])": U8 + 1,
    "A.Compose([A.Rotate((30, 30), interpolation=1, fill=99, p=1)])": U8 + 1,
    "A.Compose([A.Resize(33, 47), A.CenterCrop(21, 31)])": U8,
    "A.Compose([A.Resize(133, 147, interpolation=2)])": U8,
    "A.Compose([A.RandomResizedCrop(size=(31, 40), scale=(1, 1), ratio=(80/62, 80/62), p=1)])": U8,
    "A.Compose([A.RandomResizedCrop(size=(31, 40), scale=(1, 1), ratio=(80/62, 80/62), interpolation=2, p=1)])": U8,
    "A.Compose([A.ColorJitter((1.3, 1.3), (1, 1), (1, 1), (0, 0), p=1)])": U8,
    "A.Compose([A.ColorJitter((1, 1), (0.4, 0.4), (1, 1), (0, 0), p=1)])": U8,
    "A.Compose([A.ColorJitter((1, 1), (1, 1), (0.3, 0.3), (0, 0), p=1)])": U8 + 1,         # gray is rounded before
    "A.Compose([A.GaussianBlur(blur_limit=(5, 5), sigma_limit=(1, 1), p=1)])": U8,
}


TIMM = {       # what timm's transforms are to become, after the crop and the mirror and before normalize: all of it exact
    "timm RSB-A1": ("random_resized_crop(224, interpolation=bicubic)", "timm_rand_augment(7, increasing=true, mstd=0.5, fill=(124, 116, 104), interpolation=bicubic)", ""),
    "timm default": ("random_resized_crop(224, interpolation=random)", "timm_rand_augment(9, increasing=true, mstd=0.5, fill=(124, 116, 104))",
                     "random_erasing(0.25, scale=(0.02, 0.3333333333333333), ratio=(0.3, 3.333333), value=random)"),
    "timm counts": ("random_resized_crop(96)", "timm_rand_augment(14, n=3, p=0.7, mstd=1000, mmax=20, interpolation=bilinear)",
                    "random_erasing(0.5, scale=(0.02, 0.3333333333333333), ratio=(0.3, 3.333333), value=color, count=3)"),
    "timm weights": ("random_resized_crop(64, interpolation=bicubic)", "timm_rand_augment(6, transforms=weights, fill=(124, 116, 104), interpolation=bicubic)",
                     "random_erasing(0.1, scale=(0.02, 0.3333333333333333), ratio=(0.3, 3.333333))"),
    "timm v0": ("random_resized_crop(64, interpolation=random)", "timm_auto_augment(v0, fill=(124, 116, 104))", ""),
    "timm original": ("random_resized_crop(64, interpolation=bicubic)", "timm_auto_augment(originalr, mstd=0.5, fill=(124, 116, 104), interpolation=bicubic)", ""),
}
TIMM["timm 3a"] = "random_resized_crop(64, interpolation=bicubic)", "timm_auto_augment(t3a, fill=(124, 116, 104), interpolation=bicubic)", ""
TIMM["timm rand 3aw"] = "random_resized_crop(64, interpolation=bicubic)", "timm_rand_augment(6, transforms=t3aw, fill=(124, 116, 104), interpolation=bicubic)", ""
TIMM["timm augmix"] = "random_resized_crop(64)", "timm_augmix(5, width=4, depth=2, fill=(124, 116, 104), interpolation=bilinear)", ""
TIMM["timm augmix noise"] = "random_resized_crop(64, interpolation=random)", "timm_augmix(3, mstd=0.5, fill=(124, 116, 104))", ""
# and what is refused, with a word of why
REFUSED = {
    "timm.create_transform(64, is_training=True, auto_augment='augmix-m5-w5-d3')": "timm_augmix: width=5 and depth=3 are more than 16 ops",
    "timm.create_transform(64, is_training=True, auto_augment='augmix-m5-b1')": "AugMixAugment: its blended=True has no equivalent",
    "timm.create_transform(64, is_training=True, auto_augment='rand-m6', interpolation='lanczos')": "interpolation is random, bilinear or bicubic, not lanczos",
    "A.Compose([A.RandomResizedCrop(size=(31, 40), area_for_downscale='image')])": "RandomResizedCrop: its area_for_downscale=image makes smaller pictures by OpenCV's INTER_AREA",
    "A.Compose([A.Resize(31, 40, area_for_downscale='image_mask')])": "Resize: its area_for_downscale=image_mask makes smaller pictures by OpenCV's INTER_AREA",
    "A.Compose([A.ColorJitter(0.125, 0.5, 0.5, 0.07)])": "is close, but OpenCV turns the hue of bytes in 180 steps",
    "A.Compose([A.Rotate((-30, 30))])": "rotate(30, interpolation=bilinear) is close, but OpenCV places pixels in 32nds of a pixel",
    "A.Compose([A.Rotate((-30, 30), interpolation=0)])": "rotate(30) is close, but some pixels are their neighbor's in OpenCV",
    "A.Compose([A.Equalize(p=1)])": "equalize is close, but torchvision's, some values of 255 apart: from_transform(..., approximate=True) takes it",
}


def folders():
    given = os.environ.get("STOKER_TRANSFORMS")
    return [given] if given else [os.path.join(sys.prefix, name) for name in ("oracles", "transforms")]


def load():
    """The packages by the names that recipes have for them, and why others are absent."""
    import torch
    found, absent = {"torch": torch, "MEAN": (0.485, 0.456, 0.406), "STD": (0.229, 0.224, 0.225)}, {}
    soften(torch)
    for name, module in MODULES.items():
        try:
            found[name] = importlib.import_module(module)
        except ImportError as e:
            absent[name] = str(e)
    if "T" in found:
        found["CUBIC"] = found["T"].InterpolationMode.BICUBIC
    return found, absent


def photo():
    """Smooth, with no value that repeats the neighbour's in all three colors."""
    import numpy
    y, x = numpy.mgrid[0:62, 0:80]
    planes = x * 1.9 + 30 * numpy.sin(y / 5), y * 3.1 + 20 * numpy.cos(x / 7), 250 - x - y + 25 * numpy.sin(x / 3)
    return numpy.clip(numpy.stack(planes, -1), 0, 255).astype("uint8")


def apart(transform):
    """(the chain, the most that a value is off, or why it can't be said)."""
    import numpy
    from PIL import Image

    import stoker
    chain = str(stoker.Chain.from_transform(transform, approximate=True))    # how close is what is measured
    steps = chain.removeprefix("image | ") + ("" if "to(" in chain else " | to(u8)")
    got = numpy.asarray(stoker.Transform(steps)(photo()[None]))[0].astype(float)
    if type(transform).__module__.startswith("albumentations"):
        want = transform(image=photo())["image"].transpose(2, 0, 1)
    else:
        want = numpy.asarray(transform(Image.fromarray(photo())))
    return [chain, float(numpy.abs(got - want).max()) if got.shape == want.shape else f"{got.shape} is not {want.shape}"]


def why_not(transform):
    import stoker
    try:
        return str(stoker.Chain.from_transform(transform))
    except stoker.StokerError as e:
        return str(e)


def main():
    import stoker
    made, fixed, refused = {}, {}, {}
    sys.path[:0] = folders()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found, absent = load()
        except ImportError as e:                # torch
            found, absent = {}, dict.fromkeys(MODULES, str(e))
        for name, recipe in RECIPES.items():
            package = recipe.partition(".")[0]
            made[name] = [None, absent[package]] if package in absent else [str(stoker.Chain.from_transform(eval(recipe, found), "jpg")), ""]
        for expression in FIXED:
            package = "v2" if expression.startswith("v2") else "A" if expression.startswith("A") else "T"
            fixed[expression] = [None, absent[package]] if package in absent else apart(eval(expression, found))
        for expression in REFUSED:
            package = expression.partition(".")[0]
            refused[expression] = None if package in absent else why_not(eval(expression, found))
    print(json.dumps([made, fixed, refused]))


if __name__ == "__main__":
    main()
