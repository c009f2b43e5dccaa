# SPDX-License-Identifier: Apache-2.0
"""Transforms of torchvision (v1 and v2) and timm as a chain, or the step that has no equivalent.  Albumentations' are in
_from_albumentations.py.

Objects are told apart by the names of their classes and read by their attributes, so that none of these packages is
imported here.  A translator answers the steps of a chain, or raises NoEquivalent with what to do instead.  What its
numbers mean depends on where it stands: a fill of 1 is white after ToTensor(), and nearly black before it.  `At` knows.
"""

from __future__ import annotations

import enum
import itertools
import math
import zlib
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from . import _log, _stoker
from .errors import StokerError, nearest, shown, unsupported

_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_PIL = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic"}
_TO_TENSOR = {"ToTensor", "MaybeToTensor", "PILToTensor", "MaybePILToTensor", "ToImage"}
_NO_STEP = "hflip(p=0)"         # where a chain must have a step
_MOST_CHOICES = 32              # of one_of()
OWN = "do it in a function: .call(fn) in the chain, or batch_ops= for whole batches"


class NoEquivalent(Exception):
    """What to do instead."""


@dataclass
class At:
    """What pixels are where a step stands.  Translators read it; those that change the type of pixels write it."""
    kind: str = ""              # "pil" or "tensor"; "": the transforms do not say
    dtype: str = "u8"
    unit: float = 1.0           # 255 where pixels are floats of 0..1
    normalized: bool = False
    approximate: bool = False   # steps that are close, and not the same, are taken

    def in_bytes(self, value: Any) -> Any:
        """A fill or a value of a step, one number or several, as bytes."""
        if isinstance(value, (list, tuple)):
            return tuple(self.in_bytes(v) for v in value)
        return int(value) if self.unit == 1 else round(value * self.unit)


Translator = Callable[[Any, At], list[str]]


# ---- words ---------------------------------------------------------------------------------------

def word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(word, value))})"
    if isinstance(value, float) and value == int(value) and abs(value) < 2**31:
        return str(int(value))
    return str(value)


def step(name: str, *args: Any, **named: Any) -> str:
    inside = [word(a) for a in args] + [f"{key}={word(value)}" for key, value in named.items() if value is not None]
    return f"{name}({', '.join(inside)})" if inside else name


def name_of(chain_step: str) -> str:
    return chain_step.partition("(")[0]


def _size(value: Any) -> Any:
    sides = [int(v) for v in value] if isinstance(value, Iterable) else [int(value)]
    return sides[0] if len(sides) == 1 else tuple(sides)


def square(value: Any) -> Any:
    size = _size(value)
    return size[0] if isinstance(size, tuple) and size[0] == size[1] else size


def plain(value: Any) -> Any:
    """Numbers as they are; tensors and NumPy's as Python's."""
    if isinstance(value, (list, tuple)):
        return tuple(plain(v) for v in value)
    return value.item() if hasattr(value, "item") else value


def pair(value: Any) -> Any:
    """(x, x) as it is; a range that is a list as a tuple."""
    return tuple(float(v) for v in value) if isinstance(value, Iterable) else value


def both_ways(limits: Any) -> Any:
    """One number where a range goes as far down as up."""
    low, high = pair(limits)
    return high if low == -high else (low, high)


def refuse(t: Any, **usual: Any) -> None:
    """Arguments that must be at their default."""
    for name, value in usual.items():
        given = plain(getattr(t, name, value))
        if given not in (value, None) and not (isinstance(given, tuple) and set(given) == {value}):
            raise NoEquivalent(f"its {name}={shown(given)} has no equivalent")


def say_near(at: At, name: str, steps: list[str], how: str) -> list[str]:
    """Steps that are close to a transform and not the same: refused unless that is asked for, and then logged."""
    near = " | ".join(steps)
    if not at.approximate:
        raise NoEquivalent(f"{near} is close, but {how}: from_transform(..., approximate=True) takes it")
    _log.emit(1, f"from_transform: {name} becomes {near}: {how}")
    return steps


def argument(steps: list[str]) -> str:
    """A chain as an argument of a step: one name needs brackets there."""
    chain = " | ".join(steps) or _NO_STEP
    return chain if "(" in chain or "|" in chain else f"{chain}()"


def one_of(chains: list[list[str]], weights: Iterable[float] | None, p: float = 1.0) -> list[str]:
    """One of these chains, each as often as it weighs: one_of() chooses evenly, so a chain may stand there several times."""
    times = [1] * len(chains)
    if weights is not None:
        parts = [Fraction(float(w)).limit_denominator(1000) for w in weights]
        least = math.lcm(*(part.denominator for part in parts))
        times = [int(part * least) for part in parts]
        shared = math.gcd(*times) or 1
        times = [n // shared for n in times]
    if not 0 < sum(times) <= _MOST_CHOICES:
        raise NoEquivalent(f"its choices have weights that are not simple shares: one_of() chooses evenly among up to {_MOST_CHOICES} chains")
    inside = [argument(chain) for chain, n in zip(chains, times, strict=True) for _ in range(n)]
    return [step("one_of", *inside, p=None if p == 1 else p)]


def _resampling(mode: Any, usual: str = "bilinear", at: At | None = None) -> str | None:
    """interpolation= of a step, None where it is the usual one.  at: of a step that resizes."""
    if isinstance(mode, (list, tuple)):
        raise NoEquivalent('its filter is drawn at random: fix it, as in interpolation="bicubic"')
    name = str(mode.value if isinstance(mode, enum.Enum) and isinstance(mode.value, str) else _PIL.get(mode, mode)).lower()
    if at and name == "nearest" and at.kind == "tensor":
        raise NoEquivalent("tensors are resized with NEAREST by other pixels than pictures are: NEAREST_EXACT has an equivalent")
    name = name.removesuffix("-exact")
    if name not in _PIL.values():
        raise NoEquivalent(f"the filter {name} is not one of nearest, bilinear, bicubic, lanczos")
    return None if name == usual else name


def _either(modes: Iterable[Any]) -> bool:
    """Bilinear or bicubic, each as often: timm's "random"."""
    return sorted(str(_resampling(mode, usual="")) for mode in modes) == ["bicubic", "bilinear"]


def _resizing(t: Any, at: At) -> dict[str, Any]:
    """interpolation= and antialias= of a step that resizes.  Pictures of PIL are smoothed whatever it says."""
    sharp = getattr(t, "antialias", True) is False and at.kind != "pil"
    return {"interpolation": _resampling(t.interpolation, at=at), "antialias": False if sharp else None}


def _of_pictures(given: Any, otherwise: Any) -> Any:
    """What a dict of v2 has by type says of pictures."""
    if not isinstance(given, dict):
        return given
    named = {getattr(key, "__name__", str(key)): value for key, value in given.items()}
    return next((named[key] for key in ("Image", "Tensor", "others") if key in named), otherwise)


def _fill(t: Any, at: At) -> Any:
    """fill= of a step, None where it is black."""
    fill = plain(_of_pictures(getattr(t, "fill", 0), 0))
    fill = at.in_bytes(0 if fill is None else fill)
    return None if fill in (0, (0,), (0, 0, 0)) else fill


# ---- torchvision ---------------------------------------------------------------------------------

def _resize(t: Any, at: At) -> list[str]:
    if t.size is None:
        raise NoEquivalent("only its longer side is said: letterbox(size) does that, and pads to a square")
    return [step("resize", _size(t.size), max_size=getattr(t, "max_size", None), **_resizing(t, at))]


def _random_resized_crop(t: Any, at: At) -> list[str]:
    scale, ratio = pair(t.scale), pair(t.ratio)
    drawn = isinstance(t.interpolation, (list, tuple)) and _either(t.interpolation)      # timm's
    return [step("random_resized_crop", square(t.size), scale=None if scale == (0.08, 1.0) else scale,
                 ratio=None if ratio == (3 / 4, 4 / 3) else ratio, **({"interpolation": "random"} if drawn else _resizing(t, at)))]


def _edge(t: Any) -> str | None:
    mode = getattr(t, "padding_mode", "constant")
    return None if mode == "constant" else str(mode)


def _random_crop(t: Any, at: At) -> list[str]:
    padding = plain(t.padding)
    if isinstance(padding, tuple) and len(padding) == 4 and ".v2" in type(t).__module__:
        left, right, top, bottom = padding          # as v2 keeps it, whatever it was given
        padding = left, top, right, bottom
    if isinstance(padding, tuple) and len(set(padding)) == 1:
        padding = padding[0]
    return [step("random_crop", square(t.size), padding=None if padding in (None, 0) else padding,
                 pad_if_needed=True if t.pad_if_needed else None, fill=_fill(t, at), padding_mode=_edge(t))]


def _pad(t: Any, at: At) -> list[str]:
    return [step("pad", _size(t.padding), fill=_fill(t, at), padding_mode=_edge(t))]


def color_jitter(t: Any, at: At) -> list[str]:
    def given(name: str, around: float) -> Any:
        value = getattr(t, name)
        if value is None:
            return 0
        low, high = pair(value)
        half = round(high - around, 10)
        return half if round(low - max(0.0, around - half) if around else low + half, 10) == 0 else (low, high)

    values = [given("brightness", 1), given("contrast", 1), given("saturation", 1), given("hue", 0)]
    while len(values) > 1 and values[-1] == 0:
        values.pop()
    return [step("color_jitter", *values)]


def _photometric(t: Any, at: At) -> list[str]:
    """Contrast comes before or after the colors."""
    p = float(t.p)
    light, first, rest = (step(name, pair(getattr(t, name)), p=p) for name in ("brightness", "contrast", "saturation"))
    colors = [rest, step("hue", pair(t.hue), p=p)]
    return [light, *one_of([[first, *colors], [*colors, first]], None), step("channel_shuffle", p=p)]


def _blur(t: Any, at: At) -> list[str]:
    sigma = pair(t.sigma)
    return [step("gaussian_blur", square(t.kernel_size), sigma=None if sigma == (0.1, 2.0) else sigma)]


def _rotation(t: Any, at: At) -> list[str]:
    refuse(t, expand=False, center=None)
    return [step("rotate", both_ways(t.degrees), interpolation=_resampling(t.interpolation, "nearest"), fill=_fill(t, at))]


def _affine(t: Any, at: At) -> list[str]:
    refuse(t, center=None)
    return [step("affine", both_ways(t.degrees), translate=pair(t.translate), scale=pair(t.scale), shear=pair(t.shear),
                 interpolation=_resampling(t.interpolation, "nearest"), fill=_fill(t, at))]


def _perspective(t: Any, at: At) -> list[str]:
    return [step("perspective", float(t.distortion_scale), p=float(t.p), interpolation=_resampling(t.interpolation), fill=_fill(t, at))]


def normalize(mean: Any, std: Any, times: float, at: At) -> list[str]:
    """(x - mean * times) / (std * times), where x are pixels as they are here."""
    def three(values: Any) -> tuple[float, ...]:
        values = plain(list(values)) if isinstance(values, Iterable) else (plain(values),)
        return tuple(float(f"{v * times * at.unit / 255:.7g}") for v in (values * 3 if len(values) == 1 else values))

    at.normalized = True
    given = three(mean), three(std)
    return ["normalize(imagenet)" if given == _IMAGENET else step("normalize", *given)]


def _normalize(t: Any, at: At) -> list[str]:
    if at.dtype == "u8":            # an error in torchvision: floats come before it
        at.dtype, at.unit = "f32", 255
    return normalize(t.mean, t.std, 1, at)


def _erasing(t: Any, at: At) -> list[str]:
    value = plain(t.value)
    scale, ratio = pair(t.scale), pair(t.ratio)
    noise = value in ("random", None)
    if noise and not at.normalized:
        raise NoEquivalent('its value="random" is normal noise, which is of use after Normalize: put it there')
    if not noise and not at.normalized:
        value = at.in_bytes(value)
    return [step("random_erasing", float(t.p), scale=None if scale == (0.02, 0.33) else scale,
                 ratio=None if ratio == (0.3, 3.3) else ratio, value="random" if noise else None if value in (0, (0,), (0, 0, 0)) else value)]


def _bins(t: Any) -> Any:
    return None if t.num_magnitude_bins == 31 else int(t.num_magnitude_bins)


def _moved(t: Any, at: At) -> dict[str, Any]:
    return {"interpolation": _resampling(t.interpolation, "nearest"), "fill": _fill(t, at)}


def _auto_augment(t: Any, at: At) -> list[str]:
    policy = str(getattr(t.policy, "value", t.policy)).lower()
    return [step("auto_augment", policy, **_moved(t, at))]


def _inside(t: Any, at: At) -> list[list[str]]:
    """The chains of what is around other transforms; what pixels are after it does not depend on chance."""
    before, made = copy(at), []
    for child in _children(t):
        made.append(_translate(child, at))
        if at != before:
            raise NoEquivalent("what changes the type of pixels must not depend on chance: put it outside")
    return made


def _apply(t: Any, at: At) -> list[str]:
    inside = [s for chain in _inside(t, at) for s in chain]
    return [f"random_apply({argument(inside)}, p={word(float(t.p))})"] if inside else []


def _choice(t: Any, at: At) -> list[str]:
    weights = getattr(t, "probabilities", None) or getattr(t, "p", None)
    return one_of(_inside(t, at), weights if isinstance(weights, (list, tuple)) else None)


def _order(t: Any, at: At) -> list[str]:
    inside = _inside(t, at)
    if len(inside) > 3:
        raise NoEquivalent("the orders of up to three steps can be written as one_of(): write one order out")
    return one_of([[s for chain in order for s in chain] for order in itertools.permutations(inside)], None) if len(inside) > 1 else sum(inside, [])


def _dtype(t: Any, at: At) -> list[str]:
    dtype = _of_pictures(t.dtype if hasattr(t, "dtype") else "float32", None)
    name = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "uint8": "u8", "None": at.dtype}.get(str(dtype).removeprefix("torch."))
    if name is None:
        raise NoEquivalent(f"pictures come as u8, f16, bf16 or f32, not {dtype}")
    if (name == "u8") != (at.dtype == "u8"):
        if at.normalized or (name == "u8" and not getattr(t, "scale", True) and at.unit != 1):
            raise NoEquivalent("its pixels are floats that do not fit bytes")
        at.unit = 255 if name != "u8" and getattr(t, "scale", True) else 1
    at.dtype = name
    return []


def _to_tensor(t: Any, at: At) -> list[str]:
    at.kind = "tensor"
    if at.dtype == "u8":
        at.dtype, at.unit = "f32", 255
    return []


def _as_tensor(t: Any, at: At) -> list[str]:
    at.kind = "tensor"
    return []


def _to_pil(t: Any, at: At) -> list[str]:
    if at.normalized:
        raise NoEquivalent("pixels are normalized before it: put it before Normalize")
    at.kind, at.dtype, at.unit = "pil", "u8", 1
    return []


def _once(name: str, *attributes: str) -> Translator:
    """A step with p=, and before it the attributes in order."""
    def make(t: Any, at: At) -> list[str]:
        values = [pair(getattr(t, a)) for a in attributes]
        p = getattr(t, "p", None)
        return [step(name, *values, p=None if p is None else float(p))]
    return make


def nothing(t: Any, at: At) -> list[str]:
    return []


def _gray(t: Any, at: At) -> list[str]:
    if getattr(t, "num_output_channels", 3) == 1:
        raise NoEquivalent("one channel is what image(mode=gray) decodes: write that in place of image")
    return ["grayscale(p=1)"]


def _noise(t: Any, at: At) -> list[str]:
    if not getattr(t, "clip", True):
        raise NoEquivalent("its clip=False has no equivalent: values are 0 to 255 here")
    return [step("gaussian_noise", mean=float(t.mean) or None, sigma=float(t.sigma))]


def _zoom_out(t: Any, at: At) -> list[str]:
    side = pair(t.side_range)
    return [step("zoom_out", side_range=None if side == (1.0, 4.0) else side, p=float(t.p), fill=_fill(t, at))]


_TORCHVISION: dict[str, Translator] = {
    "Resize": _resize, "RandomResizedCrop": _random_resized_crop, "RandomResizedCropAndInterpolation": _random_resized_crop,
    "CenterCrop": lambda t, at: [step("center_crop", square(t.size))], "RandomCrop": _random_crop, "Pad": _pad,
    "RandomHorizontalFlip": _once("hflip"), "RandomVerticalFlip": _once("vflip"), "ColorJitter": color_jitter,
    "RandomPhotometricDistort": _photometric, "RandomGrayscale": _once("grayscale"), "Grayscale": _gray, "GaussianBlur": _blur,
    "RandomRotation": _rotation, "RandomAffine": _affine, "RandomPerspective": _perspective, "RandomInvert": _once("invert"),
    "RandomSolarize": lambda t, at: [step("solarize", float(t.threshold) * at.unit, p=float(t.p))],
    "RandomPosterize": _once("posterize", "bits"), "RandomAutocontrast": _once("autocontrast"), "RandomEqualize": _once("equalize"),
    "RandomAdjustSharpness": _once("sharpness", "sharpness_factor"),
    "RandAugment": lambda t, at: [step("rand_augment", int(t.num_ops), int(t.magnitude), bins=_bins(t), **_moved(t, at))],
    "TrivialAugmentWide": lambda t, at: [step("trivial_augment", bins=_bins(t), **_moved(t, at))],
    "AutoAugment": _auto_augment, "RandomErasing": _erasing, "Normalize": _normalize, "RandomApply": _apply, "RandomChoice": _choice,
    "RandomOrder": _order, "ToTensor": _to_tensor, "MaybeToTensor": _to_tensor, "PILToTensor": _as_tensor, "MaybePILToTensor": _as_tensor,
    "ToImage": _as_tensor, "ToPILImage": _to_pil, "ToPureTensor": nothing, "Identity": nothing, "ToNumpy": nothing, "ToDtype": _dtype,
    "ConvertImageDtype": _dtype, "RGB": nothing, "JPEG": lambda t, at: [step("jpeg_artifacts", plain(t.quality))], "GaussianNoise": _noise,
    "RandomChannelPermutation": lambda t, at: ["channel_shuffle(p=1)"], "FiveCrop": lambda t, at: [step("five_crop", square(t.size))],
    "TenCrop": lambda t, at: [step("ten_crop", square(t.size), vertical_flip=True if t.vertical_flip else None)],
    "ScaleJitter": lambda t, at: [step("scale_jitter", square(t.target_size), scale=pair(t.scale_range), **_resizing(t, at))],
    "RandomShortestSize": lambda t, at: [step("random_shortest_size", _size(t.min_size), max_size=t.max_size, **_resizing(t, at))],
    "RandomZoomOut": _zoom_out, "SanitizeBoundingBoxes": nothing, "ClampBoundingBoxes": nothing,
}


# ---- timm ----------------------------------------------------------------------------------------

def _timm_erasing(t: Any, at: At) -> list[str]:
    scale = float(t.min_area), float(t.max_area)
    refuse(t, min_count=1)
    mode, count = str(getattr(t, "mode", "const")) or "const", int(getattr(t, "max_count", 1) or 1)
    if mode != "const" and not at.normalized:
        raise NoEquivalent(f"its mode is {mode}, which is normal noise: put it after Normalize")
    ratio = tuple(float(f"{math.exp(v):.7g}") for v in t.log_aspect_ratio)
    return [step("random_erasing", float(t.probability), scale=scale, ratio=ratio, value={"const": None, "rand": "color", "pixel": "random"}[mode],
                 count=None if count == 1 else count)]


_RAND = ["AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "Solarize", "SolarizeAdd", "Color", "Contrast", "Brightness", "Sharpness",
         "ShearX", "ShearY", "TranslateXRel", "TranslateYRel"]
_UP = {"Posterize", "Solarize", "Color", "Contrast", "Brightness", "Sharpness"}        # have a form that gets stronger with m
_RAND_UP = [name + "Increasing" * (name in _UP) for name in _RAND]
_WEIGHTS = {"Rotate": 3, "ShearX": 2, "ShearY": 2, "TranslateXRel": 1, "TranslateYRel": 1, "ColorIncreasing": .25, "SharpnessIncreasing": .25, "AutoContrast": .25,
            "SolarizeIncreasing": .05, "SolarizeAdd": .05, "ContrastIncreasing": .05, "BrightnessIncreasing": .05, "Equalize": .05,
            "PosterizeIncreasing": .05, "Invert": .05}
_3A = ["SolarizeIncreasing", "Desaturate", "GaussianBlur"]
_3AW = {**dict.fromkeys(_3A, 6), "Rotate": 3, "ShearX": 2, "ShearY": 2, **dict.fromkeys(["PosterizeIncreasing", "AutoContrast", "ColorIncreasing", "SharpnessIncreasing",
                                                                                   "ContrastIncreasing", "BrightnessIncreasing", "Equalize", "Invert"], 1)}
_POLICIES = {319180840: "v0", 371364221: "v0r", 2884522850: "original", 342053577: "originalr", 2713091094: "t3a"}     # CRC-32 of their ops


def _timm_shared(ops: list[Any]) -> dict[str, Any]:
    """What all ops of one of timm's policies have in common, as arguments of a step."""
    def of(op: Any) -> tuple[Any, ...]:
        return (plain(op.kwargs.get("fillcolor", (128,) * 3)), op.kwargs.get("resample", (2, 3)), op.magnitude_std, op.magnitude_max, op.hparams.get("translate_pct", 0.45))

    if any(of(op) != of(ops[0]) for op in ops):
        raise NoEquivalent("its ops differ in fill, filter or strength: a step has one for all")
    fill, resample, mstd, mmax, translate = of(ops[0])
    drawn = isinstance(resample, (list, tuple))
    if drawn and not _either(resample):
        raise NoEquivalent("its filter is drawn of others than bilinear and bicubic")
    fill = fill[0] if isinstance(fill, tuple) and len(set(fill)) == 1 else fill
    return {"mstd": min(float(mstd), 1000.0) or None, "mmax": None if mmax in (None, 10) else mmax, "fill": None if fill == 128 else fill,
            "interpolation": None if drawn else _resampling(resample, ""), "translate": None if translate == 0.45 else float(translate)}


def _timm_rand_augment(t: Any, at: At) -> list[str]:
    names, first, weights = [op.name for op in t.ops], t.ops[0], getattr(t, "choice_weights", None)
    if any((op.prob, op.magnitude) != (first.prob, first.magnitude) for op in t.ops):
        raise NoEquivalent("its ops differ in strength: a step has one for all")
    which = "t3a" if names == _3A and weights is None else None
    for name, table in (("weights", _WEIGHTS), ("t3aw", _3AW)):
        if weights is not None and dict(zip(names, (round(float(w) * sum(table.values()), 6) for w in weights), strict=True)) == table:
            which = name
    if not which and (weights is not None or names not in (_RAND, _RAND_UP)):
        raise NoEquivalent("its ops are none of timm's lists that timm_rand_augment() has: all, increasing, weights, 3a, 3aw")
    return [step("timm_rand_augment", float(first.magnitude), n=None if t.num_layers == 2 else int(t.num_layers),
                 p=None if first.prob == 0.5 else float(first.prob), increasing=True if names == _RAND_UP else None,
                 transforms=which, **_timm_shared(t.ops))]


def _timm_auto_augment(t: Any, at: At) -> list[str]:
    ops = [op for pair_of in t.policy for op in pair_of]
    text = repr([[(op.name, float(op.prob), float(op.magnitude)) for op in pair_of] for pair_of in t.policy])
    name = _POLICIES.get(zlib.crc32(text.encode()))
    if not name:
        raise NoEquivalent("its policy is none of v0, v0r, original, originalr and 3a")
    return [step("timm_auto_augment", name, **_timm_shared(ops))]


_AUGMIX = ["AutoContrast", "ColorIncreasing", "ContrastIncreasing", "BrightnessIncreasing", "SharpnessIncreasing", "Equalize", "Rotate",
           "PosterizeIncreasing", "SolarizeIncreasing", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel"]


def _timm_augmix(t: Any, at: At) -> list[str]:
    first = t.ops[0]
    if [op.name for op in t.ops] != _AUGMIX or any((op.prob, op.magnitude) != (1.0, first.magnitude) for op in t.ops):
        raise NoEquivalent("its ops are not timm's list")
    refuse(t, alpha=1.0, blended=False)
    named = {"mstd": 0.0, **{key: value for key, value in _timm_shared(t.ops).items() if value is not None}}
    if named["mstd"] == 1000:
        del named["mstd"]                       # what it has without
    named["translate"] = named.get("translate", 0.45)
    if named["translate"] == 0.3:
        del named["translate"]
    return [step("timm_augmix", float(first.magnitude), width=None if t.width == 3 else int(t.width), depth=int(t.depth) if t.depth > 0 else None, **named)]


def _timm_keep_ratio(t: Any, at: At) -> list[str]:
    refuse(t, longest=0.0, random_scale_prob=0.0, random_aspect_prob=0.0)
    size = square(t.size)
    if isinstance(size, tuple):
        raise NoEquivalent("it covers a box that is not square: resize((height, width)) changes the ratio, letterbox() pads")
    return say_near(at, "timm's ResizeKeepRatio", [step("resize", size, interpolation=_resampling(t.interpolation))],
                    "the longer side may be one pixel less")


_TIMM: dict[str, Translator] = {
    "RandomErasing": _timm_erasing, "RandAugment": _timm_rand_augment, "AutoAugment": _timm_auto_augment, "AugMixAugment": _timm_augmix,
    "ResizeKeepRatio": _timm_keep_ratio,
    "RandomCropOrPad": lambda t, at: [step("random_crop", square(t.size), pad_if_needed=True, fill=_fill(t, at), padding_mode=_edge(t))],
}


def _timm_center(t: Any, at: At) -> list[str]:
    if _edge(t) or _fill(t, at):
        raise NoEquivalent("center_crop() pads with black")
    return [step("center_crop", square(t.size))]


_TIMM["CenterCropOrPad"] = _timm_center
_INSTEAD = {
    "Lambda": OWN, "function": OWN, "ElasticTransform": OWN, "LinearTransformation": OWN, "AugMix": OWN,
    "MixUp": "it mixes batches: batch_ops=[\"mixup(image, label)\"]",
    "CutMix": "it mixes batches: batch_ops=[\"cutmix(image, label)\"]",
    "RandomIoUCrop": "write iou_crop(boxes), where boxes is the name of the output that is like() the picture",
    "RandomResize": "random_shortest_size((a, b, c)) draws one of several sizes",
    "ConvertBoundingBoxFormat": "boxes are an output of their own: like(image, format=xywh)",
}


# ---- all of it -----------------------------------------------------------------------------------

def _children(t: Any) -> list[Any]:
    return list(t.transforms) if hasattr(t, "transforms") else list(t)


def _is_list(t: Any) -> bool:
    return isinstance(t, (list, tuple)) or type(t).__name__ in ("Compose", "Sequential", "ReplayCompose", "BasicCompose")


def _chosen(t: Any) -> tuple[dict[str, Translator], dict[str, str], Callable[[list[str], float], list[str]] | None]:
    """For an object: translators, what to do instead of others, and what its p= adds."""
    module = type(t).__module__
    if module.startswith(("albumentations", "custom_albumentations")):
        from . import _from_albumentations as a
        return a.TRANSLATORS, a.INSTEAD, a.at_times
    return ({**_TORCHVISION, **_TIMM} if module.startswith("timm") else _TORCHVISION), _INSTEAD, None


def _translate(t: Any, at: At, always: bool = False) -> list[str]:
    """The steps of one transform.  always: p= of Albumentations is not asked."""
    if _is_list(t):
        children = t if isinstance(t, (list, tuple)) else _children(t)
        steps = [s for child in children for s in _translate(child, at)]
        p = 1.0 if always else float(getattr(t, "p", 1))        # Albumentations'
        return steps if p == 1 or not steps else [f"random_apply({argument(steps)}, p={word(p)})"]
    name = getattr(t, "__name__", type(t).__name__) if callable(t) and type(t).__name__ == "function" else type(t).__name__
    table, instead, at_times = _chosen(t)
    make = table.get(type(t).__name__)
    if make is None:
        unsupported(f"from_transform: {name} has no equivalent in a chain: {instead.get(type(t).__name__, OWN + nearest(name, table))}")
    after = at.normalized
    steps = _made(t, at, name, lambda t, at: at_times(make(t, at), 1.0 if always else float(t.p)) if at_times else make(t, at))
    if after and any(name_of(s) not in ("random_erasing", "hflip", "vflip") for s in steps):
        unsupported(f"from_transform: {name} comes after Normalize, where chains have random_erasing only: put it before")
    return steps


def _made(t: Any, at: At, name: str, make: Translator) -> list[str]:
    """What a translator makes of it, which a chain takes."""
    try:
        steps = make(t, at)
        if steps:
            _stoker.check_chain(" | ".join(("image", *steps)))
    except NoEquivalent as e:
        unsupported(f"from_transform: {name}: {e}; else {OWN}")
    except StokerError as e:
        unsupported(str(e) if str(e).startswith("from_transform") else f"from_transform: {name}: {e}")
    except (AttributeError, TypeError, ValueError) as e:
        unsupported(f"from_transform: {name} is not as this version knows it ({type(e).__name__}: {e}): write its step by hand")
    return steps


def always(children: Iterable[Any], at: At) -> list[list[str]]:
    """The chains of several transforms, whatever their p= is."""
    return [_translate(child, at, always=True) for child in children]


def _has_tensors(t: Any) -> bool:
    if _is_list(t):
        return any(_has_tensors(child) for child in (t if isinstance(t, (list, tuple)) else _children(t)))
    return type(t).__name__ in _TO_TENSOR


def steps_of(transform: Any, approximate: bool = False) -> list[str]:
    """The chain's steps after `image`: in the order that was given, with mirrors before normalize and to() at the end,
    where chains have them."""
    at = At(kind="pil" if _has_tensors(transform) else "", approximate=approximate)
    steps = _translate(transform, at)
    place = next((i for i, s in enumerate(steps) if name_of(s) == "normalize"), len(steps))
    mirrors = [s for s in steps[place:] if name_of(s) in ("hflip", "vflip")]
    steps = steps[:place] + mirrors + [s for s in steps[place:] if s not in mirrors]
    if at.normalized or at.dtype != "u8":
        steps.append(step("to", at.dtype, scale=False if at.unit == 1 and not at.normalized else None))
    return steps
