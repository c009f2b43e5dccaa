#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_mediafile into mediafile/ beside this script."""

import pathlib
import struct

from make_seekfile import crc32c

OUT = pathlib.Path(__file__).parent / "mediafile"


def narrow(width, height, turn=1, kind=1):
    return struct.pack("<Q", kind << 60 | turn << 56 | height << 28 | width)


def wide(units, width, height, kind=2):
    return struct.pack("<QqIIIHBB", units, 1_000_000, width, height, 0, 0, kind, 1)


def mediafile(shards, names):
    """shards: (size, print, samples, [(name, width, bytes)]); a file as mediafile.c writes it."""
    body, table, columns, n = b"", b"", b"", 0
    for size, mark, samples, fields in shards:
        table += struct.pack("<QQQQ", size, mark, samples, n)
        for name, width, data in fields:
            columns += struct.pack("<QIIII", 64 + len(body), crc32c(data), name, width, 0)
            body += data
            n += 1
    ends, text = b"", b""
    for name in names:
        text += name.encode() + b"\0"
        ends += struct.pack("<I", len(text))
    tables = table + columns + ends + text
    head = b"STKMEDIA" + struct.pack("<IIQQQQIII", 1, crc32c(tables), 64 + len(body) + len(tables), len(shards), n,
                                     64 + len(body), len(names), len(text), 0)
    return head + struct.pack("<I", crc32c(head)) + body + tables


def main():
    OUT.mkdir(exist_ok=True)
    pictures = b"".join(narrow(40 + i, 30 + i, i % 9) for i in range(5))
    videos = b"".join(wide(100 + i, 640, 360) for i in range(5))
    whole = mediafile([(0, 0, 5, [(0, 8, pictures), (1, 32, videos)]), (9, 9, 0, []), (7, 8, 5, [(0, 8, pictures)])], ["jpg", "mp4"])
    seeds = {
        "none": mediafile([], []),
        "whole": whole,
        "names": mediafile([(0, 0, 1, [(0, 8, narrow(3, 4))])], ["seg.png"]),
        "bad_magic": b"STKMEDIX" + whole[8:],
        "bad_cut": whole[:-9],
        "bad_short": whole[:40],
        "bad_record": whole[:70] + bytes([whole[70] ^ 1]) + whole[71:],
        "bad_rows": mediafile([(0, 0, 1 << 40, [(0, 8, pictures)])], ["jpg"]),
        "bad_name": mediafile([(0, 0, 5, [(9, 8, pictures)])], ["jpg"]),
        "bad_width": mediafile([(0, 0, 5, [(0, 7, pictures)])], ["jpg"]),
    }
    for name, data in seeds.items():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
