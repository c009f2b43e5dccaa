# SPDX-License-Identifier: Apache-2.0
"""over_budget="truncate": a sample that is over max_tokens keeps whole rows of patches, and everything beside them is that of the smaller picture."""

import io
import json
import tarfile

import numpy as np
import pytest
from pictures import picture, write_tar

import stoker

SIZES = [(64, 64), (256, 64), (128, 64), (64, 256), (64, 32), (64, 96), (96, 64), (640, 32)]     # 16, 64, 32, 64, 8, 24, 24 and 80 patches
TOKEN = 151655


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    return write_tar(tmp_path_factory.mktemp("truncated") / "a.tar", SIZES, "PNG")


def loaded(path, chain, **options):
    return stoker.Loader(path, {"x": f"from(jpg) | image | {chain}", "label": "from(cls) | int"}, num_workers=2, seed=3, **options)


def left(down, across, most, block=1):
    """What the documentation says that a grid keeps."""
    down, across, most = down // block, across // block, most // (block * block)
    if down * across > most:
        down, across = (most // across, across) if across <= most else (1, most)
    return down * block, across * block


def numpy(x):
    return np.asarray(x.float() if hasattr(x, "float") else x)


def whole(path, chain, count):
    """Patches of each picture as a grid (down, across, values), nothing cut."""
    batch = next(iter(loaded(path, chain, batch_size=count, collate="list")))
    out = []
    for x, coords in zip(batch["x"], batch.coords("x")):
        down, across = (int(v) + 1 for v in np.asarray(coords).max(0))
        grid = np.zeros((down, across, x.shape[1]), "f4")
        grid[tuple(np.asarray(coords).T)] = numpy(x)
        out.append(grid)
    return out


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("collate", ["pack", "pad", "list"])
@pytest.mark.parametrize(("most", "chain", "block"), [
    (40, "patches(16) | to(u8)", 1), (13, "patches(16) | to(u8)", 1), (40, "patches(16, order=blocks, frames=2) | to(f32)", 2),
    (40, "vflip(1.0) | normalize(half) | patches(16) | to(bf16)", 1), (7, "hflip(1.0) | patches(16, order=blocks) | to(u8)", 2),
    (50, "random_resized_crop_to_patches(16, max_patches=100) | hflip | color_jitter(0.4) | patches(16) | to(u8)", 1),
    (50, "random_resized_crop_to_patches(8, merge=2, max_patches=400) | patches(8) | to(u8)", 2)])
def test_a_picture_keeps_whole_rows_from_the_top(shard, most, chain, block, collate, world):
    grids = whole(shard, chain, len(SIZES))
    loaders = [loaded(shard, chain, max_tokens=most, over_budget="truncate", collate={"x": collate}, world_size=world, rank=r) for r in range(world)]
    seen = []
    for batch in (batch for loader in loaders for batch in loader):
        longest = max((batch.offsets["x"][1:] - batch.offsets["x"][:-1]).tolist())
        assert (longest * len(batch["label"]) if collate != "pack" else int(batch.offsets["x"][-1])) <= most
        for k, label in enumerate(batch["label"].tolist()):
            if not batch.valid[k]:
                continue
            seen.append(label)
            down, across = left(*grids[label].shape[:2], most, block)
            assert batch.grid["x"][k].tolist()[-2:] == [down, across], (label, grids[label].shape)
            begin, end = batch.offsets["x"][k:k + 2].tolist()
            assert end - begin == down * across
            rows = numpy(batch["x"])[begin:end] if collate == "pack" else numpy(batch["x"][k])[:down * across]
            coords = np.asarray(batch.coords("x"))[begin:end] if collate == "pack" else np.asarray(batch.coords("x")[k])[:down * across]
            assert {tuple(c) for c in coords.tolist()} == {(y, x) for y in range(down) for x in range(across)}
            want = grids[label][coords[:, 0], coords[:, 1]]
            assert (rows == want).all() or "jitter" in chain, label
            if collate == "pad":
                assert int(batch.mask("x")[k].sum()) == down * across
    assert sorted(seen) == list(range(len(SIZES)))             # none is lost


def test_ops_that_change_pixels_see_what_is_left(shard, tmp_path):
    """A blur has the bits of a picture that was cropped in its file; what erases does not reach over."""
    with tarfile.open(tmp_path / "cropped.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for i, (w, h) in enumerate(SIZES):
            down, across = left(h // 16, w // 16, 20)
            out = io.BytesIO()
            picture(i, w, h).crop((0, 0, 16 * across, 16 * down)).save(out, "PNG")
            for name, data in (("jpg", out.getvalue()), ("cls", b"%d" % i)):
                info = tarfile.TarInfo(f"{i:06d}.{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    chain = "gaussian_blur(9, sigma=(2.0, 2.0)) | posterize(4) | patches(16) | to(u8)"
    got, want = ([numpy(x) for batch in loaded(path, chain, collate={"x": "list"}, **how) for x in batch["x"]] for path, how in
                 ((shard, {"max_tokens": 20, "over_budget": "truncate", "batch_size": 1}), (str(tmp_path / "cropped.tar"), {"batch_size": 1})))
    by_shape = sorted(range(len(SIZES)), key=lambda i: got[i].tobytes()), sorted(range(len(SIZES)), key=lambda i: want[i].tobytes())
    assert all(got[a].shape == want[b].shape and (got[a] == want[b]).all() for a, b in zip(*by_shape))
    plain, erased = (loaded(shard, f"normalize(half) | {erase}patches(16) | to(f32)", max_tokens=20, over_budget="truncate", collate={"x": "pack"})
                     for erase in ("", "random_erasing(1.0) | "))
    for one, two in zip(plain, erased, strict=True):
        assert len(one["x"]) <= 20 and one["x"].shape == two["x"].shape and (numpy(one["x"]) != numpy(two["x"])).any()


def chats(path):
    """Samples of 0 to 3 pictures with text; labels and positions."""
    rng = np.random.default_rng(8)
    counts = [1, 0, 3, 2, 1, 3, 2, 12]
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        def add(name, data):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for i, n in enumerate(counts):
            row = []
            for k in range(n):
                out = io.BytesIO()
                picture(9 * i + k, *(int(v) for v in rng.integers(60, 400, 2))).save(out, "PNG")
                add(f"{i:03d}.{k}.png", out.getvalue())
                row += [*(int(v) for v in rng.integers(0, 1000, rng.integers(0, 5))), TOKEN]
            add(f"{i:03d}.ids.json", json.dumps([*row, *(int(v) for v in rng.integers(0, 1000, 6))]).encode())
    return str(path), counts


def level(grids, most):
    """The largest pictures are cut, to one number of blocks."""
    at = max(k for k in range(1, most + 1) if sum(a * b for a, b in (left(*g, k) for g in grids)) <= most)
    return [left(*g, at) for g in grids]


CHAT = "from(image) | pictures | {}resize_to_patches(14, merge=2, min_pixels=3136, max_pixels=120000) | normalize(clip) | patches(qwen2_vl) | to(f32)"


@pytest.mark.parametrize("collate", ["pack", "pad", {"x": "pack", "ids": "pad", "labels": "pad", "pos": "pad"}, {"x": ("pad", 0, 24), "ids": ("pad", 0, 16), "labels": "list", "pos": "list"}])
@pytest.mark.parametrize("random", [False, True])
def test_tokens_positions_and_labels_follow_the_smaller_pictures(tmp_path, collate, random):
    path, counts = chats(tmp_path / "a.tar")
    chain = CHAT.format("")
    if random:
        chain = chain.replace("resize_to_patches", "random_resized_crop_to_patches")
    fields = {"x": chain, "ids": "from(ids.json) | ints | image_tokens(x)", "labels": "from(ids.json) | ints | image_tokens(x, give=labels)",
              "pos": "from(ids.json) | ints | image_tokens(x, give=positions)"}
    everything = next(iter(stoker.Loader(path, fields, batch_size=len(counts), collate="list", num_workers=1, seed=5)))
    bounds = np.cumsum([0, *counts]).tolist()
    uncut = [[tuple(v // 2 for v in g[1:]) for g in everything.grid["x"][a:b].tolist()] for a, b in zip(bounds, bounds[1:])]
    most = 600
    loader = stoker.Loader(path, fields, max_tokens=most, over_budget="truncate", collate=collate, num_workers=2, seed=5)
    seen, cut, how_of = [], 0, collate if isinstance(collate, dict) else {}
    for batch in loader:
        picture_of, taken = batch.pictures["x"].tolist(), 0
        for name in ("x", "ids"):
            how = collate if isinstance(collate, str) else collate[name]
            taken += len(batch[name]) if how == "pack" else int(np.prod(batch[name].shape[:2]))
        assert taken <= most
        for k, key in enumerate(batch.sample_keys):
            i = int(key)
            seen.append(i)
            grids = [tuple(v // 2 for v in g[1:]) for g in batch.grid["x"][picture_of[k]:picture_of[k + 1]].tolist()]
            blocks = sum(a * b for a, b in grids)
            text = len(everything["ids"][i]) - sum(a * b for a, b in uncut[i])
            if grids != uncut[i]:
                cut += 1
                assert 5 * blocks + text <= most
                if collate == "pack" and not random:           # as many as fit: one more block each does not
                    assert grids == level(uncut[i], (most - text) // 5), i
            def row(name, part=k):
                value = batch[name]
                if isinstance(value, list):
                    return numpy(value[part])
                lengths = batch.offsets.get(name)
                if lengths is not None and len(value) == lengths[-1] and "pack" in (collate, how_of.get(name)):
                    return numpy(value[lengths[part]:lengths[part + 1]])
                return numpy(value[part])[:text + blocks]
            ids, labels, pos = row("ids"), row("labels"), row("pos")
            assert len(ids) == len(labels) == len(pos) == text + blocks
            assert (ids == TOKEN).sum() == blocks == (labels == -100).sum()
            want = []
            for grid in grids:                                 # the placeholders of each picture are its own grid
                begin = next(j for j in range(want[-1] if want else 0, len(ids)) if ids[j] == TOKEN)
                n = grid[0] * grid[1]
                assert (ids[begin:begin + n] == TOKEN).all()
                block = pos[begin:begin + n] - pos[begin]
                assert block.tolist() == [[0, y, x] for y in range(grid[0]) for x in range(grid[1])]
                want.append(begin + n)
    assert sorted(seen) == list(range(len(counts))) and cut >= (1 if random else 2)


def test_what_is_left_of_several_pictures_are_their_first_rows(tmp_path):
    path, counts = chats(tmp_path / "a.tar")
    full = next(iter(stoker.Loader(path, {"x": CHAT.format("")}, batch_size=len(counts), collate="pack", num_workers=1)))
    cut = 0
    for batch in stoker.Loader(path, {"x": CHAT.format("")}, max_tokens=700, over_budget="truncate", collate="pack", num_workers=1):
        assert len(batch["x"]) <= 700
        for key, a, b in zip(batch.sample_keys, batch.pictures["x"].tolist(), batch.pictures["x"].tolist()[1:]):
            at = sum(counts[:int(key)])
            for k in range(b - a):
                mine, theirs = (x["x"][slice(*x.offsets["x"][i:i + 2].tolist())] for x, i in ((batch, a + k), (full, at + k)))
                assert (numpy(mine) == numpy(theirs)[:len(mine)]).all()
                assert batch.grid["x"][a + k].tolist()[2] == full.grid["x"][at + k].tolist()[2]
                cut += len(mine) < len(theirs)
    assert cut


def test_a_sample_without_room_for_a_block_is_a_bad_one(tmp_path):
    path, counts = chats(tmp_path / "a.tar")
    fields = {"x": CHAT.format(""), "ids": "from(ids.json) | ints | image_tokens(x)"}
    loader = stoker.Loader(path, fields, max_tokens=60, over_budget="truncate", on_error="skip", collate="pack", num_workers=1, shuffle=True)
    for _ in range(3):
        seen = [int(k) for batch in loader for k in batch.only_valid().sample_keys]
        assert 7 not in seen and len(set(seen)) == len(seen)
    bad = {b["key"]: b["reason"] for b in loader.stats()["bad_samples"]}
    assert "007" in bad and "max_tokens" in bad["007"], bad


@pytest.mark.parametrize(("fields", "options", "why"), [
    ({"x": "from(cls) | bytes"}, {"max_tokens": 5}, "is for `patches`: cut rows of numbers"),
    ({"x": "from(jpg) | image | patches(16)", "y": "from(jpg) | image | patches(8)"}, {"max_tokens": 5}, "one output"),
    ({"x": "from(jpg) | image | patches(16)"}, {"max_tokens": 50, "lengths": [3] * 8}, "without max_seconds, lengths or schedule"),
    ({"x": "from(jpg) | image | patches(16)"}, {"batch_size": 5}, "goes with max_tokens"),
    ({"x": "from(jpg) | image | resize_to_patches(16, max_patches=9) | patches(16)"}, {"max_tokens": 50, "schedule": (4, 9)}, "lengths or schedule")])
def test_errors(shard, fields, options, why):
    with pytest.raises(stoker.StokerError, match=why):
        stoker.Loader(shard, fields, over_budget="truncate", collate="list", **options)
