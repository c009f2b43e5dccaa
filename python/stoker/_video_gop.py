# SPDX-License-Identifier: Apache-2.0
"""Videos with a keyframe every few frames, for pack(video_gop=12): a random clip is decoded from the keyframe before it.

The ffmpeg program encodes the picture again and copies all else.  Frames keep their number and times, which is compared packet by
packet: a video that comes out with others is an error of its sample.  A video whose keyframes are near enough is copied as it is.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from typing import Any

from . import _stoker
from .errors import InvalidError, StokerError, invalid

# By the codec that it has: a codec of the same container.  Others become H.264.
_ENCODERS = {"vp8": "libvpx", "vp9": "libvpx-vp9", "av1": "libsvtav1", "hevc": "libx265"}
_HOW = {
    "libx264": ["-preset", "veryfast", "-crf", "18", "-x264-params", "scenecut=0:open-gop=0:threads=1"],
    "libx265": ["-preset", "veryfast", "-crf", "20", "-x265-params", "scenecut=0:open-gop=0:log-level=none:pools=1:frame-threads=1"],
    "libvpx": ["-deadline", "good", "-cpu-used", "5", "-crf", "8", "-b:v", "8M", "-auto-alt-ref", "0"],
    "libvpx-vp9": ["-deadline", "good", "-cpu-used", "5", "-crf", "20", "-b:v", "0", "-auto-alt-ref", "0"],
    "libsvtav1": ["-preset", "8", "-crf", "24", "-svtav1-params", "lp=1"],
}


def programs() -> tuple[str, str]:
    """ffmpeg and ffprobe; else an error that says where they come from."""
    found = shutil.which("ffmpeg"), shutil.which("ffprobe")
    if not found[0] or not found[1]:
        invalid(f"video_gop= needs the programs ffmpeg and ffprobe, and there is no {'ffprobe' if found[0] else 'ffmpeg'}: apt install ffmpeg")
    return found[0], found[1]


class ShortGroups:
    """A function for pack(): fields that are videos get a keyframe every `gop` frames."""

    def __init__(self, gop: int) -> None:
        self.gop = gop
        self.stoker_version = f"1.{gop}"    # of this file, where what it asks of ffmpeg changes: a pack that was begun is another one
        programs()

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        made = dict(sample)
        for name, value in sample.items():
            if not name.startswith("__") and isinstance(value, (bytes, memoryview)) and _is_video(bytes(value[:12])):
                made[name] = self._shorter(name, bytes(value))
        return made

    def _shorter(self, name: str, data: bytes) -> bytes:
        with tempfile.TemporaryDirectory(prefix="stoker-gop-") as folder:
            before, after = (os.path.join(folder, f"{what}.{_kind(data)}") for what in ("in", "out"))
            with open(before, "wb") as f:
                f.write(data)
            facts = _facts(name, before)
            if facts is None or facts["longest_gop"] <= self.gop:
                return data
            was = _packets(name, before)
            _run(name, [programs()[0], "-v", "error", "-nostdin", "-y", "-noautorotate", "-i", before, *_arguments(was, self.gop, _kind(data)), after])
            now = _packets(name, after)
            if now["times"] != was["times"]:
                raise StokerError(f"{name}: ffmpeg gave {len(now['times'])} frames for {len(was['times'])}, or other times: this video stays out")
            made = _facts(name, after)
            if made is None or made["longest_gop"] > self.gop or any(made[k] != facts[k] for k in ("frames", "width", "height")):
                raise StokerError(f"{name}: ffmpeg gave {made}, of {facts}, where {self.gop} frames at most are wanted from keyframe to keyframe")
            with open(after, "rb") as f:
                return f.read()


def _is_video(head: bytes) -> bool:
    return head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip") or head[:4] == b"\x1aE\xdf\xa3"


def _kind(data: bytes) -> str:
    if data[:4] == b"\x1aE\xdf\xa3":
        return "webm" if b"webm" in data[:64] else "mkv"
    return "mov" if data[4:12] == b"ftypqt  " or data[4:8] != b"ftyp" else "mp4"


def _facts(name: str, path: str) -> dict[str, Any] | None:
    """Of its first video track; None: it has none, as M4A."""
    try:
        facts: dict[str, Any] = _stoker.video_info(os.fsencode(path), None)
    except StokerError as e:
        if "no video track" in str(e):
            return None
        raise StokerError(f"{name}: {e}") from e
    return facts if facts["width"] else None


def _packets(name: str, path: str) -> dict[str, Any]:
    """When each frame is shown, and how the track counts time."""
    out = _run(name, [programs()[1], "-v", "error", "-select_streams", "v:0", "-show_entries",
                      "stream=codec_name,pix_fmt,time_base,color_range,color_space,color_transfer,color_primaries,chroma_location:packet=pts,flags",
                      "-of", "json", path])
    found = json.loads(out)
    stream = found["streams"][0]
    num, den = map(int, stream["time_base"].split("/"))
    shown = [p for p in found["packets"] if "D" not in p.get("flags", "")]
    return {"times": sorted(round(p["pts"] * num * 1_000_000 / den) for p in shown), "stream": stream, "den": den if num == 1 else 0}


def _arguments(was: dict[str, Any], gop: int, kind: str) -> list[str]:
    stream = was["stream"]
    encoder = _ENCODERS.get(stream["codec_name"], "libx264")
    colors = [part for option, key in (("-color_range", "color_range"), ("-colorspace", "color_space"), ("-color_trc", "color_transfer"),
                                       ("-color_primaries", "color_primaries"), ("-chroma_sample_location", "chroma_location"))
              if stream.get(key, "unknown") not in ("unknown", "unspecified", "reserved") for part in (option, stream[key])]
    return ["-map", "0:v:0", "-map", "0:a?", "-c", "copy", "-c:v", encoder, *_HOW[encoder], "-g", str(gop), "-keyint_min", str(gop), "-bf", "0",
            "-pix_fmt", stream["pix_fmt"], *colors, "-threads", "1", "-vsync", "passthrough", "-copyts", "-enc_time_base", "-1",
            *(["-video_track_timescale", str(was["den"]), "-movie_timescale", str(was["den"])] if was["den"] and kind in ("mp4", "mov") else [])]


def _run(name: str, words: list[str]) -> str:
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    if done.returncode:
        raise StokerError(f"{name}: {os.path.basename(words[0])}: {(done.stderr.strip().splitlines() or ['it failed'])[-1][:300]}")
    return done.stdout


def main(text: str) -> int:
    """stoker pack --video-gop: a job of cli/pack_videos.c; the exit code."""
    from . import _pack     # which imports this
    job = json.loads(text)
    start = time.monotonic()
    try:
        done = _pack.pack(job["src"] if len(job["src"]) > 1 else job["src"][0], **job["how"])
    except StokerError as e:
        print(f"stoker: {e}", file=sys.stderr)
        return 2 if isinstance(e, InvalidError) else 3
    if job["json"]:
        print(json.dumps({**done, "seconds": round(time.monotonic() - start, 6)}))
        return 0
    for one in done.values() if "split" in job["how"] else [done]:
        failed = f"; {one['failed']:,} could not be made, .stoker beside the shards lists them" if one["failed"] else ""
        print(f"{one['samples']:,} samples in {one['shards']:,} shards, {one['bytes'] / 1e6:.1f} MB: {one['pattern']}{failed} ({time.monotonic() - start:.2f} s)")
    return 0
