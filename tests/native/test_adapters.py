# SPDX-License-Identifier: Apache-2.0
"""Batches equal to those of timm's NaFlexCollator and of the processors of SigLIP2, Qwen2-VL and Qwen3-VL (transformers): types, shapes, order, masks, grids and tokens
exactly, and no pixel differs: by name a model's pictures are those of the library that its own code resizes with (naflex: Pillow; the processors of transformers:
torchvision), and exact=pillow makes them those of the processors that use Pillow.

timm's collator and patchify are compiled from its file, with Pillow's resize, as its transform has.  The processors are those of transformers that use Pillow, and the same with
torch's resize of bytes, which is torchvision's.  make soak: SOAK_ADAPTERS=1000 samples each."""

import ast
import io
import json
import os
import pathlib
import sys
import tarfile
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


def add(tar, name, data):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))


def sizes():
    rng = np.random.default_rng(SEED)
    return [tuple(int(v) for v in np.exp(rng.uniform(np.log(24), np.log(600), 2))) for _ in range(N)]


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    return write_tar(tmp_path_factory.mktemp("adapters") / "a.tar", sizes(), "PNG")


def from_timm(file, *names, given=()):
    path = os.path.join(os.environ.get("STOKER_TRANSFORMS", os.path.join(sys.prefix, "transforms")), "timm", "data", file)
    if not os.path.exists(path):
        pytest.skip(f"{path} is not installed: make setup")
    scope = {"torch": torch, "math": __import__("math"), **{n: getattr(typing, n) for n in ("Any", "Dict", "List", "Optional", "Tuple", "Union")}, **dict(given)}
    body = [x for x in ast.parse(pathlib.Path(path).read_text()).body if getattr(x, "name", "") in names]
    if len(body) < len(names):
        pytest.skip(f"{path} has no {', '.join(names)}")
    exec(compile(ast.Module(body, []), path, "exec"), scope)
    return [scope[n] for n in names]


def ours(shard, chain, **options):
    return iter(stoker.Loader(shard, {"x": f"from(jpg) | image | {chain}", "label": "from(cls) | int"}, batch_size=4, num_workers=1, **options))


def resized(image, size, filter):
    """Pillow 13's, whichever is installed: down first where the height shrinks more than twice the pixels that the width does."""
    down_first = size[1] < image.height and image.height - size[1] > 2 * (image.width - size[0])
    return image.resize((image.width, size[1]) if down_first else (size[0], image.height), filter).resize(size, filter)


SEEN = {}       # of each test: values compared, those that differ, the farthest


@pytest.fixture(autouse=True, scope="module")
def figures(request):
    """What was compared is printed: pytest -s."""
    yield
    for name, (values, far, most) in SEEN.items():
        print(f"\n{name}: {N} samples, {values:,} values, {far:,} differ, the most is {most:.3f} of 255", end="")
    print()


def same(got, want, std):
    """Pixels behind normalized values, in 255ths: f32 differs by less than .001."""
    if want.shape != got.shape:
        return False
    by = np.resize(std, got.shape[-1]) if np.ndim(std) else std
    far = np.abs((np.asarray(got, "f8") - np.asarray(want, "f8")) * by * 255)
    name = os.environ["PYTEST_CURRENT_TEST"].split("::")[-1].split(" ")[0]
    values, more, farthest = SEEN.get(name, (0, 0, 0.0))
    SEEN[name] = values + far.size, more + int((far > 1e-3).sum()), max(farthest, float(far.max(initial=0)))
    return far.max(initial=0) < 1e-3


@pytest.mark.parametrize("filter", ["bicubic", "nearest"])
def test_naflex(shard, filter):
    size, patchify = from_timm("naflex_transforms.py", "get_image_size_for_seq", "patchify_image")
    collate, = from_timm("naflex_dataset.py", "NaFlexCollator")
    patchify.__globals__["torch"] = torch
    mean, std = np.array([.485, .456, .406], "f4"), np.array([.229, .224, .225], "f4")
    batches = ours(shard, f"resize_to_patches(naflex, max_patches=64, interpolation={filter}) | normalize(imagenet) | patches(16) | to(f32)", collate=("pad", 0, 64))
    for at, batch in zip(range(0, N, 4), batches):
        theirs = []
        for i, (w, h) in enumerate(sizes()[at:at + 4], at):
            th, tw = size((h, w), 16, 64)[1]
            pixels = np.asarray(resized(picture(i, w, h), (tw, th), getattr(Image.Resampling, filter.upper())), "f4") / 255
            patches, coord, valid = patchify(torch.from_numpy(((pixels - mean) / std).transpose(2, 0, 1).copy()), (16, 16))
            theirs.append(({"patches": patches, "patch_coord": coord, "patch_valid": valid}, i))
        want, labels = collate(64)(theirs)
        assert batch["x"].dtype == want["patches"].dtype and batch["label"].tolist() == labels.tolist()
        assert same(batch["x"].numpy(), want["patches"].numpy(), std)
        assert torch.equal(batch.coords("x"), want["patch_coord"]) and torch.equal(batch.mask("x"), want["patch_valid"])


FILTERS = {2: "bilinear", 3: "bicubic"}     # Pillow's numbers


def torchvision_resize(self, image, size, resample=None, **unused):
    """A picture as torchvision's resize() of a tensor of bytes on a CPU has it: torch's own antialiased filters, in 8 bits."""
    kind = FILTERS[int(self.resample if resample is None else resample)]
    return torch.nn.functional.interpolate(torch.from_numpy(np.ascontiguousarray(image))[None], (size.height, size.width), mode=kind, antialias=True)[0].numpy()


def pillow_resize(self, image, size, resample=None, **unused):
    """As Pillow 13 has it, if another one is installed."""
    filter = Image.Resampling(int(self.resample if resample is None else resample))
    return np.asarray(resized(Image.fromarray(np.ascontiguousarray(image.transpose(1, 2, 0))), (size.width, size.height), filter)).transpose(2, 0, 1)


@pytest.fixture(params=["pillow", "torchvision"])
def resize(request, monkeypatch):
    backends = pytest.importorskip("transformers.image_processing_backends")
    if request.param == "torchvision":
        monkeypatch.setattr(backends.PilBackend, "resize", torchvision_resize)
    elif int(Image.__version__.split(".")[0]) < 13:
        monkeypatch.setattr(backends.PilBackend, "resize", pillow_resize)
    return request.param


EXACT = {"pillow": ", exact=pillow", "torchvision": ""}     # what a processor's name alone does not say


def test_siglip2(shard, resize):
    pil = pytest.importorskip("transformers.models.siglip2.image_processing_pil_siglip2")
    batches = ours(shard, f"resize_to_patches(siglip2{EXACT[resize]}) | normalize(half) | patches(siglip2) | to(f32)", collate=("pad", 0, 256))
    processor = pil.Siglip2ImageProcessorPil()
    for at, batch in zip(range(0, N, 4), batches):
        want = processor([picture(i, w, h) for i, (w, h) in enumerate(sizes()[at:at + 4], at)], return_tensors="np")
        assert (batch.grid["x"].numpy() == want["spatial_shapes"]).all()
        mask = want["pixel_attention_mask"].astype(bool)
        assert (batch.mask("x").numpy() == mask).all()
        assert same(batch["x"].numpy()[mask], want["pixel_values"][mask], .5)


QWEN = [(14, 3136, 100352, "qwen2_vl"), (16, 65536, 16777216, "qwen3_vl")]


def qwen(patch, least, most):
    pil = pytest.importorskip("transformers.models.qwen2_vl.image_processing_pil_qwen2_vl")
    mean, std = (((.48145466, .4578275, .40821073), (.26862954, .26130258, .27577711)) if patch == 14 else ((.5,) * 3, (.5,) * 3))
    processor = pil.Qwen2VLImageProcessorPil(patch_size=patch, size={"shortest_edge": least, "longest_edge": most}, image_mean=mean, image_std=std)
    return processor, np.repeat(np.array(std), 2 * patch * patch)


@pytest.mark.parametrize(("patch", "least", "most", "model"), QWEN)
def test_qwen(shard, patch, least, most, model, resize):
    processor, std = qwen(patch, least, most)
    normalize = "clip" if patch == 14 else "half"
    sizing = f"{model}, min_pixels={least}, max_pixels={most}" if model == "qwen2_vl" else model        # qwen3_vl: the published numbers
    batches = ours(shard, f"resize_to_patches({sizing}{EXACT[resize]}) | normalize({normalize}) | patches({model}) | to(f32)", collate={"x": "pack"})
    for at, batch in zip(range(0, N, 4), batches):
        want = processor([picture(i, w, h) for i, (w, h) in enumerate(sizes()[at:at + 4], at)], return_tensors="np")
        assert (batch.grid["x"].numpy() == want["image_grid_thw"]).all()
        assert same(batch["x"].numpy(), want["pixel_values"], std)


def tokenizer():
    """Words, and the tokens that stand for a picture."""
    tokenizers = pytest.importorskip("tokenizers")
    from transformers import PreTrainedTokenizerFast
    special = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    words = {w: k for k, w in enumerate(["[UNK]", "[PAD]", *special, *(f"w{i}" for i in range(40))])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(special)
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]")


@pytest.mark.parametrize(("patch", "least", "most", "model"), QWEN)
def test_chats(tmp_path, patch, least, most, model, resize):
    """input_ids, pixel_values and image_grid_thw of a whole processor, which replaces placeholders in texts, for samples of any number of pictures."""
    processing = pytest.importorskip(f"transformers.models.{model}.processing_{model}")
    name = {"qwen2_vl": "Qwen2VLProcessor", "qwen3_vl": "Qwen3VLProcessor"}[model]
    most = min(most, 100352)
    words, (image_processor, std) = tokenizer(), qwen(patch, least, most)
    processor = getattr(processing, name).__new__(getattr(processing, name))     # its __init__ wants a processor of videos, which needs torchvision's
    processor.image_processor, processor.tokenizer, processor.video_processor = image_processor, words, None
    processor.image_token, processor.image_token_id = "<|image_pad|>", words.convert_tokens_to_ids("<|image_pad|>")
    rng = np.random.default_rng(SEED)
    texts, pictures = [], []
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(N):
            n = int(rng.integers(0, 4))
            pictures.append([picture(9 * i + k, *(int(v) for v in rng.integers(30, 300, 2))) for k in range(n)])
            parts = [" ".join(f"w{v}" for v in rng.integers(0, 40, rng.integers(0, 6))) for _ in range(n + 1)]
            texts.append(" <|vision_start|> <|image_pad|> <|vision_end|> ".join(parts))
            for k, p in enumerate(pictures[i]):
                data = io.BytesIO()
                p.save(data, "PNG")
                add(tar, f"{i:05d}.{k}.png", data.getvalue())
            add(tar, f"{i:05d}.ids.json", json.dumps(words(texts[i])["input_ids"]).encode())
    normalize = "clip" if patch == 14 else "half"
    pad = words.convert_tokens_to_ids("<|image_pad|>")
    batches = iter(stoker.Loader(str(tmp_path / "a.tar"), {
        "pixel_values": f"from(image) | pictures | resize_to_patches({model}, min_pixels={least}, max_pixels={most}{EXACT[resize]}) | normalize({normalize}) | patches({model}) | to(f32)",
        "input_ids": f"from(ids.json) | ints | image_tokens(pixel_values, token={pad})"}, batch_size=4, collate="pack", num_workers=1))
    for at, batch in zip(range(0, N, 4), batches):
        some = [p for row in pictures[at:at + 4] for p in row]
        if some:
            want = image_processor(some, return_tensors="np")
            assert (batch.grid["pixel_values"].numpy() == want["image_grid_thw"]).all()
            assert same(batch["pixel_values"].numpy(), want["pixel_values"], std)
        expanded, k = [], 0
        for text in texts[at:at + 4]:
            while "<|image_pad|>" in text:
                text = text.replace("<|image_pad|>", " ".join(["<placeholder>"] * (processor.replace_image_token(want, k).count("<|image_pad|>"))), 1)
                k += 1
            expanded.append(text.replace("<placeholder>", "<|image_pad|>"))
        ids = [v for row in words(expanded)["input_ids"] for v in row]
        assert batch["input_ids"].tolist() == ids
        bounds = np.cumsum([0, *(len(r) for r in words(expanded)["input_ids"])]).tolist()
        assert batch.offsets["input_ids"].tolist() == bounds
