# SPDX-License-Identifier: Apache-2.0
"""collate="pad": one tensor of rows of different shapes, and their real sizes."""

import io
import math

import numpy as np
import pytest
from conftest import as_numpy, jpeg, picture, run_python, write_tar

import stoker

N = 50
PICTURE = "from(jpg) | image | to(u8, layout=hwc)"
CHAINS = {"image": PICTURE, "x": "from(npy) | npy", "raw": "from(bin) | bytes",
          "label": "from(cls) | int", "text": "from(cls) | text"}
PAD = {"image": ("pad", 7), "x": ("pad", -100), "raw": "pad"}


def array(i):
    rng = np.random.default_rng(i)
    return rng.integers(-9, 9, (i * 7 % 11, 1 + i % 3)).astype(np.int32)


def npy(a):
    out = io.BytesIO()
    np.save(out, a)
    return out.getvalue()


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    members = []
    for i in range(N):
        members += [(f"{i:03d}.jpg", jpeg(picture(i, 20 + i % 17, 16 + i % 13))),
                    (f"{i:03d}.npy", npy(array(i))), (f"{i:03d}.bin", bytes(range(i % 9))),
                    (f"{i:03d}.cls", b"%d" % i)]
    return str(write_tar(tmp_path_factory.mktemp("pad") / "a.tar", members))


def padded(rows, value):
    shape = [max(r.shape[d] for r in rows) for d in range(rows[0].ndim)]
    out = np.full([len(rows), *shape], value, rows[0].dtype)
    for i, r in enumerate(rows):
        out[(i, *(slice(n) for n in r.shape))] = r
    return out


def rows_of(shard, chain):
    with stoker.Loader(shard, fields={"x": chain}, num_workers=0) as loader:
        return [as_numpy(b["x"])[0].copy() for b in loader]


@pytest.mark.parametrize("workers", [0, 1, 2, 8])
def test_padded_is_numpy_s(shard, workers):
    pictures = rows_of(shard, PICTURE)
    with stoker.Loader(shard, fields=CHAINS, collate=PAD, batch_size=8, shuffle=True, seed=5,
                       num_workers=workers) as loader:
        for _ in range(3):
            seen = 0
            for batch in loader:
                ids = [int(i) for i in batch.sample_ids]
                want = {"image": ([pictures[i] for i in ids], 7), "x": ([array(i) for i in ids], -100),
                        "raw": ([np.arange(i % 9, dtype=np.uint8) for i in ids], 0)}
                for name, (rows, value) in want.items():
                    got = as_numpy(batch[name])
                    assert got.dtype == rows[0].dtype
                    np.testing.assert_array_equal(got, padded(rows, value))
                    sizes = [r.shape[0] if r.ndim == 1 else r.shape for r in rows]
                    assert as_numpy(batch.lengths[name]).dtype == np.int64
                    np.testing.assert_array_equal(as_numpy(batch.lengths[name]), sizes)
                assert set(batch.lengths) == set(want)
                assert batch["text"] == [str(i) for i in ids]
                assert batch["label"].tolist() == ids
                seen += len(ids)
            assert seen == N


@pytest.mark.parametrize("layout", ["chw", "hwc", "channels_last"])
@pytest.mark.parametrize("dtype", ["u8", "f16", "bf16", "f32"])
def test_pictures_of_every_layout(shard, layout, dtype):
    chain = f"from(jpg) | image | to({dtype}, layout={layout})"
    rows = rows_of(shard, chain)
    bits = {"u8": 3, "f16": 3, "f32": 3, "bf16": 0x4040}[dtype]
    with stoker.Loader(shard, fields={"x": chain}, collate=("pad", 3), batch_size=N) as loader:
        (batch,) = loader
    np.testing.assert_array_equal(as_numpy(batch["x"]), padded(rows, bits))


def test_plain_pad_and_a_batch_of_one(shard):
    with stoker.Loader(shard, fields=CHAINS, collate="pad") as loader:
        batches = list(loader)
    assert [tuple(b["x"].shape) for b in batches] == [(1, *array(i).shape) for i in range(N)]
    assert [b.lengths["raw"].tolist() for b in batches] == [[i % 9] for i in range(N)]
    assert batches[3]["text"] == ["3"]
    assert batches[4]["raw"].tolist() == [[0, 1, 2, 3]]


def test_lengths_go_where_the_batch_goes(shard):
    torch = pytest.importorskip("torch")
    with stoker.Loader(shard, fields={"x": "from(npy) | npy"}, collate="pad", batch_size=4) as loader:
        batch = next(iter(loader))
    moved = batch.to(torch.float32)
    assert moved["x"].dtype == torch.float32 and moved.lengths["x"].dtype == torch.int64
    assert batch.copy().lengths is batch.lengths and stoker.Batch({}).lengths == {}


def test_nan_pads_floats(tmp_path):
    path = write_tar(tmp_path / "f.tar", [(f"{i}.npy", npy(np.ones(i, np.float32))) for i in range(3)])
    with stoker.Loader(str(path), fields={"x": "from(npy) | npy"}, collate=("pad", math.nan),
                       batch_size=3) as loader:
        x = as_numpy(next(iter(loader))["x"])
    assert np.isnan(x).tolist() == [[True, True], [False, True], [False, False]]


@pytest.mark.parametrize("collate, why", [
    ("padd", "collate must be"), (("list", 3), "collate must be"), ({"y": "pad"}, "no output 'y'"),
    (("pad", "a"), "must be a number"), ({"x": 3}, r"collate\['x'\] must be"), (("pad", 300), "not a u8"),
    (("pad", 0.5), "not a u8"), (("pad", math.nan), "not a u8")])
def test_what_is_refused_at_open(shard, collate, why):
    with pytest.raises(stoker.StokerError, match=why):
        stoker.Loader(shard, fields={"x": PICTURE}, collate=collate, batch_size=2)


def test_arrays_that_do_not_go_together(tmp_path):
    rows = [np.ones(3, np.int32), np.ones((2, 2), np.int32), np.ones(2, np.float32)]
    path = str(write_tar(tmp_path / "odd.tar", [(f"k{i}.npy", npy(a)) for i, a in enumerate(rows)]))
    with stoker.Loader(path, fields={"x": "from(npy) | npy"}, collate="pad", batch_size=3) as loader:
        with pytest.raises(stoker.StokerError, match="2 dimensions.*collate") as e:
            next(iter(loader))
    assert "k1" in str(e.value)


def test_long_and_wide_rows_are_an_error_not_a_kill(tmp_path):
    rows = [np.ones((20000, 1), np.uint8), np.ones((1, 20000), np.uint8)]
    path = str(write_tar(tmp_path / "big.tar", [(f"{i}.npy", npy(a)) for i, a in enumerate(rows)]))
    with stoker.Loader(path, fields={"x": "from(npy) | npy"}, collate="pad", batch_size=2,
                       memory_limit="64MB") as loader:
        with pytest.raises(stoker.StokerError, match="memory_limit leaves no room"):
            next(iter(loader))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_small_limit_holds_and_is_enough(shard, workers):
    with stoker.Loader(shard, fields=CHAINS, collate=PAD, batch_size=25, memory_limit="4MB",
                       num_workers=workers) as loader:
        for _ in range(4):
            assert sum(len(b["label"]) for b in loader) == N
        stats = loader.stats()
    assert stats["memory_peak"] <= stats["memory_limit"]


def test_without_torch(shard):
    done = run_python("""
        import sys, stoker
        with stoker.Loader(sys.argv[1], fields={"x": "from(bin) | bytes"}, collate="pad", batch_size=4) as l:
            b = next(iter(l))
        print(type(b["x"]).__name__, b["x"].shape, b.lengths["x"].tolist())
    """, shard)
    assert done.stdout.strip() == "ndarray (4, 3) [0, 1, 2, 3]", done.stderr
