# SPDX-License-Identifier: Apache-2.0
"""SPDL: a pipeline of threads; decoding by its own FFmpeg binding, or by Pillow."""

import random
import sys

import common

TITLE, PACKAGES = "SPDL", ("spdl==0.8.0",)
MODULES = ("torch", "spdl.io", "spdl.pipeline", "pillow_sample")
SETTINGS = ({"threads": 2, "decoder": "ffmpeg"}, {"threads": 3, "decoder": "ffmpeg"},
            {"threads": 2, "decoder": "pillow"}, {"threads": 3, "decoder": "pillow"})
NOTE = "files; threads in one process; by FFmpeg the crop's edges lie on whole chroma pixels"


def prepare(data):
    pass


def source(data):
    order = list(range(data.samples))
    while True:
        random.shuffle(order)
        for n in order:
            yield data.path(n), data.label(n)


def ffmpeg_frame(item):
    import spdl.io
    from pillow_sample import crop_box
    packets = spdl.io.demux_image(item[0])
    left, top, right, bottom = crop_box(packets.width, packets.height)
    flip = ",hflip" if random.random() < 0.5 else ""
    chain = (f"crop={right - left}:{bottom - top}:{left}:{top},"
             f"scale={common.SIZE}:{common.SIZE}:flags=bilinear{flip},format=rgb24")
    return spdl.io.decode_packets(packets, filter_desc=chain), item[1]


def ffmpeg_batch(items):
    import spdl.io
    import torch
    frames, labels = zip(*items)
    pixels = spdl.io.to_torch(spdl.io.convert_frames(list(frames)))
    images = pixels.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
    scale = torch.tensor([1 / (255 * s) for s in common.STD]).view(3, 1, 1)
    shift = torch.tensor([-m / s for m, s in zip(common.MEAN, common.STD)]).view(3, 1, 1)
    return images.mul_(scale).add_(shift), torch.tensor(labels)


def pillow_one(item):
    from pillow_sample import as_torch
    return as_torch(item[0]), item[1]


def pillow_batch(items):
    import torch
    images, labels = zip(*items)
    return torch.stack(images), torch.tensor(labels)


def batches(data, threads, decoder):
    import torch
    from spdl.pipeline import PipelineBuilder
    torch.set_num_threads(1)
    one, whole = (ffmpeg_frame, ffmpeg_batch) if decoder == "ffmpeg" else (pillow_one, pillow_batch)
    pipeline = (PipelineBuilder().add_source(source(data)).pipe(one, concurrency=threads).aggregate(common.BATCH)
                .pipe(whole).add_sink(3).build(num_threads=threads + 1, max_failures=0))
    with pipeline.auto_stop():
        yield from pipeline


if __name__ == "__main__":
    common.main(sys.modules[__name__])
