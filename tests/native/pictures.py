# SPDX-License-Identifier: Apache-2.0
"""Tar files with pictures of given sizes."""

import io
import tarfile

import numpy as np
from PIL import Image


def picture(seed, width, height):
    """Smooth with some texture."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    noise = rng.integers(-20, 21, (height, width, 3))
    return Image.fromarray((np.asarray(coarse) + noise).clip(0, 255).astype(np.uint8))


def write_tar(path, sizes, kind="PNG", extra=()):
    """sizes: (width, height) of each sample's field jpg; extra: (field, function of the number) pairs."""
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, (w, h) in enumerate(sizes):
            out = io.BytesIO()
            picture(i, w, h).save(out, kind)
            for name, data in [("jpg", out.getvalue()), ("cls", b"%d" % i)] + [(f, make(i)) for f, make in extra]:
                info = tarfile.TarInfo(f"{i:06d}.{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return str(path)
