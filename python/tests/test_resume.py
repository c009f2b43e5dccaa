# SPDX-License-Identifier: Apache-2.0
"""A state goes on with any number of ranks and any batch size: same samples, same pixels."""

import copy
import json
import random

import numpy as np
import pytest

import stoker
from conftest import SAMPLES, as_numpy

FIELDS = {"image": "from(jpg, png) | image | random_resized_crop(16) | hflip", "label": "from(cls) | int"}
OPTIONS = {"shuffle": True, "seed": 11}


def rows_of(loader, limit=None):
    """position in the order of this rank -> (id, pixels), valid rows only."""
    out = []
    for k, batch in enumerate(loader):
        if k == limit:
            break
        images = as_numpy(batch["image"])
        out += [(int(i), images[r].copy()) for r, i in enumerate(as_numpy(batch.sample_ids))
                if bool(as_numpy(batch.valid)[r])]
    return out


def run(urls, world, batch, state=None, steps=None, epochs=1, **more):
    """All ranks' rows together, by id, and the state of rank 0 after `steps` (None: all)."""
    found, states = [], []
    for rank in range(world):
        with stoker.Loader(urls, FIELDS, rank=rank, world_size=world, batch_size=batch, **OPTIONS,
                           **more) as loader:
            if state is not None:
                loader.load_state_dict(copy.deepcopy(state))
            for _ in range(epochs):
                if steps is None:
                    found += rows_of(loader)
                else:
                    running = iter(loader)
                    for _ in range(steps):
                        found += rows_of([next(running)])
            states.append(loader.state_dict())
    shared = [{k: v for k, v in s.items() if k != "local"} for s in states]
    assert all(s == shared[0] for s in shared)
    return found, states[0]


def test_another_world_another_batch(urls):
    rng = random.Random(5)
    whole = dict(run(urls, 1, 16)[0])
    assert len(whole) == SAMPLES
    for _ in range(6):
        state, seen = None, []
        while True:
            world, batch = rng.randint(1, 5), rng.randint(1, 9)
            left = SAMPLES - (state["position"] if state else 0)
            steps = rng.randint(1, max(1, left // (world * batch)))
            if steps * world * batch >= left:
                seen += run(urls, world, batch, state, num_workers=rng.randint(0, 3))[0]
                break
            part, state = run(urls, world, batch, state, steps, prefetch=rng.randint(1, 4))
            state = json.loads(json.dumps(state))
            seen += part
        assert sorted(i for i, _ in seen) == list(range(SAMPLES))
        for i, pixels in seen:
            assert np.array_equal(pixels, whole[i])


def test_epochs_after_it_too(urls):
    state = run(urls, 2, 7, steps=3)[1]
    after = run(urls, 3, 5, state, epochs=3)[0]
    with stoker.Loader(urls, FIELDS, batch_size=16, **OPTIONS) as loader:
        rows_of(loader)
        whole = [dict(rows_of(loader)) for _ in range(2)]
    assert len(after) == SAMPLES - 42 + 2 * SAMPLES
    pixels = {}                                 # ranks come one after the other: compare by id
    for i, p in after:
        pixels.setdefault(i, []).append(p)
    for i in range(SAMPLES):
        for epoch in whole:
            assert any(np.array_equal(epoch[i], p) for p in pixels[i])


def test_state_is_small_and_of_other_things_refused(urls, data, tmp_path):
    with stoker.Loader(urls, FIELDS, batch_size=4, **OPTIONS) as loader:
        state = loader.state_dict()
    assert len(json.dumps(state)) < 1024
    other = {"image": FIELDS["image"].replace("hflip", "hflip(0.25)"), "label": FIELDS["label"]}
    with stoker.Loader(urls, other, batch_size=4, **OPTIONS) as loader, \
            pytest.raises(stoker.StokerError, match="the chain of output 'image' is another"):
        loader.load_state_dict(state)
    spelled = {"image": "from( jpg,png )|image|random_resized_crop(size=16)|hflip()",
               "label": FIELDS["label"]}
    with stoker.Loader(urls, spelled, batch_size=4, **OPTIONS) as loader:
        loader.load_state_dict(state)           # the same chain, however it is written
    with stoker.Loader(data / "train-000.tar", FIELDS, batch_size=4, **OPTIONS) as loader, \
            pytest.raises(stoker.StokerError, match="the data had .* samples and has"):
        loader.load_state_dict(state)
    with stoker.Loader(urls, FIELDS, batch_size=4, shuffle=False, seed=11) as loader, \
            pytest.raises(stoker.StokerError, match="order shuffle: 'exact' then, 'none' now"):
        loader.load_state_dict(state)


def test_a_copy_elsewhere_goes_on(urls, data, tmp_path):
    with stoker.Loader(urls, FIELDS, batch_size=4, **OPTIONS) as loader:
        for _ in zip(range(3), loader, strict=False):
            pass
        state = loader.state_dict()
    for shard in sorted(data.glob("train-*.tar")):
        (tmp_path / shard.name).write_bytes(shard.read_bytes())
    with stoker.Loader(str(tmp_path / "train-*.tar"), FIELDS, batch_size=4, **OPTIONS) as loader:
        loader.load_state_dict(state)
        assert loader.state_dict()["position"] == 12
