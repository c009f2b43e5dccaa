# SPDX-License-Identifier: Apache-2.0
"""Folders of pictures: listed, numbered and read as torchvision's ImageFolder does it."""

import os
import pickle
import random
import shutil
import subprocess

import numpy as np
import pytest
import stoker
from conftest import as_numpy, jpeg, picture, run_python, write_tar
from PIL import Image

ENDINGS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
IMAGE = {"image": "image(exact=true) | resize((24, 32)) | to(u8)", "label": "from(cls) | int"}
CLI = os.environ.get("STOKER_CLI", os.path.join(os.environ.get("STOKER_BUILD", "build"),
                                                "cli", "stoker"))


def image_folder(root):
    """ImageFolder's documented rules: sorted classes; in each os.walk sorted, files sorted. And ours: nothing hidden."""
    classes = sorted(e.name for e in os.scandir(root) if e.is_dir() and e.name[0] != ".")
    samples = []
    for number, name in enumerate(classes):
        for folder, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            if "/." in os.path.relpath(folder, root):
                continue
            samples += [(os.path.relpath(os.path.join(folder, f), root), number)
                        for f in sorted(files) if f.lower().endswith(ENDINGS) and f[0] != "."]
    return classes, samples


def put(path, data=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def random_tree(root, seed):
    rng = random.Random(seed)
    words = ["a", "b", "B", "cat", "été", "日本", "a b", "a.b", "a-b", ".hidden", "x\ny", "ž", "0", "10", "9"]
    ends = [".jpg", ".JPG", ".JpEg", ".png", ".webp", ".tiff", ".txt", ".jpg.txt", "", ".ppm", ".gif"]
    for name in rng.sample(words, rng.randint(1, 6)):
        folders = [root / name]
        for _ in range(rng.randint(0, 4)):
            folders.append(rng.choice(folders) / rng.choice(words))
        put(folders[0] / "must.jpg", b"m")
        for _ in range(rng.randint(0, 25)):
            path = rng.choice(folders) / (rng.choice(words) + rng.choice(ends))
            if not path.is_dir():
                put(path, rng.randbytes(rng.randint(0, 40)))
    put(root / "seen" / "must.jpg")             # hidden ones are no classes
    put(root / "beside.jpg")                    # ImageFolder does not look at it
    put(root / "notes.txt")


@pytest.mark.parametrize("seed", range(20))
def test_listing_is_that_of_image_folder(tmp_path, seed):
    root = tmp_path / "train"
    root.mkdir()
    random_tree(root, seed)
    classes, samples = image_folder(root)
    ds = stoker.open(root)
    assert ds.classes == classes, f"seed {seed}"
    assert ds.class_to_idx == {c: i for i, c in enumerate(classes)}
    assert [ds[i]["__key__"] for i in range(len(ds))] == [path for path, _ in samples]
    for row, (path, number) in zip(ds, samples, strict=True):
        assert row["image"] == (root / path).read_bytes()
        assert int(row["cls"]) == number
    assert not (root / ".stoker").exists()      # to ImageFolder it would be a class


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos") / "train"
    for i in range(60):
        cls = ["ant", "bee", "cat"][i % 3]
        put(root / cls / ("deep/er" if i % 7 == 0 else "") / f"{i:03d}.{'JPG' if i % 2 else 'jpeg'}",
            jpeg(picture(i, 40 + i, 50)))
    return root


def expected(root, path):
    return np.asarray(Image.open(root / path).convert("RGB").resize((32, 24), Image.Resampling.BILINEAR))


@pytest.mark.parametrize("workers", [0, 3])
def test_loads_what_pillow_reads(photos, workers):
    classes, samples = image_folder(photos)
    loader = stoker.Loader(photos, fields=IMAGE, batch_size=16, num_workers=workers)
    seen = 0
    for batch in loader:
        for k, key in enumerate(batch.sample_keys):
            path, number = samples[seen]
            assert key == path and int(batch["label"][k]) == number
            want = expected(photos, path).transpose(2, 0, 1).astype(int)
            assert abs(as_numpy(batch["image"])[k].astype(int) - want).max() <= 2
            seen += 1
    assert seen == len(samples) == 60
    assert loader.stats()["bytes"] >= sum((photos / p).stat().st_size for p, _ in samples)


def test_two_outputs_share_a_file(photos):
    fields = {"a": "from(image) | image | resize((8, 8))", "b": "from(image) | bytes",
              "c": "from(image) | image | resize((4, 4))", "label": "from(cls) | int"}
    for batch in stoker.Loader(photos, fields=fields, batch_size=8, shuffle=True):
        for key, data in zip(batch.sample_keys, batch["b"], strict=True):
            assert bytes(data) == (photos / key).read_bytes()


@pytest.mark.parametrize("workers", [0, 2])
def test_class_as_bytes(photos, workers):
    """Bytes that lie in no file, alone and beside some that do, each handed out as they are."""
    classes, samples = image_folder(photos)
    for fields in ({"cls": "bytes"}, {"cls": "bytes", "image": "bytes"}, {"image": "bytes", "cls": "bytes"}):
        rows = [(k, bytes(batch["cls"][i]), bytes(batch["image"][i]) if "image" in fields else None)
                for batch in stoker.Loader(photos, fields=fields, batch_size=7, num_workers=workers)
                for i, k in enumerate(batch.sample_keys)]
        assert rows == [(p, b"%d" % n, (photos / p).read_bytes() if "image" in fields else None)
                        for p, n in samples]


def test_flat_folder(tmp_path):
    root = tmp_path / "flat"
    for name in ("b.jpg", "a.PNG", "z.webp", "text.txt"):
        put(root / name, name.encode())
    put(root / "nothing" / "readme.txt")
    ds = stoker.open(root)
    assert ds.fields == ["image"] and ds.classes == []
    assert [(s["__key__"], s["image"]) for s in ds] == [
        ("a.PNG", b"a.PNG"), ("b.jpg", b"b.jpg"), ("z.webp", b"z.webp")]
    put(root / "nothing" / "now.jpg")           # a class from now on
    assert stoker.open(root).classes == ["nothing"]


def test_classes_are_fixed(photos, tmp_path):
    names = ["zebra", "cat", "bee", "ant"]
    ds = stoker.open(photos, classes=names)
    assert ds.classes == names and ds.class_to_idx["cat"] == 1
    for row in ds:
        assert int(row["cls"]) == names.index(row["__key__"].split("/")[0])
    again = pickle.loads(pickle.dumps(ds))
    assert again.classes == names
    loader = stoker.Loader(photos, fields={"label": "from(cls) | int"}, batch_size=60, classes=names)
    assert sorted({int(x) for x in next(iter(loader))["label"]}) == [1, 2, 3]
    with pytest.raises(stoker.StokerError, match='class "cat" is not one of the 2 in classes='):
        stoker.open(photos, classes=["ant", "bee"])
    with pytest.raises(stoker.StokerError, match='"ant" twice'):
        stoker.open(photos, classes=["ant", "bee", "ant"])
    with pytest.raises(stoker.StokerError, match="list of names"):
        stoker.open(photos, classes="ant")
    with pytest.raises(stoker.StokerError, match="belongs to stoker.open"):
        stoker.Loader(ds, fields=IMAGE, classes=names)
    tar = write_tar(tmp_path / "a.tar", [("0.cls", b"1")])
    with pytest.raises(stoker.StokerError, match="classes= is for folders"):
        stoker.open(tar, classes=["ant"])


def test_two_roots_number_by_name(tmp_path):
    for path in ("a/cat/1.jpg", "a/eel/2.jpg", "b/cat/3.jpg", "b/dog/4.jpg"):
        put(tmp_path / path)
    ds = stoker.open([tmp_path / "a", tmp_path / "b"])
    assert ds.classes == ["cat", "dog", "eel"]
    assert [(s["__key__"], s["cls"]) for s in ds] == [
        ("cat/1.jpg", b"0"), ("eel/2.jpg", b"2"), ("cat/3.jpg", b"0"), ("dog/4.jpg", b"1")]


def test_changes_between_opens(photos, tmp_path):
    root = tmp_path / "train"
    shutil.copytree(photos, root)
    before = len(stoker.open(root))
    put(root / "bee" / "deep" / "er" / "new.jpg", jpeg(picture(1)))
    with pytest.raises(stoker.StokerError) as e:
        stoker.open(root)
    assert e.value.code == "ESTALE" and "train/bee/" in str(e.value) and "stoker index" in str(e.value)
    out = subprocess.run([CLI, "index", str(root), "--json"], capture_output=True, text=True, check=True)
    assert '"reused_shards":2' in out.stdout.replace(" ", "")
    assert len(stoker.open(root)) == before + 1
    put(root / "dog" / "1.jpg", jpeg(picture(2)))           # a new class after all others: no number moves
    ds = stoker.open(root)
    assert ds.classes == ["ant", "bee", "cat", "dog"] and len(ds) == before + 2


def labels_of(root, **kwargs):
    ds = stoker.open(root, **kwargs)
    return {s["__key__"]: int(s["cls"]) for s in ds}


def test_new_classes_do_not_renumber(tmp_path):
    """A class between others, or one that is gone, is an error until `stoker index` accepts it."""
    root = tmp_path / "train"
    for path in ("bee/1.jpg", "cat/2.jpg", "dog/3.jpg"):
        put(root / path)
    before = labels_of(root)
    put(root / "ant" / "4.jpg")
    with pytest.raises(stoker.StokerError, match='the class folder "ant" is new.*"bee".*stoker index') as e:
        stoker.open(root)
    assert e.value.code == "ESTALE" and e.value.shard.endswith("train/ant/")
    out = subprocess.run([CLI, "check", str(root)], capture_output=True, text=True)   # accepts nothing
    assert out.returncode == 3 and '"ant" is new' in out.stderr
    fixed = labels_of(root, classes=["bee", "cat", "dog", "ant"])                     # asked for: fine
    assert fixed == {**before, "ant/4.jpg": 3}
    with pytest.raises(stoker.StokerError, match='"ant" is new'):
        stoker.open(root)
    subprocess.run([CLI, "index", str(root)], capture_output=True, check=True)
    assert labels_of(root) == {"ant/4.jpg": 0, "bee/1.jpg": 1, "cat/2.jpg": 2, "dog/3.jpg": 3}
    shutil.rmtree(root / "bee")
    with pytest.raises(stoker.StokerError, match='the class folder "bee" is gone: "cat" would take its number 1'):
        stoker.open(root)
    put(root / "bee" / "1.jpg")
    moved = tmp_path / "moved"
    moved.mkdir()
    os.rename(root, moved / "train")
    os.rename(tmp_path / ".stoker", moved / ".stoker")       # the list moves with the data
    assert labels_of(moved / "train")["dog/3.jpg"] == 3
    put(moved / "train" / "aaa" / "1.jpg")
    with pytest.raises(stoker.StokerError, match='"aaa" is new'):
        stoker.open(moved / "train")


@pytest.mark.parametrize("cache", [False, True])
def test_clutter_is_nothing(tmp_path, monkeypatch, cache):
    """What viewers and systems leave in folders changes neither labels nor fingerprint, and stops nothing."""
    root = tmp_path / "train"
    for path in ("bee/1.jpg", "bee/deep/5.jpg", "cat/2.jpg", "dog/3.jpg"):
        put(root / path, jpeg(picture(3)))
    if cache:
        put(tmp_path / ".stoker", b"a file where the index would be")
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "cache"))
    before, running = labels_of(root), stoker.Loader(root, fields=IMAGE, batch_size=2)
    state = running.state_dict()
    for place in (root, root / "bee", root / "bee" / "deep", root / "cat"):
        for name in (".DS_Store", "Thumbs.db", "desktop.ini", "._1.jpg", "notes.txt"):
            put(place / name)
        for name in (".ipynb_checkpoints", ".git", "__MACOSX", "@eaDir"):
            put(place / name / "1-checkpoint.jpg")
    assert labels_of(root) == before
    assert sum(len(b["label"]) for b in running) == 4
    again = stoker.Loader(root, fields=IMAGE, batch_size=2)
    again.load_state_dict(state)                              # the same data
    subprocess.run([CLI, "index", "--force", str(root)], capture_output=True, check=True, env=os.environ)
    assert labels_of(root) == before
    again = stoker.Loader(root, fields=IMAGE, batch_size=2)
    again.load_state_dict(state)
    put(root / "bee" / "new.jpg", jpeg(picture(4)))           # a picture is not clutter
    with pytest.raises(stoker.StokerError, match="files were added"):
        stoker.open(root)


def test_changes_while_open(photos, tmp_path):
    root = tmp_path / "train"
    shutil.copytree(photos, root)
    ds = stoker.open(root)
    first, second = ds[0]["__key__"], ds[1]["__key__"]
    (root / first).unlink()
    with open(root / second, "ab") as f:
        f.write(b"more")
    with pytest.raises(stoker.StokerError, match="no such file") as e:
        ds[0]
    assert e.value.code == "ENOTFOUND" and first in str(e.value)
    with pytest.raises(stoker.StokerError, match="the index was made when it had") as e:
        ds[1]
    assert e.value.code == "ESTALE" and second in str(e.value)


def test_a_file_that_vanished_is_skippable(photos, tmp_path):
    root = tmp_path / "train"
    shutil.copytree(photos, root)
    gone = image_folder(root)[1][5][0]
    ds = stoker.open(root)
    skip = stoker.Loader(ds, fields=IMAGE, batch_size=60, on_error="skip")
    fail = stoker.Loader(ds, fields=IMAGE, batch_size=60)
    assert len(list(ds)) == 60                  # folders are compared when they are first read
    (root / gone).unlink()
    batch = next(iter(skip))
    assert {b["key"] for b in skip.stats()["bad_samples"]} == {gone}    # epochs are made ahead
    assert [i for i, good in enumerate(batch.valid) if not good] == [5]
    with pytest.raises(stoker.StokerError, match="no such file") as e:
        next(iter(fail))
    assert gone in str(e.value)


def test_bad_roots(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(stoker.StokerError, match="no .tar, .parquet or .arrow files and no pictures"):
        stoker.open(tmp_path / "empty")
    put(tmp_path / "hollow" / "cat" / "1.jpg")
    (tmp_path / "hollow" / "dog").mkdir()
    (tmp_path / "hollow" / ".git").mkdir()      # hidden and without a picture: no class
    with pytest.raises(stoker.StokerError, match="the class has no picture") as e:
        stoker.open(tmp_path / "hollow")
    assert "hollow/dog/" in str(e.value) and e.value.code == "ENOTFOUND"
    (tmp_path / "hollow" / "dog").rmdir()
    assert stoker.open(tmp_path / "hollow").classes == ["cat"]


def test_symlinks(tmp_path):
    root = tmp_path / "train"
    put(root / "cat" / "1.jpg")
    put(tmp_path / "elsewhere" / "2.jpg")
    (root / "dog").symlink_to(tmp_path / "elsewhere")
    (root / "cat" / "more").symlink_to(tmp_path / "elsewhere")
    (root / "cat" / "gone.jpg").symlink_to(tmp_path / "nowhere")
    ds = stoker.open(root)
    assert [(s, c) for s, c in image_folder(root)[1]] == [
        ("cat/1.jpg", 0), ("cat/gone.jpg", 0), ("cat/more/2.jpg", 0), ("dog/2.jpg", 1)]
    assert len(ds) == 4 and ds[2]["__key__"] == "cat/more/2.jpg"
    with pytest.raises(stoker.StokerError, match="no such file"):
        ds[1]
    put(tmp_path / "elsewhere" / "3.jpg")       # noticed through the symlinks
    with pytest.raises(stoker.StokerError) as e:
        stoker.open(root)
    assert e.value.code == "ESTALE"
    loop = tmp_path / "loop"
    put(loop / "cat" / "1.jpg")
    (loop / "cat" / "again").symlink_to(loop / "cat")
    with pytest.raises(stoker.StokerError, match='"again" leads back to a folder above it'):
        stoker.open(loop)


def test_tar_wins_over_pictures(tmp_path):
    write_tar(tmp_path / "a.tar", [("0.cls", b"1")])
    put(tmp_path / "b.jpg")
    assert stoker.open(tmp_path).fields == ["cls"]
    out = subprocess.run([CLI, "index", str(tmp_path), "--force"], capture_output=True, text=True)
    assert out.returncode == 0 and out.stderr.count("pictures are left out") == 1
    put(tmp_path / "p" / "1.jpg")
    with pytest.raises(stoker.StokerError, match="make no one data set"):
        stoker.open([tmp_path / "a.tar", tmp_path / "p"])


def test_cli(photos):
    out = subprocess.run([CLI, "bench", str(photos), "--epochs", "1", "--json"],
                         capture_output=True, text=True, check=True)
    assert '"image"' in out.stdout and '"label"' in out.stdout


def test_many_files_and_names_that_are_no_text(tmp_path):
    root = os.fsencode(tmp_path / "odd")
    os.makedirs(root + b"/c\xff")
    names = [b"a\xfe.jpg", b"new\nline.jpg", b" .jpg", b"-.jpg"]
    for i, name in enumerate(names):
        with open(root + b"/c\xff/" + name, "wb") as f:
            f.write(b"%d" % i)
    ds = stoker.open(root)
    assert len(ds) == 4 and len(ds.classes) == 1
    assert sorted(s["image"] for s in ds) == [b"0", b"1", b"2", b"3"]


def test_more_classes_than_files_may_be_open(tmp_path):
    for i in range(120):
        put(tmp_path / "train" / f"c{i:03d}" / "1.jpg", b"%d" % i)
    out = run_python("""
        import resource, sys, stoker
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        fields = {"image": "bytes", "label": "from(cls) | int"}
        rows = [(int(bytes(d)), int(n)) for b in stoker.Loader(sys.argv[1], fields, batch_size=7,
                shuffle=True, num_workers=2) for d, n in zip(b["image"], b["label"])]
        print(sorted(rows) == [(i, i) for i in range(120)])
        """, str(tmp_path / "train")).stdout
    assert out.strip() == "True"
