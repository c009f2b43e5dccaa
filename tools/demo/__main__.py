# SPDX-License-Identifier: Apache-2.0
"""make demo: photos, shards, index, two epochs, and (unless TORCH=0) a minute of training."""

import os
import subprocess
import sys
import time
from pathlib import Path

import photos
from bar import Bar
from pack import pack, pattern

ROOT = Path(__file__).resolve().parents[2]
DATA = Path("demo-data")        # under ROOT
TRAIN = 320                     # of photos.COUNT; the others are held out


def headline(text):
    print(f"== {text}", flush=True)


def make_data():
    headline(f"photos: {photos.COUNT} of about 500x400, in {photos.CLASSES} classes")
    bar, start = Bar("making", photos.COUNT), time.monotonic()
    made = photos.make_photos(DATA / "photos", progress=bar.update)
    bar.close()
    found = photos.list_photos(DATA / "photos")
    size = sum(path.stat().st_size for path, _ in found)
    print(f"   {made} made in {time.monotonic() - start:.1f} s, {len(found)} there, "
          f"{size / len(found) / 1e3:.0f} KB each")
    headline("packing")
    train = pack(found[:TRAIN], DATA / "shards", "train")
    test = pack(found[TRAIN:], DATA / "shards", "test")
    print(f"   {len(train) + len(test)} shards, fields jpg and cls: {pattern(train)}")
    return found, pattern(train)


def run_index(shards):
    headline(f"stoker index '{shards}' --jpeg")
    cli = Path(sys.executable).parent / "stoker"
    subprocess.run([cli, "index", shards, "--jpeg"], check=True)


def main():
    os.chdir(ROOT)
    found, shards = make_data()
    run_index(shards)
    from load import load
    headline("loading two epochs: random_resized_crop(224), hflip, normalize, f32")
    load(shards)
    if os.environ.get("TORCH") == "0":
        print("   TORCH=0: training is left out")
        return
    from train import compare
    headline("training a small model on the CPU, twice")
    compare(found[:TRAIN], found[TRAIN:], shards)


if __name__ == "__main__":
    main()
