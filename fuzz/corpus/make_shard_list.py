#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make corpus/shard_list: wids files and Energon's documents, sound and broken."""
import json
import pathlib

HERE = pathlib.Path(__file__).parent / "shard_list"

WIDS = {"__kind__": "wids-shard-index-v1", "wids_version": 1, "base": "sub", "shardlist": [
    {"url": "a\u00e9.tar", "nsamples": 3, "filesize": 9}, {"url": "gs://b/x.tar", "nsamples": 0}]}
SPLIT = """split_parts:
  train:
  - 's-{0..3}.tar'
  - "a\\tb.tar" # why
  'it''s': []
  val:
    - x.tar
exclude: []
"""
SEEDS = {
    "wids": json.dumps(WIDS), "local": json.dumps({**WIDS, "base": "/x"}), "version": json.dumps({**WIDS, "wids_version": 2}),
    "datasets": json.dumps({**WIDS, "datasets": [{}]}), "empty": json.dumps({**WIDS, "shardlist": []}),
    "info": json.dumps({"energon_version": "7", "shard_counts": {"s-0.tar": 3, "d/s-1.tar": -1}, "deep": {"a": {"b": [[]]}}}),
    "split": SPLIT, "info_yaml": "shard_counts:\n  s-0.tar: 3\n  ? long\n  : 4\n", "flow": "a: {b: [c]}\n", "tab": "a:\n\t- b\n",
    "quotes": "'a: \"b\n'x': 'y'z\n\"", "dash": "-\n- a\n", "nothing": "",
}


def main():
    HERE.mkdir(exist_ok=True)
    for name, text in SEEDS.items():
        (HERE / name).write_bytes(text.encode())


if __name__ == "__main__":
    main()
