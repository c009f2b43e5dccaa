# SPDX-License-Identifier: Apache-2.0
"""An op of your own, compiled by Numba, in a chain: python numba_op.py PHOTOS

It runs in the loader's threads without the GIL, as the library's own ops do.
"""

import sys

import numba
import stoker

PIXELS = "void(CPointer(uint8), intp, intp, CPointer(float64), uint64)"


@numba.cfunc(PIXELS)
def curve(pixels, height, width, args, seed):
    """Gamma, a little different for every picture."""
    image = numba.carray(pixels, (height, width, 4))
    gamma = args[0] + args[1] * ((seed >> 11) / 2.0**53 - 0.5)
    for y in range(height):
        for x in range(width):
            for c in range(3):
                image[y, x, c] = int(255.0 * (image[y, x, c] / 255.0) ** gamma + 0.5)


stoker.op(curve, name="my_curve", args={"gamma": 1.0, "spread": 0.4})
loader = stoker.Loader(sys.argv[1], {"image": "image | resize((64, 64)) | my_curve(2.2) | to(f32)", "label": "from(cls) | int"},
                       batch_size=16, shuffle=True, seed=1)
for batch in loader:
    print(tuple(batch["image"].shape), f"mean {float(batch['image'].mean()):.3f}")
