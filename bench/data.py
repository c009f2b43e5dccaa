# SPDX-License-Identifier: Apache-2.0
"""What the bench measures on: photos as files and as shards, 1 KB and 100 KB samples, a million small ones.

Everything is made once under build/bench-data and reused.  Photos are packed several times over until an
epoch is long enough that the loader's memory is all in use before the clock starts.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools/demo"))

import photos as demo_photos  # noqa: E402
from pack import add  # noqa: E402

SUFFIXES = (".jpg", ".jpeg")
EPOCH = 1000                    # samples an epoch, at least
SHARDS = 4


def list_jpegs(folder):
    return sorted(p for p in Path(folder).rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())


def extract(shards, folder):
    """The JPEGs of shards as files, for those who read files."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, shard in enumerate(shards):
        with tarfile.open(shard) as tar:
            for member in tar:
                if member.isfile() and Path(member.name).suffix.lower() in SUFFIXES:
                    path = folder / f"{number:06d}-{Path(member.name).name}"
                    path.write_bytes(tar.extractfile(member).read())


def find_photos(work, data):
    """A list of JPEG files: from a folder, from shards, or made."""
    if data is None:
        demo_photos.make_photos(work / "photos", count=250)
        return list_jpegs(work / "photos")
    data = Path(data)
    files = list_jpegs(data) if data.is_dir() else []
    if files:
        return files
    shards = sorted(data.glob("*.tar")) if data.is_dir() else sorted(data.parent.glob(data.name))
    if not shards:
        raise SystemExit(f"bench: no JPEGs and no shards in {data.name}")
    folder = work / f"files-{hashlib.sha256(str(data).encode()).hexdigest()[:8]}"
    if not folder.exists():
        extract(shards, folder)
    return list_jpegs(folder)


def pack(files, prefix, samples, shards=SHARDS):
    """Shards of `samples` photos with a label each; returns their pattern."""
    last = f"{shards - 1:06d}"
    if not Path(f"{prefix}-{last}.tar").exists():
        for shard in range(shards):
            path = Path(f"{prefix}-{shard:06d}.tar")
            part = path.with_suffix(".part")
            with tarfile.open(part, "w", format=tarfile.USTAR_FORMAT) as tar:
                for n in range(samples * shard // shards, samples * (shard + 1) // shards):
                    add(tar, f"{n:08d}.jpg", files[n % len(files)].read_bytes())
                    add(tar, f"{n:08d}.cls", str(n % 1000).encode())
            part.replace(path)
    return f"{prefix}-{{000000..{last}}}.tar"


def pack_photos(work, files, quick):
    """(pattern for an epoch, pattern of a few for instruction counts)."""
    names = "\n".join(f"{p.name} {p.stat().st_size}" for p in files)
    name = hashlib.sha256(names.encode()).hexdigest()[:8]
    samples = max(400 if quick else EPOCH, len(files) if not quick else 0)
    return (pack(files, work / f"photos-{name}-{samples}", samples),
            pack(files, work / f"few-{name}", min(48, len(files)), shards=1))


def make_tar(build, prefix, shards, samples, *fields):
    last = f"{shards - 1:06d}"
    if not Path(f"{prefix}-{last}.tar").exists():
        subprocess.run([build / "bench/make_tar", prefix, str(shards), str(samples), *fields], check=True)
    return f"{prefix}-{{000000..{last}}}.tar"


def with_seek_points(build, pattern):
    """The same shards once more, in a folder whose index has seek points."""
    folder = Path(pattern).parent / "points"
    folder.mkdir(exist_ok=True)
    for shard in Path(pattern).parent.glob(Path(pattern).name.split("{")[0] + "*.tar"):
        if not (folder / shard.name).exists() or not (folder / shard.name).samefile(shard):
            (folder / shard.name).unlink(missing_ok=True)
            os.link(shard, folder / shard.name)
    points = str(folder / Path(pattern).name)
    subprocess.run([str(build / "cli/stoker"), "index", points, "--jpeg"], check=True, stdout=subprocess.DEVNULL)
    return points


class Data:
    def __init__(self, build, data, quick):
        work = build / "bench-data"
        work.mkdir(parents=True, exist_ok=True)
        self.files = find_photos(work, data)
        self.photos, self.few = pack_photos(work, self.files, quick)
        self.points = with_seek_points(build, self.photos)
        self.small = make_tar(build, work / "kb", 4, 200_000, "bin:1024")
        self.tiny = make_tar(build, work / "kb-few", 1, 20_000, "bin:1024")
        self.cold = make_tar(build, work / f"cold-{1000 if quick else 4000}", 4, 1000 if quick else 4000, "bin:100000")
        self.million = make_tar(build, work / "million", 10, 1_000_000, "txt:64", "cls:3")
