# SPDX-License-Identifier: Apache-2.0
"""A batch is a dict that knows its samples."""

import copy
import gc
import pickle

import numpy as np
import pytest
from conftest import FIELDS, as_numpy, torch

import stoker

pytestmark = pytest.mark.asan
needs_torch = pytest.mark.skipif(torch is None, reason="without torch")


@pytest.fixture
def batch(urls):
    fields = {**FIELDS, "txt": "text"}
    with stoker.Loader(urls, fields, batch_size=6, num_workers=1) as loader:
        return next(iter(loader))


def test_types(batch):
    kind = np.ndarray if torch is None else torch.Tensor
    assert isinstance(batch, dict) and isinstance(batch, stoker.Batch)
    assert list(batch) == ["image", "label", "txt"]
    for value in (batch["image"], batch["label"], batch.sample_ids, batch.valid):
        assert isinstance(value, kind)
    assert batch["image"].shape == (6, 3, 32, 32)
    assert str(batch.sample_ids.dtype).endswith("int64") and str(batch.valid.dtype).endswith("bool")
    assert batch.sample_keys == [f"{i:06d}" for i in range(6)]
    assert repr(batch).startswith("Batch(image: float32[6, 3, 32, 32]")


def same(a, b):
    assert type(a) is type(b) is stoker.Batch and list(a) == list(b)
    assert (as_numpy(a["image"]) == as_numpy(b["image"])).all()
    assert a["txt"] == b["txt"] and a.sample_keys == b.sample_keys
    assert (as_numpy(a.sample_ids) == as_numpy(b.sample_ids)).all()
    assert (as_numpy(a.valid) == as_numpy(b.valid)).all()


@pytest.mark.parametrize("how", [
    copy.copy, copy.deepcopy, lambda b: b.copy(), stoker.Batch,
    lambda b: pickle.loads(pickle.dumps(b)),
    lambda b: pickle.loads(pickle.dumps(b, protocol=5))])
def test_copies(batch, how):
    same(batch, how(batch))


def test_rebuilds_from_a_plain_dict(batch):
    again = stoker.Batch(dict(batch))
    assert list(again) == list(batch) and again.sample_keys is None and again.valid is None
    assert stoker.Batch(a=1)["a"] == 1


def test_tensors_are_writable_and_apart(urls):
    with stoker.Loader(urls, FIELDS, batch_size=6) as loader:
        batches = list(loader)
        before = as_numpy(batches[1]["image"]).copy()
        batches[0]["image"][:] = 7
        batches[0]["label"][:] = 7
        assert (as_numpy(batches[1]["image"]) == before).all()


def test_tensors_outlive_the_loader(urls):
    loader = stoker.Loader(urls, FIELDS, batch_size=6, shuffle=True)
    batches = list(loader)
    before = [as_numpy(b["image"]).copy() for b in batches]
    keys = [list(b.sample_keys) for b in batches]
    loader.close()
    del loader
    gc.collect()
    for batch, image, names in zip(batches, before, keys, strict=True):
        assert (as_numpy(batch["image"]) == image).all() and batch.sample_keys == names


@pytest.mark.asan
def test_keys_are_made_when_asked_for(data):
    """Also after the loader is gone, over several data sets, and whatever became of sample_ids."""
    paths = sorted(data.glob("*.tar"))
    sets = [stoker.open(p) for p in (paths[0], paths[2])]
    first = len(sets[0])
    keys = [ds[i]["__key__"] for ds in sets for i in range(len(ds))]
    with stoker.Loader(sets, FIELDS, batch_size=6, shuffle=True) as loader:
        batches = list(loader)
        moved = [b._map("nothing") for b in batches]
    ids = [[int(i) for i in b.sample_ids] for b in batches]
    for batch in batches:
        batch.sample_ids[:] = 0
    del loader, sets
    gc.collect()
    assert max(max(i) for i in ids) >= first
    for batch, other, mine in zip(batches, moved, ids, strict=True):
        assert pickle.loads(pickle.dumps(other)).sample_keys == [keys[i] for i in mine]
        assert batch.sample_keys == [keys[i] for i in mine]
        assert batch.sample_keys is batch.sample_keys
    batches[0].sample_keys = ["mine"]
    assert batches[0].sample_keys == ["mine"] and batches[0].copy().sample_keys == ["mine"]


@needs_torch
def test_to(batch):
    half = batch.to(torch.float16)
    assert half["image"].dtype == torch.float16 and half["txt"] == batch["txt"]
    assert half.valid.dtype == torch.bool and half.sample_ids.dtype == torch.int64
    moved = batch.to("meta", non_blocking=True)
    assert moved["image"].device.type == "meta" and moved.sample_keys == batch.sample_keys
    assert moved.sample_ids.device.type == "meta"
    same(batch, batch.to("cpu"))


@needs_torch
def test_torch_utilities(batch):
    from torch.utils.data import default_collate
    joined = default_collate([batch, batch])
    assert isinstance(joined, stoker.Batch) and joined["image"].shape == (2, 6, 3, 32, 32)
    assert default_collate([{"a": batch["label"]}])["a"].shape == (1, 6)
    if torch.cuda.is_available():
        assert batch.pin_memory()["image"].is_pinned()


@needs_torch
def test_pin_memory_maps_every_tensor(batch):
    class Fake:
        def pin_memory(self):
            return "pinned"

    made = stoker.Batch({"a": Fake(), "b": [Fake(), "text"], "c": "text"}).pin_memory()
    assert dict(made) == {"a": "pinned", "b": ["pinned", "text"], "c": "text"}
