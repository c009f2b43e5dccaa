# SPDX-License-Identifier: Apache-2.0
"""pack(video_gop=): videos get a keyframe every few frames; frames keep their number, their times, their turn, and what they show."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import made  # noqa: E402
from made_video import BUILD, FFMPEG, decoded, make, needs_ffmpeg, run  # noqa: E402
from test_video_turns import with_turns  # noqa: E402

stoker = pytest.importorskip("stoker")
pytestmark = needs_ffmpeg

NAMES = ["gop250.mp4", "vfr.mp4", "open.mkv", "negative.mp4", "vp9.webm", "hevc.mp4", "ten.mp4", "sound.mp4", "fragments.mp4"]


def packed(tmp_path, members, gop, **options):
    src = tmp_path / "src.tar"
    if not src.exists():
        made.write_tar(src, members)
    done = stoker.pack(str(src), tmp_path / "out", video_gop=gop, num_proc=1, **options)
    ds = stoker.open(str(tmp_path / "out" / "*.tar"))
    return done, {s["__key__"]: s for s in (dict(ds[i]) for i in range(len(ds)))}


@pytest.mark.parametrize("name", NAMES)
def test_frames_keep_their_number_and_times(tmp_path, name):
    path = make(tmp_path, name)
    field = path.suffix[1:]
    _, samples = packed(tmp_path, [(f"0.{field}", path.read_bytes()), ("0.cls", b"3")], 4)
    after = tmp_path / f"after.{field}"
    after.write_bytes(bytes(samples["0"][field]))
    assert bytes(samples["0"]["cls"]) == b"3" and after.read_bytes() != path.read_bytes()
    was, now = decoded(path), decoded(after)
    assert [t for t, _ in now] == [t for t, _ in was]
    facts = stoker._stoker.video_info(str(after).encode(), None)
    assert facts["longest_gop"] == 4 and facts["frames"] == len(was)
    chain = {"video": "from(mp4, mkv, webm) | video(frames=6, start=uniform) | resize((48, 64)) | to(u8, hwc)"}
    rows = []
    for p in (path, after):
        with stoker.Loader(str(made.write_tar(tmp_path / f"{p.stem}-one.tar", [(f"0.{field}", p.read_bytes())])), chain) as loader:
            [b] = list(loader)
            rows.append((b["video"].numpy()[0].astype(int).copy(), b.times["video"].tolist(), b.frames["video"].tolist()))
    assert rows[0][1:] == rows[1][1:]
    near = [[np.abs(a - b).mean() for b in rows[0][0]] for a in rows[1][0]]
    assert [int(np.argmin(r)) for r in near] == list(range(6)) and max(min(r) for r in near) < 8, near


def test_sound_and_turn_are_kept_and_near_keyframes_left_alone(tmp_path):
    path, short = make(tmp_path, "gop250.mp4"), make(tmp_path, "gop12.mp4")
    both = tmp_path / "both.mp4"
    run("-i", path, "-f", "lavfi", "-i", "sine=r=16000:d=3", "-map", "0:v", "-map", "1:a", "-c:v", "copy", "-c:a", "aac", both)
    turned = with_turns(path.read_bytes(), 5, 0)
    half = with_turns(path.read_bytes(), 2, 0)
    _, samples = packed(tmp_path, [("0.mp4", both.read_bytes()), ("1.mp4", turned), ("2.mp4", short.read_bytes()), ("3.mp4", half), ("3.txt", b"text")], 12)
    assert bytes(samples["2"]["mp4"]) == short.read_bytes() and bytes(samples["3"]["txt"]) == b"text"

    def load(data, chain, field="video"):
        with stoker.Loader(str(made.write_tar(tmp_path / "one.tar", [("0.mp4", bytes(data))])), {field: f"from(mp4) | {chain}"}, collate="list", seed=1) as loader:
            [b] = list(loader)
            return np.asarray(b[field][0])

    pathlib.Path(tmp_path / "one.tar").unlink(missing_ok=True)
    for was, now in ((turned, samples["1"]["mp4"]), (half, samples["3"]["mp4"])):
        shown = []
        for data in (was, now):
            shutil.rmtree(tmp_path / ".stoker", ignore_errors=True)
            shown.append(load(data, "video(frames=2, start=40) | resize((64, 64)) | to(u8, hwc)").astype(int))
        assert np.abs(shown[0] - shown[1]).mean() < 6 < np.abs(shown[0] - shown[1][:, ::-1, ::-1]).mean()
    sounds = []
    for data in (both.read_bytes(), samples["0"]["mp4"]):
        shutil.rmtree(tmp_path / ".stoker", ignore_errors=True)
        sounds.append(load(data, "sound(rate=16000)", "sound"))
    assert sounds[0].shape == sounds[1].shape and (sounds[0] == sounds[1]).all()


def test_stopped_runs_go_on(tmp_path, monkeypatch):
    """A program that fails in the second shard: the first one is there, and is not made again."""
    data = make(tmp_path, "gop250.mp4").read_bytes()
    members = [(f"{i}.mp4", data) for i in range(4)]
    (tmp_path / "bin").mkdir()
    fails = tmp_path / "bin" / "ffmpeg"
    fails.write_text(f'#!/bin/sh\necho call >> {tmp_path}/calls\n[ $(wc -l < {tmp_path}/calls) -lt 3 ] || {{ echo "no more" >&2; exit 1; }}\nexec {FFMPEG} "$@"\n')
    fails.chmod(0o755)
    with monkeypatch.context() as m:
        m.setenv("PATH", f"{fails.parent}:{os.environ['PATH']}")
        with pytest.raises(stoker.StokerError, match="mp4: ffmpeg: no more"):
            packed(tmp_path, members, 10, samples=2)
    [first] = (tmp_path / "out").glob("*.tar")
    made_at = first.stat().st_mtime_ns
    _, samples = packed(tmp_path, members, 10, samples=2)
    assert first.stat().st_mtime_ns == made_at and len(list((tmp_path / "out").glob("*.tar"))) == 2 and set(samples) == set("0123")
    with pytest.raises(stoker.StokerError, match="take another place or name"):         # another number is another pack
        packed(tmp_path, members, 20, samples=2)


def test_damage_and_missing_programs(tmp_path, monkeypatch):
    data = make(tmp_path, "gop250.mp4").read_bytes()
    members = [("0.mp4", data), ("1.mp4", data[:len(data) // 2])]
    with pytest.raises(stoker.StokerError, match="1"):
        packed(tmp_path, members, 10)
    done, samples = packed(tmp_path, members, 10, on_error="skip", force=True)
    assert set(samples) == {"0"} and done["failed"]
    for options, why in (({"video_gop": 0}, "video_gop"), ({"video_gop": 10, "map": dict}, "video_gop goes without map")):
        with pytest.raises(stoker.StokerError, match=why):
            stoker.pack(str(tmp_path / "src.tar"), tmp_path / "out2", **options)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(stoker.StokerError, match="video_gop= needs the programs ffmpeg and ffprobe, and there is no ffmpeg: apt install ffmpeg"):
        stoker.pack(str(tmp_path / "src.tar"), tmp_path / "out2", video_gop=10)


def command(*words, **env):
    cli = os.environ.get("STOKER_CLI", str(BUILD / "cli" / "stoker"))
    package = str(pathlib.Path(stoker.__file__).parents[1])
    return subprocess.run([cli, "pack", *map(str, words)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "STOKER_PYTHON": sys.executable, "PYTHONPATH": package, **env})


def test_the_command_line_has_it_too(tmp_path):
    path = make(tmp_path, "gop250.mp4")
    src = made.write_tar(tmp_path / "src.tar", [("0.mp4", path.read_bytes()), ("0.cls", b"3"), ("1.mp4", path.read_bytes()), ("1.cls", b"4")])
    done = command(src, tmp_path / "out", "--video-gop", 8, "--name", "short", "--samples", 1, "--workers", 1, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["samples"] == said["shards"] == 2 and said["failed"] == 0
    stoker.pack(str(src), tmp_path / "same", video_gop=8, name="short", samples=1, num_proc=1)
    for k in range(2):
        assert (tmp_path / "out" / f"short-{k:06d}.tar").read_bytes() == (tmp_path / "same" / f"short-{k:06d}.tar").read_bytes()
    again = command(src, tmp_path / "out", "--video-gop", 8, "--name", "short", "--samples", 1, "--workers", 1)
    assert again.returncode == 0 and again.stdout.startswith("2 samples in 2 shards, ")


@pytest.mark.parametrize("words, code, said", [
    (["--video-gop", "0"], 2, "--video-gop"),
    (["--video-gop", "8", "--arrays"], 2, "--video-gop does not go with --arrays: pack twice"),
    (["--video-gop", "8", "--where", "no = such"], 2, "where"),
    (["--video-gop", "8", "--write-plan", "plan.json"], 2, "--video-gop does not go with --write-plan: pack twice"),
])
def test_mistakes_on_the_command_line(tmp_path, words, code, said):
    src = made.write_tar(tmp_path / "src.tar", [("0.mp4", make(tmp_path, "gop12.mp4").read_bytes())])
    done = command(src, tmp_path / "out", *words)
    assert done.returncode == code and said in done.stderr and done.stderr.count("\n") == 1 and not done.stdout, (done.returncode, done.stderr)


def test_a_python_that_is_not_there(tmp_path):
    src = made.write_tar(tmp_path / "src.tar", [("0.mp4", make(tmp_path, "gop12.mp4").read_bytes())])
    done = command(src, tmp_path / "out", "--video-gop", 8, STOKER_PYTHON="/no/python")
    assert done.returncode == 3 and "/no/python could not be run (No such file or directory); STOKER_PYTHON names another one" in done.stderr
