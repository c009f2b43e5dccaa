# SPDX-License-Identifier: Apache-2.0
"""Batches by seconds: max_seconds= alone, with a quadratic part, with max_tokens=, joined rows, other ranks."""

import io
import struct
import subprocess
import tarfile

import numpy as np
import pytest
from sounds import RATE, integers, tar_of, tone, tool, wav16
from test_decoders import coded, flac, frames_at

import stoker

SOUND = "from(wav) | sound(rate=16000)"


def corpus(path, n=40, seed=3):
    """n recordings of 0.05 to 0.6 seconds with 1 to 60 tokens; their seconds and numbers of tokens."""
    rng = np.random.default_rng(seed)
    samples, tokens = rng.integers(800, 9600, n), rng.integers(1, 61, n)
    with tarfile.open(path, "w") as tar:
        for i, (length, words) in enumerate(zip(samples, tokens)):
            for suffix, data in (("wav", wav16(rng.standard_normal(length) * 0.1)),
                                 ("tok", " ".join(map(str, range(words))).encode())):
                member = tarfile.TarInfo(f"{i:04}.{suffix}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return samples / RATE, tokens


def epoch(path, fields, **options):
    options = {"collate": "pad", "shuffle": True, "num_workers": 1, **options}
    with stoker.Loader(str(path), fields, **options) as loader:
        return list(loader)


def test_seconds_bound_batches(tmp_path):
    seconds, _ = corpus(tmp_path / "a.tar")
    batches = epoch(tmp_path / "a.tar", {"x": SOUND}, max_seconds=2.5)
    assert sorted(i for b in batches for i in b.sample_ids.tolist()) == list(range(len(seconds)))
    assert all(b["x"].shape[0] * b["x"].shape[1] <= 2.5 * RATE for b in batches)
    for b in batches:
        assert b.lengths["x"].tolist() == [round(seconds[i] * RATE) for i in b.sample_ids.tolist()]
    full = [b["x"].shape[0] * b["x"].shape[1] for b in batches]
    assert np.mean(full) > 0.8 * 2.5 * RATE             # and not merely a few rows each


@pytest.mark.parametrize("name", ["wav", "sound"])
def test_a_folder_by_either_name(tmp_path, name):
    """A folder's files are `sound`, which from(wav) is too: its seconds are found by both names."""
    for i, seconds in enumerate((1.0, 0.5, 0.7, 1.2)):
        (tmp_path / f"{i}.wav").write_bytes(wav16(tone(seconds, seed=i)))
    batches = epoch(tmp_path, {"x": f"from({name}) | sound(rate=16000)"}, max_seconds=2.5)
    assert sorted(i for b in batches for i in b.sample_ids.tolist()) == [0, 1, 2, 3] and len(batches) < 4
    assert all(b["x"].shape[0] * b["x"].shape[1] <= 2.5 * RATE for b in batches)


def bytes_read(do):
    """What do() gives, and how many bytes this process read meanwhile."""
    def so_far():
        return int(next(line for line in open("/proc/self/io") if line.startswith("rchar")).split()[1])
    before = so_far()
    return do(), so_far() - before


LONG = np.concatenate([tone(30, seed=4), np.random.default_rng(4).normal(0, 0.1, (10 * RATE, 1))])    # 40 seconds


def test_heads_alone_are_read(tmp_path):
    """Of WAV and FLAC: also where tags come before the sound, and where all of the sound is damaged."""
    wave = wav16(LONG)
    tagged = wave[:12] + b"LIST" + struct.pack("<I", 100000) + b"x" * 100000 + wave[12:]
    f = flac(tmp_path, integers(LONG, 16), 16, 1)
    at = frames_at(f)
    pictured = f[:4] + b"\0" + f[5:42] + b"\x86" + (200000).to_bytes(3, "big") + b"p" * 200000 + f[at:]
    files = [wave, tagged, f, f[:at] + bytes(len(f) - at), pictured, b"ID3\4\0\0\0\0\x40\0" + b"t" * 8192 + f]
    for suffix, of in ("wav", files[:2]), ("flac", files[2:]):
        path = tar_of(tmp_path / f"{suffix}.tar", [(suffix, d) for d in of])
        ds = stoker.open(path)
        got, read = bytes_read(lambda ds=ds, suffix=suffix: ds.column(f"{suffix}.seconds"))
        assert np.allclose(got, 40) and read < 200000 < sum(map(len, of)) / 10, (suffix, read)


def test_headers_that_can_not_be_so(tmp_path):
    """A FLAC header with more samples than its bytes can hold is not believed; one without their number has its frames counted."""
    f = bytearray(flac(tmp_path, integers(tone(1.0), 16), 16, 1))
    lying, silent = bytearray(f), bytearray(f)
    lying[21] |= 15
    silent[21:26] = bytes([f[21] & 240, 0, 0, 0, 0])
    got = stoker.open(tar_of(tmp_path / "a.tar", [("flac", bytes(d)) for d in (f, lying, silent)])).column("flac.seconds")
    assert got[0] == got[2] == 1 and np.isnan(got[1])


@pytest.mark.parametrize("name", ["mp3", "vorbis", "opus", "flac", "wav"])
def test_points_say_durations(tmp_path, name):
    data = wav16(LONG) if name == "wav" else flac(tmp_path, integers(LONG, 16), 16, 1) if name == "flac" else coded(name, wav16(LONG))
    path = tar_of(tmp_path / "a.tar", [("snd", data)] * 4)
    before = stoker.open(path).column("snd.seconds")
    for kept in (tmp_path).rglob("*.media"):
        kept.unlink()
    ds = stoker.open(path, jpeg=True)
    for kept in (tmp_path).rglob("*.media"):
        kept.unlink()
    after, read = bytes_read(lambda: ds.column("snd.seconds"))
    assert np.array_equal(before, after) and abs(after - 40).max() < 0.2 and read < 20000 < len(data) / 4, read


def test_durations_come_from_headers(tmp_path):
    """No recording is decoded for its length, and batches keep within the bound by it."""
    seconds, _ = corpus(tmp_path / "a.tar")
    np.testing.assert_allclose(stoker.open(str(tmp_path / "a.tar")).column("wav.seconds"), seconds, atol=1e-6)
    batches = epoch(tmp_path / "a.tar", {"x": SOUND + " | fbank(40)"}, max_seconds=stoker.Seconds(2.0, quadratic=0.5))
    for b in batches:
        longest = max(seconds[i] for i in b.sample_ids.tolist())
        assert len(b.sample_ids) * (longest + longest**2 / 0.5) <= 2.0 + 1e-3


def test_parts_and_speed_are_counted(tmp_path):
    seconds, _ = corpus(tmp_path / "a.tar")
    cut = epoch(tmp_path / "a.tar", {"x": SOUND + " | random_part(0.1)"}, max_seconds=1.0)
    assert max(len(b.sample_ids) for b in cut) == 10
    fast = epoch(tmp_path / "a.tar", {"x": SOUND + " | speed(0.5, 1.5, step=0.5)"}, max_seconds=2.5)
    assert all(b["x"].shape[0] * b["x"].shape[1] <= 2.5 * RATE for b in fast)
    assert len(fast) > len(epoch(tmp_path / "a.tar", {"x": SOUND}, max_seconds=2.5))


def test_both_bounds(tmp_path):
    seconds, tokens = corpus(tmp_path / "a.tar", n=200)
    fields = {"x": SOUND, "t": "from(tok) | ints"}
    batches = epoch(tmp_path / "a.tar", fields, max_seconds=4.0, max_tokens=200, bucket=200)
    assert sorted(i for b in batches for i in b.sample_ids.tolist()) == list(range(200))
    for b in batches:
        ids = b.sample_ids.tolist()
        assert len(ids) * max(seconds[ids]) <= 4.0 + 1e-3 and len(ids) * max(tokens[ids]) <= 200
        assert b.lengths["t"].tolist() == tokens[ids].tolist()
    padding = 1 - tokens.sum() / sum(b["t"].numel() for b in batches)
    assert padding < 0.35                               # sorted by both: half of it without


def test_joined_rows(tmp_path):
    seconds, _ = corpus(tmp_path / "a.tar")
    batches = epoch(tmp_path / "a.tar", {"x": SOUND}, max_seconds=1.0, collate="pack", shuffle=False)
    for b in batches:
        assert b["x"].shape[0] <= RATE
        assert b.offsets["x"].tolist() == np.cumsum([0] + [round(seconds[i] * RATE) for i in b.sample_ids.tolist()]).tolist()
    assert sorted(i for b in batches for i in b.sample_ids.tolist()) == list(range(40))
    assert len(batches) <= -(-seconds.sum() // 1.0) + 1         # put together so that little of a batch is left over


def test_rows_of_like_length(tmp_path):
    """bucket= with batch_size= goes by seconds too, and decodes nothing for that."""
    seconds, _ = corpus(tmp_path / "a.tar")
    batches = epoch(tmp_path / "a.tar", {"x": SOUND}, batch_size=8, bucket=40)
    spread = [np.ptp(seconds[b.sample_ids.tolist()]) for b in batches]
    assert len(batches) == 5 and max(spread) < 0.3


def test_lengths_are_seconds(tmp_path):
    seconds, _ = corpus(tmp_path / "a.tar")
    given = epoch(tmp_path / "a.tar", {"x": SOUND}, max_seconds=2.5, lengths=seconds)
    found = epoch(tmp_path / "a.tar", {"x": SOUND}, max_seconds=2.5)
    assert [b.sample_ids.tolist() for b in given] == [b.sample_ids.tolist() for b in found]
    with pytest.raises(stoker.StokerError, match=r"counts .* more than the .* that its batch was made for"):
        epoch(tmp_path / "a.tar", {"x": SOUND}, max_seconds=2.5, lengths=seconds / 4)


def test_resume_on_other_ranks(tmp_path):
    corpus(tmp_path / "a.tar", n=120)

    def ranks(world, state=None, steps=None):
        out, last = [], None
        for rank in range(world):
            with stoker.Loader(str(tmp_path / "a.tar"), {"x": SOUND}, max_seconds=1.5, collate="pad", shuffle=True,
                               num_workers=1, rank=rank, world_size=world) as loader:
                if state:
                    loader.load_state_dict(state)
                for step, b in enumerate(loader):
                    out.append(b.sample_ids.tolist())
                    if steps and step + 1 == steps:
                        break
                last = loader.state_dict()
        return out, last

    whole, _ = ranks(2)
    first, state = ranks(2, steps=4)
    rest, _ = ranks(1, state)
    assert sorted(sum(first + rest, [])) == sorted(sum(whole, [])) == list(range(120))


@pytest.mark.parametrize(("options", "said"), [
    ({"max_seconds": 0.3}, r"longer than max_seconds=0.3: raise it, cut recordings"),
    ({"max_seconds": -1}, r"max_seconds must be a number of seconds above 0"),
    ({"max_seconds": "600"}, r"max_seconds must be a number of seconds above 0"),
    ({"max_seconds": stoker.Seconds(2.0, quadratic="3")}, r"Seconds\(quadratic=\) must be a number of seconds above 0, not '3'"),
    ({"max_seconds": stoker.Seconds(0)}, r"max_seconds must be a number of seconds above 0"),
    ({"max_seconds": 2.0, "global_batch_size": 8}, r"max_seconds says how large a rank's batch is"),
    ({"max_seconds": 2.0, "lengths": [1.0]}, r"lengths"),
])
def test_refused(tmp_path, options, said):
    corpus(tmp_path / "a.tar", n=8)
    with pytest.raises((stoker.StokerError, ValueError), match=said):
        epoch(tmp_path / "a.tar", {"x": SOUND}, **options)
    if options == {"max_seconds": 0.3}:
        with pytest.raises((stoker.StokerError, ValueError), match="no output has any"):
            epoch(tmp_path / "a.tar", {"t": "from(tok) | ints"}, max_seconds=2.0)


# ---- durations by the head, the tail or the tables ----

WRITTEN = {"mp3": ("mp3", ["-c:a", "libmp3lame", "-b:a", "64k"]), "vbr": ("mp3", ["-c:a", "libmp3lame", "-q:a", "7"]), "vorbis": ("ogg", ["-c:a", "libvorbis"]),
           "opus": ("opus", ["-c:a", "libopus", "-b:a", "48k"]), "aac": ("m4a", ["-c:a", "aac", "-b:a", "64k"]), "alac": ("m4a", ["-c:a", "alac"])}


def written(folder, name, x=LONG):
    """As FFmpeg writes it into a file, so that it can go back and say how long it is."""
    suffix, options = WRITTEN[name]
    (folder / "x.wav").write_bytes(wav16(x))
    subprocess.run([tool("ffmpeg"), "-v", "error", "-y", "-i", folder / "x.wav", *options, folder / f"x.{suffix}"], check=True)
    return (folder / f"x.{suffix}").read_bytes()


def column_and_samples(path):
    """Seconds as they are planned, and the recordings' own (nan: bad ones)."""
    planned = stoker.open(path).column("snd.seconds")
    with stoker.Loader(path, {"x": "from(snd) | sound(rate=16000)"}, batch_size=1, on_error="skip", num_workers=1, shuffle=False) as loader:
        heard = [len(b["x"][0]) / 16000 if b.valid[0] else np.nan for b in loader]
    return planned, heard


@pytest.mark.parametrize("name", WRITTEN)
def test_few_bytes_say_durations(tmp_path, name):
    """Of MP3 the first frame, of Ogg the first and the last page, of MP4 the tables: as long as all of it is."""
    data = written(tmp_path, name)
    files = [data] * 3 + ([b"ID3\4\0\0\0\1\x48\0" + b"t" * 25600 + data + b"TAG" + bytes(125)] if name in ("mp3", "vbr") else [])
    path = tar_of(tmp_path / "a.tar", [("snd", d) for d in files])
    ds = stoker.open(path)
    got, read = bytes_read(lambda: ds.column("snd.seconds"))
    assert read < len(files) * (180000 if name in ("aac", "alac") else 90000) and read < sum(map(len, files)) * 0.7, read
    assert np.allclose(got, 40, atol=1e-4) and np.allclose(got, column_and_samples(path)[1], atol=1e-4)


def test_heads_of_mp3_that_lie(tmp_path):
    """What bytes contradict is not believed; what they don't is seen when it is decoded, and never a recording of another length."""
    data = written(tmp_path, "mp3", LONG[:RATE * 10])
    at = data.index(b"Info")
    frames = struct.unpack(">I", data[at + 8:at + 12])[0]

    def said(frames, data=data):
        return data[:at + 8] + struct.pack(">I", frames) + data[at + 12:]
    path = tar_of(tmp_path / "a.tar", [("snd", d) for d in (data, data + data[at + 500:], said(frames // 2, data + bytes(5000)), said(2**32 - 1))])
    planned, heard = column_and_samples(path)
    assert np.allclose(planned[:3], heard[:3], atol=1e-4) and heard[1] > 19 and np.isnan(planned[3])
    for n, why in ((frames // 2, "more than the 4.96.*make points"), (frames * 2, "its header says")):
        path = tar_of(tmp_path / f"{n}.tar", [("snd", data), ("snd", said(n))])
        with pytest.raises(stoker.StokerError, match=why):
            epoch(path, {"x": "from(snd) | sound(rate=16000)"}, max_seconds=60)


@pytest.mark.parametrize("name", ["vorbis", "opus"])
def test_ends_of_ogg_that_lie(tmp_path, name):
    data = written(tmp_path, name, LONG[:RATE * 10])
    pages = [i for i in range(len(data)) if data[i:i + 4] == b"OggS"]
    last = bytearray(data[pages[-1]:])
    last[6:14] = struct.pack("<q", struct.unpack("<q", last[6:14])[0] + 480000)
    last[22:26] = struct.pack("<I", page_sum(last))
    path = tar_of(tmp_path / "a.tar", [("snd", d) for d in (data, data[:pages[-1]], data + data, data[:-1], data + bytes(7), data[:pages[-1]] + bytes(last))])
    planned, heard = column_and_samples(path)
    assert abs(planned[0] - 10) < 1e-4 and heard[0] == 10 and all(map(np.isnan, heard[1:])) and np.isnan(planned[[1, 3, 4]]).all(), (planned, heard)


def page_sum(page):
    """Ogg's checksum of a page, whose own is taken for 0."""
    v = 0
    for byte in bytes(page[:22]) + bytes(4) + bytes(page[26:]):
        v ^= byte << 24
        for _ in range(8):
            v = (v << 1 ^ 0x04C11DB7 if v & 0x80000000 else v << 1) & 0xFFFFFFFF
    return v
