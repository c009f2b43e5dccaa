# SPDX-License-Identifier: Apache-2.0
"""Ways to get finished crops into GPU memory: f16, RandomResizedCrop(224), flip, normalized; labels beside them.

A feed is iterated for ever and gives (images, labels) on the device; close() ends it.  `layout` is "chw" or
"channels_last".  Each peer is set up as its users would for speed.
"""

import ctypes
import ctypes.util
import glob
import os
import queue
import random
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from measure import common

import stoker  # behind measure, which finds the built one

SIZE = 224


class Absent(Exception):
    """This feed cannot take part; the message says why."""


class Setting:
    def __init__(self, shards, where, batch=256, workers=None, layout="chw"):
        self.shards, self.where, self.batch, self.layout = Path(shards), where, batch, layout
        self.workers = workers or len(os.sched_getaffinity(0))
        self.size = SIZE

    def normalize(self, images):
        """uint8 on the device, any strides -> f16 as asked for."""
        mul = torch.tensor([1 / (255 * s) for s in common.STD], device=images.device).view(1, 3, 1, 1)
        add = torch.tensor([-m / s for m, s in zip(common.MEAN, common.STD, strict=True)], device=images.device).view(1, 3, 1, 1)
        made = (images * mul + add).to(torch.float16)
        how = torch.channels_last if self.layout == "channels_last" else torch.contiguous_format
        return made.contiguous(memory_format=how)


# ---- nothing at all -----------------------------------------------------------------------------

class Synthetic:
    """One batch that lies there already."""

    def __init__(self, s):
        how = torch.channels_last if s.layout == "channels_last" else torch.contiguous_format
        self.images = torch.randn(s.batch, 3, s.size, s.size, device=s.where).half().contiguous(memory_format=how)
        self.labels = torch.randint(0, 250, (s.batch,), device=s.where)

    def __iter__(self):
        while True:
            yield self.images, self.labels

    def close(self):
        self.images = None


# ---- Stoker -------------------------------------------------------------------------------------

class Stoker:
    """how: "gpu" or "cpu" decoding with device="cuda"; "pageable", "pinned": batches of the CPU and .to(); "to_device"."""

    def __init__(self, s, how, shards="seek", depth=3, ops=None, **options):
        kind = "f16, channels_last" if s.layout == "channels_last" else "f16"
        ops = ops or f"random_resized_crop({s.size}) | hflip"
        chain = f"from(jpg) | image | {ops} | normalize(imagenet) | to({kind})"
        on_device = {"gpu": {"device": "cuda", "decode": "gpu"}, "cpu": {"device": "cuda", "decode": "cpu"},
                     "pinned": {"pin_memory": True}}.get(how, {})
        if s.where == "cpu":
            on_device = {}
            options = {k: v for k, v in options.items() if k not in ("in_flight", "sm_limit", "cache")}
        self.where, self.how, self.kept = s.where, how, deque(maxlen=6)
        self.loader = stoker.Loader(str(s.shards / shards / "*.tar"), {"image": chain, "label": "from(cls) | int"},
                                    batch_size=s.batch, shuffle=True, drop_last=True, **on_device, **options)
        self.batches = stoker.to_device(self.loader, s.where, depth=depth) if how == "to_device" else self.loader

    def __iter__(self):
        while True:
            for batch in self.batches:
                images, labels = batch["image"], batch["label"]
                if self.how in ("pageable", "pinned"):
                    self.kept.append(batch)     # until its copy is through
                    images = images.to(self.where, non_blocking=self.how == "pinned")
                    labels = labels.to(self.where, non_blocking=self.how == "pinned")
                yield images, labels

    def stats(self):
        return self.loader.stats()

    def close(self):
        self.kept.clear()
        self.loader.close()


# ---- PyTorch's DataLoader -----------------------------------------------------------------------

class Photos(torch.utils.data.Dataset):
    """By offset out of the shards; uint8 crops, a quarter of what floats would be to move."""

    def __init__(self, shards):
        self.paths = sorted(glob.glob(str(shards / "seek/*.tar")))
        self.rows = np.load(shards / "offsets.npy")
        self.files = None

    def __len__(self):
        return len(self.rows)

    def read(self, i):
        if self.files is None:
            self.files = [os.open(p, os.O_RDONLY) for p in self.paths]
        shard, offset, size, label = self.rows[i].tolist()
        return os.pread(self.files[shard], size, offset), label

    def __getitem__(self, i):
        from pillow_sample import crop_pixels
        data, label = self.read(i)
        return torch.from_numpy(np.array(crop_pixels(data))), label


class DataLoader:
    def __init__(self, s):
        import pillow_sample
        self.s = s
        pillow_sample.SIZE = s.size             # workers are forked from here
        self.loader = torch.utils.data.DataLoader(
            Photos(s.shards), batch_size=s.batch, shuffle=True, drop_last=True, num_workers=s.workers,
            pin_memory=s.where == "cuda", persistent_workers=True, prefetch_factor=2)

    def __iter__(self):
        while True:
            for pixels, labels in self.loader:
                pixels = pixels.to(self.s.where, non_blocking=True).permute(0, 3, 1, 2)
                yield self.s.normalize(pixels), labels.to(self.s.where, non_blocking=True)

    def close(self):
        if self.loader._iterator is not None:
            self.loader._iterator._shutdown_workers()
        self.loader = None


# ---- torchvision's nvJPEG -----------------------------------------------------------------------

class NvJpeg:
    """Bytes by threads, decode_jpeg() of a whole batch on the GPU, crop and resize there, a picture at a time; all ahead of
    the consumer in a thread and on a stream of its own."""

    def __init__(self, s):
        self.s, self.photos = s, Photos(s.shards)
        common.need_torchvision()
        from torchvision import io
        from torchvision.transforms.v2 import functional
        self.functional, self.decode = functional, io.decode_jpeg
        self.pool = ThreadPoolExecutor(s.workers)
        self.ready = queue.Queue(2)
        self.stop = False
        self.stream = torch.cuda.Stream() if s.where == "cuda" else None
        self.photos.read(0)
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _read(self, numbers):
        def one(i):
            data, label = self.photos.read(i)
            return torch.frombuffer(bytearray(data), dtype=torch.uint8), label
        return list(self.pool.map(one, numbers, chunksize=8))

    def _decode(self, files):
        if self.s.where == "cuda":
            return self.decode(files, mode="RGB", device="cuda")
        from pillow_sample import open_rgb
        return [torch.from_numpy(np.array(open_rgb(f.numpy().tobytes()))).permute(2, 0, 1) for f in files]

    def _crop(self, image):
        from pillow_sample import crop_box
        x0, y0, x1, y1 = crop_box(image.shape[2], image.shape[1])
        made = self.functional.resize(image[:, y0:y1, x0:x1], [self.s.size, self.s.size], antialias=True)
        return made.flip(2) if random.random() < 0.5 else made

    def _batch(self, read):
        images = self._decode([data for data, _ in read])
        made = self.s.normalize(torch.stack([self._crop(image) for image in images]))
        return made, torch.tensor([label for _, label in read]).to(self.s.where, non_blocking=True)

    def _put(self, item):
        while not self.stop:
            try:
                return self.ready.put(item, timeout=0.2)
            except queue.Full:
                continue

    def _work(self):
        try:
            coming = None
            with ThreadPoolExecutor(1) as ahead:
                while not self.stop:
                    coming = coming or ahead.submit(self._read, self._numbers())
                    read, coming = coming.result(), ahead.submit(self._read, self._numbers())
                    if self.stream is None:
                        self._put((*self._batch(read), None))
                        continue
                    with torch.cuda.stream(self.stream):
                        images, labels = self._batch(read)
                        event = torch.cuda.Event()
                        event.record()
                    self._put((images, labels, event))
        except Exception as e:
            self._put(e)

    def _numbers(self):
        return np.random.randint(0, len(self.photos), self.s.batch).tolist()

    def __iter__(self):
        while True:
            item = self.ready.get()
            if isinstance(item, Exception):
                raise item
            images, labels, event = item
            if event is not None:
                here = torch.cuda.current_stream()
                here.wait_event(event)
                images.record_stream(here)
                labels.record_stream(here)
            yield images, labels

    def close(self):
        self.stop = True
        self.thread.join()
        self.pool.shutdown()
        self.ready = None


# ---- nvJPEG's hardware engines, decoding alone --------------------------------------------------

class _Image(ctypes.Structure):
    _fields_ = (("channel", ctypes.c_void_p * 4), ("pitch", ctypes.c_size_t * 4))


def _nvjpeg():
    places = [p for base in (Path(torch.__file__).parents[1] / "nvidia", Path("/usr/local/cuda"), Path("/usr/local/cuda/targets"))
              for p in sorted(glob.glob(f"{base}/**/libnvjpeg.so*", recursive=True))]
    for path in [*places, ctypes.util.find_library("nvjpeg")]:
        try:
            if path:
                return ctypes.CDLL(path)
        except OSError:
            continue
    raise Absent("libnvjpeg is not found")


class Hardware:
    """Batched decoding by the NVJPG engines to interleaved RGB, no crop, no resize: what the chip's own decoder gives."""

    HARDWARE, RGBI = 3, 5

    def __init__(self, s):
        if s.where != "cuda":
            raise Absent("needs a GPU")
        self.s, self.lib = s, _nvjpeg()
        self.handle, self.state = ctypes.c_void_p(), ctypes.c_void_p()
        self._try("nvjpegCreateEx", self.HARDWARE, None, None, 0, ctypes.byref(self.handle))
        self._try("nvjpegJpegStateCreate", self.handle, ctypes.byref(self.state))
        self._try("nvjpegDecodeBatchedInitialize", self.handle, self.state, s.batch, 1, self.RGBI)
        photos = Photos(s.shards)
        step = max(1, len(photos) // (4 * s.batch))
        rows = [photos.read(i * step)[0] for i in range(min(4 * s.batch, len(photos)))]
        self.groups = [self._prepare(rows[i:i + s.batch]) for i in range(0, len(rows) - s.batch + 1, s.batch)]
        if not self.groups:
            raise Absent(f"fewer than {s.batch} photos")

    def _try(self, name, *args):
        status = getattr(self.lib, name)(*args)
        if status:
            raise Absent(f"{name} says {status}")

    def _prepare(self, rows):
        n = len(rows)
        out, keep = (_Image * n)(), []
        for i, data in enumerate(rows):
            parts, sub = ctypes.c_int(), ctypes.c_int()
            widths, heights = (ctypes.c_int * 4)(), (ctypes.c_int * 4)()
            self._try("nvjpegGetImageInfo", self.handle, data, ctypes.c_size_t(len(data)), ctypes.byref(parts), ctypes.byref(sub),
                      widths, heights)
            pixels = torch.empty(heights[0], widths[0], 3, dtype=torch.uint8, device="cuda")
            keep.append(pixels)
            out[i].channel[0], out[i].pitch[0] = pixels.data_ptr(), 3 * widths[0]
        data = (ctypes.c_char_p * n)(*rows)
        return data, (ctypes.c_size_t * n)(*map(len, rows)), out, keep

    def __iter__(self):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        while True:
            for data, sizes, out, keep in self.groups:
                self._try("nvjpegDecodeBatched", self.handle, self.state, data, sizes, out, stream)
                torch.cuda.current_stream().synchronize()       # its state serves one batch at a time
                yield keep, None

    def close(self):
        self.groups = None
        self.lib.nvjpegJpegStateDestroy(self.state)
        self.lib.nvjpegDestroy(self.handle)
