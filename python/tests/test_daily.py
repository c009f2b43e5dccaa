# SPDX-License-Identifier: Apache-2.0
"""What people type every day: tuples, a look at a loader, samples by key, hints where a name is torch's."""

import pickle

import numpy as np
import pytest
from conftest import LABEL, SAMPLES, as_numpy, write_tar

import stoker

pytestmark = pytest.mark.asan
FIELDS = {"image": "from(jpg) | image | random_resized_crop(16) | hflip", "label": "from(cls) | int", "text": "from(txt) | text"}


# ---- tuples --------------------------------------------------------------------------------------

def test_as_tuples_is_a_view_of_the_loader(urls):
    with stoker.Loader(urls, FIELDS, batch_size=8, shuffle=True, seed=3) as loader, \
            stoker.Loader(urls, FIELDS, batch_size=8, shuffle=True, seed=3) as other:
        pairs = loader.as_tuples("label", "image")
        assert len(pairs) == len(loader) == 13 and pairs.batch_size == 8
        for (label, image), batch in zip(pairs, other, strict=True):
            assert (as_numpy(label) == as_numpy(batch["label"])).all() and (as_numpy(image) == as_numpy(batch["image"])).all()
        pairs.set_epoch(4)
        assert loader.epoch == pairs.epoch == 4
        running = iter(pairs)
        first = [next(running) for _ in range(3)]
        state = pairs.state_dict()
        assert state == loader.state_dict() and state["position"] == 24 and state["epoch"] == 4
        rest = [as_numpy(label).tolist() for label, _ in running]
        pairs.load_state_dict(state)
        assert [as_numpy(label).tolist() for label, _ in pairs] == rest and len(first) == 3
        assert [len(t) for t in loader.as_tuples()] == [3] * 13
        assert repr(pairs).endswith(".as_tuples('label', 'image')")


def test_as_tuples_names_what_is_there(urls):
    with stoker.Loader(urls, FIELDS) as loader:
        with pytest.raises(stoker.StokerError, match="no output 'labels': the outputs are image, label, text: did you mean `label`"):
            loader.as_tuples("image", "labels")
        with pytest.raises(stoker.StokerError, match="as_tuples"):
            loader.as_tuples(7)


def test_a_batch_that_is_unpacked_says_so(urls):
    with stoker.Loader(urls, {k: FIELDS[k] for k in ("image", "label")}, batch_size=4) as loader:
        with pytest.raises(stoker.StokerError, match=r"loader.as_tuples\('image', 'label'\)"):
            for image, label in loader:
                assert image is not label
        with pytest.raises(stoker.StokerError, match="as_tuples"):
            image, *rest = next(iter(loader))
        batch = next(iter(loader))
        assert list(batch) == [name for name in batch] == ["image", "label"] == sorted(batch)
        assert {**batch}.keys() == dict(batch).keys() == batch.keys() and "image" in batch
        first, second = batch.values()
        assert len(first) == len(second) == 4
        assert list(pickle.loads(pickle.dumps(batch))) == ["image", "label"]
        assert [name for name, _ in batch.items()] == list(map(str, batch))


# ---- a look --------------------------------------------------------------------------------------

def test_repr_of_a_loader(urls, data):
    loader = stoker.Loader(urls, LABEL, batch_size=16, rank=0, world_size=2)
    assert repr(loader) == f"Loader({urls!r}, 100 samples, batch 16, rank 0 of 2, epoch 0, step 0 of 4)"
    running = iter(loader)
    next(running)
    assert repr(loader).endswith("epoch 0, step 1 of 4)")
    list(running)
    assert repr(loader).endswith("epoch 1, step 0 of 4)")
    loader.set_epoch(3)
    assert repr(loader).endswith("epoch 3, step 0 of 4)")
    loader.close()
    assert repr(loader).endswith("rank 0 of 2, closed)")
    paths = sorted(data.glob("*.tar"))
    for given, named in ((paths, f"{str(paths[0])!r} and 2 more"), (stoker.open(urls), repr(urls)),
                         (stoker.mix({"a": (urls, 1), "b": (urls, 1)}), "mix of 'a', 'b'"), ({"x": np.zeros((5, 2))}, "arrays 'x'")):
        fields = None if isinstance(given, dict) else LABEL
        with stoker.Loader(given, fields, global_batch_size=10) as loader:
            assert repr(loader).startswith(f"Loader({named}, ") and "batch 10, epoch 0, step 0 of " in repr(loader)


def test_attributes_of_a_loader(urls):
    with stoker.Loader(urls, {"image": stoker.from_("jpg").image().resize((8, 8)), **LABEL}, global_batch_size=12, world_size=3, rank=1) as loader:
        assert loader.batch_size == 4 and loader.fields == {"image": "from(jpg) | image | resize((8, 8))", **LABEL}
        assert loader.dataset[3]["__key__"] == "000003" and len(loader.dataset) == SAMPLES
    ds = stoker.open(urls)
    with stoker.Loader([ds, ds], LABEL) as loader:
        assert loader.dataset == [ds, ds]


def test_only_valid(tmp_path):
    path = write_tar(tmp_path / "a.tar", [(f"{i}.cls", b"x" if i == 2 else b"%d" % i) for i in range(5)]
                     + [("5.cls", b"5")])
    with stoker.Loader(path, {"label": "from(cls) | int", "raw": "from(cls) | bytes"}, batch_size=6, on_error="skip") as loader:
        batch = next(iter(loader))
        kept = batch.only_valid()
        assert as_numpy(batch.valid).tolist() == [True, True, False, True, True, True]
        assert as_numpy(kept["label"]).tolist() == [0, 1, 3, 4, 5] and kept["raw"] == [b"0", b"1", b"3", b"4", b"5"]
        assert kept.sample_keys == ["0", "1", "3", "4", "5"] and as_numpy(kept.sample_ids).tolist() == [0, 1, 3, 4, 5]
        assert as_numpy(kept.valid).all() and kept.only_valid() is kept
        assert len({**kept}) == 2


# ---- data sets -----------------------------------------------------------------------------------

def test_samples_by_slice_and_key(urls):
    ds = stoker.open(urls, FIELDS)
    assert [s["__key__"] for s in ds[:3]] == ["000000", "000001", "000002"] and ds[5:5] == []
    assert [int(s["label"]) for s in ds[-1:-4:-1]] == [9, 8, 7]
    assert ds["000042"]["text"] == "número 42" and stoker.open(urls)["000042"]["cls"] == b"2"
    with pytest.raises(KeyError, match='no sample has the key \'42\'; ds\\[0\\]\\["__key__"\\] shows') as e:
        ds["42"]
    assert isinstance(e.value, stoker.StokerError) and e.value.code == "ENOTFOUND"
    with pytest.raises(TypeError, match="by its number or its key, not 1.5"):
        ds[1.5]
    with pytest.raises(stoker.StokerError, match="no keys"):
        stoker.open({"x": np.zeros(3)})["0"]


def test_samples_by_list(urls):
    import numpy as np
    ds = stoker.open(urls)
    names = [ds[k]["__key__"] for k in (3, 0, -1)]
    for which in ([3, 0, -1], np.array([3, 0, -1]), names, [3, names[1], -1], range(3, -2, -3)):
        assert [s["__key__"] for s in ds[which]][:2] == names[:2]
    assert ds[[]] == [] and len(ds[np.arange(2)]) == 2
    with pytest.raises(IndexError, match=f"sample {len(ds)} of {len(ds)}"):
        ds[[0, len(ds)]]
    for mask in ([True] * len(ds), np.ones(len(ds), bool)):
        with pytest.raises(TypeError, match="a list of True and False names no samples: give numpy.flatnonzero"):
            ds[mask]
    with pytest.raises(TypeError, match="by its number or its key, not a tuple"):
        ds[1:2, 3]


def test_a_key_that_two_samples_have(tmp_path):
    shards = [write_tar(tmp_path / f"{i}.tar", [("same.cls", b"1"), (f"{i}.cls", b"2")]) for i in range(2)]
    ds = stoker.open(shards)
    with pytest.raises(stoker.StokerError, match="2 samples have the key 'same', the first are 0 and 2"):
        ds["same"]
    assert ds["1"]["cls"] == b"2"


def test_draws_follow_the_epoch(urls):
    ds = stoker.open(urls, FIELDS)
    first = as_numpy(ds[42]["image"])
    ds.set_epoch(3)
    third = as_numpy(ds[42]["image"])
    assert (first != third).any() and ds.epoch == 3
    assert (as_numpy(ds[42]["image"]) == third).all()
    with stoker.Loader(urls, FIELDS, batch_size=SAMPLES) as loader:
        loader.set_epoch(3)
        assert (as_numpy(next(iter(loader))["image"])[42] == third).all()
    again = pickle.loads(pickle.dumps(ds))
    assert again.epoch == 3 and (as_numpy(again[42]["image"]) == third).all()
    ds.set_epoch(0)
    assert (as_numpy(ds[42]["image"]) == first).all()
    with pytest.raises(stoker.StokerError, match="epoch must be at least 0"):
        ds.set_epoch(-1)


def test_writer_counts_after_the_with_block(tmp_path):
    with stoker.Writer(tmp_path / "out-%03d.tar", max_count=2) as out:
        for i in range(5):
            out.write({"__key__": str(i), "cls": i})
        assert (out.samples, out.shards) == (5, 2)
    assert (out.samples, out.shards) == (5, 3)
    out.close()
    assert out.samples == 5


def test_skipped_counts_what_was_handed_out(tmp_path):
    """Batches made ahead are not the consumer's yet, and a state saved now is not to count them."""
    path = write_tar(tmp_path / "a.tar", [(f"{i:03d}.cls", b"x" if i % 10 == 3 else b"1") for i in range(200)])
    with stoker.Loader(path, LABEL, batch_size=10, on_error="skip", prefetch=8, num_workers=2) as loader:
        for step, _ in enumerate(loader, 1):
            assert loader.stats()["skipped"] == loader.state_dict()["local"]["skipped"] == step
        loader.set_epoch(0)
        next(iter(loader))
        assert loader.stats()["skipped"] == 21


# ---- errors --------------------------------------------------------------------------------------

class Big:
    """What a data set or a model prints."""

    def __repr__(self):
        return "Big(" + "0, " * 5000 + ")"


@pytest.mark.parametrize("given, says", [
    (dict(data=Big()), "data sets of stoker.open(), not a Big"), (dict(fields=Big()), "must be a dict, not a Big"),
    (dict(fields={"x": Big()}), "not a Big"), (dict(batch_size=Big()), "whole number, not a Big"), (dict(shuffle=Big()), "not a Big"),
    (dict(on_error=Big()), "not a Big"), (dict(collate=[Big()] * 4), "not a list of 4"), (dict(device=Big()), "not a Big"),
    (dict(drop_last=np.float32(1)), "not a float32"), (dict(fields=["image"]), "must be a dict, not ['image']"),
    (dict(memory_limit="1" * 5000), '"2GB"'), (dict(classes=Big()), "not a Big"), (dict(exclude=Big()), "not a Big"),
])
def test_errors_print_types(urls, given, says):
    with pytest.raises(stoker.StokerError) as e:
        stoker.Loader(**{"data": urls, "fields": LABEL, **given})
    assert says in str(e.value) and len(str(e.value)) < 400, str(e.value)


@pytest.mark.parametrize("name, says", [
    ("sampler", "shuffle=, weights="), ("transform", "from_transform"), ("persistent_workers", "leave it out"), ("collate_fn", "batch_ops"),
    ("batch_sampler", "batch_size="), ("worker_init_fn", "seed="), ("generator", "seed="), ("timeout", "leave it out"),
    ("multiprocessing_context", "threads"), ("pin_memory_device", "device="), ("in_order", "in order"), ("dataset", "first argument"),
])
def test_torch_names_get_a_hint(urls, name, says):
    with pytest.raises(stoker.StokerError) as e:
        stoker.Loader(urls, LABEL, **{name: None})
    assert f"Loader has no argument `{name}`: " in str(e.value) and says in str(e.value)
