# SPDX-License-Identifier: Apache-2.0
"""What the tables of videos say, against FFmpeg, NumPy and mkvpropedit: turns, fragments, last frames, even numbers; and the tools that show it."""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import made  # noqa: E402
from made_video import BUILD, DUMP, FFMPEG, decoded, dump, make, needs_ffmpeg, run  # noqa: E402

stoker = pytest.importorskip("stoker")
pytestmark = needs_ffmpeg
CLI = pathlib.Path(os.environ.get("STOKER_CLI", BUILD / "cli" / "stoker"))
B12 = "-c:v libx264 -preset ultrafast -crf 30 -x264-params bframes=3:b-pyramid=normal:keyint=12:min-keyint=12:scenecut=0:threads=1"


def load(tar, chain, **options):
    with stoker.Loader(str(tar), {"video": f"from(mp4) | {chain}"}, batch_size=2, on_error="raise", **options) as loader:
        return [b["video"].numpy().copy() for b in loader]


# ---- turns ----

TURNS = {1: (1, 0, 0, 1), 2: (-1, 0, 0, 1), 3: (-1, 0, 0, -1), 4: (1, 0, 0, -1), 5: (0, 1, 1, 0), 6: (0, 1, -1, 0), 7: (0, -1, -1, 0), 8: (0, -1, 1, 0)}


def turned(px, k):
    """The eight turns and mirrorings of (..., h, w) pixels."""
    px = np.rot90(px, k % 4, axes=(-2, -1))
    return px[..., ::-1] if k >= 4 else px


def with_matrix(data, matrix):
    """The file with another matrix in its track's head."""
    at = data.index(b"tkhd") + 44
    a, b, c, d = matrix
    old = struct.pack(">9i", 65536, 0, 0, 0, 65536, 0, 0, 0, 1 << 30)
    assert data[at:at + 36] == old
    return data[:at] + struct.pack(">9i", a << 16, b << 16, 0, c << 16, d << 16, 0, 0, 0, 1 << 30) + data[at + 36:]


def luma(path, w, h, *options):
    raw = subprocess.run([FFMPEG, "-v", "error", *options, "-i", path, "-map", "0:v", "-pix_fmt", "yuv420p", "-f", "rawvideo", "-"], check=True,
                         capture_output=True, stdin=subprocess.DEVNULL).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, w * h * 3 // 2)[:, :w * h].reshape(-1, h, w)


@pytest.mark.parametrize("turn", range(1, 9))
def test_turns_of_mp4_are_ffmpegs(tmp_path, turn):
    """How FFmpeg turns a frame is found from its own pixels; ours are turned the same way."""
    data = make(tmp_path, "end.mov").read_bytes()
    path = tmp_path / "turned.mov"
    path.write_bytes(with_matrix(data, TURNS[turn]))
    w, h = (96, 160) if turn > 4 else (160, 96)
    filed, upright = luma(path, 160, 96, "-noautorotate"), luma(path, w, h)
    [how] = [k for k in range(8) if (t := turned(filed, k)).shape == upright.shape and (t == upright).all()]
    tar = made.write_tar(tmp_path / "a.tar", [("0.mp4", data), ("1.mp4", path.read_bytes())])
    chain = "video(frames=3, start=5) | center_crop((160, 160)) | to(u8, chw)"
    [[as_filed, got]] = load(tar, chain)
    assert (got == turned(as_filed, how)).all() and (turn == 1) == (how == 0)
    assert dump(path)[0]["turn"] == turn


@pytest.mark.skipif(not shutil.which("mkvpropedit"), reason="mkvpropedit turns the files: apt install mkvtoolnix")
@pytest.mark.parametrize("roll, yaw, k", [(0, 0, 0), (90, 0, 1), (180, 0, 2), (-180, 0, 2), (-90, 0, 3), (270, 0, 3), (0, 180, 4), (90, 180, None), (45, 0, 0)])
def test_turns_of_matroska(tmp_path, roll, yaw, k):
    """ProjectionPoseRoll is counter-clockwise, as np.rot90() turns; a yaw of half a turn mirrors first."""
    plain = make(tmp_path, "open.mkv")
    path = tmp_path / "turned.mkv"
    shutil.copy(plain, path)
    edits = [w for name, v in (("roll", roll), ("yaw", yaw)) if v for w in ("--set", f"projection-pose-{name}={v}")]
    if edits:
        subprocess.run(["mkvpropedit", path, "--edit", "track:v1", *edits], check=True, capture_output=True)
    tar = made.write_tar(tmp_path / "a.tar", [("0.mp4", plain.read_bytes()), ("1.mp4", path.read_bytes())])
    [[as_filed, got]] = load(tar, "video(frames=2, start=5) | center_crop((160, 160)) | to(u8, chw)")
    want = np.rot90(as_filed[..., ::-1], 1, axes=(-2, -1)) if k is None else turned(as_filed, k)
    assert (got == want).all()


# ---- times and places ----

def test_the_last_frame_has_a_length(tmp_path):
    """Matroska without DefaultDuration, and B-frames: the last frame in decode order is not the last one that is shown."""
    path = make(tmp_path, "open.mkv")
    data = bytearray(path.read_bytes())
    at = data.index(b"\x23\xe3\x83\x84")  # DefaultDuration, four bytes: it becomes a Void element
    data[at:at + 8] = b"\xec\x86" + bytes(6)
    path.write_bytes(data)
    head, frames, _ = dump(path)
    times = [f[0] for f in frames]
    assert head["end_us"] - times[-1] == times[-1] - times[-2] > 0
    (tmp_path / "list.csv").write_text(f"path,time\nopen.mkv,{times[-1] / 1e6:.6f}\nopen.mkv,{times[-1] / 1e6 + 0.02:.6f}\n")
    fields = {"video": "from(path) | open | video(at=time, frames=1, pad=error) | resize((24, 40))", "time": "from(time) | float"}
    with stoker.Loader(str(tmp_path / "list.csv"), fields, batch_size=2, on_error="raise") as loader:
        [batch] = list(loader)
    assert batch.frames["video"].ravel().tolist() == [len(times) - 1] * 2


@pytest.mark.parametrize("order", [("1:a", "0:v"), ("0:v", "1:a")])
@pytest.mark.parametrize("flags", ["+omit_tfhd_offset", "+default_base_moof", ""])
def test_fragments_count_from_where_they_should(tmp_path, order, flags):
    """Without a base, places of a later track count from the end of the data of the one before it."""
    path = tmp_path / "a.mp4"
    run("-f", "lavfi", "-i", "testsrc2=size=160x96:rate=30", "-f", "lavfi", "-i", "sine=r=16000", "-map", order[0], "-map", order[1],
        "-t", 2, *B12.split(), "-pix_fmt", "yuv420p", "-c:a", "aac", "-movflags", f"+frag_keyframe+empty_moov{flags}", path)
    whole = decoded(path)
    head, frames, [got] = dump(path, [("whole", range(len(whole)))])
    assert head["shown"] == len(whole) == 60
    assert [(t, crc) for _, t, crc in got] == whole


def test_even_numbers_are_numpys():
    """start=uniform and uniform_even for every length and number of frames: floor(x + 0.5) and round(x) of NumPy's linspace()."""
    got = np.frombuffer(subprocess.run([DUMP, "--uniform", "2000", "64"], check=True, capture_output=True).stdout, np.uint16)
    at = 0
    for n in range(1, 65):
        want = np.empty((2000, n))
        want[0] = np.linspace(0, 0, n)
        want[1:] = np.linspace(0, np.arange(1, 2000), n).T
        for one in (np.floor(want + 0.5), np.round(want)):
            assert (got[at:at + one.size].reshape(one.shape) == one).all(), n
            at += one.size
    assert at == got.size


# ---- MJPEG ----

@pytest.mark.parametrize("name, fmt", [("a.mkv", "yuvj420p"), ("a.mov", "yuvj422p"), ("a.mp4", "yuvj444p")])
def test_mjpeg_is_its_jpegs(tmp_path, name, fmt):
    """To pixels: bit for bit those of the JPEGs by Pillow, and near FFmpeg's own."""
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / name
    run("-f", "lavfi", "-i", "testsrc2=size=160x96:rate=30", "-frames:v", 12, "-c:v", "mjpeg", "-q:v", 3, "-pix_fmt", fmt, path)
    run("-i", path, "-c", "copy", "-f", "image2", tmp_path / "%02d.jpg")
    tar = made.write_tar(tmp_path / "a.tar", [("0.mp4", path.read_bytes())])
    [[got]] = load(tar, "video(frames=5, stride=2, start=1) | center_crop((96, 160)) | to(u8, hwc)")
    want = [np.asarray(image.open(tmp_path / f"{k + 1:02d}.jpg").convert("RGB")) for k in range(1, 11, 2)]
    assert (got == np.stack(want)).all()
    raw = subprocess.run([FFMPEG, "-v", "error", "-i", path, "-pix_fmt", "rgb24", "-sws_flags", "accurate_rnd+full_chroma_int", "-f", "rawvideo", "-"],
                         check=True, capture_output=True).stdout
    theirs = np.frombuffer(raw, np.uint8).reshape(-1, 96, 160, 3)[1:11:2]
    assert np.abs(got.astype(int) - theirs).mean() < 3


# ---- Hugging Face ----

def test_video_columns_of_hugging_face(tmp_path):
    """Video() stores bytes and path: both are read from Parquet and from the data set in memory."""
    datasets = pytest.importorskip("datasets")
    path = make(tmp_path, "gop12.mp4")
    tar = made.write_tar(tmp_path / "a.tar", [("0.mp4", path.read_bytes())])
    [[want]] = load(tar, "video(frames=3, start=7) | center_crop((96, 160)) | to(u8)")
    features = datasets.Features({"video": datasets.Video(), "label": datasets.Value("int64")})
    rows = datasets.Dataset.from_dict({"video": [{"bytes": path.read_bytes(), "path": None}] * 2, "label": [3, 5]}, features=features)
    rows.to_parquet(str(tmp_path / "a.parquet"))
    named = datasets.Dataset.from_dict({"video": [str(path)] * 2, "label": [3, 5]}, features=features)
    chain = "video(frames=3, start=7) | center_crop((96, 160)) | to(u8)"
    for data, start in ((str(tmp_path / "a.parquet"), "from(video)"), (stoker.open(rows), "from(video)"),
                        (stoker.open(named), f"from(video.path) | open(root='{tmp_path}')")):
        with stoker.Loader(data, {"video": f"{start} | {chain}", "label": "from(label) | int"}, batch_size=2, on_error="raise") as loader:
            [batch] = list(loader)
        assert batch["label"].tolist() == [3, 5]
        assert all((row == want).all() for row in batch["video"].numpy())


# ---- tools ----

def cli(*args, folder):
    done = subprocess.run([CLI, *map(str, args)], capture_output=True, text=True, timeout=180, env={**os.environ, "STOKER_CACHE": str(folder / "cache")})
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """Videos with sound and without, of two codecs; a picture and a label beside them."""
    folder = tmp_path_factory.mktemp("four")
    paths = [make(folder, n) for n in ("gop12.mp4", "gop250.mp4", "sound.mp4", "vp9.webm")]
    return made.write_tar(folder / "a.tar", [m for i, p in enumerate(paths) for m in ((f"{i}.mp4", p.read_bytes()), (f"{i}.jpg", made.jpeg(i)), (f"{i}.cls", b"3"))])


def test_describe_shows_videos(four, tmp_path):
    done = cli("describe", four, folder=tmp_path)
    got = json.loads(done.stdout)
    f = got["features"]
    assert got["bad"] == 0 and done.stderr == ""
    assert f["mp4.codec"]["values"] == {"H.264": 3, "VP9": 1}
    assert sorted({int(q) for q in f["mp4.frames"]["quantiles"]}) == [40, 60, 90] and f["mp4.frames"]["count"] == 4
    assert f["mp4.fps"]["mean"] == pytest.approx(30, abs=0.5) and f["mp4.width"]["mean"] == 160 and f["mp4.height"]["mean"] == 96
    assert (f["mp4.gop"]["quantiles"][0], f["mp4.gop"]["quantiles"][-1]) == (12, 90)
    assert f["mp4.seconds"]["quantiles"][-1] == pytest.approx(3, abs=0.1)
    assert f["mp4.channels"]["count"] == 1 and f["jpg.width"]["count"] == 4 and "jpg.codec" not in f


def test_describe_names_bad_videos_and_long_groups(four, tmp_path):
    data = make(tmp_path, "gop250.mp4").read_bytes()
    tar = made.write_tar(tmp_path / "b.tar", [("0.mp4", data), ("1.mp4", data[:60]), ("2.mp4", data)])
    done = cli("describe", tar, folder=tmp_path)
    assert json.loads(done.stdout)["bad"] == 1
    assert done.stderr.startswith("mp4: keyframes are up to 90 frames apart") and "stoker.pack(SRC, DST, video_gop=16)" in done.stderr


@pytest.mark.parametrize("points", [False, True])
def test_schema_shows_the_first_video(four, tmp_path, points):
    if points:
        cli("index", four, "--points", folder=tmp_path)
    text = cli("ls", "--schema", four, folder=tmp_path).stdout
    assert "sample 0: H.264, 160x96, 30 frames/s, 60 frames, 2 s, keyframes up to 12 frames apart" in text and text.count("sample 0") == 1
    rows = {r["name"]: r for r in map(json.loads, cli("ls", "--schema", "--json", four, folder=tmp_path).stdout.splitlines())}
    assert rows["mp4"]["video"] == {"codec": "H.264", "width": 160, "height": 96, "fps": 30, "frames": 60, "seconds": 2, "gop": 12}
    assert "video" not in rows["jpg"] and "video" not in rows["cls"]
