# SPDX-License-Identifier: Apache-2.0
"""loader.explain(): the draws it names make the pixels that the loader gives."""

import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest
from conftest import SHARDS, as_numpy, check_python, jpeg, picture, write_tar
from PIL import Image

import stoker
from stoker import _explain

ROOT = Path(__file__).resolve().parents[2]
HOSTGPU = Path(os.environ.get("STOKER_BUILD", ROOT / "build")).resolve() / "tests/gpu/host/libstoker_hostgpu.so"
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


GPU = """
import ctypes, json, sys
import stoker

def same(value):
    return value

@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.POINTER(ctypes.c_double), ctypes.c_uint64)
def nothing(pixels, height, width, args, seed):
    pass

stoker.op(nothing, name="own")

chains, path = json.loads(sys.argv[1]), sys.argv[2]
for name, (chain, options) in chains.items():
    fields = {"image": chain, **options.pop("fields", {}), "label": "from(cls) | int"}
    if not chain:
        fields["image"] = stoker.from_("jpg").image().resize((32, 32)).call(same).to("f32")
    asked = options.pop("decode", None)
    with stoker.Loader(path, fields, batch_size=2, device="cuda", decode=asked, **options) as loader:
        told = loader.explain(0)
        assert told.made["label"] == "by workers, since it is not a picture" and "label" not in told.by_workers, told
        made = told.by_workers.get("image"), told.made["image"], str(told)
    refused = None
    try:
        stoker.Loader(path, fields, batch_size=2, device="cuda", decode="gpu", **options).close()
    except stoker.StokerError as e:
        refused = str(e)
    print(json.dumps([name, *made, refused]))
"""

FUNCTION = "a function of the program's is in its chain, and takes pixels in host memory"
RESIZED = "resize((32, 32)) | to(f32)"
MADE = {    # name: chain, options, why workers make it
    "crop": ("from(jpg) | image | random_resized_crop(16) | hflip | to(f32)", {}, None),
    "program": ("from(jpg) | image | resize((32, 32)) | color_jitter(0.4) | to(f32)", {}, None),
    "list": ("from(jpg) | image | hflip | to(f32)", {"collate": "list"}, None),
    "deep": (f"from(deep) | image(mode=gray16) | {RESIZED}", {}, "16-bit pictures have no device code"),
    "gray": (f"from(jpg) | image(mode=gray) | {RESIZED}", {}, "pictures of one channel have no device code"),
    "patches": ("from(jpg) | image | resize((32, 32)) | patches(16) | to(f32)", {}, None),
    "pictures": (f"from(jpg) | pictures | {RESIZED}", {"collate": "list"}, None),
    "pad": ("from(jpg) | image | to(f32)", {"collate": "pad"}, None),
    "boxes": (f"from(jpg) | image | iou_crop(boxes) | {RESIZED}",
              {"fields": {"boxes": "from(json) | json(boxes) | floats(shape=(-1, 4)) | like(image)"}, "collate": "list"},
              "its crop depends on boxes, which workers read"),
    "op": ("from(jpg) | image | resize((32, 32)) | own | to(f32)", {}, "own has no device code"),
    "augmix": ("from(jpg) | image | resize((32, 32)) | timm_augmix(3) | to(f32)", {}, None),
    "call": ("", {}, FUNCTION),
    "cpu": (f"from(jpg) | image | {RESIZED}", {"decode": "cpu"}, 'decode is "cpu"'),
    "clip": (f"from(mp4) | video(frames=4) | {RESIZED}", {}, None),
    "cthw": ("from(mp4) | video(frames=4) | resize((32, 32)) | to(f32, cthw)", {}, None),
    "clip and op": ("from(mp4) | video(frames=4) | resize((32, 32)) | own | to(f32)", {}, "own has no device code"),
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    deep, clip = io.BytesIO(), ROOT / "tests/gpu/real/clips/h264.mp4"
    Image.fromarray(np.arange(1600, dtype=np.uint16).reshape(40, 40)).save(deep, "PNG")
    members = [[(f"{i}.jpg", jpeg(picture(i, 64, 48))), (f"{i}.cls", b"1"), (f"{i}.deep", deep.getvalue()), (f"{i}.mp4", clip.read_bytes()),
                (f"{i}.json", b'{"boxes": [1, 2, 30, 40]}')] for i in range(4)]
    return write_tar(tmp_path_factory.mktemp("mixed") / "a.tar", [m for sample in members for m in sample])


def test_where_pictures_are_made(mixed, monkeypatch):
    """One reason per rule of what is planned; decode="gpu" refuses what workers would make."""
    if not HOSTGPU.exists():
        pytest.skip("the GPU of threads is not built")
    monkeypatch.setenv("STK_CUDA_LIB", str(HOSTGPU))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(HOSTGPU.parent))      # an NVDEC of libavcodec
    told = check_python(GPU, json.dumps({name: (chain, options) for name, (chain, options, _) in MADE.items()}), str(mixed))
    found = {name: rest for name, *rest in map(json.loads, told.splitlines())}
    assert found.keys() == MADE.keys()
    for name, (_, _, why) in MADE.items():
        by_workers, made, text, refused = found[name]
        assert by_workers == why, name
        assert made == (f"by workers, since {why}" if why else "on the GPU, where it can decode the file"), name
        assert (f"image: made by workers and sent to the GPU, since {why}" in text) == bool(why), text
        expected = why and name != "cpu" and f'decode="gpu": workers would make output image, since {why}: leave decode= out to allow that'
        assert refused == (expected or None), name


def test_where_it_is_made_without_a_gpu(urls):
    with stoker.Loader(urls, fields=FIELDS, **OPTIONS) as loader:
        told = loader.explain(3)
        assert told.made["image"] == 'by workers, since device is "cpu"' and told.by_workers == {}


def test_what_is_read_of_clips(mixed, tmp_path):
    """Of a local clip only its packets; of pictures here, and of what is unpacked first, all."""
    fields = {"video": "from(mp4) | video(frames=2) | center_crop(16) | to(u8)", "image": "from(jpg) | image | center_crop(16) | to(u8)",
              "label": "from(cls) | int"}
    for shuffle in (True, False, "block"):
        with stoker.Loader(str(mixed), fields, batch_size=2, shuffle=shuffle) as loader:
            reads = loader.explain(1).reads
        assert reads["video"] == "only the bytes that are seen"
        assert "local" in reads["image"] and reads["label"] == "the whole field: it is not a picture"
