# SPDX-License-Identifier: Apache-2.0
"""max_tokens= and bucket=: batches by length; every sample once, budgets kept, equal steps, resumed anywhere."""

import contextlib
import itertools
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import as_numpy, write_tar
from hypothesis import given, settings
from hypothesis import strategies as st
from test_pad import npy

import stoker

COUNT = itertools.count()
FIELDS = {"x": "from(npy) | npy(dtype=i32)"}


def make(folder, lengths, bad=()):
    """A shard of rows of these lengths; row i is i, i + 1, ..."""
    members = []
    for i, n in enumerate(lengths):
        data = b"none" if i in bad else npy(np.arange(i, i + n, dtype=np.int32))
        members += [(f"{i:05d}.npy", data), (f"{i:05d}.json", json.dumps({"n": int(n)}).encode())]
    return str(write_tar(folder / f"{next(COUNT)}.tar", members))


def test_one_row_at_most(tmp_path):
    """batch_size=1 beside max_tokens is a bound like any other, and not the default."""
    data = make(tmp_path, [5] * 12)
    bound, = ranks(data, 1, max_tokens=100, batch_size=1)
    free, = ranks(data, 1, max_tokens=100)
    assert (len(bound), len(free)) == (12, 1)
    assert all(len(batch["x"]) == 1 for batch in bound)


def test_multiples_that_do_not_divide_each_other(tmp_path):
    data = make(tmp_path, [10] * 40)
    chains = dict.fromkeys("ab", FIELDS["x"])
    loader = stoker.Loader(data, chains, max_tokens=96, collate={"a": ("pad", 0, 8), "b": ("pad", 0, 12)})
    for batch in loader:
        assert batch["a"].numel() <= 96 and batch["b"].numel() <= 96
    with pytest.raises(stoker.StokerError, match="multiples of each other"):
        stoker.Loader(data, chains, max_tokens=96, collate={"a": ("pad", 0, 65521), "b": ("pad", 0, 65519)})


def test_a_state_knows_the_multiple(tmp_path):
    """Rows are counted with their padding, so another multiple makes other batches."""
    data = make(tmp_path, random_lengths(200, 5))
    for options in ({"max_tokens": 128}, {"bucket": 50, "batch_size": 4}):
        loader, = ranks(data, 1, collate=("pad", 0, 8), **options)
        next(iter(loader))
        same, = ranks(data, 1, collate=("pad", 7, 8), **options)
        same.load_state_dict(loader.state_dict())
        other, = ranks(data, 1, collate="pad", **options)
        with pytest.raises(stoker.StokerError, match="order multiple: 8 then, None now"):
            other.load_state_dict(loader.state_dict())


def ranks(data, world, **options):
    options = {"fields": FIELDS, "collate": "pad", "shuffle": True, "num_workers": 0, **options}
    return [stoker.Loader(data, rank=r, world_size=world, **options) for r in range(world)]


def steps(loaders, most=None):
    """Batches of all ranks, step by step, as lists of (ids, longest, valid)."""
    out = []
    its = [iter(loader) for loader in loaders]
    for _ in range(10**9 if most is None else most):
        batches = [next(it, None) for it in its]
        assert len({b is None for b in batches}) == 1           # equal steps on every rank
        if batches[0] is None:
            break
        out.append([(b.sample_ids.tolist(), as_numpy(b["x"]).shape[1], b.valid.tolist()) for b in batches])
        for b in batches:
            for i, row, n in zip(b.sample_ids, as_numpy(b["x"]), b.lengths["x"], strict=True):
                n = int(n[0]) if np.ndim(n) else int(n)
                assert row[:n].tolist() == list(range(i, i + n)) and not row[n:].any()
    return out


def seen(done):
    return [i for step in done for ids, _, valid in step for i, ok in zip(ids, valid, strict=True) if ok]


def random_lengths(n, seed=0, most=60):
    return np.minimum(np.random.default_rng(seed).lognormal(2.2, 0.9, n).astype(int) + 1, most)


def close(loaders):
    for loader in loaders:
        loader.close()


@pytest.mark.parametrize("workers", [0, 3])
def test_budget(tmp_path, workers):
    lengths = random_lengths(800)
    data = make(tmp_path, lengths)
    with contextlib.closing(ranks(data, 1, max_tokens=256, num_workers=workers)[0]) as loader:
        padding = []
        for epoch in range(3):
            assert loader.epoch == epoch
            want = len(loader)
            done = steps([loader])
            assert len(done) == want
            assert sorted(seen(done)) == list(range(800))
            for (ids, longest, valid), in done:
                assert len(ids) * longest <= 256 and all(valid)
                assert longest == max(lengths[i] for i in ids)
            padding.append(loader.stats()["padding"])
        assert all(0 <= p < 0.1 for p in padding)


def test_budget_is_mixed_anew_and_sorted_when_not_shuffled(tmp_path):
    data = make(tmp_path, random_lengths(500))
    loader, = ranks(data, 1, max_tokens=200)
    first, second = steps([loader]), steps([loader])
    assert first != second
    longest = [step[0][1] for step in first]
    assert longest != sorted(longest, reverse=True)
    plain, = ranks(data, 1, max_tokens=200, shuffle=False)
    first, second = steps([plain]), steps([plain])
    assert first == second
    longest = [step[0][1] for step in first]
    assert longest == sorted(longest, reverse=True)             # what needs the most memory comes first


@settings(max_examples=25)
@given(lengths=st.lists(st.integers(0, 40), min_size=1, max_size=150), budget=st.integers(40, 300),
       world=st.integers(1, 5), other=st.integers(1, 5), window=st.one_of(st.none(), st.integers(1, 60)),
       rows=st.one_of(st.just(1), st.integers(2, 9)), multiple=st.sampled_from([1, 4, 8]),
       shuffle=st.booleans(), data=st.data())
def test_any_budget_resumes_anywhere(tmp_path, lengths, budget, world, other, window, rows, multiple, shuffle, data):
    shard = make(tmp_path, lengths)
    options = {"max_tokens": budget, "bucket": window, "batch_size": rows, "shuffle": shuffle,
               "collate": ("pad", 0, multiple)}
    whole = ranks(shard, world, **options)
    done = steps(whole)
    assert sorted(seen(done)) == list(range(len(lengths)))
    for step in done:
        for ids, longest, _ in step:
            assert len(ids) * longest <= budget
            assert rows == 1 or len(ids) <= rows
    at = data.draw(st.integers(0, len(done)))
    half = ranks(shard, world, **options)
    first = steps(half, at)
    assert first == done[:at]
    state = json.loads(json.dumps(half[0].state_dict()))
    assert all({**h.state_dict(), "local": 0} == {**state, "local": 0} for h in half)
    again = ranks(shard, other, **options)
    for loader in again:
        loader.load_state_dict(state)
    rest = steps(again)
    if at and at < len(done):                    # the same batches, dealt to other ranks
        flat = [b for step in done for b in step if all(b[2])]
        went = [b for step in first for b in step if all(b[2])]
        assert went + [b for step in rest for b in step if all(b[2])] == flat
    if at:
        assert sorted(seen(first) + seen(rest)) == list(range(len(lengths)))
    close(whole + half + again)


@settings(max_examples=25)
@given(lengths=st.lists(st.integers(0, 40), min_size=1, max_size=150), world=st.integers(1, 4),
       batch=st.integers(1, 9), other=st.tuples(st.integers(1, 4), st.integers(1, 9)),
       window=st.integers(1, 60), shuffle=st.booleans(), drop=st.booleans(), data=st.data())
def test_any_bucket_resumes_anywhere(tmp_path, lengths, world, batch, other, window, shuffle, drop, data):
    shard = make(tmp_path, lengths)
    options = {"bucket": window, "batch_size": batch, "shuffle": shuffle}
    whole = ranks(shard, world, **options)
    done = steps(whole)
    assert len(done) == len(whole[0]) and sorted(seen(done)) == list(range(len(lengths)))
    at = data.draw(st.integers(0, len(done)))
    half = ranks(shard, world, **options)
    first = steps(half, at)
    assert first == done[:at]
    again = ranks(shard, other[0], **{**options, "batch_size": other[1]})
    state = json.loads(json.dumps(half[0].state_dict()))
    for loader in again:
        loader.load_state_dict(state)
    rest = steps(again)
    if at:                                       # the same order, in other batches
        assert seen(first) + seen(rest) == seen(done)
    close(whole + half + again)


def test_bucket_has_rows_of_like_length_on_all_ranks(tmp_path):
    lengths = random_lengths(2000, 3)
    data = make(tmp_path, lengths)
    spread = {}
    for bucket in (None, True, 200):
        loaders = ranks(data, 4, batch_size=8, bucket=bucket)
        done = steps(loaders)
        assert sorted(seen(done)) == list(range(2000))
        spread[bucket] = np.mean([np.ptp([lengths[i] for ids, _, _ in step for i in ids]) for step in done])
    assert spread[True] < spread[200] < spread[None] / 4


def test_lengths_are_measured_once_and_can_be_given(tmp_path):
    lengths = random_lengths(300, 5)
    data = make(tmp_path, lengths)
    options = {"max_tokens": 128, "seed": 3}
    measured, = ranks(data, 1, **options)
    kept = list(tmp_path.glob("**/*.len")) + list((tmp_path / "cache").glob("**/*.len"))
    assert kept
    done = steps([measured])
    again, = ranks(data, 1, **options)
    assert steps([again]) == done
    for given in (lengths, lengths.tolist(), "json.n"):
        loader, = ranks(data, 1, lengths=given, **options)
        assert steps([loader]) == done
        assert loader.state_dict()["order"] == again.state_dict()["order"]
    for path in kept:                            # damaged: measured again
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    loader, = ranks(data, 1, **options)
    assert steps([loader]) == done


def test_truncate_and_several_outputs(tmp_path):
    lengths = random_lengths(300, 6)
    data = make(tmp_path, lengths)
    with stoker.Loader(data, {"x": "from(npy) | npy | truncate(16)", "y": "from(npy) | npy | truncate(8)",
                              "n": "from(json) | json(n) | int"}, max_tokens=64, collate="pad", shuffle=True) as loader:
        ids = []
        for batch in loader:
            assert as_numpy(batch["x"]).size <= 64
            assert as_numpy(batch["n"]).tolist() == [lengths[i] for i in batch.sample_ids]
            ids += batch.sample_ids.tolist()
        assert sorted(ids) == list(range(300))


def test_bad_samples_are_stood_in_for_within_the_budget(tmp_path):
    lengths = random_lengths(200, 7)
    data = make(tmp_path, lengths, bad={3, 50, 51, 199})
    with pytest.raises(stoker.StokerError, match="00003"):
        ranks(data, 1, max_tokens=100)
    loader, = ranks(data, 1, max_tokens=100, on_error="skip", batch_size=64)
    for _ in range(2):
        done = steps([loader])
        assert sorted(seen(done)) == [i for i in range(200) if i not in {3, 50, 51, 199}]
        assert all(len(ids) * longest <= 100 for (ids, longest, _), in done)


@pytest.mark.parametrize("options, words", [
    ({"max_tokens": 20}, "a row of 60 values, padded 60, is longer than max_tokens=20"),
    ({"max_tokens": 60, "collate": ("pad", 0, 64)}, "padded 64, is longer than max_tokens=60"),
    ({"max_tokens": 100, "global_batch_size": 4}, "leave global_batch_size"),
    ({"max_tokens": 0}, "max_tokens must be at least 1"),
    ({"max_tokens": 100, "epoch_size": 10**12}, "an epoch of 1000000000000 samples is too long .* give an epoch_size"),
    ({"max_tokens": 100, "repeat": 2**32 - 1}, "an epoch of 214748364750 samples is too long"),
    ({"bucket": 0}, "bucket must be at least 1"),
    ({"lengths": [1] * 50}, "lengths are for max_tokens, max_seconds, bucket and pack"),
    ({"max_tokens": 100, "lengths": [1] * 49}, "one entry for each of the 50 samples"),
    ({"max_tokens": 100, "lengths": [1.5] * 50}, "lengths must be whole numbers"),
    ({"max_tokens": 100, "lengths": [-1] * 50}, "lengths must be 0 to"),
    ({"max_tokens": 100, "fields": {"n": "from(json) | json(n) | int"}}, "no output has rows that differ in length"),
])
def test_what_does_not_fit_is_said(tmp_path, options, words):
    data = make(tmp_path, [60] + [5] * 49)
    with pytest.raises(stoker.StokerError, match=words):
        ranks(data, 1, **options)


def test_wrong_lengths_are_found(tmp_path):
    data = make(tmp_path, [60] + [5] * 49)
    loader, = ranks(data, 1, max_tokens=100, lengths=[50] + [5] * 49)
    with pytest.raises(stoker.StokerError, match="its row has 60 values, and lengths say 50"):
        list(loader)


def test_states_that_do_not_fit(tmp_path):
    data = make(tmp_path, random_lengths(200, 8))
    loader, = ranks(data, 1, max_tokens=100)
    begin = loader.state_dict()
    next(iter(loader))
    state = loader.state_dict()
    for options in ({"max_tokens": 120}, {"max_tokens": 100, "bucket": 50}, {"max_tokens": 100, "batch_size": 4},
                    {"batch_size": 4, "bucket": True}, {}):
        other, = ranks(data, 1, **options)
        with pytest.raises(stoker.StokerError, match="does not fit this loader: order"):
            other.load_state_dict(state)
        assert sorted(seen(steps([other]))) == list(range(200))
        other.load_state_dict({**begin, "epoch": 4})            # an epoch's begin fits all of them
        assert sorted(seen(steps([other]))) == list(range(200)) and other.epoch == 5


def test_arrays_have_one_length():
    with pytest.raises(stoker.StokerError, match="all have one length"):
        stoker.Loader({"x": np.zeros((9, 2))}, max_tokens=100)


def test_the_ledger_knows_every_row(tmp_path):
    data = make(tmp_path, random_lengths(200, 9))
    loaders = ranks(data, 2, max_tokens=100)
    for loader in loaders:
        loader.ledger(tmp_path / "ledger")
    done = [steps(loaders) for _ in range(2)]
    close(loaders)
    cli = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))
    said = subprocess.run([cli, "ledger", str(tmp_path / "ledger"), "--twice"], capture_output=True, text=True)
    assert sorted(seen(done[0])) == sorted(seen(done[1])) == list(range(200))
    assert said.returncode == 0, said.stdout + said.stderr
    said = subprocess.run([cli, "ledger", str(tmp_path / "ledger")], capture_output=True, text=True).stdout
    assert said.startswith("200 samples, seed 0\n") and "not whole" not in said    # epochs differ in their steps


def test_explain_and_the_steps_of_any_epoch(tmp_path):
    data = make(tmp_path, random_lengths(100, 4))
    loader, = ranks(data, 1, max_tokens=100)
    assert loader.explain(7, epoch=2).id == 7
    for epoch in (3, 0, 5):
        loader.set_epoch(epoch)
        want = len(loader)
        assert len(steps([loader])) == want


@pytest.mark.parametrize("options", [{"max_tokens": 120}, {"bucket": 100, "batch_size": 8}])
@pytest.mark.parametrize("how", [{"shuffle": "block"}, {"shuffle": True, "epoch_size": 333}, {"weights": list(range(1, 501))},
                                 {"shuffle": True, "repeat": 2, "skip": 3, "limit": 200}, {"stratify": [i % 3 for i in range(500)]}])
def test_over_every_order(tmp_path, options, how):
    """Batches are made of what the order gives, as often as it gives it; another number of ranks goes on."""
    lengths = random_lengths(500, 11)
    data = make(tmp_path, lengths)
    with stoker.Loader(data, FIELDS, collate="list", batch_size=64, num_workers=0,
                       **({"shuffle": True} if "weights" in how or "stratify" in how else {}) | how) as plain:
        plain.set_epoch(1)
        want = sorted(int(i) for batch in plain for i in batch.sample_ids)

    def ranks_at(world, state=None):
        loaders = ranks(data, world, **options, **how)
        for loader in loaders:
            loader.set_epoch(1)
            if state is not None:
                loader.load_state_dict(state)
        return loaders

    whole = ranks_at(3)
    done = steps(whole)
    assert sorted(seen(done)) == want
    for at in (1, len(done) // 2, len(done) - 1):
        half = ranks_at(3)
        first = steps(half, at)
        rest = steps(ranks_at(2, json.loads(json.dumps(half[0].state_dict()))))
        assert sorted(seen(first + rest)) == want
        assert seen(first + rest) == seen(done)
