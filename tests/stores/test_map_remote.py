# SPDX-License-Identifier: Apache-2.0
"""pack() through Python functions, and prepared(), into a bucket: the bytes of a local pack, gone on with after kills."""
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import faults
import map_functions
import pytest

import stoker
from stoker import _pack_bucket

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services
KEYS = {"access_key": "test:tester", "secret_key": "testing"}
SEED = int(os.environ.get("STOKER_SEED", "16"))
KILLS = int(os.environ.get("STOKER_KILLS", "10"))


@pytest.fixture
def store(swift):
    return stoker.Store(endpoint=f"http://127.0.0.1:{swift.port}", credentials=KEYS)


def objects(swift, prefix, end=""):
    return {k[len(prefix):]: swift.get("data", k) for k in swift.keys("data") if k.startswith(prefix) and k.endswith(end)}


def notes(swift, prefix):
    return [k for k in objects(swift, prefix + ".stoker/") if ".map" in k]


def uploads_left(swift, prefix):
    return swift.request("GET", "/data", f"prefix={prefix.replace('/', '%2F')}&uploads=").decode().count("<UploadId>")


def files(folder, pattern="*.tar"):
    return {p.name: p.read_bytes() for p in folder.glob(pattern)}


HOW = {"map": {"map": map_functions.backwards}, "flat_map": {"flat_map": map_functions.twice},
       "filter": {"filter": map_functions.even, "compress": "zstd"}}


@pytest.mark.parametrize("kind", HOW)
def test_the_bytes_of_a_local_pack(kind, swift, store, data, tmp_path, monkeypatch):
    options = {**HOW[kind], "samples": 15, "shuffle": 3, "num_proc": 2}
    end = ".tar.zst" if kind == "filter" else ".tar"
    here = stoker.pack(f"{data}/t-{{000..001}}.tar", tmp_path / "out", **options)
    there = stoker.pack("s3://data/train/t-{000..001}.tar", f"s3://data/map/{kind}", store=store, **options)
    assert objects(swift, f"map/{kind}/", end) == files(tmp_path / "out", "*" + end) and here["shards"] == 6
    assert {**here, "pattern": ""} == {**there, "pattern": ""} and there["pattern"].startswith(f"s3://data/map/{kind}/shard-{{")
    assert notes(swift, f"map/{kind}/") == [f"shard-%06d{end}.map"]         # one of all shards
    assert stoker.pack("s3://data/train/t-{000..001}.tar", f"s3://data/map/{kind}", store=store, **options)["kept_shards"] == 6
    if kind != "filter":
        monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "another host"))
        with faults.Proxy(swift.port) as proxy:
            other = stoker.Store(endpoint=f"http://127.0.0.1:{proxy.port}", credentials=KEYS)
            assert len(stoker.open(there["pattern"], store=other)) == there["samples"]
            assert not any(path.endswith(".tar") for _, path in proxy.requests)         # by the index that is beside it


def test_token_files_in_a_bucket(swift, store, data, tmp_path):
    tokens = stoker.Tokens(map_functions.digits, field="cls", dtype="u16", end=3)
    stoker.pack(f"{data}/t-000.tar", tmp_path / "out", tokenize=tokens, samples=15, num_proc=2)
    made = stoker.pack(f"{data}/t-000.tar", "s3://data/map/tokens", tokenize=tokens, samples=15, num_proc=2, store=store)
    there = objects(swift, "map/tokens/")
    assert {k: v for k, v in there.items() if not k.startswith(".")} == files(tmp_path / "out", "shard-*") and made["shards"] == 3
    assert stoker.pack(f"{data}/t-000.tar", "s3://data/map/tokens", tokenize=tokens, samples=15, store=store)["kept_shards"] == 3
    read = stoker.open("s3://data/map/tokens/shard-{000000..000002}.bin", {"t": "tokens(block=2)"}, store=store)
    assert read[0]["t"].tolist() == [ord("0"), 3]


def test_bad_samples_and_other_shards(swift, store, data):
    source, target = f"{data}/t-000.tar", "s3://data/map/bad"
    with pytest.raises(stoker.StokerError, match="map failed for sample 000017"):
        stoker.pack(source, target, map=map_functions.stumble, samples=10, num_proc=1, store=store)
    assert "shard-000001.tar" not in objects(swift, "map/bad/") and uploads_left(swift, "map/bad/") == 0
    made = stoker.pack(source, target, map=map_functions.stumble, samples=10, num_proc=1, on_error="skip", store=store)
    assert (made["failed"], made["samples"], made["shards"]) == (1, 39, 4)
    listed = [json.loads(line) for line in objects(swift, "map/bad/")[".stoker/shard-%06d.tar.failed"].splitlines()]
    assert [line["key"] for line in listed] == ["000017"]
    with pytest.raises(stoker.StokerError, match="there is s3://data/map/bad/shard-000000.tar"):
        stoker.pack(source, target, filter=map_functions.even, samples=20, store=store)
    made = stoker.pack(source, target, filter=map_functions.even, samples=20, force=True, store=store)
    assert sorted(objects(swift, "map/bad/", ".tar")) == ["shard-000000.tar", "shard-000001.tar"] and made["samples"] == 20
    assert ".stoker/shard-%06d.tar.failed" not in objects(swift, "map/bad/")
    with pytest.raises(stoker.StokerError, match="would be written over"):
        stoker.pack(made["pattern"], target, map=map_functions.backwards, force=True, store=store)


def test_prepared_in_a_bucket(swift, store, data):
    for how in ({"map": map_functions.backwards}, {"fields": {"txt": "from(cls) | int | encode(text)", "bin": None}}):
        source = f"{data}/t-{{000..001}}.tar"
        ready = stoker.prepared(source, "s3://data/ready", samples=30, store=store, **how)
        assert len(ready) == 80 and len({s.rsplit("/", 1)[0] for s in ready.shards}) == 1
        with faults.Proxy(swift.port) as proxy:
            other = stoker.Store(endpoint=f"http://127.0.0.1:{proxy.port}", credentials=KEYS)
            again = stoker.prepared(source, "s3://data/ready", samples=30, store=other, **how)
            assert again.shards == ready.shards and not [m for m, _ in proxy.requests if m != "GET" and m != "HEAD"]
            assert again[7] == ready[7]
    assert len([k for k in objects(swift, "ready/") if k.endswith("/.prepared")]) == 2
    with pytest.raises(stoker.StokerError, match="write to a folder, s3://.* or "):
        stoker.prepared(f"{data}/t-000.tar", "hf://datasets/a/b/c")


def test_a_source_that_changed_is_not_served_from_what_was_made(swift, store, data, tmp_path):
    """Where everything is made, nothing of the source is read: its store is asked."""
    first, second = (sorted(data.glob("t-*.tar"))[k].read_bytes() for k in (0, 1))
    swift.put("data", "moving/a.tar", first)
    ways = [lambda: stoker.prepared("s3://data/moving/a.tar", tmp_path / "p", map=map_functions.backwards, num_proc=1, store=store),
            lambda: stoker.prepared("s3://data/moving/a.tar", tmp_path / "p", fields={"txt": "from(cls) | int | encode(text)"}, store=store),
            lambda: stoker.pack("s3://data/moving/a.tar", tmp_path / "copied", store=store),
            lambda: stoker.pack("s3://data/moving/a.tar", tmp_path / "mapped", map=map_functions.backwards, num_proc=1, store=store)]
    for way in ways + ways:
        way()
    swift.put("data", "moving/a.tar", first[:1024] + second[1024:])
    for way in ways:
        with pytest.raises(stoker.StokerError, match="changed since it was indexed.*moving/a.tar"):
            way()


def test_another_node_waits_for_the_first(swift, store, data, monkeypatch, tmp_path):
    def prepare(found):
        found.append(stoker.prepared(f"{data}/t-000.tar", "s3://data/nodes", map=map_functions.backwards, num_proc=1, store=store))

    found = []
    monkeypatch.setenv("GROUP_RANK", "1")
    with faults.Proxy(swift.port) as proxy:
        store = stoker.Store(endpoint=f"http://127.0.0.1:{proxy.port}", credentials=KEYS)
        waits = threading.Thread(target=prepare, args=(found,))
        waits.start()
        while [path.endswith("/.prepared") for _, path in proxy.requests].count(True) < 3:         # it asks again and again
            waits.join(0.1)
        assert waits.is_alive() and not objects(swift, "nodes/")
        monkeypatch.setenv("GROUP_RANK", "0")
        monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "the first node's"))
        prepare(found)
        waits.join(120)
    assert len(found) == 2 and found[0].shards == found[1].shards


def test_one_host_at_a_time(swift, store, data, tmp_path, monkeypatch):
    """Of two hosts that pack to one place the later one is refused; one that died is not waited for."""
    monkeypatch.setattr(_pack_bucket, "_host", lambda: "host-b")
    swift.put("data", "hosts/.stoker/shard-%06d.tar.busy-host-a", json.dumps([time.time() - 9, time.time()]).encode())

    def pack():
        return stoker.pack(f"{data}/t-000.tar", "s3://data/hosts", map=map_functions.backwards, num_proc=1, store=store)

    with pytest.raises(ValueError, match="host host-a packs to s3://data/hosts now: wait"):
        pack()
    assert not objects(swift, "hosts/", ".tar") and len(objects(swift, "hosts/.stoker/")) == 1
    swift.put("data", "hosts/.stoker/shard-%06d.tar.busy-host-a", json.dumps([time.time() - 999, time.time() - 998]).encode())
    assert pack()["shards"] == 1 and not [k for k in objects(swift, "hosts/.stoker/") if "busy" in k]
    swift.put("data", "hosts/.stoker/shard-%06d.tar.busy-host-c", json.dumps([time.time() + 60, time.time()]).encode())
    assert pack()["kept_shards"] == 1           # host-c began later, and gives up


def test_killed_again_and_again(swift, data, tmp_path, monkeypatch):
    print("seed", SEED)
    rng = random.Random(SEED)
    source = [f"{data}/t-000.tar", f"{data}/t-001.tar", f"{data}/big/t-000.tar"]        # the last has more than a part
    stoker.pack(source, tmp_path / "out", map=map_functions.backwards, samples=40, num_proc=1)
    want, seen = files(tmp_path / "out"), set()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test:tester")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with faults.Proxy(swift.port) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")

        def run(stop_at):
            """The process and its workers are killed when they ask for the stop_at-th time."""
            stuck, before = threading.Event(), len(proxy.requests)
            proxy.hold = lambda count: count >= before + stop_at and not stuck.set()
            child = subprocess.Popen([sys.executable, str(pathlib.Path(map_functions.__file__)), ":".join(source), "s3://data/map/kill"],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
            while child.poll() is None and not stuck.wait(0.05):
                pass
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            return child.communicate(timeout=120)

        for _ in range(KILLS):
            at = rng.randint(1, 24)
            run(at)
            there = objects(swift, "map/kill/", ".tar")
            assert there == {name: want[name] for name in there}, at        # whole or not there
            assert set(there) >= seen                                       # and what was there stays
            for name in seen:
                assert not [m for m, path in proxy.requests if m in ("PUT", "POST") and path.split("?")[0].endswith("/kill/" + name)]
            seen = set(there)
            proxy.requests.clear()
        out, said = run(10**9)
    assert out, said
    made = json.loads(out)
    assert objects(swift, "map/kill/", ".tar") == want and (made["samples"], made["failed"]) == (120, 0)
    assert made["kept_shards"] >= len(seen) and notes(swift, "map/kill/") == ["shard-%06d.tar.map"]
    assert uploads_left(swift, "map/kill/") == 0
