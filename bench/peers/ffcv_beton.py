# SPDX-License-Identifier: Apache-2.0
"""FFCV: a beton with the photos' own JPEG bytes, its decoder and its compiled pipeline."""

import sys

import common

TITLE, PACKAGES = "FFCV", ("ffcv==1.0.2",)
MODULES = ("torch", "ffcv.loader", "ffcv.fields.rgb_image", "ffcv.transforms")
SETTINGS = ({"workers": 1}, {"workers": 2})
NOTE = "beton with the original JPEG bytes (its writer would encode them anew); OpenCV's area resize, no bilinear one"


class Photos:
    """Pairs for its writer; the bytes of the picture that is being written are kept for the encoder."""

    def __init__(self, data):
        self.data, self.jpeg = data, None

    def __len__(self):
        return self.data.samples

    def __getitem__(self, n):
        from pillow_sample import open_rgb
        self.jpeg = self.data.jpeg(n)
        return open_rgb(self.jpeg), self.data.label(n)


def prepare(data):
    import numpy as np
    from ffcv.fields import IntField, RGBImageField, rgb_image
    from ffcv.writer import DatasetWriter

    def write(path):
        photos = Photos(data)
        rgb_image.encode_jpeg = lambda pixels, quality: np.frombuffer(photos.jpeg, np.uint8)
        fields = {"image": RGBImageField(write_mode="jpg"), "label": IntField()}
        writer = DatasetWriter(str(path), fields, num_workers=1)
        writer.from_indexed_dataset(photos, shuffle_indices=False)
    data.once("photos.beton", write)


def batches(data, workers):
    import numpy as np
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, Squeeze, ToTensor, ToTorchImage
    mean, std = (255 * np.array(values) for values in (common.MEAN, common.STD))
    image = [RandomResizedCropRGBImageDecoder((common.SIZE, common.SIZE)), RandomHorizontalFlip(),
             NormalizeImage(mean, std, np.float32), ToTensor(), ToTorchImage(channels_last=False)]
    loader = Loader(str(data.folder / "photos.beton"), batch_size=common.BATCH, num_workers=workers, os_cache=True,
                    order=OrderOption.RANDOM, drop_last=True,
                    pipelines={"image": image, "label": [IntDecoder(), ToTensor(), Squeeze()]})
    while True:
        yield from loader


if __name__ == "__main__":
    common.main(sys.modules[__name__])
