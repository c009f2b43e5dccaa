# SPDX-License-Identifier: Apache-2.0
"""Which share of the data this process has, and who said so.

Arguments come first, then mesh=, then torch.distributed if it is initialised, then the launcher's
environment; without any of them there is one rank.  A launcher that says half of it, or two that
contradict each other, is an error: a wrong guess would repeat data or leave it out, in silence.

The loader's rank counts node by node where that can be known, because a block shuffle gives neighbouring
ranks neighbouring shards: with ranks dealt round-robin over nodes, every node would read every shard.
Renumbering is a permutation of the ranks, so what all of them get together does not change.
"""

from __future__ import annotations

import contextlib
import operator
import os
import re
from typing import Any, NamedTuple

from . import _log
from ._arrays import loaded
from .errors import invalid, shown

_DATA = ("dp", "data", "data_parallel", "dp_replicate", "dp_shard")
_MODEL = ("tp", "pp", "cp", "sp", "ep", "tensor_parallel", "pipeline_parallel")
_REAL_STEPS = 0xFFFFFFF0        # Slurm's step ids from here on are batch, extern, interactive, ..


class Place(NamedTuple):
    rank: int
    world: int
    source: str                 # "torchrun (RANK, WORLD_SIZE)"; "": no one said anything
    peers: tuple[int, ...] = () # torch's ranks that share the data, if torch.distributed is up
    note: str = ""              # how the rank was renumbered
    local: int = 1              # ranks of every node, where all ranks know it to be the same

    def log(self) -> None:
        """One INFO line."""
        source = f"from {self.source}" if self.source else "as there is no launcher"
        _log.emit(2, f"rank {self.rank} of {self.world} {source}{self.note}")


def find(rank: Any, world_size: Any, mesh: Any = None) -> Place:
    """Arguments, else the mesh, else torch.distributed, else the launcher, else 0 of 1."""
    if (rank is None) != (world_size is None):
        invalid("rank and world_size go together: give both, or none for torch.distributed's "
                "or the launcher's")
    if rank is not None:
        place = Place(rank, world_size, "arguments")
    elif mesh is not None:
        place = _from_mesh(mesh)
    else:
        place = _from_torch() or _from_environment(os.environ) or Place(0, 1, "")
    place = place._replace(rank=_whole(place.rank), world=_whole(place.world))
    if place.world >= 1 << 31:
        invalid(f"world_size must be below {1 << 31}, not {shown(place.world)}")
    if not 0 <= place.rank < place.world:
        source = "" if rank is not None else f" ({place.source})"
        invalid(f"rank {shown(place.rank)} is outside of world_size {shown(place.world)}{source}: ranks count "
                f"from 0 to world_size - 1")
    return place


def _whole(value: Any) -> int:
    """NumPy's integers too, but no bool."""
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        with contextlib.suppress(TypeError):    # arrays have __index__ too, and only some can
            return operator.index(value)
    invalid(f"rank and world_size must be whole numbers, not {shown(value)}")


# ---- torch ---------------------------------------------------------------------------------------

def distributed() -> Any:
    """torch.distributed if it is initialised.  Who has not imported torch has no group either."""
    dist = getattr(loaded("torch"), "distributed", None)
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist


def _from_torch() -> Place | None:
    dist = distributed()
    if dist is None:
        return None
    world = dist.get_world_size()
    return Place(dist.get_rank(), world, "torch.distributed", tuple(range(world)))


def _from_mesh(mesh: Any) -> Place:
    """The place along the data dimensions, which are flattened in the mesh's order.

    Ranks that differ in the other dimensions only (tensor, pipeline) get the same place: they see the
    same batches.
    """
    if not all(hasattr(mesh, name) for name in ("mesh", "mesh_dim_names", "get_coordinate")):
        invalid(f"mesh must be a torch DeviceMesh, not {shown(mesh)}")
    shape, at = tuple(mesh.mesh.shape), mesh.get_coordinate()
    if at is None:
        invalid("this rank is not in the mesh, so it has no share of the data: make no loader here")
    names = tuple(mesh.mesh_dim_names or ())
    data = _data_dimensions(names, len(shape))
    rank = 0
    for d in data:
        rank = rank * shape[d] + at[d]
    mine = mesh.mesh[tuple(slice(None) if d in data else at[d] for d in range(len(shape)))]
    peers = tuple(int(r) for r in mine.flatten().tolist())
    label = " and ".join(names[d] for d in data) if names else "its one dimension"
    return Place(rank, len(peers), f"mesh ({label})", peers)


def _data_dimensions(names: tuple[str, ...], n: int) -> list[int]:
    found = [d for d, name in enumerate(names) if name in _DATA]
    if found:
        return found
    if n == 1 and (not names or names[0] not in _MODEL):
        return [0]
    has = f"the dimensions {', '.join(names)}" if names else f"{n} dimensions without names"
    invalid(f"mesh has {has}, and none is called {', '.join(_DATA[:-1])} or {_DATA[-1]}: give the "
            f'data dimension, as mesh=mesh["name"], or rank= and world_size=')


# ---- launchers -----------------------------------------------------------------------------------

def _pair(env: Any, rank: str, world: str) -> tuple[int, int] | None:
    """Two variables that go together, as numbers; None if there are neither."""
    found = {name: env.get(name) for name in (rank, world) if env.get(name)}
    if not found:
        return None
    said = " and ".join(f"{name}={value!r}" for name, value in found.items())
    if len(found) == 1:
        other = world if rank in found else rank
        invalid(f"the environment has {said} but no {other}: set both, unset it, or give rank= and "
                f"world_size=")
    numbers = [int(v) if re.fullmatch(r"\d{1,10}", v) else -1 for v in found.values()]
    if not 0 <= numbers[0] < numbers[1]:
        invalid(f"{said} in the environment are not a rank and a number of ranks: correct them, or give "
                f"rank= and world_size=")
    return numbers[0], numbers[1]


def _from_environment(env: Any) -> Place | None:
    mpi = _from_mpi(env)
    torchrun = _pair(env, "RANK", "WORLD_SIZE")
    slurm = _from_slurm(env)
    if torchrun:
        for other in (slurm, mpi):
            _same_story(env, torchrun, other)
        alone = env.get("LOCAL_WORLD_SIZE") == str(torchrun[1])     # then it says so to all of them
        return Place(*torchrun, "torchrun (RANK, WORLD_SIZE)", local=torchrun[1] if alone else 1)
    if slurm and mpi and slurm[:2] != mpi[:2]:
        return mpi      # mpirun starts one daemon a node as the step; its own count is of programs
    return _by_node(env, slurm) if slurm else mpi


def _same_story(env: Any, torchrun: tuple[int, int], other: Place | None) -> None:
    """`export RANK=$SLURM_PROCID` in a batch script is evaluated once: all tasks are rank 0 then.

    torchrun itself may number nodes in another order than Slurm or MPI, and says that it is there.
    """
    if other and torchrun[1] == other.world and torchrun[0] != other.rank \
            and "TORCHELASTIC_RUN_ID" not in env:
        name = other.source.partition("(")[2].partition(",")[0]
        invalid(f"the environment contradicts itself: RANK={torchrun[0]} but {name}={other.rank}, both "
                f"of {other.world}: set RANK in each task, unset it, or give rank= and world_size=")


def _from_mpi(env: Any) -> Place | None:
    for rank, world, name in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"),
                              ("PMI_RANK", "PMI_SIZE", "MPICH")):
        pair = _pair(env, rank, world)
        if pair:
            return Place(*pair, f"{name} ({rank}, {world})")
    return None


def _from_slurm(env: Any) -> Place | None:
    """The task's number in a real step, as srun starts it.

    A batch script and the shell of an interactive allocation carry SLURM_PROCID=0 and the allocation's
    SLURM_NTASKS too, but a program started there is alone: their step id is a reserved one or missing.
    """
    step = env.get("SLURM_STEP_ID") or env.get("SLURM_STEPID") or ""
    if not re.fullmatch(r"\d{1,10}", step) or int(step) >= _REAL_STEPS:
        return None
    tasks = "SLURM_STEP_NUM_TASKS" if env.get("SLURM_STEP_NUM_TASKS") else "SLURM_NTASKS"
    pair = _pair(env, "SLURM_PROCID", tasks)
    if pair and pair[1] > 1 and env.get("SLURM_PTY_PORT"):
        invalid(f"srun --pty with {pair[1]} tasks: a program started by hand in its shell is alone, "
                f"one that srun starts is not, and they look alike from here: give rank= and "
                f"world_size=")
    return Place(*pair, f"Slurm (SLURM_PROCID, {tasks})") if pair else None


# ---- node by node --------------------------------------------------------------------------------

def _by_node(env: Any, place: Place) -> Place:
    """Tasks that Slurm dealt round-robin (or any other way) over nodes, counted node by node.

    Done only if the step's own list of tasks per node sums up to all tasks.  That list is the same in
    every task, so either all of them renumber or none does.
    """
    text = env.get("SLURM_STEP_TASKS_PER_NODE") or env.get("SLURM_TASKS_PER_NODE") or ""
    counts = tasks_per_node(text)
    node, local = env.get("SLURM_NODEID", ""), env.get("SLURM_LOCALID", "")
    if sum(counts) != place.world or not (node.isdigit() and local.isdigit()):
        return place
    if int(node) >= len(counts) or int(local) >= counts[int(node)]:
        invalid(f"the environment contradicts itself: SLURM_LOCALID={local} on SLURM_NODEID={node}, "
                f"but the tasks per node are {text}: give rank= and world_size=")
    return renumbered(place, sum(counts[:int(node)]) + int(local))._replace(local=_even(counts))


def _even(counts: list[int]) -> int:
    """Ranks of a node if all nodes have as many, else 1."""
    return counts[0] if counts and len(set(counts)) == 1 else 1


def even_nodes(nodes: list[str]) -> int:
    return _even([nodes.count(node) for node in dict.fromkeys(nodes)])


def renumbered(place: Place, rank: int) -> Place:
    """The place with another number, and a note if it is another."""
    if rank == place.rank:
        return place
    return place._replace(rank=rank, note=f", counted node by node: it is number {place.rank} there")


def tasks_per_node(text: str) -> list[int]:
    """Slurm's "2(x3),1" as [2, 2, 2, 1]; [] if it is none."""
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part)
        if match is None:
            return []
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def numbers_by_node(nodes: list[str]) -> list[int]:
    """For each rank its number when ranks are counted node by node, nodes in order of appearance."""
    first = {node: i for i, node in reversed(list(enumerate(nodes)))}
    order = sorted(range(len(nodes)), key=lambda r: (first[nodes[r]], r))
    numbers = [0] * len(nodes)
    for number, r in enumerate(order):
        numbers[r] = number
    return numbers

