# SPDX-License-Identifier: Apache-2.0
"""Small pictures and tar files for tests that lie outside a folder with a conftest of its own."""

import io
import tarfile

import numpy as np
from PIL import Image


def jpeg(seed, width=64, height=48):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=90)
    return out.getvalue()


def write_tar(path, members):
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path
