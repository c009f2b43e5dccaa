# SPDX-License-Identifier: Apache-2.0
"""iou_crop against torchvision's RandomIoUCrop: windows in distribution, and what becomes of boxes and labels, box by box."""

import io
import json
import os
import tarfile

import numpy as np
import pytest
import tv_oracle
from PIL import Image
from test_torchvision import draws, ks

import stoker

T = tv_oracle.load()
import torch  # noqa: E402  (oracle skips where it is not installed)

tv = pytest.importorskip("torchvision.tv_tensors")


def shard_of(folder, samples, **more):
    """One tar of (size, boxes); the red of a pixel is its column, the green its row."""
    path = folder / "boxes.tar"
    with tarfile.open(path, "w") as tar:
        for i, ((w, h), boxes) in enumerate(samples):
            out = io.BytesIO()
            y, x = np.mgrid[:h, :w]
            Image.fromarray(np.stack([x, y, np.full_like(x, 255)], -1).astype(np.uint8)).save(out, "PNG")
            note = json.dumps({"boxes": np.asarray(boxes).tolist(), "labels": list(range(len(boxes))), **more}).encode()
            for name, data in ((f"{i:05d}.png", out.getvalue()), (f"{i:05d}.json", note)):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


def fields(chain):
    return {"labels": "from(json) | json(labels) | ints | like(boxes)", "image": f"from(png) | image | {chain} | to(u8)",
            "boxes": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(image, min_size=0, min_area=0)",
            "copy": "from(png) | image | like(image) | to(u8)"}


def rows(path, chain, epochs=1, **options):
    with stoker.Loader(path, fields(chain), batch_size=1, collate="list", **options) as loader:
        for _ in range(epochs):
            yield from ({name: np.asarray(batch[name][0]).copy() for name in fields(chain)} for batch in loader)


def windows(found):
    """What part of its picture each is."""
    return np.array([[row["image"][0, 0, 0], row["image"][1, 0, 0], row["image"].shape[2], row["image"].shape[1]] for row in found], int)


def random_boxes(rng, w, h, n):
    corner = rng.uniform(0, [0.8 * w, 0.8 * h], (n, 2))
    return np.concatenate([corner, corner + rng.uniform(2, [w, h], (n, 2))], 1).clip(0, [w, h, w, h]).astype(np.float32)


def test_windows_are_drawn_as_torchvisions(tmp_path):
    n, (w, h), most = draws(800), (90, 70), 800
    boxes = np.array([[5, 5, 50, 40], [30, 20, 85, 66], [70, 3, 80, 12]], np.float32)
    path = shard_of(tmp_path, [((w, h), boxes)] * most)
    here = windows(rows(path, "iou_crop(boxes)", epochs=-(-n // most)))[:n]
    torch.manual_seed(2)
    t, there = T.RandomIoUCrop(), []
    given = [tv.Image(torch.zeros(3, h, w, dtype=torch.uint8)), tv.BoundingBoxes(torch.from_numpy(boxes), format="XYXY", canvas_size=(h, w))]
    for _ in range(n):
        p = t.make_params(given)
        there.append([p["left"], p["top"], p["width"], p["height"]] if p else [0, 0, w, h])
    there = np.array(there)
    assert len(here) == len(there) == n
    for axis in range(4):
        assert ks(here[:, axis], there[:, axis]) < 1, axis


def test_what_is_kept_is_what_torchvision_keeps(tmp_path):
    rng = np.random.default_rng(7)
    sizes = [tuple(int(v) for v in rng.integers(20, 120, 2)) for _ in range(int(os.environ.get("STOKER_BOXED", "250")))]
    samples = [((w, h), random_boxes(rng, w, h, int(rng.integers(0, 9)))) for w, h in sizes]
    path = shard_of(tmp_path, samples)
    found = list(rows(path, "iou_crop(boxes)"))
    seen = 0
    for row, (x, y, w, h), ((pw, ph), boxes) in zip(found, windows(found), samples, strict=True):
        assert np.array_equal(row["image"], row["copy"])
        cropped = T.functional.crop_bounding_boxes(torch.from_numpy(boxes).reshape(-1, 4), tv.BoundingBoxFormat.XYXY, y, x, h, w)[0] \
            if len(boxes) else torch.zeros(0, 4)
        want = T.functional.clamp_bounding_boxes(tv.BoundingBoxes(cropped, format="XYXY", canvas_size=(h, w))).numpy()
        middle = (boxes[:, :2] + boxes[:, 2:]) / 2 if len(boxes) else np.zeros((0, 2))
        inside = ((middle > [x, y]) & (middle < [x + w, y + h])).all(1) if (w, h) != (pw, ph) else np.ones(len(boxes), bool)
        area = (want[:, 2] > want[:, 0]) & (want[:, 3] > want[:, 1])
        keep = np.flatnonzero(inside & area)
        assert row["labels"].tolist() == keep.tolist()
        assert np.allclose(row["boxes"], want[keep], atol=1e-3)
        seen += (w, h) != (pw, ph)
    assert seen > 100


@pytest.mark.parametrize("least", [0.3, 0.7])
def test_a_window_overlaps_enough(tmp_path, least):
    rng = np.random.default_rng(3)
    samples = [((80, 60), random_boxes(rng, 80, 60, 4)) for _ in range(60)]
    path = shard_of(tmp_path, samples)
    for (x, y, w, h), (_, boxes) in zip(windows(rows(path, f"iou_crop(boxes, options=({least}, {least}))")), samples, strict=True):
        if (w, h) == (80, 60):
            continue                            # no window of 64 times 40 did
        low, high = np.maximum(boxes[:, :2], [x, y]), np.minimum(boxes[:, 2:], [x + w, y + h])
        both = (high - low).clip(0).prod(1)
        assert (both / ((boxes[:, 2:] - boxes[:, :2]).prod(1) + w * h - both)).max() >= least - 1e-6


def test_it_sees_what_comes_before_it(tmp_path):
    """After zoom_out and a mirror boxes are elsewhere: still, some box has its middle in the window, and what follows has the same pixels."""
    rng = np.random.default_rng(5)
    path = shard_of(tmp_path, [((60, 50), random_boxes(rng, 60, 50, 3)) for _ in range(80)])
    chain = "zoom_out((2, 4), p=1) | hflip | iou_crop(boxes, options=(0, 0.1)) | resize((40, 40)) | hflip"
    found = list(rows(path, chain))
    kept = [len(row["labels"]) for row in found]
    assert np.mean([k > 0 for k in kept]) > 0.95 and min(row["image"].shape for row in found) == (3, 40, 40)
    for row in found:
        assert np.array_equal(row["image"], row["copy"])


def test_views_have_windows_of_their_own(tmp_path):
    """Each view is where its boxes say: a box's corner in the view is the filed one, scaled; labels are those whose middle is in its window."""
    rng = np.random.default_rng(11)
    samples = [((90, 70), random_boxes(rng, 90, 70, 5)) for _ in range(60)]
    path = shard_of(tmp_path, samples)
    boxes = "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(image, view={}, min_size=0, min_area=0)"
    chains = {"image": "from(png) | image | views(2) | iou_crop(boxes0, options=(0, 0.1)) | resize((60, 60), interpolation=nearest) | to(u8)",
              "boxes1": boxes.format(1), "boxes0": boxes.format(0),
              "labels0": "from(json) | json(labels) | ints | like(boxes0)", "labels1": "from(json) | json(labels) | ints | like(boxes1)"}
    apart = 0
    with stoker.Loader(path, chains, batch_size=1, collate="list") as loader:
        for batch, (_, filed) in zip(loader, samples, strict=True):
            seen = []
            for v in range(2):
                image = np.asarray(batch["image"][0])[v].astype(float)
                (x0, x1), (y0, y1) = (image[0].min(), image[0].max() + 1), (image[1].min(), image[1].max() + 1)
                middle = (filed[:, :2] + filed[:, 2:]) / 2
                inside = ((middle > [x0 + 1.6, y0 + 1.6]) & (middle < [x1 - 1.6, y1 - 1.6])).all(1)        # nearest may miss an edge by a pixel
                outside = ((middle < [x0 - 1.6, y0 - 1.6]) | (middle > [x1 + 1.6, y1 + 1.6])).any(1)
                labels = np.asarray(batch[f"labels{v}"][0]).tolist()
                whole = (x1 - x0, y1 - y0) == (90, 70)
                assert set(np.flatnonzero(inside)) <= set(labels)
                assert whole or not set(np.flatnonzero(outside)) & set(labels)
                want = ((filed[labels] - [x0, y0, x0, y0]) * 60 / [x1 - x0, y1 - y0, x1 - x0, y1 - y0]).clip(0, 60)
                assert np.allclose(np.asarray(batch[f"boxes{v}"][0]).reshape(-1, 4), want, atol=6)
                seen.append((x0, y0, x1, y1))
            apart += seen[0] != seen[1]
    assert apart > 40


def test_another_list_of_boxes_is_not_held_to_these(tmp_path):
    """More boxes than those that iou_crop looks at: they are moved and cut off, each by its own place."""
    rng = np.random.default_rng(13)
    path = shard_of(tmp_path, [((90, 70), random_boxes(rng, 90, 70, 2)) for _ in range(20)], more=[[0, 0, 90, 70]] * 5000)
    many = {**fields("iou_crop(boxes, options=(0, 0.1))"), "more": "from(json) | json(more) | floats(shape=(-1, 4)) | like(image)"}
    with stoker.Loader(path, many, batch_size=1, collate="list") as loader:
        for batch in loader:
            h, w = np.asarray(batch["image"][0]).shape[1:]
            more = np.asarray(batch["more"][0])
            assert more.shape == (5000, 4) and np.array_equal(np.unique(more, axis=0), [[0, 0, w, h]])


@pytest.mark.parametrize(("chains", "says"), [
    ({"image": "from(png) | image | iou_crop(boxes)"}, "output image: iou_crop(boxes) names no output of boxes that are like(image)"),
    ({"image": "from(png) | image | iou_crop(image)"}, "output image: iou_crop(image) names no output of boxes that are like(image)"),
    ({"image": "from(png) | image | iou_crop(b, options=(2, 3))"}, "iou_crop: options=2 is not in 0..1"),
    ({"image": "from(png) | image | iou_crop(b, scale=(0, 1))"}, "iou_crop: scale is (least, most), above 0"),
    ({"image": "from(png) | image | iou_crop(b, trials=0)"}, "iou_crop: trials=0 is not in 1..1000"),
    ({"image": "from(png) | image | views(2) | iou_crop(b) | resize((8, 8))"}, "output image: iou_crop(b) names no output of boxes that are like(image)"),
    ({"image": "from(png) | image | views(2) | iou_crop(b) | resize((8, 8))", "b": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(image)"},
     "the picture has 2 views: say which one these numbers follow")])
def test_one_line_each(tmp_path, chains, says):
    path = shard_of(tmp_path, [((8, 8), [])])
    with pytest.raises(stoker.StokerError) as raised:
        stoker.Loader(path, chains)
    assert says in str(raised.value) and "\n" not in str(raised.value)


def test_a_transform_has_no_boxes():
    with pytest.raises(stoker.StokerError, match="iou_crop works in a loader"):
        stoker.Transform("iou_crop(boxes)")
