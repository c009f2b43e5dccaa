# SPDX-License-Identifier: Apache-2.0
"""Tar shards before there is an index: read from the first byte on, mixed within a window.

    loader = stoker.Loader(stoker.stream("s3://bucket/train-{000000..001023}.tar"), fields, batch_size=256,
                           epoch_size=1_281_167, shuffle=True, window=4096)

Which samples there are is never known, so the order is not exact: docs/stores.md says what holds.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from . import _options, _ranks, _stoker
from . import store as _store
from .dataset import Dataset, Urls
from .errors import Whole, invalid, printable, shown
from .loader import Loader
from .store import Store

_INDEX = ("select", "where", "exclude", "skip", "limit", "repeat", "weights", "replacement", "balance", "stratify",
          "lengths", "max_tokens", "max_seconds", "bucket", "bucket_rest", "over_budget", "schedule", "cache", "learn_jpeg")
_NONE = ("classes", "dtype", "shape", "ranks_per_node")
_MOST = 1 << 24


class Stream(Whole):
    """Shards to be read in order, from stoker.stream(); data of a Loader."""

    def __init__(self, urls: Urls, store: Store | None = None) -> None:
        found = _options.url_bytes(urls)
        if not found:
            invalid(f"a stream is of shards: give a path, a pattern or a list of them, not {shown(urls)}")
        self._urls, self._store, self._core = found, store, _store.core(store)

    def __repr__(self) -> str:
        return f"stoker.stream({printable(repr(self._urls[0]))}{', ...' if len(self._urls) > 1 else ''})"


class _Opened(Dataset):
    """A stream as a loader has it: with a rank, a batch and a window."""

    def __init__(self, data: Stream, core: _stoker.Dataset) -> None:
        self._urls, self._store, self._core = data._urls, data._store, core
        self._fields = self._fixed = self._decoder = self._types = self._rows = self._ids = None
        self._where, self._reindex, self._raw = None, None, (None, None)
        self._wanted: Any = []
        self._jpeg = self._salvage = self._skip_damaged = False
        self._encoding = self._null = None
        self._epoch = 0

    def __len__(self) -> int:
        invalid("a stream does not know how many samples it has: the loader's epoch_size= says what an epoch is")

    def __getitem__(self, i: Any) -> Any:
        invalid("samples of a stream have no numbers: index the shards (stoker.open) for access by number or key")

    def __repr__(self) -> str:
        return f"stoker.stream of {len(self.shards)} shards: {', '.join(self.fields)}"


class StreamLoader(Loader):
    """What stoker.Loader(stoker.stream(...)) answers; its arguments are Loader's."""

    def __init__(self, data: Stream, fields: Mapping[str, Any] | None = None, **given: Any) -> None:
        _options.screen(given)
        defaults = {name: p.default for name, p in inspect.signature(Loader.__init__).parameters.items()}
        for name in (*_INDEX, *_NONE):
            if name in given and given[name] is not None and given[name] != defaults[name]:
                invalid(f"{name}= does not go with stoker.stream()"
                        + (", which has no index: index the shards and load them without it" if name in _INDEX else ""))
        place = _ranks.find(given.get("rank"), given.get("world_size"), given.get("mesh"))
        share = _options.share(given.get("batch_size", defaults["batch_size"]), given.get("global_batch_size"), place)
        if share["global_batch_size"] % place.world:
            invalid(f"global_batch_size {share['global_batch_size']} does not divide by {place.world} ranks, as streams need")
        batch = share["batch_size"] or share["global_batch_size"] // place.world
        self._stream_rank = place.rank
        core = _open(data, given, batch, place)
        self._chosen: tuple[int, int] = _stoker.stream_chosen(core)
        self._stream: dict[str, int] = {"streams": self._chosen[0], "window": self._chosen[1], "ranks": place.world,
                                        "batch": batch}
        whole = batch * place.world
        size = -(-_epoch_size(given.get("epoch_size")) // whole) * whole
        super().__init__(_Opened(data, core), fields,
                         **{**given, "epoch_size": size, "shuffle": False, "streams": None, "window": None, "store": None})

    def _what(self) -> dict[str, Any]:
        what = super()._what()
        return {**what, "order": {**what["order"], "shuffle": "stream", "stream": self._stream}}

    def state_dict(self) -> dict[str, Any]:
        """As Loader's; under "local" is where this rank's streams go on, so that each rank saves its own."""
        state = super().state_dict()
        block, places = _stoker.stream_tell(self._data[0], state["epoch"] * self._samples + state["position"])
        state["local"]["stream"] = {"rank": self._stream_rank, "block": block, "places": places}
        return state

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """As Loader's, with the state that this very rank saved: the same ranks, batch and streams."""
        local = state.get("local") if isinstance(state, Mapping) else None
        at = local.get("stream") if isinstance(local, Mapping) else None
        before = self._life, self._loaded, self._next, self._running
        super().load_state_dict(state, strict)
        try:
            self._seek(at)
        except Exception:
            self._life, self._loaded, self._next, self._running = before
            raise

    def _seek(self, at: Any) -> None:
        try:
            rank, block = int(at["rank"]), int(at["block"])
            places = [tuple(map(int, place)) for place in at["places"]]
            fits = 0 <= block < 2**63 and all(len(p) == 3 and all(0 <= n < 2**63 for n in p) for p in places)
        except (TypeError, KeyError, ValueError):
            rank, block, places, fits = -1, 0, [], False
        if not fits:
            invalid("the state has no places of streams, or damaged ones: it is not one of a stream")
        if rank != self._stream_rank:
            invalid(f"the state is that of rank {rank}, this is rank {self._stream_rank}: with stoker.stream() each rank "
                    f"saves and loads its own")
        _stoker.stream_seek(self._data[0], block, places)


def _epoch_size(size: Any) -> int:
    if size is None:
        invalid("epoch_size= is missing: without an index no one knows how many samples a stream has; say how many make "
                "an epoch")
    return _options.whole("epoch_size", size, 1, 1 << 40)


def _open(data: Stream, given: Mapping[str, Any], batch: int, place: _ranks.Place) -> _stoker.Dataset:
    shuffle, window, streams = given.get("shuffle", False), given.get("window"), given.get("streams")
    kind = _options.SHUFFLES[_options.shuffle_kind(shuffle)]
    if kind not in ("none", "block") and shuffle is not True:
        invalid(f"shuffle={shown(shuffle)} needs an index: a stream has shuffle=True, which mixes within a window")
    if kind == "none" and window is not None:
        invalid("window= says how many samples are mixed: give shuffle=True too")
    if given.get("store") is not None:
        invalid("store= belongs to stoker.stream() when data is a stream")
    skip, _ = _options.skip_policy(given.get("on_error", "raise"))
    ahead = _options.or_chosen("prefetch", given.get("prefetch"))
    _epoch_size(given.get("epoch_size"))
    return _stoker.stream_open(data._urls, data._core, rank=place.rank, world=place.world,
                               streams=0 if streams is None else _options.whole("streams", streams, 1, 256),
                               batch=batch, ahead=max(32, ahead + 8), shuffle=kind != "none", replaces=skip,
                               window=0 if window is None else _options.whole("window", window, 1, _MOST),
                               seed=_options.number("seed", given.get("seed", 0)))


def stream(urls: Urls, store: Store | None = None) -> Stream:
    """Tar shards (local, http, s3, gs, az, hf) for a Loader, before there is an index of them: they are read from the first
    byte on, in order.

        loader = stoker.Loader(stoker.stream("s3://bucket/train-{000000..001023}.tar"), fields, batch_size=256,
                               epoch_size=1_281_167, shuffle=True, window=4096)

    Loader's epoch_size= is needed.  shuffle=True takes the shards in a new order each time, streams= of them side by
    side (8), and mixes samples within window= samples (1,024); without it shards come as they are named.  Ranks have
    shards of their own, so there are at least as many as ranks.  on_error="skip" goes on after a shard that is torn.
    A state is resumed by the rank that saved it.  What needs an index (select, where, weights, keys, an exact shuffle)
    is not there: docs/stores.md.

    store: how remote data is reached, a stoker.Store.
    """
    return Stream(urls, store)
