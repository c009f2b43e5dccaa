# SPDX-License-Identifier: Apache-2.0
"""pack to a bucket: the bytes of a local pack, gone on with after a kill, in parts, and nothing half-written."""
import json
import subprocess
import sys

import faults
import pytest
from epochs import epoch
from packing import cli, killed, local_shards

import stoker

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services
KEYS = {"access_key": "test:tester", "secret_key": "testing"}
DENIED = b"<Error><Code>AccessDenied</Code></Error>"


@pytest.fixture
def at(swift, monkeypatch):
    """A function that sends this process and its children to a port."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test:tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")

    def use(port):
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    use(swift.port)
    return use


def store_at(port):
    return stoker.Store(endpoint=f"http://127.0.0.1:{port}", credentials=KEYS)


def shards(swift, prefix):
    return {k.rsplit("/", 1)[1]: swift.get("data", k) for k in swift.keys("data") if k.startswith(prefix) and k.endswith(".tar")}


def notes(swift, prefix):
    return [k.rsplit(".pack", 1)[1] for k in swift.keys("data") if k.startswith(f"{prefix}.stoker/") and ".pack" in k]


def writes(proxy, word):
    return [m for m, path in proxy.requests if m in ("PUT", "POST") and word in path]


def uploads_left(swift, prefix):
    text = swift.request("GET", "/data", f"prefix={prefix.replace('/', '%2F')}&uploads=").decode()
    return text.count("<UploadId>")


PYTHON = """
import json, sys
sys.modules["torch"] = None
import stoker
print(json.dumps(stoker.pack(sys.argv[1], sys.argv[2], samples=36, shuffle=1)))
"""


def test_pack_to_a_bucket(swift, at, data, tmp_path):
    source, how = f"{data}/big/t-000.tar", ("--samples", 36, "--shuffle", 1)       # the first has more than a part
    cli("pack", source, tmp_path / "local", *how)
    want = local_shards(tmp_path / "local")
    with faults.Proxy(swift.port) as proxy:
        at(proxy.port)
        done = subprocess.run([sys.executable, "-c", PYTHON, source, "s3://data/pk/one"], stdout=subprocess.PIPE, timeout=180, check=True)
        made = json.loads(done.stdout)
        assert made["shards"] == 2 and made["kept_shards"] == 0 and made["pattern"] == "s3://data/pk/one/shard-{000000..000001}.tar"
        assert any("partNumber=2" in path for _, path in proxy.requests)
        assert shards(swift, "pk/one/") == want
        assert notes(swift, "pk/one/") == [""]          # one of all shards
        assert any(k.startswith("pk/one/.stoker/") and k.endswith(".idx") for k in swift.keys("data"))
        proxy.requests.clear()
        assert "already there" in cli("pack", source, "s3://data/pk/one", *how)
        assert writes(proxy, "/pk/one/") == []
    at(swift.port)
    assert epoch(made["pattern"], store_at(swift.port)) == epoch(tmp_path / "local" / "shard-{000000..000001}.tar")


def test_other_shards_are_not_replaced_unasked(swift, at, data):
    cli("pack", f"{data}/t-{{000..002}}.tar", "s3://data/other", "--samples", 20)
    assert "not of this pack" in cli("pack", f"{data}/t-{{000..002}}.tar", "s3://data/other", "--samples", 60, fails=True)
    cli("pack", f"{data}/t-{{000..002}}.tar", "s3://data/other", "--samples", 60, "--force")
    assert sorted(shards(swift, "other/")) == ["shard-000000.tar", "shard-000001.tar"]       # those beyond the last are gone
    assert cli("ls", "s3://data/other/").count("\n") == 120
    assert "would be written over" in cli("pack", "s3://data/other/", "s3://data/other", "--samples", 10, "--force", fails=True)


def test_a_pack_that_is_killed_goes_on(swift, at, data, tmp_path):
    source = [data / "t-000.tar", data / "big" / "t-000.tar"]       # the second has more than a part
    words = ("pack", *source, "s3://data/kill/k-%03d.tar", "--samples", "40", "--workers", "1")
    cli(*words[:3], tmp_path / "k-%03d.tar", *words[4:])
    want = local_shards(tmp_path)
    with faults.Proxy(swift.port) as proxy:
        at(proxy.port)
        killed(proxy, words, lambda path: "k-001.tar" in path and "partNumber=2" in path)
        assert shards(swift, "kill/") == {"k-000.tar": want["k-000.tar"]}       # nothing half-written is there
        assert uploads_left(swift, "kill/") == 1
        proxy.hold = None
        proxy.requests.clear()
        assert "1 shard was there already" in cli(*words)
        assert writes(proxy, "/kill/k-000.tar") == [] and len(writes(proxy, "/kill/k-001.tar")) >= 4
    assert shards(swift, "kill/") == want and notes(swift, "kill/") == [""]
    assert uploads_left(swift, "kill/") == 0        # what the dead process had begun was aborted


def test_a_plan_in_parts(swift, at, data, tmp_path, monkeypatch):
    source, plan = f"{data}/t-{{000..002}}.tar", tmp_path / "plan.json"
    cli("pack", source, tmp_path / "p-%02d.tar", "--samples", 25)
    cli("pack", source, "s3://data/parts/p-%02d.tar", "--samples", 25, "--write-plan", plan)
    cli("pack", "--from-plan", plan, "--part", "0/2")
    assert sorted(shards(swift, "parts/")) == ["p-00.tar", "p-01.tar", "p-02.tar"]
    assert "2 of 5 shards are not there yet" in cli("pack", "--from-plan", plan, "--merge", fails=True)
    cli("pack", "--from-plan", plan, "--part", "1/2")
    assert len(notes(swift, "parts/")) == 5
    assert '"samples": 120' in cli("pack", "--from-plan", plan, "--merge", "--json")
    assert shards(swift, "parts/") == local_shards(tmp_path) and notes(swift, "parts/") == [""]
    with faults.Proxy(swift.port) as proxy:
        at(proxy.port)
        monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "another host"))
        assert cli("ls", "s3://data/parts/p-{00..04}.tar").count("\n") == 120
        assert not any(path.endswith(".tar") for _, path in proxy.requests), proxy.requests      # by the index that is there


def test_what_fails_leaves_nothing(swift, at, data):
    with faults.Proxy(swift.port) as proxy:
        at(proxy.port)
        proxy.override = lambda method, path, head: (
            b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(DENIED) + DENIED
            if "partNumber=2" in path else None)
        said = cli("pack", f"{data}/big/t-000.tar", "s3://data/deny", "--samples", 40, fails=True)
        assert "403" in said and "s3://data/deny/shard-000000.tar" in said
    assert shards(swift, "deny/") == {} and uploads_left(swift, "deny/") == 0
    for target in ("http://127.0.0.1:1/x", "hf://datasets/a/b/c"):
        with pytest.raises(stoker.StokerError, match="write to a folder, s3://.* or "):
            stoker.pack(f"{data}/t-000.tar", target)
        with pytest.raises(stoker.StokerError, match="write to a folder, s3://.* or "):
            stoker.pack(f"{data}/t-000.tar", target, map=dict)


def test_bad_samples_and_classes(swift, at, tmp_path):
    image = pytest.importorskip("PIL.Image")
    for i in range(6):
        folder = tmp_path / "pictures" / ("cat" if i % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        image.new("RGB", (20, 20), (i * 40, 0, 0)).save(folder / f"{i}.png")
    good = (tmp_path / "pictures" / "cat" / "3.png").read_bytes()
    (tmp_path / "pictures" / "cat" / "3.png").write_bytes(good[:50])
    words = ("pack", tmp_path / "pictures", "s3://data/bad", "--samples", "3", "--field", "png=image | resize(8) | encode(png)")
    assert "1 could not be made" in cli(*words)
    assert swift.get("data", "bad/classes.txt") == b"cat\ndog\n"
    assert stoker.open("s3://data/bad/", store=store_at(swift.port)).classes == ["cat", "dog"]
    assert stoker.open("s3://data/train/t-000.tar", store=store_at(swift.port)).classes == []
    listed = swift.get("data", "bad/.stoker/shard-%06d.tar.failed").decode().splitlines()
    assert [json.loads(line)["key"] for line in listed] == ["cat/3.png"]
    assert "already there" in cli(*words) and "1 could not be made" in cli(*words)
    assert b"failed" in swift.get("data", "bad/.stoker/shard-%06d.tar.pack")
    assert "key cat/3.png" in cli(*words, "--only", "failed", fails=True)       # the list says which; it still is bad
    assert "no sample of this pack failed" in cli(*words[:2], "s3://data/good", *words[3:], "--only", "failed", fails=True)
