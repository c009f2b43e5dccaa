# SPDX-License-Identifier: Apache-2.0
"""loader.explain(): the draws it names make the pixels that the loader gives."""

import io
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
from conftest import SHARDS, as_numpy, write_tar
from PIL import Image

import stoker
from stoker import _explain

FIELDS = {"label": "from(cls) | int",
          "image": "from(jpg) | image(exact=true) | random_resized_crop(32, scale=(0.2, 0.9)) | hflip | to(u8, layout=hwc)"}
OPTIONS = {"batch_size": 8, "shuffle": True, "seed": 11, "collate": "list"}


def originals(data):
    found = {}
    for s in range(SHARDS):
        with tarfile.open(data / f"train-{s:03d}.tar") as tar:
            for m in tar:
                if m.name.endswith(".jpg"):
                    found[m.name[:-4]] = Image.open(io.BytesIO(tar.extractfile(m).read())).convert("RGB")
    return found


def test_the_draws_make_the_pixels(data, urls):
    pictures, mirrored = originals(data), 0
    with stoker.Loader(urls, fields=FIELDS, **OPTIONS) as loader:
        for epoch in range(2):
            position = 0
            for batch in loader:
                for key, i, row in zip(batch.sample_keys, batch.sample_ids, batch["image"]):
                    told = loader.explain(key if position % 2 else int(i), epoch)
                    assert (told.key, told.id, told.epoch, told.position) == (key, int(i), epoch, position)
                    *_, last = steps = told.outputs["image"]
                    assert [s.op.partition("(")[0] for s in steps] == ["picture", "random_resized_crop", "hflip"]
                    x, y, w, h = last.clip
                    want = pictures[key].crop((x, y, x + w, y + h)).resize(last.resized, Image.Resampling.BILINEAR)
                    want = np.asarray(want)[:, ::-1] if last.mirrored else np.asarray(want)
                    assert np.abs(as_numpy(row).astype(int) - want).max() <= 1
                    mirrored += last.mirrored
                    position += 1
            assert position == 100
    assert 50 < mirrored < 150


def test_text(urls):
    with stoker.Loader(urls, fields=FIELDS, **OPTIONS) as loader:
        batch = next(iter(loader))
        state = loader.state_dict()
        text = str(loader.explain(batch.sample_keys[2]))
        assert loader.state_dict() == state
    lines = text.splitlines()
    assert lines[0] == f"{batch.sample_keys[2]}: sample {int(batch.sample_ids[2])}, position 2 of epoch 0"
    assert lines[1] == "image" and lines[2].startswith("    picture: ")
    assert lines[3].startswith("    random_resized_crop(32, scale=(0.2, 0.9)): cut to ")
    assert "resized to 32x32" in lines[3]
    assert lines[4] in ("    hflip: mirrored", "    hflip: as it was")


def test_windows(urls):
    fields = {"image": "from(jpg) | image | resize(40) | center_crop(32)"}
    with stoker.Loader(urls, fields=fields) as loader:
        steps = loader.explain(5).outputs["image"]
    assert steps[1].text == f"resized to {steps[1].resized[0]}x{steps[1].resized[1]}"
    assert steps[2].window[2:] == (32, 32) and "window 32x32 at" in steps[2].text


def test_ranks_share_an_epoch(urls):
    """A position counts over all ranks."""
    with stoker.Loader(urls, fields=FIELDS, rank=1, world_size=2, **OPTIONS) as loader:
        batch = next(iter(loader))
        assert loader.explain(batch.sample_keys[0]).position == 8


def test_without_pictures_and_with_pad(urls):
    with stoker.Loader(urls, fields={"label": "from(cls) | int", "raw": "from(txt) | bytes"}, collate="pad",
                       batch_size=4) as loader:
        assert loader.explain(7).outputs == {}


def test_what_is_refused(urls):
    with stoker.Loader(urls, fields=FIELDS, exclude=["000003"], **OPTIONS) as loader:
        for which, why in [("nobody", "no sample has the key"), (100, "no sample 100"), (-1, "no sample -1"),
                           (1.5, "key or its id"), ("000003", "not in epoch 0"), (3, "not in epoch 0")]:
            with pytest.raises(stoker.StokerError, match=why):
                loader.explain(which)
        assert {loader.explain(i).position for i in range(100) if i != 3} == set(range(99))


def test_a_bad_sample_says_so(damaged):
    with stoker.Loader(damaged, fields=FIELDS, on_error="skip", **OPTIONS) as loader:
        with pytest.raises(stoker.StokerError, match="0007"):
            loader.explain("0007")


def test_two_data_sets(urls, tmp_path):
    other = stoker.open(str(write_tar(tmp_path / "b.tar", [("x.cls", b"1"), ("y.cls", b"2")])))
    with stoker.Loader([stoker.open(urls), other], fields={"label": "from(cls) | int"}) as loader:
        assert loader.explain("y").position == loader.explain("y").id == 101


def test_upside_down(urls):
    """No op of ours turns a picture over, but plug-ins may: the extension says which way it lies."""
    whole = (0, 0, 8, 6), (8, 6), (0, 0, 8, 6)
    drawn = [(0, 0, None, *whole, False, False), (0, 1, "over", *whole, False, True), (0, 2, "hflip", *whole, True, True),
             (0, 3, "over", *whole, True, False)]
    steps = _explain.steps(drawn, [("image", "image | over | hflip | over")])["image"]
    assert [(s.text, s.mirrored, s.flipped) for s in steps[1:]] == [
        ("flipped top to bottom", False, True), ("mirrored", True, True), ("flipped top to bottom", True, False)]
    with stoker.Loader(urls, fields=FIELDS, **OPTIONS) as loader:
        assert [s.flipped for s in loader.explain(3).outputs["image"]] == [False] * 3


def test_which_pictures_workers_make_for_a_gpu():
    """Every op of the library without device code is named, and no other."""
    assert _explain.by_workers("from(png) | image(mode=gray16) | resize(32) | to(f32)", None) == "16-bit pictures have no device code"
    assert _explain.by_workers("from(jpg) | image | timm_augmix(3) | to(f32)", None) == "timm_augmix has no device code"
    assert _explain.by_workers("from(jpg) | image | my_op(3) | to(f32)", None) == "my_op has no device code"
    assert "function" in _explain.by_workers("from(jpg) | image | call(f) | to(f32)", None)
    assert _explain.by_workers("from(jpg) | image | hflip | to(f32)", "cpu") == 'decode is "cpu"'
    sources = "".join(path.read_text() for path in sorted((Path(__file__).parents[2] / "src/op").glob("*.c")))
    for name, _, _ in stoker.chains.steps:
        alone = _explain.by_workers(f"from(jpg) | image | {name} | to(f32)", None) is not None
        assert name == "call" or alone == (f"OP({name}," in sources and re.search(rf"OP\({name},[^;]*?act,\s*0\)", sources) is not None), name
    told = _explain.Explanation("k", 1, 0, 0, {"image": []}, {"image": "16-bit pictures have no device code"})
    assert str(told).endswith("image: made by workers and sent to the GPU, since 16-bit pictures have no device code")
