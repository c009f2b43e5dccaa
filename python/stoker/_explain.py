# SPDX-License-Identifier: Apache-2.0
"""What was drawn for one sample, step by step.

The sample is made once more, alone, by a loader that is watched: random numbers are addressed by
(seed, epoch, position), so it draws what the real one drew.
"""

from __future__ import annotations

import operator
import struct
from dataclasses import dataclass, field
from typing import Any

from . import _stoker
from .errors import invalid, printable, shown
from .preview import split

_CHUNK = 1 << 16


@dataclass(frozen=True)
class Step:
    """One op and what the picture is after it.

    clip: (x, y, width, height) of the picture as it was read
    resized: (width, height) that the clip was resized to
    window: (x, y, width, height) of that; what is outside is black
    mirrored: left to right, by this op and those before
    flipped: the same, top to bottom
    """

    op: str
    clip: tuple[int, int, int, int]
    resized: tuple[int, int]
    window: tuple[int, int, int, int]
    mirrored: bool
    flipped: bool
    text: str

    def __str__(self) -> str:
        return f"{printable(self.op)}: {self.text}"


@dataclass(frozen=True)
class Explanation:
    """key, id, epoch and position of a sample, and for each output that is a picture its steps.

    by_workers: with device="cuda", why workers make a picture, and not the GPU, by output
    reads: for each output what was read of its field, and why
    made: for each output where it is made, and why
    """

    key: str
    id: int
    epoch: int
    position: int
    outputs: dict[str, list[Step]]
    by_workers: dict[str, str] = field(default_factory=dict)
    reads: dict[str, str] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{printable(self.key)}: sample {self.id}, position {self.position} of epoch {self.epoch}"]
        for name, steps in self.outputs.items():
            why = f": made by workers and sent to the GPU, since {self.by_workers[name]}" if name in self.by_workers else ""
            lines += [printable(name) + why, *(f"    {step}" for step in steps)]
            lines += [f"    reads: {self.reads[name]}"] if name in self.reads else []
        return "\n".join(lines)


def _change(now: Any, before: Any) -> str:
    """In words, what is different."""
    (clip, resized, window, mirrored, flipped), (clip0, resized0, window0, mirrored0, flipped0) = now, before
    said = []
    if clip != clip0:
        said.append(f"cut to {clip[2]}x{clip[3]} at ({clip[0]}, {clip[1]})")
    if resized != resized0 and resized != clip[2:]:
        said.append(f"resized to {resized[0]}x{resized[1]}")
    if window != window0 and window != (0, 0, *resized):
        said.append(f"window {window[2]}x{window[3]} at ({window[0]}, {window[1]})")
    if mirrored != mirrored0:
        said.append("mirrored")
    if flipped != flipped0:
        said.append("flipped top to bottom")
    return ", ".join(said) or "as it was"


def steps(drawn: list[Any], made: list[tuple[str, str]]) -> dict[str, list[Step]]:
    """Output name -> steps, from the extension's drawn()."""
    outputs: dict[str, list[Step]] = {}
    before: Any = None
    view: Any
    for output, number, op, *view in drawn:
        name, chain = made[output]
        if op is None:
            before, text, title = view, f"{view[0][2]}x{view[0][3]}", "picture"
        else:
            text, title = _change(view, before), split(chain)[number]
            before = view
        clip, resized, window, mirrored, flipped = view
        outputs.setdefault(name, []).append(Step(title, clip, resized, window, mirrored, flipped, text))
    return outputs


def what_is_read(why: str | None, in_parts: bool) -> str:
    if in_parts:
        return "only the bytes that are seen"
    return f"the whole field: {why or 'the index has no points of it that say which bytes are seen'}"


def where_made(by_workers: dict[str, str | None]) -> dict[str, str]:
    return {name: f"by workers, since {why}" if why else "on the GPU, where it can decode the file" for name, why in by_workers.items()}


def find_id(which: Any, data: tuple[Any, ...]) -> int:
    """The id of a sample given by its id or its key; a key is looked for from the front."""
    count = sum(map(len, data))
    if not isinstance(which, str):
        try:
            number = operator.index(which)
        except TypeError:
            invalid(f"a sample is named by its key or its id, not {shown(which)}")
        if not 0 <= number < count:
            invalid(f"there is no sample {shown(number)}: ids are 0 to {count - 1}")
        return number
    for first in range(0, count, _CHUNK):
        n = min(_CHUNK, count - first)
        keys = _stoker.keys(data, struct.pack(f"={n}Q", *range(first, first + n)))
        if which in keys:
            return first + keys.index(which)
    invalid(f"no sample has the key {shown(which)}")
