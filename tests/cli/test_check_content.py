# SPDX-License-Identifier: Apache-2.0
"""stoker check looks at content, goes on after what is not supported, blames data for nothing that the machine did,
and holds the index against the shards."""

import gzip
import io
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import CLI, jpeg, write_tar
from PIL import Image


def picture(kind, **options):
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(3).integers(0, 256, (24, 32, 3), np.uint8)).save(out, kind, **options)
    return out.getvalue()


def jpeg12():
    """A baseline header that says 12 bits."""
    data = bytearray(jpeg(1))
    at = data.index(b"\xff\xc0")
    data[at + 1], data[at + 4] = 0xC1, 12
    return bytes(data)


def animated():
    frames = [Image.new("RGB", (16, 16), (40 * i, 0, 0)) for i in range(4)]
    out = io.BytesIO()
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:], duration=50)
    return out.getvalue()


def arrays(**options):
    out = io.BytesIO()
    (np.savez_compressed if options.pop("packed", False) else np.savez)(out, a=np.arange(100), b=np.ones((3, 4), "f4"))
    return out.getvalue()


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def changed(data, at):
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1:]


def check(stoker, *args):
    done = stoker("check", *args, "--json")
    assert done.err == ""
    return json.loads(done.raw), done.code


def keys(found):
    return [b["key"] for b in found]


def test_content_decides(stoker, tmp_path):
    good = {"img": jpeg(1), "photo.data": picture("PNG"), "thumb": picture("WEBP"), "array": npy(np.arange(5)), "z": gzip.compress(b"x" * 99),
            "meta": b'{"a": [1, 2]}', "many": arrays(), "packed": arrays(packed=True), "json.gz": gzip.compress(b"[1]"), "cls": b"7",
            "bin": b"\0\1\2", "caption": b"{not JSON, and no matter", "empty": b""}
    bad = {"img": jpeg(1)[:900], "photo.data": changed(picture("PNG"), 200), "thumb": picture("WEBP")[:90], "array": npy(np.arange(50))[:-8],
           "z": gzip.compress(b"x" * 99)[:-5], "many": changed(arrays(), 300), "packed": changed(arrays(packed=True), 150),
           "json.gz": gzip.compress(b"[1"), "cls": b"", "npy": b"no array", "npz": b"no zip", "x.gz": b"not packed", "JPG": b"no"}
    write_tar(tmp_path / "a.tar", [*((f"good{i}.{name}", data) for i in range(2) for name, data in good.items()),
                                   *((f"bad-{name.split('.')[0]}.{name}", data) for name, data in bad.items())])
    found, code = check(stoker, "a.tar")
    assert keys(found["bad"]) == [f"bad-{name.split('.')[0]}" for name in bad] and code == 1, found["bad"]
    assert all(b["reason"].startswith(name.lower() + ": ") for b, name in zip(found["bad"], bad, strict=True))
    assert found["decoded_fields"] == {"jpeg": 2, "png": 2, "webp": 2, "gzip": 4, "npy": 2, "npz": 4, "json": 2, "int": 2}
    assert found["only_read_fields"] == 6 and found["fields"] == 26 + len(bad) and found["pictures"] == 6
    text = stoker("check", "a.tar").out
    assert "39 fields: 2 jpeg, 2 png, 2 webp, 4 gzip, 2 npy, 4 npz, 2 json, 2 int decoded; 6 only read\n" in text


def test_what_is_not_supported(stoker, tmp_path):
    """It is listed, and what comes after it is checked."""
    write_tar(tmp_path / "a.tar", [("0.jpg", jpeg(1)), ("1.jpg", jpeg12()), ("2.img", animated()), ("3.jpg", picture("GIF")),
                                   ("4.side", picture("GIF")), ("5.jpg", jpeg(2)[:900]), ("6.img", jpeg12()), ("6.txt", b"\xff"), ("7.jpg", jpeg(3))])
    done = stoker("check", "a.tar", "--write-exclude", "all.jsonl")
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    assert [line.partition(":")[0] for line in lines[:5]] == ["not supported", "not supported", "not supported", "jpg", "txt"]
    assert "2 bad samples, 3 not supported; 1 picture of a kind that this build can't decode, only read (N s)" in lines[-1]
    found, _ = check(stoker, "a.tar", "--write-exclude", "bad.jsonl", "--keep-unsupported")
    assert keys(found["unsupported"]) == ["1", "2", "3"] and keys(found["bad"]) == ["5", "6"]
    assert found["unsupported_samples"] == 3 and found["bad_samples"] == 2 and found["unchecked_pictures"] == 1
    assert "12" in found["unsupported"][0]["reason"] and "anim" in found["unsupported"][1]["reason"]

    def listed(name):
        return [(m["key"], m["kind"]) for m in map(json.loads, (tmp_path / name).read_text().splitlines())]

    assert listed("bad.jsonl") == [("5", "bad"), ("6", "bad")]
    assert listed("all.jsonl") == [("1", "unsupported"), ("2", "unsupported"), ("3", "unsupported"), *listed("bad.jsonl")]
    chain = ("--field", "image=from(jpg, img, side) | image | resize((8, 8))")
    found, _ = check(stoker, "a.tar", *chain)
    assert keys(found["unsupported"]) == ["1", "2", "6"] and keys(found["bad"]) == ["3", "4", "5"]
    only = write_tar(tmp_path / "b.tar", [("1.jpg", jpeg12())])
    assert stoker("check", only).code == 1


def test_a_shard_that_is_not_supported(stoker, photos):
    (photos / "train-000002.tar").write_bytes(gzip.compress((photos / "train-000001.tar").read_bytes()))
    found, code = check(stoker, photos)
    assert code == 1 and found["samples"] == 12 and found["shards"] == 3
    assert [(b["shard"], b["key"]) for b in found["unsupported"]] == [("train-000002.tar", None)] and not found["bad"]
    np.save(photos / "tokens.npy", np.arange(9))
    assert stoker("check", photos / "tokens.npy").code == 3  # no samples, nothing to check


@pytest.mark.parametrize("chain", [(), ("--field", "image=from(jpg, image) | image | resize((8, 8))")])
def test_no_descriptors_is_no_damage(photos, tmp_path, chain):
    """With ever fewer files that may be open: all good or a failure of the machine, nothing between."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for i in range(12):
        (folder / f"{i}.jpg").write_bytes(jpeg(i))
    for i in range(2, 5):  # shards that are read stay open, up to half of the limit: one too many of them
        write_tar(photos / f"train-{i:06d}.tar", [(f"{i}.jpg", jpeg(i))])
    env = {**os.environ, "STOKER_CACHE": str(tmp_path / "cache")}
    codes = set()
    shards = [photos / f"train-{i:06d}.tar" for i in range(5)]
    for data in ([folder], shards[:2], shards[:3], shards):
        assert subprocess.run([CLI, "index", *data], env=env, capture_output=True).returncode == 0  # so that reading is what fails
        for limit in range(4, 12):
            done = subprocess.run([CLI, "check", *data, "--workers", "1", "--write-exclude", tmp_path / "bad.jsonl", *chain],
                                  capture_output=True, text=True, timeout=60, env=env,
                                  preexec_fn=lambda n=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (n, n)))  # noqa: PLW1509
            codes.add(done.returncode)
            assert done.returncode in (0, 3, 127), (limit, done.stdout, done.stderr)
            if done.returncode == 0:
                assert "all good" in done.stdout and (tmp_path / "bad.jsonl").read_bytes() == b""
                (tmp_path / "bad.jsonl").unlink()
            assert not list(tmp_path.glob("bad.jsonl*")), (limit, done.stderr)
    assert {0, 3} <= codes


def keep_mtime(path, members, size=None):
    before = path.stat()
    write_tar(path, members)
    if size:
        os.truncate(path, size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_the_index_against_the_shard(stoker, tmp_path):
    """Shards of the same size and mtime, of which the index says something else."""
    members = [(f"k{i}.txt", b"x" * (10 + i)) for i in range(6)]
    shard = write_tar(tmp_path / "a.tar", members)
    size = shard.stat().st_size
    assert stoker("index", "a.tar").code == stoker("check", "a.tar").code == 0

    def differences():
        found, code = check(stoker, "a.tar", "--write-exclude", "bad.jsonl")
        assert code == 1 and found["index_differences"] == len(found["differences"]) and (tmp_path / "bad.jsonl").read_bytes() == b""
        return [(b["key"], b["reason"].partition(";")[0]) for b in found["differences"]]

    keep_mtime(shard, [*members[:2], ("kX.txt", members[2][1]), *members[3:]], size)
    assert differences() == [("k2", "the index has this key here, the shard has another")]
    keep_mtime(shard, [*members[:4], ("k4.txt", b"y" * 9), members[5]], size)
    assert differences() == [("k4", "field txt: the index has size 14, the shard 9")]
    keep_mtime(shard, members[:5], size)
    assert ("k5", "the index has this sample, the shard does not") in differences()
    keep_mtime(shard, [*members, ("k6.txt", b"new")], size)
    assert differences() == [("k6", "the shard has this sample, the index does not")]
    assert stoker("check", "a.tar").out.splitlines()[-1].endswith("1 difference between index and data (stoker index --force) (N s)")
    stoker("index", "a.tar", "--force")
    found, code = check(stoker, "a.tar")
    assert (code, found["samples"], found["differences"]) == (0, 7, [])


def test_many_differences_are_told_in_short(stoker, tmp_path):
    shard = write_tar(tmp_path / "a.tar", [(f"a{i:03d}.txt", b"x") for i in range(50)])
    stoker("index", "a.tar")
    keep_mtime(shard, [(f"b{i:03d}.txt", b"x") for i in range(50)])
    found, _ = check(stoker, "a.tar")
    assert found["index_differences"] == 50 and len(found["differences"]) == 11
    assert found["differences"][0]["key"] is None or found["differences"][-1]["key"] is None
    assert "40 more differences" in str(found["differences"])


def test_the_list_is_whole_or_not_there(stoker, tmp_path):
    write_tar(tmp_path / "a.tar", [("0.cls", b"x"), ("1.cls", b"1")])
    (tmp_path / "real").mkdir()
    (tmp_path / "real/bad.jsonl").write_text("old\n")
    (tmp_path / "bad.jsonl").symlink_to("real/bad.jsonl")
    assert stoker("check", "a.tar", "--write-exclude", "bad.jsonl").code == 1
    assert (tmp_path / "bad.jsonl").is_symlink() and json.loads((tmp_path / "real/bad.jsonl").read_text())["key"] == "0"
    assert os.listdir(tmp_path / "real") == ["bad.jsonl"]
    done = stoker("check", "a.tar", "--write-exclude", "none/bad.jsonl")
    assert done.code == 3 and done.err == "stoker: can't write none/bad.jsonl: No such file or directory\n"
    assert '"key": "0"' in stoker("check", "a.tar", "--write-exclude", "/dev/stdout").out
    os.rename(tmp_path / "a.tar", os.path.join(os.fsencode(tmp_path), b"\xff.tar"))
    done = subprocess.run([CLI, "check", b"\xff.tar", "--write-exclude", "bad.jsonl"], cwd=tmp_path, capture_output=True, timeout=60)
    assert done.returncode == 3 and b"\\xff.tar is not UTF-8" in done.stderr and "\"key\": \"0\"" in (tmp_path / "bad.jsonl").read_text()


@pytest.mark.parametrize("packed", [0, 1])
@pytest.mark.parametrize("hash_name", ["sha1", "sha256", "md5", "xxh64", "xxh3_64"])
def test_hashes_of_mds_shards(stoker, tmp_path, packed, hash_name):
    """What index.json says of its shards is compared; mosaicml-streaming does so only with validate_hash."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    import made_mds
    if hash_name == "xxh64":
        pytest.importorskip("xxhash")
    known = hash_name != "xxh3_64"
    folder = made_mds.write(tmp_path / "m", {"a": "bytes"}, [{"a": b"x" * 50}] * 30, 10, "gz" if packed else None,
                            (lambda raw: gzip.compress(raw, mtime=0)) if packed else None, hashes=[hash_name] if known else ())
    index = folder / "index.json"
    if not known:
        index.write_text(index.read_text().replace('"hashes": {}', '"hashes": {"xxh3_64": "00"}'))
    done = stoker("check", folder)
    assert (done.code == 0) == known, done.out + done.err
    if not known:
        assert "knows none of its hashes" in done.out + done.err
        return
    text = json.loads(index.read_text())
    where = text["shards"][1]["zip_data" if packed else "raw_data"]["hashes"]
    where[hash_name] = "0" + where[hash_name][1:] if where[hash_name][0] != "0" else "1" + where[hash_name][1:]
    index.write_text(json.dumps(text))
    done = stoker("check", folder)
    assert done.code != 0 and f"its {hash_name} is" in done.out + done.err and "shard.00001" in done.out + done.err
