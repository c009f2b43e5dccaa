#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random clips of 16 frames (H.264, GOP 12), finished at 224 in f16 on the GPU: by NVDEC, by it and the workers, by workers alone.

    bench/gpu/video.py --work DIR [--seconds 4] [--batch 16] [--rounds 2] [--only gpu,auto,cpu,pynv,torchcodec] [--name first]

`bare` is build/tests/gpu/real/nvdec_gpu: sessions that decode the same kind of clips and do nothing else, as many as are best.  Clips cost
the same packets everywhere, so the ratio of clips is that of frames decoded.  PyNvVideoCodec and torchcodec decode with one thread per
engine and finish with torch; where one is not installed the row says so.  First: seconds from Loader() to the first batch.
"""
import os
import random
import re
import subprocess
import threading
import time
from pathlib import Path

import measure
import torch
import videos
from measure import common

import stoker  # behind measure, which finds the built one

CHAIN = "from(mp4) | video(frames={}) | random_resized_crop({}) | hflip | normalize(imagenet) | to(f16)"
THREADS = 14   # of peers: two for each engine of an H200
BAR = 0.85        # of bare, that the engines alone make
HELPED = 1.2      # of the engines alone, that they make with the workers' help; asked for at 360p
FIRST = 0.5


def bare(path):
    """The most clips a second that bare sessions decode; None: cannot run here."""
    program = measure.ROOT / "build/tests/gpu/real/nvdec_gpu"
    if not program.exists():
        return None
    env = {**os.environ, "STK_CUDA_LIB": str(measure.ROOT / "build/python/stoker/libstoker_cuda.so")}   # beside no program of tests
    run = subprocess.run([program, path, "bench"], capture_output=True, text=True, timeout=300, env=env)
    found = [float(n) for n in re.findall(r"([\d.]+) clips/s", run.stdout)]
    return max(found) if run.returncode == 0 and found else None


class Stoker:
    def __init__(self, tar, args, decode):
        options = {} if args.dry else {"device": "cuda", "decode": None if decode == "auto" else decode}
        self.start, self.first = time.perf_counter(), None
        self.loader = stoker.Loader(str(tar), {"video": CHAIN.format(videos.FRAMES, args.size)}, batch_size=args.batch, shuffle=True, seed=5, drop_last=True,
                                    num_workers=args.workers or len(os.sched_getaffinity(0)), **options)

    def __iter__(self):
        while True:
            for batch in self.loader:
                self.first = self.first or time.perf_counter() - self.start
                yield len(batch["video"])

    def close(self):
        self.stats = self.loader.stats()
        self.loader.close()


class Peer:
    """Threads that decode random clips with `decoder(path)`, an object whose clip(start) is (16, 3, h, w) in uint8 on the GPU."""

    def __init__(self, path, args, decoder):
        self.frames, self.args, self.done, self.end = videos.frames_of(path.stem), args, 0, False
        self.failed, self.lock = None, threading.Lock()
        decoder(path).clip(0)       # an error here says why it cannot take part
        self.threads = [threading.Thread(target=self._run, args=(path, decoder, k), daemon=True) for k in range(THREADS)]
        for t in self.threads:
            t.start()

    def _run(self, path, decoder, number):
        rng, mine = random.Random(number), decoder(path)
        mean, std = (torch.tensor(v, device="cuda", dtype=torch.float16).view(1, 3, 1, 1) * 255 for v in (common.MEAN, common.STD))
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                while not self.end:
                    clip = mine.clip(rng.randrange(self.frames - videos.FRAMES))
                    h, w = clip.shape[2:]
                    side = rng.randrange(h // 2, h)
                    top, left = rng.randrange(h - side + 1), rng.randrange(w - side + 1)
                    clip = clip[:, :, top:top + side, left:left + side].half()
                    clip = torch.nn.functional.interpolate(clip, (self.args.size, self.args.size), mode="bilinear", antialias=True, align_corners=False)
                    clip = (clip - mean) / std
                    torch.cuda.current_stream().synchronize()
                    with self.lock:
                        self.done += 1
        except Exception as error:
            self.failed = error

    def clips(self, seconds):
        time.sleep(seconds / 2)
        before, start = self.done, time.perf_counter()
        time.sleep(seconds)
        rate = (self.done - before) / (time.perf_counter() - start)
        self.end = True
        for t in self.threads:
            t.join()
        if self.failed:
            raise self.failed
        return rate


class PyNv:
    def __init__(self, path):
        import PyNvVideoCodec as nvc
        self.decoder = nvc.SimpleDecoder(str(path), gpu_id=0, use_device_memory=True, output_color_type=nvc.OutputColorType.RGBP)

    def clip(self, start):
        frames = self.decoder.get_batch_frames_by_index(list(range(start, start + videos.FRAMES)))
        return torch.stack([torch.from_dlpack(f) for f in frames])


class TorchCodec:
    def __init__(self, path):
        from torchcodec.decoders import VideoDecoder
        self.decoder = VideoDecoder(str(path), device="cuda")

    def clip(self, start):
        return self.decoder.get_frames_in_range(start, start + videos.FRAMES).data


PEERS = {"pynv": ("PyNvVideoCodec", PyNv), "torchcodec": ("torchcodec CUDA", TorchCodec)}


def run_stoker(tar, args, how):
    feed = Stoker(tar, args, how)
    it = iter(feed)
    next(it)
    until = time.perf_counter() + args.seconds / 2
    while time.perf_counter() < until:
        next(it)
    start, clips = time.perf_counter(), 0
    while time.perf_counter() - start < args.seconds:
        clips += next(it)
    rate = clips / (time.perf_counter() - start)
    feed.close()
    gpu = feed.stats.get("gpu") or {}
    return {"clips_per_s": rate, "first_s": feed.first, "by_nvdec": gpu.get("clips"), "by_workers": gpu.get("clips_by_workers"), "redecoded": gpu.get("redecoded")}


def run_one(path, tar, args, how):
    if how not in PEERS:
        return run_stoker(tar, args, how)
    if args.dry:
        return {"absent": "a dry run has no GPU"}
    try:
        return {"clips_per_s": Peer(path, args, PEERS[how][1]).clips(args.seconds)}
    except Exception as error:
        return {"absent": f"{type(error).__name__}: {error}"[:200]}


def bar_of(video, how, best, most):
    """What is asked of a row: the ratio, and the bar; None: nothing is."""
    row = best[how]
    if how == "gpu" and most:
        return row["clips_per_s"] / most, BAR
    alone = best.get("gpu", {}).get("clips_per_s")
    if how == "auto" and video == "360p" and alone:
        return row["clips_per_s"] / alone, HELPED
    return None


def line(video, how, best, most, args):
    row = best[how]
    head = f"{video:<6}{PEERS[how][0] if how in PEERS else 'stoker ' + how:<18}"
    if "absent" in row:
        return f"{head} absent: {row['absent'][:110]}"
    share = f"{row['clips_per_s'] / most:6.2f}x" if most else "     - "
    text = f"{head}{row['clips_per_s']:>8,.0f} {share}"
    if "first_s" in row:
        text += f"  first {row['first_s']:5.2f} s   NVDEC {row['by_nvdec']}, workers {row['by_workers']}, redecoded {row['redecoded']}"
    asked = bar_of(video, how, best, most)
    if asked and not args.dry:
        text += measure.bar(*asked)
        text += "" if row["first_s"] <= FIRST else f"   first batch later than {FIRST} s: MISSED"
    return text


def main():
    args = measure.arguments(__doc__, work={"required": True}, seconds={"type": float, "default": 4.0}, batch={"type": int, "default": 16},
                             size={"type": int, "default": 224}, rounds={"type": int, "default": 2}, copies={"type": int, "default": 256},
                             workers={"type": int}, only={"default": "gpu,auto,cpu,pynv,torchcodec"})
    measure.device(args)
    results = measure.Results("video", args)
    results.say("video contender         clips/s  of bare")
    for video, path in videos.make(Path(args.work), args.dry).items():
        tar = videos.tar_of(path, args.copies)
        most = None if args.dry else bare(path)
        results.say(f"{video:<6}bare sessions     " + (f"{most:>8,.0f}" if most else " absent: no NVDEC here, or nvdec_gpu is not built"))
        best = {}
        for _ in range(args.rounds):        # by turns, and the best of each counts
            for how in args.only.split(","):
                row = run_one(path, tar, args, how)
                if how not in best or row.get("clips_per_s", 0) > best[how].get("clips_per_s", -1):
                    best[how] = row
        for how, row in best.items():
            results.add(line(video, how, best, most, args), video=video, contender=how, bare=most, **row)


if __name__ == "__main__":
    main()
