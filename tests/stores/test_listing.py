# SPDX-License-Identifier: Apache-2.0
"""What is listed: pages of S3 and of the Hub, folder markers, a listing that is denied; revisions of the Hub."""
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import faults                                   # noqa: E402
from small_shards import EACH, SHARDS           # noqa: E402

import stoker                                   # noqa: E402

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services
NAMES = [f"t-{k:03}.tar" for k in range(SHARDS)]


def answer(body, *more, status=b"200 OK", kind=b"application/xml"):
    head = [b"HTTP/1.1 " + status, b"Content-Type: " + kind, b"Content-Length: %d" % len(body), *more]
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def page(keys, token=None):
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    rows = "".join(f"<Contents><Key>{k}</Key><Size>1</Size><ETag>x</ETag></Contents>" for k in keys)
    return answer(f"<ListBucketResult>{more}{rows}</ListBucketResult>".encode())


@pytest.fixture
def bucket(web, data):
    """s3://big is the folder of that name of the web server, listed as `proxy.override` has it."""
    with faults.Proxy(web[0]) as proxy:
        proxy.store = stoker.Store(endpoint=f"http://127.0.0.1:{proxy.port}", anonymous=True)
        yield proxy


def test_pages_and_markers_of_a_bucket(bucket):
    pages = {"": page(["", "sub/", NAMES[0]], "a+b/c="), "a%2Bb%2Fc%3D": page([NAMES[1], "sub/x.tar"], "2"), "2": page([NAMES[2]])}

    def listing(method, path, head):
        if "list-type" not in path:
            return None
        return pages[path.partition("continuation-token=")[2]]
    bucket.override = listing
    wanted = [f"s3://big/{name}" for name in NAMES]
    for pattern in ("s3://big/t-*.tar", "s3://big/*", "s3://big/"):
        assert stoker.open(pattern, store=bucket.store).shards == wanted


def test_a_listing_that_is_denied(bucket):
    denied = answer(b"<Error><Code>AccessDenied</Code></Error>", status=b"403 Forbidden")
    bucket.override = lambda method, path, head: denied if "list-type" in path else None
    assert len(stoker.open("s3://big/t-{000..002}.tar", store=bucket.store)) == SHARDS * EACH
    for pattern in ("s3://big/t-*.tar", "s3://big/"):
        with pytest.raises(stoker.StokerError, match=r"can't be listed .*AccessDenied.*write the names out"):
            stoker.open(pattern, store=bucket.store)


@pytest.mark.parametrize("url", ["s3://big", "gs://big"])
def test_a_bucket_is_not_a_file(bucket, url):
    with pytest.raises(stoker.StokerError, match="that is a bucket"):
        stoker.open(url, store=bucket.store)
    assert not bucket.requests


REVISIONS = {"": "main", "@v1.0": "v1.0", "@refs/pr/1": "refs%2Fpr%2F1", "@refs%2Fpr%2F1": "refs%2Fpr%2F1",
             "@refs/convert/parquet": "refs%2Fconvert%2Fparquet", "@a%2Fb": "a%2Fb", "@100%": "100%25"}


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_hub_lists_all_pages_of_a_revision(web, data, monkeypatch, revision):
    """A page has a part of the files, and a link to the next one."""
    for folder in ("refs/pr/1", "refs/convert/parquet", "main", "v1.0", "a/b", "100%"):
        home = data / "datasets" / "org" / "name" / "resolve" / folder
        home.mkdir(parents=True, exist_ok=True)
        if not (home / "d").exists():
            (home / "d").symlink_to(data / "big")
    tree = f"/api/datasets/org/name/tree/{REVISIONS[revision]}/d?recursive=true"
    asked = []
    with faults.Proxy(web[0]) as hub:
        def listing(method, path, head):
            if "/tree/" not in path:
                return None
            asked.append(path)
            k = int(path.partition("&cursor=")[2] or 0)
            files = [{"type": "directory", "path": "d/x", "size": 0, "oid": "y"},
                     {"type": "file", "path": f"d/{NAMES[k]}", "size": 1, "oid": f"v{k}"}]
            more = [b'Link: <https://elsewhere/x?recursive=true>; rel="first", <http://h:1%s&cursor=%d>; rel="next"' % (
                tree.encode(), k + 1)] if k + 1 < SHARDS else []
            return answer(json.dumps(files).encode(), *more, kind=b"application/json")
        hub.override = listing
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{hub.port}")
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        ds = stoker.open(f"hf://datasets/org/name{revision}/d/*.tar")
        assert ds.shards == [f"hf://datasets/org/name{revision}/d/{name}" for name in NAMES]
        assert len(ds) == SHARDS * EACH and bytes(ds[3]["cls"]) == b"3"
    assert asked == [tree, tree + "&cursor=1", tree + "&cursor=2"]


@pytest.mark.parametrize("length", [1500, 5000])
def test_a_page_without_a_way_to_the_next_is_an_error(web, monkeypatch, length):
    with faults.Proxy(web[0]) as hub:
        files = json.dumps([{"type": "file", "path": "t-000.tar", "size": 1, "oid": "v"}]).encode()
        long = b'Link: <http://h/x?cursor=' + b"c" * length + b'>; rel="next"'
        hub.override = lambda method, path, head: answer(files, long, kind=b"application/json") if "/tree/" in path else None
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{hub.port}")
        with pytest.raises(stoker.StokerError, match="goes on without saying how"):
            stoker.open("hf://datasets/org/name/*.tar")
