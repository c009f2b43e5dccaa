# SPDX-License-Identifier: Apache-2.0
"""Functions in chains: stoker.image().resize(256).call(function).to("f32").

The loader's threads make a row up to the function, hand the value to a worker process through a slot of a ring, and go
on with what comes back (ext/py_call.c).  With num_workers=0, and in threads, the function runs in this process.  What it
draws depends on (seed, epoch, position) alone, so it is the same for any number of workers.
"""

from __future__ import annotations

import json
import os
import pickle
import struct
import threading
import traceback
import weakref
from collections.abc import Callable, Mapping
from typing import Any

from . import _crew, _log, _make, _stoker, _wire, _worker
from ._seeds import Seeder
from .chains import Called, Chain
from .errors import StokerError

_HEAD, _TEXT = 64, 512                          # py_call.c
_MESSAGE = struct.Struct("<8I2Q8q")             # number, kind, out, gives, dtype, wants, ndim, status; address, bytes; shape
_ANSWERED, _FAILED, _ENDED = 0, 1, 2
_BYTES, _IMAGE, _VALUE = 1, 2, 3                # stk_kind
_OUT_TEXT, _OUT_JSON = 4, 5                     # stk_out_kind
_DTYPES = ("", "u1", "i1", "u2", "i2", "i4", "i8", "f2", "", "f4", "f8", "u4")   # stk_dtype, as NumPy has them
_LONGEST = 150                                  # of an error's own text
_TRACE = 60_000


class Function:
    """A function and the name that chains know it by."""

    def __init__(self, name: str, which: int, function: Callable[[Any], Any]) -> None:
        self.name, self.which, self.function = name, which, function


def plan(fields: Any) -> tuple[Any, list[Function]]:
    """`fields` with the functions of built chains numbered where two of one name differ; and the functions."""
    found: list[Function] = []
    if not isinstance(fields, Mapping):
        return fields, found
    numbered = {}
    for name, chain in fields.items():
        if isinstance(chain, Chain):
            chain = Chain(*(_number(step, found) if isinstance(step, Called) else step for step in chain._calls))
        numbered[name] = chain
    return numbered, found


def _number(step: Called, found: list[Function]) -> str:
    same = [f for f in found if f.name == step.name]
    known = next((f for f in same if f.function is step.function), None)
    if known is None:
        known = Function(step.name, len(same), step.function)
        found.append(known)
    return step.numbered(known.which)


# ---- one value ---------------------------------------------------------------------------------------

def _given(kind: int, out: int, dtype: int, shape: tuple[int, ...], memory: Any) -> Any:
    """The value as the function gets it; its own, to keep and to change."""
    if kind != _BYTES:
        import numpy
        return numpy.frombuffer(memory, _DTYPES[dtype]).reshape(shape).copy()
    if out == _OUT_TEXT:
        return str(memory, "utf-8")
    return json.loads(bytes(memory)) if out == _OUT_JSON else bytes(memory)


def _array(value: Any) -> Any:
    import numpy
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return numpy.asarray(value)


def _picture(value: Any) -> Any:
    array = _array(value)
    if array.dtype != "uint8" or array.ndim not in (2, 3):
        what = type(value).__name__ if array.dtype == object else f"{array.dtype} {array.shape}"
        raise TypeError(f"it returned {what}: a picture is uint8 (height, width, channels); for numbers say "
                        ".call(function, dtype=...)")
    return array


def _numbers(value: Any, wants: int) -> Any:
    array, kind = _array(value), _DTYPES[wants]
    if not array.size:
        return array.astype(kind)               # an empty list is float64 for NumPy
    if array.dtype.kind not in "biuf":
        what = type(value).__name__ if array.dtype == object else array.dtype
        raise TypeError(f"it returned {what}: numbers were asked for")
    made = array.astype(kind)
    if array.dtype.kind == "f" and kind[0] in "iu":
        raise TypeError(f"it returned {array.dtype}, and its chain says {made.dtype}: round it")
    if kind[0] in "iu" and (made != array).any():
        raise OverflowError(f"it returned {array.dtype} with a number that {made.dtype} does not hold")
    return made


def _taken(value: Any, gives: int, out: int, wants: int) -> tuple[int, tuple[int, ...], Any]:
    """(dtype, shape, memory) of what a function returned."""
    if gives == _BYTES:
        if out == _OUT_JSON:
            value = json.dumps(value).encode()
        elif out == _OUT_TEXT:
            if not isinstance(value, str):
                raise TypeError(f"it returned {type(value).__name__}: text is to stay text; for numbers say "
                                ".call(function, dtype=...)")
            value = value.encode()
        elif not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"it returned {type(value).__name__}: bytes are to stay bytes; for numbers say "
                            ".call(function, dtype=...)")
        return 1, (len(value),), value
    import numpy
    array = _picture(value) if gives == _IMAGE else _numbers(value, wants)
    if array.ndim > 8:
        raise TypeError(f"it returned {array.ndim} dimensions: at most 8")
    return (1 if gives == _IMAGE else wants), array.shape, numpy.ascontiguousarray(array).reshape(-1).view("u1").data


def _message(status: int, dtype: int, shape: tuple[int, ...], size: int) -> bytes:
    return _MESSAGE.pack(0, 0, 0, 0, dtype, 0, len(shape), status, 0, size, *shape, *(0,) * (8 - len(shape)))


def _failure(error: BaseException) -> tuple[bytes, bytes]:
    """(message, the error's text and its traceback) as the library reads them."""
    text = f"{type(error).__name__}: {error}".splitlines()[0].encode("utf-8", "replace")[:_LONGEST]
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename == __file__:
        at = at.tb_next                         # ours say nothing
    trace = "".join(traceback.format_exception(type(error), error, at)).encode("utf-8", "replace")[-_TRACE:]
    status = _FAILED if isinstance(error, Exception) else _ENDED
    return _message(status, 0, (len(trace),), len(text)), text + trace


class Runner:
    """The functions, in the process that runs them."""

    def __init__(self, functions: tuple[Callable[[Any], Any], ...], seeder: Seeder) -> None:
        self._functions, self._seeder = functions, seeder
        self.ended: BaseException | None = None     # KeyboardInterrupt and its like

    def run(self, head: Any, memory: Any) -> tuple[bytes, Any]:
        number, kind, out, gives, dtype, wants, ndim, _, address, size, *shape = _MESSAGE.unpack(head)
        try:
            value = _given(kind, out, dtype, tuple(shape[:ndim]), memory[:size])
            self._seeder.seed(address)
            made = self._functions[number](value)
            dtype, sides, data = _taken(made, gives, out, wants)
        except BaseException as e:
            if not isinstance(e, Exception):
                self.ended = e
            return _failure(e)
        return _message(_ANSWERED, dtype, sides, len(data)), data

    def here(self, head: bytes, memory: Any) -> tuple[bytes, Any]:
        """In the process that trains: its generators stay as they are."""
        saved = self._seeder.save()
        try:
            return self.run(head, memory)
        finally:
            self._seeder.restore(saved)


class CallServer:
    """A worker process: values that come, and what the functions make of them."""

    def __init__(self, link: _worker.Link, maker: _make.Maker) -> None:
        self._link = link
        self._runner = Runner(maker.recipe.dataset, maker.seeder)
        self._slots: dict[int, Any] = {}
        self.broken: Any = None

    def _slot(self, number: int) -> Any:
        if number not in self._slots:
            self._slots[number] = memoryview(self._link.ring.slot(number))
        return self._slots[number]

    def run(self) -> None:
        while (told := _worker.receive(self._link.sock))[0] != _worker.QUIT:
            memory = self._slot(told[0])
            head, data = self._runner.run(memory[_HEAD:_HEAD + _MESSAGE.size], memory[_wire.DATA:])
            answered = _MESSAGE.unpack(head)[7] == _ANSWERED
            if answered and len(data) > len(memory) - _wire.DATA:
                head, data = _failure(MemoryError(f"it returned {len(data)} bytes, more than a slot has"))
                answered = False
            at = _wire.DATA if answered else _TEXT
            memory[at:at + len(data)] = data
            memory[_HEAD:_HEAD + len(head)] = head
            _worker.flush()
            self._link.sock.send(b".")


# ---- all of them -------------------------------------------------------------------------------------

class WorkerTraceback(Exception):
    """What a function raised in a worker, with its traceback, as text."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0].rstrip()}\n"""'


class _Keeper:
    """The worker processes, and what ended them.  It knows nothing of Calls, which the library's object would keep alive."""

    def __init__(self, pool: _crew.Processes | None) -> None:
        self.pool = pool
        self.deaths: list[str] = []
        self._lock = threading.Lock()

    def died(self, number: int, sample: int, function: str) -> tuple[str, int, int]:
        """How worker `number` ended, and the descriptors of the one that is there now."""
        assert self.pool is not None
        with self._lock:
            old, new = self.pool.replace_dead(number)
            said = (f"worker {number} (process {old.pid}) {_crew.ended(old.status())} while call({function}) had sample "
                    f"{sample}")[:230]
            self.deaths.append(said)
        return said, new.sock.fileno(), new.fd


class Calls:
    """The functions of a loader: `core` is what the library calls."""

    def __init__(self, functions: list[Function], kind: str, workers: int, threads: bool) -> None:
        self._functions = tuple(f.function for f in functions)
        self._names = [f.name for f in functions]
        self.cores: list[_stoker.Loader] = []       # loaders that call them
        self._runner = Runner(self._functions, Seeder(shared=bool(workers) and kind == "thread"))
        pool = self._start(kind, workers, threads) if workers and kind != "thread" else None
        self._keeper = _Keeper(pool)
        processes = []
        for worker in pool.workers if pool is not None else ():
            slot = pool.ring.take()     # type: ignore[union-attr]
            processes.append((worker.sock.fileno(), worker.fd, slot.number, slot))
        self.core = _stoker.Calls(tuple((f.name, f.which) for f in functions), tuple(processes), self._runner.here,
                                  self._keeper.died)

    def _start(self, kind: str, workers: int, threads: bool) -> _crew.Processes:
        recipe = _make.Recipe(self._functions, None, False, False, 0, False, workers, server=CallServer)
        wanted = None if kind == "process" else kind
        method = _crew.method_for(wanted, threads)
        if wanted is None and method != "fork" and not self._pickle():
            _log.emit(1, "a function of call() does not pickle: workers are forked, though this process has threads of "
                         "another loader or uses CUDA")
            method = "fork"
        return _crew.processes(recipe, _stoker.Ring(), None, workers, method, wanted is None, "a function of call()")

    def _pickle(self) -> bool:
        """Whether they do: known before an interpreter is started for nothing."""
        try:
            pickle.dumps(self._functions)
        except Exception:
            return False
        return True

    def spent(self) -> dict[str, float]:
        """Seconds in each function, of all workers; those of one name together."""
        spent: dict[str, float] = {}
        for name, seconds in zip(self._names, self.core.spent(), strict=True):
            spent[name] = spent.get(name, 0.0) + seconds
        return spent

    def explained(self, error: StokerError) -> tuple[BaseException, BaseException | None]:
        """(what is raised for an error of the library, its cause)."""
        if self._runner.ended is not None:
            ended, self._runner.ended = self._runner.ended, None
            return ended, None
        if any(said in str(error) for said in self._keeper.deaths):
            return _crew.WorkerDied(str(error), "ECLOSED", error.shard, error.offset, error.key, error.sample), None
        trace = None if error.sample is None or "call(" not in str(error) else self.core.trace(error.sample)
        return error, error.__cause__ if trace is None else WorkerTraceback(trace)

    def stop(self) -> None:
        self.core.stop()

    def close(self) -> None:
        """The loader is closed: no thread of it waits for a function."""
        if self._keeper.pool is not None:
            self._keeper.pool.close()

    def end(self) -> None:
        """All of it, of a loader that was not closed."""
        self.stop()
        for core in self.cores:
            core.close()
        self.close()


def of_loader(loader: Any, functions: list[Function], worker_type: Any, workers: int) -> Calls | None:
    """Those who run the functions of its chains; None: there are none.  workers: as the C option has it."""
    if not functions:
        return None
    from . import sets                          # which imports the loader's file
    kind = sets.worker_type(worker_type)
    count = 0 if workers == -1 else workers or min(len(os.sched_getaffinity(0)), 16)
    made = Calls(functions, kind, count, sets.threads_of_loaders())
    weakref.finalize(loader, made.end)
    return made
