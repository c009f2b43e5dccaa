# SPDX-License-Identifier: Apache-2.0
"""loader.monitor(), STOKER_MONITOR=1 and stoker top."""

import fcntl
import json
import os
import pty
import stat
import struct
import subprocess
import sys
import termios
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import stoker
from conftest import FIELDS
from lean import lean_env

CLI = Path(os.environ.get("STOKER_CLI", Path(__file__).resolve().parents[2] / "build/cli/stoker")).resolve()
CODE = """
import stoker, sys
loader = stoker.Loader(sys.argv[1], {"label": "from(cls) | int"}, batch_size=10)
for batch in loader:
    pass
print("ready", flush=True)
sys.stdin.read()
"""


def top(folder, *args, **more):
    return subprocess.run([CLI, "top", *map(str, args)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "XDG_RUNTIME_DIR": str(folder), **more})


@pytest.fixture
def process(urls, tmp_path):
    if not CLI.exists():
        pytest.skip(f"{CLI} is not built")
    env = lean_env(XDG_RUNTIME_DIR=str(tmp_path), STOKER_MONITOR="1")
    with subprocess.Popen([sys.executable, "-c", CODE, urls], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout.readline() == "ready\n"
        yield p
        p.stdin.close()
        p.wait(120)
    assert list((tmp_path / "stoker").iterdir()) == []


def test_top_shows_a_process(process, tmp_path):
    path = tmp_path / "stoker" / f"{process.pid}.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    for args in ([], [process.pid]):
        done = top(tmp_path, *args)
        assert done.returncode == 0 and " samples in 10 batches, " in done.stdout, done.stderr
    got = json.loads(top(tmp_path, "--json").stdout)
    assert got["pid"] == process.pid and got["loaders"][0]["stats"]["batches"] == 10


def test_top_in_a_browser(process, tmp_path):
    env = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    with subprocess.Popen([CLI, "top", "--http", "0"], env=env, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(address, timeout=60) as answer:
                assert b" samples in 10 batches, " in answer.read()
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(address, data=b"x"), timeout=60)
            assert refused.value.code == 405
            port = address.rstrip("/").rsplit(":", 1)[1]
            done = top(tmp_path, "--http", port)
            assert done.returncode == 3 and f"port {port} of 127.0.0.1 cannot be served" in done.stderr
        finally:
            server.kill()


def test_top_on_a_narrow_terminal(process, tmp_path):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with subprocess.Popen([CLI, "top", "--interval", "0.1"], env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, stdout=theirs) as viewer:
        os.close(theirs)
        got = b""
        while got.count(b"\x1b[H") < 2:         # two whole pictures
            got += os.read(ours, 4096)
        viewer.kill()
    os.close(ours)
    lines = got.decode(errors="replace").split("\x1b[H\x1b[2J")[1].splitlines()
    assert len(lines) > 5 and max(map(len, lines)) <= 40 and " samples in 10 batches" in lines[0]


def test_nothing_to_watch(tmp_path):
    if not CLI.exists():
        pytest.skip(f"{CLI} is not built")
    done = top(tmp_path)
    assert done.returncode == 3 and "STOKER_MONITOR=1" in done.stderr
    done = top(tmp_path, 1)
    assert done.returncode == 3 and "no process answers there" in done.stderr
    assert top(tmp_path, "x").returncode == 2


def test_monitor_in_this_process(urls, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with stoker.Loader(urls, FIELDS) as loader:
        path = loader.monitor()
        assert loader.monitor() == path and os.path.exists(path)
    from stoker import _loader_base as module
    module._monitors.pop(os.getpid()).close()
    assert not os.path.exists(path)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "file"))
    with stoker.Loader(urls, FIELDS) as loader, pytest.raises(stoker.StokerError, match="cannot be watched there"):
        loader.monitor()
