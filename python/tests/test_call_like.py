# SPDX-License-Identifier: Apache-2.0
"""call beside like: pictures that are followed, and masks, boxes and lists that follow."""

import io
import json

import numpy as np
import pytest
from call_functions import as_it_is, boxes_of, fewer, invert, larger, mask_boxes, next_class, shifted
from call_ways import all_of, check_ways
from conftest import jpeg, picture, write_tar
from PIL import Image

import stoker

pytestmark = pytest.mark.usefixtures("forked")

LISTS = {"collate": {"boxes": "list", "labels": "list"}}


def png(array):
    out = io.BytesIO()
    Image.fromarray(array).save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    """Pictures, the same as masks, indices, boxes as JSON and as numbers, and a label for each box."""
    members = []
    for i in range(60):
        rng = np.random.default_rng(i)
        image = np.asarray(picture(i, 60 + i % 7, 50 + i % 5))
        index = np.zeros(image.shape[:2], np.uint8)
        boxes = []
        for k in range(1 + i % 3):
            x, y, w, h = (int(v) for v in (rng.integers(0, 30), rng.integers(0, 25), rng.integers(5, 25), rng.integers(5, 20)))
            boxes.append([x, y, x + w, y + h])
            index[y:y + h, x:x + w] = k + 1
        members += [(f"{i:03d}.jpg", jpeg(Image.fromarray(image))), (f"{i:03d}.rgb.png", png(image)), (f"{i:03d}.index.png", png(index)),
                    (f"{i:03d}.json", json.dumps({"boxes": boxes}).encode()),
                    (f"{i:03d}.boxes.txt", " ".join(str(float(v)) for b in boxes for v in b).encode()),
                    (f"{i:03d}.labels.txt", " ".join(str(10 * i + k) for k in range(len(boxes))).encode())]
    return str(write_tar(tmp_path_factory.mktemp("like") / "a.tar", members))


def image():
    return stoker.from_("rgb.png").image()


def numbers():
    return stoker.from_("boxes.txt").floats(shape=(-1, 4))


def labels():
    return stoker.from_("labels.txt").ints()


# ---- a picture with a function is followed -------------------------------------------------------------

def test_a_mask_follows_a_picture_with_functions(shard):
    lead = image().random_resized_crop(20).call(invert).hflip().vflip().call(invert).random_crop(12)
    made = check_ways(shard, {"x": lead.to("u8", "hwc"), "m": image().like("x").to("u8", "hwc")})
    assert all(np.array_equal(b["x"], b["m"]) for _, b in made)
    turned = all_of(shard, {"m": image().like("x").to("u8", "hwc"), "x": lead.call(invert).to("u8", "hwc")}, num_workers=2)
    assert all(np.array_equal(b["x"], 255 - b["m"]) for _, b in turned)


def test_numbers_of_a_picture_are_followed(shard):
    lead = image().random_resized_crop(20).hflip().to("f32").call(as_it_is)
    made = all_of(shard, {"x": lead, "m": image().like("x").to("f32")}, num_workers=2)
    assert all(np.array_equal(b["x"], b["m"]) for _, b in made)


def test_boxes_follow_a_picture_with_a_function(shard):
    steps = image().resize((40, 44)), lambda c: c.hflip(1).center_crop((30, 36)).to("u8")
    fields = {"boxes": numbers().like("x"), "labels": labels().like("boxes")}
    plain = all_of(shard, {"x": steps[1](steps[0]), **fields}, **LISTS)
    made = check_ways(shard, {"x": steps[1](steps[0].call(as_it_is)), **fields}, **LISTS)
    for (_, a), (_, b) in zip(plain, made, strict=True):
        assert [x.tolist() for x in a["boxes"]] == [x.tolist() for x in b["boxes"]]
        assert [x.tolist() for x in a["labels"]] == [x.tolist() for x in b["labels"]]


def test_a_function_that_changes_the_size_is_not_followed(shard):
    fields = {"x": image().call(larger).resize((8, 8)), "m": image().like("x")}
    with stoker.Loader(shard, fields, batch_size=4, num_workers=0) as loader, \
            pytest.raises(ValueError, match=r"call\(call_functions.larger\) gave \d+x\d+ for .* like\(x\): give that size back"):
        next(iter(loader))


# ---- what follows has a function -----------------------------------------------------------------------

def test_masks_with_functions_before_and_after(shard):
    lead = stoker.from_("jpg").image().random_resized_crop(20).hflip().to("u8")
    mask = stoker.from_("index.png").image(mode="index")
    made = check_ways(shard, {"x": lead, "m": mask.like("x").to("i64"), "after": mask.like("x").call(next_class).to("i64"),
                              "before": mask.call(next_class).like("x").to("i64"),
                              "both": mask.call(next_class).call(as_it_is).like("x").call(next_class).to("i64"),
                              "last": mask.like("x").to("i64").call(next_class)})
    for _, b in made:
        assert np.array_equal(b["after"], (b["m"] + 1) % 256) and np.array_equal(b["after"], b["before"])
        assert np.array_equal(b["both"], b["m"] + 2) and np.array_equal(b["last"], b["after"])
    assert len(np.unique(made[0][1]["m"])) > 2


def test_masks_of_views(shard):
    lead = stoker.from_("rgb.png").image().call(as_it_is).views(3).random_resized_crop(16).call(as_it_is).to("u8", "hwc")
    made = check_ways(shard, {"x": lead, "m": image().like("x").to("u8", "hwc"), "after": image().like("x").call(invert).to("u8", "hwc"),
                              "before": image().call(invert).like("x").call(invert).call(invert).to("u8", "hwc")})
    for _, b in made:
        assert b["x"].shape[1:] == (3, 16, 16, 3) and np.array_equal(b["x"], b["m"])
        assert np.array_equal(b["after"], 255 - b["m"])
        near = b["before"].astype(int) - b["after"].astype(int)
        assert np.abs(near).max() <= 1                  # 255 - x and interpolation round apart


@pytest.mark.asan
def test_boxes_that_a_function_makes(shard):
    lead = stoker.from_("jpg").image().random_resized_crop(24).hflip().to("u8")
    boxes = stoker.from_("json").json().call(boxes_of, dtype="f32", shape=(-1, 4))
    made = check_ways(shard, {"x": lead, "boxes": boxes.like("x"), "labels": labels().like("boxes")}, **LISTS)
    plain = all_of(shard, {"x": lead, "boxes": numbers().like("x"), "labels": labels().like("boxes")}, **LISTS)
    for (_, a), (_, b) in zip(plain, made, strict=True):
        assert all(map(np.array_equal, a["boxes"], b["boxes"])) and all(map(np.array_equal, a["labels"], b["labels"]))
    assert len({len(x) for _, b in made for x in b["boxes"]}) > 1


def test_a_function_on_boxes_that_were_moved(shard):
    lead = stoker.from_("jpg").image().random_resized_crop(24).hflip().to("u8")
    plain = all_of(shard, {"x": lead, "boxes": numbers().like("x")}, collate={"boxes": "list"})
    made = all_of(shard, {"x": lead, "boxes": numbers().like("x").call(shifted).call(fewer)}, collate={"boxes": "list"}, num_workers=2)
    for (_, a), (_, b) in zip(plain, made, strict=True):
        assert all(np.array_equal(fewer(shifted(x)), y) for x, y in zip(a["boxes"], b["boxes"], strict=True))


def test_iou_crop_with_boxes_of_a_function(shard):
    lead = stoker.from_("jpg").image().iou_crop("boxes").resize((24, 24)).to("u8")
    boxes = stoker.from_("json").json().call(boxes_of, dtype="f32", shape=(-1, 4))
    made = check_ways(shard, {"x": lead, "boxes": boxes.like("x")}, collate={"boxes": "list"})
    plain = all_of(shard, {"x": lead, "boxes": numbers().like("x")}, collate={"boxes": "list"})
    for (_, a), (_, b) in zip(plain, made, strict=True):
        assert np.array_equal(a["x"], b["x"]) and all(map(np.array_equal, a["boxes"], b["boxes"]))


def test_boxes_of_a_mask(shard):
    lead = stoker.from_("jpg").image().resize((40, 40)).hflip(1).to("u8")
    mask = stoker.from_("index.png").image(mode="index")
    made = all_of(shard, {"x": lead, "boxes": mask.call(mask_boxes, dtype="f32", shape=(-1, 4)).like("x")},
                  collate={"boxes": "list"}, num_workers=2)
    plain = all_of(shard, {"x": lead, "boxes": numbers().like("x")}, collate={"boxes": "list"})
    singles = 0
    for (_, a), (_, b) in zip(plain, made, strict=True):
        for x, y in zip(a["boxes"], b["boxes"], strict=True):
            if len(x) == 1:                             # others may hide each other in the mask
                singles += 1
                assert np.array_equal(x, y)
    assert singles >= 20


def test_what_does_not_go_together(shard):
    with pytest.raises(ValueError, match="resize can't stand before it"):
        image().resize((8, 8)).call(invert).like("x")
    with pytest.raises(ValueError, match="put it before call"):
        image().call(invert).iou_crop("b")
    with stoker.Loader(shard, {"x": image().resize((8, 8)), "m": image().call(larger).like("x")}, batch_size=1, num_workers=0) as loader, \
            pytest.raises(ValueError, match="before like.* give that size back"):
        next(iter(loader))
