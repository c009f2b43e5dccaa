# SPDX-License-Identifier: Apache-2.0
"""Functions for call(): in a module that other processes can import by itself."""

import os
import random
import signal
import time

import numpy as np

import stoker

try:
    import torch
except ImportError:
    torch = None


def invert(image):
    assert image.dtype == np.uint8 and image.ndim == 3 and image.flags.owndata
    return 255 - image


def shift(image):
    """Draws from all generators."""
    move = int(np.random.randint(0, 20)) + random.randrange(20)
    if torch is not None:
        move += int(torch.randint(0, 20, ()))
    return np.roll(image, move, 1)


def narrow(image):
    return image[:, : image.shape[1] // 2]


def letters(text):
    return [ord(c) for c in text]


def number(value):
    assert sorted(value) == ["n", "tags"]
    return value["n"] * 2


def add_tag(value):
    return {**value, "tags": [*value["tags"], "c"]}


def louder(text):
    return text.upper() + "!"


def odd(image):
    """Bad for every fourth or so."""
    if int(image.sum()) % 4 == 0:
        raise ValueError(f"sum {int(image.sum())} is no good")
    return image


def killed(image):
    if int(image.sum()) % 16 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return image


def always_killed(image):
    os.kill(os.getpid(), signal.SIGKILL)


def my_numpy_function(image):
    return np.ascontiguousarray(image[:, ::-1])


def halves(values):
    """Numbers of any type and shape."""
    return values // 2 if values.dtype.kind in "iu" else values / 2


def add_noise(values):
    return values + np.random.default_rng(stoker.sample_seed()).standard_normal(values.shape).astype(values.dtype)


def means(image):
    return image.mean((0, 1), dtype="f4")


def move(image):
    """Draws in threads too, where only sample_seed() is set."""
    return np.roll(image, np.random.default_rng(stoker.sample_seed()).integers(image.shape[1]), 1)


def as_it_is(value):
    return value


def boxes_of(value):
    return np.array(value["boxes"], np.float32).reshape(-1, 4)


def shifted(boxes):
    return boxes + np.float32(1)


def fewer(boxes):
    return boxes[1:]


def larger(image):
    return np.pad(image, ((0, 1), (0, 1), (0, 0)))


def next_class(mask):
    return mask + np.asarray(1, mask.dtype)


def mask_boxes(mask):
    """Of each class its box, as torchvision's masks_to_boxes."""
    at = [np.nonzero(mask == k) for k in range(1, int(mask.max()) + 1)]
    return [[x.min(), y.min(), x.max() + 1, y.max() + 1] for y, x in at if len(x)] or np.zeros((0, 4))


def ids_of_text(text):
    return [1 + sum(word.encode()) % 1000 for word in text.split()]


def pixel_codes(image):
    return 1 + image[..., 0].astype(np.int32).ravel()


def words_per_epoch(text):
    """As many as its seed says, so that epochs differ."""
    return list(range(1, 2 + stoker.sample_seed() % 5))


def slow(value):
    time.sleep(0.02)
    return value
