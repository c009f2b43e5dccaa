# SPDX-License-Identifier: Apache-2.0
"""Samples that are not plain tensors and numbers: what a batch of them is, for any kind of worker."""

import dataclasses
import warnings

import numpy as np
import pytest

import stoker

torch = pytest.importorskip("torch")


class Made:
    def __init__(self, function):
        self.function = function

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return self.function(i)


@dataclasses.dataclass
class Computed:
    """Its constructor is one for samples: it makes a field, and refuses what is not a sample."""

    a: int
    x: torch.Tensor
    twice: int = dataclasses.field(init=False)

    def __post_init__(self):
        assert self.x.shape == (2,)
        self.twice = 2 * self.a


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: int
    inner: Computed


def first(function, workers, **options):
    kind = {0: None, 1: "fork", 2: "thread"}[workers]
    with stoker.Loader(Made(function), batch_size=4, num_workers=min(workers, 1), worker_type=kind, **options) as loader:
        batch = next(iter(loader))
        return batch[:] if isinstance(batch, list) else batch


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_dataclasses(workers):
    made = first(lambda i: Frozen(i, Computed(i, torch.full((2,), float(i)))), workers)
    assert type(made) is Frozen and made.a.tolist() == [0, 1, 2, 3]
    assert made.inner.twice.tolist() == [0, 2, 4, 6] and made.inner.x[:, 1].tolist() == [0, 1, 2, 3]


def read_only(i):
    made = np.full(3, i)
    made.flags.writeable = False
    return made


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("function,expected", [
    (lambda i: np.arange(3, dtype=">i4") + i, [[i, i + 1, i + 2] for i in range(4)]),
    (lambda i: (np.arange(3) + i)[::-1], [[i + 2, i + 1, i] for i in range(4)]),
    (lambda i: np.broadcast_to(np.float32(i), (3,)), [[i] * 3 for i in range(4)]),
    (read_only, [[i] * 3 for i in range(4)]),
], ids=["big-endian", "reversed", "broadcast", "read-only"])
def test_arrays_that_torch_does_not_take(workers, function, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert first(function, workers).tolist() == expected
        rows = first(function, workers, collate="list")
        assert [r.tolist() for r in rows] == expected
        rows[0].fill_(9)                        # memory of its own: the sample's may be a file


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("collate", [None, "pad", "list"])
def test_arrays_of_text_and_objects_are_lists(workers, collate):
    made = first(lambda i: {"s": np.array(["a", f"b{i}"]), "o": np.array([i, None], dtype=object),
                            "t": np.array(["2020-01-01"], dtype="M8[D]"), "d": np.longdouble(i)}, workers, collate=collate)
    assert [a.tolist() for a in made["s"]] == [["a", f"b{i}"] for i in range(4)] and made["o"][2].tolist() == [2, None]
    assert made["t"][0].dtype == "M8[D]" and made["d"] == [np.longdouble(i) for i in range(4)]


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.filterwarnings("ignore:.*(deprecated|beta state|prototype).*:UserWarning")
def test_tensors_that_are_not_plain_memory(workers):
    """Sparse and quantized ones; a quantized one ended the process."""
    def sample(i):
        return {"coo": (torch.eye(3) * i).to_sparse(), "csr": torch.eye(3).to_sparse_csr(),
                "q": torch.quantize_per_tensor(torch.ones(3) * i, 0.5, 0, torch.qint8),
                "n": torch.nested.nested_tensor([torch.ones(2), torch.ones(3) * i])}

    made = first(sample, workers)
    assert made["coo"].is_sparse and made["coo"].to_dense()[2].tolist() == (2 * torch.eye(3)).tolist()
    assert len(made["csr"]) == 4 and made["csr"][0].to_dense().tolist() == torch.eye(3).tolist()
    assert made["q"].dequantize()[3].tolist() == [3, 3, 3] and [len(t) for t in made["n"][1].unbind()] == [2, 3]
    rows = first(sample, workers, collate="list")
    assert rows["coo"][3].to_dense()[0, 0] == 3 and rows["q"][1].dequantize().tolist() == [1, 1, 1]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("size", [3, 5000])
def test_padding_takes_the_type_that_holds_all_rows(workers, size):
    """It took the first row's: 0.5 became 0."""
    made = first(lambda i: torch.full((size + i,), i) if i % 2 == 0 else torch.full((size,), i / 2), workers, collate="pad")
    assert made.dtype == torch.float32 and made[:, 0].tolist() == [0, 0.5, 2, 1.5]


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("value", [True, np.float32(1), np.bool_(True), torch.ones(2), np.ones(2)], ids=repr)
@pytest.mark.parametrize("other", [None, "text", object()], ids=["None", "text", "object"])
def test_values_that_differ_are_named(workers, value, other):
    with pytest.raises(ValueError, match=rf"differ in structure at \['x'\]: {type(value).__name__} and {type(other).__name__}"):
        first(lambda i: {"x": value if i % 2 == 0 else other}, workers)
