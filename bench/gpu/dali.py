# SPDX-License-Identifier: Apache-2.0
"""NVIDIA DALI's pipelines for bench/gpu/dino.py: DINO's pixel ops from the same shards, or on crops that are on the GPU.

Set up as its users would for speed: webdataset reader, crop while decoding, color_twist with numbers of its own for every
picture (gray is saturation 0), branches for what is drawn by chance, prefetch.  Needs nvidia-dali-cuda130 (2.4.0 was tried).
"""

import torch
from measure import common


def chance(p):
    from nvidia.dali import fn, types
    return fn.random.coin_flip(probability=p, dtype=types.BOOL)


def jitter(images):
    """color_jitter(0.4, 0.4, 0.2, 0.1, p=0.8) | grayscale(p=0.2), as one op."""
    from nvidia.dali import fn, types
    on = fn.cast(fn.random.coin_flip(probability=0.8), dtype=types.FLOAT)
    color = 1 - fn.cast(fn.random.coin_flip(probability=0.2), dtype=types.FLOAT)
    return fn.color_twist(images, brightness=1 + on * fn.random.uniform(range=[-0.4, 0.4]),
                          contrast=1 + on * fn.random.uniform(range=[-0.4, 0.4]),
                          saturation=color * (1 + on * fn.random.uniform(range=[-0.2, 0.2])),
                          hue=on * fn.random.uniform(range=[-36.0, 36.0]))


def blur_and_solarize(images):
    """Called inside a pipeline with enable_conditionals: DALI rewrites these branches."""
    from nvidia.dali import fn, types
    if chance(0.5):
        images = fn.gaussian_blur(images, window_size=23, sigma=fn.random.uniform(range=[0.1, 2.0]))
    if chance(0.2):
        bright = images >= 128
        images = fn.cast(bright * (255 - images) + (1 - bright) * images, dtype=types.UINT8)
    return images


def finish(images):
    from nvidia.dali import fn, types
    return fn.crop_mirror_normalize(images, dtype=types.FLOAT16, output_layout="CHW", mirror=fn.random.coin_flip(),
                                    mean=[255 * m for m in common.MEAN], std=[255 * s for s in common.STD])


def shards_pipeline(s, hw_load):
    """JPEGs of the tar shards -> decode + crop + bicubic resize -> ops."""
    from nvidia.dali import fn, pipeline_def, types
    gpu = s.where == "cuda"

    @pipeline_def(batch_size=s.batch, num_threads=s.workers, device_id=0 if gpu else None, prefetch_queue_depth=3,
                  enable_conditionals=True)
    def pipe():
        jpegs = fn.readers.webdataset(paths=sorted(str(p) for p in (s.shards / "plain").glob("*.tar")), ext=["jpg"],
                                      random_shuffle=True, initial_fill=1024, name="reader")
        images = fn.decoders.image_random_crop(jpegs, device="mixed" if gpu else "cpu", output_type=types.RGB,
                                               random_area=[0.25, 1.0], random_aspect_ratio=[3 / 4, 4 / 3],
                                               **({"hw_decoder_load": hw_load} if gpu else {}))
        images = fn.resize(images, size=[s.size, s.size], interp_type=types.INTERP_CUBIC, antialias=True)
        return finish(blur_and_solarize(jitter(images)))
    return pipe()


def crops_pipeline(s, whole):
    """Crops that are on the GPU already -> ops; not `whole`: color_twist alone."""
    from nvidia.dali import fn, pipeline_def
    gpu = s.where == "cuda"
    crops = torch.randint(0, 256, (s.batch, s.size, s.size, 3), dtype=torch.uint8, device=s.where)

    @pipeline_def(batch_size=s.batch, num_threads=s.workers, device_id=0 if gpu else None, prefetch_queue_depth=3,
                  enable_conditionals=True)
    def pipe():
        images = fn.external_source(source=lambda: crops if gpu else crops.numpy(), batch=True, device="gpu" if gpu else "cpu", layout="HWC",
                                    no_copy=gpu)
        images = jitter(images)
        if whole:
            images = blur_and_solarize(images)
        return finish(images)
    return pipe()


class Dali:
    """A pipeline's batches as torch tensors, without end."""

    def __init__(self, pipe):
        from nvidia.dali.plugin.pytorch import DALIGenericIterator
        self.batches = DALIGenericIterator(pipe, ["image"], auto_reset=True)

    def __iter__(self):
        while True:
            for (batch,) in self.batches:
                yield batch["image"], None

    def close(self):
        self.batches = None


def from_shards(s, hw_load):
    return Dali(shards_pipeline(s, hw_load))


def on_crops(s, whole=True):
    return Dali(crops_pipeline(s, whole))
