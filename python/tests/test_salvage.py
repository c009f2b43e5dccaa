# SPDX-License-Identifier: Apache-2.0
"""Torn shards: the whole samples before the tear are taken, if one asks for it, and it is said where the tear is."""

import logging
import os
import shutil
import struct
import subprocess
import tarfile
from pathlib import Path

import pytest
from tfrecords import record

import stoker

CLI = os.environ.get("STOKER_CLI", str(Path(stoker.__file__).parent / "stoker-cli"))


def torn(folder, cut, n=6):
    """Two shards; the second one ends after `cut` bytes, or where a function of its bytes says."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with stoker.Writer(folder / "a-%d.tar", n) as w:
        for i in range(2 * n):
            w.write({"__key__": f"{i:03d}", "txt": "x" * (400 * (i % 3)), "cls": i})
    whole = (folder / "a-1.tar").read_bytes()
    (folder / "a-1.tar").write_bytes(whole[:cut])
    return str(folder / "a-*.tar"), whole


def ends(path):
    """Where each sample of a tar file ends."""
    with tarfile.open(path) as f:
        members = list(f)
    of = {}
    for m in members:
        of[m.name.partition(".")[0]] = m.offset_data + -(-m.size // 512) * 512
    return of


def test_every_cut(tmp_path, caplog):
    caplog.set_level(logging.WARNING, "stoker")
    _, whole = torn(tmp_path / "t", None)
    where = ends(tmp_path / "t/a-1.tar")
    for cut in range(0, len(whole), 256):
        caplog.clear()
        src, _ = torn(tmp_path / "t", cut)
        want = [f"{i:03d}" for i in range(6)] + [k for k, end in where.items() if end <= cut]
        data = stoker.open(src, salvage=True)
        got = [s["__key__"] for s in data]
        said = [r.getMessage() for r in caplog.records]
        assert len(said) <= 1 and all("a-1.tar" in line for line in said)
        try:
            plain = stoker.open(src)        # the salvaged index is not found by others
        except stoker.StokerError as e:
            assert e.code in ("ECORRUPT", "ESTALE") and said and "torn at byte" in said[0], cut
            alone = where["006"] <= cut < where["006"] + 512     # the first sample: one can't know
            assert got == want[:6 if alone else None] and all(set(s) >= {"txt", "cls"} for s in data), cut
        else:                               # cut between two members: it could be whole
            assert [s["__key__"] for s in plain] == got and got[:len(want)] == want, cut


def test_damage_in_the_middle(tmp_path):
    src, whole = torn(tmp_path / "t", None)
    where = ends(tmp_path / "t/a-1.tar")
    third = list(where.values())[2]
    (tmp_path / "t/a-1.tar").write_bytes(whole[:third] + b"\xff" * 512 + whole[third + 512:])
    with pytest.raises(stoker.StokerError):
        stoker.open(src)
    assert len(stoker.open(src, salvage=True)) == 9


def test_torn_after_it_was_indexed(tmp_path):
    src, whole = torn(tmp_path / "t", None)
    assert len(stoker.open(src)) == 12
    (tmp_path / "t/a-1.tar").write_bytes(whole[:list(ends(tmp_path / "t/a-1.tar").values())[1] + 700])
    with pytest.raises(stoker.StokerError, match="index"):
        stoker.open(src)
    assert len(stoker.open(src, salvage=True)) == 8


def test_pack(tmp_path):
    src, whole = torn(tmp_path / "t", 5000)
    fails = subprocess.run([CLI, "pack", src, str(tmp_path / "out")], capture_output=True, text=True, timeout=120)
    assert fails.returncode == 3 and "cut short" in fails.stderr and not (tmp_path / "out").exists()
    done = subprocess.run([CLI, "pack", src, str(tmp_path / "out"), "--salvage"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "torn at byte" in done.stderr and "a-1.tar" in done.stderr, done.stderr
    made = stoker.pack(stoker.open(src, salvage=True), tmp_path / "py")
    kept = [k for k, end in ends_of(whole, tmp_path).items() if end <= 5000]
    assert made["samples"] == 6 + len(kept) == len(stoker.open(tmp_path / "out"))
    assert [s["__key__"] for s in stoker.open(tmp_path / "out")][6:] == kept
    again = subprocess.run([CLI, "pack", src, str(tmp_path / "out"), "--salvage"], capture_output=True, text=True, timeout=120)
    assert "already there" in again.stdout


def ends_of(whole, folder):
    (folder / "whole.tar").write_bytes(whole)
    return ends(folder / "whole.tar")


def test_torn_records(tmp_path):
    """A TFRecord file: length, its checksum, data, its checksum."""
    def numbered(i):
        feature = b"\x0a\x0b\x0a\x01n\x12\x06\x1a\x04\x0a\x02" + struct.pack("<BB", 0x80 | i, 1)
        return record(b"\x0a" + bytes([len(feature)]) + feature)
    whole = b"".join(map(numbered, range(5)))
    path = tmp_path / "a.tfrecord"
    path.write_bytes(whole)
    assert len(stoker.open(str(path))) == 5
    path.write_bytes(whole[:-7])
    with pytest.raises(stoker.StokerError):
        stoker.open(str(path))
    assert len(stoker.open(str(path), salvage=True)) == 4
