# SPDX-License-Identifier: Apache-2.0
"""Transforms of Albumentations (2.0.8) as steps of a chain: see _from_transform.py.

Every transform there has p=.  Translators answer steps that always run; at_times() adds p=.  OneOf() takes the p= of what
is in it as weights, and runs it always.
"""

from __future__ import annotations

from typing import Any

from ._from_transform import (OWN, At, NoEquivalent, Translator, always, argument, both_ways, color_jitter, name_of, normalize,
                              nothing, one_of, pair, plain, refuse, say_near, step, word)

_CV2 = {0: "nearest", 1: "bilinear", 2: "bicubic", 4: "lanczos"}
_HAS_P = {"hflip", "vflip", "grayscale", "invert", "equalize", "autocontrast", "channel_shuffle", "gaussian_blur", "solarize", "posterize",
          "jpeg_artifacts", "gaussian_noise"}


def _cv2(t: Any, usual: str = "bilinear") -> str | None:
    """interpolation= of a step, None where it is the usual one."""
    name = _CV2.get(int(getattr(t, "interpolation", 1)))
    if name is None:
        raise NoEquivalent("its filter is not one of nearest, bilinear, bicubic, lanczos")
    return None if name == usual else name


def _resizing(t: Any) -> dict[str, Any]:
    if getattr(t, "area_for_downscale", None) in ("image", "image_mask"):
        raise NoEquivalent(f"its area_for_downscale={t.area_for_downscale} makes smaller pictures by OpenCV's INTER_AREA: without it there "
                           "is an equivalent")
    name = _cv2(t)
    if name == "nearest":
        raise NoEquivalent("OpenCV's INTER_NEAREST takes other pixels than resize(interpolation=nearest): INTER_LINEAR has an equivalent")
    return {"antialias": False, "interpolation": name}


def _ranged(values: Any) -> Any:
    """A range as one number where both ends are the same."""
    low, high = values
    return low if low == high else (low, high)


def _crop(t: Any, at: At) -> list[str]:
    if getattr(t, "pad_if_needed", False):
        raise NoEquivalent("its pad_if_needed=True pads evenly, random_crop(size, pad_if_needed=true) at random: write that if it will do")
    return [step("random_crop", (int(t.height), int(t.width)))]


def _center(t: Any, at: At) -> list[str]:
    if getattr(t, "pad_if_needed", False):
        refuse(t, fill=0, border_mode=0, pad_position="center")
    return say_near(at, "CenterCrop", [step("center_crop", (int(t.height), int(t.width)))], "the middle of an odd number of pixels may be one further")


def _smallest(t: Any, at: At) -> list[str]:
    if not isinstance(t.max_size, (int, float)):
        raise NoEquivalent("it has several sizes: random_shortest_size() draws one of them")
    return say_near(at, "SmallestMaxSize", [step("resize", int(t.max_size), **_resizing(t))], "the longer side may be one pixel less")


def _blur(t: Any, at: At) -> list[str]:
    low, high = plain(t.blur_limit)
    sigma = pair(t.sigma_limit)
    if low != high:
        raise NoEquivalent(f"its blur_limit={(low, high)} draws the size of its kernel: blur_limit=0 follows sigma")
    size = int(low) or int(sigma[1] * 3.5) * 2 + 1
    return [step("gaussian_blur", size + 1 - size % 2, sigma=sigma)]


def _rotate(t: Any, at: At) -> list[str]:
    refuse(t, crop_border=False, border_mode=0)
    fill, name = at.in_bytes(plain(t.fill)), _cv2(t, "nearest")
    made = [step("rotate", both_ways(t.limit), interpolation=name, fill=None if fill in (0, (0, 0, 0)) else fill)]
    return say_near(at, "Rotate", made, "some pixels are their neighbor's in OpenCV" if name is None else "OpenCV places pixels in 32nds of a pixel")


def _jitter(t: Any, at: At) -> list[str]:
    made = color_jitter(t, at)
    if pair(t.hue) in (0, (0.0, 0.0)):
        return made
    return say_near(at, "ColorJitter", made, "OpenCV turns the hue of bytes in 180 steps")


def _normalize(t: Any, at: At) -> list[str]:
    refuse(t, normalization="standard")
    made = normalize(t.mean, t.std, float(t.max_pixel_value), at)
    at.dtype = "f32"
    return made


def _to_float(t: Any, at: At) -> list[str]:
    refuse(t, max_value=255)
    at.dtype, at.unit = "f32", 255
    return []


def _choice(t: Any, at: At) -> list[str]:
    return one_of(always(t.transforms, at), [float(child.p) for child in t.transforms])


def _gray(t: Any, at: At) -> list[str]:
    refuse(t, num_output_channels=3, method="weighted_average")
    return ["grayscale"]


def _equalize(t: Any, at: At) -> list[str]:
    refuse(t, by_channels=True, mask=None)
    return say_near(at, "Equalize", ["equalize"], "torchvision's, some values of 255 apart")


def _autocontrast(t: Any, at: At) -> list[str]:
    refuse(t, cutoff=0, ignore=None)
    if getattr(t, "method", "pil") != "pil":
        raise NoEquivalent(f"its method={t.method} has no equivalent: method=\"pil\" has")
    return ["autocontrast"]


def _posterize(t: Any, at: At) -> list[str]:
    bits = plain(t.num_bits)
    if isinstance(bits, tuple) and (len(bits) != 2 or isinstance(bits[0], tuple)):
        raise NoEquivalent("its channels have bits of their own: posterize() has one number for all")
    return [step("posterize", _ranged(bits) if isinstance(bits, tuple) else bits)]


def _compression(t: Any, at: At) -> list[str]:
    refuse(t, compression_type="jpeg")
    steps = [step("jpeg_artifacts", tuple(int(v) for v in t.quality_range))]
    return say_near(at, "ImageCompression", steps, "red and blue are not swapped before")


def _noise(t: Any, at: At) -> list[str]:
    refuse(t, per_channel=True, noise_scale_factor=1)
    mean = pair(t.mean_range)
    return [step("gaussian_noise", mean=None if mean == (0.0, 0.0) else mean, sigma=pair(t.std_range))]


def at_times(steps: list[str], p: float) -> list[str]:
    """Steps as often as p= of their transform says."""
    if len(steps) == 1 and (name_of(steps[0]) in _HAS_P or (name_of(steps[0]) == "one_of" and p != 1)):
        return [f"{steps[0].removesuffix(')')}{', ' if '(' in steps[0] else '('}p={word(p)})"]
    return steps if p == 1 or not steps else [f"random_apply({argument(steps)}, p={word(p)})"]


def _flag(name: str) -> Translator:
    return lambda t, at: [name]


TRANSLATORS: dict[str, Translator] = {
    "HorizontalFlip": _flag("hflip"), "VerticalFlip": _flag("vflip"), "ToGray": _gray, "InvertImg": _flag("invert"), "Equalize": _equalize,
    "AutoContrast": _autocontrast, "ChannelShuffle": _flag("channel_shuffle"),
    "RandomResizedCrop": lambda t, at: [step("random_resized_crop", _ranged(int(v) for v in t.size), scale=pair(t.scale), ratio=pair(t.ratio), **_resizing(t))],
    "Resize": lambda t, at: [step("resize", (int(t.height), int(t.width)), **_resizing(t))], "SmallestMaxSize": _smallest,
    "CenterCrop": _center, "RandomCrop": _crop, "Normalize": _normalize, "ToFloat": _to_float, "ToTensorV2": nothing, "ColorJitter": _jitter,
    "GaussianBlur": _blur, "Rotate": _rotate, "OneOf": _choice, "NoOp": nothing, "Posterize": _posterize, "ImageCompression": _compression,
    "Solarize": lambda t, at: [step("solarize", _ranged(float(v) * 255 for v in t.threshold_range))], "GaussNoise": _noise,
}
INSTEAD = {
    "Lambda": OWN, "LongestMaxSize": "with padding to a box it is letterbox()", "RandomOrder": "write the order out",
    "PadIfNeeded": "random_crop(size, pad_if_needed=true) and letterbox() pad", "RandomBrightnessContrast": "color_jitter(0.2, 0.2) is near: its "
    "brightness is a factor, not a sum", "CoarseDropout": "random_erasing(p) erases one box", "ElasticTransform": OWN,
    "SafeRotate": "it shrinks the picture to what it turns: rotate(limit) keeps its size, and cuts off the corners",
    "SomeOf": "one_of(a, b) runs one of several", "OneOrOther": "one_of(a, b) is it where both are as likely",
    "Affine": "affine(degrees, translate=, scale=, shear=) is torchvision's", "ShiftScaleRotate": "affine(degrees, translate=, scale=) is near",
    "HueSaturationValue": "hsv(hue, saturation, value) is near: it has factors, not sums", "Perspective": "perspective(distortion_scale) is torchvision's",
    "D4": "hflip | vflip do half of it", "RandomRotate90": "hflip | vflip turn it by 180 degrees",
}
