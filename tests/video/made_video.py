# SPDX-License-Identifier: Apache-2.0
"""Videos made by the ffmpeg program, and what it decodes of them: the oracle of these tests."""
import functools
import json
import os
import pathlib
import shutil
import subprocess
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("STOKER_BUILD", ROOT / "build"))
DUMP = BUILD / "tests" / "video" / "video_dump"
FFMPEG = shutil.which("ffmpeg")
needs_ffmpeg = pytest.mark.skipif(FFMPEG is None, reason="the ffmpeg program makes the videos and is the oracle: apt install ffmpeg")

X264 = "-c:v libx264 -preset ultrafast -crf 30"
B = "-x264-params bframes=3:b-pyramid=normal:keyint={}:min-keyint={}:scenecut=0:open-gop={}:ref=3:threads=1"
# name: (source size, frames, options, pixel format)
RECIPES = {
    "gop12.mp4": ("160x96", 60, f"{X264} {B.format(12, 12, 0)}", "yuv420p"),
    "gop250.mp4": ("160x96", 90, f"{X264} {B.format(250, 250, 0)} -movflags +faststart", "yuv420p"),
    "one.mp4": ("160x96", 90, f"{X264} {B.format(250, 250, 0)}:ref=1", "yuv420p"),
    "one-cavlc.mkv": ("322x182", 60, f"{X264} {B.format(250, 250, 0)}:ref=1:cabac=0:slices=3:weightp=2:direct=temporal", "yuv420p10le"),
    "one-cabac.mp4": ("160x96", 60, f"{X264} {B.format(60, 60, 0)}:ref=1:cabac=1:weightp=2:direct=temporal:bframes=5:b-adapt=0", "yuv422p"),
    "cuts.mp4": ("160x96", 90, f"-vf negate=enable='gte(mod(n\\,20)\\,10)' {X264} -x264-params bframes=3:ref=1:keyint=250:min-keyint=250:scenecut=80:threads=1", "yuv420p"),
    "open.mp4": ("160x96", 72, f"{X264} {B.format(12, 12, 1)}", "yuv420p"),
    "open.mkv": ("160x96", 72, f"{X264} {B.format(12, 12, 1)}", "yuv420p"),
    "refresh.mp4": ("160x96", 60, f"{X264} -x264-params intra-refresh=1:keyint=12:bframes=0:threads=1", "yuv420p"),
    "odd.mp4": ("131x77", 20, f"{X264} {B.format(8, 8, 0)}", "yuv444p"),
    "odd.webm": ("131x77", 20, "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 8 -b:v 100k", "yuv420p"),
    "422.mp4": ("64x48", 20, f"{X264} {B.format(8, 8, 0)}", "yuv422p"),
    "ten.mp4": ("64x48", 20, f"{X264} {B.format(8, 8, 0)}", "yuv420p10le"),
    "rgb.mkv": ("64x48", 10, "-c:v libx264rgb -preset ultrafast -crf 20", "gbrp"),
    "gray.mp4": ("64x48", 10, f"{X264}", "gray"),
    "full.mp4": ("64x48", 10, f"{X264} -color_range pc -colorspace bt709", "yuvj420p"),
    "fragments.mp4": ("160x96", 60, f"{X264} {B.format(12, 12, 0)} -movflags +frag_keyframe+empty_moov+default_base_moof", "yuv420p"),
    "fragments2.mp4": ("160x96", 60, f"{X264} {B.format(12, 12, 0)} -movflags +frag_every_frame", "yuv420p"),
    "sound.mp4": ("160x96", 60, f"{X264} {B.format(12, 12, 0)} -f lavfi -i sine=r=16000 -map 0:v -map 1:a -c:a aac -shortest", "yuv420p"),
    "sound.mkv": ("160x96", 60, f"{X264} {B.format(12, 12, 0)} -f lavfi -i sine=r=16000 -map 0:v -map 1:a -c:a aac -shortest", "yuv420p"),
    "live.mkv": ("160x96", 30, f"{X264} {B.format(12, 12, 0)} -live 1", "yuv420p"),
    "hevc.mp4": ("160x96", 48, "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=12:bframes=3:open-gop=1:pools=1:frame-threads=1", "yuv420p"),
    "hevc10.mkv": ("160x96", 24, "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=12:bframes=2:open-gop=0:pools=1:frame-threads=1",
                   "yuv420p10le"),
    "vp9.webm": ("160x96", 40, "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 12 -auto-alt-ref 1 -lag-in-frames 8 -b:v 100k", "yuv420p"),
    "vp9.mp4": ("160x96", 30, "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 12 -b:v 100k", "yuv420p"),
    "vp8.webm": ("160x96", 40, "-c:v libvpx -deadline realtime -cpu-used 8 -g 12 -auto-alt-ref 1 -lag-in-frames 8 -b:v 100k", "yuv420p"),
    "av1.mp4": ("160x96", 24, "-c:v libsvtav1 -preset 12 -g 8 -svtav1-params lp=1", "yuv420p"),
    "av1.mkv": ("160x96", 12, "-c:v libaom-av1 -cpu-used 8 -usage realtime -g 6 -row-mt 0", "yuv420p"),
    "vfr.mp4": ("160x96", 40, f"-vf select='not(mod(n\\,5))+not(mod(n\\,7))+eq(n\\,3)' -vsync vfr {X264} {B.format(12, 12, 0)}", "yuv420p"),
    "vfr.mkv": ("160x96", 40, f"-vf select='not(mod(n\\,5))+not(mod(n\\,7))+eq(n\\,3)' -vsync vfr {X264} {B.format(12, 12, 0)}", "yuv420p"),
    "negative.mp4": ("160x96", 30, f"{X264} {B.format(12, 12, 0)} -movflags +negative_cts_offsets", "yuv420p"),
    "interlaced.mp4": ("160x96", 30, f"{X264} -x264-params interlaced=1:keyint=10:threads=1", "yuv420p"),
    "end.mov": ("160x96", 20, f"{X264} {B.format(12, 12, 0)}", "yuv420p"),
    "asp.mp4": ("160x96", 48, "-c:v mpeg4 -bf 2 -g 12 -q:v 8", "yuv420p"),
    "asp.mkv": ("160x96", 24, "-c:v mpeg4 -g 12 -q:v 8", "yuv420p"),
}


def run(*args):
    subprocess.run([FFMPEG, "-v", "error", "-y", *map(str, args)], check=True, stdin=subprocess.DEVNULL, timeout=300)


def make(folder, name):
    size, frames, options, fmt = RECIPES[name]
    path = folder / name
    words = options.split()
    inputs = []
    if "lavfi" in words:  # a second input stands before the codec's options
        i = words.index("-f")
        inputs, words = words[i:i + 4], words[:i] + words[i + 4:]
    w, h = map(int, size.split("x"))
    source = f"testsrc2=size={w + w % 2}x{h + h % 2}:rate=30,noise=alls=12:allf=t:all_seed=7,format={fmt},crop={w}:{h}:0:0:exact=1"
    run("-f", "lavfi", "-i", source, *inputs, "-frames:v", frames, "-pix_fmt", fmt, "-threads", 1,
        *words, path)
    return path


@functools.cache
def decoded(path):
    """[(time in microseconds, CRC of the planes)], in the order in which frames are shown, by a whole decode."""
    probe = subprocess.run([FFMPEG.replace("ffmpeg", "ffprobe"), "-v", "error", "-select_streams", "v:0", "-show_entries",
                            "stream=pix_fmt,width,height:frame=pts_time,pkt_pos", "-of", "json", "-threads", "1", str(path)],
                           check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
    info = json.loads(probe.stdout)
    raw = subprocess.run([FFMPEG, "-v", "error", "-threads", "1", "-noautorotate", "-i", str(path), "-map", "0:v:0", "-vsync", "passthrough", "-f", "rawvideo", "-"],
                         check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=300).stdout
    frames = info["frames"]
    size, rest = divmod(len(raw), len(frames))
    assert rest == 0, (len(raw), len(frames))
    times = [round(float(f["pts_time"]) * 1e6) for f in frames]
    return [(t, zlib.crc32(raw[i * size:(i + 1) * size])) for i, t in enumerate(times)]


def dump(path, clips=()):
    """What we see: the head, the shown frames, and for each (mode, show numbers) its frames or its error."""
    text = "".join(f"{mode} {' '.join(map(str, frames))}\n" for mode, frames in clips)
    p = subprocess.run([DUMP, path], input=text, capture_output=True, text=True, timeout=300)
    if p.returncode == 1:
        raise ValueError(p.stderr.strip())
    assert p.returncode == 0, (p.returncode, p.stderr)
    lines = p.stdout.splitlines()
    end = lines.index("end")
    frames = [tuple(map(int, line.split())) for line in lines[1:end]]
    return json.loads(lines[0]), frames, [json.loads(line) for line in lines[end + 1:]]
