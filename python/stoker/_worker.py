# SPDX-License-Identifier: Apache-2.0
"""A worker process of a Python data set: it reads slot numbers from its socket, fills those slots, and answers one
byte for each.  What it has to say is in the slot, so a byte that is lost or late changes nothing.

A worker does not outlive its parent: the kernel kills it (PR_SET_PDEATHSIG), or, where the loader was made by a
thread that may end earlier, a thread of the worker watches the parent.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
from collections import deque
from typing import Any, NamedTuple

from . import _main, _make, _stoker, _wire
from .errors import StokerError, UnsupportedError, one_line

QUIT = 2**32 - 1
ANSWERED = 2**31                                # flag of a slot number: the answer to a question is in the slot
TELL = "<II"                                    # slot, serial number of the ticket
LINE = 8                                        # words of a worker in the control slot: row, slot
_REASON = 8192


class Info:
    """What get_worker_info() answers in a worker, here and for torch; `asked`: someone looked at its number."""

    def __init__(self, number: int, workers: int, seed: int, dataset: Any) -> None:
        self._number, self._workers = number, workers
        self.seed, self.dataset = seed, dataset
        self.asked = False

    @property
    def id(self) -> int:
        self.asked = True
        return self._number

    @property
    def num_workers(self) -> int:
        self.asked = True
        return self._workers

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self._number}, num_workers={self._workers}, seed={self.seed})"


_info: Info | None = None


def get_worker_info() -> Info | None:
    """In a worker process of a Python data set: its id, num_workers, seed and dataset; elsewhere None."""
    return _info


def _introduce(info: Info) -> None:
    global _info
    _info = info
    if sys.modules.get("torch") is not None:
        import torch.utils.data._utils.worker as theirs
        theirs._worker_info = info      # type: ignore[assignment]


class Link(NamedTuple):
    """What joins a worker to its parent."""

    number: int
    ring: _stoker.Ring
    control: int            # number of the control slot
    sock: socket.socket
    skip: bool              # bad samples are asked about, not raised


def receive(sock: socket.socket) -> tuple[int, int]:
    """What the parent says next."""
    data = b""
    while len(data) < 8:
        more = sock.recv(8 - len(data))
        if not more:
            return QUIT, 0                      # the parent is gone
        data += more
    return struct.unpack(TELL, data)


def flush() -> None:
    """What was printed goes out: the process ends without flushing."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


class _Server:
    """Fills slots until told to stop."""

    def __init__(self, link: Link, maker: _make.Maker) -> None:
        self._link = link
        self._maker = maker
        self._now = memoryview(link.ring.slot(link.control)).cast("Q")
        self._line = link.number * LINE
        self._coming: deque[tuple[int, int]] = deque()
        self._slots: dict[int, Any] = {}
        self.broken: _make.Bad | None = None    # worker_init_fn failed: that is what every batch says
        self._timed = _make.timer(maker.recipe)
        maker.note = self._note

    def _note(self, row: int) -> None:
        self._now[self._line] = row

    def _receive(self) -> tuple[int, int]:
        return receive(self._link.sock)

    def run(self) -> None:
        while True:
            number, serial = self._coming.popleft() if self._coming else self._receive()
            if number == QUIT:
                return
            slot = None if number & ANSWERED else self._slots.get(number)
            if slot is None and not number & ANSWERED:
                slot = self._slots[number] = self._link.ring.slot(number)
            if slot is None or slot.hear()[0] != serial << 3 | _wire.TASK:
                continue                        # told twice: a signal came between
            self._now[self._line + 1] = number
            self._timed(self._fill, slot, serial << 3)
            self._note(_make.IDLE)
            flush()
            self._link.sock.send(b".")

    def _fill(self, slot: Any, serial: int) -> None:
        try:
            task = _wire.get(slot, apart=True)  # indices may be tensors, and the batch is written over them
            if self.broken is not None:
                raise self.broken
            made, end = self._maker.make(task, slot, self._ask(slot, serial) if self._link.skip else None)
            _sent(slot, serial | _wire.DONE, made, end)
        except _make.Bad as e:
            _failed(slot, serial, e)
        except Exception as e:
            _failed(slot, serial, _make.bad(None, e))

    def _ask(self, slot: Any, serial: int) -> _make.Ask:
        def ask(row: int, index: Any, attempt: int, reason: str) -> Any:
            _wire.put(slot, serial | _wire.ASK, (row, index, attempt, reason[:_REASON]), 64)
            self._link.sock.send(b".")
            while slot.hear()[0] != serial | _wire.ANSWER:
                told = self._receive()
                if told[0] == QUIT:
                    os._exit(0)
                if not told[0] & ANSWERED:
                    self._coming.append(told)
            return _wire.get(slot, apart=True)

        return ask


def _sent(slot: Any, state: int, made: Any, end: int) -> None:
    """The batch into the slot, or why that can't be."""
    try:
        _wire.put(slot, state, made, end)
    except (StokerError, MemoryError, OSError):
        raise
    except Exception as e:
        raise no_way(e) from None


def no_way(error: Exception) -> UnsupportedError:
    """A batch that does not go from one process to another."""
    return UnsupportedError(one_line(f"a worker process can't hand over this batch ({type(error).__name__}: {error}): make it "
                                     "of tensors, arrays, lists and dicts, or use num_workers=0"), "ENOTSUP")


def _failed(slot: Any, serial: int, error: _make.Bad) -> None:
    try:
        stream = pickle.dumps(error)
        pickle.loads(stream)                    # an exception whose class does not come back is said in words
    except Exception:
        name = error.kind.__qualname__
        error = _make.Bad(str(error.index), RuntimeError, f"{name}: {error.text}", error.trace)
    _wire.put(slot, serial | _wire.FAILED, error)


# ---- life --------------------------------------------------------------------------------------------

def tie(parent: int, by_kernel: bool) -> None:
    """End with the parent."""
    if by_kernel:
        _stoker.die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        return
    watched = os.pidfd_open(parent)

    def watch() -> None:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        poll.poll()
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="stoker-parent").start()


def live(link: Link, recipe: _make.Recipe) -> None:
    """The whole life of a worker; it does not return."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)    # Ctrl-C is the parent's
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _stoker.keep_heap()
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(1)
        maker = _make.Maker(recipe)
        seed = recipe.seed + link.number & 2**63 - 1
        maker.seeder.seed(seed)
        _introduce(Info(link.number, recipe.workers, seed, recipe.dataset))
        server = (recipe.server or _Server)(link, maker)
        if recipe.start is not None:
            try:
                recipe.start(link.number)
            except Exception as e:
                server.broken = _make.bad(None, e)
        server.run()
        status = 0
    except (BrokenPipeError, ConnectionResetError):
        status = 0                              # the parent is gone
    except BaseException as e:
        if isinstance(e, SystemExit) and isinstance(e.code, int):
            status = e.code & 255
        import traceback
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


# ---- in an interpreter of its own --------------------------------------------------------------------

def parcel(recipe: _make.Recipe, prepared: dict[str, Any]) -> int:
    """A memfd with the recipe, pickled once, the memory of its arrays and long lists beside it.  The script that runs is
    imported by workers only where the recipe names something of it: importing runs it."""
    stream, beside, lists = _wire.packed_whole(recipe)
    if b"__main__" in stream:
        _main.check()
    else:
        prepared = {key: value for key, value in prepared.items() if not key.startswith("init_main")}
    head = pickle.dumps(prepared)
    apart = [*beside, *lists]
    at = 32 + 16 * len(apart) + len(head) + len(stream)
    places: list[int] = []
    for memory in apart:
        at = _wire.aligned(at)
        places += (at, len(memory))
        at += len(memory)
    words = struct.pack(f"<{4 + len(places)}Q", len(head), len(stream), len(beside), len(lists), *places)
    fd = os.memfd_create("stoker-recipe", os.MFD_CLOEXEC)
    try:
        os.ftruncate(fd, at)
        _write(fd, words, 0)
        _write(fd, head, len(words))
        _write(fd, stream, len(words) + len(head))
        for memory, place in zip(apart, places[::2], strict=True):
            _write(fd, memory, place)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _write(fd: int, data: Any, at: int) -> None:
    """Not by way of a mapping: its page faults take longer than the copy."""
    left = memoryview(data)
    while len(left):
        done = os.pwrite(fd, left, at)
        left, at = left[done:], at + done


def _unpack(fd: int) -> tuple[Any, ...]:
    """(file at the pickle of the recipe, buffers, long lists, preparation)."""
    file = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    os.close(fd)
    memory = memoryview(file)
    head, _, beside, lists = struct.unpack_from("<4Q", memory)
    n = beside + lists
    places = struct.unpack_from(f"<{2 * n}Q", memory, 32)
    apart = [memory[a:a + size] for a, size in zip(places[::2], places[1::2], strict=True)]
    at = 32 + 16 * n
    file.seek(at + head)
    return file, apart[:beside], apart[beside:], pickle.loads(memory[at:at + head])


def spawned(sock_fd: int, ring_fd: int, number: int, parent: int, by_kernel: bool, modules: list[str]) -> None:
    """The first call of an interpreter that was started for workers.  It imports what it will need while its parent
    pickles the data set."""
    import multiprocessing.process
    import multiprocessing.spawn
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tie(parent, by_kernel)
    sock = socket.socket(fileno=sock_fd)
    for name in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    _, fds, _, _ = socket.recv_fds(sock, 1, 1)
    if not fds:
        os._exit(1)                             # the data set does not pickle: the parent says so
    file, beside, lists, prepared = _unpack(fds[0])
    settings = prepared.pop("link")
    gc.disable()                                # a large data set is not searched for cycles while it is read
    multiprocessing.process.current_process()._inheriting = True     # type: ignore[attr-defined]
    try:
        multiprocessing.spawn.prepare(prepared)
        recipe = _wire.unpacked_whole(file, beside, lists)
    finally:
        del multiprocessing.process.current_process()._inheriting    # type: ignore[attr-defined]
    gc.freeze()                                 # nor by workers, which would copy its pages
    gc.enable()
    ring = _stoker.Ring(ring_fd, settings["room"])
    if settings["serve"]:
        _fork_on_request(sock, ring, recipe, settings)
    live(Link(number, ring, settings["control"], sock, settings["skip"]), recipe)


def _fork_on_request(sock: socket.socket, ring: Any, recipe: _make.Recipe, settings: dict[str, Any]) -> None:
    """A process that has the data set and no threads: workers are forked from it.  Commands: b"F" and a number, with
    the worker's socket: its pid; b"W" and a pid: its exit status."""
    me = os.getpid()
    while True:
        command, fds, _, _ = socket.recv_fds(sock, 9, 1)
        if len(command) < 9:
            os._exit(0)
        kind, number = struct.unpack("<cQ", command)
        if kind == b"W":
            _, status = os.waitpid(number, 0)
            sock.sendall(struct.pack("<q", os.waitstatus_to_exitcode(status)))
            continue
        pid = os.fork()
        if pid == 0:
            sock.close()
            tie(me, True)
            mine = socket.socket(fileno=fds[0])
            live(Link(number, ring, settings["control"], mine, settings["skip"]), recipe)
        os.close(fds[0])
        sock.sendall(struct.pack("<q", pid))
