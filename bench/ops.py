#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each op costs at 256x256, against Pillow, OpenCV, AlbumentationsX and torchvision where they are installed.

    bench/ops.py [rounds]        make bench-ops

One thread; microseconds of CPU per picture, the best of the rounds, which take turns.  `stoker` is a whole call of stoker.Transform,
`in a chain` what the op adds to a chain that changes pixels already: four times channel_shuffle and the op, less four times
channel_shuffle, by four.  What the first such op costs besides is said below the table.  The others get an array and make an array.  Ratio: in a chain, over the best of Pillow, OpenCV and AlbumentationsX."""

import contextlib
import importlib.metadata
import math
import pathlib
import platform
import sys
import time
import warnings

import numpy as np

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "recipes")]
SIDE, BATCH, TIMES = 256, 16, 4
AFTER = "after another op: "
warnings.simplefilter("ignore")


def picture():
    rng = np.random.default_rng(1)
    from PIL import Image
    coarse = Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC)).astype(int)
    return np.clip(smooth + rng.normal(0, 8, smooth.shape), 0, 255).astype(np.uint8)


JITTER = (0.4, 0.4, 0.4, 0.1)
OURS = {
    "brightness": "brightness((1.3, 1.3))", "contrast": "contrast((1.3, 1.3))", "saturation": "saturation((1.3, 1.3))",
    "hue": "hue((0.1, 0.1))", "color jitter": "color_jitter(0.4, 0.4, 0.4, 0.1)", "hsv": "hsv((0.05, 0.05), (1.3, 1.3), (0.9, 0.9))",
    "grayscale": "grayscale(p=1)", "invert": "invert(p=1)", "solarize": "solarize(128, p=1)", "posterize": "posterize(4, p=1)",
    "autocontrast": "autocontrast(p=1)", "equalize": "equalize(p=1)", "gaussian blur 9": "gaussian_blur(9, sigma=1.5)",
    "sharpness": "sharpness(2, p=1)", "gaussian noise": "gaussian_noise(0, 0.1)", "erasing": "random_erasing(p=1)",
    "channel shuffle": "channel_shuffle", "jpeg 50": "jpeg_artifacts(50)", "rand_augment(2, 9)": "rand_augment(2, 9)",
    "trivial_augment": "trivial_augment",
}


def stoker_ops(image):
    import stoker
    batch = np.repeat(image[None], BATCH, 0)

    def one(chain):
        t = stoker.Transform(f"{chain} | to(u8, hwc)", layout="hwc", num_workers=1)
        return (lambda: t(batch)), BATCH
    known = {name for name, _, _ in stoker.chains.steps}
    ours = {name: chain for name, chain in OURS.items() if chain.split("(")[0] in known}
    ops = {name: one(chain) for name, chain in ours.items()} | {"": one("hflip(p=0)"), "touched": one("channel_shuffle"),
                                                             AFTER: one(" | ".join(["channel_shuffle"] * TIMES))}
    return ops | {AFTER + name: one(" | ".join([f"channel_shuffle | {chain}"] * TIMES)) for name, chain in ours.items()}


def pillow_ops(image):
    import io

    from PIL import Image, ImageEnhance, ImageFilter, ImageOps
    p = Image.fromarray(image)

    def jpeg():
        out = io.BytesIO()
        p.save(out, "JPEG", quality=50)
        return np.asarray(Image.open(out))
    return {
        "brightness": lambda: ImageEnhance.Brightness(p).enhance(1.3), "contrast": lambda: ImageEnhance.Contrast(p).enhance(1.3),
        "saturation": lambda: ImageEnhance.Color(p).enhance(1.3), "sharpness": lambda: ImageEnhance.Sharpness(p).enhance(2),
        "grayscale": lambda: p.convert("L").convert("RGB"), "invert": lambda: ImageOps.invert(p),
        "solarize": lambda: ImageOps.solarize(p, 128), "posterize": lambda: ImageOps.posterize(p, 4),
        "autocontrast": lambda: ImageOps.autocontrast(p), "equalize": lambda: ImageOps.equalize(p),
        "gaussian blur 9": lambda: p.filter(ImageFilter.GaussianBlur(1.5)), "jpeg 50": jpeg,
    }


def opencv_ops(image):
    import cv2
    cv2.setNumThreads(0)
    table = np.where(np.arange(256) >= 128, 255 - np.arange(256), np.arange(256)).astype(np.uint8)
    mask = np.full_like(image, 0xf0)

    def jpeg():
        return cv2.imdecode(cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, 50])[1], cv2.IMREAD_COLOR)
    return {
        "brightness": lambda: cv2.convertScaleAbs(image, alpha=1.3), "invert": lambda: cv2.bitwise_not(image),
        "grayscale": lambda: cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB),
        "solarize": lambda: cv2.LUT(image, table), "posterize": lambda: cv2.bitwise_and(image, mask),
        "gaussian blur 9": lambda: cv2.GaussianBlur(image, (9, 9), 1.5), "jpeg 50": jpeg,
        "equalize": lambda: cv2.merge([cv2.equalizeHist(c) for c in cv2.split(image)]),
        "channel shuffle": lambda: cv2.cvtColor(image, cv2.COLOR_RGB2BGR),
    }


def albumentations_ops(image):
    import albumentations as A
    one = (1.3, 1.3)
    ops = {
        "color jitter": lambda: A.ColorJitter(*[(1 - v, 1 + v) for v in JITTER[:3]], (-0.1, 0.1), p=1),
        "brightness": lambda: A.ColorJitter(one, (1, 1), (1, 1), (0, 0), p=1), "contrast": lambda: A.ColorJitter((1, 1), one, (1, 1), (0, 0), p=1),
        "saturation": lambda: A.ColorJitter((1, 1), (1, 1), one, (0, 0), p=1), "hue": lambda: A.ColorJitter((1, 1), (1, 1), (1, 1), (0.1, 0.1), p=1),
        "hsv": lambda: A.HueSaturationValue((9, 9), (30, 30), (-20, -20), p=1), "grayscale": lambda: A.ToGray(p=1),
        "invert": lambda: A.InvertImg(p=1), "solarize": lambda: A.Solarize(threshold_range=(0.5, 0.5), p=1),
        "posterize": lambda: A.Posterize(num_bits=(4, 4), p=1), "autocontrast": lambda: A.AutoContrast(p=1),
        "equalize": lambda: A.Equalize(by_channels=True, p=1),
        "gaussian blur 9": lambda: A.GaussianBlur(blur_range=(9, 9), sigma_range=(1.5, 1.5), p=1),
        "sharpness": lambda: A.Sharpen(p=1), "gaussian noise": lambda: A.GaussNoise(std_range=(0.1, 0.1), p=1),
        "erasing": lambda: A.Erasing(p=1), "channel shuffle": lambda: A.ChannelShuffle(p=1),
        "jpeg 50": lambda: A.ImageCompression(quality_range=(50, 50), p=1),
    }
    made = {}
    for name, make in ops.items():
        with contextlib.suppress(Exception):    # an argument that this version does not have
            t = make()
            t(image=image)
            made[name] = lambda t=t: t(image=image)
    return made


def torchvision_ops(image):
    import tv_oracle
    T = tv_oracle.load()
    import torch
    torch.set_num_threads(1)
    F, x = T.functional, torch.from_numpy(image.transpose(2, 0, 1).copy())
    jitter, rand, trivial, erase = T.ColorJitter(*JITTER), T.RandAugment(2, 9), T.TrivialAugmentWide(), T.RandomErasing(p=1)
    return {
        "brightness": lambda: F.adjust_brightness(x, 1.3), "contrast": lambda: F.adjust_contrast(x, 1.3),
        "saturation": lambda: F.adjust_saturation(x, 1.3), "hue": lambda: F.adjust_hue(x, 0.1), "color jitter": lambda: jitter(x),
        "grayscale": lambda: F.rgb_to_grayscale(x, 3), "invert": lambda: F.invert(x), "solarize": lambda: F.solarize(x, 128),
        "posterize": lambda: F.posterize(x, 4), "autocontrast": lambda: F.autocontrast(x), "equalize": lambda: F.equalize(x),
        "gaussian blur 9": lambda: F.gaussian_blur(x, [9, 9], [1.5, 1.5]), "sharpness": lambda: F.adjust_sharpness(x, 2),
        "gaussian noise": lambda: F.gaussian_noise(x, 0, 0.1), "erasing": lambda: erase(x), "rand_augment(2, 9)": lambda: rand(x),
        "trivial_augment": lambda: trivial(x),
    }


def microseconds(call, n):
    """Of CPU, of one picture: as many calls as take some milliseconds."""
    repeat, spent = 1, 0.0
    while True:
        start = time.process_time()
        for _ in range(repeat):
            call()
        spent = time.process_time() - start
        if spent > 0.004:
            return spent / repeat / n * 1e6
        repeat *= 4


def measure(rounds):
    """{who: {op: the best of the rounds}}"""
    image, sides = picture(), {}
    for who, make in (("stoker", stoker_ops), ("Pillow", pillow_ops), ("OpenCV", opencv_ops), ("AlbumentationsX", albumentations_ops),
                      ("torchvision", torchvision_ops)):
        try:
            sides[who] = {op: call if isinstance(call, tuple) else (call, 1) for op, call in make(image).items()}
        except BaseException as e:              # pytest's skip is one
            print(f"{who}: left out ({type(e).__name__}: {str(e)[:100]})")
    best = {who: dict.fromkeys(ops, math.inf) for who, ops in sides.items()}
    for _ in range(rounds):
        for op in ["", "touched", AFTER, *OURS, *(AFTER + op for op in OURS)]:
            for who, ops in sides.items():
                if op in ops:
                    best[who][op] = min(best[who][op], microseconds(*ops[op]))
    return best


def report(best):
    others = [w for w in best if w != "stoker"]
    plain, touched, ratios = best["stoker"][""], best["stoker"]["touched"], []

    def added(op):
        return max((best["stoker"][AFTER + op] - best["stoker"][AFTER]) / TIMES, 0.1)
    print(f"{'op':20}{'stoker':>10}{'in a chain':>12}" + "".join(f"{w:>17}" for w in others) + f"{'ratio':>8}")
    for op in OURS:
        if op not in best["stoker"]:
            continue
        whole = best["stoker"][op]
        alone = added(op)
        peers = [best[w][op] for w in others if op in best[w] and w != "torchvision"]
        ratio = alone / min(peers) if peers else None
        ratios += [ratio] if ratio else []
        cells = "".join(f"{best[w][op]:17.0f}" if op in best[w] else f"{'-':>17}" for w in others)
        print(f"{op:20}{whole:10.0f}{alone:12.0f}{cells}" + (f"{ratio:8.2f}" if ratio else f"{'-':>8}"))
    print(f"a chain that changes pixels: {touched - plain:.0f} more than one that does not, with channel_shuffle")
    if ratios:
        print(f"geometric mean of {len(ratios)} ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, largest {max(ratios):.2f}")
    ax = best.get("AlbumentationsX", {}).get("color jitter")
    if ax:
        jitter = best["stoker"]["color jitter"]
        print(f"color jitter with hue over AlbumentationsX: {added('color jitter') / ax:.2f} in a chain, {jitter / ax:.2f} as a whole call")


def versions():
    for name in ("pillow", "opencv-python-headless", "albumentationsx", "torch", "torchvision"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield f"{name} {importlib.metadata.version(name)}"


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    print(f"ops at {SIDE}x{SIDE}, one thread, microseconds of CPU per picture, best of {rounds} rounds; {cpu}")
    print(", ".join(versions()))
    report(measure(rounds))


if __name__ == "__main__":
    main()
