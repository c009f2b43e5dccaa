# SPDX-License-Identifier: Apache-2.0
"""Samples that lie beyond 2^40 bytes of a shard.  The file is sparse: it takes a few kilobytes."""

import tarfile

import pytest

import stoker
from conftest import as_numpy

FAR = 2**40


def append(file, name, data, size=None):
    info = tarfile.TarInfo(name)
    info.size = len(data) if size is None else size
    file.write(info.tobuf(tarfile.GNU_FORMAT))
    file.write(data)
    file.truncate(end := file.tell() - len(data) + (info.size + 511) // 512 * 512)
    file.seek(end)


def test_a_shard_of_a_tebibyte(tmp_path):
    path = tmp_path / "far.tar"
    with open(path, "wb") as file:
        for i in range(5):
            append(file, f"{i:03d}.cls", b"%d" % i)
        try:
            append(file, "hole.bin", b"", FAR + 1)
        except OSError as e:
            pytest.skip(f"no sparse files of this size here: {e}")
        for i in range(5, 20):
            append(file, f"{i:03d}.cls", b"%d" % i)
            append(file, f"{i:03d}.txt", f"text {i}".encode())
        file.write(bytes(1024))
    ds = stoker.open(str(path))
    assert len(ds) == 21 and ds[20]["cls"] == b"19" and ds[20]["txt"] == b"text 19"
    fields = {"label": "from(cls, default=-1) | int", "text": "from(txt, default='') | text"}
    for workers in (0, 2):
        with stoker.Loader(ds, fields, batch_size=4, shuffle=True, num_workers=workers) as loader:
            rows = {int(i): (int(n), t) for b in loader
                    for i, n, t in zip(as_numpy(b.sample_ids), as_numpy(b["label"]), b["text"], strict=True)}
        assert rows[3] == (3, "") and rows[5] == (-1, "") and rows[20] == (19, "text 19")
