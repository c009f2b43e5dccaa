# SPDX-License-Identifier: Apache-2.0
"""What users see of tables: texts and bytes by the schema, keys, the same wherever it is shown."""
import numpy as np
import pytest

import stoker

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402


def made():
    return pa.table({
        "s": pa.array(["a", "\u00e9" * 9, ""]), "large": pa.array(["x", "yy", "\u2603" * 20], pa.large_string()),
        "view": pa.array(["a", "b" * 40, ""], pa.string_view()), "word": pa.array(["u", "v", "u"]).dictionary_encode(),
        "b": pa.array([b"\xff", b"plain", b""]), "lb": pa.array([b"1", b"22", b""], pa.large_binary()), "bv": pa.array([b"1", b"2" * 20, b""], pa.binary_view()),
        "fixed": pa.array([b"ab", b"cd", b"ef"], pa.binary(2)), "deep": [{"name": f"n{i}", "raw": bytes([200 + i])} for i in range(3)], "x": [1, 2, 3]})


TEXTS, BYTES = ("s", "large", "view", "word", "deep.name"), ("b", "lb", "bv", "fixed", "deep.raw")


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream", "memory"])
def test_texts_are_str_and_binaries_bytes(tmp_path, kind):
    t = made()
    path = str(tmp_path / ("t.parquet" if kind == "parquet" else "t.arrow"))
    if kind == "parquet":
        pq.write_table(t.drop(["view", "bv"]), path)
    elif kind != "memory":
        with (pa.ipc.new_file if kind == "arrow" else pa.ipc.new_stream)(path, t.schema) as w:
            w.write_table(t)
    source = t if kind == "memory" else path
    ds = stoker.open(source)
    texts, binaries = ([n for n in names if n in ds.fields] for names in (TEXTS, BYTES))
    want = {n: [r["deep"][n[5:]] if n.startswith("deep.") else r[n] for r in t.to_pylist()] for n in texts + binaries}
    rows = ds[:3]
    assert {n: [r[n] for r in rows] for n in texts + binaries} == want
    assert all(isinstance(r[n], str) for r in rows for n in texts) and all(isinstance(r[n], bytes) for r in rows for n in binaries)
    assert {n: str(d) for n, d in ds.columns.items()} == {**dict.fromkeys(texts, "object"), "x": "int64"}
    assert {n: ds.column(n).tolist() for n in texts} == {n: want[n] for n in texts}
    fields = {n: f"from('{n}')" for n in texts} | {n: f"from('{n}') | bytes" for n in binaries}
    with stoker.Loader(source, fields, batch_size=3) as loader:
        batch = next(iter(loader))
        assert {n: [v if isinstance(v, str) else bytes(v) for v in batch[n]] for n in fields} == want
    with pytest.raises(stoker.StokerError, match="not what to make of it"):      # pictures, arrays, ...: only the user knows
        stoker.Loader(source, {"b": "from(b)"})


def test_texts_beside_shards(tmp_path):
    """A loader over tables and others takes one meaning: as it stands only where all have texts."""
    pq.write_table(pa.table({"a": ["x"], "b": [b"y"]}), tmp_path / "t.parquet")
    pq.write_table(pa.table({"a": [b"z"], "b": [b"y"]}), tmp_path / "u.parquet")
    sets = [stoker.open(str(tmp_path / n)) for n in ("t.parquet", "u.parquet")]
    with pytest.raises(stoker.StokerError, match="not what to make of it"):
        stoker.Loader(sets, {"a": "from(a)"})
    with stoker.Loader(sets, {"a": "text"}, batch_size=2) as loader:
        assert [v for b in loader for v in b["a"]] == ["x", "z"]


def test_bytes_that_are_not_utf8(tmp_path):
    """A text column may hold anything: ds[i] gives the bytes back, a chain says that they are not text."""
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\x41"]).buffers())
    ds = stoker.open(pa.table({"s": bad}))
    assert ds[0]["s"].encode("utf-8", "surrogateescape") == b"\xff\x41"
    with pytest.raises(stoker.StokerError, match="not UTF-8"), stoker.Loader(ds, {"s": "from(s)"}) as loader:
        next(iter(loader))


def test_a_rows_number_is_its_key(tmp_path):
    pq.write_table(pa.table({"x": [10, 11, 12]}), tmp_path / "t.parquet")
    path = str(tmp_path / "t.parquet")
    ds = stoker.open(path)
    assert ds["2"]["x"] == 12 and ds["2"]["__key__"] == "2"
    for key in ("3", "01", "x", "", "-1", "9" * 30):
        with pytest.raises(KeyError):
            ds[key]
    with stoker.Loader(path, {"x": "int"}, select=["2", "0"], batch_size=2) as loader:
        batch = next(iter(loader))
        assert np.asarray(batch["x"]).tolist() == [12, 10] and batch.sample_keys == ["2", "0"]
    with stoker.Loader([ds, stoker.open(pa.table({"x": [20, 21]}))], {"x": "int"}, select=["4", "0"], batch_size=2) as loader:
        batch = next(iter(loader))
        assert np.asarray(batch["x"]).tolist() == [21, 10] and batch.sample_keys == ["4", "0"]
    with pytest.raises(stoker.errors.NotFoundError, match="'cat'.*where= finds samples"):
        stoker.Loader(path, {"x": "int"}, select=["cat"])
    some = stoker.open(path, where="x > 10")
    assert some["2"]["x"] == 12
    with pytest.raises(KeyError, match="does not satisfy"):
        some["0"]


def test_keys_of_a_shuffled_hugging_face_set(monkeypatch):
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    ds = stoker.open(datasets.Dataset.from_dict({"t": list("abcdef")}).shuffle(seed=3).select(range(4)))
    for i in range(4):
        row = ds[i]
        assert ds[row["__key__"]] == row
    gone = ({str(i) for i in range(6)} - {r["__key__"] for r in ds}).pop()
    with pytest.raises(KeyError, match="not among the rows"):
        ds[gone]


def write_arrow(path, *batches, stream=False, **options):
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(path, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as w:
        for b in batches:
            w.write_batch(b)
    return str(path)


def write(path, table):
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        write_arrow(path, *table.to_batches())


@pytest.mark.asan
@pytest.mark.parametrize("packed", [None, "lz4"])
def test_dictionaries_that_grow_or_are_replaced(tmp_path, packed):
    def batch(words, values):
        return pa.record_batch({"w": pa.DictionaryArray.from_arrays(pa.array(values, pa.int8()), pa.array(words))})
    grown = [batch(["a", "bb"], [0, 1, None]), batch(["a", "bb", "ccc"], [2, 0]), batch(["a", "bb", "ccc", "d", "e"], [4, 3, 2, 1, 0])]
    want = ["a", "bb", None, "ccc", "a", "e", "d", "ccc", "bb", "a"]
    for stream in (False, True):
        path = write_arrow(tmp_path / f"{stream}.arrow", *grown, stream=stream, emit_dictionary_deltas=True, compression=packed)
        assert [r["w"] for r in stoker.open(path)] == want
        with stoker.Loader(path, {"w": "from(w, default='')"}, batch_size=10, num_workers=0) as loader:
            assert next(iter(loader))["w"] == [w or "" for w in want]
    replaced = [batch(["a", "b"], [0, 1]), batch(["x", "y"], [1, 0]), batch(["b", "a", "c"], [0, 2])]
    path = write_arrow(tmp_path / "replaced.arrow", *replaced, stream=True, compression=packed)
    assert [r["w"] for r in stoker.open(path)] == ["a", "b", "y", "x", "b", "c"]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_whose_times_have_other_units(tmp_path, kind):
    """The stored integers would be mixed without a word."""
    for a, b in ((pa.timestamp("ms"), pa.timestamp("us")), (pa.time64("us"), pa.time64("ns")), (pa.timestamp("us"), pa.int64())):
        for i, t in enumerate((a, b)):
            write(tmp_path / f"{i}.{kind}", pa.table({"x": [1], "t": pa.array([5000], t)}))
        with pytest.raises(stoker.StokerError, match=f"column t .*1.{kind}"):
            stoker.open(str(tmp_path / f"*.{kind}"))
    write(tmp_path / f"0.{kind}", pa.table({"x": [1], "t": pa.array([5000], pa.timestamp("us", "UTC"))}))
    write(tmp_path / f"1.{kind}", pa.table({"x": [1], "t": pa.array([6000], pa.timestamp("us", "Europe/Berlin"))}))
    assert [r["t"] for r in stoker.open(str(tmp_path / f"*.{kind}"))] == [5000, 6000]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_text_in_some_files_only_is_bytes(tmp_path, kind):
    for order in ((pa.string(), pa.binary()), (pa.binary(), pa.string())):
        for i, t in enumerate(order):
            write(tmp_path / f"{i}.{kind}", pa.table({"t": pa.array([b"a"], t)}))
        assert [r["t"] for r in stoker.open(str(tmp_path / f"*.{kind}"))] == [b"a", b"a"]


@pytest.mark.parametrize("packed", [None, "lz4"])
def test_columns_of_nulls(tmp_path, packed):
    t = pa.table({"n": pa.nulls(3), "x": [1, 2, 3], "s": pa.StructArray.from_arrays([pa.nulls(3), pa.array(["a", "b", "c"])], ["u", "v"])})
    for source in (t, write_arrow(tmp_path / "t.arrow", *t.to_batches(), compression=packed)):
        assert [(r["n"], r["x"], r["s.u"], r["s.v"]) for r in stoker.open(source)] == [(None, i + 1, None, "abc"[i]) for i in range(3)]
        with stoker.Loader(source, {"n": "from(n, default='7') | int", "x": "int"}, batch_size=3) as loader:
            batch = next(iter(loader))
            assert np.asarray(batch["n"]).tolist() == [7, 7, 7] and np.asarray(batch["x"]).tolist() == [1, 2, 3]


def test_columns_with_odd_names(tmp_path):
    names = ["a,b", ".x", "x.", "a..b", "", "new\nline", 'q"q', "\u2603"]
    pq.write_table(pa.Table.from_arrays([pa.array([i, i + 100]) for i in range(len(names))], names=names), tmp_path / "t.parquet")
    ds = stoker.open(str(tmp_path / "t.parquet"))
    for i, name in enumerate(names):
        assert ds.column(name).tolist() == [i, i + 100]
        quoted = name.replace('"', '""')
        assert len(stoker.open(str(tmp_path / "t.parquet"), where=f'"{quoted}" = {i}')) == 1


@pytest.mark.parametrize("kind", ["parquet", "arrow", "memory"])
def test_two_columns_of_one_name(tmp_path, kind):
    t = pa.Table.from_arrays([pa.array([i]) for i in range(2501)], names=[f"c{i % 2500}" for i in range(2501)])
    if kind != "memory":
        write(tmp_path / f"t.{kind}", t)
    row = stoker.open(t if kind == "memory" else str(tmp_path / f"t.{kind}"))[0]
    assert (row["c0"], row["c1"], row["c0_1"]) == (0, 1, 2500)


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_a_scan_of_arrow_longer_than_a_span(tmp_path, kind):
    """Rows in order are copied many at once: lists of one length, of others, and slices, with the bits of pyarrow."""
    n = 50_000
    rng = np.random.default_rng(18)
    lists = pa.ListArray.from_arrays(np.arange(0, 16 * n + 1, 16, dtype=np.int32), rng.integers(0, 9999, 16 * n, dtype=np.int32))
    lengths = np.where(np.arange(n) % 1000 < 900, 3, rng.integers(0, 6, n))
    ragged = pa.LargeListArray.from_arrays(np.concatenate([[0], np.cumsum(lengths)]), rng.random(int(lengths.sum())))
    t = pa.table({"x": rng.random(n), "l": lists, "r": ragged, "f": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(4 * n, "f4")), 4)}).slice(7)
    source = t if kind == "memory" else write_arrow(tmp_path / "t.arrow", *t.combine_chunks().to_batches(20_000))
    with stoker.Loader(source, {"x": "from(x)", "l": "from(l) | ints(shape=16)", "r": "from(r)", "f": "from(f)"}, batch_size=4096, collate={"r": "list"}) as loader:
        got = {k: [] for k in "xlrf"}
        for batch in loader:
            for k in "xlf":
                got[k].append(np.asarray(batch[k]))
            got["r"] += [np.asarray(v) for v in batch["r"]]
    assert np.concatenate(got["x"]).tobytes() == np.asarray(t["x"]).tobytes()
    assert np.array_equal(np.concatenate(got["l"]).ravel(), np.asarray(t["l"].combine_chunks().flatten()))
    assert np.concatenate(got["f"]).tobytes() == np.asarray(t["f"].combine_chunks().flatten()).tobytes()
    assert [len(v) for v in got["r"]] == lengths[7:].tolist() and np.concatenate(got["r"]).tobytes() == np.asarray(t["r"].combine_chunks().flatten()).tobytes()


def test_partitions_as_pyarrow_and_spark_write_them(tmp_path):
    """Characters that a path can't have are %XX, and a null has a word of its own."""
    import pyarrow.dataset as pads
    kinds = ["a/b", "c d", None, "50%", "x=y", "\u00e9"]
    t = pa.table({"x": range(6), "kind": kinds, "year": [2023, 2024, 2023, 2024, None, 2024]})
    pads.write_dataset(t, tmp_path / "d", format="parquet", partitioning=["kind", "year"], partitioning_flavor="hive")
    ds = stoker.open(str(tmp_path / "d"))
    got = sorted((r["x"], r["kind"], r["year"]) for r in ds)
    assert got == [(i, kinds[i], None if i == 4 else str(t["year"][i].as_py())) for i in range(6)]
    for where, want in (("kind = 'a/b'", [0]), ("kind IS NULL", [2]), ("year >= 2024", [1, 3, 5]), ("year IS NULL OR kind = '50%'", [3, 4])):
        assert sorted(r["x"] for r in stoker.open(str(tmp_path / "d"), where=where)) == want


@pytest.mark.asan
def test_files_that_polars_writes(tmp_path):
    """Its files begin with a schema that has no length: what is in them stands in the footer."""
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"x": [1, 2, None], "s": ["a", None, "c" * 30], "c": pl.Series(["u", "v", "u"], dtype=pl.Categorical), "l": [[1, 2], [], None],
                          "a": pl.Series([[1, 2], [3, 4], [5, 6]], dtype=pl.Array(pl.Int64, 2)), "b": [True, None, False], "n": [None] * 3,
                          "st": [{"k": 1}, {"k": 2}, None], "d": pl.Series(["1.5", "2", None]).cast(pl.Decimal(10, 2)), "bin": [b"a", b"", None]})
    many = pl.concat([frame] * 5, rechunk=False)
    want = [{"x": r["x"], "s": r["s"], "c": r["c"], "l": r["l"], "a": r["a"], "b": None if r["b"] is None else int(r["b"]), "n": None, "st.k": r["st"] and r["st"]["k"],
             "d": None if r["d"] is None else float(r["d"]), "bin": r["bin"]} for r in many.to_dicts()]
    for name, write in (("u", lambda p: many.write_ipc(p)), ("z", lambda p: many.write_ipc(p, compression="zstd")), ("l", lambda p: many.write_ipc(p, compression="lz4")),
                        ("s", lambda p: many.write_ipc_stream(p)), ("o", lambda p: many.write_ipc(p, compat_level=pl.CompatLevel.oldest()))):
        write(tmp_path / f"{name}.arrow")
        got = [{k: v.tolist() if hasattr(v, "tolist") else v for k, v in r.items() if not k.startswith("__")} for r in stoker.open(str(tmp_path / f"{name}.arrow"))]
        assert got == want, name


def test_an_arrow_file_that_was_not_closed(tmp_path):
    """Without its footer it is read as a stream, as far as it goes."""
    t = pa.table({"x": list(range(100))})
    whole = tmp_path / "whole.arrow"
    write_arrow(whole, *t.to_batches(25))
    data = whole.read_bytes()
    end = data.rindex(b"\xff\xff\xff\xff\x00\x00\x00\x00")        # the mark after the last batch
    (tmp_path / "cut.arrow").write_bytes(data[:end])
    assert [r["x"] for r in stoker.open(str(tmp_path / "cut.arrow"))] == list(range(100))
    for n in range(9, len(data) - 1, 37):
        (tmp_path / "cut.arrow").write_bytes(data[:n])
        try:
            rows = [r["x"] for r in stoker.open(str(tmp_path / "cut.arrow"))]
        except stoker.StokerError as e:
            assert "cut.arrow" in str(e)
        else:
            assert rows == list(range(len(rows)))


def test_encrypted_columns(tmp_path):
    """One that is encrypted is left out and says so; the others are read.  A file whose footer is, is refused."""
    import base64
    encryption = pytest.importorskip("pyarrow.parquet.encryption")

    class Kms(encryption.KmsClient):
        def __init__(self, _):
            encryption.KmsClient.__init__(self)

        def wrap_key(self, key, _):
            return base64.b64encode(key)

        def unwrap_key(self, key, _):
            return base64.b64decode(key)

    factory = encryption.CryptoFactory(Kms)
    for plain in (True, False):
        how = factory.file_encryption_properties(encryption.KmsConnectionConfig(), encryption.EncryptionConfiguration(
            footer_key="k", column_keys={"k": ["s"]}, plaintext_footer=plain))
        with pq.ParquetWriter(tmp_path / f"{plain}.parquet", pa.schema([("x", pa.int64()), ("s", pa.string())]), encryption_properties=how) as w:
            w.write_table(pa.table({"x": [1, 2], "s": ["a", "b"]}))
    ds = stoker.open(str(tmp_path / "True.parquet"))
    assert [r["x"] for r in ds] == [1, 2] and "s" not in ds[0]
    with pytest.raises(stoker.StokerError, match="column s: not supported because it is encrypted"):
        stoker.Loader(ds, {"s": "text"})
    with pytest.raises(stoker.StokerError, match="the file is encrypted"):
        stoker.open(str(tmp_path / "False.parquet"))
    pq.write_table(pa.table({"x": [1], "s": ["q"]}), tmp_path / "plain.parquet")
    with pytest.raises(stoker.StokerError, match="column s can be read in some files and not in others, because it is encrypted.*plain.parquet"):
        stoker.open([str(tmp_path / n) for n in ("True.parquet", "plain.parquet")])


@pytest.mark.parametrize("kind", ["parquet", "arrow", "zstd", "memory"])
def test_a_decimal_is_the_same_everywhere(tmp_path, kind):
    """ds[i], columns, loaders, columns() and where have float(Decimal); NAME.text is the exact text in each of them."""
    from decimal import Decimal
    want = [Decimal("-990.79"), None, Decimal("1.00"), Decimal("0.10"), Decimal("12345678901234567.89"), Decimal("-0.07")] * 20
    data = t = pa.table({"price": pa.array(want, pa.decimal128(20, 2)), "s": pa.array([v and {"d": v} for v in want], pa.struct([("d", pa.decimal256(40, 2))])),
                         "n": pa.array(range(len(want)))})
    if kind == "parquet":
        data = str(tmp_path / "t.parquet")
        pq.write_table(t, data, row_group_size=50)
    elif kind != "memory":
        data = str(tmp_path / "t.arrow")
        with pa.ipc.new_file(data, t.schema, options=pa.ipc.IpcWriteOptions(compression=kind if kind == "zstd" else None)) as w:
            w.write_table(t, max_chunksize=50)
    ds = stoker.open(data)
    floats, texts = [None if v is None else float(v) for v in want], [None if v is None else f"{v:.2f}" for v in want]
    exact = stoker.open(data, fields={"t": "from(price, default='') | text"})
    for name in ("price", "s.d"):
        assert [s[name] for s in ds] == floats
        assert [None if np.isnan(v) else v for v in ds.column(name)] == floats
        assert ds.column(f"{name}.text").tolist() == texts
        fields = {"f": f"from('{name}', default=7)", "t": f"from('{name}', default='') | text", "u": f"from('{name}.text', default='')", "c": f"columns('{name}', default=7)"}
        with stoker.Loader(data, fields, batch_size=len(want)) as loader:
            b = next(iter(loader))
        assert np.asarray(b["f"]).tolist() == np.asarray(b["c"])[:, 0].tolist() == [7 if v is None else v for v in floats]
        assert b["t"] == b["u"] == [v or "" for v in texts]
        for where, count in ((f'"{name}" = -990.79', 20), (f'"{name}" < 0', 40), (f'"{name}.text" = \'1.00\'', 20), (f'"{name}.text" LIKE \'%.89\' AND n < 60', 10),
                             (f'"{name}.text" IS NULL OR "{name}" = 0.1', 40)):
            assert len(stoker.open(data, where=where)) == count, where
    assert [s["t"] for s in exact] == [v or "" for v in texts]
