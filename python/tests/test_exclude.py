# SPDX-License-Identifier: Apache-2.0
"""exclude=: those samples stand nowhere; the epoch is a permutation of the rest."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import LABEL, SAMPLES, ids_of

import stoker

CLI = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))
OUT = {0, 1, 33, 34, 57, 99}


@pytest.fixture
def manifest(urls, tmp_path):
    """As a run's stats or `stoker check` would write it."""
    ds = stoker.open(urls)
    path = tmp_path / "bad.jsonl"
    path.write_text("".join(
        json.dumps({"shard": ds[i]["__url__"].rpartition("/")[2], "offset": None, "key": ds[i]["__key__"],
                    "reason": "x"}) + "\n" for i in sorted(OUT, reverse=True)))
    return path


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("world", [1, 3])
def test_rest_is_a_permutation(urls, manifest, shuffle, world):
    for epoch in range(2):
        seen = []
        for rank in range(world):
            with stoker.Loader(urls, LABEL, batch_size=8, shuffle=shuffle, seed=3, rank=rank, world_size=world,
                               exclude=manifest) as loader:
                loader.set_epoch(epoch)
                seen += [int(i) for b in loader for i, ok in zip(b.sample_ids, b.valid, strict=True) if ok]
        assert sorted(seen) == sorted(set(range(SAMPLES)) - OUT)


def test_list_of_keys(urls):
    keys = [stoker.open(urls)[i]["__key__"] for i in OUT]
    with stoker.Loader(urls, LABEL, batch_size=8, exclude=keys) as loader:
        assert ids_of(loader) == sorted(set(range(SAMPLES)) - OUT)
        state = loader.state_dict()
    assert state["data"]["samples"] == SAMPLES
    with stoker.Loader(urls, LABEL, batch_size=8) as other, pytest.raises(ValueError, match="other samples take part"):
        other.load_state_dict(state)


@pytest.mark.parametrize("value, words", [(3, "a file or a list of keys"), ([1], "a file or a list of keys"),
                                          ("no-such-file", "No such file")])
def test_refusals(urls, value, words):
    with pytest.raises(stoker.StokerError, match=words):
        stoker.Loader(urls, LABEL, exclude=value)


def test_rows_of_tables_go_by_their_numbers(tmp_path):
    """What `stoker check` writes of a table keeps that row out, and none else; keys alone are sample_keys."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq
    for k in range(2):
        pq.write_table(pa.table({"jpg": [b"no picture" if i == 7 and k else b"" for i in range(10)], "n": list(range(10))}), tmp_path / f"{k}.parquet")
    urls = str(tmp_path / "*.parquet")
    ds = stoker.open(urls)
    assert [ds[i]["__key__"] for i in (0, 13)] == ["0", "13"]
    listed = tmp_path / "bad.jsonl"
    done = subprocess.run([CLI, "check", str(tmp_path / "1.parquet"), "--write-exclude", str(listed)], capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in listed.read_text().splitlines()]
    assert "7" in [line["key"] for line in lines], done.stdout
    listed.write_text("".join(json.dumps(line) + "\n" for line in lines if line["key"] == "7"))
    with stoker.Loader(urls, {"jpg": "image | resize((4, 4))"}, batch_size=1, select=[17, 18], on_error="skip") as loader:
        with pytest.raises(stoker.StokerError) as bad:
            list(loader)
    assert bad.value.key in ("7", "8") and bad.value.sample in (17, 18)
    for exclude, gone in ((str(listed), [17]), (["17", "3", "99"], [3, 17])):
        with stoker.Loader(urls, {"n": "int"}, batch_size=1, exclude=exclude) as loader:
            batches = list(loader)
        ids = [int(b.sample_ids[0]) for b in batches]
        assert ids == [i for i in range(20) if i not in gone] and [b.sample_keys[0] for b in batches] == [str(i) for i in ids]
