# SPDX-License-Identifier: Apache-2.0
"""LeRobot data sets, version 3, where they stand: a row per frame, its cameras' clips decoded from the videos.

The numbers (states, actions) are read into memory once.  Rows around a row are slices of a column whose episodes are
padded at both ends, so that nothing is copied per row; other steps in time are written out.  Videos stay where they are:
a row has the file's name and the times of its frames, and the chain `open | video(at=...)` does the rest.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _stoker
from . import store as _store
from .batch import Batch
from .dataset import Dataset
from .errors import invalid, nearest, shown
from .store import Store

if TYPE_CHECKING:
    import numpy as np

_INDEXES = ("timestamp", "frame_index", "episode_index", "index", "task_index")
_TIME = "{}.time"                               # an output that is taken out again: when a camera's frames are shown


class _Place:
    """The folder or prefix of the data set."""

    def __init__(self, root: Any, store: Store | None) -> None:
        self.root = os.fsdecode(root).rstrip("/")
        self.remote = "://" in self.root
        if not self.remote:
            self.root = str(Path(self.root).absolute())
        self._core = _store.core(store)

    def read(self, name: str) -> bytes | None:
        if self.remote:
            return _stoker.object_read(os.fsencode(f"{self.root}/{name}"), self._core)
        path = Path(self.root, name)
        return path.read_bytes() if path.exists() else None

    def numbered(self, pattern: str) -> Iterable[bytes]:
        """Files by chunk and number, until there are no more."""
        for chunk in range(1_000_000):
            for number in range(1_000_000):
                raw = self.read(pattern.format(chunk_index=chunk, file_index=number))
                if raw is None:
                    break
                yield raw
            if raw is None and number == 0:
                return


class _Episodes:
    """Where episodes begin among all rows, and which file of each kind has them."""

    def __init__(self, place: _Place, chosen: Sequence[int] | None) -> None:
        import numpy as np
        import pyarrow as pa
        tables = [_parquet(raw) for raw in place.numbered("meta/episodes/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet")]
        if not tables:
            invalid(f"{place.root}/meta/episodes/chunk-000/file-000.parquet is not there: LeRobot's data sets have it since version 3.0 "
                    "(lerobot's own program converts older ones)")
        keep = [name for name in tables[0].column_names if not name.startswith("stats/")]
        self.table = pa.concat_tables([t.select(keep) for t in tables])
        self.first, self.end = self.column("dataset_from_index"), self.column("dataset_to_index")
        if len(self.first) == 0 or (self.end <= self.first).any() or (self.first[1:] != self.end[:-1]).any():
            invalid(f"{place.root}/meta/episodes: its episodes do not follow each other")
        self.rows = np.arange(len(self.first)) if chosen is None else np.asarray(sorted(set(chosen)), np.int64)
        if not len(self.rows) or self.rows[0] < 0 or self.rows[-1] >= len(self.first):
            invalid(f"episodes= are numbers from 0 to {len(self.first) - 1}, not {shown(chosen)}")

    def column(self, name: str) -> Any:
        if name not in self.table.column_names:
            invalid(f"meta/episodes has no column {name!r}{nearest(name, self.table.column_names)}")
        return self.table.column(name).to_numpy()


def _parquet(raw: bytes, columns: list[str] | None = None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq
    return pq.read_table(pa.BufferReader(raw), columns=columns)


def _numbers(name: str, column: Any) -> np.ndarray[Any, Any]:
    """A column of numbers, or of lists of as many numbers each, as an array."""
    import numpy as np
    import pyarrow as pa
    at = column.combine_chunks()
    at = at.chunk(0) if isinstance(at, pa.ChunkedArray) else at
    rows, inner = len(at), at
    if at.null_count:
        invalid(f"{name} has nulls: rows of a LeRobot data set have none")
    if pa.types.is_list(at.type) or pa.types.is_large_list(at.type) or pa.types.is_fixed_size_list(at.type):
        inner = at.flatten()
        sizes = np.diff(at.offsets.to_numpy()) if not pa.types.is_fixed_size_list(at.type) else np.full(rows, at.type.list_size)
        if (sizes != sizes[:1]).any():
            invalid(f"{name}: rows differ in length")
    if not (pa.types.is_integer(inner.type) or pa.types.is_floating(inner.type) or pa.types.is_boolean(inner.type)) or inner.null_count:
        invalid(f"{name} is of {at.type}: numbers and lists of them are read; leave it out, or take fields=")
    values = inner.to_numpy(zero_copy_only=False)
    values = values.view(np.uint8) if values.dtype == bool else values
    return np.ascontiguousarray(values if inner is at else values.reshape(rows, -1))


class _Around:
    """Rows around each row, within its episode."""

    def __init__(self, first: np.ndarray[Any, Any], end: np.ndarray[Any, Any]) -> None:
        import numpy as np
        self.first, self.end, self.n = first, end, int(end[-1])
        self.lengths = end - first
        self.of = np.repeat(np.arange(len(first)), self.lengths)        # row -> episode

    def pads(self, steps: np.ndarray[Any, Any]) -> Any:
        """Whether each of the rows is outside of the episode."""
        import numpy as np
        rows = np.arange(self.n)[:, None] + steps
        return ((rows < self.first[self.of][:, None]) | (rows >= self.end[self.of][:, None])).astype(np.uint8)

    def rows(self, steps: np.ndarray[Any, Any]) -> Any:
        import numpy as np
        rows = np.arange(self.n)[:, None] + steps
        return np.clip(rows, self.first[self.of][:, None], self.end[self.of][:, None] - 1)

    def lists(self, values: np.ndarray[Any, Any], steps: np.ndarray[Any, Any]) -> Any:
        """A list for each row: its values of `values` (which has a row for each), one after another."""
        import numpy as np
        import pyarrow as pa
        n, each = len(steps), int(np.prod(values.shape[1:], dtype=np.int64))
        if n < 3 or (np.diff(steps) != 1).any():
            return pa.FixedSizeListArray.from_arrays(pa.array(values[self.rows(steps)].reshape(-1)), n * each)
        low, high = min(0, int(steps[0])), max(0, int(steps[-1]))
        padded = self.lengths + (high - low)
        begins = np.cumsum(padded) - padded
        source = np.arange(int(padded.sum())) - np.repeat(begins, padded) + np.repeat(self.first + low, padded)
        source = np.clip(source, np.repeat(self.first, padded), np.repeat(self.end - 1, padded))
        at = begins[self.of] + (np.arange(self.n) - self.first[self.of]) + (int(steps[0]) - low)
        return pa.LargeListViewArray.from_arrays(pa.array(at * each, pa.int64()), pa.array(np.full(self.n, n * each), pa.int64()),
                                                 pa.array(values[source].reshape(-1)))


class LeRobot(Dataset):
    """A LeRobot data set, from stoker.lerobot().  A sample is a frame, with what delta_timestamps= asks for around it."""

    def __init__(self, root: Any, delta_timestamps: Mapping[str, Sequence[float]] | None = None, episodes: Sequence[int] | None = None,
                 tolerance_s: float = 1e-4, return_uint8: bool = False, store: Store | None = None) -> None:
        self._asked = (root, delta_timestamps, episodes, tolerance_s, return_uint8, store)
        place = _Place(root, store)
        raw = place.read("meta/info.json")
        if raw is None:
            invalid(f"{place.root}/meta/info.json is not there: a LeRobot data set has it")
        self.info: dict[str, Any] = json.loads(raw)
        version = str(self.info.get("codebase_version", ""))
        if not version.startswith("v3"):
            invalid(f"{place.root} is a LeRobot data set of version {version or 'unknown'}: version 3 is read, and lerobot's own program converts")
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._masks: list[str] = []
        self._chains: dict[str, str] = {}
        columns = self._columns(place, _Episodes(place, episodes), self._steps(delta_timestamps or {}, tolerance_s),
                                tolerance_s, "u8" if return_uint8 else "f32")
        import pyarrow as pa
        super().__init__(pa.table(columns), self._chains, store=store)

    def _steps(self, asked: Mapping[str, Sequence[float]], tolerance: float) -> dict[str, Any]:
        import numpy as np
        fps, steps = self.info["fps"], {}
        for key, seconds in asked.items():
            if key not in self.info["features"]:
                invalid(f"delta_timestamps: there is no feature {key!r}{nearest(key, list(self.info['features']))}")
            steps[key] = np.asarray([round(s * fps) for s in seconds], np.int64)
            odd = [s for s, k in zip(seconds, steps[key]) if abs(k / fps - s) > tolerance]
            if odd or not len(steps[key]):
                invalid(f"delta_timestamps[{key!r}]: {odd[0] if odd else 'nothing'} is not a whole number of frames at {fps} per second")
        return steps

    def _columns(self, place: _Place, episodes: _Episodes, steps: dict[str, Any], tolerance: float, pixels: str) -> dict[str, Any]:
        import numpy as np
        import pyarrow as pa
        features = self.info["features"]
        for key, feature in features.items():
            _refuse_depth(key, feature)
        data = self._data(place, episodes, [k for k, f in features.items() if f["dtype"] != "video"])
        ends = np.cumsum((episodes.end - episodes.first)[episodes.rows])
        around = _Around(np.concatenate([[0], ends[:-1]]), ends)
        columns: dict[str, Any] = {}
        for key, feature in features.items():
            if feature["dtype"] == "video":
                self._video(columns, key, (place, episodes, data, around), steps.get(key), (tolerance, pixels))
            elif feature["dtype"] in ("image", "string"):
                self._stored(columns, key, feature, data, key in steps, pixels)
            else:
                self._add_numbers(columns, key, _numbers(key, data.column(key)), around, steps.get(key))
            if key in steps:
                columns[f"{key}_is_pad"] = pa.FixedSizeListArray.from_arrays(pa.array(around.pads(steps[key]).reshape(-1)), len(steps[key]))
                self._masks.append(f"{key}_is_pad")
                self._chains[f"{key}_is_pad"] = f"from('{key}_is_pad')"
        self._tasks(columns, place, data)
        return columns

    def _data(self, place: _Place, episodes: _Episodes, wanted: list[str]) -> Any:
        """All rows of the episodes that take part."""
        import numpy as np
        import pyarrow as pa
        files = np.stack([episodes.column("data/chunk_index"), episodes.column("data/file_index")], -1)[episodes.rows]
        tables = []
        for chunk, number in np.unique(files, axis=0).tolist():
            name = self.info["data_path"].format(chunk_index=chunk, file_index=number)
            raw = place.read(name)
            if raw is None:
                invalid(f"{place.root}/{name} is not there, and meta/episodes names it")
            tables.append(_parquet(raw, wanted))
        table = pa.concat_tables(tables)
        index = table.column("index").to_numpy()
        rows = np.concatenate([np.arange(episodes.first[e], episodes.end[e]) for e in episodes.rows])
        order = np.argsort(index, kind="stable")
        at = np.searchsorted(index[order], rows)
        if (at >= len(index)).any() or (index[order][np.minimum(at, len(index) - 1)] != rows).any():
            invalid(f"{place.root}/data: rows that meta/episodes counts are missing in the column index")
        picked = order[at]
        return table if len(picked) == len(table) and (picked == np.arange(len(table))).all() else table.take(picked)

    def _add_numbers(self, columns: dict[str, Any], key: str, values: Any, around: _Around, steps: Any) -> None:
        import pyarrow as pa
        shape = values.shape[1:] if values.ndim > 1 and values.shape[1] > 1 or self.info["features"][key]["shape"] not in ([1], (1,)) else ()
        self._chains[key] = f"from('{key}')"
        if self.info["features"][key]["dtype"] == "bool":
            self._masks.append(key)
        if steps is not None:
            columns[key] = around.lists(values, steps)
            self._shapes[key] = (len(steps), *shape)
        elif values.ndim > 1:
            columns[key] = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
            self._shapes[key] = shape
        else:
            columns[key] = pa.array(values)

    def _stored(self, columns: dict[str, Any], key: str, feature: dict[str, Any], data: Any, stepped: bool, pixels: str) -> None:
        if stepped:
            invalid(f"delta_timestamps[{key!r}]: it is a column of {feature['dtype']}s, of which a row has its own")
        columns[key] = data.column(key)
        self._chains[key] = f"from('{key}') | text"
        if feature["dtype"] == "image":
            height, width = feature["shape"][:2] if feature["shape"][-1] in (1, 3) else feature["shape"][1:]
            self._chains[key] = f"from('{key}.bytes') | image | center_crop(({height}, {width})) | to({pixels})"

    def _video(self, columns: dict[str, Any], key: str, of: tuple[_Place, _Episodes, Any, _Around], steps: Any, how: tuple[float, str]) -> None:
        import numpy as np
        import pyarrow as pa
        (place, episodes, data, around), (tolerance, pixels) = of, how
        feature = self.info["features"][key]
        chunk, number, begin = (episodes.column(f"videos/{key}/{name}")[episodes.rows] for name in ("chunk_index", "file_index", "from_timestamp"))
        files, which = np.unique(np.stack([chunk, number], -1), axis=0, return_inverse=True)
        names = [self.info["video_path"].format(video_key=key, chunk_index=c, file_index=f) for c, f in files.tolist()]
        columns[f"{key}.path"] = pa.DictionaryArray.from_arrays(pa.array(which.reshape(-1)[around.of].astype(np.int32)), pa.array(names))
        shown_at = data.column("timestamp").to_numpy().astype(np.float64)
        rows = around.rows(np.zeros(1, np.int64) if steps is None else steps)
        times = shown_at[rows] + begin[around.of][:, None]
        columns[_TIME.format(key)] = pa.FixedSizeListArray.from_arrays(pa.array(times.reshape(-1)), times.shape[1])
        axes = feature.get("names") or []
        height, width = feature["shape"][1:] if axes[:1] in (["channels"], ["channel"]) or feature["shape"][0] in (1, 3) else feature["shape"][:2]
        self._chains[_TIME.format(key)] = f"from('{_TIME.format(key)}')"
        self._chains[key] = (f"from('{key}.path') | open(root='{place.root}') | video(frames={times.shape[1]}, at='{_TIME.format(key)}', "
                             f"tolerance={tolerance!r}, pad=error) | center_crop(({height}, {width})) | to({pixels})")
        if times.shape[1] == 1:
            self._shapes[key] = (3, height, width)

    def _tasks(self, columns: dict[str, Any], place: _Place, data: Any) -> None:
        import numpy as np
        import pyarrow as pa
        raw = place.read("meta/tasks.parquet")
        if raw is None or "task_index" not in data.column_names:
            return
        table = _parquet(raw)
        name = next(n for n in table.column_names if n != "task_index")
        texts = dict(zip(table.column("task_index").to_pylist(), table.column(name).to_pylist()))
        numbers = data.column("task_index").to_numpy()
        missing = set(np.unique(numbers).tolist()) - set(texts)
        if missing:
            invalid(f"{place.root}/meta/tasks.parquet has no task {min(missing)}, and rows name it")
        known = sorted(texts)
        columns["task"] = pa.DictionaryArray.from_arrays(pa.array(np.searchsorted(known, numbers).astype(np.int32)),
                                                         pa.array([texts[k] for k in known]))
        self._chains["task"] = "from(task) | text"

    # ---- as LeRobotDataset has it ----

    @property
    def chains(self) -> dict[str, str]:
        """What a loader makes of it where fields= is not given: output -> chain."""
        return dict(self._chains)

    def finish(self, batch: Batch) -> Batch:
        """Rows get their shapes, masks their type, and times that were only for videos are taken out."""
        lead = len(batch.sample_ids)
        for name in [n for n in batch if n in self._shapes]:
            batch[name] = batch[name].reshape(lead, *self._shapes[name])
        self._settle(batch)
        return batch

    def _settle(self, values: dict[str, Any]) -> None:
        for name in self._masks:
            if name in values:
                values[name] = _as_bool(values[name])
        for key, feature in self.info["features"].items():
            if feature["dtype"] == "video" and self._chains[_TIME.format(key)] and _TIME.format(key) in values:
                del values[_TIME.format(key)]

    def _at(self, at: int) -> dict[str, Any]:
        sample = super()._at(at)
        for name in [n for n in sample if n in self._shapes]:
            sample[name] = sample[name].reshape(self._shapes[name])
        self._settle(sample)
        return sample

    def __reduce__(self) -> tuple[Any, ...]:
        return LeRobot, self._asked, {"_epoch": self._epoch}


def _refuse_depth(key: str, feature: dict[str, Any]) -> None:
    """Depth has 12 bits in a video, which the package turns into metres, and 16 bits or floats in pictures: a clip's 8 bits would be other values."""
    said = [feature.get(name) or {} for name in ("info", "video_info")]
    if feature["dtype"] in ("video", "image") and any(info.get(name) for info in said for name in ("is_depth_map", "video.is_depth_map")):
        invalid(f"{key} is a depth map, which is not read: 8 bits per pixel would not hold its values; the package lerobot 0.6 turns them into metres")


def _as_bool(value: Any) -> Any:
    if hasattr(value, "numpy"):
        import torch
        return value.view(torch.bool)
    return value.view(bool)


def lerobot(root: str | os.PathLike[str], delta_timestamps: Mapping[str, Sequence[float]] | None = None, *,
            episodes: Sequence[int] | None = None, tolerance_s: float = 1e-4, return_uint8: bool = False,
            store: Store | None = None) -> LeRobot:
    """A LeRobot data set (version 3), local or on a store, as LeRobotDataset has it: one sample per frame.

        loader = stoker.Loader(stoker.lerobot("data/aloha", delta_timestamps={
            "observation.images.top": [-0.1, 0.0], "action": [0.0, 0.02, 0.04]}), batch_size=64, shuffle=True)

    delta_timestamps: feature -> seconds from the frame, whole numbers of frames; rows outside of the episode are those
        at its end, and True in "{feature}_is_pad"
    episodes: only these, by number
    tolerance_s: a video frame further than that from its time makes a bad sample
    return_uint8: pictures are uint8; else float32 from 0 to 1
    """
    return LeRobot(root, delta_timestamps, episodes, tolerance_s, return_uint8, store)
