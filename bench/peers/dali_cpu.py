# SPDX-License-Identifier: Apache-2.0
"""NVIDIA DALI, CPU pipeline: file reader, crop while decoding, antialiased resize, PyTorch iterator."""

import sys

import common

TITLE, PACKAGES = "NVIDIA DALI, CPU pipeline", ("nvidia-dali-cuda130==2.4.0",)
MODULES = ("torch", "nvidia.dali", "nvidia.dali.plugin.pytorch")
SETTINGS = ({"threads": 2}, {"threads": 3}, {"threads": 2, "prefetch": 3})
NOTE = "files; decoders.image_random_crop decodes only the crop's region; no GPU used"


def prepare(data):
    pass


def pipeline(data, threads, prefetch):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=common.BATCH, num_threads=threads, device_id=None, prefetch_queue_depth=prefetch)
    def photos():
        jpegs, labels = fn.readers.file(
            files=[data.path(n) for n in range(data.samples)], labels=[data.label(n) for n in range(data.samples)],
            random_shuffle=True, initial_fill=1000, name="reader")
        images = fn.decoders.image_random_crop(jpegs, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0],
                                               random_aspect_ratio=[3 / 4, 4 / 3], num_attempts=10)
        images = fn.resize(images, size=[common.SIZE, common.SIZE], interp_type=types.INTERP_LINEAR, antialias=True)
        images = fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", mirror=fn.random.coin_flip(),
            mean=[255 * m for m in common.MEAN], std=[255 * s for s in common.STD])
        return images, labels
    return photos()


def batches(data, threads, prefetch=2):
    from nvidia.dali.plugin.base_iterator import LastBatchPolicy
    from nvidia.dali.plugin.pytorch import DALIClassificationIterator
    loader = DALIClassificationIterator(pipeline(data, threads, prefetch), reader_name="reader", auto_reset=True,
                                        last_batch_policy=LastBatchPolicy.DROP)
    while True:
        for (batch,) in loader:
            yield batch["data"], batch["label"].squeeze(1)


if __name__ == "__main__":
    common.main(sys.modules[__name__])
