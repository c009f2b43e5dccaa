#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Shards to measure on: photos packed over and over, every copy with bytes of its own.

    bench/gpu/shards.py --data FOLDER --out DIR --gib 4

DIR/seek/ has shards with seek points in their index, DIR/plain/ the same files (hard links) without, DIR/offsets.npy
(shard, offset, size, label) is for loaders that read tar files by offset.  Each copy is told apart by a comment in the JPEG
(COM), which no decoder looks at, so nothing of it can be shared in the page cache.  The label is the photo's number.
"""

import argparse
import itertools
import json
import os
import sys
import tarfile
import time
from pathlib import Path

import measure  # noqa: F401  (finds the built package)
import numpy as np
import stoker

SUFFIXES = (".jpg", ".jpeg")


def with_comment(data, number):
    """The same JPEG with a comment behind its first segment."""
    if data[:2] != b"\xff\xd8":
        raise ValueError("no JPEG")
    at = 2
    if data[2:4] == b"\xff\xe0":                # JFIF's must stay the first
        at = 4 + int.from_bytes(data[4:6], "big")
    text = b"copy %016d" % number
    return data[:at] + b"\xff\xfe" + (2 + len(text)).to_bytes(2, "big") + text + data[at:]


def photos(folder):
    files = sorted(p for p in Path(folder).rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    if not files:
        raise SystemExit(f"shards: no JPEGs in {folder}")
    return [p.read_bytes() for p in files]


def write(folder, files, total, shard_bytes):
    folder.mkdir(parents=True, exist_ok=True)
    rng, size = np.random.default_rng(1), 0
    with stoker.Writer(folder / "photos-%06d.tar", max_size=shard_bytes, force=True) as out:
        for turn in itertools.count():
            for k in rng.permutation(len(files)):
                if size >= total and turn > 0:
                    return
                number = turn * len(files) + int(k)
                data = with_comment(files[k], number)
                out.write({"__key__": f"{number:09d}", "jpg": data, "cls": int(k)})
                size += len(data)


def offsets(folder):
    rows = []
    for shard, path in enumerate(sorted(folder.glob("*.tar"))):
        with tarfile.open(path) as tar:
            found = [(m.name, m.offset_data, m.size) for m in tar]
        labels = {}
        with open(path, "rb") as f:
            for name, offset, size in found:
                if name.endswith(".cls"):
                    f.seek(offset)
                    labels[name[:-4]] = int(f.read(size))
        rows += [(shard, offset, size, labels[name[:-4]]) for name, offset, size in found if name.endswith(".jpg")]
    return np.array(rows, np.int64)


def make(data, out, gib, shard_bytes=256 << 20):
    """DIR, made once; answers what is in it."""
    out = Path(out)
    told = out / "shards.json"
    if told.exists():
        return json.loads(told.read_text())
    start = time.perf_counter()
    files = photos(data)
    write(out / "seek", files, int(gib * 2**30), shard_bytes)
    (out / "plain").mkdir(exist_ok=True)
    for path in sorted((out / "seek").glob("*.tar")):
        link = out / "plain" / path.name
        link.unlink(missing_ok=True)
        os.link(path, link)
    rows = offsets(out / "seek")
    np.save(out / "offsets.npy", rows)
    stoker.open(str(out / "seek/*.tar"), jpeg=True)         # as `stoker index --jpeg` does
    stoker.open(str(out / "plain/*.tar"))
    found = {"samples": len(rows), "bytes": int(rows[:, 2].sum()), "photos": len(files),
             "shards": len(set(rows[:, 0].tolist())), "seconds": round(time.perf_counter() - start, 1)}
    told.write_text(json.dumps(found))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a folder of JPEGs")
    parser.add_argument("--out", required=True)
    parser.add_argument("--gib", type=float, default=4.0)
    args = parser.parse_args()
    json.dump(make(args.data, args.out, args.gib), sys.stdout)
    print()


if __name__ == "__main__":
    main()
