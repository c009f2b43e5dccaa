# SPDX-License-Identifier: Apache-2.0
"""Functions for pack() into a bucket, and a pack by them that tests kill: python map_functions.py SOURCES TARGET."""
import json
import sys


def backwards(sample):
    return {"__key__": sample["__key__"], "bin": sample["bin"][::-1], "cls": sample["cls"]}


def twice(sample):
    return [sample, {**sample, "__key__": sample["__key__"] + "b"}]


def even(sample):
    return int(sample["__key__"]) % 2 == 0


def stumble(sample):
    if sample["__key__"].endswith("17"):
        raise KeyError("no such thing")
    return sample


def digits(text):
    return [ord(c) for c in text]


if __name__ == "__main__":
    sys.modules["torch"] = None
    import stoker
    print(json.dumps(stoker.pack(sys.argv[1].split(":"), sys.argv[2], map=backwards, samples=40, num_proc=2)))
