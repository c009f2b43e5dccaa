# SPDX-License-Identifier: Apache-2.0
"""pack() through Python functions into a bucket.

Workers write shards by multipart upload.  Objects can't be appended to, so each shard has a note of its own, written
before the shard appears: FOLDER/.stoker/NAME.map-PLAN-SHARD-SIZE-SAMPLES-DROPPED.  The name says it all, and one listing
reads all of them; the text is read only where samples failed ("+" at the end).  When all shards are there, one note of
the whole, NAME.map, takes their place.  Uploads that a killed run left are aborted by the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from . import _pack_map, _pack_tokens, _stoker
from . import store as _store
from ._pack_tokens import Tokens
from .dataset import Dataset
from .errors import StokerError, invalid
from .store import Store

_PLAN = 16          # letters of a plan in the name of a note
_REMOVERS = 16      # they wait for the server most of the time
_ALL = 2**62
_SAY_EVERY, _DEAD_AFTER = 60.0, 300.0     # seconds: clocks of hosts may differ by some


def _host() -> str:
    return socket.gethostname()


class Bucket(_pack_map.Target):
    """A target that is an address."""

    def __init__(self, path: str, name: str, force: bool, kind: str, store: Store | None) -> None:
        super().__init__(path, name, force, kind)
        _stoker.object_writable(os.fsencode(path))
        self.store, self._core = store, _store.core(store)
        self._notes: set[str] = set()       # of single shards: those that were there, then all
        self._whole = self._listed = False

    def _list(self, prefix: str) -> list[tuple[str, int]]:
        return _stoker.object_list(os.fsencode(prefix), self._core)

    def _remove(self, urls: Iterable[str]) -> None:
        with ThreadPoolExecutor(_REMOVERS) as pool:
            for _ in pool.map(lambda url: _stoker.object_remove(os.fsencode(url), self._core), urls):
                pass

    def _shards(self) -> dict[str, int]:
        shape = re.compile(re.escape(f"{self.folder}/{self.prefix}") + r"\d+" + re.escape(self.suffix))
        return {url: size for url, size in self._list(f"{self.folder}/{self.prefix}") if shape.fullmatch(url)}

    def there(self) -> list[str]:
        return sorted(self._shards())

    def reads(self, data: Dataset) -> bool:
        return bool(set(self.there()) & set(data.shards))

    @contextlib.contextmanager
    def alone(self, plan: str) -> Iterator[Any]:
        """Of this host's processes one at a time, and of hosts."""
        with locked(self.note), self._claimed():
            yield Remote(f"{self.folder}/{self.prefix}", self.width, self.suffix, f"{self.note}-{plan[:_PLAN]}-", self.store)

    @contextlib.contextmanager
    def _claimed(self) -> Iterator[None]:
        """A bucket has no locks: a host that packs says so, every minute again.  The one that began first goes on."""
        head, since, done = self.note[:-len("map")] + "busy-", time.time(), threading.Event()
        mine = head + re.sub(r"[^\w.-]", "_", _host())

        def say() -> None:
            _stoker.object_write(os.fsencode(mine), json.dumps([since, time.time()]).encode(), self._core)

        def go_on() -> None:
            while not done.wait(_SAY_EVERY):
                with contextlib.suppress(StokerError):      # the pack meets the same trouble, and raises
                    say()

        say()
        thread = threading.Thread(target=go_on, name="stoker-claim", daemon=True)
        thread.start()
        try:
            self._first(head, mine, since)
            yield
        finally:
            done.set()
            thread.join()
            self._remove([mine])

    def _first(self, head: str, mine: str, since: float) -> None:
        for url, _ in self._list(head):
            if url == mine:
                continue
            began, seen = json.loads(self._text(url) or "[0, 0]")
            if time.time() - seen > _DEAD_AFTER:
                self._remove([url])
            elif (began, url) < (since, mine):
                invalid(f"the host {url[len(head):]} packs to {self.folder} now: wait until it is done, or take another place or name")

    def finished(self, plan: str, n: int) -> dict[int, dict[str, Any]]:
        noted, foreign = self._noted(plan)
        there = self._shards()
        done = {} if self.force else {i: row for i, row in noted.items() if 0 <= i < n and there.get(self.path(i)) == row["size"]}
        mine = {self.path(i) for i in done}
        other = [url for url in there if url not in mine]
        if other and not self.force:
            invalid(f"there is {other[0]}: take another place or name, or force=True")
        self._remove(foreign)       # first: a note that stays would tell of shards that are gone
        self._remove(other + [_pack_tokens.side(url) for url in other if self.suffix == ".bin"])
        if len(done) < n:
            self._sweep(mine)
        return done

    def _noted(self, plan: str) -> tuple[dict[int, dict[str, Any]], list[str]]:
        """By shard what notes of this plan say, and the notes of others."""
        noted: dict[int, dict[str, Any]] = {}
        foreign: list[str] = []
        shape = re.compile(re.escape(self.note) + r"-([0-9a-f]{%d})-(\d+)-(\d+)-(\d+)-(\d+)(\+?)" % _PLAN)
        for url, _ in self._list(self.note[:-len("map")]):
            found = shape.fullmatch(url)
            self._listed |= url == self.failed
            if url == self.note:
                rows = _pack_map.read_note(self._text(url).splitlines(), plan)
                noted = {**rows, **noted}       # what is noted of a single shard is later
                self._whole = bool(rows)
                foreign += [] if rows else [url]
            elif found and found[1] != plan[:_PLAN]:
                foreign.append(url)
            elif found:
                self._notes.add(url)
                shard, size, samples, dropped = map(int, found.groups()[1:5])
                row = {"shard": shard, "size": size, "samples": samples, "failed": [], "dropped": dropped}
                noted[shard] = json.loads(self._text(url)) if found[6] else row
        return noted, foreign

    def _text(self, url: str) -> str:
        return (_stoker.object_read(os.fsencode(url), self._core) or b"").decode()

    def _sweep(self, named: set[str]) -> None:
        """Uploads of shards that are to be written: their writers are dead."""
        named = named | {_pack_tokens.side(url) for url in named}
        shape = re.compile(re.escape(f"{self.folder}/{self.prefix}") + r"\d+(" + re.escape(self.suffix) + r"|\.idx)")
        _stoker.object_sweep(os.fsencode(f"{self.folder}/{self.prefix}"),
                             lambda url: url not in named and shape.fullmatch(url), self._core)

    def write(self, plan: str, done: dict[int, dict[str, Any]], made: Iterator[tuple[dict[str, Any], str]]) -> None:
        """Workers note and publish: this waits for them."""
        with contextlib.closing(made):  # type: ignore[type-var]
            for row, _ in made:
                self._whole = False
                self._notes.add(note_url(f"{self.note}-{plan[:_PLAN]}-", row))
                done[row["shard"]] = row

    def settle(self, plan: str, done: dict[int, dict[str, Any]]) -> None:
        if not self._whole:
            text = _pack_map.note_head(plan) + "".join(json.dumps(done[i]) + "\n" for i in sorted(done))
            _stoker.object_write(os.fsencode(self.note), text.encode(), self._core)
        self._remove(self._notes)

    def put_made(self, text: str) -> None:
        _stoker.object_write(os.fsencode(self.made), text.encode(), self._core)

    def list_failed(self, failed: list[Any]) -> None:
        if failed:
            text = "".join(json.dumps(line) + "\n" for line in failed)
            _stoker.object_write(os.fsencode(self.failed), text.encode(), self._core)
        elif self._listed:
            self._remove([self.failed])

    def index(self, paths: list[str], jpeg: bool) -> None:
        _stoker.index_build([os.fsencode(p) for p in paths], jpeg, self._core)


def note_url(head: str, row: dict[str, Any]) -> str:
    return f"{head}{row['shard']}-{row['size']}-{row['samples']}-{row['dropped']}" + ("+" if row["failed"] else "")


class Remote(NamedTuple):
    """Where a worker writes shards of a target in a bucket."""

    head: str       # of a shard's address
    width: int
    suffix: str
    notes: str      # the beginning of a note's address
    store: Store | None

    def path(self, number: int) -> str:
        return f"{self.head}{number:0{self.width}d}{self.suffix}"

    def open(self, number: int, tokens: Tokens | None) -> Any:
        if tokens is not None:
            return _pack_tokens.BucketShard(self.path(number), tokens.dtype, _store.core(self.store))
        pattern = f"{self.head}%0{self.width}d{self.suffix}"
        return _pack_map.TarShard(pattern, _ALL, start=number, force=True, store=self.store)

    def note(self, row: dict[str, Any]) -> None:
        _stoker.object_write(os.fsencode(note_url(self.notes, row)), json.dumps(row).encode(), _store.core(self.store))


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """One process of this host at a time; ends with the process.  Where a lock cannot be kept, the pack runs without one."""
    home = os.environ.get("STOKER_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "stoker")
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            os.makedirs(os.path.join(home, "pack"), exist_ok=True)
            path = os.path.join(home, "pack", hashlib.sha256(os.fsencode(name)).hexdigest()[:16] + ".lock")
            fcntl.flock(held.enter_context(open(path, "wb")), fcntl.LOCK_EX)
        yield
