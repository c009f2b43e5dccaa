# SPDX-License-Identifier: Apache-2.0
"""Videos to measure on: made by ffmpeg where it is, or taken from a folder; and a tar in which each is there many times.

A machine with a GPU often has no ffmpeg: `bench/gpu/videos.py FOLDER` makes them on another one."""
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

FRAMES = 16
X264 = "-c:v libx264 -preset veryfast -crf 27 -bf 2 -sc_threshold 0 -g 12 -keyint_min 12"
FILES = {"360p": (640, 360, 30), "720p": (1280, 720, 12)}   # width, height, seconds of 30 frames
SMALL = {"360p": (160, 96, 2), "720p": (192, 112, 2)}       # of dry runs


def make(folder, small=False):
    """{name: path}; what is there already is taken."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, (width, height, seconds) in (SMALL if small else FILES).items():
        path = found[name] = folder / f"{name}.mp4"
        if path.exists():
            continue
        if not shutil.which("ffmpeg"):
            raise SystemExit(f"videos: {path} is missing, and there is no ffmpeg to make it: make it elsewhere with bench/gpu/videos.py FOLDER")
        part = path.with_suffix(".part.mp4")
        source = f"testsrc2=size={width}x{height}:rate=30,noise=alls=12:allf=t:all_seed=7,format=yuv420p"
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-f", "lavfi", "-i", source, "-t", str(seconds), *X264.split(), "-movflags", "+faststart", part], check=True,
                       stdin=subprocess.DEVNULL)
        part.rename(path)
    return found


def frames_of(name, small=False):
    return 30 * (SMALL if small else FILES)[name][2]


def tar_of(path, copies):
    """A tar of so many samples: each has the whole file, and its number as its class."""
    tar = path.with_name(f"{path.stem}-{copies}.tar")
    if tar.exists():
        return tar
    part = tar.with_suffix(".part")
    with tarfile.open(part, "w") as out:
        for k in range(copies):
            label = path.with_suffix(".cls")
            label.write_text(str(k % 400))
            out.add(path, f"{k:05d}.mp4")
            out.add(label, f"{k:05d}.cls")
    label.unlink()
    part.rename(tar)
    return tar


if __name__ == "__main__":
    make(sys.argv[1])
