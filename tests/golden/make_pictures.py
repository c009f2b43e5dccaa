# SPDX-License-Identifier: Apache-2.0
"""Makes the four JPEGs of this folder.  They are checked in, because encoders change and goldens must not."""

import hashlib
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
FILES = {"color.jpg": ((90, 62), {"subsampling": 2}), "full.jpg": ((61, 80), {"subsampling": 0}),
         "restart.jpg": ((120, 70), {"subsampling": 2, "restart_marker_rows": 1}), "gray.jpg": ((50, 75), {})}

if __name__ == "__main__":
    for name, (size, options) in FILES.items():
        noise = Image.frombytes("RGB", (6, 5), hashlib.shake_128(name.encode()).digest(90))
        picture = noise.resize(size, Image.Resampling.BICUBIC)
        picture = picture.convert("L") if name == "gray.jpg" else picture
        picture.save(HERE / name, "JPEG", quality=85, **options)
