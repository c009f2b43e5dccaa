# SPDX-License-Identifier: Apache-2.0
"""Loaders whose chains have functions: the same batches in all ways that functions are run."""

import json
import os

import numpy as np
from conftest import as_numpy

import stoker

WAYS = [(2, None), (2, "thread")]
if os.environ.get("STOKER_WAYS") == "all":          # make soak: most of the time goes into starting interpreters
    WAYS += [(1, None), (7, None)]
OPTIONS = {"batch_size": 16, "seed": 5, "shuffle": True}


def all_of(urls, fields, **options):
    given = {"num_workers": 0, **OPTIONS, **options}
    with stoker.Loader(urls, fields, **{k: v for k, v in given.items() if v is not None}) as loader:
        return epoch_of(loader)


def epoch_of(loader):
    """(sample_ids, copies of all outputs) of each batch; rows that differ stay a list."""
    def copy(value):
        if isinstance(value, list):
            return [copy(v) for v in value]
        return as_numpy(value).copy() if hasattr(value, "shape") else value

    return [(copy(b.sample_ids), {name: copy(value) for name, value in b.items()}) for b in loader]


def equal(a, b):
    """Arrays, text, or lists of them."""
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return len(a) == len(b) and all(map(equal, a, b)) if isinstance(a, (list, tuple)) else a == b


def same(a, b):
    assert len(a) == len(b)
    for (ids, x), (ids2, y) in zip(a, b, strict=True):
        assert (ids == ids2).all() and x.keys() == y.keys()
        for name in x:
            assert equal(x[name], y[name]), name


def check_ways(urls, fields, **options):
    """All ways give what the caller's own thread does; and so does a resume by two ranks."""
    first = all_of(urls, fields, **options)
    for workers, kind in WAYS:
        same(first, all_of(urls, fields, num_workers=workers, worker_type=kind, **options))
    with stoker.Loader(urls, fields, **{**OPTIONS, "num_workers": 2, **options}) as loader:
        batches = iter(loader)
        next(batches), next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
    ranks = []
    for rank in range(2):
        with stoker.Loader(urls, fields, global_batch_size=16, rank=rank, world_size=2, num_workers=1, worker_type="thread",
                           **{k: v for k, v in {**OPTIONS, **options}.items() if k != "batch_size"}) as loader:
            loader.load_state_dict(state)
            ranks.append(epoch_of(loader))
    by_id = {int(i): {n: v[k] for n, v in b.items()} for ids, b in first for k, i in enumerate(ids)}
    seen = []
    for ids, b in (batch for rank in ranks for batch in rank):
        for k, i in enumerate(ids):
            seen.append(int(i))
            for name in b:
                assert equal(b[name][k], by_id[int(i)][name]), name
    assert sorted(seen) == sorted(i for ids, _ in first[2:] for i in ids.tolist())
    return first
