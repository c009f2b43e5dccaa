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
