# SPDX-License-Identifier: Apache-2.0
"""Stoker over tar shards, as it is: no setting but the chain."""

import os
import re
import subprocess
import sys
from pathlib import Path

import common

TITLE, MODULES, PACKAGES = "Stoker", ("torch", "stoker"), ()
SETTINGS = ({},)
NOTE = "tar shards; workers and prefetch chosen by itself"
CHAIN = "from(jpg) | {image} | random_resized_crop(224) | hflip | normalize(imagenet) | to(f32)"
BUILD = Path(os.environ.get("STOKER_BUILD", Path(__file__).resolve().parents[2] / "build"))


def command(*args):
    done = subprocess.run([BUILD / "cli/stoker", *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        raise common.Absent(done.stderr.strip().splitlines()[0] if done.stderr.strip() else "the command failed")
    return done.stdout


def versions():
    return {"stoker": re.search(r"\d[\w.]*", command("--version"))[0]}


def prepare(data):
    command("index", data.shards())


def load(shards, image="image", **options):
    import stoker
    fields = {"image": CHAIN.format(image=image), "label": "from(cls) | int"}
    with stoker.Loader(str(shards), fields, batch_size=common.BATCH, shuffle=True, drop_last=True, **options) as loader:
        while True:
            for batch in loader:
                yield batch["image"], batch["label"]


def batches(data, **options):
    yield from load(data.shards(), **options)


if __name__ == "__main__":
    common.main(sys.modules[__name__])
