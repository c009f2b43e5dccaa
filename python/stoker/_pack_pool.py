# SPDX-License-Identifier: Apache-2.0
"""Processes that make the shards of pack(map=): one that dies costs its unfinished shard, which another makes again.

A sample at which two processes died, or which does not end long after its timeout, is to blame: it is listed with
on_error="skip", and named by the error without.  Workers end with the process that started them, however that ends.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from . import _log, _main, _pack_map, _worker
from ._crew import ended
from .errors import StokerError

_IDLE_DEATHS = 5        # of processes without a sample: something else is wrong
_LOOK = 1.0             # seconds: how often samples are looked at that may be late
_GRACE = 5.0            # seconds after twice the timeout
_NONE = -1              # no sample


class _One:
    """A worker and what it does."""

    def __init__(self, pool: Pool, number: int) -> None:
        self.number, self.shard = number, _NONE
        self.conn, theirs = pool.context.Pipe()
        pool.sample[number] = _NONE
        by_kernel = threading.current_thread() is threading.main_thread()
        self.process = pool.context.Process(target=_live, daemon=False, name=f"stoker-pack-{number}",
                                            args=(number, theirs, pool.sample, pool.since, (os.getpid(), by_kernel), pool.job))
        self.process.start()
        theirs.close()


class Pool:
    """Workers for one job; a context manager."""

    def __init__(self, workers: int, job: tuple[Any, ...]) -> None:
        self.job, self.functions = job, job[1]
        self.context: Any = multiprocessing.get_context(_method(self.functions))
        self.sample = self.context.RawArray("q", workers)       # which each works at, and since when
        self.since = self.context.RawArray("d", workers)
        self.blamed: dict[int, str] = {}        # samples, and why
        self.deaths: Counter[int] = Counter()
        self.workers: list[_One] = []
        for i in range(workers):
            self.workers.append(_One(self, i))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for one in self.workers:
            if kind is None:
                one.conn.send(None)
            else:
                one.process.kill()
        for one in self.workers:
            one.process.join()
            one.conn.close()

    def run(self, shards: list[int]) -> Iterator[tuple[dict[str, Any], str]]:
        """What work() gives for each shard, as they are ready."""
        waiting = list(reversed(shards))
        left = len(shards)
        while left:
            for one in self.workers:
                if one.shard == _NONE and waiting:
                    self._give(one, waiting.pop())
            poll = None if self.functions.timeout is None else _LOOK
            handles = [h for one in self.workers for h in (one.conn, one.process.sentinel)]
            ready = set(multiprocessing.connection.wait(handles, poll))
            self._kill_late()
            for one in list(self.workers):
                made = self._heard(one, waiting) if {one.conn, one.process.sentinel} & ready else None
                if made is not None:
                    left -= 1
                    yield made

    def _give(self, one: _One, shard: int) -> None:
        one.shard = shard
        try:
            one.conn.send((shard, self.blamed))
        except OSError:
            pass                                # it is dead, which is seen next

    def _heard(self, one: _One, waiting: list[int]) -> Any:
        """A shard that is made; None: a worker died, and its shard is to be made again."""
        try:
            if not one.conn.poll() and not one.process.is_alive():      # a child of its own may hold the pipe open
                raise EOFError
            good, made, text = one.conn.recv()
        except (EOFError, OSError):
            self._bury(one, waiting)
            return None
        one.shard = _NONE
        if good:
            return made
        made.add_note(f"In a worker process:\n{text}")
        raise made

    def _bury(self, one: _One, waiting: list[int]) -> None:
        one.process.join()
        one.conn.close()
        sample = self.sample[one.number]
        why = f"the process that worked at it {ended(one.process.exitcode or 0)}"
        self.deaths[sample] += 1
        if self.deaths[sample] > (_IDLE_DEATHS if sample == _NONE else 1) and sample not in self.blamed:
            self._blame(sample, why + ", twice" if sample != _NONE else why)
        _log.emit(1, f"a process that packed {ended(one.process.exitcode or 0)}: another makes its shard")
        if one.shard != _NONE:
            waiting.append(one.shard)
        self.workers[one.number] = _One(self, one.number)

    def _blame(self, sample: int, why: str) -> None:
        if sample == _NONE:
            raise StokerError(f"processes that pack end again and again: {why}", "ECLOSED")
        if not self.functions.skip:
            key = self.job[0]._at(sample)["__key__"]
            raise StokerError(f"map failed for sample {key}: {why}", "EINVAL", None, None, key, sample)
        self.blamed[sample] = why

    def _kill_late(self) -> None:
        """What hangs where no signal is looked at, in a library's code."""
        timeout = self.functions.timeout
        for one in self.workers if timeout is not None else ():
            sample = self.sample[one.number]
            if sample != _NONE and time.monotonic() - self.since[one.number] > 2 * timeout + _GRACE and self.sample[one.number] == sample:
                one.process.kill()
                one.process.join()
                if sample not in self.blamed:
                    self._blame(sample, f"it took more than {timeout} s")


def in_processes(workers: int) -> Callable[[tuple[Any, ...], list[int]], Iterator[tuple[dict[str, Any], str]]]:
    """An engine: given the job and the numbers of shards, it gives what work() gives for each, as they are ready."""
    def run(job: tuple[Any, ...], shards: list[int]) -> Iterator[tuple[dict[str, Any], str]]:
        with Pool(min(workers, len(shards)), job) as pool:
            yield from pool.run(shards)
    return run


def _method(functions: Any) -> str:
    """fork where nothing speaks against it: it starts at once and takes functions of __main__.  Beside threads fresh processes,
    if they find the functions and do not run the script once more."""
    if "fork" not in multiprocessing.get_all_start_methods():
        return "spawn"
    if threading.active_count() == 1:
        return "fork"
    try:
        main = sys.modules["__main__"]
        if b"__main__" in pickle.dumps(functions) or (getattr(main, "__file__", None) and getattr(main, "__spec__", None) is None):
            _main.check()
        return "spawn"
    except Exception as e:
        why = str(e).partition(": put")[0].partition(": define")[0]
        _log.emit(1, f"processes that pack are forked, though this one has threads: {why}")
        return "fork"


def _live(number: int, conn: Any, sample: Any, since: Any, parent: tuple[int, bool], job: tuple[Any, ...]) -> None:
    """The life of a worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)        # Ctrl-C is the parent's
    _worker.tie(*parent)
    _pack_map.begin(*job)

    def mark(i: int) -> None:
        since[number] = time.monotonic()
        sample[number] = i

    while (task := conn.recv()) is not None:
        try:
            answer: tuple[bool, Any, str] = True, _pack_map.work(task[0], task[1], mark), ""
        except BaseException as e:
            answer = False, e, traceback.format_exc()
        mark(_NONE)
        try:
            conn.send(answer)
        except Exception:                               # an exception that does not pickle
            conn.send((False, StokerError(f"{type(answer[1]).__name__}: {answer[1]}", "EINVAL"), answer[2]))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)             # threads that a function left are not waited for
