# SPDX-License-Identifier: Apache-2.0
"""pack(engine="ray"): the shards of a plan as tasks of a Ray cluster.

A task writes the shards k, k + n, k + 2n, ... of the target, each a function of data, options and its number alone, so
a task that is run twice writes the same bytes.  The driver merges: it looks that all are there, and writes the index.
Data and target must have the same paths on all machines.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from . import _stoker
from .dataset import Dataset
from .errors import unsupported

_log = logging.getLogger("stoker")
_TELL_EVERY = 5.0       # seconds
_TASKS_PER_CPU = 4      # so that the last ones to end are short


def pack(data: Dataset, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        import ray
    except ImportError:
        unsupported('engine="ray" needs Ray: pip install ray')
    if not ray.is_initialized():
        ray.init(logging_level="ERROR")
    plan = _stoker.pack(dataset=data._core, **{**arguments, "plan_only": True})
    cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))
    parts = max(1, min(plan["shards"], cpus * _TASKS_PER_CPU))
    task = ray.remote(num_cpus=1, max_retries=3)(_write)
    waiting = [task.remote(data, {**arguments, "part": i, "parts": parts, "num_proc": 1}) for i in range(parts)]
    start = told = time.monotonic()
    while waiting:
        done, waiting = ray.wait(waiting)
        try:
            ray.get(done)       # a task's failure is the driver's
        except ray.exceptions.RayError as e:
            for rest in waiting:
                ray.cancel(rest)
            cause = getattr(e, "cause", None)
            raise cause if isinstance(cause, Exception) else e from None
        now = time.monotonic()
        if now - told >= _TELL_EVERY:
            told, ready = now, parts - len(waiting)
            _log.info("packing: %d of %d tasks done, about %.0f s left", ready, parts, (now - start) / ready * len(waiting))
    return _stoker.pack(dataset=data._core, **{**arguments, "merge": True, "parts": 0, "force": False})


def _write(data: Dataset, arguments: dict[str, Any]) -> int:
    """In a worker process of Ray."""
    return _stoker.pack(dataset=data._core, **arguments)["shards"]
