# SPDX-License-Identifier: Apache-2.0
"""TFRecord shards written here byte by byte: checksums, features of tf.train.Example as fields, other records whole."""
import random
import struct

import numpy as np
import pytest
from tfrecords import record

import stoker


def varint(n):
    n &= 2**64 - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(value, packed=True):
    if isinstance(value, bytes):
        value = [value]
    if value and isinstance(value[0], bytes):
        return field(1, b"".join(field(1, v) for v in value))
    if value and isinstance(value[0], float):
        return field(2, field(1, struct.pack(f"<{len(value)}f", *value)) if packed else b"".join(b"\x0d" + struct.pack("<f", v) for v in value))
    return field(3, field(1, b"".join(map(varint, value))) if packed else b"".join(b"\x08" + varint(v) for v in value))


def example(features, packed=True):
    return field(1, b"".join(field(1, field(1, k.encode()) + field(2, feature(v, packed))) for k, v in features.items()))


def write(path, records):
    path.write_bytes(b"".join(map(record, records)))
    return str(path)


@pytest.mark.asan
@pytest.mark.parametrize("packed", [True, False])
def test_features_are_fields(tmp_path, packed):
    rng = random.Random(18)
    rows = [{"image": rng.randbytes(rng.randrange(3000)), "label": [rng.choice([-1, 0, 7, 2**63 - 1, -2**63])],
             "tokens": [rng.randrange(-5, 60000) for _ in range(rng.randrange(1, 40))], "box": [rng.random() * 1e-5, -3.5],
             "frames": [b"a", b"bb", b""]} for _ in range(80)]
    shuffled = [example(dict(rng.sample(list(r.items()), len(r))), packed) for r in rows]
    ds = stoker.open(write(tmp_path / "a.tfrecord", shuffled))
    assert len(ds) == 80
    for i, r in enumerate(rows):
        got = ds[i]
        assert got["__key__"] == str(i) and got["image"] == r["image"] and int(got["label"]) == r["label"][0]
        assert [int(x) for x in got["tokens"].split()] == r["tokens"]
        assert np.array_equal(np.array(got["box"].split(), "f4"), np.array(r["box"], "f4"))
        assert (got["frames.0"], got["frames.1"], got["frames.2"]) == (b"a", b"bb", b"")


def test_loader(tmp_path):
    rows = [example({"label": [i], "x": [i / 4, 2.0]}) for i in range(100)]
    write(tmp_path / "t.tfrecord-00000-of-00002", rows[:50])
    write(tmp_path / "t.tfrecord-00001-of-00002", rows[50:])
    loader = stoker.Loader(str(tmp_path / "t.tfrecord-*"), {"label": "int", "x": "floats"}, batch_size=16, shuffle=True, collate="pad")
    for batch in loader:
        ids = np.asarray(batch.sample_ids)
        assert np.array_equal(batch["label"], ids) and np.array_equal(np.asarray(batch["x"])[:, 0], ids / 4)


def test_other_records(tmp_path):
    ds = stoker.open(write(tmp_path / "a.tfrecord", [b"plain bytes", b"", b"\x0a\x02xx"]))
    assert [ds[i]["record"] for i in range(3)] == [b"plain bytes", b"", b"\x0a\x02xx"]


@pytest.mark.asan
def test_damage(tmp_path):
    good = b"".join(map(record, [example({"a": [1]}), example({"a": [2]})]))
    path = tmp_path / "a.tfrecord"
    for at in range(12, len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
        with pytest.raises(stoker.StokerError, match="TFRecord: the checksum of a record.*offset"):
            stoker.open(str(path))
    for cut in range(13, len(good)):
        if cut == len(good) // 2:
            continue
        path.write_bytes(good[:cut])
        with pytest.raises(stoker.StokerError, match="ends within a record"):
            stoker.open(str(path))


@pytest.mark.asan
def test_columns_taken_together(tmp_path):
    rows = [{"x_a": [i / 4], "x_b": [-i], "image": b"\xff\xd8", "tokens": [1, 2], "x_t": str(i).encode()} | ({"x_c": [i]} if i % 3 else {})
            for i in range(90)]
    path = write(tmp_path / "a.tfrecord", [example(dict(sorted(r.items(), reverse=i % 2))) for i, r in enumerate(rows)])
    want = np.array([[i / 4, -i, i, i if i % 3 else 0] for i in range(90)])
    with stoker.Loader(path, {"x": "columns(x_a, x_b, x_t, x_c, default=0)"}, batch_size=30, shuffle=True) as loader:
        for batch in loader:
            np.testing.assert_array_equal(np.asarray(batch["x"]), want[np.asarray(batch.sample_ids)])
    with stoker.Loader(path, {"x": "columns('*', default=0)"}, batch_size=30) as loader:
        assert next(iter(loader))["x"].shape == (30, 4)         # neither pictures nor lists
    with pytest.raises(stoker.StokerError, match="tokens is not a number"):
        next(iter(stoker.Loader(path, {"x": "columns(tokens)"}, batch_size=30)))
