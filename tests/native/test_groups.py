# SPDX-License-Identifier: Apache-2.0
"""Batches that all ranks make alike: pictures of one size (bucket and resize_to_bucket), and numbers of patches that change by step (schedule)."""

import collections
import itertools
import json

import numpy as np
import pytest
from pictures import write_tar

import stoker

SIZES = [(w, h) for w, h in itertools.product((40, 64, 90, 130, 200), repeat=2)] * 3 + [(500, 40)]
BUCKET = "resize_to_bucket(area=4096, step=16, least=32, most=128)"
COUNT = len(SIZES)


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    return write_tar(tmp_path_factory.mktemp("groups") / "a.tar", SIZES, "JPEG")


def ranks(shard, world, chain, **options):
    fields = {"x": f"from(jpg) | image | {chain}", "label": "from(cls) | int"}
    return [stoker.Loader(shard, fields, rank=r, world_size=world, **{"shuffle": True, "num_workers": 0, "seed": 4, **options}) for r in range(world)]


def run(loaders, most=None):
    """Steps of all ranks: [(labels, shape, valid) of each]; all end together."""
    out, its = [], [iter(loader) for loader in loaders]
    while most is None or len(out) < most:
        batches = [next(it, None) for it in its]
        assert len({b is None for b in batches}) == 1
        if batches[0] is None:
            break
        out.append([(b["label"].tolist(), tuple(b["x"].shape[1:]), b.valid.tolist()) for b in batches])
    return out


def labels(done):
    return [i for step in done for ids, _, valid in step for i, ok in zip(ids, valid) if ok]


def bucket_of(shard):
    """The size of each picture alone."""
    loader = stoker.Loader(shard, {"x": f"from(jpg) | image | {BUCKET} | to(u8)"}, batch_size=1, num_workers=0)
    return [tuple(b["x"].shape[1:]) for b in loader]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("world", "batch"), [(1, 4), (3, 2), (5, 3)])
def test_every_sample_once_and_all_ranks_have_one_size(shard, world, batch, shuffle):
    alone = bucket_of(shard)
    assert len(set(alone)) > 4
    loaders = ranks(shard, world, f"{BUCKET} | to(u8)", batch_size=batch, bucket=True, shuffle=shuffle)
    epochs = [run(loaders) for _ in range(2)]
    for done in epochs:
        assert sorted(labels(done)) == list(range(COUNT))
        assert len(done) == len(loaders[0])
        for step in done:
            assert len({shape for _, shape, _ in step}) == 1
            assert all(alone[i] == shape for ids, shape, _ in step for i in ids)
        full = sum(len(ids) == batch for step in done for ids, _, _ in step)
        by_size = collections.Counter(alone)
        assert full >= sum(n // (world * batch) * world for n in by_size.values())
    assert (epochs[0] != epochs[1]) == shuffle


def test_the_pixels_are_those_of_each_picture_alone(shard):
    alone = [b["x"][0].numpy() for b in stoker.Loader(shard, {"x": f"from(jpg) | image | {BUCKET} | normalize(half) | to(f32)"}, batch_size=1)]
    loader, = ranks(shard, 1, f"{BUCKET} | normalize(half) | to(f32)", batch_size=4, bucket=True, num_workers=3)
    for batch in loader:
        for i, x in zip(batch["label"].tolist(), batch["x"].numpy()):
            assert (x == alone[i]).all()


@pytest.mark.parametrize("world", [1, 3])
def test_rests(shard, world):
    by_size = collections.Counter(bucket_of(shard))
    whole = 4 * world
    drop = run(ranks(shard, world, f"{BUCKET} | to(u8)", batch_size=4, bucket=True, bucket_rest="drop"))
    assert sorted(collections.Counter(labels(drop)).values())[-1] == 1
    assert len(labels(drop)) == sum(n // whole * whole for n in by_size.values()) < COUNT
    last = run(ranks(shard, world, f"{BUCKET} | to(u8)", batch_size=4, bucket=True, drop_last=True))
    assert last == drop
    wrap = run(ranks(shard, world, f"{BUCKET} | to(u8)", batch_size=4, bucket=True, bucket_rest="wrap"))
    assert set(labels(wrap)) == set(range(COUNT))
    assert len(labels(wrap)) == sum(-(-n // whole) * whole for n in by_size.values())
    for done in (drop, wrap):
        assert all(len(ids) == 4 and all(valid) for step in done for ids, _, valid in step)


def test_a_rank_without_a_picture_has_one_of_that_size_that_does_not_count(shard):
    steps = run(ranks(shard, 4, f"{BUCKET} | to(u8)", batch_size=8, bucket=True))
    some = [step for step in steps if any(not all(valid) for _, _, valid in step)]
    assert some                                              # the picture of 500 x 40 is alone
    for step in some:
        assert sum(valid.count(False) for _, _, valid in step) < 4
        assert all(len(ids) == 1 for ids, _, valid in step if not all(valid))


@pytest.mark.parametrize(("world", "other"), [(1, 3), (4, 3), (2, 4)])
@pytest.mark.parametrize("kind", ["bucket", "schedule"])
def test_a_state_goes_on_on_other_ranks(shard, world, other, kind):
    chain, options = KINDS[kind]
    first = ranks(shard, world, chain, **options)
    reference = ranks(shard, world, chain, **options)
    run(reference)
    second = run(reference)                                  # epoch 1
    run(first)
    before = run(first, most=3)
    state = json.loads(json.dumps(first[0].state_dict()))
    rest = ranks(shard, other, chain, **options)
    for loader in rest:
        loader.load_state_dict(state)
    after = run(rest)
    assert collections.Counter(labels(before) + labels(after)) == collections.Counter(labels(second))
    assert sorted(labels(before) + labels(after)) == list(range(COUNT))
    # the batches of the epoch are those that were begun; the next epoch is that of the ranks there are now
    batches = [tuple(ids) for step in after for ids, _, valid in step if all(valid)]
    assert set(batches) <= {tuple(ids) for step in second for ids, _, _ in step}
    third = run(rest, most=2)
    assert all(len({shape for _, shape, _ in step}) == 1 for step in third)
    state = json.loads(json.dumps(rest[0].state_dict()))     # of an epoch of its own
    fresh = ranks(shard, other, chain, **options)
    for loader in fresh:
        loader.set_epoch(2)
    whole = run(fresh)
    assert whole[:2] == third
    for loader in fresh:
        loader.load_state_dict(state)
    assert run(fresh) == whole[2:]


SCHEDULE = (16, 36, 64)
SHORT = "random_resized_crop_to_patches(16, max_patches=64) | hflip | normalize(half) | patches(16) | to(f32)"
KINDS = {"bucket": (f"{BUCKET} | to(u8)", {"batch_size": 3, "bucket": True}),
         "schedule": (SHORT, {"max_tokens": 256, "schedule": SCHEDULE, "collate": "pad"})}


def rows_of(patches, budget):
    """timm's calculate_naflex_batch_size, with its divisor of 8."""
    return max(1, budget // patches // 8 * 8)


@pytest.mark.parametrize("world", [1, 3])
def test_a_schedule(shard, world):
    loaders = ranks(shard, world, SHORT, max_tokens=512, schedule=SCHEDULE, collate="pad")
    seen = set()
    for epoch in range(4):
        done = run(loaders)
        assert sorted(labels(done)) == list(range(COUNT))
        for k, step in enumerate(done):
            longest, = {shape[0] for _, shape, _ in step}    # padded to the step's, the same on all ranks
            assert longest in SCHEDULE
            if k + 1 < len(done):
                assert {len(ids) for ids, _, _ in step} == {rows_of(longest, 512)}
            seen.add(longest)
    assert seen == set(SCHEDULE)


def test_a_schedule_is_the_chain_with_that_number(shard):
    """Draws do not depend on the number: a batch has the bits of a loader whose chain says it."""
    at = {}
    for patches in SCHEDULE:
        loader, = ranks(shard, 1, SHORT.replace("max_patches=64", f"max_patches={patches}"), batch_size=COUNT, collate="list")
        batch = next(iter(loader))
        at[patches] = {i: x.numpy() for i, x in zip(batch["label"].tolist(), batch["x"])}
    loader, = ranks(shard, 1, SHORT, max_tokens=512, schedule=SCHEDULE, collate="pad", num_workers=2)
    for batch in loader:
        patches = batch["x"].shape[1]
        mask = batch.mask("x").numpy()
        for i, x, m in zip(batch["label"].tolist(), batch["x"].numpy(), mask):
            assert (x[m] == at[patches][i]).all() and not x[~m].any()


def test_patch_sizes_that_change(shard):
    loader, = ranks(shard, 1, SHORT, max_tokens=512, schedule=[(16, 36), (32, 9)], collate="pad")
    widths = set()
    for epoch in range(3):
        for batch in loader:
            side, patches = {768: (16, 36), 3072: (32, 9)}[batch["x"].shape[2]]
            assert batch["x"].shape[1] == patches and (batch.grid["x"].prod(1) <= patches).all()
            widths.add(side)
    assert widths == {16, 32}
    whole, = ranks(shard, 1, SHORT.replace("(16, max_patches=64)", "(32, max_patches=9)").replace("patches(16) | to(f32)", "to(f32, hwc)"), batch_size=COUNT, collate="list")
    pictures = dict(zip(*(lambda b: (b["label"].tolist(), b["x"]))(next(iter(whole)))))
    loader.set_epoch(0)
    for batch in loader:
        if batch["x"].shape[2] == 3072:
            for i, x, (h, w) in zip(batch["label"].tolist(), batch["x"].numpy(), batch.grid["x"].tolist()):
                want = pictures[i].numpy().reshape(h, 32, w, 32, 3).transpose(0, 2, 1, 3, 4).reshape(h * w, -1)
                assert (x[:h * w] == want).all()


@pytest.mark.parametrize(("collate", "rest"), [("pack", "drop"), ("list", "wrap")])
def test_other_collations_and_rests_of_a_schedule(shard, collate, rest):
    loaders = ranks(shard, 2, SHORT, max_tokens=512, schedule=SCHEDULE, collate={"x": collate}, bucket_rest=rest)
    its = [iter(loader) for loader in loaders]
    seen, full = [], set()
    for batches in zip(*its):
        rows = {len(b["label"]) for b in batches}
        assert len(rows) == 1
        full |= rows
        seen += [i for b in batches for i in b["label"].tolist()]
    assert full <= {rows_of(p, 512) for p in SCHEDULE}
    assert len(set(seen)) == len(seen) < COUNT if rest == "drop" else set(seen) == set(range(COUNT)) and len(seen) > COUNT


@pytest.mark.parametrize(("chain", "options", "why"), [
    (f"{BUCKET} | to(u8)", {"batch_size": 2}, "differ in size"),
    ("random_resized_crop_to_patches(16, max_patches=64) | to(u8)", {"batch_size": 2, "bucket": True}, "is random"),
    (f"{BUCKET} | zoom_out(p=0.002) | to(u8)", {"batch_size": 2, "bucket": True}, "is random"),
    (f"{BUCKET} | random_apply(pad(3), p=0.002) | to(u8)", {"batch_size": 2, "bucket": True}, "is random"),
    (SHORT.replace(" | hflip", " | zoom_out(p=0.002)"), {"max_tokens": 512, "schedule": SCHEDULE, "collate": "pad"}, "end its geometry"),
    (f"{BUCKET} | to(u8)", {"global_batch_size": 2, "bucket": True}, "not global_batch_size"),
    (f"{BUCKET} | to(u8)", {"batch_size": 200, "bucket": True, "bucket_rest": "drop"}, "no size has samples"),
    (f"{BUCKET} | to(u8)", {"batch_size": 2, "bucket": True, "bucket_rest": "wrap", "drop_last": True}, "give one"),
    (f"{BUCKET} | to(u8)", {"batch_size": 2, "bucket": True, "bucket_rest": "keep"}, "smaller.*drop.*wrap"),
    ("center_crop(32) | to(u8)", {"batch_size": 2, "bucket_rest": "drop"}, "bucket_rest is for"),
    (SHORT, {"batch_size": 2, "schedule": SCHEDULE, "collate": "pad"}, "divides max_tokens"),
    (SHORT, {"max_tokens": 100, "schedule": (16, 200), "collate": "pad"}, "200 patches is more than max_tokens=100"),
    (SHORT, {"max_tokens": 100, "schedule": (16, 0), "collate": "pad"}, "schedule"),
    (SHORT.replace("max_patches=64", "max_patches=64, merge=4"), {"max_tokens": 100, "schedule": (16, 15), "collate": "pad"}, "15 patches are less than a block of 16"),
    (SHORT, {"max_tokens": 100, "schedule": "16", "collate": "pad"}, "schedule must be numbers"),
    (SHORT, {"max_tokens": 100, "schedule": (16,), "bucket": True, "collate": "pad"}, "leave bucket"),
    ("resize_to_patches(qwen2_vl) | patches(qwen2_vl) | to(u8)", {"max_tokens": 100, "schedule": (16,), "collate": "pad"}, "max_patches of resize_to_patches"),
    ("center_crop(32) | to(u8)", {"max_tokens": 100, "schedule": (16,)}, "no output has")])
def test_errors(shard, chain, options, why):
    with pytest.raises(stoker.StokerError, match=why) as e:
        ranks(shard, 1, chain, **options)
    assert "\n" not in str(e.value)


def test_what_does_not_change_the_size_is_no_random_size(shard):
    """A mirror image, a crop of one size after a random one, and ops that run at random without changing it."""
    for chain in (f"{BUCKET} | random_apply(hflip(p=1), p=0.5) | vflip | to(u8)", f"zoom_out(p=0.5) | random_crop(24, pad_if_needed=true) | {BUCKET} | to(u8)"):
        loader, = ranks(shard, 1, chain, batch_size=4, bucket=True)
        assert sorted(labels(run([loader]))) == list(range(COUNT))


def test_a_picture_of_another_size_than_the_index_says_is_an_error(tmp_path):
    """HASH.media is of the file as it was; the picture is another one of as many bytes."""
    import io
    import os
    import tarfile

    from pictures import picture
    def write(sizes):
        with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for i, (w, h) in enumerate(sizes):
                out = io.BytesIO()
                picture(i, w, h).save(out, "PPM")
                info = tarfile.TarInfo(f"{i:06d}.jpg")
                info.size = 20000
                tar.addfile(info, io.BytesIO(out.getvalue().ljust(20000, b" ")))
        os.utime(tmp_path / "a.tar", (1, 1))
    write([(60, 40)] * 6)
    def loader():
        return stoker.Loader(str(tmp_path / "a.tar"), {"x": "from(jpg) | image | to(u8)"}, batch_size=3, bucket=True, num_workers=0)
    assert [b["x"].shape for b in loader()] == [(3, 3, 40, 60)] * 2
    write([(60, 40)] * 4 + [(40, 60), (60, 40)])
    with pytest.raises(stoker.StokerError, match="000004.*40x60|60x40.*000004|stoker index"):
        list(loader())


def test_text_beside_pictures_of_one_size(tmp_path):
    """Captions of any length are padded; batches go by the pictures."""
    import io
    def tokens(i):
        out = io.BytesIO()
        np.save(out, np.arange(i % 5 + 1))
        return out.getvalue()
    path = write_tar(tmp_path / "a.tar", SIZES, "PNG", [("npy", tokens)])
    loader = stoker.Loader(path, {"x": f"from(jpg) | image | {BUCKET} | to(u8)", "t": "from(npy) | npy", "label": "from(cls) | int"}, batch_size=4, bucket=True,
                           collate={"t": "pad"}, shuffle=True, num_workers=2)
    seen = []
    for batch in loader:
        seen += batch["label"].tolist()
        assert [n for n in np.asarray(batch.lengths["t"]).ravel()] == [i % 5 + 1 for i in batch["label"].tolist()]
    assert sorted(seen) == list(range(COUNT))


def test_a_bad_picture_is_replaced_by_one_of_its_size(tmp_path):
    import tarfile
    good = write_tar(tmp_path / "good.tar", SIZES, "PNG")
    with tarfile.open(good) as old, tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as new:
        for m in old:
            data = old.extractfile(m).read()
            if m.name == "000007.jpg":
                data = data[:60] + b"\0" * (len(data) - 60)      # a size, and no pixels
            import io
            new.addfile(m, io.BytesIO(data))
    alone = bucket_of(good)
    loader, = ranks(str(tmp_path / "a.tar"), 1, f"{BUCKET} | to(u8)", batch_size=4, bucket=True, on_error="skip")
    bad = 0
    for batch in loader:
        assert all(alone[i] == tuple(batch["x"].shape[1:]) for i in batch["label"].tolist())
        bad += 7 in batch["label"].tolist()
    assert not bad and loader.stats()["skipped"] == 1
