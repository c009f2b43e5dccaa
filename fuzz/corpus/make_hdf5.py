#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_hdf5 beside this script.  Needs h5py and hdf5plugin."""

import pathlib

import h5py
import hdf5plugin
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


def packed():
    """Filters of libhdf5's own that store fewer bits."""
    with h5py.File(folder / "packed", "w") as f:
        f.create_dataset("so", data=np.arange(n) * 5 - 9, chunks=(5,), scaleoffset=0, compression="gzip")
        f.create_dataset("sf", data=np.arange(n, dtype="f4") / 7, chunks=(5,), scaleoffset=2)
        f.create_dataset("szip", data=np.zeros((n, 32), "i2"), chunks=(5, 32), compression="szip")
        p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        p.set_chunk((5,))
        p.set_filter(h5py.h5z.FILTER_NBIT, 0, ())
        kind = h5py.h5t.py_create(np.dtype([("a", "i2"), ("b", "f4", (2,)), ("s", "S3")]))
        h5py.h5d.create(f.id, b"nbit", kind, h5py.h5s.create_simple((n,)), p)
        f["nbit"][:] = np.ones(n, dtype=f["nbit"].dtype)


def plugins():
    """Also read by python/tests/test_hdf5_filters.py, where hdf5plugin is not installed."""
    with h5py.File(folder / "plugins", "w", libver="latest") as f:
        def put(name, dtype, how):
            f.create_dataset(name, data=(np.arange(400) % 97 * 3).astype(dtype).reshape(100, 4), chunks=(64, 4), **how)

        for packer in ("none", "lz4", "zstd"):
            put(f"bitshuffle_{packer}", "u2", hdf5plugin.Bitshuffle(cname=packer))
        for i, packer in enumerate(("blosclz", "lz4", "zlib", "zstd")):
            put(f"blosc_{packer}", "f4", hdf5plugin.Blosc(cname=packer, shuffle=1 + i % 2))
        put("blosc_plain", "u2", hdf5plugin.Blosc(cname="blosclz", shuffle=0))
        put("lz4", "i4", hdf5plugin.LZ4())
        put("zstd", "i4", hdf5plugin.Zstd())
        put("blosc2", "i4", hdf5plugin.Blosc2())


def parts():
    """Virtual data sets: lists of boxes, grids, all."""
    for name, kind in (("parts", {}), ("parts_new", {"libver": "latest"})):
        layout = h5py.VirtualLayout((3 * n, 2), "i4")
        for k in range(3):
            layout[k::3] = h5py.VirtualSource(".", "source_of_parts", shape=(n, 4))[:, 1:4:2]
        with h5py.File(folder / name, "w", **kind) as f:
            f["source_of_parts"] = np.arange(4 * n).reshape(n, 4)
            f.create_virtual_dataset("x", layout)


packed()
plugins()
parts()
