# SPDX-License-Identifier: Apache-2.0
"""Clips in chains: which frames, their pixels by our own definition, shapes, padding, bad videos."""
import pathlib
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import made  # noqa: E402
from made_video import FFMPEG, make, needs_ffmpeg  # noqa: E402

stoker = pytest.importorskip("stoker")
pytestmark = needs_ffmpeg

KR_KB = {"601": (0.299, 0.114), "709": (0.2126, 0.0722)}


def between(n, size, cosited):
    """The two samples of a halved axis for each of n places, and the weight of the second, of 4."""
    i = np.arange(n) // 2
    odd = np.arange(n) % 2
    last = size - 1
    if cosited:
        return i.clip(0, last), (i + 1).clip(0, last), odd * 2
    return i.clip(0, last), np.where(odd, i + 1, i - 1).clip(0, last), np.ones(n, int)


def rgb(y, u, v, bits, half, full=False, matrix="601", cosited_x=True, cosited_y=False):
    """docs/video.md, written down again in NumPy."""
    h, w = y.shape

    def wide(c):
        c = c.astype(np.int64)
        a, b, k = between(w, c.shape[1], cosited_x) if half[0] else (np.arange(w), np.arange(w), np.zeros(w, int))
        c = (4 - k) * c[:, a] + k * c[:, b]
        a, b, k = between(h, c.shape[0], cosited_y) if half[1] else (np.arange(h), np.arange(h), np.zeros(h, int))
        return (4 - k)[:, None] * c[a] + k[:, None] * c[b]

    kr, kb = KR_KB[matrix]
    kg = 1 - kr - kb
    deep, most = 1 << (bits - 8), (1 << bits) - 1
    sy, sc = (255 * deep / most,) * 2 if full else (255 / 219, 255 / 224)
    q = [round(8192 * x) for x in (sy, sc * 2 * (1 - kr), sc * 2 * kb * (1 - kb) / kg, sc * 2 * kr * (1 - kr) / kg, sc * 2 * (1 - kb))]
    luma = q[0] * 16 * (y.astype(np.int64) - (0 if full else 16 * deep)) + (1 << (13 + bits - 8 + 3))
    cu, cv = wide(u) - 16 * 128 * deep, wide(v) - 16 * 128 * deep
    out = np.stack([luma + q[1] * cv, luma - q[2] * cu - q[3] * cv, luma + q[4] * cu], -1)
    return (out >> (13 + bits - 8 + 4)).clip(0, 255).astype(np.uint8)


def frames_of(path, w, h, bits=8, half=(1, 1), **how):
    raw = subprocess.run([FFMPEG, "-v", "error", "-noautorotate", "-i", path, "-map", "0:v", "-vsync", "passthrough", "-f", "rawvideo", "-"], check=True,
                         capture_output=True, stdin=subprocess.DEVNULL).stdout
    data = np.frombuffer(raw, np.uint8 if bits == 8 else "<u2")
    cw, ch = (w + half[0]) >> half[0], (h + half[1]) >> half[1]
    out = []
    for one in data.reshape(-1, w * h + 2 * cw * ch):
        y, u, v = np.split(one, [w * h, w * h + cw * ch])
        out.append(rgb(y.reshape(h, w), u.reshape(ch, cw), v.reshape(ch, cw), bits, half, **how))
    return np.stack(out)


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    """A tar of two videos, and their frames."""
    folder = tmp_path_factory.mktemp("clips")
    paths = [make(folder, "gop12.mp4"), make(folder, "open.mkv")]
    tar = made.write_tar(folder / "a.tar", [("0.mp4", paths[0].read_bytes()), ("0.cls", b"3"), ("1.mp4", paths[1].read_bytes()), ("1.cls", b"5")])
    return str(tar), [frames_of(p, 160, 96) for p in paths]


def load(tar, chain, **options):
    with stoker.Loader(tar, {"video": f"from(mp4) | {chain}"}, batch_size=2, **options) as loader:
        return [b["video"].numpy().copy() for b in loader]


def test_pixels_are_those_of_the_definition(shard):
    tar, want = shard
    [got] = load(tar, "video(frames=5, stride=3, start=7) | center_crop((96, 160)) | to(u8, hwc)")
    assert got.shape == (2, 5, 96, 160, 3)
    for row, frames in zip(got, want, strict=True):
        assert (row == frames[7:22:3]).all()


@pytest.mark.parametrize("name, how", [("ten.mp4", {"bits": 10}), ("422.mp4", {"half": (1, 0)}), ("full.mp4", {"full": True, "matrix": "709"}),
                                       ("odd.mp4", {"half": (0, 0)})])
def test_other_planes(tmp_path, name, how):
    path = make(tmp_path, name)
    w, h = (131, 77) if name == "odd.mp4" else (64, 48)
    tar = made.write_tar(tmp_path / "a.tar", [("0.mp4", path.read_bytes())])
    [got] = load(str(tar), f"video(frames=3, start=2) | center_crop(({h}, {w})) | to(u8, hwc)")
    assert (got[0] == frames_of(path, w, h, **how)[2:5]).all()


def test_one_draw_holds_for_all_frames(shard):
    """What the loader makes of each frame alone, from a clip of one, is what it makes of it in a clip."""
    tar, _ = shard
    ops = "random_resized_crop(32) | hflip | color_jitter(0.4, 0.4, 0.4) | to(u8)"
    [clip] = load(tar, f"video(frames=4, stride=2, start=10) | {ops}", seed=3)
    assert clip.shape == (2, 4, 3, 32, 32)
    for i in range(4):
        [one] = load(tar, f"video(frames=1, start={10 + 2 * i}) | {ops}", seed=3)
        assert (one[:, 0] == clip[:, i]).all()


def test_layouts_and_views(shard):
    tar, _ = shard
    [thw] = load(tar, "video(frames=3, start=0) | resize((24, 40)) | to(f32)")
    [cthw] = load(tar, "video(frames=3, start=0) | resize((24, 40)) | to(f32, cthw)")
    assert thw.shape == (2, 3, 3, 24, 40) and cthw.shape == (2, 3, 3, 24, 40)
    assert (cthw == thw.transpose(0, 2, 1, 3, 4)).all()
    [views] = load(tar, "video(frames=3, start=0) | views(2) | random_crop(16) | to(u8)")
    assert views.shape == (2, 2, 3, 3, 16, 16)
    assert (views[:, 0] != views[:, 1]).any()


def index_of(frame, frames):
    same = [i for i, f in enumerate(frames) if (f == frame).all()]
    assert len(same) == 1, same
    return same[0]


@pytest.mark.parametrize("args, expected", [
    ("frames=4, stride=5, start=50, pad=last", [50, 55, 59, 59]), ("frames=4, stride=5, start=50, pad=wrap", [50, 55, 0, 5]),
    ("frames=4, stride=10, start=center", [14, 24, 34, 44]), ("frames=4, start=uniform", [0, 20, 39, 59]), ("frames=3, start=uniform", [0, 30, 59]),
    ("frames=3, start=uniform_even", [0, 30, 59]), ("frames=3, fps=10, start=5", [5, 8, 11]), ("frames=4, fps=8, start=0", [0, 3, 7, 11]),
])
def test_which_frames(shard, args, expected):
    tar, want = shard
    [got] = load(tar, f"video({args}) | center_crop((96, 160)) | to(u8, hwc)")
    assert [index_of(f, want[0]) for f in got[0]] == expected


def test_random_starts(shard):
    tar, want = shard
    chain = "video(frames=2, stride=3) | center_crop((96, 160)) | to(u8, hwc)"
    starts = set()
    for seed in range(6):
        [got] = load(tar, chain, seed=seed)
        first, second = (index_of(f, want[0]) for f in got[0])
        assert second == first + 3
        starts.add(first)
        assert (got == load(tar, chain, seed=seed, num_workers=0)[0]).all()
    assert len(starts) > 2


def test_a_file_of_its_own_is_read_in_parts(tmp_path):
    """A manifest names the files: only tables and packets of the clip are read, and the pixels are the same."""
    path = make(tmp_path, "gop250.mp4")
    (tmp_path / "list.csv").write_text("path\ngop250.mp4\n")
    chain = "from(path) | open | video(frames=2, start=3) | center_crop((96, 160)) | to(u8, hwc)"
    with stoker.Loader(str(tmp_path / "list.csv"), {"video": chain}, batch_size=1) as loader:
        [got] = [b["video"].numpy().copy() for b in loader]
        stats = loader.stats()
    assert (got[0] == frames_of(path, 160, 96)[3:5]).all()
    assert stats["bytes"] < stats["samples"] * path.stat().st_size / 2


@pytest.mark.parametrize("args, expected", [
    ("at=time, offsets=(-0.1, 0.0, 0.1)", lambda k: [k - 3, k, k + 3]), ("at=time, frames=2, stride=4", lambda k: [k, k + 4]),
    ("at=time, frames=2, fps=10", lambda k: [k, k + 3]), ("at=time, offsets=(0.0, -9.0)", lambda k: [k, 0]),
])
def test_frames_around_a_time(tmp_path, args, expected):
    """Rows name a file and a time: the nearest frames, of the bytes that hold them."""
    path = make(tmp_path, "gop12.mp4")
    want = frames_of(path, 160, 96)
    times = [10, 31, 44]
    (tmp_path / "list.csv").write_text("path,time\n" + "".join(f"gop12.mp4,{k / 30 + 0.004:.6f}\n" for k in times))
    chain = f"from(path) | open | video({args}) | center_crop((96, 160)) | to(u8, hwc)"
    with stoker.Loader(str(tmp_path / "list.csv"), {"video": chain, "time": "from(time) | float"}, batch_size=3) as loader:
        [got] = [b["video"].numpy().copy() for b in loader]
        stats = loader.stats()
    for k, row in zip(times, got, strict=True):
        assert [index_of(f, want) for f in row] == expected(k)
    assert "-9.0" in args or stats["bytes"] < stats["samples"] * path.stat().st_size / 2


def test_bad_videos(tmp_path):
    path = make(tmp_path, "gop250.mp4")  # its tables come first
    data = path.read_bytes()
    cut = data[:len(data) * 2 // 3]
    tar = made.write_tar(tmp_path / "a.tar", [("0.mp4", cut)])
    load(str(tar), "video(frames=2, start=0) | resize((24, 40))")  # these are there
    for bad, chain, why in [
            (cut, "video(frames=2, start=80)", "the packet of frame .* in decode order is at byte .* and the file ends at"),
            (data[:60], "video(frames=2)", "its moov box at byte 32 has"),
            (data, "video(frames=100, pad=error, start=0)", "the video has 90 frames, and the clip needs 91"),
            (made.jpeg(1), "video(frames=1)", "are a picture, not a video"),
            (b"RIFF0000AVI ", "video(frames=1)", "are not a video that is read"),
            (data, "image", "it is a video .mp4., not a picture"),
    ]:
        (folder := tmp_path / why[:9]).mkdir()
        made.write_tar(folder / "b.tar", [("0.mp4", bad)])
        with pytest.raises(stoker.StokerError, match=why):
            load(str(folder / "b.tar"), f"{chain} | resize((24, 40))", on_error="raise")


@pytest.mark.parametrize("chain, why", [
    ("video(frames=2)", "frames have one size"), ("video(frames=0) | resize((8, 8))", "frames=0 is not in"),
    ("video(start=middle) | resize((8, 8))", "start is random, center"), ("video(pad=zero) | resize((8, 8))", "pad is last, wrap or error"),
    ("video(keyframes=true, fps=8) | resize((8, 8))", "leave fps= out"), ("video(tolerance=1.0) | resize((8, 8))", "of the times of at="),
    ("video(fps=8, stride=2) | resize((8, 8))", "leave stride= out"), ("video(at=time) | resize((8, 8))", "names no output of one number"),
    ("video(offsets=(0.0, 1.0)) | resize((8, 8))", "counted from at="), ("video(at=t, start=4) | resize((8, 8))", "leave start= out"), ("image | resize((8, 8)) | to(u8, cthw)", "cthw is of frames"),
])
def test_wrong_chains(shard, chain, why):
    with pytest.raises(stoker.StokerError, match=why):
        load(shard[0], chain)


def test_times_and_numbers_stand_beside(shard):
    tar, want = shard
    with stoker.Loader(tar, {"video": "from(mp4) | video(frames=4, stride=3, start=50) | center_crop((96, 160)) | to(u8, hwc)"}, batch_size=2) as loader:
        [batch] = list(loader)
    assert batch.frames["video"].tolist() == [[50, 53, 56, 59]] * 2
    assert np.abs(np.asarray(batch.times["video"]) - np.array([50, 53, 56, 59]) / 30).max() < 2e-6 + 1e-3  # Matroska counts milliseconds
    for row, numbers, frames in zip(batch["video"].numpy(), batch.frames["video"].tolist(), want, strict=True):
        assert [index_of(f, frames) for f in row] == numbers


@pytest.mark.parametrize("args, expected", [
    ("frames=5, start=0", [0, 12, 24, 36, 48]), ("frames=2, stride=2, start=1", [12, 36]), ("frames=6, start=0", [0, 12, 24, 36, 48, 48]),
    ("frames=3, start=uniform", [0, 24, 48]), ("frames=7, start=0, pad=wrap", [0, 12, 24, 36, 48, 0, 12]),
])
def test_keyframes_alone(shard, args, expected):
    tar, want = shard
    with stoker.Loader(tar, {"video": f"from(mp4) | video({args}, keyframes=true) | center_crop((96, 160)) | to(u8, hwc)"}, batch_size=1, limit=1) as loader:
        [batch] = list(loader)
    assert batch.frames["video"].tolist() == [expected]
    assert [index_of(f, want[0]) for f in batch["video"].numpy()[0]] == expected


def test_a_video_that_is_read_whole_leaves_nothing_to_the_next(tmp_path):
    """A video without keyframes is read whole, and then others by ranges with the same decoder."""
    names = ["refresh.mp4", "gop12.mp4", "odd.mp4", "vfr.mp4", "refresh.mp4", "fragments.mp4"]
    fields = {"video": "from(mp4) | video(frames=4, start=center) | resize((20, 30)) | to(u8)"}
    paths = [make(tmp_path, name) if i == names.index(name) else tmp_path / name for i, name in enumerate(names)]

    def rows(name, paths):
        tar = made.write_tar(tmp_path / name, [(f"{i}.mp4", p.read_bytes()) for i, p in enumerate(paths)])
        with stoker.Loader(str(tar), fields, batch_size=1, num_workers=0) as loader:
            return [(b["video"].numpy().tobytes(), b.frames["video"].tolist()) for b in loader]
    alone = [row for i, p in enumerate(paths) for row in rows(f"{i}.tar", [p])]
    assert rows("all.tar", paths) == alone


@pytest.mark.parametrize("num_workers", [None, 2])
def test_rows_of_a_table_name_files_and_times(tmp_path, num_workers):
    """A table in memory, and its Parquet file: a path, and a time for each frame; lists that share values are views."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = make(tmp_path, "gop12.mp4")
    want = frames_of(path, 160, 96)
    shown = [k / 30 for k in range(60)]
    views = pa.LargeListViewArray.from_arrays(pa.array([10, 0, 57, 11], pa.int64()), pa.array([3, 3, 3, 3], pa.int64()), pa.array(shown))
    table = pa.table({"path": ["gop12.mp4"] * 4, "times": views})
    fields = {"video": f"from(path) | open(root='{tmp_path}') | video(frames=3, at=times, tolerance=0.001) | center_crop((96, 160)) | to(u8, hwc)",
              "times": "from(times)"}
    pq.write_table(table.set_column(1, "times", pa.array(views.to_pylist(), pa.list_(pa.float64(), 3))), tmp_path / "rows.parquet", row_group_size=2)
    for source in (stoker.open(table), str(tmp_path / "rows.parquet")):
        with stoker.Loader(source, fields, batch_size=4, num_workers=num_workers) as loader:
            [batch] = list(loader)
        assert batch.frames["video"].tolist() == [[10, 11, 12], [0, 1, 2], [57, 58, 59], [11, 12, 13]]
        assert (batch["times"].numpy() == [shown[i:i + 3] for i in (10, 0, 57, 11)]).all()
        for row, numbers in zip(batch["video"].numpy(), batch.frames["video"].tolist(), strict=True):
            assert [index_of(f, want) for f in row] == numbers
    far = pa.table({"path": ["gop12.mp4"], "times": pa.FixedSizeListArray.from_arrays(pa.array([0.1, 0.11, 0.2]), 3)})
    with pytest.raises(stoker.StokerError, match="no frame is shown within 0.001 s of 0.110000 s: the nearest is frame 3, 0.010000 s away"), \
            stoker.Loader(stoker.open(far), fields, batch_size=1, on_error="raise") as loader:
        list(loader)
    with pytest.raises(stoker.StokerError, match="has 3 times, and the clip 4 frames: write frames=3"):
        stoker.Loader(stoker.open(far), {**fields, "video": fields["video"].replace("frames=3", "frames=4")}, batch_size=1)
    with pytest.raises(stoker.StokerError, match="leads out of its root"), \
            stoker.Loader(stoker.open(far.set_column(0, "path", pa.array(["../x.mp4"]))), fields, batch_size=1) as loader:
        list(loader)
