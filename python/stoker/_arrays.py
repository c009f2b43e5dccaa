# SPDX-License-Identifier: Apache-2.0
"""Tensors of the extension as torch tensors, or as NumPy arrays where torch is not installed.

Chosen when a loader is opened, because importing either costs more than everything else here.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import importlib
import sys
import threading
from typing import Any


@functools.cache
def torch_or_none() -> Any:
    try:
        return _imported("torch")
    except ImportError:
        return None


def prepare() -> None:
    """Import what batches are made with, before the first one: torch, or NumPy without it."""
    if torch_or_none() is None:
        with contextlib.suppress(ImportError):
            _imported("numpy")


def prepare_seeds() -> None:
    """Import NumPy's generators where NumPy is: before a sample is seeded, and before workers are forked, which would each
    import them, in the middle of whatever the parent's threads were at."""
    if loaded("numpy") is not None:
        with contextlib.suppress(ImportError):
            _imported("numpy.random")


def loaded(name: str) -> Any:
    """The module if it is imported to its end, else None: half of one stands in sys.modules while a thread imports it."""
    module = sys.modules.get(name)
    return None if getattr(getattr(module, "__spec__", None), "_initializing", False) else module


_importing: dict[str, Any] = {}     # by name: a lock that the thread holds until its import has ended


def _imported(name: str) -> Any:
    """The module; imported by a thread of its own if need be: signal handlers run in the main thread, and one
    that raises in the middle of an import leaves half a torch or NumPy, which fails or crashes ever after.

    A handler may raise while the main thread waits here.  The import goes on, and the next call waits for it by
    its lock: to wait in importlib would be an import of the main thread's own, which a handler can leave locked."""
    if threading.current_thread() is threading.main_thread():
        if name not in sys.modules and name not in _importing:
            ended = _thread.allocate_lock()
            ended.acquire()
            _thread.start_new_thread(_try_import, (name, ended))
            with ended:
                pass
        elif name in _importing:
            with _importing[name]:
                pass
    return importlib.import_module(name)        # says again what was wrong


def _try_import(name: str, ended: Any) -> None:
    _importing[name] = ended    # by the thread: the main one may be interrupted before it gets here
    with contextlib.suppress(BaseException):    # the main thread tries again, and says it
        importlib.import_module(name)
    ended.release()


def rows_of(whole: Any, places: list[tuple[tuple[int, ...], tuple[int, ...], int]]) -> list[Any]:
    """Rows of any size inside one tensor: (shape, strides, first number) of each."""
    if hasattr(whole, "as_strided"):
        return [whole.as_strided(*place) for place in places]
    size = whole.itemsize
    return [type(whole)(shape, whole.dtype, whole, first * size, tuple(step * size for step in strides))
            for shape, strides, first in places]


def array(tensor: Any) -> Any:
    """A torch tensor or NumPy array over the same memory.

    GPU memory is copied to a tensor of torch's own, on the current stream: our buffer is free again
    after that copy, and what streams do with the tensor later is torch's to know.  Where torch is
    absent the tensor itself is handed out, for code that takes DLPack."""
    torch = torch_or_none()
    if torch is not None:
        if tensor.gpu is None:
            return torch.from_dlpack(tensor.__dlpack__())   # a capsule is asked less than a tensor
        return torch.from_dlpack(tensor).clone()
    if tensor.gpu is not None:
        return tensor
    import numpy
    return numpy.asarray(tensor)


def note_stream(core: Any) -> None:
    """Pinned batches are copied on torch's current stream: their memory is used again after that."""
    torch = torch_or_none()
    if torch.cuda.is_initialized():
        core.copies_on(torch.cuda.current_stream().cuda_stream or 1)    # 1: CUDA's name for the default one


def from_bytes(raw: bytearray, dtype: str) -> Any:
    """A one-dimensional tensor over `raw`; dtype is a name that torch and NumPy share."""
    torch = torch_or_none()
    if torch is not None:
        kind = getattr(torch, dtype)
        return torch.frombuffer(raw, dtype=kind) if raw else torch.empty(0, dtype=kind)     # torch refuses an empty buffer
    import numpy
    return numpy.frombuffer(raw, dtype=dtype)


def inside(lengths: Any, shape: tuple[int, ...]) -> Any:
    """True where an element of `shape` (rows, then dimensions) is inside its row: `lengths` are the
    rows' own sizes, rows x dimensions or rows; where they are, on their device."""
    sizes = lengths.reshape(shape[0], -1)
    made = None
    for d, size in enumerate(shape[1:]):
        if hasattr(sizes, "device") and hasattr(sizes, "new_ones"):
            steps = torch_or_none().arange(size, device=sizes.device)
        else:
            import numpy
            steps = numpy.arange(size)
        one = steps < sizes[:, d, None]
        one = one.reshape([shape[0]] + [1] * d + [size] + [1] * (len(shape) - d - 2))
        made = one if made is None else made & one
    return made
