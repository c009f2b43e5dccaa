# SPDX-License-Identifier: Apache-2.0
"""Packs photos into WebDataset tar shards with fields jpg and cls; Python's tarfile is enough."""

import io
import tarfile
from pathlib import Path

PER_SHARD = 80


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def pack(photos, folder, name):
    """Write `photos`, a list of (path, label), to folder/name-000000.tar and on; returns the paths.
    Shards that are there are kept: the photos they were made from do not change."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    shards = []
    for start in range(0, len(photos), PER_SHARD):
        path = folder / f"{name}-{start // PER_SHARD:06d}.tar"
        shards.append(path)
        if path.exists():
            continue
        part = path.with_suffix(".part")
        with tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as tar:
            for photo, label in photos[start:start + PER_SHARD]:
                add(tar, f"{photo.stem}.jpg", photo.read_bytes())
                add(tar, f"{photo.stem}.cls", str(label).encode())
        part.replace(path)
    return shards


def pattern(shards):
    """The brace pattern that names all of them."""
    first, last = shards[0], shards[-1]
    name, low = first.stem.rsplit("-", 1)
    high = last.stem.rsplit("-", 1)[1]
    return str(first.parent / f"{name}-{{{low}..{high}}}.tar")
