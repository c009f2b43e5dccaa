#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_regions into regions/ beside this script."""

import json
import pathlib

HERE = pathlib.Path(__file__).parent
POLYGON = [[2.5, 3, 7, 3, 7.25, 8, -2, 8], [0, 0, 3, 0, 3, 3]]


def regions(*which, size=(10, 12)):
    return json.dumps({"size": list(size), "labels": list(range(len(which))), "regions": list(which)}, separators=(",", ":"))


REGIONS = {
    "polygon": regions(POLYGON), "boxes": regions([[1, 2, 3, 4]]), "runs": regions({"size": [10, 12], "counts": [5, 20, 95]}),
    "packed": regions({"size": [10, 12], "counts": "5d0o2"}), "null": regions(None, POLYGON), "map": "C" + regions(POLYGON, POLYGON), "none": regions(),
    "far": regions([[0, 0, 9e5, 0, 9e5, 9e5]]), "other_size": regions({"size": [9, 9], "counts": [1]}), "odd": regions([[1, 2, 3, 4, 5]]), "big": regions(size=(60000, 60000)),
}

(HERE / "regions").mkdir(exist_ok=True)
for name, text in REGIONS.items():
    (HERE / "regions" / name).write_text(text, encoding="utf-8")
