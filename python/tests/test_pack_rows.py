# SPDX-License-Identifier: Apache-2.0
"""pack(): samples of a ragged field side by side in rows, against a slow reference; resumed anywhere."""

import itertools
import json

import numpy as np
import pytest
from conftest import as_numpy, write_tar
from hypothesis import given, settings
from hypothesis import strategies as st
from test_packing_documents import fitted
from test_pad import npy

import stoker

COUNT = itertools.count()


def sample(i, n, dtype=np.int32):
    """Rows that tell where they come from: 1000 * (i + 1) + 0, 1, ..."""
    return (1000 * (i + 1) + np.arange(n)).astype(dtype)


def make(folder, lengths, dtype=np.int32):
    members = []
    for i, n in enumerate(lengths):
        row = sample(i, n, dtype)
        members += [(f"{i:05d}.npy", npy(row)), (f"{i:05d}.json", json.dumps({"ids": row.tolist()}).encode())]
    return str(write_tar(folder / f"{next(COUNT)}.tar", members))


def chains(block, fit="best", window=65536, field="from(npy) | npy"):
    row = f"{field} | pack(block={block}, fit={fit}, window={window}"
    return {"x": f"{row})", "y": f"{row}, shift=1)", "position": f"{row}, give=positions) | to(i32)",
            "document": f"{row}, give=documents)", "loss": f"{row}, give=mask, shift=1) | to(f32)",
            "there": f"{row}, give=mask) | to(u8)"}


def rows_of(batches):
    """Rows as tuples of bytes, so that they compare; rows that are not valid left out."""
    out = []
    for batch in batches:
        parts = [as_numpy(batch[name]) for name in ("x", "y", "position", "document", "loss", "there")]
        out += [tuple(p[k].tobytes() for p in parts) for k in range(len(batch.valid)) if batch.valid[k]]
    return out


def expected(pieces, block):
    """One row of (tokens, what follows each)."""
    out = {"x": np.zeros(block, np.int64), "y": np.full(block, -100), "position": np.zeros(block, np.int32),
           "document": np.zeros(block, np.int64), "loss": np.zeros(block, np.float32), "there": np.zeros(block, np.uint8)}
    at = 0
    for number, (tokens, follows) in enumerate(pieces):
        here = slice(at, at + len(tokens))
        out["x"][here], out["y"][here] = tokens, follows
        out["position"][here] = np.arange(len(tokens))
        out["document"][here] = number + 1
        out["loss"][here] = follows != -100
        out["there"][here] = 1
        at += len(tokens)
    out["position"][at:] = np.arange(block - at)
    return tuple(out[name].tobytes() for name in ("x", "y", "position", "document", "loss", "there"))


def reference(lengths, order, block, fit, window):
    """The rows of an epoch, in any order: `order` has the sample at each position."""
    rows = []
    for begin in range(0, len(order), window):
        rests = []
        for i in order[begin:begin + window]:
            tokens = sample(i, lengths[i]).astype(np.int64)
            follows = np.append(tokens[1:], -100)[:len(tokens)]
            whole = len(tokens) // block * block
            rows += [expected([(tokens[k:k + block], follows[k:k + block])], block) for k in range(0, whole, block)]
            if len(tokens) > whole:
                rests.append((tokens[whole:], follows[whole:]))
        rows += [expected([rests[k] for k in row], block) for row in fitted([len(t) for t, _ in rests], block, fit)]
    return rows


def epoch_order(shard, n, epoch, shuffle):
    """Which sample stands where, as a plain loader shows it."""
    with stoker.Loader(shard, {"n": "from(json) | json(ids) | ints"}, collate="list", batch_size=max(n, 1),
                       shuffle=shuffle, seed=5, num_workers=0) as loader:
        loader.set_epoch(epoch)
        return [int(i) for batch in loader for i in batch.sample_ids]


@settings(max_examples=40)
@given(lengths=st.lists(st.integers(0, 40), min_size=1, max_size=60).filter(any), block=st.integers(1, 30),
       fit=st.sampled_from(["best", "first"]), window=st.sampled_from([1, 3, 16, 65536]), shuffle=st.booleans(),
       dtype=st.sampled_from(["uint16", "int32", "int64", "uint32"]), batch=st.integers(1, 5),
       field=st.sampled_from(["from(npy) | npy", "from(json) | json(ids) | ints"]), workers=st.sampled_from([0, 2]))
def test_rows_against_a_slow_packer(tmp_path, lengths, block, fit, window, shuffle, dtype, batch, field, workers):
    shard = make(tmp_path, lengths, dtype)
    with stoker.Loader(shard, chains(block, fit, window, field), batch_size=batch, shuffle=shuffle, seed=5,
                       num_workers=workers) as loader:
        for epoch in range(2):
            want = reference(lengths, epoch_order(shard, len(lengths), epoch, shuffle), block, fit, window)
            steps = len(loader)
            batches = list(loader)
            got = rows_of(batches)
            assert sorted(got) == sorted(want) and len(batches) == steps == -(-len(want) // batch)
        loader.set_epoch(1)
        assert loader.stats()["padding"] is not None


@settings(max_examples=25)
@given(lengths=st.lists(st.integers(0, 30), min_size=1, max_size=60).filter(any), block=st.integers(2, 20),
       window=st.sampled_from([5, 65536]), world=st.integers(1, 4), other=st.integers(1, 4), batch=st.integers(1, 4),
       then=st.integers(1, 4), epoch=st.integers(0, 2), data=st.data())
def test_resumed_anywhere_with_any_ranks(tmp_path, lengths, block, window, world, other, batch, then, epoch, data):
    shard = make(tmp_path, lengths)
    fields = chains(block, window=window)

    def ranks(n, size):
        made = [stoker.Loader(shard, fields, batch_size=size, shuffle=True, rank=r, world_size=n, num_workers=0)
                for r in range(n)]
        for loader in made:
            loader.set_epoch(epoch)
        return made

    def run(loaders, most=None):
        steps, its = [], [iter(loader) for loader in loaders]
        while most is None or len(steps) < most:
            batches = [next(it, None) for it in its]
            assert len({b is None for b in batches}) == 1
            if batches[0] is None:
                break
            steps.append(rows_of(batches))
        return steps

    whole = run(ranks(world, batch))
    at = data.draw(st.integers(0, len(whole)))
    half = ranks(world, batch)
    first = run(half, at)
    assert first == whole[:at]
    state = json.loads(json.dumps(half[0].state_dict()))
    again = ranks(other, then)
    for loader in again:
        loader.load_state_dict(state)
    if at == 0:
        for loader in again:
            loader.set_epoch(epoch)
    rest = run(again)
    assert [r for s in first + rest for r in s] == [r for s in whole for r in s]


def test_truncate_first_and_last(tmp_path):
    shard = make(tmp_path, [3, 9, 0, 20, 8])
    for keep, cut in (("first", slice(0, 8)), ("last", slice(-8, None))):
        with stoker.Loader(shard, {"x": f"from(npy) | npy | truncate(8, keep={keep}) | pack(block=8)"},
                           batch_size=2) as loader:
            got = sorted(int(v) for batch in loader for v in as_numpy(batch["x"]).ravel() if v)
        assert got == sorted(int(v) for i, n in enumerate([3, 9, 0, 20, 8]) for v in sample(i, n)[cut])


def test_lengths_given_and_wrong(tmp_path):
    lengths = [3, 9, 4, 20, 8] * 10
    shard = make(tmp_path, lengths)
    fields = chains(16)
    with stoker.Loader(shard, fields, batch_size=4, shuffle=True) as one, \
            stoker.Loader(shard, fields, batch_size=4, shuffle=True, lengths=lengths) as other:
        assert rows_of(one) == rows_of(other)
        assert one.state_dict()["order"] == other.state_dict()["order"]
    for wrong in (lengths[:-1] + [7], lengths[:-1] + [9]):
        with stoker.Loader(shard, fields, batch_size=4, lengths=wrong) as loader, \
                pytest.raises(stoker.StokerError, match=f"its row has 8 values, and lengths say {wrong[-1]}.*00049"):
            list(loader)


def test_bad_samples_are_left_out_when_they_are_skipped(tmp_path):
    lengths = [5, 6, 7, 8]
    members = [(f"{i}.npy", b"none" if i == 2 else npy(sample(i, n))) for i, n in enumerate(lengths)]
    shard = str(write_tar(tmp_path / "bad.tar", members))
    with pytest.raises(stoker.StokerError, match="key 2"):
        stoker.Loader(shard, {"x": "from(npy) | npy | pack(block=16)"})
    with stoker.Loader(shard, {"x": "from(npy) | npy | pack(block=16)"}, on_error="skip") as loader:
        got = sorted(int(v) for batch in loader for v in as_numpy(batch["x"]).ravel() if v)
    assert got == sorted(int(v) for i in (0, 1, 3) for v in sample(i, lengths[i]))


def test_select_and_exclude(tmp_path):
    lengths = [5, 6, 7, 8, 30]
    shard = make(tmp_path, lengths)
    for options, left in (({"select": [4, 1, 1]}, [4, 1, 1]), ({"exclude": ["00004"]}, [0, 1, 2, 3])):
        with stoker.Loader(shard, {"x": "from(npy) | npy | pack(block=16)"}, shuffle=True, **options) as loader:
            got = sorted(int(v) for batch in loader for v in as_numpy(batch["x"]).ravel() if v)
        assert got == sorted(int(v) for i in left for v in sample(i, lengths[i]))


@pytest.mark.parametrize("fields, options, words", [
    ({"x": "from(npy) | npy | pack(block=0)"}, {}, "block=0 is less than 1"),
    ({"x": "from(npy) | npy | pack(block=8, fit=worst)"}, {}, "pack: fit is first or best"),
    ({"x": "from(npy) | npy | pack(block=8, window=0)"}, {}, "window=0 is not in 1"),
    ({"x": "from(npy) | npy | pack(block=8, give=mask, pad=3)"}, {}, "pad fills tokens"),
    ({"x": "from(npy) | npy | pack(block=8, shift=-1)"}, {}, "shift=-1 is less than 0"),
    ({"x": "from(npy) | npy | pack(block=8, shift=1) | to(u16)"}, {}, "the pad value -100 is not a u16; say pad= in pack"),
    ({"x": "from(npy) | npy | pack(block=300, give=positions) | to(u8)"}, {}, "numbers up to 300 are no u8"),
    ({"x": "from(npy) | npy | pack(block=8) | to(stored)"}, {}, "write it out"),
    ({"x": "from(npy) | npy | pack(block=8) | int"}, {}, "int reads fields"),
    ({"x": "from(json) | json(ids) | floats | pack(block=8)"}, {}, "rows of whole numbers"),
    ({"x": "from(npy) | npy | pack(block=8)", "y": "from(npy) | npy"}, {"collate": "pad"}, "every output ends in one"),
    ({"x": "from(npy) | npy | pack(block=8)", "y": "from(npy) | npy | pack(block=9)"}, {}, "agree in block"),
    ({"x": "from(npy) | npy | pack(block=8)"}, {"max_tokens": 64}, "leave max_tokens"),
    ({"x": "from(npy) | npy | pack(block=8)"}, {"bucket": 64}, "leave bucket"),
])
def test_what_does_not_fit_is_said(tmp_path, fields, options, words):
    shard = make(tmp_path, [3, 4])
    with pytest.raises(stoker.StokerError, match=words):
        stoker.Loader(shard, fields, batch_size=2, **options)


def test_values_and_shapes_that_do_not_pack(tmp_path):
    rows = [np.array([1, 70000], np.int32), np.zeros((2, 2), np.int32), np.zeros(2, np.float32)]
    for i, (row, words) in enumerate(zip(rows, ("a value is not a u16", "one dimension", "whole numbers"), strict=True)):
        shard = str(write_tar(tmp_path / f"odd{i}.tar", [("a.npy", npy(row))]))
        with stoker.Loader(shard, {"x": "from(npy) | npy | pack(block=8) | to(u16)"}) as loader, \
                pytest.raises(stoker.StokerError, match=words):
            list(loader)


def test_all_empty(tmp_path):
    with pytest.raises(stoker.StokerError, match="no samples|no tokens|make no"):
        stoker.Loader(make(tmp_path, [0, 0]), {"x": "from(npy) | npy | pack(block=8)"})


@settings(max_examples=60)
@given(lengths=st.lists(st.integers(0, 60), max_size=80), block=st.integers(1, 30), fit=st.sampled_from(["best", "first"]),
       window=st.one_of(st.none(), st.integers(1, 90)))
def test_lengths_alone(lengths, block, fit, window):
    rows = sum(n // block for n in lengths)
    for at in range(0, len(lengths), window or len(lengths) or 1):
        rows += len(fitted([n % block for n in lengths[at:at + (window or len(lengths))] if n % block], block, fit))
    got = stoker.pack_lengths(np.array(lengths, np.int64), block, fit, window)
    assert (got.rows, got.tokens) == (rows, sum(lengths))
    assert got.padding == pytest.approx(1 - sum(lengths) / (rows * block) if rows else 0)
    assert f"{rows:,} rows" in str(got)


@pytest.mark.parametrize("args, words", [
    (([1.5], 8), "whole numbers"), (([-1], 8), "0 to"), (([2**32], 8), "0 to"), (([[1]], 8), "in one row"),
    (([1], 0), "block must be at least 1"), (([1], 8, "worst"), '"best" or "first"'), (([1], 8, "best", 0), "window must be")])
def test_lengths_that_are_none(args, words):
    with pytest.raises(stoker.StokerError, match=words):
        stoker.pack_lengths(*args)
