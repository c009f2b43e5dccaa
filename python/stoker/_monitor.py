# SPDX-License-Identifier: Apache-2.0
"""How others look at a running loader: traces, ranges in torch.profiler, figures over HTTP and over `stoker top`'s socket."""

from __future__ import annotations

import functools
import os
import stat
import sys
import threading
from collections.abc import Callable
from typing import Any

from . import _stoker
from .errors import StokerError


def write_whole(path: str | os.PathLike[Any], text: bytes, what: str) -> None:
    """The file appears whole or not at all: a scraper may read it at any time.  A pipe or a device is written as it is."""
    name = os.fspath(path)
    part = name
    try:
        if not os.path.exists(name) or stat.S_ISREG(os.stat(name).st_mode):
            part = f"{name}.{os.getpid()}.part"
        with open(part, "wb") as f:
            f.write(text)
        if part != name:
            os.replace(part, name)
    except OSError as e:
        try:
            if part != name:
                os.unlink(part)
        except OSError:
            pass
        raise StokerError(f"{name}: the {what} could not be written: {e.strerror}", "EIO") from None


# ---- traces -------------------------------------------------------------------------------------

class Trace:
    """What every thread of a loader does from now on, for https://ui.perfetto.dev or chrome://tracing.

    save() writes what is there so far; close(), leaving `with`, and the loader's close() write the file and end it.
    """

    def __init__(self, core: _stoker.Loader, path: str | os.PathLike[Any], spans: int) -> None:
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise StokerError(f"{os.fspath(path)}: the trace could not be written: there is no folder {folder}", "EIO")
        self.path = os.fspath(path)
        self._core: _stoker.Loader | None = core
        core.trace(spans)

    def save(self) -> None:
        if self._core is not None:
            write_whole(self.path, b"".join(self._core.trace_text()), "trace")

    def close(self) -> None:
        if self._core is not None:
            try:
                self.save()
            finally:
                core, self._core = self._core, None
                core.trace(0)

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def profiled(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """While torch.profiler runs, a call is a range "stoker.next" in it."""

    @functools.wraps(make)
    def call(self: Any) -> Any:
        torch = sys.modules.get("torch")
        try:
            on = torch is not None and torch.autograd._profiler_enabled()
        except AttributeError:                  # it is being imported, or another version's
            on = False
        if not on:
            return make(self)
        with torch.autograd.profiler.record_function("stoker.next"):     # type: ignore[union-attr]
            return make(self)

    return call


class MetricsServer:
    """text() over HTTP, read-only, from a thread."""

    def __init__(self, text: Any, host: str, port: int, kind: str = "application/openmetrics-text; version=1.0.0; charset=utf-8") -> None:
        import http.server

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                try:
                    body, status, shown = text().encode(), 200, kind
                except StokerError as e:        # closed meanwhile
                    body, status, shown = str(e).encode(), 503, "text/plain; charset=utf-8"
                self.send_response(status)
                self.send_header("Content-Type", shown)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        try:
            self._http = http.server.ThreadingHTTPServer((host, port), Handler)
        except OSError as e:
            raise StokerError(f"port {port} of {host} cannot be served: {e.strerror}; port=0 takes one that is free",
                              "EIO") from None
        self._http.daemon_threads = True
        self.address = f"http://{host}:{self._http.server_address[1]}/metrics"
        self._thread = threading.Thread(target=self._http.serve_forever, name="stoker-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


# ---- stoker top ---------------------------------------------------------------------------------

class Monitor:
    """Answers `stoker top` on a Unix socket of this user's, mode 0600: one word is asked, a text is the answer."""

    def __init__(self, reports: Any) -> None:
        import socket
        run = os.environ.get("XDG_RUNTIME_DIR")
        folder = os.path.join(run, "stoker") if run else f"/tmp/stoker-{os.getuid()}"
        self.path, self.pid = os.path.join(folder, f"{os.getpid()}.sock"), os.getpid()
        self._reports = reports
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            found = os.lstat(folder)
            if found.st_uid != os.getuid() or found.st_mode & 0o022 or not stat.S_ISDIR(found.st_mode):
                raise PermissionError(13, "its folder is not this user's alone")
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            if os.path.exists(self.path):
                os.unlink(self.path)            # of a process that had this number before
            old = os.umask(0o177)
            try:
                self._socket.bind(self.path)
            finally:
                os.umask(old)
            self._socket.listen(8)
        except OSError as e:
            raise StokerError(f"{self.path}: loaders cannot be watched there: {e.strerror}", "EIO") from None
        threading.Thread(target=self._run, name="stoker-monitor", daemon=True).start()

    def _run(self) -> None:
        import json
        while True:
            try:
                one, _ = self._socket.accept()
            except OSError:
                return                          # closed
            with one:
                try:
                    one.settimeout(5)
                    word = one.recv(16).strip()
                    found = self._reports()
                    text = "\n\n".join(r["report"] for r in found) or "no loader is open"
                    one.sendall((json.dumps({"pid": self.pid, "loaders": found}) if word == b"json" else text).encode() + b"\n")
                except OSError:
                    pass                        # it did not wait for the answer

    def close(self) -> None:
        if self.pid == os.getpid():
            self._socket.close()
            try:
                os.unlink(self.path)
            except OSError:
                pass
