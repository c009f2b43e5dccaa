# SPDX-License-Identifier: Apache-2.0
"""Any loader, watched: where its loop waits, and what its workers do meanwhile.

    loader = stoker.watch(torch_dataloader)
    for batch in loader: ...
    print(loader.diagnose())

Of a PyTorch DataLoader the data set and collate_fn are wrapped, so that each worker notes how long they take, in
memory that it shares with the parent.  A thread in each worker looks every few milliseconds at what the fetching
thread does (the system call it is in, else the Python code): that tells reading from decoding from augmenting.
The rules that make a sentence of it are those for our own loaders (src/tools/diagnose.c).
"""

from __future__ import annotations

import atexit
import itertools
import json
import mmap
import os
import platform
import sys
import threading
import time
from typing import Any

from . import _diagnosis, _loader_base, _monitor, _stoker
from .errors import Whole, invalid

LOOK_S = 0.004
KINDS = ("storage", "network", "decode", "augmentation", "python", "lock")
_FETCH, _FETCH_CPU, _COLLATE, _BEGAN, _DELAY, _CPU, _PID, _COUNTS = 0, 1, 2, 3, 4, 5, 6, 8
_ROW = 16                                       # doubles of a worker
_MODULES = {"decode": ("PIL", "cv2", "torchvision.io", "turbojpeg", "simplejpeg", "imageio", "av", "decord", "soundfile",
                       "librosa", "torchaudio", "torchcodec"),
            "augmentation": ("torchvision.transforms", "albumentations", "kornia", "imgaug", "timm.data", "monai.transforms"),
            "network": ("urllib", "urllib3", "http.client", "socket", "ssl", "requests", "boto3", "botocore", "fsspec", "s3fs",
                        "gcsfs", "smart_open", "aiohttp", "httpx")}
# Numbers of system calls that wait: reads of any descriptor, and those of sockets alone.
_CALLS = {"x86_64": ({0, 17, 19, 295, 257, 2, 4, 5, 6, 262, 217}, {45, 47, 42, 44, 7, 271, 23, 270, 232, 281}),
          "aarch64": ({63, 67, 65, 69, 56, 79, 80, 61}, {207, 212, 203, 206, 73, 72, 22})}
_FUTEX = {"x86_64": 202, "aarch64": 98}
_LOCKS = {"x86_64": {72, 73}, "aarch64": {25, 32}}      # fcntl, flock


_numbers = itertools.count()


class Counters:
    """Figures of workers in shared memory, a row each; every worker writes its own.

    The memory has no name in a folder, so that nothing is left when the process is killed; workers that are not forked
    open it by the parent's descriptor."""

    def __init__(self, rows: int) -> None:
        self._memory = open(os.memfd_create("stoker-watch"), "r+b")
        os.ftruncate(self._memory.fileno(), rows * _ROW * 8)
        self.path = f"/proc/{os.getpid()}/fd/{self._memory.fileno()}"
        self.name = f"{self.path} {next(_numbers)}"      # descriptors are used again
        self.rows = rows
        self._map()

    def _map(self) -> None:
        with open(self.path, "r+b") as f:
            self.values = memoryview(mmap.mmap(f.fileno(), self.rows * _ROW * 8)).cast("d")

    def __getstate__(self) -> tuple[str, str, int]:
        return self.path, self.name, self.rows

    def __setstate__(self, state: tuple[str, str, int]) -> None:
        self.path, self.name, self.rows = state
        self._map()

    def row(self, i: int) -> list[Any]:
        return self.values[i * _ROW:(i + 1) * _ROW].tolist()


# ---- in a worker --------------------------------------------------------------------------------

def _schedstat(path: str) -> tuple[float, float]:
    """Seconds that a thread ran, and that it could have run but had no core."""
    try:
        with open(path) as f:
            ran, delayed = f.read().split()[:2]
        return int(ran) * 1e-9, int(delayed) * 1e-9
    except (OSError, ValueError):
        return 0.0, 0.0


def _by_call(tid: int) -> str | None:
    """What a thread waits for, by the system call it is in; None: nothing of that kind."""
    try:
        with open(f"/proc/self/task/{tid}/syscall") as f:
            call = f.read().split()
        files, sockets = _CALLS.get(platform.machine(), (set(), set()))
        number = int(call[0])
        if number in sockets:
            return "network"
        if number == _FUTEX.get(platform.machine()):    # the GIL is waited for with a time limit, locks without
            return "lock" if int(call[4], 16) == 0 else None
        if number in _LOCKS.get(platform.machine(), ()):
            return "lock"
        if number in files:
            target = os.readlink(f"/proc/self/fd/{int(call[1], 16)}")
            return "network" if target.startswith("socket:") else "storage"
    except (OSError, ValueError, IndexError):
        pass                                    # it runs, or the kernel does not say
    return None


def _by_code(frame: Any, codes: dict[Any, str]) -> str:
    while frame is not None:
        if frame.f_code in codes:
            return codes[frame.f_code]
        module = frame.f_globals.get("__name__", "")
        for kind, names in _MODULES.items():
            if any(module == n or module.startswith(n + ".") for n in names):
                return kind
        frame = frame.f_back
    return "python"


def _codes(dataset: Any) -> dict[Any, str]:
    """Code of a data set's transforms, which may be anyone's."""
    found: dict[Any, str] = {}
    for name in ("transform", "transforms", "target_transform", "augment", "augmentation"):
        step = getattr(dataset, name, None)
        for fn in (step, getattr(type(step), "__call__", None)):
            code = getattr(fn, "__code__", None)
            if code is not None:
                found[code] = "augmentation"
    return found


class Meter:
    """Times what one process fetches into its row of the counters; the thread looks at what it does meanwhile."""

    def __init__(self, counters: Counters, row: int, codes: dict[Any, str]) -> None:
        self.at = row * _ROW
        self.values, self.codes = counters.values, codes
        self.tid, self.ident = threading.get_native_id(), threading.get_ident()
        self.busy, self.noted = False, 0.0
        now = time.perf_counter()
        self.values[self.at + _BEGAN] = self.values[self.at + _BEGAN] or now
        self.values[self.at + _PID] = os.getpid()
        self.before = self.values[self.at + _DELAY], self.values[self.at + _CPU]    # of a worker that is gone
        self.base = _schedstat(f"/proc/self/task/{self.tid}/schedstat")
        threading.Thread(target=self._watch, name="stoker-watch", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_S)
            if self.busy:
                kind = _by_call(self.tid)
                if kind in (None, "lock"):      # in a decoder it is one for threads of its own
                    code = _by_code(sys._current_frames().get(self.ident), self.codes)
                    kind = kind if kind and code == "python" else code
                if self.busy:
                    self.values[self.at + _COUNTS + KINDS.index(kind)] += 1

    def note(self, now: float) -> None:
        if now - self.noted > 0.05:
            self.noted = now
            ran, delayed = _schedstat(f"/proc/self/task/{self.tid}/schedstat")
            self.values[self.at + _DELAY] = self.before[0] + delayed - self.base[1]
            self.values[self.at + _CPU] = self.before[1] + ran - self.base[0]

    def fetch(self, fn: Any, *args: Any) -> Any:
        if self.busy:                           # within another one
            return fn(*args)
        start, cpu = time.perf_counter(), time.thread_time()
        self.busy = True
        try:
            return fn(*args)
        finally:
            self.busy = False
            now = time.perf_counter()
            self.values[self.at + _FETCH] += now - start
            self.values[self.at + _FETCH_CPU] += time.thread_time() - cpu
            self.note(now)

    def fill(self, fn: Any, *args: Any) -> Any:
        """All of a batch: what is not fetching is putting it together and handing it over."""
        at = self.at
        before, start = self.values[at + _FETCH] + self.values[at + _COLLATE], time.perf_counter()
        try:
            return fn(*args)
        finally:
            known = self.values[at + _FETCH] + self.values[at + _COLLATE] - before
            self.values[at + _COLLATE] += max(time.perf_counter() - start - known, 0.0)

    def collate(self, fn: Any, *args: Any) -> Any:
        start = time.perf_counter()
        try:
            return fn(*args)
        finally:
            self.values[self.at + _COLLATE] += time.perf_counter() - start


_meters: dict[tuple[int, int, str], Meter] = {}     # of this process, by thread and counters


def _meter(counters: Counters, codes: dict[Any, str]) -> Meter:
    key = os.getpid(), threading.get_ident(), counters.name
    found = _meters.get(key)
    if found is None:
        found = _meters[key] = Meter(counters, _row(counters) % counters.rows, codes)
    return found


def _row(counters: Counters) -> int:
    """A worker's number; of threads, in the order in which they come."""
    from . import _worker
    ours = _worker.get_worker_info()
    if ours is not None:
        return ours._number if isinstance(ours, _worker.Info) else int(ours.id)    # Info.id would note that someone asked
    module = sys.modules.get("torch.utils.data")
    info = module.get_worker_info() if module else None
    if info is not None:
        return int(info.id)
    return sum(pid == os.getpid() and name == counters.name for pid, _, name in _meters)


class WatchedDataset:
    """A data set that notes how long its samples take.  Everything else is as it was, also for isinstance()."""

    def __init__(self, real: Any, counters: Counters) -> None:
        self.__dict__.update(_real=real, _counters=counters)

    @property       # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.__dict__["_real"])

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.__dict__["_real"], name)
        if name == "__getitems__" and value:
            return lambda indices: self._meter().fetch(value, indices)
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_real"], name, value)

    def _meter(self) -> Meter:
        return _meter(self.__dict__["_counters"], _codes(self.__dict__["_real"]))

    def stoker_fill(self, fn: Any, *args: Any) -> Any:
        return self._meter().fill(fn, *args)

    def __getitem__(self, i: Any) -> Any:
        return self._meter().fetch(self.__dict__["_real"].__getitem__, i)

    def __len__(self) -> int:
        return len(self.__dict__["_real"])

    def __iter__(self) -> Any:
        it, meter = iter(self.__dict__["_real"]), self._meter()
        while True:
            try:
                yield meter.fetch(next, it)
            except StopIteration:
                return

    def __reduce__(self) -> Any:
        return _rebuild, (self.__dict__["_real"], self.__dict__["_counters"])


def _rebuild(real: Any, counters: Counters) -> WatchedDataset:
    return WatchedDataset(real, counters)


class WatchedCollate:
    def __init__(self, real: Any, counters: Counters) -> None:
        self.real, self.counters = real, counters

    def __call__(self, samples: Any) -> Any:
        return _meter(self.counters, {}).collate(self.real, samples)


# ---- in the parent ------------------------------------------------------------------------------

class Figures:
    """What is known of one loop, for all its epochs."""

    def __init__(self, loader: Any) -> None:
        from . import sets
        plain = any(c.__module__.startswith("torch.utils.data") for c in type(loader).__mro__)
        ours = isinstance(loader, sets.SetLoader)
        self.is_torch = plain or ours           # its workers are known
        self.workers = int(loader._workers if ours else loader.num_workers) if self.is_torch else 0
        self.slots = self.workers * (getattr(loader, "prefetch_factor", None) or 2)
        self.counters = Counters(max(self.workers, 1))
        self.began: float | None = None
        self.over: float | None = None          # when the last epoch ended, while none runs
        self.between = 0.0                      # epochs: not the loop's time
        self.steps = self.passes = self.deaths = 0
        self.wait_s = self.start_s = self.restart_s = self.cpu_s = 0.0
        self.hand_s = 0.0                       # the consumer's own work in next(): taking batches over
        self.consumer: int | None = None
        self.others_from = self.delay_from = 0.0
        if ours:
            loader._recipe = loader._recipe._replace(dataset=WatchedDataset(loader._recipe.dataset, self.counters))
        elif self.is_torch:
            object.__setattr__(loader, "dataset", WatchedDataset(loader.dataset, self.counters))
        if plain:
            object.__setattr__(loader, "collate_fn", WatchedCollate(loader.collate_fn, self.counters))

    def rows(self) -> list[list[float]]:
        return [row for row in map(self.counters.row, range(self.counters.rows)) if row[_PID]]

    def begin(self) -> None:
        if self.began is None:
            self.began, self.consumer = time.perf_counter(), threading.get_native_id()
            self.others_from = _others([])
            self.delay_from = _schedstat(f"/proc/self/task/{self.consumer}/schedstat")[1]
        if self.over is not None:
            self.between += time.perf_counter() - self.over
            self.over = None

    def sight(self) -> dict[str, Any]:
        now, rows, busy = (self.over or time.perf_counter()) - self.between, self.rows(), dict.fromkeys(KINDS, 0.0)
        for row in rows:
            counts = row[_COUNTS:_COUNTS + len(KINDS)]
            seen = sum(counts)
            for kind, n in zip(KINDS, counts):
                busy[kind] += row[_FETCH] * (n / seen if seen else kind == "python")
        busy["collate"] = sum(row[_COLLATE] for row in rows)
        alive = sum(now - row[_BEGAN] for row in rows)
        delay = _schedstat(f"/proc/self/task/{self.consumer}/schedstat")[1] - self.delay_from if self.consumer else 0.0
        sm, memory = _gpu()
        return {"at_s": now - self.began if self.began else 0.0, "steps": float(self.steps), "wait_s": self.wait_s,
                "start_s": self.start_s, "consumer_cpu_s": self.cpu_s + max(delay, 0.0), "busy_s": busy,
                "idle_s": max(alive - sum(busy.values()), 0.0) if self.workers else 0.0,
                "delay_s": sum(row[_DELAY] for row in rows), "others_s": max(_others(rows) - self.others_from, 0.0),
                "workers": float(self.workers), "cores": float(len(os.sched_getaffinity(0))), "slots": float(self.slots),
                "sm_share": sm, "gpu_memory_share": memory, "gpu": float(sm >= 0)}


def _others(rows: list[list[float]]) -> float:
    """Seconds that our cores were busy with other things than us and our workers."""
    ours, hz, busy = os.sched_getaffinity(0), os.sysconf("SC_CLK_TCK"), 0
    try:
        with open("/proc/stat") as f:
            for line in f:
                name, *values = line.split()
                if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in ours:
                    ticks = [int(v) for v in values[:8]]
                    busy += sum(ticks) - ticks[3] - ticks[4]
    except OSError:
        return 0.0
    return busy / hz - time.process_time() - sum(row[_CPU] for row in rows if row[_PID] != os.getpid())


def _gpu() -> tuple[float, float]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return -1.0, -1.0
    return _stoker.gpu_use(torch.cuda.current_device()) or (-1.0, -1.0)


class Pass:
    """One epoch of a watched loop."""

    def __init__(self, figures: Figures, make: Any) -> None:
        figures.begin()
        start = time.perf_counter()
        self._figures, self._first = figures, True
        self._left: float | None = None
        figures.passes += 1
        self._inner = make()
        took = time.perf_counter() - start
        figures.wait_s += took
        figures.start_s += took
        self._began = took

    def __iter__(self) -> Pass:
        return self

    def __next__(self) -> Any:
        f = self._figures
        ran = sum(_schedstat("/proc/thread-self/schedstat")) if f.workers else 0.0
        cpu, start = time.thread_time(), time.perf_counter()
        if self._left is not None:
            f.cpu_s += cpu - self._left
        try:
            if f.is_torch:
                return next(self._inner)
            return _meter(f.counters, {}).fetch(next, self._inner)
        except RuntimeError as e:
            f.deaths += "DataLoader worker" in str(e)
            raise
        except StopIteration:
            f.steps -= 1
            f.over = time.perf_counter()
            raise
        finally:
            took = time.perf_counter() - start
            f.steps += 1
            if f.workers and not self._first:   # what it did itself, or would have with a core, is not waiting
                hand = min(sum(_schedstat("/proc/thread-self/schedstat")) - ran, took)
                f.hand_s += hand
                took -= hand
            f.wait_s += took
            if self._first and (f.workers or f.passes == 1):
                f.start_s += took
                f.restart_s += took + self._began if f.passes > 1 else 0.0
            self._first, self._left = False, time.thread_time()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_inner"], name)


class Watched(Whole):
    """A loader that is watched; everything else of it is as it was."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._figures = Figures(loader)
        self._seen: dict[str, Any] | None = None

    def __iter__(self) -> Pass:
        return Pass(self._figures, lambda: iter(self._loader))

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name) if "_seen" in self.__dict__ else super().__getattr__(name)

    def diagnose(self, ranks: bool = False) -> _diagnosis.Diagnosis:
        """What holds the loop up since the last call; as of stoker.Loader."""
        before, self._seen = self._seen, self._figures.sight()
        return _diagnosis.diagnose([before] if before else [], [self._seen], foreign=True, together=ranks)

    def report(self) -> str:
        """What was seen since the first epoch, for people."""
        return report(self._figures)


def watch(loader: Any) -> Any:
    """Watch any iterable that gives batches: loop over the result in its place, then print(result.diagnose())."""
    from . import loader as module, sets
    if isinstance(loader, Watched) or isinstance(loader, module.Loader) and not isinstance(loader, sets.SetLoader):
        return loader                           # it knows itself
    if not hasattr(loader, "__iter__"):
        invalid(f"watch() takes a loader, something that gives batches in a loop, not {loader!r}")
    return Watched(loader)


def report(f: Figures) -> str:
    """What was seen of a loop, for people."""
    s = f.sight()
    found = _diagnosis.diagnose([], [s], foreign=True)
    wall = s["at_s"] or 1e-9
    total = sum(s["busy_s"].values()) + s["idle_s"] or 1.0
    lines = [f"{f.steps:,} batches in {f.passes} epoch{'s' * (f.passes != 1)}, {wall:.1f} s; {f.workers} workers",
             f"loop: waited {s['wait_s']:.2f} s ({100 * s['wait_s'] / wall:.0f} %), of it {s['start_s']:.2f} s for first batches"
             + (f"; taking batches over took {f.hand_s:.2f} s more" if f.hand_s > 0.01 * wall else "")]
    if f.restart_s > 0.05 * wall:
        lines.append(f"every epoch starts its workers again: {f.restart_s:.2f} s after the first; persistent_workers=True keeps them")
    if f.deaths:
        lines.append(f"{f.deaths} worker{'s' * (f.deaths != 1)} died: see the script's own message; memory is the usual reason")
    if s["sm_share"] >= 0:
        lines.append(f"GPU: {100 * s['sm_share']:.0f} % busy, {100 * s['gpu_memory_share']:.0f} % of its memory taken")
    lines.append("workers: " + ", ".join(f"{k} {100 * v / total:.0f} %" for k, v in {**s["busy_s"], "idle": s["idle_s"]}.items() if v))
    return "\n".join([*lines, found.table(), found.sentence])


# ---- stoker doctor -- python train.py -----------------------------------------------------------

class _Doctor:
    """Watches all loaders of a process, and writes what it sees to a file now and then."""

    def __init__(self, path: str) -> None:
        self.path, self.pid = path, os.getpid()
        self.found: list[Figures] = []
        self.reports: dict[int, str] = {}          # of loaders of ours: their last report
        self.lock = threading.Lock()
        atexit.register(self.write)
        threading.Thread(target=self._run, name="stoker-doctor", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(0.5)
            self.write()

    def write(self) -> None:
        if os.getpid() != self.pid:
            return
        with self.lock:
            for loader in list(_loader_base.open_loaders):
                try:
                    if loader._core.stats()["batches"]:
                        self.reports[id(loader)] = loader.report()
                except Exception:               # closed meanwhile
                    pass
            texts = [report(f) for f in self.found if f.began] + list(self.reports.values())
            if texts:
                parts = [{"report": t.splitlines()[:-1], "sentence": t.splitlines()[-1]} for t in texts]
                _monitor.write_whole(self.path, ("\n\n".join(texts) + "\n").encode(), "report")
                _monitor.write_whole(self.path + ".json", (json.dumps({"loaders": parts}) + "\n").encode(), "report")

    def hook(self, module: Any) -> None:
        loader, doctor = module.DataLoader, self
        plain = loader.__iter__

        def __iter__(self: Any) -> Any:
            if os.getpid() != doctor.pid:
                return plain(self)
            figures = self.__dict__.get("_stoker_figures")
            if figures is None:
                figures = Figures(self)
                object.__setattr__(self, "_stoker_figures", figures)
                doctor.found.append(figures)
            return Pass(figures, lambda: plain(self))

        loader.__iter__ = __iter__


class _Finder:
    """Lets a module be found as ever, and calls back when it was imported."""

    def __init__(self, name: str, then: Any) -> None:
        self.name, self.then = name, then

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name:
            return None
        import importlib.util
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run, then = spec.loader.exec_module, self.then

            def exec_module(module: Any) -> None:
                run(module)
                then(module)

            spec.loader.exec_module = exec_module   # type: ignore[method-assign]
        return spec


def install(path: str) -> None:
    """For `stoker doctor --`: watch every DataLoader of this process, and write what is seen to `path`."""
    import multiprocessing
    if multiprocessing.parent_process() is None and "--multiprocessing-fork" not in sys.argv:
        sys.meta_path.insert(0, _Finder("torch.utils.data.dataloader", _Doctor(path).hook))
