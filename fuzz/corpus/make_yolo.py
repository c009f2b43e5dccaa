#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_yolo into yolo/ beside this script: a text file of labels; after a NUL data.yaml."""

import pathlib

BOXES = "0 0.5 0.5 0.25 0.5\n1 .1 .2 1e-1 0.1\r\n"
YAML = "path: .\ntrain: images # here\nval: images\nnc: 2\n"
SEEDS = {
    "boxes": BOXES, "empty": "", "polygon": "1 0.25 0.25 0.75 0.25 0.75 0.75\n", "both": BOXES + "0 0 0 1 0 1 1 0 1\n", "short": "0 0.5\n", "words": "cat 1 2 3 4\n",
    "class": "1.5 0 0 1 1\n", "large": "99999999999 0 0 1 1\n", "nan": "0 nan inf -1e308 1e308\n", "blank": "\n \n\t\n",
    "list": BOXES + "\0" + YAML + "names: [cat, 'it''s', \"a, b\"]\n", "lines": BOXES + "\0" + YAML + "names:\n  - cat # x\n  - 'dog'\n",
    "numbers": BOXES + "\0" + YAML + "names:\n  0: cat\n  1: dog\n", "map": BOXES + "\0" + YAML + "names: {0: cat,\n 1: dog}\n", "gap": BOXES + "\0" + YAML + "names: {0: cat, 2: dog}\n",
    "open": BOXES + "\0" + YAML + "names: [cat, dog", "anchor": BOXES + "\0" + YAML + "names: &x\n", "climbs": BOXES + "\0train: ../images\n", "away": BOXES + "\0train: /etc\n",
    "several": BOXES + "\0train: [images, ./images/, ../../etc]\n", "no_train": BOXES + "\0names: [a]\n", "odd": BOXES + "\0train:\n\tnames: x: y\n",
}

folder = pathlib.Path(__file__).parent / "yolo"
folder.mkdir(exist_ok=True)
for name, text in SEEDS.items():
    (folder / name).write_text(text, encoding="utf-8")
