# SPDX-License-Identifier: Apache-2.0
"""Mixtures: several data sets by weight.

The weights are kept as parts of 2**20, with the position (counted through all epochs) from which on
they hold and how many samples each data set had given by then: a list of changes.  A state has the
one that holds where it stands, so it does not grow with the number of changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _options
from .dataset import Dataset
from .errors import StokerError, Whole, invalid, nearest, printable, shown
from .store import Store

if TYPE_CHECKING:
    import numpy as np

PARTS = 2**20
Change = tuple[int, tuple[int, ...], tuple[int, ...]]


class Mix(Whole, has=("datasets", "weights", "counts", "epoch_size")):
    """Data sets and their weights, from stoker.mix(); a Loader takes it as its data."""

    def __init__(self, sets: Mapping[Any, Any], epoch_size: int | None = None, store: Store | None = None) -> None:
        if not isinstance(sets, Mapping) or not sets:
            invalid(f'mix takes {{"name": (data, weight), ...}} or {{dataset: weight, ...}}, not {shown(sets)}')
        from .sets import is_python             # which imports this file
        self.datasets: list[Any] = []           # of stoker.open(), or of Python
        self.weights: dict[str, float] = {}
        self.counts: list[int] = []             # samples of each, as the last loader's chains made them
        for key, value in sets.items():
            name, data, weight = _entry(key, value, len(self.datasets))
            self.weights[name] = checked(name, weight)
            own = isinstance(data, Dataset) or is_python(data)
            self.datasets.append(data if own else Dataset(data, store=store))
            if self.weights[name] and not len(self.datasets[-1]):
                invalid(f"mix: {name!r} has no samples to give: leave it out, or weight 0")
        if len(self.weights) != len(self.datasets):
            invalid("mix: two data sets have one name")
        if not any(self.weights.values()):
            invalid(f"mix: all weights are 0: {', '.join(self.weights)}")
        self.epoch_size = None if epoch_size is None else _options.whole("epoch_size", epoch_size, 1, 2**48)

    def __len__(self) -> int:
        """Samples of all data sets: an epoch, if epoch_size is not given."""
        return sum(len(d) for d in self.datasets)

    def which(self, ids: Any) -> np.ndarray[Any, Any]:
        """The number (0, 1, ...) of the data set that each of batch.sample_ids comes from."""
        import numpy as np
        ends = np.cumsum(self.counts or [len(d) for d in self.datasets])
        return np.searchsorted(ends, np.asarray(ids), side="right")

    def __repr__(self) -> str:
        return f"stoker.mix({', '.join(f'{printable(name)}: {w:g}' for name, w in self.weights.items())})"


def _entry(key: Any, value: Any, number: int) -> tuple[str, Any, Any]:
    if isinstance(key, Dataset):
        return str(number), key, value
    if not isinstance(key, str) or not key:
        invalid(f'mix: a data set is called by a name, not {shown(key)}: {{"name": (data, weight)}}')
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        invalid(f"mix: {key!r} must be (data, weight), not {shown(value)}")
    return key, value[0], value[1]


def checked(name: str, weight: Any) -> float:
    try:
        number = float(weight)
    except (TypeError, ValueError, OverflowError):
        invalid(f"mix: the weight of {name!r} must be a number below 1e308, not {shown(weight)}")
    if not 0 <= number < math.inf:
        invalid(f"mix: the weight of {name!r} must be finite and not negative, not {shown(weight)}")
    return number


def changed(old: Mapping[str, float], new: Any) -> dict[str, float]:
    """`old` with what `new` names."""
    if not isinstance(new, Mapping) or not new:
        invalid(f'weights of a mixture are {{"name": weight, ...}}, not {shown(new)}')
    for name in new:
        if name not in old:
            invalid(f"mix: there is no data set {name!r}{nearest(str(name), old)}")
    both = {**old, **{name: checked(name, w) for name, w in new.items()}}
    if not any(both.values()):
        invalid("mix: all weights would be 0")
    return both


# ---- in a state --------------------------------------------------------------------------------------


def saved(changes: list[Change]) -> list[list[Any]]:
    return [[at, list(parts), list(base)] for at, parts, base in changes]


def holding(changes: list[list[Any]], at: int) -> list[list[Any]]:
    """Those that matter from position `at` on."""
    return changes[max((i for i, change in enumerate(changes) if change[0] <= at), default=0):]


def from_there(changes: list[Change], at: int, strict: bool) -> list[Change]:
    """A state's changes for a loader that goes on at `at`."""
    if changes and changes[0][0] > at:
        if strict:
            invalid(f"the state is damaged: its weights are of position {changes[0][0]}, it stands at {at}")
        return [(at, *changes[0][1:])]          # of other epochs, which were counted in another way
    return changes


def with_changes(mine: Mapping[str, Any], state: Any) -> dict[str, Any]:
    """`mine` with the weights of a state of the same data sets: they go on where they were."""
    then = state.get("order") if isinstance(state, Mapping) else None
    mix = then.get("mix") if isinstance(then, Mapping) else None
    order = dict(mine["order"])
    if isinstance(mix, Mapping) and "mix" in order and mix.get("names") == order["mix"]["names"]:
        order["mix"] = {"names": mix["names"],
                        "changes": saved(restored(mix.get("changes"), len(mix["names"])))}
    return {**mine, "order": order}


def restored(value: Any, sets: int) -> list[Change]:
    """Changes from a state, checked for their shape; the library checks the rest."""
    def numbers(what: Any, most: int) -> tuple[int, ...]:
        if not isinstance(what, (list, tuple)) or len(what) != sets:
            invalid(f"{sets} data sets need as many numbers, not {shown(what)}")
        return tuple(_options.whole("a number", n, 0, most) for n in what)

    try:
        if not isinstance(value, (list, tuple)) or not all(
                isinstance(change, (list, tuple)) and len(change) == 3 for change in value):
            invalid("each change is a position, parts and counts")
        return [(_options.whole("a position", at, 0, 2**64 - 1), numbers(parts, PARTS),
                 numbers(base, 2**64 - 1)) for at, parts, base in value]
    except StokerError as e:
        invalid(f"the state is damaged: its mix is {str(value)[:80]}: {str(e)[:120]}")


def mix(sets: Mapping[Any, Any], epoch_size: int | None = None, *, store: Store | None = None) -> Mix:
    """Several data sets as one, drawn by weight.

        data = stoker.mix({"web": ("web-*.tar", 0.7), "books": ("books-*.tar", 0.3)})
        loader = stoker.Loader(data, fields={...}, shuffle=True, epoch_size=1_000_000)
        loader.set_weights({"web": 0.5, "books": 0.5})      # from the next batch on

    sets: name -> (data, weight), data as for stoker.open() or opened; or opened data set -> weight
    epoch_size: samples in an epoch; None: as many as all data sets have
    store: how remote data that is not opened yet is reached, a stoker.Store

    Every run of samples has the data sets by their weights, the same for any number of ranks.  Each is
    walked pass by pass: none of its samples comes again before all have come.
    """
    return Mix(sets, epoch_size, store)
