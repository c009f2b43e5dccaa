# SPDX-License-Identifier: Apache-2.0
"""prepared(): what is expensive is done once per host, in the training script, and shared by ranks and runs."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from . import _pack_bucket, _pack_map, _stoker, own_ops
from . import store as _store
from ._fingerprint import function_fingerprint, options_fingerprint, value_fingerprint
from ._pack import Function, pack, source_fingerprint
from .dataset import Dataset, Urls, _satisfying
from .errors import invalid
from .store import Store

_log = logging.getLogger("stoker")
_POLL, _TELL_EVERY = 2.0, 30.0     # seconds


def prepared(src: Urls | Dataset, folder: str | os.PathLike[str], *, fields: Mapping[str, Any] | None = None,
             map: Function | None = None, filter: Function | None = None,  # noqa: A002
             limit: int | None = None, num_proc: int | None = None, store: Store | None = None, **options: Any) -> Dataset:
    """Pack `src` into a folder of its own under `folder`, unless that is done, and open the result.

    The folder's name follows from the data, the chains and the functions: other ones are prepared beside it.  The
    first process of a host packs, others wait; one that is stopped is gone on with.  limit: only so many samples, the
    first ones.  options: those of stoker.pack() (samples, bytes, shuffle, exclude, fraction, jpeg, on_error, ...).
    """
    data = src if isinstance(src, Dataset) else Dataset(src, store=store)
    if limit is not None:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            invalid(f"limit is a number of samples from 1 on, not {limit!r}")
        options["select"] = _first(data, limit, options.get("select"), options.pop("where", None))
    for name in ("split", "name", "force", "only", "index"):
        if name in options:
            invalid(f"prepared() has no {name}: it names its folder itself and makes one data set; see stoker.pack()")
    place = os.path.join(os.fspath(folder), _name(data, fields, (filter, map), options))
    note: _Note | _Object = _Object(place, store) if "://" in place else _Note(place)
    if note.read() is None:
        with note.locked():
            if note.read() is None:
                note.write(pack(data, place, map, num_proc, fields=fields, filter=filter, store=store, **options))
    made = json.loads(note.read() or b"{}")
    if not made["shards"]:
        invalid(f"no sample is left to prepare, {made['left_out']} were left out: {made['dropped']}")
    if options.get("arrays"):
        return Dataset({name: os.path.join(place, f"{name}-*.npy") for name, chain in (fields or {}).items() if chain is not None}, store=store)
    return Dataset(os.path.join(place, os.path.basename(made["pattern"])), store=store)


def _first(data: Dataset, limit: int, select: Any, where: Any) -> Any:
    """The numbers in `data` of the first samples that satisfy `where`."""
    if where is None:
        return range(min(limit, len(data))) if select is None else select[:limit]
    import numpy as np
    numbers = np.arange(len(data), dtype=np.uint64) if select is None else np.asarray(select, np.uint64)
    of_whole = numbers if data._ids is None else data._ids[numbers]
    return numbers[np.isin(of_whole, _satisfying(data._core, where, None))][:limit]


def _name(data: Dataset, fields: Mapping[str, Any] | None, functions: tuple[Any, ...], options: dict[str, Any]) -> str:
    chains = {k: None if v is None else str(v) for k, v in (fields or {}).items()}
    ops = own_ops.versions(str(v) for v in [*chains.values(), *(data._fields or {}).values()])
    what = [len(data), [(s, *_pack_map.stat(s)) for s in data.shards], chains, *([ops] if ops else []),
            [function_fingerprint(f) for f in functions], options_fingerprint(options), _part_of(data), source_fingerprint(data)]
    return hashlib.sha256(json.dumps(what).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def _part_of(data: Dataset) -> str:
    """What else than its files decides what the data set gives."""
    fields = {k: v if callable(v) else str(v) for k, v in (data._fields or {}).items()}
    read = {k: v for k, v in (("encoding", data._encoding), ("null", data._null), ("skip", data._skip_damaged or None)) if v is not None}
    return value_fingerprint([fields, data._fixed, data._salvage, data._where, data._rows, data._epoch if data._fields else 0, *([read] if read else [])])


class _Note:
    """What says that a folder is done: PLACE/.prepared."""

    def __init__(self, place: str) -> None:
        self.path = os.path.join(place, ".prepared")

    def read(self) -> bytes | None:
        with contextlib.suppress(FileNotFoundError), open(self.path, "rb") as f:
            return f.read()
        return None

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Ends with the process, however that ends."""
        place = os.path.dirname(self.path)
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, ".lock"), "wb") as f:
            fcntl.flock(f, fcntl.LOCK_EX)
            yield

    def write(self, made: dict[str, Any]) -> None:
        _pack_map.put_whole(self.path, json.dumps(made))


class _Object(_Note):
    """The same in a bucket, which has no locks: the first node of a launcher packs, the others wait for it."""

    def __init__(self, place: str, store: Store | None) -> None:
        super().__init__(place)
        _stoker.object_writable(os.fsencode(place))
        self._core = _store.core(store)

    def read(self) -> bytes | None:
        return _stoker.object_read(os.fsencode(self.path), self._core)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        with _pack_bucket.locked(self.path):
            node, since = _node(), time.monotonic()
            while node and self.read() is None:
                if time.monotonic() - since >= _TELL_EVERY:
                    since = time.monotonic()
                    _log.info("node %d waits until the first node has prepared %s", node, os.path.dirname(self.path))
                time.sleep(_POLL)
            yield

    def write(self, made: dict[str, Any]) -> None:
        _stoker.object_write(os.fsencode(self.path), json.dumps(made).encode(), self._core)


def _node() -> int:
    """The number of this machine among those that a launcher started: torchrun, Slurm, others; 0: the first, or the only one."""
    for name in ("GROUP_RANK", "SLURM_NODEID", "NODE_RANK"):
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    return 0
