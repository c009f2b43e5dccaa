# SPDX-License-Identifier: Apache-2.0
"""Azure Blob against Azurite: what a local folder has, whoever signs; pages, versions, errors, writing and going on."""
import http.client
import os

import faults
import pytest
from epochs import epoch
from packing import cli, killed, local_shards

import stoker

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services
SHARDS = "az://data/train/t-{000..002}.tar"
ODD = ["a b.tar", "plus+and&.tar", "quo'te.tar", "per%41cent.tar", "hash#.tar", "what?.tar", "ünicode/日本.tar", "eq=ual;.tar", "<angle>.tar"]


@pytest.fixture
def at(azurite, monkeypatch):
    """A function that sends this process and its children to a port; the first account, at its own port to begin with."""
    def use(port):
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", azurite[0].at(port))
    use(azurite[0].port)
    return use


def store_of(account, **more):
    return stoker.Store(endpoint=account.endpoint, credentials={"access_key": account.account, "secret_key": account.key}, **more)


def names_of(pattern, store=None):
    return list(stoker.open(pattern, store=store).shards)


def test_it_gives_what_local_files_give(azurite, data):
    first, local = azurite[0], epoch(f"{data}/t-*.tar")
    assert epoch(SHARDS, store_of(first)) == local
    assert epoch("az://data/train/", store_of(first)) == local
    sas = stoker.Store(endpoint=first.endpoint, credentials={"session_token": first.sas("rl")})
    assert epoch("az://data/train/t-*.tar", sas) == local
    asked = stoker.Store(endpoint=first.endpoint, credentials=lambda: {"access_key": first.account, "secret_key": first.key})
    assert epoch(SHARDS, asked) == local


def test_who_asks_by_the_environment(azurite, data, monkeypatch, tmp_path):
    """A process looks once: each way has one of its own."""
    first, second = azurite
    at = {"AZURE_STORAGE_SERVICE_ENDPOINT": first.endpoint}
    ways = [{"AZURE_STORAGE_CONNECTION_STRING": first.at(first.port)},
            {"AZURE_STORAGE_CONNECTION_STRING": f"BlobEndpoint={first.endpoint}/;SharedAccessSignature={first.sas()}"},
            {"AZURE_STORAGE_ACCOUNT": first.account, "AZURE_STORAGE_KEY": first.key, **at},
            {"AZURE_STORAGE_SAS_TOKEN": "?" + first.sas(), **at}]
    want = cli("ls", data / "t-000.tar")
    for i, way in enumerate(ways):
        with monkeypatch.context() as m:
            m.setenv("STOKER_CACHE", str(tmp_path / f"{i}"))
            for name, value in way.items():
                m.setenv(name, value)
            assert cli("ls", "az://data/train/t-000.tar") == want
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", second.at(first.port))
    assert "no such file" in cli("ls", "az://data/train/t-001.tar", fails=True)


def test_any_name(azurite, at, data):
    raw = (data / "t-000.tar").read_bytes()
    for name in ODD:
        azurite[0].put("data", f"odd/{name}", raw)
    want, local = sorted(f"az://data/odd/{n}" for n in ODD), stoker.open(f"{data}/t-000.tar")
    store = store_of(azurite[0])
    assert names_of("az://data/odd/*.tar", store) == [n for n in want if n.count("/") == 4]
    for name in ODD:
        ds = stoker.open(f"az://data/odd/{name}".replace("?", "[?]"), store=store)
        assert len(ds) == len(local) and ds[39]["bin"] == local[39]["bin"]


def pages_of(proxy, account, size):
    """A function for a proxy: listings have so many names a page.  The query is not signed, with a SAS token."""
    def answer(method, path, head):
        if "comp=list" not in path:
            return None
        connection = http.client.HTTPConnection("127.0.0.1", account.port, timeout=60)
        connection.request(method, f"{path}&maxresults={size}")
        got = connection.getresponse()
        body = got.read()
        connection.close()
        return b"HTTP/1.1 %d Page\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n" % (got.status, len(body)) + body
    proxy.override = answer


def test_a_listing_of_many_pages(azurite, tmp_path):
    account, n = azurite[0], int(os.environ.get("STOKER_BLOBS", "45"))
    own = n > 5000              # the server's own pages, of 5,000; else small ones
    small, page, step = make_one_sample(tmp_path), 5000 if own else 7, 100 if own else 5
    for i in range(n):
        account.put("data", f"many/{i:06}.tar", b"" if i % step else small)
    with faults.Proxy(account.port) as proxy:
        if not own:
            pages_of(proxy, account, page)
        store = stoker.Store(endpoint=f"http://127.0.0.1:{proxy.port}/{account.account}", credentials={"session_token": account.sas("rl")})
        ds = stoker.open("az://data/many/*00.tar" if own else "az://data/many/*[05].tar", store=store)
        assert list(ds.shards) == [f"az://data/many/{i:06}.tar" for i in range(0, n, step)]
        assert sum("comp=list" in path for _, path in proxy.requests) == -(-n // page)
        assert all("sig=" in path for _, path in proxy.requests)


def make_one_sample(path):
    with stoker.Writer(path / "one-%d.tar") as out:
        out.write({"__key__": "a", "cls": "1"})
    return (path / "one-0.tar").read_bytes()


def test_a_blob_that_changes_is_noticed(azurite, at, data):
    first = azurite[0]
    raw = (data / "t-001.tar").read_bytes()
    first.put("data", "new/t.tar", raw)
    store = store_of(first)
    ds = stoker.open("az://data/new/t.tar", store=store)
    assert ds[3]["bin"] == stoker.open(f"{data}/t-001.tar")[3]["bin"]
    with faults.Proxy(first.port) as proxy:
        matched = []
        proxy.override = lambda method, path, head: matched.append(b"\r\nif-match: \"0x" in head.lower()) if b"range:" in head.lower() else None
        other = stoker.Store(endpoint=f"http://127.0.0.1:{proxy.port}/{first.account}",
                             credentials={"access_key": first.account, "secret_key": first.key})
        assert stoker.open("az://data/new/t.tar", store=other)[5]["bin"] == ds[5]["bin"]
        assert matched and matched[-1]
    first.put("data", "new/t.tar", raw[:600] + bytes([raw[600] ^ 1]) + raw[601:])       # as long as it was
    with pytest.raises(stoker.StokerError, match=r"changed since it was indexed \(HTTP status 412\)"):
        ds[4]


def test_errors_say_what_to_do(azurite, monkeypatch):
    first = azurite[0]
    wrong = stoker.Store(endpoint=first.endpoint, credentials={"access_key": first.account, "secret_key": azurite[1].key})
    old = stoker.Store(endpoint=first.endpoint, credentials={"session_token": first.sas(minutes=-5)})
    none = stoker.Store(endpoint=first.endpoint, anonymous=True)
    for store in (wrong, old, none):
        with pytest.raises(stoker.StokerError, match="access denied .*check AZURE_STORAGE_ACCOUNT with its key or SAS token") as failed:
            stoker.open("az://data/train/t-000.tar", store=store)
        assert "\n" not in str(failed.value) and "sig=" not in str(failed.value) and azurite[1].key not in str(failed.value)
    with pytest.raises(stoker.StokerError, match="the container can't be listed .*check AZURE_STORAGE_ACCOUNT"):
        stoker.open("az://data/train/*.tar", store=wrong)
    good = store_of(first)
    for url, why in (("az://data/train/none.tar", "no such file"), ("az://none/*.tar", "no such container"), ("az://none/a.tar", "no such container"),
                     ("az://data", "that is a container: name an object"), ("az://da ta/a.tar", "the name of a container can't have"),
                     ("az:///a.tar", "the address has no container")):
        with pytest.raises(stoker.StokerError, match=why):
            stoker.open(url, store=good)
    with pytest.raises(stoker.StokerError, match="az:// needs an account: set AZURE_STORAGE_ACCOUNT or AZURE_STORAGE_CONNECTION_STRING"):
        stoker.open("az://data/train/t-000.tar")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "me")
    monkeypatch.setenv("AZURE_STORAGE_KEY", "not base64")
    monkeypatch.setenv("AZURE_STORAGE_SERVICE_ENDPOINT", first.endpoint)
    assert "the account's key is not base64: copy it again" in cli("ls", "az://data/train/t-000.tar", fails=True)


def test_two_accounts_share_no_cache(azurite, data, tmp_path, monkeypatch):
    second, folder = azurite[1], tmp_path / "cache"
    second.put("data", "train/t-000.tar", (data / "t-002.tar").read_bytes())
    for account, shard in zip(azurite, ("t-000", "t-002"), strict=True):
        monkeypatch.setenv("STOKER_CACHE", str(tmp_path / account.account))     # of indexes, which go by the name alone
        store, want = store_of(account, cache=folder), epoch(f"{data}/{shard}.tar")
        assert epoch("az://data/train/t-000.tar", store) == want
        assert epoch("az://data/train/t-000.tar", store) == want
    shown = cli("cache", "ls", "--store-cache", folder)
    assert shown.count("az://data/train/t-000.tar") == 2
    for raw in (p.read_bytes() for p in folder.rglob("*") if p.is_file()):
        assert azurite[0].key.encode() not in raw


def packed(account, prefix):
    return {n.rsplit("/", 1)[1]: account.get("data", n) for n in account.names("data", prefix=prefix) if n.endswith(".tar")}


def test_pack_and_read_back(azurite, at, data, tmp_path):
    source, how = f"{data}/big/t-000.tar", ("--samples", 36, "--shuffle", 1)       # the first has more than a block
    cli("pack", source, tmp_path / "local", *how)
    with faults.Proxy(azurite[0].port) as proxy:
        at(proxy.port)
        cli("pack", source, "az://data/pk", *how)
        assert sum("comp=blocklist" in path for _, path in proxy.requests) == 1
        assert sum("comp=block&" in path for _, path in proxy.requests) >= 2
        assert packed(azurite[0], "pk/") == local_shards(tmp_path / "local")
        assert any(n.endswith(".idx") for n in azurite[0].names("data", prefix="pk/.stoker/"))
        proxy.requests.clear()
        assert "already there" in cli("pack", source, "az://data/pk", *how)
        assert not [path for method, path in proxy.requests if method == "PUT"]
    at(azurite[0].port)
    assert epoch("az://data/pk/shard-{000000..000001}.tar") == epoch(tmp_path / "local" / "shard-{000000..000001}.tar")
    cli("pack", f"{data}/t-000.tar", "az://data/pk", "--samples", 40, "--force")
    assert sorted(packed(azurite[0], "pk/")) == ["shard-000000.tar"]         # what is beyond the last is deleted
    with stoker.Writer("az://data/none/%d.tar"):
        pass
    assert azurite[0].names("data", prefix="none/") == []


def test_a_pack_that_is_killed_goes_on(azurite, at, data, tmp_path):
    account, source = azurite[0], [data / "t-000.tar", data / "big" / "t-000.tar"]       # the second has more than a block
    words = ("pack", *source, "az://data/kill/k-%03d.tar", "--samples", "40", "--workers", "1")
    cli(*words[:3], tmp_path / "k-%03d.tar", *words[4:])
    want = local_shards(tmp_path)
    with faults.Proxy(account.port) as proxy:
        at(proxy.port)
        killed(proxy, words, lambda path: "k-001.tar" in path and sum("k-001.tar?comp=block&" in p for _, p in proxy.requests) == 2)
        assert packed(account, "kill/") == {"k-000.tar": want["k-000.tar"]}       # blocks that are not committed are no blob
        proxy.hold = None
        proxy.requests.clear()
        assert "1 shard was there already" in cli(*words)
        assert not [p for m, p in proxy.requests if m == "PUT" and "/kill/k-000.tar" in p]
    assert packed(account, "kill/") == want


def test_faults_on_the_way(azurite, data):
    first, local = azurite[0], epoch(f"{data}/t-*.tar")
    with faults.Proxy(first.port, seed=4, rate=0.3, limit=12, faults=("reset", "truncate", "status500", "slow_down", "short", "wrong_range")) as proxy:
        store = stoker.Store(endpoint=f"http://127.0.0.1:{proxy.port}/{first.account}",
                             credentials={"access_key": first.account, "secret_key": first.key})
        assert epoch(SHARDS, store) == local
        assert proxy.injected() > 3
