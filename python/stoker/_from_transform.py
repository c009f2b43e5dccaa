# SPDX-License-Identifier: Apache-2.0
"""Transforms of torchvision (v1 and v2), timm and Albumentations as a chain, or the step that has no equivalent.

Objects are told apart by the names of their classes and read by their attributes, so that none of these packages is
imported here.  A translator answers the steps of a chain, or raises _NoEquivalent with what to do instead.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any

from . import _log
from .errors import nearest, shown, unsupported

_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_PIL = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
_CV2 = {0: "nearest", 1: "bilinear", 2: "bicubic", 4: "lanczos"}
_OWN = "do it in a function: .call(fn) in the chain, or batch_ops= for whole batches"


class _NoEquivalent(Exception):
    """What to do instead."""


# ---- words ---------------------------------------------------------------------------------------

def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_word, value))})"
    if isinstance(value, float) and value == int(value) and abs(value) < 2**31:
        return str(int(value))
    return str(value)


def _step(name: str, *args: Any, **named: Any) -> str:
    inside = [_word(a) for a in args] + [f"{key}={_word(value)}" for key, value in named.items() if value is not None]
    return f"{name}({', '.join(inside)})" if inside else name


def _size(value: Any) -> Any:
    sides = [int(v) for v in value] if isinstance(value, Iterable) else [int(value)]
    return sides[0] if len(sides) == 1 else tuple(sides)


def _square(value: Any) -> Any:
    size = _size(value)
    return size[0] if isinstance(size, tuple) and size[0] == size[1] else size


def _plain(value: Any) -> Any:
    """Numbers as they are; tensors and NumPy's as Python's."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain(v) for v in value)
    return value.item() if hasattr(value, "item") else value


def _pair(value: Any) -> Any:
    """(x, x) as it is; a range that is a list as a tuple."""
    return tuple(float(v) for v in value) if isinstance(value, Iterable) else value


def _resampling(mode: Any, usual: str = "bilinear") -> str | None:
    """interpolation= of a step, None where it is the usual one."""
    if isinstance(mode, (list, tuple)):
        raise _NoEquivalent('its filter is drawn at random: fix it, as in interpolation="bicubic"')
    name = str(mode.value if isinstance(mode, enum.Enum) and isinstance(mode.value, str) else _PIL.get(mode, mode))
    name = name.removesuffix("-exact").lower()
    if name not in _PIL.values():
        raise _NoEquivalent(f"the filter {name} is not one of nearest, bilinear, bicubic, lanczos")
    return None if name == usual else name


def _smooth(t: Any) -> bool | None:
    """antialias= of a step: pictures are always smoothed in Pillow, and unless told otherwise here."""
    return False if getattr(t, "antialias", True) is False else None


def _refuse(t: Any, **usual: Any) -> None:
    """Arguments that must be at their default."""
    for name, value in usual.items():
        given = _plain(getattr(t, name, value))
        if given not in (value, None) and not (isinstance(given, tuple) and set(given) == {value}):
            raise _NoEquivalent(f"its {name}={shown(given)} has no equivalent")


# ---- torchvision ---------------------------------------------------------------------------------

def _resize(t: Any) -> list[str]:
    return [_step("resize", _size(t.size), max_size=getattr(t, "max_size", None), interpolation=_resampling(t.interpolation),
                  antialias=_smooth(t))]


def _random_resized_crop(t: Any) -> list[str]:
    scale, ratio = _pair(t.scale), _pair(t.ratio)
    return [_step("random_resized_crop", _square(t.size), scale=None if scale == (0.08, 1.0) else scale,
                  ratio=None if ratio == (3 / 4, 4 / 3) else ratio, interpolation=_resampling(t.interpolation), antialias=_smooth(t))]


def _fill(t: Any) -> Any:
    """fill= of a step, None where it is black; v2 keeps a dict by type."""
    fill = getattr(t, "fill", 0)
    if isinstance(fill, dict):
        fill = next(iter(fill.values()), 0)
    fill = _plain(fill)
    return None if fill in (0, None, (0, 0, 0)) else fill


def _edge(t: Any) -> str | None:
    mode = getattr(t, "padding_mode", "constant")
    return None if mode == "constant" else str(mode)


def _random_crop(t: Any) -> list[str]:
    padding = _plain(t.padding)
    return [_step("random_crop", _square(t.size), padding=None if padding in (None, 0) else padding,
                  pad_if_needed=True if t.pad_if_needed else None, fill=_fill(t), padding_mode=_edge(t))]


def _pad(t: Any) -> list[str]:
    return [_step("pad", _plain(t.padding), fill=_fill(t), padding_mode=_edge(t))]


def _color_jitter(t: Any) -> list[str]:
    def given(name: str, around: float) -> Any:
        value = getattr(t, name)
        if value is None:
            return 0
        low, high = _pair(value)
        half = round(high - around, 10)
        return half if round(low - max(0.0, around - half) if around else low + half, 10) == 0 else (low, high)

    values = [given("brightness", 1), given("contrast", 1), given("saturation", 1), given("hue", 0)]
    while len(values) > 1 and values[-1] == 0:
        values.pop()
    return [_step("color_jitter", *values)]


def _blur(t: Any) -> list[str]:
    sigma = _pair(t.sigma)
    return [_step("gaussian_blur", _square(t.kernel_size), sigma=None if sigma == (0.1, 2.0) else sigma)]


def _rotation(t: Any) -> list[str]:
    _refuse(t, expand=False, center=None)
    low, high = _pair(t.degrees)
    return [_step("rotate", high if low == -high else (low, high), interpolation=_resampling(t.interpolation, "nearest"), fill=_fill(t))]


def _affine(t: Any) -> list[str]:
    _refuse(t, center=None)
    low, high = _pair(t.degrees)
    return [_step("affine", high if low == -high else (low, high), translate=_pair(t.translate), scale=_pair(t.scale), shear=_pair(t.shear),
                  interpolation=_resampling(t.interpolation, "nearest"), fill=_fill(t))]


def _perspective(t: Any) -> list[str]:
    return [_step("perspective", float(t.distortion_scale), p=float(t.p), interpolation=_resampling(t.interpolation), fill=_fill(t))]


def _normalize(t: Any) -> list[str]:
    mean, std = (tuple(round(float(v), 6) for v in _plain(list(x))) for x in (t.mean, t.std))
    if getattr(t, "max_pixel_value", 255.0) not in (255.0, None):
        raise _NoEquivalent(f"its max_pixel_value={t.max_pixel_value} has no equivalent: pixels are bytes here")
    return ["normalize(imagenet)" if (mean, std) == _IMAGENET else _step("normalize", mean, std)]


def _erasing(t: Any) -> list[str]:
    value = _plain(t.value)
    scale, ratio = _pair(t.scale), _pair(t.ratio)
    noise = value in ("random", None)
    return [_step("random_erasing", float(t.p), scale=None if scale == (0.02, 0.33) else scale,
                  ratio=None if ratio == (0.3, 3.3) else ratio, value="random" if noise else None if value in (0, (0,), (0, 0, 0)) else value)]


def _rand_augment(t: Any) -> list[str]:
    _refuse(t, num_magnitude_bins=31)
    return [_step("rand_augment", int(t.num_ops), int(t.magnitude), interpolation=_resampling(t.interpolation, "nearest"), fill=_fill(t))]


def _trivial(t: Any) -> list[str]:
    _refuse(t, num_magnitude_bins=31)
    return [_step("trivial_augment", interpolation=_resampling(t.interpolation, "nearest"), fill=_fill(t))]


def _auto_augment(t: Any) -> list[str]:
    policy = str(getattr(t.policy, "value", t.policy)).lower()
    return [_step("auto_augment", policy, interpolation=_resampling(t.interpolation, "nearest"), fill=_fill(t))]


def _apply(t: Any) -> list[str]:
    inner = " | ".join(_all(_children(t)))
    return [f"random_apply({_argument(inner)}, p={_word(float(t.p))})"]


def _choice(t: Any) -> list[str]:
    weights = getattr(t, "p", None) or getattr(t, "probabilities", None)
    if isinstance(weights, (list, tuple)) and len(set(weights)) > 1:
        raise _NoEquivalent("its choices have weights: one_of() chooses evenly")
    return [f"one_of({', '.join(_argument(' | '.join(_translate(c))) for c in _children(t))})"]


def _argument(chain: str) -> str:
    """A chain of one name needs brackets where it is an argument."""
    return chain if "(" in chain or "|" in chain else f"{chain}()"


def _dtype(t: Any) -> list[str]:
    dtype = t.dtype if hasattr(t, "dtype") else "float32"
    if isinstance(dtype, dict):
        dtype = next((v for v in dtype.values() if v is not None), None)
    name = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "uint8": "u8"}.get(str(dtype).removeprefix("torch."))
    if name is None:
        raise _NoEquivalent(f"pictures come as u8, f16, bf16 or f32, not {dtype}")
    return [f"to({name})" if getattr(t, "scale", True) or name == "u8" else f"to({name}, scale=false)"]


def _once(name: str, *attributes: str) -> Callable[[Any], list[str]]:
    """A step with p=, and before it the attributes in order."""
    def make(t: Any) -> list[str]:
        values = [_pair(getattr(t, a)) for a in attributes]
        p = getattr(t, "p", None)
        return [_step(name, *values, p=None if p is None else float(p))]
    return make


def _nothing(t: Any) -> list[str]:
    return []


def _float(t: Any) -> list[str]:
    return ["to(f32)"]


def _gray(t: Any) -> list[str]:
    if getattr(t, "num_output_channels", 3) == 1:
        raise _NoEquivalent("one channel is what image(mode=gray) decodes: write that in place of image")
    return ["grayscale(p=1)"]


def _zoom_out(t: Any) -> list[str]:
    side = _pair(t.side_range)
    return [_step("zoom_out", side_range=None if side == (1.0, 4.0) else side, p=float(t.p), fill=_fill(t))]


_TORCHVISION: dict[str, Callable[[Any], list[str]]] = {
    "Resize": _resize, "RandomResizedCrop": _random_resized_crop, "RandomResizedCropAndInterpolation": _random_resized_crop,
    "CenterCrop": lambda t: [_step("center_crop", _square(t.size))], "RandomCrop": _random_crop, "Pad": _pad,
    "RandomHorizontalFlip": _once("hflip"), "RandomVerticalFlip": _once("vflip"), "ColorJitter": _color_jitter,
    "RandomGrayscale": _once("grayscale"), "Grayscale": _gray, "GaussianBlur": _blur, "RandomRotation": _rotation,
    "RandomAffine": _affine, "RandomPerspective": _perspective, "RandomInvert": _once("invert"), "RandomSolarize": _once("solarize", "threshold"),
    "RandomPosterize": _once("posterize", "bits"), "RandomAutocontrast": _once("autocontrast"), "RandomEqualize": _once("equalize"),
    "RandomAdjustSharpness": _once("sharpness", "sharpness_factor"), "RandAugment": _rand_augment, "TrivialAugmentWide": _trivial,
    "AutoAugment": _auto_augment, "RandomErasing": _erasing, "Normalize": _normalize, "RandomApply": _apply, "RandomChoice": _choice,
    "ToTensor": _float, "MaybeToTensor": _float, "PILToTensor": _nothing, "MaybePILToTensor": _nothing, "ToImage": _nothing,
    "ToPureTensor": _nothing, "Identity": _nothing, "ToNumpy": _nothing, "ToDtype": _dtype, "ConvertImageDtype": _dtype,
    "RGB": _nothing, "JPEG": lambda t: [_step("jpeg_artifacts", _plain(t.quality))], "GaussianNoise": lambda t: [_step("gaussian_noise", float(t.sigma))],
    "RandomChannelPermutation": lambda t: ["channel_shuffle(p=1)"], "FiveCrop": lambda t: [_step("five_crop", _square(t.size))],
    "TenCrop": lambda t: [_step("ten_crop", _square(t.size))],
    "ScaleJitter": lambda t: [_step("scale_jitter", _square(t.target_size), scale=_pair(t.scale_range), interpolation=_resampling(t.interpolation))],
    "RandomShortestSize": lambda t: [_step("random_shortest_size", _size(t.min_size), max_size=t.max_size, interpolation=_resampling(t.interpolation))],
    "RandomZoomOut": _zoom_out, "SanitizeBoundingBoxes": _nothing, "ClampBoundingBoxes": _nothing,
}


# ---- timm ----------------------------------------------------------------------------------------

def _timm_erasing(t: Any) -> list[str]:
    scale = float(t.min_area), float(t.max_area)
    low, high = getattr(t, "log_aspect_ratio", (None, None))
    _refuse(t, min_count=1, max_count=1)
    if low is not None and abs(low + high) > 1e-6:
        raise _NoEquivalent("its aspect ratios are not symmetric")
    mode = str(getattr(t, "mode", "const"))
    if mode == "rand":
        raise _NoEquivalent("its mode is rand (one color): const and pixel have equivalents")
    ratio = None if low is None or abs(low + 1.2039728) < 1e-4 else (2.718281828459045**low, 2.718281828459045**high)
    return [_step("random_erasing", float(t.probability), scale=None if scale == (0.02, 1 / 3) else scale, ratio=ratio,
                  value="random" if mode == "pixel" or getattr(t, "per_pixel", False) else None)]


def _timm_rand_augment(t: Any) -> list[str]:
    first = t.ops[0]
    if getattr(first, "magnitude_std", 0) or getattr(first, "hparams", {}).get("magnitude_std"):
        _log.emit(1, f"from_transform: timm's RandAugment becomes rand_augment({t.num_layers}, {first.magnitude}), whose magnitude does "
                     "not vary (mstd) and whose ops are torchvision's")
    return [_step("rand_augment", int(t.num_layers), int(first.magnitude))]


def _timm_keep_ratio(t: Any) -> list[str]:
    _refuse(t, longest=0.0, random_scale_prob=0.0, random_aspect_prob=0.0)
    return [_step("resize", min(_size(t.size)) if isinstance(_size(t.size), tuple) else _size(t.size), interpolation=_resampling(t.interpolation))]


_TIMM = {"RandomErasing": _timm_erasing, "RandAugment": _timm_rand_augment, "ResizeKeepRatio": _timm_keep_ratio,
         "RandomCropOrPad": lambda t: [_step("random_crop", _square(t.size), pad_if_needed=True, fill=_fill(t))],
         "CenterCropOrPad": lambda t: [_step("center_crop", _square(t.size))]}


# ---- Albumentations ------------------------------------------------------------------------------

def _cv2(t: Any, usual: str = "bilinear") -> dict[str, Any]:
    name = _CV2.get(int(getattr(t, "interpolation", 1)))
    if name is None:
        raise _NoEquivalent("its filter is not one of nearest, bilinear, bicubic, lanczos")
    return {"interpolation": None if name == usual else name}


def _at(t: Any, *names: str) -> Any:
    """The first of these attributes that it has: versions call them differently."""
    for name in names:
        if hasattr(t, name):
            return getattr(t, name)
    raise _NoEquivalent(f"this version of it has no {names[0]}")


def _fixed(values: Iterable[Any]) -> Any:
    """A range as one number where both ends are the same."""
    low, high = values
    return low if low == high else (low, high)


def _a_crop(t: Any) -> list[str]:
    return [_step("random_crop", (int(t.height), int(t.width)), pad_if_needed=True if getattr(t, "pad_if_needed", False) else None)]


def _a_center(t: Any) -> list[str]:
    return [_step("center_crop", (int(t.height), int(t.width)))]


def _a_smallest(t: Any) -> list[str]:
    size = t.max_size
    if not isinstance(size, (int, float)):
        raise _NoEquivalent("its sizes are drawn: random_shortest_size() has several")
    return [_step("resize", int(size), antialias=False, **_cv2(t))]


def _a_blur(t: Any) -> list[str]:
    limit, sigma = _pair(t.blur_limit), _pair(_at(t, "sigma_limit"))
    size = int(max(limit)) if isinstance(limit, tuple) else int(limit)
    return [_step("gaussian_blur", size or 7, sigma=sigma, p=float(t.p))]


def _a_rotate(t: Any) -> list[str]:
    low, high = _pair(t.limit)
    return [_step("rotate", high if low == -high else (low, high), interpolation=_cv2(t, "nearest")["interpolation"])]


def _a_choice(t: Any) -> list[str]:
    inside = ", ".join(_argument(" | ".join(_translate(c))) for c in _children(t))
    return [_step("one_of", inside, p=None if float(t.p) == 1 else float(t.p))]


_ALBUMENTATIONS: dict[str, Callable[[Any], list[str]]] = {
    "HorizontalFlip": _once("hflip"), "VerticalFlip": _once("vflip"), "ToGray": _once("grayscale"), "InvertImg": _once("invert"),
    "Equalize": _once("equalize"), "AutoContrast": _once("autocontrast"), "ChannelShuffle": _once("channel_shuffle"),
    "RandomResizedCrop": lambda t: [_step("random_resized_crop", _square(t.size), scale=_pair(t.scale), ratio=_pair(t.ratio), antialias=False, **_cv2(t))],
    "Resize": lambda t: [_step("resize", (int(t.height), int(t.width)), antialias=False, **_cv2(t))], "SmallestMaxSize": _a_smallest,
    "CenterCrop": _a_center, "RandomCrop": _a_crop, "Normalize": _normalize, "ToFloat": _float, "ToTensorV2": _nothing, "ColorJitter": _color_jitter,
    "GaussianBlur": _a_blur, "Rotate": _a_rotate, "SafeRotate": _a_rotate, "OneOf": _a_choice, "NoOp": _nothing,
    "Solarize": lambda t: [_step("solarize", _fixed(round(float(v) * 255) for v in t.threshold_range), p=float(t.p))],
    "Posterize": lambda t: [_step("posterize", max(_plain(t.num_bits)) if isinstance(_plain(t.num_bits), tuple) else int(t.num_bits), p=float(t.p))],
    "ImageCompression": lambda t: [_step("jpeg_artifacts", tuple(int(v) for v in t.quality_range), p=float(t.p))],
}
_HAS_P = {"hflip", "vflip", "grayscale", "invert", "equalize", "autocontrast", "channel_shuffle", "gaussian_blur", "solarize", "posterize",
          "jpeg_artifacts", "one_of"}
_INSTEAD = {
    "Lambda": _OWN, "function": _OWN, "LongestMaxSize": "with padding to a box it is letterbox()", "RandomOrder": "write the order out",
    "PadIfNeeded": "random_crop(size, pad_if_needed=true) and letterbox() pad", "RandomBrightnessContrast": "color_jitter(0.2, 0.2) is near: its "
    "brightness is a factor, not a sum", "CoarseDropout": "random_erasing(p) erases one box", "ElasticTransform": _OWN, "LinearTransformation": _OWN,
    "AugMix": _OWN, "MixUp": "it mixes batches: batch_ops=[\"mixup(image, label)\"]", "CutMix": "it mixes batches: batch_ops=[\"cutmix(image, label)\"]",
    "RandomIoUCrop": "write iou_crop(boxes), where boxes is the name of the output that is like() the picture",
}


# ---- all of it -----------------------------------------------------------------------------------

def _children(t: Any) -> list[Any]:
    return list(t.transforms)


def _is_list(t: Any) -> bool:
    return isinstance(t, (list, tuple)) or type(t).__name__ in ("Compose", "Sequential", "ReplayCompose", "BasicCompose")


def _library(t: Any) -> tuple[dict[str, Callable[[Any], list[str]]], bool]:
    """(translators, Albumentations?) for an object."""
    module = type(t).__module__
    if module.startswith(("albumentations", "custom_albumentations")):
        return _ALBUMENTATIONS, True
    return ({**_TORCHVISION, **_TIMM} if module.startswith("timm") else _TORCHVISION), False


def _translate(t: Any) -> list[str]:
    """The steps of one transform."""
    if _is_list(t):
        return _all(t if isinstance(t, (list, tuple)) else _children(t))
    name = getattr(t, "__name__", type(t).__name__) if callable(t) and type(t).__name__ == "function" else type(t).__name__
    table, from_albumentations = _library(t)
    make = table.get(type(t).__name__)
    if make is None:
        instead = _INSTEAD.get(type(t).__name__, _OWN + nearest(name, table))
        unsupported(f"from_transform: {name} has no equivalent in a chain: {instead}")
    try:
        steps = make(t)
    except _NoEquivalent as e:
        unsupported(f"from_transform: {name}: {e}; else {_OWN}")
    except (AttributeError, TypeError, ValueError) as e:
        unsupported(f"from_transform: {name} is not as this version knows it ({type(e).__name__}: {e}): write its step by hand")
    p = float(getattr(t, "p", 1)) if from_albumentations else 1.0
    if p < 1 and steps and steps[0].partition("(")[0] not in _HAS_P:
        return [f"random_apply({_argument(' | '.join(steps))}, p={_word(p)})"]
    return steps


def _all(transforms: Iterable[Any]) -> list[str]:
    return [step for t in transforms for step in _translate(t)]


def steps_of(transform: Any) -> list[str]:
    """The chain's steps after `image`: in the order that was given, with to() at the end, where chains have it."""
    steps = _all([transform])
    casts = [s for s in steps if s.startswith("to(")]
    steps = [s for s in steps if not s.startswith("to(")]
    if any(s.startswith("normalize") for s in steps):
        casts = [s for s in casts if s != "to(u8)"] or ["to(f32)"]
    if casts and casts[-1] != "to(u8)":
        steps.append(casts[-1])
    return steps
