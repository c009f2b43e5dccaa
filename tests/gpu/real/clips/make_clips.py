#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the clips beside this script, and the CRCs of their frames' planes, as the CPU decodes them: ffmpeg, build/tests/video/video_dump.

make_clips.py [NAME...]: only these.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[3]
CLIPS = {"h264.mp4": ("144x96", 24, "yuv420p", "-c:v libx264 -preset veryfast -crf 40 -x264-params bframes=2:keyint=12:min-keyint=12:scenecut=0"),
         "hevc.mp4": ("176x144", 16, "yuv420p", "-c:v libx265 -preset ultrafast -crf 40 -x265-params log-level=none:info=0:keyint=8:bframes=3:open-gop=1"),
         "hevc10.mkv": ("176x144", 12, "yuv420p10le", "-c:v libx265 -preset ultrafast -crf 40 -x265-params log-level=none:info=0:keyint=6:bframes=2:open-gop=0"),
         "vp9.webm": ("144x128", 20, "yuv420p", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 10 -auto-alt-ref 1 -lag-in-frames 8 -b:v 60k")}

X264 = "-c:v libx264 -preset veryfast -crf 42"
GOP = "bframes=2:keyint=12:min-keyint=12:scenecut=0"
# Files without CRCs: batches of them are compared with the CPU's.
MORE = {"odd.webm": ("145x131", 16, "yuv420p", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 8 -b:v 40k"),
        "small.mp4": ("112x64", 24, "yuv420p", f"{X264} -x264-params {GOP}"),
        "uneven.mp4": ("150x90", 24, "yuv420p", f"{X264} -x264-params {GOP}"),
        "vfr.mp4": ("144x96", 36, "yuv420p", f"-vf select='not(eq(mod(n\\,5)\\,3))' -fps_mode vfr {X264} -x264-params {GOP}"),
        "fragmented.mp4": ("144x96", 24, "yuv420p", f"{X264} -x264-params {GOP} -movflags frag_keyframe+empty_moov+default_base_moof"),
        "full.mp4": ("144x96", 24, "yuv420p", f"{X264} -color_range pc -x264-params {GOP}:fullrange=on"),
        "bt709.mp4": ("144x96", 24, "yuv420p", f"{X264} -colorspace bt709 -x264-params {GOP}:colormatrix=bt709"),
        "open.mp4": ("144x96", 36, "yuv420p", f"{X264} -x264-params {GOP}:open-gop=1")}


def ffmpeg(*args):
    subprocess.run(["ffmpeg", "-v", "error", "-y", *map(str, args)], check=True, stdin=subprocess.DEVNULL)


def make(path, size, frames, fmt, options):
    ffmpeg("-f", "lavfi", "-i", f"testsrc2=size={size}:rate=30,format={fmt}", "-frames:v", frames, "-pix_fmt", fmt, "-threads", "1", "-bitexact", *options.split(), path)


def make_edit(path):
    """An edit list that begins within a group of pictures."""
    ffmpeg("-ss", "0.3", "-i", HERE / "h264.mp4", "-c", "copy", "-bitexact", path)


def make_halves(path):
    """One stream of two: the second one's headers, inside its packets, say other colors."""
    with tempfile.TemporaryDirectory() as tmp:
        parts = []
        for matrix in ("smpte170m", "bt709"):
            part = pathlib.Path(tmp) / f"{matrix}.h264"
            make(part, "144x96", 24, "yuv420p", f"{X264} -colorspace {matrix} -x264-params {GOP}:colormatrix={matrix} -f h264")
            parts.append(part.read_bytes())
        both = pathlib.Path(tmp) / "both.h264"
        both.write_bytes(b"".join(parts))
        ffmpeg("-r", "30", "-i", both, "-c", "copy", "-bitexact", path)


def make_damaged(path):
    """A picture that others refer to, in the middle of the first group."""
    rows = subprocess.run(["ffprobe", "-v", "error", "-show_entries", "packet=pos,size", "-of", "csv=p=0", HERE / "h264.mp4"], capture_output=True, text=True, check=True)
    size, pos = map(int, rows.stdout.split()[4].split(",")[:2])
    data = bytearray((HERE / "h264.mp4").read_bytes())
    for i in range(pos + size // 2, pos + size // 2 + 16):
        data[i] ^= 0x5A
    path.write_bytes(data)


DERIVED = {"edit.mp4": make_edit, "halves.mp4": make_halves, "damaged.mp4": make_damaged}


def note_crcs(path, frames):
    out = subprocess.run([ROOT / "build/tests/video/video_dump", path], input=f"whole {' '.join(map(str, range(frames)))}\n", capture_output=True, text=True, check=True)
    crcs = json.loads(out.stdout.splitlines()[-1])
    path.with_suffix(path.suffix + ".crc").write_text("".join(f"{crc:08x}\n" for _, _, crc in crcs))


def main():
    for name in sys.argv[1:] or [*CLIPS, *MORE, *DERIVED]:
        path = HERE / name
        if name in DERIVED:
            DERIVED[name](path)
        else:
            make(path, *(CLIPS | MORE)[name])
        if name in CLIPS:
            note_crcs(path, CLIPS[name][1])
        assert path.stat().st_size <= 15000, (name, path.stat().st_size)


if __name__ == "__main__":
    main()
