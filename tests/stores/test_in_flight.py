# SPDX-License-Identifier: Apache-2.0
"""How many reads of remote data are in flight, counted at a proxy."""
import hashlib
import io
import pathlib
import sys
import tarfile

import numpy
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import faults                                   # noqa: E402

import stoker                                   # noqa: E402

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setenv("STOKER_STORE_STALL", "600")     # what waits is not asked for again


def npy(values):
    out = io.BytesIO()
    numpy.save(out, values)
    return out.getvalue()


def make_tar(path, n, size):
    with tarfile.open(path, "w") as tar:
        for k in range(n):
            for ext, data in (("cls", str(k).encode()), ("npy", npy(numpy.full(size, k, numpy.uint8)))):
                info = tarfile.TarInfo(f"{k:06}.{ext}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))


@pytest.fixture(scope="module")
def shards(data):
    make_tar(data / "many.tar", 240, 40000)
    make_tar(data / "large.tar", 60, 500_000)


def test_remote_data_begins_with_many_reads_in_flight(web, shards):
    """Answers wait until 200 requests are there.  Labels are too far apart to be read together."""
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/many.tar"
        assert len(stoker.open(url)) == 240
        proxy.gather = 200
        with stoker.Loader(url, {"cls": "int"}, batch_size=32, shuffle=True, num_workers=1) as loader:
            got = [int(x) for batch in loader for x in batch["cls"]]
        assert sorted(got) == list(range(240)) and proxy.peak >= 200, proxy.peak


def test_reads_in_flight_are_bounded_by_their_bytes(web, shards):
    """memory_limit leaves room for some large samples at once, and all of them come."""
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/large.tar"
        assert len(stoker.open(url)) == 60
        proxy.gather = 10**9

        def release():          # a second after the tenth has come: time for too many of them
            if proxy.pending >= 10:
                proxy._loop.call_later(1, setattr, proxy, "gather", 0)
            else:
                proxy._loop.call_later(0.1, release)

        proxy._loop.call_soon_threadsafe(release)
        with stoker.Loader(url, {"x": "from(npy) | npy(shape=(500000,), dtype=u8)"}, batch_size=4, shuffle=True, num_workers=2,
                           memory_limit="64MB") as loader:
            got = [int(x[-1]) for batch in loader for x in numpy.asarray(batch["x"])]
        assert sorted(got) == list(range(60)) and 10 <= proxy.peak <= 20, proxy.peak        # 8 MB, and what both workers began


def hashes(batches):
    return [(int(i), hashlib.sha256(bytes(x)).hexdigest(), int(c)) for batch in batches
            for i, x, c in zip(batch.sample_ids, batch["bin"], batch["cls"], strict=True)]


def loader(url, **more):
    return stoker.Loader(str(url), {"bin": "bytes", "cls": "int"}, batch_size=8, **{"num_workers": 2, **more})


ORDERS = {"as they are": {}, "small windows": {"shuffle": "block", "streams": 2, "window": 32, "seed": 5}}


@pytest.mark.parametrize("order, most", [("as they are", 20), ("small windows", 100)])
def test_neighbours_come_by_one_request(web, data, order, most):
    """120 samples, and what is read ahead of the next epochs."""
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar"
        stoker.open(url)
        proxy.sizes.clear()
        with loader(url, **ORDERS[order]) as far, loader(data / "t-*.tar", **ORDERS[order]) as near:
            got, n = hashes(far), sum(map(bool, proxy.sizes))
            reads = far.stats()["remote_reads"]
            assert got == hashes(near) and hashes(far) == hashes(near)
        assert n <= most * reads / 120, (n, reads, proxy.sizes)


def test_a_request_for_several_samples_is_asked_for_twice(web, data):
    """One that gets no answer, after enough others: at most one of 50 is asked for again.

    Before the test of faults: for 30 s after a 503 nothing is asked for twice."""
    held = []
    with faults.Proxy(web[0]) as proxy, loader(data / "t-*.tar", shuffle=True) as near:
        url = f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar"
        proxy.hold = lambda n: n > 200 and proxy.sizes[-1] > 100_000 and not held and not held.append(n)
        with loader(url, shuffle=True, store=stoker.Store(hedge=True)) as far:
            for _ in range(100):
                assert hashes(far) == hashes(near)
                if held and len(proxy.requests) > held[0] + 200:
                    break
        assert held


@pytest.mark.parametrize("seed", [1, 2])
def test_faults_in_requests_for_several_samples(web, data, seed, monkeypatch):
    monkeypatch.setenv("STOKER_STORE_STALL", "1")
    with faults.Proxy(web[0], seed=seed, rate=0.4, limit=40) as proxy, loader(data / "t-*.tar") as near:
        url = f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar"
        with loader(url) as far:
            while proxy.injected() < 40:
                assert hashes(far) == hashes(near)
    print(proxy.count)


def test_a_request_for_several_samples_goes_on_from_the_byte_it_reached(web, data):
    """Its first answer is cut off in the middle: the second asks for the rest, and nothing is asked for twice."""
    with faults.Proxy(web[0], rate=1.0, limit=1, faults=("truncate",)) as proxy, loader(data / "t-000.tar") as near:
        url = f"http://127.0.0.1:{proxy.port}/t-000.tar"
        proxy.limit = 0
        stoker.open(url)
        proxy.limit = 1
        first = len(proxy.sizes)
        with loader(url) as far:
            assert hashes(far) == hashes(near)
        assert proxy.count == {"truncate": 1}
        cut = proxy.sizes[first]
        assert cut > 100_000 and cut - cut // 2 in proxy.sizes[first + 1:], proxy.sizes[first:]
