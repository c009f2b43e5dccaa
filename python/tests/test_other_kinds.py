# SPDX-License-Identifier: Apache-2.0
"""Samples of other libraries in Python data sets: TensorDict, tv_tensors, Hugging Face's."""

import sys
from pathlib import Path

import pytest

import stoker

torch = pytest.importorskip("torch")
KINDS = [(0, None), (2, "fork")]


def batches(data, workers, kind, **options):
    with stoker.Loader(data, batch_size=4, num_workers=workers, worker_type=kind, **options) as loader:
        return list(loader)


@pytest.mark.parametrize(("workers", "kind"), KINDS)
def test_tensordict(workers, kind):
    tensordict = pytest.importorskip("tensordict")

    class Dicts:
        def __len__(self):
            return 8

        def __getitem__(self, i):
            return tensordict.TensorDict({"a": torch.full((3,), float(i)), "b": {"c": torch.tensor(i)}}, batch_size=[])

    made = batches(Dicts(), workers, kind)
    assert [tuple(b.batch_size) for b in made] == [(4,), (4,)]
    assert made[1]["a"][:, 0].tolist() == [4, 5, 6, 7] and made[1]["b", "c"].tolist() == [4, 5, 6, 7]


@pytest.mark.parametrize(("workers", "kind"), KINDS)
def test_tv_tensors(workers, kind):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/recipes"))
    try:
        import tv_oracle
        tv_oracle.load()
    finally:
        sys.path.pop(0)
    from torchvision import tv_tensors

    class Pairs:
        def __len__(self):
            return 8

        def __getitem__(self, i):
            return {"image": tv_tensors.Image(torch.full((3, 4, 5), i, dtype=torch.uint8)),
                    "boxes": tv_tensors.BoundingBoxes(torch.tensor([[0, 0, i, i]]), format="XYXY", canvas_size=(4, 5))}

    made = batches(Pairs(), workers, kind)[1]
    assert made["image"].shape == (4, 3, 4, 5) and made["image"][:, 0, 0, 0].tolist() == [4, 5, 6, 7]
    assert made["boxes"].tolist() == [[[0, 0, i, i]] for i in range(4, 8)]


@pytest.mark.parametrize(("workers", "kind"), KINDS)
def test_hugging_face(workers, kind):
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"x": list(range(10)), "t": [f"t{i}" for i in range(10)]}).with_format("torch")
    made = batches(data, workers, kind)
    assert [b["x"].tolist() for b in made] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] and made[2]["t"] == ["t8", "t9"]
    stream = batches(data.to_iterable_dataset(), workers, kind)
    assert [b["x"].tolist() for b in stream] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
