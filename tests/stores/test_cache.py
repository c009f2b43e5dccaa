# SPDX-License-Identifier: Apache-2.0
"""Remote data kept on a local disk: what is there is never asked for again, and never wrong."""
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import faults
import pytest
from epochs import epoch
from small_shards import EACH, SHARDS

import stoker

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services
CHUNK = 4 << 20


@pytest.fixture(scope="module")
def local(data):
    out = epoch(f"{data}/big/t-*.tar")
    assert sorted(i for i, _ in out) == list(range(SHARDS * EACH))
    return out


def objects(cache):
    return sorted(pathlib.Path(cache).glob("stoker-cache-1/*.obj"))


def big(proxy):
    return f"http://127.0.0.1:{proxy.port}/big/t-{{000..002}}.tar"


def test_the_second_epoch_asks_nothing(web, local, tmp_path):
    with faults.Proxy(web[0]) as proxy:
        stoker.open(big(proxy))                     # the index is made without the cache
        proxy.requests.clear()
        store = stoker.Store(cache=tmp_path / "cache")
        assert epoch(big(proxy), store) == local
        first = len(proxy.requests)
        chunks = sum(-(-path.stat().st_size // CHUNK) for path in (objects(tmp_path / "cache")))
        assert len(objects(tmp_path / "cache")) == SHARDS and 0 < first <= chunks, proxy.requests
        proxy.requests.clear()
        assert epoch(big(proxy), store) == local
        assert epoch(big(proxy), stoker.Store(cache=str(tmp_path / "cache")), num_workers=0) == local
        ds = stoker.open(big(proxy), store=store)
        assert hashlib.sha256(bytes(ds[local[5][0]]["bin"])).hexdigest() == local[5][1]
        assert proxy.requests == []


RANK = '''
import sys
sys.modules["torch"] = None
import stoker
ds = stoker.open(sys.argv[1], store=stoker.Store(cache=sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
print(len(ds[int(sys.argv[3])]["cls"]), flush=True)
'''


def test_slow_down_is_for_all_ranks_of_the_host(web, tmp_path):
    """One rank is told to wait 2 s; another, which was told nothing, asks no earlier."""
    told, asked, cache = [], [], tmp_path / "cache"
    with faults.Proxy(web[0]) as proxy:
        def override(method, path, head):
            if path == "/t-000.tar" and not told:
                told.append(time.monotonic())
                return b"HTTP/1.1 503 Slow Down\r\nRetry-After: 2\r\nContent-Length: 0\r\n\r\n"
            asked.append((path, time.monotonic()))

        url = f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar"
        stoker.open(url)
        proxy.override = override
        ranks = [subprocess.Popen([sys.executable, "-c", RANK, url, str(cache), str(i * EACH)], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True) for i in (0, 1)]
        try:
            for rank in ranks:
                assert rank.stdout.readline() == "ready\n"
            assert not asked
            ranks[0].stdin.write("\n")
            ranks[0].stdin.flush()
            end = time.monotonic() + 60
            pace = cache / "stoker-cache-1" / "pace"
            while not pace.exists() or not any(pace.read_bytes()):      # the rank has read its answer
                assert time.monotonic() < end
                time.sleep(0.01)
            assert [rank.communicate("\n", timeout=120)[0] for rank in ranks[::-1]] == ["1\n", "1\n"]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    when = dict(reversed(asked))        # the first time of each
    assert when["/t-001.tar"] - told[0] >= 1.99 and when["/t-000.tar"] - told[0] >= 1.99, (told, asked)


def used(cache):
    return sum(path.stat().st_blocks * 512 for path in objects(cache))


def test_a_cache_smaller_than_two_shards_keeps_what_it_has(web, local, tmp_path):
    with faults.Proxy(web[0]) as proxy:
        stoker.open(big(proxy))
        store = stoker.Store(cache=tmp_path / "cache", cache_limit=2 * CHUNK + 65536)
        for _ in range(2):
            assert epoch(big(proxy), store) == local
            assert CHUNK <= used(tmp_path / "cache") <= 2 * CHUNK + SHARDS * 8192
        kept = [path.read_bytes() for path in objects(tmp_path / "cache")]
        assert epoch(big(proxy), store) == local
        assert [path.read_bytes() for path in objects(tmp_path / "cache")] == kept


def test_other_data_sets_make_room(web, data, local, tmp_path):
    with faults.Proxy(web[0]) as proxy:
        store = stoker.Store(cache=tmp_path / "cache", cache_limit=40_000_000)
        small = f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar"
        held = stoker.open(small, store=store)
        assert bytes(held[0]["cls"]) == b"0"
        mine = set(objects(tmp_path / "cache"))
        assert epoch(big(proxy), stoker.Store(cache=tmp_path / "cache", cache_limit=used(tmp_path / "cache"))) == local
        assert mine <= set(objects(tmp_path / "cache"))         # in use: it stays
        del held, store
        again = f"http://localhost:{proxy.port}/big/t-{{000..002}}.tar"
        assert epoch(again, stoker.Store(cache=tmp_path / "cache", cache_limit=CHUNK * 2)) == local
        assert not mine & set(objects(tmp_path / "cache"))


def start(url, cache):
    return subprocess.Popen([sys.executable, str(pathlib.Path(__file__).with_name("epochs.py")), url, str(cache)],
                            stdout=subprocess.PIPE, text=True)


def test_two_processes_fetch_each_chunk_once(web, local, tmp_path):
    with faults.Proxy(web[0]) as proxy:
        stoker.open(big(proxy))
        proxy.requests.clear()
        both = [start(big(proxy), tmp_path / "cache") for _ in range(2)]
        for p in both:
            assert p.communicate(timeout=180)[0].strip() == str(local)
        chunks = sum(-(-path.stat().st_size // CHUNK) for path in objects(tmp_path / "cache"))
        assert len(proxy.requests) <= chunks, proxy.requests


def test_killed_while_it_fills(web, local, tmp_path):
    seed = int(os.environ.get("STOKER_SEED", "5"))
    rng = random.Random(seed)
    print("seed", seed)
    with faults.Proxy(web[0]) as proxy:
        stoker.open(big(proxy))
        for i in range(int(os.environ.get("STOKER_KILLS", "2"))):
            cache = tmp_path / f"cache{i % 5}"      # also one in which others were killed before
            after = rng.randint(1, 8)
            proxy.requests.clear()
            p = start(big(proxy), cache)
            while p.poll() is None and len(proxy.requests) < after:
                time.sleep(0.002)
            time.sleep(rng.random() * 0.05)
            p.send_signal(signal.SIGKILL)
            p.communicate()
            assert epoch(big(proxy), stoker.Store(cache=cache)) == local
            proxy.requests.clear()
            assert epoch(big(proxy), stoker.Store(cache=cache)) == local
            assert proxy.requests == []


def other_boot(path):
    """As if the machine had been started again since it was written."""
    raw = bytearray(path.read_bytes())
    n = (len(raw) - 4096) // (CHUNK + 8) + 1
    for i in range(len(raw) - 8 * n, len(raw), 8):
        if raw[i + 4:i + 8] != b"\0" * 4:
            raw[i + 4] ^= 2
    path.write_bytes(raw)
    return raw


def test_what_is_not_ours_or_torn_is_not_taken(web, local, tmp_path):
    cache = tmp_path / "cache"
    with faults.Proxy(web[0]) as proxy:
        assert epoch(big(proxy), stoker.Store(cache=cache)) == local
        first, second, third = objects(cache)
        good = first.read_bytes()
        proxy.requests.clear()
        for path in (first, second, third):         # all compared, all good
            other_boot(path)
        assert epoch(big(proxy), stoker.Store(cache=cache)) == local
        assert proxy.requests == []
        first.write_bytes(os.urandom(len(good)))    # foreign
        os.truncate(second, second.stat().st_size - 4096)
        raw = other_boot(third)
        raw[CHUNK + 77] ^= 1                        # torn
        third.write_bytes(raw)
        assert epoch(big(proxy), stoker.Store(cache=cache)) == local
        assert len(proxy.requests) == 3 + 3 + 1, proxy.requests
        proxy.requests.clear()
        assert epoch(big(proxy), stoker.Store(cache=cache)) == local
        assert proxy.requests == []
        second.unlink()
        second.symlink_to("/dev/zero")
        assert epoch(big(proxy), stoker.Store(cache=cache)) == local
        assert not second.is_symlink()


def test_faults_while_it_fills(web, local, tmp_path):
    with faults.Proxy(web[0], seed=4, rate=0.4, limit=6) as proxy:
        stoker.open(big(proxy), store=stoker.Store(cache=""))
        assert epoch(big(proxy), stoker.Store(cache=tmp_path / "cache")) == local


def test_another_version_is_another_object(web, data, tmp_path, monkeypatch):
    folder = data / "versions"
    folder.mkdir()
    (folder / "a.tar").write_bytes((data / "t-000.tar").read_bytes())
    store = stoker.Store(cache=tmp_path / "cache")
    url = f"http://127.0.0.1:{web[0]}/versions/a.tar"
    assert bytes(stoker.open(url, store=store)[3]["cls"]) == b"3"
    (folder / "a.tar").write_bytes((data / "t-001.tar").read_bytes())
    os.utime(folder / "a.tar", (1, 1))
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "another index"))
    assert stoker.open(url, store=store)[3]["__key__"] == "000043"
    assert len(objects(tmp_path / "cache")) == 2


def test_s3_and_fork_with_a_cache(swift, data, tmp_path):
    swift.put("data", "big/t.tar", (data / "big" / "t-000.tar").read_bytes())
    store = stoker.Store(endpoint=f"http://127.0.0.1:{swift.port}", cache=tmp_path / "cache",
                         credentials={"access_key": "test:tester", "secret_key": "testing"})
    ds = stoker.open("s3://data/big/t.tar", store=store)
    for i in (0, EACH - 1, 20):
        pid = os.fork()
        if not pid:
            os._exit(0 if bytes(ds[i]["cls"]) == str(i % 10).encode() else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert bytes(ds[i]["cls"]) == str(i % 10).encode()


def cli(*words, code=0, **env):
    done = subprocess.run([str(pathlib.Path(stoker.__file__).parent / "stoker-cli") if not shutil.which("stoker") else
                           shutil.which("stoker"), *map(str, words)], capture_output=True, text=True, timeout=180,
                          env={**os.environ, **env})
    assert done.returncode == code, done.stderr + done.stdout
    return done.stdout + done.stderr


def test_the_command(web, local, tmp_path):
    cache = tmp_path / "cache"
    with faults.Proxy(web[0]) as proxy:
        url, here = big(proxy), ("--store-cache", cache)
        assert "which cache?" in cli("cache", "fill", url, code=2)
        assert "1 are not: it has no room" in cli("cache", "fill", url.replace("{000..002}", "000"), *here,
                                                  "--store-cache-limit", CHUNK, code=1)
        cli("cache", "clear", *here)
        assert objects(cache) == []
        assert "3 files" in cli("cache", "fill", url, STOKER_STORE_CACHE=str(cache))
        shown = [json.loads(line) for line in cli("cache", "ls", *here, "--json").splitlines()]
        assert sorted(x["url"] for x in shown) == [url.replace("{000..002}", f"{i:03}") for i in range(SHARDS)]
        assert all(x["bytes"] == x["cached_bytes"] for x in shown)
        proxy.sizes.clear()
        assert epoch(url, stoker.Store(cache=cache)) == local
        assert all(size == 1 for size in proxy.sizes), proxy.sizes      # size and version are asked for, no data
        assert "all good" in cli("cache", "verify", *here)
        raw = bytearray(objects(cache)[0].read_bytes())
        raw[5] ^= 1
        objects(cache)[0].write_bytes(raw)
        objects(cache)[1].write_bytes(b"x" * 10000)
        assert "what was bad is removed" in cli("cache", "verify", *here, code=1)
        assert len(objects(cache)) == 2 and "all good" in cli("cache", "verify", *here)
        ds = stoker.open(url, store=stoker.Store(cache=cache))
        assert bytes(ds[0]["cls"]) == b"0"
        there = len(objects(cache))         # the one that was removed may be the one that was read again
        assert f"{there} objects stay" in cli("cache", "clear", *here)
        del ds
        assert "removed 0 objects" in cli("cache", "clear", "http://elsewhere/", *here)


def test_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(stoker.StokerError, match="can't be used: Not a directory"):
        stoker.Store(cache=tmp_path / "file" / "x")
    with pytest.raises(ValueError, match="cache_limit must be bytes"):
        stoker.Store(cache=tmp_path, cache_limit="much")


def test_a_full_disk_is_said_once(web, local, tmp_path, caplog):
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", str(disk)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"a small tmpfs cannot be mounted here: {done.stderr.strip()}")
    try:
        with faults.Proxy(web[0]) as proxy:
            stoker.open(big(proxy))
            for _ in range(2):
                assert epoch(big(proxy), stoker.Store(cache=disk / "cache", cache_limit="1GB")) == local
            said = [r for r in caplog.records if "takes no more" in r.getMessage()]
            assert len(said) == 2, caplog.text      # one each: they are two stores
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
