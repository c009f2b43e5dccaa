# SPDX-License-Identifier: Apache-2.0
"""What holds a loop up, in words and in figures for other programs."""

from __future__ import annotations

import functools
import os
import stat
import sys
import threading
from collections.abc import Callable
from typing import Any

from . import _stoker
from .errors import StokerError, invalid

Sight = dict[str, Any]


class Diagnosis:
    """One sentence, and what it rests on.

    cause: "storage", "network", "decode", "augmentation", "python", "collate", "copy", "workers", "ring", "memory", "start",
    "neighbour", "rank", "lock", "consumer", "model" or "none"; gain: the rate becomes at most so many times what it is when the
    cause is removed, and at least gain_low; function: of call(), in which most of the time of Python went, or None; share: of the wall time that the loop waited; ceiling: steps per second of a loop that never waits; remedy:
    a command or a line of Python; checks: (name, value, unit, rule, good).
    """

    def __init__(self, found: dict[str, Any], function: str | None = None) -> None:
        self.cause: str = found["cause"]
        self.function = function
        self.gain: float = found["gain"]
        self.gain_low: float = found["gain_low"]
        self.share: float = found["share"]
        self.ceiling: float = found["ceiling"]
        self.rank: int = found["rank"]
        self.sentence: str = found["sentence"]
        self.remedy: str = found["remedy"]
        self.checks: list[tuple[str, float, str, str, bool]] = found["checks"]

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"Diagnosis({self.cause!r}, gain={self.gain:.2f}, remedy={self.remedy!r})"

    def table(self) -> str:
        """The figures beside what is usual in the field."""
        return "\n".join(f"  {'ok ' if good else '!! '} {name:<16}{value:>12,.1f} {unit:<16} ({rule})"
                         for name, value, unit, rule, good in self.checks)


def diagnose(before: list[Sight], after: list[Sight], data: str | None = None, *, foreign: bool = False,
             together: bool = False) -> Diagnosis:
    """What the sights say; together: with those of all ranks of torch.distributed."""
    if together:
        all_ranks = _of_all_ranks((before, after))
        after = [s for _, a in all_ranks for s in a]
        before = [s for b, _ in all_ranks for s in b]
        before = before if len(before) == len(after) else []
    function = _slowest(before, after)
    return Diagnosis(_stoker.diagnose(before, after, data, foreign, function), function)


def sight(core: Any, calls: Any) -> Sight:
    """What is to be seen of a loader now, with the time in each function of its chains."""
    seen: Sight = core.sight()
    if calls is not None:
        seen["functions"] = calls.spent()
    return seen


def _slowest(before: list[Sight], after: list[Sight]) -> str | None:
    """The function that took most time between two moments."""
    spent: dict[str, float] = {}
    for sign, sights in ((-1, before), (1, after)):
        for name, seconds in (item for s in sights for item in s.get("functions", {}).items()):
            spent[name] = spent.get(name, 0.0) + sign * seconds
    name = max(spent, key=spent.__getitem__, default=None)
    return name if name is not None and spent[name] > 0 else None


def _of_all_ranks(mine: Any) -> list[Any]:
    import torch.distributed as dist
    if not (dist.is_available() and dist.is_initialized()):
        invalid("ranks=True asks all ranks of torch.distributed, which is not initialized: call "
                "init_process_group() before, or leave ranks out")
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, mine)
    return gathered


# ---- text for people ----------------------------------------------------------------------------

def _size(n: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"


def report(s: dict[str, Any], found: Diagnosis) -> str:
    """stats() for people."""
    wait, ring, wall = s["wait"], s["ring"], max(s["elapsed_s"], 1e-9)
    spent = {**s["stages"], "idle": max(s["stages"]["idle"] - wait["reads_s"], 0.0), "waiting for reads": wait["reads_s"]}
    total = sum(spent.values()) or 1.0
    lines = [
        f"{s['handed_out']:,} samples in {s['batches']:,} batches, {s['handed_out'] / wall:,.0f} samples/s, "
        f"{_size(s['bytes'] / wall)}/s, {wall:,.1f} s since open (first batch after {s['first_batch_s']:.2f} s)",
        f"loop: waited {wait['data_s']:.2f} s for data ({100 * wait['data_s'] / wall:.1f} %), {wait['ledger_s']:.2f} s ledger, "
        f"{wait['repair_s']:.2f} s repairs" + (f"; waits now, for {wait['now_s']:.1f} s" if wait["now_s"] else ""),
        f"ring: {ring['ready']} ready and {ring['open']} open of {ring['ahead']} ahead (at most {ring['slots']})",
        f"workers: {s['workers']}; " + ", ".join(f"{name} {100 * v / total:.0f} %" for name, v in spent.items() if v),
        f"memory: {_size(s['memory'])} of {_size(s['memory_limit'])}, peak {_size(s['memory_peak'])}; "
        + ", ".join(f"{name} {_size(v)}" for name, v in s["memory_of"].items()),
        f"reads: {_size(s['bytes'])}, {s['cold_reads']:,} waited for ({s['remote_reads']:,} remote, "
        f"by {s['cold_by'] or 'no one yet'}), {s['retried_reads']:,} retried; {s['skipped']:,} samples skipped",
    ]
    lines += [f"now: {wait['for']['text']}"] if wait["for"] else []
    lines += [f"worker {i}: {d['stage']} for {d['seconds']:.3f} s" for i, d in enumerate(s["doing"][:8])]
    return "\n".join([*lines, found.table(), found.sentence])


# ---- OpenMetrics --------------------------------------------------------------------------------

_COUNTERS = (("samples", "Rows made"), ("handed_out", "Rows of batches handed out"), ("batches", "Batches handed out"), ("bytes", "Bytes read from shards"),
             ("skipped", "Bad samples left out"), ("retried_reads", "Reads that failed and were tried again"),
             ("cold_reads", "Reads that had to be waited for"), ("remote_reads", "Of them, from far away"),
             ("jpeg_seek", "JPEGs decoded from seek points"), ("jpeg_fallback", "JPEGs that libjpeg-turbo decoded"))
_GAUGES = (("workers", "Worker threads"), ("memory", "Bytes that memory_limit counts"), ("memory_peak", "Their peak"),
           ("memory_limit", "Their bound"), ("held", "Batches that the consumer holds"))


def _family(name: str, kind: str, help_text: str, rows: list[tuple[str, float]]) -> list[str]:
    end = "_total" if kind == "counter" else ""
    return [f"# TYPE stoker_{name} {kind}", f"# HELP stoker_{name} {help_text}.",
            *(f"stoker_{name}{end}{labels} {value!r}" for labels, value in rows)]


def metrics(s: dict[str, Any], path: str | os.PathLike[Any] | None = None) -> str:
    """stats() in OpenMetrics' text format."""
    lines: list[str] = []
    for name, text in _COUNTERS:
        lines += _family(name, "counter", text, [("", s[name])])
    for name, text in _GAUGES:
        lines += _family(name, "gauge", text, [("", s[name])])
    lines += _family("stage_seconds", "counter", "Time of all workers by stage",
                     [(f'{{stage="{k}"}}', v) for k, v in s["stages"].items()])
    lines += _family("wait_seconds", "counter", "Time of the consumer in next(), and of workers until reads came",
                     [(f'{{for="{k.removesuffix("_s")}"}}', v) for k, v in s["wait"].items() if k not in ("now_s", "for")])
    lines += _family("ring", "gauge", "Batches", [(f'{{state="{k}"}}', v) for k, v in s["ring"].items()])
    lines += _family("memory_of", "gauge", "Bytes by owner",
                     [(f'{{owner="{k}"}}', v) for k, v in s["memory_of"].items()])
    text = "\n".join([*lines, *_histograms(s["histograms"]), "# EOF", ""])
    if path is not None:
        write_whole(path, text.encode(), "metrics")
    return text


def _histograms(stages: dict[str, list[tuple[float, int]]]) -> list[str]:
    lines = ["# TYPE stoker_row_seconds histogram", "# HELP stoker_row_seconds Rows that were timed, by stage."]
    for stage, buckets in stages.items():
        seen, total = 0, 0.0
        for least, n in buckets:
            seen, total = seen + n, total + 1.5 * least * n     # the middle of the bucket
            lines.append(f'stoker_row_seconds_bucket{{stage="{stage}",le="{2 * least:.9g}"}} {seen}')
        lines += [f'stoker_row_seconds_bucket{{stage="{stage}",le="+Inf"}} {seen}',
                  f'stoker_row_seconds_count{{stage="{stage}"}} {seen}',
                  f'stoker_row_seconds_sum{{stage="{stage}"}} {total:.9g}']
    return lines


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


class Server:
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
