# SPDX-License-Identifier: Apache-2.0
"""Files of one name are one sample: 1.jpg beside 1.png, images/1.jpg with masks/1.png; manifests that are packed with their files."""

import os
import pickle
import random
import subprocess
import tarfile

import numpy as np
import pytest
import stoker
from conftest import as_numpy
from PIL import Image

CLI = os.environ.get("STOKER_CLI", os.path.join(os.environ.get("STOKER_BUILD", "build"), "cli", "stoker"))
PAIR = {"image": "from(jpg) | image | random_resized_crop(16) | hflip | to(u8)", "mask": "from(png) | image(mode=index) | like(image)"}


def picture(path, value=None, size=(40, 30)):
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(len(str(path)))
    pixels = rng.integers(0, 255, (size[1], size[0], 3), np.uint8) if value is None else np.full((size[1], size[0]), value, np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def pairs(folder, n=6, ends=("jpg", "png")):
    for i in range(n):
        picture(folder / f"{i}.{ends[0]}")
        picture(folder / f"{i}.{ends[1]}", i + 1)


def masks(loader):
    return [int(v) for batch in loader for v in as_numpy(batch["mask"])[:, 0, 0]]


@pytest.mark.asan
def test_chains_that_name_two_kinds_make_pairs(tmp_path):
    pairs(tmp_path / "flat")
    assert masks(stoker.Loader(tmp_path / "flat", PAIR, batch_size=4)) == [1, 2, 3, 4, 5, 6]
    assert [int(np.asarray(s["mask"])[0, 0]) for s in stoker.open(str(tmp_path / "flat"), PAIR)] == [1, 2, 3, 4, 5, 6]
    ds = stoker.open(tmp_path / "flat", pairs=True)
    assert len(ds) == 6 and ds.fields == ["jpg", "png"] and [s["__key__"] for s in ds] == list("012345")
    assert ds["3"]["png"] == (tmp_path / "flat/3.png").read_bytes() and ds["3"]["jpg"] == (tmp_path / "flat/3.jpg").read_bytes()
    assert masks(stoker.Loader(pickle.loads(pickle.dumps(ds)), PAIR, batch_size=4)) == [1, 2, 3, 4, 5, 6]
    alone = stoker.open(tmp_path / "flat")                      # without: as it ever was, a sample each
    assert len(alone) == 12 and alone.fields == ["image"]
    with pytest.raises(stoker.StokerError, match="outputs image and mask: from.jpg. and from.png. are the same file.*pairs=True"):
        stoker.Loader(alone, PAIR)                              # the mask would be the picture itself


def test_pairs_in_classes(tmp_path):
    for k, name in enumerate(("cat", "dog")):
        pairs(tmp_path / "photos" / name, 3, ("JPEG", "png"))
        (tmp_path / "photos" / name / "1.txt").write_text(f"a {name}")
        (tmp_path / "photos" / name / "README").write_text("no field")
    ds = stoker.open(tmp_path / "photos", pairs=True)
    assert ds.classes == ["cat", "dog"] and [s["cls"] for s in ds] == [b"0"] * 3 + [b"1"] * 3
    assert ds["dog/1"]["txt"] == b"a dog" and "txt" not in ds["dog/2"]
    assert list(ds.column("cls", read=True)) == [0, 0, 0, 1, 1, 1]
    loader = stoker.Loader(ds, {**PAIR, "label": "from(cls) | int"}, batch_size=6)     # from(jpg) finds jpeg
    assert [int(v) for b in loader for v in b["label"]] == [0, 0, 0, 1, 1, 1]


@pytest.mark.asan
def test_a_dict_of_folders(tmp_path):
    pair = {"image": "image | resize((8, 8))", "mask": "image(mode=index) | like(image)"}
    for i in range(5):
        picture(tmp_path / "im ages&=%{1}" / "train" / f"{i}.JPEG")
        picture(tmp_path / "masks" / "train" / f"{i}.png", i)
    (tmp_path / "masks" / "train" / "notes.txt").write_text("no picture: passed over")
    folders = {"image": tmp_path / "im ages&=%{1}", "mask": str(tmp_path / "masks")}
    ds = stoker.open(folders)
    assert ds.fields == ["image", "mask"] and ds[4]["__key__"] == "train/4"
    assert masks(stoker.Loader(folders, pair, batch_size=2)) == [0, 1, 2, 3, 4]
    ranks = [masks(stoker.Loader(ds, pair, batch_size=2, rank=r, world_size=2)) for r in range(2)]
    assert set(sum(ranks, [])) == {0, 1, 2, 3, 4}
    loader = stoker.Loader(ds, pair, batch_size=2, shuffle=True, seed=3)
    whole = masks(loader)
    it = iter(loader)
    next(it)
    again = stoker.Loader(stoker.open(folders), pair, batch_size=2, shuffle=True, seed=3)
    again.load_state_dict(loader.state_dict())
    assert len(masks(again)) == 3 and len(whole) == 5


def test_missing_partners_are_counted_dropped_or_kept(tmp_path):
    for i in range(10):
        picture(tmp_path / "images" / f"{i}.jpg")
        if i % 4:
            picture(tmp_path / "masks" / f"{i}.png", i)
    picture(tmp_path / "masks" / "extra.png", 1)
    folders = {"image": tmp_path / "images", "mask": tmp_path / "masks"}
    with pytest.raises(FileNotFoundError, match=r'4 of 11 names lack a file: 1 have no image, 3 have no mask; the first is "0".*missing="drop"'):
        stoker.open(folders)
    assert [s["__key__"] for s in stoker.open(folders, missing="drop")] == ["1", "2", "3", "5", "6", "7", "9"]
    kept = stoker.open(folders, missing="keep")
    assert len(kept) == 11 and "mask" not in kept["0"] and "image" not in kept["extra"]
    with pytest.raises(stoker.StokerError, match='missing must be "error", "drop" or "keep"'):
        stoker.open(folders, missing="skip")
    with pytest.raises(stoker.StokerError, match="missing= is for pairs"):
        stoker.open(tmp_path / "images", missing="drop")
    picture(tmp_path / "masks" / "1.webp")
    with pytest.raises(stoker.StokerError, match='"1.png" and "1.webp" would be the same field of one sample'):
        stoker.open(dict(reversed(folders.items())), missing="drop")
    picture(tmp_path / "lone" / "1.jpg")
    with pytest.raises(stoker.StokerError, match="no two files have the same name but for their suffix"):
        stoker.open(tmp_path / "lone", pairs=True)
    with pytest.raises(stoker.StokerError, match="'b': .* is not a folder"):
        stoker.open({"a": tmp_path / "lone", "b": tmp_path / "nothing"})


def test_changes_are_noticed(tmp_path):
    pairs(tmp_path / "flat", 3)
    for _ in range(2):                                          # the second finds the index
        assert len(stoker.open(tmp_path / "flat", pairs=True)) == 3
    (tmp_path / "flat" / "note.md").write_text("changes the folder's time only")
    assert len(stoker.open(tmp_path / "flat", pairs=True)) == 3
    picture(tmp_path / "flat" / "9.jpg")
    picture(tmp_path / "flat" / "9.png", 9)
    with pytest.raises(stoker.StokerError, match="files were added, removed, renamed or changed in these folders"):
        stoker.open(tmp_path / "flat", pairs=True)
    assert len(stoker.open(tmp_path / "flat", pairs=True, reindex="auto")) == 4
    (tmp_path / "flat" / "9.png").unlink()
    with pytest.raises(stoker.StokerError, match="files were added, removed, renamed or changed in these folders"):
        stoker.open(tmp_path / "flat", pairs=True, reindex="auto")


def test_random_trees_pair_as_a_dict_of_names_does(tmp_path):
    seed = 7
    print("seed", seed)
    rng = random.Random(seed)
    words = ["a", "b.c", "a b", "日本", "x-1", "10", "9", "sub/a", "sub/deep/é", "sub.x/1"]
    for round_ in range(12):
        root = tmp_path / str(round_)
        names = {"image": set(), "mask": set()}
        for field, end in (("image", ".jpg"), ("mask", ".png")):
            for word in ["both", *rng.sample(words, rng.randint(1, 9))]:
                path = root / field / (word + end)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(word.encode() + field.encode())
                names[field].add(word)
        ds = stoker.open({f: root / f for f in names}, missing="drop")
        common = sorted(names["image"] & names["mask"], key=os.fsencode)
        assert [(s["__key__"], s["image"], s["mask"]) for s in ds] == [(n, n.encode() + b"image", n.encode() + b"mask") for n in common]


def members(folder):
    found = {}
    for shard in sorted(folder.glob("*.tar")):
        with tarfile.open(shard) as tar:
            found |= {m.name: tar.extractfile(m).read() for m in tar}
    return found


def test_pack_keeps_pairs_together(tmp_path):
    pairs(tmp_path / "flat", 4)
    stoker.pack(stoker.open(tmp_path / "flat", pairs=True), tmp_path / "out")
    assert members(tmp_path / "out") == {p.name: p.read_bytes() for p in (tmp_path / "flat").iterdir()}
    assert masks(stoker.Loader(tmp_path / "out", PAIR, batch_size=4)) == [1, 2, 3, 4]
    run = subprocess.run([CLI, "pack", "pairs://image=flat&mask=flat", "bad"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode and "would be the same field of one sample" in run.stderr
    run = subprocess.run([CLI, "pack", "pairs://flat", "again"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0 and members(tmp_path / "again") == members(tmp_path / "out")
    run = subprocess.run([CLI, "pack", "flat", "apart"], cwd=tmp_path, capture_output=True, text=True)
    assert "4 pictures have the name of another but for its suffix" in run.stderr
    for command in ("ls", "check", "describe"):
        run = subprocess.run([CLI, command, "pairs://flat"], cwd=tmp_path, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
    dict_of = {"image": tmp_path / "im", "mask": tmp_path / "ma"}
    picture(tmp_path / "im" / "1.jpg")
    picture(tmp_path / "ma" / "1.png", 3)
    stoker.pack(stoker.open(dict_of), tmp_path / "named")
    assert sorted(members(tmp_path / "named")) == ["1.jpg", "1.mask"]       # the same chains read both
    chains = {"image": "image | resize((8, 8))", "mask": "image(mode=index) | like(image)"}
    assert masks(stoker.Loader(tmp_path / "named", chains, batch_size=1)) == masks(stoker.Loader(dict_of, chains, batch_size=1)) == [3]
    picture(tmp_path / "ma" / "1.png", 4)                       # the same size, another content: not "already there"
    with pytest.raises(stoker.StokerError, match="not of this pack"):
        stoker.pack(stoker.open(dict_of), tmp_path / "named")


@pytest.mark.asan
def test_pack_of_a_manifest_takes_the_files(tmp_path):
    for i in range(3):
        picture(tmp_path / "data" / "a" / f"{i}.{'JPEG' if i == 1 else 'jpg'}")
    blob = (tmp_path / "data/a/0.jpg").read_bytes()
    (tmp_path / "data/all.bin").write_bytes(b"12345" + blob + b"end")
    (tmp_path / "data/list.csv").write_text(f"path,label,offset,length\na/0.jpg,7,,\na/1.JPEG,8,,\na/2.jpg,9,,\nall.bin,5,5,{len(blob)}\n")
    stoker.pack(tmp_path / "data/list.csv", tmp_path / "out")
    files = {f"a/{i}": (tmp_path / f"data/a/{i}.{'JPEG' if i == 1 else 'jpg'}").read_bytes() for i in range(3)}
    assert members(tmp_path / "out") == {
        "a/0.jpg": files["a/0"], "a/0.label": b"7", "a/1.jpeg": files["a/1"], "a/1.label": b"8", "a/2.jpg": files["a/2"], "a/2.label": b"9",
        "all.jpg": blob, "all.label": b"5"}
    loader = stoker.Loader(tmp_path / "out", {"image": "from(jpg) | image | resize((8, 8))", "label": "int"}, batch_size=4)
    assert [int(v) for b in loader for v in b["label"]] == [7, 8, 9, 5]
    shards = stoker.pack(tmp_path / "data/list.csv", tmp_path / "small", bytes=3 * len(blob))    # shards are cut by the files' sizes
    assert shards.shards > 1 if hasattr(shards, "shards") else len(list((tmp_path / "small").glob("*.tar"))) > 1
    (tmp_path / "data/a/2.jpg").unlink()
    with pytest.raises(stoker.StokerError, match=r"2\.jpg"):
        stoker.pack(tmp_path / "data/list.csv", tmp_path / "gone")
    (tmp_path / "data/code.jsonl").write_text('{"path": "src/a.c", "length": 3, "text": "a"}\n{"path": null, "length": 4, "text": "b"}\n')
    stoker.pack(tmp_path / "data/code.jsonl", tmp_path / "code")            # a corpus has such fields too: no path is a file here
    assert {b"a", b"3", b"src/a.c"} < set(stoker.open(tmp_path / "code")[0].values())
    (tmp_path / "data/lines.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')       # lines of data have no files
    stoker.pack(tmp_path / "data/lines.jsonl", tmp_path / "lines")
    assert members(tmp_path / "lines") == {"0.text": b"a", "1.text": b"b"}


def test_one_rule_for_names_of_pictures(tmp_path):
    kinds = {"jpg": "jpg", "jpeg": "jpeg", "JPEG": "jpeg", "JPG": "jpg", "png": "png", "webp": "webp"}
    for end in kinds:
        picture(tmp_path / end / "photos" / f"1.{end}")
        stoker.pack(tmp_path / end / "photos", tmp_path / end / "out")
        assert f"1.{kinds[end]}" in members(tmp_path / end / "out")
        for data in (tmp_path / end / "photos", tmp_path / end / "out"):
            words = {"image", kinds[end], *(("jpg", "jpeg") if kinds[end].startswith("jp") else ())}
            for word in ("image", "jpg", "jpeg", "png", "webp"):
                chain = {"x": f"from({word}) | image | resize((8, 8))"}
                if word in words or data.name == "photos":      # a folder's picture goes by any kind
                    assert len(list(stoker.Loader(data, chain, batch_size=1))) == 1, (data, word)
                else:
                    with pytest.raises(stoker.StokerError, match=f"{word}"):
                        stoker.Loader(data, chain, batch_size=1)
