# SPDX-License-Identifier: Apache-2.0
"""Ten published recipes as their packages make them, translated: JSON of {name: [chain, ""]}, or [null, why] where a package is absent.

Packages are where `make setup` installs them apart from the others (tools/requirements/oracles.txt, transforms.txt), or in STOKER_TRANSFORMS=FOLDER."""

import importlib
import json
import os
import sys
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests/recipes"))
from tv_oracle import soften  # noqa: E402

MODULES = {"v2": "torchvision.transforms.v2", "T": "torchvision.transforms", "timm": "timm.data", "A": "albumentations"}

RECIPES = {
    "torchvision classification reference": "T.Compose([T.RandomResizedCrop(176, interpolation=T.InterpolationMode.BILINEAR, antialias=True), "
    "T.RandomHorizontalFlip(0.5), T.TrivialAugmentWide(interpolation=T.InterpolationMode.BILINEAR), T.PILToTensor(), "
    "T.ConvertImageDtype(torch.float), T.Normalize(MEAN, STD), T.RandomErasing(p=0.1)])",
    "timm RSB-A1": "timm.create_transform(224, is_training=True, auto_augment='rand-m7-mstd0.5-inc1', re_prob=0.0, interpolation='bicubic')",
    "timm RSB-A2": "timm.create_transform(224, is_training=True, auto_augment='rand-m7-mstd0.5-inc1', re_prob=0.0, color_jitter=None, interpolation='bicubic')",
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
    "mmseg-like": "A.Compose([A.RandomResizedCrop(size=(512, 512), scale=(0.5, 1.0)), A.HorizontalFlip(p=0.5), A.ColorJitter(0.125, 0.5, 0.5, 0.07, p=0.5), "
    "A.Normalize(), A.ToTensorV2()])",
    "CIFAR": "T.Compose([T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))])",
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


def main():
    import stoker
    made = {}
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
    print(json.dumps(made))


if __name__ == "__main__":
    main()
