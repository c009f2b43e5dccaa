# SPDX-License-Identifier: Apache-2.0
"""pack(tokenize=): text into token files, one document per sample, as Megatron keeps them (.bin and .idx)."""

from __future__ import annotations

import array
import os
import struct
from collections.abc import Callable, Mapping
from typing import Any

from .errors import invalid

_CODES = {"u16": ("H", 8), "i32": ("i", 4)}     # type of array.array, number in the .idx
_TEXT = ("txt", "text")


class Tokens:
    """How pack(tokenize=) makes tokens of a sample's text.

    function: from text to a list of whole numbers, or to a dict with them as "input_ids"; any tokenizer
    field: the text's; None: txt or text
    dtype: "u16" or "i32"; None: u16 where the tokenizer says that it has no more than 65,536 tokens, else i32
    end: a token to put after every document; None: none
    """

    def __init__(self, function: Callable[[str], Any], field: str | None = None, dtype: str | None = None,
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
        made = self.function(text) if text else []
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

    def write(self, tokens: array.array[int]) -> None:
        self._file.write(tokens)
        self._lengths.append(len(tokens))
        self.samples += 1

    def __enter__(self) -> Shard:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._index()
        self._file.close()

    def _index(self) -> None:
        width, n = array.array(_CODES[self.dtype][0]).itemsize, len(self._lengths)
        starts, at = array.array("q"), 0
        for length in self._lengths:
            starts.append(at)
            at += length * width
        with open(side(self.path), "wb") as f:
            f.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, _CODES[self.dtype][1], n, n + 1))
            f.write(self._lengths)
            f.write(starts)
            f.write(array.array("q", range(n + 1)))
            f.flush()
            os.fsync(f.fileno())


def side(path: str) -> str:
    """The index beside a .bin."""
    return os.path.splitext(path)[0] + ".idx"
