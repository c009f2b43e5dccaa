# SPDX-License-Identifier: Apache-2.0
"""patches(): the bits of the picture that is not cut, in the order of timm, SigLIP2, Qwen and Kimi; grids, coordinates, masks and offsets beside it."""

import numpy as np
import pytest
from pictures import write_tar

import stoker

SIZES = [(97, 61), (320, 240), (33, 200), (500, 375), (64, 64), (17, 19), (640, 96)]


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    return write_tar(tmp_path_factory.mktemp("patches") / "a.tar", SIZES, "JPEG")


def cut(picture, p, block=1, frames=1, first=False):
    """The originals' reshapes; picture: (h, w, 3)."""
    h, w, _ = picture.shape
    gh, gw = h // p, w // p
    x = picture.reshape(gh // block, block, p, gw // block, block, p, 3)
    x = x.transpose(0, 3, 1, 4, 6, 2, 5) if first else x.transpose(0, 3, 1, 4, 2, 5, 6)
    x = x.reshape(gh * gw, 3, 1, p, p) if first else x.reshape(gh * gw, 1, p, p, 3)
    return np.repeat(x, frames, axis=2 if first else 1).reshape(gh * gw, -1)


def rows(shard, chain, **options):
    loader = stoker.Loader(shard, {"x": f"from(jpg) | image | {chain}"}, batch_size=len(SIZES), collate=options.pop("collate", "list"), num_workers=2, seed=3, **options)
    return next(iter(loader))


def numpy(x):
    return np.asarray(x.float() if hasattr(x, "float") else x)


@pytest.mark.parametrize("dtype", ["u8", "f32", "f16", "bf16"])
@pytest.mark.parametrize(("patch", "options", "how"), [
    (16, "", {}), (16, ", channels=first", {"first": True}), (14, ", order=blocks, frames=2, channels=first", {"block": 2, "frames": 2, "first": True}),
    (8, ", order=blocks, block=3", {"block": 3}), (16, ", frames=2", {"frames": 2})])
def test_same_bits_as_the_whole_picture(shard, patch, options, how, dtype):
    before = f"resize_to_patches({patch}, max_patches=144, merge={how.get('block', 1)}) | hflip"
    before += "" if dtype == "u8" else " | normalize(clip)"
    whole = rows(shard, f"{before} | to({dtype}, hwc)")["x"]
    ours = rows(shard, f"{before} | patches({patch}{options}) | to({dtype})")
    for i, picture in enumerate(whole):
        picture = numpy(picture)
        want = cut(picture, patch, **how)
        got = numpy(ours["x"][i])
        assert got.shape == want.shape and (got == want).all(), i


@pytest.mark.parametrize(("chain", "says"), [
    ("resize_to_patches(16, max_patches=9, exact=cv2)", "exact is pillow or torchvision, not cv2"),
    ("resize_to_patches(naflex, exact=torchvision, interpolation=lanczos)", "exact=torchvision has bilinear and bicubic, not lanczos"),
    ("random_resized_crop_to_patches(naflex, exact=cv2, interpolation=random)", "exact is pillow or torchvision, not cv2"),
    ("random_resized_crop(32, exact=pillow, antialias=false)", "exact=pillow is of smoothed pictures: leave antialias="),
    ("random_resized_crop(32, exact=pillow, antialias=false, interpolation=random)", "exact=pillow is of smoothed pictures: leave antialias="),
    ("resize(32, exact=1)", "exact")])
def test_exact_says_what_it_takes(shard, chain, says):
    with pytest.raises(stoker.StokerError, match=says):
        rows(shard, f"{chain} | to(u8)")


@pytest.mark.parametrize("library", ["pillow", "torchvision"])
@pytest.mark.parametrize("op", ["resize((70, 90), interpolation=bicubic", "random_resized_crop(60, interpolation=random", "resize_to_patches(16, max_patches=60",
                                "random_resized_crop_to_patches(16, max_patches=60, interpolation=random", "letterbox(80, interpolation=bicubic"])
def test_exact_differs_by_little_and_nearest_by_nothing(shard, op, library):
    plain, exact = (rows(shard, f"{op}{more}) | to(u8, hwc)")["x"] for more in ("", f", exact={library}"))
    far = [np.abs(numpy(a).astype(int) - numpy(b)) for a, b in zip(plain, exact)]
    assert 0 < max(f.max() for f in far) <= 8 and np.mean([(f > 1).mean() for f in far]) < .01
    if "random" not in op.split("interpolation")[-1]:
        nearest = op.replace("bicubic", "nearest") if "bicubic" in op else op + ", interpolation=nearest"
        plain, exact = (rows(shard, f"{nearest}{more}) | to(u8, hwc)")["x"] for more in ("", f", exact={library}"))
        assert all((numpy(a) == numpy(b)).all() for a, b in zip(plain, exact))


@pytest.mark.parametrize(("model", "patch", "filter"), [("siglip2", "16, max_patches=256, exact=torchvision", "bilinear"), ("naflex", "16, max_patches=576, exact=pillow", "bicubic")])
@pytest.mark.parametrize("op", ["resize_to_patches", "random_resized_crop_to_patches"])
def test_a_models_name_stands_for_its_numbers_and_its_filter(shard, op, model, patch, filter):
    ours, theirs, other = (rows(shard, f"{op}({numbers}) | patches(16) | to(u8)")["x"] for numbers in
                           (model, f"{patch}, interpolation={filter}", f"{patch}, interpolation=nearest"))
    assert all((a == b).all() for a, b in zip(ours, theirs)) and any((a != b).any() for a, b in zip(ours, other))


def test_kimis_numbers(shard):
    ours, theirs = (rows(shard, f"resize_to_patches({size}) | patches({cut}) | to(u8)") for size, cut in
                    (("kimi", "kimi"), ("14, merge=2, max_patches=16384, max_side=512, pad=true, interpolation=bicubic", "14, channels=first")))
    assert all((a == b).all() for a, b in zip(ours["x"], theirs["x"])) and (ours.grid["x"] == theirs.grid["x"]).all()
    assert ours.grid["x"].tolist()[:2] == [[6, 8], [18, 24]]      # 97 x 61 and 320 x 240, up to whole blocks of 28


def test_a_picture_that_is_too_long_for_qwen_says_how_long(tmp_path):
    path = write_tar(tmp_path / "a.tar", [(3000, 14)], "PNG")
    with pytest.raises(stoker.StokerError, match="more than 200 times.*3000x14.*000000"):
        next(iter(loaded(path, "resize_to_patches(qwen2_vl) | patches(qwen2_vl) | to(u8)", batch_size=1)))


@pytest.mark.parametrize("after", ["color_jitter(0.4, 0.4, 0.4) | rotate(20)", "normalize(imagenet) | random_erasing(1.0)", "gaussian_blur(3) | normalize(half)"])
def test_with_ops_on_pixels(shard, after):
    before = f"random_resized_crop_to_patches(16, max_patches=100) | {after}"
    whole = rows(shard, f"{before} | to(f32, hwc)")["x"]
    ours = rows(shard, f"{before} | patches(16, channels=first) | to(f32)")["x"]
    for picture, got in zip(whole, ours):
        assert (numpy(got) == cut(numpy(picture), 16, first=True)).all()


def test_one_size_is_stacked(shard):
    batch = rows(shard, "resize((64, 96)) | patches(16) | to(u8)", collate="stack")["x"]
    whole = rows(shard, "resize((64, 96)) | to(u8, hwc)", collate="stack")["x"]
    assert batch.shape == (len(SIZES), 24, 768)
    for i in range(len(SIZES)):
        assert (numpy(batch[i]) == cut(numpy(whole[i]), 16)).all()


@pytest.mark.parametrize(("chain", "why"), [
    ("patches(16) | hflip | to(u8)", "only `to` may follow"), ("patches(16) | normalize(clip) | to(f32)", "only `to` may follow"),
    ("patches(16) | to(u8, hwc)", "layout"), ("resize((30, 30)) | patches(16) | to(u8)", "whole patches"), ("patches(16, order=columns) | to(u8)", "rows or blocks"),
    ("patches(16, frames=3) | to(u8)", "1 or 2"), ("patches(16, channels=middle) | to(u8)", "last or first")])
def test_errors(shard, chain, why):
    with pytest.raises(stoker.StokerError, match=why):
        stoker.Loader(shard, {"x": f"from(jpg) | image | {chain}"}, batch_size=2, collate="list")


def test_a_picture_that_does_not_fit_is_a_bad_sample(shard):
    with pytest.raises(stoker.StokerError, match="not whole patches of 16.*resize_to_patches"):
        rows(shard, "patches(16) | to(u8)")


def loaded(shard, chain, **options):
    return stoker.Loader(shard, {"x": f"from(jpg) | image | {chain}", "label": "from(cls) | int"}, num_workers=2, seed=3, **options)


NAFLEX = "resize_to_patches(16, max_patches=100) | normalize(half) | patches(16) | to(f32)"
QWEN = "resize_to_patches(14, merge=2, min_pixels=3136, max_pixels=40000) | normalize(clip) | patches(qwen2_vl) | to(bf16)"


def test_beside_padded_rows(shard):
    batch, alone = next(iter(loaded(shard, NAFLEX, batch_size=7, collate="pad"))), rows(shard, NAFLEX)
    grid = batch.grid["x"].tolist()
    counts = [h * w for h, w in grid]
    assert [len(r) for r in alone["x"]] == counts and batch["x"].shape == (7, max(counts), 768)
    assert batch.offsets["x"].tolist() == np.cumsum([0, *counts]).tolist() and "int32" in str(batch.offsets["x"].dtype)
    mask, coords = batch.mask("x"), batch.coords("x")
    assert mask.shape == (7, max(counts)) and coords.shape == (7, max(counts), 2)
    for i, (h, w) in enumerate(grid):
        n = h * w
        assert mask[i].tolist() == [True] * n + [False] * (max(counts) - n)
        assert (numpy(batch["x"][i][:n]) == numpy(alone["x"][i])).all() and not numpy(batch["x"][i][n:]).any()
        assert coords[i, :n].tolist() == [[y, x] for y in range(h) for x in range(w)] and not numpy(coords[i, n:]).any()
    fixed = next(iter(loaded(shard, NAFLEX, batch_size=7, collate=("pad", 0, 100))))
    assert fixed["x"].shape == (7, 100, 768)                  # a fixed length


@pytest.mark.parametrize("chain", [NAFLEX, QWEN])
def test_packed_rows_follow_each_other(shard, chain):
    batch, alone = next(iter(loaded(shard, chain, batch_size=7, collate={"x": "pack"}))), rows(shard, chain)
    bounds = batch.offsets["x"].tolist()
    assert len(batch["x"]) == bounds[-1] and batch["label"].tolist() == list(range(7))
    for i, row in enumerate(alone["x"]):
        assert (numpy(batch["x"][bounds[i]:bounds[i + 1]]) == numpy(row)).all()
    assert (numpy(batch.coords("x")) == np.concatenate([numpy(c) for c in alone.coords("x")])).all()
    with pytest.raises(stoker.StokerError, match="not padded"):
        batch.mask("x")
    one = next(iter(loaded(shard, chain, batch_size=1, collate={"x": "pack"})))
    assert one["x"].ndim == 2 and len(one["x"]) == one.offsets["x"][1]


def test_qwens_grid_and_order(shard):
    batch = next(iter(loaded(shard, QWEN, batch_size=3, collate={"x": "pack"})))
    assert batch.grid["x"].shape == (3, 3) and batch.grid["x"][:, 0].tolist() == [1, 1, 1]
    assert batch.coords("x")[:5].tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [0, 2]]


@pytest.mark.parametrize("collate", ["pack", "pad"])
@pytest.mark.parametrize("chain", [NAFLEX, QWEN, NAFLEX.replace("resize_to", "random_resized_crop_to")])
def test_budget_of_patches(shard, collate, chain):
    loader = loaded(shard, chain, max_tokens=450, collate={"x": collate}, shuffle=True)
    for _ in range(2):
        seen = []
        for batch in loader:
            n, longest = len(batch["label"]), max((batch.offsets["x"][1:] - batch.offsets["x"][:-1]).tolist())
            assert (batch.offsets["x"][-1] if collate == "pack" else n * longest) <= 450
            seen += batch["label"].tolist()
        assert sorted(seen) == list(range(7))                 # each once an epoch


def test_patches_and_tokens_count_together(tmp_path):
    import io
    def tokens(i):
        out = io.BytesIO()
        np.save(out, np.arange(10 * i + 1))
        return out.getvalue()
    path = write_tar(tmp_path / "a.tar", SIZES, "JPEG", [("npy", tokens)])
    loader = stoker.Loader(path, {"x": f"from(jpg) | image | {NAFLEX}", "t": "from(npy) | npy"}, max_tokens=400, collate="pack", num_workers=1)
    for batch in loader:
        assert batch.offsets["x"][-1] + batch.offsets["t"][-1] <= 400


def test_too_many_patches_are_an_error_with_the_numbers(shard):
    with pytest.raises(stoker.StokerError, match="50"):
        loaded(shard, NAFLEX, max_tokens=50, collate={"x": "pack"})


@pytest.mark.parametrize("how", [{"x": "pad", "y": "pad"}, {"x": "pad", "y": "pack"}, {"x": ("pad", 0, 8), "y": "pad", "t": "pad"}, {"x": "pad", "y": "list", "t": "pack"}])
def test_outputs_that_are_padded_count_as_long_as_their_own_longest(tmp_path, how):
    """Where the picture of one output is long, that of the other is short."""
    import io

    from pictures import picture
    def tokens(i):
        out = io.BytesIO()
        np.save(out, np.arange(i % 13 + 1))
        return out.getvalue()
    def other(i):
        out = io.BytesIO()
        picture(i, 16 * (10 - i % 10), 16).save(out, "PNG")
        return out.getvalue()
    path = write_tar(tmp_path / "a.tar", [(16 * (i % 10 + 1), 16) for i in range(60)], "PNG", [("npy", tokens), ("png", other)])
    fields = {"x": "from(jpg) | image | patches(16) | to(u8)", "y": "from(png) | image | patches(16) | to(u8)", "t": "from(npy) | npy"}
    for shuffle in (False, True):
        loader = stoker.Loader(path, {name: fields[name] for name in how}, max_tokens=110, collate=how, num_workers=1, shuffle=shuffle)
        seen, rows = [], 0
        for batch in loader:
            def taken(name):
                value = batch[name]
                return sum(len(r) for r in value) if isinstance(value, list) else value.shape[0] if how[name] == "pack" else value.shape[0] * value.shape[1]
            assert sum(map(taken, how)) <= 110, {name: getattr(batch[name], "shape", 0) for name in how}
            seen += batch.sample_keys
            rows = max(rows, len(batch.sample_keys))
        assert sorted(map(int, seen)) == list(range(60)) and rows > 2


@pytest.mark.parametrize("collate", ["pack", "pad"])
@pytest.mark.parametrize("world", [1, 2])
def test_samples_over_the_budget(shard, tmp_path, collate, world):
    """Two of seven pictures have more than 40 patches: an error at once, bad samples, or in no batch."""
    chain, options = "resize(32) | center_crop((32, 64)) | patches(16) | to(u8)", {"collate": {"x": collate}, "world_size": world, "shuffle": True}
    path = write_tar(tmp_path / "a.tar", [(64, 64), (256, 64), (128, 64), (64, 240), (64, 32), (64, 96), (96, 64), (64, 64)], "JPEG")
    chain = "patches(16) | to(u8)"                            # 16, 64, 32, 60, 8, 24, 24, 16
    with pytest.raises(stoker.StokerError, match="64 values.*max_tokens=40.*over_budget.*000001"):
        loaded(path, chain, max_tokens=40, rank=0, **options)
    for policy, error in (("drop", "raise"), (None, "skip")):
        loaders = [loaded(path, chain, max_tokens=40, over_budget=policy, on_error=error, rank=r, **options) for r in range(world)]
        for _ in range(3):
            seen = []
            for batches in zip(*loaders, strict=True):
                for batch in batches:
                    assert batch["x"].shape[0] * (batch["x"].shape[1] if collate == "pad" else 1) <= 40
                    assert policy is None or all(batch.valid.tolist()) or world > 1
                    seen += batch.only_valid()["label"].tolist()
            assert sorted(seen) == [0, 2, 4, 5, 6, 7], policy
        if policy is None:
            bad = [b for loader in loaders for b in loader.stats()["bad_samples"]]
            assert {b["key"] for b in bad} == {"000001", "000003"} and all("max_tokens=40" in b["reason"] for b in bad), bad
    with pytest.raises(stoker.StokerError, match="longer|more than"):     # none is left
        loaded(path, chain, max_tokens=4, over_budget="drop", **options, rank=0)
    with pytest.raises(stoker.StokerError, match="over_budget goes with"):
        loaded(path, chain, batch_size=2, over_budget="drop", collate="list")


def test_what_stands_in_for_a_bad_sample_leaves_a_joined_batch_in_its_budget(tmp_path):
    import io
    import tarfile
    good = write_tar(tmp_path / "good.tar", [(16 * (1 if i in (10, 20, 30) else 21 if i % 2 else 13), 16) for i in range(41)], "PNG")
    with tarfile.open(good) as old, tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as new:
        for m in old:
            data = old.extractfile(m).read()
            if m.name == "000010.jpg":
                data = data[:60] + b"\0" * (len(data) - 60)   # one patch, by its header
            new.addfile(m, io.BytesIO(data))
    loader = loaded(str(tmp_path / "a.tar"), "patches(16) | to(u8)", max_tokens=43, collate={"x": "pack"}, shuffle=True, on_error="skip")
    for _ in range(8):
        assert all(len(batch["x"]) <= 43 for batch in loader)
    assert loader.stats()["skipped"] >= 8
