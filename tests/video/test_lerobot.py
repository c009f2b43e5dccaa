# SPDX-License-Identifier: Apache-2.0
"""LeRobot data sets in place: rows around a row, masks at episodes' ends, cameras by time, resumed on other ranks."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import made_lerobot  # noqa: E402
from made_lerobot import FPS, KEYS  # noqa: E402
from made_video import needs_ffmpeg  # noqa: E402
from test_clips import frames_of  # noqa: E402

stoker = pytest.importorskip("stoker")
pytest.importorskip("pyarrow")
pytestmark = needs_ffmpeg

DELTAS = {KEYS[0]: [-0.1, 0.0], KEYS[1]: [0.0], "observation.state": [-0.1, 0.0], "action": [k / FPS for k in range(5)], "next.done": [0.0, 1 / FPS]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("lerobot") / "set"
    rows, episodes = made_lerobot.make(root)
    return root, rows, episodes


def expected(made, key, i, seconds):
    """Rows of the table and frames of the file, by the definition in NumPy."""
    _, rows, episodes = made
    e = episodes[rows["episode_index"][i]]
    at = [i + round(s * FPS) for s in seconds]
    inside = [min(max(k, e["dataset_from_index"]), e["dataset_to_index"] - 1) for k in at]
    pads = [k != j for k, j in zip(at, inside, strict=True)]
    if key not in KEYS:
        return rows[key][inside], pads
    begin = round(e[f"videos/{key}/from_timestamp"] * FPS)
    return [begin + j - e["dataset_from_index"] for j in inside], pads


def test_items_by_the_definition(made):
    root, rows, episodes = made
    decoded = {(k, f): frames_of(root / "videos" / k / "chunk-000" / f"file-{f:03d}.mp4", *made_lerobot.SIZE) for k in KEYS for f in (0, 1)}
    ds = stoker.lerobot(root, DELTAS, return_uint8=True)
    assert len(ds) == sum(map(sum, made_lerobot.LENGTHS))
    with stoker.Loader(ds, batch_size=7, shuffle=True, seed=5) as loader:
        batches = list(loader)
    assert sorted(i for b in batches for i in b.sample_ids.tolist()) == list(range(len(ds)))
    assert set(batches[0]) == {*made_lerobot.FEATURES, "task", *(f"{k}_is_pad" for k in DELTAS)}
    for b in batches:
        for row, i in enumerate(b.sample_ids.tolist()):
            for key, seconds in DELTAS.items():
                want, pads = expected(made, key, i, seconds)
                assert b[f"{key}_is_pad"][row].tolist() == pads and "bool" in str(b[f"{key}_is_pad"].dtype)
                if key not in KEYS:
                    assert (b[key][row].numpy() == want).all(), (key, i)
            for key in KEYS:
                want, _ = expected(made, key, i, DELTAS.get(key, [0.0]))
                pixels = decoded[key, episodes[rows["episode_index"][i]][f"videos/{key}/file_index"]][want]
                got = b[key][row].numpy()
                assert got.shape == (pixels.shape[0], 3, 96, 160) if key == KEYS[0] else (3, 96, 160)
                assert (got.reshape(-1, 3, 96, 160) == pixels.transpose(0, 3, 1, 2)).all(), (key, i)
                assert b.frames[key][row].tolist() == want
            assert b["task"][row] == ["lift", "push"][rows["task_index"][i]]
            assert all(b[k][row] == rows[k][i] for k in ("timestamp", "index", "frame_index", "episode_index"))


def test_ds_i_and_floats(made):
    root, rows, _ = made
    ds = stoker.lerobot(root, {"action": [0.0, 1 / FPS, 2 / FPS]})
    assert ds["5"]["index"] == 5
    with pytest.raises(KeyError, match="no sample has the key 'nokey'"):
        ds["nokey"]
    item = ds[62]                               # the last row of the second episode
    assert (np.asarray(item["action"]) == rows["action"][[62, 62, 62]]).all()
    assert np.asarray(item["action_is_pad"]).tolist() == [False, True, True]
    whole = stoker.lerobot(root, return_uint8=True)[62]
    for key in KEYS:
        assert np.asarray(item[key]).dtype == np.float32
        assert np.abs(np.asarray(item[key]) - np.asarray(whole[key]).astype(np.float32) / 255).max() < 1e-6


def test_episodes_are_chosen(made):
    root, rows, episodes = made
    ds = stoker.lerobot(root, {"action": [-1 / FPS, 0.0]}, episodes=[3, 1])
    assert len(ds) == 40 + 31
    with stoker.Loader(ds, {"index": "from(index)", "action": "from(action)", "pad": "from(action_is_pad)"}, batch_size=71) as loader:
        [b] = list(loader)
    assert b["index"].tolist() == [*range(23, 63), *range(80, 111)]
    assert (b["action"][:, 3:].numpy() == rows["action"][b["index"].numpy()]).all()
    assert np.flatnonzero(b["pad"][:, 0].numpy()).tolist() == [0, 40]


def test_resumed_on_other_ranks(made):
    """Two ranks stop in the middle of an epoch; three go on: every row comes once."""
    root = made[0]

    def loader(rank, world):
        return stoker.Loader(stoker.lerobot(root, {KEYS[2]: [-1 / FPS, 0.0]}, return_uint8=True), global_batch_size=12, shuffle=True, seed=2, rank=rank, world_size=world)

    with loader(0, 1) as one:
        plain = {i: (b[KEYS[2]][row].numpy().copy(), b["action"][row].tolist()) for b in one for row, i in enumerate(b.sample_ids.tolist())}
    seen, states = [], []
    for rank in range(2):
        with loader(rank, 2) as part:
            for k, b in enumerate(part):
                seen += [(i, b, row) for row, i in enumerate(b.sample_ids.tolist())]
                if k == 3:
                    break
            states.append(part.state_dict())
    assert states[0] == states[1]
    for rank in range(3):
        with loader(rank, 3) as part:
            part.load_state_dict(states[0])
            seen += [(i, b, row) for b in part for row, i in enumerate(b.sample_ids.tolist()) if b.valid[row]]
    assert sorted(i for i, _, _ in seen) == sorted(plain)
    assert all((b[KEYS[2]][row].numpy() == plain[i][0]).all() and b["action"][row].tolist() == plain[i][1] for i, b, row in seen)


def test_on_a_store(made, tmp_path):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "stores"))
    import servers
    if not servers.nginx_program():
        pytest.skip("nginx is not installed: tools/setup.sh installs it where it may")
    root = made[0]
    port, _, group = servers.start_nginx(tmp_path, root.parent)
    options = {"batch_size": 8, "shuffle": True, "seed": 3, "limit": 40}
    try:
        with stoker.Loader(stoker.lerobot(root, DELTAS, return_uint8=True), **options) as loader:
            plain = list(loader)
        with stoker.Loader(stoker.lerobot(f"http://127.0.0.1:{port}/set", DELTAS, return_uint8=True), **options) as loader:
            far = list(loader)
            stats = loader.stats()
    finally:
        group.stop()
    for a, b in zip(plain, far, strict=True):
        assert set(a) == set(b)
        assert all(np.array_equal(np.asarray(a[k]), np.asarray(b[k])) for k in a)
    videos = sum(p.stat().st_size for p in root.rglob("*.mp4")) / 2     # of three cameras, one file each
    assert stats["bytes"] < stats["samples"] * videos / 2


def feature(root, key, **change):
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][key] |= change
    (root / "meta/info.json").write_text(json.dumps(info))


@pytest.mark.parametrize("change, why", [
    (lambda root: {"delta_timestamps": {"action": [0.01]}}, "0.01 is not a whole number of frames at 30 per second"),
    (lambda root: {"delta_timestamps": {"actoin": [0.0]}}, "there is no feature 'actoin'"),
    (lambda root: {"episodes": [5]}, "numbers from 0 to 4"),
    (lambda root: feature(root, KEYS[1], info={"is_depth_map": True}), f"{KEYS[1]} is a depth map, which is not read"),
    (lambda root: feature(root, KEYS[1], info={"video.is_depth_map": True}), f"{KEYS[1]} is a depth map"),
    (lambda root: feature(root, KEYS[1], video_info={"video.is_depth_map": True}), f"{KEYS[1]} is a depth map"),
    (lambda root: feature(root, KEYS[0], dtype="image", info={"is_depth_map": True}), f"{KEYS[0]} is a depth map"),
    (lambda root: (root / "meta/info.json").unlink(), "meta/info.json is not there"),
    (lambda root: (root / "data/chunk-000/file-001.parquet").unlink(), "data/chunk-000/file-001.parquet is not there"),
    (lambda root: (root / "meta/info.json").write_text(json.dumps({"codebase_version": "v2.1"})), "of version v2.1: version 3 is read"),
])
def test_bad_input(made, tmp_path, change, why):
    root = tmp_path / "set"
    shutil.copytree(made[0], root)
    options = change(root)
    with pytest.raises(stoker.StokerError, match=why):
        stoker.lerobot(root, **(options if isinstance(options, dict) else {}))


def test_a_video_that_lies(made, tmp_path):
    """A frame that is not where the tables say is a bad sample; a missing file names itself."""
    root = tmp_path / "set"
    shutil.copytree(made[0], root)
    short = root / "videos" / KEYS[0] / "chunk-000/file-001.mp4"
    shutil.copy(root / "videos" / KEYS[0] / "chunk-000/file-000.mp4", short)     # 63 frames for 57: rows are there, but
    (root / "videos" / KEYS[1] / "chunk-000/file-000.mp4").unlink()
    with pytest.raises(stoker.StokerError, match="file-000.mp4"):
        stoker.lerobot(root)[0]
    shutil.copy(root / "videos" / KEYS[0] / "chunk-000/file-001.mp4", root / "videos" / KEYS[1] / "chunk-000/file-000.mp4")
    pq = pytest.importorskip("pyarrow.parquet")
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    rows = pq.read_table(path).to_pylist()
    rows[0][f"videos/{KEYS[0]}/from_timestamp"] += 0.01
    rows[4][f"videos/{KEYS[0]}/from_timestamp"] += 10
    pq.write_table(pq.read_table(path).from_pylist(rows), path)
    ds = stoker.lerobot(root)
    with pytest.raises(stoker.StokerError, match="track 1: no frame is shown within 0.0001 s of 0.010000 s: the nearest is frame 0, 0.010000 s away"):
        ds[0]
    with pytest.raises(stoker.StokerError, match="no frame is shown at .* s: the video has 0.000 to 2.100 s"):
        ds[len(ds) - 1]


def gray(rgb):
    return rgb @ np.array([0.299, 0.587, 0.114])


def test_as_lerobot_has_it(made, tmp_path):
    """STOKER_LEROBOT_PYTHON: a Python with the package lerobot (make test needs none of it)."""
    python = os.environ.get("STOKER_LEROBOT_PYTHON")
    if not python:
        pytest.skip("STOKER_LEROBOT_PYTHON names no Python with the package lerobot")
    root, rows, episodes = made
    numbers = np.random.default_rng(1).integers(0, len(rows["index"]), int(os.environ.get("STOKER_LEROBOT_ITEMS", "40"))).tolist()
    subprocess.run([python, pathlib.Path(__file__).with_name("lerobot_items.py"), root, json.dumps(DELTAS), tmp_path / "items.npz", *map(str, numbers)],
                   check=True, timeout=1200)
    want = dict(np.load(tmp_path / "items.npz"))
    with stoker.Loader(stoker.lerobot(root, DELTAS), select=numbers, batch_size=8) as loader:
        batches = list(loader)
    got = {k: np.concatenate([np.asarray(b[k]) for b in batches]) for k in batches[0]}
    assert set(got) == set(want)
    for key, value in want.items():
        assert got[key].shape == value.shape and (got[key].dtype == value.dtype or value.dtype.kind == "U"), key
        if key not in KEYS:
            assert (got[key] == value).all(), key
            continue
        files = [frames_of(root / "videos" / key / "chunk-000" / f"file-{f:03d}.mp4", *made_lerobot.SIZE) for f in (0, 1)]
        numbers_of = np.concatenate([np.asarray(b.frames[key]) for b in batches])
        apart = []
        for i, pixels, shown in zip(numbers, value, numbers_of, strict=True):
            file = files[episodes[rows["episode_index"][i]][f"videos/{key}/file_index"]]
            for one, n in zip(pixels.reshape(-1, 3, 96, 160), shown.tolist(), strict=True):
                near = range(max(n - 2, 0), min(n + 3, len(file)))
                luma = [np.abs(gray(one.transpose(1, 2, 0) * 255) - gray(file[k])).mean() for k in near]
                assert near[int(np.argmin(luma))] == n, (key, i, n, luma)       # it is this frame, and no neighbour
                apart.append(luma[near.index(n)])
        # FFmpeg doubles U and V without interpolation where they are halved, so that edges of strong colors differ
        print(f"{key}: {len(apart)} frames, gray {np.mean(apart):.2f} levels apart on average, {np.max(apart):.2f} at most")
