# SPDX-License-Identifier: Apache-2.0
"""Crops, resizes, pads and mirrors against Pillow: across first, then down, as Pillow up to 12 and torch do it."""

import io

import numpy as np
import pytest
from conftest import as_numpy, write_tar
from PIL import Image, ImageOps

import stoker

FILTERS = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR,
           "bicubic": Image.Resampling.BICUBIC, "lanczos": Image.Resampling.LANCZOS}
WITHIN = {"nearest": 0, "bilinear": 1, "bicubic": 2, "lanczos": 2}      # of 255, on noise
SIZES = [(80, 60), (61, 97), (256, 200), (33, 400), (17, 19), (1, 1), (1, 500), (700, 1), (7, 5)]


@pytest.fixture(scope="module")
def noise():
    rng = np.random.default_rng(14)
    return [Image.fromarray(rng.integers(0, 256, (h, w, 3), np.uint8)) for w, h in SIZES]


@pytest.fixture(scope="module")
def shard(noise, tmp_path_factory):
    return write_tar(tmp_path_factory.mktemp("geometry") / "g.tar", [(f"{i:04d}.png", png(p)) for i, p in enumerate(noise)])


def png(picture):
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def rows(shard, chain, **options):
    with stoker.Loader(shard, {"x": f"from(png) | image | {chain} | to(u8, hwc)"}, batch_size=1, **options) as loader:
        return [as_numpy(batch["x"][0]) for batch in loader]


def resized(picture, size, name):
    return np.asarray(picture.resize((size[0], picture.height), FILTERS[name]).resize(size, FILTERS[name])).astype(int)


@pytest.mark.parametrize("name", FILTERS)
def test_filters_are_pillows(shard, noise, name):
    for size in ((32, 32), (100, 70), (224, 224), (5, 9), (1, 1), (13, 300)):
        for got, picture in zip(rows(shard, f"resize(({size[1]}, {size[0]}), interpolation={name})"), noise, strict=True):
            want = resized(picture, size, name)
            off = np.abs(got.astype(int) - want)
            assert off.max() <= WITHIN[name] and (off > 0).mean() <= 0.06, (picture.size, size, off.max())


def test_sharp_filters_are_torchs(shard, noise):
    torch = pytest.importorskip("torch")
    for name in ("bilinear", "bicubic"):
        for size in ((32, 32), (100, 70), (9, 5)):
            for got, picture in zip(rows(shard, f"resize(({size[1]}, {size[0]}), interpolation={name}, antialias=false)"), noise,
                                    strict=True):
                pixels = torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1)[None].float()
                want = torch.nn.functional.interpolate(pixels, (size[1], size[0]), mode=name, antialias=False)
                want = want.clamp(0, 255)[0].permute(1, 2, 0).numpy()
                if name == "bicubic":           # we round to 8 bits between the passes
                    assert np.quantile(np.abs(got - want), 0.9) <= 1.1
                else:
                    assert np.abs(got - want).max() <= 1.1, (picture.size, size)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_pad_is_numpys(shard, noise, mode):
    """np.pad() is what torchvision does to a picture of PIL."""
    for got, picture in zip(rows(shard, f"pad((3, 1, 0, 4), fill=(9, 90, 200), padding_mode={mode})"), noise, strict=True):
        if mode == "constant":
            want = np.asarray(ImageOps.expand(picture, (3, 1, 0, 4), fill=(9, 90, 200)))
        else:
            want = np.pad(np.asarray(picture), ((1, 4), (3, 0), (0, 0)), mode)
        assert np.array_equal(got, want), picture.size


def test_random_crop(shard, noise):
    chain = "random_crop((24, 20), padding=4, pad_if_needed=true, fill=7)"
    seen = set()
    for epoch in range(3):
        for got, picture in zip(rows(shard, chain, seed=epoch), noise, strict=True):
            w, h = picture.size
            right, down = max(20 - w - 8, 0), max(24 - h - 8, 0)
            whole = np.asarray(ImageOps.expand(picture, (4 + right, 4 + down), fill=(7, 7, 7)))
            places = [(y, x) for y in range(whole.shape[0] - 23) for x in range(whole.shape[1] - 19)
                      if np.array_equal(whole[y, x], got[0, 0]) and np.array_equal(whole[y:y + 24, x:x + 20], got)]
            assert places, picture.size
            seen.update(places)
    assert len(seen) > 9
    with pytest.raises(stoker.StokerError, match="the picture is smaller than random_crop: give pad_if_needed=true"):
        rows(shard, "random_crop(24)")


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric"])
def test_random_crop_of_the_same_size_moves_both_ways(mode):
    """CIFAR's crop: as large as the picture, out of a border of 4."""
    pictures = np.random.default_rng(3).integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)
    made = stoker.Transform(f"random_crop(32, padding=4, padding_mode={mode}) | to(u8, hwc)", seed=1)(pictures)
    seen = set()
    for got, picture in zip(np.asarray(made), pictures, strict=True):
        whole = np.pad(picture, ((4, 4), (4, 4), (0, 0)), mode)
        places = [(y, x) for y in range(9) for x in range(9) if np.array_equal(whole[y:y + 32, x:x + 32], got)]
        assert len(places) == 1
        seen.update(places)
    assert len({x for _, x in seen}) > 5 and len({y for y, _ in seen}) > 5


def test_letterbox(shard, noise):
    for got, picture in zip(rows(shard, "letterbox((64, 48), fill=114)"), noise, strict=True):
        w, h = picture.size
        r = min(48 / w, 64 / h)
        nw, nh = max(round(w * r), 1), max(round(h * r), 1)
        left, top = round((48 - nw) / 2 - 0.1), round((64 - nh) / 2 - 0.1)
        want = np.full((64, 48, 3), 114)
        want[top:top + nh, left:left + nw] = resized(picture, (nw, nh), "bilinear")
        assert np.abs(got.astype(int) - want).max() <= 1, picture.size


def test_flips(shard, noise):
    both = {name: rows(shard, f"vflip(p={p}) | hflip(p={q})") for name, p, q in (("v", 1, 0), ("h", 0, 1), ("vh", 1, 1))}
    for i, picture in enumerate(noise):
        pixels = np.asarray(picture)
        assert np.array_equal(both["v"][i], pixels[::-1]) and np.array_equal(both["h"][i], pixels[:, ::-1])
        assert np.array_equal(both["vh"][i], pixels[::-1, ::-1])


def test_sizes_are_torchvisions(shard, noise):
    """The sizes that ScaleJitter and RandomShortestSize would give."""
    for got, picture in zip(rows(shard, "scale_jitter((100, 60), scale=(0.5, 0.5))"), noise, strict=True):
        r = min(100 / picture.height, 60 / picture.width) * 0.5
        assert got.shape[:2] == (max(int(picture.height * r), 1), max(int(picture.width * r), 1))
    for got, picture in zip(rows(shard, "random_shortest_size((20, 20), max_size=90)"), noise, strict=True):
        r = min(20 / min(picture.size), 90 / max(picture.size))
        assert got.shape[:2] == (max(int(picture.height * r), 1), max(int(picture.width * r), 1))


def test_sizes_as_many_as_detr_has(shard, noise):
    sizes = tuple(range(16, 27))
    seen = {min(got.shape[:2]) for seed in range(3) for got, p in zip(rows(shard, f"random_shortest_size({sizes})", seed=seed), noise, strict=True)
            if min(p.size) > 8}
    assert len(seen) >= 6 and seen <= {s + off for s in sizes for off in (-1, 0)}


@pytest.mark.parametrize(("chain", "says"), [
    ("zoom_out((0.5, 2))", "zoom_out: side_range is"), ("zoom_out(p=nan)", "zoom_out: `p` must be a number"),
    ("resize(9, interpolation=cubic)", "resize: interpolation is nearest, bilinear, bicubic or lanczos, not cubic"),
    ("resize(9, interpolation=lanczos, antialias=false)", "lanczos has no antialias=false"),
    ("pad((1, 2, 3))", "pad: padding is one number"), ("pad(-1)", "pad: padding of -1 pixels is not in 0..65535"),
    ("pad(1, padding_mode=wrap)", "padding_mode is constant, edge, reflect or symmetric, not wrap"),
    ("pad(1, fill=256)", "pad: fill=256 is not in 0..255"), ("pad(1, fill=(1, 2))", "fill is one number or"),
    ("resize((8, 8)) | random_crop(9)", "the picture is 8x8 here, smaller than the crop of 9x9"),
    ("vflip(2)", "vflip: p=2 is not in 0..1"), ("scale_jitter(9, scale=(0, 1))", "scale_jitter: scale is"),
    ("letterbox(0)", "letterbox: a side of 0 pixels")])
def test_one_line_each(shard, chain, says):
    with pytest.raises(stoker.StokerError) as raised:
        rows(shard, chain)
    assert says in str(raised.value) and "\n" not in str(raised.value)


def test_what_does_not_go_together_runs_one_after_the_other(shard, noise):
    """A second resize, padding before a resize, a crop beyond a crop: each is what Pillow makes step by step."""
    def fit(p, size):
        return Image.fromarray(resized(p, size, "bilinear").astype(np.uint8))

    def border(p, mode, n=2):
        return Image.fromarray(np.pad(np.asarray(p), ((n, n), (n, n), (0, 0)), mode))

    cases = {
        "resize((30, 20)) | resize((9, 11), interpolation=bicubic)":
            lambda p: (resized(fit(p, (20, 30)), (11, 9), "bicubic"), 3),
        "resize((30, 20)) | pad(2, padding_mode=reflect) | resize((40, 40)) | hflip(p=1)":
            lambda p: (resized(border(fit(p, (20, 30)), "reflect"), (40, 40), "bilinear")[:, ::-1], 2),
        "pad(3, fill=200) | resize((16, 16))":
            lambda p: (resized(ImageOps.expand(p, 3, fill=(200,) * 3), (16, 16), "bilinear"), 1),
        "resize((30, 20)) | center_crop(10) | center_crop(14)":
            lambda p: (np.pad(np.asarray(fit(p, (20, 30)))[10:20, 5:15], ((2, 2), (2, 2), (0, 0))).astype(int), 1),
        "resize((8, 8)) | pad(1, fill=9) | center_crop(14)":
            lambda p: (np.pad(np.asarray(ImageOps.expand(fit(p, (8, 8)), 1, fill=(9,) * 3)), ((2, 2), (2, 2), (0, 0))).astype(int), 1),
    }
    for chain, make in cases.items():
        for got, picture in zip(rows(shard, chain), noise, strict=True):
            want, within = make(picture)
            assert got.shape == want.shape and np.abs(got.astype(int) - want).max() <= within, (chain, picture.size)


def test_views(shard, noise):
    """What follows views(n) is drawn once per view, what stands before it once; the same with any number of workers."""
    fields = {"two": "from(png) | image | views(2) | random_resized_crop(9) | hflip | to(u8)",
              "same": "from(png) | image | random_resized_crop((12, 14)) | views(3) | center_crop(8) | to(f32, channels_last)"}
    found = []
    for workers in (0, 2):
        with stoker.Loader(shard, fields, batch_size=len(noise), seed=3, num_workers=workers) as loader:
            [batch] = loader
            found.append([as_numpy(batch[name]).copy() for name in fields])
    two, same = found[0]
    assert two.shape == (len(noise), 2, 3, 9, 9) and same.shape == (len(noise), 3, 3, 8, 8)
    assert np.array_equal(same[:, 0], same[:, 1]) and np.array_equal(same[:, 0], same[:, 2])
    assert all(not np.array_equal(row[0], row[1]) for row in two[:3])      # thin pictures have one crop
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_corners(shard, noise):
    for n, chain in ((5, "resize((20, 24)) | five_crop((8, 10))"), (10, "resize((20, 24)) | ten_crop((8, 10))"),
                     (10, "resize((20, 24)) | ten_crop((8, 10), vertical_flip=true)")):
        for got, picture in zip(rows(shard, chain), noise, strict=True):
            pixels = rows_of(picture)
            mirror = pixels[::-1] if "vertical" in chain else pixels[:, ::-1]
            want = [p[y:y + 8, x:x + 10] for p in (pixels, mirror)[:n // 5] for y, x in ((0, 0), (0, 14), (12, 0), (12, 14), (6, 7))]
            assert got.shape == (n, 8, 10, 3) and np.abs(got.astype(int) - np.stack(want)).max() <= 1


def rows_of(picture):
    return resized(picture, (24, 20), "bilinear")


@pytest.mark.parametrize(("chain", "says"), [
    ("views(0) | resize((8, 8))", "views: n=0 is not in 1..1024"), ("views(2) | resize(8)", "output x: views have one size"),
    ("views(2) | views(2) | resize((8, 8))", "views: the chain has views already"),
    ("views(2) | five_crop(4)", "five_crop: the chain has views already"),
    ("resize((8, 8)) | random_apply(views(2))", "random_apply: `views` does not work on pixels: put it outside"),
    ("five_crop(16)", "five_crop: the picture is smaller than the crop")])
def test_views_say_what_is_wrong(shard, chain, says):
    with pytest.raises(stoker.StokerError) as raised:
        rows(shard, chain)
    assert says in str(raised.value) and "\n" not in str(raised.value)
