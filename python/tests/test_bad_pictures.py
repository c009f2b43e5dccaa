# SPDX-License-Identifier: Apache-2.0
"""Odd input for every op on pictures that there is: a new op must be named here, or a test fails."""

import io
import json

import numpy as np
import pytest
from conftest import as_numpy, write_tar
from PIL import Image
from test_augment import OPS

import stoker

GEOMETRY = ["resize(9)", "resize((5, 7), interpolation=bicubic)", "resize(9, interpolation=lanczos)", "resize(6, interpolation=nearest)",
            "center_crop(4)", "random_resized_crop(8)", "hflip(1)", "vflip(1)", "pad(3)", "pad(2, padding_mode=edge)",
            "random_crop(6, pad_if_needed=true)", "letterbox(12)", "scale_jitter(10)", "random_shortest_size((3, 4))", "zoom_out((1, 2), p=1)",
            "rotate(90)", "affine(45, translate=(0.5, 0.5), scale=(0.5, 2), shear=20)", "perspective(1, p=1)", "views(2) | resize((3, 3))",
            "five_crop(1)", "ten_crop(1)", "resize_to_patches(2, max_patches=16)", "random_resized_crop_to_patches(2, max_patches=16)",
            "resize((9, 9)) | resize_to_bucket(area=4096, step=16)", "resize((8, 8)) | patches(4)", "normalize(imagenet)", "to(f16)"]
NOT_OF_PICTURES = {"call", "iou_crop", "like", "one_hot", "multi_hot", "truncate", "pack",
                   "part", "random_part", "resample", "speed", "gain", "pad_to", "normalize_peak", "preemphasis", "fbank", "log_mel",
                   "mfcc", "spectrogram", "spec_augment", "noise", "reverb", "image_tokens"}
STEPS = {name: args for name, _, args in stoker.chains.steps}
SMALL = {"views", "five_crop", "ten_crop"}


def names_in(chains):
    return {name for name in STEPS for chain in chains if f"{name}(" in chain or chain == name}


def test_every_op_is_here():
    ops = {name for name, *_ in stoker.chains.steps} - set(stoker.chains.codecs)
    assert ops - NOT_OF_PICTURES == (names_in([*OPS, *GEOMETRY]) - set(stoker.chains.codecs) - NOT_OF_PICTURES)


@pytest.fixture(scope="module")
def thin(tmp_path_factory):
    files = []
    for i, (h, w) in enumerate(((1, 1), (1, 5000), (5000, 1), (2, 3))):
        out = io.BytesIO()
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (h, w, 3), dtype=np.uint8)).save(out, "PNG")
        files.append((f"{i}.png", out.getvalue()))
    return write_tar(tmp_path_factory.mktemp("thin") / "thin.tar", files)


@pytest.mark.asan
@pytest.mark.parametrize("op", GEOMETRY)
def test_one_pixel_and_one_row(thin, op):
    with stoker.Loader(thin, {"x": f"from(png) | image | {op}"}, batch_size=1, collate="list") as loader:
        rows = [as_numpy(batch["x"][0]) for batch in loader]
    assert len(rows) == 4 and all(r.size for r in rows)


NUMBERS = [(name, arg) for name, args in STEPS.items() if name in names_in([*OPS, *GEOMETRY]) for arg, kind, *_ in args
           if kind in ("float", "floats", "int", "ints")]


def check_number(name, arg, value):
    others = [f"{a}=4" for a, kind, usual, *_ in STEPS[name] if usual is None and a != arg and "int" in kind]
    others += [f"{a}=1" for a, kind, usual, *_ in STEPS[name] if usual is None and a != arg and "float" in kind]
    chain = f"{name}({', '.join([*others, f'{arg}={value}'])})"
    try:
        made = stoker.Transform(f"{chain} | resize((4, 4))" if name not in ("normalize", "to") else chain, layout="hwc")
        if name not in SMALL:
            assert as_numpy(made(np.full((1, 5, 6, 3), 100, np.uint8))).size
        said = None
    except stoker.StokerError as e:
        said = str(e)
    if value in ("nan", "inf"):
        assert said is not None, chain
    assert said is None or ("\n" not in said and name in said), said


@pytest.mark.parametrize(("name", "arg"), NUMBERS)
def test_numbers_that_are_none_or_out_of_range(name, arg):
    """One line that names the op; or, of a value that means something, a picture."""
    for value in ("nan", "inf", "-1e30", "1e30"):
        check_number(name, arg, value)


def boxes_of(tmp_path, boxes, like="like(image)", chain="random_resized_crop(16) | hflip"):
    out = io.BytesIO()
    Image.new("RGB", (40, 30)).save(out, "PNG")
    note = json.dumps({"b": boxes, "l": list(range(len(boxes)))}).encode()
    shard = write_tar(tmp_path / "boxes.tar", [("a.png", out.getvalue()), ("a.json", note)])
    fields = {"image": f"from(png) | image | {chain} | to(u8)", "b": f"from(json) | json(b) | floats(shape=(-1, 4)) | {like}",
              "l": "from(json) | json(l) | ints | like(b)"}
    with stoker.Loader(shard, fields, batch_size=1) as loader:
        batch = next(iter(loader))
        return as_numpy(batch["b"][0]), as_numpy(batch["l"][0])


def test_no_boxes(tmp_path):
    boxes, labels = boxes_of(tmp_path, [])
    assert boxes.shape == (0, 4) and labels.shape == (0,)


def test_boxes_without_area_and_outside(tmp_path):
    """Dropped, with their labels; what reaches out is cut off."""
    given = [[5, 5, 5, 20], [3, 7, 30, 7], [100, 100, 120, 130], [-50, -50, -10, -10], [-20, -10, 500, 400], [2, 2, 39, 29]]
    boxes, labels = boxes_of(tmp_path, given, chain="resize((30, 40))")
    assert labels.tolist() == [4, 5] and boxes.tolist() == [[0, 0, 40, 30], [2, 2, 39, 29]]


@pytest.mark.parametrize("bad", [float("nan"), 1e300])
def test_boxes_that_are_no_numbers(tmp_path, bad):
    with pytest.raises(stoker.StokerError) as raised:
        boxes_of(tmp_path, [[1, 2, 3, 4], [1, bad, 5, 6]])
    assert "\n" not in str(raised.value)
