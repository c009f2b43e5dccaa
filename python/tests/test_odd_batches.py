# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader with what programs that were written for torch's give it: indices that are tensors, batches that
__getitems__ made, results that keep their layout, and results that can't leave a worker."""

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from torch.utils import data as theirs          # noqa: E402
from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map    # noqa: E402

import stoker                                   # noqa: E402

LARGE = 5000                                    # numbers of a row that is copied to its place at once


class Made:
    """A sample for each index, by a function."""

    def __init__(self, function, n=12):
        self.function, self.n = function, n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.function(i)


def rows_of(i):
    return torch.full((LARGE,), float(i)), i


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("indices", [torch.tensor([9, 0, 3, 10, 1, 4]), list(torch.tensor([9, 0, 3, 10, 1, 4])),
                                     [np.array(i) for i in (9, 0, 3, 10, 1, 4)], np.array([9, 0, 3, 10, 1, 4])],
                         ids=["tensor", "tensors", "arrays", "array"])
def test_indices_that_are_tensors(workers, indices):
    """The batch was written over them while the worker still read them."""
    loader = stoker.DataLoader(Made(rows_of), batch_size=3, sampler=indices, num_workers=workers)
    assert [(x[:, 0].tolist(), y.tolist()) for x, y in loader] == [([9, 0, 3],) * 2, ([10, 1, 4],) * 2]


class Ordered(theirs.IterableDataset):
    """Keeps the state that it is given, as it is."""

    def __init__(self):
        self.order, self.at = torch.arange(20, 0, -1), 0

    def __iter__(self):
        while self.at < len(self.order):
            self.at += 1
            yield torch.full((LARGE,), float(self.order[self.at - 1]))

    def state_dict(self):
        return {"order": self.order, "at": self.at}

    def load_state_dict(self, state):
        self.order, self.at = state["order"], state["at"]


def test_a_state_with_tensors_stays_as_it_was():
    loader = stoker.DataLoader(Ordered(), batch_size=4, num_workers=1)
    it = iter(loader)
    next(it)
    state = loader.state_dict()
    again = stoker.DataLoader(Ordered(), batch_size=4, num_workers=1)
    again.load_state_dict(state)
    assert [b[:, 0].tolist() for b in again] == [b[:, 0].tolist() for b in it]
    assert state["workers"][0][2]["order"].tolist() == list(range(20, 0, -1))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("size", [3, LARGE])
def test_arrays_of_different_types_in_one_batch(workers, size):
    data = Made(lambda i: np.full(size, i, "f4" if i % 2 else "f8"), 4)
    made = list(stoker.DataLoader(data, batch_size=2, num_workers=workers))
    assert [b.dtype for b in made] == [torch.float64] * 2 and [b[:, 0].tolist() for b in made] == [[0, 1], [2, 3]]
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        list(stoker.DataLoader(Made(lambda i: np.ones(size + i)), batch_size=2, num_workers=workers))


@pytest.mark.parametrize("value,kind,words", [
    (torch.eye(3).to_sparse(), RuntimeError, "Batches of sparse tensors are not currently supported"),
    (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), RuntimeError, "Batches of nested tensors"),
    (torch.ones(3), TypeError, "expected Tensor as element 1")], ids=["sparse", "nested", "None"])
def test_what_torch_refuses_is_refused_in_its_words(value, kind, words):
    data = [value, None if kind is TypeError else value]
    for made in (theirs.DataLoader, stoker.DataLoader):
        with pytest.raises(kind, match=words):
            list(made(data, batch_size=2))


class Batched(Made):
    stoker_draws = False

    def __getitems__(self, indices):
        return {"i": torch.tensor(indices), "name": [str(i) for i in indices]}


@pytest.mark.parametrize("workers", [0, 2])
def test_getitems_that_gives_a_batch(workers):
    whole = [{"i": [0, 1, 2], "name": ["0", "1", "2"]}, {"i": [3], "name": ["3"]}]
    loader = stoker.DataLoader(Batched(None, 4), batch_size=3, num_workers=workers, collate_fn=lambda batch: batch)
    assert [{"i": b["i"].tolist(), "name": b["name"]} for b in loader] == whole
    loader = stoker.Loader(Batched(None, 4), batch_size=3, num_workers=workers, collate=lambda batch: batch)
    for batch, expected in zip(loader, whole, strict=True):
        assert batch["i"].tolist() == expected["i"] == loader.sample_ids.tolist() and loader.valid.tolist() == [True] * len(batch["i"])
    with pytest.raises(TypeError, match="__getitems__ returned a dict: without a collate function it returns a list"):
        list(stoker.Loader(Batched(None, 4), batch_size=3, num_workers=workers))
    for refused in (stoker.DataLoader, theirs.DataLoader):
        with pytest.raises(KeyError):
            list(refused(Batched(None, 4), batch_size=3, num_workers=workers))


def test_getitems_that_gives_fewer_is_named():
    class Fewer(Made):
        stoker_draws = False

        def __getitems__(self, indices):
            return [i for i in indices if i % 2]

    assert [b.tolist() for b in stoker.DataLoader(Fewer(None, 4), batch_size=2)] == [[1], [3]]     # as torch has it
    with pytest.raises(ValueError, match="__getitems__ returned 1 samples for 2 indices: it returns one for each"):
        list(stoker.Loader(Fewer(None, 4), batch_size=2, num_workers=0))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_users_own_collation_of_large_tensors(workers):
    default_collate_fn_map[torch.Tensor] = lambda column, collate_fn_map: ("mine", len(column))
    try:
        assert list(stoker.DataLoader([torch.ones(LARGE)] * 4, batch_size=2, num_workers=workers)) == [("mine", 2)] * 2
    finally:
        default_collate_fn_map[torch.Tensor] = collate_tensor_fn


@pytest.mark.parametrize("workers", [0, 1])
def test_layouts_stay(workers):
    def collate(samples):
        rows = torch.stack([torch.arange(24.).view(2, 3, 4) + i for i in samples])
        return {"last": rows.to(memory_format=torch.channels_last), "turned": rows[0].permute(2, 0, 1), "holes": rows[:, :, ::2],
                "spread": rows[0, 0, :1].expand(5, 4), "none": rows[:0].transpose(1, 2), "one": rows[:1].permute(1, 0, 3, 2)}

    [made] = stoker.DataLoader(range(3), batch_size=3, num_workers=workers, collate_fn=collate)
    for name, expected in collate([0, 1, 2]).items():
        assert torch.equal(made[name], expected) and made[name].shape == expected.shape, name
        if name not in ("holes", "spread", "none"):
            assert made[name].stride() == expected.stride(), name
    assert made["last"].is_contiguous(memory_format=torch.channels_last)


class Lost:
    """Pickles and does not come back."""

    def __init__(self, a):
        self.a = a

    def __reduce__(self):
        return Lost, ()


@pytest.mark.parametrize("what,said", [(lambda: (i for i in "ab"), "cannot pickle 'generator' object"),
                                       (lambda: Lost(1), "missing 1 required positional argument")], ids=["there", "here"])
def test_a_batch_that_cannot_leave_its_worker(what, said):
    it = iter(stoker.DataLoader(range(6), batch_size=2, num_workers=1, collate_fn=lambda batch: what() if 2 in batch else batch))
    assert next(it) == [0, 1]
    with pytest.raises(NotImplementedError, match=f"a worker process can't hand over this batch .*{said}.*num_workers=0") as e:
        next(it)
    assert "\n" not in str(e.value)
    assert next(it) == [4, 5] and list(it) == []


def test_an_error_of_ours_names_the_sample():
    def fails(i):
        raise stoker.StokerError("the file is gone")

    with pytest.raises(stoker.StokerError, match=r"the file is gone \(in sample 0, worker process 0\)"):
        list(stoker.DataLoader(Made(fails), num_workers=1))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_collate_fn_that_is_set_later(workers):
    """It was not looked at."""
    loader = stoker.DataLoader(range(4), batch_size=2, num_workers=workers)
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3]]
    loader.collate_fn = tuple
    assert list(loader) == [(0, 1), (2, 3)] and loader.collate_fn is tuple
    loader.collate_fn = theirs.default_collate
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3]]


@pytest.mark.parametrize("name,value", [("dataset", [1]), ("batch_size", 2), ("batch_sampler", [[1]]), ("sampler", [1]),
                                        ("drop_last", True), ("persistent_workers", True)])
def test_what_may_not_be_changed_later(name, value):
    for made in (theirs.DataLoader, stoker.DataLoader):
        loader = made(range(4))
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoader is initialized"):
            setattr(loader, name, value)
    loader.num_workers, loader.timeout, loader.my_own = 1, 60, 3
    assert [int(b) for b in loader] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="valid start method"):
        loader.multiprocessing_context = "forkk"


def test_not_a_data_set():
    with pytest.raises(ValueError, match=r"takes a data set, not the path 'photos': stoker.Loader\(path, fields\) reads files"):
        stoker.DataLoader("photos")
    with pytest.raises(ValueError, match=r"Made is a class: give a data set, Made\(...\)"):
        stoker.Loader(Made)
