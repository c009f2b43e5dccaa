#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recipes that people train with: a whole loader against DataLoader and torchvision, and DINO's chain after the decode.

    bench/recipes.py [rounds] [photos]

The first table: RandomResizedCrop(bicubic) 224, flip, color jitter, RandAugment(2, 9), normalize, random erasing; Stoker from a tar with
seek points, DataLoader from the same JPEGs as files with Pillow's decoder, on tensors and on Pillow's pictures, with 2 to 4 workers.
The second: bicubic crop 224, flip, jitter p=0.8, gray, blur, solarize, f16, of decoded pictures 320 wide, one thread.  Rounds take
turns; the best of each side counts.  CPU: of all processes, per picture, which another load of the machine disturbs less."""

import math
import os
import pathlib
import platform
import resource
import subprocess
import sys
import time
import warnings

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "recipes"), str(ROOT / "tools" / "demo")]
BATCH, SIDE, EPOCHS = 32, 224, 4      # EPOCHS: timed of either side, after one that is not
CHAIN = f"image | random_resized_crop({SIDE}, interpolation=bicubic) | hflip | color_jitter(0.4, 0.4, 0.4, 0.1) | rand_augment(2, 9) " \
        "| normalize(imagenet) | random_erasing(0.25) | to(f32)"
DINO = f"random_resized_crop({SIDE}, scale=(0.32, 1), interpolation=bicubic) | hflip | color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8) " \
       "| grayscale(p=0.2) | gaussian_blur(23, sigma=(0.1, 2), p=0.5) | solarize(128, p=0.2) | normalize(imagenet) | to(f16)"
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
warnings.simplefilter("ignore")


def cpu_seconds():
    return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


# ---- a whole loader --------------------------------------------------------------------------------

class Photos:
    def __init__(self, files, kind):
        self.files, self.kind, self.chain = files, kind, None

    def __len__(self):
        return len(self.files)

    def make(self):
        import torch
        import tv_oracle
        torch.set_num_threads(1)
        v2 = tv_oracle.load()
        cubic = v2.InterpolationMode.BICUBIC
        steps = [v2.RandomResizedCrop(SIDE, interpolation=cubic, antialias=True), v2.RandomHorizontalFlip(), v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
                 v2.RandAugment(2, 9)]
        last = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), v2.RandomErasing(0.25)]
        return v2.Compose([v2.PILToTensor(), *steps, *last] if self.kind == "tensor" else [*steps, v2.PILToTensor(), *last])

    def __getitem__(self, i):
        from PIL import Image
        if self.chain is None:
            self.chain = self.make()
        return self.chain(Image.open(self.files[i]).convert("RGB"))


def one_epoch_of_torch(files, kind, workers):
    """In a process of its own, so that its workers' time is known when it ends: (seconds, CPU seconds) of an epoch, the workers being warm."""
    path = [*sys.path[:2], str(ROOT / "bench")]
    code = f"import sys; sys.path[:0] = {path!r}\nimport recipes\nrecipes.torch_process({[str(f) for f in files]!r}, {kind!r}, {workers})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return tuple(map(float, done.stdout.split()[-2:]))


def torch_process(files, kind, workers):
    from torch.utils.data import DataLoader

    def run(epochs):
        loader = DataLoader(Photos(files, kind), batch_size=BATCH, shuffle=True, num_workers=workers, persistent_workers=True, prefetch_factor=4)
        for _ in loader:
            pass
        start = time.perf_counter()
        for _ in range(epochs - 1):
            for _ in loader:
                pass
        spent = time.perf_counter() - start
        del loader
        return spent
    run(1)
    before = cpu_seconds()
    run(1)
    middle = cpu_seconds()
    seconds = run(1 + EPOCHS)
    print(seconds / EPOCHS, max(cpu_seconds() - middle - (middle - before), 1e-9) / EPOCHS)


def one_epoch_of_stoker(shard):
    import stoker
    with stoker.Loader(str(shard), {"image": f"from(jpg) | {CHAIN}"}, batch_size=BATCH, shuffle=True, num_workers=2) as loader:
        count = len(loader.dataset)
        for _ in range(2):                      # memory of the batches ahead is there, files are open; none is ready: nothing is between
            for _ in loader:
                pass
        start, before, n = time.perf_counter(), cpu_seconds(), 0
        for _ in range(EPOCHS):
            n += sum(len(batch["image"]) for batch in loader)
        assert n == EPOCHS * count
        return (time.perf_counter() - start) / EPOCHS, (cpu_seconds() - before) / EPOCHS


def whole_loader(files, shard, rounds):
    sides = {"stoker, 2 workers": lambda: one_epoch_of_stoker(shard)}
    for kind in ("tensor", "Pillow"):
        for workers in (2, 3, 4):
            sides[f"DataLoader + torchvision v2, {kind}, {workers} workers"] = lambda k=kind, w=workers: one_epoch_of_torch(files, k, w)
    best = {name: [math.inf, math.inf] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            best[name] = [min(a, b) for a, b in zip(best[name], run(), strict=True)]
    print(f"{'RRC(bicubic) + flip + color jitter + RandAugment + normalize + erasing':72}{'pictures/s':>12}{'CPU us each':>14}")
    for name, (seconds, cpu) in best.items():
        print(f"{name:72}{len(files) / seconds:12.0f}{cpu / len(files) * 1e6:14.0f}")
    ours, others = best["stoker, 2 workers"], [v for k, v in best.items() if k.startswith("DataLoader")]
    print(f"stoker over the best DataLoader: {min(v[0] for v in others) / ours[0]:.1f}x by the clock, "
          f"{min(v[1] for v in others) / ours[1]:.1f}x by CPU time")


# ---- DINO after the decode -------------------------------------------------------------------------

def dino_stoker(pictures):
    import stoker
    t = stoker.Transform(DINO, layout="hwc", num_workers=1)
    return lambda: t(pictures)


def dino_albumentations(pictures):
    import albumentations as A
    chain = A.Compose([A.RandomResizedCrop(size=(SIDE, SIDE), scale=(0.32, 1), interpolation=2, p=1), A.HorizontalFlip(p=0.5),
                       A.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.8, 1.2), (-0.1, 0.1), p=0.8), A.ToGray(p=0.2),
                       A.GaussianBlur(blur_range=(23, 23), sigma_range=(0.1, 2), p=0.5), A.Solarize(threshold_range=(0.5, 0.5), p=0.2),
                       A.Normalize(MEAN, STD, max_pixel_value=255)])
    return lambda: [np.ascontiguousarray(chain(image=p)["image"].transpose(2, 0, 1), dtype=np.float16) for p in pictures]


def dino_torchvision(pictures):
    import tv_oracle
    v2 = tv_oracle.load()
    import torch
    torch.set_num_threads(1)
    chain = v2.Compose([v2.RandomResizedCrop(SIDE, scale=(0.32, 1), interpolation=v2.InterpolationMode.BICUBIC, antialias=True),
                        v2.RandomHorizontalFlip(), v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8), v2.RandomGrayscale(0.2),
                        v2.RandomApply([v2.GaussianBlur(23, sigma=(0.1, 2.0))], p=0.5), v2.RandomSolarize(128, 0.2),
                        v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD), v2.ToDtype(torch.float16)])
    given = [torch.from_numpy(p.transpose(2, 0, 1).copy()) for p in pictures]
    return lambda: [chain(p) for p in given]


def dino(files, rounds):
    from PIL import Image
    pictures = [np.asarray(Image.open(f).convert("RGB").resize((320, 256))) for f in files[:32]]
    sides, best = {}, {}
    for name, make in (("stoker", dino_stoker), ("AlbumentationsX", dino_albumentations), ("torchvision v2", dino_torchvision)):
        try:
            sides[name], best[name] = make(np.stack(pictures)), math.inf
        except ImportError as e:
            print(f"{name} is left out: {e}")
    for _ in range(3 * rounds):
        for name, run in sides.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], (time.process_time() - start) / len(pictures) * 1e6)
    print(f"\n{'DINO chain after the decode, one thread':72}{'CPU us each':>14}")
    for name, spent in best.items():
        print(f"{name:72}{spent:14.0f}" + (f"{spent / best['stoker']:10.1f}x" if name != "stoker" else ""))


def main():
    import photos
    import stoker
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    folder = ROOT / "build" / "bench-recipes"
    photos.make_photos(folder / "photos", count=int(sys.argv[2]) if len(sys.argv) > 2 else 128)
    files = sorted((folder / "photos").rglob("*.jpg"))
    if not (folder / "shards").exists():
        stoker.pack(folder / "photos", folder / "shards", jpeg=True)
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    print(f"{len(files)} photos, best of {rounds} rounds that take turns; {cpu}, {len(os.sched_getaffinity(0))} cores")
    whole_loader(files, folder / "shards", rounds)
    dino(files, rounds)


if __name__ == "__main__":
    main()
