#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_hdf5 beside this script.  Needs h5py."""

import pathlib

import h5py
import numpy as np

folder = pathlib.Path(__file__).resolve().parent / "hdf5"
folder.mkdir(exist_ok=True)
n = 12


def write(name, kind, grown=None):
    with h5py.File(folder / name, "w", **kind) as f:
        f.create_dataset("gz", data=np.arange(n, dtype=">i4"), chunks=(5,), compression="gzip", shuffle=True, fletcher32=True, maxshape=grown)
        f.create_dataset("lzf", data=np.zeros((n, 20), "u1"), chunks=(5, 20), compression="lzf")
        f["row"] = np.zeros(n, dtype=[("a", "i4"), ("b", "f8", (2,)), ("s", "S3")])
        f["flag"] = np.arange(n) % 2 == 0
        f.create_dataset("text", (n,), dtype=h5py.string_dtype())[:] = ["é" * i for i in range(n)]
        f["soft"] = h5py.SoftLink("/gz")
        for i in range(4):
            f[f"more{i}"] = np.arange(n, dtype="f2")


for name, kind, grown in (("old", {}, None), ("user", {"userblock_size": 512}, None), ("order", {"track_order": True}, None),
                          ("fixed", {"libver": "latest"}, None), ("grows", {"libver": "latest"}, (None,))):
    write(name, kind, grown)
(folder / "cut").write_bytes((folder / "old").read_bytes()[:3000])
