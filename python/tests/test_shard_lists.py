# SPDX-License-Identifier: Apache-2.0
"""Shards that another tool's index lists: WebDataset's wids files, Energon's .nv-meta."""
import io
import json
import tarfile

import pytest

import stoker


def shard(path, keys):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as t:
        for k in keys:
            data = str(k).encode()
            info = tarfile.TarInfo(f"{k:05d}.cls")
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))


def keys(ds):
    return [int(ds[i]["cls"]) for i in range(len(ds))]


def wids(path, shards, **more):
    path.write_text(json.dumps({"__kind__": "wids-shard-index-v1", "wids_version": 1, **more,
                                "shardlist": [{"url": u, "nsamples": n, "md5sum": "x"} for u, n in shards]}))
    return str(path)


@pytest.fixture
def folder(tmp_path):
    for i in range(4):
        shard(tmp_path / "data" / "part" / f"s-{i}.tar", range(10 * i, 10 * i + i + 1))
    return tmp_path / "data"


def test_wids_lists_its_shards_in_its_order(folder):
    one = wids(folder / "a.json", [("part/s-2.tar", 3), ("part/s-0.tar", 1)])
    assert keys(stoker.open(one)) == [20, 21, 22, 0]
    assert keys(stoker.open(folder / "a.json")) == [20, 21, 22, 0]
    with stoker.Loader(one, {"y": "from(cls) | int"}, batch_size=4) as loader:
        assert next(iter(loader))["y"].tolist() == [20, 21, 22, 0]
    based = wids(folder.parent / "b.json", [("s-1.tar", 2), (str(folder / "part" / "s-0.tar"), 1)], base="data/part")
    assert keys(stoker.open(based)) == [10, 11, 0]
    assert keys(stoker.open([based, str(folder / "part" / "s-3.tar")])) == [10, 11, 0, 30, 31, 32, 33]


def test_wids_that_is_wrong(folder):
    def fails(path, text):
        with pytest.raises(stoker.StokerError, match=text):
            stoker.open(path)

    fails(wids(folder / "a.json", [("part/s-2.tar", 4)]), "s-2.tar.*3 samples.*says 4|3 samples.*says 4.*s-2.tar")
    fails(wids(folder / "b.json", [("part/none.tar", 4)]), "none.tar")
    fails(wids(folder / "c.json", []), "empty")
    fails(wids(folder / "d.json", [("part/s-2.tar", -1)]), "nsamples")
    fails(wids(folder / "e.json", [("part/s-2.tar", 3)], datasets=[{"source_url": "x"}]), "open each")
    (folder / "f.json").write_text('{"wids_version": 2, "shardlist": []}')
    fails(str(folder / "f.json"), "wids_version")
    (folder / "g.json").write_text('{"shardlist": [{"url": "a.tar"')
    fails(str(folder / "g.json"), "JSON")


def energon(folder, splits, *, info="json", split="yaml", exclude="exclude: []\n", counts=None):
    meta = folder / ".nv-meta"
    meta.mkdir(exist_ok=True)
    counts = counts or {f"part/s-{i}.tar": i + 1 for i in range(4)}
    if info == "json":
        (meta / ".info.json").write_text(json.dumps({"energon_version": "7", "shard_counts": counts}))
    else:
        (meta / ".info.yaml").write_text("shard_counts:\n" + "".join(f"  {k}: {v}\n" for k, v in counts.items()))
    if split == "json":
        (meta / "split.json").write_text(json.dumps({"split_parts": splits, "exclude": []}))
    else:
        text = "split_parts:\n"
        for k, v in splits.items():
            text += f"  {k}:" + (" []\n" if not v else "\n" + "".join(f"  - '{x}'  # why\n" for x in v))
        (meta / "split.yaml").write_text(text + exclude)
    return str(folder)


SPLITS = {"train": ["part/s-{0..2}.tar"], "val": ["part/s-3.tar"], "test": []}


@pytest.mark.parametrize("info", ["json", "yaml"])
@pytest.mark.parametrize("split", ["json", "yaml"])
def test_energon_splits(folder, info, split):
    path = energon(folder, SPLITS, info=info, split=split)
    assert keys(stoker.open(path + "#train")) == [0, 10, 11, 20, 21, 22]
    assert keys(stoker.open(path + "#val")) == [30, 31, 32, 33]
    assert keys(stoker.open(path + "/part/*.tar")) == [0, 10, 11, 20, 21, 22, 30, 31, 32, 33]
    for wrong, text in ((path, "which split.*train, val.*#train"), (path + "#test", "no split.*train, val")):
        with pytest.raises(stoker.StokerError, match=text):
            stoker.open(wrong)


def test_energon_as_yaml_is_written(folder):
    """What PyYAML writes of names with odd characters, of lists that are indented, and of comments."""
    energon(folder, {})
    (folder / ".nv-meta" / "split.yaml").write_text(
        "# by hand\n---\nexclude: []   # none\nsplit_parts:\n    train:\n      - \"part/s-0.tar\"\n      - part/s-1.tar # second\n"
        "    'it''s':\n    - part/s-3.tar\n")
    assert keys(stoker.open(f"{folder}#train")) == [0, 10, 11]
    assert keys(stoker.open(f"{folder}#it's")) == [30, 31, 32, 33]
    (folder / ".nv-meta" / "split.yaml").write_text("split_parts: {train: [part/s-0.tar]}\n")
    with pytest.raises(stoker.StokerError, match="split.yaml.*line 1|line 1.*split.yaml"):
        stoker.open(str(folder))


def test_energon_one_split_needs_no_name(folder):
    path = energon(folder, {"train": ["part/s-1.tar"], "val": []})
    assert keys(stoker.open(path)) == [10, 11]
    assert keys(stoker.open(folder)) == [10, 11]


def test_energon_excludes(folder):
    path = energon(folder, SPLITS, exclude="exclude:\n- part/s-{0..1}.tar\n")
    assert keys(stoker.open(path + "#train")) == [20, 21, 22]
    path = energon(folder, SPLITS, exclude="exclude:\n- part/s-0.tar/00000\n")
    with pytest.raises(stoker.StokerError, match="single sample.*exclude="):
        stoker.open(path + "#train")
    assert keys(stoker.open(path + "#val")) == [30, 31, 32, 33]


def test_energon_that_is_wrong(folder):
    path = energon(folder, SPLITS, counts={f"part/s-{i}.tar": 3 for i in range(4)})
    with pytest.raises(stoker.StokerError, match="1 samples.*says 3"):
        stoker.open(path + "#train")
    path = energon(folder, SPLITS, counts={"part/s-0.tar": 1})
    with pytest.raises(stoker.StokerError, match="s-1.tar.*no count"):
        stoker.open(path + "#train")
    path = energon(folder, {"train": ["../x.tar"]}, counts={"../x.tar": 1})
    with pytest.raises(stoker.StokerError, match="not below"):
        stoker.open(path)


def test_a_folder_with_a_mark_in_its_name(tmp_path):
    shard(tmp_path / "a#train" / "x.tar", [7])
    assert keys(stoker.open(str(tmp_path / "a#train"))) == [7]


@pytest.mark.parametrize("way", ["../out.tar", "part/../../out.tar", "{out}", "file://{out}", "file://../out.tar", "part/..", "..", "{root}2/out.tar", "part/"])
def test_a_list_names_nothing_outside_its_folder(tmp_path, way):
    """One rule for lists that come with data (SECURITY.md): wids here; manifests, MDS, LitData, Energon and HDF5 have theirs beside."""
    root = tmp_path / "data"
    (root / "part").mkdir(parents=True)
    (tmp_path / "data2").mkdir()
    for place in (tmp_path / "out.tar", tmp_path / "data2" / "out.tar", root / "part" / "in.tar"):
        shard(place, range(2))
    name = way.format(out=tmp_path / "out.tar", root=root)
    for url, base in ((name, None), ("in.tar", name.removesuffix("/out.tar").removesuffix("out.tar") or "..")):
        if (url, way) == ("in.tar", "part/"):
            continue
        with pytest.raises(stoker.StokerError, match="is not below its folder: refused") as e:
            stoker.open(wids(root / "l.json", [(url, 2)], **({"base": base} if base else {})))
        assert e.value.code == "ECORRUPT"
    for url, base in (("part/in.tar", None), (str(root / "part" / "in.tar"), None), (f"file://{root}/part/in.tar", None), ("in.tar", "part/"), ("in.tar", str(root / "part"))):
        assert len(stoker.open(wids(root / "l.json", [(url, 2)], **({"base": base} if base else {})))) == 2
