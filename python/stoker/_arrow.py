# SPDX-License-Identifier: Apache-2.0
"""Tables of other libraries: whatever has __arrow_c_stream__, and Hugging Face's Dataset, without a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import invalid, shown

if TYPE_CHECKING:
    import numpy as np


def _is_hugging_face(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "datasets" and hasattr(data, "_indices") and hasattr(data, "data")


def is_table(data: Any) -> bool:
    """Is this a table that can be read in place?"""
    return _is_hugging_face(data) or hasattr(data, "__arrow_c_stream__") and not hasattr(data, "_core")


def stream(data: Any) -> tuple[Any, np.ndarray[Any, Any] | None]:
    """(the capsule of a C stream, which rows of it in which order; None: all).

    A Hugging Face data set keeps its table, whose memory is that of its cache files, and beside it the numbers of the rows
    that select(), shuffle() or filter() left.
    """
    rows = None
    if _is_hugging_face(data):
        import numpy as np
        if data._indices is not None:
            rows = np.ascontiguousarray(data._indices.column(0).to_numpy(), dtype=np.uint64)
        data = data.data
        data = getattr(data, "table", data)
    try:
        return data.__arrow_c_stream__(), rows
    except AttributeError:
        invalid(f"this version of pyarrow gives no Arrow stream of {shown(data)}: version 14 or newer does")
