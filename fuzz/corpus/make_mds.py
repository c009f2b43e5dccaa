#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_mds beside this script."""

import pathlib
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[1] / "tests"))
import made_litdata  # noqa: E402
import made_mds  # noqa: E402

COLUMNS = {"x": "int", "b": "bytes", "s": "str", "v": "ndarray:float32:2", "r": "ndarray:int16", "u": "uint64"}
folder = here / "mds"
folder.mkdir(exist_ok=True)
samples = [{"x": i, "b": b"abc" * i, "s": "é" * i, "v": [i, 2], "r": list(range(i)), "u": i} for i in range(3)]
with tempfile.TemporaryDirectory() as tmp:
    made = made_mds.write(tmp, COLUMNS, samples)
    index, shard = (made / "index.json").read_bytes(), (made / "shard.00000.mds").read_bytes()
(folder / "plain").write_bytes(index + b"\n" + shard)
(folder / "cut").write_bytes(index + b"\n" + shard[:-20])
(folder / "index").write_bytes(index)
with tempfile.TemporaryDirectory() as tmp:
    made = made_litdata.write(tmp, [{"x": i, "b": b"abc" * i, "t": (True, 0.5, [1])} for i in range(3)])
    (folder / "litdata").write_bytes((made / "index.json").read_bytes() + b"\n" + (made / "chunk-0-0.bin").read_bytes())
with tempfile.TemporaryDirectory() as tmp:
    made = made_litdata.write(tmp, [{"x": i, "b": b"abc" * i} for i in range(5)], 5, lambda raw: b"packed" + raw, frame_rows=2)
    (folder / "frames").write_bytes((made / "index.json").read_bytes() + b"\n" + (made / "chunk-0-0.bin").read_bytes())
(folder / "other").write_bytes(b'{"shards": [{"format": "mds", "column_names": [[1]], "column_encodings": [], "column_sizes": []}]}')
