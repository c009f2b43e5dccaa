# SPDX-License-Identifier: Apache-2.0
"""pack() through Python functions: shard k of the target has what the functions make of run k of the samples.

Runs follow from the samples and the options alone, so the shards are the same for any number of processes, and a run
that was stopped goes on: a shard is noted in .stoker/ and then gets its name, and what is noted and there is not made
again.  Where the target is a bucket, _pack_bucket.py keeps the notes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, NamedTuple

from . import _pack_tokens
from ._pack_tokens import Tokens
from .dataset import Dataset
from .errors import StokerError, invalid
from .writer import Writer

_ALL = 2**62        # samples of a shard: as many as come


class Functions(NamedTuple):
    """What is done with a sample: kept or not, then turned into samples."""

    keep: Callable[[dict[str, Any]], Any] | None
    map: Callable[[dict[str, Any]], Any] | None
    flat: Callable[[dict[str, Any]], Any] | None
    timeout: float | None
    skip: bool
    tokens: Tokens | None = None

    def samples(self, sample: dict[str, Any]) -> list[Any]:
        """What is written: samples, or documents of tokens."""
        made = self._made(sample)
        return made if self.tokens is None else [t for t in map(self.tokens.make, made) if t]

    def _made(self, sample: dict[str, Any]) -> list[Any]:
        if self.keep is not None and not self.keep(sample):
            return []
        if self.map is not None:
            return _one_or_more(self.map(sample), "map")
        if self.flat is not None:
            return [m for made in self.flat(sample) for m in _one_or_more(made, "flat_map")]
        return [sample]

    def print(self) -> str:
        """Names and code of the functions: another function is another pack."""
        made = "|".join(_function_print(f) for f in (self.keep, self.map, self.flat))
        t = self.tokens
        return made if t is None else f"{made}|{_function_print(t.function)}|{t.field}|{t.dtype}|{t.end}"


def _function_print(fn: Any) -> str:
    code = getattr(fn, "__code__", None)
    if code is None:
        return f"{type(fn).__module__}.{type(fn).__qualname__}" if fn is not None else ""
    what = repr((code.co_code, [c for c in code.co_consts if not hasattr(c, "co_code")], code.co_names))
    return f"{fn.__module__}.{fn.__qualname__}.{hashlib.sha256(what.encode()).hexdigest()[:16]}"


def _one_or_more(made: Any, name: str) -> list[Any]:
    if made is None:
        return []
    if isinstance(made, Mapping):
        return [made]
    if isinstance(made, (list, tuple)) and all(isinstance(m, Mapping) for m in made):
        return list(made)
    invalid(f"{name} answers a sample (a dict), a list of them or None, not {made!r}")


class Target:
    """Where mapped shards go: folder, and the name around its number."""

    def __init__(self, path: str, name: str, force: bool, kind: str) -> None:
        """kind: how names of these shards end: ".tar", ".tar.zst", ".bin"."""
        if "%" not in path:
            path = os.path.join(path, name + "-%06d" + kind)
        elif kind != ".tar" and not path.endswith(kind):
            invalid(f"the name of these shards ends in {kind}, not as {path}")
        self.kind = kind
        self.folder, base = os.path.split(path)
        found = re.fullmatch(r"([^%]*)%0?(\d{0,2})d([^%]*)", base)
        if not found or "%" in self.folder:
            invalid(f"the shards' name {path} needs one number, as in train-%06d.tar")
        self.prefix, self.width, self.suffix = found[1], int(found[2] or 0), found[3]
        self.force = force
        self.home = os.path.join(self.folder, ".stoker")
        self.note = os.path.join(self.home, base + ".map")
        self.aside = "map." + base.replace("%", "_") + "."     # a shard is written there: no % in its path
        self.failed = os.path.join(self.home, base + ".failed")

    def path(self, i: int) -> str:
        return os.path.join(self.folder, f"{self.prefix}{i:0{self.width}d}{self.suffix}")

    def there(self) -> list[str]:
        """Files that have a shard's name."""
        shape = re.compile(re.escape(self.prefix) + r"\d+" + re.escape(self.suffix))
        return sorted(e.path for e in os.scandir(self.folder or ".") if shape.fullmatch(e.name))

    def pattern(self, n: int) -> str:
        last = f"{{{0:0{self.width}d}..{n - 1:0{self.width}d}}}" if n > 1 else f"{0:0{self.width}d}"
        return os.path.join(self.folder, self.prefix + last + self.suffix)

    @contextlib.contextmanager
    def alone(self, plan: str) -> Iterator[Any]:
        """Only one process packs to a target; gives where shards are written."""
        with _aside(self) as aside:
            yield Aside(aside, self.kind)

    def finished(self, plan: str, n: int) -> dict[int, dict[str, Any]]:
        """Shards of this plan that are noted and in place; others that are there are refused, or go with force."""
        noted: dict[int, dict[str, Any]] = {}
        with contextlib.suppress(OSError), open(self.note, encoding="utf-8") as f:
            noted = read_note(f, plan)
        done = {i: row for i, row in noted.items()
                if 0 <= i < n and not self.force and _size(self.path(i)) == row["size"]}
        mine = {self.path(i) for i in done}
        for path in self.there():
            if path not in mine:
                if not self.force:
                    invalid(f"there is {path}: take another place or name, or force=True")
                os.unlink(path)
                if self.suffix == ".bin":
                    with contextlib.suppress(OSError):
                        os.unlink(_pack_tokens.side(path))
        return done

    def reads(self, data: Dataset) -> bool:
        """Is a shard of the data among those that would be written over?"""
        os.makedirs(self.folder or ".", exist_ok=True)
        return bool({os.path.realpath(p) for p in self.there()} & {os.path.realpath(s) for s in data.shards})

    def write(self, plan: str, done: dict[int, dict[str, Any]], made: Iterator[tuple[dict[str, Any], str]]) -> None:
        """Note shards and give them their names, as they are made."""
        mode = "a" if done else "w"
        with open(self.note, mode, encoding="utf-8") as note, contextlib.closing(made):  # type: ignore[type-var]
            note.write(note_head(plan) if mode == "w" else "\n")        # ends a line that a kill may have torn
            for row, path in made:
                note.write(json.dumps(row) + "\n")
                note.flush()
                os.fsync(note.fileno())
                if self.suffix == ".bin":       # first: without it a .bin means something else
                    os.rename(_pack_tokens.side(path), _pack_tokens.side(self.path(row["shard"])))
                os.rename(path, self.path(row["shard"]))
                done[row["shard"]] = row

    def settle(self, plan: str, done: dict[int, dict[str, Any]]) -> None:
        """All shards are there."""

    def list_failed(self, failed: list[Any]) -> None:
        if failed:
            with open(self.failed, "w", encoding="utf-8") as f:
                f.writelines(json.dumps(line) + "\n" for line in failed)
        else:
            with contextlib.suppress(OSError):
                os.unlink(self.failed)

    def index(self, paths: list[str], jpeg: bool) -> None:
        Dataset([pathlib.Path(p) for p in paths], jpeg=jpeg)


def note_head(plan: str) -> str:
    return json.dumps({"stoker": "pack map", "plan": plan}) + "\n"


def read_note(lines: Iterable[str], plan: str) -> dict[int, dict[str, Any]]:
    """By shard what a note says; nothing where it is of another plan."""
    rows: dict[int, dict[str, Any]] = {}
    lines = iter(lines)
    with contextlib.suppress(ValueError, KeyError, TypeError):
        if json.loads(next(lines, ""))["plan"] == plan:
            for line in lines:
                with contextlib.suppress(ValueError):       # torn by a kill, or the empty line after it
                    row = json.loads(line)
                    rows[int(row["shard"])] = row
    return rows


class Aside(NamedTuple):
    """Where a worker writes shards of a local target: a hidden folder on its disk."""

    folder: str
    kind: str

    def path(self, number: int) -> str:
        return os.path.join(self.folder, f"{number:08d}-0{self.kind}")

    def open(self, number: int, tokens: Tokens | None) -> Any:
        path = self.path(number)
        if tokens is not None:
            return _pack_tokens.Shard(path, tokens.dtype)
        base = os.path.basename(path).replace("-0.", "-%d.")
        return TarShard(os.path.join(self.folder, base), _ALL, force=True)      # a task that is run again begins again

    def note(self, row: dict[str, Any]) -> None:
        """The driver does it."""


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def fill(target: Target, data: Dataset, ids: memoryview, run: int, functions: Functions,
         engine: Callable[[tuple[Any, ...], list[int]], Iterator[tuple[dict[str, Any], str]]]) -> dict[str, Any]:
    """Write the shards that are not there."""
    if target.reads(data):
        invalid(f"{target.path(0)} and its like are read and would be written over: pack to another place or name")
    n = -(-len(ids) // run)
    what = [len(ids), run, functions.print(), data.shards, hashlib.sha256(ids).hexdigest(), source_print(data)]
    plan = hashlib.sha256(json.dumps(what).encode("utf-8", "surrogateescape")).hexdigest()
    with target.alone(plan) as place:
        done = target.finished(plan, n)
        kept = len(done)
        missing = [i for i in range(n) if i not in done]
        if missing:
            target.write(plan, done, engine((data, functions, place, bytes(ids), run), missing))
        target.settle(plan, done)
    failed = [line for i in sorted(done) for line in done[i]["failed"]]
    target.list_failed(failed)
    return {"shards": n, "samples": sum(row["samples"] for row in done.values()),
            "bytes": sum(row["size"] for row in done.values()), "kept_shards": kept, "changed_keys": 0,
            "failed": len(failed), "dropped": sum(row.get("dropped", 0) for row in done.values()), "pattern": target.pattern(n),
            "paths": [target.path(i) for i in range(n)]}


def source_print(data: Dataset) -> list[Any]:
    """What the data is now, by its files; of remote ones by what their index says."""
    of_files: list[Any] = [_stat(s) for s in data.shards]
    return of_files + [data._core.print()] if any("://" in s for s in data.shards) else of_files


def _stat(path: str) -> tuple[int, int]:
    try:
        st = os.stat(path)
    except OSError:
        return -1, 0
    return st.st_size, st.st_mtime_ns


def in_processes(workers: int) -> Callable[[tuple[Any, ...], list[int]], Iterator[tuple[dict[str, Any], str]]]:
    """An engine: given the job and the numbers of shards, it gives what work() gives for each, as they are ready."""
    def run(job: tuple[Any, ...], shards: list[int]) -> Iterator[tuple[dict[str, Any], str]]:
        with ProcessPoolExecutor(min(workers, len(shards)), _context(), begin, job) as pool:
            try:
                for ready in as_completed([pool.submit(work, k) for k in shards]):
                    yield ready.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    return run


@contextlib.contextmanager
def _aside(target: Target) -> Iterator[str]:
    """A hidden folder on the target's disk, by the one process that packs to it; those of the dead go."""
    os.makedirs(target.home, exist_ok=True)
    with open(target.note + ".lock", "wb") as one:      # it stays: a file that others wait for is not removed
        fcntl.flock(one, fcntl.LOCK_EX)
        for entry in os.scandir(target.home):
            if entry.name.startswith(target.aside):
                shutil.rmtree(entry.path, ignore_errors=True)
        mine = tempfile.mkdtemp(prefix=target.aside, dir=target.home)   # its name cannot be guessed
        try:
            yield mine
        finally:
            shutil.rmtree(mine, ignore_errors=True)


def _context() -> Any:
    """fork where nothing speaks against it: it starts at once and takes functions of __main__."""
    import threading
    safe = threading.active_count() == 1 and "fork" in multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if safe else "spawn")


_job: tuple[Dataset, Functions, Any, Any, int]


def begin(data: Dataset, functions: Functions, place: Any, ids: bytes, run: int) -> None:
    global _job
    _job = data, functions, place, memoryview(ids).cast("Q"), run


class _Late(Exception):
    """The function took longer than timeout."""


def _late(number: int, frame: object) -> None:
    raise _Late


@contextlib.contextmanager
def _within(seconds: float | None) -> Iterator[None]:
    if seconds is None:
        yield
        return
    signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


class TarShard(Writer):
    _empty = True       # run k is shard k, also where nothing of it is kept

    def finish(self) -> int:
        """Its size; it is whole and has no name yet."""
        return self._core.finish()


def work(number: int) -> tuple[dict[str, Any], str]:
    """In a worker process, after begin(): run `number` through the functions, into one shard."""
    data, functions, place, ids, run = _job
    failed: list[dict[str, Any]] = []
    dropped = 0
    with place.open(number, functions.tokens) as out:
        for i in ids[number * run:(number + 1) * run]:
            sample = data[i]
            try:
                with _within(functions.timeout):
                    made = functions.samples(sample)
                for each in made:
                    out.write(each)
                dropped += not made
            except Exception as e:
                why = f"it took more than {functions.timeout} s" if isinstance(e, _Late) \
                    else str(e) if isinstance(e, StokerError) else f"{type(e).__name__}: {e}"
                if functions.skip:
                    failed.append({"sample": i, "key": sample["__key__"], "reason": why[:400]})
                elif isinstance(e, StokerError):
                    raise
                else:
                    raise StokerError(f"map failed for sample {sample['__key__']}: {why}", "EINVAL",
                                      sample["__url__"], None, sample["__key__"], i) from e
        row = {"shard": number, "size": out.finish(), "samples": out.samples, "failed": failed, "dropped": dropped}
        place.note(row)     # before the shard has its name
    return row, place.path(number)
