# SPDX-License-Identifier: Apache-2.0
"""stoker ls, cat, check and index on Parquet files."""
import json

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
    assert lines == ["image.bytes  bytes?", "image.path  bytes?", "label  i32?", "l  f64[*]?"]
    first = json.loads(stoker("ls", "--schema", "--json", table).out.splitlines()[2])
    assert first == {"name": "label", "type": "i32", "dimensions": 0, "nullable": 1}


def test_ls_cat_index(stoker, table):
    assert len(stoker("ls", table).out.splitlines()) == 20
    assert "image.bytes  30.0 KB" in stoker("cat", table, "3").out
    assert "already there" in stoker("index", table).out
    assert "already there" not in stoker("index", "--force", table).out


def test_check(stoker, table):
    assert "all good" in stoker("check", table).out
    data = bytearray(table.read_bytes())
    data[data.index(bytes([1]) * 30_000) - 3] ^= 0xFF       # a length
    table.write_bytes(data)
    done = stoker("check", table)
    assert done.code == 1 and "bad" in done.out
