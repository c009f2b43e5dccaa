# SPDX-License-Identifier: Apache-2.0
"""Windows of videos as samples: clips of so many frames, one after another in each file.

The windows of all videos are counted through.  A sample is a row of a table in memory: the video's name (a number into a
list) and the number of its first frame, 12 bytes.  So orders, ranks, states and errors are those of every table.
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


@dataclass(frozen=True)
class Windows:
    """Clips of `frames` frames, each the `stride`-th, that begin every `step` frames; step None: where the clip before it
    ends.  A video that is shorter than a clip has none, unless pad= says how it is filled up: "last" or "wrap"; then a last
    window that is not full counts too."""

    frames: int = 16
    stride: int = 1
    step: int | None = None
    pad: str | None = None

    def __post_init__(self) -> None:
        for name, most in (("frames", 4096), ("stride", 1 << 22), ("step", 1 << 22)):
            value = getattr(self, name)
            if value is not None or name != "step":
                _options.whole(name, value, 1, most)
        if self.pad not in (None, "last", "wrap"):
            invalid(f'Windows: pad is "last", "wrap" or None, not {shown(self.pad)}')

    @property
    def span(self) -> int:
        return (self.frames - 1) * self.stride + 1

    def of(self, frames: Any) -> Any:
        """How many windows videos of so many frames have."""
        import numpy as np
        step = self.step or self.frames * self.stride
        if self.pad is None:
            return np.where(frames >= self.span, (frames - self.span) // step + 1, 0)
        return np.where(frames > 0, -(-np.maximum(frames - self.span, 0) // step) + 1, 0)


def _listed(pattern: str, store: Store | None) -> list[str]:
    """The videos that a name means: a file, a pattern, a folder."""
    if "://" in pattern:
        if not any(c in pattern for c in "*?["):
            return [pattern]
        prefix = re.split(r"[*?\[]", pattern, maxsplit=1)[0]
        names = [name for name, _ in _stoker.object_list(os.fsencode(prefix), _store.core(store))]
        return sorted(name for name in names if fnmatch.fnmatchcase(name, pattern))
    if Path(pattern).is_dir():
        return sorted(str(p) for p in Path(pattern).rglob("*") if p.suffix.lower() in _SUFFIXES)
    return sorted(glob.glob(pattern, recursive=True)) if not Path(pattern).exists() else [pattern]


class WindowsOf(Dataset):
    """Windows of videos, from stoker.open(..., windows=...)."""

    def __init__(self, urls: Any, windows: Windows, fields: Mapping[str, Any] | None = None, store: Store | None = None) -> None:
        import numpy as np
        import pyarrow as pa
        if not isinstance(windows, Windows):
            invalid(f"windows= is a stoker.Windows(frames=16, stride=4), not {shown(windows)}")
        self._asked = (urls, windows, fields, store)
        self.windows = windows
        names = [os.fsdecode(u) for u in (urls if isinstance(urls, (list, tuple)) else [urls])]
        found = [name for one in names for name in _listed(one, store)]
        if not found:
            invalid(f"there is no video {shown(names[0])}")
        self.videos = [name if "://" in name else str(Path(name).absolute()) for name in found]
        core = _store.core(store)
        with ThreadPoolExecutor(16 if any("://" in v for v in self.videos) else 4) as pool:
            self.facts = list(pool.map(lambda v: _stoker.video_info(os.fsencode(v), core), self.videos))
        counts = windows.of(np.array([f["frames"] for f in self.facts], np.int64))
        if not counts.sum():
            invalid(f"no video has {windows.span} frames, which a window spans: the longest has {max(f['frames'] for f in self.facts)}; "
                    "Windows(pad=\"last\") fills up")
        begins = np.cumsum(counts) - counts
        first = (np.arange(int(counts.sum())) - np.repeat(begins, counts)) * (windows.step or windows.frames * windows.stride)
        which = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        table = pa.table({"path": pa.DictionaryArray.from_arrays(pa.array(which), pa.array(self.videos)), "first": pa.array(first)})
        self._runs = begins[counts > 0].astype(np.uint64).tobytes()
        super().__init__(table, None if fields is None else self.complete(fields), store=store)

    def complete(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Chains that begin with `video` have the window's frames; the output `first` has the number of its first one."""
        head = (f"from(path) | open(root='/') | video(frames={self.windows.frames}, stride={self.windows.stride}, first=first, "
                f"step={self.windows.step or self.windows.frames * self.windows.stride}, pad={self.windows.pad or 'error'})")
        made = {name: head + chain.strip()[5:] if isinstance(chain, str) and re.match(r"\s*video\s*(\||$)", chain) else chain
                for name, chain in fields.items()}
        return {**made, "first": made.get("first", "from(first)")}

    def __reduce__(self) -> tuple[Any, ...]:
        return WindowsOf, self._asked, {"_epoch": self._epoch}
