# SPDX-License-Identifier: Apache-2.0
"""Stoker: training data, in time.

    loader = stoker.Loader("train-*.tar", fields={...}, batch_size=256, shuffle=True)
    dataset = stoker.open("train-*.tar")
    chain = stoker.from_("jpg").image().random_resized_crop(224).hflip()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import chains
from ._lerobot import lerobot
from ._mix import Mix, mix
from ._pack import pack
from ._pack_lengths import pack_lengths
from ._pack_tokens import Tokens
from ._prepared import prepared
from ._seconds import Seconds
from ._seeds import sample_seed
from ._speech import speech
from ._speech_batch import k2_batch, nemo_batch
from ._stoker import __version__, build_info
from ._stream import Stream, stream
from ._sweep import Sweep, sweep
from ._to_device import to_device
from ._watch import watch
from ._windows import Windows
from ._worker import get_worker_info
from .batch import Batch, cu_seqlens
from .chains import Chain, from_
from .dataset import Dataset, open  # noqa: A004
from .errors import StokerError
from .loader import Loader
from .own_ops import load_op, op
from .shared_list import SharedList
from .store import Store
from .transform import Transform
from .writer import Writer

if TYPE_CHECKING:
    from ._codecs import *
    from .dataloader import DataLoader

__all__ = ["Batch", "Chain", "DataLoader", "Dataset", "Loader", "Mix", "Seconds", "SharedList", "StokerError", "Store", "Stream", "Sweep",
           "Tokens", "Transform", "Windows", "Writer", "__version__", "build_info", "chains", "cu_seqlens", "from_", "get_worker_info",
           "k2_batch", "lerobot", "load_op", "mix", "nemo_batch", "op", "open", "pack", "pack_lengths", "prepared", "sample_seed", "speech",
           "stream", "sweep", "to_device", "watch"]


def __getattr__(name: str) -> Any:
    """stoker.image() and its like: every codec begins a chain.  DataLoader is torch's subclass, and torch is imported when it
    is asked for."""
    if name == "DataLoader":
        from ._hints import dataloader
        return globals().setdefault(name, dataloader())
    if name in chains.codecs:
        return chains.begin(name)
    raise AttributeError(f"module 'stoker' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *chains.codecs, "DataLoader"})
