# SPDX-License-Identifier: Apache-2.0
"""A worker process of a Python data set: it reads slot numbers from its socket, fills those slots, and answers one
byte for each.  What it has to say is in the slot, so a byte that is lost or late changes nothing.

A worker does not outlive its parent: the kernel kills it (PR_SET_PDEATHSIG), or, where the loader was made by a
thread that may end earlier, a thread of the worker watches the parent.

To multiprocessing a worker is one of its own processes, begun and ended by Process._bootstrap: managers' proxies connect
again, locks and finalizers are those of a child, and queues are flushed before it ends.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import mmap
import multiprocessing.context
import multiprocessing.process
import multiprocessing.resource_tracker
import multiprocessing.spawn
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
from collections import deque
from typing import Any, NamedTuple, NoReturn

from . import _main, _make, _stoker, _wire
from .errors import StokerError, UnsupportedError, one_line

QUIT = 2**32 - 1
ANSWERED = 2**31                                # flag of a slot number: the answer to a question is in the slot
TELL = "<II"                                    # slot, serial number of the ticket
LINE, STOP = 8, 2                               # words of a worker in the control slot: row, slot, whether to end
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


class Birth(NamedTuple):
    """What multiprocessing would know of a worker that is not forked from its parent."""

    method: str             # "forkserver" or "spawn"
    kind: str               # the class of the Process object that the parent has
    family: tuple[int, ...]  # the parent's identity
    parent: str             # its name
    pid: int
    daemon: bool

    def process(self, count: int) -> multiprocessing.process.BaseProcess:
        """The Process object of the worker that is the parent's child number `count`."""
        context: Any = multiprocessing.get_context(self.method)
        made = context.Process(daemon=self.daemon)
        made._identity = (*self.family, count)
        made._name = f"{self.kind}-{':'.join(map(str, made._identity))}"
        made._parent_name, made._parent_pid = self.parent, self.pid
        return made     # type: ignore[no-any-return]


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
        maker.note = self._note if maker.recipe.process is not None else self._note_or_end

    def _note(self, row: int) -> None:
        self._now[self._line] = row

    def _note_or_end(self, row: int) -> None:
        """stoker.Loader's samples have no draws in common: a worker ends after any of them."""
        if self._now[self._line + STOP]:
            raise SystemExit(0)
        self._now[self._line] = row

    def _receive(self) -> tuple[int, int]:
        return receive(self._link.sock)

    def run(self) -> None:
        while True:
            number, serial = self._coming.popleft() if self._coming else self._receive()
            if number == QUIT or self._now[self._line + STOP]:
                return                          # no one will look at what is still to do
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
                    raise SystemExit(0)
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


def live(link: Link, recipe: _make.Recipe, process: Any, parent: int) -> NoReturn:
    """The whole life of a worker, whose loader is in the process `parent`."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)    # Ctrl-C is the parent's
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _stoker.keep_heap()
        process.run = functools.partial(_work, link, recipe)
        status = process._bootstrap(os.pidfd_open(parent))
    finally:
        flush()
        os._exit(status & 255)


def _work(link: Link, recipe: _make.Recipe) -> None:
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
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):    # the parent is gone
        server.run()


# ---- in an interpreter of its own --------------------------------------------------------------------

class _Sent:
    """A descriptor that is sent with the recipe."""

    def __init__(self, number: int) -> None:
        self._number = number

    def detach(self) -> int:
        return _received[self._number]


_received: list[int] = []


class _Passing:
    """What pickles locks, queues and shared memory of multiprocessing: it looks for a Popen that starts a process."""

    DupFd = _Sent

    def __init__(self) -> None:
        self.fds: list[int] = []

    def duplicate_for_child(self, fd: int) -> int:
        self.fds.append(os.dup(fd))
        return len(self.fds) - 1

    def __enter__(self) -> _Passing:
        multiprocessing.context.set_spawning_popen(self)    # type: ignore[arg-type]
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        multiprocessing.context.set_spawning_popen(None)
        if error is not None:
            self.close()

    def close(self) -> None:
        while self.fds:
            os.close(self.fds.pop())


_MOST_FDS = 250                                 # of one message; the kernel takes 253


def parcel(recipe: _make.Recipe, prepared: dict[str, Any]) -> list[int]:
    """Descriptors for workers.  The first is a memfd with the recipe, pickled once, the memory of its arrays and long lists beside
    it; the others are those of queues and shared memory in it."""
    with _Passing() as passing:
        stream, beside, lists = _wire.packed_whole(recipe)
    try:
        if len(passing.fds) > _MOST_FDS:
            raise UnsupportedError(f"the data set has {len(passing.fds)} descriptors of queues, pipes and shared memory, more than the "
                                   f'{_MOST_FDS} that can be sent to a fresh process: use the start method "fork"', "ENOTSUP")
        return [_parcel(stream, beside, lists, prepared), *passing.fds]
    except BaseException:
        passing.close()
        raise


def _parcel(stream: bytes, beside: list[Any], lists: list[bytes], prepared: dict[str, Any]) -> int:
    """The script that runs is imported by workers only where the recipe names something of it: importing runs it."""
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


def spawned(fds: tuple[int, int, int], number: int, count: int, parent: int, by_kernel: bool, modules: list[str]) -> None:
    """The first call of an interpreter that was started for workers.  It imports what it will need while its parent
    pickles the data set.  fds: of the socket, the ring, and multiprocessing's tracker, which all processes of a program share."""
    sock_fd, ring_fd, multiprocessing.resource_tracker._resource_tracker._fd = fds     # type: ignore[attr-defined]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tie(parent, by_kernel)
    sock = socket.socket(fileno=sock_fd)
    for name in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    _, sent, _, _ = socket.recv_fds(sock, 1, _MOST_FDS + 1)
    if not sent:
        os._exit(1)                             # the data set does not pickle: the parent says so
    file, beside, lists, prepared = _unpack(sent[0])
    _received.extend(sent[1:])
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
    birth = Birth(*settings["birth"])
    if birth.method == "forkserver":
        _fork_on_request(sock, ring, recipe, settings, birth)
    live(Link(number, ring, settings["control"], sock, settings["skip"]), recipe, birth.process(count), birth.pid)


def _fork_on_request(sock: socket.socket, ring: Any, recipe: _make.Recipe, settings: dict[str, Any], birth: Birth) -> None:
    """A process that has the data set and no threads: workers are forked from it.  Commands: b"F" and two numbers of a worker
    (number, count << 32), with its socket: its pid; b"W" and a pid: its exit status."""
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
            link = Link(number & 2**32 - 1, ring, settings["control"], mine, settings["skip"])
            live(link, recipe, birth.process(number >> 32), birth.pid)
        os.close(fds[0])
        sock.sendall(struct.pack("<q", pid))
