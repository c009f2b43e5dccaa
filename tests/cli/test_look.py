# SPDX-License-Identifier: Apache-2.0
"""stoker ls and stoker cat word for word."""

import io
import json
import subprocess
import tarfile

import numpy as np
import pytest
from conftest import CLI, jpeg, write_tar
from PIL import Image
from test_cli import fails


@pytest.fixture
def small(tmp_path):
    write_tar(tmp_path / "s.tar", [("a.txt", "é\n".encode()), ("a.cls", b"7"), ("b/x.txt", b"y" * 70), ("b/x.bin", b"\0\1\2"),
                                   ("12.seg.png", b"no"), ("0.jpg", jpeg(3, 40, 30))])
    return tmp_path / "s.tar"


def test_ls(stoker, small):
    size = len(jpeg(3, 40, 30))
    assert stoker("ls", "s.tar").out == f"""\
0  a  txt 3 B, cls 1 B
1  b/x  txt 70 B, bin 3 B
2  12  seg.png 2 B
3  0  jpg {size / 1000:.1f} KB
"""
    assert stoker("ls", "s.tar", "--long", "--keys", "[ab]*").out == """\
0  a  txt 3, cls 1  DIR/s.tar @ 0
1  b/x  txt 70, bin 3  DIR/s.tar @ 2048
"""
    rows = [json.loads(line) for line in stoker("ls", "s.tar", "--json").raw.splitlines()]
    assert rows[1] == {"id": 1, "key": "b/x", "shard": str(small), "offset": 2048, "fields": {"txt": 70, "bin": 3}}
    assert stoker("ls", "s.tar", "--keys", "nothing").out == ""


def test_odd_keys(stoker, tmp_path):
    with tarfile.open(tmp_path / "o.tar", "w", format=tarfile.GNU_FORMAT) as tar:
        for name in ("é", "tab\t", "\udcff"):
            tar.addfile(tarfile.TarInfo(name + ".txt"))
    assert stoker("ls", "o.tar").out == "0  é  txt 0 B\n1  tab\\x09  txt 0 B\n2  \\xff  txt 0 B\n"
    keys = [json.loads(line)["key"] for line in stoker("ls", "o.tar", "--json").raw.splitlines()]
    assert keys == ["é", "tab\t", "�"]


def test_cat_sample(stoker, small):
    assert stoker("cat", "s.tar", "a").out == """\
id      0
key     a
shard   DIR/s.tar @ 0
txt     3 B      é\\n
cls     1 B      7
"""
    assert stoker("cat", "s.tar", "b/x").out == f"""\
id      1
key     b/x
shard   DIR/s.tar @ 2048
txt     70 B     {'y' * 60} ...
bin     3 B      00 01 02
"""
    assert json.loads(stoker("cat", "s.tar", "b/x", "--json").raw)["fields"] == {
        "txt": {"size": 70, "text": "y" * 70}, "bin": {"size": 3}}


def test_key_before_number(stoker, small):
    assert "key     12\n" in stoker("cat", "s.tar", "12").out
    assert "key     0\n" in stoker("cat", "s.tar", "0").out
    assert "key     a\n" in stoker("cat", "s.tar", "0", "--id").out
    assert "key     b/x\n" in stoker("cat", "s.tar", "1").out


def test_cat_field(stoker, small, tmp_path):
    raw = subprocess.run([CLI, "cat", small, "0", "jpg"], capture_output=True, check=True).stdout
    assert raw == jpeg(3, 40, 30)
    assert stoker("cat", "s.tar", "b/x", "bin", "-o", "x").out == ""
    assert (tmp_path / "x").read_bytes() == b"\0\1\2"


@pytest.mark.parametrize("kind", ["png", "ppm", "npy"])
def test_decoded(stoker, small, tmp_path, kind):
    done = stoker("cat", "s.tar", "0", "jpg", "--decode", kind, "-o", "x")
    assert (done.code, done.err) == (0, "")
    found = np.load(tmp_path / "x") if kind == "npy" else np.asarray(Image.open(tmp_path / "x"))
    assert np.array_equal(found, np.asarray(Image.open(io.BytesIO(jpeg(3, 40, 30)))))


def test_decoded_by_a_chain(stoker, small, tmp_path):
    large = write_tar(tmp_path / "l.tar", [("x.jpg", jpeg(1, 300, 200))])
    assert stoker("cat", large, "x", "jpg", "--decode", "png", "--chain", "image | center_crop(180)", "-o", "x").code == 0
    want = Image.open(io.BytesIO(jpeg(1, 300, 200))).crop((60, 10, 240, 190))
    assert np.array_equal(Image.open(tmp_path / "x"), want)      # more than one stored block
    assert stoker("cat", "s.tar", "a", "cls", "--decode", "npy", "--chain", "int", "-o", "x").code == 0
    assert np.load(tmp_path / "x") == 7


@pytest.mark.parametrize("args, line", [
    (["nope"], "no sample has the key 'nope'; 'stoker ls' lists them"),
    (["99"], "there is no sample 99: they are numbered 0 to 3"),
    (["a", "jpg"], "the sample has no field 'jpg': it has txt, cls"),
    (["a", "cls", "--decode", "gif"], '--decode is one of: png ppm npy, not "gif"'),
    (["a", "--decode", "png"], "--decode needs a field: stoker cat s.tar a FIELD --decode png"),
    (["a", "cls", "--decode", "png", "--chain", "int"],
     "this is not a picture of bytes (three channels of u8): end the chain with to(u8), or take --decode npy"),
])
def test_wrong_usage(stoker, small, tmp_path, args, line):
    fails(stoker("cat", "s.tar", *args, "-o", "x"), 2, line)
    assert not (tmp_path / "x").exists()
