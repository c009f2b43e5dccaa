#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The training table: models x ways to feed them, each in a process of its own, a line as soon as it is there.

    bench/gpu/train.py --shards DIR [--seconds 8] [--models resnet18,resnet50,vit_s] [--feeds ...] [--name first]

bf16 autocast, SGD, batch 256 of 224 x 224; ResNets in channels_last.  A step waits for data from the end of the work of the step
before to the moment the batch is good on the stream, by events on the GPU: that is the time the model stood still.  `host` is what
next() took of the host.  Start to first step: from making the feed to the end of the first step, the context and the model
excluded.  Synthetic data, one batch used over and over, is 100 %.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import measure
import torch
from feeds import DataLoader, NvJpeg, Setting, Stoker, Synthetic
from measure import common
from torch import nn

MODELS = ("resnet18", "resnet50", "vit_s")
FEEDS = {
    "synthetic": Synthetic,
    "dataloader": DataLoader,
    "nvjpeg": NvJpeg,
    "stoker-cpu": lambda s: Stoker(s, "cpu"),
    "stoker-gpu": lambda s: Stoker(s, "gpu"),
}
BARS = {("resnet50", "stoker-cpu"): 0.01, ("resnet50", "stoker-gpu"): 0.01, ("resnet18", "stoker-gpu"): 0.01}


def model_of(name, size):
    models = common.need_torchvision().models
    if name == "vit_s":
        return models.VisionTransformer(image_size=size, patch_size=16, num_layers=12, num_heads=6, hidden_dim=384,
                                        mlp_dim=1536, num_classes=1000)
    return getattr(models, name)(weights=None)


class Training:
    def __init__(self, name, s, compiled=False):
        torch.backends.cudnn.benchmark = True
        torch.set_float32_matmul_precision("high")
        self.where = s.where
        model = model_of(name, s.size).to(s.where)
        if s.layout == "channels_last":
            model = model.to(memory_format=torch.channels_last)
        self.model = torch.compile(model) if compiled else model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, foreach=s.where == "cuda")
        self.loss = nn.CrossEntropyLoss()

    def step(self, images, labels):
        with torch.autocast(self.where, torch.bfloat16):
            loss = self.loss(self.model(images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss


class Marks:
    """Moments on the stream (events), or on the clock where there is no GPU."""

    def __init__(self, where):
        self.where, self.at = where, []

    def mark(self):
        if self.where == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.at.append(event)
        else:
            self.at.append(time.perf_counter())

    def between(self, i, k):
        """Seconds."""
        if self.where == "cuda":
            return self.at[i].elapsed_time(self.at[k]) / 1e3
        return self.at[k] - self.at[i]


def spread(values):
    values = sorted(values)
    return {"mean": sum(values) / len(values), "p99": values[min(len(values) - 1, int(len(values) * 0.99))], "max": values[-1]}


def measured(training, it, seconds, where, batch):
    """Steps for so many seconds, and what they waited."""
    ends, goods, host = Marks(where), Marks(where), []
    measure.sync(where)
    start, cpu = time.perf_counter(), common.cpu_seconds()
    while time.perf_counter() - start < seconds or len(host) < 4:
        ends.mark()
        before = time.perf_counter()
        images, labels = next(it)
        host.append(time.perf_counter() - before)
        goods.mark()
        training.step(images, labels)
    ends.mark()
    measure.sync(where)
    end = time.perf_counter()
    steps = len(host)
    waits = [(ends.at[i], goods.at[i]) for i in range(steps)]
    wait = spread([a.elapsed_time(b) / 1e3 if where == "cuda" else b - a for a, b in waits])
    took = end - start
    cpu = common.cpu_seconds() - cpu
    return {"steps": steps, "seconds": took, "images_per_s": steps * batch / took, "step_s": took / steps,
            "wait_s": wait, "wait_share": wait["mean"] * steps / took, "host_s": spread(host),
            "cpu_cores": cpu / took, "cpu_s_per_1000": 1000 * cpu / (steps * batch), "start": start, "end": end}


def cell(args):
    """One model with one feed; prints JSON."""
    where = measure.device(args)
    model, feed_name = args.cell.split(",")
    s = Setting(args.shards, where, args.batch, args.workers, "chw" if model == "vit_s" else "channels_last")
    s.size = args.size
    training = Training(model, s, args.compile)
    warm = Synthetic(s)
    for _ in range(1 if args.dry else 8):       # cudnn's choices are not counted as waiting
        training.step(warm.images, warm.labels)
    warm.close()
    measure.sync(where)
    device_before = measure.memory(where)["device"] or 0
    gpu = measure.Gpu(where)
    start = time.perf_counter()
    feed = FEEDS[feed_name](s)
    it = iter(feed)
    training.step(*next(it))
    measure.sync(where)
    first = time.perf_counter() - start
    until, count = time.perf_counter() + args.warm, 0
    least = 2 * s.workers if feed_name == "dataloader" and not args.dry else 2
    while time.perf_counter() < until or count < least:     # what was made ahead while no one took it
        training.step(*next(it))
        count += 1
        if count % 16 == 0:
            measure.sync(where)                 # the host runs ahead by so many at most
    found = measured(training, it, args.seconds, where, s.batch)
    found["sm"] = gpu.mean(found.pop("start"), found.pop("end"))
    found["memory"] = measure.memory(where, device_before)
    if hasattr(feed, "stats"):
        stats = feed.stats()
        found["stats"] = {k: v for k, v in stats.items() if isinstance(v, (int, float, dict))}
        if stats.get("gpu"):                    # its batches, reads and scratch: what is pinned is among them
            found["memory"]["pinned"] = stats["memory"]
    found["first_step_s"] = first
    gpu.close()
    print(json.dumps({"model": model, "feed": feed_name, **found}), flush=True)
    feed.close()
    os._exit(0)                                 # CUDA's and torch's own endings are not waited for


def run_cell(args, model, feed):
    command = [sys.executable, __file__, "--shards", args.shards, "--cell", f"{model},{feed}", "--seconds", str(args.seconds),
               "--warm", str(args.warm), "--batch", str(args.batch), "--size", str(args.size)]
    command += ["--dry"] * args.dry + ["--compile"] * args.compile + (["--workers", str(args.workers)] if args.workers else [])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=args.limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"model": model, "feed": feed, "absent": f"not done in {args.limit} s"}
    rows = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode or not rows:
        said = err.strip().splitlines() or ["nothing was said"]
        return {"model": model, "feed": feed, "absent": said[-1][:300]}
    return json.loads(rows[-1])


def line(row, synthetic):
    head = f"{row['model']:<9} {row['feed']:<11}"
    if "absent" in row:
        return f"{head} absent: {row['absent'][:110]}"
    share = 100 * row["images_per_s"] / synthetic if synthetic else float("nan")
    wait, memory = row["wait_s"], row["memory"]

    def gb(value):
        return "    -" if value is None else f"{value / 1e9:5.1f}"

    sm = "  -" if row["sm"] is None else f"{row['sm']:3.0f}"
    bar = BARS.get((row["model"], row["feed"]))
    verdict = "" if bar is None else "  ok" if row["wait_share"] < bar else "  MISSED"
    return (f"{head}{row['images_per_s']:>8,.0f} {share:>6.1f} % {1e3 * wait['mean']:>8.3f} {1e3 * wait['p99']:>8.2f}"
            f" {1e3 * wait['max']:>8.2f} {100 * row['wait_share']:>7.2f} % {sm} % {row['cpu_cores']:>6.1f}"
            f" {row['cpu_s_per_1000']:>8.3f} {gb(memory['host'])} {gb(memory['pinned'])} {gb(memory['device'])}"
            f" {row['first_step_s']:>7.2f}{verdict}")


HEAD = ("model     feed          img/s  of synth.  wait ms: mean   p99      max    share   SM   cores  CPU s/1000  host"
        "  pinned device GB  first step s")


def main():
    args = measure.arguments(__doc__, shards={"required": True}, seconds={"type": float, "default": 8.0},
                             warm={"type": float, "default": 2.0}, batch={"type": int, "default": 256},
                             size={"type": int, "default": 224}, workers={"type": int}, limit={"type": float, "default": 90.0},
                             models={"default": ",".join(MODELS)}, feeds={"default": ",".join(FEEDS)},
                             cell={"help": "MODEL,FEED: this one, here"}, compile={"action": "store_true"})
    if args.cell:
        return cell(args)
    Path(args.shards, "shards.json").read_text()            # says so if there are none
    results = measure.Results("train", args)
    results.say(HEAD)
    for model in args.models.split(","):
        synthetic = None
        for feed in args.feeds.split(","):
            row = run_cell(args, model, feed)
            if feed == "synthetic":
                synthetic = row.get("images_per_s")
            if synthetic and "images_per_s" in row:
                row["of_synthetic"] = row["images_per_s"] / synthetic
            results.add(line(row, synthetic), **row)


if __name__ == "__main__":
    main()
