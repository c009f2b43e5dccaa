#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_npy into npy/ beside this script (needs NumPy)."""

import io
import pathlib
import struct

import numpy as np

OUT = pathlib.Path(__file__).parent / "npy"


def save(array, version=(1, 0)):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version)
    return out.getvalue()


def raw(header, data=b"", version=1):
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def main():
    OUT.mkdir(exist_ok=True)
    seeds = {f"type_{t[1:]}": save(np.arange(6).astype(t).reshape(2, 3)) for t in
             ("|b1", "|u1", "|i1", "<u2", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8", "<u4", "<c8")}
    seeds |= {
        "version2": save(np.arange(3.0), (2, 0)),
        "version3": save(np.arange(3.0), (3, 0)),
        "fortran": save(np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))),
        "big_endian": save(np.arange(5).astype(">i4")),
        "scalar": save(np.array(3.5)),
        "no_rows": save(np.zeros((0, 7))),
        "structured": save(np.zeros(2, [("a", "<i4"), ("b", "<f4")])),
        "objects": raw("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"\x80\x04K\x01."),
        "long": raw("{'shape': (2L, 1L), \"fortran_order\": False, 'descr': '<i2'}", b"1234"),
        "huge": raw("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4611686018427387904), }"),
        "deep": raw("{'descr': '|u1', 'fortran_order': True, 'shape': (" + "1, " * 9 + "), }", b"x"),
        "cut": save(np.arange(100.0))[:200],
        "no_key": raw("{'descr': '<f8', 'shape': (1,), }", bytes(8)),
        "long_header": raw("{" + " " * 70000, version=2)[:500],
        "version9": b"\x93NUMPY\x09\0" + bytes(20),
        "empty": b"",
    }
    for name, data in seeds.items():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
