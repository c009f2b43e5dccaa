# SPDX-License-Identifier: Apache-2.0
"""stoker check word for word, and the manifest it writes."""

import json
import os
from pathlib import Path

import pytest
from conftest import jpeg, write_tar
from test_cli import fails

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def damaged(tmp_path):
    """Ten photos: 2 is cut, 5 is garbage, 7 has a label that is no number."""
    picture = jpeg(1)
    members = []
    for i in range(10):
        image = picture[:len(picture) // 2] if i == 2 else b"garbage" if i == 5 else picture
        members += [(f"{i:03d}.jpg", image), (f"{i:03d}.cls", b"x7" if i == 7 else b"1")]
    return write_tar(tmp_path / "bad.tar", members)


def test_clean(stoker, photos):
    done = stoker("check", photos)
    size = done.out.split(", ")[-1].split(":")[0]
    assert (done.code, done.err) == (0, "")
    assert done.out == ("24 fields: 12 jpeg, 12 int decoded; 0 only read\n"
                        f"12 samples in 2 shards, {size}: all good (N s)\n")


def test_damaged(stoker, damaged, tmp_path):
    done = stoker("check", "bad.tar", "--write-exclude", "bad.jsonl")
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    assert lines[-1].endswith(": 3 bad samples (N s)")
    manifest = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [(m["shard"], m["key"]) for m in manifest] == [("bad.tar", k) for k in ("002", "005", "007")]
    assert [list(m) for m in manifest] == [["shard", "offset", "key", "kind", "reason"]] * 3
    assert manifest[1]["reason"] == "jpg: these 7 bytes are not a picture"
    assert manifest[2]["reason"].startswith("cls: ") and manifest[0]["reason"].startswith("jpg: ")
    for line, m in zip(lines, manifest, strict=False):
        assert line == f"{m['reason']} [shard bad.tar, offset {m['offset']}, key {m['key']}]"
    found = json.loads(stoker("check", "bad.tar", "--json").raw)
    assert found["bad"] == manifest and found["bad_samples"] == 3 and found["samples"] == 10


def test_exclude_takes_them_out(stoker, damaged):
    fast = ("bench", "bad.tar", "--field", "image=from(jpg) | image | resize((8, 8))", "--field", "label=from(cls) | int",
            "--epochs", "1", "--batch-size", "4", "--json")
    assert stoker(*fast).code == 3
    stoker("check", "bad.tar", "--write-exclude", "bad.jsonl")
    done = stoker(*fast, "--exclude", "bad.jsonl")
    assert done.code == 0 and json.loads(done.raw)["samples"] == 7


def test_chains(stoker, damaged):
    done = stoker("check", "bad.tar", "--field", "label=from(cls) | int")
    assert done.code == 1 and done.out.count("key 007]") == 1 == done.out.count("[shard")
    done = stoker("check", "bad.tar", "--field", "image=from(jpg) | image | resize(8)")
    assert done.code == 1 and done.out.count("[shard") == 2


def test_torn_shard(stoker, photos):
    torn = photos / "train-000001.tar"
    torn.write_bytes(torn.read_bytes()[:9000])
    done = stoker("check", photos, "--write-exclude", "bad.jsonl")
    assert done.code == 1
    assert done.out.splitlines()[0].partition("[shard ")[2].startswith("train-000001.tar")
    assert done.out.splitlines()[2].startswith("6 samples in 2 shards, ")
    assert done.out.splitlines()[2].endswith(": 1 bad shard (N s)")
    line = json.loads((photos.parent / "bad.jsonl").read_text())
    assert (line["shard"], line["offset"], line["key"]) == ("train-000001.tar", None, None)


def test_shard_without_its_end(stoker, photos):
    """Cut at a member's boundary: a finding each time, though the index is built, and nothing to exclude."""
    cut = photos / "train-000001.tar"
    cut.write_bytes(cut.read_bytes().rstrip(b"\0").ljust(-(-len(cut.read_bytes().rstrip(b"\0")) // 512) * 512, b"\0"))
    done = stoker("index", photos)
    assert done.code == 0 and "no end mark" in done.err and "train-000001.tar" in done.err
    for _ in range(2):
        done = stoker("check", photos, "--write-exclude", "bad.jsonl")
        assert done.code == 1 and "no end mark" in done.out.splitlines()[0]
        assert done.out.splitlines()[-1].endswith(": 1 shard with a warning (N s)")
        assert (photos.parent / "bad.jsonl").read_text() == ""
    found = json.loads(stoker("check", photos, "--json").raw)
    assert found["shard_warnings"] == 1 and found["warnings"][0]["shard"] == "train-000001.tar" and not found["bad"]


@pytest.mark.parametrize("args, line", [
    (["--field", "x"], "--field is NAME=CHAIN, as in --field 'label=from(cls) | int', not \"x\""),
    (["--field", "x=from(cls) | intt"], "no step is called `intt`: did you mean `int`? (`stoker ops` lists them)"),
])
def test_wrong_usage(stoker, damaged, args, line):
    fails(stoker("check", "bad.tar", *args), 2, line)


def test_nothing_there(stoker):
    assert stoker("check", "no/*.tar").code == 3


@pytest.mark.parametrize("chain", [(), ("--field", "image=from(jpg) | image | resize(8)")])
def test_what_is_kept_of_all_kinds_of_fields(stoker, tmp_path, chain):
    """Of a label its bytes are kept, of a video its tables: they are held against the field as points of JPEGs are."""
    clip = (ROOT / "tests/gpu/real/clips/h264.mp4").read_bytes()
    shard = write_tar(tmp_path / "a.tar", [("0.cls", b"7"), ("0.jpg", jpeg(1, 192, 144)), ("0.mp4", clip)])
    assert stoker("index", "a.tar", "--points").code == 0
    assert stoker("check", "a.tar", *chain).code == 0
    before = shard.stat()
    at = clip.index(b"stts") + 19                   # how long a frame is shown
    turned = clip[:at] + bytes([clip[at] ^ 1]) + clip[at + 1:]
    write_tar(shard, [("0.cls", b"8"), ("0.jpg", jpeg(1, 192, 144)), ("0.mp4", turned)])
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    said = [line.partition(":")[0] for line in stoker("check", "a.tar", *chain).out.splitlines() if "seek points do not fit, it" in line]
    assert said == ["cls", "mp4"]


@pytest.mark.parametrize("chain", [(), ("--field", "image=from(jpg) | image | resize(8)")])
def test_seek_points_that_do_not_fit(stoker, tmp_path, chain):
    """Other pictures in the same places: the samples are good, and stay in."""
    one, two = jpeg(1, 192, 144), jpeg(2, 192, 144)
    size = max(len(one), len(two))
    one, two = (p + b"\0" * (size - len(p)) for p in (one, two))
    shard = write_tar(tmp_path / "a.tar", [("0.jpg", one), ("1.jpg", two), ("2.jpg", one)])
    assert stoker("index", "a.tar", "--jpeg").code == 0
    assert stoker("check", "a.tar", *chain).code == 0
    before = shard.stat()
    write_tar(shard, [("0.jpg", two), ("1.jpg", two), ("2.jpg", one[:400] + bytes(100) + one[500:])])
    os.utime(shard, ns=(before.st_atime_ns, before.st_mtime_ns))
    done = stoker("check", "a.tar", *chain, "--write-exclude", "bad.jsonl")
    assert (done.code, done.err) == (1, "")
    assert done.out.splitlines()[0] == ("jpg: its seek points do not fit, it changed since; make them again: stoker index "
                                        "--points --force ... [shard a.tar, offset 0, key 0]")
    assert done.out.splitlines()[-1].endswith("2 fields whose seek points do not fit (stoker index --points --force) (N s)")
    keys = [json.loads(line)["key"] for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    found = json.loads(stoker("check", "a.tar", *chain, "--json").raw)
    assert [m["key"] for m in found["misfits"]] == ["0", "2"] and found["seek_point_misfits"] == 2
    assert keys == [b["key"] for b in found["bad"]] and "0" not in keys and "1" not in keys
    stoker("index", "a.tar", "--jpeg", "--force")
    assert "do not fit" not in stoker("check", "a.tar", *chain).out


def test_says_that_the_index_was_stale(stoker, photos):
    """The index is made again before data are compared with it: what was wrong with it is not lost."""
    assert stoker("check", photos).err == ""
    shard = photos / "train-000000.tar"
    shard.write_bytes(shard.read_bytes() + bytes(10240))
    done = stoker("check", photos)
    assert done.code == 0 and "the index is made again" in done.err and "train-000000.tar" in done.err
    assert stoker("check", photos).err == ""
