# SPDX-License-Identifier: Apache-2.0
"""Rows of tables in order are made many at once.  The same rows beside a column of texts are made one by one: what batches say
must be the same on both ways, whatever the types, nulls, pages, batches, ranks and bad rows."""
import numpy as np
import pytest

import stoker

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

SEED = 18
N = 3000
WAYS = {"many": {}, "one": {"t": "from(t) | bytes"}}


def columns(nulls):
    """name -> values; `nulls`: a few of them here and there."""
    rng = np.random.default_rng(SEED)
    mask = np.zeros(N, bool)
    if nulls:
        mask[[0, 1, 700, 701, 999, 1000, N - 1]] = True
        mask[1500:1700] = rng.random(200) < 0.5
    made = {dtype: pa.array(rng.integers(0, 100, N).astype(dtype), mask=mask)
            for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "float32", "float64")}
    made["bool"] = pa.array(rng.random(N) < 0.5, mask=mask)
    made["random"] = pa.array(rng.random(N), mask=mask)
    made["same"] = pa.array([None if null else 7 for null in mask], pa.int32())
    made["fixed"] = pa.array([None if null else row for null, row in zip(mask, rng.random((N, 3)).astype("f4"))], pa.list_(pa.float32(), 3))
    made["list"] = pa.array([None if null else row for null, row in zip(mask, rng.integers(0, 999, (N, 5)).tolist())], pa.list_(pa.int32()))
    made["ragged"] = pa.array([None if null else rng.integers(0, 999, i * 7 % 11).tolist() for i, null in enumerate(mask)], pa.list_(pa.int32()))
    return made


@pytest.fixture(scope="module", params=[False, True], ids=["full", "nulls"])
def files(request, tmp_path_factory):
    """name -> path: pages of 64 values, row groups of 700 rows, several codecs and page versions, and Arrow files."""
    folder = tmp_path_factory.mktemp("scan")
    made = columns(request.param)
    table = pa.table({**made, "t": [f"row {i}" for i in range(N)]})
    kinds = {"small": {"data_page_size": 256, "write_batch_size": 64, "row_group_size": 700},
             "large": {"use_dictionary": False, "compression": "zstd"},
             "two": {"data_page_version": "2.0", "write_batch_size": 100, "data_page_size": 1000, "compression": "none"}}
    paths = {name: folder / f"{name}.parquet" for name in kinds}
    for name, options in kinds.items():
        pq.write_table(table, paths[name], **options)
    for name, packed in (("arrow", None), ("packed", "lz4")):
        paths[name] = folder / f"{name}.arrow"
        with pa.ipc.new_file(paths[name], table.schema, options=pa.ipc.IpcWriteOptions(compression=packed)) as w:
            w.write_table(table, max_chunksize=900)
    return {name: str(path) for name, path in paths.items()}, request.param


def chain(name, nulls):
    shape = {"fixed": "floats(shape=3)", "list": "ints(shape=5)"}
    return f"from({name}, default=0)" if nulls and name not in shape else f"from({name}) | {shape[name]}" if name in shape else f"from({name})"


def plain(value):
    return [(np.asarray(row).dtype.str, np.asarray(row).tolist()) for row in value] if isinstance(value, list) else np.asarray(value).tobytes()


def seen(path, fields, epochs=1, **options):
    """Batches as plain values: outputs, ids, which rows are valid."""
    with stoker.Loader(path, fields, **options) as loader:
        return [[tuple(plain(b[k]) for k in fields if k != "t") + (np.asarray(b.sample_ids).tolist(), np.asarray(b.valid).tolist())
                 for b in loader] for _ in range(epochs)]


def both(path, fields, **options):
    got = {way: seen(path, fields | more, **options) for way, more in WAYS.items()}
    assert got["many"] == got["one"]
    assert any(got["many"])
    return got["many"]


def test_values_are_those_of_pyarrow(tmp_path):
    made = columns(False)
    del made["ragged"]
    pq.write_table(pa.table(made), tmp_path / "t.parquet", data_page_size=512, write_batch_size=50, row_group_size=800)
    for name, column in made.items():
        with stoker.Loader(str(tmp_path / "t.parquet"), {"x": chain(name, False)}, batch_size=128, num_workers=2) as loader:
            got = np.concatenate([np.asarray(b["x"]) for b in loader])
        want = np.array(column.to_pylist())
        assert got.shape == want.shape and np.array_equal(got, want.astype(got.dtype)), name


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["small", "large", "two", "arrow", "packed"])
def test_types_and_pages(files, kind):
    paths, nulls = files
    for name in columns(False):
        if name == "ragged":
            for collate in ("list", "pad"):
                both(paths[kind], {"x": "from(ragged) | to(f32)", "y": chain("int32", nulls)}, batch_size=97, num_workers=2, collate={"x": collate},
                     on_error="skip")
        elif nulls and name in ("fixed", "list"):
            both(paths[kind], {"x": chain(name, True)}, batch_size=97, num_workers=2, on_error="skip")
        else:
            both(paths[kind], {"x": chain(name, nulls)}, batch_size=97, num_workers=2)


@pytest.mark.asan
@pytest.mark.parametrize("nulls", [False, True])
def test_tables_in_memory(nulls):
    table = pa.table({**columns(nulls), "t": [f"row {i}" for i in range(N)]})
    table = pa.concat_tables([table.slice(0, 900), table.slice(1000), table.slice(5, 11)])          # batches with offsets of their own
    for name in columns(False).keys() - {"ragged"}:
        both(table, {"x": chain(name, nulls)}, batch_size=97, num_workers=2, **({"on_error": "skip"} if nulls else {}))


@pytest.mark.parametrize("batch", [1, 7, 1024, 16384])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_and_workers(files, batch, workers):
    paths, nulls = files
    fields = {"x": chain("float32", nulls) + " | to(f16)", "y": chain("int64", nulls), "z": chain("bool", nulls)}
    for drop_last in (False, True) if batch < N else (False,):
        both(paths["small"], fields, batch_size=batch, num_workers=workers, drop_last=drop_last, epochs=2, **({} if batch > 1 else {"limit": 200}))


@pytest.mark.asan
def test_columns_taken_together(files):
    paths, nulls = files
    for kind in ("small", "packed", "arrow"):
        both(paths[kind], {"x": "columns(float32, float64, int8)"}, batch_size=500, num_workers=2)
        both(paths[kind], {"x": "columns(int32, int8)", "y": chain("int16", nulls)}, batch_size=64, num_workers=2, on_error="skip")


@pytest.mark.parametrize("options", [{"world_size": 2, "rank": 1}, {"world_size": 3, "rank": 0}, {"world_size": 3, "rank": 2}, {"skip": 650, "limit": 200},
                                     {"where": "int8 < 50"}, {"where": "int8 < 97"}, {"select": list(range(100, 900)) + [5, 6, 7] + list(range(2000, 2050))},
                                     {"exclude": ["1", "2", "1300", "1301", "2999"]}, {"repeat": 2}, {"epoch_size": 700}, {"shuffle": True}, {"shuffle": "block"}],
                         ids=lambda o: "-".join(o))
def test_orders(files, options):
    paths, nulls = files
    both(paths["small"], {"x": chain("int32", nulls), "y": chain("random", nulls)}, batch_size=256, num_workers=2, epochs=2, **options)


@pytest.mark.asan
def test_two_files_and_two_data_sets(files):
    paths, nulls = files
    fields = {"x": chain("int32", nulls)}
    both([paths["small"], paths["two"]], fields, batch_size=1000, num_workers=2)
    got = {way: seen([stoker.open(paths["small"]), stoker.open(paths["packed"])], fields | more, batch_size=1000, num_workers=2)
           for way, more in WAYS.items()}
    assert got["many"] == got["one"] and len(got["many"][0]) == 6


@pytest.mark.asan
def test_ragged_rows(files):
    paths, _ = files
    for chain_of in ("from(ragged)", "from(ragged) | ints", "from(ragged) | ints | truncate(4)"):
        for batch, workers, limit in ((1, 1, 60), (7, 2, 300), (1024, 2, 2500), (16384, 0, N)):
            both(paths["small"], {"x": chain_of}, batch_size=batch, num_workers=workers, collate="list", on_error="skip", limit=limit)
    small = both(paths["large"], {"x": "from(ragged)", "y": "from(ragged) | to(f16)"}, batch_size=512, num_workers=2, collate="list", on_error="skip",
                 memory_limit="2MB", prefetch=2)
    assert small == both(paths["large"], {"x": "from(ragged)", "y": "from(ragged) | to(f16)"}, batch_size=512, num_workers=2, collate="list", on_error="skip")


def test_resume_in_the_middle(files):
    paths, nulls = files
    fields = {"x": chain("float32", nulls)}
    for at in (1, 5, 11):
        tails = {}
        for way, more in WAYS.items():
            with stoker.Loader(paths["small"], fields | more, batch_size=256, num_workers=2) as loader:
                it = iter(loader)
                head = [next(it) for _ in range(at)]
                state = loader.state_dict()
                del head
            with stoker.Loader(paths["small"], fields | more, batch_size=256, num_workers=2) as loader:
                loader.load_state_dict(state)
                tails[way] = [(np.asarray(b["x"]).tobytes(), np.asarray(b.sample_ids).tolist()) for b in loader]
        assert tails["many"] == tails["one"] and len(tails["many"]) == 12 - at


@pytest.mark.asan
def test_bad_rows(tmp_path):
    """Values that do not fit, nulls without a default, lists of another length: the same error, or the same row in their place."""
    values = [300 if i in (64, 1000, 1001, 1999) else i % 100 for i in range(2000)]
    table = pa.table({"x": pa.array(values, pa.int32()), "n": pa.array([None if i == 900 else i for i in range(2000)], pa.int64()),
                      "l": pa.array([[i] * (4 if i == 777 else 3) for i in range(2000)], pa.list_(pa.int64())), "t": [str(i) for i in range(2000)]})
    path = str(tmp_path / "t.parquet")
    pq.write_table(table, path, row_group_size=1500)
    for fields, bad in (({"x": "from(x) | to(u8)"}, 4), ({"x": "from(n)"}, 1), ({"x": "from(l) | ints(shape=3)"}, 1)):
        rows = both(path, fields, batch_size=500, num_workers=2, on_error="skip")
        assert sum(sum(not v for v in b[-1]) for b in rows[0]) == bad
        said = {}
        for way, more in WAYS.items():
            with stoker.Loader(path, fields | more, batch_size=500, num_workers=2, on_error="skip") as loader:
                for _ in loader:
                    pass
                said[way] = loader.stats()["skipped"]
            with pytest.raises(stoker.StokerError) as error, stoker.Loader(path, fields | more, batch_size=2000, num_workers=2) as loader:
                next(iter(loader))
            said[way] = (said[way], str(error.value))
        assert said["many"] == said["one"]


@pytest.mark.asan
def test_figures(files):
    paths, nulls = files
    if nulls:
        return
    with stoker.Loader(paths["small"], {"x": "from(int64)"}, batch_size=100, num_workers=2) as loader:
        for _ in loader:
            pass
        figures = loader.stats()
    assert figures["samples"] >= N and figures["bytes"] % 8 == 0 and figures["bytes"] >= 8 * N


@pytest.mark.asan
def test_hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(SEED)
    path = str(tmp_path / "t.h5")
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=rng.random((N, 3)).astype("f4"), chunks=(64, 3), compression="gzip")
        f.create_dataset("y", data=rng.integers(0, 99, N), chunks=(100,), compression="gzip")
        f["flat"] = rng.random(N)
        holes = f.create_dataset("holes", (N,), "i4", chunks=(10,), fillvalue=9)        # chunks that were never written
        for k in range(0, N, 10):
            if k % 70 != 20:
                holes[k:k + 10] = np.arange(k, k + 10)
        f["t"] = np.array([str(i).encode() for i in range(N)])
    both(path, {"x": "from(x)", "y": "from(y) | to(f32)", "flat": "from(flat)"}, batch_size=333, num_workers=2)
    both(path, {"x": "from(holes)"}, batch_size=333, num_workers=2)
