# SPDX-License-Identifier: Apache-2.0
"""COCO's annotation files as data sets: every value and every mask as pycocotools and torchvision have them."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import stoker
from conftest import as_numpy
from PIL import Image

CLI = os.environ.get("STOKER_CLI", os.path.join(os.environ.get("STOKER_BUILD", "build"), "cli", "stoker"))
CATEGORIES = [{"id": 7, "name": "cat"}, {"id": 3, "name": "dög"}, {"id": 90, "name": "zebra"}]
NUMBER = {3: 0, 7: 1, 90: 2}
DETECTION = {"image": "image | random_resized_crop(32) | hflip | to(f32)", "boxes": "floats(shape=(-1, 4)) | like(image)", "labels": "ints | like(boxes)",
             "objects": "from(masks) | image(mode=index) | like(image) | to(i64)", "classes": "from(masks) | class_map | image(mode=index) | like(image)"}


def packed(runs):
    """Run lengths as pycocotools writes them (rleToString)."""
    out = ""
    for i, run in enumerate(runs):
        x = run - (runs[i - 2] if i > 2 else 0)
        more = True
        while more:
            c = x & 0x1f
            x >>= 5
            more = x != -1 if c & 0x10 else x != 0
            out += chr((c | 0x20 if more else c) + 48)
    return out


def runs_of(mask):
    flat = mask.flatten(order="F")
    edges = np.flatnonzero(np.diff(flat)) + 1
    runs = np.diff([0, *edges.tolist(), len(flat)]).tolist()
    return [0, *runs] if flat[0] else runs


def make(root, seed=5, n=30):
    """A COCO folder with polygons, run lengths of both kinds, crowds, pictures without annotations."""
    print("seed", seed)
    rng, pixels = random.Random(seed), np.random.default_rng(seed)
    (root / "annotations").mkdir(parents=True)
    (root / "train2017").mkdir()
    images, notes, masks = [], [], {}
    for _ in range(n):
        w, h, number = rng.randint(20, 90), rng.randint(20, 90), rng.randint(1, 10**9)
        name = f"{number:012d}.jpg"
        Image.fromarray(pixels.integers(0, 255, (h, w, 3), np.uint8)).save(root / "train2017" / name)
        images.append({"file_name": name, "height": h, "width": w, "id": number, "url": "a}]\\\"b", "more": {"x": [1, {"y": None}]}})
        for _ in range(rng.choice([0, 1, 2, 5])):
            kind = rng.choice("ppprs")
            note = {"area": round(rng.uniform(1, 500), 3), "iscrowd": int(kind != "p"), "image_id": number, "category_id": rng.choice([7, 3, 90]),
                    "bbox": [round(rng.uniform(0, w / 2), 2), round(rng.uniform(0, h / 2), 2), round(rng.uniform(1, w / 2), 2), round(rng.uniform(1, h / 2), 2)],
                    "id": len(notes) + 100, "keypoints": [rng.randint(0, 60) for _ in range(3 * 4)]}
            if kind == "p":
                note["segmentation"] = [[round(rng.uniform(-5, (w, h)[q % 2] + 5), 2) for q in range(2 * rng.randint(3, 12))]
                                        for _ in range(rng.randint(1, 3))]
            else:
                mask = (pixels.random((h, w)) < .3).astype(np.uint8)
                mask[:rng.randint(0, h)] = 1
                masks[note["id"]] = mask
                note["segmentation"] = {"size": [h, w], "counts": packed(runs_of(mask)) if kind == "s" else runs_of(mask)}
            notes.append(note)
    rng.shuffle(notes)
    path = root / "annotations" / "instances_train2017.json"
    path.write_text(json.dumps({"info": {"year": 2017}, "licenses": [], "images": images, "annotations": notes, "categories": CATEGORIES}, indent=seed % 3 or None))
    by_image = {m["id"]: [a for a in notes if a["image_id"] == m["id"]] for m in images}
    return SimpleNamespace(path=path, images=sorted(images, key=lambda m: m["id"]), of=by_image, masks=masks, notes=notes)


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
    return make(tmp_path_factory.mktemp("coco"))


@pytest.mark.asan
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_every_value_is_the_file_s(tmp_path, seed):
    made = make(tmp_path, seed)
    ds = stoker.open(made.path)
    assert ds.classes == ["dög", "cat", "zebra"] and len(ds) == len(made.images)
    for sample, m in zip(ds, made.images, strict=True):
        notes = made.of[m["id"]]
        assert sample["__key__"] == m["file_name"][:-4] and sample["image"] == (made.path.parent.parent / "train2017" / m["file_name"]).read_bytes()
        assert [int(sample[k]) for k in ("image_id", "width", "height")] == [m["id"], m["width"], m["height"]]
        got = {k: json.loads(sample[k]) for k in ("ids", "boxes", "labels", "category_ids", "areas", "crowd", "keypoints", "masks")}
        assert got["ids"] == [a["id"] for a in notes] and got["category_ids"] == [a["category_id"] for a in notes]
        assert got["labels"] == [NUMBER[a["category_id"]] for a in notes] == got["masks"]["labels"]
        assert got["boxes"] == [[a["bbox"][0], a["bbox"][1], a["bbox"][0] + a["bbox"][2], a["bbox"][1] + a["bbox"][3]] for a in notes]
        assert got["areas"] == [a["area"] for a in notes] and got["crowd"] == [a["iscrowd"] for a in notes]
        assert got["keypoints"] == [[a["keypoints"][i:i + 3] for i in range(0, 12, 3)] for a in notes]
        assert got["masks"]["regions"] == [a["segmentation"] for a in notes] and got["masks"]["size"] == [m["height"], m["width"]]


@pytest.mark.asan
def test_run_lengths_and_maps(coco):
    ds = stoker.open(coco.path, {"planes": "from(masks) | masks", "objects": "from(masks) | image(mode=index) | to(u8)",
                                 "classes": "from(masks) | class_map | image(mode=index) | to(u8)"})
    seen = 0
    for sample, m in zip(ds, coco.images, strict=True):
        notes, planes = coco.of[m["id"]], as_numpy(sample["planes"])
        assert planes.shape == (len(notes), m["height"], m["width"]) and planes.dtype == np.uint8 and (not planes.size or planes.max() <= 1)
        objects, classes = np.zeros((m["height"], m["width"]), np.uint8), np.zeros((m["height"], m["width"]), np.uint8)
        for k, a in enumerate(notes):
            if a["id"] in coco.masks:
                assert (planes[k] == coco.masks[a["id"]]).all()
                seen += 1
            objects[planes[k] > 0] = k + 1
            classes[planes[k] > 0] = NUMBER[a["category_id"]] + 1
        assert (as_numpy(sample["objects"]).squeeze() == objects).all() and (as_numpy(sample["classes"]).squeeze() == classes).all()
    assert seen > 5


def test_masks_are_those_of_pycocotools(tmp_path):
    pytest.importorskip("pycocotools")
    from pycocotools.coco import COCO
    made = make(tmp_path, 8, 60)
    oracle, ds = COCO(str(made.path)), stoker.open(made.path, {"planes": "from(masks) | masks", "id": "from(image_id) | int"})
    for sample, number in zip(ds, sorted(oracle.imgs), strict=True):        # torchvision's CocoDetection has this order
        notes = oracle.loadAnns(oracle.getAnnIds(imgIds=[number]))
        assert int(sample["id"]) == number
        for plane, note in zip(as_numpy(sample["planes"]), notes, strict=True):
            assert (plane == oracle.annToMask(note)).all(), (made.path, note["id"])


def test_polygons_by_hand(tmp_path):
    """What needs no oracle: rectangles on whole pixels, two of them, one outside, an empty one, odd numbers."""
    (tmp_path / "a.png").parent.mkdir(exist_ok=True)
    Image.new("RGB", (12, 10)).save(tmp_path / "a.png")
    box = lambda x0, y0, x1, y1: [x0, y0, x1, y0, x1, y1, x0, y1]           # noqa: E731
    shapes = [[box(2, 3, 7, 8)], [box(0, 0, 3, 3), box(9, 7, 12, 10)], [box(-8, -8, 40, 40)], [box(20, 20, 30, 30)], [box(2, 3, 7, 8)[:-1]], [], None,
              [[2, 3, 5, 5]]]
    note = {"image_id": 1, "category_id": 3, "bbox": [0, 0, 1, 1]}
    (tmp_path / "x.json").write_text(json.dumps({"images": [{"id": 1, "file_name": "a.png", "width": 12, "height": 10}], "categories": CATEGORIES,
                                                 "annotations": [{**note, "id": i, "segmentation": s} for i, s in enumerate(shapes)]}))
    planes = as_numpy(stoker.open(tmp_path / "x.json", {"planes": "from(masks) | masks"})[0]["planes"])
    for k, areas in enumerate([[(2, 3, 7, 8)], [(0, 0, 3, 3), (9, 7, 12, 10)], [(0, 0, 12, 10)], [], None, [], [], [(2, 3, 7, 8)]]):
        want = np.zeros((10, 12), np.uint8)
        for x0, y0, x1, y1 in areas or []:
            want[y0:y1, x0:x1] = 1
        assert areas is None or (planes[k] == want).all(), (k, planes[k])


def test_detection_follows_its_picture(coco):
    ds = stoker.open(coco.path)
    lists = {"boxes": "list", "labels": "list"}
    loader = stoker.Loader(ds, DETECTION, batch_size=4, shuffle=True, seed=2, collate=lists)
    whole = [(b.sample_keys, [as_numpy(x).tolist() for x in b["boxes"]], as_numpy(b["objects"]).sum()) for b in loader]
    for batch in loader:
        for boxes, labels in zip(batch["boxes"], batch["labels"], strict=True):
            assert len(boxes) == len(labels) and (len(boxes) == 0 or (as_numpy(boxes) >= 0).all() and (as_numpy(boxes) <= 32).all())
    ranks = [[k for b in stoker.Loader(ds, DETECTION, batch_size=4, rank=r, world_size=2, collate=lists) for k in b.sample_keys] for r in range(2)]
    assert set(sum(ranks, [])) == {m["file_name"][:-4] for m in coco.images}
    it = iter(loader)
    next(it), next(it)
    again = stoker.Loader(stoker.open(coco.path), DETECTION, batch_size=4, shuffle=True, seed=2, collate=lists)
    again.load_state_dict(loader.state_dict())
    assert len(list(again)) == len(whole) - 2
    wide = stoker.open(coco.path, where="width >= 60")
    assert len(wide) == sum(m["width"] >= 60 for m in coco.images)


def test_captions_and_keypoints(tmp_path):
    Image.new("RGB", (8, 6)).save(tmp_path / "a.png")
    Image.new("RGB", (8, 6)).save(tmp_path / "b.png")
    images = [{"id": 2, "file_name": "a.png"}, {"id": 1, "file_name": "b.png", "width": 8, "height": 6}]
    (tmp_path / "captions_val.json").write_text(json.dumps({"annotations": [
        {"image_id": 2, "id": 5, "caption": "a \"cat\"\nof"}, {"image_id": 2, "id": 4, "caption": "ein Hündchen"}], "images": images}))
    ds = stoker.open(tmp_path / "captions_val.json", {"first": "from(captions) | json('0') | text", "all": "from(captions) | json"})
    assert ds["a"]["first"] == "a \"cat\"\nof" and ds["a"]["all"] == ["a \"cat\"\nof", "ein Hündchen"]
    assert stoker.open(tmp_path / "captions_val.json")["b"]["captions"] == b"[]"
    person = [{"id": 1, "name": "person", "keypoints": ["nose", "eye"], "skeleton": [[1, 2]]}]
    (tmp_path / "person_keypoints_val.json").write_text(json.dumps({"images": images, "categories": person, "annotations": [
        {"image_id": 1, "id": 1, "category_id": 1, "bbox": [0, 0, 4, 4], "keypoints": [1, 2, 2, 3.5, 4, 1], "num_keypoints": 2}]}))
    keypoints = {"image": "image | resize((12, 16))", "boxes": "floats(shape=(-1, 4)) | like(image)",
                 "keypoints": "floats(shape=(-1, 2, 3)) | like(image, points=true)"}
    got = stoker.open(tmp_path / "person_keypoints_val.json", keypoints)["b"]
    assert as_numpy(got["keypoints"]).tolist() == [[[2, 4, 2], [7, 8, 1]]] and as_numpy(got["boxes"]).tolist() == [[0, 0, 8, 8]]


def test_pack_and_the_command(coco, tmp_path):
    stoker.pack(coco.path, tmp_path / "out")
    ds, shards = stoker.open(coco.path), stoker.open(str(tmp_path / "out"))
    assert shards.classes == ds.classes
    for a, b in zip(ds, shards, strict=True):
        assert a["__key__"] == b["__key__"] and a["image"] == b["jpg"] and all(a[k] == b[k] for k in a if k not in ("__url__", "image"))
    pixels = [np.concatenate([as_numpy(b["objects"]).reshape(-1) for b in stoker.Loader(data, DETECTION, batch_size=3, collate={"boxes": "list", "labels": "list"})])
              for data in (ds, shards)]
    assert (pixels[0] == pixels[1]).all()                       # the same chains, the same draws
    for command in (["ls"], ["check"], ["describe"], ["ls", "--schema"]):
        done = subprocess.run([CLI, *command, str(coco.path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_wrong_is_said(tmp_path):
    made = make(tmp_path, 4, 6)
    text = made.path.read_text()
    moved = tmp_path / "elsewhere"
    (tmp_path / "train2017").rename(moved)
    with pytest.raises(FileNotFoundError, match=r"the first picture.*neither beside the annotations nor in \.\./train2017: say images=FOLDER"):
        stoker.open(made.path)
    ds = stoker.open(made.path, images=moved)
    assert ds[0]["image"][:2] == b"\xff\xd8"
    good = json.loads(text)
    note, picture = good["annotations"][0], good["images"][0]
    for k, (change, error) in enumerate([
            ({"images": [picture, picture]}, "two images have the id"), ({"categories": []}, "no category has the id"),
            ({"annotations": [{**note, "bbox": [1, 2, 3]}]}, "bbox has 3 numbers"), ({"annotations": [{**note, "image_id": "x"}]}, "not a whole number"),
            ({"images": [{**picture, "file_name": "../x.jpg"}]}, "not below its folder"), ({"images": [{**picture, "file_name": "/etc/passwd"}]}, "not below its folder"),
            ({"images": []}, 'it has no "images"')]):
        (tmp_path / f"bad{k}.json").write_text(json.dumps({**good, **change}))
        with pytest.raises(stoker.StokerError, match=error):
            stoker.open(tmp_path / f"bad{k}.json", images=moved)
    for name in sorted(os.listdir(moved))[:2]:
        (moved / name).unlink()
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(FileNotFoundError, match=r'2 of 6 pictures are not in ".*elsewhere"'):
        stoker.open(tmp_path / "other.json", images=moved)
    with pytest.raises(stoker.StokerError, match="images= must be the folder"):
        stoker.open(made.path, images=tmp_path / "nothing")
    with pytest.raises(stoker.StokerError, match=r"images= is the folder of the pictures of COCO's annotation files"):
        stoker.open(moved, images=moved)
    for k, cut in enumerate((text[:len(text) // 2], text[:-1], text.replace('"images":', '"images"'), "{" + text)):
        (tmp_path / f"cut{k}.json").write_text(cut)
        with pytest.raises(stoker.StokerError):
            stoker.open(tmp_path / f"cut{k}.json", images=moved)


def test_regions_that_are_no_regions(tmp_path):
    Image.new("RGB", (12, 10)).save(tmp_path / "a.png")
    bad = [{"size": [9, 12], "counts": [1]}, {"size": [10, 12], "counts": [1, 200]}, {"size": [10, 12], "counts": "zzzzzzzzzzzzzzzz"}, {"size": [10, 12]},
           {"size": [10, 12], "counts": [-1, 5]}, [[0, 0, 1e9, 0, 1e9, 1e9]], [["a", 1, 2, 3, 4, 5]], [[0, 0, 9e5, 9e5] * 60], [1, 2, 3], {"size": [10, 12], "counts": "\x7f"}]
    for k, region in enumerate(bad):
        (tmp_path / f"{k}.json").write_text(json.dumps({"images": [{"id": 1, "file_name": "a.png", "width": 12, "height": 10}], "annotations": [
            {"image_id": 1, "id": 1, "segmentation": region}]}))
        for chain in ("from(masks) | masks", "from(masks) | image(mode=index)"):
            with pytest.raises(stoker.StokerError):
                stoker.open(tmp_path / f"{k}.json", {"x": chain})[0]


# ---- Pascal VOC and YOLO ---------------------------------------------------------------------------------

OBJECT = ("<object><name>{name}</name><pose>Left</pose><truncated>{t}</truncated><difficult>{d}</difficult><bndbox><xmin>{b[0]}</xmin><ymin>{b[1]}</ymin>"
          "<xmax>{b[2]}</xmax><ymax>{b[3]}</ymax></bndbox><part><name>head</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></part></object>")


def make_voc(root, names=("person", "cat", "aeroplane")):
    for folder in ("Annotations", "JPEGImages", "ImageSets/Main", "SegmentationClass"):
        (root / folder).mkdir(parents=True)
    made = {}
    for i in range(6):
        key = f"2008_{i:06d}"
        objects = [{"name": names[(i + k) % len(names)], "t": k % 2, "d": i % 2, "b": [1 + i, 2, 10 + k, 12.5]} for k in range(i % 4)]
        Image.fromarray(np.full((20, 30, 3), 9 * i, np.uint8)).save(root / f"JPEGImages/{key}.jpg")
        if i % 2:
            Image.fromarray(np.full((20, 30), i, np.uint8)).save(root / f"SegmentationClass/{key}.png")
        (root / f"Annotations/{key}.xml").write_text(
            f"<annotation>\n<folder>VOC</folder><filename>{key}.jpg</filename><size><width>30</width><height> 20 </height><depth>3</depth></size>"
            + "".join(OBJECT.format(**o) for o in objects) + "</annotation>")
        made[key] = objects
    (root / "ImageSets/Main/train.txt").write_text("".join(f"{k}\n" for k in made))
    (root / "ImageSets/Main/cat_val.txt").write_text("".join(f"{k}  -1\r\n" for k in list(made)[:3]))
    return made


@pytest.mark.asan
def test_voc_folders(tmp_path):
    made = make_voc(tmp_path / "VOC2012")
    ds = stoker.open(tmp_path / "VOC2012/ImageSets/Main/train.txt")
    assert len(ds.classes) == 20 and ds.classes[0] == "aeroplane" and [s["__key__"] for s in ds] == list(made)
    for sample in ds:
        objects = made[sample["__key__"]]
        assert json.loads(sample["boxes"]) == [[o["b"][0] - 1, o["b"][1] - 1, o["b"][2], o["b"][3]] for o in objects]
        assert [ds.classes[n] for n in json.loads(sample["labels"])] == [o["name"] for o in objects]
        assert json.loads(sample["difficult"]) == [o["d"] for o in objects] and json.loads(sample["truncated"]) == [o["t"] for o in objects]
        assert (sample["width"], sample["height"]) == (b"30", b"20") and ("class_mask" in sample) == bool(int(sample["__key__"][-1]) % 2)
    assert len(stoker.open(str(tmp_path / "VOC2012/ImageSets/Main/cat_val.txt"))) == 3
    chains = {"image": "image | resize((10, 15))", "boxes": "floats(shape=(-1, 4)) | like(image)", "labels": "ints | like(boxes)"}
    assert sum(len(x) for b in stoker.Loader(ds, chains, batch_size=2, collate={"boxes": "list", "labels": "list"}) for x in b["boxes"]) > 3
    xml = tmp_path / "VOC2012/Annotations/2008_000001.xml"
    xml.write_text(xml.read_text().replace("<xmax>10</xmax>", "<xmax>11</xmax>"))      # labels that were corrected are noticed
    with pytest.raises(stoker.StokerError, match="renamed or changed in these folders"):
        stoker.open(tmp_path / "VOC2012/ImageSets/Main/train.txt")
    (tmp_path / "VOC2012/ImageSets/Main/other.txt").write_text("2008_000000\nnothing\n../x\n")
    with pytest.raises(stoker.StokerError, match="not below its folder|1 of 2 names have no picture"):
        stoker.open(tmp_path / "VOC2012/ImageSets/Main/other.txt")
    make_voc(tmp_path / "own", ("zebra", "ant"))
    assert stoker.open(tmp_path / "own/ImageSets/Main/train.txt").classes == ["ant", "zebra"]


@pytest.mark.asan
def test_yolo_folders(tmp_path):
    lines = {"a": "0 0.5 0.5 0.5 0.25\n2 0.1 0.2 0.1 0.1\n", "b": "", "sub/c": "1 0.25 0.25 0.75 0.25 0.75 0.75 0.25 0.75\r\n"}
    for key, text in lines.items():
        (tmp_path / f"images/train/{key}").parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"labels/train/{key}").parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 20)).save(tmp_path / f"images/train/{key}.{'png' if key == 'a' else 'jpg'}")
        if key != "b":
            (tmp_path / f"labels/train/{key}.txt").write_text(text)
    (tmp_path / "classes.txt").write_text("cat\ndog\nant\n")
    ds = stoker.open(f"yolo://{tmp_path}/images/train")
    assert ds.classes == ["cat", "dog", "ant"] and [s["__key__"] for s in ds] == ["a", "b", "sub/c"]
    assert np.allclose(json.loads(ds["a"]["boxes"]), [[10, 7.5, 30, 12.5], [2, 3, 6, 5]]) and json.loads(ds["a"]["labels"]) == [0, 2]
    assert json.loads(ds["b"]["boxes"]) == [] and json.loads(ds["sub/c"]["boxes"]) == [[10, 5, 30, 15]]
    plane = as_numpy(stoker.open(f"yolo://{tmp_path}/images/train", {"m": "from(masks) | masks"})[2]["m"])
    assert plane.shape == (1, 20, 40) and plane.sum() == 200 and plane[0, 5:15, 10:30].all()
    done = subprocess.run([CLI, "pack", "yolo://images/train", "out"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert stoker.open(str(tmp_path / "out"))["a"]["png"][:4] == b"\x89PNG"
    (tmp_path / "labels/train/a.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    with pytest.raises(stoker.StokerError, match="renamed or changed in these folders"):
        stoker.open(f"yolo://{tmp_path}/images/train")
    (tmp_path / "labels/train/a.txt").write_text("0 0.5 0.5\n")
    (tmp_path / "more").symlink_to(tmp_path / "images")
    (tmp_path / "images/val").symlink_to(tmp_path / "images/train")
    (tmp_path / "labels/val").symlink_to(tmp_path / "labels/train")
    with pytest.raises(stoker.StokerError, match="a line has 3 numbers"):
        stoker.open(f"yolo://{tmp_path}/images/val")


# ---- torchvision as the oracle ----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def torchvision_datasets():
    """torchvision.datasets beside a CPU build of torch, as tests/recipes has it; else skipped."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests/recipes"))
    try:
        import tv_oracle
    finally:
        sys.path.pop(0)
    tv_oracle.load()
    return pytest.importorskip("torchvision.datasets")


def test_coco_detection_of_torchvision(torchvision_datasets, tmp_path):
    pytest.importorskip("pycocotools")
    made = make(tmp_path, 6, 25)
    oracle = torchvision_datasets.CocoDetection(str(tmp_path / "train2017"), str(made.path))
    ds = stoker.open(made.path, {"image": "image", "boxes": "floats(shape=(-1, 4))", "ids": "ints", "cats": "from(category_ids) | ints"},
                     images=tmp_path / "train2017")
    assert len(ds) == len(oracle)
    for sample, (picture, target) in zip(ds, oracle, strict=True):
        assert (as_numpy(sample["image"]).transpose(1, 2, 0) == np.asarray(picture)).all()
        assert as_numpy(sample["ids"]).tolist() == [t["id"] for t in target] and as_numpy(sample["cats"]).tolist() == [t["category_id"] for t in target]
        want = np.array([[x, y, x + w, y + h] for x, y, w, h in (t["bbox"] for t in target)], np.float32).reshape(-1, 4)
        assert (as_numpy(sample["boxes"]) == want).all()


def test_voc_detection_of_torchvision(torchvision_datasets, tmp_path):
    """Also XML that other tools write: attributes, comments, entities, elements after parts."""
    root = tmp_path / "VOCdevkit/VOC2012"
    make_voc(root, ("R&amp;B", "zebra", "<!-- old --> ant "))
    odd = root / "Annotations/2008_000003.xml"
    text = odd.read_text().replace("<object>", '<object id="7" lang="x">', 1).replace("<annotation>", '<?xml version="1.0"?>\n<annotation verified="yes">')
    late = "<difficult>1</difficult>"
    text = text.replace("<size>", "<!-- <object><name>ghost</name></object> --><size>").replace("</part></object>", f"</part>{late}</object>", 1)
    odd.write_text(text.replace(late, "", 1) if text.index(late) < text.index("</part>") else text)
    oracle = torchvision_datasets.VOCDetection(str(tmp_path), year="2012", image_set="train")
    ds = stoker.open(root / "ImageSets/Main/train.txt", {"image": "image", "boxes": "floats(shape=(-1, 4))", "labels": "ints", "difficult": "ints",
                                                         "truncated": "ints", "width": "int"})
    assert len(ds) == len(oracle) and ds.classes == ["R&B", "ant", "zebra"]
    for sample, (picture, target) in zip(ds, oracle, strict=True):
        objects = target["annotation"].get("object", [])
        assert (as_numpy(sample["image"]).transpose(1, 2, 0) == np.asarray(picture)).all() and int(sample["width"]) == int(target["annotation"]["size"]["width"])
        assert [ds.classes[n] for n in as_numpy(sample["labels"])] == [o["name"] for o in objects]
        for field in ("difficult", "truncated"):
            assert as_numpy(sample[field]).tolist() == [int(o[field]) for o in objects]
        corners = [[float(o["bndbox"][k]) for k in ("xmin", "ymin", "xmax", "ymax")] for o in objects]
        assert (as_numpy(sample["boxes"]) == np.array(corners, np.float32).reshape(-1, 4) - np.float32([1, 1, 0, 0])).all()


def test_voc_that_was_cut(tmp_path):
    make_voc(tmp_path / "VOC2012")
    xml = tmp_path / "VOC2012/Annotations/2008_000003.xml"
    text = xml.read_text()
    for end in (len(text) - 5, text.rindex("</object>"), text.index("<object>") + 40, 20):
        xml.write_text(text[:end])
        with pytest.raises(stoker.StokerError, match="does not end|has no"):
            stoker.open(tmp_path / "VOC2012/ImageSets/Main/train.txt")


# ---- YOLO without an address ------------------------------------------------------------------------------

def make_yolo(root, splits=("images/train", "images/val"), names="names: [cat, dog]\n"):
    for number, split in enumerate(splits):
        labels = "/".join("labels" if part == "images" else part for part in split.split("/"))
        for folder in (split, labels):
            (root / folder).mkdir(parents=True)
        for i in range(3 + number):
            Image.new("RGB", (40, 20)).save(root / split / f"{i}.png")
            (root / labels / f"{i}.txt").write_text(f"{i % 2} 0.5 0.5 0.5 0.{i + 1}\n" if i else "")
    (root / "data.yaml").write_text(f"# a data set\npath: ../datasets/other\ntrain: {splits[0]}  # relative\nval: {splits[1]}\nnc: 2\n{names}")


@pytest.mark.asan
def test_yolo_by_its_layout(tmp_path, monkeypatch):
    make_yolo(tmp_path / "a")
    root = str(tmp_path / "a")
    want = [(s["__key__"], s["boxes"], s["labels"]) for s in stoker.open(f"yolo://{root}/images/train")]
    assert len(want) == 3 and json.loads(want[2][1]) == [[10, 7, 30, 13]]
    monkeypatch.chdir(root)
    for name, count in ((f"{root}/data.yaml", 3), ("data.yaml", 3), (Path(root, "data.yaml"), 3), (f"yolo://{root}/data.yaml", 3), (f"{root}/images/train", 3),
                        ("images/train", 3), (f"yolo://{root}/data.yaml&split=val", 4), (f"{root}/images/val/", 4), (root, 7), (f"{root}/images", 7)):
        ds = stoker.open(name)
        assert len(ds) == count and ds.classes == ["cat", "dog"] and "boxes" in ds[0], name
        if count == 3:
            assert [(s["__key__"], s["boxes"], s["labels"]) for s in ds] == want
    done = subprocess.run([CLI, "ls", f"{root}/data.yaml"], capture_output=True, text=True)
    assert done.returncode == 0 and "boxes" in done.stdout + subprocess.run([CLI, "ls", "--schema", root], capture_output=True, text=True).stdout
    make_yolo(tmp_path / "b", ("train/images", "valid/images"), "names:\n  0: 'it''s'\n  1: \"a, b\" # second\n")      # as Roboflow has it
    (tmp_path / "b/data.yaml").write_text((tmp_path / "b/data.yaml").read_text().replace("train: ", "train: ../"))
    for name, count in (("data.yaml", 3), ("train", 3), ("valid/images", 4), (".", 3)):
        ds = stoker.open(str(tmp_path / "b" / name))
        assert len(ds) == count and ds.classes == ["it's", "a, b"], name
    text = (tmp_path / "a/data.yaml").read_text()
    for names, classes in (("names: {0: x, 1: y}\n", ["x", "y"]), ("names:\n- x\n- y\n", ["x", "y"]), ("names: [x,\n  # why\n  y # z\n  ]\n", ["x", "y"])):
        (tmp_path / "a/data.yaml").write_text(text.replace("names: [cat, dog]\n", names))
        assert subprocess.run([CLI, "index", f"{root}/data.yaml"]).returncode == 0
        assert stoker.open(f"{root}/data.yaml").classes == classes
    (tmp_path / "a/data.yaml").write_text(text.replace("train: images/train", "train: [images/train, images/val]"))
    assert len(stoker.open(f"{root}/data.yaml")) == 7


def test_yolo_that_is_refused(tmp_path):
    make_yolo(tmp_path / "a")
    text, yaml = (tmp_path / "a/data.yaml").read_text(), tmp_path / "a/data.yaml"
    make_yolo(tmp_path / "b")
    for k, (change, error) in enumerate(((("train: images/train", f"train: {tmp_path}/b/images/train"), "not a folder in its own or below"), (("train: ", "train: ../b/"), "not a folder"),
                          (("train: ", "tr: "), 'no "train:"'), (("[cat, dog]", "[cat, dog"), "not understood"), (("[cat, dog]", "{0: cat, 2: dog}"), "1 was expected"),
                          (("[cat, dog]", "&x [a]"), "not understood"), (("[cat, dog]", "['']"), "has no name"))):
        (tmp_path / f"a/{k}.yaml").write_text(text.replace(*change))
        with pytest.raises((stoker.StokerError, FileNotFoundError), match=error):
            stoker.open(tmp_path / f"a/{k}.yaml")
    with pytest.raises(stoker.StokerError, match="split is train, val or test"):
        stoker.open(f"yolo://{yaml}&split=all")
    with pytest.raises(stoker.StokerError, match="split= is of data.yaml"):
        stoker.open(f"yolo://{tmp_path}/b/images/train&split=val")
    (tmp_path / "c/images").mkdir(parents=True)                                 # notes that are not labels
    (tmp_path / "c/labels").mkdir()
    Image.new("RGB", (40, 20)).save(tmp_path / "c/images/1.png")
    (tmp_path / "c/labels/1.txt").write_text("a photo of 5 cats in 1 room\n")
    assert "boxes" not in stoker.open(str(tmp_path / "c/images"))[0]
