# SPDX-License-Identifier: Apache-2.0
"""What people type who come from torch, and what it is called here.  Torch's own names work in stoker.DataLoader."""

from __future__ import annotations

from typing import Any

LOADER = {
    "dataset": "the data is the first argument",
    "sampler": "the order is shuffle=, weights=, balance= or select=; ranks are found, or given by rank= and world_size=",
    "batch_sampler": "batches are batch_size=, max_tokens=, max_seconds=, bucket= or stratify=; the order is shuffle=, weights= or "
                     "select=",
    "collate_fn": "rows of different shapes are collate=; a function on whole batches goes into batch_ops=",
    "transform": "steps on a sample are its chain in fields=, see stoker.Chain.from_transform(); a function on whole "
                 "batches goes into batch_ops=",
    "target_transform": "steps on a label are its chain in fields=",
    "persistent_workers": "workers are threads that live as long as the loader: leave it out",
    "worker_init_fn": "workers are threads of the library and run no Python: leave it out; draws follow seed=",
    "multiprocessing_context": "workers are threads: leave it out",
    "generator": "the order and all draws follow seed=",
    "timeout": "next() waits as long as data needs, and Ctrl-C ends it: leave it out",
    "pin_memory_device": "the GPU is device=",
    "in_order": "batches always come in order: leave it out",
    "download": "data is read where it is: leave it out",
    "prefetch_factor": "did you mean `prefetch`? It counts batches, not batches per worker",
    "epochs": "write a loop over epochs; set_epoch() says which one comes",
}


PYTHON = {                                      # of a Python data set, where that differs
    "batch_sampler": "batches are batch_size= or stratify=; the order is shuffle=, weights= or select=; or use stoker.DataLoader",
    "collate_fn": "it is called collate=",
    "transform": "call it in the data set's __getitem__",
    "target_transform": "call it in the data set's __getitem__",
    "persistent_workers": "workers live as long as the loader: leave it out",
    "worker_init_fn": "stoker.get_worker_info() in the data set says which worker it is in, and draws follow seed=; or use "
                      "stoker.DataLoader",
    "multiprocessing_context": 'it is worker_type="fork", "forkserver" or "spawn"',
    "timeout": "a worker that ends is an error at once, and Ctrl-C ends next(): leave it out, or use stoker.DataLoader",
}


def loader_hint(name: str, python: bool = False) -> str | None:
    """What to write in place of torch's argument `name`; python: for a Python data set."""
    return PYTHON.get(name) if python and name in PYTHON else LOADER.get(name)


def dataloader() -> Any:
    """stoker.DataLoader, a subclass of torch's; where torch is not installed, a class that says so when it is called."""
    from ._arrays import torch_or_none
    if torch_or_none() is None:
        return _NoDataLoader
    from .dataloader import DataLoader
    return DataLoader


class _NoDataLoader:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        from .errors import unsupported
        unsupported("stoker.DataLoader gives torch's batches and torch is not installed: use stoker.Loader(dataset)")
