# SPDX-License-Identifier: Apache-2.0
"""random_resized_crop_to_patches draws parts of pictures as timm's RandomResizedCropToSequence does: where they are, how large, how many patches, by two-sample Kolmogorov-Smirnov tests.

timm's get_params is compiled from its file.  Where our parts are is read off the pixels of a picture whose colors are its coordinates."""

import io
import math
import random
import tarfile
import types

import numpy as np
import pytest
from PIL import Image
from test_adapters import from_timm

import stoker

W, H = 240, 160                 # coordinates are colors
N, EPOCHS = 400, 10
BOUND = 1.95                    # c of c * sqrt(2 / n): passed by one of 1,000 at random; draws are seeded


def timm_draws(n, scale, ratio):
    size, crop = from_timm("naflex_transforms.py", "get_image_size_for_seq", "RandomResizedCropToSequence", given={
        "random": random.Random(5), "InterpolationMode": types.SimpleNamespace, "_RANDOM_INTERPOLATION": None,
        "F": types.SimpleNamespace(get_dimensions=lambda image: (3, image[0], image[1])), "warnings": None, "Tuple": tuple})
    out = []
    for _ in range(n):
        (top, left, h, w), (to_h, to_w), _ = crop.get_params((H, W), scale, ratio, patch_h=8, patch_w=8, max_seq_len=100, interpolation=None)
        out.append((left + (w - 1) / 2, top + (h - 1) / 2, w, h, to_w // 8, to_h // 8))
    return np.array(out)


def our_draws(path, n, scale, ratio):
    """The middle of a part is its mean color; the sides follow from the colors of its first and last patches' middles."""
    out = []
    chain = f"random_resized_crop_to_patches(8, max_patches=100, scale=({scale[0]}, {scale[1]}), ratio=({ratio[0]}, {ratio[1]}), interpolation=bilinear) | patches(8) | to(f32)"
    loader = stoker.Loader(path, {"x": f"from(png) | image | {chain}"}, batch_size=100, collate="list", num_workers=2, seed=11)
    for _ in range(EPOCHS):
        for batch in loader:
            for x, (down, across) in zip(batch["x"], batch.grid["x"].tolist()):
                color = np.asarray(x).reshape(down, across, 8, 8, 3).mean((2, 3)) * 255
                w = (color[:, -1, 0] - color[:, 0, 0]).mean() / (across - 1) * across if across > 1 else 0
                h = (color[-1, :, 1] - color[0, :, 1]).mean() / (down - 1) * down if down > 1 else 0
                out.append((color[..., 0].mean(), color[..., 1].mean(), w, h, across, down))
    return np.array(out)


def distance(a, b):
    at = np.sort(np.concatenate([a, b]))
    return np.abs(np.searchsorted(np.sort(a), at, "right") / len(a) - np.searchsorted(np.sort(b), at, "right") / len(b)).max()


@pytest.mark.parametrize(("scale", "ratio"), [((.08, 1), (.8, 1.25)), ((.3, .5), (.5, 2))])
def test_as_timm(tmp_path, scale, ratio):
    y, x = np.mgrid[:H, :W]
    out = io.BytesIO()
    Image.fromarray(np.stack([x, y, y], -1).astype(np.uint8)).save(out, "PNG")
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(N):
            info = tarfile.TarInfo(f"{i:06d}.png")
            info.size = len(out.getvalue())
            tar.addfile(info, io.BytesIO(out.getvalue()))
    ours, theirs = our_draws(str(tmp_path / "a.tar"), N * EPOCHS, scale, ratio), timm_draws(N * EPOCHS, scale, ratio)
    assert len(ours) == len(theirs) == N * EPOCHS
    bound = BOUND * math.sqrt(2 / len(ours))
    ours[:, 2:4], theirs[:, 2:4] = ours[:, 2:4].round(), theirs[:, 2:4].round()
    figures = {"middle x": 0, "middle y": 1, "width": 2, "height": 3, "patches across": 4, "patches down": 5}
    far = {name: round(float(distance(ours[:, k], theirs[:, k])), 4) for name, k in figures.items()}
    far["area"] = round(float(distance(ours[:, 2] * ours[:, 3], theirs[:, 2] * theirs[:, 3])), 4)
    print(f"\nscale {scale}, ratio {ratio}: {len(ours)} parts, distances {far}, bound {bound:.4f}")
    assert max(far.values()) < bound, (far, bound)
    other = timm_draws(N * EPOCHS, (scale[0], scale[1] * .85), ratio)       # a smaller range is noticed: the bound is one that can fail
    assert distance(ours[:, 2] * ours[:, 3], other[:, 2] * other[:, 3]) > bound
