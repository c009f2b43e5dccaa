# SPDX-License-Identifier: Apache-2.0
"""Where the recordings of a list of utterances are: paths of lists, members of tar files, and seconds by a file's header.

Where a list leaves open which file it means, that is an error: another recording is never read in its place.
"""

from __future__ import annotations

import os
import pathlib
import re
import struct
import tarfile
from typing import Any, BinaryIO

from .errors import invalid


def beside(folder: str | os.PathLike[str], name: str) -> str:
    """A list's file: relative names are beside the list, or else in the working directory, where Kaldi, NeMo and lhotse look."""
    there = os.path.join(folder, name)
    if os.path.isabs(name) or not os.path.exists(name):
        return there
    here = os.path.abspath(name)
    if not os.path.exists(there):
        return here
    if not os.path.samefile(here, there):
        invalid(f"{name} is {there} and also {here}, in the working directory: write its whole path, or start in another folder")
    return there


# ---- tar files ----

class Members:
    """Members of tar files by the names that a list has for them.

    Lists and tar files name a recording from different folders on, so that the parts that both have must agree from the
    end on; NeMo's "-sub1" and so on, which several utterances of a member have, are left out where no member has them.
    """

    def __init__(self, paths: list[str]) -> None:
        self.of_stem: dict[str, list[tuple[int | None, str, dict[str, Any]]]] = {}
        self.claimed: dict[tuple[str, int], str] = {}
        self.shards: set[int] = set()
        for path in paths:
            numbers = re.findall(r"\d+", os.path.basename(path))
            shard = int(numbers[-1]) if numbers else None
            if shard is not None:
                self.shards.add(shard)
            try:
                with tarfile.open(path, "r:") as t:
                    for m in t:
                        if m.isfile():
                            at = {"path": path, "offset": m.offset_data, "length": m.size}
                            self.of_stem.setdefault(_stem(m.name), []).append((shard, m.name, at))
            except (OSError, tarfile.TarError) as e:
                invalid(f"{path}: {e}")

    def find(self, name: str, shard: object) -> tuple[dict[str, Any] | None, str]:
        """Where the recording is; or None, and why it is not known."""
        if shard is not None and not isinstance(shard, int):
            return None, f"its shard_id is {shard!r}, not a whole number"
        if shard is not None and self.shards and shard not in self.shards:
            return None, f"{name} is of shard {shard}, and no tar file's name ends in this number"
        of = "" if shard is None else f" of shard {shard}"
        base, ending = os.path.splitext(name)
        for asked in dict.fromkeys((name, re.sub(r"-sub\d+$", "", base) + ending)):
            found = [m for m in self.of_stem.get(_stem(asked), ()) if shard is None or m[0] in (shard, None)]
            best = max((_alike(asked, m[1]) for m in found), default=0)
            found = [m for m in found if _alike(asked, m[1]) == best]
            if len(found) > 1:
                places = " and ".join(f"{m[1]} of {m[2]['path']}" for m in found[:2])
                return None, f"{name} may be {places}: give each recording a name of its own, or shard_id"
            if found:
                return self._claim(asked, found[0][1], found[0][2])
        return None, f"{name} is in no tar file{of}"

    def _claim(self, asked: str, member: str, at: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
        """One member is not two recordings of the list."""
        before = self.claimed.setdefault((at["path"], at["offset"]), asked)
        if before != asked:
            return None, f"{asked} and {before} are two names, and only {member} of {at['path']} fits both"
        return at, ""


def _stem(name: str) -> str:
    return os.path.splitext(os.path.basename(name))[0]


def _alike(a: str, b: str) -> int:
    """How many parts of two paths agree, from the end on."""
    n = 0
    for x, y in zip(reversed(pathlib.PurePosixPath(a).parts), reversed(pathlib.PurePosixPath(b).parts)):
        if x != y:
            break
        n += 1
    return n


def expanded(pattern: str) -> list[str]:
    """audio__OP_0..7_CL_.tar, audio_{0..7}.tar."""
    pattern = pattern.replace("_OP_", "{").replace("_CL_", "}")
    m = re.search(r"\{(\d+)\.\.(\d+)\}", pattern)
    if not m:
        return [pattern]
    return [name for i in range(int(m[1]), int(m[2]) + 1)
            for name in expanded(f"{pattern[:m.start()]}{i:0{len(m[1])}}{pattern[m.end():]}")]


# ---- headers ----

def header_seconds(path: str | os.PathLike[str]) -> float | None:
    """Of a WAV file, and of a FLAC file whose header says how many samples there are.  None: it is another, or damaged."""
    try:
        with open(path, "rb") as f:
            head = f.read(42)
            if head[8:12] == b"WAVE" and head[:4] in (b"RIFF", b"RF64", b"BW64"):
                return _wav_seconds(f)
    except OSError as e:
        invalid(f"{os.fspath(path)}: {e.strerror}")
    if len(head) < 42 or head[:4] != b"fLaC" or head[4] & 127:
        return None
    bits = int.from_bytes(head[18:26], "big")
    rate, samples = bits >> 44, bits & (1 << 36) - 1
    return samples / rate if rate and samples else None


def _wav_seconds(f: BinaryIO) -> float | None:
    size, at, rate, frame, long_data = os.fstat(f.fileno()).st_size, 12, 0, 0, None
    while at + 8 <= size:
        f.seek(at)
        name, length = struct.unpack("<4sI", f.read(8))
        at += 8
        if name == b"data":
            if length == 0xFFFFFFFF:            # of RF64; or as written into a pipe
                length = long_data if long_data is not None else size - at
            return length // frame / rate if rate and frame and at + length <= size else None
        if name == b"fmt " and length >= 16:
            _, _, rate, _, frame, _ = struct.unpack("<HHIIHH", f.read(16))
        elif name == b"ds64" and length >= 24:
            _, long_data = struct.unpack("<QQ", f.read(16))
        at += length + (length & 1)
    return None
