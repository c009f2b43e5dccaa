# SPDX-License-Identifier: Apache-2.0
"""pack(tokenize=): text into token files, one document per sample, as Megatron keeps them (.bin and .idx)."""

from __future__ import annotations

import array
import os
import struct
from collections.abc import Callable, Mapping
from typing import Any

from . import _stoker
from .errors import SystemFailure, invalid

_CODES = {"u16": ("H", 8), "i32": ("i", 4)}     # type of array.array, number in the .idx
_TEXT = ("txt", "text")


class Tokens:
    """How pack(tokenize=) makes tokens of a sample's text.

    function: from text to a list of whole numbers, or to a dict with them as "input_ids"; any tokenizer
    field: the text's; None: txt or text
    dtype: "u16" or "i32"; None: u16 where the tokenizer says that it has no more than 65,536 tokens, else i32
    end: a token to put after every document; None: none
    """

    def __init__(self, function: Callable[..., Any], field: str | None = None, dtype: str | None = None,
                 end: int | None = None) -> None:
        if not callable(function):
            invalid(f"tokenize is a function from text to tokens, not {type(function).__name__}")
        if dtype not in (None, *_CODES):
            invalid(f'dtype of tokens is "u16" or "i32", not {dtype!r}')
        if end is not None and (isinstance(end, bool) or not isinstance(end, int) or end < 0):
            invalid(f"end is a token, a whole number from 0 on, not {end!r}")
        self.function, self.field, self.end = function, field, end
        self.dtype = dtype or ("u16" if 0 < _size(function) <= 65536 else "i32")

    def make(self, sample: Mapping[str, Any]) -> array.array[int]:
        """The document's tokens; none: the text is empty."""
        text = self._text(sample)
        made: Any = self.function(text) if text else []
        if isinstance(made, Mapping) or hasattr(made, "input_ids"):
            made = made["input_ids"]
        kind = _CODES[self.dtype][0]
        try:
            tokens = array.array(kind, made.tolist() if hasattr(made, "tolist") else made)
            if tokens and self.end is not None:
                tokens.append(self.end)
        except OverflowError:
            invalid(f'a token does not fit {self.dtype}: Tokens(function, dtype="i32")')
        except TypeError:
            invalid(f"tokenize answers a list of whole numbers, or a dict with input_ids, not {type(made).__name__}")
        return tokens

    def _text(self, sample: Mapping[str, Any]) -> str:
        names = [self.field] if self.field is not None else [n for n in _TEXT if n in sample][:1]
        if not names or names[0] not in sample:
            has = ", ".join(k for k in sample if not k.startswith("__"))
            invalid(f"there is no text to tokenize in {self.field or 'txt or text'}; it has: {has}: Tokens(function, field=...)")
        value = sample[names[0]]
        return value if isinstance(value, str) else bytes(value).decode()


def _size(function: Any) -> int:
    """Of the vocabulary; 0: it is not known."""
    for name in ("vocab_size", "n_vocab"):
        size = getattr(function, name, None) or getattr(getattr(function, "__self__", None), name, None)
        if isinstance(size, int):
            return max(size, len(function)) if hasattr(function, "__len__") else size
    return 0


class Shard:
    """One token file while it is written; a context manager."""

    def __init__(self, path: str, dtype: str) -> None:
        self.path, self.dtype = path, dtype
        self._file = open(path, "wb")
        self._lengths = array.array("i")
        self.samples = 0

    def put(self, made: list[array.array[int]]) -> None:
        """The documents of a sample."""
        for tokens in made:
            try:
                self._file.write(tokens)
            except OSError as e:        # a full disk is not the fault of the sample
                raise SystemFailure(f"{self.path}: {e.strerror}", "EIO") from e
            self._lengths.append(len(tokens))
            self.samples += 1

    def __enter__(self) -> Shard:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._file.close()

    def finish(self) -> int:
        """Its size; what is left is to close it."""
        self._file.flush()
        os.fsync(self._file.fileno())
        with open(side(self.path), "wb") as f:
            for part in index_of(self._lengths, self.dtype):
                f.write(part)
            f.flush()
            os.fsync(f.fileno())
        return self._file.tell()


class BucketShard:
    """The same in a bucket: .idx and .bin appear when it is closed."""

    def __init__(self, url: str, dtype: str, store: Any) -> None:
        self.dtype = dtype
        self._file, self._side = (_stoker.Put(os.fsencode(u), store) for u in (url, side(url)))
        self._lengths = array.array("i")
        self.samples = self._size = 0

    def put(self, made: list[array.array[int]]) -> None:
        for tokens in made:
            self._file.write(tokens)
            self._size += len(tokens) * tokens.itemsize
            self._lengths.append(len(tokens))
            self.samples += 1

    def __enter__(self) -> BucketShard:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            self._side.close(kind is None)      # first: without it a .bin means something else
        except BaseException:
            self._file.close(False)
            raise
        self._file.close(kind is None)

    def finish(self) -> int:
        for part in index_of(self._lengths, self.dtype):
            self._side.write(part)
        return self._size


def index_of(lengths: array.array[int], dtype: str) -> list[Any]:
    """What an .idx has, in parts."""
    width, n = array.array(_CODES[dtype][0]).itemsize, len(lengths)
    starts, at = array.array("q"), 0
    for length in lengths:
        starts.append(at)
        at += length * width
    return [b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, _CODES[dtype][1], n, n + 1), lengths, starts, array.array("q", range(n + 1))]


def side(path: str) -> str:
    """The index beside a .bin."""
    return os.path.splitext(path)[0] + ".idx"
