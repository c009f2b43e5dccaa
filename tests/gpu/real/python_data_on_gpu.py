# SPDX-License-Identifier: Apache-2.0
"""Data sets and functions of test_python_on_gpu.py, in a module that fresh processes can import."""

import random

import numpy as np
import stoker
import torch


class Clips:
    """Tensors, arrays, numbers and text; every 17th sample fails where `bad`.  What is drawn is seen in `noise`."""

    def __init__(self, n=60, bad=False):
        self.n, self.bad = n, bad

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self.bad and i % 17 == 5:
            raise ValueError(f"clip {i}")
        return {"clip": torch.full((3, 50), float(i)), "array": np.full((7,), i, np.int32), "label": i * i, "name": f"c{i}",
                "noise": torch.rand(4) + random.random(), "nested": {"pair": (i, torch.tensor([i, -i]))}}


class Pairs:
    """Tuples, for stoker.DataLoader."""

    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.arange(1000) * i, i


class Numbers:
    """Only iterable."""

    def __iter__(self):
        return iter(torch.arange(50))


class Where:
    """What a worker knows of CUDA."""

    def __len__(self):
        return 8

    def __getitem__(self, i):
        import os
        return {"i": i, "began": torch.cuda.is_initialized(), "pid": os.getpid()}


def shift(picture):
    """By a draw that is each sample's own, in processes and in threads."""
    rng = np.random.default_rng(stoker.sample_seed())
    return np.roll(picture, int(rng.integers(picture.shape[1])), 1)


def fails(picture):
    raise ValueError("no picture of mine")


def double(values):
    return values * 2


def tagged(text):
    return f"<{text}>"
