# SPDX-License-Identifier: Apache-2.0
"""Typed columns: Dataset.columns, Dataset.column(), open(columns=...)."""

import json
import os
import pickle

import numpy as np
import pytest
from conftest import write_tar

import stoker

pytestmark = pytest.mark.asan
N = 60


def members(i, shard=0):
    meta = {"width": i, "ratio": i / 4, "name": f"né{i % 3}", "deep": {"list": [i, -i]},
            "digits": str(i), "good": i % 2 == 0}
    if i % 5 == 0:
        meta["rare"] = 2**53 + i
    out = [(f"{shard}-{i:04d}.cls", b"%d\n" % (i % 7)), (f"{shard}-{i:04d}.json", json.dumps(meta).encode())]
    if shard == 0:
        out.append((f"{shard}-{i:04d}.mix", b"%d" % i))
    else:
        out.append((f"{shard}-{i:04d}.mix", b"cat"))
    return out


@pytest.fixture
def folder(tmp_path):
    for s in range(2):
        write_tar(tmp_path / f"a-{s}.tar", [m for i in range(N) for m in members(i, s)])
    return tmp_path


def both(values):
    return list(values) * 2


@pytest.mark.parametrize("read", [False, True])
def test_values_and_types(folder, read):
    names = ["cls", "json.width", "json.ratio", "json.name", "json.deep.list.1", "json.digits",
             "json.good", "json.rare", "json.deep", "mix"]
    ds = stoker.open(folder, columns=None if read else names)
    assert set(ds.columns) == (set() if read else set(names))
    col = {name: ds.column(name, read=read) for name in names}
    assert {name: col[name].dtype.name for name in names} == {
        "cls": "int64", "json.width": "int64", "json.ratio": "float64", "json.name": "object",
        "json.deep.list.1": "int64", "json.digits": "object", "json.good": "int64",
        "json.rare": "float64", "json.deep": "object", "mix": "object"}
    assert col["cls"].tolist() == both(i % 7 for i in range(N))
    assert col["json.ratio"].tolist() == both(i / 4 for i in range(N))
    assert col["json.name"].tolist() == both(f"né{i % 3}" for i in range(N))
    assert col["json.deep.list.1"].tolist() == both(-i for i in range(N))
    assert col["json.digits"].tolist() == both(str(i) for i in range(N))
    assert col["json.good"].tolist() == both(i % 2 == 0 for i in range(N))
    assert [json.loads(v) for v in col["json.deep"]] == both({"list": [i, -i]} for i in range(N))
    rare = col["json.rare"]
    assert np.isnan(rare).tolist() == both(i % 5 != 0 for i in range(N)) and rare[5] == 2**53 + 5 - 1
    # One shard has numbers, the other words: all are text.
    assert col["mix"].tolist() == [str(i) for i in range(N)] + ["cat"] * N
    assert col["cls"].flags.writeable and pickle.loads(pickle.dumps(ds)).columns == ds.columns


def test_kept_in_the_index_and_named_in_the_error(folder):
    with pytest.raises(FileNotFoundError, match=r"no column cls; run: stoker index --columns cls DATA"):
        stoker.open(folder).column("cls")
    stoker.open(folder, columns=["cls"])
    ds = stoker.open(folder)
    assert ds.columns == {"cls": np.dtype("int64")} and len(ds.column("cls")) == 2 * N
    stoker.open(folder, columns=["json.width"])
    assert list(stoker.open(folder).columns) == ["cls", "json.width"]
    write_tar(folder / "a-2.tar", [m for i in range(N) for m in members(i, 2)])
    ds = stoker.open(folder)
    assert ds.columns == {}
    with pytest.raises(FileNotFoundError, match="of all shards"):
        ds.column("cls")
    assert len(stoker.open(folder, columns=["cls"]).column("cls")) == 3 * N


def test_bad_names_and_values(folder):
    for bad in ("cls", [1], ["a\0b"]):
        with pytest.raises(ValueError, match="column"):
            stoker.open(folder, columns=bad)
    with pytest.raises(ValueError, match=r"no sample has a value for the column json.widht; the fields are: cls, json, mix"):
        stoker.open(folder, columns=["json.widht"])
    ds = stoker.open(folder)
    for bad in (3, None, "a\0b", "", "..", "a,b"):
        with pytest.raises(ValueError, match="column"):
            ds.column(bad, read=True)
    with pytest.raises(ValueError, match="no sample has a value"):
        ds.column("png", read=True)


def test_bad_json_is_null(tmp_path, caplog):
    write_tar(tmp_path / "a.tar", [(f"{i}.json", b'{"a": 1}' if i else b"{") for i in range(4)]
              + [("5.cls", b" \n"), ("6.json", b"")])
    with caplog.at_level("WARNING"):
        ds = stoker.open(tmp_path, columns=["json.a"])
    assert np.isnan(ds.column("json.a")).tolist() == [True, False, False, False, True, True]
    assert "1 values were left out" in caplog.text


def test_a_field_with_dots_is_a_field(tmp_path):
    write_tar(tmp_path / "a.tar", [("1.meta.json", b'{"a": 1}'), ("1.json", b'{"a": 2}'),
                                   ("1.a.b", b"7")])
    ds = stoker.open(tmp_path)
    assert ds.column("meta.json.a", read=True).tolist() == [1]
    assert ds.column("json.a", read=True).tolist() == [2]
    assert ds.column("a.b", read=True).tolist() == [7]


def test_large_fields_are_no_columns(tmp_path):
    write_tar(tmp_path / "a.tar", [("1.jpg", bytes(70000))])
    with pytest.raises(ValueError, match=r"field jpg has 70000 bytes: a column is for values of at most 65536"):
        stoker.open(tmp_path).column("jpg", read=True)


def test_classes_of_folders_need_no_reading(tmp_path):
    for name, n in (("cat", 3), ("dog", 2)):
        (tmp_path / "d" / name).mkdir(parents=True)
        for i in range(n):
            (tmp_path / "d" / name / f"{i}.jpg").write_bytes(b"no picture")
    ds = stoker.open(tmp_path / "d")
    assert ds.columns == {"cls": np.dtype("int64")}
    assert ds.column("cls").tolist() == [0, 0, 0, 1, 1]
    fixed = stoker.open(tmp_path / "d", classes=["dog", "x", "cat"], columns=["cls"])
    assert fixed.column("cls").tolist() == [2, 2, 2, 0, 0]


def test_manifest(tmp_path):
    (tmp_path / "m.csv").write_text("path,label,score\n" + "".join(
        f"x{i}.jpg,{'ab'[i % 2]},{i / 8 if i else ''}\n" for i in range(5)))
    ds = stoker.open(tmp_path / "m.csv", columns=["label", "score"])
    assert ds.column("label").tolist() == ["a", "b", "a", "b", "a"]
    assert ds.column("score")[1:].tolist() == [1 / 8, 2 / 8, 3 / 8, 4 / 8] and np.isnan(ds.column("score")[0])


def test_an_index_that_cannot_be_written_keeps_columns_in_memory(folder, caplog):
    index = stoker.open(folder).index_path
    os.mkdir(index.replace(".idx", ".lock"))  # no one, not even root, gets this lock
    with caplog.at_level("WARNING"):
        ds = stoker.open(folder, columns=["cls"])
    assert ds.index_path == "" and ds.column("cls").tolist() == both(i % 7 for i in range(N))
    assert "cannot be written: its columns stay in memory" in caplog.text
    assert stoker.open(folder).columns == {}
