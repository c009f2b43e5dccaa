# SPDX-License-Identifier: Apache-2.0
"""Windows of videos and recordings as samples: clips of so many frames, parts of so many seconds, one after another in each
file.

The windows of all files are counted through.  A sample is a row of a table in memory: the file's name (a number into a
list) and the number of its first frame or its first second, 12 bytes.  So orders, ranks, states and errors are those of every table.
"""

from __future__ import annotations

import fnmatch
import glob
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _options, _stoker
from . import store as _store
from .dataset import Dataset
from .errors import invalid, shown
from .store import Store

_SUFFIXES = (".mp4", ".m4v", ".mov", ".mkv", ".webm")


_SOUNDS = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".mka", ".aac")


@dataclass(frozen=True)
class Windows:
    """Clips of `frames` frames, each the `stride`-th, that begin every `step` frames; step None: where the clip before it
    ends.  A video that is shorter than a clip has none, unless pad= says how it is filled up: "last" or "wrap"; then a last
    window that is not full counts too.

    With `seconds` parts of recordings in their place, every `step` seconds; pad="silence" fills up."""

    frames: int = 16
    stride: int = 1
    step: float | None = None
    pad: str | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.seconds is not None:
            self._check_seconds()
            return
        for name, most in (("frames", 4096), ("stride", 1 << 22), ("step", 1 << 22)):
            value = getattr(self, name)
            if value is not None or name != "step":
                _options.whole(name, value, 1, most)
        if self.pad not in (None, "last", "wrap"):
            invalid(f'Windows: pad is "last", "wrap" or None, not {shown(self.pad)}')

    def _check_seconds(self) -> None:
        if (self.frames, self.stride) != (16, 1):
            invalid("Windows: seconds= is of sound, frames= and stride= are of videos")
        for name in ("seconds", "step"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool) or not 0.001 <= value <= 86400):
                invalid(f"Windows: {name} is a number of seconds in 0.001..86400, not {shown(value)}")
        if self.pad not in (None, "silence"):
            invalid(f'Windows: pad of sound is "silence" or None, not {shown(self.pad)}')

    @property
    def span(self) -> int:
        return (self.frames - 1) * self.stride + 1

    def of(self, frames: Any) -> Any:
        """How many windows videos of so many frames have; of sound, recordings of so many seconds."""
        import numpy as np
        if self.seconds is not None:
            steps = np.maximum(frames - self.seconds, 0) / (self.step or self.seconds)
            if self.pad is None:
                return np.where(frames >= self.seconds - _TICK, np.floor(steps + _TICK) + 1, 0).astype(np.int64)
            return np.where(frames > 0, np.ceil(steps - _TICK) + 1, 0).astype(np.int64)
        step = int(self.step or self.frames * self.stride)
        if self.pad is None:
            return np.where(frames >= self.span, (frames - self.span) // step + 1, 0)
        return np.where(frames > 0, -(-np.maximum(frames - self.span, 0) // step) + 1, 0)


_TICK = 2e-6    # durations are in microseconds


def _listed(pattern: str, store: Store | None, suffixes: tuple[str, ...]) -> list[str]:
    """The videos or recordings that a name means: a file, a pattern, a folder."""
    if "://" in pattern:
        if not any(c in pattern for c in "*?["):
            return [pattern]
        prefix = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
        names = [name for name, _ in _stoker.object_list(os.fsencode(prefix), _store.core(store))]
        return sorted(name for name in names if fnmatch.fnmatchcase(name, pattern))
    if Path(pattern).is_dir():
        return sorted(str(p) for p in Path(pattern).rglob("*") if p.suffix.lower() in suffixes)
    return sorted(glob.glob(pattern, recursive=True)) if not Path(pattern).exists() else [pattern]


class WindowsOf(Dataset):
    """Windows of videos or of recordings, from stoker.open(..., windows=...)."""

    def __init__(self, urls: Any, windows: Windows, fields: Mapping[str, Any] | None = None, store: Store | None = None) -> None:
        import numpy as np
        if not isinstance(windows, Windows):
            invalid(f"windows= is a stoker.Windows(frames=16, stride=4), not {shown(windows)}")
        self._asked = (urls, windows, fields, store)
        self.windows = windows
        names = [os.fsdecode(u) for u in (urls if isinstance(urls, (list, tuple)) else [urls])]
        kind, suffixes = ("video", _SUFFIXES) if windows.seconds is None else ("recording", _SOUNDS)
        found = [name for one in names for name in _listed(one, store, suffixes)]
        if not found:
            invalid(f"there is no {kind} {shown(names[0])}")
        self.videos = [name if "://" in name else str(Path(name).absolute()) for name in found]
        core = _store.core(store)
        with ThreadPoolExecutor(16 if any("://" in v for v in self.videos) else 4) as pool:
            self.facts = list(pool.map(lambda v: _stoker.video_info(os.fsencode(v), core), self.videos))
        for name, fact in zip(self.videos, self.facts, strict=True):
            if bool(fact["width"]) != (kind == "video"):
                invalid(f"{name} is a {'video: Windows(frames=16)' if fact['width'] else 'recording: Windows(seconds=15)'} is for those")
        counts = windows.of(np.array([f["frames"] if kind == "video" else f["duration_us"] / 1e6 for f in self.facts]))
        if not counts.sum():
            self._none_is_long_enough()
        begins = np.cumsum(counts) - counts
        number = np.arange(int(counts.sum())) - np.repeat(begins, counts)
        self._runs = begins[counts > 0].astype(np.uint64).tobytes()
        super().__init__(self._table(number, counts), None if fields is None else self.complete(fields), store=store)

    def _none_is_long_enough(self) -> None:
        if self.windows.seconds is not None:
            invalid(f"no recording has {self.windows.seconds:g} seconds: the longest has {max(f['duration_us'] for f in self.facts) / 1e6:g}; "
                    "Windows(pad=\"silence\") fills up")
        invalid(f"no video has {self.windows.span} frames, which a window spans: the longest has {max(f['frames'] for f in self.facts)}; "
                "Windows(pad=\"last\") fills up")

    def _table(self, number: Any, counts: Any) -> Any:
        """A row for each window: of which file, and where it begins; number: of the window in its file."""
        import numpy as np
        import pyarrow as pa
        w = self.windows
        which = pa.DictionaryArray.from_arrays(pa.array(np.repeat(np.arange(len(counts), dtype=np.int32), counts)), pa.array(self.videos))
        if w.seconds is not None:
            return pa.table({"path": which, "start": pa.array(number * float(w.step or w.seconds))})
        return pa.table({"path": which, "first": pa.array(number * int(w.step or w.frames * w.stride))})

    def complete(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Chains that begin with `video` have the window's frames; the output `first` has the number of its first one. Of
        sound, chains that begin with `sound` have the window's seconds, and the output `start` the second of its first sample."""
        w = self.windows
        word, told = ("video", "first") if w.seconds is None else ("sound", "start")
        made = {name: self._completed(chain) if isinstance(chain, str) and re.match(rf"\s*{word}\b", chain) else chain for name, chain in fields.items()}
        return {**made, told: made.get(told, f"from({told})" + (" | float" if told == "start" else ""))}

    def _completed(self, chain: str) -> str:
        w = self.windows
        head, bar, rest = chain.strip().partition("|")
        if w.seconds is not None:
            return f"from(path) | open(root='/') | {head.strip()} | part(start, {w.seconds!r}) | pad_to({w.seconds!r})" + (f" | {rest.strip()}" if bar else "")
        if head.strip() != "video":
            return chain
        return (f"from(path) | open(root='/') | video(frames={w.frames}, stride={w.stride}, first=first, "
                f"step={w.step or w.frames * w.stride}, pad={w.pad or 'error'}){chain.strip()[5:]}")

    def __reduce__(self) -> tuple[Any, ...]:
        return WindowsOf, self._asked, {"_epoch": self._epoch}
