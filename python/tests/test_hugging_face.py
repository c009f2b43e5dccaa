# SPDX-License-Identifier: Apache-2.0
"""Hugging Face's Dataset and IterableDataset as data sets: formats, transforms, pictures, streams."""

import json
import random
import warnings

import numpy as np
import pytest
from conftest import as_numpy

import stoker

datasets = pytest.importorskip("datasets")
torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

ROWS = 60


@pytest.fixture(scope="module")
def data():
    features = datasets.Features({"x": datasets.Value("int64"), "text": datasets.Value("string"),
                                  "values": datasets.List(datasets.Value("float32"), length=2), "image": datasets.Image()})
    return datasets.Dataset.from_dict(
        {"x": list(range(ROWS)), "text": [f"número {i}" for i in range(ROWS)], "values": [[i, i + 0.5] for i in range(ROWS)],
         "image": [Image.fromarray(np.full((6, 8, 3), i, np.uint8)) for i in range(ROWS)]}, features=features)


def drawing(rows):
    """A transform that draws, for set_transform()."""
    return {"x": rows["x"], "drawn": [random.random() for _ in rows["x"]], "n": [np.random.randint(1000) for _ in rows["x"]],
            "image": [np.array(i)[:4, :4] for i in rows["image"]]}


def taken(loader, *names):
    """Rows of all batches, by name."""
    batches = list(loader)
    return [[r.tolist() if hasattr(r, "tolist") else r for b in batches for r in b[name]] for name in names]


def ours(dataset, *names, workers=0, **options):
    with stoker.Loader(dataset, **{"batch_size": 8, "num_workers": workers, **options}) as loader:
        return taken(loader, *names)


def order_of(dataset, **options):
    with stoker.Loader(dataset, **{"batch_size": 8, "num_workers": 0, **options}) as loader:
        return [int(i) for b in loader for i in b.sample_ids]


# ---- map-style -------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", [None, "torch", "numpy"])
def test_formats_give_what_torchs_loader_gives(data, kind):
    """The same samples in the same order; torch's loader is given our order."""
    data = data.with_format(kind).remove_columns(["image"] if kind is None else [])     # torch collates no PIL pictures
    names = [n for n in ("x", "text", "values", "image") if n in data.column_names]
    order = order_of(data, shuffle=True, seed=4)
    theirs = list(torch.utils.data.DataLoader(data, batch_size=8, sampler=order))
    for workers in (0, 2):
        with stoker.Loader(data, batch_size=8, num_workers=workers, shuffle=True, seed=4) as loader:
            for a, b in zip(theirs, loader, strict=True):
                assert sorted(a) == sorted(b)
                for name in names:
                    if isinstance(a[name], torch.Tensor):
                        assert b[name].dtype == a[name].dtype and torch.equal(a[name], b[name]), name
                    else:
                        assert len(a[name]) == len(b[name])
                        assert all(np.array_equal(x, y) for x, y in zip(a[name], b[name], strict=True)), name


@pytest.mark.parametrize("workers", [0, 1, 2, 7])
def test_pictures_stay_pictures(data, workers):
    with stoker.Loader(data, batch_size=8, num_workers=workers) as loader:
        images = [i for b in loader for i in b["image"]]
    assert len(images) == ROWS and all(isinstance(i, Image.Image) and np.asarray(i)[0, 0, 0] == k for k, i in enumerate(images))


def test_a_transform_that_draws_is_the_same_everywhere(data):
    data = data.with_transform(drawing)
    options = {"shuffle": True, "seed": 3}
    whole = ours(data, "x", "drawn", "n", **options)
    assert len(set(whole[1])) == ROWS
    for workers in (1, 2, 7):
        assert ours(data, "x", "drawn", "n", workers=workers, **options) == whole
    by_row = {x: (d, n) for x, d, n in zip(*whole, strict=True)}
    for rank in range(2):                                # and for other ranks and batches
        part = ours(data, "x", "drawn", "n", workers=1, rank=rank, world_size=2, batch_size=3, **options)
        assert part[0] and all(by_row[x] == (d, n) for x, d, n in zip(*part, strict=True))


def test_state_select_and_weights(data):
    data = data.with_transform(drawing)
    with stoker.Loader(data, batch_size=8, num_workers=2, shuffle=True, seed=3) as loader:
        batches = iter(loader)
        next(batches), next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
        rest = [(int(x), float(d)) for b in batches for x, d in zip(b["x"], b["drawn"], strict=True)]
    with stoker.Loader(data, batch_size=8, num_workers=1, shuffle=True, seed=3) as loader:
        loader.load_state_dict(state)
        assert [(int(x), float(d)) for b in loader for x, d in zip(b["x"], b["drawn"], strict=True)] == rest
    assert ours(data, "x", select=[5, 7, 9])[0] == [5, 7, 9]
    twice = data.shuffle(seed=1).select(range(30))
    assert ours(twice, "x")[0] == [int(r["x"]) for r in twice]


# ---- streams ---------------------------------------------------------------------------------------

def stream(data, shards=4):
    return data.remove_columns("image").to_iterable_dataset(num_shards=shards)


@pytest.mark.parametrize("workers", [0, 1, 2, 4, 7])
def test_streams_as_torchs_loader_has_them(data, workers):
    made = stream(data)
    theirs = list(torch.utils.data.DataLoader(made, batch_size=8, num_workers=min(workers, 4)))
    assert ours(made, "x", "text", workers=workers) == [[int(x) for b in theirs for x in b["x"]], [t for b in theirs for t in b["text"]]]
    port = stoker.DataLoader(made, batch_size=8, num_workers=min(workers, 4))
    assert [b["x"].tolist() for b in port] == [b["x"].tolist() for b in theirs]


@pytest.mark.parametrize("workers", [0, 2])
def test_streams_resume_where_they_were(data, workers):
    made = stream(data).map(lambda row: {"x": row["x"] * 2})
    whole = ours(made, "x", workers=workers)[0]
    with stoker.Loader(made, batch_size=8, num_workers=workers) as loader:
        batches = iter(loader)
        first = [int(x) for _ in range(3) for x in next(batches)["x"]]
        state = json.loads(json.dumps(loader.state_dict()))
    with stoker.Loader(made, batch_size=8, num_workers=workers) as loader:
        loader.load_state_dict(state)
        assert first + taken(loader, "x")[0] == whole
        loader.set_epoch(0)
        assert taken(loader, "x")[0] == whole           # a later epoch begins at the start
    assert ours(made, "x", workers=workers)[0] == whole  # and the data set is as it was


@pytest.mark.parametrize("workers", [0, 2])
def test_a_shuffle_buffer_is_filled_again(data, workers):
    """Its state has no content of the buffer: samples are read again, and none comes twice or is lost."""
    made = stream(data).shuffle(seed=1, buffer_size=16)
    whole = ours(made, "x", workers=workers)[0]
    assert sorted(whole) == list(range(ROWS)) and whole != sorted(whole)
    with stoker.Loader(made, batch_size=8, num_workers=workers) as loader:
        batches = iter(loader)
        first = [int(x) for _ in range(3) for x in next(batches)["x"]]
        state = json.loads(json.dumps(loader.state_dict()))
    with stoker.Loader(made, batch_size=8, num_workers=workers) as loader, warnings.catch_warnings():
        warnings.simplefilter("ignore")                 # that it is read again, once in a process
        loader.load_state_dict(state)
        assert first + taken(loader, "x")[0] == whole


def test_streams_hear_of_epochs_and_ranks(data):
    from datasets.distributed import split_dataset_by_node
    made = stream(data).shuffle(seed=1, buffer_size=16)
    with stoker.Loader(made, batch_size=8, num_workers=1) as loader:
        first, second = taken(loader, "x")[0], taken(loader, "x")[0]
    assert sorted(first) == sorted(second) == list(range(ROWS)) and first != second
    parts = [ours(stream(data), "x", rank=rank, world_size=2, batch_size=5)[0] for rank in range(2)]
    assert sorted(parts[0] + parts[1]) == list(range(ROWS))
    split = split_dataset_by_node(stream(data), rank=1, world_size=2)
    assert ours(split, "x", rank=0, world_size=1)[0] == [int(r["x"]) for r in split]


def test_arrays_in_a_stream(data):
    made = data.select_columns(["x", "values"]).to_iterable_dataset(num_shards=2).with_format("numpy")
    with stoker.Loader(made, batch_size=4, num_workers=1) as loader:
        batch = next(iter(loader))
        assert as_numpy(batch["values"]).dtype == np.float32 and as_numpy(batch["values"]).shape == (4, 2)


def test_what_draws_is_read_sample_by_sample():
    """Without a transform they are read in whole batches; with one, sample by sample."""
    table = datasets.Dataset.from_dict({"x": list(range(12))})
    assert stoker.sets.is_pure(table) and stoker.sets.is_pure(table.with_format("numpy"))

    def transform(batch):
        return {"x": batch["x"], "r": [random.random() for _ in batch["x"]]}

    mapped = table.with_transform(transform)
    assert not stoker.sets.is_pure(mapped)
    found = []
    for size, workers in ((1, 0), (4, 0), (5, 2)):
        with stoker.Loader(mapped, batch_size=size, shuffle=True, num_workers=workers, worker_type="fork") as loader:
            found.append({x: r for b in loader for x, r in zip(b["x"].tolist(), b["r"].tolist(), strict=True)})
    assert found[0] == found[1] == found[2] and len(set(found[0].values())) == 12
