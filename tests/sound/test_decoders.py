# SPDX-License-Identifier: Apache-2.0
"""Recordings of every kind come out as they were written; a part equals that slice of the whole, read whole or by its points;
what is damaged is a bad sample with its reason."""

import io
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import time
import wave

import numpy as np
import pytest
import stoker
from sounds import RATE, encoded, integers, rows, tar_of, tone, tool, wav, wav16

sys.path.append(str(pathlib.Path(__file__).parents[2] / "fuzz" / "corpus"))
from make_sound import far, ogg_pages, ogg_sum  # noqa: E402


def law_tables():
    """G.711 by its definition, as 16-bit numbers."""
    a, mu = [], []
    for v in range(256):
        x = v ^ 0x55
        e, m = x >> 4 & 7, x & 15
        size = (m * 16 + 8) if e == 0 else (m * 16 + 264) << (e - 1)
        a.append(size if x & 128 else -size)
        x = 255 - v
        size = ((x & 15) * 8 + 132 << (x >> 4 & 7)) - 132
        mu.append(-size if x & 128 else size)
    return np.array(a), np.array(mu)


def wav_cases():
    x = tone(0.3, channels=2)
    for bits, dtype in ((16, "<i2"), (32, "<i4")):
        v = integers(x, bits)
        yield f"pcm{bits}", wav(v.astype(dtype).tobytes(), RATE, 2, 1, bits), (v / 2 ** (bits - 1)).astype("f4")
    v = integers(x, 8)
    yield "pcm8", wav((v + 128).astype("u1").tobytes(), RATE, 2, 1, 8), v / 128
    v = integers(x, 24)
    raw = v.astype("<i4").tobytes()
    raw = b"".join(raw[i:i + 3] for i in range(0, len(raw), 4))
    yield "pcm24", wav(raw, RATE, 2, 1, 24), v / 2**23
    guid = bytes.fromhex("0100000000001000800000aa00389b71")
    yield "extensible", wav(raw, RATE, 2, 0xFFFE, 24, struct.pack("<HHI", 22, 24, 3) + guid), v / 2**23
    for bits, dtype in ((32, "<f4"), (64, "<f8")):
        yield f"float{bits}", wav(x.astype(dtype).tobytes(), RATE, 2, 3, bits), x.astype("f4")
    every = np.tile(np.arange(256, dtype="u1"), 8).reshape(-1, 2)
    for kind, table in zip((6, 7), law_tables()):
        yield f"law{kind}", wav(every.tobytes(), 8000, 2, kind, 8), table[every] / 32768
    v = integers(x, 16)
    yield "rf64", wav(v.astype("<i2").tobytes(), RATE, 2, form=b"RF64"), v / 32768
    yield "pipe", wav(v.astype("<i2").tobytes(), RATE, 2, size=0xFFFFFFFF), v / 32768
    yield "pipe of SoX", wav(v.astype("<i2").tobytes(), RATE, 2, size=0x7FFFF000), v / 32768
    wide = integers(tone(0.01, channels=64), 16)
    yield "64 channels", wav(wide.astype("<i2").tobytes(), 384000, 64), wide / 32768


@pytest.mark.asan
def test_wav(tmp_path):
    cases = list(wav_cases())
    source = tar_of(tmp_path / "a.tar", [("wav", data) for _, data, _ in cases])
    for (name, _, want), got in zip(cases, rows(source, "from(wav) | sound(mono=false)")):
        assert np.array_equal(got, want.T.astype("f4")), name


FLAC = {"default": ([], 16, 1), "stereo": ([], 16, 2), "best": (["-8", "-e"], 16, 2), "fast": (["-0"], 24, 2), "8 bits": ([], 8, 1),
        "24 bits": (["-l", "32", "--lax", "-b", "16384"], 24, 1), "32 bits": ([], 32, 2),
        "32 bits, left": ([], 32, 2), "32 bits, right": ([], 32, 2), "5 channels": (["-l", "0"], 16, 5),
        "adaptive": (["-2", "-b", "576"], 16, 2), "escape": (["--lax", "-r", "15", "-b", "4608"], 16, 1)}


def raw_pcm(v, bits):
    if bits == 24:
        raw = v.astype("<i4").tobytes()
        return b"".join(raw[i:i + 3] for i in range(0, len(raw), 4))
    return v.astype(f"<i{bits // 8}").tobytes()


def flac(tmp_path, v, bits, channels, options=(), rate=RATE):
    out = tmp_path / "out.flac"
    sign = ["--endian=little", "--sign=signed", f"--channels={channels}", f"--bps={bits}", f"--sample-rate={rate}"]
    return encoded([tool("flac"), "-s", "-f", "--force-raw-format", *sign, *options, "-o", str(out), "-"], raw_pcm(v, bits), out)


def frames_at(data):
    """Where the first frame is."""
    at, last = 4, 0
    while not last:
        last, at = data[at] >> 7, at + 4 + int.from_bytes(data[at + 1:at + 4], "big")
    return at


def assignment(data):
    """Of the channels of the first frame."""
    return data[frames_at(data) + 3] >> 4


def crc(data, poly, bits):
    v = 0
    for byte in data:
        v ^= byte << bits - 8
        for _ in range(8):
            v = (v << 1 ^ poly if v >> bits - 1 else v << 1) & (1 << bits) - 1
    return v


def flac_stream(frames, units, block=4096, largest=0, channels=1):
    """A FLAC file of 16 bits and 16 kHz."""
    bits = RATE << 44 | channels - 1 << 41 | 15 << 36 | units
    return b"fLaC\x80\0\0\x22" + struct.pack(">HH", block, block) + bytes(3) + largest.to_bytes(3, "big") + bits.to_bytes(8, "big") + bytes(16) + frames


def flac_head(number, block=4096, channels=1):
    head = b"\xff\xf8" + bytes([0x75, channels - 1 << 4 | 8, number]) + (block - 1).to_bytes(2, "big")
    return head + bytes([crc(head, 7, 8)])


def silent_frame(number, block=4096, channels=1):
    frame = flac_head(number, block, channels) + b"\0\0\0" * channels
    return frame + crc(frame, 0x8005, 16).to_bytes(2, "big")


def flac_cases(tmp_path):
    for name, (options, bits, channels) in FLAC.items():
        v = integers(tone(0.8, channels=channels), bits)
        if name == "escape":
            v = np.random.default_rng(1).integers(-32768, 32768, v.shape)
        if name == "default":
            v[2000:9000] &= ~15  # wasted bits
            v[9000:] = 77        # constant
        if "," in name:      # two channels with little between them, one of which has more noise
            x, noise = tone(0.8)[:, 0], np.random.default_rng(2).standard_normal((2, 12800)) * [[1e-5], [1e-3]]
            v = integers(np.stack([x + noise[0], x + noise[0] + noise[1]][::1 if "right" in name else -1], 1), 32)
        data = flac(tmp_path, v, bits, channels, options)
        if bits == 32:       # the ways of 33 bits: mid and side, left and side, side and right
            assert assignment(data) == {"32 bits": 10, "32 bits, left": 8, "32 bits, right": 9}[name]
        yield name, data, (v / 2.0 ** (bits - 1)).astype("f4")


@pytest.mark.asan
def test_flac_that_takes_time(tmp_path):
    """Bytes that look like frames everywhere cost no more than their number; silence has no row that is larger than allowed."""
    heads = flac_stream(flac_head(7) * (4 << 17), 0, largest=(1 << 24) - 1)
    silence = flac_stream(b"".join(silent_frame(i, 65535, 8) for i in range(20)), 0, 65535, channels=8)
    source = tar_of(tmp_path / "a.tar", [("flac", heads), ("flac", silence)])
    start = time.process_time()
    with stoker.Loader(source, {"x": "from(flac) | sound"}, batch_size=1, on_error="skip", max_pixels=1 << 20) as loader:
        with pytest.raises(stoker.StokerError):
            list(loader)
        bad = [b["reason"] for b in loader.stats()["bad_samples"]]
    assert time.process_time() - start < 30
    assert "after sample 0 follows the frame of sample 28672" in bad[0] and "1310700 samples of 1 channels are over the limit of 1048576" in bad[1]
    assert np.array_equal(rows(source, "from(flac) | sound(mono=false)", select=[1])[0], np.zeros((8, 1310700)))


@pytest.mark.asan
def test_flac(tmp_path):
    cases = list(flac_cases(tmp_path))
    source = tar_of(tmp_path / "a.tar", [("flac", data) for _, data, _ in cases])
    for (name, _, want), got in zip(cases, rows(source, "from(flac) | sound(mono=false)")):
        assert np.array_equal(got, want.T), name


OGG_FLAC = {"flac": ["flac", "-s", "--ogg", "-c", "-"], "ffmpeg": ["ffmpeg", "-v", "error", "-i", "-", "-c:a", "flac", "-f", "ogg", "-"]}


@pytest.mark.asan
@pytest.mark.parametrize("program", OGG_FLAC)
def test_flac_in_ogg(tmp_path, program):
    """The samples of the WAV file; parts are slices, with points and without; what is damaged is refused."""
    v = integers(tone(6, rate=22050, channels=2), 16)
    tool(program)
    data = subprocess.run(OGG_FLAC[program], input=wav16(v / 32768, 22050), check=True, capture_output=True).stdout
    fast, bent = bytearray(data), bytearray(data)
    at = data.index(b"fLaC") + 18
    fast[at:at + 3] = (48000 << 4 | data[at + 2] & 15).to_bytes(3, "big")
    bent[len(data) // 2] ^= 1
    bad = [(b"".join(map(ogg_sum, ogg_pages(bytes(fast)))), "its header says 48000 samples per second, the frame of sample 0 says 22050"), (bytes(bent), "is damaged"),
           (data[:len(data) // 2], "no whole page")]
    source = tar_of(tmp_path / "a.tar", [("snd", data)])
    want = (v / 32768).T.astype("f4")
    for points in False, True:
        if points:
            stoker.open(source, jpeg=True)
        assert np.array_equal(rows(source, "from(snd) | sound(mono=false)")[0], want)
        for start in (0, 0.07, 1.3, 2.2222, 3.9, 5.7):
            a = int(start * 22050 + 0.5)
            assert np.array_equal(rows(source, f"from(snd) | sound(mono=false) | part({start}, 0.3)")[0], want[:, a:a + 6615])
    with stoker.Loader(source, {"x": "from(snd) | sound | random_part(0.5)"}, batch_size=1) as loader:
        next(iter(loader))
        stats = loader.stats()      # of as many samples as were read ahead
    assert stats["bytes"] < 0.6 * (stats["bytes"] + stats["bytes_unread"])
    source = tar_of(tmp_path / "b.tar", [("snd", data), *(("snd", d) for d, _ in bad)])
    with stoker.Loader(source, {"x": "from(snd) | sound"}, batch_size=1, on_error="skip") as loader:
        list(loader)
        reasons = {b["key"]: b["reason"] for b in loader.stats()["bad_samples"]}
    assert len(reasons) == 3 and all(why in reasons[f"{i:04}"] for i, (_, why) in enumerate(bad, 1)), reasons


CODED = {"mp3": ["lame", "--quiet", "-b", "128", "-", "-"], "low.mp3": ["lame", "--quiet", "-b", "8", "--resample", "11.025", "-m", "m", "-", "-"],
         "vbr.mp3": ["lame", "--quiet", "-V", "7", "--resample", "16", "-", "-"], "vorbis": ["oggenc", "-Q", "-q", "2", "-o", "-", "-"],
         "opus": ["opusenc", "--quiet", "--bitrate", "32", "-", "-"]}


# Where an encoder's own program is not installed, FFmpeg's.
BY_FFMPEG = {"mp3": ["libmp3lame", "-b:a", "128k", "-f", "mp3"], "low.mp3": ["libmp3lame", "-b:a", "8k", "-ar", "11025", "-ac", "1", "-f", "mp3"],
             "vbr.mp3": ["libmp3lame", "-q:a", "7", "-ar", "16000", "-f", "mp3"], "vorbis": ["libvorbis", "-q:a", "2", "-f", "ogg"],
             "opus": ["libopus", "-b:a", "32k", "-f", "opus"]}


def coded(name, data):
    """`data`, a WAV file, as another codec has it."""
    if not shutil.which(CODED[name][0]):
        args = [tool("ffmpeg"), "-v", "error", "-i", "-", "-c:a", *BY_FFMPEG[name], "-"]
        return subprocess.run(args, input=data, check=True, capture_output=True).stdout
    return subprocess.run(CODED[name], input=data, check=True, capture_output=True).stdout


@pytest.mark.parametrize("name", CODED)
def test_coded_sound(tmp_path, name):
    """Against FFmpeg's decoder; parts are slices of the whole (of Opus: near them), and the same with points and without."""
    tool("ffmpeg")
    x = tone(6, rate=44100, channels=2)
    data = coded(name, wav16(x, 44100))
    source = tar_of(tmp_path / "a.tar", [("snd", data)])
    whole = rows(source, "from(snd) | sound(mono=false)")[0]
    file, library = tmp_path / "x", ["-c:a", "libopus"] if name == "opus" else []  # its own Opus is another
    file.write_bytes(data)
    raw = subprocess.run(["ffmpeg", "-v", "error", *library, "-i", str(file), "-f", "f32le", "-"], check=True, capture_output=True).stdout
    want = np.frombuffer(raw, "<f4").reshape(-1, len(whole)).T
    n = min(want.shape[1], whole.shape[1])
    assert abs(want.shape[1] - whole.shape[1]) < 2400 and abs(want[:, :n] - whole[:, :n]).max() < 2e-3
    rate = {"low.mp3": 11025, "vbr.mp3": 16000, "opus": 48000}.get(name, 44100)
    before = None
    for points in False, True:
        if points:
            stoker.open(source, jpeg=True)
        made = []
        for start in (0, 0.07, 1.3, 2.2222, 3.9, 5.1):
            made.append(rows(source, f"from(snd) | sound(mono=false) | part({start}, 0.7)")[0])
            a = int(start * rate + 0.5)
            slice_ = whole[:, a:a + int(0.7 * rate + 0.5)]
            assert abs(made[-1] - slice_).max() < 0.01 if name == "opus" else np.array_equal(made[-1], slice_), (start, points)
        before = before or made
        assert all(np.array_equal(p, q) for p, q in zip(before, made))


@pytest.mark.asan
@pytest.mark.parametrize("name", ["vorbis", "opus", "flac_ogg"])
def test_times_that_can_not_be(tmp_path, name):
    """Ogg pages whose times have no difference of 64 bits, and sums that are right."""
    data = (pathlib.Path(__file__).parents[2] / "fuzz" / "corpus" / name / "mono").read_bytes()
    source = tar_of(tmp_path / "a.tar", [("snd", d) for d in [data, *far(data).values()]])
    with stoker.Loader(source, {"x": "from(snd) | sound"}, batch_size=1, on_error="skip") as loader:
        list(loader)
        bad = [b["reason"] for b in loader.stats()["bad_samples"]]
    assert len(bad) == 3 and all("is damaged" in why for why in bad), bad


def test_damaged_streams(tmp_path):
    """Garbage between frames of MP3 changes nothing; what is cut off, damaged or chained is refused."""
    wave = wav16(tone(1.0, rate=44100), 44100)
    mp3, ogg, opus = (coded(k, wave) for k in ("mp3", "vorbis", "opus"))
    frame = mp3.index(b"\xff\xfb", len(mp3) // 2)
    bent = bytearray(ogg)
    bent[len(ogg) // 2] ^= 4
    cases = [(mp3[:-100], "truncated"), (b"ID3\4\0\0\0\0\0\0" + b"x" * 500, "no frame"), (ogg[:len(ogg) * 2 // 3], "no whole page"), (bytes(bent), "damaged"),
             (ogg + opus, "chained"), (opus[:200], "Ogg")]
    source = tar_of(tmp_path / "a.tar", [("snd", d) for d, _ in cases] + [("snd", mp3), ("snd", mp3[:frame] + b"garbage!" * 9 + mp3[frame:])])
    with stoker.Loader(source, {"x": "from(snd) | sound"}, batch_size=1, on_error="skip", shuffle=False) as loader:
        got = [b["x"][0].numpy().copy() for b in loader]
        bad = {b["key"]: b["reason"] for b in loader.stats()["bad_samples"]}
    for i, (_, why) in enumerate(cases):
        assert why in bad[f"{i:04}"], (why, bad[f"{i:04}"])
    assert len(bad) == len(cases) and np.array_equal(got[-1], got[-2])


def test_parts_are_slices(tmp_path):
    """Of 40 parts of each recording, without points and with them."""
    x = tone(12, rate=22050, channels=2)
    files = [("wav", wav16(x, 22050)), ("flac", flac(tmp_path, integers(x, 16), 16, 2, rate=22050))]
    source = tar_of(tmp_path / "a.tar", [("snd", data) for _, data in files])
    whole = rows(source, "from(snd) | sound(mono=false)")
    assert np.array_equal(whole[0], whole[1])
    rng = np.random.default_rng(5)
    parts = [(0, 0.5), (11.9, 0.1), *((round(float(a), 3), round(float(b), 3)) for a, b in zip(rng.uniform(0, 11, 18), rng.uniform(0.01, 3, 18)))]
    for points in False, True:
        if points:
            stoker.open(source, jpeg=True)
        for start, seconds in parts:
            a = int(start * 22050 + 0.5)
            for w, got in zip(whole, rows(source, f"from(snd) | sound(mono=false) | part({start}, {seconds})")):
                assert np.array_equal(got, w[:, a:a + int(seconds * 22050 + 0.5)]), (start, seconds, points)


def test_points_read_less(tmp_path):
    x = integers(tone(20), 16)
    source = tar_of(tmp_path / "a.tar", [("flac", flac(tmp_path, x, 16, 1)) for _ in range(4)])
    chain = {"x": "from(flac) | sound(rate=16000) | random_part(0.5) | pad_to(0.5)"}

    def read(seed):
        with stoker.Loader(source, chain, batch_size=4, shuffle=True, seed=seed) as loader:
            batches = [b["x"].numpy().copy() for _ in range(3) for b in loader]
            return batches, loader.stats()
    before, whole = read(3)
    stoker.open(source, jpeg=True)
    after, parts = read(3)
    assert all(np.array_equal(a, b) for a, b in zip(before, after))
    # of as many samples as were read ahead, which are more where each is less
    assert not whole.get("bytes_unread") and parts["bytes"] < 0.2 * (parts["bytes"] + parts["bytes_unread"])


def damaged(tmp_path):
    good = wav16(tone(0.5))
    f = bytearray(flac(tmp_path, integers(tone(1.0), 16), 16, 1))
    bent = bytearray(f)
    bent[len(f) // 2] ^= 1
    wrong = bytearray(f)
    wrong[21] |= 15  # 2^36 samples
    fast = bytearray(f)
    fast[18:21] = (48000 << 4 | f[20] & 15).to_bytes(3, "big")
    nan = np.ones(100, "<f4")
    nan[50] = np.nan
    yield "truncated WAV", good[:1000], "truncated"
    yield "header alone", good[:44], "truncated"
    yield "empty", b"", "empty"
    yield "no samples", wav(b"", RATE, 1), "no samples"
    yield "no channels", wav(b"\0\0", RATE, 0), "0 channels"
    yield "no rate", wav(b"\0\0", 0, 1), "rate of 0"
    yield "a rate that no one has", wav(b"\0\0", 2**32 - 1, 1, 1, 8), "rate of"
    yield "frames of another size", good[:32] + b"\7\0" + good[34:], "frames of 7 bytes"
    yield "half a frame", wav(b"\0" * 7, RATE, 2), "whole frames"
    yield "NaN", wav(nan.tobytes(), RATE, 1, 3, 32), "sample 50 of channel 0 is not a finite number"
    loud = np.ones((100, 2))
    loud[60, 1] = -3e10
    yield "a huge float", wav(loud.astype("<f4").tobytes(), RATE, 2, 3, 32), "sample 60 of channel 1 is -3e+10, where full scale is 1"
    loud[60, 1] = 1e300
    yield "a huge double", wav(loud.astype("<f8").tobytes(), RATE, 2, 3, 64), "sample 60 of channel 1 is not a finite number"
    yield "ADPCM", wav(b"\0" * 64, RATE, 1, 2, 4), "format 2 of 4 bits"
    yield "2^60 samples", wav(b"\0" * 16, RATE, 1, form=b"RF64").replace(struct.pack("<Q", 16), struct.pack("<Q", 2**61)), "truncated"
    yield "truncated FLAC", bytes(f[:len(f) // 2]), "truncated"
    yield "a bit of FLAC", bytes(bent), "damaged"
    yield "FLAC with a wrong header", bytes(wrong), "its header says"
    yield "FLAC of another rate", bytes(fast), "its header says 48000 samples per second, the frame of sample 0 says 16000"
    yield "FLAC's header", bytes(f[:42]), "truncated"
    yield "a text", b"This is not sound at all.", "not sound"


@pytest.mark.asan
def test_damage_is_a_bad_sample(tmp_path):
    cases = list(damaged(tmp_path))
    good = wav16(tone(0.1))
    source = tar_of(tmp_path / "a.tar", [("snd", data) for _, data, _ in cases] + [("snd", good)])
    with stoker.Loader(source, {"x": "from(snd) | sound"}, batch_size=1, on_error="skip") as loader:
        got = [b["x"][0].numpy().copy() for b in loader]
        bad = {b["key"]: b["reason"] for b in loader.stats()["bad_samples"]}
    want = integers(tone(0.1), 16)[:, 0] / 32768
    assert all(np.array_equal(g, want.astype("f4")) for g in got)  # the good one stands in, never silence
    for i, (name, _, why) in enumerate(cases):
        assert why in bad[f"{i:04}"], name


def test_flac_program_agrees(tmp_path):
    """A file of FFmpeg's, without a count of samples in its header, against the samples of `flac -d`."""
    tool("ffmpeg")
    data = subprocess.run(["ffmpeg", "-v", "error", "-i", "-", "-f", "flac", "-"], input=wav16(tone(1.0, channels=2)), check=True,
                          capture_output=True).stdout
    by = [tool("flac"), "-s", "-d", "--force-raw-format", "--endian=little", "--sign=signed", "-c", "-"]
    raw = subprocess.run(by, input=data, check=True, capture_output=True).stdout
    want = np.frombuffer(raw, "<i2").reshape(-1, 2).T / 32768
    source = tar_of(tmp_path / "a.tar", [("flac", data)])
    assert np.array_equal(rows(source, "from(flac) | sound(mono=false)")[0], want.astype("f4"))


def test_pictures_and_sound_are_not_confused(tmp_path):
    source = tar_of(tmp_path / "a.tar", [("wav", wav16(tone(0.1))), ("wav", b"\x89PNG\r\n\x1a\n" + b"\0" * 40)])
    with stoker.Loader(source, {"x": "from(wav) | image"}, batch_size=1, select=[0]) as loader:
        with pytest.raises(stoker.StokerError, match="it is a recording"):
            next(iter(loader))
    with stoker.Loader(source, {"x": "from(wav) | sound"}, batch_size=1, select=[1]) as loader:
        with pytest.raises(stoker.StokerError):
            next(iter(loader))


def test_batches_by_length(tmp_path):
    """max_tokens counts samples: they are measured where the index does not say them."""
    lengths = [8000, 16000, 4000, 12000, 20000, 3000]
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i, n in enumerate(lengths):
            out = io.BytesIO()
            with wave.open(out, "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(16000)
                file.writeframes(bytes(2 * n))
            member = tarfile.TarInfo(f"{i}.wav")
            member.size = len(out.getvalue())
            tar.addfile(member, io.BytesIO(out.getvalue()))
    with stoker.Loader(str(tmp_path / "a.tar"), {"x": "from(wav) | sound(rate=16000, mono=true)"}, max_tokens=24000,
                       collate="pad", shuffle=True) as loader:
        batches = [(tuple(b["x"].shape), b.lengths["x"].tolist()) for b in loader]
    assert sorted(n for _, rows in batches for n in rows) == sorted(lengths)
    assert all(rows * longest <= 24000 for (rows, longest), _ in batches) and len(batches) < len(lengths)
