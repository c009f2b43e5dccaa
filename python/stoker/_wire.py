# SPDX-License-Identifier: Apache-2.0
"""Python objects in a slot of the ring: pickled, with the memory of arrays and tensors beside the pickle.

What is in the slot already (the rows that collate wrote there) is not copied again; other arrays are copied
once.  The reader's arrays are views of the slot, and the slot is free again when the last of them is gone.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from typing import Any

from . import _stoker

DATA = 65536                                    # RING_DATA: short messages come before it
TASK, DONE, ASK, ANSWER, FAILED = 1, 2, 3, 4, 5  # the low bits of a slot's state; above them the ticket's serial number
KIND = 7
_ALIGN = 64


def aligned(at: int) -> int:
    return (at + _ALIGN - 1) // _ALIGN * _ALIGN


def rebuild_tensor(memory: Any, dtype: str, shape: tuple[int, ...], kind: Any = None, attributes: Any = None) -> Any:
    import torch
    if 0 in shape:
        made = torch.empty(shape, dtype=getattr(torch, dtype))
    else:
        made = torch.frombuffer(memory, dtype=getattr(torch, dtype)).view(shape)
    if kind is not None:
        made = made.as_subclass(kind)
        made.__dict__.update(attributes)
    return made


def _plain(tensor: Any, torch: Any) -> bool:
    """Whether its memory says all of it."""
    return (tensor.layout is torch.strided and tensor.device.type == "cpu" and not tensor.is_quantized
            and not tensor.requires_grad and not hasattr(tensor, "__tensor_flatten__"))


def _reduce(tensor: Any, torch: Any) -> Any:
    if not _plain(tensor, torch):
        return NotImplemented                   # torch's own way
    kind = type(tensor)
    with torch._C.DisableTorchFunctionSubclass():
        whole = tensor.as_subclass(torch.Tensor).resolve_conj().resolve_neg().contiguous()
        memory = whole.reshape(-1).view(torch.uint8).numpy() if whole.numel() else b""
    name = str(whole.dtype).removeprefix("torch.")
    parts = (pickle.PickleBuffer(memory), name, tuple(whole.shape))
    if kind is not torch.Tensor:
        parts += (kind, dict(tensor.__dict__))
    return rebuild_tensor, parts


class Packer(pickle.Pickler):
    """Pickles with the memory of tensors out of band."""

    def __init__(self, file: Any, taking: Any) -> None:
        super().__init__(file, 5, buffer_callback=taking)
        self._torch = sys.modules.get("torch")

    def reducer_override(self, value: Any) -> Any:
        torch = self._torch
        if torch is not None and isinstance(value, torch.Tensor):
            return _reduce(value, torch)
        return NotImplemented


def packed(value: Any) -> tuple[bytes, list[memoryview]]:
    """The pickle, and the memory beside it."""
    file, beside = io.BytesIO(), []
    Packer(file, lambda b: beside.append(b.raw())).dump(value)
    return file.getvalue(), beside


def put(slot: _stoker.Slot, state: int, value: Any, at: int = DATA) -> None:
    """Write a value into a slot, from `at` on, and say so."""
    stream, beside = packed(value)
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


def get(slot: _stoker.Slot) -> Any:
    """The value in a slot."""
    _, at, length = slot.hear()
    memory = memoryview(slot)
    (n,) = struct.unpack_from("<Q", memory, at)
    places = struct.unpack_from(f"<{2 * n}Q", memory, at + 8)
    beside = [memory[a:a + size] for a, size in zip(places[::2], places[1::2], strict=True)]
    return pickle.loads(memory[at + 8 + 16 * n:at + length], buffers=beside)
