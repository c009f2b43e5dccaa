# SPDX-License-Identifier: Apache-2.0
"""A photo to a finished sample with Pillow, for the loaders that leave decoding to the user's Python.

Written as one would for speed: no copy before the crop, one pass from bytes to floats, normalisation
in place.  The crop is drawn as torchvision's RandomResizedCrop draws it; Pillow's resize antialiases.
"""

import io
import math
import random

import numpy as np
from PIL import Image

from common import MEAN, SIZE, STD

SCALE = (1 / (255 * np.array(STD, np.float32))).reshape(3, 1, 1).astype(np.float32)
SHIFT = (-np.array(MEAN, np.float32) / np.array(STD, np.float32)).reshape(3, 1, 1)


def crop_box(width, height, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
    """Left, top, right, bottom: ten tries, then the center."""
    for _ in range(10):
        area = width * height * random.uniform(*scale)
        aspect = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            x, y = random.randint(0, width - w), random.randint(0, height - h)
            return x, y, x + w, y + h
    w, h = min(width, round(height * ratio[1])), min(height, round(width / ratio[0]))
    x, y = (width - w) // 2, (height - h) // 2
    return x, y, x + w, y + h


def open_rgb(source):
    """source: a path or the bytes of a JPEG."""
    with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as file:
        return file.convert("RGB")


def crop_pixels(source):
    """uint8, 224 x 224 x 3: cropped, resized, perhaps mirrored."""
    image = open_rgb(source)
    image = image.crop(crop_box(*image.size)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    if random.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.asarray(image)


def as_numpy(source):
    pixels = np.empty((3, SIZE, SIZE), np.float32)
    np.multiply(crop_pixels(source).transpose(2, 0, 1), SCALE, out=pixels)
    pixels += SHIFT
    return pixels


def as_torch(source):
    import torch
    pixels = torch.from_numpy(np.array(crop_pixels(source))).permute(2, 0, 1)
    pixels = pixels.to(torch.float32, memory_format=torch.contiguous_format)
    return pixels.mul_(torch.from_numpy(SCALE)).add_(torch.from_numpy(SHIFT))
