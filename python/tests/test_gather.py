# SPDX-License-Identifier: Apache-2.0
"""Columns taken together (columns('x*')), lists with a shape, raw(): compared with pyarrow and NumPy."""
import io
import tarfile

import numpy as np
import pytest

import stoker

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

SEED = 18


def wide(n=700):
    rng = np.random.default_rng(SEED)
    columns = {f"x{i}": rng.standard_normal(n).astype("f4") for i in range(12)}
    columns["x_double"] = rng.standard_normal(n)
    columns["x_text"] = [f"t{i}" for i in range(n)]
    columns["n8"] = rng.integers(-100, 100, n).astype("i1")
    columns["n64"] = rng.integers(-2**40, 2**40, n)
    columns["holes"] = pa.array([None if i % 7 == 3 else i for i in range(n)], pa.int32())
    columns["x_holes"] = pa.array([None if i % 5 == 0 else i / 8 for i in range(n)], pa.float32())
    return pa.table(columns)


@pytest.fixture(scope="module", params=[{}, {"row_group_size": 300, "data_page_size": 200, "use_dictionary": False},
                                        {"row_group_size": 250, "data_page_version": "2.0", "compression": "zstd"}],
                ids=["default", "small_pages", "v2_zstd"])
def table(request, tmp_path_factory):
    t = wide()
    path = tmp_path_factory.mktemp("wide") / "t.parquet"
    pq.write_table(t, path, **request.param)
    return t, str(path)


def rows(path, chain, **more):
    got, order = [], []
    with stoker.Loader(path, {"x": chain}, batch_size=64, seed=SEED, **more) as loader:
        for batch in loader:
            got.append(np.asarray(batch["x"])[np.asarray(batch.valid)])
            order += [i for i, ok in zip(batch.sample_ids.tolist(), batch.valid.tolist(), strict=True) if ok]
    return np.concatenate(got), order


@pytest.mark.parametrize(("chain", "names", "dtype"), [
    ("columns('x[0-9]*') | to(f32)", [f"x{i}" for i in range(12)], "f4"),
    ("columns(x3, x1, x2) | to(f16)", ["x3", "x1", "x2"], "f2"),
    ("columns('x?', x_double)", [*(f"x{i}" for i in range(10)), "x_double"], "f8"),
    ("columns(n8, n64)", ["n8", "n64"], "i8"),
    ("columns(n8)", ["n8"], "i1"),
    ("columns(x1, n8)", ["x1", "n8"], "f8"),
    ("columns('*_holes')", ["x_holes"], "f4"),
])
@pytest.mark.parametrize("workers", [0, 2])
def test_columns_as_one(table, chain, names, dtype, workers):
    t, path = table
    got, order = rows(path, chain, shuffle=True, num_workers=workers)
    want = np.stack([t[n].to_numpy() for n in names], 1).astype(dtype)[order]
    assert got.dtype == np.dtype(dtype) and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def test_nulls_of_whole_numbers(table):
    t, path = table
    got, order = rows(path, "columns(holes, n8, default=-1)")
    want = t["holes"].fill_null(-1).to_numpy()[order]
    np.testing.assert_array_equal(got[:, 0], want)
    with pytest.raises(stoker.StokerError, match=r"no value in column holes.*default"):
        rows(path, "columns(n8, holes)")
    got, order = rows(path, "columns(n8, holes)", where="holes IS NOT NULL")
    assert len(order) == len(t) - t["holes"].null_count and not set(got[:, 1].tolist()) & {-1}


def test_files_that_lack_a_column(tmp_path):
    pq.write_table(pa.table({"x0": [1.0, 2.0], "x1": [3.0, 4.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x1": [5.0], "y": [1]}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"y": [2, 3]}), tmp_path / "c.parquet")
    got, _ = rows(str(tmp_path / "*.parquet"), "columns('x*')")
    np.testing.assert_array_equal(got, [[1, 3], [2, 4], [np.nan, 5], [np.nan, np.nan], [np.nan, np.nan]])


@pytest.mark.parametrize(("chain", "message"), [
    ("columns(x_text)", "x_text is not a column of numbers"),
    ("columns('q*')", r"no column of numbers is called q\*"),
    ("columns(q)", "no column is called q"),
    ("columns()", "names"),
    ("columns(x1) | columns(x2)", "beginning of a chain"),
    ("columns(n8, default=0.5)", "not a i8"),
    ("columns(n8, default=200)", "not a i8"),
])
def test_what_is_refused(table, chain, message):
    with pytest.raises(stoker.StokerError, match=message):
        stoker.Loader(table[1], {"x": chain})


def test_other_data_has_no_columns(tmp_path):
    with tarfile.open(tmp_path / "t.tar", "w") as t:
        for name in ("0.a", "0.b"):
            t.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(stoker.StokerError, match="not fields of tar shards"):
        stoker.Loader(str(tmp_path / "t.tar"), {"x": "columns(a, b)"})
    np.save(tmp_path / "t.npy", np.zeros((3, 2)))
    with pytest.raises(stoker.StokerError, match="columns of a table"):
        stoker.Loader(str(tmp_path / "t.npy"), {"x": "columns(a, b)"})


def test_lists_with_a_shape_and_raw_bytes(tmp_path):
    e = np.random.default_rng(SEED).standard_normal((100, 6)).astype("f4")
    pq.write_table(pa.table({"e": list(e), "bytes": [x.tobytes() for x in e], "pairs": [[1, 2] * (i % 4) for i in range(100)]}),
                   tmp_path / "t.parquet")
    path = str(tmp_path / "t.parquet")
    for chain, want in {"from(e) | floats(shape=(2, 3))": e.reshape(-1, 2, 3), "from(e) | floats(shape=6) | to(f16)": e.astype("f2"),
                        "from(bytes) | raw(f32, shape=(3, 2))": e.reshape(-1, 3, 2), "from(bytes) | raw(f32, 6) | to(f16)": e.astype("f2"),
                        "from(bytes) | raw(u8, shape=24)": e.view("u1")}.items():
        got, order = rows(path, chain, shuffle=True)
        np.testing.assert_array_equal(got, want[order])
    with stoker.Loader(path, {"p": "from(pairs) | ints(shape=(-1, 2))", "r": "from(bytes) | raw(f64)"}, batch_size=100, collate="pad") as loader:
        batch = next(iter(loader))
    assert batch.lengths["p"].tolist() == [[i % 4, 2] for i in range(100)]
    assert np.asarray(batch["r"]).shape == (100, 3)
    for chain, message in {"from(e) | floats(shape=5)": "24 bytes", "from(bytes) | raw(f32, shape=5)": "24 bytes",
                           "from(bytes) | raw(f32, shape=(-1, 4))": "a multiple of 16"}.items():
        with pytest.raises(stoker.StokerError, match=message):
            next(iter(stoker.Loader(path, {"x": chain}, collate="pad")))
    for chain in ("from(bytes) | raw(q8)", "from(bytes) | raw(f32, shape=0)", "from(bytes) | raw(f32, shape=(2, -1))", "from(e) | raw(f32)"):
        with pytest.raises(stoker.StokerError):
            stoker.Loader(path, {"x": chain})
