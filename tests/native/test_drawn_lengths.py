# SPDX-License-Identifier: Apache-2.0
"""Random crops decide how many patches a picture has: batches within max_tokens are planned by what each epoch draws, from the sizes of pictures alone."""

import numpy as np
import pytest
from pictures import write_tar

import stoker

# by a budget of pixels a crop of a tenth has a tenth of the patches
CHAIN = "random_resized_crop_to_patches(qwen2_vl, max_pixels=60000, scale=(0.05, 1)) | hflip | color_jitter(0.4) | patches(14, order=blocks) | to(u8)"
N = 120


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    rng = np.random.default_rng(4)
    text = [("ids.npy", lambda i: _npy(np.arange(3 + i % 40)))]
    return write_tar(tmp_path_factory.mktemp("drawn") / "a.tar", [tuple(int(v) for v in rng.integers(40, 330, 2)) for _ in range(N)], "PNG", text)


def _npy(row):
    import io
    out = io.BytesIO()
    np.save(out, row)
    return out.getvalue()


def loader_of(path, collate, budget=1500, fields=("x",), **options):
    chains = {"x": f"from(jpg) | image | {CHAIN}", "ids": "from(ids.npy) | npy"}
    return stoker.Loader(path, {name: chains[name] for name in fields}, max_tokens=budget, collate=collate, num_workers=2, seed=9, shuffle=True, **options)


def taken(batch, collate):
    out = 0
    for name, how in collate.items():
        lengths = np.diff(np.asarray(batch.offsets[name])).tolist() if name in batch.offsets else None
        out += len(batch[name]) if how == "pack" else int(np.prod(batch[name].shape[:2])) if how == "pad" else len(lengths) * max(lengths)
    return out


@pytest.mark.parametrize("collate", [{"x": "pack"}, {"x": "pad"}, {"x": "pack", "ids": "pack"}, {"x": "pack", "ids": "pad"}, {"x": "pad", "ids": "pad"}])
def test_batches_are_full_and_within_their_budget(shard, collate):
    """By the bound of the rule, 306 patches and more, four or five pictures fill 1,500 patches; what is drawn is a third of it."""
    loader = loader_of(shard, collate, fields=tuple(collate))
    sizes = []
    for epoch in range(3):
        seen, used, steps = [], 0, 0
        for batch in loader:
            assert taken(batch, collate) <= 1500
            used += taken(batch, collate)
            steps += 1
            seen += batch.sample_keys
            sizes.append(len(batch.sample_keys))
        assert sorted(map(int, seen)) == list(range(N))
        if "pad" not in collate.values():                     # the last one is what is left
            assert used / (1500 * (steps - 1)) > .97, (used, steps)
    assert max(sizes) > 8


@pytest.mark.parametrize("world", [1, 3])
def test_ranks_and_a_resumed_epoch_have_the_same_batches(shard, world):
    options = {"collate": {"x": "pack"}}
    def batches(loader, n=None):
        out = []
        for batch in loader:
            out.append((tuple(batch.sample_keys), tuple(batch.grid["x"].reshape(-1).tolist())))
            if n and len(out) == n:
                break
        return out
    loaders = [loader_of(shard, **options, rank=r, world_size=world) for r in range(world)]
    first = [batches(loader) for loader in loaders]
    second = [batches(loader) for loader in loaders]
    assert len({len(b) for b in first}) == len({len(b) for b in second}) == 1 and first != second
    again = loader_of(shard, **options, rank=0, world_size=world)
    iterator = iter(again)
    begun = [next(iterator) for _ in range(3)]
    state = again.state_dict()
    resumed = loader_of(shard, **options, rank=0, world_size=world)
    resumed.load_state_dict(state)
    assert [tuple(b.sample_keys) for b in begun] == [k for k, _ in first[0][:3]]
    assert batches(resumed) == first[0][3:] and batches(resumed) == second[0]


def test_a_picture_that_is_cut_counts_what_is_left(shard):
    loader = loader_of(shard, {"x": "pack"}, 200, over_budget="truncate")
    for _ in range(2):
        seen, used = [], []
        for batch in loader:
            assert len(batch["x"]) <= 200
            used.append(len(batch["x"]))
            seen += batch.sample_keys
        assert sorted(map(int, seen)) == list(range(N)) and sum(used) / (200 * len(used)) > .85


@pytest.mark.parametrize("collate", ["pack", "pad"])
def test_what_stands_in_for_a_bad_sample_leaves_the_batch_in_its_budget(tmp_path, shard, collate):
    import io
    import tarfile
    with tarfile.open(shard) as old, tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as new:
        for m in old:
            data = old.extractfile(m).read()
            if m.name.endswith("jpg") and int(m.name[:6]) % 12 == 5:
                data = data[:60] + b"\0" * (len(data) - 60)         # its header is sound
            new.addfile(m, io.BytesIO(data))
    loader = loader_of(str(tmp_path / "a.tar"), {"x": collate}, on_error="skip")
    for _ in range(4):
        for batch in loader:
            assert taken(batch, {"x": collate}) <= 1500
    assert loader.stats()["skipped"] >= 8
