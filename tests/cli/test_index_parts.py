# SPDX-License-Identifier: Apache-2.0
"""stoker index --part and --merge: many processes index one data set."""

import json

import pytest
from conftest import write_tar
from test_cli import fails


@pytest.fixture
def shards(tmp_path):
    for s in range(7):
        folder = tmp_path / ("a" if s % 2 else "b")
        folder.mkdir(exist_ok=True)
        write_tar(folder / f"s-{s}.tar", [(f"{s}{i}.cls", b"%d" % i) for i in range(3 + s)])
    return ["a/*.tar", "b/*.tar"]


def indexes(folder):
    return sorted(p.name for p in (folder / ".stoker").glob("*.idx"))


def test_parts_and_merge(stoker, shards, tmp_path):
    for i in (2, 0, 1):
        found = json.loads(stoker("index", *shards, "--part", f"{i}/3", "--workers", 4, "--columns", "cls", "--json").raw)
        assert found["shards"] in (2, 3) and found["built"]
    assert len(indexes(tmp_path)) == 3
    again = json.loads(stoker("index", *shards, "--part", "1/3", "--columns", "cls", "--json").raw)
    assert not again["built"]
    whole = json.loads(stoker("index", *shards, "--merge", "--workers", 4, "--columns", "cls", "--json").raw)
    assert (whole["shards"], whole["reused_shards"], whole["samples"], whole["columns"]) == (7, 7, 42, 1)
    assert len(indexes(tmp_path)) == 1
    merged = (tmp_path / ".stoker" / indexes(tmp_path)[0]).read_bytes()
    stoker("index", *shards, "--workers", 4, "--columns", "cls", "--force")
    assert (tmp_path / ".stoker" / indexes(tmp_path)[0]).read_bytes() == merged


def test_what_no_part_has_is_read(stoker, shards, tmp_path):
    stoker("index", *shards, "--part", "1/3")
    whole = json.loads(stoker("index", *shards, "--merge", "--json").raw)
    assert (whole["shards"], whole["reused_shards"], whole["samples"]) == (7, 2, 42)


@pytest.mark.parametrize(("args", "line"), [
    (["--part", "3/3"], '--part is I/N with I from 0 to N - 1, as in 3/64, not "3/3"'),
    (["--part", "x"], '--part is I/N with I from 0 to N - 1, as in 3/64, not "x"'),
    (["--part", "0/2", "--merge"], "--part and --merge: first all parts, then the merge"),
    (["--part", "0/2", "--jpeg"], "seek points are made of the whole: give jpeg to the merge, not to a part"),
    (["--part", "7/8"], "part 7 of 8 has no shard: there are 7, take fewer parts")])
def test_refusals(stoker, shards, args, line):
    fails(stoker("index", *shards, *args), 2, line)
