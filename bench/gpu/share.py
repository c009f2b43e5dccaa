#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A share of the chip: images delivered a second against the slowdown of a training step beside them, for caps on the SMs.

    bench/gpu/share.py --shards DIR [--caps 0,64,32,16,8,4] [--seconds 4] [--name first]

The step trains on synthetic data, so that it never waits; a thread beside it takes batches from a loader with
`sm_limit` as fast as they come and drops them.  0: no cap.  Alone, each is 100 %.  `fed`: the training takes the batches
itself, so that only as many are made as it needs.
"""

import threading
import time

import measure
import torch
from feeds import Setting, Stoker, Synthetic
from train import Training


def steps(training, take, seconds, where):
    """Seconds a step."""
    for _ in range(3):
        training.step(*take())
    measure.sync(where)
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds or count < 2:
        training.step(*take())
        count += 1
        if count % 16 == 0:
            measure.sync(where)
    measure.sync(where)
    return (time.perf_counter() - start) / count


class Drain:
    """Takes batches in a thread, on a stream of its own, and counts them."""

    def __init__(self, feed, where):
        self.feed, self.where, self.images, self.stop, self.error = feed, where, 0, False, None
        self.thread = threading.Thread(target=self._work)
        self.thread.start()

    def _work(self):
        try:
            if self.where == "cuda":
                torch.cuda.set_stream(torch.cuda.Stream())
            for images, _ in self.feed:
                self.images += len(images)
                if self.stop:
                    return
        except Exception as e:
            self.error = e

    def speed(self, work):
        """(what work() answers, images a second meanwhile)."""
        while self.images == 0 and self.error is None:
            time.sleep(0.01)
        before, start = self.images, time.perf_counter()
        answer = work()
        return answer, (self.images - before) / (time.perf_counter() - start)

    def close(self):
        self.stop = True
        self.thread.join()
        self.feed.close()
        if self.error is not None:
            raise self.error


def feed_of(s, cap):
    return Stoker(s, "gpu", **({"sm_limit": cap} if cap else {}))


def one(training, s, cap, args, alone):
    drain = Drain(feed_of(s, cap), s.where)
    try:
        _, idle = drain.speed(lambda: time.sleep(args.seconds / 2))
        took, beside = drain.speed(lambda: steps(training, lambda: (SYNTHETIC.images, SYNTHETIC.labels), args.seconds, s.where))
    finally:
        drain.close()
    feed = feed_of(s, cap)
    it = iter(feed)
    fed = steps(training, lambda: next(it), args.seconds, s.where)
    feed.close()
    return {"sm_limit": cap, "alone_images_per_s": idle, "beside_images_per_s": beside, "step_ms": 1e3 * took,
            "slowdown": took / alone - 1, "fed_step_ms": 1e3 * fed, "fed_slowdown": fed / alone - 1}


SYNTHETIC = None


def main():
    global SYNTHETIC
    args = measure.arguments(__doc__, shards={"required": True}, caps={"default": "0,64,32,16,8,4"},
                             seconds={"type": float, "default": 4.0}, batch={"type": int, "default": 256},
                             size={"type": int, "default": 224}, model={"default": "resnet50"}, workers={"type": int})
    where = measure.device(args)
    s = Setting(args.shards, where, args.batch, args.workers, "channels_last" if args.model.startswith("resnet") else "chw")
    s.size = args.size
    results = measure.Results("share", args)
    training = Training(args.model, s)
    SYNTHETIC = Synthetic(s)
    alone = steps(training, lambda: (SYNTHETIC.images, SYNTHETIC.labels), args.seconds, where)
    results.add(f"{args.model}, batch {s.batch}, synthetic data: {1e3 * alone:.2f} ms a step, {s.batch / alone:,.0f} img/s",
                model=args.model, step_ms=1e3 * alone)
    results.say("SM cap   loader alone   beside training      step ms  slower     fed step ms  slower")
    for cap in map(int, args.caps.split(",")):
        try:
            row = one(training, s, cap, args, alone)
        except Exception as e:
            results.add(f"{cap or 'none':>6}   {type(e).__name__}: {e}", sm_limit=cap, absent=str(e))
            continue
        bar = "" if args.model != "resnet50" else "  ok" if row["fed_slowdown"] < 0.05 else "  MISSED (5 %)"
        results.add(f"{cap or 'none':>6} {row['alone_images_per_s']:>14,.0f} {row['beside_images_per_s']:>17,.0f} "
                    f"{row['step_ms']:>12.2f} {100 * row['slowdown']:>6.1f} % {row['fed_step_ms']:>14.2f} "
                    f"{100 * row['fed_slowdown']:>6.1f} %{bar}", **row)


if __name__ == "__main__":
    main()
