# SPDX-License-Identifier: Apache-2.0
"""stoker ls, cat, check and index on Parquet files."""
import json
import os

import pytest

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402


@pytest.fixture
def table(tmp_path):
    rows = 20
    pq.write_table(pa.table({"image": [{"bytes": bytes([i]) * 30_000, "path": f"{i}"} for i in range(rows)],
                             "label": pa.array(range(rows), pa.int32()), "l": [[1.5] * (i % 3) for i in range(rows)]}),
                   tmp_path / "t.parquet", compression="none")
    return tmp_path / "t.parquet"


def test_schema(stoker, table):
    lines = stoker("ls", "--schema", table).out.splitlines()
    assert lines == ["image.bytes  bytes?", "image.path  text?", "label  i32?", "l  f64[*]?"]
    first = json.loads(stoker("ls", "--schema", "--json", table).out.splitlines()[2])
    assert first == {"name": "label", "type": "i32", "dimensions": 0, "nullable": 1}


def test_ls_cat_index(stoker, table):
    assert len(stoker("ls", table).out.splitlines()) == 20
    shown = stoker("cat", table, "5").out
    assert "image.bytes  30.0 KB" in shown and "key     5\n" in shown
    assert "label   4 B      5\n" in shown and "l       16 B     [1.5, 1.5]\n" in shown and "image.path  1 B      5\n" in shown
    assert stoker("cat", table, "5", "label").out == "5" and len(stoker("cat", table, "5", "label", "--raw").raw) == 4
    assert json.loads(stoker("cat", table, "5", "--json").out)["fields"]["l"] == {"size": 16, "text": "[1.5, 1.5]"}
    assert [json.loads(line)["key"] for line in stoker("ls", table, "--keys", "1?", "--json").out.splitlines()] == [str(i) for i in range(10, 20)]


def test_index(stoker, table):
    path = table.parent / ".stoker"
    assert stoker("index", table).out.startswith("row seek points made: 1 file, 20 rows, 4 columns; ") and len(list(path.glob("*.rows"))) == 1
    assert stoker("index", table).out.startswith("row seek points already there: ")
    assert stoker("index", "--force", table).out.startswith("row seek points made: ")
    os.utime(table, ns=(1, 1))
    assert json.loads(stoker("index", table, "--json").out)["built"] is True
    pq.write_table(pa.table({"x": [1]}), table.parent / "small.parquet")
    assert stoker("index", table.parent / "small.parquet").out.startswith("nothing to make: 1 file, 1 row, 1 column; rows of a table")


def test_check(stoker, table):
    assert "all good" in stoker("check", table).out
    data = bytearray(table.read_bytes())
    data[data.index(bytes([1]) * 30_000) - 3] ^= 0xFF       # a length
    table.write_bytes(data)
    done = stoker("check", table)
    assert done.code == 1 and "bad" in done.out
