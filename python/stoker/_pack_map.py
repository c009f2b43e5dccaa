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
import os
import pathlib
import re
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from . import _pack_made, _pack_tokens
from ._fingerprint import function_fingerprint
from ._pack_tokens import Tokens
from .dataset import Dataset
from .errors import StokerError, invalid
from .writer import Writer, parts

_FIRST = 10_000     # samples: as of chains (pack_fields.c)
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
        made = [fitting(sample, m) for m in self._made(sample)]
        return made if self.tokens is None else [t for t in map(self.tokens.make, made) if t]

    def _made(self, sample: dict[str, Any]) -> list[Any]:
        if self.keep is not None and not self.keep(sample):
            return []
        if self.map is not None:
            return _one_or_more(self.map(sample), "map")
        if self.flat is not None:
            return [m for made in self.flat(sample) for m in _one_or_more(made, "flat_map")]
        return [sample]

    def named(self) -> dict[str, Any]:
        """By argument of pack() the functions that are given."""
        given = {"filter": self.keep, "map": self.map, "flat_map": self.flat, "tokenize": self.tokens and self.tokens.function}
        return {name: fn for name, fn in given.items() if fn is not None}

    def print(self) -> str:
        """Names and code of the functions: another function is another pack."""
        t = self.tokens
        made = [(name, function_fingerprint(fn)) for name, fn in self.named().items()]
        return repr((made, None if t is None else (t.field, t.dtype, t.end)))


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
        if "%" not in path and path.endswith((".tar", ".tar.gz", ".tar.zst", ".tar.lz4")) and not os.path.isdir(path):
            invalid(f"{path} needs a number in its name, as in train-%06d.tar, or is a folder")
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
        self.made = os.path.join(self.home, base + ".made.json")

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

    def put_made(self, text: str) -> None:
        put_whole(self.made, text)

    def list_failed(self, failed: list[Any]) -> None:
        if failed:
            with open(self.failed, "w", encoding="utf-8") as f:
                f.writelines(json.dumps(line) + "\n" for line in failed)
        else:
            with contextlib.suppress(OSError):
                os.unlink(self.failed)

    def index(self, paths: list[str], jpeg: bool) -> None:
        Dataset([pathlib.Path(p) for p in paths], jpeg=jpeg)


def put_whole(path: str, text: str) -> None:
    """A file that is there whole or not at all, also after a crash of the machine."""
    with open(path + ".new", "w", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".new", path)


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


class Job(NamedTuple):
    """What is to be packed."""

    data: Dataset
    ids: memoryview         # of the samples, in their order
    run: int                # samples of a shard, before the functions
    functions: Functions
    source: int             # the fingerprint of the data
    arguments: Mapping[str, Any]

    def plan(self) -> str:
        what = [len(self.ids), self.run, self.functions.print(), self.data.shards, hashlib.sha256(self.ids).hexdigest(),
                [stat(s) for s in self.data.shards], self.source]
        return hashlib.sha256(json.dumps(what).encode("utf-8", "surrogateescape")).hexdigest()

    def made(self, plan: str, n: int) -> str:
        figures = {"source_fingerprint": f"{self.source:016x}", "fingerprint": plan[:16], "samples": len(self.ids), "shards": n,
                   "samples_per_shard": self.run}
        return _pack_made.text(self.data, self.functions, self.arguments, figures)


def fill(target: Target, job: Job, engine: Callable[[tuple[Any, ...], list[int]], Iterator[tuple[dict[str, Any], str]]]) -> dict[str, Any]:
    """Write the shards that are not there."""
    if target.reads(job.data):
        invalid(f"{target.path(0)} and its like are read and would be written over: pack to another place or name")
    n = -(-len(job.ids) // job.run)
    plan = job.plan()
    with target.alone(plan) as place:
        done = target.finished(plan, n)
        ready = len(done)
        missing = [i for i in range(n) if i not in done]
        if missing:
            target.write(plan, done, _some_good(job, ready, engine((job.data, job.functions, place, bytes(job.ids), job.run), missing)))
            target.put_made(job.made(plan, n))
        target.settle(plan, done)
    failed = [line for i in sorted(done) for line in done[i]["failed"]]
    target.list_failed(failed)
    return {"shards": n, "samples": sum(row["samples"] for row in done.values()),
            "bytes": sum(row["size"] for row in done.values()), "kept_shards": ready,
            "changed_keys": sum(row.get("changed", 0) for row in done.values()),
            "failed": len(failed), "dropped": sum(row.get("dropped", 0) for row in done.values()), "pattern": target.pattern(n),
            "paths": [target.path(i) for i in range(n)]}


def _some_good(job: Job, ready: int, made: Iterator[tuple[dict[str, Any], str]]) -> Iterator[tuple[dict[str, Any], str]]:
    """Where none of the first samples can be made, or none at all, it is the function's fault."""
    seen = failed = 0
    with contextlib.closing(made):  # type: ignore[type-var]
        for row, path in made:
            bad = row["failed"]
            seen += min(job.run, len(job.ids) - row["shard"] * job.run)
            failed += len(bad)
            if seen == failed and not ready and seen >= min(len(job.ids), _FIRST) and not job.arguments["only_failed"]:
                invalid(f"none of the {seen} samples could be made: {bad[0]['reason']}")
            yield row, path


def stat(path: str) -> tuple[int, int]:
    """Size and time of a file; (-1, 0): there is none."""
    try:
        st = os.stat(path)
    except OSError:
        return -1, 0
    return st.st_size, st.st_mtime_ns


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


_job: tuple[Dataset, Functions, Any, Any, int]


def begin(data: Dataset, functions: Functions, place: Any, ids: bytes, run: int) -> None:
    global _job
    _job = data, functions, place, memoryview(ids).cast("Q"), run


class _Late(BaseException):
    """The function took longer than timeout.  `except Exception` in it does not stop this."""


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

    def put(self, made: list[Any]) -> None:
        """All of what became of a sample, or none of it."""
        self._core.add(*map(parts, made))

    def finish(self) -> int:
        """Its size; it is whole and has no name yet."""
        return self._core.finish()


def _plain(key: str) -> str:
    """A key as tar shards hold it: the library's packs (shard_names.c) repair keys the same way."""
    at = key.rfind("/") + 1
    return "".join("_" if c < " " or (c == "." and i >= at) else c for i, c in enumerate(key))


def _stem(sample: Mapping[str, Any]) -> tuple[str, str]:
    """A sample's key without the suffix of a folder's picture, and that."""
    stem, _, suffix = sample["__key__"].rpartition(".")
    is_file = sample["__url__"].endswith("/") and stem and 0 < len(suffix) < 16
    return (stem, suffix.lower()) if is_file else (sample["__key__"], "")


def fitting(sample: Mapping[str, Any], made: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of what a function made, the key that it left as it was, in a form that shards hold; and of a folder's picture
    "cat/1.jpg" the member cat/1.jpg."""
    key = sample["__key__"]
    if made.get("__key__") != key or "." not in key[key.rfind("/") + 1:] and key.isprintable():
        return made
    stem, suffix = _stem(sample)
    same = suffix and made.get("image") is sample.get("image")
    renamed = {suffix if same and name == "image" else name: value for name, value in made.items()}
    return {**renamed, "__key__": _plain(stem)}


class _Counts:
    """What became of the samples of a shard."""

    def __init__(self, skip: bool) -> None:
        self.skip, self.dropped, self.changed = skip, 0, 0
        self.failed: list[dict[str, Any]] = []

    def count(self, sample: Mapping[str, Any], made: list[Any]) -> None:
        self.dropped += not made
        stem = _stem(sample)[0]
        self.changed += sum(isinstance(m, Mapping) and m["__key__"] == plain != stem for plain in [_plain(stem)] for m in made)

    def fail(self, i: int, sample: Mapping[str, Any], e: BaseException, why: str) -> None:
        """List it, or raise.  What fails for the machine's sake says nothing of the sample."""
        if isinstance(e, StokerError) and (not self.skip or e.code in _MACHINE):
            raise e
        if not self.skip:
            raise StokerError(f"map failed for sample {sample['__key__']}: {why}", "EINVAL", sample["__url__"], None,
                              sample["__key__"], i) from e
        self.failed.append({"sample": i, "key": sample["__key__"], "reason": why[:400]})


class _Blamed(Exception):
    """A sample that is not tried again."""


_NONE_BLAMED: dict[int, str] = {}
_MACHINE = ("EIO", "ESTALE", "ENOMEM", "ECLOSED")


def work(number: int, blamed: Mapping[int, str] = _NONE_BLAMED, mark: Callable[[int], None] = lambda i: None) -> tuple[dict[str, Any], str]:
    """In a worker process, after begin(): run `number` through the functions, into one shard.

    blamed: samples that ended processes, and how; mark: is told which sample comes next
    """
    data, functions, place, ids, run = _job
    counts = _Counts(functions.skip)
    with place.open(number, functions.tokens) as out:
        for i in ids[number * run:(number + 1) * run]:
            sample: dict[str, Any] = {"__key__": str(i), "__url__": ""}
            mark(i)
            try:
                sample = data._at(i)
                if i in blamed:
                    raise _Blamed(blamed[i])
                with _within(functions.timeout):
                    made = functions.samples(sample)
                out.put(made)
                counts.count(sample, made)
            except (Exception, SystemExit, _Late) as e:
                why = f"it took more than {functions.timeout} s" if isinstance(e, _Late) \
                    else str(e) if isinstance(e, (StokerError, _Blamed)) else f"{type(e).__name__}: {e}"
                counts.fail(i, sample, e, why)
        row = {"shard": number, "size": out.finish(), "samples": out.samples, "failed": counts.failed, "dropped": counts.dropped,
               "changed": counts.changed}
        place.note(row)     # before the shard has its name
    return row, place.path(number)
