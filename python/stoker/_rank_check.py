# SPDX-License-Identifier: Apache-2.0
"""Do all ranks load the same?  Asked once, when a loader is made and torch.distributed is up.

A rank with other shards, or another seed, trains on wrong data without a word.  So each rank lays a
description of what it loads into the process group's key-value store; the first rank compares and
answers.  The store, and not a collective, because it works beside any backend, touches no GPU, cannot
be mixed up with the program's own collectives, and can be given up: ranks that never come are named
instead of waited for without end.  A rank whose data does not open says so, and all of them fail with
its message.

Keys are counted by the store itself, so the n-th loader of one rank meets the n-th of the others.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from . import _log, _ranks
from .errors import invalid

WARN_AFTER, GIVE_UP_AFTER = 20.0, 600.0     # seconds
_COMPARED = ("batch_size", "global_batch_size", "world_size", "drop_last", "ranks_per_node", "max_tokens", "max_seconds", "quadratic_duration", "schedule",
             "bucket_rest", "over_budget")


def describe(cores: Any, identity: Mapping[str, Any], made_of: Any) -> dict[str, str]:
    """What has to be the same on all ranks, in words short enough for an error message."""
    outputs, options, _ = made_of
    shards = [os.path.basename(s.rstrip("/")) for core in cores for s in core.shards()]
    data = identity["data"]
    said = {"samples": str(data["samples"]),
            "shards": f"{len(shards)}{f' from {shards[0]} to {shards[-1]}' if shards else ''}"}
    said |= {f"{name} of the data": str(value) for name, value in data.items()
             if name not in ("samples", "shards")}
    said |= {name: str(options[name]) for name in _COMPARED}
    said |= {"seed": str(identity["seed"]), "order": json.dumps(identity["order"])}
    said |= {f"fields[{name!r}]": chain for name, chain, *_ in outputs}
    said["chains"] = json.dumps(identity["chains"])
    return said


def _digest(what: list[Any]) -> str:
    return hashlib.sha256(json.dumps([str(x) for x in what]).encode()).hexdigest()[:12]


def difference(mine: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, str, str] | None:
    """The first thing that differs: its name, mine and the other's."""
    for name in dict.fromkeys((*mine, *other)):
        a, b = mine.get(name, "nothing"), other.get(name, "nothing")
        if a != b:
            return name, _short(a), _short(b)
    return None


def _short(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[:most - 17]}.. ({_digest([text])})"


class Meeting:
    """One comparison: `with Meeting(place, True) as m: <open data>; place = m.compare(described)`.

    What raises inside is told to the other ranks.
    """

    def __init__(self, place: _ranks.Place, wanted: bool) -> None:
        self._place = place
        self._told = False                      # the others have heard of what went wrong
        self._store: Any = _store() if wanted and len(place.peers) > 1 else None
        if self._store is not None:
            group = _digest(list(place.peers))
            turn = self._store.add(f"stoker/{group}/{place.rank}", 1)
            self._at = f"stoker/{group}/{turn}/"

    def __enter__(self) -> Meeting:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._store is not None and error is not None and not self._told:
            self._alarm(f"{self._name(self._place.rank)} could not open its loader: {error}")

    def compare(self, mine: Mapping[str, str]) -> _ranks.Place:
        """This rank's place, counted node by node, once every rank has said the same."""
        if self._store is None:
            return self._place
        said = {"node": socket.gethostname(), "loads": dict(mine)}
        self._store.set(f"{self._at}rank/{self._place.rank}", json.dumps(said))
        if self._place.rank == 0:
            self._judge()
        self._wait([f"{self._at}numbers"])
        numbers = json.loads(self._store.get(f"{self._at}numbers"))
        if not numbers:
            return self._place
        return _ranks.renumbered(self._place, numbers[self._place.rank])._replace(
            local=json.loads(self._store.get(f"{self._at}local")))

    def _judge(self) -> None:
        keys = [f"{self._at}rank/{r}" for r in range(self._place.world)]
        self._wait(keys)
        all_said = [json.loads(self._store.get(key)) for key in keys]
        for rank, said in enumerate(all_said):
            differs = difference(all_said[0]["loads"], said["loads"])
            if differs:
                name, first, other = differs
                self._fail(f"ranks have different data or options: {self._name(rank)} has "
                           f"{name}={other} where {self._name(0)} has {first}: all of them need "
                           f"the same")
        numbers: list[int] = []
        if self._place.source == "torch.distributed":   # a mesh's other dimensions would not follow
            numbers = _ranks.numbers_by_node([said["node"] for said in all_said])
            local = _ranks.even_nodes([said["node"] for said in all_said])
            self._store.set(f"{self._at}local", json.dumps(local))
        self._store.set(f"{self._at}numbers", json.dumps(numbers))      # last: the others wait for it

    def _wait(self, keys: list[str]) -> None:
        start, pause, warned = time.monotonic(), 0.001, False
        while not self._store.check(keys):
            if self._store.check([f"{self._at}alarm"]):
                self._told = True
                invalid(self._store.get(f"{self._at}alarm").decode())
            waited = time.monotonic() - start
            if waited > GIVE_UP_AFTER:
                self._fail(f"{self._missing()} made no loader within {waited:.0f} s, though this rank "
                           f"did: make it on every rank, or give rank= and world_size=, or "
                           f"check_ranks=False")
            if waited > WARN_AFTER and not warned:
                warned = True
                _log.emit(1, f"waiting for the loader of {self._missing()}; if only some ranks load, "
                             f"give rank= and world_size=, or check_ranks=False")
            time.sleep(pause)
            pause = min(pause * 1.5, 0.25)

    def _missing(self) -> str:
        gone = [r for r in range(self._place.world)
                if not self._store.check([f"{self._at}rank/{r}"])]
        names = [self._name(r) for r in gone[:8]]
        return ", ".join(names) + (f" and {len(gone) - 8} others" if len(gone) > 8 else "")

    def _name(self, rank: int) -> str:
        """As torch counts: what the user's launcher and logs say."""
        return f"rank {self._place.peers[rank]}"

    def _alarm(self, message: str) -> None:
        self._told = True
        self._store.set(f"{self._at}alarm", message)

    def _fail(self, message: str) -> NoReturn:
        self._alarm(message)
        invalid(message)


def _store() -> Any:
    """The store of the process group; None where there is none that others see."""
    dist = _ranks.distributed()
    try:
        if dist is None or dist.get_backend() == "fake":
            return None
        return dist.distributed_c10d._get_default_store()
    except (AttributeError, RuntimeError, ValueError):  # MPI's groups have none
        return None

