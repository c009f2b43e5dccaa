# SPDX-License-Identifier: Apache-2.0
"""cache="device": the same batches as from the CPU over several epochs, whatever fits; files that are kept are not read again."""

import random
import time

import numpy as np
import on_gpu
import pytest
import stoker
from on_gpu import bits, options

torch = pytest.importorskip("torch")

FIELDS = {"image": "from(pic) | image | random_resized_crop(48) | hflip | normalize(imagenet) | to(f16)",
          "small": "from(pic) | image | resize((40, 40)) | to(u8)", "label": "from(cls) | int"}


def pictures(n=90):
    """Large enough that seek points pay; now and then one that is not kept."""
    rng, made = random.Random(on_gpu.SEED), []
    for i in range(n):
        how = {"quality": rng.choice([80, 90, 95]), "subsampling": rng.randrange(3), "progressive": i % 9 == 8,
               "optimize": i % 2 == 1}
        size = rng.choice([(500, 375), (640, 427), (333, 500), (800, 600)])
        made.append((f"jpeg {how}", "jpg", on_gpu.encoded(on_gpu.photo(i, *size), **how)))
    return made


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    tar = on_gpu.write_pictures(tmp_path_factory.mktemp("cache") / "a.tar", pictures())
    return stoker.open(tar, jpeg=True)


def loader(data, gpu, **more):
    return stoker.Loader(data, FIELDS, **{"batch_size": 16, "shuffle": True, "seed": 4, "num_workers": 4},
                         **(options(cache="device", **more) if gpu else {}))


def same_epoch(a, b):
    n = 0
    for x, y in zip(a, b, strict=True):
        assert torch.equal(torch.as_tensor(x.sample_ids), torch.as_tensor(y.sample_ids))
        for name in FIELDS:
            assert torch.equal(bits(x[name]), bits(y[name])), name
        n += len(x["label"])
    return n


def cache_of(loader):
    return loader.stats()["gpu"]["cache"]


@pytest.mark.parametrize("limit", ["500MB", "2MB", "1MB"])
def test_same_batches(data, limit):
    with loader(data, False) as near, loader(data, True, device_cache_limit=limit) as far:
        for epoch in range(4):
            near.set_epoch(epoch)
            far.set_epoch(epoch)
            assert same_epoch(near, far) == 90
        if not on_gpu.DRY:
            found = cache_of(far)
            assert 0 < found["bytes"] <= found["limit"] and found["hits"] > 0 and found["entries"] > 0, found
            if limit == "500MB":
                assert found["entries"] == 80, found


def test_views_are_kept(data):
    chain = "from(pic) | image | views(3) | random_resized_crop(48, interpolation=bicubic) | hflip | color_jitter(0.4, 0.4, 0.4, 0.1) | to(f16)"
    how = {"batch_size": 16, "shuffle": True, "seed": 4, "num_workers": 4}
    with stoker.Loader(data, {"image": chain}, **how) as near, \
            stoker.Loader(data, {"image": chain}, **how, **options(cache="device")) as far:
        for epoch in range(3):
            for x, y in zip(near, far, strict=True):
                assert torch.equal(bits(x["image"]), bits(y["image"])), epoch
        assert on_gpu.DRY or cache_of(far)["hits"] > 0


@pytest.mark.real_gpu
def test_what_is_kept_is_not_read(data):
    with loader(data, True) as far:
        for _ in far:
            pass
        first = far.stats()
        for epoch in range(1, 4):
            far.set_epoch(epoch)
            for _ in far:
                pass
        later = far.stats()
    assert later["bytes"] - first["bytes"] < first["bytes"]         # one of nine pictures, and labels
    assert later["gpu"]["cache"]["hits"] > 2 * 3 * 70
    assert later["gpu"]["bytes"] - first["gpu"]["bytes"] < 3 * first["gpu"]["bytes"] / 2


def test_resumed_in_the_middle(data):
    with loader(data, False) as near, loader(data, True, device_cache_limit="3MB") as far:
        for _ in far:
            pass
        far.set_epoch(1)
        for i, _ in enumerate(far):
            if i == 2:
                break
        near.load_state_dict(far.state_dict())
        state = near.state_dict()
        far.load_state_dict(state)
        same_epoch(near, far)


# ---- arrays and tokens --------------------------------------------------------------------------

def arrays(tmp_path):
    rng = np.random.default_rng(on_gpu.SEED)
    tokens = tmp_path / "tokens.bin"
    rng.integers(0, 50000, 3_000_017).astype(np.uint16).tofile(tokens)
    rows = {"a": rng.integers(-9000, 9000, (4000, 31)).astype(np.int16), "b": rng.random((4000, 3, 8, 8), np.float32),
            "c": rng.integers(0, 250, (4000, 5, 16)).astype(np.uint8), "label": np.arange(4000) * -3}
    return str(tokens), rows


WINDOWS = {"x": "tokens(block=1000)", "y": "tokens(block=1000, shift=1) | to(i32)"}
ROWS = {"a": "from(a) | to(i64)", "b": "from(b)", "c": "from(c)", "label": "from(label)"}


@pytest.mark.parametrize("kind", ["windows", "random windows", "rows"])
def test_arrays_are_gathered(tmp_path, kind):
    tokens, rows = arrays(tmp_path)
    fields = ROWS if kind == "rows" else {k: v.replace(")", ", random=true)", 1) if kind != "windows" else v
                                          for k, v in WINDOWS.items()}
    how = {"batch_size": 64, "shuffle": True, "seed": 5}
    with stoker.Loader(rows if kind == "rows" else tokens, fields, **how) as near, \
            stoker.Loader(rows if kind == "rows" else tokens, fields, **how, **options(cache="device")) as far:
        for epoch in range(6):
            near.set_epoch(epoch)
            far.set_epoch(epoch)
            for x, y in zip(near, far, strict=True):
                for name in fields:
                    assert torch.equal(bits(x[name]), bits(y[name])), (epoch, name)
            time.sleep(0.05)
        if not on_gpu.DRY:
            assert cache_of(far)["hits"] > 0, cache_of(far)
