# SPDX-License-Identifier: Apache-2.0
"""Sound of MP4, Matroska and ADTS files by libavcodec, and of videos: against FFmpeg's samples; parts are defined with a fixed run-up."""

import os
import struct
import subprocess

import numpy as np
import pytest
import stoker
from sounds import RATE, rows, tar_of, tone, tool, wav16

# name: the file's suffix, FFmpeg's options, are parts slices of the whole, bit for bit
FILES = {"aac.m4a": ("m4a", ["-c:a", "aac", "-b:a", "96k"], False), "no_noise.m4a": ("m4a", ["-c:a", "aac", "-aac_pns", "0"], True), "faststart.m4a": ("m4a", ["-c:a", "aac", "-movflags", "+faststart"], False),
         "fragments.mp4": ("mp4", ["-c:a", "aac", "-movflags", "frag_keyframe+empty_moov", "-frag_duration", "500000"], False),
         "alac.m4a": ("m4a", ["-c:a", "alac"], True), "aac.mka": ("mka", ["-c:a", "aac"], False), "flac.mka": ("mka", ["-c:a", "flac"], True),
         "flac.mp4": ("mp4", ["-c:a", "flac", "-strict", "-2"], True), "ac3.mp4": ("mp4", ["-c:a", "ac3"], False), "mp3.mka": ("mka", ["-c:a", "libmp3lame"], False),
         "mp3.mp4": ("mp4", ["-c:a", "libmp3lame"], False), "opus.webm": ("webm", ["-c:a", "libopus"], False), "opus.mp4": ("mp4", ["-c:a", "libopus", "-strict", "-2"], False),
         "aac.aac": ("aac", ["-c:a", "aac"], False)}


def ffmpeg(*args, data=None):
    return subprocess.run([tool("ffmpeg"), "-v", "error", "-y", *map(str, args)], input=data, check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Name to a file's bytes, and the samples that went in."""
    d = tmp_path_factory.mktemp("tracks")
    x = tone(6.1234, rate=44100, channels=2)
    (d / "x.wav").write_bytes(wav16(x, 44100))
    found = {}
    for name, (suffix, options, _) in FILES.items():
        rate = ["-ar", "48000"] if "opus" in name else []
        ffmpeg("-i", d / "x.wav", *options, *rate, d / f"a.{suffix}")
        found[name] = (d / f"a.{suffix}").read_bytes()
    ffmpeg("-f", "lavfi", "-i", "testsrc=size=64x48:rate=10:duration=6", "-i", d / "x.wav", "-c:v", "mpeg4", "-c:a", "aac", "-shortest", d / "v.mp4")
    found["video.mp4"] = (d / "v.mp4").read_bytes()
    return found, x


def heard(data, tmp_path, channels=2):
    (tmp_path / "x").write_bytes(data)
    raw = ffmpeg("-i", tmp_path / "x", "-f", "f32le", "-")
    return np.frombuffer(raw, "<f4").reshape(-1, channels).T


@pytest.mark.parametrize("name", [*FILES, "video.mp4"])
def test_a_track(tmp_path, made, name):
    data, x = made[0][name], made[1]
    exact = FILES[name][2] if name in FILES else False
    source = tar_of(tmp_path / "a.tar", [("snd", data)])
    whole = rows(source, "from(snd) | sound(mono=false)")[0]
    want = heard(data, tmp_path)
    n = min(want.shape[1], whole.shape[1])
    # FFmpeg gives the last packet whole; here the samples end where the container says
    assert whole.shape[0] == 2 and 0 <= want.shape[1] - whole.shape[1] < 2400 if name != "video.mp4" else abs(want.shape[1] - whole.shape[1]) < 2400
    assert abs(want[:, :n] - whole[:, :n]).max() < 2e-5
    rate = 48000 if "opus" in name else 44100
    if name.endswith((".m4a", ".mka", "flac.mp4")) or name == "opus.webm":
        assert abs(whole.shape[1] - 6.1234 * rate) <= 1152 + (1153 if name in ("aac.mka", "mp3.mka") else 0)
    if exact and "aac" not in FILES[name][1]:
        assert whole.shape[1] == len(x) and abs(whole - x.T).max() < 2e-5
    before = None
    for points in False, True:
        if points:
            stoker.open(source, jpeg=True)
        made_parts = []
        for start in (0, 0.07, 1.3, 2.2222, 3.9, 5.1):
            part = rows(source, f"from(snd) | sound(mono=false) | part({start}, 0.7)")[0]
            a = int(start * rate + 0.5)
            slice_ = whole[:, a:a + int(0.7 * rate + 0.5)]
            made_parts.append(part)
            off = np.sqrt(np.mean((part - slice_) ** 2) / np.mean(slice_ ** 2))  # noise that decoders draw is another one
            assert np.array_equal(part, slice_) if exact else off < 0.2, (start, off)
        before = before or made_parts
        assert all(np.array_equal(p, q) for p, q in zip(before, made_parts))


def test_parts_depend_on_nothing_before(tmp_path, made):
    """AAC has noise that decoders draw: a part is the same whatever was decoded before it, by any worker."""
    source = tar_of(tmp_path / "a.tar", [("m4a", made[0]["aac.m4a"])] * 12)
    chain = "from(m4a) | sound(rate=16000) | random_part(0.5)"
    first = rows(source, chain, epochs=2, seed=1)
    again = rows(source, chain, epochs=2, seed=1, num_workers=3)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    fixed = rows(source, "from(m4a) | sound(rate=16000) | part(3.1, 0.5)")
    assert all(np.array_equal(fixed[0], f) for f in fixed)


def test_pictures_and_sound_of_one_video(tmp_path, made):
    source = tar_of(tmp_path / "a.tar", [("mp4", made[0]["video.mp4"])])
    with stoker.Loader(source, {"sound": "from(mp4) | sound(rate=16000) | part(1, 2.0)", "video": "from(mp4) | video(frames=4, stride=2, start=0) | resize((32, 32))"},
                       batch_size=1) as loader:
        batch = next(iter(loader))
    assert tuple(batch["sound"].shape) == (1, 2 * RATE) and tuple(batch["video"].shape)[:2] == (1, 4)


def test_seconds_bound_batches(tmp_path, made):
    """The index knows how long they are."""
    source = tar_of(tmp_path / "a.tar", [("m4a", made[0][n]) for n in ("aac.m4a", "faststart.m4a", "alac.m4a")] + [("m4a", made[0]["aac.aac"])])
    with stoker.Loader(source, {"x": "from(m4a) | sound(rate=16000)"}, max_seconds=14, collate="pad") as loader:
        sizes = [len(b["x"]) for b in loader]
    assert sum(sizes) == 4 and max(sizes) == 2
    seconds = stoker.open(source).column("m4a.seconds") if "m4a.seconds" in getattr(stoker.open(source), "columns", ()) else None
    assert seconds is None or np.allclose(seconds, 6.12, atol=0.06)


def damaged(made):
    good, ac3, adts = made["faststart.m4a"], made["ac3.mp4"], made["aac.aac"]
    silent = made["aac.m4a"].replace(b"soun", b"text")
    yield "a torn file", good[:len(good) // 2], "truncated"
    yield "a torn moov", good[:400], "torn"
    yield "no sound", silent, "no sound track"
    yield "an unknown codec", ac3.replace(b"ac-3", b"zz-3"), "codec is `zz-3`"
    yield "an encrypted track", ac3.replace(b"ac-3", b"enca"), "encrypted"
    bent = bytearray(good)
    at = good.index(b"mdat") + 4
    bent[at + 3000:at + 3400] = b"\xff" * 400
    yield "damaged packets", bytes(bent), "can't be decoded"
    yield "torn ADTS", adts[:-5], "truncated"
    yield "a hole in ADTS", adts[:8000] + b"x" * 9000 + adts[8000:], "ADTS"
    esds = good.index(b"esds")
    yield "another kind of mp4a", good[:esds] + good[esds:esds + 200].replace(b"\x40\x15", b"\x99\x15", 1) + good[esds + 200:], "object type 0x99"
    edit = good.index(b"elst")
    yield "all left out", good[:edit + 16] + struct.pack(">I", 2**31 - 1) + good[edit + 20:], "are left out"


@pytest.mark.asan
def test_damage_is_a_bad_sample(tmp_path, made):
    cases = list(damaged(made[0]))
    source = tar_of(tmp_path / "a.tar", [("m4a", data) for _, data, _ in cases] + [("m4a", made[0]["alac.m4a"])])
    with stoker.Loader(source, {"x": "from(m4a) | sound"}, batch_size=1, on_error="skip") as loader:
        got = [b["x"][0].numpy().copy() for b in loader]
        bad = {b["key"]: b["reason"] for b in loader.stats()["bad_samples"]}
    for i, (name, _, why) in enumerate(cases):
        assert why in bad.get(f"{i:04}", ""), (name, bad.get(f"{i:04}"))
    assert all(np.array_equal(g, got[0]) for g in got)


def test_without_libavcodec(tmp_path, made, monkeypatch):
    monkeypatch.setenv("STOKER_LIBAVCODEC", str(tmp_path / "none.so"))
    source = tar_of(tmp_path / "a.tar", [("m4a", made[0]["aac.m4a"])])
    with stoker.Loader(source, {"x": "from(m4a) | sound"}, batch_size=1) as loader, pytest.raises(stoker.StokerError, match="install FFmpeg"):
        next(iter(loader))


@pytest.mark.parametrize("name", ["aac.m4a", "alac.m4a", "aac.mka", "mp3.mp4", "aac.aac", "fragments.mp4", "opus.webm", "opus.mp4"])
def test_a_part_of_a_long_one_reads_its_bytes(tmp_path, name):
    """With points, which say its length too; from the start to the end, the same samples as without them."""
    suffix, options, _ = FILES[name]
    (tmp_path / "x.wav").write_bytes(wav16(tone(60, rate=44100), 44100))
    ffmpeg("-i", tmp_path / "x.wav", *options, *(["-ar", "48000"] if "opus" in name else []), tmp_path / f"x.{suffix}")
    data = (tmp_path / f"x.{suffix}").read_bytes()
    source = tar_of(tmp_path / "a.tar", [("snd", data)] * 4)
    chains = [f"from(snd) | sound(rate=16000) | part({start}, 1.5)" for start in (0, 0.3, 20, 41.7, 58.4)]
    before = [rows(source, chain)[0] for chain in chains]
    seconds = stoker.open(source).column("snd.seconds")
    ds = stoker.open(source, jpeg=True)
    for kept in tmp_path.rglob("*.media"):
        kept.unlink()
    assert np.array_equal(seconds, stoker.open(source).column("snd.seconds")) and abs(seconds[0] - 60) < 0.1
    for chain, want in zip(chains, before):
        with stoker.Loader(ds, {"x": chain}, batch_size=1, num_workers=1, shuffle=False) as loader:
            got = [b["x"][0].numpy() for b in loader]
            stats = loader.stats()
        assert all(np.array_equal(g, want) for g in got)
        assert stats["bytes"] < 0.1 * (stats["bytes"] + stats["bytes_unread"]), (chain, stats["bytes"], stats["bytes_unread"])


@pytest.mark.asan
@pytest.mark.parametrize("suffix", ["webm", "mp4"])
@pytest.mark.parametrize("frame", ["2.5", "10", "60", "120"])
def test_parts_of_opus_are_as_in_ogg(tmp_path, suffix, frame):
    """The same packets (CELT) in Ogg, where libopus decodes them: the same length, and the same parts but for how floats are rounded.  With points the bits are those without."""
    (tmp_path / "x.wav").write_bytes(wav16(tone(9.3, rate=48000), 48000))
    ffmpeg("-i", tmp_path / "x.wav", "-c:a", "libopus", "-frame_duration", frame, "-b:a", "128k", tmp_path / "x.ogg")
    ffmpeg("-i", tmp_path / "x.ogg", "-c:a", "copy", *(["-strict", "-2"] if suffix == "mp4" else []), tmp_path / f"x.{suffix}")
    source = tar_of(tmp_path / "a.tar", [("snd", (tmp_path / f"x.{suffix}").read_bytes())])
    ogg = tar_of(tmp_path / "b.tar", [("snd", (tmp_path / "x.ogg").read_bytes())])
    whole, of_ogg = (rows(s, "from(snd) | sound")[0] for s in (source, ogg))
    assert whole.shape == of_ogg.shape and abs(whole - of_ogg).max() < 2e-3
    chains = [f"from(snd) | sound | part({start}, 0.4)" for start in (0, 0.02, 0.4999, 0.51, 3.3, 6.0123, 8.85)]
    before = [rows(source, chain)[0] for chain in chains]
    stoker.open(source, jpeg=True)
    for chain, want in zip(chains, before, strict=True):
        with stoker.Loader(source, {"x": chain}, batch_size=1, num_workers=1, shuffle=False) as loader:
            got = next(iter(loader))["x"][0].numpy()
            assert loader.stats()["bytes_unread"] > 0
        assert np.array_equal(got, want) and abs(got - rows(ogg, chain)[0]).max() < 2e-3, chain


@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_opus_of_other_rates_begins_where_it_does(tmp_path, rate):
    """FFmpeg writes a delay into Matroska that is too short for sound of less than 48 kHz; the head of Opus has the right one."""
    (tmp_path / "x.wav").write_bytes(wav16(tone(2.3, rate=rate), rate))
    heard_ = {}
    for suffix, more in (("ogg", []), ("webm", []), ("mp4", ["-strict", "-2"])):
        ffmpeg("-i", tmp_path / "x.wav", "-c:a", "libopus", "-b:a", "96k", *more, tmp_path / f"x.{suffix}")
        heard_[suffix] = rows(tar_of(tmp_path / f"{suffix}.tar", [("snd", (tmp_path / f"x.{suffix}").read_bytes())]), "from(snd) | sound")[0]
    assert abs(len(heard_["ogg"]) - 2.3 * 48000) < 2
    for suffix in "webm", "mp4":
        n = min(len(heard_["ogg"]), len(heard_[suffix]))
        assert len(heard_[suffix]) - n < 2 and abs(heard_[suffix][:n] - heard_["ogg"][:n]).max() < 2e-3, suffix


def test_damage_behind_points(tmp_path, made):
    """A file whose packets changed after its points were made is a bad sample, for the same reason as without points.  Other samples are not."""
    source = tar_of(tmp_path / "a.tar", [("snd", made[0]["alac.m4a"])] * 2)
    chain = "from(snd) | sound | part(0.5, 1)"
    want = rows(source, chain)
    stoker.open(source, jpeg=True)
    raw = bytearray((tmp_path / "a.tar").read_bytes())
    raw[100000:140000] = bytes(40000)
    with open(tmp_path / "a.tar", "r+b") as f:
        times = (tmp_path / "a.tar").stat()
        f.write(raw)
    os.utime(tmp_path / "a.tar", ns=(times.st_atime_ns, times.st_mtime_ns))
    with stoker.Loader(source, {"x": chain}, batch_size=1, on_error="skip", num_workers=1, shuffle=False) as loader:
        got = [(bool(b.valid[0]), b["x"][0].numpy()) for b in loader]
        reasons = [b["reason"] for b in loader.stats()["bad_samples"]]
    assert len(reasons) == 1 and "(ALAC) can't be decoded" in reasons[0] and any(v and np.array_equal(x, want[1]) for v, x in got), reasons
