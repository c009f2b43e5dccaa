# SPDX-License-Identifier: Apache-2.0
"""tokens(pack=...): documents side by side in rows, against a packer that takes its time."""

import itertools

import numpy as np
import pytest
from conftest import as_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tokens import megatron

import stoker

COUNT = itertools.count()
WINDOW = 65536


def chains(block, fit):
    tokens = f"tokens(block={block}, pack={fit}"
    return {"x": f"{tokens})", "y": f"{tokens}, shift=1)", "position": f"{tokens}, give=positions) | to(i32)",
            "document": f"{tokens}, give=documents)", "loss": f"{tokens}, give=mask, shift=1)",
            "there": f"{tokens}, give=mask) | to(u8)", "stored": f"{tokens}, pad=65535) | to(stored)"}


def pieces_of(docs, block):
    """(tokens, what follows each or -100) of every document, cut where it is longer than a row."""
    for doc in docs:
        follows = np.append(doc[1:].astype(np.int64), -100)
        for at in range(0, len(doc), block):
            yield doc[at:at + block], follows[at:at + block]


def fitted(sizes, block, fit):
    """Rows of indices, by the textbook: of rows with equal room best-fit takes the one that was filled last."""
    rows, room, touched = [], [], []
    for n, i in enumerate(sorted(range(len(sizes)), key=lambda i: -sizes[i] if fit == "best" else i)):
        can = [r for r, left in enumerate(room) if left >= sizes[i]]
        if not can:
            can = [len(rows)]
            rows.append([])
            room.append(block)
            touched.append(0)
        row = min(can, key=lambda r: (room[r], -touched[r])) if fit == "best" else can[0]
        rows[row].append(i)
        room[row] -= sizes[i]
        touched[row] = n
    return sorted(sorted(row) for row in rows)


def packed_row(pieces, block):
    """A row of these pieces, as the chains of chains() give it."""
    out = {"x": np.zeros(block, np.int64), "y": np.full(block, -100), "position": np.zeros(block, np.int32),
           "document": np.zeros(block, np.int64), "there": np.zeros(block, np.uint8), "stored": np.full(block, 65535, np.uint16)}
    at = 0
    for number, (tokens, follows) in enumerate(pieces):
        here = slice(at, at + len(tokens))
        out["x"][here] = out["stored"][here] = tokens
        out["y"][here], out["position"][here] = follows, np.arange(len(tokens))
        out["document"][here], out["there"][here] = number + 1, 1
        at += len(tokens)
    out["position"][at:] = np.arange(block - at)
    out["loss"] = (out["y"] != -100).astype(np.int64)
    return out


def reference(docs, block, fit):
    pieces = list(pieces_of(docs, block))
    for row in fitted([len(p) for p, _ in pieces], block, fit):
        yield packed_row([pieces[i] for i in row], block)


def some(sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 65000, n).astype(np.uint16) for n in sizes]


def made(tmp_path, docs, parts=1):
    prefix = tmp_path / str(next(COUNT))
    for i in range(parts):
        megatron(f"{prefix}-{i}", docs[i * len(docs) // parts:(i + 1) * len(docs) // parts])
    return [f"{prefix}-{i}.bin" for i in range(parts)]


@settings(max_examples=60)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=60), st.integers(1, 33), st.sampled_from(["best", "first"]),
       st.integers(1, 3), st.sampled_from([0, 2]))
def test_rows_are_the_slow_ones(tmp_path, sizes, block, fit, parts, workers):
    docs = some([*sizes, 1, 1, 1])              # no part is empty
    paths = made(tmp_path, docs, parts)
    with stoker.Loader(paths, fields=chains(block, fit), batch_size=4, num_workers=workers) as loader:
        batches = list(loader)
        stats = loader.stats()
    want = list(reference(docs, block, fit))
    for name in want[0]:
        got = np.concatenate([as_numpy(b[name]) for b in batches])
        assert got.dtype == want[0][name].dtype, name
        np.testing.assert_array_equal(got, np.stack([w[name] for w in want]), err_msg=name)
    tokens = sum(map(len, docs))
    assert stats["packed_tokens"] == tokens and stats["packed_room"] == len(want) * block
    assert stats["padding"] == pytest.approx(1 - tokens / (len(want) * block))
    seen = np.concatenate([as_numpy(b["x"])[as_numpy(b["there"]) == 1] for b in batches])
    assert sorted(seen.tolist()) == sorted(np.concatenate(docs).tolist())


@pytest.mark.parametrize("fit", ["best", "first"])
def test_resume_at_every_step_in_another_world(tmp_path, fit):
    docs = some(np.random.default_rng(3).integers(1, 60, 90), 3)
    paths, fields = made(tmp_path, docs, 2), chains(32, fit)
    options = {"shuffle": True, "seed": 5, "global_batch_size": 12, "drop_last": True}

    def run(world, state=None, stop=None):
        loaders = [stoker.Loader(paths, fields=fields, rank=r, world_size=world, **options) for r in range(world)]
        assert len({len(loader) for loader in loaders}) == 1
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(state)
        steps = []
        for step, parts in enumerate(zip(*loaders, strict=True)):
            steps.append(np.concatenate([as_numpy(p["x"]) for p in parts]))
            if step + 1 == stop:
                break
        state = loaders[0].state_dict()
        for loader in loaders:
            loader.close()
        return steps, state

    whole, _ = run(1)
    assert len(whole) >= 5
    for stop in range(1, len(whole)):
        begun, state = run(2, stop=stop)
        rest, _ = run(3, state)
        for got, want in zip([*begun, *rest], whole, strict=True):
            np.testing.assert_array_equal(got, want)


def test_several_windows(tmp_path):
    sizes = np.random.default_rng(9).integers(1, 4, WINDOW + 5000)
    docs = some(sizes, 9)
    with stoker.Loader(made(tmp_path, docs), fields={"x": "tokens(block=5, pack=best, pad=65535) | to(stored)"},
                       batch_size=1000) as loader:
        rows = np.concatenate([as_numpy(b["x"]) for b in loader])
        stats = loader.stats()
    front = len(fitted_count(sizes[:WINDOW])) + len(fitted_count(sizes[WINDOW:]))
    assert len(rows) == front and stats["padding"] < 0.05
    assert sorted(rows[rows != 65535].tolist()) == sorted(np.concatenate(docs).tolist())


def fitted_count(sizes):
    """Best-fit of lengths 1..3 into rows of 5: how full each row gets."""
    threes, twos, ones = (int((sizes == n).sum()) for n in (3, 2, 1))
    rows = [[3] for _ in range(threes)]
    both = min(threes, twos)
    for row in rows[:both]:
        row.append(2)
    left = [[2, 2] for _ in range((twos - both) // 2)] + [[2] for _ in range((twos - both) % 2)]
    rows += left
    room = sum(5 - sum(r) for r in rows)
    return rows + [[1]] * -(-max(0, ones - room) // 5)


def test_bounds_of_documents(tmp_path):
    docs = some([3, 9, 4, 20, 1])
    with stoker.Loader(made(tmp_path, docs), fields=chains(8, "best"), batch_size=3) as loader:
        for batch in loader:
            bounds, longest = stoker.cu_seqlens(batch["position"])
            document = as_numpy(batch["document"]).reshape(-1)
            row = np.repeat(np.arange(len(batch["x"])), 8)
            change = np.flatnonzero(np.diff(row * 100 + document)) + 1
            assert as_numpy(bounds).tolist() == [0, *change.tolist(), len(document)]
            assert as_numpy(bounds).dtype == np.int32 and longest == np.diff(as_numpy(bounds)).max()
            assert stoker.cu_seqlens(as_numpy(batch["position"]))[1] == longest


@pytest.mark.parametrize("chain, why", [
    ("tokens(block=8, pack=worst)", "pack is first or best"), ("tokens(block=8, give=mask)", "go with pack"),
    ("tokens(block=8, pack=best, give=all)", "tokens, positions, documents or mask"),
    ("tokens(block=8, pack=best, stride=4)", "stride is for windows"),
    ("tokens(block=8, pack=best, separator=0)", "separator is for windows"),
    ("tokens(block=8, pack=best, random=true)", "random is for windows"),
    ("tokens(block=8, pack=best, shift=1) | to(u16)", "-100 is not a u16.*pad="),
    ("tokens(block=300, pack=best, give=positions) | to(u8)", "up to 300 are no u8"),
    ("tokens(block=99999999, pack=best)", "at most 16777216"),
    ("tokens(block=8, pack=best, give=mask, pad=3)", "values of their own")])
def test_what_is_refused(tmp_path, chain, why):
    paths = made(tmp_path, some([5, 6]))
    with pytest.raises(stoker.StokerError, match=why):
        stoker.Loader(paths, fields={"x": chain})


def test_documents_must_be_known(tmp_path):
    some([50])[0].tofile(tmp_path / "a.bin")
    with pytest.raises(stoker.StokerError, match="pack= puts documents into rows.*know none"):
        stoker.Loader(str(tmp_path / "a.bin"), fields={"x": "tokens(block=8, pack=best)"})
    paths = made(tmp_path, some([5, 6]))
    with pytest.raises(stoker.StokerError, match="differ in pack"):
        stoker.Loader(paths, fields={"x": "tokens(block=8, pack=best)", "y": "tokens(block=8, pack=first)"})
