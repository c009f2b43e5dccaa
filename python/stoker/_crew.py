# SPDX-License-Identifier: Apache-2.0
"""Those who make the batches of a Python data set: the caller itself, threads, or worker processes.

A ticket is one batch: a task and the slot that it goes to.  The caller's process owns the ring and all tickets;
workers know only the slots that they are sent.  So a worker that dies takes nothing with it: its tickets are given
to another, or the error says which sample it had.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import multiprocessing.process
import multiprocessing.resource_tracker
import multiprocessing.spawn
import multiprocessing.util
import os
import queue
import select
import signal
import socket
import struct
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from . import _arrays, _log, _main, _make, _stoker, _wire, _worker
from .errors import StokerError, UnsupportedError, by_handler

METHODS = ("fork", "forkserver", "spawn")
_DEATHS = 3                                     # in a row
_HANDLED = signal.valid_signals() - {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}   # not the thread's own faults
_crews: weakref.WeakSet[Processes] = weakref.WeakSet()


_serials = itertools.count()


class WorkerDied(StokerError, RuntimeError):
    """A worker process ended before its batch was complete."""

    pid = 0
    status: int | None = None                   # how it ended: a status, or minus a signal


class _KeyMessage(str):
    def __repr__(self) -> str:                  # KeyError shows the repr of its message
        return str(self)


class Ticket:
    def __init__(self, task: _make.Task, slot: _stoker.Slot) -> None:
        self.task = task
        self.slot: Any = slot                   # a Slot of the ring, until it is free again
        self.result: Any = None                 # Made, End or an exception, once it is known
        self.failed = False                     # that exception was raised
        self.worker: Any = None
        self.serial = next(_serials) % 2**28
        self.told = False                       # the worker knows of it
        self.bad: list[dict[str, Any]] = []     # samples that others stand in for
        self.noted = False                      # in the ledger
        self.sent: Any = None                   # its copies to a GPU, once they are begun


def raise_bad(error: _make.Bad, where: str) -> None:
    """The exception of a sample, as its own type where that takes a message."""
    if error.original is not None:
        if error.index is not None and hasattr(error.original, "add_note"):
            error.original.add_note(f"in sample {error.index!r} of the data set")
        raise error.original
    sample = "" if error.index is None else f"sample {error.index!r}, "
    if issubclass(error.kind, StokerError):
        raise error.kind(error.text + (f" (in {sample}{where})" if sample else ""))
    message = f"Caught {error.kind.__name__} in {sample}{where}.\nOriginal {error.trace}"
    if error.kind is KeyError:
        raise KeyError(_KeyMessage(message))
    try:
        made = error.kind(message)
    except Exception:
        raise RuntimeError(message) from None
    raise made


Answer = Callable[[Ticket, int, Any, int, str], Any]


class Alone:
    """num_workers=0: a batch is made when it is asked for, in the caller's thread."""

    ahead = 0

    def __init__(self, recipe: _make.Recipe, ring: _stoker.Ring, answer: Answer | None) -> None:
        self._maker = _make.Maker(recipe)
        self._timed = _make.timer(recipe)
        self.ring = ring
        self._answer = answer
        self._keeps = not recipe.pure or recipe.own and recipe.epochs   # the caller's generators are seeded
        self._saved: Any = None                 # them, as they were

    def submit(self, task: _make.Task, worker: int | None = None) -> Ticket:
        return Ticket(task, self.ring.take())

    def result(self, ticket: Ticket, timeout: float = 0) -> Any:
        if ticket.result is not None:
            return ticket.result
        ask = None
        if self._answer is not None:
            answer = self._answer

            def ask(row: int, index: Any, attempt: int, reason: str) -> Any:
                return answer(ticket, row, index, attempt, reason)

        if self._keeps and self._saved is None:  # else a signal's handler came between, and they were not put back
            self._saved = self._maker.seeder.save()
        try:
            made, _ = self._timed(self._maker.make, ticket.task, ticket.slot, ask)
        except _make.Bad as e:
            ticket.failed = True
            raise_bad(e, "the caller's thread")
        except Exception:
            ticket.failed = True
            raise
        finally:
            self._maker.seeder.restore(self._saved)
            self._saved = None
        ticket.result = made
        ticket.slot = None
        return made

    def is_made(self, ticket: Ticket) -> bool:
        return False                            # it is made when it is asked for

    def close(self) -> None:
        pass


class Threads:
    """Workers that are threads: samples are made where no data set has to be copied or pickled."""

    def __init__(self, recipe: _make.Recipe, ring: _stoker.Ring, answer: Answer | None, workers: int) -> None:
        self.ring = ring
        self.ahead = workers
        self._answer = answer
        self._recipe = recipe
        self._queue: queue.SimpleQueue[Ticket | None] = queue.SimpleQueue()
        self._known = threading.Condition()
        self._threads = [threading.Thread(target=self._work, args=(i,), daemon=True, name=f"stoker-worker-{i}")
                         for i in range(workers)]
        for thread in self._threads:
            thread.start()

    def _work(self, number: int) -> None:
        maker, timed = _make.Maker(self._recipe, shared=True), _make.timer(self._recipe)
        if self._recipe.start is not None:
            self._recipe.start(number)
        while (ticket := self._queue.get()) is not None:
            answer, result = self._answer, None
            try:
                ask = None if answer is None else \
                    lambda row, index, attempt, reason, t=ticket: answer(t, row, index, attempt, reason)
                result, _ = timed(maker.make, ticket.task, ticket.slot, ask)
            except BaseException as e:
                result = e
            with self._known:
                ticket.result = result
                ticket.slot = None
                self._known.notify_all()
            del ticket, result

    def submit(self, task: _make.Task, worker: int | None = None) -> Ticket:
        ticket = Ticket(task, self.ring.take())
        self._queue.put(ticket)
        return ticket

    def result(self, ticket: Ticket, timeout: float = 0) -> Any:
        with self._known:
            if not self._known.wait_for(lambda: ticket.result is not None, timeout or None):
                raise RuntimeError(f"DataLoader timed out after {timeout:g} seconds")
        made = ticket.result
        ticket.failed = isinstance(made, BaseException)
        if isinstance(made, _make.Bad):
            raise_bad(made, "a worker thread")
        if isinstance(made, BaseException):
            raise made
        return made

    def is_made(self, ticket: Ticket) -> bool:
        return ticket.result is not None

    def close(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._threads = []


class _Process:
    """One worker, as its parent sees it."""

    name = "stoker-server"                      # of a worker: that of its Process object

    def __init__(self, number: int, pid: int, sock: socket.socket, server: _Process | None) -> None:
        self.number, self.pid, self.sock, self.server = number, pid, sock, server
        self.fd = os.pidfd_open(pid)
        self.tickets: list[Ticket] = []         # sent and not yet complete, in order
        self.dead = False
        self.retired = False                    # nothing more is asked of it: it ends
        self._status: int | None = None

    def status(self) -> int:
        """How it ended: a status, or minus a signal; it has ended."""
        if self._status is None and self.server is not None:
            try:
                self._status = self.server.ask(b"W", self.pid)
            except WorkerDied:
                self._status = -signal.SIGKILL  # as the process that it was forked from: the kernel ends both
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def ask(self, kind: bytes, number: int, fd: int | None = None) -> int:
        """Of a server: a command and its answer."""
        message = struct.pack("<cQ", kind, number)
        try:
            if fd is None:
                self.sock.sendall(message)
            else:
                socket.send_fds(self.sock, [message], [fd])
            data = b""
            while len(data) < 8:
                more = self.sock.recv(8 - len(data))
                if not more:
                    raise EOFError
                data += more
        except (OSError, EOFError):
            raise WorkerDied("the process that workers are forked from has ended: its output says why",
                             "ECLOSED") from None
        return int(struct.unpack("<q", data)[0])

    def close(self) -> None:
        self.sock.close()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def ended(status: int) -> str:
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}" + (" (out of memory?)" if name == "SIGKILL" else "")


class Processes:
    """Workers that are processes."""

    def __init__(self, recipe: _make.Recipe, ring: _stoker.Ring, answer: Answer | None, workers: int,
                 method: str) -> None:
        self.ring = ring
        self.ahead = 2 * workers
        self._recipe, self._method = recipe, method
        self._as_torch = recipe.process is not None
        context: Any = multiprocessing.get_context(method)
        self._kind = recipe.process or context.Process
        self._answer: Any = answer
        self._control = ring.take()
        self._now = memoryview(self._control).cast("Q")
        self._pid = os.getpid()
        self._poll = select.poll()
        self._workers: list[_Process] = []
        self._by_fd: dict[int, _Process] = {}
        self._server: _Process | None = None
        self._parcel: list[int] = []
        self._deaths = 0
        self._born: list[int] = []              # processes that are not in `workers` yet
        self._closing = threading.Lock()
        _crews.add(self)
        try:
            for number in range(workers):
                self._workers.append(self._start(number))
                self._born.clear()
            if method == "spawn":
                for worker in self._workers:
                    self._hand_over(worker.sock)
        except BaseException:
            self.close()
            raise

    # ---- start ---------------------------------------------------------------------------------------

    def _preparation(self) -> dict[str, Any]:
        made = dict(multiprocessing.spawn.get_preparation_data("stoker-worker"))
        made["authkey"] = bytes(made.get("authkey", b""))
        me: Any = multiprocessing.process.current_process()
        birth = _worker.Birth(self._method, self._kind.__name__, me._identity, me.name, self._pid, self._as_torch)
        made["link"] = {"room": self.ring.room, "control": self._control.number, "skip": self._answer is not None,
                        "birth": tuple(birth)}
        return made

    def _start(self, number: int) -> _Process:
        process = self._kind(daemon=self._as_torch)     # it is not started, only counted and named
        count = process._identity[-1]
        self._now[number * _worker.LINE + _worker.STOP] = 0
        ours, theirs = socket.socketpair()
        with theirs:
            if self._method == "fork":
                pid = self._fork(number, ours, theirs, process)
            elif self._method == "spawn":
                pid = self._spawn(theirs, number, count)
            else:
                pid = self._fork_there(number | count << 32, theirs.fileno())
        worker = _Process(number, pid, ours, self._server)
        worker.name = process.name
        ours.setblocking(False)
        self._poll.register(ours.fileno(), select.POLLIN)
        self._poll.register(worker.fd, select.POLLIN)
        self._by_fd[ours.fileno()] = self._by_fd[worker.fd] = worker
        return worker

    def _fork_there(self, numbers: int, fd: int) -> int:
        if self._server is not None:
            try:
                return self._server.ask(b"F", numbers, fd)
            except WorkerDied:                  # killed: another takes its place
                self._server.status()
                self._server.close()
        self._server = self._start_server()
        return self._server.ask(b"F", numbers, fd)

    def _start_server(self) -> _Process:
        ours, theirs = socket.socketpair()
        with theirs:
            pid = self._spawn(theirs, 0, 0)
        self._server = _Process(0, pid, ours, None)
        self._born.clear()
        self._hand_over(ours)
        self._drop_parcel()
        return self._server

    def _hand_over(self, sock: socket.socket) -> None:
        """The recipe to an interpreter that has begun to import; it is pickled once."""
        if not self._parcel:
            self._parcel = _worker.parcel(self._recipe._replace(process=None), self._preparation())
        socket.send_fds(sock, [b"P"], self._parcel)

    def _drop_parcel(self) -> None:
        while self._parcel:
            os.close(self._parcel.pop())

    def _fork(self, number: int, ours: socket.socket, theirs: socket.socket, process: Any) -> int:
        by_kernel = threading.current_thread() is threading.main_thread()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()                  # or the child would print it again
        _arrays.prepare_seeds()
        # What modules have registered to run around a fork (logging takes its lock) must not be cut short by a handler that raises:
        # Python would drop the exception, and the lock would stay taken.
        pid: int = _uncut(self._bear, os.fork)
        if pid:
            return pid
        try:
            gc.freeze()                         # the parent's garbage is not the child's: its finalizers would run in imports
            for crew in list(_crews):
                crew.let_go()
            ours.close()
            _worker.tie(self._pid, by_kernel)
            link = _worker.Link(number, self.ring, self._control.number, theirs, self._answer is not None)
            _worker.live(link, self._recipe, process, self._pid)
        finally:
            os._exit(1)

    def _bear(self, start: Callable[..., int], *args: Any) -> int:
        """Start a process and note it, where no signal's handler can come between: close() will know it."""
        self._born.extend(itertools.starmap(start, (args,)))
        return self._born[-1]

    def _spawn(self, theirs: socket.socket, number: int, count: int) -> int:
        """A fresh interpreter with the recipe's memory mapped."""
        home = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        multiprocessing.spawn._check_not_importing_main()   # type: ignore[attr-defined]
        fds = (theirs.fileno(), self.ring.fd, multiprocessing.resource_tracker.getfd())
        by_kernel = threading.current_thread() is threading.main_thread()
        modules = [name for name in ("numpy", "torch") if sys.modules.get(name) is not None]
        code = (f"import sys; sys.path.insert(0, {home!r}); from stoker._worker import spawned; "
                f"spawned({fds}, {number}, {count}, {os.getpid()}, {by_kernel}, {modules})")
        program = os.fsencode(multiprocessing.spawn.get_executable())
        flags = multiprocessing.util._args_from_interpreter_flags()     # type: ignore[attr-defined]
        return self._bear(multiprocessing.util.spawnv_passfds, program, [program, *flags, "-c", code], fds)

    def let_go(self) -> None:
        """In a child: descriptors of the parent's workers are not its own."""
        for worker in self._workers:
            worker.close()
        if self._server is not None:
            self._server.close()

    # ---- tickets -------------------------------------------------------------------------------------

    def submit(self, task: _make.Task, worker: int | None = None) -> Ticket:
        self._check_process()
        ticket = Ticket(task, self.ring.take())
        chosen = self._workers[worker] if worker is not None else min(self._workers, key=lambda w: len(w.tickets))
        self._send(ticket, chosen)
        return ticket

    def _send(self, ticket: Ticket, worker: _Process) -> None:
        """A signal's handler may raise at any point: a ticket that was not told is told later, and one that is told
        twice is done once."""
        ticket.told = False
        _wire.put(ticket.slot, ticket.serial << 3 | _wire.TASK, ticket.task)
        ticket.worker = worker
        worker.tickets.append(ticket)
        self._tell(worker, ticket.slot.number, ticket.serial)
        ticket.told = True

    def _tell(self, worker: _Process, number: int, serial: int = 0) -> None:
        try:
            worker.sock.setblocking(True)
            worker.sock.sendall(struct.pack(_worker.TELL, number, serial))
        except OSError:
            pass                                # it is dead: seen when its ticket is waited for
        finally:
            with contextlib.suppress(OSError):
                worker.sock.setblocking(False)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise StokerError("this loader's workers belong to the process that made it: make one in this process",
                              "ECLOSED")

    def result(self, ticket: Ticket, timeout: float = 0) -> Any:
        made = self.first([ticket], timeout).result
        ticket.failed = isinstance(made, BaseException)
        if isinstance(made, BaseException):
            if isinstance(made, _make.Bad):
                raise_bad(made, f"worker process {ticket.worker.number}")
            raise made
        return made

    def first(self, tickets: list[Ticket], timeout: float = 0) -> Ticket:
        """Waits until one of these is complete, and answers the first that is."""
        self._check_process()
        until = time.monotonic() + timeout if timeout else None
        while True:
            self._hear_all()
            for worker in self._workers:
                if worker.dead:
                    self._buried(worker)
            for ticket in tickets:
                if ticket.result is not None:
                    return ticket
            left = None if until is None else (until - time.monotonic()) * 1000
            if left is not None and left <= 0:
                raise RuntimeError(f"DataLoader timed out after {timeout:g} seconds")
            for fd, _ in self._poll.poll(left):
                self._wake(fd)

    def is_made(self, ticket: Ticket) -> bool:
        self._hear_all()
        return ticket.result is not None

    def _wake(self, fd: int) -> None:
        worker = self._by_fd.get(fd)
        if worker is None:
            return
        if fd == worker.fd:
            worker.dead = True
            return
        try:
            if not worker.sock.recv(4096):
                self._poll.unregister(fd)       # its descriptor for the process says the rest
        except BlockingIOError:
            pass
        except OSError:
            self._poll.unregister(fd)

    def _hear_all(self) -> None:
        for worker in self._workers:
            while worker.tickets and self._heard(worker, worker.tickets[0]):
                worker.tickets.pop(0)
            if worker.tickets and not worker.tickets[0].told:
                self._tell(worker, worker.tickets[0].slot.number, worker.tickets[0].serial)
                worker.tickets[0].told = True

    def _heard(self, worker: _Process, ticket: Ticket) -> bool:
        """Whether a ticket is complete; questions are answered."""
        if ticket.result is not None:
            return True                         # an error that its worker does not know of
        state = ticket.slot.hear()[0] & _wire.KIND
        if state == _wire.TASK or state == _wire.ANSWER and ticket.told:
            return False
        try:
            value = _wire.get(ticket.slot)
        except Exception as e:
            if by_handler(e):
                raise
            value = _worker.no_way(e)
        if state == _wire.ASK:
            ticket.told = False
            try:
                index = self._answer(ticket, *value)
            except Exception as e:              # too many: the batch is an error, the worker is not needed
                ticket.result = e
                ticket.slot = None
                self._replace(worker)
                return False
            _wire.put(ticket.slot, ticket.serial << 3 | _wire.ANSWER, index, 64)
        if state in (_wire.ASK, _wire.ANSWER):
            self._tell(worker, ticket.slot.number | _worker.ANSWERED)
            ticket.told = True
            return False
        ticket.result = value
        ticket.slot = None                      # its views keep it
        self._deaths = 0
        return True

    # ---- deaths --------------------------------------------------------------------------------------

    def _buried(self, worker: _Process) -> None:
        status = worker.status()
        row, at = self._now[worker.number * _worker.LINE], self._now[worker.number * _worker.LINE + 1]
        self._remove(worker)
        if worker.retired:
            worker.dead, worker.tickets = False, []
            return
        held = next((t for t in worker.tickets if t.slot is not None and t.slot.number == at), None)
        index = None
        if held is not None and row != _make.IDLE and isinstance(held.task.indices, (list, tuple)) \
                and row < len(held.task.indices):
            index = held.task.indices[row]
        doing = "collating a batch" if held is not None else "idle"
        if held is not None and held.task.stream is not None:
            doing = "reading the iterable data set"
        doing = f"making sample {index!r}" if index is not None else doing
        error = WorkerDied(f"worker {worker.number} (process {worker.pid}) {ended(status)} while {doing}", "ECLOSED",
                           sample=index if isinstance(index, int) else None)
        error.pid, error.status = worker.pid, status
        self._deaths += 1
        if not worker.tickets and self._deaths < _DEATHS and not self._as_torch:
            _log.emit(1, f"{error}: it had no work, and another takes its place")
            self._restart(worker, [])
            return
        if self._answer is None or self._deaths >= _DEATHS or (held is not None and held.task.stream is not None):
            alone = held is not None and held.task.stream is None and self._deaths < _DEATHS
            gone: Any = [held] if alone else worker.tickets         # others have nothing to do with it
            for ticket in gone:
                ticket.result = error
                ticket.slot = None
            idle = not worker.tickets
            self._restart(worker, worker.tickets)
            if idle:
                raise error
            return
        if index is not None and held is not None:
            self._swap(held, int(row), index, str(error))
        self._restart(worker, worker.tickets)

    def _swap(self, ticket: Ticket, row: int, index: Any, reason: str) -> None:
        """Another sample in the place of the one that killed a worker."""
        attempts = dict(ticket.task.replaced)
        attempts[row] = attempts.get(row, 0) + 1
        try:
            other = self._answer(ticket, row, index, attempts[row], reason)
        except Exception as e:
            ticket.result = e
            return
        indices = list(ticket.task.indices)
        indices[row] = other
        ticket.task = ticket.task._replace(indices=indices, replaced=tuple(attempts.items()))

    def _remove(self, worker: _Process) -> None:
        for fd in (worker.sock.fileno(), worker.fd):
            if self._by_fd.pop(fd, None) is not None:
                try:
                    self._poll.unregister(fd)
                except KeyError:
                    pass
        worker.close()

    def _restart(self, worker: _Process, tickets: list[Ticket]) -> None:
        fresh = self._workers[worker.number] = self._start(worker.number)
        self._born.clear()
        if self._method == "spawn":
            self._hand_over(fresh.sock)
        worker.tickets = []
        for ticket in tickets:
            if ticket.result is None:
                self._send(ticket, fresh)

    @property
    def workers(self) -> list[_Process]:
        return self._workers

    def replace_dead(self, number: int) -> tuple[_Process, _Process]:
        """A worker that has ended, its status known, and the one in its place."""
        old = self._workers[number]
        old.status()
        self._remove(old)
        self._restart(old, [])
        return old, self._workers[number]

    def retire(self, number: int) -> None:
        """A worker of an iterable that has no more samples ends, as in torch."""
        worker = self._workers[number]
        worker.retired = True
        self._now[number * _worker.LINE + _worker.STOP] = 1
        self._tell(worker, _worker.QUIT)

    def _replace(self, worker: _Process) -> None:
        """A worker that waits for an answer which will not come."""
        os.kill(worker.pid, signal.SIGKILL)
        worker.status()
        self._remove(worker)
        self._restart(worker, worker.tickets)

    # ---- end -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the workers.  A signal's handler that raises cuts only the wait short: a thread goes on."""
        if self._pid != os.getpid():
            self.let_go()                       # a child: the workers are its parent's
            return
        if threading.current_thread() is threading.main_thread():
            with contextlib.suppress(RuntimeError):     # the interpreter ends: no thread starts any more
                thread = threading.Thread(target=self._close, name="stoker-close")
                _uncut(thread.start)            # a start that is cut short leaves a thread that never runs, and is waited for
                thread.join()
                return
        self._close()

    def _close(self) -> None:
        with self._closing:
            workers = [w for w in self._workers if w.fd >= 0]       # else it could not be started again
            self._end(workers)
            for pid in set(self._born) - {w.pid for w in (*workers, self._server) if w is not None}:
                os.kill(pid, signal.SIGKILL)    # its start was interrupted
                os.waitpid(pid, 0)
            self._workers, self._born = [], []
            if self._server is not None:
                server, self._server = self._server, None
                with contextlib.suppress(OSError):
                    server.sock.shutdown(socket.SHUT_RDWR)      # processes that others forked have it open too
                server.sock.close()
                server.status()
                server.close()
            self._drop_parcel()
            self._by_fd = {}

    def _end(self, workers: list[_Process]) -> None:
        """They complete what they are at and flush queues: one that is killed then would leave its locks held, and half a message in
        a queue.  It may take long: then it is not waited for, as in torch."""
        for worker in workers:
            self._now[worker.number * _worker.LINE + _worker.STOP] = 1
            self._tell(worker, _worker.QUIT)
        left = {worker.fd: worker for worker in workers}
        _wait(left, 5)
        for worker in left.values():
            os.kill(worker.pid, signal.SIGKILL)
        for worker in workers:
            worker.status()
            worker.close()
            worker.tickets = []

    def __del__(self, ending: Any = sys.is_finalizing) -> None:
        if getattr(self, "_workers", None) and not ending():
            self.close()


def _uncut(call: Callable[..., Any], *args: Any) -> Any:
    """call(*args), during which no handler of a signal runs; one that is due runs after it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
        return call(*args)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(left: dict[int, _Process], seconds: float) -> None:
    """Takes those out that have ended."""
    until, poll = time.monotonic() + seconds, select.poll()
    for fd in left:
        poll.register(fd, select.POLLIN)
    while left and (wait := until - time.monotonic()) > 0:
        for fd, _ in poll.poll(wait * 1000):
            poll.unregister(fd)
            left.pop(fd)


def method_for(wanted: str | None, threads: bool) -> str:
    """The start method: as asked for; else fork, unless CUDA or a loader's threads would be forked with it."""
    if wanted is not None:
        return wanted
    torch = sys.modules.get("torch")
    cuda = torch is not None and torch.cuda.is_initialized()
    return "forkserver" if cuda or threads else "fork"


def processes(recipe: _make.Recipe, ring: _stoker.Ring, answer: Answer | None, workers: int, method: str,
              chosen: bool, what: str = "the data set, collate function or worker_init_fn") -> Processes:
    """`chosen`: by us: a data set that does not pickle, or that fresh processes would not find, is forked all the same."""
    try:
        return Processes(recipe, ring, answer, workers, method)
    except _main.NoMain as e:
        if not chosen:
            raise UnsupportedError(f"start method {method}: {e}", "ENOTSUP") from None
        return Processes(recipe, ring, answer, workers, "fork")     # as torch's DataLoader does
    except (TypeError, AttributeError, ValueError) as e:
        if method == "fork" or isinstance(e, StokerError):
            raise
        why = f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"
    except Exception as e:
        words = f"{type(e).__name__} {e}".lower()
        if "pickle" not in words and "semlock" not in words:    # a lock of another start method
            raise
        why = str(e).splitlines()[0]
    if chosen:
        _log.emit(1, f"{what} does not pickle ({why}): workers are forked, though this process has threads of "
                     f"another loader or uses CUDA")
        return Processes(recipe, ring, answer, workers, "fork")
    raise UnsupportedError(f"start method {method}: {what} does not pickle "
                           f'({why}): define them at the top level of a module, or use worker_type="fork" or "thread"',
                           "ENOTSUP")
