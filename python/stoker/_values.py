# SPDX-License-Identifier: Apache-2.0
"""Python values as the bytes of a field: the field's name decides where the value leaves a choice."""

from __future__ import annotations

import io
import json
import numbers
from typing import Any

from .errors import invalid, shown

_PICTURES = {"jpg": "JPEG", "jpeg": "JPEG", "png": "PNG", "webp": "WEBP", "ppm": "PPM"}


def field_bytes(name: str, value: Any) -> bytes:
    """bytes as they are; text as UTF-8; numbers in digits, also those in arrays of no dimension; arrays as .npy; pictures by the name."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    ending = name.rpartition(".")[2].lower()
    if ending == "json":
        return _json(name, value)
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    if isinstance(value, bool) or value is None:
        invalid(f"field {name}: {shown(value)} has no bytes of its own: write an int, or call the field "
                "NAME.json")
    if isinstance(value, numbers.Integral):
        return str(int(value)).encode()
    if isinstance(value, numbers.Real):
        return repr(float(value)).encode()
    if isinstance(value, (dict, list, tuple)):
        return _json(name, value)
    if ending in _PICTURES:
        return _picture(name, value, _PICTURES[ending])
    if getattr(value, "ndim", None) == 0 and ending != "npy" and type(value.item()) in (int, float):
        return field_bytes(name, value.item())      # torch.tensor(3) is a label
    if hasattr(value, "__array__"):
        return _npy(name, value)
    invalid(f"field {name}: a {type(value).__name__} can't be written: give bytes, text, a number, "
            "an array, or a dict")


def _json(name: str, value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError) as e:
        invalid(f"field {name}: no JSON can be made of it: {e}")


def _npy(name: str, value: Any) -> bytes:
    import numpy
    array = numpy.asarray(value)
    if array.dtype.hasobject:
        invalid(f"field {name}: an array of objects would have to be pickled, which is not done")
    out = io.BytesIO()
    numpy.save(out, array, allow_pickle=False)
    return out.getvalue()


def _picture(name: str, value: Any, kind: str) -> bytes:
    try:
        from PIL import Image
    except ImportError:
        invalid(f"field {name}: a picture is encoded by Pillow, which is not installed: give bytes")
    if not isinstance(value, Image.Image):
        import numpy
        array = numpy.asarray(value)
        if array.dtype != numpy.uint8 or array.ndim not in (2, 3):
            invalid(f"field {name}: a picture is an array (height, width[, 3]) of uint8, not "
                    f"{array.dtype} {array.shape}")
        value = Image.fromarray(array)
    out = io.BytesIO()
    value.save(out, kind, **({"quality": 95} if kind in ("JPEG", "WEBP") else {}))
    return out.getvalue()
