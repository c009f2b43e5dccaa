# SPDX-License-Identifier: Apache-2.0
"""Answers that lie, objects that change, addresses that differ in their query, redirects, listings that repeat themselves."""
import collections
import hashlib
import itertools
import json
import pathlib
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import faults                                   # noqa: E402
from epochs import epoch                        # noqa: E402
from small_shards import EACH                   # noqa: E402
from test_cache import cli, objects             # noqa: E402

import stoker                                   # noqa: E402

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services
OLD, NEW = "Sun, 06 Nov 1994 08:49:37 GMT", "Mon, 07 Nov 1994 08:49:37 GMT"


def reply(status, *lines, body=b""):
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def asked(head, size):
    """First and last byte of a request."""
    line = next(x for x in head.lower().split(b"\r\n") if x.startswith(b"range: bytes="))
    first, last = (int(x) for x in line.split(b"=")[1].split(b"-"))
    return first, min(last, size - 1)


def part(shard, head, *lines):
    first, last = asked(head, len(shard))
    return reply("206 Partial Content", f"Content-Range: bytes {first}-{last}/{len(shard)}",
                 f"Content-Length: {last - first + 1}", *lines, body=shard[first:last + 1])


def chunked(data):
    return b"%x\r\n" % len(data) + data + b"\r\n0\r\n\r\n"


def lies(first, last, total):
    """Answers to a range, all with wrong bytes, whose headers can't all be true; or that are not the stored bytes."""
    n = last - first + 1
    range_, wrong = f"Content-Range: bytes {first}-{last}/{total}", b"\xff" * n
    coded = ("Transfer-Encoding: chunked", range_)
    return {
        "longer": reply("206 OK", range_, f"Content-Length: {n + 37}", body=wrong + b"x" * 37),
        "shorter": reply("206 OK", range_, f"Content-Length: {n // 2}", body=wrong[:n // 2]),
        "encoded": reply("206 OK", *coded, "Content-Encoding: gzip", body=chunked(wrong)),
        "more chunks": reply("206 OK", *coded, body=chunked(wrong + b"x")),
        "fewer chunks": reply("206 OK", *coded, body=chunked(wrong[:n // 2 + 1] if n > 1 else b"")),
        "multipart": reply("206 OK", range_, f"Content-Length: {n}", "Content-Type: multipart/byteranges; boundary=x", body=wrong),
        "two ranges": reply("206 OK", f"Content-Range: bytes 0-{n - 1}/{total}" if first else f"Content-Range: bytes 1-{n}/{total}",
                            range_, f"Content-Length: {n}", body=wrong),
        "past the end": reply("206 OK", f"Content-Range: bytes {first}-{last}/{last}", f"Content-Length: {n}", body=wrong),
        "no range": reply("206 OK", f"Content-Length: {n}", body=wrong),
        "a page": reply("200 OK", "Content-Type: text/html", f"Content-Length: {total}", body=b"\xff" * total),
        "416": reply("416 Range Not Satisfiable", "Content-Length: 0"),
    }


KINDS = list(lies(0, 9, 100))


@pytest.fixture(scope="module")
def shard(data):
    return (data / "t-000.tar").read_bytes()


@pytest.fixture(scope="module")
def local(data):
    return dict(epoch(data / "t-000.tar"))


def liar(shard):
    """/KIND/t.tar lies to each request in its way, and answers as it should when asked again."""
    seen = collections.Counter()

    def override(method, path, head):
        first, last = asked(head, len(shard))
        seen[path, first, last] += 1
        kind = path.split("/")[1].replace("%20", " ")
        if seen[path, first, last] % 2:
            return lies(first, last, len(shard))[kind].replace(b"\r\n\r\n", b"\r\nETag: \"v\"\r\n\r\n", 1)
        return part(shard, head, 'ETag: "v"')
    return override


@pytest.mark.parametrize("cached", [False, True])
def test_bytes_of_answers_that_lie_are_not_kept(shard, local, tmp_path, cached):
    with faults.Proxy(0) as proxy:
        proxy.override = liar(shard)
        urls = [f"http://127.0.0.1:{proxy.port}/{kind}/t.tar" for kind in KINDS]
        cache = str(tmp_path / "cache") if cached else ""

        def read():
            with stoker.Loader(urls, {"bin": "bytes"}, batch_size=16, store=stoker.Store(cache=cache)) as loader:
                return {(KINDS[int(i) // EACH], int(i) % EACH): hashlib.sha256(bytes(x)).hexdigest()
                        for batch in loader for i, x in zip(batch.sample_ids, batch["bin"], strict=True)}

        got = read()
        assert {k for k, i in got if got[k, i] != local[i]} == set() and len(got) == len(KINDS) * EACH
        if not cached:
            return
        assert "all good" in cli("cache", "verify", "--store-cache", cache)
        proxy.down = True
        assert read() == got            # from the disk
        proxy.down = False
        proxy.requests.clear()
        raw = bytearray(objects(cache)[3].read_bytes())
        raw[len(shard) // 2] ^= 1
        objects(cache)[3].write_bytes(raw)
        assert read() == got            # what no process uses is compared before it is used again
        assert 1 <= len(proxy.requests) <= 2, proxy.requests


def versions(shard):
    """What servers say of a file before and after it changed."""
    other, longer = shard[:600] + bytes(x ^ 1 for x in shard[600:]), shard + bytes(10240)
    return {
        "etag": ((shard, 'ETag: "a"'), (other, 'ETag: "b"')),
        "weak": ((shard, 'ETag: W/"a"'), (other, 'ETag: W/"b"')),
        "no etag any more": ((shard, 'ETag: "a"'), (other,)),
        "modified": ((shard, f"Last-Modified: {OLD}", f"Date: {NEW}"), (other, f"Last-Modified: {NEW}", f"Date: {NEW}")),
        "no time any more": ((shard, f"Last-Modified: {OLD}", f"Date: {NEW}"), (other,)),
        "size": ((shard,), (longer,)),
    }


def changes(cases, urls, proxy, store, hasty):
    """Read, change the files, read: the errors.  Side by side, since some ask until their time is over."""
    found = {}

    def read(name, ds):
        try:
            if "any more" in name:      # by the index, which has the version
                ds = stoker.open(urls[name], store=hasty)
            found[name] = hashlib.sha256(bytes(ds[EACH - 1]["bin"])).hexdigest()
        except stoker.StokerError as e:
            found[name] = str(e)

    opened = {}
    for name in cases:
        opened[name] = stoker.open(urls[name], store=store)
        assert bytes(opened[name][0]["cls"]) == b"0"
    proxy.turn = 1
    threads = [threading.Thread(target=read, args=x) for x in opened.items()]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return found


@pytest.mark.parametrize("scheme", ["http", "s3", "gs", "hf"])
def test_a_file_that_changes_is_an_error(shard, scheme, monkeypatch):
    cases = versions(shard)
    with faults.Proxy(0) as proxy:
        proxy.turn = 0

        def override(method, path, head):
            name = path.rpartition("/")[2].replace("%20", " ").removesuffix(".tar")
            if name not in cases:       # an index that someone put beside the data
                return reply("404 Not Found", "Content-Length: 0")
            data, *lines = cases[name][proxy.turn]
            return part(data, head, *lines)

        proxy.override = override
        here = f"http://127.0.0.1:{proxy.port}"
        monkeypatch.setenv("HF_ENDPOINT", here)
        root = {"http": here + "/x", "hf": "hf://datasets/o/n"}.get(scheme, f"{scheme}://bucket")
        more = {"anonymous": True, **({} if scheme in ("http", "hf") else {"endpoint": here})}
        found = changes(cases, {name: f"{root}/{name}.tar" for name in cases}, proxy, stoker.Store(**more),
                        stoker.Store(timeout=1, **more))
        assert {name for name, what in found.items() if "indexed" not in what and "says no version" not in what} == set(), found


def test_a_server_that_names_no_version(shard, local):
    """Nothing but sizes can be compared: it is read."""
    with faults.Proxy(0) as proxy:
        proxy.override = lambda method, path, head: part(shard, head)
        assert dict(epoch(f"http://127.0.0.1:{proxy.port}/t.tar")) == local


def test_one_416_is_not_the_end(shard):
    with faults.Proxy(0) as proxy:
        count = itertools.count()
        proxy.override = lambda method, path, head: (part(shard, head, 'ETag: "v"') if next(count) % 2 else
                                                     reply("416 No", "Content-Length: 0"))
        assert len(stoker.open(f"http://127.0.0.1:{proxy.port}/t.tar")) == EACH


# ---- addresses ----

def test_addresses_that_differ_in_their_query(data, tmp_path):
    shards = {f"id={k}": (data / f"t-00{k}.tar").read_bytes() for k in range(2)}
    with faults.Proxy(0) as proxy:
        def override(method, path, head):
            query = [x for x in path.partition("?")[2].split("&") if x.startswith("id=")]
            return part(shards[query[0]], head, 'ETag: "same"')
        proxy.override = override
        base = f"http://127.0.0.1:{proxy.port}/a/get.tar"
        store = stoker.Store(cache=tmp_path / "cache")
        ds = stoker.open([f"{base}?id=0", f"{base}?id=1&secret=hush"], store=store)
        assert [ds[i]["__key__"] for i in (0, EACH)] == ["000000", f"{EACH:06}"] and len(ds) == 2 * EACH
        names = ds.shards
        assert len(set(names)) == 2 and all(n.startswith(base.removesuffix("get.tar")) and n.endswith("~get.tar") for n in names)
        assert not any("hush" in n for n in [*names, ds[EACH]["__url__"]])
        assert len(objects(tmp_path / "cache")) == 2
        proxy.requests.clear()                          # a name that was shown is the file, here
        assert stoker.open(names, store=store)[EACH]["__key__"] == f"{EACH:06}" and not proxy.requests
        # Signatures are not a part of the name: the index that is there is found.
        signed = [f"{base}?id=0&X-Amz-Date={d}&X-Amz-Signature={d}" for d in "12"] + [f"{base}?Expires=1&id=0&Signature=s"]
        assert stoker.open(f"{base}?id=0", store=store).shards == names[:1]
        proxy.requests.clear()
        assert {stoker.open(url, store=store).shards[0] for url in signed} == {names[0]} and not proxy.requests
        done = subprocess.run([sys.executable, "-c", "import sys; sys.modules['torch'] = None; import stoker; stoker.open(sys.argv[1])[0]",
                               names[0]], capture_output=True, text=True, timeout=120)
        assert "shown without its query" in done.stderr


def test_where_relative_redirects_lead(data):
    right, wrong = (data / "t-000.tar").read_bytes(), (data / "t-001.tar").read_bytes()
    with faults.Proxy(0) as first, faults.Proxy(0) as second:
        steps = {"/dir/a": "b?x=1", "/dir/b?x=1": "../other/c", "/other/c": "/d"}
        first.override = lambda method, path, head: (
            reply("302 Found", f"Location: http://127.0.0.1:{second.port}/dir/a", "Content-Length: 0") if path == "/t.tar"
            else part(wrong, head, 'ETag: "w"'))
        second.override = lambda method, path, head: (
            reply("302 Found", f"Location: {steps[path]}", "Content-Length: 0") if path in steps
            else part(right, head, 'ETag: "r"'))
        ds = stoker.open(f"http://127.0.0.1:{first.port}/t.tar")
        assert ds[0]["__key__"] == "000000" and {path for _, path in first.requests} == {"/t.tar"}
        assert "/d" in {path for _, path in second.requests}


@pytest.mark.parametrize("scheme", ["HTTP", "Http", "S3", "GS"])
def test_a_scheme_in_capitals_is_a_scheme(tmp_path, monkeypatch, scheme):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(stoker.StokerError, match="can't write to"):
        stoker.Writer(f"{scheme}://host/w-%03d.tar")
    assert list(tmp_path.iterdir()) == []


def test_a_scheme_in_capitals_is_read(web):
    assert stoker.open(f"HTTP://127.0.0.1:{web[0]}/t-000.tar").shards == [f"http://127.0.0.1:{web[0]}/t-000.tar"]


# ---- listings ----

def page(keys, token=None):
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    rows = "".join(f"<Contents><Key>{k}</Key><Size>1</Size><ETag>x</ETag></Contents>" for k in keys)
    body = f"<ListBucketResult>{more}{rows}</ListBucketResult>".encode()
    return reply("200 OK", "Content-Type: application/xml", f"Content-Length: {len(body)}", body=body)


def test_keys_that_are_listed_twice_are_one_file(shard):
    with faults.Proxy(0) as proxy:
        pages = {"": page(["a.tar", "a.tar", "b.tar"], "t"), "t": page(["a.tar", "b.tar"])}
        proxy.override = lambda method, path, head: (pages[path.partition("continuation-token=")[2]] if "list-type" in path
                                                     else part(shard, head, 'ETag: "x"'))
        store = stoker.Store(endpoint=f"http://127.0.0.1:{proxy.port}", anonymous=True)
        for pattern in ("s3://bucket/*.tar", "s3://bucket/"):
            assert stoker.open(pattern, store=store).shards == ["s3://bucket/a.tar", "s3://bucket/b.tar"]


@pytest.mark.parametrize("scheme", ["s3", "hf"])
@pytest.mark.parametrize("tokens", ["aaa", "abcabc", "abcdebcde"])
def test_listings_that_go_round_end(scheme, tokens, monkeypatch):
    turns = itertools.count()

    def override(method, path, head):
        k = next(turns)
        token = tokens[k] if k < len(tokens) else tokens[k % (len(set(tokens)) - (scheme == "x")) or -1]
        if scheme == "s3":
            return page([f"{k}.tar"], token)
        body = json.dumps([{"type": "file", "path": f"{k}.tar", "size": 1, "oid": "v"}]).encode()
        return reply("200 OK", f'Link: <http://h/x?cursor={token}>; rel="next"', f"Content-Length: {len(body)}", body=body)

    with faults.Proxy(0) as proxy:
        proxy.override = override
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{proxy.port}")
        store = stoker.Store(endpoint=f"http://127.0.0.1:{proxy.port}", anonymous=True)
        with pytest.raises(stoker.StokerError, match="listing repeats itself"):
            stoker.open("s3://bucket/*.tar" if scheme == "s3" else "hf://datasets/o/n/*.tar", store=store)
        assert len(proxy.requests) < 40


def test_a_long_listing_of_the_hub(shard, monkeypatch):
    files = [{"type": "file", "path": f"d/{k:05}.txt", "size": 1, "oid": "v"} for k in range(20000)]
    body = json.dumps([*files, {"type": "file", "path": "d/a.tar", "size": len(shard), "oid": "v"}]).encode()
    with faults.Proxy(0) as proxy:
        proxy.override = lambda method, path, head: (reply("200 OK", f"Content-Length: {len(body)}", body=body)
                                                     if "/tree/" in path else part(shard, head, 'ETag: "v"'))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{proxy.port}")
        start = time.process_time()
        assert stoker.open("hf://datasets/o/n/d/*.tar").shards == ["hf://datasets/o/n/d/a.tar"]
        assert time.process_time() - start < 10         # it was a minute


def test_a_megabyte_of_headers(shard):
    with faults.Proxy(0) as proxy:
        proxy.override = lambda method, path, head: reply("206 OK", *(f"X-{i}: {'y' * 1000}" for i in range(1000)))
        with pytest.raises(stoker.StokerError, match="more than 128 KB of headers.*without progress"):
            stoker.open(f"http://127.0.0.1:{proxy.port}/t.tar", store=stoker.Store(timeout=1))
