# SPDX-License-Identifier: Apache-2.0
"""pack(engine="ray"): the shards of a plan as tasks of a Ray cluster.

A task writes some shards of the target, each a function of data, options and its number alone, so a task that is run twice
writes the same bytes.  The driver merges the parts of chains after checking that every part exists, and writes the index.  Of Python functions
it notes a shard and gives it its name when its task is done.  Data and target must have the same paths on all machines.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import _pack, _pack_map
from .dataset import Dataset
from .errors import unsupported

_log = logging.getLogger("stoker")
_TELL_EVERY = 5.0       # seconds
_TASKS_PER_CPU = 16     # so that the last ones to end are short
_WAITING_PER_CPU = 4    # tasks that Ray has at a time


def pack(data: Dataset, arguments: dict[str, Any]) -> dict[str, Any]:
    """Chains, and shards as they are."""
    plan = _pack.written(data, {**arguments, "plan_only": True})
    parts = max(1, min(plan["shards"], _cpus() * _TASKS_PER_CPU))
    ready = sum(_each(_write, (data, {**arguments, "parts": parts, "num_proc": 1}), range(parts)))
    return {**_pack.written(data, {**arguments, "merge": True, "parts": 0, "force": False}), "kept_shards": ready}


def work(job: tuple[Any, ...], shards: Sequence[int]) -> Iterator[tuple[dict[str, Any], str]]:
    """Python functions: what _pack_map's processes give for each shard, in the order in which they are ready."""
    yield from _each(_run, job, shards)


def _ray() -> Any:
    try:
        import ray      # type: ignore[import-not-found]
    except ImportError:
        unsupported('engine="ray" needs Ray: pip install ray')
    if not ray.is_initialized():
        ray.init(logging_level="ERROR")
    return ray


def _cpus() -> int:
    return max(1, int(_ray().cluster_resources().get("CPU", 1)))


def _each(function: Callable[[Any, int], Any], job: Any, numbers: Sequence[int]) -> Iterator[Any]:
    """What function(job, number) gives, each in a task of one CPU; a task's failure is the driver's."""
    ray, start = _ray(), time.monotonic()
    task, shared = ray.remote(num_cpus=1, max_retries=3)(_task).options(name=function.__name__), ray.put(job)
    waiting: list[Any] = []
    rest, told = iter(numbers), start
    try:
        for done in range(len(numbers)):
            room = range(_cpus() * _WAITING_PER_CPU - len(waiting))
            waiting += [task.remote(function, [shared], n) for _, n in zip(room, rest, strict=False)]
            ready, waiting = ray.wait(waiting)
            yield ray.get(ready[0])
            now = time.monotonic()
            if now - told >= _TELL_EVERY:
                told, left = now, len(numbers) - done - 1
                _log.info("packing: %d of %d tasks done, about %.0f s left", done + 1, len(numbers), (now - start) / (done + 1) * left)
    except ray.exceptions.RayError as e:
        cause = getattr(e, "cause", None)
        raise cause if isinstance(cause, Exception) else e from None
    finally:
        for one in waiting:
            ray.cancel(one)


_jobs: dict[Any, Any] = {}      # of a worker process: the last one, so that its data is opened once


def _task(function: Callable[[Any, int], Any], shared: list[Any], number: int) -> Any:
    """In a worker process of Ray."""
    if shared[0] not in _jobs:
        import ray
        _jobs.clear()
        _jobs[shared[0]] = ray.get(shared[0])
    return function(_jobs[shared[0]], number)


def _write(job: tuple[Dataset, dict[str, Any]], part: int) -> int:
    """How many shards of the part were there."""
    data, arguments = job
    return int(_pack.written(data, {**arguments, "part": part})["kept_shards"])


def _run(job: tuple[Any, ...], shard: int) -> tuple[dict[str, Any], str]:
    _pack_map.begin(*job)
    return _pack_map.work(shard)
