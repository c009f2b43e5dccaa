# SPDX-License-Identifier: Apache-2.0
"""A server that goes silent: what next() waits for is in the log, in stats(), in report() and in `stoker top`, while it waits."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from lost_matrix import FIELDS, SAMPLES, Refused, make_shards

import stoker

if "curl: none" in stoker.build_info():
    pytest.skip("this build reads no remote data", allow_module_level=True)


class Silent(Refused):
    """The second shard's requests get no answer until `passed()`."""

    def __init__(self, folder):
        self.go = threading.Event()
        super().__init__(folder, hold=lambda handler: self.go.wait(120))

    def passed(self):
        self.on = False
        self.go.set()


class Pausing(Refused):
    """The second shard's requests are to come again in 2 s."""

    def __init__(self, folder):
        super().__init__(folder, hold=self.busy)

    def busy(self, handler):
        handler.send_response(503)
        handler.send_header("Retry-After", "2")
        handler.send_header("Content-Length", "0")
        handler.end_headers()


def until(look, what):
    end = time.monotonic() + 90
    while not (found := look()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return found


def in_top(data, host):
    """The text, and the page that --http serves."""
    data.monitor()
    top = [os.environ.get("STOKER_CLI") or Path(sys.executable).parent / "stoker", "top", str(os.getpid())]
    shown = subprocess.run(top, capture_output=True, text=True, timeout=120)
    assert shown.returncode == 0 and host in shown.stdout and "t-1.tar" in shown.stdout, shown.stdout + shown.stderr
    with subprocess.Popen([*top, "--http", "0"], stdout=subprocess.PIPE, text=True) as server:
        try:
            with urllib.request.urlopen(server.stdout.readline().strip(), timeout=60) as page:
                assert host in (text := page.read().decode()) and "t-1.tar" in text, text
        finally:
            server.terminate()


def open_loader(kind, where, workers):
    return stoker.Loader(where, FIELDS, batch_size=6, num_workers=workers, collate={"ragged": "list"}) if kind == "files" else \
        stoker.Loader(stoker.stream(where), FIELDS, batch_size=6, num_workers=workers, epoch_size=SAMPLES, collate={"ragged": "list"})


@pytest.mark.parametrize("kind,workers", [("files", 2), ("stream", 2), ("files", 0), ("stream", 0)])
def test_a_silent_server_is_named(tmp_path, monkeypatch, caplog, kind, workers):
    monkeypatch.setenv("STOKER_WAIT_WARN", "0.4")
    monkeypatch.setenv("STOKER_STORE_STALL", "1")       # then the request is cut and sent again
    make_shards(tmp_path)
    fault = Silent(tmp_path)
    host = f"127.0.0.1:{fault.server.server_port}"
    data = open_loader(kind, fault.where, workers)
    got, caplog_level = [], logging.getLogger("stoker").level
    caplog.set_level(logging.WARNING, logger="stoker")
    loop = threading.Thread(target=lambda: got.extend(int(n) for batch in data for n in batch["n"]))
    try:
        loop.start()
        now = until(lambda: (w := data.stats()["wait"]["for"]) and w["retries"] and w["shard"].endswith("t-1.tar") and w["seconds"] >= 1 and w,
                    "stats() never said what is waited for")
        assert now["host"] == host and now["shard"].endswith("t-1.tar") and now["epoch"] == 0 and now["seconds"] >= 1
        assert data.stats()["wait"]["now_s"] >= now["seconds"] - 0.01      # one clock for all slices
        lines = until(lambda: [r.getMessage() for r in caplog.records if host in r.getMessage() and "sent again, the last: " in
                               r.getMessage()], "the log has no line that names the host")
        line = lines[-1]
        assert line.startswith("waited ") and "(since " in line and "t-1.tar" in line and "has not answered since" in line, line
        assert "now: waited " in data.report() and host in data.report()
        if kind == "files" and workers:
            in_top(data, host)
        assert "stoker_wait_seconds" in data.metrics()
    finally:
        fault.passed()
        loop.join(120)
        logging.getLogger("stoker").setLevel(caplog_level)
    assert got == list(range(SAMPLES))
    assert data.stats()["wait"]["for"] is None and data.stats()["wait"]["now_s"] == 0
    assert data.stats()["wait"]["data_s"] >= 1 and data.stats()["handed_out"] == SAMPLES
    data.close()
    fault.close()


def test_a_host_is_named_while_all_requests_pause(tmp_path, monkeypatch):
    """Also after another file of the host was read, which is an answer."""
    monkeypatch.setenv("STOKER_WAIT_WARN", "0.2")
    make_shards(tmp_path)
    fault = Pausing(tmp_path)
    data = open_loader("stream", fault.where, 0)
    got = []
    loop = threading.Thread(target=lambda: got.extend(int(n) for batch in data for n in batch["n"]))
    try:
        loop.start()
        until(lambda: (w := data.stats()["wait"]["for"]) and w["retries"], "no request was sent again")
        with open_loader("files", fault.where[:1], 0) as other:
            assert next(iter(other))["n"].tolist() == list(range(6))
        since = data.stats()["wait"]["for"]["seconds"]
        now = until(lambda: (w := data.stats()["wait"]["for"]) and w["seconds"] > since + 1.2 and w, "it does not wait any more")
        assert now["host"] == f"127.0.0.1:{fault.server.server_port}", now
    finally:
        fault.on = False
        loop.join(120)
    assert got == list(range(SAMPLES))
    data.close()
    fault.close()


@pytest.mark.parametrize("kind,workers", [("files", 2), ("stream", 0)])
def test_signals_while_lines_are_logged(tmp_path, monkeypatch, kind, workers):
    """A handler runs where next() holds no lock: it may ask the loader, and what it raises is raised by next()."""
    class Stop(Exception):
        pass

    def handler(number, frame):
        assert data.state_dict()["position"] == len(got)
        raise Stop

    monkeypatch.setenv("STOKER_WAIT_WARN", "0.01")      # a line in each slice
    monkeypatch.setenv("STOKER_STORE_STALL", "1")
    make_shards(tmp_path)
    fault, got = Silent(tmp_path), []
    data = open_loader(kind, fault.where, workers)
    it = iter(data)
    for _ in range(4):
        got += next(it)["n"].tolist()
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for wait in (0.31, 0.05, 0.2, 0.11, 0.25):
            signal.setitimer(signal.ITIMER_REAL, wait)
            with pytest.raises(Stop):
                next(it)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        fault.passed()
    got += [int(n) for batch in it for n in batch["n"]]
    assert got == list(range(SAMPLES))
    data.close()
    fault.close()
