# SPDX-License-Identifier: Apache-2.0
"""Map style: stoker.open()."""

import os
import pathlib
import pickle
import threading

import pytest
from conftest import SAMPLES, as_numpy, sample_members, write_tar

import stoker

pytestmark = pytest.mark.asan


def test_samples_are_what_was_written(urls, data):
    ds = stoker.open(urls)
    assert len(ds) == SAMPLES and ds.fields == ["jpg", "cls", "json", "txt"]
    assert [s.rsplit("/", 1)[-1] for s in ds.shards] == [f"train-00{i}.tar" for i in range(3)]
    for i in (0, 33, 34, 99):
        sample = ds[i]
        members = {name.split(".")[1]: content for name, content in sample_members(i)}
        assert {k: v for k, v in sample.items() if not k.startswith("__")} == members
        assert sample["__key__"] == f"{i:06d}"
        assert sample["__url__"] == ds.shards[0 if i < 34 else 1 if i < 67 else 2]
    assert "100 samples in 3 shards" in repr(ds)
    assert ds.index_path == "" or ds.index_path.endswith(ds.index_path.rsplit("/", 1)[-1])


def test_numbers(urls):
    ds = stoker.open(urls)
    assert ds[-1] == ds[SAMPLES - 1] and ds[-SAMPLES] == ds[0]
    for bad in (SAMPLES, -SAMPLES - 1, 10**30):
        with pytest.raises(IndexError):
            ds[bad]
    with pytest.raises(KeyError):
        ds["0"]
    with pytest.raises(TypeError):
        ds[0.5]
    assert [s["__key__"] for s in ds][:2] == ["000000", "000001"]


def test_pickles(urls):
    for fields in (None, {"image": stoker.from_("jpg").image().resize((8, 8))}):
        ds = stoker.open(urls, fields)
        again = pickle.loads(pickle.dumps(ds))
        assert len(again) == len(ds) and again[7]["__key__"] == ds[7]["__key__"]


def test_decoded_samples_do_not_change(urls):
    ds = stoker.open(urls, {"image": "from(jpg) | image | random_resized_crop(16) | hflip",
                            "label": "from(cls) | int", "meta": "from(json) | json", "txt": "text"})
    first = ds[42]
    ds[3]
    again = ds[42]
    assert first["image"].shape == (3, 16, 16)
    assert (as_numpy(first["image"]) == as_numpy(again["image"])).all()
    assert int(first["label"]) == 2 and first["meta"]["n"] == 42 and first["txt"] == "número 42"
    with stoker.Loader(urls, {"image": "from(jpg) | image | random_resized_crop(16) | hflip"},
                       batch_size=SAMPLES) as loader:
        batch = next(iter(loader))
    assert (as_numpy(batch["image"])[42] == as_numpy(first["image"])).all()


def test_many_threads(urls):
    ds = stoker.open(urls, {"label": "from(cls) | int", "n": "from(json) | json(n) | int"})
    plain, wrong = stoker.open(urls), []

    def read():
        for i in range(0, SAMPLES, 3):
            if int(ds[i]["n"]) != i or plain[i]["__key__"] != f"{i:06d}":
                wrong.append(i)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("bad", [None, 7, [], [7], {}])
def test_what_is_no_path(bad):
    with pytest.raises(stoker.StokerError, match="path"):
        stoker.open(bad)


@pytest.mark.parametrize("name", ["a{0..1}.tar", "b::c.tar", "d[1]*.tar", "e?.tar", "f\\\\{g.tar", "${H}.tar", "path:i.tar"])
def test_a_path_is_no_pattern(tmp_path, monkeypatch, name):
    """A pathlib.Path is the file or folder of that name; a string is a pattern, as ever."""
    monkeypatch.chdir(tmp_path)
    path = pathlib.Path(name)
    write_tar(path, [("x.cls", b"1"), ("y.cls", b"2")])
    for given in (path, [path], tmp_path / name):
        assert len(stoker.open(given)) == 2, given
        with stoker.Loader(given, {"label": "from(cls) | int"}, batch_size=2) as loader:
            assert len(next(iter(loader))["label"]) == 2
    assert len(pickle.loads(pickle.dumps(stoker.open(tmp_path / name)))) == 2
    folder = tmp_path / f"folder {name}"
    folder.mkdir()
    os.rename(path, folder / "z.tar")
    assert len(stoker.open(folder)) == 2
    with pytest.raises(stoker.StokerError, match="given as a path|no such file") as e:
        stoker.open(path)
    assert e.value.code == "ENOTFOUND"


def test_a_string_is_a_pattern(tmp_path):
    for i in range(2):
        write_tar(tmp_path / f"a{i}.tar", [(f"{i}.cls", b"1")])
    assert len(stoker.open(str(tmp_path / "a{0..1}.tar"))) == 2
    assert len(stoker.open(f"{tmp_path}/a0.tar::{tmp_path}/a1.tar")) == 2
