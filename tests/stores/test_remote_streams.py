# SPDX-License-Identifier: Apache-2.0
"""Streams of remote shards: no index, a few large requests, faults, resume."""
import hashlib
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
KEYS = {"access_key": "test:tester", "secret_key": "testing"}


def loader(url, store=None, **more):
    return stoker.Loader(stoker.stream(str(url), store), {"bin": "bytes"}, epoch_size=SHARDS * EACH,
                         **{"batch_size": 8, "shuffle": True, "window": 60, **more})


def hashes(batches):
    return [hashlib.sha256(bytes(x)).hexdigest() for batch in batches for x in batch["bin"]]


@pytest.fixture(scope="module")
def local(data):
    return hashes(loader(f"{data}/t-*.tar"))


def test_from_a_web_server_in_few_requests(web, local, tmp_path):
    with faults.Proxy(web[0]) as proxy:
        assert hashes(loader(f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar")) == local
        assert len(set(local)) == SHARDS * EACH
        # The names of fields, then each shard: its first piece, and ever larger ones up to its end; later epochs may
        # have begun, how many depends on who was faster.
        assert len(proxy.requests) <= 5 * sum(proxy.from_start.values()), (proxy.requests, proxy.from_start)
        assert set(proxy.from_start) == {f"/t-{k:03}.tar" for k in range(SHARDS)}
        assert max(proxy.sizes) >= 1 << 19
    assert not (tmp_path / "index").exists()


def test_from_a_bucket(swift, local):
    store = stoker.Store(endpoint=f"http://127.0.0.1:{swift.port}", credentials=KEYS)
    data = loader("s3://data/train/t-*.tar", store)
    it = iter(data)
    first = hashes([next(it) for _ in range(9)])
    again = loader("s3://data/train/t-*.tar", store, num_workers=0)
    again.load_state_dict(data.state_dict())
    assert first + hashes(again) == local


def test_faults_change_nothing(web, local):
    with faults.Proxy(web[0], seed=9, rate=0.4, limit=8) as proxy:
        assert hashes(loader(f"http://127.0.0.1:{proxy.port}/t-{{000..002}}.tar")) == local
        assert proxy.injected() > 2, proxy.count


def test_a_shard_that_is_not_there(web):
    with pytest.raises(stoker.StokerError, match="t-003.tar"):
        hashes(loader(f"http://127.0.0.1:{web[0]}/t-{{000..003}}.tar"))
