# SPDX-License-Identifier: Apache-2.0
"""What Stoker makes of a folder of pictures, against what Pillow makes of them.

    .venv/bin/python tools/against_pillow.py ~/Pictures
    .venv/bin/python tools/against_pillow.py FOLDER --tolerance 1 --list 100

Every file below FOLDER that looks like a picture (by its ending or its first bytes) goes through `stoker check`, through a
loader, and through Pillow's open().convert("RGB") and ImageOps.exif_transpose().  Printed is what differs: pictures that one
opens and the other refuses, other sizes, pixels further apart than the tolerance (0, as docs/chains.md promises), other turns by
EXIF, and pictures of which check and the loader say different things; with counts by format and reason.  Exit status: 0 where
nothing differs, 1 where something does, 2 where there is nothing to compare.
"""

import argparse
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import warnings
from collections import defaultdict
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

import stoker
from stoker.errors import printable

CHUNK = 256  # files in a shard that is made for them
MAGIC = re.compile(rb"\xff\xd8\xff|\x89PNG|RIFF....WEBP|GIF8", re.DOTALL)
FIELDS = {"plain": "from(image) | image(bits=8) | to(u8, hwc)", "turned": "from(image) | image(exif=true, bits=8) | to(u8, hwc)"}


def pictures(folder):
    """Files in order; links to folders are not followed."""
    endings = set(Image.registered_extensions())
    for base, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(base, name) for name in sorted(names)):
            if not path.is_file():
                continue
            with path.open("rb") as f:
                if path.suffix.lower() in endings or MAGIC.match(f.read(16)):
                    yield path


def write_shard(path, files):
    """One field `image` each, and a good picture at the end: a loader has something to put in a bad one's place."""
    good = io.BytesIO()
    Image.new("RGB", (4, 4)).save(good, "PNG")
    with tarfile.open(path, "w") as tar:
        for i, data in enumerate([*(f.read_bytes() for f in files), good.getvalue()]):
            info = tarfile.TarInfo(f"{i:08d}.image")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def checked(shard):
    """Number -> what `stoker check` has against it."""
    done = subprocess.run([sys.executable, "-m", "stoker", "check", str(shard), "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"stoker check failed: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    return {int(b["key"]): f"{b['kind']}: {b['reason'].removeprefix('image: ')}" for b in found["bad"] + found["unsupported"]}


def loaded(shard):
    """For each picture its pixels plain and turned, or None; the last one is ours."""
    with stoker.Loader(str(shard), FIELDS, batch_size=8, collate="list", on_error="skip") as loader:
        for batch in loader:
            for plain, turned, valid in zip(batch["plain"], batch["turned"], batch.valid, strict=True):
                yield tuple(np.from_dlpack(row) for row in (plain, turned)) if valid else None


def colors(image):
    """Of 16-bit gray the high byte, which image(bits=8) gives: convert() would cut it off at 255."""
    if image.mode.startswith("I;16"):
        return np.repeat((np.asarray(image) >> 8).astype(np.uint8)[..., None], 3, 2)
    return np.asarray(image.convert("RGB"))


def by_pillow(path):
    """Its format (or ending), and pixels plain and turned or the reason why not."""
    kind = path.suffix.lower().removeprefix(".") or "none"
    try:
        with Image.open(path) as image:
            kind = image.format or kind
            image.load()
            return kind, (colors(image), colors(ImageOps.exif_transpose(image)))
    except Exception as error:  # noqa: BLE001 - Pillow raises all kinds for damage
        return kind, f"{type(error).__name__}: {error}".replace(str(path), "FILE")


def apart(a, b):
    return int(np.abs(a.astype(np.int16) - b).max()) if a.size else 0


def size(a):
    return f"{a.shape[1]}x{a.shape[0]}"


def differences(ours, against, theirs, tolerance):
    """(what, reason) for each way in which one picture differs."""
    if (ours is None) != (against is not None):
        yield "check and loader disagree", against or "the loader refuses it, check does not"
    if ours is None and not isinstance(theirs, str):
        yield "Pillow opens, we refuse", against or "?"
    if ours is None or isinstance(theirs, str):
        if ours is not None:
            yield "we open, Pillow refuses", theirs
        return
    if ours[0].shape != theirs[0].shape:
        yield "sizes differ", f"{size(ours[0])}, Pillow {size(theirs[0])}"
    elif apart(ours[0], theirs[0]) > tolerance:
        yield "pixels differ", f"by up to {apart(ours[0], theirs[0])}"
    elif ours[1].shape != theirs[1].shape or apart(ours[1], theirs[1]) > tolerance:
        yield "EXIF turns differ", f"{size(ours[1])}, Pillow {size(theirs[1])}"


def compare(files, tolerance):
    """Yields path, format, and what differs, for one shard's worth of files."""
    with tempfile.TemporaryDirectory() as folder:
        shard = Path(folder, "pictures.tar")
        write_shard(shard, files)
        against = checked(shard)
        for i, (path, ours) in enumerate(zip(files, loaded(shard), strict=False)):
            kind, theirs = by_pillow(path)
            yield path, kind, list(differences(ours, against.get(i), theirs, tolerance))


def report(found, seen, most):
    for what in sorted(found):
        print(f"{what}: {sum(map(len, found[what].values()))}")
        for (kind, reason), paths in sorted(found[what].items(), key=lambda item: -len(item[1])):
            print(f"  {len(paths):6}  {printable(kind)}: {printable(reason)}")
            for path in paths[:most]:
                print(f"            {printable(str(path))}")
            if len(paths) > most:
                print(f"            ... {len(paths) - most} more")
    different = sum(len(paths) for groups in found.values() for paths in groups.values())
    print(f"{sum(seen.values())} pictures ({', '.join(f'{n} {printable(kind)}' for kind, n in sorted(seen.items()))}): {different} differences")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tolerance", type=int, default=0, metavar="N", help="pixels may differ by so much of 255 (default: 0)")
    parser.add_argument("--list", type=int, default=5, metavar="N", help="files that are named for each reason (default: 5)")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # Pillow's, on large and odd files
    files = list(pictures(args.folder))
    if not files:
        print(f"{printable(str(args.folder))} has no pictures", file=sys.stderr)
        return 2
    found, seen = defaultdict(lambda: defaultdict(list)), defaultdict(int)
    for first in range(0, len(files), CHUNK):
        for path, kind, what in compare(files[first:first + CHUNK], args.tolerance):
            seen[kind] += 1
            for title, reason in what:
                found[title][kind, re.sub(r"\d+", "N", reason)].append(path)
    report(found, seen, args.list)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
