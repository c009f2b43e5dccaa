# SPDX-License-Identifier: Apache-2.0
"""LitData: optimized chunks with the JPEG bytes, StreamingDataset and StreamingDataLoader."""

import sys

import common

TITLE, PACKAGES = "LitData", ("litdata==0.2.76",)
MODULES = ("torch", "litdata", "pillow_sample")
SETTINGS = ({"workers": 2}, {"workers": 3}, {"workers": 4})
NOTE = "optimized chunks of 64 MB; decoding by Pillow"


def record(item):
    path, label = item
    with open(path, "rb") as file:
        return {"image": file.read(), "label": label}


def prepare(data):
    import litdata

    def write(folder):
        items = [(data.path(n), data.label(n)) for n in range(data.samples)]
        litdata.optimize(fn=record, inputs=items, output_dir=str(folder), chunk_bytes="64MB", num_workers=1,
                         verbose=False)
    data.once("litdata", write)


def sample(fields):
    from pillow_sample import as_torch
    return as_torch(fields["image"]), int(fields["label"])


def batches(data, workers):
    import litdata
    photos = litdata.StreamingDataset(str(data.folder / "litdata"), shuffle=True, drop_last=True, transform=sample)
    loader = litdata.StreamingDataLoader(photos, batch_size=common.BATCH, num_workers=workers, drop_last=True,
                                         persistent_workers=True, prefetch_factor=4)
    while True:
        yield from loader


if __name__ == "__main__":
    common.main(sys.modules[__name__])
