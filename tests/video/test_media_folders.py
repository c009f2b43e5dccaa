# SPDX-License-Identifier: Apache-2.0
"""Folders of videos and of recordings are data sets as folders of pictures are: a sample a file, a class a folder."""
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "sound")]
from made_video import make, needs_ffmpeg  # noqa: E402
from sounds import RATE, tone, wav16  # noqa: E402
from test_clips import frames_of  # noqa: E402

stoker = pytest.importorskip("stoker")


def put(path, data=b""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture
def recordings(tmp_path):
    """Two classes of WAV files of 1.0, 1.1, ... seconds, each with its text."""
    for i in range(6):
        put(tmp_path / f"s/{('no', 'yes')[i % 2]}/deep/{i}.wav", wav16(tone(1 + i / 10, seed=i)))
        put(tmp_path / f"s/{('no', 'yes')[i % 2]}/deep/{i}.txt", f"text {i}".encode())
    return tmp_path / "s"


def test_recordings(recordings):
    ds = stoker.open(recordings)
    assert ds.classes == ["no", "yes"] and len(ds) == 6
    fields = {"x": "from(wav) | sound(rate=16000)", "sound": "sound(rate=16000)", "label": "from(cls) | int", "text": "from(txt) | text"}
    with stoker.Loader(ds, fields, batch_size=6, collate="list", num_workers=1) as loader:
        batch = next(iter(loader))
    assert batch["label"].tolist() == [0, 0, 0, 1, 1, 1] and list(batch["text"]) == [f"text {i}" for i in (0, 2, 4, 1, 3, 5)]
    for x, same, i in zip(batch["x"], batch["sound"], (0, 2, 4, 1, 3, 5), strict=True):
        assert np.asarray(x).reshape(-1).shape == (round((1 + i / 10) * RATE),) and (np.asarray(x) == np.asarray(same)).all()


def test_seconds_are_known_from_heads(recordings):
    with stoker.Loader(recordings, {"x": "from(sound) | sound(rate=16000)"}, max_seconds=4, collate="pad", num_workers=1) as loader:
        assert all(b["x"].shape[0] * b["x"].shape[-1] <= 4 * RATE for b in loader) and len(loader) == 3


def test_a_folder_has_one_kind(tmp_path):
    """Pictures come before videos, as ever: a film beside photographs is none of the samples."""
    for name in ("a/1.jpg", "b/2.jpg"):
        put(tmp_path / name)
        Image.new("RGB", (16, 16)).save(tmp_path / name)
    put(tmp_path / "a/3.mp4", b"film")
    put(tmp_path / "4.wav", b"sound")
    put(tmp_path / "5.mp4", b"film")
    ds = stoker.open(tmp_path)
    assert [s["__key__"] for s in ds] == ["a/1.jpg", "b/2.jpg"] and sorted(ds.fields) == ["cls", "image"]


def test_flat(recordings, tmp_path):
    for i, path in enumerate(sorted(recordings.rglob("*.wav"))):
        put(tmp_path / f"flat/{i}.WAV", path.read_bytes())
    ds = stoker.open(tmp_path / "flat")
    assert len(ds) == 6 and ds.classes == [] and list(ds.fields) == ["sound"]


def test_what_has_no_such_file_is_said(tmp_path):
    put(tmp_path / "e/notes.md")
    with pytest.raises(stoker.StokerError, match=r"no pictures \(.*\), videos \(.*\) or sound"):
        stoker.open(tmp_path / "e")
    put(tmp_path / "f/cat/1.wav", wav16(tone(0.1)))
    put(tmp_path / "f/dog/readme.md")
    with pytest.raises(stoker.StokerError, match="the class has no picture .*video .*or sound .*dog"):
        stoker.open(tmp_path / "f")
    with pytest.raises(stoker.StokerError, match=r"a recording is no shard: open the folder, .* \| open \| sound"):
        stoker.open(tmp_path / "f/cat/1.wav")


def test_classes_of_two_kinds(tmp_path):
    """A class of recordings beside one of pictures: a chain finds what it wants in one of them alone, and says so."""
    put(tmp_path / "cat/1.wav", wav16(tone(0.1)))
    put(tmp_path / "dog/1.jpg")
    Image.new("RGB", (16, 16)).save(tmp_path / "dog/1.jpg")
    with pytest.raises(stoker.StokerError, match="image"), \
            stoker.Loader(tmp_path, {"image": "image | resize((8, 8))"}, batch_size=2, num_workers=0) as loader:
        list(loader)


@needs_ffmpeg
def test_videos(tmp_path):
    for i, name in enumerate(("gop12.mp4", "open.mkv")):
        (tmp_path / f"v/{i}").mkdir(parents=True)
        make(tmp_path / f"v/{i}", name)
    ds = stoker.open(tmp_path / "v")
    assert ds.classes == ["0", "1"] and [s["__key__"] for s in ds] == ["0/gop12.mp4", "1/open.mkv"]
    fields = {"x": "from(mp4) | video(frames=4, start=3) | center_crop((96, 160)) | to(u8, hwc)", "video": "video(frames=4, start=3) | center_crop((96, 160)) | to(u8, hwc)", "label": "from(cls) | int"}
    with stoker.Loader(ds, fields, batch_size=2, num_workers=1) as loader:
        batch = next(iter(loader))
    assert (np.asarray(batch["x"]) == np.asarray(batch["video"])).all() and batch["label"].tolist() == [0, 1]
    for i, name in enumerate(("gop12.mp4", "open.mkv")):
        wanted = frames_of(tmp_path / f"v/{i}/{name}", 160, 96)[3:7]
        assert np.abs(np.asarray(batch["x"][i]).astype(int) - wanted).mean() < 3
    pytest.importorskip("pyarrow")
    assert len(stoker.open(tmp_path / "v", windows=stoker.Windows(frames=16))) == 60 // 16 + 72 // 16


@needs_ffmpeg
def test_on_the_command_line(tmp_path, recordings):
    cli = pathlib.Path(__import__("os").environ.get("STOKER_CLI", HERE.parents[1] / "build/cli/stoker"))
    said = subprocess.run([cli, "describe", recordings], capture_output=True, text=True, check=True).stdout
    assert '"sound.seconds"' in said and '"samples": 6' in said
    assert subprocess.run([cli, "check", recordings], capture_output=True, text=True).returncode == 0
    put(recordings / "yes/deep/bad.wav", b"RIFF\0\0\0\0WAVEfmt ")
    bad = subprocess.run([cli, "check", recordings], capture_output=True, text=True)
    assert bad.returncode != 0 and "bad.wav" in bad.stdout + bad.stderr
