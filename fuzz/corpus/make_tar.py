#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make corpus/tar: small tar files, sound and broken.  Same bytes every time."""
import io
import pathlib
import tarfile

HERE = pathlib.Path(__file__).parent / "tar"


def header(name=b"a.jpg", kind=b"0", size=b"%011o" % 0, magic=b"ustar\x0000", prefix=b""):
    h = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + size.ljust(12, b"\0") + b"0" * 11 + b"\0"
    h += b" " * 8 + kind + b"\0" * 100 + magic + b"\0" * 80 + prefix.ljust(155, b"\0") + b"\0" * 12
    assert len(h) == 512
    return h[:148] + b"%06o\0 " % sum(h) + h[156:]


def member(name, data=b"", kind=b"0", **kw):
    return header(name, kind, b"%011o" % len(data), **kw) + data + bytes(-len(data) % 512)


def by_tarfile(names, form, **kw):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form, **kw) as t:
        for i, name in enumerate(names):
            info = tarfile.TarInfo(name)
            info.size = i * 7
            info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            t.addfile(info, io.BytesIO(bytes(info.size)))
    return out.getvalue()[:15000].rstrip(b"\0") + bytes(1024)


def whole_blocks(data):
    return data + bytes(-len(data) % 512)


def seeds():
    names = ["a.jpg", "a.cls", "d/", "d/b.seg.png", "d/.hidden", "__m__", "n" * 120 + ".txt"]
    for label, form in (("pax", tarfile.PAX_FORMAT), ("gnu", tarfile.GNU_FORMAT)):
        yield label, whole_blocks(by_tarfile(names, form))
    yield "ustar", whole_blocks(by_tarfile(names[:-1], tarfile.USTAR_FORMAT))
    yield "global", whole_blocks(by_tarfile(names[:2], tarfile.PAX_FORMAT, pax_headers={"comment": "c", "size": "7"}))
    yield "empty", b""
    yield "zeros", bytes(1024)
    yield "prefix", member(b"b.jpg", prefix=b"p" * 155) + member(b"x" * 100, prefix=b"q")
    yield "v7", member(b"a.jpg", b"1", kind=b"\0", magic=bytes(8)) + member(b"d/", kind=b"\0", magic=bytes(8))
    yield "base256", header(size=b"\x80" + bytes(10) + b"\5") + bytes(512)
    yield "negative", header(size=b"\xff" * 12)
    yield "huge", header(size=b"\x80" + b"\x7f" * 11)
    yield "octal_junk", header(size=b"12x4")
    yield "past_end", header(size=b"%011o" % 5000) + bytes(512)
    yield "checksum", member(b"a.jpg", b"1")[:-1024] + b"\1" + member(b"b.jpg")[1:]
    yield "cut_header", member(b"a.jpg", b"1") + member(b"b.jpg")[:300]
    yield "cut_padding", member(b"a.jpg", b"1")[:700]
    yield "twice", member(b"k.jpg", b"1") + member(b"k.JPG", b"2")
    yield "reserved", member(b"k.__key__", b"1")
    yield "bad_mark", member(b"k.jpg", b"1") + member(b"k.__bad__", b"1")
    yield "lone_zero", member(b"a.jpg", b"1") + bytes(512) + member(b"b.jpg")
    yield "sparse", member(b"s.bin", kind=b"S")
    yield "pax_sparse", member(b"p", b"22 GNU.sparse.major=1\n", kind=b"x") + member(b"s.bin", b"1")
    yield "pax_size", member(b"p", b"9 size=3\n", kind=b"x") + header() + bytes(512)
    yield "pax_path", member(b"p", b"13 path=x/y/\n12 path=a.b\n", kind=b"x") + member(b"q.c", b"1")
    yield "pax_torn", member(b"p", b"99 path=a\n", kind=b"x") + member(b"q.c")
    yield "pax_nul", member(b"p", b"12 path=a\0b\n", kind=b"x") + member(b"q.c")
    yield "pax_alone", member(b"p", b"12 path=a.b\n", kind=b"x")
    yield "long_name", member(b"L", b"l" * 300 + b".jpg\0", kind=b"L") + member(b"l", b"1")
    yield "long_link", member(b"K", b"k" * 300, kind=b"K") + member(b"k.jpg", kind=b"2")
    yield "many", b"".join(member(b"k.%d" % i) for i in range(25))
    yield "gzip", b"\x1f\x8b\x08\0" + bytes(range(256))
    yield "text", b"this is no tar file\n" * 40


def main():
    HERE.mkdir(exist_ok=True)
    for name, data in seeds():
        assert len(data) <= 15000, name
        (HERE / name).write_bytes(data)


if __name__ == "__main__":
    main()
