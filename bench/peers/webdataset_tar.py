# SPDX-License-Identifier: Apache-2.0
"""WebDataset over tar shards: shards dealt to workers, a shuffle buffer, batches made in the workers."""

import sys

import common

TITLE, MODULES, PACKAGES = "WebDataset", ("torch", "webdataset", "pillow_sample"), ("webdataset==1.0.2",)
SETTINGS = ({"workers": 2}, {"workers": 3}, {"workers": 4})
NOTE = "tar shards; shuffle buffer 1,000, batched in the workers; decoding by Pillow"


def prepare(data):
    data.shards()


def sample(fields):
    from pillow_sample import as_torch
    return as_torch(fields["jpg"]), int(fields["cls"])


def batches(data, workers):
    import webdataset as wds
    shards = sorted(map(str, data.shards().glob("*.tar")))
    pipe = (wds.WebDataset(shards, resampled=True, shardshuffle=False).shuffle(1000).map(sample)
            .batched(common.BATCH, partial=False))
    loader = wds.WebLoader(pipe, batch_size=None, num_workers=workers, prefetch_factor=4, persistent_workers=True)
    yield from loader


if __name__ == "__main__":
    common.main(sys.modules[__name__])
