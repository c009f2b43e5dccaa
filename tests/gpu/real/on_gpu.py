# SPDX-License-Identifier: Apache-2.0
"""What the GPU tests share: the device, streams that are none on a dry run, pictures and data made here."""

import contextlib
import io
import os
import random
import sys
from pathlib import Path

import numpy as np
import stoker
from PIL import Image

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))
if os.environ.get("STOKER_BUILD"):
    sys.path.insert(0, os.path.join(os.environ["STOKER_BUILD"], "python"))

from made import write_tar  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

DRY = os.environ.get("STOKER_GPU_DRY") == "1"
DEVICE = "cpu" if DRY else "cuda"
SEED = int(os.environ.get("STOKER_GPU_SEED", "20261115"))


def why_not():
    """Why these tests cannot run; "": they can."""
    if torch is None:
        return "torch is not installed"
    if not DRY and not torch.cuda.is_available():
        return "torch sees no GPU (make gpu-test runs these on one)"
    return ""


def options(**more):
    """Of a loader that gives batches on the device; what only a GPU has is left out of a dry run."""
    return {} if DRY else {"device": "cuda", **more}


# ---- streams ------------------------------------------------------------------------------------

def delay(rng, most=400_000):
    """Now and then, hold the current stream up for a random time."""
    if not DRY and rng.random() < 0.5:
        torch.cuda._sleep(rng.randrange(most))


def side_stream():
    return None if DRY else torch.cuda.Stream()


def on(stream):
    return contextlib.nullcontext() if stream is None else torch.cuda.stream(stream)


def meet(stream):
    """The current stream goes on behind what `stream` has been given so far."""
    if stream is not None:
        torch.cuda.current_stream().wait_stream(stream)


def settle():
    if not DRY:
        torch.cuda.synchronize()


class Verdict:
    """Counts elements that are not as they must be, on the device and without waiting for it."""

    def __init__(self):
        self.wrong = torch.zeros((), dtype=torch.int64, device=DEVICE)
        self.seen = torch.zeros((), dtype=torch.int64, device=DEVICE)

    def equal(self, got, want):
        self.wrong += (got != want).sum()
        self.seen += got.numel()

    def check(self):
        settle()
        assert int(self.seen) > 0
        assert int(self.wrong) == 0, f"{int(self.wrong)} of {int(self.seen)} elements are not what they must be"


# ---- data ---------------------------------------------------------------------------------------

def photo(seed, width, height):
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (7, 9, 3), dtype=np.uint8))
    fine = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.int16)
    return Image.fromarray(np.clip(fine + rng.integers(-9, 10, fine.shape), 0, 255).astype(np.uint8))


def encoded(image, kind="JPEG", **how):
    out = io.BytesIO()
    image.save(out, kind, **how)
    return out.getvalue()


def every_kind(seed=SEED, rounds=3):
    """(name, extension, bytes) of pictures: samplings, qualities, tables, restarts, gray, progressive, PNG, WebP."""
    rng, made = random.Random(seed), []
    jpegs = [{"subsampling": s, "quality": q, "optimize": o} for s in (0, 1, 2) for q in (35, 75, 95) for o in (False, True)]
    jpegs += [{"quality": 85, "restart_marker_rows": 1}, {"quality": 85, "restart_marker_blocks": 3},
              {"quality": 80, "progressive": True}, {"quality": 90, "progressive": True, "subsampling": 0}]
    for n in range(rounds):
        for how in jpegs:
            size = rng.choice([(8, 8), (17, 33), (96, 72), (131, 257), (300, 200), (1, 50), (640, 427)])
            made.append((f"jpeg {how}", "jpg", encoded(photo(len(made), *size), **how)))
        made.append(("gray", "jpg", encoded(photo(len(made), 120 + n, 90).convert("L"), quality=88)))
        if "libspng none" in stoker.build_info():    # the machine with the GPU may lack it
            continue
        made.append(("png", "png", encoded(photo(len(made), 75, 64 + n), "PNG")))
        made.append(("gray png", "png", encoded(photo(len(made), 75, 64 + n).convert("L"), "PNG")))
    return made


def write_pictures(path, pictures):
    """A tar of pictures under `pic`, with a label and a text each."""
    members = []
    for i, (name, _, data) in enumerate(pictures):
        members += [(f"{i:05d}.pic", data), (f"{i:05d}.cls", str(i % 17).encode()), (f"{i:05d}.txt", name.encode())]
    return str(write_tar(path, members))


def bits(value):
    """A tensor's bits on the host, so that equal means equal."""
    value = value.detach().cpu().contiguous()
    size = value.element_size()
    return value.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]) if value.dim() else value


# ---- chains -------------------------------------------------------------------------------------

# Every op that changes pixels on the GPU; DINO's chain first.
PIXEL_CHAINS = [
    "random_resized_crop(64, interpolation=bicubic) | hflip | color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8) | grayscale(p=0.2) | "
    "gaussian_blur(23, sigma=(0.1, 2), p=0.5) | solarize(128, p=0.2) | normalize(imagenet) | to(f16)",
    "random_resized_crop(48) | brightness(0.5) | contrast(0.5) | to(u8)",
    "random_resized_crop(47) | saturation(0.6) | hue(0.3) | invert(p=0.3) | to(u8, hwc)",
    "random_resized_crop(48) | hsv(0.1, 0.5, 0.5) | posterize((2, 6), p=1) | channel_shuffle | to(f32)",
    "random_resized_crop(48) | autocontrast(p=0.7) | equalize(p=0.7) | contrast(0.9) | equalize(p=0.5) | normalize(half) | to(bf16)",
    "random_resized_crop(48) | sharpness((0, 3), p=0.8) | gaussian_blur((31, 5)) | sharpness(2, p=0.5) | "
    "gaussian_blur(127, sigma=20) | to(u8)",
    "random_resized_crop(48) | gaussian_noise(0.1, sigma=(0, 0.2), p=0.7) | random_erasing(p=0.6) | "
    "random_erasing(p=0.6, value=random) | to(u8)",
    "random_resized_crop(48) | contrast(0.3) | normalize(imagenet) | random_erasing(p=0.6, value=random) | random_erasing(p=0.6) | "
    "to(f16, channels_last)",
    "random_resized_crop(48) | random_apply(color_jitter(0.4, 0.4, 0.4, 0.1) | gaussian_blur(5), p=0.5) | "
    "one_of(solarize(100, p=1), equalize(p=1), invert(p=1) | sharpness(2, p=1)) | to(f16)",
    "random_resized_crop(48) | rand_augment(3, 15) | normalize(imagenet) | random_erasing(p=0.25) | to(f16)",
    "random_resized_crop(48) | trivial_augment(interpolation=bilinear) | auto_augment | to(u8)",
    "random_resized_crop(48, interpolation=random) | hflip | timm_rand_augment(9, mstd=0.5, increasing=true, fill=(124, 116, 104)) | normalize(imagenet) | "
    "random_erasing(0.5, value=color, count=3) | to(f16)",
    "random_resized_crop(56, interpolation=random) | timm_rand_augment(14, n=4, p=0.9, mmax=20, interpolation=bicubic) | timm_rand_augment(8, n=3, p=1, transforms=weights) | to(u8)",
    "random_resized_crop(47) | timm_auto_augment(v0, mstd=1) | timm_auto_augment(originalr, mstd=200, interpolation=bilinear) | to(u8, hwc)",
    "random_resized_crop(47) | timm_augmix(6) | normalize(half) | to(f16)",
    "random_resized_crop(56) | contrast(0.5) | timm_augmix(9, width=2, depth=4, mstd=0, interpolation=bicubic) | equalize(p=0.5) | hflip | to(u8, hwc)",
    "random_resized_crop(64) | rotate(30, fill=(9, 8, 7)) | affine(20, translate=(0.1, 0.2), scale=(0.5, 1.5), shear=9, "
    "interpolation=bilinear) | perspective(0.6, p=0.8) | to(u8)",
    "random_resized_crop(48) | color_jitter(0.4, 0.4, 0.4, 0.1) | hflip | vflip | to(f16)",
    "random_resized_crop(37) | gaussian_blur(5) | random_crop(37, padding=5, padding_mode=reflect) | invert(p=0.5) | "
    "random_resized_crop(44, interpolation=bicubic) | vflip | solarize(99, p=1) | resize((20, 31), interpolation=lanczos) | to(f32)",
    "random_resized_crop(48) | hue(0.1) | resize((21, 60), interpolation=nearest) | rotate(10) | resize((33, 33), antialias=false) | "
    "to(u8, hwc)",
    "resize((1, 1)) | autocontrast(p=1) | gaussian_blur(5) | sharpness(2, p=1) | equalize(p=1) | to(f32)",
    "resize((300, 400)) | contrast(0.5) | gaussian_blur(9) | equalize(p=1) | autocontrast(p=1) | to(u8)",
    "resize((131, 70)) | gaussian_blur((23, 9), sigma=(0.1, 2)) | equalize(p=0.5) | gaussian_blur(25, sigma=(3, 9)) | "
    "gaussian_blur((3, 27), sigma=(0.1, 3)) | normalize(half) | to(f16)",
    "random_resized_crop((66, 35)) | jpeg_artifacts((1, 100), p=0.8) | hue(0.1) | jpeg_artifacts(30) | to(u8)",
]
