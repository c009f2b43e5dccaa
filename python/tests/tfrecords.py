# SPDX-License-Identifier: Apache-2.0
"""TFRecord's framing, and the checksum that it and seek files have: CRC-32C."""

import struct

_TABLE = []
for _n in range(256):
    for _ in range(8):
        _n = _n >> 1 ^ 0x82F63B78 * (_n & 1)
    _TABLE.append(_n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for b in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ b) & 255]
    return crc ^ 0xFFFFFFFF


def masked(data):
    """The checksum as TFRecord stores it."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data):
    head = struct.pack("<Q", len(data))
    return head + masked(head) + data + masked(data)
