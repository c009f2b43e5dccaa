# SPDX-License-Identifier: Apache-2.0
"""shuffle="megatron": Megatron-LM's samples in its order, bit for bit.

The oracle is that order written down again, slowly, with NumPy's own RandomState: lists of documents, of begins and of
samples, and tokens put together one document after the other."""

from __future__ import annotations

import json

import numpy as np
import pytest
import stoker
from hypothesis import given, settings
from hypothesis import strategies as st

from test_tokens import megatron

torch = pytest.importorskip("torch")


class Oracle:
    """The samples of one data set, each with `length` + `extra` tokens, and the order they come in."""

    def __init__(self, docs: list[np.ndarray], length: int, seed: int, samples: int | None = None, extra: int = 1) -> None:
        sizes = [len(d) for d in docs]
        tokens, epochs = sum(sizes), 1
        while samples is not None and epochs * tokens < samples * length + extra:
            epochs += 1
        before = ((epochs - 1) * tokens - extra) // length
        self.epochs = epochs
        self.apart = epochs > 1 and samples - before < int(0.80 * ((tokens - extra) // length))
        random = np.random.RandomState(seed)
        self.documents = self._shuffled(random, len(docs), epochs)
        total = (epochs * tokens - extra) // length
        self.begins = self._begins([sizes[d] for d in self.documents], length, total)
        cut = before if self.apart else total
        first, last = np.arange(cut, dtype="u4"), np.arange(cut, total, dtype="u4")
        random.shuffle(first)
        if cut < total:
            random.shuffle(last)
        self.order = np.concatenate([first, last])[:samples]
        self.docs, self.need = docs, length + extra

    def _shuffled(self, random, n: int, epochs: int) -> np.ndarray:
        together = np.tile(np.arange(n, dtype="i4"), epochs - self.apart)
        random.shuffle(together)
        if not self.apart:
            return together
        alone = np.arange(n, dtype="i4")
        random.shuffle(alone)
        return np.concatenate([together, alone])

    @staticmethod
    def _begins(sizes: list[int], length: int, total: int) -> list[tuple[int, int]]:
        place = offset = 0
        out = []
        for _ in range(total):
            while offset >= sizes[place]:
                offset -= sizes[place]
                place += 1
            out.append((place, offset))
            offset += length
        return out

    def __getitem__(self, position: int) -> np.ndarray:
        place, offset = self.begins[self.order[position]]
        got = self.docs[self.documents[place]][offset:]
        while len(got) < self.need:
            place += 1
            got = np.concatenate([got, self.docs[self.documents[place]]])
        return got[:self.need]

    def rows(self) -> np.ndarray:
        return np.stack([self[p] for p in range(len(self.order))])


def split(docs: list[np.ndarray]) -> list[np.ndarray]:
    """The sequences that test_tokens.megatron() makes of documents: Megatron's order is of those."""
    return [docs[0][:1], docs[0][1:], *docs[1:]] if len(docs[0]) else docs


def some(sizes: list[int], dtype: str = "u2") -> list[np.ndarray]:
    random = np.random.default_rng(len(sizes))
    return [random.integers(0, 120, n).astype(dtype) for n in sizes]


def both(length: int) -> dict[str, str]:
    return {"x": f"tokens(block={length})", "y": f"tokens(block={length}, shift=1)"}


def rows(loader) -> np.ndarray:
    return np.concatenate([np.concatenate([b["x"].numpy(), b["y"].numpy()[:, -1:]], 1) for b in loader])


@pytest.mark.parametrize(("sizes", "length", "samples"), [
    ([50, 3, 0, 200, 17, 1], 16, None),         # one pass, all there is
    ([50, 3, 0, 200, 17, 1], 16, 10),           # one pass, some of it
    ([50, 3, 0, 200, 17, 1], 16, 17),           # just one: one more sample is a second pass
    ([50, 3, 0, 200, 17, 1], 16, 19),           # two, the last apart
    ([50, 3, 0, 200, 17, 1], 16, 33),           # two, as one
    ([50, 3, 0, 200, 17, 1], 16, 300),          # many
    ([5, 2], 16, 9),                            # a pass is shorter than a sample
    ([1], 1, 5), ([2], 1, None), ([1, 1], 2, 3),
    ([1000], 7, 500),                           # one document
    (list(range(40)), 64, 100),
])
def test_samples(tmp_path, sizes, length, samples):
    docs = some(sizes)
    megatron(tmp_path / "a", docs)
    for seed in (0, 1234, 2**32 - 1):
        want = Oracle(split(docs), length, seed, samples)
        with stoker.Loader(f"{tmp_path}/a.bin", both(length), batch_size=7, shuffle="megatron", seed=seed,
                           epoch_size=samples) as loader:
            got, later = rows(loader), rows(loader)
            assert np.array_equal(got, want.rows())
            ids = [i for b in _again(loader) for i in b.sample_ids.tolist()]
        assert ids == want.order.tolist()
        nxt = Oracle(split(docs), length, (seed + 1) % 2**32, samples)
        assert np.array_equal(later, nxt.rows())            # epoch e has seed + e


def _again(loader):
    loader.set_epoch(0)
    return loader


def test_both_rules_of_the_final_epoch_are_met(tmp_path):
    docs = split(some([50, 3, 0, 200, 17, 1]))
    assert [Oracle(docs, 16, 0, n).apart for n in (17, 19, 33)] == [True, True, False]


@settings(max_examples=40)
@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(sum), length=st.integers(1, 50),
       samples=st.integers(1, 80), seed=st.integers(0, 2**32 - 1), extra=st.integers(0, 1), shards=st.integers(1, 3))
def test_any_shape(tmp_path, sizes, length, samples, seed, extra, shards):
    docs = some(sizes)
    parts = [p for p in np.array_split(np.arange(len(docs)), shards) if len(p)]
    for i, part in enumerate(parts):
        megatron(tmp_path / f"{i}", [docs[d] for d in part])
    whole = [s for part in parts for s in split([docs[d] for d in part])]
    want = Oracle(whole, length, seed, samples, extra)
    names = [f"{tmp_path}/{i}.bin" for i in range(len(parts))]
    with stoker.Loader(names, {"x": f"tokens(block={length + extra}, stride={length}) | to(stored)"}, batch_size=5,
                       shuffle="megatron", seed=seed, epoch_size=samples) as loader:
        got = np.concatenate([b["x"].numpy() for b in loader])
    assert np.array_equal(got, want.rows())


def test_share_and_reads(tmp_path, monkeypatch):
    docs = some([50, 3, 200, 17], "i4")
    megatron(tmp_path / "a", docs)
    want = Oracle(split(docs), 16, 3, 40).rows()
    fields = {"x": "tokens(block=16, share=true)", "y": "tokens(block=16, shift=1, share=true)"}
    for mapped in ("1", "0"):
        monkeypatch.setenv("STK_MAP", mapped)
        with stoker.Loader(f"{tmp_path}/a.bin", fields, batch_size=6, shuffle="megatron", seed=3, epoch_size=40) as loader:
            assert np.array_equal(rows(loader), want)


def test_resume_with_other_ranks(tmp_path):
    docs = some([50, 3, 200, 17, 80])
    megatron(tmp_path / "a", docs)
    want = Oracle(split(docs), 16, 5, 55).rows()
    how = {"shuffle": "megatron", "seed": 5, "epoch_size": 55}
    for stop in range(1, 6):
        with stoker.Loader(f"{tmp_path}/a.bin", both(16), global_batch_size=12, **how) as loader:
            it = iter(loader)
            got = {(k, r): row for k in range(stop) for r, row in enumerate(next(it)["x"].numpy())}
            state = json.loads(json.dumps(loader.state_dict()))
        steps = set()
        for rank in range(3):
            with stoker.Loader(f"{tmp_path}/a.bin", both(16), batch_size=2, rank=rank, world_size=3, **how) as loader:
                loader.load_state_dict(state)
                batches = list(loader)
                steps.add(len(batches))
                got.update({(b.sample_ids[r].item(), rank, k): row for k, b in enumerate(batches)
                            for r, row in enumerate(b["x"].numpy()) if b.valid[r]})
        assert len(steps) == 1 and len(got) == 55
        assert sorted(map(bytes, got.values())) == sorted(row[:-1].astype("i8").tobytes() for row in want)


def test_state_knows_the_order(tmp_path):
    megatron(tmp_path / "a", some([50, 3, 200]))
    with stoker.Loader(f"{tmp_path}/a.bin", both(16), batch_size=2, shuffle="megatron", epoch_size=30) as loader:
        next(iter(loader))
        state = loader.state_dict()
    assert state["order"]["shuffle"] == "megatron" and state["order"]["epoch_size"] == 30
    for other in ({"shuffle": "megatron", "epoch_size": 31}, {"shuffle": True, "epoch_size": 30}):
        with (stoker.Loader(f"{tmp_path}/a.bin", both(16), batch_size=2, **other) as loader,
              pytest.raises(ValueError, match="does not fit")):
            loader.load_state_dict(state)


@pytest.mark.parametrize(("fields", "more", "text"), [
    ({"x": "tokens(block=16, random=true)"}, {}, "random does not go with"),
    ({"x": "tokens(block=16, separator=1)"}, {}, "separator does not go with"),
    ({"x": "tokens(block=16, pack=best)"}, {}, "pack does not go with"),
    ({"x": "tokens(block=16, stride=8)"}, {}, "stride or stride . 1 tokens; here it has 16 and stride is 8"),
    ({"x": "tokens(block=16)", "y": "tokens(block=16, shift=2)"}, {}, "here it has 18"),
    ({"x": "tokens(block=16)"}, {"seed": 2**32}, "RandomState"),
    ({"x": "tokens(block=16)"}, {"limit": 3}, "limit does not go with"),
    ({"x": "tokens(block=16)"}, {"select": [1]}, "select does not go with"),
    ({"x": "tokens(block=16)"}, {"weights": np.ones(16)}, 'weights and shuffle="megatron" each say'),
    ({"x": "tokens(block=16)"}, {"epoch_size": 2**40}, "lower epoch_size"),
    ({"x": "tokens(block=1000)"}, {}, "there are 270 tokens, and a sample takes 1000"),
])
def test_refusals(tmp_path, fields, more, text):
    megatron(tmp_path / "a", some([50, 3, 0, 200, 17]))
    with pytest.raises((ValueError, RuntimeError), match=text):
        stoker.Loader(f"{tmp_path}/a.bin", fields, shuffle="megatron", **more)


def test_other_data_is_refused(tmp_path):
    some([500])[0].tofile(tmp_path / "plain.bin")
    np.save(tmp_path / "rows.npy", np.zeros((5, 2)))
    megatron(tmp_path / "a", some([50, 3]))
    with pytest.raises(ValueError, match="these files know none"):
        stoker.Loader(f"{tmp_path}/plain.bin", {"x": "tokens(block=16)"}, shuffle="megatron")
    with pytest.raises(ValueError, match="is the order of token files"):
        stoker.Loader(f"{tmp_path}/rows.npy", shuffle="megatron")
    with pytest.raises(ValueError, match="of one data set, not of 2"):
        stoker.Loader([stoker.open(f"{tmp_path}/a.bin")] * 2, {"x": "tokens(block=16)"}, shuffle="megatron")
