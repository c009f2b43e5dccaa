# SPDX-License-Identifier: Apache-2.0
"""Folders as people have them: captions beside pictures, files that come later, shards that WebDataset reads;
and chains that are wrong in the line that writes them."""

import numpy as np
import pytest
from conftest import jpeg, picture, run_python

import stoker

IMAGE = "image | resize((8, 8))"


def fill(folder, names, first=0):
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names, first):
        (folder / name).write_bytes(jpeg(picture(i)))


# ---- captions ------------------------------------------------------------------------------------

@pytest.mark.asan
def test_pairs_in_a_flat_folder(tmp_path):
    root = tmp_path / "pairs"
    fill(root, ["a.jpg", "b.jpg", "b.c.jpg", "d-e.jpg"])
    for name, text in (("a.txt", "one"), ("b.txt", "two"), ("b.c.txt", "three"), ("a.json", '{"w": 3}'), ("a.xmp", "no"),
                       ("lonely.txt", "no"), ("a.jpg.txt", "no"), ("d.txt", "no"), ("README", "no"), (".a.txt", "no")):
        (root / name).write_text(text)
    np.save(root / "d-e.npy", np.arange(3))
    ds = stoker.open(root)
    assert [s["__key__"] for s in ds] == ["a.jpg", "b.c.jpg", "b.jpg", "d-e.jpg"]
    assert [s.get("txt") for s in ds] == [b"one", b"three", b"two", None] and ds[0]["json"] == b'{"w": 3}'
    assert sorted(ds.fields) == ["image", "json", "npy", "txt"]
    fields = {"image": "from(jpg) | " + IMAGE, "text": "from(txt, default='') | text", "w": "from(json, default='{\"w\": 0}') | json(w) | int"}
    with stoker.Loader(root, fields, batch_size=4) as loader:
        batch = next(iter(loader))
        assert batch["text"] == ["one", "three", "two", ""] and batch["w"].tolist() == [3, 0, 0, 0]


@pytest.mark.asan
def test_pairs_in_class_folders(tmp_path):
    for c in ("cat", "dog"):
        fill(tmp_path / "t" / c / "sub", ["1.JPG", "2.png"])
        (tmp_path / "t" / c / "sub" / "1.txt").write_text(c)
        (tmp_path / "t" / c / "sub" / "1.cls").write_text("99")     # the folder says the class
    ds = stoker.open(tmp_path / "t")
    assert [(s["__key__"], s["cls"], s.get("txt")) for s in ds] == [
        ("cat/sub/1.JPG", b"0", b"cat"), ("cat/sub/2.png", b"0", None), ("dog/sub/1.JPG", b"1", b"dog"), ("dog/sub/2.png", b"1", None)]


def test_a_caption_that_changes_is_noticed(tmp_path):
    root = tmp_path / "pairs"
    fill(root, ["a.jpg"])
    (root / "a.txt").write_text("one")
    ds = stoker.open(root)
    (root / "a.txt").write_text("longer")
    with pytest.raises(stoker.StokerError, match="6 bytes, the index was made when it had 3") as e:
        ds[0]
    assert e.value.code == "ESTALE"


# ---- what comes later ----------------------------------------------------------------------------

def test_reindex_auto_takes_what_was_only_added(tmp_path):
    root = tmp_path / "t"
    fill(root / "cat", ["1.jpg", "3.jpg"])
    fill(root / "dog" / "deep", ["1.jpg"])
    assert len(stoker.open(root)) == 3
    fill(root / "cat", ["2.jpg", "9.jpg"], 5)
    (root / "cat" / "1.txt").write_text("a caption that came later")
    fill(root / "dog" / "other", ["1.jpg"], 7)
    with pytest.raises(stoker.StokerError, match='reindex="auto"') as e:
        stoker.open(root)
    assert e.value.code == "ESTALE"
    ds = stoker.open(root, reindex="auto")
    assert [s["__key__"] for s in ds] == ["cat/1.jpg", "cat/2.jpg", "cat/3.jpg", "cat/9.jpg", "dog/deep/1.jpg", "dog/other/1.jpg"]
    assert ds[0]["txt"] == b"a caption that came later" and len(stoker.open(root)) == 6
    fill(root / "eel", ["1.jpg"])                   # sorts last: no number moves
    assert len(stoker.open(root, reindex="auto")) == 7


@pytest.mark.parametrize("how", ["removed", "renamed", "changed", "caption gone", "added and removed"])
def test_reindex_auto_refuses_all_else(tmp_path, how):
    root = tmp_path / "t"
    fill(root / "cat", ["1.jpg", "2.jpg"])
    (root / "cat" / "1.txt").write_text("one")
    stoker.open(root)
    if how in ("removed", "added and removed"):
        (root / "cat" / "2.jpg").unlink()
    if how == "added and removed":
        fill(root / "cat", ["3.jpg"])
    if how == "renamed":
        (root / "cat" / "2.jpg").rename(root / "cat" / "4.jpg")
    if how == "changed":
        (root / "cat" / "2.jpg").unlink()
        (root / "cat" / "2.jpg").write_bytes(jpeg(picture(9, 200, 200)))
    if how == "caption gone":
        (root / "cat" / "1.txt").unlink()
    with pytest.raises(stoker.StokerError) as e:
        stoker.open(root, reindex="auto")
    assert e.value.code == "ESTALE"


def test_reindex_auto_renumbers_nothing(tmp_path):
    root = tmp_path / "t"
    fill(root / "cat", ["1.jpg"])
    fill(root / "dog", ["1.jpg"])
    stoker.open(root)
    (root / "cat" / ".DS_Store").write_bytes(b"x")
    (root / ".DS_Store").write_bytes(b"x")
    (root / "cat" / "Thumbs.db").write_bytes(b"x")
    assert len(stoker.open(root)) == 2              # not a sample: nothing happened
    fill(root / "bee", ["1.jpg"])
    with pytest.raises(stoker.StokerError, match='"bee" is new: it would take number 0'):
        stoker.open(root, reindex="auto")
    with pytest.raises(stoker.StokerError, match='reindex must be "auto" or None, not True'):
        stoker.open(root, reindex=True)


# ---- names of pictures ---------------------------------------------------------------------------

@pytest.mark.asan
def test_jpg_finds_image_and_image_finds_jpg(tmp_path, urls):
    fill(tmp_path / "t" / "cat", ["1.jpg", "2.png"])
    for name in ("jpg", "png", "jpeg", "webp", "image"):
        assert len(stoker.open(tmp_path / "t", {"x": f"from({name}) | {IMAGE}"})[:]) == 2
    assert stoker.open(urls, {"image": IMAGE})[0]["image"].shape == (3, 8, 8)
    with pytest.raises(stoker.StokerError, match="no sample has a field gif"):
        stoker.open(tmp_path / "t", {"x": f"from(gif) | {IMAGE}"})


def test_packed_pictures_keep_their_suffix(tmp_path):
    webdataset = pytest.importorskip("webdataset")
    fill(tmp_path / "t" / "cat", ["1.jpg", "2.JPEG", "x.y.jpg"])
    fill(tmp_path / "t" / "dog", ["1.jpg"], 5)
    picture(3).save(tmp_path / "t" / "dog" / "1.png")
    (tmp_path / "t" / "cat" / "1.txt").write_text("a cat")
    report = stoker.pack(tmp_path / "t", tmp_path / "out")
    packed = stoker.open(tmp_path / "out")
    assert [s["__key__"] for s in packed] == ["cat/1", "cat/2", "cat/x_y", "dog/1", "dog/1_2"]
    assert [[f for f in s if not f.startswith("__")] for s in packed] == [
        ["jpg", "cls", "txt"], ["jpeg", "cls"], ["jpg", "cls"], ["jpg", "cls"], ["png", "cls"]]
    found = list(webdataset.WebDataset(report["pattern"], shardshuffle=False).decode("rgb8"))
    assert [next(v.shape for k, v in s.items() if k in ("jpg", "jpeg", "png")) for s in found] == [(60, 80, 3)] * 5
    assert found[0]["txt"] == "a cat" and [s["cls"] for s in found] == [0, 0, 0, 1, 1]
    before = stoker.open(tmp_path / "t", {"image": IMAGE})
    after = stoker.open(tmp_path / "out", {"image": IMAGE})
    assert all((a["image"] == b["image"]).all() for a, b in zip(before, after, strict=True))


# ---- chains and options that are wrong -----------------------------------------------------------

@pytest.mark.asan
@pytest.mark.parametrize("build, says", [
    (lambda: stoker.image().resize("x"), "resize: `size` must be a whole number"), (lambda: stoker.image().hflip(p=2), "p=2 is not in 0..1"),
    (lambda: stoker.image().resize(8).to("f33"), "did you mean `f32`"), (lambda: stoker.from_("cls").int().resize(8), "resize works on an image"),
    (lambda: stoker.Chain().hflip(p=3), "p=3"), (lambda: stoker.image().normalize("imagnet"), "normalize"),
])
def test_the_builder_checks_at_once(build, says):
    with pytest.raises(stoker.StokerError) as e:
        build()
    assert says in str(e.value)


@pytest.mark.asan
def test_chains_that_are_right_are_built():
    assert str(stoker.from_("x").to("f32")) == "from(x) | to(f32)"
    assert str(stoker.tokens(block=8, shift=1)) == "tokens(block=8, shift=1)"
    assert str(stoker.Chain().hflip().resize(8)) == "hflip | resize(8)"


@pytest.mark.parametrize("name", ["mixup", "MixUp", "CutMix", "mixup_cutmix", "label_smoothing"])
def test_ops_on_batches_are_named_where_they_belong(name):
    with pytest.raises(stoker.StokerError, match=r"works on whole batches, outside of chains: batch_ops=\[\"\w+\((image, )?label"):
        stoker.Transform(f"hflip | {name}(image, label)")


@pytest.mark.asan
@pytest.mark.parametrize("name, ours", [("RandomIoUCrop", "iou_crop"), ("RandomZoomOut", "zoom_out"), ("random_horizontal_flip", "hflip"), ("RandomHorizontalFlip", "hflip"), ("to_tensor", "to"), ("ToTensor", "to"),
                                        ("CenterCrop", "center_crop"), ("RandomResizedCrop", "random_resized_crop"), ("decode", "image"),
                                        ("ColorJitter", "color_jitter"), ("RandomErasing", "random_erasing"), ("random_rotation", "rotate"),
                                        ("RandomVerticalFlip", "vflip"), ("TrivialAugmentWide", "trivial_augment")])
def test_names_of_other_libraries(urls, name, ours):
    known = {step for step, *_ in stoker.chains.steps}
    if ours not in known:
        pytest.skip(f"this build has no {ours}")
    with pytest.raises(stoker.StokerError, match=f"no step is called `{name}`: did you mean `{ours}`"):
        stoker.Loader(urls, {"x": f"from(jpg) | image | {name}"})
    with pytest.raises(AttributeError, match=f"did you mean `{ours}`"):
        getattr(stoker.image(), name)


def test_options_that_are_words_are_checked_by_the_command_line(urls):
    for option in ("--decode=x", "--cache=disk"):
        done = run_python("import sys, stoker.__main__ as m; sys.argv = ['stoker', 'bench', *sys.argv[1:]]; m.main()", urls, option, torch_too=True)
        assert done.returncode != 0 and "one of: " in done.stderr, done.stderr
