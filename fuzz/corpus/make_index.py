#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_index: small indexes, whole and spoilt, by docs/formats/index.md.

A second writer of the format, which shares no code with the library's; what it calls bad_ is
refused, the rest opens.  Same bytes every time.
"""
import pathlib
import struct

HERE = pathlib.Path(__file__).parent / "index"
WIDE = 0xFFFFFFFF


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Strings:
    def __init__(self):
        self.data = b"\0"

    def add(self, text):
        if not text:
            return 0
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


def segment(samples):
    """samples: (key, offset, schema, [(offset, size)]) -> bytes, fields, wide, key bytes"""
    rows = fields = wides = keys = b""
    for key, offset, schema, places in samples:
        rows += struct.pack("<QII", offset << 16 | schema, len(fields) // 8, len(keys))
        for at, size in places:
            rel = at - offset
            if 0 <= rel < WIDE and size <= WIDE:
                fields += struct.pack("<II", rel, size)
            else:
                fields += struct.pack("<II", WIDE, len(wides) // 16)
                wides += struct.pack("<QQ", at, size)
        keys += key
    rows += struct.pack("<QII", 0, len(fields) // 8, len(keys))
    data = rows + fields + wides + keys
    return data + bytes(-len(data) % 8), len(fields) // 8, len(wides) // 16, len(keys)


def padded(data):
    return data + bytes(-len(data) % 8)


UNKNOWN, NULL, I64, F64, TEXT = range(5)


def chunk(kind, width=0, values=b"", base=0, valid=None, words=()):
    """A column of one shard: its record without a place, and its bytes."""
    data = padded(values)
    if valid is not None:
        bits = sum(1 << i for i, v in enumerate(valid) if v)
        data += padded(bits.to_bytes((len(valid) + 7) // 8, "little"))
    ends = [0]
    for word in words:
        ends.append(ends[-1] + len(word))
    if kind == TEXT:
        data += padded(struct.pack(f"<{len(ends)}I", *ends)) + padded(b"".join(words))
    nulls = 0 if valid is None else valid.count(0)
    return struct.pack("<qIIIBBH", base, nulls, len(words), ends[-1] if words else 0, kind, width, 0), data


def index(shards, schemas, extra=(), columns=()):
    """shards: (name, size, etag, maps, samples); schemas: lists of names; columns: (name, [chunk])"""
    strings, segments, records, maps, firsts = Strings(), b"", b"", [], [0]
    for name, size, etag, own, samples in shards:
        data, n_fields, n_wide, n_keys = segment(samples)
        records += struct.pack("<QqQQIIIIIIII", size, 7, 99, len(segments), n_fields, n_wide, n_keys,
                               len(maps), len(own), strings.add(name), strings.add(etag), 0)
        segments += data
        maps += own
        firsts.append(firsts[-1] + len(samples))
    table = struct.pack("<II", len(columns), 0)
    table += padded(struct.pack(f"<{len(columns)}I", *[strings.add(name) for name, _ in columns]))
    for _, chunks in columns:
        for record, data in chunks:
            table += struct.pack("<Q", len(segments)) + record
            segments += data
    if columns:
        extra = [*extra, (7, table)]
    names = list(dict.fromkeys(n for schema in schemas for n in schema))
    starts, ids = [0], []
    for schema in schemas:
        ids += [names.index(n) for n in schema]
        starts.append(len(ids))
    table = struct.pack("<IIII", len(names), len(schemas), len(ids), len(maps))
    table += struct.pack(f"<{len(names)}I", *[strings.add(n) for n in names])
    table += struct.pack(f"<{len(starts)}I", *starts) + struct.pack(f"<{len(ids)}I", *ids)
    table += struct.pack(f"<{len(maps)}H", *maps)
    blocks = b"".join(struct.pack("<I", crc32c(segments[i:i + 65536])) for i in range(0, len(segments), 65536))
    body, entries = segments, [struct.pack("<IIQQ", 1, 0, 4096, len(segments))]
    sections = [(2, blocks), (3, records), (4, struct.pack(f"<{len(firsts)}Q", *firsts)), (5, table),
                (6, strings.data), *extra]
    for number, data in sections:
        entries.append(struct.pack("<IIQQ", number, crc32c(data), 4096 + len(body), len(data)))
        body += data + bytes(-len(data) % 8)
    head = b"STKIDX1\n" + struct.pack("<IIQQQ32s", 1, len(entries), 4096 + len(body), firsts[-1], len(shards), b"tar")
    head = head.ljust(128, b"\0") + b"".join(entries)
    head = head.ljust(4092, b"\0")
    return head + struct.pack("<I", crc32c(head)) + body


def main():
    HERE.mkdir(exist_ok=True)
    two = [(b"000%06d" % i, i * 2048, 0, [(i * 2048 + 512, 100 + i), (i * 2048 + 1536, 1)]) for i in range(20)]
    mixed = [(b"", 0, 1, []), (b"a", 512, 0, [(1024, 5), (1 << 40, 6)]), (b"key/b", 1 << 47, 2, [(3, 1 << 33)]),
             (b"c" * 200, 4096, 0, [(4096, 0), (4096, WIDE)])]
    whole = index([("a.tar", 40960, "", [0], two)], [["jpg", "cls"]])
    seeds = {
        "empty": index([("a.tar", 0, "", [], [])], []),
        "one": whole,
        "two": index([("x/a.tar", 40960, '"e"', [0], two), ("x/b.tar", 1 << 48, "", [0, 1, 2], mixed),
                      ("x/c.tar", 0, "", [], [])], [["jpg", "cls"], [], ["seg.png"]]),
        "unknown_section": index([("a.tar", 40960, "", [0], two)], [["jpg", "cls"]], [(77, b"later")]),
        "bad_magic": b"NOTINDEX" + whole[8:],
        "bad_cut": whole[:4096],
        "bad_short": whole[:100],
        "bad_schema": index([("a.tar", 40960, "", [1], two)], [["jpg", "cls"]]),
        "bad_map": index([("a.tar", 40960, "", [], two)], [["jpg", "cls"]]),
        "bad_count": index([("a.tar", 40960, "", [0], two)], [["jpg"]]),
        "bad_block": whole[:4200] + bytes([whole[4200] ^ 1]) + whole[4201:],
    }
    none = chunk(UNKNOWN)
    valid = [1, 0] * 10
    def with_columns(*columns):
        return index([("a.tar", 40960, "", [0], two), ("b.tar", 0, "", [], [])], [["jpg", "cls"]], columns=columns)
    words = (b"cat", b"", b"dog\xc3\xa9")
    seeds |= {
        "columns": with_columns(
            ("one", [chunk(I64, 0, base=-5), chunk(NULL)]),
            ("byte", [chunk(I64, 1, bytes(range(20)), 1000, valid), none]),
            ("eight", [chunk(I64, 8, struct.pack("<20q", *range(-10, 10)), 1 << 62), none]),
            ("half", [chunk(F64, 4, struct.pack("<20f", *range(20))), none]),
            ("real", [chunk(F64, 8, struct.pack("<20d", *range(20)), 0, valid), none]),
            ("text", [chunk(TEXT, 1, bytes([0, 1, 2, 2] * 5), 0, valid, words), none]),
            ("word", [chunk(TEXT, 0, words=(b"same",)), none])),
        "bad_column_number": with_columns(("t", [chunk(TEXT, 1, bytes([0, 3] * 10), words=words), none])),
        "bad_column_width": with_columns(("t", [chunk(I64, 3, bytes(60)), none])),
        "bad_column_type": with_columns(("t", [chunk(9), none])),
        "bad_column_end": with_columns(("t", [chunk(F64, 8), chunk(F64, 8)])),
        "bad_column_twice": with_columns(("t", [none, none]), ("t", [none, none])),
        "bad_column_count": index([("a.tar", 40960, "", [0], two)], [["jpg", "cls"]],
                                  [(7, struct.pack("<IIII", 200, 0, 1, 1))]),
    }
    for name, data in seeds.items():
        (HERE / name).write_bytes(data)


if __name__ == "__main__":
    main()
