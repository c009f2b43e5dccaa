# SPDX-License-Identifier: Apache-2.0
"""Batches equal to those of timm's NaFlexCollator and of the processors of SigLIP2 and Qwen2-VL: types, shapes, order, masks and grids exactly, pixels
within 1 of 255, but for 1 of 10,000 values, which differ by 2 (nearest: exactly; see resized()).

timm's collator and patchify are compiled from its file, with Pillow's resize, as its transform has.  The processors are those of transformers that use Pillow; importing
them takes ten seconds, so they are compared in make soak: SOAK_ADAPTERS=1000 samples each."""

import ast
import os
import pathlib
import sys
import typing

import numpy as np
import pytest
from pictures import picture, write_tar
from PIL import Image

import stoker

torch = pytest.importorskip("torch")
SOAK = int(os.environ.get("SOAK_ADAPTERS", 0))
N = SOAK or 12
SEED = int(os.environ.get("SOAK_SEED", 28))


def sizes():
    rng = np.random.default_rng(SEED)
    return [tuple(int(v) for v in np.exp(rng.uniform(np.log(24), np.log(600), 2))) for _ in range(N)]


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    return write_tar(tmp_path_factory.mktemp("adapters") / "a.tar", sizes(), "PNG")


def from_timm(file, *names):
    path = os.path.join(os.environ.get("STOKER_TRANSFORMS", os.path.join(sys.prefix, "transforms")), "timm", "data", file)
    if not os.path.exists(path):
        pytest.skip(f"{path} is not installed: make setup")
    scope = {"torch": torch, "math": __import__("math"), **{n: getattr(typing, n) for n in ("Any", "Dict", "List", "Optional", "Tuple", "Union")}}
    body = [x for x in ast.parse(pathlib.Path(path).read_text()).body if getattr(x, "name", "") in names]
    if len(body) < len(names):
        pytest.skip(f"{path} has no {', '.join(names)}")
    exec(compile(ast.Module(body, []), path, "exec"), scope)
    return [scope[n] for n in names]


def ours(shard, chain, **options):
    return iter(stoker.Loader(shard, {"x": f"from(jpg) | image | {chain}", "label": "from(cls) | int"}, batch_size=4, num_workers=1, **options))


def resized(image, size, filter):
    """Pillow's, first across and then down.  From 13.0 on it goes down first where the height shrinks more: where bicubic overshoots, that differs by up to
    6, in 1 of 10,000 values of all pictures, 1 of 400 of a narrow one.  Against this order 6 of 83 million differ by 2."""
    return image.resize((size[0], image.height), filter).resize(size, filter)


def near(got, want, mean, std, exactly=False, most=2):
    """Pixels behind normalized values, in 255ths."""
    if want.shape != got.shape:
        return False
    by = np.resize(std, got.shape[-1]) if np.ndim(std) else std
    far = np.abs((np.asarray(got, "f8") - np.asarray(want, "f8")) * by * 255)
    return far.max() < (1e-3 if exactly else most + .01) and (far > 1.01).mean() < (1e-4 if most < 3 else 3e-3)


@pytest.mark.parametrize("filter", ["bicubic", "nearest"])
def test_naflex(shard, filter):
    size, patchify = from_timm("naflex_transforms.py", "get_image_size_for_seq", "patchify_image")
    collate, = from_timm("naflex_dataset.py", "NaFlexCollator")
    patchify.__globals__["torch"] = torch
    mean, std = np.array([.485, .456, .406], "f4"), np.array([.229, .224, .225], "f4")
    batches = ours(shard, f"resize_to_patches(16, max_patches=64, interpolation={filter}) | normalize(imagenet) | patches(16) | to(f32)", collate=("pad", 0, 64))
    for at, batch in zip(range(0, N, 4), batches):
        theirs = []
        for i, (w, h) in enumerate(sizes()[at:at + 4], at):
            th, tw = size((h, w), 16, 64)[1]
            pixels = np.asarray(resized(picture(i, w, h), (tw, th), getattr(Image.Resampling, filter.upper())), "f4") / 255
            patches, coord, valid = patchify(torch.from_numpy(((pixels - mean) / std).transpose(2, 0, 1).copy()), (16, 16))
            theirs.append(({"patches": patches, "patch_coord": coord, "patch_valid": valid}, i))
        want, labels = collate(64)(theirs)
        assert batch["x"].dtype == want["patches"].dtype and batch["label"].tolist() == labels.tolist()
        assert near(batch["x"].numpy(), want["patches"].numpy(), mean, std, filter == "nearest")
        assert torch.equal(batch.coords("x"), want["patch_coord"]) and torch.equal(batch.mask("x"), want["patch_valid"])


@pytest.mark.skipif(not SOAK, reason="imports transformers: make soak")
def test_siglip2(shard):
    from transformers.models.siglip2.image_processing_pil_siglip2 import Siglip2ImageProcessorPil
    batches = ours(shard, "resize_to_patches(siglip2) | normalize(half) | patches(siglip2) | to(f32)", collate=("pad", 0, 256))
    processor = Siglip2ImageProcessorPil()
    for at, batch in zip(range(0, N, 4), batches):
        want = processor([picture(i, w, h) for i, (w, h) in enumerate(sizes()[at:at + 4], at)], return_tensors="np")
        assert (batch.grid["x"].numpy() == want["spatial_shapes"]).all()
        mask = want["pixel_attention_mask"].astype(bool)
        assert (batch.mask("x").numpy() == mask).all()
        assert near(batch["x"].numpy()[mask], want["pixel_values"][mask], .5, .5)


@pytest.mark.skipif(not SOAK, reason="imports transformers: make soak")
@pytest.mark.parametrize(("patch", "least", "most", "model"), [(14, 3136, 100352, "qwen2_vl"), (16, 4096, 100352, "qwen3_vl")])
def test_qwen(shard, patch, least, most, model):
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
    mean, std = (((.48145466, .4578275, .40821073), (.26862954, .26130258, .27577711)) if patch == 14 else ((.5,) * 3, (.5,) * 3))
    processor = Qwen2VLImageProcessorPil(patch_size=patch, size={"shortest_edge": least, "longest_edge": most}, image_mean=mean, image_std=std)
    normalize = "clip" if patch == 14 else "half"
    batches = ours(shard, f"resize_to_patches({model}, min_pixels={least}, max_pixels={most}) | normalize({normalize}) | patches({model}) | to(f32)", collate={"x": "pack"})
    for at, batch in zip(range(0, N, 4), batches):
        want = processor([picture(i, w, h) for i, (w, h) in enumerate(sizes()[at:at + 4], at)], return_tensors="np")
        assert (batch.grid["x"].numpy() == want["image_grid_thw"]).all()
        assert near(batch["x"].numpy(), want["pixel_values"], 0, np.repeat(np.array(std), 2 * patch * patch), most=6)    # see resized()
