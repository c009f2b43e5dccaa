# SPDX-License-Identifier: Apache-2.0
"""Masks, boxes and keypoints that follow a picture: what explain() says that the picture drew, done again in NumPy."""

import io
import json
import os

import numpy as np
import pytest
from conftest import as_numpy, write_tar
from PIL import Image

import stoker

ROUNDS = int(os.environ.get("STOKER_PAIRS", "1"))       # 24 pictures for each chain; 10,000 and more with 110
CROP = "random_resized_crop((40, 48), scale=(0.2, 1)) | hflip | vflip(0.3)"
CHAINS = [CROP, "zoom_out((1, 3), p=0.8)", "resize((50, 70)) | random_crop(44, padding=6) | hflip", "letterbox((64, 60))",
          "resize((50, 50)) | pad(5) | resize((31, 33)) | hflip(1)"]


def encoded(picture, kind="PNG", **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def made(folder, n=24, seed=0, exif=False):
    """Pictures whose red is their mask; boxes, labels and keypoints in JSON."""
    rng = np.random.default_rng(seed)
    files, truth = [], []
    for i in range(n):
        w, h = (int(v) for v in rng.integers(8, 120, 2))
        mask = np.kron(rng.integers(0, 200, (h // 8 + 1, w // 8 + 1)), np.ones((8, 8)))[:h, :w].astype(np.uint8)
        colors = rng.integers(0, 256, (256, 3), np.uint8)
        indexed = Image.fromarray(mask, "P")
        indexed.putpalette(colors.tobytes())
        picture = Image.fromarray(np.stack([mask, mask // 2, 255 - mask], -1))
        count = int(rng.integers(0, 12))
        corner, size = rng.uniform(-5, [w, h], (count, 2)), rng.uniform(0.5, [w, h], (count, 2))
        boxes = np.concatenate([corner, corner + size], 1).astype(np.float32)
        points = np.concatenate([rng.uniform(0, [w, h], (5, 2)), np.full((5, 1), 2)], 1).astype(np.float32)
        options = {"exif": exif_of(1 + i % 8)} if exif else {}
        note = {"boxes": boxes.tolist(), "labels": list(range(count)), "points": points.tolist()}
        files += [(f"{i:04d}.pic.png", encoded(picture, **options)), (f"{i:04d}.mask.png", encoded(indexed)),
                  (f"{i:04d}.json", json.dumps(note).encode())]
        truth.append((mask, boxes, points))
    return write_tar(folder / f"pairs{seed}{exif}.tar", files), truth


def exif_of(turn):
    data = Image.Exif()
    data[0x0112] = turn
    return data


def fields(chain, head="image", boxes="like(image)", points="like(image, points=true, flip_idx='0 2 1 4 3')"):
    return {"labels": "from(json) | json(labels) | ints | like(boxes)",
            "boxes": f"from(json) | json(boxes) | floats(shape=(-1, 4)) | {boxes}",
            "mask": "from(mask.png) | image(mode=index) | like(image) | to(i64)",
            "points": f"from(json) | json(points) | floats(shape=(-1, 3)) | {points}",
            "image": f"from(pic.png) | {head} | {chain} | to(u8)"}


def rows(shard, chains, **options):
    with stoker.Loader(shard, chains, batch_size=1, **options) as loader:
        return [{name: as_numpy(batch[name][0]).copy() for name in chains} for batch in loader]


def moved(step, xy):
    """Places of the picture, as one view shows them."""
    (x, y, w, h), (rw, rh), (vx, vy, vw, vh) = step.clip, step.resized, step.window
    out = (xy - [x, y]) * [rw / w, rh / h] - [vx, vy]
    if step.mirrored:
        out[..., 0] = vw - out[..., 0]
    if step.flipped:
        out[..., 1] = vh - out[..., 1]
    return out


LEADS = [CROP, *CHAINS[1:], "resize((40, 40), interpolation=bicubic)", "resize(33, interpolation=lanczos) | center_crop(33)", "resize((20, 50), interpolation=nearest)",
         "resize((30, 31), interpolation=bicubic, antialias=false)", "random_resized_crop(32, interpolation=bicubic)", "letterbox((64, 60), fill=(9, 99, 200))",
         "scale_jitter((40, 48), scale=(0.5, 2), interpolation=bicubic)", "zoom_out((1, 3), p=1, fill=(1, 2, 3))", "pad((3, 4, 5, 6), fill=(250, 10, 30))",
         "pad(4, padding_mode=reflect)", "random_crop((12, 14), padding=9, fill=77, pad_if_needed=true)", "rotate(30)", "rotate(30, interpolation=bilinear, fill=(7, 80, 200))",
         "affine(20, translate=(0.1, 0.1), scale=(0.5, 1.5), shear=10)", "affine(20, interpolation=bilinear, fill=9)", "perspective(p=1)",
         "perspective(p=1, interpolation=nearest, fill=200)", "resize((40, 44)) | rotate(10) | resize((30, 20), interpolation=bicubic) | hflip",
         "one_of(rotate(40), affine(10, interpolation=bilinear), hflip(1)) | resize((31, 31))", "random_apply(rotate(20, fill=3), p=0.5) | hflip"]


@pytest.mark.parametrize("lead", LEADS)
def test_a_picture_follows_its_leaders_filter_and_fill(tmp_path, lead):
    """The same file beside its leader has the leader's pixels: whatever the filters and the fills of its ops are; of masks nearest and 0."""
    shard, _ = made(tmp_path, 12, 3)
    chains = {"image": f"from(pic.png) | image | {lead} | to(u8)", "same": "from(pic.png) | image | like(image) | to(u8)", "again": "from(pic.png) | image | like(same)",
              "gray": "from(pic.png) | image(mode=gray) | like(image)", "dim": "from(pic.png) | image(mode=gray) | like(gray)", "mask": "from(mask.png) | image(mode=index) | like(image)",
              "near": "from(pic.png) | image | like(image, interpolation=nearest, fill=0)", "red": "from(mask.png) | image(mode=index) | like(near, fill=0)"}
    differ = 0
    for row in rows(shard, chains, seed=5):
        np.testing.assert_array_equal(row["same"], row["image"])
        np.testing.assert_array_equal(row["again"], row["image"])
        np.testing.assert_array_equal(row["mask"], row["near"][0])         # a picture's red is its mask
        np.testing.assert_array_equal(row["red"], row["mask"])
        differ += not np.array_equal(row["near"], row["image"])
        np.testing.assert_array_equal(row["dim"], row["gray"])
        if lead in ("rotate(30)", "resize((20, 50), interpolation=nearest)", "pad(4, padding_mode=reflect)"):  # gray of what moved is what moved of gray
            want = np.asarray(Image.fromarray(np.moveaxis(row["image"], 0, -1)).convert("L"))
            np.testing.assert_array_equal(row["gray"][0], want)
    if "bi" in lead or "lanczos" in lead or "perspective" in lead:
        assert differ                                                      # interpolation= says otherwise, and is heard


def test_a_follower_of_a_follower_has_what_that_one_says(tmp_path):
    shard, _ = made(tmp_path, 6, 4)
    for row in rows(shard, {"image": "from(pic.png) | image | resize((40, 30)) | rotate(20, fill=90)",
                            "a": "from(pic.png) | image | like(image, interpolation=nearest, fill=(1, 2, 3))", "b": "from(pic.png) | image | like(a)",
                            "mask": "from(mask.png) | image(mode=index) | like(image)", "c": "from(pic.png) | image | like(mask)"}):
        np.testing.assert_array_equal(row["b"], row["a"])
        np.testing.assert_array_equal(row["c"], row["image"])
        assert not np.array_equal(row["a"], row["image"])


def test_views_and_functions_follow_the_filter_too(tmp_path):
    shard, _ = made(tmp_path, 6, 5)
    def plain(picture):
        return picture
    lead = "views(2) | random_resized_crop(24, interpolation=bicubic) | rotate(20, fill=60)"
    for row in rows(shard, {"image": f"from(pic.png) | image | {lead}", "same": "from(pic.png) | image | like(image)"}):
        np.testing.assert_array_equal(row["same"], row["image"])
    chains = {"image": stoker.from_("pic.png").image().resize((30, 40), interpolation="bicubic").call(plain).rotate(20, fill=60),
              "same": stoker.from_("pic.png").image().call(plain).like("image")}
    for row in rows(shard, chains):
        np.testing.assert_array_equal(row["same"], row["image"])


@pytest.mark.parametrize("chain", CHAINS[:4])
def test_boxes_and_points_go_where_the_pixels_go(tmp_path, chain):
    for seed in range(ROUNDS):
        shard, truth = made(tmp_path, seed=seed)
        print("seed", seed)
        with stoker.Loader(shard, fields(chain), batch_size=1, seed=seed) as loader:
            found = [{name: as_numpy(batch[name][0]).copy() for name in fields(chain)} for batch in loader]
            steps = [loader.explain(i, 0).outputs["image"][-1] for i in range(len(truth))]
        for row, step, (_, boxes, points) in zip(found, steps, truth, strict=True):
            vw, vh = step.window[2:]
            corners = moved(step, boxes.reshape(-1, 2, 2).astype(float))
            want = np.concatenate([corners.min(1), corners.max(1)], 1)
            want = np.clip(want, 0, [vw, vh, vw, vh])
            size = want[:, 2:] - want[:, :2]
            keep = (size >= 1).all(1) & (size.prod(1) >= 1)
            sure = (np.abs(size - 1) > 1e-3).all(1) & (np.abs(size.prod(1) - 1) > 1e-3)
            assert set(np.flatnonzero(keep & sure)) <= set(row["labels"].tolist()) <= set(np.flatnonzero(keep | ~sure))
            assert row["boxes"].shape == (len(row["labels"]), 4)
            assert np.allclose(row["boxes"], want[row["labels"]], atol=1e-3)
            there = moved(step, points[:, :2].astype(float))
            seen = ((there >= 0) & (there < [vw, vh])).all(1) * 2.0
            order = [0, 2, 1, 4, 3] if step.mirrored != step.flipped else range(5)
            assert np.allclose(row["points"], np.concatenate([there, seen[:, None]], 1)[order], atol=1e-3)


@pytest.mark.parametrize("chain", [*CHAINS, f"color_jitter(0.5, 0.5, 0.5, 0.1) | {CROP} | grayscale(p=0.5)", "rotate(40)",
                                   "resize((40, 40)) | affine(30, translate=(0.1, 0.2), scale=(0.5, 2), shear=10) | hflip"])
def test_a_mask_fits_its_picture(tmp_path, chain):
    """Sampled by nearest, a picture's red is its mask; ops that change pixels leave the mask alone."""
    both = {"mask": "from(mask.png) | image(mode=index) | like(image) | to(i64)",
            "red": "from(pic.png) | image | like(image, interpolation=nearest, fill=0) | to(u8)",
            "gray": "from(mask.png) | image(mode=gray) | like(image) | to(f32)",
            "image": f"from(pic.png) | image | {chain} | to(u8)"}
    for seed in range(5, 5 + ROUNDS):
        shard, _ = made(tmp_path, seed=seed)
        print("seed", seed)
        for row in rows(shard, both, seed=2):
            assert row["mask"].dtype == np.int64 and row["mask"].shape == row["red"].shape[1:] == row["image"].shape[1:]
            assert np.array_equal(row["mask"], row["red"][0])
            assert row["gray"].shape == (1, *row["mask"].shape) and 0 <= row["gray"].min() <= row["gray"].max() <= 1


def test_numbers_follow_a_view_each(tmp_path):
    """A box is where its rectangle is in the mask of that view, and its corners, as points, are there too."""
    rng, files = np.random.default_rng(8), []
    for i in range(40):
        w, h = (int(v) for v in rng.integers(40, 120, 2))
        x0, y0 = (int(v) for v in rng.integers(2, [w - 12, h - 12]))
        x1, y1 = x0 + int(rng.integers(8, w - x0 - 1)), y0 + int(rng.integers(8, h - y0 - 1))
        mask = np.zeros((h, w), np.uint8)
        mask[y0:y1, x0:x1] = 9
        note = {"boxes": [[x0, y0, x1, y1]], "labels": [i], "points": [[x0, y0], [x1, y1]]}
        files += [(f"{i:03d}.png", encoded(Image.fromarray(mask))), (f"{i:03d}.json", json.dumps(note).encode())]
    shard = write_tar(tmp_path / "views.tar", files)
    chains = {"image": "from(png) | image | views(3) | random_resized_crop((40, 48), scale=(0.2, 1)) | hflip | vflip(0.3) | to(u8)",
              "mask": "from(png) | image(mode=index) | like(image)"}
    for k in range(3):
        chains[f"boxes{k}"] = f"from(json) | json(boxes) | floats(shape=(-1, 4)) | like(image, view={k})"
        chains[f"labels{k}"] = f"from(json) | json(labels) | ints | like(boxes{k})"
        chains[f"points{k}"] = f"from(json) | json(points) | floats(shape=(2, 2)) | like(mask, points=true, view={k})"
    there = gone = 0
    for row in rows(shard, chains, seed=6):
        assert row["mask"].shape == (3, 40, 48)
        for k in range(3):
            ys, xs = np.nonzero(row["mask"][k])
            assert len(row[f"boxes{k}"]) == len(row[f"labels{k}"])
            if not len(row[f"boxes{k}"]):
                gone += 1
                assert len(xs) == 0 or min(np.ptp(xs), np.ptp(ys)) <= 1
                continue
            there += 1
            x0, y0, x1, y1 = row[f"boxes{k}"][0]
            assert np.abs([xs.min() - x0, ys.min() - y0, xs.max() + 1 - x1, ys.max() + 1 - y1]).max() < 1.01
            corners = row[f"points{k}"]
            inside = np.concatenate([corners.min(0), corners.max(0)]).clip(0, [48, 40, 48, 40])
            assert np.allclose(inside, row[f"boxes{k}"][0], atol=1e-3)
    assert there > 60 and gone > 5


def boxed(path, n, boxes_of):
    """n pictures of 100x100 with boxes, labels, and a keypoint at each box's first corner."""
    files = []
    for i in range(n):
        boxes = np.array(boxes_of(i))
        note = {"boxes": boxes.tolist(), "labels": list(range(len(boxes))), "points": [[x, y, 2] for x, y in boxes[:, :2].tolist()]}
        files += [(f"{i:03d}.pic.png", encoded(Image.new("RGB", (100, 100)))), (f"{i:03d}.json", json.dumps(note).encode())]
    return write_tar(path, files)


def numbers(shard, chain):
    chains = fields(chain, points="like(image, points=true)")
    chains.pop("mask")
    return rows(shard, chains, seed=5)


@pytest.mark.parametrize(("crop", "pad"), [("center_crop(50)", "pad(20)"), ("random_crop((40, 50))", "letterbox((64, 90))"),
                                           ("random_resized_crop(48, scale=(0.1, 0.4))", "pad((9, 0, 30, 4))"), ("center_crop((50, 140))", "pad(7)")])
def test_what_a_crop_took_does_not_come_back(tmp_path, crop, pad):
    """Crop and padding are one view; with an op on pixels between them they are two."""
    rng = np.random.default_rng(3)

    def some(i):
        corner = rng.uniform(0, 80, (12, 2))
        return np.concatenate([corner, corner + rng.uniform(2, 20, (12, 2))], 1)

    shard = boxed(tmp_path / "crops.tar", 20, some)
    one, two = numbers(shard, f"{crop} | {pad}"), numbers(shard, f"{crop} | brightness((1, 1)) | {pad}")
    for a, b in zip(one, two, strict=True):
        assert all(a[name].shape == b[name].shape and np.allclose(a[name], b[name], atol=1e-3) for name in ("boxes", "labels", "points"))
    assert sum((row["points"][:, 2] == 0).sum() for row in one) > 60 < sum(12 - len(row["labels"]) for row in one)


def test_a_crop_and_padding_as_torchvision_has_it(tmp_path):
    row = numbers(boxed(tmp_path / "one.tar", 1, lambda i: [[10, 10, 60, 60], [30, 30, 40, 40], [0, 40, 22, 60], [26, 70, 90, 90]]), "center_crop(50) | pad(20)")[0]
    assert row["boxes"].tolist() == [[20, 20, 55, 55], [25, 25, 35, 35], [21, 65, 70, 70]] and row["labels"].tolist() == [0, 1, 3]
    assert row["points"].tolist() == [[5, 5, 0], [25, 25, 2], [-5, 35, 0], [21, 65, 2]]


@pytest.mark.parametrize(("boxes", "labels", "want"), [
    ("like(image)", "like(boxes)", [1, 3, 4]), ("like(image) | truncate(2)", "like(boxes)", [1, 3]), ("like(image) | truncate(2, keep=last)", "like(boxes)", [3, 4]),
    ("like(image) | truncate(2)", "like(boxes) | truncate(1) | to(i32)", [1]), ("truncate(4) | like(image)", "truncate(4) | like(boxes)", [1, 3]),
    ("truncate(4) | like(image) | to(f64)", "truncate(4) | like(boxes)", [1, 3]), ("like(image) | truncate(9)", "like(boxes)", [1, 3, 4])])
def test_truncate_before_and_after(tmp_path, boxes, labels, want):
    """After like() it counts what is left, and lists follow."""
    shard = boxed(tmp_path / "t.tar", 2, lambda i: [[0, 0, 9, 9], [30, 30, 40, 40], [90, 0, 99, 9], [30, 50, 40, 60], [50, 50, 60, 60]])
    chains = {"image": "from(pic.png) | image | center_crop(50)", "boxes": f"from(json) | json(boxes) | floats(shape=(-1, 4)) | {boxes}",
              "labels": f"from(json) | json(labels) | ints | {labels}"}
    for row in rows(shard, chains):
        assert row["labels"].tolist() == want
        assert len(row["boxes"]) == len(want) or "truncate(1)" in labels


def test_a_palette_as_mask_and_as_picture(tmp_path):
    shard, truth = made(tmp_path, n=6, seed=7)
    chains = {"image": "from(mask.png) | image | to(u8, hwc)", "mask": "from(mask.png) | image(mode=index)",
              "gray": "from(mask.png) | image(mode=gray)"}
    data = stoker.open(shard)
    for i, (row, (mask, _, _)) in enumerate(zip(rows(shard, chains), truth, strict=True)):
        opened = Image.open(io.BytesIO(data[i]["mask.png"]))
        assert row["mask"].dtype == np.uint8 and np.array_equal(row["mask"], mask)
        assert np.array_equal(row["image"], np.asarray(opened.convert("RGB")))
        assert np.array_equal(row["gray"][0], np.asarray(opened.convert("RGB").convert("L")))


def test_exif_turns_move_them_too(tmp_path):
    """Annotations belong to the picture as it is stored; turned upright they still fit it."""
    shard, truth = made(tmp_path, n=16, seed=9, exif=True)
    upright, plain = fields("hflip(0)", "image(exif=true)"), fields("hflip(0)")
    for i, (a, b) in enumerate(zip(rows(shard, upright), rows(shard, plain), strict=True)):
        assert np.array_equal(a["mask"], a["image"][0]) and np.array_equal(b["mask"], b["image"][0])
        assert (a["mask"].shape == b["mask"].shape) == (i % 8 < 4 or b["mask"].shape[0] == b["mask"].shape[1])
        h, w = a["mask"].shape
        for (x, y, _), (px, py, _) in zip(a["points"], b["points"], strict=True):
            if x < w and y < h:
                assert a["mask"][int(y), int(x)] == b["mask"][int(py), int(px)] or min(x % 1, y % 1) < 1e-3


@pytest.mark.parametrize("form", ["xyxy", "xywh", "cxcywh"])
@pytest.mark.parametrize("normalized", ["false", "true"])
def test_formats_say_the_same(tmp_path, form, normalized):
    shard, truth = made(tmp_path, seed=11)
    files = []
    for i, (mask, boxes, _) in enumerate(truth):
        v = boxes.copy()
        if form != "xyxy":
            v[:, 2:] -= v[:, :2]
        if form == "cxcywh":
            v[:, :2] += v[:, 2:] / 2
        if normalized == "true":
            v /= np.array(mask.shape[::-1] * 2, np.float32)
        files += [(f"{i:04d}.png", encoded(Image.fromarray(mask))), (f"{i:04d}.json", json.dumps(v.tolist()).encode())]
    other = write_tar(tmp_path / "other.tar", files)
    got = rows(other, {"image": f"from(png) | image | {CROP}",
                       "boxes": f"from(json) | floats(shape=(-1, 4)) | like(image, format={form}, normalized={normalized})"}, seed=4)
    want = rows(other, {"image": f"from(png) | image | {CROP}", "boxes": "from(json) | floats(shape=(-1, 4))"}, seed=4)
    plain = rows(shard, {"image": f"from(pic.png) | image | {CROP}",
                         "boxes": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(image)"}, seed=4)
    assert len(want) == len(got)
    for a, b in zip(got, plain, strict=True):
        v = a["boxes"] * np.array([48, 40, 48, 40]) if normalized == "true" else a["boxes"].copy()
        if form == "cxcywh":
            v[:, :2] -= v[:, 2:] / 2
        if form != "xyxy":
            v[:, 2:] += v[:, :2]
        assert abs(len(v) - len(b["boxes"])) <= 1       # a box of just one pixel
        assert len(v) != len(b["boxes"]) or np.allclose(v, b["boxes"], atol=0.02)


def test_two_that_draw_apart_are_told_of_once(tmp_path, caplog):
    shard, _ = made(tmp_path, n=4)
    two = {"image": f"from(pic.png) | image | {CROP}", "mask": f"from(mask.png) | image(mode=index) | {CROP}"}
    rows(shard, two)
    assert sum("outputs image and mask draw their geometry apart" in line for line in caplog.messages) == 1
    caplog.clear()
    rows(shard, fields(CROP))
    assert not [line for line in caplog.messages if "apart" in line]


def lines_of(caplog, shard, image, mask):
    caplog.clear()
    rows(shard, {"image": f"from(pic.png) | image | {image}", "mask": f"from(mask.png) | {mask}"})
    return [line for line in caplog.messages if "like(image) in the chain of mask" in line]


def test_what_chance_leaves_alone_is_not_told_of(tmp_path, caplog):
    shard, _ = made(tmp_path, n=4)
    for fixed in ("letterbox(64)", "pad(3)", "rotate((30, 30))", "resize((20, 20)) | hflip(1) | vflip(0)", "color_jitter(0.4) | resize((20, 20)) | random_erasing(1)"):
        assert not lines_of(caplog, shard, fixed, f"image | {fixed}"), fixed
    for drawn in ("rotate(30)", "resize((20, 20)) | random_apply(hflip(1), p=0.5)", "resize((20, 20)) | rand_augment", "zoom_out"):
        assert len(lines_of(caplog, shard, drawn, f"image | {drawn}")) == 1, drawn


def test_a_mask_that_does_not_follow_is_told_of(tmp_path, caplog):
    shard, _ = made(tmp_path, n=4)
    for mask in ("image(mode=index)", "image(mode=index) | resize((40, 48))"):
        assert lines_of(caplog, shard, CROP, mask) == ["output image draws its geometry and the mask mask does not follow it: write like(image) in the chain of mask"]
    assert not lines_of(caplog, shard, "resize((40, 48))", "image(mode=index)")


def test_pack_tells_of_it_too(tmp_path, caplog):
    shard, _ = made(tmp_path, n=4)
    stoker.pack(str(shard), str(tmp_path / "out"), fields={"image.png": f"from(pic.png) | image | {CROP} | encode(png)",
                                                           "mask.png": f"from(mask.png) | image | {CROP} | encode(png)"})
    assert sum("outputs image.png and mask.png draw their geometry apart" in line for line in caplog.messages) == 1


@pytest.mark.parametrize(("chains", "says"), [
    ({"image": "from(pic.png) | image | like(image)"}, "output image: like(image) names itself"),
    ({"a": "from(pic.png) | image | like(b)", "b": "from(pic.png) | image | like(a)"}, "like leads back to itself"),
    ({"a": "from(pic.png) | image | like(nobody)"}, "output a: like(nobody) names no output"),
    ({"a": "from(pic.png) | image", "b": "from(mask.png) | image | like(a) | hflip"}, "hflip comes after `like`"),
    ({"a": "from(pic.png) | image", "b": "from(mask.png) | image | hflip | resize(9) | like(a)"}, "it stands right after image"),
    ({"a": "from(pic.png) | image", "b": "from(mask.png) | image(mode=index) | like(a, interpolation=bilinear)"},
     "indices have no values between them"),
    ({"a": "from(pic.png) | image", "b": "from(pic.png) | image | like(a, antialias=false)"}, "like: antialias goes with interpolation="),
    ({"a": "from(pic.png) | image", "b": "from(json) | json(boxes) | floats(shape=(2, 4)) | like(a)"}, "like drops boxes"),
    ({"a": "from(pic.png) | image", "b": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(a, format=yx)"},
     "like: format is xyxy, xywh or cxcywh, not yx"),
    ({"a": "from(pic.png) | image", "b": "from(json) | json(points) | floats(shape=(-1, 3)) | like(a, points=true, flip_idx='0 0')"},
     "flip_idx must have each of 0..1 once"),
    ({"a": "from(json) | json(labels) | ints", "b": "from(json) | json(labels) | ints | like(a)"},
     "like names an output that is neither a picture nor boxes"),
    ({"a": "from(pic.png) | image | views(2) | resize((8, 8))", "b": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(a)"},
     "like: the picture has 2 views: say which one these numbers follow, in an output each: like(..., view=0)"),
    ({"a": "from(pic.png) | image | views(2) | resize((8, 8))", "b": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(a, view=2)"},
     "like: view=2: the picture has 2, counted from 0"),
    ({"a": "from(pic.png) | image", "b": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(a, view=1)"},
     "like: view=1: the picture has 1, counted from 0"),
    ({"a": "from(pic.png) | image | views(2) | resize((8, 8))", "b": "from(mask.png) | image(mode=index) | like(a, view=1)"},
     "like: view is for numbers; a mask follows all views"),
    ({"a": "from(pic.png) | image", "b": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(a)",
      "c": "from(json) | json(labels) | ints | like(b, view=0)"}, "a list follows the view of its boxes"),
    ({"a": "from(pic.png) | image(mode=color)"}, "image: mode is rgb, gray, gray16 or index, not color"),
    ({"a": "from(pic.png) | image(mode=index)"}, "image(mode=index): the PNG has no palette and is not gray of 8 bits")])
def test_one_line_each(tmp_path, chains, says):
    shard, _ = made(tmp_path, n=3)
    with pytest.raises(stoker.StokerError) as raised:
        rows(shard, chains)
    assert says in str(raised.value) and "\n" not in str(raised.value)


def test_bad_annotations(tmp_path):
    picture = encoded(Image.new("RGB", (20, 10)))
    for i, (note, says) in enumerate((([[5, 5, 1, 9]], "like: box 0 is (5, 5, 1, 9): its sides are negative"),
                       ([[1, 2, 3, 1e20]], "like: box 0 is"), ([[1, 2, 3]], "4"))):
        shard = write_tar(tmp_path / f"bad{i}.tar", [("a.png", picture), ("a.json", json.dumps(note).encode())])
        with pytest.raises(stoker.StokerError, match=says.replace("(", "\\(").replace(")", "\\)")):
            rows(shard, {"image": "from(png) | image", "b": "from(json) | floats(shape=(-1, 4)) | like(image)"})
    small = encoded(Image.new("P", (19, 10)))
    shard = write_tar(tmp_path / "size.tar", [("a.pic.png", picture), ("a.mask.png", small)])
    with pytest.raises(stoker.StokerError, match="output mask is like\\(image\\), but is 19x10 where that is 20x10"):
        rows(shard, {"mask": "from(mask.png) | image(mode=index) | like(image)", "image": "from(pic.png) | image"})


@pytest.mark.parametrize("like,scale,says", [
    ("like(image, normalized=true)", 1, "of the first {} boxes are outside their pictures: normalized=true takes numbers for shares of the sides; leave it out if they are pixels"),
    ("like(image)", 0, "of the first {} boxes have numbers within 0..1, and are taken for pixels: write like(..., normalized=true)"),
    ("like(image)", 3, "of the first {} boxes are outside their pictures: check format= in like(), and whether they are of pictures of this size"),
    ("like(image)", 1, None), ("like(image, normalized=true)", 0, None), ("like(image, format=xywh)", 1, None),
    ("like(image, points=true)", 0, "of the first {} keypoints have numbers within 0..1"),
    ("like(image, points=true, normalized=true)", 1, "of the first {} keypoints are outside their pictures: normalized=true"), ("like(image, points=true)", 1, None)])
@pytest.mark.parametrize("workers", [0, 2])
def test_numbers_that_are_taken_for_others_are_told(tmp_path, caplog, like, scale, says, workers):
    """Once, with a count, however many outputs and lists follow; nothing is said of sound ones, of which some lie outside."""
    rng, files = np.random.default_rng(6), []
    for i in range(30):
        w, h = (int(v) for v in rng.integers(40, 120, 2))
        at = rng.uniform(0, 0.7, (4, 2))
        boxes = np.concatenate([at, rng.uniform(0.05, 0.3, (4, 2)) + (0 if "xywh" in like else at)], 1)
        boxes[0] = [0, 0, 0.05, 0.05] if i % 3 else [1.2, 1.2, 1.4, 1.4]
        if "points" in like:
            boxes = boxes[:, :2]
        boxes = boxes * (np.resize([w, h], boxes.shape[1]) * scale if scale else 1)
        files += [(f"{i:03d}.png", encoded(Image.new("RGB", (w, h)))), (f"{i:03d}.json", json.dumps({"b": boxes.tolist(), "l": [1, 2, 3, 4]}).encode())]
    columns = 2 if "points" in like else 4
    chains = {"image": "from(png) | image | hflip", "boxes": f"from(json) | json(b) | floats(shape=(-1, {columns})) | {like}"}
    if columns == 4:
        chains["labels"] = "from(json) | json(l) | ints | like(boxes)"
    shard = write_tar(tmp_path / "a.tar", files)
    with caplog.at_level("WARNING"):
        rows(shard, chains, num_workers=workers)
    said = [line for line in caplog.messages if line.startswith("output boxes: ")]
    assert len(said) == (says is not None), said
    if says:
        count, seen = int(said[0].split()[2]), int(said[0].split()[6])
        assert seen >= 8 and seen / 2 < count <= seen and says.format(seen) in said[0]
