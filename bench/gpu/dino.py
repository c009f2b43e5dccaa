#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""DINO's augmentation, finished in GPU memory, beside decode + crop alone, by turns, the best of each.

    bench/gpu/dino.py --shards DIR [--rounds 3] [--seconds 3] [--name first] [--only REGEX]

RandomResizedCrop(224, bicubic), flip, color jitter p=0.8, gray p=0.2, blur p=0.5, solarize p=0.2, normalized, f16; batch 256;
every picture draws its own numbers; views of a picture share its decode.  torchvision's v2 and Kornia, where they are installed, get crops that are on the GPU;
DALI gets such crops and, in rows of its own, the shards.
The first batch on the GPU is compared with the CPU's beforehand.
"""

import re

import dali
import feeds
import measure
import torch

CROP = "random_resized_crop({size}, interpolation=bicubic, scale=(0.25, 1)) | hflip"
PIXELS = ("color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8) | grayscale(p=0.2) | gaussian_blur(23, sigma=(0.1, 2), p=0.5) | "
          "solarize(128, p=0.2)")
TARGET = 150_000


class OnCrops:
    """Another library's ops on crops that are on the GPU already: what it would do after a free decoder and crop."""

    def __init__(self, s, make):
        self.ops = make()
        self.crops = torch.randint(0, 256, (s.batch, 3, s.size, s.size), dtype=torch.uint8, device=s.where)
        self.setting = s

    def __iter__(self):
        while True:
            yield self.setting.normalize(self.ops(self.crops)), None

    def close(self):
        self.crops = None


class Views(feeds.Stoker):
    """Several crops of each picture, counted as crops."""

    def __iter__(self):
        for images, labels in super().__iter__():
            yield images.flatten(0, 1), labels


def torchvision_ops():
    from torchvision.transforms import v2
    return v2.Compose([v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), v2.RandomGrayscale(0.2),
                       v2.RandomApply([v2.GaussianBlur(23, (0.1, 2))], p=0.5), v2.RandomSolarize(128, p=0.2)])


def kornia_ops():
    import kornia.augmentation as aug
    ops = torch.nn.Sequential(aug.ColorJitter(0.4, 0.4, 0.2, 0.1, p=0.8), aug.RandomGrayscale(p=0.2),
                              aug.RandomGaussianBlur((23, 23), (0.1, 2.0), p=0.5), aug.RandomSolarize(p=0.2))
    return lambda crops: ops(crops.float() / 255) * 255


def sides(s):
    """name -> (open, target in images a second)."""
    crop, whole = CROP.format(size=s.size), f"{CROP.format(size=s.size)} | {PIXELS}"

    def ours(how, ops, **options):
        return lambda: feeds.Stoker(s, how, ops=ops, **options)

    return {
        "decode + crop (bilinear) + flip": (ours("gpu", None), None),
        "decode + crop (bicubic) + flip": (ours("gpu", crop), None),
        "DINO chain": (ours("gpu", whole), TARGET),
        "4 views of each picture, crop (bicubic) + flip": (lambda: Views(s, "gpu", ops=f"views(4) | {crop}"), None),
        "4 views of each picture, DINO chain": (lambda: Views(s, "gpu", ops=f"views(4) | {whole}"), None),
        "decode + crop (bicubic) + flip, cache=device": (ours("gpu", crop, cache="device"), None),
        "DINO chain, cache=device": (ours("gpu", whole, cache="device"), None),
        "DINO chain, decoded by the CPU": (ours("cpu", whole), None),
        "torchvision v2 on ready crops, one draw a batch": (lambda: OnCrops(s, torchvision_ops), None),
        "Kornia on ready crops": (lambda: OnCrops(s, kornia_ops), None),
        "DALI on ready crops": (lambda: dali.on_crops(s), None),
        "DALI on ready crops, color_twist and flip only": (lambda: dali.on_crops(s, whole=False), None),
        "DALI from the shards, hardware decoder 0.65": (lambda: dali.from_shards(s, 0.65), None),
        "DALI from the shards, hardware decoder 0.9": (lambda: dali.from_shards(s, 0.9), None),
    }


def check(s, results):
    whole = f"{CROP.format(size=s.size)} | {PIXELS}"

    def first(how):
        feed = feeds.Stoker(s, how, ops=whole)
        images, _ = next(iter(feed))
        images = images.cpu()
        feed.close()
        return images

    same = torch.equal(first("pageable").view(torch.int16), first("gpu").view(torch.int16))
    results.say(f"  DINO chain: first batch {'equals the CPU path' if same else 'DIFFERS from the CPU path'}")


def run(make, args, s):
    feed = make()
    try:
        return measure.clock(feed, args.seconds, min(1.0, args.seconds), 8, s.where)[0]
    finally:
        measure.close(feed)


def main():
    args = measure.arguments(__doc__, shards={"required": True}, rounds={"type": int, "default": 3},
                             seconds={"type": float, "default": 3.0}, batch={"type": int, "default": 256},
                             workers={"type": int}, size={"type": int, "default": 224}, only={"help": "feeds whose name fits"})
    s = feeds.Setting(args.shards, measure.device(args), args.batch, args.workers)
    s.size = args.size
    results = measure.Results("dino", args)
    chosen = {n: side for n, side in sides(s).items() if not args.only or re.search(args.only, n)}
    check(s, results)
    best, absent = {}, {}
    for number in range(args.rounds):
        for name, (make, _) in chosen.items():
            if name in absent:
                continue
            try:
                speed = run(make, args, s)
            except Exception as e:              # one that cannot run must not end the others' turn
                absent[name] = f"{type(e).__name__}: {e}"
                continue
            best.setdefault(name, []).append(speed)
            results.say(f"  round {number + 1}  {name:<50}{speed:>12,.0f} crops/s")
    results.say()
    for name, (_, target) in chosen.items():
        if name in absent:
            results.add(f"{name:<50}      absent   {absent[name][:120]}", name=name, absent=absent[name])
            continue
        speed = max(best[name])
        results.add(f"{name:<50}{speed:>12,.0f} crops/s{measure.bar(speed, target)}", name=name,
                    images_per_s=round(speed), target=target, rounds=[round(v) for v in best[name]])
    alone, chain = (max(best.get(n, [0])) for n in ("decode + crop (bicubic) + flip", "DINO chain"))
    if alone and chain:
        results.say(f"DINO chain / decode + crop (bicubic): {chain / alone:.2f} (aim 0.8)")


if __name__ == "__main__":
    main()
