# SPDX-License-Identifier: Apache-2.0
"""The other side of `stoker bench --against torch`: PyTorch's DataLoader with Pillow over the same data.

Run by the command (cli/bench_against.c).  The first line of stdin is JSON: urls, outputs, batch_size, workers, shuffle,
seconds.  The first answer is a line: "ok" and what is compared; or "unsaid", "missing" or "failed" and why.  Then every
line "go" is one round, answered by "round SAMPLES SECONDS" from its first batch on, so that starting workers does not
count.  Workers end with their round, so that they do not run while the other side is measured.

Samples are read through stoker's index, which is as fast as this side can have it; decoding, augmentation, collating and
worker processes are PyTorch's and Pillow's.  It is written as one would for speed.
"""

from __future__ import annotations

import ast
import io
import json
import math
import random
import sys
import time
from collections.abc import Callable
from typing import Any

from .preview import split

Make = Callable[[dict[str, Any]], Any]
Step = Callable[[Any], Any]

_MEANS = {"imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)), "half": ((0.5,) * 3, (0.5,) * 3),
          "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
          "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))}


class Unsaid(Exception):
    """A chain, or a part of one, that this side does not have."""


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return {"true": True, "false": False}.get(node.id, node.id)
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(map(_value, node.elts))
    return ast.literal_eval(node)


def parse(step: str) -> tuple[str, list[Any], dict[str, Any]]:
    """Name, arguments and named arguments of a step: its syntax is Python's but for from()."""
    name, bracket, rest = step.partition("(")
    try:
        call = ast.parse("f(" + rest if bracket else "f()", mode="eval").body
        assert isinstance(call, ast.Call)
        return name.strip(), [_value(a) for a in call.args], {k.arg or "": _value(k.value) for k in call.keywords}
    except (SyntaxError, ValueError, AssertionError):
        raise Unsaid(f"the step {step!r}") from None


# ---- steps on a picture -------------------------------------------------------------------------

def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _filter(interpolation: str) -> Any:
    from PIL import Image
    return Image.Resampling[interpolation.upper()]


def _random_resized_crop(size: Any, scale: Any = (0.08, 1.0), ratio: Any = (3 / 4, 4 / 3),
                         interpolation: str = "bilinear") -> Step:
    height, width = _pair(size)
    how, ratios = _filter(interpolation), (math.log(ratio[0]), math.log(ratio[1]))

    def box(w: int, h: int) -> tuple[int, int, int, int]:
        for _ in range(10):
            area, aspect = w * h * random.uniform(*scale), math.exp(random.uniform(*ratios))
            cw, ch = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < cw <= w and 0 < ch <= h:
                x, y = random.randint(0, w - cw), random.randint(0, h - ch)
                return x, y, x + cw, y + ch
        cw, ch = min(w, round(h * ratio[1])), min(h, round(w / ratio[0]))
        x, y = (w - cw) // 2, (h - ch) // 2
        return x, y, x + cw, y + ch

    return lambda image: image.resize((width, height), how, box=box(*image.size))


def _resize(size: Any, interpolation: str = "bilinear") -> Step:
    how = _filter(interpolation)

    def run(image: Any) -> Any:
        w, h = image.size
        if not isinstance(size, int):
            return image.resize((size[1], size[0]), how)
        short = min(w, h)
        return image.resize((max(1, w * size // short), max(1, h * size // short)), how)

    return run


def _center_crop(size: Any) -> Step:
    height, width = _pair(size)

    def run(image: Any) -> Any:
        x, y = round((image.size[0] - width) / 2), round((image.size[1] - height) / 2)
        return image.crop((x, y, x + width, y + height))

    return run


def _hflip(p: float = 0.5) -> Step:
    from PIL import Image
    return lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if random.random() < p else image


_PICTURE: dict[str, Callable[..., Step]] = {"random_resized_crop": _random_resized_crop, "resize": _resize,
                                            "center_crop": _center_crop, "hflip": _hflip}


def _decode(raw: bytes) -> Any:
    from PIL import Image
    with Image.open(io.BytesIO(raw)) as file:
        return file.convert("RGB")


def _tensor(normal: Any, dtype: str | None, layout: str) -> Step:
    """Pixels to a tensor: one pass to floats, the rest in place."""
    import numpy as np
    import torch
    types = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "u8": torch.uint8}
    if layout not in ("chw", "hwc") or (dtype or "u8") not in types:
        raise Unsaid(f"to({dtype}, layout={layout})")
    kind = types[dtype or ("f32" if normal else "u8")]
    mean, std = normal or ((0.0,) * 3, (1.0,) * 3)
    shape = (3, 1, 1) if layout == "chw" else (1, 1, 3)
    mul = torch.tensor([1 / (255 * s) for s in std]).reshape(shape)
    add = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)]).reshape(shape)

    def run(image: Any) -> Any:
        pixels = torch.from_numpy(np.array(image))
        if layout == "chw":
            pixels = pixels.permute(2, 0, 1)
        if kind == torch.uint8:
            return pixels.contiguous()
        x = pixels.to(torch.float32, memory_format=torch.contiguous_format).mul_(mul).add_(add)
        return x if kind == torch.float32 else x.to(kind)

    return run


def _normal(args: list[Any], named: dict[str, Any]) -> Any:
    mean, std = (*args, named.get("mean"), None)[0], (*args[1:], named.get("std"), None)[0]
    if isinstance(mean, str) and mean in _MEANS and std is None:
        return _MEANS[mean]
    if isinstance(mean, tuple) and isinstance(std, tuple) and len(mean) == len(std) == 3:
        return mean, std
    raise Unsaid("normalize() by other numbers than three means and three deviations")


def _picture(steps: list[tuple[str, list[Any], dict[str, Any]]]) -> list[Step]:
    made: list[Step] = [_decode]
    normal, dtype, layout = None, None, "chw"
    for name, args, named in steps:
        if name == "normalize":
            normal = _normal(args, named)
        elif name == "to":
            dtype = (*args, named.get("dtype"))[0]
            layout = named.get("layout", args[1] if len(args) > 1 else "chw")
        elif name in _PICTURE:
            try:
                made.append(_PICTURE[name](*args, **named))
            except (TypeError, KeyError, IndexError):
                raise Unsaid(f"{name}() with these arguments") from None
        else:
            raise Unsaid(f"{name}()")
    return [*made, _tensor(normal, dtype, layout)]


# ---- chains, data, rounds -----------------------------------------------------------------------

def translate(name: str, chain: str) -> Make:
    """What makes output `name` of a sample (field -> bytes)."""
    steps = [parse(s) for s in split(chain)]
    fields = steps.pop(0)[1] if steps and steps[0][0] == "from" else [name]
    head, args, named = steps[0] if steps else ("bytes", [], {})
    run: list[Any]
    if (args or named) or (head != "image" and len(steps) > 1):
        raise Unsaid(f"the chain {chain!r}")
    if head == "image":
        run = _picture(steps[1:])
    elif head in ("int", "bytes", "text"):
        run = [{"int": int, "bytes": bytes, "text": lambda raw: raw.decode()}[head]]
    else:
        raise Unsaid(f"{head}()")

    def make(sample: dict[str, Any]) -> Any:
        value = next(sample[f] for f in fields if f in sample)
        for step in run:
            value = step(value)
        return value

    return make


class Samples:
    """Map style, as a torch Dataset is; opened again in every worker."""

    def __init__(self, urls: list[str], outputs: dict[str, str]) -> None:
        self.urls, self.outputs = urls, outputs
        self.data: Any = None
        self.make: dict[str, Make] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "data": None, "make": {}}

    def _open(self) -> Any:
        if self.data is None:
            import stoker
            self.data = stoker.open(self.urls)
            self.make = {name: translate(name, chain) for name, chain in self.outputs.items()}
        return self.data

    def __len__(self) -> int:
        return len(self._open())

    def __getitem__(self, i: int) -> dict[str, Any]:
        sample = self._open()[i]
        return {name: make(sample) for name, make in self.make.items()}


def _loader(job: dict[str, Any]) -> Any:
    from torch.utils.data import DataLoader, default_collate
    from torch.utils.data import Dataset as TorchDataset
    outputs = job["outputs"]
    loose = {name for name, chain in outputs.items() if split(chain)[-1] in ("bytes", "text")}

    def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
        return {k: [r[k] for r in rows] if k in loose else default_collate([r[k] for r in rows]) for k in rows[0]}

    class Data(Samples, TorchDataset):          # type: ignore[type-arg]
        pass

    more: dict[str, Any] = {"prefetch_factor": 4, "persistent_workers": True} if job["workers"] else {}
    return DataLoader(Data(job["urls"], outputs), batch_size=job["batch_size"], shuffle=job["shuffle"],
                      num_workers=job["workers"], collate_fn=collate, **more)


def _round(loader: Any, seconds: float) -> tuple[int, float]:
    """Samples and seconds of epochs until the time is up, from the first batch on; ends of epochs count."""
    begin, samples = 0.0, 0
    while True:
        for batch in loader:
            now = time.perf_counter()
            if begin:
                samples += len(next(iter(batch.values())))
            begin = begin or now
            if samples and now - begin >= seconds:
                return samples, now - begin


class Missing(Exception):
    """A library that this Python does not have."""


def _prepare(job: dict[str, Any]) -> str:
    try:
        import torch
        import PIL
    except ImportError as e:
        raise Missing(f"{sys.executable}: {e}") from None
    for name, chain in job["outputs"].items():
        translate(name, chain)
    _loader(job).dataset[0]                     # what fails does so here, once, and not in a worker
    torch.set_num_threads(1)                    # workers do the same
    return f"torch {torch.__version__}, Pillow {PIL.__version__}"


def _say(*words: Any) -> None:
    print(*("".join(c if c.isprintable() else " " for c in str(w)) for w in words), flush=True)


def main() -> None:
    job = json.loads(sys.stdin.readline())
    try:
        _say("ok", _prepare(job))
    except Unsaid as e:
        return _say("unsaid", e)
    except Missing as e:
        return _say("missing", e)
    except Exception as e:
        return _say("failed", f"{type(e).__name__}: {e}")
    for line in sys.stdin:
        if line.strip() == "go":
            _say("round", *_round(_loader(job), job["seconds"]))
