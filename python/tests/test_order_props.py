# SPDX-License-Identifier: Apache-2.0
"""What holds for every loader, whatever its numbers: Hypothesis looks for one that breaks it.

An epoch is a permutation; ranks are disjoint, complete and take equal numbers of steps; going on at any
step brings the same tail; and however world, batch and workers change on the way, what was handed
out together is what the law says: positions one after the other, each once.
"""

import contextlib
import os

import numpy as np
import pytest

import stoker
from conftest import LABEL, as_numpy, write_tar

hypothesis = pytest.importorskip("hypothesis")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

MOST = 70
EXAMPLES = int(os.environ.get("STOKER_EXAMPLES", 100))
props = settings(max_examples=EXAMPLES)
datasets = {}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """n -> a data set of n samples; sample i has the label i."""
    folder = tmp_path_factory.mktemp("props")

    def of(n):
        if n not in datasets:
            path = write_tar(folder / f"{n}.tar", [(f"{i:03d}.cls", b"%d" % i) for i in range(n)])
            datasets[n] = stoker.open(str(path))
        return datasets[n]

    yield of
    datasets.clear()


@st.composite
def shapes(draw):
    """Batch and world, by rank or for all."""
    world = draw(st.integers(1, 6))
    if draw(st.booleans()):
        return {"world_size": world, "batch_size": draw(st.integers(1, 9))}
    return {"world_size": world, "global_batch_size": world + draw(st.integers(0, 20))}


orders = st.one_of(
    st.just({"shuffle": False}), st.just({"shuffle": True}),
    st.builds(lambda s, w: {"shuffle": "block", "streams": 2**s, "window": w}, st.integers(0, 3),
              st.integers(1, 40)))
counts = st.integers(1, MOST)
seeds = st.integers(0, 2**64 - 1)
workers = st.sampled_from([0, 0, 1, 2])


def global_of(shape):
    return shape.get("global_batch_size") or shape["batch_size"] * shape["world_size"]


@contextlib.contextmanager
def ranks_of(data, shape, **options):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(stoker.Loader(data, LABEL, rank=rank, **shape, **options))
               for rank in range(shape["world_size"])]


def rows(batch):
    """Ids of valid rows; the label says that the row has that sample's content."""
    ids, labels = as_numpy(batch.sample_ids), as_numpy(batch["label"])
    assert np.array_equal(ids, labels)
    return ids[as_numpy(batch.valid).astype(bool)].tolist()


def step_of(loaders):
    """The next step of all ranks: their rows; None: the epoch is over, for all of them."""
    batches = [next(loader, None) for loader in loaders]
    assert len({b is None for b in batches}) == 1, "some ranks have a step more"
    return None if batches[0] is None else [rows(b) for b in batches]


def steps_of(loaders):
    running = [iter(loader) for loader in loaders]
    return list(iter(lambda: step_of(running), None))


def flat(steps):
    return [i for step in steps for rank in step for i in rank]


@props
@given(n=counts, shape=shapes(), order=orders, seed=seeds, drop_last=st.booleans(), jobs=workers,
       epoch=st.integers(0, 3))
def test_an_epoch_is_a_permutation(dataset, n, shape, order, seed, drop_last, jobs, epoch):
    whole = n // global_of(shape)
    if drop_last and not whole:
        with pytest.raises(stoker.StokerError), ranks_of(dataset(n), shape, drop_last=True, **order):
            pass
        return
    with ranks_of(dataset(n), shape, seed=seed, drop_last=drop_last, num_workers=jobs, **order) as loaders:
        for loader in loaders:
            loader.set_epoch(epoch)
        steps = steps_of(loaders)
        assert {len(loader) for loader in loaders} == {len(steps)}
    seen = flat(steps)
    assert len(seen) == len(set(seen)) == (whole * global_of(shape) if drop_last else n)
    assert all(0 <= i < n for i in seen)
    if order["shuffle"] is False:
        assert seen == list(range(len(seen)))
    for step in steps:                          # a global batch is dealt evenly
        assert max(map(len, step)) - min(map(len, step)) <= 1


@props
@given(n=counts, shape=shapes(), order=orders, seed=seeds, jobs=workers, data=st.data())
def test_the_same_tail_from_every_step(dataset, n, shape, order, seed, jobs, data):
    options = {"seed": seed, "num_workers": jobs, **order}
    with ranks_of(dataset(n), shape, **options) as loaders:
        steps, states, running = [], [], [iter(loader) for loader in loaders]
        while (step := step_of(running)) is not None:
            steps.append(step)
            states.append([{k: v for k, v in loader.state_dict().items() if k != "local"} for loader in loaders])
        after = steps_of(loaders)
    assert all(state == of_ranks[0] for of_ranks in states for state in of_ranks)
    every = range(len(steps))
    for k in every if len(steps) <= 8 else data.draw(st.sets(st.sampled_from(every), min_size=8, max_size=8)):
        with ranks_of(dataset(n), shape, **options) as loaders:
            for loader in loaders:
                loader.load_state_dict(states[k][0])
            tail = steps_of(loaders)
            assert tail == steps[k + 1:]
            assert steps_of(loaders) == after   # and the epoch after it


@props
@given(n=counts, order=orders, seed=seeds, lives=st.lists(st.tuples(shapes(), workers, st.integers(0, 5)),
                                                          min_size=1, max_size=5), last=shapes())
def test_any_change_on_the_way(dataset, n, order, seed, lives, last):
    """Positions are handed out one after the other, whoever takes them."""
    with ranks_of(dataset(n), {"world_size": 1, "batch_size": 1}, seed=seed, **order) as loaders:
        law = flat(steps_of(loaders))
    state, at = None, 0
    for shape, jobs, taken in [*lives, (last, 0, None)]:
        with ranks_of(dataset(n), shape, seed=seed, num_workers=jobs, **order) as loaders:
            for loader in loaders:
                if state is not None:
                    loader.load_state_dict(state)
            running, done = [iter(loader) for loader in loaders], 0
            while done != taken and (step := step_of(running)) is not None:
                got = [i for rank in step for i in rank]
                assert sorted(got) == sorted(law[at:at + global_of(shape)])
                if order["shuffle"] != "block":
                    assert got == law[at:at + global_of(shape)]
                at += len(got)
                done += 1
            state = loaders[0].state_dict()
        if at == n:
            break
    assert at == n
