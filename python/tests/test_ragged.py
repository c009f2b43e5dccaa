# SPDX-License-Identifier: Apache-2.0
"""Rows of numbers of any length: ints and floats, truncate, masks, padding to a multiple."""

import itertools
import json
import math

import numpy as np
import pytest
from conftest import as_numpy, jpeg, picture, write_tar
from hypothesis import given, settings
from hypothesis import strategies as st
from test_pad import npy, padded

import stoker

N = 60
COUNT = itertools.count()             # a shard that changes under its index is an error


def row(i):
    return np.random.default_rng(i).integers(-9, 50000, i * 7 % 23).astype(np.int32)


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    members = []
    for i in range(N):
        ids = row(i).tolist()
        members += [(f"{i:03d}.npy", npy(row(i))), (f"{i:03d}.json", json.dumps({"ids": ids}).encode()),
                    (f"{i:03d}.txt", " ".join(map(str, ids)).encode()),
                    (f"{i:03d}.jpg", jpeg(picture(i, 20 + i % 17, 16 + i % 13)))]
    return str(write_tar(tmp_path_factory.mktemp("ragged") / "a.tar", members))


CHAINS = {"npy": "npy", "json": "json(ids) | ints", "txt": "ints", "real": "from(txt) | floats"}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("cut, keep", [("", slice(None)), (" | truncate(8)", slice(8)),
                                       (" | truncate(8, keep=last)", slice(-8, None))])
def test_lists_cut_and_padded(shard, workers, cut, keep):
    with stoker.Loader(shard, fields={k: v + cut for k, v in CHAINS.items()}, collate=("pad", -100, 16),
                       batch_size=7, shuffle=True, num_workers=workers) as loader:
        for batch in loader:
            rows = [row(int(i))[keep] for i in batch.sample_ids]
            want = padded(rows, -100)
            want = np.pad(want, ((0, 0), (0, -want.shape[1] % 16)), constant_values=-100)
            mask = np.arange(want.shape[1]) < np.array([len(r) for r in rows])[:, None]
            for name, dtype in zip(CHAINS, ("int32", "int64", "int64", "float32"), strict=True):
                got = as_numpy(batch[name])
                assert got.dtype == dtype and got.shape[1] % 16 == 0
                np.testing.assert_array_equal(got, want.astype(dtype))
                got = as_numpy(batch.mask(name))
                assert got.dtype == bool
                np.testing.assert_array_equal(got, mask)


def test_multiple_of_one_row_and_of_pictures(shard):
    with stoker.Loader(shard, fields={"npy": "npy"}, collate=("pad", 5, 8)) as loader:
        for i, batch in enumerate(loader):
            size = len(row(i))
            got = as_numpy(batch["npy"])
            assert got.shape == (1, -(-size // 8) * 8) and batch.lengths["npy"].tolist() == [size]
            np.testing.assert_array_equal(got[0], np.pad(row(i), (0, got.shape[1] - size), constant_values=5))
    for layout, axes in (("chw", (2, 3)), ("hwc", (1, 2)), ("channels_last", (2, 3))):
        with stoker.Loader(shard, fields={"jpg": f"image | to(u8, layout={layout})"}, batch_size=9,
                           collate=("pad", 0, 32)) as loader:
            batch = next(iter(loader))
            assert [batch["jpg"].shape[a] % 32 for a in axes] == [0, 0]
            assert math.prod(batch["jpg"].shape) == 9 * 3 * math.prod(batch["jpg"].shape[a] for a in axes)
            mask = as_numpy(batch.mask("jpg"))
            assert mask.shape == batch["jpg"].shape
            assert mask.sum() == sum(math.prod(s) for s in batch.lengths["jpg"].tolist())
            assert not as_numpy(batch["jpg"])[~mask].any()


def test_a_mask_follows_its_batch(shard):
    with stoker.Loader(shard, fields={"npy": "npy", "n": "from(txt) | text"}, collate="pad", batch_size=4) as loader:
        batch = next(iter(loader))
    moved = batch.to("cpu").copy()
    np.testing.assert_array_equal(as_numpy(moved.mask("npy")), as_numpy(batch.mask("npy")))
    with pytest.raises(stoker.StokerError, match="no mask of 'n'"):
        batch.mask("n")
    with pytest.raises(stoker.StokerError, match="did you mean `npy`|did you mean 'npy'"):
        batch.mask("npi")


@pytest.mark.parametrize("chain, why", [
    ("npy | truncate(0)", "less than 1"), ("npy | truncate(4, keep=middle)", "first or last"),
    ("npy | truncate(4) | truncate(3)", "twice"), ("from(txt) | text | truncate(4)", "rows of numbers"),
    ("npy(shape=4, dtype=f32) | truncate(2)", "rows of numbers"), ("truncate(4)", "rows of numbers"),
    ("npy | ints", "field's bytes")])
def test_what_is_refused(shard, chain, why):
    with pytest.raises(stoker.StokerError, match=why):
        stoker.Loader(shard, fields={"npy": chain}, collate="pad", batch_size=2)


@pytest.mark.parametrize("collate", [("pad", 0, 0), ("pad", 0, 1.5), ("pad", 0, -8), ("pad", 0, 8, 1), ()])
def test_multiples_that_are_none(shard, collate):
    with pytest.raises(stoker.StokerError, match="multiple|collate must be"):
        stoker.Loader(shard, fields={"npy": "npy"}, collate=collate, batch_size=2)


@pytest.mark.parametrize("text, why", [
    ("[1, 2", "not a list"), ("1]", "not a list"), ("1,,2", "number 1 .* is none"), ("[1,]", "number 1 .* is none"),
    (",1", "number 0"), ("[1, x]", "number 1"), ("1 99999999999999999999", "too large"), ("[[1]]", "number 0")])
def test_bad_lists(tmp_path, text, why):
    path = str(write_tar(tmp_path / "b.tar", [("k.txt", text.encode())]))
    with stoker.Loader(path, fields={"txt": "ints"}) as loader:
        with pytest.raises(stoker.StokerError, match=why) as e:
            next(iter(loader))
    assert e.value.key == "k"


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(-2**63, 2**63 - 1), max_size=40), min_size=1, max_size=8),
       st.integers(1, 45), st.sampled_from([" ", ",", ", ", "\n", " ,\t"]), st.booleans(), st.booleans())
def test_any_lists(tmp_path, rows, most, between, brackets, last):
    def text(r):
        body = between.join(map(str, r))
        return (f"[{body}]" if brackets else body).encode()

    path = str(write_tar(tmp_path / f"{next(COUNT)}.tar", [(f"{i}.txt", text(r)) for i, r in enumerate(rows)]))
    chain = f"ints | truncate({most}, keep={'last' if last else 'first'})"
    with stoker.Loader(path, fields={"txt": chain}, collate="list", batch_size=len(rows)) as loader:
        got = [as_numpy(r).tolist() for r in next(iter(loader))["txt"]]
    assert got == [r[-most:] if last else r[:most] for r in rows]


def test_parts_of_a_tensor_without_torch(tmp_path):
    """Rows of any size are parts of one tensor; where neither torch nor NumPy takes them, the extension's own gives the parts."""
    from stoker import _arrays, _stoker

    rows = [np.arange(n * 4, dtype=np.int32).reshape(n, 4) for n in (3, 1, 5)]
    whole = np.concatenate([r.reshape(-1) for r in rows])
    places = [((3, 4), (4, 1), 0), ((1, 4), (4, 1), 12), ((5, 4), (4, 1), 16)]
    for made, want in zip(_arrays.rows_of(whole, places), rows, strict=True):
        assert np.array_equal(made, want)
    write_tar(tmp_path / "a.tar", [(f"{i}.npy", npy(rows[i % 3])) for i in range(30)])
    core = stoker.Loader(str(tmp_path / "a.tar"), {"npy": "npy"}, batch_size=3, collate="list")._core
    found = [core.next(0)[0][0][2] for _ in range(10)]
    tensor, said = found[-1]        # rows of the first batch are tensors of their own
    assert isinstance(tensor, _stoker.Tensor)
    for place, want in zip(said, rows, strict=True):
        assert np.array_equal(np.asarray(tensor.as_strided(*place)), want)
    for bad in ((3, 4), (4, 1), 1000), ((1 << 40,), (1,), 0), ((2,), (1, 1), 0), ((1,), (1,), -1):
        with pytest.raises(ValueError, match="not inside"):
            tensor.as_strided(*bad)
