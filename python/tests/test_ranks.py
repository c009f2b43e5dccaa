# SPDX-License-Identifier: Apache-2.0
"""Which rank gets what, and where rank and world_size come from."""

import pytest
from conftest import FIELDS, LABEL, SAMPLES, as_numpy, torch

import stoker

pytestmark = pytest.mark.asan


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def share(urls, rank, world, batch_size=8, fields=LABEL, **options):
    """[(ids, valid)] of every step of an epoch."""
    with stoker.Loader(urls, fields, batch_size=batch_size, shuffle=True, seed=4, rank=rank,
                       world_size=world, **options) as loader:
        steps = [(as_numpy(b.sample_ids).tolist(), as_numpy(b.valid).tolist()) for b in loader]
        assert len(loader) == len(steps)
    return steps


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("world", [1, 2, 3, 7])
def test_ranks_are_disjoint_and_cover(urls, world, drop_last):
    shares = [share(urls, rank, world, drop_last=drop_last) for rank in range(world)]
    assert len({len(s) for s in shares}) == 1
    got = [i for s in shares for ids, valid in s for i, ok in zip(ids, valid, strict=True) if ok]
    assert len(got) == len(set(got))
    assert len(got) == (SAMPLES // (8 * world) * 8 * world if drop_last else SAMPLES)


def test_the_epoch_does_not_depend_on_ranks(urls):
    one = [i for ids, _ in share(urls, 0, 1, batch_size=16, drop_last=True) for i in ids]
    two = [share(urls, rank, 2, drop_last=True) for rank in range(2)]
    dealt = [i for a, b in zip(*two, strict=True) for i in a[0] + b[0]]
    assert dealt == one


def test_a_rank_left_with_nothing_gets_one_marked_row(urls):
    shares = [share(urls, rank, 8, batch_size=11) for rank in range(8)]     # 88 + 12 left: 2 2 2 2 1 ..
    last = [s[-1] for s in shares]
    assert sum(sum(valid) for _, valid in last) == 12
    shares = [share(urls, rank, 99, batch_size=1) for rank in range(99)]    # 99 + 1
    last = [s[-1] for s in shares]
    assert all(len(ids) == 1 for ids, _ in last) and sum(v[0] for _, v in last) == 1


def test_global_batch_size(urls):
    options = {"shuffle": True, "seed": 4}
    with stoker.Loader(urls, LABEL, global_batch_size=24, rank=1, world_size=3, **options) as loader:
        batches = list(loader)
    assert len(batches[0]["label"]) == 8
    assert [as_numpy(b.sample_ids).tolist() for b in batches] == [s[0] for s in share(urls, 1, 3)]
    rows, ids = [], []
    for rank in range(3):                       # 25 on 3 ranks: 9, 8, 8; the last batch has 4 of 104
        with stoker.Loader(urls, LABEL, global_batch_size=25, rank=rank, world_size=3) as loader:
            batches = list(loader)
        rows.append([len(b["label"]) for b in batches])
        ids += [i for b in batches for i in as_numpy(b.sample_ids).tolist()]
    assert [r[:-1] for r in rows] == [[n] * (len(rows[0]) - 1) for n in (9, 8, 8)]
    assert sorted(ids) == list(range(len(stoker.open(urls))))
    with pytest.raises(stoker.StokerError, match="without a row"):
        stoker.Loader(urls, LABEL, global_batch_size=2, rank=1, world_size=3)
    with pytest.raises(stoker.StokerError, match="one of them"):
        stoker.Loader(urls, LABEL, global_batch_size=24, batch_size=8)


def test_the_launchers_environment(urls, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with stoker.Loader(urls, LABEL, batch_size=8, shuffle=True, seed=4) as loader:
        found = [as_numpy(b.sample_ids).tolist() for b in loader]
    assert found == [s[0] for s in share(urls, 1, 2)]
    with stoker.Loader(urls, LABEL, batch_size=8, rank=0, world_size=1) as loader:   # arguments win
        assert len(loader) == 13
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(stoker.StokerError, match="RANK='one'"):
        stoker.Loader(urls, LABEL)


@pytest.mark.skipif(torch is None, reason="without torch")
def test_torch_distributed_comes_before_the_environment(urls, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 3)
    with stoker.Loader(urls, LABEL, batch_size=8, shuffle=True, seed=4) as loader:
        found = [as_numpy(b.sample_ids).tolist() for b in loader]
    assert found == [s[0] for s in share(urls, 2, 3)]


@pytest.mark.parametrize("rank, world", [(0, None), (None, 2), (2, 2), (-1, 2), (0, 0), (0, True),
                                         (0.0, 1), ("0", "1")])
def test_bad_ranks(urls, rank, world):
    with pytest.raises(stoker.StokerError):
        stoker.Loader(urls, FIELDS, rank=rank, world_size=world)
