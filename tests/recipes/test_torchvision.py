# SPDX-License-Identifier: Apache-2.0
"""Given the same numbers, every op makes what torchvision makes of uint8 tensors, within the tolerance that docs/augment.md
states; and numbers that are drawn have its distributions."""

import os

import numpy as np
import tv_oracle
import pytest

import stoker

T = tv_oracle.load()
F = T.functional
import torch  # noqa: E402  (oracle skips where it is not installed)

torch.set_num_threads(1)
SIZES = [(128, 160), (67, 41), (3, 5), (1, 1), (1, 300)]


def pictures(height, width):
    """Smooth, noisy, dark and of one color."""
    rng = np.random.default_rng(height * 1000 + width)
    coarse = torch.from_numpy(rng.random((1, 3, 9, 9), dtype=np.float32))
    smooth = (torch.nn.functional.interpolate(coarse, size=(height, width), mode="bilinear")[0] * 255).to(torch.uint8)
    noisy = torch.from_numpy(rng.integers(0, 256, (3, height, width), dtype=np.uint8))
    return torch.stack([smooth, noisy, smooth // 3 + 20, torch.full_like(smooth, 77)])


def made(chain, batch, **options):
    return stoker.Transform(f"{chain} | to(u8)", layout="chw", num_workers=1, **options)(batch)


def largest(a, b):
    return int((a.int() - b.int()).abs().max()) if a.numel() else 0


FACTORS = [0.0, 0.31, 0.9, 1.0, 1.27, 1.9, 3.0]
# A gray that is 1 off, as one in 10,000 is, weighs |f - 1| times: 2 where a factor is 3.
CASES = [(f"{name}(({f}, {f}))", function, {}, f, 2 if f > 2 else 1)
         for name, function in (("brightness", F.adjust_brightness), ("contrast", F.adjust_contrast),
                                ("saturation", F.adjust_saturation)) for f in FACTORS]
CASES += [(f"hue(({h}, {h}))", F.adjust_hue, {}, h, 1) for h in (-0.5, -0.21, 0.0, 0.05, 0.33, 0.5)]
CASES += [(f"sharpness({f}, p=1)", F.adjust_sharpness, {}, f, 1) for f in FACTORS]
CASES += [(f"solarize({t}, p=1)", F.solarize, {}, t, 0) for t in (0, 100, 127.5, 255)]
CASES += [(f"posterize({b}, p=1)", F.posterize, {}, b, 0) for b in range(9)]
CASES += [("grayscale(p=1)", F.rgb_to_grayscale, {"num_output_channels": 3}, None, 1),
          ("autocontrast(p=1)", F.autocontrast, {}, None, 0), ("equalize(p=1)", F.equalize, {}, None, 0),
          ("invert(p=1)", F.invert, {}, None, 0)]


@pytest.mark.parametrize("chain,function,named,number,tolerance", CASES, ids=[c[0] for c in CASES])
def test_an_op_is_torchvisions(chain, function, named, number, tolerance):
    for size in SIZES:
        batch = pictures(*size)
        expect = torch.stack([function(p, *([] if number is None else [number]), **named) for p in batch])
        assert largest(made(chain, batch), expect) <= tolerance, size


@pytest.mark.parametrize("kernel,sigma", [((3, 3), 0.5), ((9, 9), 0.1), ((9, 9), 2.0), ((23, 23), 1.7), ((5, 9), 1.3), ((1, 1), 1.0)])
def test_blur_is_torchvisions(kernel, sigma):
    for size in [(128, 160), (67, 41), (24, 25)]:
        batch = pictures(*size)
        expect = F.gaussian_blur(batch, list(kernel), [sigma, sigma])
        assert largest(made(f"gaussian_blur({kernel}, sigma={sigma})", batch), expect) <= 1


def test_steps_follow_each_other_as_torchvisions_do():
    """Geometry after pixels sees what they made: no step is moved."""
    batch = pictures(120, 90)
    made_here = made("invert(p=1) | center_crop(80) | resize((40, 50)) | posterize(3, p=1) | hflip(p=1) | solarize(99, p=1)", batch)
    there = F.horizontal_flip(F.posterize(F.resize(F.center_crop(F.invert(batch), 80), [40, 50], antialias=True), 3))
    assert (made_here != F.solarize(there, 99)).float().mean() < 0.02      # a resampled value may be 1 off, and be cut apart


# ---- policies: which op was drawn is found by what it made ----------------------------------------

def candidates(space, picture, index, bins):
    """Everything that one draw of a policy could make of a picture."""
    base, found = T.RandAugment(), []
    for name, (magnitudes, signed) in space.items():
        values = magnitudes(bins, *picture.shape[-2:])
        for at in (range(bins) if index is None else [index]):
            for sign in (1, -1) if signed else (1,):
                value = 0.0 if values is None else sign * float(values[at])
                found.append((name, base._apply_image_or_video_transform(picture, name, value, "nearest", {})))
            if values is None:
                break
    return found


def textured():
    rng = np.random.default_rng(8)
    coarse = torch.from_numpy(rng.random((1, 3, 12, 12), dtype=np.float32))
    smooth = torch.nn.functional.interpolate(coarse, size=(64, 48), mode="bilinear")[0] * 180
    return (smooth + torch.from_numpy(rng.random((3, 64, 48), dtype=np.float32)) * 50 + 10).to(torch.uint8)


def explained(picture, chain, found, n):
    """Which op made each of n results; nearest pixels may differ where a place is half-way between two."""
    names, stack = [f[0] for f in found], torch.stack([f[1] for f in found]).int()
    for result in made(chain, picture[None].repeat(n, 1, 1, 1), seed=9):
        off = (result.int()[None] - stack).abs()
        best = int((off > 0).float().mean((1, 2, 3)).argmin())
        wrong = float((off[best] > 1).any(0).float().mean())
        assert wrong < 0.005, (chain, names[best], wrong)
        yield names[best]


@pytest.mark.parametrize("m", [9, 30])
def test_rand_augment_is_torchvisions(m):
    picture = textured()
    found = candidates(T.RandAugment._AUGMENTATION_SPACE, picture, m, 31)
    seen = list(explained(picture, f"rand_augment(1, {m})", found, 420))
    counts = {name: seen.count(name) for name, _ in found}
    assert min(counts.values()) > 8 and max(counts.values()) < 60, counts           # 30 each


def test_trivial_augment_is_torchvisions():
    picture = textured()
    found = candidates(T.TrivialAugmentWide._AUGMENTATION_SPACE, picture, None, 11)
    assert len(set(explained(picture, "trivial_augment(11)", found, 150))) >= 12


@pytest.mark.parametrize("policy", ["imagenet", "cifar10", "svhn"])
def test_auto_augment_is_torchvisions(policy):
    """One of its 25 pairs, each part done or not, with either sign."""
    picture = textured()
    base, found = T.AutoAugment(T.AutoAugmentPolicy(policy)), []
    height, width = picture.shape[-2:]

    def variants(given, part):
        name, often, index = part
        magnitudes, signed = base._AUGMENTATION_SPACE[name]
        values = magnitudes(10, height, width)
        value = 0.0 if values is None else float(values[index])
        out = [given] if often < 1 else []
        for sign in ((1, -1) if signed and values is not None else (1,)) if often > 0 else ():
            out.append(base._apply_image_or_video_transform(given, name, sign * value, "nearest", {}))
        return out

    for number, (first, second) in enumerate(base._policies):
        for one in variants(picture, first):
            found += [(number, two) for two in variants(one, second)]
    stack = torch.stack([f[1] for f in found]).int()
    seen = set()
    for result in made(f"auto_augment({policy})", picture[None].repeat(120, 1, 1, 1), seed=2):
        off = (result.int()[None] - stack).abs().float().mean((1, 2, 3))
        # A shear by 0.2 puts every fifth row half-way between two pixels, where floats decide by chance.
        assert off.min() < 3, float(off.min())          # another pair is 5 and more
        seen.add(found[int(off.argmin())][0])
    assert len(seen) >= 12


# ---- distributions ---------------------------------------------------------------------------------

def ks(a, b):
    """Largest distance of two samples' distributions, over what it may be at the level of 1 in 10,000."""
    both = np.sort(np.concatenate([a, b]))
    distance = np.abs(np.searchsorted(np.sort(a), both, "right") / len(a) - np.searchsorted(np.sort(b), both, "right") / len(b)).max()
    return distance / (2.23 * np.sqrt((len(a) + len(b)) / (len(a) * len(b))))


def draws(few):
    """How many of each side are compared: `make soak` says 100,000."""
    return int(os.environ.get("STOKER_DRAWS", few))


def parts(n, most=2000):
    """Positions of n draws, a batch at a time."""
    return [range(at, min(at + most, n)) for at in range(0, n, most)]


def test_erased_rectangles_are_drawn_as_torchvisions():
    n, side, here = draws(4000), 48, []
    batch = torch.zeros(2000, 3, side, side, dtype=torch.uint8)
    erase = stoker.Transform("random_erasing(p=1, value=255) | to(u8)", layout="chw", num_workers=1, seed=1)
    for part in parts(n):
        erased = erase(batch[:len(part)], positions=part)[:, 0].numpy() > 0
        rows, columns = erased.any(2), erased.any(1)
        here.append(np.stack([rows.argmax(1), columns.argmax(1), rows.sum(1), columns.sum(1)], 1))
        assert (erased.sum((1, 2)) == here[-1][:, 2] * here[-1][:, 3]).all()
    here = np.concatenate(here)
    torch.manual_seed(3)
    t, there = T.RandomErasing(p=1), []
    for _ in range(n):
        p = t.make_params([batch[0]])
        there.append([p["i"], p["j"], p["h"], p["w"]])
    there = np.array(there)
    assert len(here) == len(there) == n
    for axis in range(4):
        assert ks(here[:, axis], there[:, axis]) < 1, axis
    assert ks(here[:, 2] * here[:, 3], there[:, 2] * there[:, 3]) < 1
    assert ks(here[:, 2] / here[:, 3], there[:, 2] / there[:, 3]) < 1


def test_zoom_out_is_drawn_as_torchvisions():
    n, h, w = draws(2000), 23, 31
    pictures = torch.full((2000, 3, h, w), 255, dtype=torch.uint8)
    zoom, here = stoker.Transform("zoom_out(p=1, fill=7) | to(u8)", layout="chw", num_workers=1, seed=4), []
    for part in parts(n):
        for result in zoom(pictures[:len(part)], positions=part):
            inside = result[0].numpy() == 255
            assert inside.sum() == h * w and (result[0].numpy()[~inside] == 7).all()
            here.append([*result.shape[1:], inside.any(1).argmax(), inside.any(0).argmax()])
    torch.manual_seed(5)
    t, there = T.RandomZoomOut(p=1), []
    for _ in range(n):
        left, top, right, bottom = t.make_params([pictures[0]])["padding"]
        there.append([top + h + bottom, left + w + right, top, left])
    here, there = np.array(here), np.array(there)
    for axis in range(4):
        assert ks(here[:, axis], there[:, axis]) < 1, axis


def test_noise_is_torchvisions():
    given = torch.full((2, 3, 128, 128), 128, dtype=torch.uint8)
    noise = made("gaussian_noise(0.1, 0.1)", given).int() - 128
    assert abs(noise.float().mean() - 25.5) < 0.5 and abs(noise.float().std() - 25.5) < 0.4
    flat = [noise[0, c].flatten().numpy() for c in range(3)] + [noise[1, 0].flatten().numpy()]
    assert np.abs(np.corrcoef(flat) - np.eye(4)).max() < 0.04
    torch.manual_seed(1)
    expect = np.round(25.5 + 25.5 * torch.randn(20000).numpy())
    assert ks(noise[0].flatten().numpy()[:20000], expect) < 1


@pytest.mark.parametrize("chain,rate", [("grayscale", 0.1), ("invert", 0.5), ("solarize(0)", 0.5), ("random_apply(invert(p=1), p=0.3)", 0.3),
                                        ("random_erasing(0.25)", 0.25), ("gaussian_noise(p=0.8)", 0.8)])
def test_p_is_how_often(chain, rate):
    batch = torch.arange(75, dtype=torch.uint8).reshape(1, 3, 5, 5).repeat(4000, 1, 1, 1) + 5
    done = (made(chain, batch, seed=4) != batch).flatten(1).any(1).float().mean()
    assert abs(done - rate) < 0.03
