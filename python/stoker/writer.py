# SPDX-License-Identifier: Apache-2.0
"""Samples one by one into tar shards."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import _options, _stoker
from . import store as _store
from ._values import field_bytes
from .errors import Whole, invalid, shown
from .store import Store


class Writer(Whole):
    """Write tar shards as WebDataset has them.

        with stoker.Writer("out/train-%06d.tar", max_count=10_000) as out:
            for i, (picture, label) in enumerate(photos):
                out.write({"__key__": f"{i:08d}", "jpg": picture, "cls": label})

    pattern: the shards' path with one number in it; a folder: FOLDER/shard-%06d.tar; or s3://BUCKET/train-%06d.tar, written
        by multipart upload (docs/stores.md).  A name in .tar.gz, .tar.zst or .tar.lz4 compresses them (docs/prepare.md)
    max_count, max_size: samples and bytes (or "1GB") of a shard at most; neither: about 500 MB
    start: number of the first shard
    force: replace shards that are there
    store: how a bucket is reached, a stoker.Store; None: as the environment says

    Values: bytes as they are, str as UTF-8, int and float in digits, dicts and lists (and any
    NAME.json) as JSON, arrays as .npy, and under jpg, png or webp arrays and Pillow images as
    pictures.  A shard appears under its name when it is whole and on disk; leaving the with-block
    by an exception drops the unfinished shard.
    """

    _empty = False      # without any sample: one shard without members, not none

    def __init__(self, pattern: str | bytes | os.PathLike[Any], max_count: int | None = None,
                 max_size: int | str | None = None, *, start: int = 0, force: bool = False,
                 mtime: int = 0, store: Store | None = None) -> None:
        path = os.fsencode(pattern)
        if b"\0" in path:
            invalid("a path has a null character")
        self._core = _stoker.Writer(
            pattern=path,
            samples=0 if max_count is None else _options.whole("max_count", max_count, 1, 2**63 - 1),
            bytes=_options.byte_count("max_size", max_size),
            first=_options.whole("start", start, 0),
            mtime=_options.whole("mtime", mtime, 0, 2**33 - 1),
            force=_options.flag("force", force), empty=self._empty, store=_store.core(store))

    def write(self, sample: Mapping[str, Any]) -> None:
        """Add a sample: {"__key__": key, field: value, ...}."""
        self._core.add(parts(sample))

    @property
    def shards(self) -> int:
        """Shards that are finished."""
        return self._core.counts()[0]

    @property
    def samples(self) -> int:
        """Samples written so far."""
        return self._core.counts()[1]

    def close(self) -> None:
        """Finish the last shard.  Twice is once."""
        self._close(True)

    def _close(self, whole: bool) -> None:
        if "_core" in self.__dict__:            # else the constructor failed
            self._core.close(whole)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self._close(kind is None)


def parts(sample: Mapping[str, Any]) -> tuple[bytes, tuple[tuple[bytes, bytes], ...]]:
    """Key and fields as bytes."""
    key = sample.get("__key__")
    if not isinstance(key, str):
        invalid(f"a sample needs a \"__key__\" of text, not {shown(key)}")
    fields = tuple((_name(name), field_bytes(name, value)) for name, value in sample.items()
                   if not (isinstance(name, str) and name.startswith("__")))
    return key.encode("utf-8", "surrogateescape"), fields


def _name(name: Any) -> bytes:
    if not isinstance(name, str) or "\0" in name:
        invalid(f"a field's name is a word, not {shown(name)}")
    return name.encode("utf-8", "surrogateescape")
