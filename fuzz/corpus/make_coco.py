#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_coco into coco/ beside this script."""

import json
import pathlib

HERE = pathlib.Path(__file__).parent
IMAGE = {"id": 1, "file_name": "status", "width": 12, "height": 10}
POLYGON = [[2.5, 3, 7, 3, 7.25, 8, -2, 8], [0, 0, 3, 0, 3, 3]]
NOTE = {"id": 7, "image_id": 1, "category_id": 3, "bbox": [1, 2, 3.5, 4], "area": 14, "iscrowd": 0, "segmentation": POLYGON}
CATEGORIES = [{"id": 9, "name": "cat"}, {"id": 3, "name": "d\u00f6g"}]
WHOLE = {"info": {"x": ["}", {"y": 1}]}, "images": [{**IMAGE, "id": 2, "file_name": "stat"}, IMAGE], "annotations": [NOTE, {**NOTE, "id": 8}],
         "categories": CATEGORIES}
SEEDS = {
    "whole": json.dumps(WHOLE), "indented": json.dumps(WHOLE, indent=1), "cut": json.dumps(WHOLE)[:200], "empty": "",
    "no_images": json.dumps({**WHOLE, "images": []}), "twice": json.dumps({**WHOLE, "images": [IMAGE, IMAGE]}),
    "climbs": json.dumps({**WHOLE, "images": [{**IMAGE, "file_name": "../status"}]}), "strange": json.dumps({**WHOLE, "annotations": [{**NOTE, "image_id": 5}]}),
    "captions": json.dumps({"annotations": [{"id": 1, "image_id": 1, "caption": "a \"b\"\n"}], "images": [IMAGE]}),
    "keypoints": json.dumps({**WHOLE, "annotations": [{**NOTE, "keypoints": [1, 2, 2, 3, 4, 0]}, {**NOTE, "id": 9, "keypoints": None}]}),
    "short_box": json.dumps({**WHOLE, "annotations": [{**NOTE, "bbox": [1]}]}), "brackets": '{"images": [}]', "no_colon": '{"images" []}',
}

(HERE / "coco").mkdir(exist_ok=True)
for name, text in SEEDS.items():
    (HERE / "coco" / name).write_text(text, encoding="utf-8")
