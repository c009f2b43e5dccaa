# SPDX-License-Identifier: Apache-2.0
"""Recordings in memory, as a Transform of sound takes them: rows of (channels, samples) of float32, and their rates."""

from __future__ import annotations

from typing import Any

from ._arrays import array, torch_or_none
from ._options import whole
from .errors import invalid, shown

MOST_RATE = 4_000_000
_TORCH = {"u8": "uint8", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
_NUMPY = {**_TORCH, "bf16": "uint16"}


def rate_of(rate: Any) -> int | None:
    return None if rate is None else whole("rate", rate, 1, MOST_RATE)


def recordings(given: Any) -> tuple[list[Any], bool]:
    """Arrays (channels, samples) over the memory that was given, and whether it was one recording."""
    if isinstance(given, (list, tuple)):
        return [_recording(x, f"recording {i}") for i, x in enumerate(given)], False
    found = _floats(given, "the recording")
    if found.ndim == 3:
        return [_side_by_side(x) for x in found], False
    return [_shaped(found, "the recording", " or, several of one length, (n, channels, samples)")], True


def rates(rate: Any, n: int, default: int | None) -> Any:
    """The rate of each recording, as u32."""
    import numpy
    if rate is None and default is None:
        invalid("how many samples per second do the arrays have? rate=16000, or one for each recording")
    if rate is None or not hasattr(rate, "__len__"):
        return numpy.full(n, default if rate is None else rate_of(rate), numpy.uint32)
    found = [rate_of(r) for r in (rate.tolist() if hasattr(rate, "tolist") else rate)]
    if len(found) != n:
        invalid(f"rate must be one number, or one for each of {n} recordings, not {len(found)}")
    return numpy.array(found, numpy.uint32)


def made_of(rows: Any, n: int, one: bool, shape: tuple[int, ...], dtype: str) -> Any:
    """What the caller gets: a row, a list of them, or a tensor of all where they have one shape."""
    if not shape:
        arrays = [array(row) for row in rows]
        return arrays[0] if one else arrays
    if not n:
        torch = torch_or_none()
        if torch is not None:
            return torch.empty((0, *shape), dtype=getattr(torch, _TORCH[dtype]))
        import numpy
        return numpy.empty((0, *shape), _NUMPY[dtype])
    made = array(rows)
    return made[0] if one else made


def _recording(value: Any, what: str) -> Any:
    return _shaped(_floats(value, what), what, "")


def _shaped(found: Any, what: str, also: str) -> Any:
    if found.ndim not in (1, 2):
        invalid(f"{what} has the shape {tuple(found.shape)}: it must be (samples) or (channels, samples){also}")
    return _side_by_side(found if found.ndim == 2 else found[None])


def _side_by_side(found: Any) -> Any:
    import numpy
    plain = found.flags.aligned and found.dtype.isnative and (found.strides[1] == 4 or found.shape[1] < 2)
    return found if plain else numpy.array(found, numpy.float32, order="C")


def _floats(value: Any, what: str) -> Any:
    """A NumPy array of float32 over the memory of a tensor or an array."""
    import numpy
    if hasattr(value, "detach"):
        value = value.detach()
        if value.device.type != "cpu":
            invalid(f"{what} is on {value.device}: sound is transformed on the CPU, give its .cpu()")
        found = value.numpy() if str(value.dtype) == "torch.float32" else value
    elif hasattr(value, "__cuda_array_interface__"):
        invalid(f"{what} is {type(value).__name__} on a GPU: sound is transformed on the CPU")
    elif hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        found = numpy.asarray(value)
    else:
        invalid(f"{what} is {shown(value)}: give a float32 tensor or array, or a list of them")
    name = str(found.dtype).removeprefix("torch.").lstrip("<>=")
    if name not in ("float32", "f4"):
        invalid(f"{what} is {name}: sound is float32 in -1..1; 16-bit numbers are divided by 32768 for that")
    return found
