# SPDX-License-Identifier: Apache-2.0
"""Servers that fail for long, or have more requests than they can take: one limit, on time without progress."""
import hashlib
import pathlib
import sys
import threading

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import faults                                   # noqa: E402
from small_shards import EACH, SHARDS           # noqa: E402

import stoker                                   # noqa: E402

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services
LASTING = ("silent", "refuse", "status500", "short")


def stream(at):
    """Shards of 10 MB, three at a time, so that the last ones are not there when the first batch is."""
    return stoker.Loader(stoker.stream(f"{at}/big/t-{{000..002}}.tar", stoker.Store(timeout=2)), {"bin": "bytes"}, num_workers=1,
                         epoch_size=SHARDS * EACH, batch_size=4, streams=3, window=4, shuffle=True, memory_limit="64MB")


def hashes(*batches):
    return [hashlib.sha256(bytes(x)).hexdigest() for batch in batches for x in batch["bin"]]


def suffer(proxy, kind, yes):
    proxy.rate = 1 if yes else 0
    proxy.hold = (lambda count: True) if yes and kind == "silent" else None


def test_a_stream_whose_store_fails(web, data, monkeypatch):
    """An error within the time, whatever it is that lasts; and when it is over, the stream goes on where it was."""
    monkeypatch.setenv("STOKER_STORE_STALL", "10")
    with stream(data) as loader:
        wanted = hashes(*loader)
    said, got = {kind: [] for kind in LASTING}, {kind: [] for kind in LASTING}

    def run(kind):
        with faults.Proxy(web[0], faults=(kind,), limit=1 << 30) as proxy, stream(f"http://127.0.0.1:{proxy.port}") as loader:
            it = iter(loader)
            for turn in range(SHARDS * EACH):
                try:
                    got[kind] += hashes(next(it))
                except StopIteration:
                    break
                except stoker.StokerError as e:
                    said[kind].append(str(e))
                    suffer(proxy, kind, False)
                if not turn:
                    suffer(proxy, kind, True)

    threads = [threading.Thread(target=run, args=(kind,)) for kind in LASTING]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for kind in LASTING:
        assert said[kind] and all("without progress (Store timeout=2)" in x for x in said[kind]), (kind, said[kind])
        left = iter(wanted)
        assert all(x in left for x in got[kind]) and len(got[kind]) >= len(wanted) - 4 * len(said[kind]), kind


def test_fewer_requests_at_a_server_that_is_slow(web):
    """125 answers a second, and 256 requests at once: each would wait 2 s."""
    with faults.Proxy(web[0]) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar"
        stoker.open(url)
        proxy.service = 0.008
        with stoker.Loader(url, {"cls": "int"}, batch_size=40, shuffle=True, num_workers=2, prefetch=16, repeat=5) as loader:
            assert sum(len(batch["cls"]) for batch in loader) == 5 * SHARDS * EACH
        late = proxy.waiting[len(proxy.waiting) * 2 // 3:]
        assert max(proxy.waiting) > 200 and sum(late) / len(late) < 130, proxy.waiting
