# SPDX-License-Identifier: Apache-2.0
"""stoker.mix and stratify: proportions that hold in every batch, for any world, after any resume."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stoker
from conftest import LABEL, as_numpy, ids_of, write_tar

SIZES = {"a": 7, "b": 50, "c": 23}


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mix")
    for name, n in SIZES.items():
        write_tar(folder / f"{name}.tar", [(f"{name}{i:03d}.cls", b"%d" % (i % 4)) for i in range(n)])
    return {name: stoker.open(folder / f"{name}.tar") for name in SIZES}


def mixture(sets, weights, **options):
    return stoker.mix({name: (sets[name], w) for name, w in zip(SIZES, weights, strict=True)}, **options)


def valid_ids(batch):
    return [int(i) for i, ok in zip(batch.sample_ids, batch.valid, strict=True) if ok]


def run(data, world=1, batch=1, state=None, steps=None, epochs=1, changes=(), **options):
    """Ids in order of position, and rank 0's state; changes: (step, weights)."""
    got, first = {}, None
    for rank in range(world):
        with stoker.Loader(data, LABEL, rank=rank, world_size=world, batch_size=batch, **options) as loader:
            if state is not None:
                loader.load_state_dict(state)
            looped = itertools.chain.from_iterable(itertools.repeat(loader, epochs))
            at = dict(changes)
            for step, b in enumerate(itertools.islice(looped, steps)):
                got.setdefault(step, []).extend(valid_ids(b))
                if step + 1 in at:
                    loader.set_weights(at[step + 1])
            if rank == 0:
                first = json.loads(json.dumps(loader.state_dict()))
            else:
                assert {**loader.state_dict(), "local": 0} == {**first, "local": 0}
    return [i for step in sorted(got) for i in got[step]], first


def test_proportions_and_passes(sets):
    data = mixture(sets, (1, 2, 1), epoch_size=400)
    for shuffle in (False, True):
        found, _ = run(data, batch=16, epochs=3, shuffle=shuffle, seed=3)
        assert len(found) == 1200
        which = data.which(found)
        for k in range(0, 1200, 16):
            assert np.all(np.abs(np.bincount(which[k:k + 16], minlength=3) - [4, 8, 4]) < 2)
        assert np.bincount(which).tolist() == [300, 600, 300]
        start = 0
        for d, n in enumerate(SIZES.values()):
            mine = np.array(found)[which == d] - start
            for k in range(0, len(mine) - n + 1, n):        # pass by pass
                assert sorted(mine[k:k + n]) == list(range(n))
            assert shuffle or mine[:n].tolist() == list(range(n))
            start += n


def test_names_and_defaults(sets):
    data = stoker.mix({sets["a"]: 1, sets["b"]: 3})
    assert list(data.weights) == ["0", "1"] and len(data) == 57
    with stoker.Loader(data, LABEL) as loader:
        assert len(loader) == 57
        state = loader.state_dict()
        assert state["order"]["mix"]["names"] == ["0", "1"]
        assert state["order"]["mix"]["changes"] == [[0, [2**18, 3 * 2**18], [0, 0]]]
    assert "a: 1" in repr(mixture(sets, (1, 2, 1)))


@settings(max_examples=6)
@given(st.data())
def test_any_world_any_resume(sets, data):
    weights = data.draw(st.tuples(*[st.floats(0.01, 5)] * 3))
    both = mixture(sets, weights, epoch_size=data.draw(st.integers(20, 150)))
    options = {"seed": data.draw(st.integers(0, 99)), "shuffle": data.draw(st.booleans())}
    whole, _ = run(both, epochs=2, **options)
    for world in (1, 2, 3, 5):
        assert run(both, world, data.draw(st.integers(1, 4)), epochs=2, **options)[0] == whole
    steps = data.draw(st.integers(1, 9))
    head, state = run(both, 2, 2, steps=min(steps, both.epoch_size // 4), **options)
    tail, _ = run(both, 3, 2, state, epochs=2, **options)
    assert head + tail == whole


def test_weights_change_in_the_middle(sets):
    both = mixture(sets, (1, 1, 1), epoch_size=90)
    changes = [(5, {"a": 0, "b": 3}), (12, {"c": 0})]
    options = {"shuffle": True, "seed": 4}
    whole, last = run(both, 1, 6, epochs=3, changes=changes, **options)
    which = both.which(whole)
    assert np.bincount(which[:30], minlength=3).tolist() == [10, 10, 10]
    assert np.bincount(which[30:72], minlength=3).tolist() in ([0, 31, 11], [0, 32, 10])
    assert set(which[72:]) == {1}
    for world in (1, 2, 3):                     # the same for any world, however far batches were made ahead
        for prefetch in (1, 6):
            assert run(both, world, 6 // world, epochs=3, changes=changes, prefetch=prefetch, **options)[0] == whole
    for n, (world, batch) in itertools.product((5, 8, 14), ((1, 3), (3, 1), (2, 3))):
        head, state = run(both, 2, 3, steps=n, epochs=3, changes=changes, **options)
        rest = [(((k - n) * 6) // (world * batch), w) for k, w in changes if k > n]
        if any((k - n) * 6 % (world * batch) for k, _ in changes if k > n):
            continue                            # a change falls within a batch there
        left = 3 - (n * 6) // 90
        if n * 6 % (world * batch) == 0 and (90 - n * 6 % 90) % (world * batch) == 0:
            assert head + run(both, world, batch, state, epochs=left, changes=rest, **options)[0] == whole
    assert [c[0] for c in last["order"]["mix"]["changes"]] == [72]


@pytest.mark.asan
def test_changes_go_into_states_and_copies(sets):
    both = mixture(sets, (1, 1, 1), epoch_size=60)
    with stoker.Loader(both, LABEL, batch_size=6) as loader:
        running = iter(loader)
        next(running)
        loader.set_weights({"a": 0, "b": 0})
        assert set(both.which(as_numpy(next(running).sample_ids))) == {2}
        state = loader.state_dict()
        with pytest.raises(stoker.StokerError, match="no data set 'd'"):
            loader.set_weights({"d": 1})
        with pytest.raises(stoker.StokerError, match="all weights would be 0"):
            loader.set_weights({"c": 0})
        assert loader.state_dict() == state
        seen = [i for b in running for i in valid_ids(b)]
        assert set(both.which(seen)) == {2}
    with stoker.Loader(mixture(sets, (5, 1, 1), epoch_size=60), LABEL, batch_size=12) as other:
        other.load_state_dict(state)            # its weights come from the state
        assert ids_of(other) == seen
        other.set_weights({"a": 1})             # c keeps its own
        assert set(both.which(ids_of(other))) == {0, 2}


def test_states_do_not_grow_with_changes(sets):
    """At most 1 KB and 64 bytes a data set, however often and whenever the weights changed."""
    many = stoker.mix({f"set-{i:02d}": (sets["c"], 1 + i) for i in range(50)}, epoch_size=10**9)
    with stoker.Loader(many, LABEL, batch_size=4, shuffle=True) as loader:
        for i in range(9):
            loader.set_epoch(10**6 * i)
            next(iter(loader))
            loader.set_weights({name: (i + j) % 13 for j, name in enumerate(many.weights)})
        state = json.dumps(loader.state_dict())
        assert len(state) < 1024 + 50 * 64
        expected = [valid_ids(b) for b, _ in zip(loader, range(3), strict=False)]
        loader.set_epoch(0)
        assert len(loader.state_dict()["order"]["mix"]["changes"]) == 10    # these still come
    with stoker.Loader(many, LABEL, batch_size=4, shuffle=True) as other:
        other.load_state_dict(json.loads(state))
        other.set_epoch(8 * 10**6 + 1)
        assert [valid_ids(b) for b, _ in zip(other, range(3), strict=False)] == expected
        other.set_epoch(10**6)
        for refused in (lambda: iter(other), lambda: other.set_weights({"set-00": 3})):
            with pytest.raises(stoker.StokerError, match="position 4"):
                refused()


def test_a_loader_of_no_mixture(sets):
    with stoker.Loader(sets["a"], LABEL) as loader, pytest.raises(stoker.StokerError, match="see stoker.mix"):
        loader.set_weights({"a": 1})


@pytest.mark.asan
def test_damaged_states(sets):
    both = mixture(sets, (1, 1, 1))
    with stoker.Loader(both, LABEL) as loader:
        state = json.loads(json.dumps(loader.state_dict()))
        for bad in (None, [], [[0, [1, 2, 3], [0, 0, 0]]], [[0, [2**20], [0]]], [[5, [2**20, 0, 0], [0, 0, 0]]],
                    [[0, [2**20, 0, 0], [0, 0]]], "x", [[0, [-1, 1, 2**20], [0, 0, 0]]],
                    [[0, [2**20, 0, 0], [0, 0, 0]]] * 2):
            state["order"]["mix"]["changes"] = bad
            for strict in (True, False):
                if strict or bad != [[5, [2**20, 0, 0], [0, 0, 0]]]:        # a position that can be moved
                    with pytest.raises(stoker.StokerError, match="damaged|no weights"):
                        loader.load_state_dict(state, strict)
        state["order"]["mix"]["names"] = ["a", "b", "d"]
        with pytest.raises(stoker.StokerError, match="order mix: .* then, .* now"):
            loader.load_state_dict(state)


@pytest.mark.parametrize("make, words", [
    (lambda s: stoker.mix({}), "mix takes"), (lambda s: stoker.mix({"a": s["a"]}), r"must be \(data, weight\)"),
    (lambda s: stoker.mix({3: (s["a"], 1)}), "called by a name"),
    (lambda s: stoker.mix({"a": (s["a"], -1)}), "finite and not negative, not -1"),
    (lambda s: stoker.mix({"a": (s["a"], float("nan"))}), "not nan"),
    (lambda s: stoker.mix({"a": (s["a"], "x")}), "must be a number"),
    (lambda s: stoker.mix({"a": (s["a"], 0), "b": (s["b"], 0)}), "all weights are 0: a, b"),
    (lambda s: stoker.mix({"a": (s["a"], 1)}, epoch_size=0), "epoch_size must be at least 1"),
    (lambda s: stoker.Loader(mixture(s, (1, 1, 1)), LABEL, select=[1]), "select= does not go with stoker.mix"),
    (lambda s: stoker.Loader(mixture(s, (1, 1, 1)), LABEL, repeat=2), "repeat= does not go"),
    (lambda s: stoker.Loader(mixture(s, (1, 1, 1)), LABEL, weights=[1] * 80), "weights and mix each say"),
    (lambda s: stoker.Loader(mixture(s, (1, 1, 1)), LABEL, shuffle="block"), 'mix and shuffle="block"'),
    (lambda s: stoker.Loader(s["a"], LABEL, stratify="cls", shuffle="block"), 'stratify and shuffle="block"'),
    (lambda s: stoker.Loader(s["a"], LABEL, stratify="cls", balance="cls"), "balance and stratify each say"),
    (lambda s: stoker.Loader(s["a"], LABEL, stratify="cls", replacement=True), "give one of them too"),
    (lambda s: stoker.Loader(s["a"], LABEL, stratify=[1]), "one entry for each of the 7 samples"),
])
def test_bad_arguments(sets, make, words):
    with pytest.raises(stoker.StokerError, match=words):
        make(sets)


def test_exclude_and_preview(sets):
    both = mixture(sets, (1, 1, 1), epoch_size=300)
    found, _ = run(both, exclude=["a000", "b001"], shuffle=True)
    assert 0 not in found and 8 not in found and {1, 7, 57} <= set(found)


# ---- stratify ------------------------------------------------------------------------------------


@settings(max_examples=8)
@given(st.data())
def test_stratified_batches(sets, data):
    both = [sets["b"], sets["c"]]
    classes = np.array(data.draw(st.lists(st.integers(0, 3), min_size=73, max_size=73)))
    share = np.bincount(classes, minlength=4) / 73
    options = {"stratify": classes, "seed": data.draw(st.integers(0, 99)), "shuffle": True}
    whole, _ = run(both, epochs=2, **options)
    assert sorted(whole[:73]) == sorted(whole[73:]) == list(range(73))
    assert whole[:73] != whole[73:]
    world, batch = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 8))
    for rank in range(world):
        with stoker.Loader(both, LABEL, batch_size=batch, rank=rank, world_size=world, **options) as loader:
            for b in loader:
                found = valid_ids(b)
                assert np.all(np.abs(np.bincount(classes[found], minlength=4) - share * len(found)) < 2)
    assert run(both, world, batch, epochs=2, **options)[0] == whole
    steps = data.draw(st.integers(1, 5))
    head, state = run(both, 2, 3, steps=steps, **options)
    assert head + run(both, 3, 2, state, epochs=2, **options)[0] == whole


def test_stratify_by_field(sets):
    with stoker.Loader(sets["b"], LABEL, stratify="cls", shuffle=True, batch_size=12) as loader:
        for b in itertools.islice(loader, 4):
            assert np.all(np.abs(np.bincount(as_numpy(b["label"]), minlength=4) - 3) <= 1)
        state = loader.state_dict()
    with stoker.Loader(sets["b"], LABEL, stratify=np.arange(50) % 5, shuffle=True) as loader, \
            pytest.raises(stoker.StokerError, match="order stratify: '.*' then, '.*' now"):
        loader.load_state_dict(state)
