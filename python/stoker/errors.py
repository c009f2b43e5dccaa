# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one base, and subclasses that are also the built-in exception that fits."""

from __future__ import annotations

import difflib
import functools
import os
import signal
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from . import _stoker

_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # control, format, lone surrogates, line and paragraph separators


def printable(text: str) -> str:
    """Text that may hold anything, fit to be shown: what can't be printed is written as \\x1b or \\u202e, and addresses have no
    password and no query."""
    if "://" in text:
        text = "\0".join(map(_stoker.secrets_hidden, text.split("\0")))
    return text if text.isprintable() else "".join(_escaped(c) if unicodedata.category(c) in _HIDDEN else c for c in text)


def _escaped(c: str) -> str:
    code = ord(c)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        code -= 0xDC00
    return "\\n" if c == "\n" else f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


class StokerError(Exception):
    """What went wrong, in one line fit to be shown, and where.  What is unknown is None.

    code: "EINVAL", "ECORRUPT", ... as in the C library
    shard, offset, key, sample: the file, the byte in it, the sample's key and its number; names as they are
    """

    def __init__(self, message: str, code: str = "EINVAL", shard: str | None = None,
                 offset: int | None = None, key: str | None = None,
                 sample: int | None = None) -> None:
        super().__init__(printable(message))
        self.code = code
        self.shard = shard
        self.offset = offset
        self.key = key
        self.sample = sample

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.code, self.shard, self.offset, self.key, self.sample)


class InvalidError(StokerError, ValueError):
    """EINVAL, ECORRUPT, ELIMIT: an argument, a chain or the data is not as it must be."""


class UnsupportedError(StokerError, NotImplementedError, ValueError):
    """ENOTSUP: right, but not supported here."""


class SystemFailure(StokerError, OSError):
    """EIO, ESTALE: the system or the network failed, or the data changed under its index."""


class NotFoundError(StokerError, FileNotFoundError):
    """ENOTFOUND: no such file, field or sample."""


class MissingKeyError(StokerError, KeyError):
    """ENOTFOUND: no sample has this key."""

    __str__ = Exception.__str__             # KeyError's would quote the message


class OutOfMemoryError(StokerError, MemoryError):
    """ENOMEM."""


class ClosedError(StokerError, RuntimeError):
    """ECLOSED: the loader was closed, or belongs to another process or an older loop."""


class NotMadeError(ClosedError, AttributeError):
    """ECLOSED: the object's constructor failed, and the object is used all the same."""


class Whole:
    """Base of classes whose constructors can fail.  Debuggers, loggers and tests that print a traceback's variables see
    such objects: repr() of them works, and what else they are asked says what they are, not that an attribute is missing.

    has: public attributes that the constructor sets
    """

    _has: tuple[str, ...] = ()

    def __init_subclass__(cls, has: tuple[str, ...] = (), **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._has = (*cls._has, *has)
        if "__repr__" in cls.__dict__:
            cls.__repr__ = _shown_whole(cls.__repr__)   # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there: of a whole object all private attributes are."""
        kind = type(self).__name__
        if name.startswith("__") or not (name.startswith("_") or name in self._has or hasattr(type(self), name)):
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        raise NotMadeError(f"this {kind} was not made: its constructor failed", "ECLOSED")


def _shown_whole(show: Callable[[Any], str]) -> Callable[[Any], str]:
    @functools.wraps(show)
    def shown_or_said(self: Any) -> str:
        try:
            return show(self)
        except AttributeError:
            return f"<{type(self).__name__} that was not made: its constructor failed>"

    return shown_or_said


_CLASSES: dict[str, type[StokerError]] = {
    "EINVAL": InvalidError, "ECORRUPT": InvalidError, "ELIMIT": InvalidError,
    "ENOTSUP": UnsupportedError, "EIO": SystemFailure, "ESTALE": SystemFailure,
    "ENOTFOUND": NotFoundError, "ENOMEM": OutOfMemoryError, "ECLOSED": ClosedError,
}


def from_code(code: str, message: str, shard: str | None = None, offset: int | None = None,
              key: str | None = None, sample: int | None = None) -> StokerError:
    """The exception for a C error code; called by the extension."""
    return _CLASSES.get(code, StokerError)(message, code, shard, offset, key, sample)


_MOST = 800                     # characters of a message: what was given is quoted in it, however long it is


def one_line(message: str) -> str:
    """The message in one line, of bounded length."""
    line = " ".join(message.split("\n")) if "\n" in message else message
    return line if len(line) <= _MOST else f"{line[:_MOST - 205]} ... {line[-200:]}"


_SHORT = 120                    # characters of a value in a message


def shown(value: Any) -> str:
    """A value in a message: itself if it is short and plain, else its type.  A data set, a model or an array would
    fill the screen; and repr() can fail, of a number of thousands of digits for example."""
    try:
        text = repr(value) if _plain(value) else ""
    except Exception:
        return f"{_article(type(value).__name__)} that can't be shown"
    text = printable(text)
    if text and len(text) <= _SHORT:
        return text
    if type(value) in (list, tuple, set, dict):
        return f"{_article(type(value).__name__)} of {len(value)}"
    return f"{text[:_SHORT - 20]} ... {text[-15:]}" if text else _article(type(value).__name__)


def _plain(value: Any, depth: int = 0) -> bool:
    if value is None or isinstance(value, (str, bytes, bool, int, float, complex, os.PathLike)):
        return True
    if type(value) in (list, tuple, set) and depth < 2 and len(value) <= 20:
        return all(_plain(v, depth + 1) for v in value)
    if type(value) is dict and depth < 2 and len(value) <= 20:
        return all(_plain(k) and _plain(v, depth + 1) for k, v in value.items())
    return False


def _article(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeio" else f"a {name}"


class Batched:
    """Base of loaders: what torch's DataLoader, which takes a data set, is told."""

    def __getitem__(self, i: Any) -> NoReturn:
        raise TypeError(f"a stoker {type(self).__name__} makes batches by itself and has no samples by number: iterate over it in place of a "
                        "DataLoader; a data set for torch.utils.data.DataLoader is stoker.open(data, fields)")


def not_a_chain(value: object) -> str:
    """What a value in place of a chain is, and how it becomes one."""
    home = type(value).__module__.partition(".")[0]
    if hasattr(value, "transforms") or home in ("torchvision", "albumentations"):
        return f"{shown(value)}: stoker.Chain.from_transform(it) makes a chain of it"
    if callable(value):
        return f"{shown(value)}: a function is a step of a chain, stoker.image().call(function) or stoker.bytes().call(function)"
    return shown(value)


def by_handler(error: BaseException) -> bool:
    """Was it raised by a signal's handler?  Then it came upon the loader and says nothing of its batch."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code not in handlers:
        at = at.tb_next
    return at is not None


def invalid(message: str) -> NoReturn:
    raise InvalidError(one_line(message), "EINVAL")


def unsupported(message: str) -> NoReturn:
    raise UnsupportedError(one_line(message), "ENOTSUP")


def nearest(word: str, words: Iterable[str]) -> str:
    """": did you mean `x`?", or "" when nothing is near."""
    near = difflib.get_close_matches(word, list(words), n=1, cutoff=0.5)
    return f": did you mean `{near[0]}`?" if near else ""
