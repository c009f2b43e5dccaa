# SPDX-License-Identifier: Apache-2.0
"""What the tests of sound share: recordings, tar files of them, rows of a chain."""

import io
import shutil
import struct
import subprocess
import tarfile

import numpy as np
import pytest

import stoker

RATE = 16000


def tone(seconds=1.5, rate=RATE, channels=1, seed=0):
    """A sweep with noise, as float64 of shape (samples, channels); far from full scale."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * rate)) / rate
    x = 0.4 * np.sin(2 * np.pi * 200 * t * (1 + t)) + 0.05 * rng.standard_normal(len(t))
    return np.stack([np.roll(x, 5 * c) * (1 - 0.2 * c) + 0.01 * rng.standard_normal(len(t)) for c in range(channels)], 1)


def integers(x, bits):
    return np.clip(np.round(x * 2 ** (bits - 1)), -2 ** (bits - 1), 2 ** (bits - 1) - 1).astype(np.int64)


def wav(data, rate, channels, kind=1, bits=16, extra=b"", form=b"RIFF", size=None, tail=b""):
    """A WAVE file around `data`."""
    frame = channels * bits // 8
    fmt = struct.pack("<HHIIHH", kind, channels, rate, rate * frame, frame, bits) + extra
    chunks = b"fmt " + struct.pack("<I", len(fmt)) + fmt
    if form != b"RIFF":
        chunks = b"ds64" + struct.pack("<IQQQI", 28, 0, len(data), 0, 0) + chunks
        size = 0xFFFFFFFF
    chunks += b"data" + struct.pack("<I", len(data) if size is None else size) + data + tail
    return form + struct.pack("<I", len(chunks) + 4) + b"WAVE" + chunks


def wav16(x, rate=RATE):
    x = np.atleast_2d(x.T).T
    return wav(integers(x, 16).astype("<i2").tobytes(), rate, x.shape[1])


def tool(name):
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    return name


def encoded(args, data, out):
    """What a program makes of the file `data`; `out` names its result."""
    tool(args[0])
    subprocess.run(args, input=data, check=True, capture_output=True)
    return out.read_bytes()


def tar_of(path, files):
    """Samples 0, 1, ... of one field each: files is a list of (suffix, bytes)."""
    with tarfile.open(path, "w") as t:
        for i, (suffix, data) in enumerate(files):
            info = tarfile.TarInfo(f"{i:04}.{suffix}")
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return str(path)


def rows(source, chain, epochs=1, **options):
    """Every row of a chain as an array, in the order in which they come."""
    options = {"shuffle": False, "batch_size": 1, "num_workers": 1, **options}
    out = []
    with stoker.Loader(source, {"x": chain}, **options) as loader:
        for _ in range(epochs):
            out += [batch["x"][0].numpy() for batch in loader]
    return out
