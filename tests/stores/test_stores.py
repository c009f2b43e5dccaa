# SPDX-License-Identifier: Apache-2.0
"""Remote data against real servers (Swift's S3 API, nginx with TLS) and a proxy that breaks things."""
import collections
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import faults                                   # noqa: E402
from small_shards import EACH, SHARDS           # noqa: E402

import stoker                                   # noqa: E402

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services
FIELDS = {"bin": "bytes", "cls": "int"}


CHILD = "import sys, stoker; print(len(stoker.open(sys.argv[1])))"


def child(url, **env):
    return subprocess.run([sys.executable, "-c", CHILD, str(url)], capture_output=True, text=True, timeout=180,
                          env={**os.environ, **env})


def epoch(url, store=None):
    loader = stoker.Loader(str(url), FIELDS, batch_size=8, shuffle=True, seed=3, num_workers=2, store=store)
    return [(int(i), hashlib.sha256(bytes(x)).hexdigest())
            for batch in loader for i, x in zip(batch.sample_ids, batch["bin"], strict=True)]


KEYS = {"access_key": "test:tester", "secret_key": "testing"}


def store_at(port, **more):
    return stoker.Store(endpoint=f"http://127.0.0.1:{port}", **{"credentials": KEYS, **more})


@pytest.fixture(scope="module")
def local(data):
    out = epoch(f"{data}/t-*.tar")
    assert sorted(i for i, _ in out) == list(range(SHARDS * EACH))
    return out


def test_s3_gives_what_local_files_give(swift, local):
    store = store_at(swift.port)
    assert epoch("s3://data/train/t-{000..002}.tar", store) == local
    assert epoch("s3://data/train/t-*.tar", store) == local
    assert [s.rsplit("/", 1)[1] for s in stoker.open("s3://data/train/", store=store).shards] == [
        f"t-{i:03}.tar" for i in range(SHARDS)]
    with pytest.raises(stoker.StokerError, match="nothing matches"):
        stoker.open("s3://data/train/x-*.tar", store=store)
    with pytest.raises(stoker.StokerError, match="no such"):
        stoker.open("s3://nobucket/x.tar", store=store)


def test_http_and_tls(web, local):
    port, tls, cert = web
    assert epoch(f"http://127.0.0.1:{port}/t-{{000..002}}.tar") == local
    done = child(f"https://127.0.0.1:{tls}/t-000.tar")
    assert done.returncode != 0 and "certificate" in done.stderr     # verified unless one says otherwise
    done = child(f"https://127.0.0.1:{tls}/t-000.tar", SSL_CERT_FILE=str(cert))
    assert done.stdout == f"{EACH}\n", done.stderr


def test_keys_of_any_characters(swift, data):
    name = "odd/a key=1&x?y#z %25+\u00fc'(1)~.tar"
    swift.put("data", name, (data / "t-000.tar").read_bytes())
    ds = stoker.open("s3://data/" + name.replace("?", "[?]"), store=store_at(swift.port))
    assert len(ds) == EACH and bytes(ds[3]["cls"]) == b"3"


@pytest.mark.parametrize("seed", [1, 2])
def test_faults_lose_and_change_nothing(web, local, seed, monkeypatch):
    monkeypatch.setenv("STOKER_STORE_STALL", "1")
    wanted = int(os.environ.get("STOKER_FAULTS", "50")) // 2
    with faults.Proxy(web[0], seed=seed, rate=0.3 if wanted < 100 else 0.8, limit=wanted) as proxy:
        print("seed", seed)
        assert epoch(f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar") == local
        assert proxy.injected() >= wanted * 3 // 5, proxy.count


def test_an_error_page_is_not_a_file(web, local):
    """Some answers are pages that say 200 and what failed: also the first, which tells how large a shard is."""
    page = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(faults.ERROR) + faults.ERROR
    turns = collections.defaultdict(lambda: itertools.count(1))
    with faults.Proxy(web[0]) as proxy:
        proxy.override = lambda method, path, head: page if path.endswith(".tar") and next(turns[path]) in (1, 3, 4, 6) else None
        assert epoch(f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar") == local


def test_faults_between_us_and_s3(swift, local):
    with faults.Proxy(swift.port, seed=5, rate=0.2, limit=15) as proxy:
        proxy.faults = tuple(f for f in faults.FAULTS if f != "redirect")
        assert epoch("s3://data/train/t-*.tar", store_at(proxy.port)) == local
        assert proxy.injected() >= 10, proxy.count


def test_a_server_that_is_away_for_a_while(web, local):
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar"
        stoker.open(url)
        proxy.down = True
        proxy._loop.call_soon_threadsafe(proxy._loop.call_later, 3, lambda: setattr(proxy, "down", False))
        assert epoch(url) == local


def test_opening_with_an_index_asks_nothing(web):
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar"
        stoker.open(url)
        proxy.requests.clear()
        ds = stoker.open(url)
        assert proxy.requests == []
        assert bytes(ds[50]["cls"]) == b"0"
        assert len(proxy.requests) == 1


def content(url):
    with stoker.Loader(str(url), FIELDS, batch_size=4) as loader:
        return loader._core.print()[4]


def test_indexing_asks_for_large_pieces(web, data):
    with faults.Proxy(web[0]) as proxy:
        for name, most in (("t-000.tar", 6), ("big/t-000.tar", 22)):        # at most two per 8 MiB, and 16 samples
            proxy.requests.clear()
            url = f"http://127.0.0.1:{proxy.port}/{name}"
            stoker.open(url)
            assert len(proxy.requests) <= most, proxy.sizes
            assert content(url) == content(data / name)         # a copy elsewhere has the same


def test_places_of_a_fingerprint_are_asked_for_at_once(web, data, monkeypatch):
    """Answers wait until all 8 ranges of the 16 samples are asked for: one after another they would never be."""
    monkeypatch.setenv("STOKER_STORE_STALL", "600")
    with faults.Proxy(web[0]) as proxy:
        proxy.gather, proxy.gathers = 8, lambda size: 2000 < size < 1 << 20
        url = f"http://127.0.0.1:{proxy.port}/big/t-000.tar"
        stoker.open(url)
        assert proxy.peak == 8, proxy.sizes
        assert content(url) == content(data / "big/t-000.tar")


def test_requests_before_the_first_sample(swift, web, data, tmp_path, monkeypatch):
    def before_the_first(proxy, url, store=None):
        proxy.requests.clear()
        with stoker.Loader(url, FIELDS, batch_size=4, num_workers=1, store=store) as loader:
            next(iter(loader))
        return next(i for i, (_, path) in enumerate(proxy.requests) if path.endswith(".tar"))

    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar"
        stoker.open(url)
        assert before_the_first(proxy, url) == 0            # by the index
    for path in sorted(data.glob("*.tar")):
        swift.put("data", f"first/{path.name}", path.read_bytes())
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_key"])
    command = shutil.which("stoker") or str(pathlib.Path(stoker.__file__).parent / "stoker-cli")
    subprocess.run([command, "index", "s3://data/first/t-*.tar"], check=True, timeout=120, stdout=subprocess.DEVNULL,
                   env={**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{swift.port}"})
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "another host"))
    with faults.Proxy(swift.port) as proxy:
        assert before_the_first(proxy, "s3://data/first/t-*.tar", store_at(proxy.port)) <= 4
        assert before_the_first(proxy, "s3://data/first/t-*.tar", store_at(proxy.port)) <= 1      # a listing
        assert before_the_first(proxy, "s3://data/first/t-{000..002}.tar", store_at(proxy.port)) == 0


def open_as_ranks(proxy, tmp_path, cache, n):
    """Paths that n processes ask for together to open a published data set by a glob."""
    proxy.requests.clear()
    command = shutil.which("stoker") or str(pathlib.Path(stoker.__file__).parent / "stoker-cli")
    env = {**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}", "STOKER_CACHE": str(tmp_path / cache)}
    ranks = [subprocess.Popen([command, "ls", "s3://data/ranks/t-*.tar"], stdout=subprocess.PIPE,
                              env={**env, "LOCAL_RANK": str(i)}) for i in range(n)]
    for rank in ranks:
        assert rank.communicate(timeout=180)[0].count(b"\n") == SHARDS * EACH and rank.returncode == 0
    return [path for _, path in proxy.requests]


def test_local_ranks_ask_once(swift, data, tmp_path, monkeypatch):
    for path in sorted(data.glob("*.tar")):
        swift.put("data", f"ranks/{path.name}", path.read_bytes())
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_key"])
    with faults.Proxy(swift.port) as proxy:
        command = shutil.which("stoker") or str(pathlib.Path(stoker.__file__).parent / "stoker-cli")
        subprocess.run([command, "index", "s3://data/ranks/t-*.tar"], check=True, timeout=120, stdout=subprocess.DEVNULL,
                       env={**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"})
        one = open_as_ranks(proxy, tmp_path, "one", 1)
        assert sum("list-type=2" in path for path in one) == 1
        assert sorted(open_as_ranks(proxy, tmp_path, "eight", 8)) == sorted(one)
        again = open_as_ranks(proxy, tmp_path, "eight", 8)     # each wants news, and one is enough
        assert len(again) == 1 and "list-type=2" in again[0]
        swift.put("data", "ranks/t-003.tar", (data / "t-000.tar").read_bytes())
        asked = subprocess.run([command, "ls", "s3://data/ranks/t-*.tar"], stdout=subprocess.PIPE, timeout=120, check=True, env={
            **os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}", "LOCAL_RANK": "0", "STOKER_CACHE": str(tmp_path / "eight")})
        assert asked.stdout.count(b"\n") == (SHARDS + 1) * EACH       # what is new is seen


def test_changed_data_raises_and_is_never_skipped(swift, data):
    swift.put("data", "change/a.tar", (data / "t-000.tar").read_bytes())
    loader = stoker.Loader("s3://data/change/a.tar", FIELDS, batch_size=4, on_error="skip", store=store_at(swift.port))
    changed = bytearray((data / "t-000.tar").read_bytes())
    changed[600] ^= 1
    swift.put("data", "change/a.tar", bytes(changed))
    with pytest.raises(stoker.StokerError, match="changed since it was indexed"):
        for _ in loader:
            pass


def test_fork_while_transfers_run(swift):
    ds = stoker.open("s3://data/train/t-*.tar", store=store_at(swift.port))
    loader = stoker.Loader(ds, FIELDS, batch_size=4, num_workers=2)
    batches = (batch for _ in itertools.repeat(0) for batch in loader)      # epoch after epoch
    for i in range(int(os.environ.get("STOKER_FORKS", "5"))):
        next(batches)
        pid = os.fork()
        if not pid:
            os._exit(0 if bytes(ds[i]["cls"]) == str(i % 10).encode() else 1)
        assert os.waitpid(pid, 0)[1] == 0
    assert bytes(ds[7]["cls"]) == b"7"


def test_the_index_is_published_and_found(swift, data, tmp_path, monkeypatch):
    for path in sorted(data.glob("*.tar")):
        swift.put("data", f"pub/{path.name}", path.read_bytes())
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_key"])
    command = [shutil.which("stoker") or str(pathlib.Path(stoker.__file__).parent / "stoker-cli"), "index",
               "s3://data/pub/t-*.tar"]
    for said in (f"{SHARDS} shards", "already there"):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{swift.port}"})
        assert done.returncode == 0 and said in done.stdout, done.stderr
    assert any(k.startswith("pub/.stoker/") for k in swift.keys("data"))
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "another host"))
    with faults.Proxy(swift.port) as proxy:
        ds = stoker.open("s3://data/pub/t-*.tar", store=store_at(proxy.port))
        assert len(ds) == SHARDS * EACH
        asked = [path.split("?")[0] for _, path in proxy.requests]
        assert not any(path.endswith(".tar") for path in asked), asked      # no shard was touched
        assert len(asked) <= 4, asked       # a listing, the index (2), no seek points
        proxy.requests.clear()
        again = stoker.open("s3://data/pub/t-{000..002}.tar", store=store_at(proxy.port))
        assert len(again) == len(ds) and proxy.requests == []


# ---- credentials ----

JSON_KEYS = json.dumps({"AccessKeyId": "test:tester", "SecretAccessKey": "testing",
                        "Expiration": "2099-01-01T00:00:00Z"}).encode()
STS = (b"<R><Credentials><AccessKeyId>test:tester</AccessKeyId><SecretAccessKey>testing</SecretAccessKey>"
       b"<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></R>")


def reply(body, status=b"200 OK"):
    return b"HTTP/1.1 " + status + b"\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def stub(method, path, head):
    """Answers as instance metadata, containers and STS do, each to who asks as it should."""
    if path == "/latest/api/token":
        return reply(b"tok") if method == "PUT" and b"ttl-seconds: 21600" in head else reply(b"", b"400 Bad")
    if path.startswith("/latest/meta-data"):
        if b"metadata-token: tok" not in head:
            return reply(b"", b"401 No")
        return reply(b"role") if path.endswith("/") else reply(JSON_KEYS)
    if path == "/ecs":
        return reply(JSON_KEYS) if b"Authorization: pod-token" in head else reply(b"", b"401 No")
    return reply(STS)


CASES = ["environment", "profile", "role", "web_identity", "container", "instance", "process", "function"]


@pytest.mark.parametrize("case", CASES)
def test_credentials(swift, tmp_path, monkeypatch, case):
    aws = tmp_path / ".aws"
    aws.mkdir()
    (tmp_path / "token").write_text("pod-token\n" if case == "container" else "jwt\n")
    with faults.Proxy(0) as proxy:
        proxy.override = stub
        url, settings = f"http://127.0.0.1:{proxy.port}", {"credentials": None}
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        if case == "environment":
            monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test:tester")
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        elif case == "profile":
            (aws / "credentials").write_text("[x]\naws_access_key_id = test:tester\naws_secret_access_key = testing\n")
            settings["profile"] = "x"
        elif case == "role":
            (aws / "config").write_text("[profile x]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\n"
                                        "[profile base]\naws_access_key_id = a\naws_secret_access_key = b\n")
            monkeypatch.setenv("AWS_PROFILE", "x")
        elif case == "web_identity":
            monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r")
            monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
        elif case == "container":
            monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url + "/ecs")
            monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(tmp_path / "token"))
        elif case == "instance":
            monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
            monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)
        elif case == "process":
            (tmp_path / "keys.json").write_bytes(JSON_KEYS)
            (aws / "config").write_text(f"[default]\ncredential_process = cat {tmp_path}/keys.json\n")
        else:
            settings["credentials"] = lambda: KEYS
        ds = stoker.open("s3://data/train/t-000.tar", store=store_at(swift.port, **settings))
        assert bytes(ds[2]["cls"]) == b"2"
        asked = [path for _, path in proxy.requests]
        assert bool(asked) == (case in ("role", "web_identity", "container", "instance")), asked


def test_expired_keys_are_renewed(swift):
    answers = [{"access_key": "old", "secret_key": "old"}, KEYS]
    expired = b"<Error><Code>ExpiredToken</Code></Error>"
    with faults.Proxy(swift.port) as proxy:
        proxy.override = lambda method, path, head: (reply(expired, b"403 Forbidden")
                                                     if b"Credential=old/" in head else None)
        ds = stoker.open("s3://data/train/t-000.tar", store=store_at(proxy.port, credentials=lambda: answers.pop(0)))
        assert bytes(ds[2]["cls"]) == b"2" and not answers


def test_secrets_are_in_no_error(swift):
    store = store_at(swift.port, credentials={"access_key": "AKIDVERYSECRET", "secret_key": "HUSHHUSHHUSH"})
    with pytest.raises(stoker.StokerError, match="403") as caught:
        stoker.open("s3://data/train/t-000.tar", store=store)
    for text in (str(caught.value), repr(caught.value), repr(store)):
        assert "HUSH" not in text and "AKIDVERY" not in text


def test_presigned_queries_are_hidden(web, tmp_path):
    ds = stoker.open(f"http://127.0.0.1:{web[0]}/t-000.tar?X-Amz-Signature=topsecret")
    assert len(ds) == EACH and bytes(ds[1]["cls"]) == b"1"
    assert "topsecret" not in ds.shards[0] and "topsecret" not in ds[1]["__url__"]
    for path in (tmp_path / "index").rglob("*"):
        assert "topsecret" not in path.name
        assert not path.is_file() or b"topsecret" not in path.read_bytes()


def test_no_credentials_are_decided_soon(monkeypatch):
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://192.0.2.1")     # no one answers there
    with faults.Proxy(0) as proxy:
        proxy.override = lambda method, path, head: reply(
            b"", b"403 Signed" if b"uthorization" in head else b"404 Not Found")
        start = time.monotonic()
        with pytest.raises(stoker.StokerError, match="no such file"):       # asked without a signature
            stoker.open("s3://bucket/x.tar", store=store_at(proxy.port, credentials=None))
        assert time.monotonic() - start < 30        # 1 s, and what a loaded machine adds


def test_the_hub(data, monkeypatch):
    """Resolve URLs, a redirect to another host that gets no token, the version of the answer that redirects."""
    shard, seen = (data / "t-000.tar").read_bytes(), []

    def cdn(method, path, head):
        seen.append(("cdn", b"uthorization" in head))
        first, last = (int(x) for x in head.lower().split(b"range: bytes=")[1].split(b"\r\n")[0].split(b"-"))
        body = shard[first:last + 1]
        return (b"HTTP/1.1 206 Partial Content\r\nETag: \"cdn\"\r\nContent-Range: bytes %d-%d/%d\r\nContent-Length: %d"
                b"\r\n\r\n" % (first, first + len(body) - 1, len(shard), len(body)) + body)

    with faults.Proxy(0) as hub, faults.Proxy(0) as other:
        other.override = cdn

        def resolve(method, path, head):
            seen.append((path, b"Authorization: Bearer hf_secret" in head))
            return (b"HTTP/1.1 302 Found\r\nX-Linked-Etag: \"v1\"\r\nX-Linked-Size: %d\r\nLocation: http://127.0.0.1:%d/x"
                    b"\r\nContent-Length: 0\r\n\r\n" % (len(shard), other.port))

        hub.override = resolve
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{hub.port}")
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        ds = stoker.open("hf://datasets/org/name/data/t-000.tar")
        assert len(ds) == EACH and bytes(ds[2]["cls"]) == b"2"
    assert ("/datasets/org/name/resolve/main/data/t-000.tar", True) in seen
    assert ("cdn", False) in seen and ("cdn", True) not in seen


def test_reads_that_take_too_long_are_asked_for_twice(web, monkeypatch):
    """Some requests never get an answer; without a second one their samples would not come."""
    monkeypatch.setenv("STOKER_STORE_STALL", "600")
    with faults.Proxy(web[0]) as proxy:
        ds = stoker.open(f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar", store=stoker.Store(hedge=True))
        start, held, n, reads, over = len(proxy.requests), [], SHARDS * EACH, [0], threading.Event()
        proxy.hold = lambda count: count in (start + n + 30, start + n + 80) and not held.append(count)

        def others():               # second requests are a share of all
            while not over.is_set():
                assert bytes(ds[7]["cls"]) == b"7"
                reads[0] += 1

        thread = threading.Thread(target=others)
        thread.start()
        try:
            for i in [*range(n), *range(n)]:
                assert bytes(ds[i]["cls"]) == str(i % 10).encode()
        finally:
            over.set()
            thread.join()
        extra = len(proxy.requests) - start - 2 * n - reads[0]
        assert len(held) == 2 <= extra <= len(proxy.requests) // 50 + 1, extra
        ds = None


# ---- writing ----

def uploads(swift, port, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_key"])
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")


WRITE = """
import sys, stoker
data = [bytes([i]) * 3_000_000 for i in range(7)]
with stoker.Writer(sys.argv[1], max_size=int(sys.argv[2])) as out:
    for i, x in enumerate(data):
        out.write({"__key__": f"{i:03}", "bin": x})
        if len(sys.argv) > 3 and i == 5:
            raise SystemExit("stopped")
"""


def write(url, size, *more):
    return subprocess.run([sys.executable, "-c", WRITE, url, str(size), *more], capture_output=True, text=True, timeout=180)


def test_shards_are_written_to_s3(swift, monkeypatch):
    with faults.Proxy(swift.port) as proxy:
        uploads(swift, proxy.port, monkeypatch)
        done = write("s3://data/out/w-%03d.tar", 20_000_000)
        assert done.returncode == 0, done.stderr
        methods = [m for m, path in proxy.requests if "/out/w-000" in path]
        assert methods.count("POST") == 2 and methods.count("PUT") == 3, proxy.requests      # 8 MiB parts of 18 MB
        ds = stoker.open("s3://data/out/w-{000..001}.tar", store=store_at(swift.port))
        assert [bytes(ds[i]["bin"]) == bytes([i]) * 3_000_000 for i in range(7)] == [True] * 7
        done = write("s3://data/out/w-%03d.tar", 20_000_000)
        assert done.returncode and "is there already" in done.stderr


def test_an_upload_that_fails_leaves_nothing(swift, monkeypatch):
    with faults.Proxy(swift.port) as proxy:
        uploads(swift, proxy.port, monkeypatch)
        done = write("s3://data/half/w-%03d.tar", 100_000_000, "stop")
        assert "stopped" in done.stderr
        proxy.override = lambda method, path, head: (reply(b"<Error><Code>AccessDenied</Code></Error>", b"403 Forbidden")
                                                     if "partNumber=2" in path else None)
        done = write("s3://data/half/v-%03d.tar", 100_000_000)
        assert done.returncode and "403" in done.stderr and "v-000.tar" in done.stderr, done.stderr
    aborted = [path for method, path in proxy.requests if method == "DELETE" and "uploadId=" in path]
    assert len(aborted) == 2, proxy.requests
    assert not any(key.startswith("half/") for key in swift.keys("data"))


def test_faults_while_it_is_written(swift, monkeypatch):
    with faults.Proxy(swift.port, seed=3, rate=0.5, limit=4, faults=("status500", "slow_down", "refuse"),
                      all_requests=True) as proxy:
        uploads(swift, proxy.port, monkeypatch)
        done = write("s3://data/late/w-%03d.tar", 100_000_000)
        assert done.returncode == 0, done.stderr
        assert proxy.injected() == 4
    assert len(stoker.open("s3://data/late/w-000.tar", store=store_at(swift.port))) == 7
