# SPDX-License-Identifier: Apache-2.0
"""Closing, signals and garbage collection while a server says nothing: nothing waits for it.

Requests get no answer, and the client would wait for one for ten minutes.  What ends does so once the proxy has the
request; two minutes are the limit for a slow machine."""
import contextlib
import gc
import gzip
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import faults                                   # noqa: E402
from epochs import digests, epoch               # noqa: E402
from small_shards import EACH                   # noqa: E402

import stoker                                   # noqa: E402

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services
FIELDS = {"bin": "bytes", "cls": "int"}
KEYS = {"access_key": "test:tester", "secret_key": "testing"}


class Stop(Exception):
    pass


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setenv("STOKER_STORE_STALL", "600")


@pytest.fixture
def silent(web):
    """A proxy whose `begin()` makes all requests from then on go without an answer; `asked()` waits for one."""
    with faults.Proxy(web[0]) as proxy:
        end = threading.Timer(120, proxy._loop.call_soon_threadsafe, [proxy._stop.set])
        end.start()

        def begin():
            proxy.before = len(proxy.requests)
            proxy.hold = lambda n: n > proxy.before

        def asked():
            wait_until(lambda: len(proxy.requests) > proxy.before)
        proxy.begin, proxy.asked, proxy.url = begin, asked, f"http://127.0.0.1:{proxy.port}"
        yield proxy
        assert not proxy._stop.is_set(), "it took two minutes"
        end.cancel()


def wait_until(there):
    limit = time.monotonic() + 60
    while not there() and time.monotonic() < limit:
        time.sleep(0.01)
    assert there()


@contextlib.contextmanager
def interrupted(proxy, began=None):
    """A signal whose handler raises comes once the proxy has been asked, or when `began` is there."""
    def go():
        if began:
            wait_until(began.exists)
        else:
            proxy.asked()
        os.kill(os.getpid(), signal.SIGUSR1)

    def handler(number, frame):
        raise Stop
    before = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=go)
    proxy.begin()
    thread.start()
    try:
        with pytest.raises(Stop):
            yield
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def shards(proxy, folder=""):
    return f"{proxy.url}/{folder}t-{{000..002}}.tar"


def store_at(proxy, **more):
    return stoker.Store(endpoint=proxy.url, **{"credentials": KEYS, **more})


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("cached", [False, True])
def test_a_loader_is_closed(silent, tmp_path, workers, cached):
    url = shards(silent, "big/")
    stoker.open(url)
    store = stoker.Store(cache=str(tmp_path / "cache")) if cached else None
    loader = stoker.Loader(url, FIELDS, batch_size=8, num_workers=workers, store=store)
    with interrupted(silent):
        next(iter(loader))
    loader.close()


def test_a_loader_is_collected(silent):
    url = shards(silent)
    stoker.open(url)
    loader = stoker.Loader(url, FIELDS, batch_size=8)
    with interrupted(silent):
        next(iter(loader))
    del loader
    gc.collect()


def test_a_stream_is_closed(silent):
    loader = stoker.Loader(stoker.stream(shards(silent)), FIELDS, batch_size=8, epoch_size=120, shuffle=True)
    with interrupted(silent):
        next(iter(loader))
    loader.close()


def test_a_stream_of_a_server_that_is_away_is_closed(silent):
    loader = stoker.Loader(stoker.stream(shards(silent)), FIELDS, batch_size=8, epoch_size=120, shuffle=True)
    silent.down = True
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        next(iter(loader))
    signal.signal(signal.SIGALRM, before)
    loader.close()


def test_who_else_wants_a_chunk_gets_it(silent, data, tmp_path):
    """Two loaders wait for the same chunks of the cache; one is closed, and the server speaks again."""
    url, cache = shards(silent, "big/"), stoker.Store(cache=str(tmp_path / "cache"))
    stoker.open(url)
    first = stoker.Loader(url, FIELDS, batch_size=8, num_workers=1, store=cache)
    other = stoker.Loader(url, FIELDS, batch_size=8, num_workers=1, store=cache)
    with interrupted(silent):
        next(iter(first))
    got = []
    reader = threading.Thread(target=lambda: got.extend(digests(other)))
    reader.start()
    wait_until(lambda: other.stats()["remote_reads"] > 0)
    silent.hold = None
    first.close()
    reader.join(60)
    other.close()
    assert got == epoch(f"{data}/big/t-*.tar", shuffle=False, num_workers=1)


def test_opening(silent, data, tmp_path):
    with interrupted(silent):
        stoker.open(shards(silent))
    with interrupted(silent):
        stoker.open(shards(silent), store=stoker.Store(cache=str(tmp_path / "cache")))
    with interrupted(silent):
        stoker.open("s3://data/train/t-*.tar", store=store_at(silent))
    with interrupted(silent):
        stoker.Loader(stoker.stream(shards(silent)), FIELDS, batch_size=8, epoch_size=120)
    (data / "z.tar.gz").write_bytes(gzip.compress((data / "t-000.tar").read_bytes(), 1))
    with interrupted(silent):
        stoker.open(f"{silent.url}/z.tar.gz", store=stoker.Store(cache=str(tmp_path / "cache")))
    silent.hold = None
    assert len(stoker.open(shards(silent))) == 3 * EACH


def test_one_sample(silent):
    ds = stoker.open(shards(silent))
    with interrupted(silent):
        ds[3]
    silent.hold = None
    assert bytes(ds[3]["cls"]) == b"3"


def test_looking_for_keys(silent, tmp_path, monkeypatch):
    url, began = "s3://data/train/t-*.tar", tmp_path / "began"
    (tmp_path / ".aws").mkdir()
    config = tmp_path / ".aws" / "config"
    config.write_text(f"[default]\ncredential_process = sh -c 'echo $$ > {began}; exec sleep 1000'\n")
    with interrupted(silent, began):
        stoker.open(url, store=stoker.Store(endpoint=silent.url))
    wait_until(lambda: began.read_text())
    pid = int(began.read_text())
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"))      # it is ended too
    config.unlink()
    (tmp_path / "token").write_text("token")
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/x")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", silent.url)
    with interrupted(silent):
        stoker.open(url, store=stoker.Store(endpoint=silent.url))
    began.unlink()
    gate = threading.Event()

    def slow():
        began.write_text("")
        gate.wait(60)
        return KEYS
    with interrupted(silent, began):
        stoker.open(url, store=store_at(silent, credentials=slow))
    gate.set()


def test_writing(silent, data, tmp_path):
    """The first request begins the upload: there is nothing to abort."""
    with interrupted(silent), stoker.Writer("s3://data/w-%06d.tar", store=store_at(silent)) as w:
        for k in range(40):
            w.write({"__key__": f"{k:06}", "bin": os.urandom(1 << 20)})
    with interrupted(silent):
        stoker.pack(f"{data}/big/t-000.tar", "s3://data/packed/", store=store_at(silent), index=False)
    silent.hold = None
    stoker.open(shards(silent))
    with interrupted(silent):
        stoker.pack(shards(silent), str(tmp_path / "packed"))


@pytest.mark.parametrize("left", [False, True])
def test_a_part_is_not_waited_for_and_its_upload_is_aborted(swift, left):
    """Parts get no answer.  The abort is asked for, once, also if that gets none."""
    with faults.Proxy(swift.port) as proxy:
        proxy.begin, proxy.url = lambda: None, f"http://127.0.0.1:{proxy.port}"
        held = threading.Event()
        proxy.hold = lambda n: ("partNumber" in proxy.requests[-1][1] and (held.set() or True)) or (
            left and proxy.requests[-1][0] == "DELETE")
        proxy.asked = lambda: held.wait(60)
        with interrupted(proxy), stoker.Writer("s3://data/cut/w-%06d.tar", store=store_at(proxy)) as w:
            for k in range(40):
                w.write({"__key__": f"{k:06}", "bin": os.urandom(1 << 20)})
        wait_until(lambda: [m for m, _ in proxy.requests].count("DELETE") == 1)
        wait_until(lambda: uploads(swift) == left)      # a slow server is done with it after we have ended
    assert [m for m, _ in proxy.requests].count("DELETE") == 1


def uploads(swift):
    return swift.request("GET", "/data", "prefix=cut%2F&uploads=").decode().count("<UploadId>")


def program():
    return shutil.which("stoker") or str(pathlib.Path(stoker.__file__).parent / "stoker-cli")


@pytest.mark.parametrize("words", [("ls", "{url}"), ("index", "{url}"), ("pack", "{url}", "{tmp}/packed"),
                                   ("pack", "{url}", "s3://data/packed/")])
def test_the_command_line(silent, tmp_path, words, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", silent.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    silent.begin()
    child = subprocess.Popen([program(), *(w.format(url=shards(silent), tmp=tmp_path) for w in words)],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             # a shell's background jobs are started with Ctrl-C off, and their children
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    silent.asked()
    child.send_signal(signal.SIGINT)
    child.wait(60)
    assert child.returncode
    child.stderr.close()
