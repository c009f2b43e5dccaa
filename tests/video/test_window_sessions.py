# SPDX-License-Identifier: Apache-2.0
"""Windows in order: a decoder goes on from one to the next, so that a frame is decoded once; the frames are those of a whole decode."""
import json
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from made_video import DUMP, RECIPES, decoded, dump, make, needs_ffmpeg, run  # noqa: E402

stoker = pytest.importorskip("stoker")
pytestmark = needs_ffmpeg


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    return tmp_path_factory.mktemp("sessions")


def windows_of(frames, stride, step, shown):
    last = shown - (frames - 1) * stride
    return [list(range(first, first + (frames - 1) * stride + 1, stride)) for first in range(0, last, step)]


def play(path, window, clips):
    """What sessions make of these windows, one after another, and what they did."""
    return dump(path, [("window:{}:{}:{}".format(*window), c) for c in clips] + [("count", [])])[2]


def check(path, window, clips):
    theirs = decoded(path)
    *made, count = play(path, window, clips)
    alone = 0
    for clip, got in zip(clips, made, strict=True):
        if got == "alone":
            alone += 1
            continue
        assert not isinstance(got, str), (window, clip, got)
        wrong = [f for (f, _, crc), k in zip(got, clip, strict=True) if f != k or crc != theirs[k][1]]
        assert not wrong, (path.name, window, clip, wrong)
    return alone, count


@pytest.mark.parametrize("name", RECIPES)
def test_frames_are_those_of_a_whole_decode(videos, name):
    """Of every kind of file, and of windows that touch, overlap, and are apart, in order and not."""
    path = make(videos, name)
    shown, rng = len(decoded(path)), random.Random(name)
    for window in [(5, 2, 3), (3, 4, 15)]:
        clips = windows_of(*window, shown)
        alone, (_, _, packets, _, sessions) = check(path, window, clips)
        assert alone == 0 or "mjpeg" in RECIPES[name][2] or name == "refresh.mp4", (window, alone)
        assert packets <= dump(path)[0]["frames"] or alone, (window, packets)
        assert sessions <= 1
        rng.shuffle(clips)
        check(path, window, clips)


@pytest.mark.parametrize("window", [(8, 1, 8), (8, 2, 5), (4, 3, 7), (16, 4, 32)])
def test_a_frame_is_decoded_once(videos, window):
    path = make(videos, "gop250.mp4")
    clips = windows_of(*window, len(decoded(path)))
    _, (_, continued, packets, _, sessions) = check(path, window, clips)
    assert packets <= len(decoded(path)) and continued == len(clips) - 1 and sessions <= 1


def test_streams_of_one_video_have_a_session_each(videos):
    """Windows from two places of a video, taking turns, as blocks of an epoch do: neither decoder is taken from the other."""
    path, window = make(videos, "gop250.mp4"), (4, 1, 4)
    clips = windows_of(*window, len(decoded(path)))
    half = len(clips) // 2
    turns = [clip for pair in zip(clips[:half], clips[half:2 * half], strict=True) for clip in pair]
    _, (_, continued, packets, _, sessions) = check(path, window, turns)
    assert continued == len(turns) - 2 and sessions <= 2
    assert packets <= len(decoded(path)) + clips[half][0]       # the second one's way from the keyframe on


def test_damage_ends_a_session(videos):
    """A packet that is damaged: its windows are decoded by themselves, which says what is wrong; later ones go on."""
    path = make(videos, "gop12.mp4")
    theirs, data = decoded(path), bytearray(path.read_bytes())
    _, _, at, size = dump(path)[1][12]
    data[at + size // 2:at + size // 2 + 8] = bytes(b ^ 0x5a for b in data[at + size // 2:at + size // 2 + 8])
    bad = videos / "damaged-windows.mp4"
    bad.write_bytes(data)
    clips = windows_of(4, 1, 4, 60)
    *made, _ = play(bad, (4, 1, 4), clips)
    assert made[3] == "alone" and made[0] != "alone" and made[-1] != "alone"
    assert all([crc for _, _, crc in got] == [theirs[k][1] for k in clip] for got, clip in zip(made, clips, strict=True) if got != "alone" and clip[0] > 24)


def test_damage_after_an_open_keyframe(videos):
    """A session that begins at an open keyframe of H.264 can't tell damage from references that are dropped: no frame is given that
    may refer to one which has not come in full.  What is given is what a clip by itself gives, which is an error where that is one."""
    path = make(videos, "open.mp4")
    clean, frames = path.read_bytes(), dump(path)[1]
    wrong, given, refused = [], 0, 0
    for hurt, part in [(hurt, part) for hurt in range(12, 25) for part in (0.4, 0.8)]:
        _, _, at, size = frames[hurt]
        data, k = bytearray(clean), at + int(size * part)
        data[k:k + 6] = bytes(b ^ 0x5a for b in data[k:k + 6])
        bad = videos / "damaged-open.mp4"
        bad.write_bytes(data)
        for window, first in (((1, 1, 1), 12), ((3, 2, 3), 13)):
            clips = [list(range(f, f + (window[0] - 1) * window[1] + 1, window[1])) for f in range(first, 26, window[2])]
            *made, _ = play(bad, window, clips)
            for clip, got, itself in zip(clips, made, dump(bad, [("whole", c) for c in clips])[2], strict=True):
                if isinstance(got, str):
                    refused += 1
                    continue
                given += 1
                if isinstance(itself, str) or [crc for _, _, crc in got] != [crc for _, _, crc in itself]:
                    wrong.append((hurt, part, window, clip, itself if isinstance(itself, str) else ""))
    assert given > 50 and refused > 50 and not wrong, (given, refused, len(wrong), wrong[:4])


def load(source, window, shuffle, chain="video | resize((48, 80)) | to(u8)", **options):
    out, order = {}, []
    with stoker.Loader(stoker.open(source, windows=window), {"video": chain}, batch_size=4, shuffle=shuffle, seed=3, **options) as loader:
        for b in loader:
            for row, i in enumerate(b.sample_ids.tolist()):
                out[i] = b["video"][row].numpy().copy()
                order.append(i)
        return out, order, loader.stats()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("pyarrow")
    at = tmp_path_factory.mktemp("many")
    for i in range(6):
        run("-f", "lavfi", "-i", f"testsrc2=size=160x96:rate=30,noise=alls=12:allf=t:all_seed={i}", "-frames:v", 100 + 7 * i, "-pix_fmt", "yuv420p",
            "-c:v", "libx264", "-preset", "ultrafast", "-g", 250, "-bf", 2, "-threads", 1, at / f"{i}.mp4")
    return at


@pytest.mark.parametrize("window", [stoker.Windows(8), stoker.Windows(6, 2, 5), stoker.Windows(4, 4, 20, pad="last")])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_loaders_have_the_same_bits(folder, window, workers):
    exact, _, _ = load(folder, window, True)
    for shuffle in ("block", False):
        got, order, _ = load(folder, window, shuffle, num_workers=workers)
        assert sorted(got) == sorted(exact) and (order == sorted(order)) == (shuffle is False)
        assert all(np.array_equal(got[i], exact[i]) for i in exact)


def test_block_order_interleaves_videos_in_time_order(folder):
    """Each row of a batch is of another video; in each video windows come in order, but where the epoch begins in it."""
    ds = stoker.open(folder, windows=stoker.Windows(8))
    breaks, mixed = 0, []
    with stoker.Loader(ds, {"video": "video | resize((8, 8)) | to(u8)", "path": "from(path) | text"}, batch_size=4, shuffle="block", seed=1) as loader:
        last = {}
        assert loader.state_dict()["order"]["streams"] == 4
        for b in loader:
            mixed.append(len(set(b["path"])) / len(b["path"]))
            for stream, at in enumerate(zip(b["path"], b["first"].tolist(), strict=True)):
                breaks += stream in last and at != (last[stream][0], last[stream][1] + 8)
                last[stream] = at
    assert breaks <= 6 + 2 * 4 and np.mean(mixed) > 0.7     # where a video ends, a stream is cut, or goes round


def test_what_is_read(folder):
    """In order packets are read once, not from the keyframe on for each window."""
    size = sum(p.stat().st_size for p in folder.glob("*.mp4"))
    _, _, exact = load(folder, stoker.Windows(8), True, num_workers=1)
    _, _, block = load(folder, stoker.Windows(8), "block", num_workers=1)
    assert block["bytes"] < 2 * size < exact["bytes"]


def test_little_memory(folder):
    """Decoders that wait are charged: where they have no room each window is decoded by itself, and the rows are the same."""
    exact, _, _ = load(folder, stoker.Windows(8), True)
    got, _, stats = load(folder, stoker.Windows(8), "block", memory_limit="12MB", num_workers=2, prefetch=1)
    assert all(np.array_equal(got[i], exact[i]) for i in exact)
    assert stats["memory_peak"] <= 12_000_000


@pytest.mark.parametrize("chain, why", [
    ("from(path) | open(root='/') | video(start=3, step=4)", "step= is of windows"), ("from(path) | open(root='/') | video(first=first, step=0)", "step=0 is not in"),
])
def test_wrong_chains(folder, chain, why):
    with pytest.raises(stoker.StokerError, match=why):
        stoker.Loader(stoker.open(folder, windows=stoker.Windows(2)), {"video": f"{chain} | resize((8, 8))"})


@pytest.mark.parametrize("window", ["4 1 4", "5 2 3"])
def test_many_threads(videos, window):
    """Threads take the windows of several videos in turn: sessions go from hand to hand, and each frame is the same."""
    paths = [make(videos, name) for name in ("gop12.mp4", "gop250.mp4", "open.mkv", "hevc.mp4", "vp9.webm", "av1.mp4")]
    done = subprocess.run([DUMP.with_name("session_threads"), "4", *window.split(), *paths], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (done.returncode, done.stderr)
    windows, continued, *_ = json.loads(done.stdout)
    assert continued > windows / 2, done.stdout     # some were trimmed, some met a session that another thread had


def test_fewer_sessions_than_videos(folder):
    """A decoder goes on in another video whose setup is the same: nothing is left of the one before."""
    paths = sorted(folder.glob("*.mp4"))
    done = subprocess.run([DUMP.with_name("session_threads"), "1:2", "4", "1", "4", *paths], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (done.returncode, done.stderr)
    windows, continued, *_, sessions = json.loads(done.stdout)
    assert continued < windows / 2 and sessions <= 2, done.stdout
