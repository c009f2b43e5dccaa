# SPDX-License-Identifier: Apache-2.0
"""Numbers of a sample: shapes, types, classes as rows of weights."""

import json

import numpy as np
import pytest
from conftest import as_numpy, write_tar

import stoker

pytestmark = pytest.mark.asan


def rows(tmp_path, texts, chain, field="txt", **options):
    path = write_tar(tmp_path / f"{len(list(tmp_path.iterdir()))}.tar", [(f"{i:03d}.{field}", t.encode() if isinstance(t, str) else t) for i, t in enumerate(texts)])
    with stoker.Loader(path, {"x": f"from({field}) | {chain}"}, batch_size=len(texts), **options) as loader:
        return next(iter(loader))["x"]


def test_shapes(tmp_path):
    x = rows(tmp_path, ["1 2 3 4", "[5, 6, 7, 8]", "[[9, 10], [11, 12]]", " [ [1,2] , [ 3 , 4 ] ] "], "ints(shape=(2, 2))")
    assert as_numpy(x).dtype == np.int64 and as_numpy(x).tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 10], [11, 12]], [[1, 2], [3, 4]]]
    x = rows(tmp_path, ["[[1, 2, 3, 4.5], [5, 6, 7, 8]]", "[]", "1,2,3,4"], "floats(shape=(-1, 4))", collate="list")
    assert [as_numpy(r).shape for r in x] == [(2, 4), (0, 4), (1, 4)] and as_numpy(x[0])[0, 3] == 4.5
    x = rows(tmp_path, ["1 2 3 4 5 6", "1 2"], "ints(shape=(2, -1))", collate="list")
    assert [as_numpy(r).tolist() for r in x] == [[[1, 2, 3], [4, 5, 6]], [[1], [2]]]
    x = rows(tmp_path, ['{"b": [[1, 2], [3, 4]]}', '{"b": [[5, 6]]}'], "json(b) | ints(shape=(-1, 2))", "json", collate="pad")
    assert as_numpy(x).tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]
    assert as_numpy(rows(tmp_path, ["7 8", "9 1"], "ints(shape=2)")).tolist() == [[7, 8], [9, 1]]


@pytest.mark.parametrize("text, chain, says", [
    ("1 2 3", "ints(shape=(2, 2))", "3 numbers where shape says 4"), ("1 2 3 4 5", "floats(shape=(-1, 4))", "5 numbers don't fill rows of 4"),
    ("[[1, 2], [3, 4, 5, 6]]", "ints(shape=(-1, 2))", "a list of 4 numbers where shape says 2"), ("[[1, 2], []]", "ints(shape=(-1, 2))", "a list of 0 numbers"), ("[[1, 2]", "ints(shape=(-1, 2))", "is not a list"),
    ("[[1, 2]], 3, 4", "ints(shape=(-1, 2))", "list"), ("[[1, 2]]]", "ints(shape=(-1, 2))", "is not a list"), ("[[1, x]]", "ints(shape=(-1, 2))", "number 1 of the list"),
    ("[1,,2]", "ints(shape=(-1,))", "number 1 of the list"), ("[[1, 2]]", "ints", "list"), ("]1[", "ints(shape=(-1,))", "list"),
])
def test_lists_that_do_not_fit(tmp_path, text, chain, says):
    with pytest.raises(stoker.StokerError, match=says) as e:
        rows(tmp_path, [text], chain)
    assert e.value.code == "ECORRUPT" and e.value.key == "000"


@pytest.mark.parametrize("chain, says", [
    ("ints(shape=(-1, -1))", "one of them may be -1"), ("ints(shape=(0, 2))", "at least 1"), ("floats(shape=(-2, 2))", "not -2"),
    ("ints(shape=(1, 1, 1, 1, 1, 1, 1, 1))", "at most 7"), ("floats(shape=(70000, 70000))", "shape"), ("int | one_hot(0)", "classes=0 is not in"),
    ("int | one_hot", "classes"), ("int | one_hot(10, smoothing=1)", "smoothing=1 is not in"), ("float | one_hot(10)", "put `int` before it"), ("int | to(hwc)", "a layout"),
    ("ints | one_hot(10)", "put `int` before it"), ("int | multi_hot(10)", "put `ints` right before it"), ("int | to(f16) | to(f32)", "comes twice"),
    ("float | to(i64)", "f32 numbers don't become i64"), ("int | to", "take a type"), ("text | to(f32)", "image"), ("ints | to(i32) | pack(8)", "put to()"),
])
def test_chains_that_make_no_sense(tmp_path, chain, says):
    with pytest.raises(stoker.StokerError, match=says):
        rows(tmp_path, ["1"], chain, collate="list")


def test_types(tmp_path):
    for name, kind in (("i32", np.int32), ("u8", np.uint8), ("f64", np.float64), ("f16", np.float16), ("int16", np.int16)):
        x = as_numpy(rows(tmp_path, ["1", "250"] if name != "u8" else ["0", "255"], f"int | to({name})"))
        assert x.dtype == kind and x.shape == (2,)
    assert as_numpy(rows(tmp_path, ["1.5", "2"], "float | to(f64)")).tolist() == [1.5, 2.0]
    x = rows(tmp_path, ["1 2 3", "4"], "ints | to(f32)", collate=("pad", -1))
    assert as_numpy(x).tolist() == [[1, 2, 3], [4, -1, -1]] and as_numpy(x).dtype == np.float32
    x = rows(tmp_path, ["1 2 3", "4"], "ints | truncate(2, keep=last) | to(i32)", collate="list")
    assert [as_numpy(r).tolist() for r in x] == [[2, 3], [4]]
    with pytest.raises(stoker.StokerError, match="a number does not fit u8") as e:
        rows(tmp_path, ["1", "256"], "int | to(u8)")
    assert e.value.key == "001" and e.value.code == "ECORRUPT"


def test_types_of_npy(tmp_path):
    import io
    raws = []
    for dtype in ("<i4", "<f8"):
        f = io.BytesIO()
        np.save(f, np.arange(6, dtype=dtype).reshape(2, 3))
        raws.append(f.getvalue())
    x = as_numpy(rows(tmp_path, raws, "npy | to(f32)", "npy", collate="pad"))
    assert x.dtype == np.float32 and (x == np.arange(6).reshape(2, 3)).all() and x.shape == (2, 2, 3)


def test_one_hot(tmp_path):
    x = as_numpy(rows(tmp_path, ["0", "3", "2"], "int | one_hot(4)"))
    assert x.dtype == np.float32 and (x == np.eye(4)[[0, 3, 2]]).all()
    x = as_numpy(rows(tmp_path, ["1", "0"], "int | one_hot(5, smoothing=0.1)"))
    want = np.full((2, 5), 0.1 / 5, np.float32)
    want[0, 1] = want[1, 0] = np.float32(0.9 + 0.1 / 5)
    assert (x == want).all()
    assert as_numpy(rows(tmp_path, ["1", "0"], "int | one_hot(3) | to(f16)")).dtype == np.float16
    for bad in ("4", "-1"):
        with pytest.raises(stoker.StokerError, match=f"one_hot: the class {bad} is not in 0..3") as e:
            rows(tmp_path, ["0", bad], "int | one_hot(4)")
        assert e.value.code == "ECORRUPT" and e.value.key == "001"
    x = rows(tmp_path, ["0", "9", "2"], "int | one_hot(4)", on_error="skip")
    assert as_numpy(x).sum() == 3


def test_multi_hot(tmp_path):
    texts = [json.dumps({"tags": tags}) for tags in ([0, 2], [], [1, 1])]
    x = as_numpy(rows(tmp_path, texts, "json(tags) | ints | multi_hot(3)", "json"))
    assert x.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    ds = stoker.open(tmp_path / "0.tar", {"y": stoker.from_("json").json("tags").ints().multi_hot(3)})
    assert as_numpy(ds[0]["y"]).tolist() == [1, 0, 1]
