# SPDX-License-Identifier: Apache-2.0
"""Python objects in a slot of the ring: pickled, with the memory of arrays and tensors beside the pickle.

What is in the slot already (the rows that collate wrote there) is not copied again; other arrays are copied
once.  The reader's arrays are views of the slot, and the slot is free again when the last of them is gone.
"""

from __future__ import annotations

import copyreg
import functools
import io
import marshal
import math
import pickle
import struct
import sys
import threading
from multiprocessing.reduction import ForkingPickler
from typing import Any

from . import _stoker

DATA = 65536                                    # RING_DATA: short messages come before it
TASK, DONE, ASK, ANSWER, FAILED = 1, 2, 3, 4, 5  # the low bits of a slot's state; above them the ticket's serial number
KIND = 7
_ALIGN = 64


def aligned(at: int) -> int:
    return (at + _ALIGN - 1) // _ALIGN * _ALIGN


def rebuild_tensor(memory: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, kind: Any = None,
                   attributes: Any = None) -> Any:
    """strides: None if it is contiguous."""
    import torch
    if 0 in shape:
        made = torch.empty_strided(shape, strides or (), dtype=getattr(torch, dtype))
    else:
        made = torch.frombuffer(memory, dtype=getattr(torch, dtype))
        made = made.view(shape) if strides is None else made.as_strided(shape, strides)
    if kind is not None:
        made = made.as_subclass(kind)
        made.__dict__.update(attributes)
    return made


_reading = threading.local()                    # the slot that is being read


def slot_tensor(at: int, dtype: str, shape: tuple[int, ...]) -> Any:
    """A tensor that collate wrote: a view of the slot."""
    torch = sys.modules["torch"]
    made = torch.frombuffer(_reading.slot, dtype=getattr(torch, dtype), count=math.prod(shape), offset=at)
    return made if len(shape) == 1 else made.view(shape)


def is_dense(tensor: Any, torch: Any) -> bool:
    """Whether it is numbers in this process's memory, and those say all of it."""
    return (tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
            and not tensor.is_nested)


def rebuild_storage(memory: Any) -> Any:
    import torch
    return torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()


def rebuild_view(storage: Any, dtype: str, at: int, shape: tuple[int, ...], strides: tuple[int, ...], kind: Any = None,
                 attributes: Any = None) -> Any:
    """A tensor whose memory others have too."""
    import torch
    made = torch.empty(0, dtype=getattr(torch, dtype)).set_(storage, at, shape, strides)
    if kind is not None:
        made = made.as_subclass(kind)
        made.__dict__.update(attributes)
    return made


class _Span:
    """Memory that several tensors of one pickle share.  The pickler writes it once, because it is one object."""

    def __init__(self, storage: Any, first: int, past: int) -> None:
        self.first, self.past = first, past     # bytes of the storage
        torch = sys.modules["torch"]
        self.raw = torch.empty(0, dtype=torch.uint8).set_(storage, first, (past - first,), (1,)).numpy()


class _Views:
    """Which tensors of one pickle overlap in memory.  What is written to one of them is then seen in the others, and has to be
    after they were read again."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Any, list[tuple[int, int, int]]]] = {}     # by storage, which is held: its address stays its own

    def note(self, tensor: Any) -> None:
        storage, size = tensor.untyped_storage(), tensor.element_size()
        first = tensor.storage_offset() * size
        past = first + _reach(tensor) * size
        self._found.setdefault(storage._cdata, (storage, []))[1].append((first, past, tensor.nbytes))

    def spans(self) -> dict[int, list[_Span]]:
        """Of storages with tensors that overlap."""
        made: dict[int, list[_Span]] = {}
        for key, (storage, ranges) in self._found.items():
            shared = _shared(ranges) if len(ranges) > 1 else []
            if shared:
                made[key] = [_Span(storage, first // _ALIGN * _ALIGN, past) for first, past in shared]
        return made


_HOLES = 4                                      # a view is solid if it reaches over at most so many times its bytes
_SMALL = 1 << 20                                # bytes of views with holes that are copied with the holes


def _shared(ranges: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Ranges in which tensors overlap.  One with large holes counts where a solid one has its range, or where all is small:
    else the holes would cost more than the numbers, and it stays apart."""
    solid = _merged([r for r in ranges if r[1] - r[0] <= _HOLES * r[2]])
    loose = []
    for first, past, size in ranges:
        if past - first > _HOLES * size:
            inside = next((one for one in solid if one[0] <= first and past <= one[1]), None)
            if inside is None:
                loose.append((first, past, size))
            else:
                inside[2] += 1
    return [(first, past) for first, past, n in solid + [one for one in _merged(loose) if one[1] - one[0] <= _SMALL] if n > 1]


def _merged(ranges: list[tuple[int, int, int]]) -> list[list[int]]:
    """Ranges that overlap, as one: [first, past, how many]."""
    made: list[list[int]] = []
    for first, past, _ in sorted(ranges):
        if made and first < made[-1][1]:
            made[-1][1] = max(made[-1][1], past)
            made[-1][2] += 1
        else:
            made.append([first, past, 1])
    return made


def _reach(tensor: Any) -> int:
    """Elements from the first to the last one."""
    return 1 + sum(int((n - 1) * stride) for n, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _reduce(tensor: Any, torch: Any, views: _Views, shared: dict[int, list[_Span]] | None) -> Any:
    if not is_dense(tensor, torch) or tensor.requires_grad or hasattr(tensor, "__tensor_flatten__"):
        return NotImplemented                   # torch's own way
    kind = type(tensor)
    own = () if kind is torch.Tensor else (kind, dict(tensor.__dict__))
    with torch._C.DisableTorchFunctionSubclass():
        plain = tensor.as_subclass(torch.Tensor).resolve_conj().resolve_neg()
        name, shape = str(plain.dtype).removeprefix("torch."), tuple(plain.shape)
        if not plain.numel():
            return rebuild_tensor, (pickle.PickleBuffer(b""), name, shape, plain.stride(), *own)
        size, at = plain.element_size(), plain.storage_offset()
        for span in shared.get(plain.untyped_storage()._cdata, ()) if shared else ():
            if span.first <= at * size and (at + _reach(plain)) * size <= span.past:
                return rebuild_view, (span, name, at - span.first // size, shape, plain.stride(), *own)
        views.note(plain)
        memory, strides = _laid_out(plain)
        return rebuild_tensor, (pickle.PickleBuffer(memory.view(torch.uint8).numpy()), name, shape, strides, *own)


def _laid_out(tensor: Any) -> tuple[Any, tuple[int, ...] | None]:
    """(its memory, its strides).  Layouts stay, as in torch: channels_last is fast, and sums over another layout have other
    bits.  A view of few numbers in a large memory becomes contiguous: its holes would cost more than its numbers."""
    if not tensor.is_contiguous():
        span = _reach(tensor)
        if span <= _HOLES * tensor.numel():
            return tensor.as_strided((span,), (1,)), tensor.stride()
    return tensor.contiguous().view(-1), None


class Packer(pickle.Pickler):
    """Pickles with the memory of tensors out of band."""

    views: _Views | None = None                 # of tensors, once there is one
    shared: dict[int, list[_Span]] | None = None    # what they share, as a Packer before this one found

    def __init__(self, file: Any, taking: Any, slot: Any = None) -> None:
        super().__init__(file, 5, buffer_callback=taking)
        self._torch = sys.modules.get("torch")
        self._first = slot.address if slot is not None else 0
        self._past = self._first + len(memoryview(slot)) if slot is not None else 0

    def reducer_override(self, value: Any) -> Any:
        torch = self._torch
        if torch is not None and isinstance(value, torch.Tensor):
            if type(value) is torch.Tensor and is_dense(value, torch) and self._first <= value.data_ptr() < self._past \
                    and value.is_contiguous():
                return slot_tensor, (value.data_ptr() - self._first, str(value.dtype)[6:], tuple(value.shape))
            if self.views is None:
                self.views = _Views()
            return _reduce(value, torch, self.views, self.shared)
        if type(value) is _Span:
            return rebuild_storage, (pickle.PickleBuffer(value.raw),)
        return NotImplemented


def packed(value: Any, slot: Any = None) -> tuple[bytes, list[memoryview]]:
    """The pickle, and the memory beside it; tensors that are in `slot` are not beside it."""
    file, beside = io.BytesIO(), []
    packer = Packer(file, lambda b: beside.append(b.raw()), slot)
    packer.dump(value)
    if packer.views is not None and (shared := packer.views.spans()):
        file, beside = io.BytesIO(), []
        packer = Packer(file, lambda b: beside.append(b.raw()), slot)
        packer.shared = shared
        packer.dump(value)
    return file.getvalue(), beside


class _Lists:
    """Long lists of plain values, or of tuples of them, wherever they are in what is pickled: marshal writes them in a
    fifth of pickle's time and reads them in a third.  A list that is found twice is one list again when it is read.
    A tuple in it that is also found elsewhere is then two equal tuples."""

    def __init__(self) -> None:
        self.memory: list[bytes] = []
        self._seen: dict[int, tuple[int, list[Any]]] = {}      # holds the list: its id() stays its own

    def take(self, value: list[Any]) -> int:
        if id(value) not in self._seen:
            self._seen[id(value)] = len(self.memory), value
            self.memory.append(marshal.dumps(value))
        return self._seen[id(value)][0]


def _reducers() -> dict[Any, Any]:
    """How multiprocessing pickles what belongs to processes: connections, shared memory.  Tensors are ours."""
    own = ForkingPickler._extra_reducers        # type: ignore[attr-defined]
    return {**copyreg.dispatch_table, **{kind: how for kind, how in own.items() if kind.__module__.partition(".")[0] != "torch"}}


def packed_whole(value: Any) -> tuple[bytes, list[Any], list[bytes]]:
    """The pickle, the memory beside it, and long lists.  Of what goes to processes that are started for it."""
    shared: Any = None
    while True:
        file, beside, lists = io.BytesIO(), list[Any](), _Lists()
        packer = Packer(file, lambda b: beside.append(b.raw()))     # noqa: B023
        packer.dispatch_table = _reducers()
        packer.persistent_id = functools.partial(_stoker.pick_plain, lists.take)     # type: ignore[method-assign]
        packer.shared = shared
        packer.dump(value)
        if shared is not None or packer.views is None or not (shared := packer.views.spans()):
            return file.getvalue(), beside, lists.memory


class _Reader(pickle.Unpickler):
    def __init__(self, file: Any, beside: list[Any], lists: list[Any]) -> None:
        super().__init__(file, buffers=beside)
        self._lists = lists
        self._read: dict[int, list[Any]] = {}

    def persistent_load(self, number: int) -> list[Any]:
        if number not in self._read:
            self._read[number] = marshal.loads(self._lists[number])
        return self._read[number]


def unpacked_whole(file: Any, beside: list[Any], lists: list[Any]) -> Any:
    """What packed_whole() took apart; `file` is at the pickle."""
    return _Reader(file, beside, lists).load()


def put(slot: _stoker.Slot, state: int, value: Any, at: int = DATA) -> None:
    """Write a value into a slot, from `at` on, and say so."""
    stream, beside = packed(value, slot=slot)
    places: list[int] = []
    for memory in beside:
        found = slot.find(memory) if len(memory) else 0
        if found < 0:
            found = at = aligned(at)
            at += slot.copy(at, memory)
        places += (found, len(memory))
    head = struct.pack(f"<{len(places) + 1}Q", len(beside), *places)
    at = aligned(at)
    slot.copy(at, head)
    slot.copy(at + len(head), stream)
    slot.say(state, at, len(head) + len(stream))


def get(slot: _stoker.Slot, apart: bool = False) -> Any:
    """The value in a slot.  apart: its arrays are copies, because the slot is written to while they are used."""
    _, at, length = slot.hear()
    memory = memoryview(slot)
    (n,) = struct.unpack_from("<Q", memory, at)
    places = struct.unpack_from(f"<{2 * n}Q", memory, at + 8)
    beside = [memory[a:a + size] for a, size in zip(places[::2], places[1::2], strict=True)]
    if apart:
        beside = [bytearray(part) for part in beside]       # type: ignore[misc]
    _reading.slot = slot
    try:
        return pickle.loads(memory[at + 8 + 16 * n:at + length], buffers=beside)
    finally:
        _reading.slot = None
