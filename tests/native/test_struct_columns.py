# SPDX-License-Identifier: Apache-2.0
"""Pictures in a struct of bytes and path, as Hugging Face writes them: their sizes are found by the name of the struct too."""
import io

import numpy as np
import pytest
from PIL import Image

import stoker

datasets = pytest.importorskip("datasets")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(3)
    rows = []
    for k in range(20):
        out = io.BytesIO()
        Image.fromarray(rng.integers(0, 256, (40 + 8 * (k % 5), 64, 3), np.uint8)).save(out, "PNG")
        rows.append({"bytes": out.getvalue(), "path": f"{k}.png"})
    path = tmp_path_factory.mktemp("structs") / "a.parquet"
    datasets.Dataset.from_dict({"image": rows, "label": list(range(20))}).cast_column("image", datasets.Image()).to_parquet(path)
    return str(path)


@pytest.mark.parametrize("field", ["image", "image.bytes"])
def test_patches_within_a_budget(path, field):
    chain = f"from({field}) | image | resize_to_patches(16, max_patches=16) | normalize(imagenet) | patches(16) | to(f32)"
    with stoker.Loader(path, {"x": chain, "y": "from(label) | int"}, max_tokens=64, collate={"x": "pack"}, shuffle=True) as loader:
        batches = [(b["x"].shape[0], b.offsets["x"].tolist(), b["y"].tolist()) for b in loader]
    assert sorted(y for _, _, ys in batches for y in ys) == list(range(20))
    assert all(n == offsets[-1] <= 64 and len(offsets) == len(ys) + 1 for n, offsets, ys in batches)
    assert len(batches) < 8            # 20 pictures of at most 16 patches, 64 a batch
