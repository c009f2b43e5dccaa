# SPDX-License-Identifier: Apache-2.0
"""Arrays, tables and shards in one loader: every row is what its data set has, whatever is beside it."""

import io
import json

import numpy as np
import pytest

import stoker
from conftest import as_numpy, write_tar

SHARDS, ROWS = 50, 40
FIELDS = {"x": "from(x, npy) | npy(shape=(3, 4), dtype=f32)", "y": "from(cls) | int"}
rng = np.random.default_rng(11)
X, Y = rng.random((SHARDS, 3, 4), dtype=np.float32), np.arange(SHARDS)
A, B = rng.random((ROWS, 3, 4), dtype=np.float32), np.arange(1000, 1000 + ROWS, dtype=np.int32)
A[3] = np.nan


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    write_tar(folder / "s.tar", [member for i in range(SHARDS) for member in (
        (f"k{i:03d}.cls", b"%d" % Y[i]), (f"k{i:03d}.npy", npy(X[i])))])
    np.save(folder / "a0.npy", A[:17])
    np.save(folder / "a1.npy", A[17:])
    np.save(folder / "b.npy", B)
    return folder


def arrays(folder, how):
    if how == "memory":
        return {"x": A, "cls": B}
    if how == "npz":
        np.savez_compressed(folder / "ab.npz", x=A, cls=B)
        return str(folder / "ab.npz")
    return {"x": [str(folder / "a0.npy"), str(folder / "a1.npy")], "cls": str(folder / "b.npy")}


def mixture(folder, how):
    return stoker.mix({"shards": (str(folder / "s.tar"), 0.5), "arrays": (arrays(folder, how), 0.5)}, epoch_size=300)


def rows(loader):
    """[(id, x, y, key)] of an epoch."""
    return [(int(i), x, int(y), key) for b in loader for i, x, y, key in zip(
        b.sample_ids, as_numpy(b["x"]).copy(), as_numpy(b["y"]), b.sample_keys, strict=True)]


@pytest.mark.asan
@pytest.mark.parametrize("how", ["files", "read", "memory", "npz"])
def test_arrays_beside_shards(folder, how, monkeypatch):
    if how == "read":
        monkeypatch.setenv("STK_MAP", "0")
    data, seen = mixture(folder, how), []
    for workers in (0, 3):
        with stoker.Loader(data, FIELDS, batch_size=8, shuffle=True, seed=5, num_workers=workers) as loader:
            seen.append(rows(loader))
    assert len(seen[0]) == 300
    for i, x, y, key in seen[0]:
        k = i - SHARDS
        assert np.array_equal(x, X[i] if k < 0 else A[k], equal_nan=True)
        assert y == (Y[i] if k < 0 else B[k])
        assert key == (f"k{i:03d}" if k < 0 else str(i))
    assert {i for i, *_ in seen[0]} == set(range(SHARDS + ROWS))
    assert [(i, x.tobytes(), y) for i, x, y, _ in seen[0]] == [(i, x.tobytes(), y) for i, x, y, _ in seen[1]]


def test_resume(folder):
    data = mixture(folder, "files")
    with stoker.Loader(data, FIELDS, batch_size=8, shuffle=True, seed=5) as loader:
        whole = rows(loader)
    with stoker.Loader(data, FIELDS, batch_size=8, shuffle=True, seed=5) as loader:
        it = iter(loader)
        for _ in range(10):
            next(it)
        state = json.loads(json.dumps(loader.state_dict()))
    with stoker.Loader(data, FIELDS, batch_size=8, shuffle=True, seed=5) as loader:
        loader.load_state_dict(state)
        assert [r[0] for r in rows(loader)] == [r[0] for r in whole[80:]]


def test_a_list_of_data_sets_and_blocks(folder):
    sets = [stoker.open(arrays(folder, "files")), stoker.open(str(folder / "s.tar"))]
    for shuffle in (False, True, "block"):
        with stoker.Loader(sets, FIELDS, batch_size=7, shuffle=shuffle, seed=2, on_error="skip") as loader:
            got = rows(loader)
        assert sorted(r[0] for r in got) == list(range(SHARDS + ROWS))
        for i, x, y, _ in got:
            assert np.array_equal(x, A[i] if i < ROWS else X[i - ROWS], equal_nan=True)
            assert y == (B[i] if i < ROWS else Y[i - ROWS])


def test_text_has_all_digits(folder, tmp_path):
    f = np.array([0.1, 1 / 3, 6.02e23, -1.17549435e-38, 3.4e38, 0], dtype=np.float32)
    n = np.array([[1, -2], [2**31 - 1, -2**31]], dtype=np.int32)
    write_tar(tmp_path / "t.tar", [("a.f", b"0.5"), ("a.n", b"[7, 8]")])
    sets = [stoker.open(str(tmp_path / "t.tar")), stoker.open({"f": f[:2], "n": n})]
    with stoker.Loader(sets, {"f": "float", "n": "ints(shape=(2,))"}, batch_size=3) as loader:
        batch = next(iter(loader))
    assert as_numpy(batch["f"]).tolist() == [0.5, *f[:2].tolist()]
    assert as_numpy(batch["n"]).tolist() == [[7, 8], *n.tolist()]
    with stoker.Loader([stoker.open(str(tmp_path / "t.tar")), stoker.open({"f": f})], {"f": "float"}, batch_size=7) as loader:
        assert as_numpy(next(iter(loader))["f"]).tolist() == [0.5, *f.tolist()]


def test_one_array_needs_no_name(folder):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"y": pa.array(range(5), pa.int32())})
    sets = [stoker.open(table), stoker.open(str(folder / "b.npy"))]
    with stoker.Loader(sets, {"y": "to(i64)"}, batch_size=5 + ROWS) as loader:
        assert as_numpy(next(iter(loader))["y"]).tolist() == [*range(5), *B.tolist()]


def test_tables_beside_shards_and_arrays(folder):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"cls": pa.array([5, None, 7], pa.int16())})
    sets = [stoker.open(str(folder / "s.tar")), stoker.open(table), stoker.open({"cls": B})]
    with stoker.Loader(sets, {"y": "from(cls, default='-1') | int"}, batch_size=200) as loader:
        assert as_numpy(next(iter(loader))["y"]).tolist() == [*Y.tolist(), 5, -1, 7, *B.tolist()]


@pytest.mark.parametrize("fields, why", [
    ({"x": "from(npy, x) | image | resize((8, 8))"}, "begin with npy, int, float"),
    ({"x": "from(npy, x) | bytes"}, "begin with npy, int, float"),
    ({"x": "from(npy, x)"}, "not what to make of it"),
    ({"x": "from(cls) | int", "t": "tokens(block=4)"}, "tokens"),
])
def test_chains_that_do_not_read_both(folder, fields, why):
    with pytest.raises(stoker.StokerError, match=why):
        stoker.Loader(mixture(folder, "files"), fields, batch_size=4)


def test_arrays_of_different_lengths(folder, tmp_path):
    np.savez(tmp_path / "u.npz", x=A, cls=B[:5])
    sets = [stoker.open(str(folder / "s.tar")), stoker.open(str(tmp_path / "u.npz"))]
    with pytest.raises(stoker.StokerError, match="40 rows and cls has 5"):
        stoker.Loader(sets, FIELDS, batch_size=4)


def test_an_array_that_was_cut_short(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("STK_MAP", "0")
    path = tmp_path / "cut.npy"
    np.save(path, B)
    sets = [stoker.open({"cls": str(path)}), stoker.open(str(folder / "s.tar"))]
    with stoker.Loader(sets, {"y": "from(cls) | int"}, batch_size=4) as loader:
        path.write_bytes(path.read_bytes()[:-60])
        with pytest.raises(stoker.StokerError, match=r"cut\.npy"):
            list(loader)
