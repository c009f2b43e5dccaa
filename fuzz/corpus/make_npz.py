#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_npz into npz/ beside this script (needs NumPy)."""

import io
import pathlib
import zipfile

import numpy as np

OUT = pathlib.Path(__file__).parent / "npz"


def saved(save, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def packed(method, data=b"x" * 50):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        z.writestr("x.npy", data)
    return out.getvalue()


def main():
    OUT.mkdir(exist_ok=True)
    x, y = np.arange(12.0).reshape(4, 3), np.arange(4)
    stored, deflated = saved(np.savez, x=x, y=y), saved(np.savez_compressed, x=x, y=y)
    flipped = bytearray(deflated)
    flipped[80] ^= 1
    seeds = {"stored": stored, "deflated": deflated, "flipped": bytes(flipped), "cut": stored[:300],
             "tail": stored[-150:], "uneven": saved(np.savez, x=x, z=np.arange(7)), "empty": b"",
             "scalar": saved(np.savez, x=np.array(1)), "fortran": saved(np.savez, x=np.asfortranarray(x)),
             "bzip2": packed(zipfile.ZIP_BZIP2), "no_npy": packed(zipfile.ZIP_STORED), "no_members": saved(np.savez),
             "comment": stored[:-2] + b"\x05\x00hello"}
    for name, data in seeds.items():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
