# SPDX-License-Identifier: Apache-2.0
"""Every frame of every kind of file, alone and in clips, against a whole decode by FFmpeg: the same planes, 0 wrong frames."""
import pathlib
import random
import subprocess
import sys

import pytest

from made_video import RECIPES, ROOT, decoded, dump, make, needs_ffmpeg, run

pytestmark = needs_ffmpeg


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    return tmp_path_factory.mktemp("videos")


def some_clips(n, seed, count):
    rng = random.Random(seed)
    clips = [[0], [n - 1], list(range(n))]
    for _ in range(count):
        k, stride = rng.randint(1, 8), rng.choice([1, 1, 2, 3, 4])
        start = rng.randrange(n)
        clips.append([f for f in range(start, start + k * stride, stride) if f < n])
        clips.append(sorted(rng.sample(range(n), min(n, rng.randint(1, 4)))))
    return clips


def check(path, count=6, near=1):
    """near: microseconds that times may differ: ffprobe prints 6 digits."""
    theirs = decoded(path)
    _, table, _ = dump(path)
    assert [t for t, *_ in table] == pytest.approx([t for t, _ in theirs], abs=near)
    clips = [(mode, c) for i, c in enumerate(some_clips(len(theirs), path.name, count)) for mode in (["whole", "points", "parts"] if i < 6 else ["parts"])]
    _, _, made = dump(path, clips)
    for (mode, clip), got in zip(clips, made, strict=True):
        if mode == "parts" and path.stem == "refresh" and isinstance(got, str):
            assert "is none" in got or "was not read" in got  # the row reads all of it
            continue
        assert not isinstance(got, str), (mode, clip, got)
        wrong = [f for (f, t, crc), k in zip(got, clip, strict=True) if f != k or crc != theirs[k][1] or abs(t - theirs[k][0]) > near]
        assert not wrong, (mode, clip, wrong)


@pytest.mark.parametrize("name", RECIPES)
def test_planes_are_those_of_a_whole_decode(videos, name):
    check(make(videos, name), near=1000 if name.endswith((".mkv", ".webm")) else 1)


@pytest.mark.parametrize("name", ["one.mp4", "one-cavlc.mkv", "one-cabac.mp4", "cuts.mp4"])
def test_references_that_no_wanted_frame_depends_on_are_not_decoded(videos, name):
    """With one reference per frame, B-frames that are references are those of B-frames only: before a clip they are not needed."""
    path = make(videos, name)
    n = dump(path)[0]["frames"]
    needed, there = dump(path, [("needed", [n - 4])])[2][0]
    assert there > n - 8 and needed < there * 0.55
    rng = random.Random(29)
    theirs = decoded(path)
    clips = [("parts", sorted(rng.sample(range(n // 2, n), rng.randint(1, 5)))) for _ in range(30)]
    for (_, clip), got in zip(clips, dump(path, clips)[2], strict=True):
        assert [(f, crc) for f, _, crc in got] == [(f, theirs[f][1]) for f in clip]


def test_references_of_other_frames_are_all_decoded(videos):
    """With three references a P-frame may use such a B-frame, and its header does not say that it does not.  Fields are not looked at."""
    assert dump(make(videos, "gop250.mp4"), [("needed", [80])])[2][0][0] >= 40 > 21 >= dump(make(videos, "one.mp4"), [("needed", [80])])[2][0][0]
    assert dump(make(videos, "interlaced.mp4"), [("needed", [5])])[2] == [None]


@pytest.mark.parametrize("start", ["0.45", "1.5"])
def test_edit_lists_hide_frames(videos, start):
    """A copy from the middle of a group of pictures on: frames before it are decoded, and not shown."""
    path = videos / f"cut{start}.mp4"
    run("-ss", start, "-i", make(videos, "gop12.mp4"), "-c", "copy", path)
    head, frames, _ = dump(path)
    assert head["frames"] > head["shown"] == len(frames)
    check(path, count=3)


def test_a_late_start(videos):
    path = videos / "late.mp4"
    run("-itsoffset", "0.7", "-i", make(videos, "gop12.mp4"), "-c", "copy", path)
    assert dump(path)[1][0][0] == pytest.approx(700_000, abs=1000)
    check(path, count=1, near=1000)  # the edit's length is in milliseconds


@pytest.mark.parametrize("name", ["gop250.mp4", "open.mkv", "fragments.mp4"])
def test_torn_files(videos, name):
    """Frames whose packets are there come as ever; others are errors that say where."""
    whole = make(videos, name)
    theirs = decoded(whole)
    path = videos / f"torn-{name}"
    path.write_bytes(whole.read_bytes()[:whole.stat().st_size * 2 // 3])
    _, frames, _ = dump(path)
    results = dump(path, [("whole", [k]) for k in range(len(frames))])[2]
    good = 0
    for k, got in enumerate(results):
        if isinstance(got, str):
            assert "the file ends at" in got
        else:
            good += 1
            assert got[0][2] == theirs[k][1]
    assert 20 < good < len(theirs)


@pytest.mark.parametrize("name", ["gop12.mp4", "open.mp4"])
def test_damaged_packets(videos, name):
    """Bits that flip and bytes that are lost are an error, but for few that decode as other pixels would; the next group is as it was."""
    path = make(videos, name)
    theirs = decoded(path)
    _, frames, _ = dump(path)
    data, noticed, other = path.read_bytes(), 0, 0
    for k in range(0, 36, 6):
        _, _, at, size = frames[k]
        middle, tail, end = at + size // 2, at + size * 2 // 3, at + size - 2
        near = [f for f in range(k - 2, k + 6) if f >= 0]
        for damaged in (data[:middle] + bytes(b ^ 0x5a for b in data[middle:middle + 8]) + data[middle + 8:], data[:tail] + bytes(end - tail) + data[end:]):
            bad = videos / f"damaged-{name}"
            bad.write_bytes(damaged)
            for f, got in zip(near, dump(bad, [("whole", [f]) for f in near])[2], strict=True):
                noticed += isinstance(got, str) and f"frame {f} can't be decoded" in got
                other += not isinstance(got, str) and got != [[f, *theirs[f]]]
        after = (k // 12 + 2) * 12          # of a group after the next one
        assert dump(bad, [("whole", [after])])[2] == [[[after, *theirs[after]]]]
    assert noticed > 30 and other <= 4, (noticed, other)


def test_offsets_are_those_of_the_headers():
    if not list(pathlib.Path("/usr/include").rglob("libavcodec/avcodec.h")):
        pytest.skip("libavcodec-dev is not installed: apt install libavcodec-dev")
    subprocess.run([sys.executable, ROOT / "tools" / "libav_offsets.py", "--check"], check=True)


def test_another_library_is_refused(videos, monkeypatch):
    path = make(videos, "odd.mp4")
    for library, why in [("/nowhere/libavcodec.so.59", "can't be opened"), ("libc.so.6", "has no avcodec_version")]:
        monkeypatch.setenv("STOKER_LIBAVCODEC", library)
        [got] = dump(path, [("whole", [0])])[2]
        assert why in got and "apt install" in got
