# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DataLoader over files, with Pillow: transforms of torchvision, or the same written by hand."""

import sys

import common

TITLE, PACKAGES = "PyTorch DataLoader + Pillow", ("torchvision==0.28.0",)
MODULES = ("torch", "pillow_sample")
OPTIONAL = True                 # without torchvision the transforms by hand remain
SETTINGS = ({"workers": 2}, {"workers": 3}, {"workers": 4}, {"workers": 2, "transforms": "torchvision"})
NOTE = "files; persistent workers, prefetch_factor 4"


class Photos:
    def __init__(self, data, sample):
        self.data, self.sample = data, sample

    def __len__(self):
        return self.data.samples

    def __getitem__(self, n):
        return self.sample(self.data.path(n)), self.data.label(n)


def torchvision_sample():
    common.need_torchvision()
    import torch
    from pillow_sample import open_rgb
    from torchvision.transforms import v2
    chain = v2.Compose([v2.RandomResizedCrop(common.SIZE, antialias=True), v2.RandomHorizontalFlip(), v2.PILToTensor(),
                        v2.ToDtype(torch.float32, scale=True), v2.Normalize(common.MEAN, common.STD, inplace=True)])
    return lambda path: chain(open_rgb(path))


def prepare(data):
    pass


def batches(data, workers, transforms="pillow"):
    from pillow_sample import as_torch
    from torch.utils.data import DataLoader
    photos = Photos(data, as_torch if transforms == "pillow" else torchvision_sample())
    loader = DataLoader(photos, batch_size=common.BATCH, shuffle=True, num_workers=workers, drop_last=True,
                        persistent_workers=True, prefetch_factor=4)
    while True:
        yield from loader


if __name__ == "__main__":
    common.main(sys.modules[__name__])
