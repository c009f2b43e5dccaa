# SPDX-License-Identifier: Apache-2.0
"""exclude=: those samples stand nowhere; the epoch is a permutation of the rest."""

import json

import pytest
from conftest import LABEL, SAMPLES, ids_of

import stoker

OUT = {0, 1, 33, 34, 57, 99}


@pytest.fixture
def manifest(urls, tmp_path):
    """As a run's stats or `stoker check` would write it."""
    ds = stoker.open(urls)
    path = tmp_path / "bad.jsonl"
    path.write_text("".join(
        json.dumps({"shard": ds[i]["__url__"].rpartition("/")[2], "offset": None, "key": ds[i]["__key__"],
                    "reason": "x"}) + "\n" for i in sorted(OUT, reverse=True)))
    return path


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("world", [1, 3])
def test_rest_is_a_permutation(urls, manifest, shuffle, world):
    for epoch in range(2):
        seen = []
        for rank in range(world):
            with stoker.Loader(urls, LABEL, batch_size=8, shuffle=shuffle, seed=3, rank=rank, world_size=world,
                               exclude=manifest) as loader:
                loader.set_epoch(epoch)
                seen += [int(i) for b in loader for i, ok in zip(b.sample_ids, b.valid, strict=True) if ok]
        assert sorted(seen) == sorted(set(range(SAMPLES)) - OUT)


def test_list_of_keys(urls):
    keys = [stoker.open(urls)[i]["__key__"] for i in OUT]
    with stoker.Loader(urls, LABEL, batch_size=8, exclude=keys) as loader:
        assert ids_of(loader) == sorted(set(range(SAMPLES)) - OUT)
        state = loader.state_dict()
    assert state["data"]["samples"] == SAMPLES
    with stoker.Loader(urls, LABEL, batch_size=8) as other, pytest.raises(ValueError, match="other samples take part"):
        other.load_state_dict(state)


@pytest.mark.parametrize("value, words", [(3, "a file or a list of keys"), ([1], "a file or a list of keys"),
                                          ("no-such-file", "No such file")])
def test_refusals(urls, value, words):
    with pytest.raises(stoker.StokerError, match=words):
        stoker.Loader(urls, LABEL, exclude=value)
