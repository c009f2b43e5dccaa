# SPDX-License-Identifier: Apache-2.0
"""prepared(): what is expensive is done once per host, in the training script, and shared by ranks and runs."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from . import _pack_map
from .dataset import Dataset, Urls
from .errors import invalid, unsupported
from .packing import Function, pack
from .store import Store


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
        options["select"] = range(min(limit, len(data)))
    for name in ("split", "name", "force", "only", "index"):
        if name in options:
            invalid(f"prepared() has no {name}: it names its folder itself and makes one data set; see stoker.pack()")
    if "://" in os.fspath(folder):
        unsupported(f"prepared() keeps what it makes in a local folder, not in {os.fspath(folder)}: stoker.pack() writes there")
    place = os.path.join(os.fspath(folder), _name(data, fields, (filter, map), options))
    done = os.path.join(place, ".prepared")
    if not os.path.exists(done):
        os.makedirs(place, exist_ok=True)
        with _locked(os.path.join(place, ".lock")):
            if not os.path.exists(done):
                made = pack(data, place, map, num_proc, fields=fields, filter=filter, store=store, **options)
                _write(done, made)
    with open(done, encoding="utf-8") as f:
        pattern = json.load(f)["pattern"]
    return Dataset(os.path.join(place, os.path.basename(pattern)), store=store)


def _name(data: Dataset, fields: Mapping[str, Any] | None, functions: tuple[Any, ...], options: dict[str, Any]) -> str:
    what = [len(data), [(s, *_pack_map._stat(s)) for s in data.shards], {k: None if v is None else str(v) for k, v in (fields or {}).items()},
            [_pack_map._function_print(f) for f in functions], sorted((k, repr(v)) for k, v in options.items())]
    return hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]


@contextlib.contextmanager
def _locked(path: str) -> Any:
    """Ends with the process, however that ends."""
    with open(path, "wb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def _write(path: str, made: dict[str, Any]) -> None:
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(made, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".new", path)
