# SPDX-License-Identifier: Apache-2.0
"""A clip of several cameras with the sound of the same span: a tone tells the second, the brightness of the picture its number."""
import os
import pathlib
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import made  # noqa: E402
from made_video import needs_ffmpeg, run  # noqa: E402

stoker = pytest.importorskip("stoker")
pytestmark = needs_ffmpeg

FPS, FRAMES, RATE = 10, 80, 16000
X264 = "-c:v libx264 -preset ultrafast -qp 4 -x264-params keyint=20:bframes=2:threads=1"
KINDS = {"mp4": (f"{X264} -c:a aac", []), "mkv": (f"{X264} -c:a aac", []), "webm": ("-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -crf 10 -c:a libopus", []),
         "late.mp4": (f"{X264} -c:a aac", ["-itsoffset", "0.75"]), "late.mkv": (f"{X264} -c:a aac", ["-itsoffset", "0.75"])}


def make(path, options, late, dark=0):
    """Frame N has the luma 20 + 2 N; second s of the sound is a tone of 300 + 200 s Hz."""
    run("-f", "lavfi", "-i", f"nullsrc=size=64x48:rate={FPS}:d={FRAMES / FPS},geq=lum='20+2*N-{dark}':cb=128:cr=128,format=yuv420p", *late, "-f", "lavfi",
        "-i", f"aevalsrc='0.5*sin(2*PI*(300+200*floor(t))*t)':s={RATE}:d={FRAMES / FPS}", "-map", "0:v", "-map", "1:a", *options.split(), path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound")
    return {name: make(folder / f"a.{name}", options, late) for name, (options, late) in KINDS.items()}


def number(frame, dark=0):
    """Of a frame, by its brightness, and so of what is shown: not by what the loader says of it."""
    luma = frame.mean() * 219 / 255 + 16
    return round((luma - 20 + dark) / 2)


def pitch(sound):
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    return spectrum.argmax() * RATE / len(sound)


def load(tar, video, audio="sound(rate=16000) | part(of=video)", **options):
    fields = {"audio": f"from(mp4) | {audio}", "video": f"from(mp4) | video({video}) | center_crop((48, 64)) | to(u8, hwc)"}
    with stoker.Loader(tar, fields, collate="list", **options) as loader:
        return [(np.asarray(s), v) for b in loader for s, v in zip(b["audio"], b["video"].numpy().copy(), strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_sound_is_of_the_clips_span(files, tmp_path, kind):
    tar = str(made.write_tar(tmp_path / "a.tar", [(f"{i}.mp4", files[kind]) for i in range(6)]))
    late = 0.75 if "late" in kind else 0
    seen = set()
    for audio, frames in load(tar, "frames=8, stride=3, start=random", batch_size=3, seed=4):
        first = number(frames[0])
        seen.add(first)
        assert [number(f) for f in frames] == [first + 3 * i for i in range(8)]
        assert abs(len(audio) - 2.4 * RATE) <= 1
        for k in range(1, 48):          # in each piece of 50 ms the tone is that of its second
            from_s, to_s = (first / FPS + 0.05 * (k - 0.5) - late, first / FPS + 0.05 * (k + 0.5) - late)
            piece = audio[int(0.05 * (k - 0.5) * RATE):int(0.05 * (k + 0.5) * RATE)]
            if to_s < 0 or from_s > FRAMES / FPS:
                assert np.abs(piece).max() < 0.05
            elif int(from_s - 0.03) == int(to_s + 0.03) and from_s > 0.03 and to_s < FRAMES / FPS - 0.03:
                assert abs(pitch(piece) - (300 + 200 * int(from_s))) < 25, (kind, first, k)
    assert len(seen) > 2


@pytest.mark.parametrize("video, begins, lasts", [
    ("frames=4, stride=5, start=10", 1.0, 2.0), ("frames=4, fps=2, start=30", 3.0, 2.0), ("frames=5, stride=4, start=70", 7.0, 1.0), ("frames=3, start=uniform", 0, 8.0),
    ("frames=2, stride=40, start=60, pad=wrap", 6.0, 2.0)])
def test_it_is_that_slice_of_the_recording(files, tmp_path, video, begins, lasts):
    """WAV, whose parts have the bits of the whole, beside the video."""
    wav = tmp_path / "a.wav"
    run("-f", "lavfi", "-i", f"aevalsrc='0.5*sin(2*PI*(300+200*floor(t))*t)':s={RATE}:d={FRAMES / FPS - 0.5}", wav)
    tar = str(made.write_tar(tmp_path / "a.tar", [("0.mp4", files["mp4"]), ("0.wav", wav.read_bytes())]))
    fields = {"sound": "from(wav) | sound(rate=16000) | part(of=video)", "whole": "from(wav) | sound(rate=16000)",
              "video": f"from(mp4) | video({video}) | center_crop((48, 64)) | to(u8)"}
    with stoker.Loader(tar, fields, collate="list") as loader:
        [b] = list(loader)
    whole, part = np.asarray(b["whole"][0]), np.asarray(b["sound"][0])
    want = np.zeros(round(lasts * RATE), np.float32)
    heard = whole[round(begins * RATE):round((begins + lasts) * RATE)]
    want[:len(heard)] = heard           # after the recording's end there is silence
    assert len(part) == len(want) and (part == want).all()


def test_cameras_and_sound_of_one_draw(files, tmp_path):
    options, _ = KINDS["mp4"]
    second = make(tmp_path / "b.mp4", options, [], dark=10)
    members = [(f"{i}.{name}", data) for i in range(8) for name, data in (("left.mp4", files["mp4"]), ("right.mp4", second))]
    tar = str(made.write_tar(tmp_path / "a.tar", members))
    fields = {"audio": "from(left.mp4) | sound(rate=16000) | part(of=left) | pad_to(1.0)", "right": "from(right.mp4) | video(frames=5, stride=2) | like(left) | to(u8, hwc)",
              "left": "from(left.mp4) | video(frames=5, stride=2) | random_crop((24, 32)) | hflip | to(u8, hwc)"}
    with stoker.Loader(tar, fields, batch_size=8, shuffle=True, seed=2) as loader:
        for _ in range(2):
            [b] = list(loader)
            assert b["audio"].shape == (8, RATE) and b["left"].shape == b["right"].shape == (8, 5, 24, 32, 3)
            firsts = [number(row[0]) for row in b["left"].numpy()]
            assert len(set(firsts)) > 3 and (b.frames["left"] == b.frames["right"]).all()
            for first, left, right, sound in zip(firsts, b["left"].numpy(), b["right"].numpy(), b["audio"].numpy(), strict=True):
                assert [number(f) for f in left] == [number(f, 10) for f in right] == [first + 2 * i for i in range(5)]
                middle = first / FPS + 0.5
                if abs(middle - round(middle)) > 0.1:
                    assert abs(pitch(sound[int(0.42 * RATE):int(0.58 * RATE)]) - (300 + 200 * int(middle))) < 25


@pytest.mark.parametrize("audio, why", [
    ("sound(rate=16000) | part(of=nobody)", "names no output of clips"), ("sound(rate=16000) | part(1, of=video)", "leave start= and seconds= out"),
    ("sound(rate=16000) | gain(1, 2) | part(of=video)", "stands right after sound"), ("sound(rate=16000) | part(of=video) | random_part(1.0)", "is the only part")])
def test_what_is_refused(files, tmp_path, audio, why):
    tar = str(made.write_tar(tmp_path / "a.tar", [("0.mp4", files["mp4"])]))
    with pytest.raises(stoker.StokerError, match=why):
        load(tar, "frames=2", audio)


def test_a_late_recording_beside_the_video(files, tmp_path):
    """Its own file says that it begins later, and so do its points."""
    run("-itsoffset", "0.75", "-f", "lavfi", "-i", f"aevalsrc='0.5*sin(2*PI*(300+200*floor(t))*t)':s={RATE}:d=8", "-c:a", "aac", tmp_path / "a.m4a")
    tar = str(made.write_tar(tmp_path / "a.tar", [("0.mp4", files["mp4"]), ("0.m4a", (tmp_path / "a.m4a").read_bytes())]))
    fields = {"audio": "from(m4a) | sound(rate=16000) | part(of=video)", "video": "from(mp4) | video(frames=8, stride=2, start=20) | center_crop((48, 64)) | to(u8, hwc)"}
    heard = []
    for points in False, True:
        if points:
            stoker.open(tar, jpeg=True)
        with stoker.Loader(tar, fields, collate="list", num_workers=0) as loader:
            [b] = list(loader)
        heard.append(np.asarray(b["audio"][0]))
    assert (heard[0] == heard[1]).all() and len(heard[0]) == round(1.6 * RATE)
    assert abs(pitch(heard[0][int(0.1 * RATE):int(0.2 * RATE)]) - 500) < 25 and abs(pitch(heard[0][int(1.2 * RATE):int(1.3 * RATE)]) - 700) < 25


LONG = 40       # seconds
LONGER = {"mp4": f"{X264} -c:a aac", "fragments.mp4": f"{X264} -c:a aac -movflags +frag_keyframe+empty_moov", "mkv": f"{X264} -c:a aac", "opus.mp4": f"{X264} -c:a libopus -strict -2",
          "webm": "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -crf 10 -c:a libopus", "alac.mov": f"{X264} -c:a alac"}


@pytest.fixture(scope="module")
def longer(tmp_path_factory):
    """Pictures with noise, so that they have some bytes, and sound beside them."""
    folder, made_ = tmp_path_factory.mktemp("longer"), {}

    def one(name):
        if name not in made_:
            path = folder / f"a.{name}"
            run("-f", "lavfi", "-i", f"testsrc2=size=96x64:rate={FPS}:d={LONG},noise=alls=40:allf=t:all_seed=1,format=yuv420p", "-f", "lavfi",
                "-i", f"aevalsrc='0.4*sin(2*PI*(300+20*floor(t))*t)+0.1*random(0)':s=48000:d={LONG}", *LONGER[name].split(), path)
            made_[name] = path.read_bytes()
        return made_[name]
    return one


def both(source, video, audio="sound(rate=16000) | part(of=video)", more=(), **options):
    """Rows of sound and of frames, and what was read for them."""
    fields = {"audio": f"from(mp4) | {audio}", "video": f"from(mp4) | {video} | center_crop((64, 96)) | to(u8)", **dict(more)}
    with stoker.Loader(source, fields, collate="list", batch_size=1, seed=3, shuffle=False, **options) as loader:
        got = [(np.asarray(b["audio"][0]).tobytes(), np.asarray(b["video"][0]).tobytes()) for b in loader]
        return got, loader.stats(), loader.explain(0).reads


TIMES = {"start": ("video(frames=4, stride=2, start=random)", {}), "at": ("video(at=t, offsets=(-0.1, 0.4))", {"t": "from(cls) | float"})}


@pytest.mark.parametrize("when", TIMES)
@pytest.mark.parametrize("kind", LONGER)
def test_only_the_packets_of_the_clips_time_are_read(longer, tmp_path, kind, when):
    """With points, which say of the sound too where its packets are; the same bits as of whole files."""
    size = len(longer(kind))
    members = [(f"{i}.{name}", data) for i in range(6) for name, data in (("mp4", longer(kind)), ("cls", b"%d.5" % (6 * i)))]
    tar = str(made.write_tar(tmp_path / "a.tar", members))
    video, more = TIMES[when]
    with stoker.Loader(tar, {"audio": "from(mp4) | sound(rate=16000)", "video": f"from(mp4) | {video} | center_crop((64, 96)) | to(u8)", **more}, batch_size=1, seed=3, shuffle=False) as loader:
        batches = [(np.asarray(b["audio"][0]), np.asarray(b["video"][0]).tobytes(), b.times["video"][0].tolist()) for b in loader]
    want, before, _ = both(tar, *TIMES[when][:1], more=TIMES[when][1])
    for (whole, frames, times), (part, shown) in zip(batches, want, strict=True):
        part, at = np.frombuffer(part, np.float32), round(times[0] * RATE)
        there = whole[at + 400:at + len(part) - 400]      # the clip's time, but for how parts differ from slices at their ends
        assert frames == shown and np.sqrt(np.mean((part[400:400 + len(there)] - there) ** 2)) < 0.2 * np.sqrt(np.mean(there ** 2))
    stoker.open(tar, jpeg=True)
    got, after, reads = both(tar, *TIMES[when][:1], more=TIMES[when][1])
    assert got == want and len(set(want)) == 6
    assert reads["audio"] == reads["video"] == "only the bytes that are seen"
    # a clip has at most 20 frames before it, and the sound half a second of run-up
    for stats in before, after:     # without points the tables are read with the first clip
        assert stats["bytes"] < 6 * 2 * size / 3 and stats["bytes_unread"] > 6 * size * 0.75, (stats["bytes"], stats["bytes_unread"], size)


def test_sound_of_windows_and_alone(longer, tmp_path):
    """Windows of a video that come in order, which decoders read for themselves; sound without the video beside it; sound of another field."""
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "a.mp4").write_bytes(longer("mp4"))
    windows = stoker.Windows(frames=4, stride=2, step=40)
    found = []
    for points in False, True:
        ds = stoker.open(str(tmp_path / "v" / "*.mp4"), windows=windows, jpeg=points)
        with stoker.Loader(ds, {"video": "video | center_crop((64, 96)) | to(u8)"}, batch_size=1, shuffle=False) as loader:
            found.append([b["video"].numpy().tobytes() for b in loader])
    assert found[0] == found[1] and len(found[0]) == 10
    tar = str(made.write_tar(tmp_path / "a.tar", [(f"{i}.mp4", longer("mp4")) for i in range(3)]))
    chain = {"x": "from(mp4) | sound(rate=16000) | random_part(1.5)"}
    heard = []
    for points in False, True:
        stoker.open(tar, jpeg=points)
        with stoker.Loader(tar, chain, batch_size=1, seed=1) as loader:
            heard.append([b["x"].numpy().tobytes() for b in loader])
            stats, reads = loader.stats(), loader.explain(0).reads["x"]
    assert heard[0] == heard[1] and len(set(heard[0])) == 3
    assert stats["bytes"] < 3 * 0.2 * len(longer("mp4")) and stats["bytes_unread"] > 3 * 0.8 * len(longer("mp4")) and reads == "only the bytes that are seen"


def test_explain_says_why_sound_is_read_whole(longer, tmp_path):
    """The sound of another file than the clip's, of which the index has no points."""
    tar = str(made.write_tar(tmp_path / "a.tar", [("0.mp4", longer("mp4")), ("0.left.mp4", longer("mp4"))]))
    fields = {"audio": "from(left.mp4) | sound(rate=16000) | part(of=video)", "video": "from(mp4) | video(frames=2, start=0) | center_crop((64, 96)) | to(u8)"}
    with stoker.Loader(tar, fields, collate="list", batch_size=1) as loader:
        reads = loader.explain(0).reads
    assert reads["audio"] == "the whole field: the index has no points of it that say which bytes are seen" and reads["video"] == "only the bytes that are seen"


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["mp4", "opus.mp4", "webm"])
def test_points_of_another_file_give_no_other_sound(longer, tmp_path, kind):
    """The file changes under its points: its packets are others, elsewhere, or damaged.  The rows are those of the file that is there, or it is a bad sample."""
    good = longer(kind)
    tar = tmp_path / "a.tar"
    made.write_tar(tar, [("0.mp4", good), ("1.mp4", good)])
    stoker.open(str(tar), jpeg=True)
    times = tar.stat()
    at = good.index(b"mdat") + 8 if b"mdat" in good else 5000
    shifted = good[:at] + bytes(37) + good[at:-37]
    torn = bytearray(good)
    torn[at:at + len(good) // 2] = bytes(b ^ 0x55 for b in good[at:at + len(good) // 2])
    video = "video(frames=2, stride=2, start=60)"
    for name, bent in ("shifted", shifted), ("torn", bytes(torn)):
        alone = str(made.write_tar(tmp_path / f"{name}.tar", [("0.mp4", bent), ("1.mp4", good)]))
        with open(tar, "r+b") as f:
            f.write(open(alone, "rb").read())
        os.utime(tar, ns=(times.st_atime_ns, times.st_mtime_ns))
        results = []
        for source in str(tar), alone:
            fields = {"audio": "from(mp4) | sound(rate=16000) | part(of=video)", "video": f"from(mp4) | {video} | center_crop((64, 96)) | to(u8)"}
            with stoker.Loader(source, fields, collate="list", batch_size=1, shuffle=False, on_error="skip", num_workers=1) as loader:
                results.append([(bool(b.valid[0]), np.asarray(b["audio"][0]).tobytes()) for b in loader])
        (first, second), (first_alone, second_alone) = results
        assert second[0] and second == second_alone
        assert not first[0] or first == first_alone


def test_seconds_of_sound_beside_video(files, tmp_path):
    """Points say how long it is, so that it is in batches by seconds; without them that is an error which says so."""
    tar = str(made.write_tar(tmp_path / "a.tar", [(f"{i}.mp4", files[kind]) for i, kind in enumerate(("mp4", "mkv", "late.mp4", "webm"))]))
    chain = {"x": "from(mp4) | sound(rate=16000)"}
    with pytest.raises(stoker.StokerError, match="output x is the sound of videos.*index --points"):
        stoker.Loader(tar, chain, max_seconds=17, collate="pad")
    stoker.open(tar, jpeg=True)
    with stoker.Loader(tar, chain, max_seconds=17, collate="pad") as loader:
        shapes = [b["x"].shape for b in loader]
    assert sum(s[0] for s in shapes) == 4 and max(s[0] for s in shapes) == 2 and all(abs(s[1] - 8 * RATE) < 0.1 * RATE for s in shapes)
