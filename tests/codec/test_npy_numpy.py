# SPDX-License-Identifier: Apache-2.0
"""npy against numpy.load(), through the loader: every type, order, version and shape, stacked, listed and one by one."""

import io

import numpy as np
import pytest

import shards

SEED = 20250307
TYPES = ["|b1", "|u1", "|i1", "<u2", "<i2", "<i4", "<i8", "<f2", "<f4", "<f8"]


def save(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version)
    return out.getvalue()


def arrays():
    rng = np.random.default_rng(SEED)
    for type in TYPES + [t.replace("<", ">") for t in TYPES if t[0] == "<"]:
        for shape in [(), (1,), (7,), (0, 3), (2, 3), (3, 1, 4), (2, 1, 3, 1, 2, 1, 2)]:
            a = (rng.random(shape) * 200 - 50 * (type[1] in "if")).astype(type)
            yield a
            yield np.asfortranarray(a)


def same(got, want):
    got = np.asarray(got)
    want = want.astype(want.dtype.newbyteorder("="))
    if want.dtype == bool:
        want = want.view(np.uint8)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_same_arrays(tmp_path, version):
    want = list(arrays())
    path = shards.write(tmp_path / "a.tar", [{"npy": save(a, version)} for a in want])
    for got, a in zip(shards.rows(path, "from(npy) | npy"), want, strict=True):
        same(got, a)
    for got, a in zip(shards.rows(path, "from(npy) | npy", batch_size=1, collate="stack"), want, strict=True):
        same(got, a)


def test_stacked(tmp_path):
    want = np.random.default_rng(SEED).random((10, 3, 4), dtype=np.float32)
    path = shards.write(tmp_path / "a.tar", [{"npy": save(a)} for a in want])
    got = shards.rows(path, "from(npy) | npy(shape=(3, 4), dtype=f32)", collate="stack", batch_size=5)
    np.testing.assert_array_equal(np.stack(got), want)


def test_another_shape_is_a_bad_sample(tmp_path):
    import stoker

    files = [save(np.zeros((3, 4), np.float32)), save(np.zeros((3, 5), np.float32)), save(np.zeros((3, 4)))]
    path = shards.write(tmp_path / "a.tar", [{"npy": f} for f in files])
    with pytest.raises(stoker.StokerError, match=r"shape \(3, 5\), the chain says \(3, 4\).*000001"):
        shards.rows(path, "from(npy) | npy(shape=(3, 4), dtype=f32)", collate="stack")
    with pytest.raises(stoker.StokerError, match="differ in shape.*collate"):
        shards.rows(path, "from(npy) | npy", collate="stack")


def test_objects_are_never_unpickled(tmp_path):
    import stoker

    out = io.BytesIO()
    np.save(out, np.array([{}, print], dtype=object), allow_pickle=True)
    path = shards.write(tmp_path / "a.tar", [{"npy": out.getvalue()}])
    with pytest.raises(stoker.StokerError, match="pickle"):
        shards.rows(path, "from(npy) | npy")
