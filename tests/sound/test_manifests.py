# SPDX-License-Identifier: Apache-2.0
"""Lists of utterances of Kaldi, NeMo, lhotse, Common Voice and LibriSpeech: each utterance is the slice that its list says, and
batches are those that icefall and NeMo take."""

import gzip
import io
import json
import pathlib
import tarfile

import numpy as np
import pytest
from sounds import RATE, integers, tone, wav16

import stoker

CUT = 'from(path) | open(root="/") | sound(rate=16000) | part(start, duration)'
TEXT = "from(text) | text"
# recording, start, seconds, text
UTTERANCES = [("a", 0.25, 0.5, "one"), ("b", 0.0, 0.125, "two – drei"), ("a", 1.0, 0.4, "three"), ("b", 0.5, 0.7, 'fo"ur')]


@pytest.fixture
def recordings(tmp_path, monkeypatch):
    """Two WAV files, and their samples as 16-bit numbers have them."""
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))
    out = {}
    for i, name in enumerate("ab"):
        x = integers(tone(1.5, seed=i), 16)[:, 0] / 32768
        (tmp_path / f"{name}.wav").write_bytes(wav16(x[:, None]))
        out[name] = x.astype("f4")
    return out


def slices(recordings, utterances=UTTERANCES):
    return [recordings[name][round(start * RATE):round((start + seconds) * RATE)] for name, start, seconds, _ in utterances]


def check(ds, recordings, chain=CUT, utterances=UTTERANCES):
    """Rows are the slices, in the list's order; batches by seconds count the list's durations."""
    with stoker.Loader(ds, {"audio": chain, "text": TEXT}, batch_size=1, num_workers=1) as loader:
        rows = [(b["audio"][0].numpy(), b["text"][0]) for b in loader]
    for (got, text), want, (*_, said) in zip(rows, slices(recordings, utterances), utterances, strict=True):
        assert np.array_equal(got, want) and text == said
    with stoker.Loader(ds, {"audio": chain}, max_seconds=1.5, lengths="duration", collate="pad", shuffle=True, num_workers=1) as loader:
        sizes = [b["audio"].numel() for b in loader]
        assert len(sizes) > 1 and max(sizes) <= 1.5 * RATE


def test_kaldi(tmp_path, recordings):
    (tmp_path / "wav.scp").write_text(f"rec-a {tmp_path}/a.wav\nrec-b b.wav\n")
    (tmp_path / "segments").write_text("".join(f"utt{i} rec-{n} {s} {s + d}\n" for i, (n, s, d, _) in enumerate(UTTERANCES)))
    (tmp_path / "text").write_text("".join(f"utt{i} {t}\n" for i, (*_, t) in enumerate(UTTERANCES)), encoding="utf-8")
    (tmp_path / "utt2spk").write_text("".join(f"utt{i} spk{i % 2}\n" for i in range(4)))
    ds = stoker.speech(tmp_path)
    check(ds, recordings)
    assert ds[2]["speaker"] == b"spk0" and ds[3]["id"] == b"utt3"
    (tmp_path / "segments").write_text("utt0 rec-a 1.0 -1\n")           # to the recording's end; the list changed
    with stoker.Loader(stoker.speech(tmp_path), {"audio": 'from(path) | open(root="/") | sound(rate=16000) | part(start)'},
                       batch_size=1) as loader:
        assert np.array_equal(next(iter(loader))["audio"][0], recordings["a"][RATE:])


def test_kaldi_with_tabs(tmp_path, recordings):
    """Kaldi splits at blanks and tabs; a recording as a whole, its seconds by utt2dur or its header."""
    (tmp_path / "wav.scp").write_text("u0\ta.wav\nu1 \t b.wav\n")
    (tmp_path / "text").write_text("u0\tone two\nu1\t \n")
    (tmp_path / "utt2spk").write_text("u0\tx\nu1\ty\n")
    ds = stoker.speech(tmp_path)
    check(ds, recordings, utterances=[("a", 0, 1.5, "one two"), ("b", 0, 1.5, "")])
    assert [ds[i]["speaker"] for i in range(2)] == [b"x", b"y"] and [float(ds[i]["duration"]) for i in range(2)] == [1.5, 1.5]
    (tmp_path / "utt2dur").write_text("u0\t0.5\nu1 1.5\n")
    assert float(stoker.speech(tmp_path)[0]["duration"]) == 0.5


def test_relative_paths(tmp_path, recordings, monkeypatch):
    """Beside the list, else in the working directory; both is refused unless it is one file."""
    place = tmp_path / "lists"
    place.mkdir()
    write_lines(place / "cuts.jsonl", [monocut(pathlib.Path("."), i, *u) for i, u in enumerate(UTTERANCES)])
    monkeypatch.chdir(tmp_path)
    check(stoker.speech(place / "cuts.jsonl"), recordings)
    for name in "ab":
        (place / f"{name}.wav").symlink_to(tmp_path / f"{name}.wav")
    check(stoker.speech(place / "cuts.jsonl"), recordings)
    (place / "a.wav").unlink()
    (place / "a.wav").write_bytes((tmp_path / "b.wav").read_bytes())
    with pytest.raises(stoker.StokerError, match="in the working directory: write its whole path"):
        stoker.speech(place / "cuts.jsonl", to=tmp_path / "x.jsonl")
    monkeypatch.chdir(place)
    assert stoker.speech(place / "cuts.jsonl")[0]["path"].decode() == str(place / "a.wav")


def test_channels_of_cuts(tmp_path, monkeypatch):
    """Both sides of a call: cuts of channel 0 and 1 are these, not the mean; a channel that is not there is a bad sample."""
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))
    x = integers(tone(1.0, channels=2), 16) / 32768
    (tmp_path / "a.wav").write_bytes(wav16(x))
    cuts = [monocut(tmp_path, i, "a", 0.25 * i, 0.5, "t") for i in range(3)]
    for i, cut in enumerate(cuts):
        cut["recording"]["sources"][0]["channels"], cut["channel"] = [0, 1], i % 2
    ds = stoker.speech(write_lines(tmp_path / "cuts.jsonl", cuts))
    chain = 'from(path) | open(root="/") | sound(rate=16000, channel=channel) | part(start, duration)'
    with stoker.Loader(ds, {"x": chain}, batch_size=1) as loader:
        got = [b["x"][0].numpy().copy() for b in loader]
    assert len(got) == 3
    for i, row in enumerate(got):
        assert np.array_equal(row, x[4000 * i:4000 * i + 8000, i % 2].astype("f4"))
    cuts[0]["channel"] = 2
    with pytest.raises(stoker.StokerError, match=r"it is channel 2, and its recording has \[0, 1\]"):
        stoker.speech(write_lines(tmp_path / "cuts.jsonl", cuts))


def test_fields_that_say_which_channel(tmp_path, recordings):
    """A recording of one channel needs no number; of two it does, and the number is one of them."""
    x = tone(0.5, channels=2)
    (tmp_path / "two.wav").write_bytes(wav16(x))
    rows = [{"path": "a.wav", "side": None}, {"path": "two.wav", "side": 1}, {"path": "two.wav", "side": None}, {"path": "two.wav", "side": 2},
            {"path": "two.wav", "side": 0.5}, {"path": "two.wav", "side": -1}]
    write_lines(tmp_path / "x.jsonl", rows)
    chain = "from(path) | open | sound(rate=16000, channel=side)"
    with stoker.Loader(str(tmp_path / "x.jsonl"), {"x": chain}, batch_size=1, on_error="skip", num_workers=1) as loader:
        got = [b["x"][0].numpy().copy() for b in loader]
        bad = [b["reason"] for b in loader.stats()["bad_samples"]]
    assert np.array_equal(got[0], recordings["a"]) and np.array_equal(got[1], (integers(x, 16)[:, 1] / 32768).astype("f4"))
    assert len(bad) == 4 and "does not say which of its 2 channels" in bad[0] and "side is 2" in bad[1] and "0.5" in bad[2] and "-1" in bad[3]
    with pytest.raises(stoker.StokerError, match="nowhere"):
        stoker.Loader(str(tmp_path / "x.jsonl"), {"x": "from(path) | open | sound(channel=nowhere)"}, batch_size=1)


def nemo_lines(name="{}.wav", **more):
    return [{"audio_filepath": name.format(n), "offset": s, "duration": d, "text": t, **more} for n, s, d, t in UTTERANCES]


def write_lines(path, entries):
    text = "".join(json.dumps(e, ensure_ascii=False) + "\n" for e in entries)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def test_nemo(tmp_path, recordings):
    write_lines(tmp_path / "train.json", nemo_lines())
    check(stoker.speech(tmp_path / "train.json"), recordings)
    # its lines are a manifest of ours as they are
    write_lines(tmp_path / "train.jsonl", nemo_lines())
    check(stoker.open(str(tmp_path / "train.jsonl")), recordings,
          "from(audio_filepath) | open | sound(rate=16000) | part(start=offset, seconds=duration)")


def test_nemo_in_tars(tmp_path, recordings):
    """Members of several utterances have one name each, with -sub1 and so on in the list."""
    entries = nemo_lines(shard_id=0)
    for e, n in zip(entries, "abab"):
        e["shard_id"] = "ab".index(e["audio_filepath"][0])
        e["audio_filepath"] = e["audio_filepath"].replace(".wav", "-sub1.wav") if n != "a" else e["audio_filepath"]
    for i, name in enumerate("ab"):
        with tarfile.open(tmp_path / f"audio_{i}.tar", "w") as t:
            data = (tmp_path / f"{name}.wav").read_bytes()
            info = tarfile.TarInfo(f"{name}.wav")
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    write_lines(tmp_path / "tarred.json", entries)
    for name in ("a", "b"):
        (tmp_path / f"{name}.wav").unlink()
    check(stoker.speech(tmp_path / "tarred.json", "audio__OP_0..1_CL_.tar"), recordings)


def tar_with(path, members):
    with tarfile.open(path, "w") as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))


def test_members_of_one_name(tmp_path, recordings):
    """A recording is the member whose name has most in common with the list's; where two are as near, none is taken."""
    a, b = ((tmp_path / f"{n}.wav").read_bytes() for n in "ab")
    tar_with(tmp_path / "audio_0.tar", [("./x/u.wav", a), ("y/u.wav", b), ("y/u.json", b"{}"), ("v.json", b"{}"), ("v.wav", a)])
    tar_with(tmp_path / "audio_1.tar", [("v.wav", b)])

    def opened(*entries, tars="audio_{0..1}.tar"):
        return stoker.speech(write_lines(tmp_path / "t.json", [{"text": "", "duration": 1.5, **e} for e in entries]), tars, to=tmp_path / "o.jsonl")
    entries = [{"audio_filepath": "x/u.wav"}, {"audio_filepath": "/data/y/u.wav"}, {"audio_filepath": "v.wav", "shard_id": 0},
               {"audio_filepath": "v.flac", "shard_id": 1}, {"audio_filepath": "v-sub2.wav", "shard_id": 0}]
    check(opened(*entries), recordings, utterances=[(n, 0, 1.5, "") for n in "ababa"])
    for said, *entries in (("u.wav may be .*x/u.wav .* and y/u.wav", {"audio_filepath": "u.wav"}), ("v.wav may be", {"audio_filepath": "v.wav"}),
                           ("v.mp3 may be v.json", {"audio_filepath": "v.mp3", "shard_id": 0}),
                           ("shard 7, and no tar file", {"audio_filepath": "v.wav", "shard_id": 7}),
                           ("u.wav is in no tar file of shard 1", {"audio_filepath": "x/u.wav", "shard_id": 1}),
                           ("two names", {"audio_filepath": "p/v.wav", "shard_id": 1}, {"audio_filepath": "q/v.wav", "shard_id": 1})):
        with pytest.raises(stoker.StokerError, match=said):
            opened(*entries)


def monocut(folder, i, name, start, seconds, text):
    recording = {"id": name, "sources": [{"type": "file", "channels": [0], "source": str(folder / f"{name}.wav")}], "sampling_rate": RATE,
                 "num_samples": 24000, "duration": 1.5, "channel_ids": [0]}
    said = {"id": f"s{i}", "recording_id": name, "start": 0.0, "duration": seconds, "channel": 0, "text": text, "speaker": "x"}
    return {"id": f"cut{i}", "start": start, "duration": seconds, "channel": 0, "supervisions": [said], "recording": recording, "type": "MonoCut"}


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_lhotse(tmp_path, recordings, suffix):
    place = write_lines(tmp_path / f"cuts{suffix}", [monocut(tmp_path, i, *u) for i, u in enumerate(UTTERANCES)])
    check(stoker.speech(place), recordings)


def test_cuts_that_lhotse_writes(tmp_path, monkeypatch):
    """lhotse's own manifest, whose paths are of the working directory, and the samples that it loads (golden/make_lhotse.py)."""
    golden = pathlib.Path(__file__).parent / "golden"
    monkeypatch.syspath_prepend(golden)
    from make_lhotse import recordings, sum_of
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))
    for name, data in recordings().items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    ds = stoker.speech(golden / "cuts.jsonl.gz")
    chain = 'from(path) | open(root="/") | sound(rate=8000, channel=channel) | part(start, duration)'
    with stoker.Loader(ds, {"x": chain, "text": TEXT}, batch_size=1, num_workers=1) as loader:
        got = [(sum_of(b["x"][0].numpy()), b["text"][0]) for b in loader]
    assert got == [(c["sum"], c["text"]) for c in json.loads((golden / "loaded.json").read_text(encoding="utf-8"))["cuts"]]
    assert [int(ds[i]["channel"]) for i in range(4)] == [0, 0, 0, 1]


def test_common_voice(tmp_path, recordings):
    (tmp_path / "clips").mkdir()
    for name in "ab":
        (tmp_path / f"{name}.wav").rename(tmp_path / "clips" / f"{name}.mp3")     # content says what it is
    (tmp_path / "train.tsv").write_text("client_id\tpath\tsentence\tlocale\nx1\ta.mp3\tSay \"so\tde\nx2\tb.mp3\t\ten\n", encoding="utf-8")
    (tmp_path / "clip_durations.tsv").write_text("clip\tduration[ms]\na.mp3\t1500\nb.mp3\t1500\n")
    ds = stoker.speech(tmp_path / "train.tsv")
    check(ds, recordings, utterances=[("a", 0, 1.5, 'Say "so'), ("b", 0, 1.5, "")])
    assert ds[0]["language"] == b"de"


def test_librispeech(tmp_path, recordings):
    place = tmp_path / "train-clean" / "19" / "198"
    place.mkdir(parents=True)
    for i, name in enumerate("ab"):
        head = bytes([0x10, 0, 0x10, 0]) + bytes(6) + (RATE << 44 | 15 << 36 | 24000).to_bytes(8, "big") + bytes(16)
        (place / f"19-198-000{i}.flac").write_bytes(b"fLaC\x80\x00\x00\x22" + head)
    (place / "19-198.trans.txt").write_text("19-198-0000 HELLO THERE\n19-198-0001 WORLD\n")
    ds = stoker.speech(tmp_path / "train-clean")
    assert [ds[i]["text"] for i in range(2)] == [b"HELLO THERE", b"WORLD"] and ds[1]["speaker"] == b"19"
    assert float(ds[0]["duration"]) == 1.5 and ds[0]["path"].endswith(b"19-198-0000.flac")


KALDI = {"wav.scp": "a a.wav\n"}
WRONG = {"utt2dur": ({**KALDI, "utt2dur": "a long\n"}, ".", "utt2dur, line 1: 'long' is not a number of seconds"),
         "no seconds": ({**KALDI, "utt2dur": "a -2\n"}, ".", "utt2dur, line 1: a has -2 seconds"),
         "infinite": ({**KALDI, "segments": "u a 0 inf\n"}, ".", "line 1: 'inf' is not a number of seconds"),
         "nan": ({**KALDI, "segments": "u a 0 nan\n"}, ".", "line 1: 'nan' is not a number of seconds"),
         "negative": ({**KALDI, "segments": "u a 0 -3\n"}, ".", "line 1: it is from 0 to -3 seconds"),
         "untold": ({**KALDI, "utt2dur": "a 1\n", "text": "b hello\n"}, ".", "text: utterance a is not in it"),
         "nobody": ({**KALDI, "utt2dur": "a 1\n", "utt2spk": "b x\n"}, ".", "utt2spk: utterance a is not in it"),
         "no file": ({"wav.scp": "a\t\n"}, ".", "line 1: a has no file"),
         "no id": ({"x.jsonl": '{"type": "MonoCut", "duration": 1, "recording": {"sources": [{"type": "file", "source": "a"}]}}\n'}, "x.jsonl",
                   "a MonoCut has no id"),
         "pipe": ({"wav.scp": "a sph2pipe x |\n"}, ".", "a is a command, and none is run"),
         "segment": ({"wav.scp": "a a.wav\n", "segments": "u a 2 1\n"}, ".", "line 1: it is from 2 to 1 seconds"),
         "twice": ({"wav.scp": "a a.wav\na b.wav\n"}, ".", "line 2: a is there twice"),
         "cells": ({"x.tsv": "client_id\tpath\tsentence\nq\tx\n"}, "x.tsv", "line 2: 2 cells, and the first line has 3"),
         "json": ({"x.json": "{\n"}, "x.json", "line 1: no JSON"),
         "other": ({"x.json": '{"path": "a"}\n'}, "x.json", "neither audio_filepath"),
         "mixed": ({"x.jsonl": '{"type": "MixedCut", "tracks": []}\n'}, "x.jsonl", "a MixedCut: MonoCuts"),
         "tar": ({"x.json": '{"audio_filepath": "q.wav"}\n'}, "x.json tars", "q.wav is in no tar file"),
         "empty": ({"x.json": ""}, "x.json", "no utterance is in it"),
         "nothing": ({}, ".", "neither wav.scp"), "gone": ({}, "y.json", "there is no such file")}


@pytest.mark.parametrize("name", WRONG)
def test_lists_that_are_wrong(tmp_path, monkeypatch, name):
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))
    files, source, said = WRONG[name]
    for path, text in files.items():
        (tmp_path / path).write_text(text)
    source, *tars = source.split()
    if tars:
        tarfile.open(tmp_path / "audio_0.tar", "w").close()
    with pytest.raises(stoker.StokerError, match=said):
        stoker.speech(tmp_path / source, "audio_{0..0}.tar" if tars else None)
    assert not list((tmp_path).rglob("*.new"))


def test_fields_that_say_where(tmp_path, recordings):
    """No start is 0, no duration is to the end; a start past the end is a bad sample; after other steps fields can't say it."""
    write_lines(tmp_path / "x.jsonl", [{"path": "a.wav", "start": None}, {"path": "a.wav", "start": 0.5, "duration": 0}, {"path": "b.wav", "start": 7}])
    chain = "from(path) | open | sound(rate=16000) | part(start, duration)"
    with stoker.Loader(str(tmp_path / "x.jsonl"), {"x": chain}, batch_size=1, on_error="skip", num_workers=1) as loader:
        rows = [b["x"][0].numpy() for b in loader if bool(b.valid[0])]
        assert len(rows) == 2 and np.array_equal(rows[0], recordings["a"]) and np.array_equal(rows[1], recordings["a"][8000:])
        assert "part begins at 7" in str(loader.stats())
    for chain, said in (("from(path) | open | sound(rate=16000) | gain(1) | part(start)", "put part right after sound"),
                        ("from(path) | open | sound(rate=16000) | part(begin)", "begin")):
        with pytest.raises(stoker.StokerError, match=said):
            stoker.Loader(str(tmp_path / "x.jsonl"), {"x": chain}, batch_size=1)


def test_batches_of_trainers(tmp_path, recordings):
    ds = stoker.speech(write_lines(tmp_path / "train.json", nemo_lines()))
    with stoker.Loader(ds, {"audio": CUT + " | fbank(40)", "text": TEXT}, batch_size=4, collate="pad") as loader:
        b = stoker.k2_batch(next(iter(loader)))
    said = b["supervisions"]
    frames = [1 + (round(s * RATE) - 400) // 160 for _, _, s, _ in UTTERANCES]
    assert b["inputs"].shape == (4, max(frames), 40) and said["num_frames"].tolist() == frames
    assert said["text"] == [t for *_, t in UTTERANCES] and said["sequence_idx"].tolist() == [0, 1, 2, 3]
    assert said["start_frame"].tolist() == [0] * 4
    with stoker.Loader(ds, {"audio": CUT, "text": TEXT, "tokens": "from(start) | ints"}, batch_size=4, collate="pad") as loader, \
            pytest.raises(stoker.StokerError):
        next(iter(loader))                              # 0.25 is no list of whole numbers
    write_lines(tmp_path / "t.jsonl", [{"path": f"{n}.wav", "start": s, "duration": d, "tokens": f"{i} 7"} for i, (n, s, d, _) in enumerate(UTTERANCES)])
    with stoker.Loader(str(tmp_path / "t.jsonl"), {"audio": CUT.replace('(root="/")', ""), "tokens": "from(tokens) | ints"}, batch_size=4,
                       collate="pad") as loader:
        audio, audio_len, tokens, tokens_len = stoker.nemo_batch(next(iter(loader)))
    assert audio_len.tolist() == [len(x) for x in slices(recordings)] and audio.shape == (4, max(audio_len))
    assert tokens.tolist() == [[i, 7] for i in range(4)] and tokens_len.tolist() == [2] * 4
