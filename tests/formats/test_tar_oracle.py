# SPDX-License-Identifier: Apache-2.0
"""Tar shards from three writers, read by WebDataset and by us: same samples, same fields, same bytes."""
import io
import json
import os
import pathlib
import random
import shutil
import subprocess
import tarfile

import pytest

wds = pytest.importorskip("webdataset")
from webdataset import tariterators  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("STOKER_BUILD", ROOT / "build"))
DUMP = BUILD / "tests" / "formats" / "tar_dump"

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "pax": tarfile.PAX_FORMAT, "gnu": tarfile.GNU_FORMAT}

NAMES = [
    "a.jpg", "a.cls", "b.seg.png", "b.JSON", "dir.v1/a.jpg", "dir/a", "a.b/c", ".hidden", "./.x", "./c.txt",
    "dir/.hidden", "x//.a", "/abs.txt", "a.", "a..jpg", "__index__.json", "__meta__", "__dir__/a.jpg", "x/__y__", "____",
    "___", "___/a.jpg", "été.txt", "été.CLS", "日本/写真.jpg", "with space.txt", "q'\"\\.txt", "new\nline.txt", "x.1/\ny/b.c",
    "x\n.1/b.c", "tail.c\n", "__x__\n", "deep/" * 30 + "er.jpg", "n" * 96 + ".jpg", "n" * 97 + ".jpg", "d" * 90 + "/" + "f" * 95 + ".png",
    "z.tar.gz", "ÀÉ.Txt", "-dash.txt", "end.__bad__", "{brace}.txt", "*.txt",
]


def ours(path):
    p = subprocess.run([DUMP, path], capture_output=True, timeout=60)
    if p.returncode:
        raise ValueError(p.stderr.decode(errors="replace").strip())
    raw = pathlib.Path(path).read_bytes()
    out = []
    for line in p.stdout.splitlines():
        s = json.loads(line)
        fields = [(bytes.fromhex(n), raw[o:o + size]) for n, o, size in s["fields"]]
        assert all(o + size <= len(raw) for _, o, size in s["fields"])
        out.append((bytes.fromhex(s["key"]), s["offset"], fields))
    return out


def theirs(path):
    with open(path, "rb") as stream:
        files = tariterators.tar_file_expander([{"url": str(path), "stream": stream}])
        out = []
        for s in tariterators.group_by_keys(files):
            fields = [(os.fsencode(k), v) for k, v in s.items() if k not in ("__key__", "__url__")]
            out.append((os.fsencode(s["__key__"]), fields))
        return out


def first_headers(path):
    """Offset of every member with all its extension headers, as tarfile sees it."""
    with tarfile.open(path) as t:
        return {m.offset for m in t}


def check(path):
    got, want = ours(path), theirs(path)
    assert [(k, f) for k, _, f in got] == want
    assert {o for _, o, _ in got} <= first_headers(path)
    return want


def write(path, members, **kw):
    with tarfile.open(path, "w", **kw) as t:
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))


def members(names, rng):
    return [(n, rng.randbytes(rng.choice([0, 1, 511, 512, 513, 1000, 5000]))) for n in names]


@pytest.mark.parametrize("form", FORMATS)
def test_odd_names(tmp_path, form):
    rng = random.Random(1)
    names = [n for n in NAMES if form != "ustar" or len(n.encode()) < 100]
    write(tmp_path / "t.tar", members(names, rng), format=FORMATS[form])
    assert len(check(tmp_path / "t.tar")) > 20


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", NAMES)
def test_each_name_alone(tmp_path, form, name):
    if form == "ustar" and len(name.encode()) > 100:
        name = name[-255:]
    path = tmp_path / "t.tar"
    try:
        write(path, [(name, b"abc")], format=FORMATS[form])
    except ValueError:
        pytest.skip("ustar has no room for this name")
    check(path)


@pytest.mark.parametrize("seed", range(40))
def test_random_names(tmp_path, seed):
    rng = random.Random(seed)
    print("seed", seed)
    names = ["".join(rng.choices("ab./_A\n", [4, 4, 4, 3, 2, 2, 0.3], k=rng.randint(1, 12))) for _ in range(60)]
    names = list(dict.fromkeys(names))
    form = rng.choice(list(FORMATS.values()))
    path = tmp_path / "t.tar"
    good = []
    for m in members(names, rng):       # leave out what WebDataset itself refuses
        write(path, good + [m], format=form)
        try:
            theirs(path)
        except ValueError:
            with pytest.raises(ValueError, match="ECORRUPT"):
                ours(path)
            continue
        good.append(m)
    write(path, good, format=form)
    check(path)


def test_webdataset_writer(tmp_path):
    path = tmp_path / "w.tar"
    rng = random.Random(3)
    with wds.TarWriter(str(path)) as w:
        for i in range(50):
            w.write({"__key__": f"sub/{i:06d}", "jpg": rng.randbytes(rng.randint(0, 5000)), "cls": i, "json": {"i": i},
                     "Seg.PNG": b"x"})
    got = check(path)
    assert len(got) == 50 and [n for n, _ in got[0][1]] == [b"seg.png", b"cls", b"jpg", b"json"]
    with tarfile.open(path) as t:
        assert any(m.pax_headers for m in t)


def gnu_tree(folder):
    (folder / "deep" / ("d" * 80) / ("e" * 80)).mkdir(parents=True)
    for name in ("a.jpg", "a.cls", "deep/b.jpg", f"deep/{'d' * 80}/{'e' * 80}/c.txt", ".hidden", "deep/.h", "empty.bin", "é.txt"):
        (folder / name).write_bytes(b"" if name == "empty.bin" else name.encode() * 100)
    os.symlink("a.jpg", folder / "a.lnk")
    os.link(folder / "a.jpg", folder / "b.jpg")
    os.mkfifo(folder / "a.fifo")


@pytest.mark.skipif(not shutil.which("tar"), reason="no tar")
@pytest.mark.parametrize("form", ["v7", "oldgnu", "gnu", "ustar", "pax"])
@pytest.mark.parametrize("more", [[], ["--sort=name"], ["--sort=name", "--transform=s,^\\./,,"]])
def test_gnu_tar(tmp_path, form, more):
    src = tmp_path / "src"
    gnu_tree(src)
    path = tmp_path / "g.tar"
    p = subprocess.run(["tar", f"--format={form}", *more, "-cf", path, "."], cwd=src, capture_output=True)
    assert p.returncode == 0 or form in ("v7", "ustar")       # names too long for these are left out, with a complaint
    assert len(check(path)) >= 3


def test_gnu_incremental(tmp_path):
    """GNU headers keep times where ustar has the prefix; tarfile takes them for a name, tar itself does not."""
    src = tmp_path / "src"
    src.mkdir()
    (src / "a.jpg").write_bytes(b"1")
    path = tmp_path / "i.tar"
    subprocess.run(["tar", "--format=gnu", "-g", tmp_path / "snap", "-cf", path, "a.jpg"], cwd=src, check=True)
    assert [(k, f) for k, _, f in ours(path)] == [(b"a", [(b"jpg", b"1")])]


def test_sparse_is_refused(tmp_path):
    with open(tmp_path / "s.bin", "wb") as f:
        f.seek(1 << 20)
        f.write(b"end")
    for form in ("gnu", "pax"):
        path = tmp_path / f"{form}.tar"
        subprocess.run(["tar", f"--format={form}", "-S", "-cf", path, "s.bin"], cwd=tmp_path, check=True)
        with pytest.raises(ValueError, match="ENOTSUP.*s.bin.*sparse.*offset"):
            ours(path)


@pytest.mark.parametrize("mode,word", [("w:gz", "gzip"), ("w:bz2", "bzip2"), ("w:xz", "xz")])
def test_compressed_is_refused(tmp_path, mode, word):
    path = tmp_path / "t.tgz"
    with tarfile.open(path, mode) as t:
        t.addfile(tarfile.TarInfo("a.jpg"))
    with pytest.raises(ValueError, match=f"is {word}-compressed"):
        ours(path)


def test_duplicate_field(tmp_path):
    path = tmp_path / "d.tar"
    write(path, [("k.jpg", b"1"), ("k.JPG", b"2")])
    with pytest.raises(ValueError):
        theirs(path)
    with pytest.raises(ValueError, match='ECORRUPT field "jpg" of key "k" comes twice'):
        ours(path)


def test_global_header(tmp_path):
    path = tmp_path / "g.tar"
    write(path, [("a.jpg", b"1"), ("b.jpg", b"22")], format=tarfile.PAX_FORMAT, pax_headers={"comment": "é" * 300})
    assert len(check(path)) == 2


def test_empty_and_missing(tmp_path):
    for name, data in (("one", bytes(512)), ("ten", bytes(10240))):
        (tmp_path / name).write_bytes(data)
        assert ours(tmp_path / name) == []
    (tmp_path / "zero").write_bytes(b"")        # webdataset reads no samples; we say that something is missing
    with pytest.raises(ValueError, match="ECORRUPT the shard is empty"):
        ours(tmp_path / "zero")
    with pytest.raises(ValueError, match="ENOTFOUND no such file"):
        ours(tmp_path / "none")


def test_truncation_everywhere(tmp_path):
    """Cut at every 64th byte: an error with an offset, or (at a member's end, or behind the last) a shorter shard."""
    rng = random.Random(5)
    whole, cut = tmp_path / "w.tar", tmp_path / "c.tar"
    write(whole, members(["a.jpg", "b" * 120 + ".cls", "c.x"], rng), format=tarfile.PAX_FORMAT)
    raw, samples = whole.read_bytes(), theirs(whole)
    with tarfile.open(whole) as t:
        end = max(m.offset_data + (m.size + 511) // 512 * 512 for m in t)
    for n in range(0, len(raw), 64):
        cut.write_bytes(raw[:n])
        try:
            got = [(k, f) for k, _, f in ours(cut)]
        except ValueError as e:
            assert "ECORRUPT" in str(e) and "offset" in str(e)
        else:
            assert (n % 512 == 0 or n > end + 512) and got == samples[:len(got)]
            assert n < end or got == samples
