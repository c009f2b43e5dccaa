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
        super().__init__(folder, hold=lambda: self.go.wait(120))

    def passed(self):
        self.on = False
        self.go.set()


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


@pytest.mark.parametrize("kind", ["files", "stream"])
def test_a_silent_server_is_named(tmp_path, monkeypatch, caplog, kind):
    monkeypatch.setenv("STOKER_WAIT_WARN", "0.4")
    monkeypatch.setenv("STOKER_STORE_STALL", "1")       # then the request is cut and sent again
    make_shards(tmp_path)
    fault = Silent(tmp_path)
    host = f"127.0.0.1:{fault.server.server_port}"
    data = stoker.Loader(fault.where, FIELDS, batch_size=6, num_workers=2, collate={"ragged": "list"}) if kind == "files" else \
        stoker.Loader(stoker.stream(fault.where), FIELDS, batch_size=6, num_workers=2, epoch_size=SAMPLES, collate={"ragged": "list"})
    got, caplog_level = [], logging.getLogger("stoker").level
    caplog.set_level(logging.WARNING, logger="stoker")
    loop = threading.Thread(target=lambda: got.extend(int(n) for batch in data for n in batch["n"]))
    try:
        loop.start()
        now = until(lambda: (w := data.stats()["wait"]["for"]) and w["retries"] and w, "stats() never said what is waited for")
        assert now["host"] == host and now["shard"].endswith("t-1.tar") and now["epoch"] == 0 and now["seconds"] >= 1
        assert data.stats()["wait"]["now_s"] >= now["seconds"] - 0.01      # one clock for all slices
        lines = until(lambda: [r.getMessage() for r in caplog.records if host in r.getMessage() and "sent again, the last: " in
                               r.getMessage()], "the log has no line that names the host")
        line = lines[-1]
        assert line.startswith("waited ") and "(since " in line and "t-1.tar" in line and "has not answered since" in line, line
        assert "now: waited " in data.report() and host in data.report()
        if kind == "files":
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


def test_signals_while_lines_are_logged(tmp_path, monkeypatch):
    """A handler runs where next() holds no lock: it may ask the loader, and what it raises is raised by next()."""
    class Stop(Exception):
        pass

    def handler(number, frame):
        assert data.state_dict()["position"] == len(got)
        raise Stop

    monkeypatch.setenv("STOKER_WAIT_WARN", "0.01")      # a line in each slice
    make_shards(tmp_path)
    fault, got = Silent(tmp_path), []
    data = stoker.Loader(fault.where, FIELDS, batch_size=6, num_workers=2, collate={"ragged": "list"})
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
