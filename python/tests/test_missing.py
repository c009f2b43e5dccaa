# SPDX-License-Identifier: Apache-2.0
"""Samples without a field: bad, left out, or given the default of from()."""

import pytest
from conftest import jpeg, picture, write_tar

import stoker

N = 24


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    """Every third sample has no cls, every fifth no txt; all have n."""
    members = []
    for i in range(N):
        members.append((f"{i:02d}.n", b"%d" % i))
        members += [(f"{i:02d}.cls", b"%d" % i)] if i % 3 else []
        members += [(f"{i:02d}.txt", b"t%d" % i)] if i % 5 else []
        members += [(f"{i:02d}.jpg", jpeg(picture(i)))] if i == 7 else []
    return str(write_tar(tmp_path_factory.mktemp("missing") / "a.tar", members))


def label(i):
    return i if i % 3 else -1


@pytest.mark.parametrize("chain", [
    "from(cls, default=-1) | int", 'from(cls, default="-1") | int', "from(cls, default='-1') | bytes",
    stoker.from_("cls", default=-1).int()])
@pytest.mark.parametrize("workers", [0, 1, 2, 8])
def test_the_default_stands_in(shard, chain, workers):
    fields = {"n": "int", "label": chain, "text": stoker.from_("txt", default="").text()}
    with stoker.Loader(shard, fields=fields, batch_size=5, shuffle=True, num_workers=workers) as loader:
        for _ in range(2):
            seen = []
            for batch in loader:
                ids = [int(i) for i in batch["n"]]
                want = [label(i) for i in ids]
                got = batch["label"]
                assert [int(v) for v in got] == want
                assert batch["text"] == [f"t{i}" if i % 5 else "" for i in ids]
                seen += ids
            assert sorted(seen) == list(range(N))


def test_without_a_default_it_is_bad(shard):
    with stoker.Loader(shard, fields={"label": "from(cls) | int"}) as loader:
        with pytest.raises(stoker.StokerError, match="no field cls") as e:
            list(loader)
    assert "00" in str(e.value)
    with stoker.Loader(shard, fields={"label": "from(cls) | int"}, on_error="skip") as loader:
        assert all(int(v) % 3 for b in loader for v in b["label"])


def test_a_default_that_does_not_parse_is_a_bad_sample(shard):
    with stoker.Loader(shard, fields={"label": "from(cls, default=none) | int"}) as loader:
        with pytest.raises(stoker.StokerError):
            list(loader)


@pytest.mark.parametrize("chain, why", [
    ("from(clss, default=-1) | int", "no sample has a field clss"),
    ("from(cls, default=(1, 2)) | int", "default is one"),
    ("from(cls, defalt=1) | int", "did you mean `default`"),
    ("from(default=1) | int", "names")])
def test_what_is_refused(shard, chain, why):
    with pytest.raises(stoker.StokerError, match=why):
        stoker.Loader(shard, fields={"label": chain})


def test_one_data_set_of_two_may_lack_it(shard, tmp_path):
    other = write_tar(tmp_path / "b.tar", [("x.n", b"1"), ("y.n", b"2")])
    both = [stoker.open(shard), stoker.open(str(other))]
    with stoker.Loader(both, fields={"label": "from(cls, default=-1) | int"}, batch_size=N + 2) as loader:
        (batch,) = loader
    assert batch["label"].tolist() == [label(i) for i in range(N)] + [-1, -1]


def test_open_shows_it_too(shard):
    ds = stoker.open(shard, fields={"label": "from(cls, default=-1) | int", "n": "int"})
    assert [int(s["label"]) for s in ds] == [label(i) for i in range(N)]
    assert [int(ds[3]["label"]), int(ds[4]["label"]), int(ds[3]["label"])] == [-1, 4, -1]
