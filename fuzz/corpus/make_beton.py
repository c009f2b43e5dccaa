#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make corpus/beton and corpus/ppm: small files of FFCV's, and PPM pictures, sound and broken (needs NumPy)."""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
import made_beton  # noqa: E402

here = pathlib.Path(__file__).parent
fields = {"i": "rgb", "n": "int", "b": "bytes", "f": "float", "j": "json", "x": ("array", "<f4", (2, 3)), "c": ("array", "<c8", (2,))}
samples = [{"i": np.zeros((2, 3, 3), "u1") if k else (b"\xff\xd8", (5, 6)), "n": k, "b": b"ab" * k, "f": k / 2, "j": {"k": k}, "x": np.ones((2, 3), "f4"),
            "c": np.zeros(2, "<c8")} for k in range(3)]
(here / "beton").mkdir(exist_ok=True)
good = pathlib.Path(made_beton.write(here / "beton" / "all", fields, samples)).read_bytes()
(here / "beton" / "cut").write_bytes(good[:-30])
made_beton.write(here / "beton" / "ints", {"n": "int"}, [{"n": k} for k in range(5)])
made_beton.write(here / "beton" / "own", {"n": "int"}, [{"n": 1}], number=255)
(here / "beton" / "short").write_bytes(good[:1000])
(here / "ppm").mkdir(exist_ok=True)
for name, data in {"plain": b"P6\n4 3\n255\n" + bytes(range(36)), "comment": b"P6#a\n4 #b\n3\r255 " + bytes(36), "cut": b"P6\n4 3\n255\n" + bytes(35),
                   "deep": b"P6 4 3 65535 " + bytes(72), "huge": b"P6 65535 65535 255 ", "digits": b"P6 9999999999 1 255\n"}.items():
    (here / "ppm" / name).write_bytes(data)
