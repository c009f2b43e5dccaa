# SPDX-License-Identifier: Apache-2.0
"""Map style: any sample by its number, in any process."""

from __future__ import annotations

import contextlib
import json
import operator
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from . import _arrow, _calls, _join, _options, _pairs, _stoker
from . import store as _store
from .batch import from_parts
from .errors import MissingKeyError, StokerError, Whole, invalid, printable, shown
from .store import Store

if TYPE_CHECKING:
    import numpy as np

    from ._windows import Windows

_NUMPY = {"u8": "u1", "i8": "i1", "u16": "u2", "i16": "i2", "u32": "u4", "i32": "i4", "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8"}
_DTYPES = {1: "int64", 2: "float64", 3: "object"}  # stk_column_type
Urls = Any    # str | bytes | os.PathLike | a list of them | an Arrow table
Arrays = Mapping[str, Any]


class _Decoder:
    """One sample at a time through its chains, in the caller's thread.

    Position i of an epoch with seed 0: within an epoch, what is random is drawn the same at every call.
    """

    def __init__(self, core: _stoker.Dataset, fields: Mapping[str, Any]) -> None:
        self.pid = os.getpid()
        self.data = (core,)
        self.lock = threading.Lock()
        fields, functions = _calls.plan(fields)
        self.calls = _calls.Calls(functions, "thread", 0, False) if functions else None
        self.loader = _stoker.Loader(
            self.data, _options.outputs(fields, core.fields(), core),
            _options.words({"num_workers": -1, "prefetch": 1}), calls=self.calls.core if self.calls else None)
        self.samples = self.loader.sizes()[1]

    def sample(self, epoch: int, i: int) -> dict[str, Any]:
        with self.lock:
            self.loader.resume(epoch, i)
            try:
                parts = self.loader.next(epoch)
            except StokerError as e:
                error, cause = self.calls.explained(e) if self.calls is not None else (e, e.__cause__)
                raise error from cause
        assert parts is not None                # position i is there
        batch = from_parts(parts, self.data, bool(self.data[0].kind()))
        keys = batch.sample_keys or [str(i)]
        return {"__key__": keys[0], **{name: v[0] for name, v in batch.items()}}


def _named(urls: Any, fields: Any, pairs: Any, missing: Any, images: Any, frames: Any) -> Any:
    """The address that dicts of folders, pairs=, images= and frames= stand for; other data as it is."""
    if pairs is not None:
        _options.flag("pairs", pairs)
    if _options.flag("frames", frames):
        if pairs or missing is not None or images is not None:
            invalid("frames=True is for a folder whose folders of numbered pictures are clips: leave pairs=, missing= and images= out")
        return _pairs.frames(urls)
    found = _pairs.folders(urls, missing) if images is None else _pairs.coco(urls, images)
    if found is None and (pairs or pairs is None and _pairs.implied(urls, fields)):
        found = _pairs.one(urls, missing)
    if found is None and missing is not None:
        invalid('missing= is for pairs: stoker.open({"image": "images/", "mask": "masks/"}, missing="drop"), or pairs=True')
    return urls if found is None else found


def _satisfying(core: _stoker.Dataset, where: Any, rows: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """The numbers of the samples that satisfy a condition, in order; of `rows` only."""
    if not isinstance(where, str):
        invalid(f"where is a condition as text, like \"width >= 300\", not {shown(where)}")
    import numpy as np
    ids = np.frombuffer(core.where(where), np.uint64)
    if rows is not None:
        ids = rows[np.isin(rows, ids)]
    if not len(ids):
        invalid(f"where: no sample satisfies {shown(where)}")
    return ids


class Dataset(Whole):
    """Shards and their index, from stoker.open().  Samples are dicts; see open()."""

    _runs = b""                                 # of a table: rows at which runs begin that are read in order, as u64

    def __init__(self, urls: Urls | Arrays, fields: Mapping[str, Any] | None = None,
                 classes: list[str] | None = None, columns: list[str] | None = None, jpeg: bool = False,
                 dtype: Any = None, shape: tuple[int, ...] | None = None, reindex: str | None = None,
                 store: Store | None = None, salvage: bool = False, where: str | None = None,
                 encoding: str | None = None, null: int | None = None, skip_damaged: bool = False,
                 pairs: bool | None = None, missing: str | None = None, images: Any = None,
                 frames: bool = False) -> None:
        urls = _named(urls, fields, pairs, missing, images, frames)
        found = _options.url_bytes(urls)
        table = found is None and _arrow.is_table(urls)
        if found is None and not table and not isinstance(urls, Mapping):
            invalid(f"a data set is opened by a path, a pattern or a list of them, a dict of arrays, or "
                    f"an Arrow table, not {shown(urls)}")
        self._urls: Any = urls if table else found or dict(urls)
        self._rows = None                       # of a table: those that are left of it
        self._raw = dtype, shape
        self._fields = None if fields is None else dict(fields)
        self._fixed = _options.class_bytes(classes)
        self._wanted = _options.column_bytes(columns)
        self._jpeg = _options.flag("jpeg", jpeg)
        if reindex not in (None, "auto"):
            invalid(f'reindex must be "auto" or None, not {shown(reindex)}')
        self._reindex = reindex
        self._store = store
        self._salvage = _options.flag("salvage", salvage)
        self._encoding = encoding
        self._null = None if null is None else _options.whole("null", null, -2**63, 2**63 - 1)
        self._skip_damaged = skip_damaged       # Loader(on_error="skip")
        if table:
            if classes is not None or columns is not None or dtype is not None or shape is not None or jpeg:
                invalid("classes=, columns=, dtype=, shape= and jpeg= don't go with an Arrow table")
            capsule, self._rows = _arrow.stream(urls)
            self._core = _stoker.from_arrow(capsule, self._null, self._runs)
        elif found is None:
            if classes is not None or columns is not None or dtype is not None or shape is not None:
                invalid("classes=, columns=, dtype= and shape= don't go with a dict of arrays")
            self._core = _join.join(self._urls, _store.core(store))
        else:
            self._core = _stoker.Dataset(found, self._fixed or [], self._wanted, self._jpeg,
                                         *_join.raw(dtype, shape), reindex=reindex == "auto",
                                         store=_store.core(store), salvage=self._salvage,
                                         skip_damaged=skip_damaged, encoding=_options.code_points(encoding), null=self._null)
        self._where = where
        self._ids = self._rows if where is None else _satisfying(self._core, where, self._rows)
        self._types: list[tuple[str, str, tuple[int, ...]]] | None = None
        self._decoder: _Decoder | None = None
        self._epoch = 0
        if self._fields is not None or self._core.kind():
            self._decode()

    def _decode(self) -> _Decoder | None:
        """What turns samples into values, in this process; None: they are given as bytes."""
        if self._fields is None and not (self._core.kind() and len(self._core)):
            return None
        if self._decoder is None or self._decoder.pid != os.getpid():   # it came here through fork
            fields = self._fields
            if fields is None:
                fields = _options.stored(self._core.fields())
            self._decoder = _Decoder(self._core, fields)
        return self._decoder

    @property
    def fields(self) -> list[str]:
        """Names of the fields that occur in the shards."""
        return self._core.fields()

    @property
    def classes(self) -> list[str]:
        """What the numbers in the field cls mean: a folder's classes, or classes.txt beside shards."""
        names = self._core.classes()
        if not names and self.shards and not self.shards[0].endswith("/"):
            names = self._classes_beside(self.shards[0]).decode("utf-8", "surrogateescape").split("\n")[:-1]
        return names

    def _classes_beside(self, shard: str) -> bytes:
        """classes.txt, as pack() writes it; nothing where it is not there, or can't be read."""
        with contextlib.suppress(OSError, StokerError):
            if "://" in shard:
                return _stoker.object_read(os.fsencode(shard.rsplit("/", 1)[0] + "/classes.txt"), _store.core(self._store)) or b""
            return Path(shard).with_name("classes.txt").read_bytes()
        return b""

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Folders of pictures: class -> number."""
        return {name: i for i, name in enumerate(self.classes)}

    @property
    def columns(self) -> dict[str, np.dtype[Any]]:
        """Typed columns that are available: name -> dtype (text is object; int64 where some samples have no
        value comes as float64)."""
        import numpy as np          # here: importing stoker does not import it
        return {name: np.dtype(_DTYPES[kind]) for name, kind in self._core.columns()}

    def column(self, name: str, read: bool = False) -> np.ndarray[Any, Any]:
        """The values of a column, one a sample: int64, float64, or an object array of str.

        name: a field ("cls") or a member of a JSON field ("json.width")
        read: if the index has no such column, read all samples for it, in parallel; without it,
            that is an error: `stoker index --columns cls DATA` puts it there

        A sample without a value has NaN, and integers are float64 then; a text is None.
        """
        if not isinstance(name, (str, bytes)) or "\0" in os.fsdecode(name):
            invalid(f"a column is called by its name, like \"cls\", not {shown(name)}")
        import numpy as np
        kind, values = self._core.column(os.fsencode(name), bool(read))
        if isinstance(values, list):
            out = np.empty(len(values), dtype=object)
            out[:] = values
        else:
            out = np.frombuffer(values, dtype=_DTYPES[kind])
        return out if self._ids is None else out[self._ids]

    @property
    def shards(self) -> list[str]:
        """The shards, in order."""
        return self._core.shards()

    @property
    def index_path(self) -> str:
        """Where the index is stored; "" if in memory only."""
        return self._core.index_path()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The index as an Arrow stream, one row per sample: sample, key, shard, offset, size, and the
        typed columns.  pyarrow.table(ds), DuckDB and Polars read it; no shard is touched."""
        return self._core.arrow()

    def __len__(self) -> int:
        if self._ids is not None:
            return len(self._ids)
        decoder = self._decoder                 # windows of tokens are counted by their chain
        return len(self._core) if decoder is None else decoder.samples

    @property
    def epoch(self) -> int:
        """The epoch whose draws samples have; see set_epoch()."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Random steps of `fields` draw for this epoch from now on: sample i is what an unshuffled loader with seed
        0 has at position i.  Within an epoch a sample is the same each time.  Processes that hold a copy, as the workers
        of a DataLoader do, keep theirs: call it before they start, or there."""
        self._epoch = _options.whole("epoch", epoch, 0, 2**32 - 1)

    def _number(self, key: str) -> int:
        """The number of the sample with this key."""
        if self._core.kind():
            invalid(f"rows of arrays have numbers and no keys: there is no sample {shown(key)}")
        raw = _stoker.find_keys((self._core,), [key.encode("utf-8", "surrogateescape")])
        found = memoryview(raw).cast("Q")[1::2].tolist()
        if not found:
            raise MissingKeyError(f"no sample has the key {shown(key)}; ds[0][\"__key__\"] shows what keys look like",
                                  "ENOTFOUND")
        if len(found) > 1:
            invalid(f"{len(found)} samples have the key {shown(key)}, the first are {min(found)} and "
                    f"{sorted(found)[1]}: take one by its number")
        if self._ids is None:
            return found[0]
        at = (self._ids == found[0]).nonzero()[0]       # rows of a table that was shuffled are in any order
        if not len(at):
            why = "is not among the rows that are left of the table" if self._where is None else f"does not satisfy {shown(self._where)}"
            raise MissingKeyError(f"the sample {shown(key)} {why}", "ENOTFOUND")
        return int(at[0])

    @overload
    def __getitem__(self, i: int | str) -> dict[str, Any]: ...  # type: ignore[overload-overlap]
    @overload
    def __getitem__(self, i: slice | Sequence[int | str]) -> list[dict[str, Any]]: ...
    def __getitem__(self, i: Any) -> Any:
        """A sample by its number or its key; a slice, or a list or array of numbers and keys: a list of samples."""
        n = len(self)
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(n))]
        if isinstance(i, (list, range)) or getattr(i, "ndim", 0) == 1 and hasattr(i, "tolist"):
            return self._several(i if isinstance(i, (list, range)) else i.tolist())
        if isinstance(i, str):
            i = self._number(i)
        try:
            at = operator.index(i)
        except TypeError:
            raise TypeError(f"a sample is named by its number or its key, not {shown(i)}") from None
        if not -n <= at < n:
            raise IndexError(f"sample {shown(at)} of {n}"[:200])
        at %= n
        return self._at(at if self._ids is None else int(self._ids[at]))

    def _several(self, names: Sequence[Any]) -> list[dict[str, Any]]:
        if any(isinstance(k, bool) for k in names):
            raise TypeError("a list of True and False names no samples: give numpy.flatnonzero(mask), or select=mask to a loader")
        return [self[k] for k in names]

    def _at(self, at: int) -> dict[str, Any]:
        """A sample by its number in the whole data, of which this may be a part."""
        decoder = self._decode()
        return self._typed(self._core.read(at)) if decoder is None else decoder.sample(self._epoch, at)

    def _typed(self, sample: dict[str, Any]) -> dict[str, Any]:
        """Numbers and texts where a field has a type: columns of tables."""
        if self._types is None:
            self._types = [(name, _NUMPY.get(dtype, ""), shape) for name, dtype, shape in self._core.types() if dtype]
        for name, dtype, shape in self._types:
            raw = sample.get(name)
            if raw is not None and not dtype:
                text = raw.decode("utf-8", "surrogateescape")
                sample[name] = json.loads(text) if shape else text
            elif raw is not None:
                import numpy
                values = numpy.frombuffer(raw, dtype)
                sample[name] = values.reshape(shape).copy() if shape else values[0].item()
        return sample

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[i] for i in range(len(self)))

    def _whole(self) -> Dataset:
        """The same without its condition."""
        make, arguments, state = self.__reduce__()
        made: Dataset = make(*arguments[:-1])
        made.__dict__.update(state)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Dataset, (self._urls, self._fields, self._fixed, self._wanted or None, self._jpeg,
                         *self._raw, self._reindex, self._store, self._salvage, self._where, self._encoding, self._null, self._skip_damaged), {"_epoch": self._epoch}

    def __repr__(self) -> str:
        return (f"stoker.Dataset({len(self)} samples in {len(self.shards)} shards: "
                f"{printable(', '.join(self.fields))})")


def open(urls: Urls | Arrays, fields: Mapping[str, Any] | None = None,  # noqa: A001
         classes: list[str] | None = None, columns: list[str] | None = None, jpeg: bool = False,
         dtype: Any = None, shape: tuple[int, ...] | None = None, reindex: str | None = None,
         store: Store | None = None, salvage: bool = False, where: str | None = None, encoding: str | None = None,
         null: int | None = None, pairs: bool | None = None, missing: str | None = None, images: Any = None,
         windows: Windows | None = None, frames: bool = False) -> Dataset:
    """Open shards for access by number (ds[7]), by key (ds["n01440764_36"]) or by slice (ds[:3]); they are indexed first if they are not.

    urls: a path, a glob, a brace pattern or a folder (of shards, else of pictures), or a list of
        them (a pathlib.Path is taken as it stands, patterns are strings); token files and arrays (.bin, .npy, .npz); or a dict: field -> array, or files of it; or an Arrow table
        (Hugging Face's Dataset, anything with __arrow_c_stream__), which is read in place; or a dict of folders,
        {"image": "images/", "mask": "masks/"}: files of one name are one sample
    fields: None: ds[i] is {"__key__", "__url__", field: bytes, ...}; of a table columns of numbers and texts are such;
        output name -> chain, as for Loader: ds[i] is {"__key__", output: decoded value, ...}; random steps
        draw for the epoch of ds.set_epoch(), 0 at first, so ds[i] is the same until that changes

    classes: folders of pictures: the classes, number 0 first; another one in the folder is an
        error.  None: the subdirectories, sorted, as ImageFolder numbers them
    columns: values of every sample to keep in the index, for Dataset.column(): fields ("cls") or
        members of JSON fields ("json.width"); those that it lacks are read now, once
    dtype, shape: of files of numbers without a header: their type ("u16", "f32"), and the shape of a
        row where it is more than one number

    reindex: "auto": where pictures were only added to a folder since it was indexed, index it again; None: that
        is an error.  Files that were removed, renamed or changed, and a new class that would renumber labels,
        stay errors

    pairs: True: files of one name in one folder, 1.jpg beside 1.png, are one sample, and their suffixes are its fields;
        None: where `fields` name pictures of different kinds, from(jpg) and from(png)
    images: of COCO's annotation files (instances_train2017.json): the folder of their pictures; None: beside them, or as COCO has it
    frames: True: a folder whose folders of numbered pictures (clip/000001.jpg, ...) are clips: a sample each, for chains of `video` (docs/video.md)
    missing: of pairs: "error" where a name lacks a file, "drop" such names, or "keep" them as they are

    store: a stoker.Store: how remote data is reached; None: as the environment says (docs/stores.md)

    where: only samples that satisfy a condition on columns, as SQL writes it ("width >= 300 AND label IN (1, 2)");
        they are numbered 0, 1, ..., also for len() and column(); a loader over the data set takes these (docs/tables.md)

    salvage: of a shard that is torn take the samples before the tear, and log where it is; of JSON lines and CSV
        leave damaged lines out, and log how many; False: they are errors.  The index then stays in memory

    null: of lists of whole numbers in Parquet and Arrow: what stands for a null in them; None: such a list is a bad sample
        (lists of floats have NaN there)

    encoding: of CSV files that are not UTF-8: "cp1252", "latin-1" or another name of one byte per character

    jpeg: keep seek points of JPEGs beside the index, so that a loader decodes a crop without what is
        before it; those that are missing are made now, once (docs/jpeg.md)

    windows: of videos: clips one after another as samples, stoker.Windows(frames=16, stride=4, step=32); chains that begin with
        `video` have their frames (docs/video.md); of recordings: stoker.Windows(seconds=15), chains that begin with `sound`

    The data set pickles by its names and works in forked and spawned DataLoader workers.
    """
    if windows is not None:
        if frames:
            invalid("windows= is for video files: of folders of frames draw clips with video(frames=16, start=random)")
        from . import _windows                  # which imports this file
        return _windows.WindowsOf(urls, windows, fields, store)
    return Dataset(urls, fields, classes, columns, jpeg, dtype, shape, reindex, store, salvage, where, encoding, null,
                   pairs=pairs, missing=missing, images=images, frames=frames)
