# SPDX-License-Identifier: Apache-2.0
"""Lists of texts of Parquet and Arrow files: the lists that pyarrow reads, with None for nulls."""
import json
import os
import random
import subprocess
from pathlib import Path

import pytest

import stoker

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
ipc = pytest.importorskip("pyarrow.ipc")
pytestmark = pytest.mark.asan
CLI = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))

ODD = ["", "a", 'quote"back\\slash', "tab\tnewline\n\x01\x1f\x7f", "äöü", "\U0001F600", "x" * 300, "null", "[]", " "]


def lists(n, seed, least=0):
    rng = random.Random(seed)

    def one():
        kind = rng.randrange(10)
        if kind == 0:
            return None
        size = 0 if kind == 1 else rng.randrange(least, 6)
        return [None if rng.random() < 0.2 else rng.choice(ODD) for _ in range(size)]
    return [one() for _ in range(n)]


def same(path, want, name="tags"):
    """ds[i] and a loader have what pyarrow has."""
    ds = stoker.open(path, null=-1)
    assert [ds[i][name] for i in range(len(ds))] == want
    at = random.Random(7).sample(range(len(want)), min(20, len(want)))
    assert [ds[i][name] for i in at] == [want[i] for i in at]
    loader = stoker.Loader(path, {"t": f"from('{name}', default='null')"}, batch_size=7, num_workers=2)
    got = [row for batch in loader for row in batch["t"]]
    loader.close()
    assert got == want


PARQUET = [dict(data_page_version=version, use_dictionary=dictionary, compression=codec, row_group_size=group, data_page_size=page)
           for version, dictionary, codec, group, page in [
               ("1.0", True, "snappy", 1000, 1 << 20), ("1.0", False, "none", 37, 64), ("2.0", True, "zstd", 37, 64),
               ("2.0", False, "snappy", 100, 200), ("1.0", True, "none", 50, 64), ("2.0", False, "none", 1000, 1 << 20)]]
TYPES = [pa.list_(pa.string()), pa.large_list(pa.large_string()), pa.list_(pa.field("x", pa.large_string(), nullable=True))]


@pytest.mark.parametrize("how", range(len(PARQUET)))
def test_parquet(tmp_path, how):
    want = lists(300, how)
    table = pa.table({"n": pa.array(range(300)), "tags": pa.array(want, TYPES[how % len(TYPES)]),
                      "s": pa.array([None if t is None else {"in": t} for t in want], pa.struct([("in", pa.list_(pa.string()))])),
                      "m": pa.array([None if t is None else [("k%d" % i, i) for i, _ in enumerate(t)] for t in want],
                                    pa.map_(pa.string(), pa.int64())),
                      "o": pa.array([None if t is None else [None if x is None else {"name": x, "id": 1} for x in t] for t in want],
                                    pa.list_(pa.struct([("name", pa.string()), ("id", pa.int32())])))})
    path = str(tmp_path / "t.parquet")
    pq.write_table(table, path, **PARQUET[how])
    assert pq.read_table(path)["tags"].to_pylist() == want
    same(path, want)
    same(path, want, "s.in")
    same(path, want, "o.name")
    same(path, [None if t is None else ["k%d" % i for i, _ in enumerate(t)] for t in want], "m.key")


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_parquet_encodings(tmp_path, encoding, version):
    want = lists(200, encoding)
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"tags": want}), path, use_dictionary=False, column_encoding={"tags.list.element": encoding},
                   data_page_version=version, data_page_size=100)
    same(path, want)


def test_rows_over_many_pages(tmp_path):
    want = [["%d" % i for i in range(5000)], [], None, [None] * 3000, ["é"]]
    path = str(tmp_path / "t.parquet")
    for version in ("1.0", "2.0"):
        pq.write_table(pa.table({"tags": want}), path, use_dictionary=False, data_page_size=64, data_page_version=version,
                       write_batch_size=16)
        same(path, want)


ARROW = [pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_(pa.large_string()), pa.list_(pa.string_view()),
         pa.list_(pa.dictionary(pa.int8(), pa.string())), pa.large_list(pa.dictionary(pa.int32(), pa.large_string()))]


@pytest.mark.parametrize("kind", range(len(ARROW)))
def test_arrow(tmp_path, kind):
    want = lists(120, 100 + kind)
    plain = pa.array(want, pa.list_(pa.string()))
    try:
        column = plain.cast(ARROW[kind])
    except pa.ArrowNotImplementedError:
        column = pa.array(want, ARROW[kind])
    table = pa.table({"n": pa.array(range(120)), "tags": column})
    assert table["tags"].to_pylist() == want
    same(table, want)
    same(table.slice(5, 60), want[5:65])
    for codec in (None, "lz4", "zstd"):
        path = str(tmp_path / f"{codec}.arrow")
        with ipc.new_file(path, table.schema, options=ipc.IpcWriteOptions(compression=codec, unify_dictionaries=True)) as w:
            w.write_table(table, max_chunksize=50)
        same(path, want)


def test_arrow_fixed_and_structs(tmp_path):
    fixed = [["a", None, '"'], None, ["", "", "z"]]
    named = [[{"n": "x", "i": 1}, None, {"n": None, "i": 2}], [], None]
    table = pa.table({"f": pa.array(fixed, pa.list_(pa.string(), 3)), "o": pa.array(named, pa.list_(pa.struct([("n", pa.string()), ("i", pa.int64())])))})
    for codec in (None, "zstd"):
        path = str(tmp_path / "t.arrow")
        with ipc.new_file(path, table.schema, options=ipc.IpcWriteOptions(compression=codec)) as w:
            w.write_table(table)
        same(path, fixed, "f")
        same(path, [["x", None, None], [], None], "o.n")
    pq.write_table(table, str(tmp_path / "t.parquet"))
    same(str(tmp_path / "t.parquet"), fixed, "f")
    same(str(tmp_path / "t.parquet"), [["x", None, None], [], None], "o.n")


def test_chains_and_tools(tmp_path):
    want = [["cat", "dog"], ["bird"], [None, "x"], ["y"]]
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"tags": want, "n": [1, 2, 3, 4]}), path)
    ds = stoker.open(path)
    loader = stoker.Loader(path, {"first": "from(tags) | json('0')", "raw": "from(tags) | text", "n": "from(n)"}, batch_size=4)
    batch = next(iter(loader))
    assert batch["first"] == ["cat", "bird", None, "y"]
    assert [json.loads(t) for t in batch["raw"]] == want
    assert ds.column("tags.0", read=True).tolist() == ["cat", "bird", None, "y"]
    with pytest.raises(stoker.StokerError, match="several values for each sample"):
        ds.column("tags", read=True)
    with pytest.raises(stoker.StokerError, match="it is a list"):
        stoker.open(path, where="tags = 'cat'")
    assert len(stoker.open(path, where="tags IS NOT NULL")) == 4
    assert "tags" not in ds.columns
    said = subprocess.run([CLI, "ls", "--schema", path], capture_output=True, text=True, check=True).stdout
    assert "tags  text[*]?" in said
    shown = subprocess.run([CLI, "cat", path, "2"], capture_output=True, text=True, check=True).stdout
    assert '[null,"x"]' in shown
    for command in ("check", "bench"):
        subprocess.run([CLI, command, path], capture_output=True, check=True)
    stoker.pack(path, str(tmp_path / "shards"))
    packed = stoker.Loader(str(tmp_path / "shards" / "*.tar"), {"t": "from(tags) | json"}, batch_size=4)
    assert next(iter(packed))["t"] == want


def test_bad_text_is_a_bad_sample(tmp_path):
    """Bytes that are not UTF-8, in a column that says it is text."""
    texts = pa.StringArray.from_buffers(3, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffb"))
    table = pa.table({"tags": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), texts)})
    pq.write_table(table, str(tmp_path / "t.parquet"))
    for data in (table, str(tmp_path / "t.parquet")):
        assert stoker.open(data)[1]["tags"] == ["\udcff"]         # as the text column alone has it
        with stoker.Loader(data, {"t": "from(tags)"}, batch_size=3, on_error="skip", repeat=1) as loader:
            batch = next(iter(loader))
            assert [s["key"] for s in loader.stats()["bad_samples"]] == ["1"]
        assert batch["t"][0] == ["a"]


def test_what_one_dictionary_entry_makes_is_bounded(tmp_path):
    """A page of 40,000 times a text of 100 KB: 4 GB of lists from 100 KB of file."""
    path = str(tmp_path / "t.parquet")
    entry = pa.array(["x" * 100_000])
    items = pa.DictionaryArray.from_arrays(pa.array([0] * 40_000, pa.int32()), entry)
    pq.write_table(pa.table({"tags": pa.ListArray.from_arrays(pa.array([0, 20_000, 40_000], pa.int32()), items), "n": [1, 2]}), path)
    with pytest.raises(stoker.StokerError, match="at most"):
        stoker.open(path)[0]
    assert [int(b["n"][0]) for b in stoker.Loader(path, {"n": "from(n)"}, batch_size=1)] == [1, 2]
    table = pa.table({"tags": pa.ListArray.from_arrays(pa.array([0, 20_000, 40_000], pa.int32()), items)})
    with pytest.raises(stoker.StokerError, match="a list of texts of over"):
        stoker.open(table)[0]


def test_nulls_of_lists_that_are_written_as_text(tmp_path):
    """ints(null=-1) and floats(null=0): of JSON lines, as stoker.open(null=-1) is of tables."""
    rows = [[1, None, 3], [], [None, None], [4]]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"ids": r, "in": {"x": r}}) + "\n" for r in rows))
    path = str(tmp_path / "t.jsonl")
    fields = {"i": "from(ids) | ints(null=-1)", "f": "from(in) | json(x) | floats(null=0.5)"}
    with stoker.Loader(path, fields, batch_size=4, collate="list") as loader:
        b = next(iter(loader))
    assert [v.tolist() for v in b["i"]] == [[-1 if x is None else x for x in r] for r in rows]
    assert [v.tolist() for v in b["f"]] == [[0.5 if x is None else x for x in r] for r in rows]
    with pytest.raises(stoker.StokerError, match='number 1 of the list, "null", is none'), stoker.Loader(path, {"i": "from(ids) | ints"}, batch_size=1, collate="list") as loader:
        list(loader)
    pq.write_table(pa.table({"ids": rows}), str(tmp_path / "t.parquet"))
    with pytest.raises(stoker.StokerError, match="null= is for lists that are written as text; the field ids has a type: say stoker.open"):
        stoker.Loader(str(tmp_path / "t.parquet"), {"i": "from(ids) | ints(null=-1)"}, batch_size=1)
    with stoker.Loader(stoker.open(str(tmp_path / "t.parquet"), null=-1), {"i": "from(ids) | ints"}, batch_size=4, collate="list") as loader:
        assert [v.tolist() for v in next(iter(loader))["i"]] == [[-1 if x is None else x for x in r] for r in rows]
