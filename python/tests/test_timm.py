# SPDX-License-Identifier: Apache-2.0
"""timm_rand_augment, timm_auto_augment and timm_augmix against timm's own functions: pixel by pixel for every op, sign, filter and strength; draws in distribution.

timm's file of policies is read without its package, which needs torchvision (tools/requirements/transforms.txt)."""

import importlib.util
import math
import os
import sys
from collections import Counter

import numpy as np
import pytest
from conftest import as_numpy, write_tar
from PIL import Image

import stoker

FILE = os.path.join(os.environ.get("STOKER_TRANSFORMS", os.path.join(sys.prefix, "transforms")), "timm", "data", "auto_augment.py")
if not os.path.exists(FILE):
    pytest.skip("timm is not installed: make setup", allow_module_level=True)
SPEC = importlib.util.spec_from_file_location("timm_auto_augment", FILE)
TIMM = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TIMM)

BILINEAR, BICUBIC = 2, 3


def pictures(seed, w, h):
    rng = np.random.default_rng(seed)
    smooth = Image.fromarray(rng.integers(0, 256, (7, 9, 3), dtype=np.uint8)).resize((w, h), Image.BICUBIC)
    return [np.asarray(smooth), rng.integers(0, 256, (h, w, 3), dtype=np.uint8), np.asarray(smooth) // 3 + 40]


def by_timm(name, image, level, sign, resample, fill, hparams=None):
    """What one of timm's functions makes of a picture, given all that it would draw."""
    before, TIMM._randomly_negate = TIMM._randomly_negate, lambda v: sign * v
    try:
        to_arg = TIMM.LEVEL_TO_ARG[name]
        args = to_arg(max(0.0, min(level, 10.0 if hparams is None else hparams.get("mmax", 10.0))), hparams or {}) if to_arg else ()
        if name.startswith("Posterize") and args[0] <= 0:
            return np.zeros_like(image)                     # Pillow before 12; later ones raise
        return np.asarray(TIMM.NAME_TO_OP[name](Image.fromarray(image), *args, fillcolor=fill, resample=resample))
    finally:
        TIMM._randomly_negate = before


def candidates(names, image, level, fill, filters=(BILINEAR, BICUBIC), hparams=None):
    """What can come out, and by which draws: those that agree are one."""
    found = {}
    for name in names:
        for sign in (1, -1):
            for resample in filters:
                found.setdefault(by_timm(name, image, level, sign, resample, fill, hparams).tobytes(), set()).add(name)
    return found


def run(chain, image, n, seed=1):
    return np.asarray(stoker.Transform(f"{chain} | to(u8, hwc)", seed=seed)(np.stack([image] * n)))


@pytest.mark.parametrize("increasing", [False, True])
def test_every_op_at_any_strength_is_timms(increasing):
    """One op each time: each result is one of those that timm can make, to the last pixel; and all of its ops come."""
    names = TIMM._RAND_INCREASING_TRANSFORMS if increasing else TIMM._RAND_TRANSFORMS
    word, seen = "true" if increasing else "false", Counter()
    for case, level in enumerate([*range(11), 0.4, 2.71, 6.35, 8.88, 9.99]):
        w, h = 31 + 7 * case % 40, 29 + 11 * case % 37
        for image in pictures(case, w, h):
            found = candidates(names, image, level, (124, 116, 104))
            for out in run(f"timm_rand_augment({level}, n=1, p=1, increasing={word}, fill=(124, 116, 104))", image, 24, case):
                assert out.tobytes() in found, f"strength {level}, {w}x{h}: timm makes no such picture"
                ops = found[out.tobytes()]
                seen.update(ops if len(ops) == 1 else [])
    assert set(seen) >= set(names) - {"AutoContrast", "Posterize", "PosterizeIncreasing", "Solarize", "SolarizeIncreasing", "SolarizeAdd"}, seen


def test_filters_fill_and_range_are_what_was_said():
    image = pictures(5, 40, 33)[1]
    for resample, word in ((BILINEAR, "bilinear"), (BICUBIC, "bicubic")):
        found = candidates(TIMM._RAND_TRANSFORMS, image, 17, (9, 9, 9), (resample,), {"mmax": 20.0, "translate_pct": 0.3})
        for out in run(f"timm_rand_augment(17, n=1, p=1, mmax=20, fill=9, translate=0.3, interpolation={word})", image, 150):
            assert out.tobytes() in found


def test_two_ops_one_after_the_other():
    """n=2: what timm's second op makes of what its first made."""
    image, names = pictures(9, 24, 20)[0], TIMM._RAND_INCREASING_TRANSFORMS
    first = candidates(names, image, 9, (128, 128, 128))
    both = set()
    for data in first:
        made = np.frombuffer(data, np.uint8).reshape(image.shape)
        both.update(candidates(names, made, 9, (128, 128, 128)))
    for out in run("timm_rand_augment(9, p=1, increasing=true)", image, 300):
        assert out.tobytes() in both


@pytest.mark.parametrize("policy", ["v0", "v0r", "original", "originalr"])
def test_auto_augment_is_timms(policy):
    """Every result is one of timm's pairs, each op done or not; and as often as timm says."""
    image, pairs = pictures(3, 26, 22)[0], TIMM.auto_augment_policy(policy, {"magnitude_std": 0})
    whole = {}
    for k, pair in enumerate(pairs):
        now = {image.tobytes(): 1.0}
        for op in pair:
            then = Counter()
            for data, p in now.items():
                was = np.frombuffer(data, np.uint8).reshape(image.shape)
                then[data] += p * (1 - op.prob)
                for sign in (1, -1):
                    for resample in (BILINEAR, BICUBIC):
                        then[by_timm(op.name, was, op.magnitude, sign, resample, (128, 128, 128)).tobytes()] += p * op.prob / 4
            now = then
        for data, p in now.items():
            whole[data] = whole.get(data, 0) + p / len(pairs)
    n, counts = 4000, Counter()
    for out in run(f"timm_auto_augment({policy})", image, n):
        assert whole.get(out.tobytes(), 0) > 0, policy
        counts[out.tobytes()] += 1
    common = [(counts[data], n * p) for data, p in whole.items() if n * p >= 8]
    chi = sum((got - want) ** 2 / want for got, want in common)
    assert chi < len(common) + 5 * math.sqrt(2 * len(common)), (chi, len(common))


def blurs(image, low, high):
    """What Pillow's blur makes of a picture, by radius: a fine walk over what can be drawn."""
    return {np.asarray(Image.fromarray(image).filter(TIMM.ImageFilter.GaussianBlur(radius=float(r)))).tobytes()
            for r in np.linspace(low, high, 20001)}


def test_the_lists_that_are_named_3a():
    """AutoAugment's policy 3a, and RandAugment's lists 3a and 3aw."""
    image = pictures(4, 9, 7)[1]                        # small: each radius gives few pictures
    gray = by_timm("Desaturate", image, 10, 1, BILINEAR, None).tobytes()
    solar = by_timm("Solarize", image, 5, 1, BILINEAR, None).tobytes()
    soft, counts = blurs(image, 0.1, 2.0), Counter()
    for out in run("timm_auto_augment(t3a)", image, 1500):
        data = out.tobytes()
        counts["gray" if data == gray else "solar" if data == solar else "blur" if data in soft else "none"] += 1
    assert counts["none"] <= 30 and min(counts[k] for k in ("gray", "solar", "blur")) > 400, counts      # a walk misses a few
    for size in ((40, 33), (2, 5), (1, 1), (3, 1)):
        image = pictures(6, *size)[1]
        for level in (0, 0.4, 3, 7.7, 10):
            found = candidates(TIMM._RAND_3A, image, level, (128, 128, 128))
            seen = {data: 0 for data in found}
            for out in run(f"timm_rand_augment({level}, n=1, p=1, transforms=t3a)", image, 40):
                seen[out.tobytes()] += 1                # KeyError: timm makes no such picture
            assert all(seen.values())
    image = pictures(8, 24, 21)[1] // 2 + 30
    found, total = {}, sum(TIMM._RAND_WEIGHTED_3A.values())
    for name in TIMM._RAND_WEIGHTED_3A:
        for data in candidates([name], image, 7, (128, 128, 128)):
            found.setdefault(data, name)
    n = 4000
    counts = Counter(found[out.tobytes()] for out in run("timm_rand_augment(7, n=1, p=1, transforms=t3aw)", image, n))
    for name, weight in TIMM._RAND_WEIGHTED_3A.items():
        want = n * weight / total
        assert abs(counts[name] - want) < 5 * math.sqrt(want), (name, counts)
    for wrong in ("t3a, n=3", "t3aw, n=12"):
        with pytest.raises(stoker.StokerError, match="n is at most"):
            stoker.Transform(f"timm_rand_augment(5, transforms={wrong}) | to(u8)")


def test_ops_come_as_often_as_in_timm():
    """Evenly with replacement; by weight without; each with probability p."""
    image = pictures(7, 30, 30)[1] // 2 + 30           # no op leaves it as it is
    names = TIMM._RAND_INCREASING_TRANSFORMS
    weights = np.array([TIMM._RAND_WEIGHTED_0[name] for name in names])
    for chain, share, p in (("timm_rand_augment(7, n=1, increasing=true)", np.full(15, 1 / 15), 0.5),
                            ("timm_rand_augment(7, n=1, p=1, transforms=weights)", weights / weights.sum(), 1.0)):
        found = {}
        for name in names:
            for sign in (1, -1):
                for resample in (BILINEAR, BICUBIC):
                    found.setdefault(by_timm(name, image, 7, sign, resample, (128, 128, 128)).tobytes(), name)
        found[image.tobytes()] = "nothing"
        n = 6000
        counts = Counter(found[out.tobytes()] for out in run(chain, image, n))
        for name, s in zip(names, share, strict=True):
            assert abs(counts[name] - n * p * s) < 5 * math.sqrt(n * p * s) + 1, (name, counts[name], n * p * s)
        assert abs(counts["nothing"] - n * (1 - p)) <= 5 * math.sqrt(n * p * (1 - p))


@pytest.mark.parametrize("mstd,cdf", [(0.5, lambda v: 0.5 * (1 + math.erf((v - 7) / 0.5 / math.sqrt(2)))), (1000, lambda v: v / 7)])
def test_strengths_have_timms_noise(mstd, cdf):
    """Read off SolarizeAdd, whose step of 11 a unit of strength is seen in a dark picture: normal about m, or uniform up to it."""
    dark = np.full((8, 8, 3), 10, np.uint8)
    dark[0, 0] = 90                                 # so that autocontrast, equalize and contrast do something else
    n, found = 20000, []
    for out in run(f"timm_rand_augment(7, n=1, p=1, mstd={mstd})", dark, n):
        step = int(out[4, 4, 0]) - 10
        if (out[4, 4] == 10 + step).all() and out[0, 0, 0] == 90 + step and 0 < step <= 110 and (out[1:] == 10 + step).all():
            found.append(step)
    assert n / 15 * 0.8 < len(found) < n / 15 * 1.4
    steps, at = np.array(found), np.arange(5, 110, 5)
    apart = max(abs((steps < v).mean() - cdf(v / 11)) for v in at if 0.02 < cdf(v / 11) < 0.98)
    assert apart < 1.95 / math.sqrt(len(found)) + 0.02


def shares(before, after, out):
    """From and to which share of `after` a blend with `before` gives `out`, each pixel cut down; empty where none does."""
    a, b, r = (v.astype(float).ravel() for v in (before, after, out))
    same, up, down = a == b, b > a, b < a
    if (r[same] != a[same]).any():
        return 1.0, 0.0
    low = np.concatenate([(r - a)[up] / (b - a)[up], (r + 1 - a)[down] / (b - a)[down], [0.0]])
    high = np.concatenate([(r + 1 - a)[up] / (b - a)[up], (r - a)[down] / (b - a)[down], [1.0]])
    return low.max(), high.min()


def test_augmix_is_timms():
    """One version: a blend of the picture with what one of timm's ops makes of it, by a share that is uniform.  Several: between them."""
    image = pictures(6, 32, 32)[1] // 2 + 30
    found = {}
    for name in TIMM._AUGMIX_TRANSFORMS:
        for sign in (1, -1):
            for resample in (BILINEAR, BICUBIC):
                found.setdefault(by_timm(name, image, 6, sign, resample, (128, 128, 128), {"translate_pct": 0.3}).tobytes(), name)
    made = {name: [np.frombuffer(data, np.uint8).reshape(image.shape) for data, by in found.items() if by == name] for name in found.values()}
    seen, by = [], Counter()
    for out in run("timm_augmix(6, width=1, depth=1, mstd=0)", image, 400):
        fits = [(name, low, high) for name, versions in made.items() for low, high in [max((shares(image, v, out) for v in versions), key=lambda s: s[1] - s[0])]
                if low <= high + 1e-6]
        assert fits, "no version of timm's blends to this"
        if len(fits) == 1:
            by[fits[0][0]] += 1
            seen.append((fits[0][1] + fits[0][2]) / 2)
    assert set(by) == set(TIMM._AUGMIX_TRANSFORMS), by
    seen = np.sort(seen)
    assert np.abs(seen - np.linspace(0, 1, len(seen))).max() < 0.12
    least, most = np.min([image, *(v for versions in made.values() for v in versions)], 0), np.max([image, *(v for versions in made.values() for v in versions)], 0)
    for out in run("timm_augmix(6, width=3, depth=1, mstd=0)", image, 50):
        assert (out >= np.maximum(least.astype(int) - 1, 0)).all() and (out <= most).all()
    assert len({out.tobytes() for out in run("timm_augmix", image, 50)}) == 50


def mixed_by_timm(image, versions, parts):
    """What timm's AugMix makes of a picture and its versions, given their parts of the result: its own arithmetic, with ops that are done."""
    m = sum(parts)
    mix = TIMM.AugMixAugment([lambda _, v=v: Image.fromarray(v) for v in versions], width=len(versions), depth=1)
    before, np.random.choice = np.random.choice, lambda ops, depth, replace, left=iter(range(len(versions))): [ops[next(left)]]
    try:
        return np.asarray(mix._apply_basic(Image.fromarray(image), np.float32(parts) / np.float32(m), np.float32(m)))
    finally:
        np.random.choice = before


def test_augmix_mixes_three_versions_as_timm_does():
    """Which three versions, and how much of each, is found by least squares over all triples; timm's arithmetic is given these.  It cuts
    the sum down to bytes and then the blend: half of a value each time, on average."""
    image = pictures(6, 32, 32)[1] // 2 + 30
    made = {by_timm(name, image, 6, sign, resample, (128, 128, 128), {"translate_pct": 0.3}).tobytes() for name in TIMM._AUGMIX_TRANSFORMS
            for sign in (1, -1) for resample in (BILINEAR, BICUBIC)} - {image.tobytes()}
    versions = [np.frombuffer(data, np.uint8).reshape(image.shape) for data in sorted(made)]
    columns = np.stack([(v.astype(float) - image).ravel() - 0.5 for v in versions])
    gram, k = columns @ columns.T, len(versions)
    triples = np.array([(a, b, c) for a in range(k) for b in range(a + 1, k) for c in range(b + 1, k)])
    grams = gram[triples[:, :, None], triples[:, None, :]]
    same = []
    for out in run("timm_augmix(6, width=3, depth=1, mstd=0)", image, 60):
        y = (out.astype(float) - image).ravel() + 0.5
        right = (columns @ y)[triples]
        parts = np.linalg.solve(grams, right[..., None])[..., 0]
        left = y @ y - (parts * right).sum(1)
        best = np.where((parts > -0.002).all(1), left, np.inf).argmin()
        shares = np.clip(parts[best], 0, 1)
        if shares.min() < 0.02 or shares.sum() > 1:
            continue                                    # a version that came twice, or hardly
        off = np.abs(mixed_by_timm(image, [versions[i] for i in triples[best]], shares).astype(int) - out)
        assert off.max() <= 1, (shares, off.max())
        same.append((off == 0).mean())
    assert len(same) > 20 and min(same) > 0.7 and np.mean(same) > 0.95, sorted(same)


def test_a_mask_does_not_follow_versions_that_are_mixed(tmp_path):
    Image.fromarray(pictures(1, 24, 24)[0]).save(tmp_path / "x.png")
    chains = {"image": "from(png) | image | timm_augmix(10, mstd=0)", "same": "from(png) | image | like(image)", "plain": "from(png) | image"}
    with stoker.Loader(write_tar(tmp_path / "a.tar", [(f"{i}.png", (tmp_path / "x.png").read_bytes()) for i in range(20)]), chains, batch_size=1) as loader:
        for batch in loader:
            np.testing.assert_array_equal(as_numpy(batch["same"][0]), as_numpy(batch["plain"][0]))


def test_followers_move_with_it(tmp_path):
    """Masks by nearest, pictures as their leader, boxes by the same map."""
    files = []
    for i in range(40):
        mask = np.zeros((48, 56), np.uint8)
        mask[12:36, 16:40] = 200
        for name, data in (("png", np.stack([mask] * 3, -1)), ("mask.png", mask)):
            path = tmp_path / "x.png"
            Image.fromarray(data).save(path)
            files.append((f"{i:02d}.{name}", path.read_bytes()))
        files.append((f"{i:02d}.json", b"[[16, 12, 40, 36]]"))
    chains = {"image": "from(png) | image | timm_rand_augment(9, n=1, p=1, transforms=weights, fill=0)", "same": "from(png) | image | like(image)",
              "mask": "from(mask.png) | image(mode=index) | like(image)", "deep": "from(mask.png) | image(mode=gray) | like(image, interpolation=nearest)",
              "boxes": "from(json) | floats(shape=(-1, 4)) | like(image)"}
    moved = 0
    with stoker.Loader(write_tar(tmp_path / "a.tar", files), chains, batch_size=1, seed=4) as loader:
        for batch in loader:
            mask, boxes = as_numpy(batch["mask"][0]), as_numpy(batch["boxes"][0])
            np.testing.assert_array_equal(mask, as_numpy(batch["deep"][0])[0])
            ys, xs = np.nonzero(mask)
            moved += (xs.min(), ys.min()) != (16, 12)
            np.testing.assert_allclose(boxes[0], [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1], atol=2)
            assert np.abs((as_numpy(batch["same"][0])[0] > 100).astype(int) - (mask > 0)).mean() < 0.03
    assert moved > 20


def test_the_crops_filter_is_drawn():
    """interpolation=random: bilinear or bicubic, each as often, for the same crop."""
    image = pictures(4, 60, 50)[1]
    crop = "random_resized_crop(24, scale=(1, 1), ratio=(1.2, 1.2){})"
    ways = [run(crop.format(f", interpolation={name}"), image, 1)[0] for name in ("bilinear", "bicubic")]
    which = Counter(next(i for i, way in enumerate(ways) if np.array_equal(out, way)) for out in run(crop.format(", interpolation=random"), image, 400))
    assert 150 < which[0] < 250


def test_erasing_counts_and_colors():
    """timm's RandomErasing: 1 to count rectangles that share the area, mode rand: one normal color each."""
    image = np.full((60, 60, 3), 100, np.uint8)
    chain = "normalize((0, 0, 0), (1, 1, 1)) | random_erasing(1, scale=(0.05, 0.05), ratio=(1, 1), value=color, count=4) | to(f32, hwc)"
    out = np.asarray(stoker.Transform(chain, seed=2)(np.stack([image] * 500)))
    colors, areas = Counter(), []
    for row in out:
        erased = np.abs(row[..., 0] - 100 / 255) > 1e-6
        found = {tuple(v) for v in row[erased]}
        colors[len(found)] += 1
        areas.append(erased.mean())
    assert set(colors) == {1, 2, 3, 4} and min(colors.values()) > 80
    assert 0.03 < np.mean(areas) <= 0.056                       # what they share; less where they overlap
    values = np.array([v for row in out for v in {tuple(v) for v in row[np.abs(row[..., 0] - 100 / 255) > 1e-6]}])
    assert abs(values.mean()) < 0.1 and abs(values.std() - 1) < 0.1


@pytest.mark.parametrize("chain,says", [
    ("timm_rand_augment(-1)", "m=-1 is not in 0..1000"), ("timm_rand_augment(9, n=17)", "n=17 is not in 0..16"), ("timm_rand_augment(9, transforms=some)", "transforms is all, weights, t3a or t3aw"),
    ("timm_rand_augment(9, interpolation=nearest)", "interpolation is random, bilinear or bicubic, not nearest"), ("timm_auto_augment(v1)", "policy is v0, v0r, original, originalr or t3a, not v1"),
    ("timm_rand_augment(9, n=16, transforms=weights)", "n is at most 15"), ("timm_rand_augment(9, fill=300)", "fill=300 is not in 0..255"),
    ("timm_augmix(3, width=4, depth=3)", "width * (depth + 1) is at most 14"),
    ("random_erasing(count=17)", "count=17 is not in 1..16"), ("random_erasing(value=blue)", "value is one number, three, `random` or `color`"),
    ("resize((8, 8), interpolation=random)", "interpolation is nearest, bilinear, bicubic or lanczos, not random")])
def test_one_line_each(chain, says):
    with pytest.raises(ValueError) as said:
        stoker.Transform(chain)
    assert says in str(said.value)
