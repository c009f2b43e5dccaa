# SPDX-License-Identifier: Apache-2.0
"""select, exclude, skip, limit, repeat, epoch_size: which samples stand in an epoch."""

import functools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stoker
from conftest import LABEL, SAMPLES, ids_of, ids_of_epochs

KEYS = [f"{i:06d}" for i in range(SAMPLES)]

ids = functools.partial(ids_of_epochs, batch_size=7)


@pytest.mark.parametrize("chosen", [
    [5, 99, 0, 5], range(10, 40, 3), np.array([3, 1], np.int32), np.array([7], np.uint64),
    (np.int64(4),)], ids=["list", "range", "int32", "uint64", "tuple"])
def test_indices(urls, chosen):
    assert ids(urls, select=chosen) == [int(i) for i in chosen]
    assert sorted(ids(urls, select=chosen, shuffle=True)) == sorted(int(i) for i in chosen)


@pytest.mark.asan
def test_masks_and_keys(urls):
    mask = np.arange(SAMPLES) % 3 == 0
    assert ids(urls, select=mask) == list(range(0, SAMPLES, 3))
    assert ids(urls, select=mask.tolist()) == list(range(0, SAMPLES, 3))
    assert ids(urls, select=[KEYS[50], KEYS[2]]) == [50, 2]
    assert ids(urls, select=np.array(KEYS[4:9])) == [4, 5, 6, 7, 8]
    assert ids(urls, select=(k for k in KEYS[:2])) == [0, 1]


def test_keys_over_several_data_sets(data):
    both = [stoker.open(data / "train-001.tar"), stoker.open(data / "train-000.tar")]
    first = len(both[0])
    assert ids(both, select=[KEYS[0], both[0][3]["__key__"]]) == [first, 3]
    twice = [both[1], both[1]]                  # a key that two samples have: both, in order
    assert ids(twice, select=[KEYS[2], KEYS[1]]) == [2, 2 + len(both[1]), 1, 1 + len(both[1])]


def test_arrow(urls, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet
    numbers = pa.table({"other": [1.0, 2.0], "sample": [8, 3]})
    keys = pa.table({"key": [KEYS[9], KEYS[1], KEYS[9]]})
    assert ids(urls, select=numbers) == [8, 3]
    assert ids(urls, select=keys) == [9, 1, 9]
    assert ids(urls, select=keys.to_reader()) == [9, 1, 9]
    for name, table in (("n.parquet", numbers), ("k.parquet", keys)):
        parquet.write_table(table, tmp_path / name)
    assert ids(urls, select=tmp_path / "n.parquet") == [8, 3]
    assert ids(urls, select=str(tmp_path / "k.parquet")) == [9, 1, 9]
    coded = pa.table({"key": pa.array([KEYS[9], KEYS[1]]).dictionary_encode()})
    assert ids(urls, select=coded) == [9, 1]
    for bad, words in (({"x": [1]}, "needs a column `sample`"), ({"sample": [1, None]}, "null"),
                       ({"sample": [1.5]}, "whole numbers"), ({"sample": [100]}, "1 of 1 indices")):
        with pytest.raises(stoker.StokerError, match=words):
            ids(urls, select=pa.table(bad))
    (tmp_path / "no.parquet").write_text("nothing")
    with pytest.raises(stoker.StokerError, match="can't be read"):
        ids(urls, select=tmp_path / "no.parquet")


def test_with_exclude(urls):
    assert ids(urls, select=[5, 6, 7, 6], exclude=[KEYS[6]]) == [5, 7]
    assert ids(urls, select=range(10), exclude=KEYS[:4], skip=1, limit=3) == [5, 6, 7]


def test_skip_limit_repeat(urls):
    assert ids(urls, skip=95) == [95, 96, 97, 98, 99]
    assert ids(urls, limit=3) == [0, 1, 2]
    assert ids(urls, skip=10, limit=2, repeat=3) == [10, 11] * 3
    shuffled = ids(urls, skip=10, limit=20, repeat=2, shuffle=True)
    assert sorted(shuffled) == sorted([*range(10, 30)] * 2)


def test_epoch_size_goes_on(urls):
    whole = sum(ids(urls, 3, shuffle=True, seed=3), [])
    for size in (1, 30, 70, 100, 250):
        cut = ids(urls, -(-300 // size) + 1, shuffle=True, seed=3, epoch_size=size)
        assert all(len(epoch) == size for epoch in cut)
        assert sum(cut, [])[:300] == whole
    with stoker.Loader(urls, LABEL, batch_size=8, epoch_size=30, drop_last=True) as loader:
        assert len(loader) == 3


@pytest.mark.parametrize("options, words", [
    ({"select": [1, 100, 200, -1, 7, 300]}, r"4 of 6 indices are not in the data, which has 0 to 99: 100, 200, -1, \.\.\."),
    ({"select": [True] * 4}, "the mask has 4 entries and the data 100 samples"),
    ({"select": ["000001", "no", "nil"]}, "2 of 3 keys are not in the data: 'no', 'nil'"),
    ({"select": 5}, "select must be indices"), ({"select": [1.5]}, "whole numbers, and keys texts, not float64"),
    ({"select": [1, "000001"]}, "keys or indices, not both"), ({"select": [1, None]}, "keys texts, not None"),
    ({"select": [2**64]}, "keys texts, not 18446744073709551616"),
    ({"select": [[1]]}, "one dimension"), ({"select": "keys.txt"}, "must be a .parquet table"),
    ({"select": "none.parquet"}, "no file none.parquet"),
    ({"select": []}, "exclude, select, skip and limit leave no samples"),
    ({"skip": 100}, "leave no samples"), ({"skip": -1}, "skip must be at least 0"),
    ({"limit": 0}, "limit must be at least 1"), ({"repeat": 0}, "repeat must be at least 1"),
    ({"repeat": True}, "repeat must be a whole number"), ({"epoch_size": 2**49}, "epoch_size must be at most"),
    ({"repeat": 2**32 - 1, "select": list(range(100)) * 700}, "lower repeat"),
    ({"limits": 3}, "did you mean `limit`")], ids=str)
def test_bad_arguments(urls, options, words):
    with pytest.raises(stoker.StokerError, match=words):
        ids(urls, **options)


@settings(max_examples=25)
@given(st.data())
def test_any_cut_any_world(urls, data):
    """The ids of an epoch, and what is left after a resume with other ranks, in order of position."""
    options = {"seed": data.draw(st.integers(0, 99)), "shuffle": data.draw(st.booleans()),
               "select": data.draw(st.none() | st.lists(st.integers(0, SAMPLES - 1), min_size=1)),
               "repeat": data.draw(st.integers(1, 3)),
               "epoch_size": data.draw(st.none() | st.integers(1, 150))}
    with stoker.Loader(urls, LABEL, batch_size=1, **options) as loader:
        whole = [ids_of(loader) for _ in range(2)]
        loader.set_epoch(0)
        taken = data.draw(st.integers(0, len(whole[0])))
        for _ in zip(range(taken), loader, strict=False):
            pass
        state = json.loads(json.dumps(loader.state_dict()))
    world, batch = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    got = {}
    for rank in range(world):
        with stoker.Loader(urls, LABEL, batch_size=batch, rank=rank, world_size=world,
                           **options) as loader:
            loader.load_state_dict(state)
            for step, b in enumerate([*loader, *loader]):
                rows = [int(i) for i, ok in zip(b.sample_ids, b.valid, strict=True) if ok]
                got.setdefault(step, []).extend(rows)
    flat = [i for step in sorted(got) for i in got[step]]
    assert flat == whole[0][taken:] + whole[1]


def test_blocks_in_epochs_of_any_size(urls):
    """Ten epochs of 30 are three passes over 100 samples, for any world, also when it changes."""
    options = {"shuffle": "block", "epoch_size": 30, "seed": 2}

    def run(world, batch, epochs, state=None):
        found = []
        for rank in range(world):
            with stoker.Loader(urls, LABEL, rank=rank, world_size=world, batch_size=batch, **options) as loader:
                if state is not None:
                    loader.load_state_dict(state)
                for _ in range(epochs):
                    found += [int(i) for b in loader for i, ok in zip(b.sample_ids, b.valid, strict=True) if ok]
                last = loader.state_dict()
        return found, last

    whole, _ = run(1, 5, 10)
    assert np.bincount(whole).tolist() == [3] * SAMPLES
    head, state = run(2, 3, 4)
    assert sorted(head) == sorted(whole[:120])
    tail, _ = run(3, 4, 6, state)
    assert sorted(head + tail) == sorted(whole)


def test_states_of_others_are_refused(urls):
    with stoker.Loader(urls, LABEL, select=[1, 2, 3], epoch_size=7) as loader:
        state = loader.state_dict()
    for options, words in (({"select": [1, 2, 4], "epoch_size": 7}, "other samples take part"),
                           ({"select": [1, 2, 3], "epoch_size": 8}, "order epoch_size: 7 then, 8 now"),
                           ({"select": [1, 2, 3]}, "order epoch_size: 7 then, None now")):
        with stoker.Loader(urls, LABEL, **options) as loader, \
                pytest.raises(stoker.StokerError, match=words):
            loader.load_state_dict(state)


def test_explain_and_preview(urls):
    fields = {"image": "from(jpg) | image | resize(16) | center_crop(16)"}
    with stoker.Loader(urls, fields, select=[4, 9, 4], epoch_size=5, shuffle=True, batch_size=2) as loader:
        found = ids_of(loader)
        for i in (4, 9):
            assert found[loader.explain(i, epoch=0).position] == i
        assert len(loader.preview(2).pictures) == 2
        with pytest.raises(stoker.StokerError, match="is not in epoch"):
            loader.explain(5)
