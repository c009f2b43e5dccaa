# SPDX-License-Identifier: Apache-2.0
"""weights, replacement, balance: samples are drawn as often as they should be, on any world."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stoker
from conftest import LABEL, SAMPLES, ids_of, write_tar
from conftest import ids_of_epochs as ids

CLASSES = np.arange(SAMPLES) % 10               # what `cls` has


def excess(found, weights):
    """Chi-square of how often each was drawn, in standard deviations of its own."""
    count = np.bincount(found, minlength=len(weights))
    assert not count[weights == 0].any()
    expected = weights / weights.sum() * len(found)
    some = weights > 0
    chi = ((count[some] - expected[some]) ** 2 / expected[some]).sum()
    return (chi - some.sum() + 1) / np.sqrt(2 * max(some.sum() - 1, 1))


def test_frequencies(urls):
    weights = np.random.default_rng(1).exponential(size=SAMPLES)
    weights[::7] = 0
    found = ids(urls, weights=weights, epoch_size=40000, seed=5)
    assert len(found) == 40000
    assert excess(found, weights) < 4
    assert len(ids(urls, weights=weights)) == SAMPLES       # an epoch is as long as the data
    assert found[:64] == ids(urls, weights=list(weights), epoch_size=64, seed=5)
    assert found[:64] != ids(urls, weights=weights, epoch_size=64, seed=6)


def test_balance(urls):
    chosen = [i for i in range(SAMPLES) if i % 10 < 3 and (i % 10 or i < 30)]   # 3, 10 and 10 of a class
    found = ids(urls, balance="cls", select=chosen, epoch_size=30000, seed=1)
    assert set(found) <= set(chosen)
    assert excess(CLASSES[found], np.array([1.0] * 3 + [0] * 7)) < 4
    same = ids(urls, balance=CLASSES, select=chosen, epoch_size=30000, seed=1)
    names = ids(urls, balance=[f"class {c}" for c in CLASSES], select=chosen, epoch_size=30000, seed=1)
    assert same == found == names


def test_a_field_of_weights(tmp_path):
    members = [(f"{i}.{field}", value) for i, w in enumerate((b"0", b"2.5", b"7.5"))
               for field, value in (("cls", b"%d" % i), ("w", w))]
    urls = str(write_tar(tmp_path / "w.tar", members))
    found = ids(urls, weights="w", epoch_size=10000)
    assert excess(found, np.array([0, 1.0, 3.0])) < 4


@pytest.mark.asan
def test_without_replacement(urls):
    weights = np.where(CLASSES < 5, 10.0, 1.0)
    weights[0] = 0
    epochs = ids(urls, 30, weights=weights, replacement=False, seed=2)
    for found in epochs:
        assert sorted(found) == list(range(1, SAMPLES))
    assert epochs[0] != epochs[1]
    early = np.mean([CLASSES[f[:20]] < 5 for f in epochs])
    assert 0.8 < early < 0.95                   # 10 : 1 by weight, less as the heavy ones are gone
    for found in ids(urls, 20, weights=weights, replacement=False, seed=2, epoch_size=30):
        assert len(set(found)) == 30
    assert [f[:30] for f in epochs[:2]] == ids(urls, 2, weights=weights, replacement=False, seed=2,
                                               epoch_size=30)


@pytest.mark.parametrize("options, words", [
    ({"weights": [1.0] * 99}, "one entry for each of the 100 samples of the data, not 99"),
    ({"weights": [[1.0] * 100]}, "not 1x100"), ({"weights": 3.0}, "not one"),
    ({"weights": [1.0] * 98 + [-1.0, float("nan")]}, "2 of 100 are negative or not finite, the first is -1 of sample 98"),
    ({"weights": [float("inf")] + [1.0] * 99}, "is inf of sample 0"),
    ({"weights": [0.0] * 100}, "no sample that takes part has a weight above 0"),
    ({"weights": [1.0] + [0.0] * 99, "skip": 1}, "no sample that takes part"),
    ({"weights": ["a"] * 100}, "weights must be numbers"), ({"weights": [1j] * 100}, r"must be numbers, not 1j"),
    ({"weights": "jpg"}, r"must be numbers, not .{60}$"),
    ({"weights": "nothing"}, "no sample has a value for the column nothing"), ({"weights": "txt"}, "must be numbers"),
    ({"weights": [1.0] * 100, "balance": "cls"}, "weights and balance each say"),
    ({"replacement": False}, "give one of them too"),
    ({"weights": [1.0] * 100, "replacement": 3}, "replacement must be True or False"),
    ({"weights": [1.0] * 50 + [0.0] * 50, "replacement": False, "epoch_size": 51}, "more than the 50 samples"),
    ({"balance": [1.5] * 100}, "whole numbers or names"), ({"balance": "clss"}, "the fields are: jpg, cls"),
], ids=str)
def test_bad_arguments(urls, options, words):
    with pytest.raises(stoker.StokerError, match=words):
        ids(urls, **options)


@settings(max_examples=20)
@given(st.data())
def test_any_world_any_resume(urls, data):
    options = {"weights": np.array(data.draw(st.lists(st.floats(0.01, 100), min_size=SAMPLES, max_size=SAMPLES))),
               "replacement": data.draw(st.booleans()), "seed": data.draw(st.integers(0, 2**64 - 1)),
               "epoch_size": data.draw(st.integers(1, SAMPLES))}
    with stoker.Loader(urls, LABEL, **options) as loader:
        whole = [ids_of(loader) for _ in range(2)]
        loader.set_epoch(0)
        taken = data.draw(st.integers(0, len(whole[0])))
        for _ in zip(range(taken), loader, strict=False):
            pass
        state = json.loads(json.dumps(loader.state_dict()))
    world, batch, got = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9)), {}
    for rank in range(world):
        with stoker.Loader(urls, LABEL, batch_size=batch, rank=rank, world_size=world, **options) as loader:
            loader.load_state_dict(state)
            for step, b in enumerate([*loader, *loader]):
                got.setdefault(step, []).extend(
                    int(i) for i, ok in zip(b.sample_ids, b.valid, strict=True) if ok)
    assert [i for step in sorted(got) for i in got[step]] == whole[0][taken:] + whole[1]
    if not options["replacement"]:
        assert len(set(whole[0])) == len(whole[0])


def test_states_of_other_weights_are_refused(urls):
    weights = np.linspace(1, 2, SAMPLES)
    with stoker.Loader(urls, LABEL, weights=weights) as loader:
        state = json.loads(json.dumps(loader.state_dict()))
    assert len(json.dumps(state)) < 1024
    with stoker.Loader(urls, LABEL, weights=weights.copy()) as loader:
        loader.load_state_dict(state)
    other = weights.copy()
    other[5] += 1e-9
    for options, words in (({"weights": other}, "order weights: '.*' then, '.*' now"), ({}, "order weights: '.*' then, None now"),
                           ({"weights": weights, "replacement": False}, "order replacement: True then, False now"),
                           ({"balance": "cls"}, "order balance: None then")):
        with stoker.Loader(urls, LABEL, **options) as loader, pytest.raises(stoker.StokerError, match=words):
            loader.load_state_dict(state)


def test_bad_samples_are_stood_in_for_by_weight(damaged):
    weights = np.zeros(40)
    weights[[7, 3, 4]] = 1                      # 7 is garbage
    fields = {"image": "from(jpg) | image | resize(16) | center_crop(16)"}
    with stoker.Loader(damaged, fields, weights=weights, epoch_size=60, batch_size=8, on_error="skip") as loader:
        for batch in loader:
            assert {int(i) for i in batch.sample_ids} <= {3, 4, 7}
        assert loader.stats()["skipped"] > 0
