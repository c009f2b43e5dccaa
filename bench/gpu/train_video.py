#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training from H.264 clips: R3D-18 at 112 and a ViT of tubes at 224, as VideoMAE's, with what each step waits for data.

    bench/gpu/train_video.py --work DIR [--seconds 10] [--models r3d18,vit] [--decodes gpu,auto] [--name first]

bf16 autocast, SGD.  A step waits from the end of the work of the step before to the moment the batch is good on the stream, by events on
the GPU (train.py).  The wait share is to be below 1 %, or diagnose() has to name the decoder: its sentence stands after each line.
"""
import os
import time
from pathlib import Path

import measure
import torch
import videos
from torch import nn
from train import Marks, spread

import stoker  # behind measure, which finds the built one

SHARE = 0.01


def conv(into, out, stride=1):
    return nn.Sequential(nn.Conv3d(into, out, 3, stride, 1, bias=False), nn.BatchNorm3d(out))


class Block(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.first, self.second = conv(into, out, stride), conv(out, out)
        self.short = nn.Identity() if stride == 1 and into == out else nn.Sequential(nn.Conv3d(into, out, 1, stride, bias=False), nn.BatchNorm3d(out))

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x))) + self.short(x))


class R3D18(nn.Module):
    """ResNet-18 of 3-D convolutions, as torchvision's r3d_18; `width` 64."""

    def __init__(self, width, classes=400):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv3d(3, width, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False), nn.BatchNorm3d(width), nn.ReLU())
        sides = [width, width, 2 * width, 4 * width, 8 * width]
        self.blocks = nn.Sequential(*(Block(sides[i] if k == 0 else sides[i + 1], sides[i + 1], 2 if i and k == 0 else 1) for i in range(4) for k in range(2)))
        self.head = nn.Linear(8 * width, classes)

    def forward(self, x):                       # (n, frames, 3, h, w)
        return self.head(self.blocks(self.stem(x.transpose(1, 2))).mean((2, 3, 4)))


class TubeViT(nn.Module):
    """A ViT of tubes of 2 x 16 x 16 pixels, as VideoMAE's encoder."""

    def __init__(self, width, depth, heads, frames, size, classes=400):
        super().__init__()
        self.tubes = nn.Conv3d(3, width, (2, 16, 16), (2, 16, 16))
        self.place = nn.Parameter(torch.zeros(1, frames // 2 * (size // 16) ** 2, width))
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.tubes(x.transpose(1, 2)).flatten(2).transpose(1, 2) + self.place
        return self.head(self.layers(x).mean(1))


def model_of(name, dry):
    """(model, side of its pictures, clips of a batch)"""
    if name == "r3d18":
        return (R3D18(8), 32, 2) if dry else (R3D18(64), 112, 32)
    return (TubeViT(32, 2, 2, videos.FRAMES, 32), 32, 2) if dry else (TubeViT(384, 12, 6, videos.FRAMES, 224), 224, 16)


class Training:
    def __init__(self, model, where):
        self.where = where
        self.model = model.to(where)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4, momentum=0.9)
        self.loss = nn.CrossEntropyLoss()

    def step(self, clips, labels):
        with torch.autocast(self.where, torch.bfloat16):
            loss = self.loss(self.model(clips), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def for_ever(loader):
    while True:
        for batch in loader:
            yield batch["video"], batch["label"]


def run(training, loader, seconds, where):
    it = for_ever(loader)
    start = time.perf_counter()
    training.step(*next(it))
    measure.sync(where)
    first = time.perf_counter() - start
    for _ in range(1 if where == "cpu" else 16):    # what was made ahead, and cudnn's choices
        training.step(*next(it))
    measure.sync(where)
    ends, goods, steps, clips = Marks(where), Marks(where), 0, 0
    start = time.perf_counter()
    while time.perf_counter() - start < seconds or steps < 4:
        ends.mark()
        batch = next(it)
        goods.mark()
        training.step(*batch)
        steps += 1
        clips += len(batch[0])
    measure.sync(where)
    took = time.perf_counter() - start
    wait = spread([a.elapsed_time(b) / 1e3 if where == "cuda" else b - a for a, b in zip(ends.at, goods.at, strict=True)])
    return {"clips_per_s": clips / took, "step_s": took / steps, "wait_s": wait, "wait_share": wait["mean"] * steps / took, "first_step_s": first}


def cell(args, where, tar, name, decode):
    model, size, batch = model_of(name, args.dry)
    fields = {"video": f"from(mp4) | video(frames={videos.FRAMES}) | random_resized_crop({size}) | hflip | normalize(imagenet) | to(f16)", "label": "from(cls) | int"}
    if where == "cpu":
        fields["video"] = fields["video"].replace("f16", "f32")
    options = {"device": "cuda", "decode": None if decode == "auto" else decode} if where == "cuda" else {}
    with stoker.Loader(str(tar), fields, batch_size=batch, shuffle=True, drop_last=True, num_workers=args.workers or len(os.sched_getaffinity(0)), **options) as loader:
        row = run(Training(model, where), loader, args.seconds, where)
        row["diagnosis"] = str(loader.diagnose())
        gpu = loader.stats().get("gpu") or {}
    return {**row, "model": name, "size": size, "decode": decode, "by_nvdec": gpu.get("clips"), "by_workers": gpu.get("clips_by_workers")}


def main():
    args = measure.arguments(__doc__, work={"required": True}, seconds={"type": float, "default": 10.0}, copies={"type": int, "default": 256}, workers={"type": int},
                             models={"default": "r3d18,vit"}, decodes={"default": "gpu,auto"}, video={"default": "360p"})
    where = measure.device(args)
    results = measure.Results("train-video", args)
    tar = videos.tar_of(videos.make(Path(args.work), args.dry)[args.video], args.copies)
    results.say("model  decode   clips/s  step ms  wait ms: mean     p99  share   first step s")
    for name in args.models.split(","):
        for decode in args.decodes.split(","):
            row = cell(args, where, tar, name, decode)
            verdict = "ok" if row["wait_share"] < SHARE else "above 1 %"
            results.add(f"{name:<7}{decode:<6}{row['clips_per_s']:>10,.1f}{1e3 * row['step_s']:>9.1f}{1e3 * row['wait_s']['mean']:>15.3f}{1e3 * row['wait_s']['p99']:>8.2f}"
                        f"{100 * row['wait_share']:>6.2f} %{row['first_step_s']:>13.2f}  {verdict}", **row)
            results.say("    " + row["diagnosis"].replace("\n", "\n    "))


if __name__ == "__main__":
    main()
