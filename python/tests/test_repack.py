# SPDX-License-Identifier: Apache-2.0
"""tokens(pack=..., repack=true): documents packed anew in every epoch, against a packer that takes its time."""

import json

import numpy as np
import pytest
from conftest import as_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from test_packing_documents import chains, fitted, made, packed_row, pieces_of, reference, some

import stoker

NAMES = list(chains(8, "best"))


def anew(block, fit):
    return {name: chain.replace(f"pack={fit}", f"pack={fit}, repack=true")
            for name, chain in chains(block, fit).items()}


def rows_of(batches):
    parts = {name: [as_numpy(b[name])[np.asarray(b.valid)] for b in batches] for name in NAMES}
    return list(zip(*(map(bytes, np.concatenate(parts[name])) for name in NAMES), strict=True))


def order_of(n, epoch, shuffle):
    """Which of n samples stands where."""
    with stoker.Loader({"x": np.arange(n)}, batch_size=n, shuffle=shuffle, seed=5, num_workers=0) as loader:
        loader.set_epoch(epoch)
        return [int(i) for batch in loader for i in batch.sample_ids]


def slow(docs, block, fit, order):
    """Rows of the pieces in this order; a row that is full is a piece alone."""
    pieces = list(pieces_of(docs, block))
    rows = [packed_row([pieces[order[k]] for k in row], block) for row in fitted([len(pieces[i][0]) for i in order], block, fit)]
    return [tuple(row[name].tobytes() for name in NAMES) for row in rows]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 33), st.sampled_from(["best", "first"]),
       st.integers(1, 3), st.sampled_from([0, 2]), st.booleans(), st.integers(1, 5))
def test_every_epoch_is_the_slow_one(tmp_path, sizes, block, fit, parts, workers, shuffle, batch):
    docs = some([*sizes, 1, 1, 1])
    paths = made(tmp_path, docs, parts)
    n = sum(1 for _ in pieces_of(docs, block))
    with stoker.Loader(paths, fields=anew(block, fit), batch_size=batch, num_workers=workers, shuffle=shuffle,
                       seed=5) as loader:
        for epoch in range(3):
            steps, batches = len(loader), []
            for one in loader:
                batches.append(one)
                stats = loader.stats()
            want = slow(docs, block, fit, order_of(n, epoch, shuffle))
            got = rows_of(batches)
            assert sorted(got) == sorted(want)
            assert steps == len(batches) == -(-len(want) // batch)
            tokens = sum(map(len, docs))
            assert stats["padding"] == pytest.approx(1 - tokens / (len(want) * block))
            if not shuffle:
                rows = [tuple(w[name].tobytes() for name in NAMES) for w in reference(docs, block, fit)]
                assert sorted(got) == sorted(rows)      # the same rows as without repack


def test_rows_are_others_every_epoch(tmp_path):
    docs = some(np.random.default_rng(1).integers(1, 20, 200), 1)
    paths = made(tmp_path, docs)
    with stoker.Loader(paths, fields=anew(32, "best"), batch_size=8, shuffle=True) as loader:
        one, two = rows_of(list(loader)), rows_of(list(loader))
    assert len(set(one) & set(two)) < len(one) / 4
    with stoker.Loader(paths, fields=chains(32, "best"), batch_size=8, shuffle=True) as loader:
        one, two = rows_of(list(loader)), rows_of(list(loader))
    assert set(one) == set(two)


def test_resume_at_every_step_in_another_world(tmp_path):
    docs = some(np.random.default_rng(3).integers(1, 60, 70), 3)
    paths, fields = made(tmp_path, docs, 2), anew(32, "best")

    def run(world, batch, state=None, stop=None):
        loaders = [stoker.Loader(paths, fields=fields, rank=r, world_size=world, batch_size=batch, shuffle=True, seed=5)
                   for r in range(world)]
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(state)
            else:
                loader.set_epoch(2)
        assert len({len(loader) for loader in loaders}) == 1
        steps = []
        for step, parts in enumerate(zip(*loaders, strict=True)):
            steps += rows_of(parts)
            if step + 1 == stop:
                break
        state = json.loads(json.dumps(loaders[0].state_dict()))
        for loader in loaders:
            loader.close()
        return steps, state

    whole, _ = run(1, 6)
    for stop in range(1, -(-len(whole) // 6)):
        begun, state = run(2, 3, stop=stop)
        rest, _ = run(3, 5, state)
        assert begun + rest == whole


def test_mixed_corpora_share_rows(tmp_path):
    one, two = some([3, 9, 4, 7] * 20, 1), some([5, 6, 2] * 20, 2)
    mix = stoker.mix({"one": (stoker.open(made(tmp_path, one)), 0.5), "two": (stoker.open(made(tmp_path, two)), 0.5)},
                     epoch_size=120)
    fields = {"x": "tokens(block=16, pack=best, repack=true, pad=-1)", "doc": "tokens(block=16, pack=best, repack=true, give=documents)"}
    known = {tuple(d.tolist()) for d in one + two}
    with stoker.Loader(mix, fields=fields, batch_size=4, shuffle=True) as loader:
        documents, rows = 0, 0
        for batch in loader:
            for row, number in zip(as_numpy(batch["x"]), as_numpy(batch["doc"]), strict=True):
                rows += 1
                for k in range(1, int(number.max()) + 1):
                    assert tuple(row[number == k].tolist()) in known
                    documents += 1
        assert documents == 120 and rows < 120 / 2


@pytest.mark.parametrize("chain, options, why", [
    ("tokens(block=8, repack=true)", {}, "go with pack"),
    ("tokens(block=8, pack=best, repack=true)", {"max_tokens": 9}, "all have one length"),
    ("tokens(block=8, pack=best, repack=true)", {"bucket": True}, "all have one length")])
def test_what_is_refused(tmp_path, chain, options, why):
    with pytest.raises(stoker.StokerError, match=why):
        stoker.Loader(made(tmp_path, some([5, 6])), fields={"x": chain}, **options)
