# SPDX-License-Identifier: Apache-2.0
"""Folders of numbered pictures as clips, and such pictures in tars: the frames of the number, or an error with the file's name."""
import io
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "stores")]
import made  # noqa: E402

stoker = pytest.importorskip("stoker")
CLI = os.environ.get("STOKER_CLI", str(ROOT / "build" / "cli" / "stoker"))
CLIPS = {"walk/x": ("img_{:05d}.jpg", 1, 20), "walk/y": ("{}.jpg", 95, 12), "run/z": ("frame-{:03d}.JPG", 0, 5)}


def smooth(seed, width=96, height=80):
    """A JPEG of a few waves: what is decoded of it is told apart by eye and by number."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width] / 16
    pixels = np.stack([127 + 120 * np.sin(x * rng.uniform(.5, 2) + y * rng.uniform(.5, 2) + seed) for _ in range(3)], -1)
    out = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(out, "JPEG", quality=92)
    return out.getvalue()


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """The folder, and each clip's frames as `image` decodes them."""
    root = tmp_path_factory.mktemp("frames") / "clips"
    pictures = {}
    for k, (name, (form, first, n)) in enumerate(CLIPS.items()):
        (root / name).mkdir(parents=True)
        for i in range(n):
            pictures[name, i] = smooth(100 * k + i)
            (root / name / form.format(first + i)).write_bytes(pictures[name, i])
    return root, pictures


@pytest.fixture(scope="module")
def decoded(clips, tmp_path_factory):
    """By clip: its frames, each decoded as a picture of its own."""
    _, pictures = clips
    keys = list(pictures)
    tar = made.write_tar(tmp_path_factory.mktemp("one") / "a.tar", [(f"{i:04d}.jpg", pictures[k]) for i, k in enumerate(keys)])
    with stoker.Loader(str(tar), {"image": "image | to(u8, hwc)"}, batch_size=1) as loader:
        rows = [b["image"].numpy()[0].copy() for b in loader]
    return {name: np.stack([r for (n, _), r in zip(keys, rows, strict=True) if n == name]) for name in CLIPS}


def load(data, chain, **options):
    with stoker.Loader(data, {"video": f"{chain} | center_crop((80, 96)) | to(u8, hwc)"}, batch_size=len(CLIPS), **options) as loader:
        [b] = list(loader)
        return dict(zip(b.sample_keys, b["video"].numpy().copy(), strict=True)), b.frames["video"].numpy().copy(), b.times["video"].numpy().copy()


def same(got, decoded, expected):
    assert set(got) == set(CLIPS)
    for name, row in got.items():
        want = decoded[name][expected(len(decoded[name]))]
        assert row.shape == want.shape and (row == want).all(), name


@pytest.mark.parametrize("args, expected", [
    ("frames=4, stride=3, start=0", lambda n: [min(3 * i, n - 1) for i in range(4)]), ("frames=4, stride=3, start=2, pad=wrap", lambda n: [(2 + 3 * i) % n for i in range(4)]),
    ("frames=3, start=center", lambda n: [(n - 3) // 2 + i for i in range(3)]), ("frames=3, start=uniform", lambda n: [0, int((n - 1) / 2 + .5), n - 1]),
    ("frames=3, fps=5, start=0, rate=10", lambda n: [0, 2, 4]), ("frames=2, keyframes=true, start=1", lambda n: [1, 2])])
def test_frames_are_those_pictures(clips, decoded, args, expected):
    got, frames, times = load(stoker.open(clips[0], frames=True), f"video({args})")
    same(got, decoded, expected)
    assert [list(f) for f in frames] == [expected(CLIPS[name][2]) for name in got]
    assert (times == frames / 10).all() if "rate" in args else np.isnan(times).all()


def test_one_draw_holds_for_all_frames(clips):
    """Also where only the part of a JPEG that is seen is decoded: crops are those of clips of one frame."""
    ops = "random_resized_crop(24, scale=(0.05, 0.2)) | hflip | color_jitter(0.4, 0.4, 0.4) | to(u8)"
    ds = stoker.open(clips[0], frames=True)

    def rows(chain):
        with stoker.Loader(ds, {"video": f"{chain} | {ops}"}, batch_size=3, seed=5) as loader:
            return next(iter(loader))["video"].numpy().copy()

    clip = rows("video(frames=3, start=1)")
    for i in range(3):
        assert (rows(f"video(frames=1, start={1 + i})")[:, 0] == clip[:, i]).all()
    assert (clip[0] != clip[1]).any()


def test_random_starts_are_drawn_again_and_resumed(clips):
    ds = stoker.open(clips[0], frames=True)
    options = {"batch_size": 1, "shuffle": True, "seed": 3}
    fields = {"video": "video(frames=2) | resize((8, 8)) | to(u8)", "label": "from(cls) | int"}
    with stoker.Loader(ds, fields, **options) as loader:
        whole = [[(b.sample_keys[0], b.frames["video"].tolist(), int(b["label"][0])) for b in loader] for _ in range(3)]
    assert {k: c for epoch in whole for k, _, c in epoch} == {"walk/x": 1, "walk/y": 1, "run/z": 0} and ds.classes == ["run", "walk"]
    assert len({str(sorted(e)) for e in whole}) == 3
    with stoker.Loader(ds, fields, **options) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with stoker.Loader(ds, fields, **options) as loader:
        loader.load_state_dict(state)
        assert [(b.sample_keys[0], b.frames["video"].tolist(), int(b["label"][0])) for b in loader] == whole[0][1:]


def tar_of(path, clips, leave=()):
    members = []
    for (name, i), data in clips[1].items():
        file = f"{CLIPS[name][1] + i:06d}.jpg"
        members += [] if (name, i) in leave else [(f"{name}.{file}", data)]
        members += [(f"{name}.time", b"0.42")] if i + 1 == CLIPS[name][2] else []
    return str(made.write_tar(path, members))


@pytest.mark.parametrize("chain", ["from(jpg) | video(frames=3, stride=2, start=1)", "from(image) | video(frames=3, stride=2, start=1)"])
def test_members_of_one_prefix_are_a_clip(clips, decoded, tmp_path, chain):
    got, _, _ = load(tar_of(tmp_path / "a.tar", clips), chain)
    same(got, decoded, lambda n: [min(1 + 2 * i, n - 1) for i in range(3)])


def test_times_of_another_output(clips, decoded, tmp_path):
    tar = tar_of(tmp_path / "a.tar", clips)
    fields = {"video": "from(jpg) | video(at=time, offsets=(-0.2, 0.0), rate=10) | center_crop((80, 96)) | to(u8, hwc)", "time": "from(time) | float"}
    with stoker.Loader(tar, fields, batch_size=3) as loader:
        [b] = list(loader)
        same(dict(zip(b.sample_keys, b["video"].numpy(), strict=True)), decoded, lambda n: [2, 4])
        assert (b.times["video"].numpy() == [[0.2, 0.4]] * 3).all()
    fields["video"] = fields["video"].replace("rate=10", "rate=10, tolerance=0.01")
    with stoker.Loader(tar, fields, batch_size=3) as loader, pytest.raises(stoker.StokerError, match="no frame is shown within 0.01 s of 0.22"):
        next(iter(loader))
    fields["video"] = "from(jpg) | video(at=time) | center_crop((80, 96))"
    with stoker.Loader(tar, fields, batch_size=3) as loader, pytest.raises(stoker.StokerError, match=r"numbered pictures have no times: .*rate=10"):
        next(iter(loader))


def test_a_missing_number_is_an_error_with_its_name(clips, decoded, tmp_path):
    root = tmp_path / "clips"
    for name, (form, first, n) in CLIPS.items():
        (root / name).mkdir(parents=True)
        for i in range(n):
            if (name, i) != ("walk/x", 4):
                (root / name / form.format(first + i)).write_bytes(clips[1][name, i])
    ds = stoker.open(root, frames=True)
    got, _, _ = load(ds, "video(frames=4, start=0)")                    # not wanted: nothing is wrong
    same(got, decoded, lambda n: [0, 1, 2, 3])
    [got] = [g for g, _, _ in [load(ds, "video(frames=2, start=5, pad=wrap)")]]
    assert (got["walk/x"] == decoded["walk/x"][5:7]).all()              # those after it keep their numbers
    for args in ("frames=1, start=4", "frames=3, stride=2, start=0", "frames=20, start=0"):
        with pytest.raises(stoker.StokerError, match=r"frame 4 is missing: there is no walk/x/img_00005.jpg among its 19 pictures, numbered 1 to 20.*walk/x"):
            load(ds, f"video({args})")
    with stoker.Loader(ds, {"video": "video(frames=1, start=4) | center_crop((80, 96)) | to(u8, hwc)"}, batch_size=3, on_error="skip") as loader:
        [b] = list(loader)
    assert "walk/x" not in b.sample_keys
    tar = tar_of(tmp_path / "a.tar", clips, leave={("walk/y", 3)})
    with pytest.raises(stoker.StokerError, match=r"frame 3 is missing: there is no 000098.jpg among its 11 pictures, numbered 95 to 106"):
        load(tar, "from(jpg) | video(frames=1, start=3)")


def test_damage_names_the_file(clips, tmp_path):
    root = tmp_path / "clips" / "c"
    root.mkdir(parents=True)
    for i in range(4):
        (root / f"{i}.jpg").write_bytes(smooth(i))
    (root / "2.jpg").write_bytes(smooth(2, width=64))
    (root / "3.jpg").write_bytes(b"no picture")
    ds = stoker.open(root.parent, frames=True)
    chain = {"video": "video(frames={}, start={}) | resize((8, 8))"}

    def first(frames, start):
        with stoker.Loader(ds, {k: v.format(frames, start) for k, v in chain.items()}) as loader:
            return next(iter(loader))

    assert first(2, 0)["video"].shape == (1, 2, 3, 8, 8)
    with pytest.raises(stoker.StokerError, match="c/2.jpg: it is 64x80 in a clip of 96x80"):
        first(3, 0)
    with pytest.raises(stoker.StokerError, match="c/3.jpg: these 10 bytes are not a picture"):
        first(1, 3)
    (root / "1.jpg").write_bytes(smooth(1) + b"more")
    with pytest.raises(stoker.StokerError, match=r"the index was made when it had .*c/1.jpg"):
        first(2, 0)


@pytest.mark.parametrize("files, why", [
    (["c/a1.jpg", "c/b1.jpg"], r'"(a|b)1.jpg" does not begin as other pictures'), (["c/1.jpg", "c/01.png"], "has the number of another picture of its folder"),
    (["c/1.jpg", "c/cover.jpg"], '"cover.jpg" has no number before its suffix'), (["c/12345678901.jpg"], "more than 10 digits"), (["c/1.txt"], "no folder of numbered pictures")])
def test_folders_that_are_no_clips(tmp_path, files, why):
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(smooth(1))
    with pytest.raises(stoker.StokerError, match=why):
        stoker.open(tmp_path, frames=True)


def test_arguments_of_open(tmp_path):
    for options, why in (({"frames": 1}, "frames"), ({"frames": True, "pairs": True}, "leave pairs="), ({"frames": True, "windows": stoker.Windows(frames=2)}, "windows= is for video files")):
        with pytest.raises(stoker.StokerError, match=why):
            stoker.open(tmp_path, **options)
    with pytest.raises(stoker.StokerError, match="frames=True is for one folder"):
        stoker.open(str(tmp_path / "none"), frames=True)


def test_packed_clips_are_the_same(clips, decoded, tmp_path):
    subprocess.run([CLI, "pack", f"frames://{clips[0]}", str(tmp_path / "out")], check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=120)
    got, _, _ = load(str(tmp_path / "out" / "*.tar"), "from(jpg) | video(frames=5, stride=2, start=0)")
    same(got, decoded, lambda n: [min(2 * i, n - 1) for i in range(5)])


def test_on_a_store_only_wanted_frames_are_read(clips, decoded, tmp_path):
    import servers
    if not servers.nginx_program():
        pytest.skip("nginx is not installed")
    (tmp_path / "data").mkdir()
    tar_of(tmp_path / "data" / "a.tar", clips)
    port, _, group = servers.start_nginx(tmp_path, tmp_path / "data")
    try:
        chain = {"video": "from(jpg) | video(frames=3, stride=2, start=1) | center_crop((80, 96)) | to(u8, hwc)"}
        with stoker.Loader(f"http://127.0.0.1:{port}/a.tar", chain, batch_size=3) as loader:
            [b] = list(loader)
            same(dict(zip(b.sample_keys, b["video"].numpy(), strict=True)), decoded, lambda n: [min(1 + 2 * i, n - 1) for i in range(3)])
            unread = loader.stats()["bytes_unread"]
        sizes = {k: len(v) for k, v in clips[1].items()}
        gone = sum(v for (name, i), v in sizes.items() if i not in (range(1, 6) if name != "run/z" else range(1, 5)))
        assert unread >= gone * 0.9
    finally:
        group.stop()
