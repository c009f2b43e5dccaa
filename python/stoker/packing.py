# SPDX-License-Identifier: Apache-2.0
"""pack(): a data set into tar shards, as it is or through a function.

Without a function the C library does it all.  With one, processes take runs of samples and each
writes shards of its own in a hidden folder beside the target; when all are done, they get their
names in the order of the samples.  So the result does not depend on the number of processes, and a
run that fails leaves nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from . import _options, _stoker
from .dataset import Dataset, Urls
from .errors import StokerError, invalid, shown
from .writer import Writer

_DEFAULT_BYTES = 500_000_000


def pack(src: Urls | Dataset, dst: str | os.PathLike[str],
         map: Callable[[dict[str, Any]], Any] | None = None,  # noqa: A002
         num_proc: int | None = None, *, samples: int | None = None,
         bytes: int | str | None = None,  # noqa: A002
         shuffle: int | bool | None = None, force: bool = False, name: str = "shard",
         index: bool = True, jpeg: bool = False) -> dict[str, Any]:
    """Write data as tar shards; answers {"shards", "samples", "bytes", "pattern", ...}.

    src: what stoker.open() takes, or what it gave
    dst: a folder, or a path with a number in it: "out/train-%06d.tar"
    map: a function from a sample ({"__key__", field: bytes}) to a sample, a list of samples, or None
        to drop it; values as for Writer.  Runs in num_proc processes and must be importable there
    num_proc: processes with map, threads without; None: the cores there are
    samples, bytes: size of a shard (bytes also as "1GB"); neither: about 500 MB
    shuffle: a seed: write the samples in that permuted order
    force: replace shards of that name, and remove those beyond the last
    name: of the shards, where dst is a folder
    index: index the new shards
    jpeg: also keep seek points of JPEGs beside the index (docs/jpeg.md)

    Shards appear whole or not at all.  Without map, a target that has this content already is left
    alone, and a run that was stopped goes on.
    """
    data = src if isinstance(src, Dataset) else Dataset(src)
    count = 0 if samples is None else _options.whole("samples", samples, 1, 2**63 - 1)
    size = _options.byte_count("bytes", bytes)
    seed = None if shuffle is None or shuffle is False else _seed(shuffle)
    workers = 0 if num_proc is None else _options.whole("num_proc", num_proc, 1, 256)
    path, force = os.fspath(dst), _options.flag("force", force)
    if not isinstance(path, str) or "\0" in path or not name or "/" in name or "\0" in name:
        invalid("dst is a path of text, and name the beginning of a file's name")
    index, jpeg = _options.flag("index", index), _options.flag("jpeg", jpeg)
    if jpeg and not index:
        invalid("seek points of JPEGs lie beside the index: index=True, or jpeg=False")
    if map is None:
        return _stoker.pack(
            dataset=data._core, dst=os.fsencode(path), samples=count, bytes=size,
            shuffle=seed is not None, seed=seed or 0, name=os.fsencode(name), force=force,
            index=index, jpeg=jpeg, num_proc=workers)
    if not callable(map):
        invalid(f"map must be a function, not {shown(map)}")
    if seed is not None:
        invalid("shuffle with map: pack twice, or shuffle when loading")
    target = _Target(path, name, force)
    done = target.fill(data, map, workers or os.cpu_count() or 1, count, size)
    if index and done["shards"]:
        Dataset([pathlib.Path(p) for p in done.pop("paths")], jpeg=jpeg)
    done.pop("paths", None)
    return done


def _seed(value: int | bool) -> int:
    return 0 if value is True else _options.whole("shuffle", value, 0, 2**63 - 1)


class _Target:
    """Where mapped shards go: folder, and the name around its number."""

    def __init__(self, path: str, name: str, force: bool) -> None:
        if "%" not in path:
            path = os.path.join(path, name + "-%06d.tar")
        self.folder, base = os.path.split(path)
        found = re.fullmatch(r"([^%]*)%0?(\d{0,2})d([^%]*)", base)
        if not found or "%" in self.folder:
            invalid(f"the shards' name {path} needs one number, as in train-%06d.tar")
        self.prefix, self.width, self.suffix = found[1], int(found[2] or 0), found[3]
        self.force = force

    def path(self, i: int) -> str:
        return os.path.join(self.folder, f"{self.prefix}{i:0{self.width}d}{self.suffix}")

    def there(self) -> list[str]:
        """Files that have a shard's name."""
        shape = re.compile(re.escape(self.prefix) + r"\d+" + re.escape(self.suffix))
        return sorted(e.path for e in os.scandir(self.folder or ".") if shape.fullmatch(e.name))

    def fill(self, data: Dataset, fn: Callable[..., Any], workers: int, count: int,
             size: int) -> dict[str, Any]:
        os.makedirs(self.folder or ".", exist_ok=True)
        there = self.there()
        if there and not self.force:
            invalid(f"there is {there[0]}: take another place or name, or force=True")
        if {os.path.realpath(p) for p in there} & {os.path.realpath(s) for s in data.shards}:
            invalid(f"{there[0]} and its like are read and would be written over: pack to another "
                    "place or name")
        with _aside(self.folder) as aside:
            parts, samples = _run(data, fn, aside, workers, count, size)
            for old in there:
                os.unlink(old)
            paths = [self.path(i) for i in range(len(parts))]
            total = sum(map_size(p) for p in parts)
            for part, path in zip(parts, paths, strict=True):
                os.rename(part, path)
        return {"shards": len(paths), "samples": samples, "bytes": total, "kept_shards": 0,
                "changed_keys": 0, "pattern": self.pattern(len(paths)), "paths": paths}

    def pattern(self, n: int) -> str:
        last = f"{{{0:0{self.width}d}..{n - 1:0{self.width}d}}}" if n > 1 else f"{0:0{self.width}d}"
        return os.path.join(self.folder, self.prefix + last + self.suffix)


def map_size(path: str) -> int:
    return os.stat(path).st_size


@contextlib.contextmanager
def _aside(folder: str) -> Iterator[str]:
    """A hidden folder on the target's disk, locked while it is used; those of the dead go."""
    home = os.path.join(folder, ".stoker")
    os.makedirs(home, exist_ok=True)
    for entry in os.scandir(home):
        if entry.name.startswith("map."):
            with contextlib.suppress(OSError), open(os.path.join(entry.path, "lock"), "wb") as f:
                fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path)
    mine = tempfile.mkdtemp(prefix="map.", dir=home)   # its name cannot be guessed
    try:
        with open(os.path.join(mine, "lock"), "wb") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            yield mine
    finally:
        shutil.rmtree(mine, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.rmdir(home)                      # only if nothing else is in it


def _run(data: Dataset, fn: Callable[..., Any], aside: str, workers: int, count: int,
         size: int) -> tuple[list[str], int]:
    """The shards that were written, in order, and their samples."""
    if not count and not size:
        size = _DEFAULT_BYTES
    run = count or max(1, len(data) * size // max(1, sum(map_size(s) for s in data.shards)))
    jobs = [(i, first, min(first + run, len(data)))
            for i, first in enumerate(range(0, len(data), run))]
    parts: list[str] = []
    samples = 0
    pool = ProcessPoolExecutor(min(workers, len(jobs) or 1), _context(), _begin,
                               (data, fn, aside, count, size))
    with pool:
        try:
            for (i, _, _), (shards, n) in zip(jobs, pool.map(_work, jobs), strict=True):
                parts += [os.path.join(aside, f"{i:08d}-{k:06d}.tar") for k in range(shards)]
                samples += n
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return parts, samples


def _context() -> Any:
    """fork where nothing speaks against it: it starts at once and takes functions of __main__."""
    import threading
    safe = threading.active_count() == 1 and "fork" in multiprocessing.get_all_start_methods()
    return multiprocessing.get_context("fork" if safe else "spawn")


_job: tuple[Dataset, Callable[..., Any], str, int, int]


def _begin(*args: Any) -> None:
    global _job
    _job = args


def _work(job: tuple[int, int, int]) -> tuple[int, int]:
    """In a worker process: samples first .. last - 1 through the function."""
    data, fn, aside, count, size = _job
    number, first, last = job
    out = Writer(os.path.join(aside, f"{number:08d}-%06d.tar"), count or None, size or None)
    with out:
        for i in range(first, last):
            sample = data[i]
            try:
                made = fn(sample)
                for each in _samples(made):
                    out.write(each)
            except StokerError:
                raise
            except Exception as e:
                raise StokerError(f"map failed for sample {sample['__key__']}: "
                                  f"{type(e).__name__}: {e}", "EINVAL", sample["__url__"], None,
                                  sample["__key__"], i) from e
        samples = out.samples
    return len([n for n in os.listdir(aside) if n.startswith(f"{number:08d}-")]), samples


def _samples(made: Any) -> list[Any]:
    if made is None:
        return []
    if isinstance(made, Mapping):
        return [made]
    if isinstance(made, (list, tuple)) and all(isinstance(m, Mapping) for m in made):
        return list(made)
    invalid(f"map answers a sample (a dict), a list of them or None, not {shown(made)}")
