# SPDX-License-Identifier: Apache-2.0
"""Nothing shows a password or a signature, and no other user and no other host gets or gives what is believed."""
import http.server
import os
import pathlib
import pickle
import subprocess
import sys
import threading

import pytest

import stoker

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)
pytestmark = pytest.mark.services
CLI = os.environ.get("STOKER_CLI") or str(pathlib.Path(__file__).parents[2] / "build/cli/stoker")
SECRETS = ("sesame", "0pen5ignature")
FIELDS = {"bin": "bytes", "cls": "int"}


class Files(http.server.BaseHTTPRequestHandler):
    """Ranges of the files of a folder, for those who know the password and the signature."""

    folder: pathlib.Path

    def do_GET(self):
        path, _, query = self.path.partition("?")
        file = self.folder / path.strip("/")
        if "0pen5ignature" not in query or "Authorization" not in self.headers or not file.is_file():
            self.send_response(404 if "gone" in path else 403)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        raw, first, last = file.read_bytes(), 0, None
        if "Range" in self.headers:
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
        part = raw[int(first):int(last) + 1 if last else None]
        self.send_response(206 if "Range" in self.headers else 200)
        self.send_header("ETag", f'"{file.name}"')
        self.send_header("Content-Length", str(len(part)))
        if "Range" in self.headers:
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(raw)}")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(part)

    do_HEAD = do_GET

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def server(data):
    handler = type("Handler", (Files,), {"folder": data})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://me:sesame@127.0.0.1:{made.server_port}/{{}}?X-Amz-Signature=0pen5ignature"
        made.shutdown()


def clean(*texts):
    for text in texts:
        text = text if isinstance(text, str) else text.decode("latin-1")
        for secret in SECRETS:
            at = text.find(secret)
            assert at < 0, text[max(0, at - 200):at + 80]


def failed(do):
    try:
        do()
    except Exception as error:
        return f"{error} {error!r} {getattr(error, 'shard', '')}"
    pytest.fail("it must not work")


def files_below(*folders):
    return [p.read_bytes() for folder in folders for p in pathlib.Path(folder).rglob("*") if p.is_file()]


def test_python_shows_no_secret(server, tmp_path, caplog):
    url, gone = server.format("t-000.tar"), server.format("gone.tar")
    store = stoker.Store(endpoint="http://me:sesame@127.0.0.1:9", cache=str(tmp_path / "cache"), credentials={"access_key": "a", "secret_key": "sesame"})
    cached = stoker.Store(cache=str(tmp_path / "cache"))
    ds = stoker.open(url, store=cached)
    loader = stoker.Loader(url, FIELDS, batch_size=4, store=cached)
    batches = iter(loader)
    batch = next(batches)
    stream = stoker.stream(url)
    clean(repr(ds), repr(loader), str(loader), repr(store), repr(stream), str(ds.shards), str(loader.state_dict()), repr(batch),
          str(loader.stats()), str(loader.diagnose()), str(loader.explain(0)),
          repr(stoker.Loader(stream, FIELDS, batch_size=4, epoch_size=8)), repr(stoker.mix({"a": (ds, 1)})), ds.shards[0])
    clean(failed(lambda: stoker.open(gone)), failed(lambda: stoker.open(gone.replace("0pen5ignature", "sesame"))),
          failed(lambda: stoker.Loader(gone, FIELDS)), failed(lambda: stoker.Loader(url, {"x": "from(none) | int"})),
          failed(lambda: write_to(server.format("out-%d.tar"))), failed(lambda: stoker.pack(url, server.format("out"))),
          failed(lambda: stoker.Loader(url, FIELDS, batch_size=url)), failed(lambda: stoker.Loader(url, FIELDS, nosuch=url)),
          failed(lambda: stoker.stream(url, nosuch=1)), failed(lambda: next(iter(stoker.Loader(stoker.stream(gone), FIELDS, batch_size=1, epoch_size=1)))),
          failed(lambda: stoker.prepared(url, server.format("p"))), failed(lambda: stoker.Store(endpoint=url, credentials=url)))
    stoker.pack(url, tmp_path / "packed", store=cached)
    stoker.pack(url, tmp_path / "mapped", map=len_of, num_proc=1, store=cached)
    loader.close()
    clean(caplog.text, *files_below(tmp_path))
    assert pickle.loads(pickle.dumps(ds))[3] == ds[3]           # the address itself travels


def write_to(url):
    with stoker.Writer(url) as out:
        out.write({"__key__": "a", "txt": "b"})


def len_of(sample):
    return {**sample, "bin": b"x"}


def test_the_command_line_shows_no_secret(server, tmp_path):
    url, gone = server.format("t-000.tar"), server.format("gone.tar")
    cache = ["--store-cache", str(tmp_path / "cache")]
    commands = [["index", url], ["ls", url], ["ls", "--schema", url], ["ls", "--json", url], ["cat", url, "0"], ["check", url],
                ["bench", url, "--field", "cls=int", "--seconds", "0.2", "--html", str(tmp_path / "bench.html")],
                ["bench", url, "--field", "cls=int", "--seconds", "0.2", "--json"],
                ["describe", url, "--html", str(tmp_path / "describe.html")], ["describe", url, "--json"], ["plan", url, "--step-ms", "10"],
                ["check", url, "--html", str(tmp_path / "check.html")], ["doctor", url], ["cache", "fill", url, *cache], ["cache", "ls", *cache],
                ["pack", url, str(tmp_path / "o"), "--write-plan", str(tmp_path / "plan.json")], ["pack", url, str(tmp_path / "o")],
                ["index", gone], ["ls", gone], ["bench", gone], ["describe", gone], ["check", gone], ["doctor", gone], ["nosuch", url], [url],
                ["ls", url, "--nosuch", url], ["cat", url, url], ["pack", url], ["pack", url, server.format("x")], ["drift", url, gone],
                ["bench", url, "--batch-size", url]]
    ran = 0
    for command in commands:
        done = subprocess.run([CLI, *command], capture_output=True, timeout=180, stdin=subprocess.DEVNULL, check=False)
        clean(done.stdout, done.stderr)
        ran += done.returncode == 0
    assert ran >= 12
    clean(*files_below(tmp_path))


def test_a_plan_names_no_secret(server, tmp_path):
    done = subprocess.run([CLI, "pack", server.format("t-000.tar"), str(tmp_path / "o"), "--write-plan", str(tmp_path / "plan.json")],
                          capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode and "a plan would show the password or query of http://***@" in done.stderr and not (tmp_path / "plan.json").exists()


# ---- the host cache -----------------------------------------------------------------------------

def poisoned(kind, top, inner):
    """A cache folder as another user may have left it."""
    os.makedirs(top, exist_ok=True)
    if kind == "owner":
        os.makedirs(inner)
        os.chown(inner, 12345, 12345)
    elif kind == "link":
        os.makedirs(top / "theirs")
        os.symlink(top / "theirs", inner)
    elif kind == "mode":
        os.makedirs(inner)
        os.chmod(inner, 0o777)
    elif kind == "open folder above":
        os.chmod(top, 0o777)
    elif kind == "folder above":
        os.chown(top, 12345, 12345)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("kind", ["owner", "link", "mode", "open folder above", "folder above"])
def test_what_another_user_may_write_is_no_cache(server, tmp_path, kind):
    top = tmp_path / "nvme"
    inner = top / "stoker-cache-1"
    poisoned(kind, top, inner)
    before = sorted(p for p in top.rglob("*"))
    with pytest.raises(stoker.StokerError, match="is not used: .*; give cache= a folder of your own"):
        stoker.open(server.format("t-000.tar"), store=stoker.Store(cache=str(top)))
    assert sorted(p for p in top.rglob("*")) == before
    if inner.exists():
        done = subprocess.run([CLI, "cache", "clear", "--store-cache", str(top)], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode and "is not used" in done.stderr


def test_a_sticky_folder_above_is_fine(server, tmp_path):
    top = tmp_path / "nvme"
    top.mkdir()
    os.chmod(top, 0o1777)
    old = os.umask(0)
    try:
        ds = stoker.open(server.format("t-000.tar"), store=stoker.Store(cache=str(top)))
        assert ds[0] and stoker.open(server.format("t-000.tar"), store=stoker.Store(cache=str(top)))[1]
    finally:
        os.umask(old)
    assert not os.stat(top / "stoker-cache-1").st_mode & 0o022


# ---- services that hand out keys ------------------------------------------------------------------

class Redirects(http.server.BaseHTTPRequestHandler):
    to = ""
    seen: list = []

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        type(self).seen.append((self.command, self.path, dict(self.headers)))
        self.send_response(307 if self.to else 200)
        if self.to:
            self.send_header("Location", self.to + self.path)
        body = b"" if self.to else b'{"AccessKeyId": "theirs", "SecretAccessKey": "theirs"}'
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_GET

    def log_message(self, *args):
        pass


CHILD = "import sys, stoker; stoker.open('s3://bucket/a.tar', store=stoker.Store(endpoint=sys.argv[1], region='r'))"


@pytest.mark.parametrize("service", ["container", "web identity", "instance"])
def test_key_services_are_not_followed(service, tmp_path):
    thief, first = (type("Handler", (Redirects,), {"seen": []}) for _ in range(2))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), thief) as far, http.server.ThreadingHTTPServer(("127.0.0.1", 0), first) as near:
        for one in far, near:
            threading.Thread(target=one.serve_forever, daemon=True).start()
        first.to = f"http://127.0.0.1:{far.server_port}"
        at = f"http://127.0.0.1:{near.server_port}"
        (tmp_path / "token").write_text("sesame")
        env = {"container": {"AWS_CONTAINER_CREDENTIALS_FULL_URI": at + "/keys", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "sesame"},
               "web identity": {"AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/x", "AWS_ENDPOINT_URL_STS": at},
               "instance": {"AWS_EC2_METADATA_SERVICE_ENDPOINT": at, "AWS_EC2_METADATA_DISABLED": "false"}}[service]
        done = subprocess.run([sys.executable, "-c", CHILD, "http://127.0.0.1:9"], capture_output=True, text=True, timeout=180,
                              env={**os.environ, **env, "STOKER_STORE_STALL": "5"}, check=False)
        assert first.seen and not thief.seen and done.returncode
        for one in far, near:
            one.shutdown()


HOSTS = ["127.0.0.1.example.com", "localhost.example.com", "127.example.com", "169.254.170.2.example.com", "[::1].example.com"]


@pytest.mark.parametrize("host", HOSTS)
def test_a_name_that_begins_like_this_host_is_another(host, monkeypatch):
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"http://{host}/keys")
    with pytest.raises(stoker.StokerError, match="must be https or this host's own"):
        stoker.open("s3://bucket/a.tar", store=stoker.Store(endpoint="http://127.0.0.1:9", region="r"))
