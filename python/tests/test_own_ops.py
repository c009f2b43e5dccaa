# SPDX-License-Identifier: Apache-2.0
"""load_op and op: ops in C and compiled functions, in chains by name."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import as_numpy, epoch_of

import stoker

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = next((p for p in (ROOT / "include",) if (p / "stoker/own_op.h").exists()), None)
BUILD = Path(os.environ.get("STOKER_BUILD", ROOT / "build"))
PIXELS = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_uint8), ctypes.c_ssize_t, ctypes.c_ssize_t,
                          ctypes.POINTER(ctypes.c_double), ctypes.c_uint64)
CLI = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))
NUMBERS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.POINTER(ctypes.c_double))


def compiled(folder, source, name="my_op.so", *flags):
    cc = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if cc is None or INCLUDE is None:
        pytest.skip("there is no C compiler")
    done = subprocess.run([cc, "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", str(INCLUDE), *flags, str(source), "-o",
                           str(folder / name)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return folder / name


@pytest.fixture(scope="module")
def my_op(tmp_path_factory):
    path = compiled(tmp_path_factory.mktemp("op"), ROOT / "examples/my_op.c")
    assert stoker.load_op(path) == ["vignette", "clamp"]
    return path


def first(urls, chain, name="x", **options):
    with stoker.Loader(urls, {name: chain}, **{"batch_size": 20, "num_workers": 2, **options}) as loader:
        return as_numpy(next(iter(loader))[name]).copy()


def test_pixels_in_c(urls, my_op):
    plain = first(urls, "from(jpg) | image | resize((20, 24)) | to(u8, hwc)").astype(np.float32)
    made = first(urls, "from(jpg) | image | resize((20, 24)) | vignette(0.5) | to(u8, hwc)")
    y, x = np.mgrid[:20, :24].astype(np.float32)
    keep = 1 - np.float32(0.5) * (((2 * x + 1 - 24) / 24) ** 2 + ((2 * y + 1 - 20) / 20) ** 2) / 2
    assert np.abs(made - plain * keep[None, :, :, None]).max() <= 0.51 and (made != plain).any()
    built = stoker.from_("jpg").image().resize((20, 24)).vignette(strength=0.5).to("u8", "hwc")
    assert np.array_equal(first(urls, built, num_workers=0), made)
    with pytest.raises(ValueError, match="not in 0..1"):
        stoker.from_("jpg").image().vignette(2)
    with pytest.raises(ValueError, match="strength"):
        stoker.from_("jpg").image().vignette(strenth=0.5)


def test_it_draws_by_address(urls, my_op):
    chain = "from(jpg) | image | resize((20, 24)) | vignette(1, p=0.5) | hflip | to(u8)"
    with stoker.Loader(urls, {"x": chain}, batch_size=16, shuffle=True, seed=3, num_workers=2) as a, \
            stoker.Loader(urls, {"x": chain}, batch_size=16, shuffle=True, seed=3, num_workers=0) as b:
        for (ids, x), (ids2, y) in zip(epoch_of(a), epoch_of(b), strict=True):
            assert (ids == ids2).all() and np.array_equal(x["x"], y["x"])
    some = (first(urls, chain) != first(urls, chain.replace("p=0.5", "p=0"))).any((1, 2, 3))
    assert some.any() and not some.all()


def test_numbers_in_c(urls, my_op):
    made = first(urls, "from(json) | json(n) | floats(shape=1) | clamp(3, 7.5)")
    assert made[:, 0].tolist() == [min(max(float(i), 3), 7.5) for i in range(20)]


def test_in_a_transform_and_open(urls, my_op):
    pictures = np.full((2, 8, 8, 3), 200, np.uint8)
    assert (as_numpy(stoker.Transform("vignette(1) | to(u8, hwc)")(pictures))[:, 0, 0] < 100).all()
    ds = stoker.open(urls, fields={"x": "from(jpg) | image | vignette(1) | to(u8)"})
    assert as_numpy(ds[0]["x"]).dtype == np.uint8


def test_pack_knows_them(urls, my_op, tmp_path):
    stoker.pack(urls, tmp_path / "out", fields={"jpg": "image | resize((20, 24)) | vignette(0.5) | encode(png)"}, samples=50)
    made = first(str(tmp_path / "out" / "*.tar"), "from(jpg) | image | center_crop((20, 24)) | to(u8, hwc)")
    assert np.array_equal(made, first(urls, "from(jpg) | image | resize((20, 24)) | vignette(0.5) | to(u8, hwc)"))


def test_on_the_command_line(urls, my_op, tmp_path):
    def run(*args, op=True):
        return subprocess.run([CLI, *args, *(["--op", my_op.name] if op else [])], cwd=my_op.parent, capture_output=True, text=True,
                              timeout=180)

    chain = "image | resize((20, 24)) | vignette(0.5) | encode(png)"
    done = run("pack", urls, str(tmp_path / "out"), "--field", f"jpg={chain}")
    assert done.returncode == 0, done.stderr
    made = first(str(tmp_path / "out" / "*.tar"), "from(jpg) | image | center_crop((20, 24)) | to(u8, hwc)")
    assert np.array_equal(made, first(urls, "from(jpg) | image | resize((20, 24)) | vignette(0.5) | to(u8, hwc)"))
    assert "vignette" in run("ops", "vignette").stdout
    without = run("pack", urls, str(tmp_path / "none"), "--field", f"jpg={chain}", op=False)
    assert without.returncode == 2 and "no step is called `vignette`" in without.stderr
    lost = subprocess.run([CLI, "ops", "--op", "nowhere.so"], capture_output=True, text=True, timeout=180)
    assert lost.returncode != 0 and "nowhere.so" in lost.stderr


def test_objects_that_are_none(tmp_path, my_op):
    with pytest.raises(FileNotFoundError, match="nowhere.so"):
        stoker.load_op(tmp_path / "nowhere.so")
    (tmp_path / "text.so").write_text("hello")
    with pytest.raises(stoker.StokerError, match="text.so"):
        stoker.load_op(tmp_path / "text.so")
    (tmp_path / "none.c").write_text("int x;")
    with pytest.raises(ValueError, match="exports no stoker_ops"):
        stoker.load_op(compiled(tmp_path, tmp_path / "none.c", "none.so"))
    old = (ROOT / "examples/my_op.c").read_text().replace(".abi = STK_PLUGIN_ABI", ".abi = 1").replace("vignette", "older")
    (tmp_path / "old.c").write_text(old)
    with pytest.raises(ValueError, match="built for ABI 1"):
        stoker.load_op(compiled(tmp_path, tmp_path / "old.c", "old.so"))
    with pytest.raises(ValueError, match="vignette is there already"):
        stoker.load_op(shutil.copy(my_op, tmp_path / "again.so"))
    assert stoker.load_op(my_op) == ["vignette", "clamp"]       # twice is once
    with pytest.raises(ValueError, match="path"):
        stoker.load_op(7)


# ---- compiled functions: ctypes has the address that Numba has --------------------------------------

@PIXELS
def add(pixels, height, width, args, seed):
    for i in range(height * width):
        for c in range(3):
            pixels[4 * i + c] = (pixels[4 * i + c] + int(args[0])) % 256


@NUMBERS
def double(numbers, n, args):
    values = (ctypes.c_float * n).from_address(numbers)
    for i in range(n):
        values[i] = values[i] * args[0]


def test_an_op_of_pixels(urls):
    assert stoker.op(add, name="own_add", args={"by": 1}) == "own_add"
    plain = first(urls, "from(jpg) | image | resize((8, 6)) | to(u8, hwc)")
    made = first(urls, "from(jpg) | image | resize((8, 6)) | own_add(by=7) | to(u8, hwc)")
    assert np.array_equal(made, plain + np.uint8(7))
    assert np.array_equal(first(urls, stoker.from_("jpg").image().resize((8, 6)).own_add().to("u8", "hwc")), plain + np.uint8(1))
    for bad, says in [("from(jpg) | image | to(f32) | own_add", "pixels"), ("from(txt) | text | own_add", "pixels"),
                      ("from(jpg) | image | own_add(x=1)", "no argument is called `x`")]:
        with pytest.raises(ValueError, match=says):
            stoker.Loader(urls, {"x": bad}, batch_size=1)


def test_an_op_of_numbers(urls):
    stoker.op(double, name="own_times", args={"factor": 2}, dtype="float32")
    made = first(urls, "from(json) | json(n) | floats(shape=1) | own_times(3)")
    assert made[:, 0].tolist() == [3.0 * i for i in range(20)]
    with pytest.raises(ValueError, match="f32"):
        stoker.Loader(urls, {"x": "from(cls) | int | own_times"}, batch_size=1)


def test_loaders_keep_theirs_and_states_know_the_version(urls):
    def more(pixels, height, width, args, seed):
        for i in range(height * width):
            for c in range(3):
                pixels[4 * i + c] = 9

    chain = {"x": "from(jpg) | image | resize((4, 4)) | own_fill | to(u8)"}
    with pytest.raises(ValueError, match="own_fill"):
        stoker.Loader(urls, chain, batch_size=4)
    stoker.op(add, name="own_fill", args={"by": 0})
    with stoker.Loader(urls, chain, batch_size=4, num_workers=1) as old:
        before = old.state_dict()
        replaced = PIXELS(more)
        stoker.op(replaced, name="own_fill", args={"by": 0}, version=2)
        with stoker.Loader(urls, chain, batch_size=4, num_workers=1) as new:
            assert new.state_dict()["chains"] != before["chains"]
            with pytest.raises(ValueError, match="chain"):
                new.load_state_dict(before)
            assert (as_numpy(next(iter(new))["x"]) == 9).all()
        assert not (as_numpy(next(iter(old))["x"]) == 9).all()


def test_what_op_refuses():
    for given, says in [((lambda: 0,), "compiled"), ((add, "resize"), "name"), ((add, "two words"), "name"),
                        ((0, "zero"), "not the address"), ((5, "five"), "not the address"), ((-1, "minus"), "not the address")]:
        with pytest.raises(ValueError, match=says):
            stoker.op(*given)
    for given, says in [({"dtype": "q"}, "dtype"), ({"args": {"a": "b"}}, "args"), ({"version": -1}, "version"),
                        ({"args": {f"a{i}": i for i in range(9)}}, "at most 8")]:
        with pytest.raises(ValueError, match=says):
            stoker.op(add, "own_bad", **given)
    assert "own_bad" not in stoker.own_ops.names()


def test_numba(urls):
    numba = pytest.importorskip("numba", reason="numba is not installed for this Python")

    @numba.cfunc("void(CPointer(uint8), intp, intp, CPointer(float64), uint64)")
    def curve(pixels, height, width, args, seed):
        image = numba.carray(pixels, (height, width, 4))
        for y in range(height):
            for x in range(width):
                for c in range(3):
                    image[y, x, c] = 255 - image[y, x, c]

    stoker.op(curve, name="my_curve")
    plain = first(urls, "from(jpg) | image | resize((8, 6)) | to(u8)")
    assert np.array_equal(first(urls, "from(jpg) | image | resize((8, 6)) | my_curve | to(u8)"), 255 - plain)
