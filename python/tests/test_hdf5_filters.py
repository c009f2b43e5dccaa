# SPDX-License-Identifier: Apache-2.0
"""HDF5's filters: what libhdf5 and its plug-ins pack is unpacked to the same bits; what is damaged is an error."""
import ctypes
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stoker

h5py = pytest.importorskip("h5py")
SEED = 6
GOLDEN = Path(__file__).resolve().parents[2] / "fuzz" / "corpus" / "hdf5" / "plugins"
QUICK = settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def values(path, name="x"):
    """All rows as the loader stacks them."""
    with stoker.Loader(str(path), {name: f"from({name})"}, batch_size=7, num_workers=0) as loader:
        return np.concatenate([np.asarray(batch[name]) for batch in loader])


def same(path, name="x"):
    """Bit for bit what h5py reads."""
    with h5py.File(path) as f:
        want = f[name][:]
    got = values(path, name)
    assert got.dtype == (np.dtype("i8") if want.dtype.str[1:] == "u8" else want.dtype.newbyteorder("="))
    np.testing.assert_array_equal(got.view("u1"), want.astype(got.dtype).view("u1"))


@st.composite
def scaled(draw):
    dtype = np.dtype(draw(st.sampled_from(["u1", "i1", "<i2", ">u2", "<i4", ">i4", "<u4", "<i8", ">i8", "<f4", ">f4", "<f8", ">f8"])))
    whole = dtype.kind in "iu"
    top = 2 ** draw(st.integers(0, 8 * dtype.itemsize - (1 if dtype.kind == "u" else 2))) if whole else 10.0 ** draw(st.integers(-3, 5))
    return {"dtype": dtype, "top": min(top, 2**62), "so": draw(st.sampled_from([0, 0, 3, 11])) if whole else draw(st.integers(0, 4)),
            "fill": draw(st.sampled_from([None, 0, 5])), "chunks": (draw(st.integers(1, 9)), draw(st.integers(1, 3))),
            "compression": draw(st.sampled_from([None, "gzip", "lzf"])), "signed": draw(st.booleans())}


@QUICK
@given(how=scaled())
def test_scale_offset(tmp_path_factory, how):
    """Integers exactly, floats with the error that the writer chose, both with the fill value among them."""
    path, rng, dtype = tmp_path_factory.getbasetemp() / "scaled.h5", np.random.default_rng(SEED), how["dtype"]
    if dtype.kind in "iu":
        low = -how["top"] if dtype.kind == "i" and how["signed"] else 0
        x = rng.integers(low, how["top"], (20, 3), endpoint=dtype.kind == "u" or how["top"] > 1).astype(dtype)
    else:
        x = (rng.standard_normal((20, 3)) * how["top"]).astype(dtype)
    if how["fill"] is not None:
        x[3:5] = how["fill"]
    bits = min(how["so"], 8 * dtype.itemsize) if dtype.kind in "iu" else how["so"]
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=x, chunks=how["chunks"], scaleoffset=bits, fillvalue=how["fill"], compression=how["compression"])
    same(path)


def relaxed(path):
    """A file that may have integers of odd numbers of bits."""
    fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
    found = list((Path(h5py.__file__).parent.parent / "h5py.libs").glob("libhdf5-*"))
    lib = ctypes.CDLL(str(found[0])) if found else None
    if hasattr(lib, "H5Pset_relax_file_integrity_checks"):      # versions before do not ask
        lib.H5Pset_relax_file_integrity_checks.argtypes = [ctypes.c_int64, ctypes.c_uint64]
        lib.H5Pset_relax_file_integrity_checks(fapl.id, 1)
    return h5py.File(h5py.h5f.create(str(path).encode(), h5py.h5f.ACC_TRUNC, fapl=fapl))


def narrow(base, precision, offset):
    t = getattr(h5py.h5t, base).copy()
    t.set_precision(precision)
    t.set_offset(offset)
    return t


def put(f, name, kind, data, *, packed=True, more=()):
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    p.set_chunk((7, *data.shape[1:]))
    if packed:
        p.set_filter(h5py.h5z.FILTER_NBIT, 0, ())
    for filter_ in more:
        p.set_filter(filter_, 0, (4,))
    h5py.Dataset(h5py.h5d.create(f.id, name.encode(), kind, h5py.h5s.create_simple(data.shape), p))[:] = data


@QUICK
@given(size=st.sampled_from([8, 16, 32, 64]), signed=st.booleans(), big=st.booleans(), packed=st.booleans(), gzip=st.booleans(),
       cut=st.integers(0, 63), offset=st.integers(0, 63), seed=st.integers(0, 99))
def test_nbit(tmp_path_factory, size, signed, big, packed, gzip, cut, offset, seed):  # noqa: PLR0913
    """Integers with fewer bits than bytes have, with the filter and without."""
    path, precision = tmp_path_factory.getbasetemp() / "nbit.h5", 1 + cut % size
    offset %= size - precision + 1                      # of single bytes h5py reads the big-endian ones without their sign
    top = 2 ** min(precision - 1, 62)
    x = np.random.default_rng(seed).integers(-top if signed else 0, top, (20, 3))
    with relaxed(path) as f:
        put(f, "x", narrow(f"STD_{'I' if signed else 'U'}{size}{'BE' if big and size > 8 else 'LE'}", precision, offset), x, packed=packed,
            more=(h5py.h5z.FILTER_DEFLATE,) if gzip else ())
    same(path)


def test_nbit_of_other_types(tmp_path):
    """Structs, arrays, floats and texts: some of their bits, or all."""
    path, rng = tmp_path / "a.h5", np.random.default_rng(SEED)
    inner = h5py.h5t.create(h5py.h5t.COMPOUND, 24)
    inner.insert(b"a", 1, narrow("STD_I16LE", 5, 3))
    inner.insert(b"b", 4, h5py.h5t.IEEE_F64BE)
    inner.insert(b"t", 13, h5py.h5t.py_create(np.dtype("S3")))
    inner.insert(b"q", 16, h5py.h5t.array_create(narrow("STD_U16BE", 9, 2), (3,)))
    rows = np.zeros(20, dtype=[("a", "i2"), ("b", "f8"), ("t", "S3"), ("q", "u2", (3,))])
    rows["a"], rows["b"], rows["t"] = rng.integers(-16, 16, 20), rng.standard_normal(20), b"xyz"
    rows["q"] = rng.integers(0, 512, (20, 3))
    with relaxed(path) as f:
        put(f, "r", inner, rows)
        put(f, "f", h5py.h5t.IEEE_F32LE, rng.standard_normal((20, 3)).astype("f4"))
        put(f, "g", h5py.h5t.py_create(np.dtype("?"), logical=True), rng.random(20) < 0.5)
    ds = stoker.open(str(path))
    with h5py.File(path) as f:
        for i, s in enumerate(ds):
            r = f["r"][i]
            assert (s["r.a"], s["r.b"], s["r.t"], s["r.q"].tolist()) == (r["a"], r["b"], r["t"], r["q"].tolist())
            assert s["f"].tolist() == f["f"][i].tolist() and s["g"] == f["g"][i]


def test_szip(tmp_path):
    if not h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
        pytest.skip("h5py without szip")
    rng = np.random.default_rng(SEED)
    for k, (dtype, how) in enumerate((t, (c, b)) for t in ("u1", "<i2", ">i4", "<f4", "<i8", ">f8") for c in ("nn", "ec") for b in (8, 32)):
        path = tmp_path / f"{k}.h5"
        with h5py.File(path, "w") as f:
            f.create_dataset("x", data=rng.integers(0, 50, (20, 100)).astype(dtype), chunks=(7, 60), compression="szip",
                             compression_opts=how, shuffle=k % 2 == 0)
        try:
            same(path)
        except stoker.StokerError as error:
            if "no libaec" in str(error):
                pytest.skip("a build without libaec")
            raise


def plugin_values(dtype):
    return (np.arange(400) % 97 * 3).astype(dtype).reshape(100, 4)


@pytest.mark.asan
def test_plugins_golden(tmp_path):
    """fuzz/corpus/make_hdf5.py wrote it, with hdf5plugin."""
    path = tmp_path / "a.h5"
    path.write_bytes(GOLDEN.read_bytes())
    with h5py.File(path) as f:
        names = {name: f[name].dtype for name in f}
    assert {n.split("_")[0] for n in names} == {"bitshuffle", "blosc", "blosc2", "lz4", "zstd"}
    for name, dtype in names.items():
        if name == "blosc2":
            with pytest.raises(stoker.StokerError, match="Blosc2, which is not supported"):
                values(path, name)
        else:
            np.testing.assert_array_equal(values(path, name), plugin_values(dtype), err_msg=name)


@st.composite
def plugged(draw):
    """A packer of hdf5plugin's with its settings."""
    plugin = pytest.importorskip("hdf5plugin")
    kind = draw(st.sampled_from(["bitshuffle", "blosc", "blosc", "lz4", "zstd"]))
    if kind == "bitshuffle":
        how = plugin.Bitshuffle(nelems=draw(st.sampled_from([0, 8, 64, 1024])), cname=draw(st.sampled_from(["none", "lz4", "zstd"])))
    elif kind == "blosc":
        how = plugin.Blosc(cname=draw(st.sampled_from(["blosclz", "lz4", "lz4hc", "zlib", "zstd"])), clevel=draw(st.integers(0, 9)),
                           shuffle=draw(st.integers(0, 2)))
    else:
        how = plugin.LZ4(nbytes=draw(st.sampled_from([0, 64, 4096]))) if kind == "lz4" else plugin.Zstd(clevel=draw(st.integers(1, 9)))
    return dict(how), draw(st.sampled_from(["u1", "<i2", ">i4", "<f8", "S3", "S11", "S300"])), draw(st.integers(1, 900)), draw(st.integers(1, 40))


@QUICK
@given(how=plugged(), top=st.sampled_from([2, 200, 2**15]), seed=st.integers(0, 99))
def test_plugins(tmp_path_factory, how, top, seed):
    path, (packer, dtype, rows, width) = tmp_path_factory.getbasetemp() / "plugins.h5", how
    rng = np.random.default_rng(seed)
    if dtype[0] == "S":
        x = np.array([bytes(rng.integers(65, 66 + top % 50, int(dtype[1:]), "u1")) for _ in range(rows)])
    else:
        x = rng.integers(0, min(top, 255 if dtype == "u1" else top), (rows, width)).astype(dtype)
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=x, chunks=(min(rows, 256), *x.shape[1:]), **packer)
    if dtype[0] == "S":
        assert [s["x"] for s in stoker.open(str(path))] == x.tolist()
    else:
        same(path)


@pytest.mark.asan
@pytest.mark.parametrize("seed", ["plugins", "packed"])
def test_changed_bytes(tmp_path, seed):
    """Any byte may be any other: values or errors, no crash, no memory but the chunk's."""
    good, bad, rng, refused = (GOLDEN.parent / seed).read_bytes(), tmp_path / "bad.h5", random.Random(SEED), 0
    print("seed", SEED)
    for _ in range(150):
        bytes_ = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            bytes_[rng.randrange(len(good))] = rng.choice((0, 1, 255, rng.randrange(256)))
        bad.write_bytes(bytes_)
        try:
            ds = stoker.open(str(bad))
            for i in range(min(len(ds), 99)):           # a data set may well be said to be long
                assert ds[i]
        except stoker.StokerError:
            refused += 1
    assert refused
