# SPDX-License-Identifier: Apache-2.0
"""A loader's state: where it stands, and what it is the state of.

Epoch and position are counted over all ranks, so a state is the same on every rank and fits any
number of them.  `data` and `chains` are fingerprints: a state that is taken up with other data or
other chains would go on with something else without a word.  `local` is this rank's own and is
not read back.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import _log, _options
from .errors import invalid, shown

VERSION = 2
_DEEPEST = 8
_BINS = ("bucket", "bucket_rest", "over_budget", "schedule", "max_tokens", "max_seconds", "quadratic_duration", "max_rows", "multiple", "lengths", "bins")
_PARTS = ("epoch", "position", "seed", "order", "data", "chains")


def plain(value: Any, what: str = "the state", depth: int = 0) -> Any:
    """A copy of dicts with names, lists, texts and numbers alone, so that what follows can compare and quote all of it.
    What is under "local" is left out: it is not read back."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, str):
        return str(value)
    if depth == _DEEPEST:
        invalid(f"the state is damaged: {what} has more than {_DEEPEST} levels")
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                invalid(f"the state is damaged: {what} has the key {shown(name)}, which is not text")
        return {str(name): plain(below, f"{what}'s {name}"[:200], depth + 1) for name, below in value.items()
                if depth or name != "local"}
    if isinstance(value, (list, tuple)):
        return [plain(below, what, depth + 1) for below in value]
    try:
        number = operator.index(value)          # NumPy's integers, and a tensor of one
    except Exception:
        invalid(f"the state is damaged: {what} is {_short(value)}")
    if number.bit_length() > 128:
        invalid(f"the state is damaged: {what} is a number of {number.bit_length():,} bits")
    return number


def word(number: int) -> str:
    return f"{number:016x}"


def data_of(core: Any) -> dict[str, Any]:
    """The fingerprint of a loader's data and of what takes part."""
    samples, shards, size, names, content, taken = core.print()
    return {"samples": samples, "shards": shards, "bytes": size, "names": word(names),
            "content": word(content), "taken": word(taken)}


def drawn_of(core: Any, sampling: Mapping[str, Any]) -> dict[str, Any]:
    """How samples are drawn: weights and classes as a fingerprint, under the name of the argument."""
    return {name: word(core.drawn_print()) if value is ... else value for name, value in sampling.items()}


def chains_of(core: Any, names: list[str]) -> dict[str, str]:
    return {name: word(core.chain_print(i)) for i, name in enumerate(names)}


def old_chains_of(core: Any, names: Iterable[str]) -> dict[str, str]:
    """The fingerprints of chains whose pictures had color converted after sampling: no version since 0.1 makes them."""
    return {name: word(core.chain_old_print(i)) for i, name in enumerate(names)}


def _short(value: Any) -> str:
    text = shown(value)
    return text if len(text) <= 120 else f"{text[:116]} ..."


def _names(found: Mapping[Any, Any]) -> str:
    return ", ".join(str(name) for name in found)


def _moved(then: Mapping[str, Any], now: Mapping[str, Any], what: str) -> list[str]:
    if then == now:
        return []
    out = [f"{what} {name}: {_short(then.get(name))} then, {_short(now.get(name))} now"
           for name in sorted({*then, *now}, key=str) if then.get(name) != now.get(name)]
    return out


def _data_moved(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    counts = [f"the data had {then.get(n):,} {n} and has {now[n]:,}" for n in ("samples", "shards")
              if isinstance(then.get(n), int) and then[n] != now[n]]
    if counts:
        return counts
    words = {"bytes": "the shards have another size", "names": "the shards have other names",
             "content": "the shards have other content (keys, sizes or samples)",
             "taken": "other samples take part (exclude, select, skip, limit or repeat)"}
    return [text for name, text in words.items() if then.get(name) != now[name]]


def differences(state: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    """What of the state does not fit a loader whose own state is `mine`, in words."""
    out = []
    if state["seed"] != mine["seed"]:
        out.append(f"seed: {_short(state['seed'])} then, {mine['seed']!r} now")
    then, now = state["order"], mine["order"]
    if state["position"] == 0:                  # batches of another kind may begin with an epoch
        then, now = ({name: v for name, v in order.items() if name not in _BINS} for order in (then, now))
    out += _moved(then, now, "order")
    out += _data_moved(state["data"], mine["data"])
    gone = [name for name in state["chains"] if name not in mine["chains"]]
    new = [name for name in mine["chains"] if name not in state["chains"]]
    if gone or new:
        out.append(f"outputs: {_names(state['chains'])} then, {_names(mine['chains'])} now")
    old = mine.get("old_chains", {})
    out += [f"the chain of output {name!r} is another" if state["chains"][name] != old.get(name) else
            f"the pictures of output {name!r} were made without exact=true, by Stoker 0.1 or older, and this version makes "
            f"exact ones only" for name, word in mine["chains"].items()
            if name in state["chains"] and state["chains"][name] != word]
    return out


def with_streams(mine: Mapping[str, Any], state: Any, fixed: set[str]) -> dict[str, Any]:
    """`mine` with the streams and the window of a state, where they are not fixed: another number of
    ranks would choose others, and the order would be another."""
    order = dict(mine["order"])
    then = state.get("order") if isinstance(state, Mapping) else None
    if isinstance(then, Mapping) and order["shuffle"] == "block" == then.get("shuffle"):
        for name, most in (("streams", 2**20), ("window", 2**63 - 1)):
            if name not in fixed:
                order[name] = _options.whole(f"the state's {name}", then.get(name), 1, most)
    return {**mine, "order": order}


def with_bins(mine: Mapping[str, Any], state: Any) -> dict[str, Any]:
    """`mine` with the windows of a state, where both batch by length: what stays together in them depends
    on the number of ranks, and batches would be others."""
    order = dict(mine["order"])
    then = state.get("order") if isinstance(state, Mapping) else None
    if isinstance(then, Mapping) and "bins" in order and "bins" in then and state.get("position"):
        pair = then["bins"]
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            invalid(f"the state is damaged: bins is {_short(pair)}")
        order["bins"] = [_options.whole("the state's bins", n, 1, 2**32 - 1) for n in pair]
    return {**mine, "order": order}


def _check_shape(state: Any) -> None:
    if not isinstance(state, Mapping) or "version" not in state:
        invalid(f"this is not a state of a loader: it has no version: {str(state)[:80]}")
    if state["version"] != VERSION:
        newer = isinstance(state["version"], int) and state["version"] > VERSION
        invalid(f"the state has version {_short(state['version'])}, this reads version {VERSION}"
                + (": it was taken with a newer Stoker, use that one" if newer else ""))
    missing = [name for name in _PARTS if name not in state]
    if missing:
        invalid(f"the state is not whole: it has no {', '.join(missing)}")
    for name in ("order", "data", "chains"):
        if not isinstance(state[name], Mapping):
            invalid(f"the state is damaged: {name} is {_short(state[name])}")


def read(state: Any, mine: Mapping[str, Any], positions: Callable[[int], int],
         strict: bool) -> tuple[int, int]:
    """(epoch, position) of a state, if it fits."""
    _check_shape(state)
    epoch = _options.whole("the state's epoch", state["epoch"], 0, 2**32 - 1)
    position = _options.whole("the state's position", state["position"], 0, 2**63 - 1)
    other = differences(state, mine)
    samples = positions(epoch)
    if other and strict:
        invalid(f"the state does not fit this loader: {'; '.join(other)}. Open the loader as it was, "
                f"or take the position alone with load_state_dict(state, strict=False)")
    if other:
        _log.emit(1, f"taking a state that does not fit: {'; '.join(other)}")
        position = min(position, samples)
    if position > samples:
        invalid(f"the state is damaged: position {position} of {samples}")
    return epoch, position


def generation(state: Mapping[str, Any]) -> int:
    """How often the run had been resumed when this state was taken."""
    return _options.whole("the state's generation", state.get("generation", 0), 0, 2**32 - 1)
