# SPDX-License-Identifier: Apache-2.0
"""Windows of recordings as samples: which there are, their samples, resume on other ranks, bad input."""

import numpy as np
import pytest
import stoker
from sounds import RATE, integers, tone, wav16

SECONDS = (2.0, 3.25, 0.4, 1.0)
CHAINS = {"x": "sound(rate=16000)"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    d = tmp_path_factory.mktemp("recordings")
    for i, s in enumerate(SECONDS):
        (d / f"{i}.wav").write_bytes(wav16(integers(tone(s, seed=i), 16) / 32768))
    return d


def whole(i):
    return (integers(tone(SECONDS[i], seed=i), 16)[:, 0] / 32768).astype("f4")


@pytest.mark.parametrize("window", [stoker.Windows(seconds=0.5), stoker.Windows(seconds=1, step=0.25), stoker.Windows(seconds=0.3, step=0.7),
                                    stoker.Windows(seconds=1.5, pad="silence"), stoker.Windows(seconds=0.4, step=0.1, pad="silence")])
def test_every_window(folder, window):
    n, step = int(window.seconds * RATE), int(round((window.step or window.seconds) * RATE))
    want = []
    for i in range(len(SECONDS)):
        x = whole(i)
        at = 0
        while at + n <= len(x) or (window.pad and (at == 0 or at - step + n < len(x))):
            part = x[at:at + n]
            want.append((at / RATE, np.concatenate([part, np.zeros(n - len(part), "f4")])))
            at += step
    ds = stoker.open(folder, windows=window)
    assert len(ds) == len(want)
    with stoker.Loader(ds, CHAINS, batch_size=4, shuffle=False, drop_last=False) as loader:
        got = [(s, x) for b in loader for s, x in zip(b["start"].numpy().reshape(-1).copy(), b["x"].numpy().copy())]
    for (start, x), (said, y) in zip(want, got, strict=True):
        assert abs(start - said) < 1e-5 and np.array_equal(x, y)


def test_features_of_windows_are_dense(folder):
    with stoker.Loader(stoker.open(str(folder / "*.wav"), windows=stoker.Windows(seconds=0.5)), {"x": "sound(rate=16000) | fbank(40)"}, batch_size=3, shuffle=True) as loader:
        assert tuple(next(iter(loader))["x"].shape) == (3, 48, 40)


def test_resume_on_other_ranks(folder):
    def loader(rank=0, ranks=1):
        return stoker.Loader(stoker.open(folder, windows=stoker.Windows(seconds=0.25)), CHAINS, global_batch_size=4, shuffle=True, seed=2, rank=rank, world_size=ranks)
    with loader() as one:
        plain = [sorted((i, x.numpy().tobytes()) for i, x in zip(b.sample_ids.tolist(), b["x"])) for b in one]
        it = iter(one)
        next(it), next(it)
        state = one.state_dict()
        after = [sorted((i, x.numpy().tobytes()) for i, x in zip(b.sample_ids.tolist(), b["x"])) for b in it]
    parts = []
    for rank in range(2):
        with loader(rank, 2) as part:
            part.load_state_dict(state)
            parts.append([[(i, x.numpy().tobytes()) for i, x in zip(b.sample_ids.tolist(), b["x"])] for b in part])
    assert [sorted(a + b) for a, b in zip(*parts, strict=True)] == after and len(plain) == len(after) + 2


def test_bad_input(folder, tmp_path):
    for urls, why in ((folder, "no recording has 9 seconds: the longest has 3.25"), (tmp_path / "none*.wav", "there is no recording")):
        with pytest.raises(stoker.StokerError, match=why):
            stoker.open(urls, windows=stoker.Windows(seconds=9))
    (tmp_path / "bad.wav").write_bytes((folder / "0.wav").read_bytes()[:300])
    with pytest.raises(stoker.StokerError, match=r"truncated.*bad\.wav"):
        stoker.open(tmp_path, windows=stoker.Windows(seconds=1))
    with pytest.raises(stoker.StokerError, match=r"Windows\(seconds=15\) is for those"):
        stoker.open(folder / "0.wav", windows=stoker.Windows())
    for options, why in (({"seconds": 0}, "seconds"), ({"seconds": 2, "frames": 4}, "of videos"), ({"seconds": 1, "pad": "wrap"}, "silence")):
        with pytest.raises(stoker.StokerError, match=why):
            stoker.Windows(**options)
