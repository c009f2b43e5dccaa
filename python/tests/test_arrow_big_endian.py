# SPDX-License-Identifier: Apache-2.0
"""Big-endian Arrow, which pyarrow reads and does not write: little-endian files whose buffers are turned round here give the same values."""
import random

import numpy as np
import pytest
from test_arrow_lists import made_table, write

import stoker

pa = pytest.importorskip("pyarrow")

SEED = 3


def number(buf, at, n):
    return int.from_bytes(buf[at:at + n], "little")


def vtable_of(buf, table, i):
    """Where the vtable says where field i of a flatbuffers table is."""
    v = table - int.from_bytes(buf[table:table + 4], "little", signed=True)
    assert 4 + 2 * i < number(buf, v, 2)
    return v + 4 + 2 * i


def field(buf, table, i):
    return table + number(buf, vtable_of(buf, table, i), 2)


def target(buf, at):
    return at + number(buf, at, 4)


def say_big(buf, schema):
    """Endianness 1: writers leave the default out, and tables share vtables, so it gets one of its own, and a place, at the end."""
    slot = vtable_of(buf, schema, 0)
    assert number(buf, slot, 2) == 0
    vtable = bytearray(buf[slot - 4:slot - 4 + number(buf, slot - 4, 2)])
    at = len(buf)
    vtable[4:6] = (at - schema).to_bytes(2, "little")
    buf += b"\1\0" + vtable
    buf += bytes(-len(buf) % 8)
    buf[schema:schema + 4] = (schema - at - 2).to_bytes(4, "little", signed=True)


def widths(kind, views):
    """Of each buffer: bytes of a number in it, 1: none, "view"."""
    t = pa.types
    if t.is_dictionary(kind):
        return [1, kind.index_type.bit_width // 8]
    if t.is_struct(kind):
        return [1] + [w for i in range(kind.num_fields) for w in widths(kind.field(i).type, views)]
    if t.is_fixed_size_list(kind):
        return [1, *widths(kind.value_type, views)]
    if t.is_map(kind):
        return [1, 4, 1, *widths(kind.key_type, views), *widths(kind.item_type, views)]
    if t.is_list(kind) or t.is_large_list(kind):
        return [1, 8 if t.is_large_list(kind) else 4, *widths(kind.value_type, views)]
    if t.is_string_view(kind) or t.is_binary_view(kind):
        return [1, "view"] + [1] * views.pop(0)
    if t.is_large_string(kind) or t.is_large_binary(kind):
        return [1, 8, 1]
    if t.is_string(kind) or (t.is_binary(kind) and not t.is_fixed_size_binary(kind)):
        return [1, 4, 1]
    if t.is_boolean(kind) or (t.is_fixed_size_binary(kind) and not t.is_decimal(kind)):
        return [1, 1]
    return [] if t.is_null(kind) else [1, kind.bit_width // 8]


def turned(data, width):
    if width == "view":
        a = np.frombuffer(data[:len(data) // 16 * 16], "u1").reshape(-1, 4, 4).copy()
        far = a[:, 0].copy().view("<i4")[:, 0] > 12
        a[:, 0] = a[:, 0, ::-1]
        a[far, 2:] = a[far, 2:, ::-1]
        return a.tobytes() + data[a.size:]
    whole = len(data) // width * width
    return np.frombuffer(data[:whole], "u1").reshape(-1, width)[:, ::-1].tobytes() + data[whole:]


def turn_batch(buf, batch, body, kinds, codec):
    """The body that a record batch has as big-endian; the places of its buffers are set in its metadata."""
    v = batch - int.from_bytes(buf[batch:batch + 4], "little", signed=True)
    views = []
    if number(buf, v, 2) > 4 + 2 * 4 and number(buf, vtable_of(buf, batch, 4), 2):
        variadic = target(buf, field(buf, batch, 4))
        views = [number(buf, variadic + 4 + 8 * i, 8) for i in range(number(buf, variadic, 4))]
    buffers = target(buf, field(buf, batch, 2))
    all_widths = [w for k in kinds for w in widths(k, views)]
    assert number(buf, buffers, 4) == len(all_widths)
    out = bytearray(body) if codec is None else bytearray()
    for i, width in enumerate(all_widths):
        at = buffers + 4 + 16 * i
        here, size = number(buf, at, 8), number(buf, at + 8, 8)
        data = body[here:here + size]
        if codec is None:                       # in their places
            out[here:here + size] = turned(data, width)
            continue
        if data:
            made = int.from_bytes(data[:8], "little", signed=True)
            plain = data[8:] if made < 0 else codec.decompress(data[8:], made, asbytes=True)
            data = len(plain).to_bytes(8, "little") + codec.compress(turned(plain, width), asbytes=True)
        buf[at:at + 16] = len(out).to_bytes(8, "little") + len(data).to_bytes(8, "little")
        out += data + bytes(-len(data) % 64)
    return bytes(out)


def big_message(data, at, table, ids, codec=None):
    """A message and where the next one begins."""
    assert number(data, at, 4) == 0xFFFFFFFF
    size = number(data, at + 4, 4)
    buf = bytearray(data[at + 8:at + 8 + size])
    message = number(buf, 0, 4)
    kind, header = buf[field(buf, message, 1)], target(buf, field(buf, message, 2))
    long = field(buf, message, 3) if kind > 1 else 0
    body = data[at + 8 + size:][:number(buf, long, 8) if long else 0]
    end = at + 8 + size + len(body)
    kinds = [f.type for f in table.schema]
    if kind == 1:
        say_big(buf, header)
    elif kind == 2:
        key = number(buf, field(buf, header, 0), 8) if number(buf, vtable_of(buf, header, 0), 2) else 0
        ids += [key] * (key not in ids)
        kinds = [[k for k in kinds if pa.types.is_dictionary(k)][ids.index(key)].value_type]
        header = target(buf, field(buf, header, 1))
    if kind > 1:
        body = turn_batch(buf, header, body, kinds, codec)
        buf[long:long + 8] = len(body).to_bytes(8, "little")
    return b"\xff\xff\xff\xff" + len(buf).to_bytes(4, "little") + bytes(buf) + body, end


def big_stream(data, table, codec=None):
    """A stream as its bytes would be on a big-endian machine; metadata are little-endian on all."""
    out, at, ids = b"", 0, []
    while number(data, at + 4, 4):
        message, at = big_message(data, at, table, ids, codec)
        out += message
    return out + b"\xff\xff\xff\xff\0\0\0\0"


def big_file(data, table):
    """The same of a file, whose messages stay where its footer says that they are."""
    footer = len(data) - 10 - number(data, len(data) - 10, 4)
    buf, out, ids = bytearray(data[footer:-10]), bytearray(data[:footer]), []
    root = number(buf, 0, 4)
    for i in (2, 3):
        blocks = target(buf, field(buf, root, i))
        for k in range(number(buf, blocks, 4)):
            at = number(buf, blocks + 4 + 24 * k, 8)
            message, end = big_message(data, at, table, ids)
            assert len(message) == end - at
            out[at:end] = message
    say_big(buf, target(buf, field(buf, root, 1)))
    return bytes(out + buf) + len(buf).to_bytes(4, "little") + b"ARROW1"


def wide_table(n=70):
    rng = random.Random(SEED)
    hole = lambda v: None if rng.random() < 0.2 else v  # noqa: E731
    columns = {k: pa.array([hole(rng.randrange(100)) for _ in range(n)], getattr(pa, k)())
               for k in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64", "date32")}
    columns["f16"] = pa.array([np.float16(i / 8) for i in range(n)], pa.float16())
    columns["when"] = pa.array([hole(i * 10**9) for i in range(n)], pa.timestamp("us"))
    columns["flag"] = pa.array([hole(i % 3 == 0) for i in range(n)])
    for k, t in (("d32", pa.decimal32(9, 2)), ("d64", pa.decimal64(18, 2)), ("d128", pa.decimal128(30, 2)), ("d256", pa.decimal256(60, 2))):
        columns[k] = pa.array([hole(i * 1234567 - 10**7) for i in range(n)], pa.decimal128(20, 0)).cast(pa.decimal256(60, 2)).cast(t, safe=False) \
            if k != "d32" else pa.array([hole(i * 1234 - 10**4) for i in range(n)], t)
    texts = [hole("x" * (i % 30) + str(i)) for i in range(n)]
    for k, t in (("s", pa.string()), ("S", pa.large_string()), ("v", pa.string_view()), ("b", pa.binary()), ("V", pa.binary_view())):
        columns[k] = pa.array([x if x is None or pa.types.is_string(t) or k in "Sv" else x.encode() for x in texts], t)
    columns["w"] = pa.array([bytes([i, 1, 2]) for i in range(n)], pa.binary(3))
    columns["c"] = pa.array([f"entry {i % 7}" for i in range(n)]).dictionary_encode()
    columns["c64"] = pa.array([hole(i % 5 * 10**12) for i in range(n)]).dictionary_encode()
    columns["st"] = pa.StructArray.from_arrays([columns["int32"], columns["s"]], ["i", "s"])
    columns["none"] = pa.nulls(n)
    return pa.table(columns)


def same(a, b):
    """Values of two samples; bit by bit, since NaN is not itself."""
    a, b = ({k: v for k, v in s.items() if k != "__url__"} for s in (a, b))
    assert a.keys() == b.keys()
    for k in a:
        assert np.asarray(a[k]).tobytes() == np.asarray(b[k]).tobytes() if isinstance(a[k], np.ndarray) else a[k] == b[k], k


@pytest.mark.asan
@pytest.mark.parametrize("kind", ["file", "stream", "lz4", "zstd"])
@pytest.mark.parametrize("make", [wide_table, made_table])
def test_big_endian(tmp_path, make, kind):
    table = make()
    little, big = tmp_path / "little.arrow", tmp_path / "big.arrow"
    codec = kind if kind in ("lz4", "zstd") else None
    write(little, table, kind != "file", 30, compression=codec)
    data = little.read_bytes()
    big.write_bytes(big_file(data, table) if kind == "file" else big_stream(data, table, codec and pa.Codec(codec)))
    one, two = stoker.open(str(little), null=1), stoker.open(str(big), null=1)
    assert one.fields == two.fields and len(one) == len(two) == table.num_rows
    for i in range(len(one)):
        same(one[i], two[i])
    if make is wide_table:
        fields = {"x": "columns(int8, int32, float64, d128, default=0)", "s": "from(S, default='-') | text", "c": "from(c) | text"}
        for a, b in zip(*(stoker.Loader(d, fields, batch_size=16, shuffle=True, seed=SEED) for d in (one, two)), strict=True):
            assert np.asarray(a["x"]).tobytes() == np.asarray(b["x"]).tobytes() and list(a["s"]) == list(b["s"]) and list(a["c"]) == list(b["c"])


def test_the_turned_files_are_what_pyarrow_reads(tmp_path):
    """The oracle of the oracle: without views, which pyarrow does not turn."""
    for table in (wide_table().drop_columns(["v", "V"]), made_table()):
        for kind, read in (("file", pa.ipc.open_file), ("stream", pa.ipc.open_stream)):
            write(tmp_path / "t.arrow", table, kind == "stream", 30)
            data = (tmp_path / "t.arrow").read_bytes()
            assert read(big_file(data, table) if kind == "file" else big_stream(data, table)).read_all().equals(table), kind


@pytest.mark.asan
def test_damaged_files(tmp_path):
    """Values or an error of ours, of lists that are made and of columns that are turned."""
    rng = random.Random(SEED)
    seeds = []
    for codec in (None, "lz4"):
        table = made_table(12)
        write(tmp_path / "t.arrow", table, True, 5, compression=codec)
        data = (tmp_path / "t.arrow").read_bytes()
        seeds += [data, big_stream(data, table, codec and pa.Codec(codec))]
    for k in range(160):
        bad = bytearray(seeds[k % 4])
        for _ in range(rng.randrange(1, 4)):
            i = rng.randrange(len(bad) - 8)
            bad[i:i + 8] = rng.choice([bytes([rng.randrange(256)]) + bad[i + 1:i + 8], bytes(8), b"\xff" * 8, (1 << rng.randrange(63)).to_bytes(8, "little")])
        (tmp_path / "bad.arrow").write_bytes(bad)
        try:
            for sample in stoker.open(str(tmp_path / "bad.arrow"), null=1):
                assert sample
        except (stoker.StokerError, MemoryError, UnicodeDecodeError):
            pass
