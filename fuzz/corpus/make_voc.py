#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_voc into voc/ beside this script: an annotation; after a NUL the list."""

import pathlib

BOX = "<bndbox><xmin>1</xmin><ymin>2.5</ymin><xmax>3</xmax><ymax>4</ymax></bndbox>"
PART = f"<part><name>head</name>{BOX}</part>"
SIZE = "<size><width>30</width><height> 20 </height><depth>3</depth></size>"
OBJECT = f"<object><name>cat</name><truncated>1</truncated><difficult>0</difficult>{BOX}</object>"
WHOLE = f"<annotation><filename>a.jpg</filename>{SIZE}{OBJECT}{OBJECT}</annotation>"
SEEDS = {
    "whole": WHOLE, "cut": WHOLE[:150], "empty": "", "none": f"<annotation>{SIZE}</annotation>", "no_box": WHOLE.replace("<xmax>", "<x>"),
    "parts": f"<annotation><object>{PART}<name>cat</name>{BOX}{PART}<difficult>1</difficult></object></annotation>",
    "attributes": WHOLE.replace("<object>", '<object id="1">').replace("<name>", "<name >"), "entities": WHOLE.replace("cat", "a&amp;&lt;&"),
    "comments": f"<!-- {OBJECT} -->{WHOLE}<!-- ", "other_classes": WHOLE.replace("cat", "zebra"), "list": WHOLE + "\0a\r\n\na 1\n", "climbs": WHOLE + "\0../a\n",
    "missing": WHOLE + "\0b\n", "no_names": WHOLE + "\0", "empty_tags": "<annotation><object/><size/></annotation>",
}

folder = pathlib.Path(__file__).parent / "voc"
folder.mkdir(exist_ok=True)
for name, text in SEEDS.items():
    (folder / name).write_text(text, encoding="utf-8")
