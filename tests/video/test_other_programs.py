# SPDX-License-Identifier: Apache-2.0
"""Files of other programs than ffmpeg's muxers, and of kinds that few have: every frame is that of a whole decode by FFmpeg, by time."""
import os
import pathlib
import random
import shutil
import struct
import subprocess

import pytest
from made_video import RECIPES, B, X264, decoded, dump, make, needs_ffmpeg, run

pytestmark = needs_ffmpeg
FILES = int(os.environ.get("SOAK_VIDEOS", "0"))


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    return tmp_path_factory.mktemp("other")


def check(path, near=1, count=3, modes=("parts", "whole")):
    """All frames one by one and in clips; times within `near` microseconds."""
    theirs, (_, table, _) = decoded(path), dump(path)
    assert [t for t, *_ in table] == pytest.approx([t for t, _ in theirs], abs=near)
    n, rng = len(theirs), random.Random(path.name)
    clips = [list(range(n)), [n - 1]] + [sorted(rng.sample(range(n), min(n, 3))) for _ in range(count)]
    asked = [(mode, clip) for clip in clips for mode in modes]
    for (mode, clip), got in zip(asked, dump(path, asked)[2], strict=True):
        assert not isinstance(got, str), (mode, clip, got)
        wrong = [f for (f, t, crc), k in zip(got, clip, strict=True) if f != k or crc != theirs[k][1] or abs(t - theirs[k][0]) > near]
        assert not wrong, (mode, clip, wrong)
    return table


def call(*args):
    subprocess.run([str(a) for a in args], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=120)


# ---- other muxers ----

@pytest.mark.skipif(not shutil.which("mkvmerge"), reason="mkvmerge writes Matroska in its own way: apt install mkvtoolnix")
@pytest.mark.parametrize("name, options", [
    ("open.mp4", []), ("vfr.mp4", ["--no-cues"]), ("vp9.webm", ["--webm"]), ("gop12.mp4", ["--compression", "0:zlib"]), ("asp.mp4", []),
    ("hevc.mp4", ["--engage", "no_simpleblocks"]), ("gop12.mp4", ["--cluster-length", "3", "--timestamp-scale", "100000"]),
    ("gop12.mp4", ["--sync", "0:700"]),
])
def test_mkvmerge(videos, name, options):
    path = videos / f"merge{len(''.join(options))}-{pathlib.Path(name).stem}.mkv"
    call("mkvmerge", "-q", "-o", path, *options, make(videos, name))
    refused = "compressed or encrypted by the container" if "0:zlib" in options else "codec is `V_MS/VFW/FOURCC`" if name == "asp.mp4" else None
    if refused:
        with pytest.raises(ValueError, match=refused):
            dump(path)
        return
    check(path, near=1000)


def gstreamer_has(*elements):
    return shutil.which("gst-inspect-1.0") and all(subprocess.run(["gst-inspect-1.0", "--exists", e], capture_output=True).returncode == 0 for e in elements)


@pytest.mark.parametrize("muxer, name", [
    ("mp4mux", "gop12.mp4"), ("mp4mux faststart=true", "hevc.mp4"), ("qtmux", "open.mp4"), ("mp4mux fragment-duration=500", "gop12.mp4"),
    ("matroskamux", "gop12.mp4"), ("matroskamux streamable=true", "gop12.mp4"), ("webmmux", "vp9.webm"),
])
def test_gstreamer(videos, muxer, name):
    demuxer, parser = ("matroskademux", "vp9parse") if name == "vp9.webm" else ("qtdemux", "h265parse" if "hevc" in name else "h264parse")
    if not gstreamer_has(muxer.split()[0], demuxer, parser):
        pytest.skip("GStreamer writes MP4 and Matroska in its own way: apt install gstreamer1.0-tools gstreamer1.0-plugins-good gstreamer1.0-plugins-bad")
    path = videos / (muxer.replace(" ", "-").replace("=", "-") + "-" + pathlib.Path(name).stem + (".mkv" if "mux" in muxer and muxer[:3] in ("mat", "web") else ".mp4"))
    call("gst-launch-1.0", "-q", "filesrc", f"location={make(videos, name)}", "!", demuxer, "!", parser, "!", *muxer.split(), "!", "filesink", f"location={path}")
    check(path, near=1000)


@pytest.mark.skipif(not shutil.which("x264"), reason="the x264 program has a muxer of its own: apt install x264")
def test_x264_itself(videos):
    raw, path = videos / "raw.y4m", videos / "x264.mkv"
    run("-f", "lavfi", "-i", "testsrc2=size=160x96:rate=25", "-frames:v", 40, "-pix_fmt", "yuv420p", raw)
    call("x264", "--quiet", "--preset", "veryfast", "--keyint", 10, "--threads", 1, "-o", path, raw)
    check(path, near=1000)


# ---- kinds that are rare ----

RARE = {
    "422ten.mp4": ("64x48", 20, f"{X264} {B.format(8, 8, 0)}", "yuv422p10le"),
    "444ten.mkv": ("64x48", 12, "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=6:bframes=2:pools=1:frame-threads=1", "yuv444p10le"),
    "twelve.mp4": ("64x48", 12, "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=6:bframes=2:pools=1:frame-threads=1", "yuv420p12le"),
    "odd.hevc.mp4": ("134x78", 12, "-c:v libx265 -preset ultrafast -x265-params log-level=none:keyint=6:pools=1:frame-threads=1", "yuv420p"),
    "tiny.mp4": ("16x16", 5, f"{X264} {B.format(4, 4, 0)}", "yuv420p"),
    "pyramid.mp4": ("160x96", 70, "-c:v libx264 -preset veryfast -crf 30 -x264-params bframes=8:b-pyramid=normal:b-adapt=0:keyint=24:open-gop=1:ref=6:threads=1", "yuv420p"),
    "av1ten.mp4": ("160x96", 12, "-c:v libsvtav1 -preset 12 -g 6 -svtav1-params lp=1", "yuv420p10le"),
    "vp9ten.webm": ("64x48", 16, "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 8 -b:v 100k", "yuv422p10le"),
    "slices.mp4": ("160x96", 30, f"{X264} -x264-params slices=4:keyint=10:bframes=2:threads=1", "yuv420p"),
    "cavlc-tff.mkv": ("160x96", 30, f"{X264} -x264-params tff=1:keyint=10:bframes=2:cabac=0:threads=1", "yuv420p"),
}


@pytest.mark.parametrize("name", RARE)
def test_rare_kinds(videos, name):
    RECIPES.setdefault(name, RARE[name])
    try:
        check(make(videos, name), near=1000 if name.endswith((".mkv", ".webm")) else 1)
    finally:
        del RECIPES[name]


def test_times_before_zero(videos):
    """A copy whose first frames have negative times: ffprobe shows them, and so do we."""
    path = videos / "before.mp4"
    run("-itsoffset", "-0.4", "-i", make(videos, "gop12.mp4"), "-c", "copy", "-avoid_negative_ts", "disabled", "-use_editlist", "0",
        "-movflags", "+negative_cts_offsets", path)
    check(path, near=1000)


# ---- large files ----

def boxes(data, at, end):
    while at + 8 <= end:
        size, kind = struct.unpack_from(">I4s", data, at)
        yield kind, at, at + (size or end - at)
        at += size or end - at


def far_tables(box, shift):
    """A moov box with 64-bit chunk offsets, moved by `shift`."""
    out = b""
    for kind, at, end in boxes(box, 0, len(box)):
        body = box[at + 8:end]
        if kind in (b"trak", b"mdia", b"minf", b"stbl", b"moov"):
            body = far_tables(body, shift)
        elif kind == b"stco":
            n = struct.unpack_from(">I", body, 4)[0]
            kind, body = b"co64", body[:8] + struct.pack(f">{n}Q", *(o + shift for o in struct.unpack_from(f">{n}I", body, 8)))
        out += struct.pack(">I4s", len(body) + 8, kind) + body
    return out


@pytest.mark.parametrize("last", [False, True])
def test_beyond_four_gigabytes(videos, last):
    """A hole of 5 GB before the frames; tables before it, or at the end of the file.  On disk it is small."""
    data = make(videos, "gop12.mp4").read_bytes()
    part = {kind: (at, end) for kind, at, end in boxes(data, 0, len(data))}
    (mdat, mdat_end), (moov, moov_end), hole = part[b"mdat"], part[b"moov"], 5 << 30
    head = data[slice(*part[b"ftyp"])]
    tables = far_tables(data[moov:moov_end], 0)
    at = len(head) + (0 if last else len(tables)) + hole
    tables = far_tables(data[moov:moov_end], at - mdat)
    path = videos / f"far{last}.mp4"
    with open(path, "wb") as f:
        f.write(head + (b"" if last else tables))
        f.write(struct.pack(">I4sQ", 1, b"free", hole))
        f.seek(at)
        f.write(data[mdat:mdat_end] + (tables if last else b""))
    assert path.stat().st_blocks * 512 < 1 << 24
    table = check(path, modes=("parts",))
    assert all(place > 1 << 32 for _, _, place, _ in table)
    path.unlink()


# ---- many made files ----

def test_made_files(videos):
    """Random encoder settings: a slice of what `SOAK_VIDEOS=n` makes."""
    rng = random.Random(int(os.environ.get("SOAK_SEED", "29")))
    for i in range(max(FILES, 3)):
        options = {"keyint": rng.choice([1, 5, 12, 30, 250]), "bframes": rng.choice([0, 1, 3, 5]), "ref": rng.choice([1, 3, 5]), "open-gop": rng.randint(0, 1),
                   "b-pyramid": rng.choice(["none", "strict", "normal"]), "slices": rng.choice([1, 2]), "scenecut": rng.choice([0, 40]), "threads": 1}
        rate = rng.choice(["", "-vf select='gt(random(0)\\,0.4)' -vsync vfr"])
        end = rng.choice(["mp4", "mkv", "mov", "mp4 -movflags +frag_keyframe", "mp4 -movflags +faststart"]).split(" ", 1)
        name = f"made{i}.{end[0]}"
        RECIPES[name] = (f"{rng.randrange(16, 100) * 2}x{rng.randrange(16, 60) * 2}", rng.randint(5, 60), " ".join([rate, X264, "-x264-params", ":".join(
            f"{k}={v}" for k, v in options.items()), *end[1:]]), rng.choice(["yuv420p", "yuv420p", "yuv422p", "yuv444p", "yuv420p10le"]))
        try:
            check(make(videos, name), near=1000 if end[0] == "mkv" else 1)
        except AssertionError as error:
            raise AssertionError((RECIPES[name], error)) from error
        finally:
            del RECIPES[name]
            (videos / name).unlink(missing_ok=True)
