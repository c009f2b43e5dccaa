# SPDX-License-Identifier: Apache-2.0
"""Checks of Loader's arguments; each answers what the extension takes or raises a StokerError."""

from __future__ import annotations

import codecs
import contextlib
import inspect
import json
import operator
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from . import _ranks, _stoker
from ._arrays import loaded, torch_or_none
from ._hints import loader_hint
from ._seconds import Seconds
from .errors import invalid, nearest, not_a_chain, shown, unsupported


# Of the options that are numbers: the least and the most, from src/loader/options.def.
_RANGES = {name: (_stoker.parse_size(low) or 0, _stoker.parse_size(high) or 0)
           for name, values, *_ in _stoker.options()
           for low, dots, high in [values.partition("..")] if dots}


def whole(name: str, value: Any, least: int, most: int = 2**31 - 1) -> int:
    """A whole number in [least, most]; NumPy's integers too, but no bool and no float."""
    try:
        number = operator.index(value)
    except TypeError:
        invalid(f"{name} must be a whole number, not {shown(value)}")
    if isinstance(value, bool):
        invalid(f"{name} must be a whole number, not {shown(value)}")
    if not least <= number <= most:
        bound = f"at least {least}" if number < least else f"at most {most}"
        invalid(f"{name} must be {bound}, not {shown(number)}")
    return number


def number(name: str, value: Any) -> int:
    """A whole number in the range of the option."""
    return whole(name, value, *_RANGES[name])


_ARRAYS = {"data", "select", "weights", "balance", "stratify", "lengths", "exclude", "classes", "shape", "mesh"}


def screen(given: Mapping[str, Any]) -> None:
    """What no argument takes, and what the checks could not even compare or quote."""
    for name, value in given.items():
        if isinstance(value, int) and value.bit_length() > 128:
            invalid(f"{name} must be at most {2**64 - 1}, and is a number of {value.bit_length():,} bits")
        if name not in _ARRAYS and hasattr(value, "__array__") and getattr(value, "ndim", False):
            invalid(f"{name} is one value, not an array of {value.ndim} dimension{'s' * (value.ndim > 1)}")


def or_chosen(name: str, value: Any) -> int:
    """0 (the library chooses, or there is no bound) for None."""
    least, most = _RANGES[name]
    return 0 if value is None else whole(name, value, max(least, 1), most)


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        invalid(f"{name} must be True or False, not {shown(value)}")
    return value


def byte_count(name: str, value: Any) -> int:
    """Bytes from 2000000000, "2GB" (powers of 1,000) or "1.5GiB" (of 1,024); None: 0."""
    if value is None:
        return 0
    if not isinstance(value, str):
        return whole(name, value, 1, _SIZE_MOST)
    count = _stoker.parse_size(value.strip()) if "\0" not in value else None
    if count is None or not 0 < count <= _SIZE_MOST:
        invalid(f'{name} must be bytes, as 2000000000, "2GB" or "1.5GiB", not {shown(value)}')
    return count


_SIZE_MOST = _RANGES["memory_limit"][1]         # of every size


def workers(value: Any) -> int:
    """num_workers as the C option: 0 chosen, -1 none."""
    return 0 if value is None else number("num_workers", value) or -1


def words(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as the library reads them; 0 and None are its defaults and are left out."""
    given = {**options, "shuffle": SHUFFLES[options.get("shuffle", 0)]}
    if given.get("num_workers") == -1:
        given["num_workers"] = "0"
    return {name: "yes" if value is True else str(value) for name, value in given.items() if value}


SHUFFLES = ("none", "exact", "block", "megatron")   # stk_shuffle


def shuffle_kind(value: Any) -> int:
    if value is True or value == "exact":
        return 1
    if value is False or value is None:
        return 0
    if value in SHUFFLES[2:]:
        return SHUFFLES.index(value)
    invalid(f'shuffle must be True, "exact", "block", "megatron" or False, not {shown(value)}')


def blocks(shuffle: int, streams: Any, window: Any) -> dict[str, int]:
    """streams=, window= in samples or in bytes (the other 0) as the extension takes them."""
    if shuffle != 2 and (streams is not None or window is not None):
        invalid('streams= and window= belong to shuffle="block"')
    count = or_chosen("streams", streams)
    if count & (count - 1):
        below = 1 << count.bit_length() - 1
        invalid(f"streams must be a power of two: {below} or {2 * below}, not {count}")
    text = isinstance(window, str)
    return {"streams": count,
            "window": 0 if text else or_chosen("window", window),
            "window_bytes": byte_count("window", window) if text else 0}


def skip_policy(value: Any) -> tuple[bool, int]:
    """(skip, budget); a budget of 0 is no bound."""
    if value == "raise":
        return False, 0
    if value == "skip":
        return True, 0
    if isinstance(value, Mapping) and list(value) == ["skip"]:
        return True, whole('on_error={"skip": n}', value["skip"], 1, _RANGES["skip_budget"][1])
    invalid(f'on_error must be "raise", "skip" or {{"skip": budget}}, not {shown(value)}')


_COLLATE = {"stack": 0, "list": 1, "pad": 2, "pack": 3}


def _collation(what: str, value: Any) -> tuple[int, float, int]:
    """(stk_collate, pad value, multiple) from "pad", ("pad", -100) or ("pad", -100, 64)."""
    parts = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    name = "stack" if not parts or parts[0] is None else parts[0]
    if (not isinstance(name, str) or name not in _COLLATE or not 1 <= len(parts) <= 3
            or (len(parts) > 1 and name != "pad")):
        invalid(f'{what} must be "stack", "list", "pad", "pack", ("pad", value) or ("pad", value, multiple), '
                f"not {shown(value)}")
    pad = parts[1] if len(parts) > 1 else 0
    multiple = whole(f"{what}: the multiple", parts[2], 1, 1 << 24) if len(parts) > 2 else 0
    try:
        return _COLLATE[name], float(pad), multiple
    except (TypeError, ValueError, OverflowError):
        invalid(f"{what}: the pad value must be a number, not {shown(pad)}")


def collations(value: Any, names: list[str]) -> list[tuple[int, float, int]]:
    """One for each output: `value` is one for all of them, or a dict by name."""
    if not isinstance(value, Mapping):
        return [_collation("collate", value)] * len(names)
    for name in value:
        if name not in names:
            invalid(f"collate: there is no output {name!r}{nearest(str(name), names)}")
    return [_collation(f"collate[{name!r}]", value.get(name)) for name in names]


@contextlib.contextmanager
def exclude_file(value: Any) -> Iterator[bytes | None]:
    """The path of a manifest; a list of keys becomes one for as long as the loader opens."""
    if value is None or isinstance(value, (str, bytes, os.PathLike)):
        path = None if value is None else os.fsencode(value)
        if path is not None and b"\0" in path:
            invalid("exclude: a path has a null character")
        yield path
        return
    keys = list(value) if isinstance(value, Iterable) and not isinstance(value, Mapping) else [None]
    if not all(isinstance(k, str) for k in keys):
        invalid(f"exclude must be a file or a list of keys, not {shown(value)}")
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as f:
        for key in keys:
            f.write(json.dumps({"key": key}, ensure_ascii=False) + "\n")
        f.flush()
        yield os.fsencode(f.name)


def device_name(value: Any) -> str:
    """As the library takes it: "cpu", "cuda", "cuda:1"; a torch.device too."""
    name = str(value)
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        invalid(f'device must be "cpu", "cuda" or "cuda:N", not {shown(value)}')
    return name


def check_torch(device: str) -> None:
    """Tensors on a GPU need a torch that knows it, where there is one."""
    torch = None if device == "cpu" else torch_or_none()
    if torch is not None and not torch.cuda.is_available():
        unsupported(f'device="{device}": there is a GPU, but torch {torch.__version__} does not see it '
                    f'(torch.cuda.is_available() is False): install its CUDA build, or use device="cpu"')


def device(name: Any, decode: Any, pin: Any, memory: Any, sms: Any, in_flight: Any) -> dict[str, Any]:
    """What the extension takes of the options for a GPU."""
    where = device_name(name)
    if decode not in (None, "gpu", "cpu"):
        invalid(f'decode must be "gpu" or "cpu", not {shown(decode)}')
    given = {"decode": decode, "device_memory_limit": memory, "sm_limit": sms, "in_flight": in_flight}
    for option, value in given.items():
        if where == "cpu" and value is not None and (option, value) != ("decode", "cpu"):
            invalid(f'{option}= is for device="cuda"')
    return {"device": where, "decode": decode,
            "pin_memory": flag("pin_memory", pin) and where == "cpu",
            "device_memory_limit": byte_count("device_memory_limit", memory),
            "sm_limit": or_chosen("sm_limit", sms),
            "in_flight": or_chosen("in_flight", in_flight)}


def cache(name: Any, cache: Any, limit: Any) -> dict[str, Any]:
    """cache= and device_cache_limit= as the extension takes them."""
    if cache not in (None, "device"):
        invalid(f'cache must be "device" or None, not {shown(cache)}')
    if cache and device_name(name) == "cpu":
        invalid('cache="device" is for device="cuda"')
    if limit is not None and not cache:
        invalid('device_cache_limit= is for cache="device"')
    return {"cache": cache, "device_cache_limit": byte_count("device_cache_limit", limit)}


BUCKET = 1 << 16                                # STK_BIN_WINDOW


def seconds(name: str, value: Any, said: str | None = None) -> float:
    """A number of seconds above 0; None: 0."""
    if value is None:
        return 0
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1
    if isinstance(value, (bool, str)) or not 0 < number <= _RANGES[name][1]:
        invalid(f"{said or name} must be a number of seconds above 0, not {shown(value)}")
    return number


def by_length(given: Mapping[str, Any]) -> dict[str, int | float]:
    """max_tokens=, max_seconds= and bucket= as the extension takes them: 0 for none."""
    bucket = given["bucket"]
    window = 0 if bucket is False else BUCKET if bucket is True else or_chosen("bucket", bucket)
    most = given["max_seconds"]
    quadratic = most.quadratic if isinstance(most, Seconds) else None
    return {"max_tokens": or_chosen("max_tokens", given["max_tokens"]), "bucket": window,
            "max_seconds": seconds("max_seconds", most.most if isinstance(most, Seconds) else most),
            "quadratic_duration": seconds("quadratic_duration", quadratic, "Seconds(quadratic=)")}


def schedule(value: Any) -> str | None:
    """schedule= as the extension takes it: "128,256", or "16:576,32:144" with sides of patches."""
    if value is None:
        return None
    try:
        entries = list(value)
    except TypeError:
        entries = []
    if isinstance(value, (str, bytes)) or not entries:
        invalid(f"schedule must be numbers of patches, as (128, 256, 576), or pairs (side of a patch, patches), not {shown(value)}")
    words = []
    for entry in entries:
        pair = entry if isinstance(entry, (list, tuple)) else (entry,)
        if not 1 <= len(pair) <= 2:
            invalid(f"schedule: an entry is a number of patches, or (side of a patch, patches), not {shown(entry)}")
        words.append(":".join(str(whole("schedule", n, 1, 2**24)) for n in pair))
    return ",".join(words)


def bucket_rest(value: Any) -> str | None:
    if value not in (None, "smaller", "drop", "wrap"):
        invalid(f'bucket_rest must be "smaller", "drop" or "wrap", not {shown(value)}')
    return None if value is None else str(value)


def over_budget(value: Any) -> str | None:
    if value not in (None, "bad", "drop", "truncate"):
        invalid(f'over_budget must be "bad", "drop" or "truncate", not {shown(value)}')
    return None if value in (None, "bad") else str(value)


class Left(int):
    """A default that is told from the same number given."""


def share(batch_size: Any, global_batch_size: Any, place: _ranks.Place,
          budget: str | None = None) -> dict[str, int]:
    """batch_size of each rank or global_batch_size of all (the other 0), rank and world_size.
    budget: the option that bounds batches in its place."""
    size, total = 0, 0
    if budget is not None:
        if global_batch_size is not None:
            invalid(f"{budget} says how large a rank's batch is: leave global_batch_size (a batch_size "
                    "bounds its rows)")
        size = 0 if isinstance(batch_size, Left) else number("batch_size", batch_size)
    elif global_batch_size is None:
        size = number("batch_size", batch_size)
    elif not isinstance(batch_size, Left):
        invalid("batch_size is per rank and global_batch_size for all ranks: give one of them")
    else:
        total = or_chosen("global_batch_size", global_batch_size)
    return {"batch_size": size, "global_batch_size": total, "rank": place.rank,
            "world_size": place.world}


def stored(found: list[str]) -> dict[str, str]:
    """Every array as it is stored."""
    quoted = {name: "'" if '"' in name else '"' for name in found}
    return {name: f"from({q}{name}{q})" for name, q in quoted.items()}


def outputs(fields: Any, found: list[str], core: Any, collate: Any = None) -> tuple[tuple[str, str, int, float, int], ...]:
    """(name, chain, collate, pad, multiple) from fields= and collate=; `found` are the fields of the data, `core` has
    their types and says what arrays they are."""
    kind = core.kind()
    if fields is None and kind == "tokens":
        invalid('fields= is missing: token files are cut into windows, for example fields={"input": '
                '"tokens(block=1024)", "label": "tokens(block=1024, shift=1)"}')
    if fields is None and kind:
        fields = stored(found)
    if not isinstance(fields, Mapping) or not fields:
        what = "is missing" if fields is None else f"must be a dict, not {shown(fields)}"
        invalid(f"fields= {what}: the data has {', '.join(found) or 'no fields'}; "
                f"for example fields={_example(found, {name for name, dtype, _ in core.types() if dtype})}")
    pairs = []
    for name, chain in fields.items():
        if not isinstance(name, str) or not name:
            invalid(f"fields: an output's name must be a word, not {shown(name)}")
        text = str(chain)
        if not isinstance(chain, str) and not hasattr(chain, "_calls"):
            invalid(f"fields[{name!r}] must be a chain, as text or built by stoker.image(), "
                    f"not {not_a_chain(chain)}")
        if "\0" in name + text:
            invalid(f"fields[{name!r}] has a null character")
        pairs.append((name, text))
    how = collations(collate, [name for name, _ in pairs])
    return tuple((*pair, *one) for pair, one in zip(pairs, how, strict=True))


def _example(found: list[str], typed: set[str]) -> str:
    pictures = [f for f in found if f in ("image", "jpg", "jpeg", "png", "webp")]
    parts = []
    if pictures:
        parts.append(f'"image": "from({", ".join(pictures)}) | image | resize(256) | center_crop(224)"')
    for name in found:
        if name in ("cls", "id", "index"):
            parts.append(f'"label": "from({name}) | int"')
            break
    if not parts:
        name = found[0] if found else "txt"
        parts.append(f'"{name}": "{f"from({name})" if name in typed else "bytes"}"')
    return "{" + ", ".join(parts) + "}"


def check_unknown(unknown: Mapping[str, Any], takes: Callable[..., Any], python: bool = False) -> None:
    """Raise for the first that `takes` has no parameter for; python: the data is a Python data set."""
    for name in unknown:
        known = [p for p in inspect.signature(takes).parameters if p not in ("self", "unknown")]
        hint = loader_hint(name, python)
        invalid(f"Loader has no argument `{name}`{f': {hint}' if hint else nearest(name, known)}")


def refuse_in_worker() -> None:
    """Every DataLoader worker would read the whole epoch: that repeats data without a word."""
    data = loaded("torch.utils.data")
    if data is not None and data.get_worker_info() is not None:
        unsupported("stoker.Loader inside a DataLoader worker would give every sample once per "
                    "worker: use stoker.Loader in place of the DataLoader, or stoker.open(...) "
                    "as its dataset")


def class_bytes(classes: Any) -> list[bytes] | None:
    """classes= as the extension takes it."""
    return None if classes is None else _name_bytes("classes", "class", classes, "a list of names", least=1)


def column_bytes(columns: Any) -> list[bytes]:
    """columns= as the extension takes it."""
    return [] if columns is None else _name_bytes("columns", "column", columns, 'a list of names, like ["cls", "json.width"]')


def _name_bytes(name: str, one: str, values: Any, what: str, least: int = 0) -> list[bytes]:
    if not isinstance(values, (list, tuple)) or len(values) < least:
        invalid(f"{name} must be {what}, not {shown(values)}")
    if not all(isinstance(v, (str, bytes)) for v in values):
        invalid(f"{name} must be a list of names; one of them is not text")
    names = [os.fsencode(v) for v in values]
    if any(b"\0" in n for n in names):
        invalid(f"a {one} has a null character")
    return names


def _url(u: str | bytes | os.PathLike[Any]) -> bytes:
    """A string is a pattern; a pathlib.Path is the file or folder of that very name."""
    name = os.fsencode(u)
    if isinstance(u, os.PathLike) and re.search(rb"[{}*?\[\\$]|::|^path:", name):
        return b"path:" + name
    return name


def url_bytes(data: Any) -> list[bytes] | None:
    """Paths as the extension takes them; None if `data` is neither a path nor a list of paths."""
    if isinstance(data, (str, bytes, os.PathLike)):
        data = [data]
    if not isinstance(data, (list, tuple)) or not data:
        return None
    if not all(isinstance(u, (str, bytes, os.PathLike)) for u in data):
        return None
    urls = [_url(u) for u in data]
    if any(b"\0" in u for u in urls):
        invalid("a path has a null character")
    return urls


def code_points(encoding: Any) -> list[int] | None:
    """What each of the 256 bytes means in an encoding of one byte per character; -1: nothing."""
    if encoding is None:
        return None
    try:
        reader = codecs.getincrementaldecoder(encoding)
    except (LookupError, TypeError, AttributeError):
        invalid(f'encoding= is the name of an encoding, like "cp1252", not {shown(encoding)}')
    points = []
    for byte in range(256):
        try:
            text = reader().decode(bytes([byte]))
        except UnicodeDecodeError:
            text = None
        points.append(-1 if text is None else ord(text) if len(text) == 1 else -2)
    if points[:128] != list(range(128)) or -2 in points:
        if codecs.lookup(encoding).name in ("utf-8", "utf-8-sig"):
            return None
        invalid(f"encoding={encoding!r}: only encodings of one byte per character that begin as ASCII does; "
                f"make UTF-8 of the file: iconv -f {encoding} -t UTF-8 OLD > NEW")
    return points


def of_files(given: Mapping[str, Any], place: _ranks.Place) -> dict[str, Any]:
    """The arguments of a loader of files as the extension takes them, but for batch_ops."""
    skip_bad, budget = skip_policy(given["on_error"])
    shuffle, local = shuffle_kind(given["shuffle"]), given["ranks_per_node"]
    return {
        **share(given["batch_size"], given["global_batch_size"], place,
                next((name for name in ("max_seconds", "max_tokens") if given[name] is not None), None)),
        **by_length(given),
        "schedule": schedule(given["schedule"]), "bucket_rest": bucket_rest(given["bucket_rest"]),
        "over_budget": over_budget(given["over_budget"]),
        "seed": number("seed", given["seed"]),
        "shuffle": shuffle,
        **blocks(shuffle, given["streams"], given["window"]),
        "ranks_per_node": place.local if local is None else number("ranks_per_node", local),
        "drop_last": flag("drop_last", given["drop_last"]),
        "num_workers": workers(given["num_workers"]),
        **{name: or_chosen(name, given[name]) for name in ("prefetch", "io_threads")},
        **device(*(given[name] for name in ("device", "decode", "pin_memory", "device_memory_limit", "sm_limit", "in_flight"))),
        **cache(given["device"], given["cache"], given["device_cache_limit"]),
        "on_error": "skip" if skip_bad else "raise", "skip_budget": budget,
        "learn_jpeg": flag("learn_jpeg", given["learn_jpeg"]),
        "memory_limit": byte_count("memory_limit", given["memory_limit"]),
        "max_pixels": or_chosen("max_pixels", given["max_pixels"]),
    }
