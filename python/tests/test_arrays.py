# SPDX-License-Identifier: Apache-2.0
"""Rows of arrays: .npy, .npz, raw files, memory; NumPy says what is right."""

from __future__ import annotations

import gc
import io
import pickle
import zipfile

import numpy as np
import pytest
import stoker

torch = pytest.importorskip("torch")
DTYPES = ["u1", "i1", "u2", "i2", "i4", "u4", "i8", "f2", "f4", "f8"]


def made(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 100, shape).astype(dtype)


def rows(loader) -> tuple[np.ndarray, list[dict]]:
    """Ids and samples of an epoch, by id."""
    ids, out = [], []
    for batch in loader:
        ids += batch.sample_ids.tolist()
        out += [{k: v[i] for k, v in batch.items()} for i in range(len(batch.sample_ids))]
    order = np.argsort(ids)
    return np.array(ids)[order], [out[i] for i in order]


@pytest.fixture(params=["map", "read"])
def way(request, monkeypatch):
    if request.param == "read":
        monkeypatch.setenv("STK_MAP", "0")
    return request.param


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7,), (7, 3), (5, 2, 3, 4)])
def test_npy_as_numpy_has_it(tmp_path, dtype, shape, way):
    x = made(dtype, shape)
    np.save(tmp_path / "x.npy", x)
    with stoker.Loader(tmp_path / "x.npy", batch_size=3, shuffle=True) as loader:
        ids, got = rows(loader)
    assert ids.tolist() == list(range(len(x)))
    for i, sample in enumerate(got):
        value = sample["array"].numpy()
        assert value.dtype == x.dtype
        assert (value == x[i]).all()


def test_files_are_joined_row_by_row(tmp_path, way):
    x, y = made("u1", (50, 3, 4)), np.arange(50)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y0.npy", y[:20])
    np.save(tmp_path / "y1.npy", y[20:])
    data = {"x": str(tmp_path / "x.npy"), "y": str(tmp_path / "y*.npy")}
    for batch in stoker.Loader(data, batch_size=8, shuffle=True, seed=3):
        assert (batch["x"].numpy() == x[batch["y"].numpy()]).all()
        assert batch.sample_keys == [str(i) for i in batch["y"].tolist()]
    for batch in stoker.Loader(data, {"a": "from(x) | to(f32)", "y": "to(i32)"}, batch_size=8):
        assert batch["a"].dtype == torch.float32
        assert batch["y"].dtype == torch.int32
        assert (batch["a"].numpy() == x[batch["y"].numpy()].astype("f4")).all()


def test_different_lengths_are_an_error(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((5, 2)))
    np.save(tmp_path / "y.npy", np.zeros(4))
    with pytest.raises(stoker.StokerError, match=r"x has 5 rows \(x.npy\) and y has 4 \(y.npy\)"):
        stoker.Loader({"x": tmp_path / "x.npy", "y": tmp_path / "y.npy"})


def test_memory_is_taken_as_it_lies():
    x = made("f4", (40, 6))
    y = torch.arange(40)
    b = torch.arange(40, dtype=torch.bfloat16)
    loader = stoker.Loader({"x": x, "y": y, "b": b, "z": x[::-1], "t": x.T.copy().T}, batch_size=7, shuffle=True)
    x[3] = 99                                   # no copy was made
    for batch in loader:
        i = batch["y"].numpy()
        assert (batch["x"].numpy() == x[i]).all()
        assert batch["b"].dtype == torch.bfloat16
        assert (batch["b"].float().numpy() == i).all()
        assert (batch["z"].numpy()[i != 36] == x[::-1][i[i != 36]]).all()    # a copy: rows run backwards
        assert (batch["t"].numpy()[i != 3] == x[i[i != 3]]).all()
    one = next(iter(stoker.Loader({"x": x[:1][::-1]})))    # a stride that is never taken
    assert (one["x"].numpy() == x[:1]).all()
    strided = stoker.Loader({"x": x[::3]}, batch_size=7)
    assert all((s["x"].numpy() == x[::3][i]).all() for i, s in enumerate(rows(strided)[1]))


def test_memory_outlives_its_owner():
    def make():
        x = made("i4", (1000, 16))
        return stoker.Loader({"x": x}, batch_size=10), x.copy()

    loader, x = make()
    gc.collect()
    kept = [batch["x"] for batch in loader]
    loader.close()
    del loader
    gc.collect()
    assert (torch.cat(kept).numpy() == x).all()
    ds = stoker.open({"x": x})
    assert (pickle.loads(pickle.dumps(ds))[5]["x"].numpy() == x[5]).all()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save, way):
    x, y = made("f4", (30, 5)), made("i8", (30,))
    save(tmp_path / "a.npz", x=x, y=y, other=np.arange(3))
    fields = {"x": "from(x)", "y": "from(y)"}
    for batch in stoker.Loader(tmp_path / "a.npz", fields, batch_size=4, shuffle=True):
        assert (batch["x"].numpy() == x[batch.sample_ids.numpy()]).all()
        assert (batch["y"].numpy() == y[batch.sample_ids.numpy()]).all()
    with pytest.raises(stoker.StokerError, match="x has 30 rows and other has 3"):
        stoker.Loader(tmp_path / "a.npz")


def test_npz_stored_and_damaged(tmp_path):
    """A bit anywhere in the rows of any member, headers that differ, and members that share bytes."""
    out = io.BytesIO()
    np.savez(out, x=made("f4", (3000, 700)), y=np.arange(3000), z=np.arange(3000.))
    good = out.getvalue()
    path = tmp_path / "a.npz"
    path.write_bytes(good)
    assert len(stoker.open(path)) == 3000
    infos = zipfile.ZipFile(io.BytesIO(good)).infolist()
    for info, at in [(infos[0], 200), (infos[0], infos[0].file_size - 10), (infos[1], 5000), (infos[2], 9000)]:
        bad = bytearray(good)
        bad[info.header_offset + 60 + at] ^= 0x10
        path.write_bytes(bad)
        with pytest.raises(stoker.StokerError, match=rf"member {info.filename} is damaged: .*checksum") as e:
            stoker.open(path)
        assert e.value.code == "ECORRUPT" and e.value.shard.endswith("a.npz")
    bad = bytearray(good)                                    # the second member begins in the first
    entry = good.index(b"PK\x01\x02", good.index(b"PK\x01\x02") + 4)
    bad[entry + 42:entry + 46] = infos[0].header_offset.to_bytes(4, "little")
    path.write_bytes(bad)
    with pytest.raises(stoker.StokerError, match="share bytes|checksum|past its end"):
        stoker.open(path)
    bad = bytearray(good)
    bad[infos[1].header_offset + 8] = 8                      # its own header says deflated
    path.write_bytes(bad)
    with pytest.raises(stoker.StokerError, match="says otherwise than the directory"):
        stoker.open(path)


def test_npz_damaged(tmp_path):
    out = io.BytesIO()
    np.savez_compressed(out, x=np.arange(1000))
    good = out.getvalue()
    path = tmp_path / "a.npz"
    for cut in range(0, len(good), 97):
        path.write_bytes(good[:cut])
        with pytest.raises(stoker.StokerError, match=r"a\.npz"):
            stoker.open(path)
    bad = bytearray(good)
    bad[200] ^= 0xFF
    path.write_bytes(bad)
    with pytest.raises(stoker.StokerError, match="damaged"):
        stoker.open(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as z:
        z.writestr("x.npy", b"x" * 100)
    with pytest.raises(stoker.StokerError, match="method 12"):
        stoker.open(path)
    x = io.BytesIO()
    np.save(x, np.arange(3))
    with zipfile.ZipFile(path, "w") as z, pytest.warns(UserWarning):
        z.writestr("x.npy", x.getvalue())
        z.writestr("x.npy", x.getvalue())
    with pytest.raises(stoker.StokerError, match="two arrays are called x"):
        stoker.open(path)


def test_raw_files(tmp_path, way):
    x = made("f4", (20, 3, 4))
    x[:12].tofile(tmp_path / "a.raw")
    x[12:].tofile(tmp_path / "b.raw")
    got = rows(stoker.Loader(str(tmp_path / "*.raw"), dtype="f32", shape=(3, 4), batch_size=6, shuffle=True))[1]
    assert (torch.stack([s["array"] for s in got]).numpy() == x).all()
    ds = stoker.open(str(tmp_path / "a.raw"), dtype=np.float32, shape=(3, 4))
    assert len(ds) == 12
    assert (ds[-1]["array"].numpy() == x[11]).all()
    (tmp_path / "a.raw").write_bytes(b"123")
    with pytest.raises(stoker.StokerError, match="not a whole number of rows of 48 bytes"):
        stoker.open(str(tmp_path / "a.raw"), dtype="f32", shape=(3, 4))
    with pytest.raises(stoker.StokerError, match="did you mean"):
        stoker.open(str(tmp_path / "a.raw"), dtype="f23")
    with pytest.raises(stoker.StokerError, match="needs dtype"):
        stoker.open(str(tmp_path / "a.raw"), shape=(3, 4))


def test_what_is_refused(tmp_path):
    def saved(a) -> str:
        np.save(tmp_path / "a.npy", a, allow_pickle=True)
        return str(tmp_path / "a.npy")

    for array, why in [(np.asfortranarray(np.zeros((3, 4))), "Fortran"), (np.zeros(3, ">i4"), "big-endian"),
                       (np.array(3), "no rows"), (np.array([{}], object), "pickle"), (np.zeros(3, "c8"), "type"),
                       (np.zeros(3, "f4,i4"), "structured"), (np.zeros((3, 0)), "no bytes")]:
        with pytest.raises(stoker.StokerError, match=why):
            stoker.open(saved(array))
    np.save(tmp_path / "a.npy", np.zeros((9, 9)))
    with open(tmp_path / "a.npy", "r+b") as f:
        f.truncate(500)
    with pytest.raises(stoker.StokerError, match=r"truncated: 81 numbers.*offset 500"):
        stoker.open(tmp_path / "a.npy")
    with pytest.raises(stoker.StokerError, match="is on meta"):
        stoker.Loader({"x": torch.zeros(3, device="meta")})
    with pytest.raises(stoker.StokerError, match=r"sparse.*x\.to_dense\(\)"):
        stoker.Loader({"x": torch.eye(3).to_sparse()})
    with pytest.raises(stoker.StokerError, match="no array z"):
        stoker.Loader({"x": np.zeros(3), "y": np.zeros(3)}, {"z": "to(f32)"})
    with pytest.raises(stoker.StokerError, match="i64 is not made of f64"):
        stoker.Loader({"x": np.zeros(3)}, {"x": "to(i64)"})
    with pytest.raises(stoker.StokerError, match="leave it out"):
        stoker.Loader({"x": np.zeros(3)}, {"x": "image"})
    with pytest.raises(stoker.StokerError, match="shuffle"):
        stoker.Loader({"x": np.zeros(3)}, shuffle="block")
    ds = stoker.open({"x": np.zeros(3)})
    for call in (lambda: ds.column("x"), lambda: ds.__arrow_c_stream__(), lambda: stoker.pack(ds, tmp_path / "o")):
        with pytest.raises(stoker.StokerError):
            call()


def test_a_file_that_becomes_shorter(tmp_path):
    import time
    np.save(tmp_path / "a.npy", np.zeros((4000, 1024), "u1"))
    loader = stoker.Loader(tmp_path / "a.npy", batch_size=10, num_workers=0, prefetch=1)
    batches = iter(loader)
    next(batches)
    with open(tmp_path / "a.npy", "r+b") as f:
        f.truncate(5000)
    time.sleep(0.05)
    with pytest.raises(stoker.StokerError, match=r"5000 bytes and had \d+ when it was opened.*a\.npy"):
        for _ in batches:
            pass


def test_a_file_that_is_replaced_goes_on(tmp_path):
    x = made("u1", (4000, 64))
    np.save(tmp_path / "a.npy", x)
    loader = stoker.Loader(tmp_path / "a.npy", batch_size=10, num_workers=0, prefetch=1)
    batches = iter(loader)
    got = [next(batches)["array"]]
    (tmp_path / "b.npy").write_bytes(b"short")
    (tmp_path / "b.npy").rename(tmp_path / "a.npy")
    got += [b["array"] for b in batches]
    assert (torch.cat(got).numpy() == x).all()


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_resume_with_other_worlds(tmp_path, workers):
    x = np.arange(101)
    np.save(tmp_path / "x.npy", x)

    def epoch(world, batch, state=None):
        loaders = [stoker.Loader(tmp_path / "x.npy", batch_size=batch, shuffle=True, rank=r, world_size=world,
                                 num_workers=workers, drop_last=True) for r in range(world)]
        for loader in loaders:
            if state:
                loader.load_state_dict(state)
        for parts in zip(*loaders, strict=True):
            yield [int(v) for part in parts for v in part["array"]], loaders[0].state_dict()

    whole = [v for values, _ in epoch(1, 1) for v in values]
    assert sorted(whole) == x.tolist()
    seen, state = [], None
    for world, batch, steps in [(2, 5, 3), (3, 4, 2), (1, 7, 4)]:
        for at, (values, after) in enumerate(epoch(world, batch, state)):
            seen += values
            if at + 1 == steps:
                state = after
                break
    assert seen == whole[:len(seen)] and len(seen) == 82


def test_a_state_knows_its_arrays(tmp_path):
    x = np.arange(1000)
    np.save(tmp_path / "x.npy", x)
    state = stoker.Loader(tmp_path / "x.npy", batch_size=8).state_dict()
    stoker.Loader(tmp_path / "x.npy", batch_size=4).load_state_dict(state)
    x[0] = 5
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(stoker.StokerError, match="other content"):
        stoker.Loader(tmp_path / "x.npy", batch_size=8).load_state_dict(state)
    np.save(tmp_path / "x.npy", x.astype("i4"))
    with pytest.raises(stoker.StokerError, match="another size"):
        stoker.Loader(tmp_path / "x.npy", batch_size=8).load_state_dict(state)


def test_values_that_do_not_fit(tmp_path):
    x = np.zeros((10, 4), "i4")
    x[7, 2] = 70000
    np.save(tmp_path / "x.npy", x)
    with pytest.raises(stoker.StokerError, match=rf"70000, which is not a u16.*offset {128 + 7 * 16 + 8}"):
        list(stoker.Loader(tmp_path / "x.npy", {"x": "to(u16)"}, batch_size=4))
