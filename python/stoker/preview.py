# SPDX-License-Identifier: Apache-2.0
"""Look at what the model will see: the next pictures of a loader as a grid.

A second loader with the same data, seed and outputs makes the same pictures, so the first one does
not move.  Its chains end before `normalize` and `to`: those move no pixel and use no random number,
so what is left is the picture as the model gets it, in colors that people can look at.
"""

from __future__ import annotations

import base64
import html
import math
import os
import re
import struct
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from . import _stoker
from .errors import invalid, printable

_STEP = re.compile(r"""(?:[^|"']|"[^"]*"|'[^']*')+""")   # up to a bar that stands in no quotes
_GAP = 2


def split(chain: str) -> list[str]:
    """The steps of a chain, from() among them."""
    return [step.strip() for step in _STEP.findall(chain)]


def _name(step: str) -> str:
    return step.partition("(")[0].strip()


def _is_picture(chain: str) -> bool:
    return any(_name(step) == "image" for step in split(chain))


def as_pixels(chain: str) -> str:
    """The chain of a picture as 8-bit RGB rows."""
    steps = [s for s in split(chain) if _name(s) not in ("normalize", "to")]
    return " | ".join([*steps, "to(u8, layout=hwc)"])


def choose(outputs: Iterable[tuple[Any, ...]], output: str | None) -> int:
    """The number of the output to look at: the one asked for, else the first that is a picture."""
    pictures = [name for name, chain, *_ in outputs if _is_picture(chain)]
    if output is None and not pictures:
        invalid("preview() shows pictures, and no output of this loader is one")
    if output is not None and output not in pictures:
        invalid(f"preview() shows pictures: {', '.join(pictures) or 'there are none'}, not {output!r}")
    return [name for name, *_ in outputs].index(output or pictures[0])


class Picture(NamedTuple):
    key: str
    width: int
    height: int
    rgb: bytes


def _png(width: int, height: int, rgb: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = b"".join(b"\0" + rgb[y * width * 3:(y + 1) * width * 3] for y in range(height))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 6))
            + chunk(b"IEND", b""))


def pictures(parts: tuple[Any, ...], at: int, data: tuple[Any, ...]) -> list[Picture]:
    """The rows of output `at` of what the extension's next() answers."""
    value = parts[0][at][2]
    keys = _stoker.keys(data, parts[1])
    if isinstance(value, tuple):                # parts of one tensor
        whole, places = value
        value = [whole.as_strided(*place) for place in places]
    if isinstance(value, list):
        rows = [(*t.shape[:2], memoryview(t).tobytes()) for t in value]
    else:                                       # one size for all: cut the tensor up
        count, height, width, _ = value.shape
        raw, size = memoryview(value).tobytes(), height * width * 3
        rows = [(height, width, raw[i * size:(i + 1) * size]) for i in range(count)]
    return [Picture(key, w, h, rgb) for key, (h, w, rgb) in zip(keys, rows, strict=True)]


class Preview:
    """Pictures of a loader, side by side.  Shows itself in notebooks.

    pictures: each with key, width, height and rgb (bytes)
    keys: the samples' keys
    """

    def __init__(self, pictures: list[Picture]) -> None:
        self.pictures = pictures

    @property
    def keys(self) -> list[str]:
        return [p.key for p in self.pictures]

    def __len__(self) -> int:
        return len(self.pictures)

    def _grid(self) -> tuple[int, int, bytes]:
        """(width, height, rgb) of all pictures, row by row, on white."""
        columns = math.ceil(math.sqrt(len(self.pictures)))
        cell_w = max(p.width for p in self.pictures) + _GAP
        cell_h = max(p.height for p in self.pictures) + _GAP
        width = columns * cell_w - _GAP
        height = math.ceil(len(self.pictures) / columns) * cell_h - _GAP
        canvas = bytearray(b"\xff") * (width * height * 3)
        for i, p in enumerate(self.pictures):
            top, left = i // columns * cell_h, i % columns * cell_w
            for y in range(p.height):
                at = ((top + y) * width + left) * 3
                canvas[at:at + p.width * 3] = p.rgb[y * p.width * 3:(y + 1) * p.width * 3]
        return width, height, bytes(canvas)

    @property
    def image(self) -> Any:
        """The grid as a Pillow image."""
        try:
            from PIL import Image
        except ImportError:
            invalid("preview().image is a Pillow image and Pillow is not installed: "
                    'preview().save("grid.png") works without it')
        width, height, rgb = self._grid()
        return Image.frombytes("RGB", (width, height), rgb)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the grid: .png here, other kinds by Pillow."""
        if not os.fspath(path).lower().endswith(".png"):
            self.image.save(path)
            return
        with open(path, "wb") as f:
            f.write(self._repr_png_())

    def _repr_png_(self) -> bytes:
        return _png(*self._grid())

    def _repr_html_(self) -> str:
        def figure(p: Picture) -> str:
            data = base64.b64encode(_png(p.width, p.height, p.rgb)).decode()
            key = html.escape(p.key)
            return (f'<figure style="margin:4px;display:inline-block"><img title="{key}" '
                    f'src="data:image/png;base64,{data}"><figcaption>{key}</figcaption></figure>')

        return "<div>" + "".join(map(figure, self.pictures)) + "</div>"

    def __repr__(self) -> str:
        return f"<preview of {len(self)} pictures: {printable(', '.join(self.keys))}>"
