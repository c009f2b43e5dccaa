# SPDX-License-Identifier: Apache-2.0
"""pack(): a data set into tar shards, as it is, through chains, or through Python functions.

The C library copies and runs chains; _pack_map.py runs functions; _pack_ray.py spreads shards over a Ray cluster.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from . import _arrow, _options, _pack_bucket, _pack_map, _pack_pool, _stoker, _video_gop
from . import store as _store
from ._pack_tokens import Tokens
from .chains import Chain
from .dataset import Dataset, Urls
from .errors import invalid, not_a_chain
from .store import Store

_DEFAULT_BYTES = 500_000_000
Function = Callable[[dict[str, Any]], Any]


def pack(src: Urls | Dataset, dst: str | os.PathLike[str], map: Function | None = None,  # noqa: A002
         num_proc: int | None = None, *, fields: Mapping[str, Any] | None = None,
         flat_map: Function | None = None, filter: Function | None = None,  # noqa: A002
         samples: int | None = None, bytes: int | str | None = None,  # noqa: A002
         shuffle: int | bool | None = None, force: bool = False, name: str = "shard", index: bool = True,
         jpeg: bool = False, exclude: str | os.PathLike[str] | None = None, where: str | None = None, fraction: float | None = None,
         dedup: str | None = None, balance: str | None = None, split: Mapping[str, float] | None = None, select: Any = None, only: str | None = None,
         tokenize: Function | Tokens | None = None, compress: str | None = None, arrays: bool = False, engine: str | None = None, on_error: str = "raise", timeout: float | None = None, video_gop: int | None = None,
         store: Store | None = None) -> dict[str, Any]:
    """Write data as tar shards; answers {"shards", "samples", "bytes", "pattern", "failed", ...}.

    src: what stoker.open() takes, or what it gave
    dst: a folder, or a path with a number in it: "out/train-%06d.tar"; also s3://, gs:// and az:// (docs/stores.md)
    map: a function from a sample ({"__key__", field: bytes}) to a sample, a list of samples, or None
        to drop it; values as for Writer.  Runs in num_proc processes
    flat_map: in place of map: a function that gives any number of samples
    filter: a function that says whether a sample is kept
    num_proc: processes with functions, threads without; None: the cores there are
    fields: chains that make fields, each ending in encode(): {"jpg": "image | resize(256) | encode(jpeg, 90)"};
        None leaves the field out, other fields are copied.  A sample that can't be made is left out and listed
    samples, bytes: size of a shard (bytes of the source, also as "1GB"); neither: about 500 MB
    shuffle: a seed: write the samples in that permuted order
    force: replace shards of that name, and remove those beyond the last
    name: of the shards, where dst is a folder
    index: index the new shards
    jpeg: also keep seek points of JPEGs beside the index (docs/jpeg.md)
    exclude: a file that names samples to leave out, as `stoker check --write-exclude` writes it
    where: a condition on columns: "width >= 256 AND score > 0.3" (docs/tables.md)
    fraction: take so much of the data, by a hash of the key
    dedup: "exact": of samples whose fields have equal bytes the first; "near": of pictures that look alike too;
        "exact:txt": by one field
    balance: a field that says the class: as many samples of each as the smallest has; "cls:1000": at most 1,000
    split: {"train": 0.9, "val": 0.1}: several sets by a hash of the key, shards called train-000000.tar; answers
        a dict of what was done for each
    select: ids of samples, in the order in which they are written
    only: "failed": make the samples again that an earlier run of this could not make
    tokenize: a function from text to tokens, or a stoker.Tokens: write token files (NAME-000000.bin and .idx, a document per
        sample) in place of tar shards; after map, flat_map and filter
    compress: "gz", "zstd" or "lz4": shards are compressed, in frames of whole samples, zstd in its seekable format, and called
        NAME-000000.tar.gz, .tar.zst or .tar.lz4; None: as the name in dst says.  They get no index of their own
    arrays: write the fields that chains make (without encode() at their end) as arrays in place of tar shards: DST/FIELD-000000.npy,
        one row per sample; rows of a field have one type and shape
    engine: "ray": shards are made by tasks of a Ray cluster, also those of functions (docs/prepare.md)
    on_error: of functions: "raise", or "skip": a sample for which they raise is left out and listed
    timeout: of functions: so many seconds for one sample; longer is an error of that sample
    video_gop: fields that are videos are encoded again with a keyframe every so many frames, by the ffmpeg program, in num_proc
        processes; frames keep their number and times, sound is copied, and videos with nearer keyframes stay as they are
    store: a stoker.Store: how src and dst are reached where they are remote; None: as the environment says.  A src that is open
        keeps its own

    Shards appear whole or not at all.  A target that has this content already is left alone, and a run that was
    stopped goes on.
    """
    if split is not None:
        return {part: pack(src, dst, map, num_proc, fields=fields, flat_map=flat_map, filter=filter, samples=samples,
                           bytes=bytes, shuffle=shuffle, force=force, name=part, index=index, jpeg=jpeg,
                           exclude=exclude, where=where, fraction=fraction, dedup=dedup, balance=balance,
                           select=_Part(select, *span), only=only, tokenize=tokenize, compress=compress, arrays=arrays, engine=engine, on_error=on_error, timeout=timeout, video_gop=video_gop, store=store)
                for part, span in _spans(split, name).items()}
    _store.core(store)
    data = src if isinstance(src, Dataset) else Dataset(src, store=store)
    select = _of_whole(data, select)
    if data._where is not None:
        where = data._where if where is None else f"({data._where}) AND ({where})"
        data = data._whole()
    count = 0 if samples is None else _options.whole("samples", samples, 1, 2**63 - 1)
    size = _options.byte_count("bytes", bytes)
    seed = None if shuffle is None or shuffle is False else _seed(shuffle)
    workers = 0 if num_proc is None else _options.whole("num_proc", num_proc, 1, 256)
    path, force = os.fspath(dst), _options.flag("force", force)
    if not isinstance(path, str) or "\0" in path or not name or "/" in name or "\0" in name:
        invalid("dst is a path of text, and name the beginning of a file's name")
    index, jpeg = _options.flag("index", index), _options.flag("jpeg", jpeg)
    if jpeg and not index:
        invalid("seek points of JPEGs are kept beside the index: index=True, or jpeg=False")
    if only not in (None, "failed"):
        invalid(f'only is "failed" or None, not {only!r}')
    if engine not in (None, "ray"):
        invalid(f'engine is "ray" or None, not {engine!r}')
    packed = _packed(compress, path)
    if packed and jpeg:
        invalid("seek points of JPEGs are for shards that are read in place: jpeg=False, or no compress")
    tokens: Any = Tokens(tokenize) if tokenize is not None and not isinstance(tokenize, Tokens) else tokenize
    if tokens is not None and compress is not None:
        invalid("token files are mapped as they are: tokenize goes without compress")
    if video_gop is not None:
        map = _short_groups(video_gop, (map, flat_map, fields, tokenize))
    functions = _functions(filter, map, flat_map, timeout, on_error, tokens)
    if functions is not None and arrays:
        invalid("arrays are made by chains: map, flat_map, filter and tokenize go without arrays; pack twice")
    if functions is not None and fields is not None:
        invalid("map, flat_map, filter and tokenize go without fields: pack twice, or call the chain's ops there")
    keep = (select.low, select.high) if isinstance(select, _Part) else (0.0, 0.0)
    arguments: dict[str, Any] = {
        **_AS_IT_IS, "dst": os.fsencode(path), "samples": count, "bytes": size, "shuffle": seed is not None, "seed": seed or 0,
        "name": os.fsencode(name), "force": force, "index": index, "jpeg": jpeg, "num_proc": workers,
        "fields": _chains(fields), "select": _ids(select.ids if isinstance(select, _Part) else select),
        "exclude": None if exclude is None else os.fspath(exclude), "fraction": _fraction(fraction), "keep": keep,
        "only_failed": only is not None,
        "where": _text("where", where, 'a condition as text, like "width >= 300"'),
        "compress": compress, "arrays": _options.flag("arrays", arrays), "dedup": _text("dedup", dedup, '"exact" or "near"'), "balance": _text("balance", balance, "the name of a field"), "store": store}
    if functions is None and engine is None:
        return written(data, arguments)
    from . import _pack_ray
    if functions is None:
        return _pack_ray.pack(data, arguments)
    kind = ".tar" + packed if tokens is None else ".bin"
    if only is not None:        # the list beside the shards says which samples; what is made of them has names of its own
        shape = path if "%" in path else f"{path.rstrip('/')}/{name}-%06d{kind}"
        arguments["dst"] = os.fsencode(shape)
        path = os.path.join(os.path.dirname(shape), os.path.basename(shape).replace("%", "again-%", 1))
    chosen, counts = _stoker.pack_ids(dataset=data._core, **{**arguments, "store": _store.core(store)})
    ids = memoryview(chosen).cast("Q")
    total = data._core.print()[0]
    run = count or max(1, len(data._core) * (size or _DEFAULT_BYTES) // max(1, total))
    target = _pack_bucket.Bucket(path, name, force, kind, store) if "://" in path else _pack_map.Target(path, name, force, kind)
    arguments["bytes"], arguments["compress"] = size or (0 if count else _DEFAULT_BYTES), _NAMES.get(packed)
    job = _pack_map.Job(data, ids, run, functions, counts["fingerprint"], arguments)
    done = _pack_map.fill(target, job, _pack_ray.work if engine else _pack_pool.in_processes(workers or os.cpu_count() or 1))
    done["left_out"], done["dropped"] = counts["left_out"], {**counts["dropped"], "functions": done.pop("dropped")}
    paths = done.pop("paths")
    if index and paths and tokens is None and not packed:
        target.index(paths, jpeg)
    return done


_AS_IT_IS: dict[str, Any] = {
    "dst": b".", "samples": 0, "bytes": 0, "shuffle": False, "seed": 0, "name": b"shard", "force": False, "index": True, "jpeg": False,
    "num_proc": 0, "fields": (), "select": None, "exclude": None, "fraction": 0.0, "keep": (0.0, 0.0), "part": 0, "parts": 0,
    "merge": False, "plan_only": False, "only_failed": False, "where": None, "compress": None, "arrays": False, "dedup": None,
    "balance": None, "store": None}


def source_fingerprint(data: Dataset) -> int:
    """What the data is, by its files and their index; of a table in memory by its content."""
    select = data._rows if _arrow.is_table(data._urls) else _ids(())
    return int(_stoker.pack_ids(dataset=data._core, **{**_AS_IT_IS, "select": select})[1]["fingerprint"])


def written(data: Dataset, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """By the library; arguments can be pickled: the store is a Store."""
    return _stoker.pack(dataset=data._core, **{**arguments, "store": _store.core(arguments["store"])})


_SUFFIXES = {"gz": ".gz", "zstd": ".zst", "lz4": ".lz4"}
_NAMES = {suffix: name for name, suffix in _SUFFIXES.items()}


def _packed(compress: str | None, path: str) -> str:
    """What comes after .tar in the names of shards."""
    if compress is not None:
        if not isinstance(compress, str) or compress not in _SUFFIXES:
            invalid(f'compress is "gz", "zstd" or "lz4", not {compress!r}')
        return _SUFFIXES[compress]
    return next((s for s in _SUFFIXES.values() if "%" in path and path.endswith(".tar" + s)), "")


class _Part:
    """A part of a split: of these ids those whose hash is in the range."""

    def __init__(self, ids: Any, low: float, high: float) -> None:
        self.ids, self.low, self.high = ids, low, high


def _of_whole(data: Dataset, select: Any) -> Any:
    """Ids of the whole data: where `data` is a part of it, select= names samples by their numbers in that."""
    if isinstance(select, _Part):
        return _Part(_of_whole(data, select.ids), select.low, select.high)
    if select is None:
        return data._rows
    ids = _ids(select)
    if data._ids is None:
        return ids
    if len(ids) and max(ids) >= len(data):
        invalid(f"select: there is no sample {max(ids)}, the data has {len(data)}")
    import numpy as np
    return data._ids[np.frombuffer(ids, np.uint64)] if len(ids) else ids


def _spans(split: Mapping[str, float], name: str) -> dict[str, tuple[float, float]]:
    if not isinstance(split, Mapping) or not split or name != "shard":
        invalid('split is a dict, as {"train": 0.9, "val": 0.1}, and names the shards: leave name away')
    spans, at = {}, 0.0
    for part, share in split.items():
        if not isinstance(part, str) or not isinstance(share, (int, float)) or not 0 < share <= 1:
            invalid(f"split: the part {part!r} has a share above 0 and up to 1, not {share!r}")
        spans[part] = at, 1.0 if abs(at + share - 1) < 1e-9 else at + share
        at += share
    if at > 1 + 1e-9:
        invalid(f"split: the parts are {at:g} together, more than 1")
    return spans


def _short_groups(gop: Any, others: tuple[Any, ...]) -> Function:
    if any(given is not None for given in others):
        invalid("video_gop goes without map, flat_map, fields and tokenize: pack twice")
    return _video_gop.ShortGroups(_options.whole("video_gop", gop, 1, 1000))


def _functions(keep: Any, change: Any, flat: Any, timeout: Any, on_error: str, tokens: Tokens | None) -> _pack_map.Functions | None:
    for what, fn in (("filter", keep), ("map", change), ("flat_map", flat)):
        if fn is not None and not callable(fn):
            invalid(f"{what} must be a function, not {fn!r}")
    if change is not None and flat is not None:
        invalid("map and flat_map: give one of them")
    if on_error not in ("raise", "skip"):
        invalid(f'on_error is "raise" or "skip", not {on_error!r}')
    if timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0):
        invalid(f"timeout is a number of seconds above 0, not {timeout!r}")
    if keep is None and change is None and flat is None and tokens is None:
        if timeout is not None or on_error != "raise":
            invalid("on_error and timeout are for map, flat_map, filter and tokenize")
        return None
    return _pack_map.Functions(keep, change, flat, timeout, on_error == "skip", tokens)


def _chains(fields: Mapping[str, Any] | None) -> tuple[tuple[bytes, bytes], ...]:
    if fields is None:
        return ()
    if not isinstance(fields, Mapping) or not fields:
        invalid('fields is a dict, as {"jpg": "image | resize(256) | encode(jpeg, 90)"}')
    made = []
    for name, chain in fields.items():
        if not isinstance(name, str) or not (chain is None or isinstance(chain, (str, Chain))):
            invalid(f"fields: {name!r} needs a chain or None, not {not_a_chain(chain)}")
        made.append((name.encode(), b"" if chain is None else str(chain).encode()))
    return tuple(made)


def _ids(select: Any) -> Any:
    if select is None:
        return None
    import array
    if isinstance(select, array.array) and select.typecode == "Q":
        return select
    try:
        return array.array("Q", select)
    except (TypeError, ValueError, OverflowError):
        invalid(f"select is a list of sample ids, not {type(select).__name__}")


def _text(name: str, value: str | None, what: str) -> str | None:
    if value is not None and (not isinstance(value, str) or not value or "\0" in value):
        invalid(f"{name} is {what}, not {value if value == '' else type(value).__name__!r}")
    return value


def _fraction(value: float | None) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1:
        invalid(f"fraction is a number above 0 and up to 1, not {value!r}")
    return float(value)


def _seed(value: int | bool) -> int:
    return 0 if value is True else _options.whole("shuffle", value, 0, 2**63 - 1)
