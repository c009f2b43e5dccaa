# SPDX-License-Identifier: Apache-2.0
"""shuffle="block" through the face: every sample once, for any number of ranks; a state brings its
streams and window along; class-sorted shards give batches as mixed as an exact shuffle's."""

import copy
import json
import random

import numpy as np
import pytest
from conftest import LABEL, SAMPLES, as_numpy, ids_of, write_tar

import stoker

FIELDS = {"image": "from(jpg, png) | image | random_resized_crop(16) | hflip", "label": "from(cls) | int"}


def rows_of(batches):
    out = []
    for batch in batches:
        images, valid = as_numpy(batch["image"]), as_numpy(batch.valid)
        out += [(int(i), images[r].copy()) for r, i in enumerate(as_numpy(batch.sample_ids)) if bool(valid[r])]
    return out


def run(urls, world, state=None, steps=None, **options):
    """Rows of all ranks, and the state that all of them have."""
    found, states = [], []
    for rank in range(world):
        with stoker.Loader(urls, FIELDS, rank=rank, world_size=world, shuffle="block", seed=7, **options) as loader:
            if state is not None:
                loader.load_state_dict(copy.deepcopy(state))
            running = iter(loader)
            found += rows_of(running if steps is None else (next(running) for _ in range(steps)))
            states.append({k: v for k, v in loader.state_dict().items() if k != "local"})
    assert all(s == states[0] for s in states)
    return found, json.loads(json.dumps(states[0]))


@pytest.mark.parametrize("options", [{}, {"streams": 8, "window": 24}, {"window": "20KB"}, {"streams": 128}])
def test_every_sample_once_for_any_world(urls, options):
    whole = dict(run(urls, 1, batch_size=16, **options)[0])
    for world in range(1, 6):
        found, _ = run(urls, world, batch_size=7, **options)
        assert sorted(i for i, _ in found) == list(range(SAMPLES))
        if "streams" in options:                # else another batch may choose others
            assert all(np.array_equal(pixels, whole[i]) for i, pixels in found)


def test_resume_with_other_worlds_is_exact(urls):
    rng = random.Random(9)
    for _ in range(6):
        state, seen, options = None, [], {}
        if rng.random() < 0.5:
            options = {"streams": 2 ** rng.randint(0, 5), "window": rng.randint(1, 90)}
        first = rng.randint(1, 5), rng.randint(1, 9)
        whole = None
        while True:
            world, batch = first if state is None else (rng.randint(1, 5), rng.randint(1, 9))
            left = SAMPLES - (state["position"] if state else 0)
            steps = rng.randint(1, max(1, left // (world * batch)))
            given = options if state is None or rng.random() < 0.5 else {}
            if steps * world * batch >= left:
                seen += run(urls, world, state, batch_size=batch, **given)[0]
                break
            part, state = run(urls, world, state, steps, batch_size=batch, num_workers=rng.randint(0, 3), **given)
            seen += part
            if whole is None:                   # the epoch of the loader that began
                whole = dict(run(urls, 1, batch_size=16, streams=state["order"]["streams"],
                                 window=state["order"]["window"])[0])
        assert sorted(i for i, _ in seen) == list(range(SAMPLES))
        if whole is not None:
            assert all(np.array_equal(pixels, whole[i]) for i, pixels in seen)


def test_state_brings_streams_and_window(urls):
    options = {"shuffle": "block", "seed": 3}
    with stoker.Loader(urls, LABEL, batch_size=5, streams=4, window=32, **options) as loader:
        order = [int(i) for b in loader for i in as_numpy(b.sample_ids)]
        state = loader.state_dict()
        assert state["order"] == {"shuffle": "block", "streams": 4, "window": 32}
        assert len(json.dumps(state)) < 1024
        for _ in zip(range(3), loader, strict=False):
            pass
        state = loader.state_dict()
        rest = [int(i) for b in iter_rest(loader, state) for i in as_numpy(b.sample_ids)]
    with stoker.Loader(urls, LABEL, batch_size=5, num_workers=2, **options) as loader:
        assert loader.state_dict()["order"]["streams"] == 64    # at most the samples there are
        next(iter(loader))                      # batches of the other order are in flight
        loader.load_state_dict(state)
        assert loader.state_dict() == {**state, "local": loader.state_dict()["local"]}
        assert [int(i) for b in loader for i in as_numpy(b.sample_ids)] == rest
        loader.set_epoch(0)
        assert [int(i) for b in loader for i in as_numpy(b.sample_ids)] == order
    with stoker.Loader(urls, LABEL, batch_size=5, streams=8, **options) as loader, \
            pytest.raises(stoker.StokerError, match="order streams: 4 then, 8 now"):
        loader.load_state_dict(state)
    with stoker.Loader(urls, LABEL, batch_size=5, shuffle=True, seed=3) as loader, \
            pytest.raises(stoker.StokerError, match="order shuffle: 'block' then, 'exact' now"):
        loader.load_state_dict(state)
    for bad in (None, 0, 3, 2**40, "8", True):
        broken = {**state, "order": {**state["order"], "streams": bad}}
        with stoker.Loader(urls, LABEL, batch_size=5, **options) as loader:
            mine = loader.state_dict()
            with pytest.raises(stoker.StokerError, match="streams"):
                loader.load_state_dict(broken)
            assert loader.state_dict() == mine
            assert sorted(ids_of(loader)) == list(range(SAMPLES))


def iter_rest(loader, state):
    loader.load_state_dict(state)
    return list(loader)


def test_explain_finds_it(urls):
    with stoker.Loader(urls, FIELDS, batch_size=6, shuffle="block", window=40, seed=5) as loader:
        order = [int(i) for b in loader for i in as_numpy(b.sample_ids)]
        for number in order[:5]:
            found = loader.explain(number, epoch=0)
            assert found.id == number
            assert found.position < SAMPLES


@pytest.mark.parametrize("options, match", [
    ({"streams": 24}, "16 or 32"), ({"streams": 0}, "at least 1"), ({"streams": 2**21}, "at most"),
    ({"window": 0}, "at least 1"), ({"window": "much"}, "bytes"), ({"window": 1.5}, "whole"),
])
def test_refusals(urls, options, match):
    with pytest.raises(stoker.StokerError, match=match):
        stoker.Loader(urls, LABEL, shuffle="block", **options)


def test_class_balance_on_sorted_shards(tmp_path):
    """20 classes, sorted, 40 shards of 50: distinct classes of a batch against an exact shuffle's."""
    for s in range(40):
        write_tar(tmp_path / f"{s:03d}.tar", [(f"{s:03d}{i:03d}.cls", str(s // 2).encode()) for i in range(50)])
    mean = {}
    for shuffle in ("block", True):
        with stoker.Loader(str(tmp_path / "*.tar"), LABEL, batch_size=32, shuffle=shuffle, drop_last=True) as loader:
            kinds = [len(set(as_numpy(b["label"]).tolist())) for _ in range(4) for b in loader]
        mean[shuffle] = sum(kinds) / len(kinds)
    assert mean["block"] >= 0.95 * mean[True]


def test_some_left_out(urls):
    keys = [f"{i:06d}" for i in range(SAMPLES) if i % 7 == 0 or 30 < i < 70]    # a whole shard, and more
    left = [i for i in range(SAMPLES) if f"{i:06d}" not in keys]
    found = []
    for rank in range(3):
        with stoker.Loader(urls, LABEL, batch_size=4, shuffle="block", streams=4, window=12, rank=rank, world_size=3,
                           exclude=keys) as loader:
            found += [int(i) for b in loader for r, i in enumerate(b.sample_ids) if b.valid[r]]
    assert sorted(found) == left


@pytest.mark.parametrize("world, local", [(4, 2), (4, 4), (6, 3)])
def test_ranks_of_a_node_take_turns(urls, world, local):
    """Together they have what the node had; every sample once."""
    nodes = {}
    for per in (1, local):
        nodes[per] = [set() for _ in range(world // local)]
        for rank in range(world):
            with stoker.Loader(urls, LABEL, batch_size=8, shuffle="block", streams=16, rank=rank, world_size=world,
                               ranks_per_node=per, drop_last=True) as loader:
                nodes[per][rank // local] |= set(ids_of(loader))
    assert nodes[1] == nodes[local]
    with pytest.raises(stoker.StokerError, match="does not divide"):
        stoker.Loader(urls, LABEL, shuffle="block", rank=0, world_size=world, ranks_per_node=5)


def test_a_repeat_of_millions_opens_at_once(urls):
    """What is planned does not grow with repeat=; the order is resumed anywhere."""
    with stoker.Loader(urls, {"label": "from(cls) | int"}, batch_size=10, shuffle="block", repeat=10_000_000) as loader:
        assert len(loader) == 10_000_000 * 100 // 10
        assert loader.stats()["open_s"] < 30        # it took minutes and gigabytes; a busy machine is slow
        it = iter(loader)
        next(it)
        state = loader.state_dict()
        then = next(it).sample_ids.tolist()
        loader.load_state_dict({**state, "position": 999_999_990})
        assert len(next(iter(loader)).sample_ids) == 10 and loader.state_dict()["position"] == 1_000_000_000
        loader.load_state_dict(state)
        assert next(iter(loader)).sample_ids.tolist() == then
