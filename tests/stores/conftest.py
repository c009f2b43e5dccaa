# SPDX-License-Identifier: Apache-2.0
"""Servers that all tests of remote data share."""
import base64
import os
import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import servers                          # noqa: E402
from blobs import Azure                 # noqa: E402
from s3 import S3                       # noqa: E402
from small_shards import make_shards    # noqa: E402


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    make_shards(folder, 7)
    make_shards(folder / "big", 8, 400000, 100000)       # of several chunks of the cache each
    return folder


def once_up(step):
    """Each of the servers for accounts, containers and objects begins in its own time."""
    end = time.monotonic() + 60
    while True:
        try:
            return step()
        except (AssertionError, OSError):
            if time.monotonic() > end:
                raise
            time.sleep(0.3)


@pytest.fixture(scope="session")
def swift(tmp_path_factory, data):
    if not servers.swift_is_there():
        pytest.skip("OpenStack Swift is not installed: tools/setup.sh installs it where it may")
    port, group = servers.start_swift(tmp_path_factory.mktemp("swift"))
    s3 = S3(port)
    once_up(lambda: s3.make_bucket("data"))
    for path in sorted(data.glob("*.tar")):
        once_up(lambda path=path: s3.put("data", f"train/{path.name}", path.read_bytes()))
    yield s3
    group.stop()


@pytest.fixture(scope="session")
def web(tmp_path_factory, data):
    if not servers.nginx_program():
        pytest.skip("nginx is not installed: tools/setup.sh installs it where it may")
    folder = tmp_path_factory.mktemp("nginx")
    port, tls, group = servers.start_nginx(folder, data)
    yield port, tls, folder / "cert.pem"
    group.stop()


ACCOUNTS = {name: base64.b64encode(bytes(range(i, i + 64))).decode() for i, name in enumerate(("first", "second"))}


@pytest.fixture(scope="session")
def azurite(tmp_path_factory, data):
    """Two accounts, each with a container `data`; the first one has the shards."""
    if not servers.azurite_program():
        pytest.skip("Azurite is not installed: tools/setup.sh --tests installs it where there is npm")
    port, group = servers.start_azurite(tmp_path_factory.mktemp("azurite"), ACCOUNTS)
    accounts = [Azure(port, name, key) for name, key in ACCOUNTS.items()]
    for account in accounts:
        account.make_container("data")
    for path in sorted(data.glob("*.tar")):
        accounts[0].put("data", f"train/{path.name}", path.read_bytes())
    yield accounts
    group.stop()


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    for name in [n for n in os.environ if n.startswith(("AWS_", "AZURE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("STOKER_CACHE", str(tmp_path / "index"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("STOKER_STORE_STALL", "120")    # a loaded machine is slow, and requests are counted
