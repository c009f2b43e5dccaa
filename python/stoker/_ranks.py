# SPDX-License-Identifier: Apache-2.0
"""Which share of the data this process has: arguments, else torch.distributed, else the launcher."""

from __future__ import annotations

import os
import sys

from .errors import invalid


def _from_torch() -> tuple[int, int] | None:
    """Only if the program has imported torch: who has not has no process group either."""
    torch = sys.modules.get("torch")
    dist = getattr(torch, "distributed", None)
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist.get_rank(), dist.get_world_size()


def _from_environment() -> tuple[int, int] | None:
    rank, world = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if not rank or not world:
        return None
    try:
        return int(rank), int(world)
    except ValueError:
        invalid(f"RANK={rank!r} and WORLD_SIZE={world!r} in the environment are no numbers: "
                f"mend them, or give rank= and world_size=")


def rank_and_world(rank: int | None, world_size: int | None) -> tuple[int, int]:
    if (rank is None) != (world_size is None):
        invalid("rank and world_size go together: give both, or none for torch.distributed's "
                "or the launcher's")
    if rank is not None and world_size is not None:
        found = rank, world_size
    else:
        found = _from_torch() or _from_environment() or (0, 1)
    for value in found:
        if isinstance(value, bool) or not isinstance(value, int):
            invalid(f"rank and world_size must be whole numbers, not {value!r}")
    if not 0 <= found[0] < found[1] < 1 << 31:
        invalid(f"rank {found[0]} is not below world_size {found[1]}, or negative")
    return found
