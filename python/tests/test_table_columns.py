# SPDX-License-Identifier: Apache-2.0
"""Columns of numbers of tables, whole: the values of a block are taken at once, up to a null."""

import numpy as np
import pytest

import stoker

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")

pytestmark = pytest.mark.asan
N = 3000
TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "bool")
NULLS = (0, 0.001, 0.3)         # none, long runs, short ones


def values(rng, kind):
    if kind == "bool":
        return rng.integers(0, 2, N).astype(bool)
    if kind.startswith("float"):
        return (rng.normal(size=N) * 10.0 ** rng.integers(-3, 4, N)).astype(kind)
    info = np.iinfo(kind)
    return rng.integers(info.min, min(info.max, 2**63 - 1), N, dtype=kind, endpoint=True)


def table(seed):
    rng = np.random.default_rng(seed)
    columns = {}
    for kind in TYPES:
        for share in NULLS:
            columns[f"{kind}-{share}"] = pa.array(values(rng, kind), mask=rng.random(N) < share if share else None)
    return pa.table(columns)


def write(path, made, how):
    if how == "arrow":
        feather.write_feather(made, path, compression="uncompressed", chunksize=701)
    elif how == "packed":
        feather.write_feather(made, path, compression="lz4", chunksize=701)
    else:
        pq.write_table(made, path, row_group_size=1300, data_page_size=1000, use_dictionary=how == "dictionary", compression="snappy")


@pytest.mark.parametrize("how", ["plain", "dictionary", "arrow", "packed"])
def test_numbers_are_pyarrows(tmp_path, how):
    made = table(7)
    write(tmp_path / ("t.parquet" if how in ("plain", "dictionary") else "t.arrow"), made, how)
    ds = stoker.open(tmp_path)
    for name in made.column_names:
        got, wanted = ds.column(name), made.column(name)
        there = np.array(wanted.is_valid())
        if not there.all():
            assert got.dtype == np.float64 and np.isnan(got[~there]).all(), name
        wanted = np.array(wanted.drop_null().to_pylist(), dtype=got.dtype)
        assert got[there].tolist() == wanted.tolist(), name


def test_seconds_that_are_no_lengths(tmp_path):
    """A duration that is missing in the middle of a block is none, and said."""
    pq.write_table(pa.table({"wav": [b"x"] * 6, "duration": pa.array([1.0, 2.0, None, 4.0, 5.0, 6.0])}), tmp_path / "a.parquet")
    with pytest.raises(stoker.StokerError, match="1 of 6 samples have no .duration., the first is sample 2"):
        stoker.Loader(tmp_path, {"x": "from(wav) | sound(rate=16000)"}, max_seconds=9, lengths="duration", collate="pad", num_workers=0)
