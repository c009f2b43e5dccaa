# SPDX-License-Identifier: Apache-2.0
"""Sizes by formula against each original: a seeded slice here, SOAK_SIZES=1000000 pairs in make soak.  None may differ.

timm's function is compiled from its file, since the package needs torchvision; SigLIP2's, Qwen's and Kimi's come from
transformers where their module can be imported, else from its file, too.  kohya's is written here as its code has it."""

import ast
import importlib.util
import math
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from pictures import picture, write_tar

import stoker

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLI = pathlib.Path(os.environ.get("STOKER_BUILD", ROOT / "build")) / "tests" / "native" / "patch_sizes"
N = int(os.environ.get("SOAK_SIZES", 3000))
SEED = int(os.environ.get("SOAK_SEED", 28))
COUNT, PIXELS, PAD = 1, 2, 3


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    return write_tar(tmp_path_factory.mktemp("sizes") / "a.tar", [(33, 21)])


def function(path, name):
    """One function of a file, without importing the file."""
    if not path or not os.path.exists(path):
        pytest.skip(f"{path} is not installed: make setup")
    tree = ast.parse(pathlib.Path(path).read_text())
    found = [x for x in tree.body if isinstance(x, ast.FunctionDef) and x.name == name]
    scope = {"math": math}
    exec(compile("from __future__ import annotations", "", "exec"), scope)
    for x in found:
        x.decorator_list = []
    code = compile(ast.Module(found, []), str(path), "exec", flags=__import__("__future__").annotations.compiler_flag)
    exec(code, scope)
    return scope[name]


def transformers(path):
    found = importlib.util.find_spec("transformers")
    return found and os.path.join(os.path.dirname(found.origin), "models", path)


def timm(path):
    return os.path.join(os.environ.get("STOKER_TRANSFORMS", os.path.join(sys.prefix, "transforms")), "timm", "data", path)


def pairs():
    rng = np.random.default_rng(SEED)
    some = np.exp(rng.uniform(0, np.log(9000), (N, 2))).astype(np.uint32)         # any ratio, many small ones
    like = rng.integers(1, 3000, (N // 2, 1)) * rng.uniform(.3, 3, (N // 2, 2))   # photos
    edge = rng.integers(1, 200, (N // 4, 2)) * 14                                 # halves of patches
    return np.concatenate([some, like.astype(np.uint32) + 1, edge]).astype(np.uint32)[:N]


def ours(*args):
    data = pairs()
    out = subprocess.run([CLI, *map(str, args)], input=data.tobytes(), capture_output=True, check=True).stdout
    return data.tolist(), np.frombuffer(out, np.uint32).reshape(-1, 4).tolist()


@pytest.mark.parametrize(("patch", "most", "ratio"), [(16, 576, 0), (16, 1024, 0), (14, 128, 0), (32, 7, 0), (16, 784, 1.5)])
def test_timm(patch, most, ratio):
    original = function(timm("naflex_transforms.py"), "get_image_size_for_seq")
    for (h, w), got in zip(*ours(COUNT, patch, 1, most, 0, 0, 0, ratio)):
        assert tuple(got[:2]) == tuple(got[2:]) == original((h, w), patch, most, max_ratio=ratio or None)[1], (h, w)


@pytest.mark.parametrize(("patch", "most"), [(16, 256), (14, 729)])
def test_siglip2(patch, most):
    original = function(transformers("siglip2/image_processing_siglip2.py"), "get_image_size_for_max_num_patches")
    for (h, w), got in zip(*ours(COUNT, patch, 1, most, 0, 0, 0, 0)):
        assert tuple(got[:2]) == original(h, w, patch, most), (h, w)


@pytest.mark.parametrize(("patch", "least", "most"), [(14, 3136, 12845056), (14, 3136, 1003520), (16, 65536, 16777216), (14, 200704, 401408)])
def test_qwen(patch, least, most):
    original = function(transformers("qwen2_vl/image_processing_qwen2_vl.py"), "smart_resize")
    refused = 0
    for (h, w), got in zip(*ours(PIXELS, patch, 2, 0, least, most, 0, 0)):
        try:
            want = original(h, w, 2 * patch, least, most)
        except ValueError:
            want, refused = (0, 0), refused + 1
        if max(want) <= 65535:
            assert tuple(got[:2]) == want, (h, w)
    assert refused


@pytest.mark.parametrize(("patch", "most", "side"), [(14, 16384, 512), (14, 1024, 40), (16, 64, 512)])
def test_kimi(patch, most, side):
    original = function(transformers("kimi_k25/image_processing_kimi_k25.py"), "navit_resize")
    for (h, w), got in zip(*ours(PAD, patch, 2, most, 0, 0, side, 0)):
        assert (tuple(got[:2]), tuple(got[2:])) == original(h, w, patch, 2, most, side), (h, w)


def kohya_buckets(area, least, most, step):
    side = int(math.sqrt(area) // step) * step
    found = {(side, side)}
    for w in range(least, most + 1, step):
        h = min(most, int((area // w) // step) * step)
        if h >= least:
            found |= {(w, h), (h, w)}
    return sorted(found)


@pytest.mark.parametrize(("area", "step", "least", "most"), [(1024 * 1024, 64, 256, 2048), (512 * 512, 64, 256, 1024), (640 * 448, 32, 128, 1024)])
def test_kohya(area, step, least, most):
    sizes = kohya_buckets(area, least, most, step)
    aspects = np.array([w / h for w, h in sizes])
    for (h, w), got in zip(*ours("bucket", area, step, least, most)):
        bucket = (w, h) if (w, h) in sizes else sizes[np.abs(aspects - w / h).argmin()]
        scale = bucket[1] / h if w / h > bucket[0] / bucket[1] else bucket[0] / w
        assert got == [int(h * scale + .5), int(w * scale + .5), bucket[1], bucket[0]], (h, w)


def kohya_no_upscale(w, h, area, step):
    """BucketManager.select_bucket() as its code has it."""
    def steps(x):
        x = int(x + .5)
        return x - x % step
    aspect, size = w / h, (w, h)
    if w * h > area:
        wide = math.sqrt(area * aspect)
        high = area / wide
        by_w = steps(wide)
        of_w = by_w / steps(by_w / aspect)
        by_h = steps(high)
        of_h = steps(by_h * aspect) / by_h
        size = (by_w, int(by_w / aspect + .5)) if abs(of_w - aspect) < abs(of_h - aspect) else (int(by_h * aspect + .5), by_h)
    return size[0] - size[0] % step, size[1] - size[1] % step


def test_kohya_without_enlarging(tmp_path):
    """Sizes of pictures themselves: smaller ones are cut only, in the middle."""
    rng = np.random.default_rng(SEED)
    sizes = [(int(w), int(h)) for w, h in rng.integers(33, 400, (120, 2))]
    path = write_tar(tmp_path / "a.tar", sizes, "PPM")
    chain = "from(jpg) | image | resize_to_bucket(area=40000, step=16, least=16, no_upscale=true) | to(u8, hwc)"
    got = [b["x"][0].numpy() for b in stoker.Loader(path, {"x": chain}, batch_size=1, collate="list")]
    assert [x.shape[1::-1] for x in got] == [kohya_no_upscale(w, h, 40000, 16) for w, h in sizes]
    small = [i for i, (w, h) in enumerate(sizes) if w * h <= 40000]
    for i in small[:10]:
        w, h = sizes[i]
        x, y = w % 16 // 2, h % 16 // 2
        assert (got[i] == np.asarray(picture(i, w, h))[y:y + h // 16 * 16, x:x + w // 16 * 16]).all()
    seen = [s for b in stoker.Loader(path, {"x": chain}, batch_size=4, bucket=True) for s in b.only_valid().sample_keys]
    assert len(seen) == len(set(seen)) == 120


@pytest.mark.parametrize(("chain", "why"), [
    ("resize_to_bucket(\"512x768\", no_upscale=true)", "no_upscale goes with area"),
    ("resize_to_patches(16)", "how large"), ("resize_to_patches(0, max_patches=4)", "1 to 1024"), ("resize_to_patches(naflux)", "naflex"),
    ("resize_to_patches(14, max_patches=9, max_pixels=10000)", "two rules"), ("resize_to_patches(14, merge=2, min_pixels=90000, max_pixels=9)", "not above"),
    ("resize_to_patches(14, merge=4, max_patches=9)", "block of 16"), ("resize_to_patches(16, max_patches=9, max_ratio=0)", "max_ratio"),
    ("random_resized_crop_to_patches(16, max_patches=9, scale=(0, 1))", "scale"), ("resize_to_bucket", "one of the two"),
    ("resize_to_bucket(\"12\")", "height first"), ("resize_to_bucket(area=100)", "no size"), ("resize_to_bucket(area=262144, crop=top)", "center or random")])
def test_errors_name_the_remedy(shard, chain, why):
    with pytest.raises(stoker.StokerError, match=why) as e:
        stoker.Loader(shard, {"x": f"from(jpg) | image | {chain} | to(u8)"}, batch_size=1)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("name", ["jpg", "image"])
@pytest.mark.parametrize("options", [{"max_tokens": 200, "collate": "pack"}, {"bucket": True, "batch_size": 2}])
def test_a_folder_by_either_name(tmp_path, name, options):
    """A folder's pictures are `image`, which from(jpg) is too: their sizes are found by both names."""
    rng = np.random.default_rng(0)
    for i in range(8):
        Image.fromarray(rng.integers(0, 255, (100 + 60 * (i % 2), 160, 3), dtype=np.uint8)).save(tmp_path / f"{i}.jpg")
    steps = "resize_to_patches(16, max_patches=64) | patches(16)" if "max_tokens" in options else "to(u8)"
    with stoker.Loader(str(tmp_path), {"x": f"from({name}) | image | {steps}"}, **options) as loader:
        batches = list(loader)
    assert sum(len(b.sample_ids) for b in batches) == 8
    assert all(b["x"].shape[0] <= 200 for b in batches) if "max_tokens" in options else {tuple(b["x"].shape[1:3]) for b in batches} == {(3, 100), (3, 160)}
