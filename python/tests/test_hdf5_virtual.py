# SPDX-License-Identifier: Apache-2.0
"""Virtual data sets of HDF5: rows of other files put together as h5py puts them; what is missing or outside is refused."""
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stoker

h5py = pytest.importorskip("h5py")
SEED = 12
CLI = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))
KINDS = [{}, {"libver": ("v110", "v110")}, {"libver": "latest"}]


def rows(path, name="x"):
    with stoker.Loader(str(path), {name: f"from({name})"}, batch_size=16, num_workers=0) as loader:
        return np.concatenate([np.asarray(batch[name]) for batch in loader])


def write(folder, n=3, *, kind=None, dtype="i4", shape=(10, 4), **packed):
    for k in range(n):
        with h5py.File(folder / f"s{k}.h5", "w", **kind or {}) as f:
            f.create_dataset("g/x", data=np.arange(np.prod(shape)).reshape(shape).astype(dtype) + 100 * k, **packed)


def concatenated(path, files, *, kind=None, dtype="i4", shape=(10, 4), source="g/x"):
    layout = h5py.VirtualLayout((len(files) * shape[0], *shape[1:]), dtype)
    for k, name in enumerate(files):
        layout[k * shape[0]:(k + 1) * shape[0]] = h5py.VirtualSource(name, source, shape=shape)
    with h5py.File(path, "w", **kind or {}) as f:
        f.create_virtual_dataset("x", layout, fillvalue=-1)
        f["y"] = np.arange(len(files) * shape[0])


@pytest.mark.asan
@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("workers", [0, 2])
def test_concatenated(tmp_path, kind, workers):
    (tmp_path / "sub").mkdir()
    write(tmp_path, kind=kind, chunks=(3, 4), compression="gzip")
    (tmp_path / "s1.h5").rename(tmp_path / "sub" / "s1.h5")
    concatenated(tmp_path / "v.h5", ["s0.h5", "sub/s1.h5", str(tmp_path / "s2.h5")], kind=kind)
    with h5py.File(tmp_path / "v.h5") as f:
        want = f["x"][:]
    assert want[-1, -1] == 239
    with stoker.Loader(str(tmp_path / "v.h5"), {"x": "from(x) | to(f32)", "y": "int"}, batch_size=7, shuffle=True, num_workers=workers) as loader:
        for batch in loader:
            np.testing.assert_array_equal(np.asarray(batch["x"]), want[np.asarray(batch["y"])])


@st.composite
def layouts(draw):
    """Parts of sources as parts of a virtual data set, of other ranks too."""
    wide = draw(st.integers(1, 6))
    shape = draw(st.sampled_from([(), (wide,), (wide, 3)]))
    n = draw(st.integers(1, 3))
    return {"shape": shape, "n": n, "way": draw(st.sampled_from(["rows", "every", "stack", "last", "half"])),
            "dtype": draw(st.sampled_from(["u1", "<i4", ">i4", "<f8", "S3", "?"])), "step": draw(st.integers(1, 3)),
            "chunks": draw(st.booleans()), "compression": draw(st.sampled_from([None, "gzip"])), "same": draw(st.booleans()), "long": draw(st.booleans()),
            "swap": draw(st.booleans()), "kind": draw(st.sampled_from(KINDS))}


def part(layout, source, way, k, n, step):
    if way == "rows":
        layout[10 * k:10 * k + 10] = source
    elif way == "every":
        layout[k::n] = source
    elif way == "stack":
        layout[k] = source
    elif way == "last":
        layout[..., k] = source
    else:
        taken = len(range(0, 10, step))
        layout[10 * k:10 * k + taken] = source[::step]


@given(how=layouts())
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_any_layout(tmp_path_factory, how):
    folder, n, way = tmp_path_factory.getbasetemp() / "virtual", how["n"], how["way"]
    folder.mkdir(exist_ok=True)
    inner = (10, *how["shape"])
    total = {"stack": (n, *inner), "last": (*inner, n)}.get(way, (10 * n, *inner[1:]))
    if how["dtype"][0] == "S" and len(total) > 1:
        how["dtype"] = "<i2"
    dtype = np.dtype(how["dtype"])
    stored = dtype.newbyteorder("S") if how["swap"] else dtype
    layout = h5py.VirtualLayout(total, dtype)
    with h5py.File(folder / "v.h5", "w", **how["kind"]) as f:
        for k in range(n):
            own = how["same"] and k == 0
            name = "source_of_a_long_name_that_is_not_repeated.h5" if how["long"] else f"s{k}.h5"
            data_set = f"src{k}" if how["long"] else "src"
            with h5py.File(folder / name, "a" if how["long"] and k > own else "w", **how["kind"]) as g:
                more = {"chunks": tuple(1 + d // 2 for d in inner), "compression": how["compression"]} if how["chunks"] else {}
                data = (np.arange(np.prod(inner)).reshape(inner) * 7 + k) % 120
                (f if own else g).create_dataset(data_set, data=data.astype(stored), **more)
            part(layout, h5py.VirtualSource("." if own else name, data_set, shape=inner, dtype=dtype), way, k, n, how["step"])
        f.create_virtual_dataset("x", layout, fillvalue=None if dtype.kind in "S" else 1)
        f.create_group("g")["x"] = h5py.SoftLink("/x")
    with h5py.File(folder / "v.h5") as f:
        want = f["x"][:]
    got = [s["x"] for s in stoker.open(f"{folder / 'v.h5'}#/g")]
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        if isinstance(a, bytes):
            assert a == b
        else:
            np.testing.assert_array_equal(np.asarray(a).ravel(), np.asarray(b).ravel())


def test_overlap(tmp_path):
    """The later part counts.  (Where parts overlap and others are missing, libhdf5 leaves out the fill value.)"""
    write(tmp_path)
    layout = h5py.VirtualLayout((20, 4), "i4")
    for k in (2, 0, 1):
        layout[5 * k:5 * k + 10] = h5py.VirtualSource(f"s{k}.h5", "g/x", shape=(10, 4))
    with h5py.File(tmp_path / "v.h5", "w") as f:
        f.create_virtual_dataset("x", layout)
    with h5py.File(tmp_path / "v.h5") as f:
        np.testing.assert_array_equal(rows(tmp_path / "v.h5"), f["x"][:])


def test_refused(tmp_path, monkeypatch):
    """Each with its reason, which names the file; a file beside it is read all the same."""
    (tmp_path / "data").mkdir()
    (tmp_path / "else").mkdir()
    write(tmp_path / "data")
    write(tmp_path / "else")

    def reason(files, **how):
        concatenated(tmp_path / "data" / "v.h5", files, **how)
        ds = stoker.open(str(tmp_path / "data" / "v.h5"))
        assert "x" not in ds[0] and ds[3]["y"] == 3
        with pytest.raises(stoker.StokerError) as caught:
            rows(tmp_path / "data" / "v.h5")
        return str(caught.value)

    assert "nowhere.h5" in reason(["s0.h5", "nowhere.h5"])
    assert "s0.h5" in reason(["s0.h5"], source="g/y") and "is not there" in reason(["s0.h5"], source="g/y")
    assert "another type" in reason(["s0.h5"], dtype="f8")
    assert "other dimensions" in reason(["s0.h5"], shape=(20, 4))
    assert "virtual itself" in reason(["."], source="x")
    for outside in ("../else/s0.h5", str(tmp_path / "else" / "s0.h5"), "a/../../else/s0.h5"):
        assert "outside the folder" in reason(["s0.h5", outside])
    concatenated(tmp_path / "data" / "v.h5", ["s1.h5", "../else/s0.h5"])
    monkeypatch.setenv("STOKER_HDF5_OUTSIDE", "1")
    assert rows(tmp_path / "data" / "v.h5")[[0, 10], 0].tolist() == [100, 0]


def test_no_end(tmp_path):
    """Parts that grow, and names with numbers."""
    write(tmp_path)
    layout = h5py.VirtualLayout((20, 4), "i4", maxshape=(None, 4))
    source = h5py.VirtualSource("s%b.h5", "g/x", shape=(10, 4))
    space = h5py.h5s.create_simple((20, 4), (h5py.h5s.UNLIMITED, 4))
    space.select_hyperslab((0, 0), (h5py.h5s.UNLIMITED, 1), (10, 4), (10, 4))
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    p.set_virtual(space, b"s%b.h5", b"g/x", source.sel.id)
    with h5py.File(tmp_path / "v.h5", "w", libver="latest") as f:
        h5py.h5d.create(f.id, b"x", h5py.h5t.NATIVE_INT32, h5py.h5s.create_simple(layout.shape, (h5py.h5s.UNLIMITED, 4)), p)
        f["y"] = np.arange(20)
    with pytest.raises(stoker.StokerError, match="grow without limit"):
        rows(tmp_path / "v.h5")


def test_source_changed(tmp_path):
    write(tmp_path)
    concatenated(tmp_path / "v.h5", ["s0.h5", "s1.h5"])
    ds = stoker.open(str(tmp_path / "v.h5"))
    before = ds.fingerprint() if callable(getattr(ds, "fingerprint", None)) else None
    (tmp_path / "s1.h5").write_bytes((tmp_path / "s1.h5").read_bytes() + b"more")
    with pytest.raises(stoker.StokerError, match="another one than when"):
        ds[15]
    if before is not None:
        assert stoker.open(str(tmp_path / "v.h5")).fingerprint() != before


@pytest.mark.asan
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_changed_bytes(tmp_path, kind):
    """Any byte may be any other: values or errors, no crash.  Checksums of the list are put right again."""
    write(tmp_path)
    layout = h5py.VirtualLayout((30, 2), "i4")
    for k in range(3):
        layout[k::3] = h5py.VirtualSource(f"s{k}.h5", "g/x", shape=(10, 4))[:, 1:4:2]
    with h5py.File(tmp_path / "v.h5", "w", **kind) as f:
        f.create_virtual_dataset("x", layout, fillvalue=-1)
    good, rng, read = (tmp_path / "v.h5").read_bytes(), random.Random(SEED), 0
    at = good.index(b"GCOL") + 32
    size = int.from_bytes(good[at - 8:at], "little")
    print("seed", SEED)
    for _ in range(300):
        bytes_ = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            bytes_[at + rng.randrange(size - 4)] = rng.choice((0, 1, 2, 255, rng.randrange(256)))
        bytes_[at + size - 4:at + size] = lookup3(bytes_[at:at + size - 4]).to_bytes(4, "little")
        (tmp_path / "v.h5").write_bytes(bytes_)
        try:
            ds = stoker.open(str(tmp_path / "v.h5"))
            read += len([ds[i] for i in range(min(len(ds), 40))]) > 0
        except stoker.StokerError:
            pass
    assert read


def lookup3(data):
    """Bob Jenkins' checksum, as HDF5 has it."""
    def rot(x, k):
        return (x << k | x >> 32 - k) & 0xFFFFFFFF

    a = b = c = 0xDEADBEEF + len(data) & 0xFFFFFFFF
    words = [int.from_bytes(data[i:i + 4], "little") for i in range(0, len(data), 4)]
    words += [0] * (-len(words) % 3)
    last = (len(data) - 1) // 12
    for i in range(last):
        a, b, c = ((x + y) & 0xFFFFFFFF for x, y in zip((a, b, c), words[3 * i:3 * i + 3], strict=True))
        a = (a - c ^ rot(c, 4)) & 0xFFFFFFFF; c = c + b & 0xFFFFFFFF       # noqa: E702
        b = (b - a ^ rot(a, 6)) & 0xFFFFFFFF; a = a + c & 0xFFFFFFFF       # noqa: E702
        c = (c - b ^ rot(b, 8)) & 0xFFFFFFFF; b = b + a & 0xFFFFFFFF       # noqa: E702
        a = (a - c ^ rot(c, 16)) & 0xFFFFFFFF; c = c + b & 0xFFFFFFFF      # noqa: E702
        b = (b - a ^ rot(a, 19)) & 0xFFFFFFFF; a = a + c & 0xFFFFFFFF      # noqa: E702
        c = (c - b ^ rot(b, 4)) & 0xFFFFFFFF; b = b + a & 0xFFFFFFFF       # noqa: E702
    a, b, c = ((x + y) & 0xFFFFFFFF for x, y in zip((a, b, c), words[3 * last:], strict=True))
    for (x, y, z), k in zip(("cba"[0] + "bb", "acc", "baa", "cbb", "acc", "baa", "cbb"), (14, 11, 25, 16, 4, 14, 24), strict=True):
        values = {"a": a, "b": b, "c": c}
        values[x] = (values[x] ^ values[y]) - rot(values[z], k) & 0xFFFFFFFF
        a, b, c = values["a"], values["b"], values["c"]
    return c


@pytest.mark.parametrize("shape,source", [((10**12,), (100,)), ((10**9, 3), (100, 3)), ((4, 10**9), (4, 100)), ((100,), (100, 10**8))])
def test_claims_are_held_against_what_is_mapped(tmp_path, shape, source):
    """A small file may say any number of rows, which nothing has: check and bench went through all of them."""
    with h5py.File(tmp_path / "part.h5", "w") as f:
        if len(source) > 1 and source[1] > 1000:        # a chunk of which nothing was written but one value
            f.create_dataset("x", source, "u1", chunks=(100, 10**5), compression="gzip")[0, 0] = 1
            layout = h5py.VirtualLayout(shape, "u1")
            layout[:] = h5py.VirtualSource(str(tmp_path / "part.h5"), "x", source)[:, 0]
        else:
            f["x"] = np.arange(np.prod(source)).reshape(source).astype("i4")
            layout = h5py.VirtualLayout(shape, "i4")
            layout[tuple(slice(0, n) for n in source)] = h5py.VirtualSource(str(tmp_path / "part.h5"), "x", source)
    with h5py.File(tmp_path / "t.h5", "w", libver="latest") as f:
        f.create_virtual_dataset("x", layout, fillvalue=7)
        if shape == (100,):
            f["y"] = np.arange(100)
    if shape == (100,):         # its source alone is too large: the data set is left out, with the reason
        ds = stoker.open(str(tmp_path / "t.h5"))
        assert ds[3]["y"] == 3 and "x" not in ds[3]
        said = subprocess.run([CLI, "ls", "--schema", tmp_path / "t.h5"], capture_output=True, text=True, check=True).stdout
        assert "x  bytes  not read: its part in " in said and "claims chunks of 100 rows" in said
        return
    with pytest.raises(stoker.StokerError, match="the data set x claims .* and it and the files that it names have"):
        stoker.open(str(tmp_path / "t.h5"))
    for command in ("check", "bench"):
        done = subprocess.run([CLI, command, tmp_path / "t.h5"], capture_output=True, text=True, timeout=100)
        assert done.returncode != 0 and "the data set x claims" in done.stderr
