# SPDX-License-Identifier: Apache-2.0
"""Parquet files as data: single rows, shuffled loaders, seek points, many files, folders, damage."""
import io
import os
import pathlib
import random
import shutil

import numpy as np
import pytest

import stoker

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402

SEED = 18


def big(i):
    """A value of 30 to 90 KB that hardly compresses, some with stretches that do."""
    rng = random.Random(i)
    return rng.randbytes(rng.randrange(30_000, 60_000)) + (b"stoker" * 3000 if i % 3 == 0 else b"") + rng.randbytes(100)


def picture(i):
    from PIL import Image
    out = io.BytesIO()
    Image.new("RGB", (40 + i % 7, 32), (i % 256, 80, 200)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Default pyarrow settings: a dictionary page with most values, then PLAIN pages."""
    folder = tmp_path_factory.mktemp("large")
    values = [None if i % 41 == 7 else b"" if i == 3 else big(i) for i in range(150)]
    table = pa.table({"v": values, "label": pa.array(range(150), pa.int64()), "note": [f"row {i}" for i in range(150)]})
    pq.write_table(table, folder / "t.parquet", dictionary_pagesize_limit=2_000_000, write_batch_size=16, row_group_size=100)
    assert {"PLAIN", "RLE_DICTIONARY"} <= set(pq.read_metadata(folder / "t.parquet").row_group(0).column(0).encodings)
    return folder / "t.parquet", values


@pytest.mark.asan
def test_single_rows(large):
    path, values = large
    ds = stoker.open(str(path))
    assert len(ds) == 150 and ds.fields == ["v", "label", "note"]
    for i in random.Random(SEED).sample(range(150), 60) + [3, 7]:
        row = ds[i]
        assert row["v"] == values[i] and row["label"] == i and row["note"] == f"row {i}"


@pytest.mark.asan
def test_seek_points_are_kept_small_and_fit(large, tmp_path):
    path, values = large
    folder = tmp_path / "copy"
    folder.mkdir()
    shutil.copy(path, folder / "t.parquet")
    stoker.open(str(folder / "t.parquet"))
    (rows,) = (folder / ".stoker").glob("*.rows")
    assert rows.stat().st_size < path.stat().st_size // 1000 + 500
    before = rows.stat().st_mtime_ns
    assert stoker.open(str(folder / "t.parquet"))[5]["v"] == values[5]
    assert rows.stat().st_mtime_ns == before
    damaged = bytearray(rows.read_bytes())
    for at in range(0, len(damaged), max(1, len(damaged) // 40)):
        damaged[at] ^= 0x40
        rows.write_bytes(damaged)
        assert stoker.open(str(folder / "t.parquet"))[at % 3]["v"] == values[at % 3]
        damaged = bytearray(rows.read_bytes())      # it was made again


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_large_values_of_all_kinds(tmp_path, codec, version):
    values = [big(i % 30) if i % 5 else None for i in range(60)]
    pq.write_table(pa.table({"v": values}), tmp_path / "t.parquet", compression=codec, data_page_version=version,
                   use_dictionary=version == "1.0", write_batch_size=8)
    ds = stoker.open(str(tmp_path / "t.parquet"))
    assert [ds[i]["v"] for i in range(60)] == values


@pytest.mark.asan
@pytest.mark.parametrize("workers", [0, 2])
def test_loader_shuffled_with_resume(large, workers):
    path, values = large
    options = dict(batch_size=16, shuffle=True, seed=3, num_workers=workers)
    fields = {"v": "from(v, default=none) | bytes", "note": "text"}
    loader = stoker.Loader(str(path), fields, **options)
    seen = []
    for step, batch in enumerate(loader):
        for i, v, note in zip(batch.sample_ids.tolist(), batch["v"], batch["note"]):
            assert bytes(v) == (b"none" if values[i] is None else values[i]) and note == f"row {i}"
            seen.append(i)
        if step == 3:
            state, so_far = loader.state_dict(), list(seen)
    assert sorted(seen) == list(range(150))
    again = stoker.Loader(str(path), fields, **options)
    again.load_state_dict(state)
    assert so_far + [i for batch in again for i in batch.sample_ids.tolist()] == seen


def test_null_is_an_error_or_skipped(large):
    path, values = large
    with pytest.raises(stoker.StokerError, match="no value in field v"):
        list(stoker.Loader(str(path), {"v": "bytes"}, batch_size=10))
    rows = [b for b in stoker.Loader(str(path), {"v": "bytes"}, batch_size=10, on_error="skip")]
    assert sum(int((~np.asarray(b.valid)).sum()) for b in rows) == values.count(None)


def test_pictures_in_a_struct(tmp_path):
    """Hugging Face's {bytes, path} through the image chain."""
    rows = [{"bytes": picture(i), "path": f"{i}.png"} for i in range(40)]
    pq.write_table(pa.table({"image": rows, "label": pa.array(range(40))}), tmp_path / "t.parquet")
    for batch in stoker.Loader(str(tmp_path / "t.parquet"), {"image": "image | resize((16, 16))"}, batch_size=8, shuffle=True):
        got = np.asarray(batch["image"])
        assert got.shape == (len(batch.sample_ids), 3, 16, 16)
        for i, pixels in zip(batch.sample_ids.tolist(), got):
            assert pixels[0].min() == pixels[0].max() == i % 256


def test_many_files_and_hive_folders(tmp_path):
    for year in (2023, 2024):
        for part in range(2):
            folder = tmp_path / f"year={year}" / "kind=a b"
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"x": pa.array([year * 10 + part] * 3)}), folder / f"{part}.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    ds = stoker.open(str(tmp_path))
    assert len(ds) == 12 and ds.fields == ["x", "year", "kind"]
    assert [(ds[i]["x"], ds[i]["year"], ds[i]["kind"]) for i in (0, 3, 6, 11)] == [
        (20230, "2023", "a b"), (20231, "2023", "a b"), (20240, "2024", "a b"), (20241, "2024", "a b")]
    one = stoker.open(str(tmp_path / "year=2024" / "*" / "*.parquet"))
    assert len(one) == 6 and one[0]["year"] == "2024"


def test_files_that_differ(tmp_path):
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"a": [3], "b": ["x"]}), tmp_path / "1.parquet")
    ds = stoker.open(str(tmp_path / "*.parquet"))
    assert [(ds[i]["a"], ds[i]["b"]) for i in range(3)] == [(1, None), (2, None), (3, "x")]
    pq.write_table(pa.table({"a": ["text"]}), tmp_path / "2.parquet")
    with pytest.raises(stoker.StokerError, match="column a is text here and i64 in the files before"):
        stoker.open(str(tmp_path / "*.parquet"))


def test_refused_columns_say_why(tmp_path):
    pq.write_table(pa.table({"x": [1, 2], "deep": pa.array([[[1]], []], pa.list_(pa.list_(pa.int32())))}), tmp_path / "t.parquet")
    ds = stoker.open(str(tmp_path / "t.parquet"))
    assert ds[1]["x"] == 2 and "deep" not in ds[1]
    with pytest.raises(stoker.StokerError, match="column deep: not supported because it is a list of lists"):
        next(iter(stoker.Loader(str(tmp_path / "t.parquet"), {"d": "from(deep) | bytes"})))


def test_a_file_rewritten_while_open(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1, 2, 3]}), path)
    ds = stoker.open(str(path))
    pq.write_table(pa.table({"x": [4, 5, 6]}), path)
    os.utime(path, (1, 1))
    with pytest.raises(stoker.StokerError, match="another one than when"):
        ds[0]


@pytest.mark.asan
def test_damage_is_an_error_with_a_place(tmp_path):
    """Any byte of the data pages may be wrong: an error that names the file, or other values; never a crash."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": list(range(50)), "s": [f"{i}" for i in range(50)], "l": [[i] * (i % 4) for i in range(50)]}), path)
    good = path.read_bytes()
    end = len(good) - int.from_bytes(good[-8:-4], "little") - 8
    failed = 0
    for at in random.Random(SEED).sample(range(4, end), 60):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1:])
        try:
            ds = stoker.open(str(path))
            for i in range(0, 50, 7):
                ds[i]
        except stoker.StokerError as e:
            assert "t.parquet" in str(e)
            failed += 1
    assert failed > 5
    for cut in (0, 3, 11, 12, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:cut])
        with pytest.raises(stoker.StokerError, match="Parquet|cut short"):
            stoker.open(str(path))


def test_no_rows_one_row(tmp_path):
    table = pa.table({"a": pa.array([7], pa.int16())})
    pq.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    pq.write_table(table, tmp_path / "one.parquet")
    assert len(stoker.open(str(tmp_path / "none.parquet"))) == 0
    assert stoker.open(str(tmp_path / "one.parquet"))[0]["a"] == 7
    assert stoker.open([str(tmp_path / "none.parquet"), str(tmp_path / "one.parquet")])[0]["a"] == 7


def test_forked_child_reads(large):
    path, values = large
    ds = stoker.open(str(path))
    assert ds[1]["v"] == values[1]
    pid = os.fork()
    if not pid:
        os._exit(0 if all(ds[i]["v"] == values[i] for i in (0, 120, 7)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_pickles(large):
    import pickle
    path, values = large
    assert pickle.loads(pickle.dumps(stoker.open(pathlib.Path(path))))[2]["v"] == values[2]


@pytest.mark.asan
@pytest.mark.parametrize("workers", [0, 2])
def test_typed_columns(tmp_path, workers):
    """Numbers come as they are stored, or as int, float and to() say; lists are padded."""
    n = 500
    table = pa.table({"i": pa.array(range(n), pa.int16()), "f": pa.array([x / 3 for x in range(n)], pa.float64()),
                      "n": pa.array([None if x % 3 else x for x in range(n)], pa.int64()),
                      "l": pa.array([list(range(x % 6)) for x in range(n)], pa.list_(pa.int32())), "b": pa.array([x % 2 == 0 for x in range(n)])})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=190, data_page_size=300, write_batch_size=20)
    fields = {"i": "int", "f": "to(f32)", "n": "from(n, default=-1) | int", "l": "ints", "b": "float"}
    loader = stoker.Loader(str(tmp_path / "t.parquet"), fields, batch_size=32, shuffle=True, collate="pad", num_workers=workers)
    seen = []
    for batch in loader:
        ids = np.asarray(batch.sample_ids)
        seen += ids.tolist()
        assert np.array_equal(batch["i"], ids) and str(batch["i"].dtype).endswith("int64")
        assert np.array_equal(batch["f"], (ids / 3).astype("f4")) and np.array_equal(batch["b"], ids % 2 == 0)
        assert np.array_equal(batch["n"], np.where(ids % 3, -1, ids))
        for i, row in zip(ids, np.asarray(batch["l"])):
            assert row[:i % 6].tolist() == list(range(i % 6))
    assert sorted(seen) == list(range(n))


def test_lists_of_one_length_stack(tmp_path):
    """Parquet has none, but pyarrow keeps Arrow's schema in the footer."""
    n = 50
    t = pa.table({"v": pa.array([[i, i + 1, i + 2] for i in range(n)], pa.list_(pa.float32(), 3)),
                  "l": pa.array([[i] * (i % 4) for i in range(n)], pa.list_(pa.int16())),
                  "s": pa.array([{"w": [i, -i]} for i in range(n)], pa.struct([("w", pa.list_(pa.int64(), 2))]))})
    pq.write_table(t, tmp_path / "a.parquet", row_group_size=20)
    with stoker.Loader(str(tmp_path / "a.parquet"), {"v": "from(v)", "w": "from(s.w)"}, batch_size=10, shuffle=True) as loader:
        for batch in loader:
            ids = batch.sample_ids.tolist()
            np.testing.assert_array_equal(np.asarray(batch["v"]), np.array([[i, i + 1, i + 2] for i in ids], "f4"))
            np.testing.assert_array_equal(np.asarray(batch["w"]), np.array([[i, -i] for i in ids]))
    assert list(stoker.open(str(tmp_path / "a.parquet"))[7]["l"]) == [7, 7, 7]
    # another length in another file, or no schema of Arrow's: lists of any length
    pq.write_table(pa.table({"v": pa.array([[1, 2]], pa.list_(pa.float32(), 2))}), tmp_path / "b.parquet")
    both = stoker.open([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")])
    assert list(both[n]["v"]) == [1, 2] and list(both[3]["v"]) == [3, 4, 5]
    pq.write_table(t, tmp_path / "c.parquet", store_schema=False)
    assert list(stoker.open(str(tmp_path / "c.parquet"))[3]["v"]) == [3, 4, 5]


def test_a_list_of_another_length_than_its_schema_says(tmp_path):
    """The footer's note of Arrow's schema is that of a file whose lists have 3 values."""
    kept = {}
    for k in (2, 3):
        pq.write_table(pa.table({"v": pa.array([list(range(k))] * 2, pa.list_(pa.float32(), k))}), tmp_path / f"{k}.parquet")
        kept[k] = pq.read_metadata(tmp_path / f"{k}.parquet").metadata[b"ARROW:schema"]
    (tmp_path / "a.parquet").write_bytes((tmp_path / "2.parquet").read_bytes().replace(kept[2], kept[3]))
    with pytest.raises(stoker.StokerError, match="column v: a list of 8 bytes, and its schema says 3"):
        next(iter(stoker.Loader(str(tmp_path / "a.parquet"), {"v": "from(v)"}, batch_size=2)))


@pytest.mark.parametrize("shuffle", [False, True, "block"])
def test_rows_of_blocks_that_are_there(tmp_path, shuffle):
    """Rows that follow each other in a page, pages that end elsewhere in each column, nulls between, several files."""
    n = 3000
    parts = []
    for k in range(2):
        t = pa.table({"a": pa.array([None if i % 97 == 5 else i + k * n for i in range(n)], pa.int32()),
                      "b": pa.array([(i + k * n) / 4 for i in range(n)], pa.float64()), "s": pa.array([f"{i}" * (i % 5) for i in range(n)])})
        pq.write_table(t, tmp_path / f"{k}.parquet", row_group_size=1100, data_page_size=700, write_batch_size=50, compression="zstd")
        parts.append(t)
    t = pa.concat_tables(parts)
    a, b, s = (t[c].to_pylist() for c in "abs")
    fields = {"a": "from(a, default=-1) | int", "b": "from(b)", "x": "columns(b, a, default=0) | to(f64)", "s": "text"}
    seen = []
    with stoker.Loader(str(tmp_path / "*.parquet"), fields, batch_size=128, shuffle=shuffle, num_workers=2) as loader:
        for _ in range(2):
            for batch in loader:
                ids = batch.sample_ids.tolist()
                seen += ids
                assert np.asarray(batch["a"]).tolist() == [-1 if a[i] is None else a[i] for i in ids]
                assert np.asarray(batch["b"]).tolist() == [b[i] for i in ids]
                assert np.asarray(batch["x"]).tolist() == [[b[i], a[i] or 0] for i in ids]
                assert list(batch["s"]) == [s[i] for i in ids]
    assert sorted(seen) == sorted(list(range(2 * n)) * 2)


def test_the_example_in_the_error_works(tmp_path):
    pq.write_table(pa.table({"x": [1.5, 2.5], "name": ["a", "b"]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError) as e:
        stoker.Loader(str(tmp_path / "t.parquet"), batch_size=2)
    example = str(e.value).rpartition("fields=")[2]
    batch = next(iter(stoker.Loader(str(tmp_path / "t.parquet"), eval(example), batch_size=2)))
    assert batch["x"].tolist() == [1.5, 2.5]
