# SPDX-License-Identifier: Apache-2.0
"""Windows of videos as samples: which there are, their frames, orders, ranks, bad input."""
import pathlib
import pickle
import sys

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from made_video import make, needs_ffmpeg  # noqa: E402
from test_clips import frames_of  # noqa: E402

stoker = pytest.importorskip("stoker")
pytest.importorskip("pyarrow")
pytestmark = needs_ffmpeg

NAMES = {"gop12.mp4": 60, "gop250.mp4": 90, "open.mkv": 72}
FIELDS = {"video": "video | center_crop((96, 160)) | to(u8, hwc)"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    at = tmp_path_factory.mktemp("windows")
    for name in NAMES:
        make(at, name)
    return at


def windows_of(window):
    """By a loop: (file, first frame)."""
    step = window.step or window.frames * window.stride
    span = (window.frames - 1) * window.stride + 1
    made = []
    for name, frames in sorted(NAMES.items()):
        first = 0
        while first + span <= frames or (window.pad and (first == 0 or first - step + span < frames)):
            made.append((name, first))
            first += step
    return made


@pytest.mark.parametrize("window", [stoker.Windows(4, 3, 8), stoker.Windows(4, 5), stoker.Windows(16, 4, 32), stoker.Windows(16, 5, 60, pad="last"),
                                    stoker.Windows(20, 4, 31, pad="wrap"), stoker.Windows(1)])
def test_which_there_are(folder, window):
    ds = stoker.open(str(folder / "*.m*"), windows=window)
    want = windows_of(window)
    assert len(ds) == len(want)
    with stoker.Loader(ds, {"path": "from(path) | text", "first": "from(first)"}, batch_size=50) as loader:
        got = [(pathlib.Path(p).name, f) for b in loader for p, f in zip(b["path"], b["first"].tolist(), strict=True)]
    assert got == want


def test_their_frames(folder):
    ds = stoker.open(folder, windows=stoker.Windows(frames=4, stride=3, step=8))
    frames = {name: frames_of(folder / name, 160, 96) for name in NAMES}
    want = windows_of(ds.windows)
    with stoker.Loader(ds, FIELDS, batch_size=5, shuffle=True, seed=3) as loader:
        for b in loader:
            for row, i in enumerate(b.sample_ids.tolist()):
                name, first = want[i]
                assert b["first"][row] == first and b.frames["video"][row].tolist() == [first + 3 * k for k in range(4)]
                assert (b["video"][row].numpy() == frames[name][first:first + 12:3]).all(), (name, first)
    one = stoker.open(folder, FIELDS, windows=stoker.Windows(frames=4, stride=3, step=8))
    assert (np.asarray(pickle.loads(pickle.dumps(one))[3]["video"]) == frames["gop12.mp4"][24:36:3]).all()


@pytest.mark.parametrize("shuffle", [True, "block", False])
def test_resumed_on_other_ranks(folder, shuffle):
    def loader(rank, world):
        return stoker.Loader(stoker.open(folder, windows=stoker.Windows(2, 2, 5)), {"video": "video | resize((8, 8)) | to(u8)"}, global_batch_size=6,
                             shuffle=shuffle, seed=1, rank=rank, world_size=world, epoch_size=36)

    with loader(0, 1) as one:
        plain = [sorted((i, b["video"][r].numpy().tobytes()) for r, i in enumerate(b.sample_ids.tolist())) for b in one]
    with loader(0, 1) as one:
        for k, _ in enumerate(one):
            if k == 2:
                break
        state = one.state_dict()
    parts = []
    for rank in range(2):
        with loader(rank, 2) as part:
            part.load_state_dict(state)
            parts.append([[(i, b["video"][r].numpy().tobytes()) for r, i in enumerate(b.sample_ids.tolist())] for b in part])
    assert [sorted(a + b) for a, b in zip(*parts, strict=True)] == plain[3:]


def test_bad_input(folder, tmp_path):
    for urls, window, why in [(folder, stoker.Windows(100), "no video has 100 frames, which a window spans: the longest has 90"),
                              (tmp_path / "none*.mp4", stoker.Windows(), "there is no video"), (folder, (16, 4), "windows= is a stoker.Windows")]:
        with pytest.raises(stoker.StokerError, match=why):
            stoker.open(urls, windows=window)
    (tmp_path / "bad.mp4").write_bytes((folder / "gop12.mp4").read_bytes()[:300])
    with pytest.raises(stoker.StokerError, match=r"bad\.mp4"):
        stoker.open(tmp_path, windows=stoker.Windows())
    with pytest.raises(stoker.StokerError, match="frames"):
        stoker.Windows(0)
    with pytest.raises(stoker.StokerError, match="leave start="):
        stoker.Loader(stoker.open(folder, windows=stoker.Windows(2)), {"video": "from(path) | open(root='/') | video(first=first, start=3) | resize((8, 8))"})
