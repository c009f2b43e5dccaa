#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does a model get as good on Stoker's batches as on DataLoader's?  The same training, three ways to feed it, three seeds each.

    bench/gpu/accuracy.py [--work DIR] [--epochs 16] [--seeds 3] [--name 0.3] [--chart docs/img/accuracy.svg]

The data is made here: ten shapes, turned, stretched, in colors close to those of a cluttered background, as JPEGs of 128 x 128.
A ResNet-18 is trained from nothing: RandomResizedCrop(96, 0.4 to 1), flip, color jitter, normalize; SGD, one cycle, bf16.  Every
trained model is tested twice, with torchvision's center crop and with Stoker's.  Feeds: DataLoader + ImageFolder + torchvision v2,
Stoker with device="cpu", Stoker with device="cuda".  A seed decides the weights and the draws of each feed; draws differ between
torchvision and Stoker, so accuracies are compared by their spread over seeds.
"""

import math
import os
import random
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import measure
import numpy as np
import torch
from measure import common
from PIL import Image, ImageDraw, ImageFilter

SHAPES = ("disc", "ring", "square", "triangle", "star", "cross", "moon", "hexagon", "arrow", "lens")
SIDE, CROP, TEST_SIDE = 128, 96, 112
SCALE, JITTER = (0.4, 1.0), 0.3
FEEDS = ("dataloader", "stoker-cpu", "stoker-gpu")


# ---- data ---------------------------------------------------------------------------------------

def outline(shape):
    """Points of a shape within -1..1, or None for those that are made of discs."""
    def round_(n, radius=lambda i: 1):
        return [(radius(i) * math.cos(2 * math.pi * i / n), radius(i) * math.sin(2 * math.pi * i / n)) for i in range(n)]
    arm = 0.36
    return {
        "disc": round_(48), "square": round_(4), "triangle": round_(3), "hexagon": round_(6),
        "star": round_(10, lambda i: 1 if i % 2 else 0.45),
        "cross": [(-arm, -1), (arm, -1), (arm, -arm), (1, -arm), (1, arm), (arm, arm), (arm, 1), (-arm, 1), (-arm, arm),
                  (-1, arm), (-1, -arm), (-arm, -arm)],
        "arrow": [(-1, -0.3), (0.1, -0.3), (0.1, -0.8), (1, 0), (0.1, 0.8), (0.1, 0.3), (-1, 0.3)],
        "lens": [(math.cos(t), 0.5 * math.sin(t)) for t in (2 * math.pi * i / 48 for i in range(48))],
    }.get(shape)


def stamp(shape, rng):
    """The shape as a mask of SIDE x SIDE, turned, stretched, somewhere."""
    big = 4 * SIDE
    mask = Image.new("L", (big, big))
    draw = ImageDraw.Draw(mask)
    radius, stretch, turn = rng.uniform(0.17, 0.3) * big, rng.uniform(0.75, 1.0), rng.uniform(0, 2 * math.pi)
    x, y = (rng.uniform(0.3, 0.7) * big for _ in range(2))

    def placed(points):
        c, s = math.cos(turn), math.sin(turn)
        return [(x + radius * (c * px - s * py * stretch), y + radius * (s * px + c * py * stretch)) for px, py in points]

    disc = outline("disc")
    draw.polygon(placed(outline(shape) or disc), fill=255)
    if shape == "ring":
        draw.polygon(placed([(0.55 * a, 0.55 * b) for a, b in disc]), fill=0)
    if shape == "moon":
        draw.polygon(placed([(0.45 + 0.85 * a, 0.85 * b) for a, b in disc]), fill=0)
    return mask.resize((SIDE, SIDE), Image.Resampling.BOX)


def picture(shape, rng, contrast):
    base = np.array([rng.uniform(60, 195) for _ in range(3)])
    cells = rng.choice((8, 12, 16))
    noise = np.frombuffer(rng.randbytes(cells * cells * 3), np.uint8).reshape(cells, cells, 3)
    ground = np.asarray(Image.fromarray(noise).resize((SIDE, SIDE), Image.Resampling.BICUBIC), np.float64)
    ground = base + 0.2 * (ground - 128)
    scene = Image.fromarray(ground.clip(0, 255).astype(np.uint8))
    draw = ImageDraw.Draw(scene)
    for _ in range(rng.randrange(4, 12)):       # lines across, in colors of both
        ends = [rng.uniform(0, SIDE) for _ in range(4)]
        draw.line(ends, fill=tuple(int(v + rng.uniform(-50, 50)) for v in base), width=rng.randrange(1, 4))
    away = np.array([rng.choice((-1, 1)) * contrast * rng.uniform(0.6, 1.4) for _ in range(3)])
    mask = np.asarray(stamp(shape, rng), np.float64)[..., None] / 255
    made = np.asarray(scene, np.float64) + away * mask
    grain = np.frombuffer(rng.randbytes(SIDE * SIDE * 3), np.uint8).reshape(SIDE, SIDE, 3)
    made = (made + (grain.astype(np.float64) - 128) * 0.12).clip(0, 255).astype(np.uint8)
    return Image.fromarray(made).filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.8)))


def make_class(folder, label, shape, count, seed, contrast):
    rng = random.Random(f"{seed} {shape}")
    place = Path(folder) / f"{label}_{shape}"
    place.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        picture(shape, rng, contrast).save(place / f"{i:05d}.jpg", quality=88)


def make(work, train, test, contrast):
    """train/ and val/, as ImageFolder has them; once."""
    made = Path(work) / f"shapes-{train}-{test}-{contrast}"
    if not (made / "done").exists():
        with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            jobs = [pool.submit(make_class, made / part, i, shape, count // len(SHAPES), part, contrast)
                    for part, count in (("train", train), ("val", test)) for i, shape in enumerate(SHAPES)]
            for job in jobs:
                job.result()
        (made / "done").touch()
    return made


# ---- feeds --------------------------------------------------------------------------------------

class TorchFeed:
    def __init__(self, folder, train, where, batch, seed):
        common.need_torchvision()
        from torchvision import datasets
        from torchvision.transforms import v2 as t
        if train:
            steps = [t.RandomResizedCrop(CROP, SCALE), t.RandomHorizontalFlip(), t.ColorJitter(JITTER, JITTER, JITTER)]
        else:
            steps = [t.Resize(TEST_SIDE), t.CenterCrop(CROP)]
        steps += [t.PILToTensor(), t.ToDtype(torch.float32, scale=True), t.Normalize(common.MEAN, common.STD)]
        torch.manual_seed(seed)
        self.where = where
        self.loader = torch.utils.data.DataLoader(
            datasets.ImageFolder(str(folder), t.Compose(steps)), batch, shuffle=train, drop_last=train,
            num_workers=len(os.sched_getaffinity(0)), persistent_workers=True, pin_memory=where == "cuda")

    def epoch(self):
        for images, labels in self.loader:
            yield images.to(self.where, non_blocking=True), labels.to(self.where, non_blocking=True)

    def close(self):
        self.loader = None


class StokerFeed:
    def __init__(self, folder, train, where, batch, seed, device):
        import stoker
        if train:
            ops = f"random_resized_crop({CROP}, scale=({SCALE[0]}, {SCALE[1]})) | hflip | color_jitter({JITTER}, {JITTER}, {JITTER})"
        else:
            ops = f"resize({TEST_SIDE}) | center_crop({CROP})"
        self.where = where
        self.loader = stoker.Loader(str(folder), {"image": f"from(image) | image | {ops} | normalize(imagenet) | to(f32)",
                                                  "label": "from(cls) | int"},
                                    batch_size=batch, shuffle=train, drop_last=train, seed=seed, device=device, rank=0, world_size=1)

    def epoch(self):
        for b in self.loader:
            yield b["image"].to(self.where), b["label"].to(self.where)

    def close(self):
        self.loader.close()


def feed_of(name, folder, train, where, batch, seed):
    if name == "dataloader":
        return TorchFeed(folder, train, where, batch, seed)
    return StokerFeed(folder, train, where, batch, seed, "cuda" if name == "stoker-gpu" and where == "cuda" else "cpu")


# ---- training -----------------------------------------------------------------------------------

def accuracy(model, feed, where):
    right = count = 0
    model.eval()
    with torch.no_grad(), torch.autocast(where, torch.bfloat16):
        for images, labels in feed.epoch():
            found = model(images.contiguous(memory_format=torch.channels_last)).argmax(1)
            right += (found == labels).sum().item()
            count += len(labels)
    return 100 * right / count


def trained(name, made, where, args, seed):
    from torchvision import models
    feed = feed_of(name, made / "train", True, where, args.batch, seed)
    torch.manual_seed(1000 + seed)
    model = models.resnet18(num_classes=len(SHAPES)).to(where, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4, nesterov=True)
    steps = args.epochs * (args.train // args.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.rate, total_steps=steps)
    start, done = time.perf_counter(), 0
    for _ in range(args.epochs):
        model.train()
        for images, labels in feed.epoch():
            with torch.autocast(where, torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(model(images.contiguous(memory_format=torch.channels_last)), labels,
                                                         label_smoothing=0.1)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            done += 1
    measure.sync(where)
    took = time.perf_counter() - start
    feed.close()
    assert done == steps, (done, steps)
    return model, took


def chart(rows, path):
    """One line per feed with a dot per seed, against the accuracy."""
    low = math.floor(min(v for _, values in rows for v in values)) - 1
    high = math.ceil(max(v for _, values in rows for v in values)) + 1

    def x(value):
        return 150 + 480 * (value - low) / (high - low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="680" height="{70 + 36 * len(rows)}" font-family="sans-serif" font-size="13">',
           '<rect width="100%" height="100%" fill="#ffffff"/>']
    for i, (name, values) in enumerate(rows):
        y = 34 + 36 * i
        out.append(f'<text x="12" y="{y + 5}">{name}</text><line x1="150" y1="{y}" x2="630" y2="{y}" stroke="#dddddd"/>')
        out += [f'<circle cx="{x(v):.1f}" cy="{y}" r="5" fill="{"#888888" if name == "dataloader" else "#d9480f"}" fill-opacity="0.7"/>'
                for v in values]
    bottom = 34 + 36 * len(rows)
    for value in range(low, high + 1):
        out.append(f'<text x="{x(value):.1f}" y="{bottom + 4}" text-anchor="middle" fill="#555555">{value} %</text>')
    out.append(f'<text x="390" y="{bottom + 24}" text-anchor="middle" fill="#555555">right of the test pictures, one dot per seed</text></svg>')
    Path(path).write_text("\n".join(out) + "\n")


def main():
    args = measure.arguments(
        __doc__, work={"default": str(measure.ROOT / "build/gpu-bench")}, shards={"help": "not used"}, chart={},
        epochs={"type": int, "default": 16}, seeds={"type": int, "default": 3}, batch={"type": int, "default": 128},
        train={"type": int, "default": 10000}, test={"type": int, "default": 2000}, rate={"type": float, "default": 0.1},
        contrast={"type": float, "default": 65, "help": "of the shapes, in steps of 255"},
        feeds={"default": ",".join(FEEDS)})
    where = measure.device(args)
    made = make(args.work, args.train, args.test, args.contrast)
    out = measure.Results("accuracy", args)
    out.say(f"{args.train:,} pictures, {args.epochs} epochs, batch {args.batch}; right of {args.test:,} test pictures, in per cent")
    out.say("feed         seed   torchvision's test   Stoker's test   seconds")
    tests = {name: feed_of(name, made / "val", False, where, 250, 0) for name in ("dataloader", "stoker-cpu")}
    found = {}
    for seed in range(args.seeds):
        for name in args.feeds.split(","):
            model, took = trained(name, made, where, args, seed)
            by_torch, by_stoker = (accuracy(model, tests[how], where) for how in ("dataloader", "stoker-cpu"))
            found.setdefault(name, []).append(by_torch)
            out.add(f"{name:<12} {seed:>4} {by_torch:>20.2f} {by_stoker:>15.2f} {took:>9.1f}",
                    feed=name, seed=seed, by_torchvision=by_torch, by_stoker=by_stoker, seconds=took)
    out.say()
    for name, values in found.items():
        out.say(f"{name:<12} mean {statistics.mean(values):6.2f}, {min(values):.2f} to {max(values):.2f}")
    for feed in tests.values():
        feed.close()
    if args.chart:
        chart(list(found.items()), args.chart)


if __name__ == "__main__":
    main()
