# SPDX-License-Identifier: Apache-2.0
"""Batches on their way to a GPU: pinned slabs, a stream of their own, an event a batch.

A batch's tensors are laid one after the other into one pinned slab and copied from there on the side
stream.  A slab is used again only when the event after its copies has passed, and there are never
more than `depth` + 1 of them: the host then waits for the oldest copy, never for the device.  Tensors
come from torch's caching allocator on the side stream and are recorded for the stream that takes them,
so that their memory is not used again while work on either is pending.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections import deque
from typing import Any

from ._arrays import torch_or_none
from ._tree import rebuild
from .errors import invalid, shown, unsupported

_ALIGN = 256            # of tensors in a slab
_STEP = 1 << 20         # slabs are whole MiB


def tensor_of(value: Any) -> Any:
    """A NumPy array as a tensor, over the same memory where torch can; None: torch has no such type."""
    import numpy
    torch = torch_or_none()
    if value.dtype.hasobject or value.dtype.kind not in "biufc":
        return None
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    if not value.flags.writeable or any(s < 0 for s in value.strides):
        value = numpy.array(value, order="C")
    try:
        return torch.from_numpy(value)
    except TypeError:
        return None


def is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ in ("ndarray", "memmap")


def here(value: Any) -> Any:
    """A leaf for device="cpu": arrays become tensors, all else stays."""
    made = tensor_of(value) if is_array(value) else None
    return value if made is None else made


class Host:
    """Nothing moves: for device="cpu"."""

    def send(self, batch: Any) -> Any:
        return rebuild(batch, here)

    def receive(self, sent: Any) -> Any:
        return sent

    def close(self) -> None:
        pass


class Later:
    """A leaf that moves itself when it is handed out: sparse, a subclass with a mind of its own."""

    def __init__(self, value: Any) -> None:
        self.value = value


@dataclasses.dataclass
class Transfer:
    """The copies of a batch.  It knows nothing of what they make, which lives as long as its holder likes."""

    event: Any                  # after them
    slabs: list[Any] = dataclasses.field(default_factory=list)  # pinned memory that they read
    held: list[Any] = dataclasses.field(default_factory=list)   # and pinned tensors


@dataclasses.dataclass
class Sent:
    """A batch whose copies were begun."""

    transfer: Transfer
    batch: Any = None           # rebuilt, its tensors on the device, or Later
    made: list[Any] = dataclasses.field(default_factory=list)   # those tensors
    used: int = 0               # of the last slab
    total: int = 0              # of all
    later: bool = False


class Gpu:
    """Moves batches to one GPU."""

    def __init__(self, device: Any, depth: int) -> None:
        self._torch = torch_or_none()
        self._device = device
        self._stream = self._torch.cuda.Stream(device)
        self._most = depth + 1
        self._usual = _STEP                     # bytes of the largest batch so far
        self._free: list[Any] = []
        self._copying: deque[Transfer] = deque()  # in the order of their events

    # ---- out -------------------------------------------------------------------------------------

    def send(self, batch: Any) -> Sent:
        """Begin the copies of a batch."""
        torch = self._torch
        self._finish(len(self._copying) - self._most + 1)
        sent = Sent(Transfer(torch.cuda.Event()))
        try:
            with torch.no_grad(), torch.cuda.stream(self._stream):
                sent.batch = rebuild(batch, lambda value: self._leaf(sent, value))
        finally:
            sent.transfer.event.record(self._stream)      # also after a batch that was cut short
            self._copying.append(sent.transfer)
        self._usual = max(self._usual, sent.total)
        return sent

    def _leaf(self, sent: Sent, value: Any) -> Any:
        torch = self._torch
        tensor = tensor_of(value) if is_array(value) else value
        if not isinstance(tensor, torch.Tensor):
            sent.later |= isinstance(value, tuple)      # what _tree.py leaves of a PackedSequence
            return Later(value) if isinstance(value, tuple) else value
        if tensor.device == self._device:
            return tensor
        if not _is_plain(torch, tensor):
            sent.later = True
            return Later(tensor)
        if tensor.is_pinned():
            sent.transfer.held.append(tensor)
        elif tensor.numel():
            tensor = self._lay(sent, tensor)
        made = torch.empty_like(tensor, device=self._device)
        made.copy_(tensor, non_blocking=True)
        sent.made.append(made)
        return made

    def _lay(self, sent: Sent, tensor: Any) -> Any:
        """`tensor` copied into a slab, with the strides that torch would give its copy."""
        size = tensor.numel() * tensor.element_size()
        room = -(-size // _ALIGN) * _ALIGN
        slabs = sent.transfer.slabs
        if not slabs or sent.used + room > slabs[-1].numel():
            slabs.append(self._slab(max(room, self._usual - sent.total)))
            sent.used = 0
        like = tensor if tensor.is_contiguous() else self._torch.empty_like(tensor, device="meta")
        place = slabs[-1][sent.used:sent.used + size].view(tensor.dtype)
        sent.used += room
        sent.total += room
        place = place.as_strided(like.size(), like.stride())
        if tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg()):
            # torch's copy wakes a thread on every core, where the loader's workers decode.
            ctypes.memmove(place.data_ptr(), tensor.data_ptr(), size)
            return place
        return place.copy_(tensor)

    def _slab(self, size: int) -> Any:
        """Pinned memory of at least `size` bytes that no copy reads any more."""
        for i, slab in enumerate(self._free):
            if slab.numel() >= size:
                return self._free.pop(i)
        if self._free:
            self._free.pop()                    # all are too small: it makes room for a larger one
        return self._torch.empty(-(-size // _STEP) * _STEP, dtype=self._torch.uint8, pin_memory=True)

    def _finish(self, wait: int) -> None:
        """Take back the slabs of copies that are through; wait for the first `wait` of them."""
        while self._copying and (wait > 0 or self._copying[0].event.query()):
            transfer = self._copying[0]
            transfer.event.synchronize()
            wait -= 1
            self._free += self._copying.popleft().slabs
        del self._free[self._most:]

    # ---- in --------------------------------------------------------------------------------------

    def receive(self, sent: Sent) -> Any:
        """The batch, good on the current stream of the device.  It can be asked for again."""
        torch = self._torch
        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(sent.transfer.event)
        for tensor in sent.made:
            tensor.record_stream(stream)

        def leaf(value: Any) -> Any:
            return value.value.to(self._device) if isinstance(value, Later) else value

        return rebuild(sent.batch, leaf) if sent.later else sent.batch

    def close(self) -> None:
        """Wait for copies that are in flight and let go of all memory."""
        self._finish(len(self._copying))
        self._free.clear()


def _is_plain(torch: Any, tensor: Any) -> bool:
    return type(tensor) is torch.Tensor and tensor.layout == torch.strided and \
        tensor.device.type == "cpu" and not tensor.requires_grad and not tensor.is_quantized


def check(device: Any) -> Any:
    """`device` as torch has it, a GPU with its number (the current one where none is given); or why
    nothing can be moved there."""
    torch = torch_or_none()
    if torch is None:
        unsupported("to_device: torch is not installed, whose tensors are moved: install torch")
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        invalid(f'to_device: device must be "cuda", "cuda:1" or "cpu", not {shown(device)}')
    if found.type == "cpu":
        return found
    if found.type != "cuda":
        invalid(f'to_device: device must be "cuda", "cuda:1" or "cpu", not "{found}"')
    if not torch.cuda.is_available():
        why = "it was built without CUDA: install one that was" if torch.version.cuda is None else \
            "look whether nvidia-smi sees one, and what CUDA_VISIBLE_DEVICES says"
        unsupported(f"device {found}: torch sees no GPU: {why}")
    count = torch.cuda.device_count()
    index = torch.cuda.current_device() if found.index is None else found.index
    if index >= count:
        invalid(f"device {found}: torch sees {count} GPU{'s' * (count > 1)}, counted from cuda:0")
    return torch.device("cuda", index)


def place(device: Any, depth: int) -> Host | Gpu:
    """What moves batches to `device`."""
    found = check(device)
    return Host() if found.type == "cpu" else Gpu(found, depth)
