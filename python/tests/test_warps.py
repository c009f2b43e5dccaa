# SPDX-License-Identifier: Apache-2.0
"""rotate, affine and perspective against torch's grid_sample(), with the matrices that torchvision makes."""

import io
import itertools
import math

import numpy as np
import pytest
from conftest import as_numpy, write_tar
from PIL import Image

import stoker

torch = pytest.importorskip("torch")
SIZES = [(80, 60), (61, 97), (17, 19), (1, 1), (1, 5000), (7, 5)]


@pytest.fixture(scope="module")
def blocks():
    rng = np.random.default_rng(14)
    return [np.kron(rng.integers(0, 256, (h // 4 + 1, w // 4 + 1, 3)), np.ones((4, 4, 1)))[:h, :w].astype(np.uint8) for w, h in SIZES]


@pytest.fixture(scope="module")
def shard(blocks, tmp_path_factory):
    def png(pixels):
        out = io.BytesIO()
        Image.fromarray(pixels).save(out, "PNG")
        return out.getvalue()

    return write_tar(tmp_path_factory.mktemp("warps") / "w.tar", [(f"{i:04d}.png", png(p)) for i, p in enumerate(blocks)])


def rows(shard, chain, **options):
    with stoker.Loader(shard, {"x": f"from(png) | image | {chain} | to(u8, hwc)"}, batch_size=1, **options) as loader:
        return [as_numpy(batch["x"][0]) for batch in loader]


def sampled(pixels, sx, sy, mode):
    """Places (sx, sy) of the source, counted from its corner, as torchvision samples them: zeros outside."""
    h, w = pixels.shape[:2]
    grid = torch.stack([2 * sx / w - 1, 2 * sy / h - 1], -1)[None].float()
    out = torch.nn.functional.grid_sample(torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None].float(), grid, mode=mode,
                                          padding_mode="zeros", align_corners=False)
    return out[0].permute(1, 2, 0).round().numpy().astype(int)


def places(pixels):
    h, w = pixels.shape[:2]
    y, x = torch.meshgrid(torch.arange(h, dtype=torch.float64) + 0.5, torch.arange(w, dtype=torch.float64) + 0.5, indexing="ij")
    return x, y


def affine(pixels, mode, angle, scale=1.0, shear=(0.0, 0.0)):
    """torchvision's _get_inverse_affine_matrix() about the middle."""
    h, w = pixels.shape[:2]
    rot, sx, sy = (math.radians(v) for v in (angle, *shear))
    a, b = math.cos(rot - sy) / math.cos(sy), -math.cos(rot - sy) * math.tan(sx) / math.cos(sy) - math.sin(rot)
    c, d = math.sin(rot - sy) / math.cos(sy), -math.sin(rot - sy) * math.tan(sx) / math.cos(sy) + math.cos(rot)
    x, y = places(pixels)
    x, y = x - w / 2, y - h / 2
    return sampled(pixels, (d * x - b * y) / scale + w / 2, (-c * x + a * y) / scale + h / 2, mode)


def close(got, want, mode, what):
    """Nearest: roundoff decides where a place is half way between pixels."""
    off = np.abs(got.astype(int) - want)
    if mode == "bilinear":
        assert off.max() <= 1, (what, off.max())
    else:
        assert (off > 0).mean() <= 0.06 and (got.size < 1000 or (off > 0).mean() <= 0.005), (what, (off > 0).mean())


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_affine_is_torchvisions(shard, blocks, mode):
    for angle in (31, -77.3, 90, 180, 0, 400):
        for got, pixels in zip(rows(shard, f"rotate(({angle}, {angle}), interpolation={mode})"), blocks, strict=True):
            close(got, affine(pixels, mode, -angle), mode, ("rotate", angle, pixels.shape))
    chain = f"affine((20, 20), scale=(1.3, 1.3), shear=(10, 10, -7, -7), interpolation={mode})"
    for got, pixels in zip(rows(shard, chain), blocks, strict=True):
        close(got, affine(pixels, mode, 20, 1.3, (10, -7)), mode, ("affine", pixels.shape))


def test_fill_and_translate(shard, blocks):
    seen = set()
    for seed in range(4):
        for got, pixels in zip(rows(shard, "affine(0, translate=(0.2, 0.1), fill=(1, 2, 3))", seed=seed), blocks, strict=True):
            h, w = pixels.shape[:2]
            dx, dy = round(0.2 * w), round(0.1 * h)
            big = np.full((h + 2 * dy, w + 2 * dx, 3), (1, 2, 3), np.uint8)
            big[dy:dy + h, dx:dx + w] = pixels
            moved = [(x, y) for y in range(2 * dy + 1) for x in range(2 * dx + 1)
                     if np.array_equal(big[y, x], got[0, 0]) and np.array_equal(big[y:y + h, x:x + w], got)]
            assert moved, pixels.shape
            seen.update(moved)
    assert len(seen) > 6


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_perspective_is_torchvisions(shard, blocks, mode):
    """7x5: a corner moves by 0 or 1 each way; what comes out is one of the 256 maps."""
    pixels, w, h = blocks[5], 7, 5
    x, y = places(pixels)
    start = [(0, 0), (w - 1, 0), (w - 1, h - 1), (0, h - 1)]
    wants = []
    for c in itertools.product((0, 1), repeat=8):
        end = [(c[0], c[1]), (w - 1 - c[2], c[3]), (w - 1 - c[4], h - 1 - c[5]), (c[6], h - 1 - c[7])]
        rows_of = [r for (sx, sy), (ex, ey) in zip(start, end, strict=True)
                   for r in ([ex, ey, 1, 0, 0, 0, -sx * ex, -sx * ey], [0, 0, 0, ex, ey, 1, -sy * ex, -sy * ey])]
        m = np.linalg.lstsq(np.array(rows_of, float), np.array([v for p in start for v in p], float), rcond=None)[0]
        by = m[6] * x + m[7] * y + 1
        wants.append(sampled(pixels, (m[0] * x + m[1] * y + m[2]) / by, (m[3] * x + m[4] * y + m[5]) / by, mode))
    found = set()
    for seed in range(12):
        got = rows(shard, f"perspective(0.5, p=1, interpolation={mode})", seed=seed)[5].astype(int)
        off = [np.abs(got - want).max() if mode == "bilinear" else (got != want).any(-1).sum() for want in wants]
        assert min(off) <= (1 if mode == "bilinear" else 2), min(off)       # of 35 pixels, half way between two
        found.add(int(np.argmin(off)))
    assert len(found) > 6


def test_rotate_draws_from_the_whole_range(shard, blocks):
    assert len({rows(shard, "rotate(30)", seed=seed)[0].tobytes() for seed in range(8)}) > 5
    assert all(np.array_equal(a, b) for a, b in zip(rows(shard, "rotate(30, p=0)"), blocks, strict=True))


@pytest.mark.parametrize(("chain", "says"), [
    ("rotate(-3)", "rotate: degrees is one number, 0 or more, or (least, most)"), ("rotate((5, 1))", "rotate: degrees is"),
    ("rotate(1, interpolation=bicubic)", "rotate: interpolation is nearest or bilinear, not bicubic"),
    ("affine(1, translate=0.5)", "affine: translate is (width, height)"), ("affine(1, scale=(0, 1))", "affine: scale"),
    ("affine(1, shear=90)", "affine: shear is"), ("affine(1, shear=(1, 2, 3, 90))", "affine: shear of four numbers"),
    ("perspective(1.5)", "perspective: distortion_scale=1.5 is not in 0..1")])
def test_one_line_each(shard, chain, says):
    with pytest.raises(stoker.StokerError) as raised:
        rows(shard, chain)
    assert says in str(raised.value) and "\n" not in str(raised.value)
