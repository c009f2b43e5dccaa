# SPDX-License-Identifier: Apache-2.0
"""Photo-like JPEGs, so that the demo needs no download: textured as photographs are, about 500x400
and 100 KB, one in 25 gray.

Noise in several octaves gives the spectrum of a natural picture (and with it the share of entropy
decoding in the whole cost); a gradient and shapes lie on it.  The class is in the hue, the direction of
the grain and the kind of shape, so that a small model can learn it, also from a crop.  Picture number
n is a function of (seed, n) alone.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

CLASSES, COUNT, GRAY_EVERY = 8, 400, 25
QUALITY = 90
HUES = [(185, 105, 85), (185, 145, 80), (155, 165, 85), (95, 160, 100),
        (85, 155, 155), (90, 115, 180), (140, 105, 175), (175, 95, 145)]


def noise(rng, width, height, octaves, stretch=1.0):
    """Sum of random grids, each twice as fine and 0.62 as strong as the one before."""
    total = np.zeros((height, width), np.float32)
    strength, cells = 1.0, 4
    for _ in range(octaves):
        grid = rng.standard_normal((max(2, int(cells * stretch)), cells)).astype(np.float32)
        total += strength * np.asarray(
            Image.fromarray(grid).resize((width, height), Image.Resampling.BICUBIC))
        strength *= 0.62
        cells *= 2
    return total


def draw_shapes(rng, image, label):
    draw = ImageDraw.Draw(image)
    width, height = image.size
    for _ in range(rng.integers(3, 7)):
        x, y = rng.integers(0, width), rng.integers(0, height)
        r = int(rng.integers(25, 90))
        tint = np.clip(np.array(HUES[label]) + rng.integers(-60, 60, 3), 0, 255)
        color = tuple(int(v) for v in tint)
        box = (x - r, y - r, x + r, y + r)
        kind = label % 4
        if kind == 0:
            draw.ellipse(box, fill=color)
        elif kind == 1:
            draw.rectangle(box, fill=color)
        elif kind == 2:
            draw.polygon([(x, y - r), (x - r, y + r), (x + r, y + r)], fill=color)
        else:
            draw.ellipse(box, outline=color, width=max(4, r // 4))


def to_image(pixels):
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def make_photo(seed, n):
    """Picture number n and its class."""
    rng = np.random.default_rng([seed, n])
    label = n % CLASSES
    width, height = int(rng.integers(460, 541)), int(rng.integers(370, 431))
    stretch = 0.4 if label < CLASSES // 2 else 2.5
    light = 22 * noise(rng, width, height, 7, stretch)
    light += np.linspace(-1, 1, width, dtype=np.float32) * rng.uniform(-30, 30)
    color = np.array(HUES[label]) + rng.normal(0, 20, 3)
    color = color + np.stack([9 * noise(rng, width, height, 4) for _ in range(3)], -1)
    image = to_image(color + light[..., None])
    draw_shapes(rng, image, label)
    grain = rng.normal(0, 15, (height, width, 1))
    image = to_image(np.asarray(image, np.float32) + grain)
    if n % GRAY_EVERY == GRAY_EVERY - 1:
        image = image.convert("L")
    return image, label


def save_photo(job):
    """Made under another name first: an interrupted demo leaves no half picture behind."""
    folder, seed, n = job
    image, label = make_photo(seed, n)
    path = photo_path(folder, n, label)
    image.save(path.with_suffix(".part"), "JPEG", quality=QUALITY)
    path.with_suffix(".part").replace(path)


def photo_path(folder, n, label):
    return Path(folder) / f"class{label}" / f"{n:06d}.jpg"


def list_photos(folder):
    """(path, label) of every photo, by number."""
    paths = sorted(Path(folder).glob("class*/*.jpg"), key=lambda p: p.name)
    return [(p, int(p.parent.name.removeprefix("class"))) for p in paths]


def make_photos(folder, seed=0, count=COUNT, progress=None):
    """Make those that are not there yet; returns how many were made."""
    missing = [n for n in range(count) if not photo_path(folder, n, n % CLASSES).exists()]
    if not missing:
        return 0
    for label in range(CLASSES):
        photo_path(folder, 0, label).parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        jobs = pool.map(save_photo, [(folder, seed, n) for n in missing], chunksize=8)
        for done, _ in enumerate(jobs, 1):
            if progress:
                progress(done)
    return len(missing)
