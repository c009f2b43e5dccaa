#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the seeds of fuzz_seekfile into seekfile/ beside this script."""

import pathlib
import struct

OUT = pathlib.Path(__file__).parent / "seekfile"
GROUP, PARTIAL = 1024, 1 << 63


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def points(width=40, height=24, rows=3, row_bits=9, len_bits=0):
    """Seek points of a gray picture with the standard's tables."""
    head = struct.pack("<BBBBHHHIIIBHHBB", ord("J"), 1, 1, 1, width, height, 0, 300, 90, 0, 12, 1, 0, row_bits, len_bits)
    comps = struct.pack("<BBBh", 0x11, 0, 5, -10) + bytes(10)
    bits = bytes(-(-rows * row_bits // 8)) + bytes(-(-rows * 5 // 8))
    return head + comps + bytes(range(1, 65)) + bits


def group(rows, records):
    """records: {row: [(field, bytes)]}"""
    data, ends = b"", []
    for row in range(rows):
        for field, record in records.get(row, ()):
            data += struct.pack("<II", field, len(record)) + record
        ends.append(4 * rows + len(data))
    return struct.pack(f"<{rows}I", *ends) + data


def seekfile(shards, flags=0, missing=()):
    """shards: (samples, {row: records}); a file as seekwriter.c writes it."""
    body, table, places = b"", b"", []
    for number, (samples, records) in enumerate(shards):
        table += struct.pack("<QQQQ", 5000 + number, 77 + number, samples, len(places))
        for first in range(0, samples, GROUP):
            rows = min(GROUP, samples - first)
            data = group(rows, {r - first: v for r, v in records.items() if first <= r < first + rows})
            at = 0 if len(places) in missing else (64 + len(body)) | flags
            places.append(struct.pack("<QIIIIQ", at, len(data), crc32c(data), len(records), 1, 999))
            body += data
    tables = table + b"".join(places)
    head = b"STKSEEK\n" + struct.pack("<IIQQQQ12x", 1, crc32c(tables), 64 + len(body) + len(tables), len(shards),
                                      len(places), 64 + len(body))
    return head + struct.pack("<I", crc32c(head)) + body + tables


def main():
    OUT.mkdir(exist_ok=True)
    some = {0: [(0, points())], 3: [(0, b""), (1, points(64, 8, 1))], 4: [(2, b"x" * 30)]}
    whole = seekfile([(5, some), (0, {}), (2, {1: [(0, points())]})])
    seeds = {
        "none": seekfile([]),
        "small": whole,
        "partial": seekfile([(5, some)], PARTIAL),
        "missing": seekfile([(5, some), (3, some)], missing={1}),
        "groups": seekfile([(1030, {**some, 1025: [(0, points())]})]),
        "bad_magic": b"STKSEEK!" + whole[8:],
        "bad_cut": whole[:-20],
        "bad_short": whole[:40],
        "bad_group": whole[:70] + bytes([whole[70] ^ 1]) + whole[71:],
        "bad_ends": seekfile([(2, {})])[:64] + struct.pack("<II", 9000, 4) + seekfile([(2, {})])[72:],
        "bad_length": seekfile([(1, {0: [(0, b"")]})]).replace(struct.pack("<II", 0, 0), struct.pack("<II", 0, 1 << 31), 1),
    }
    for name, data in seeds.items():
        (OUT / name).write_bytes(data)


if __name__ == "__main__":
    main()
