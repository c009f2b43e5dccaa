# SPDX-License-Identifier: Apache-2.0
"""What holds a loop up, in words and in figures for other programs."""

from __future__ import annotations

from typing import Any

from . import _stoker
from .errors import invalid

Sight = dict[str, Any]


class Diagnosis:
    """One sentence, and what it rests on.

    cause: "storage", "network", "decode", "augmentation", "python", "collate", "copy", "workers", "ring", "memory", "start",
    "neighbour", "rank", "lock", "consumer", "model" or "none"; gain: the rate becomes at most so many times what it is when the
    cause is removed, and at least gain_low; function: of call(), in which most of the time of Python went, or None; share: of the wall time that the loop waited; ceiling: steps per second of a loop that never waits; remedy:
    a command or a line of Python; checks: (name, value, unit, rule, good).
    """

    def __init__(self, found: dict[str, Any], function: str | None = None) -> None:
        self.cause: str = found["cause"]
        self.function = function
        self.gain: float = found["gain"]
        self.gain_low: float = found["gain_low"]
        self.share: float = found["share"]
        self.ceiling: float = found["ceiling"]
        self.rank: int = found["rank"]
        self.sentence: str = found["sentence"]
        self.remedy: str = found["remedy"]
        self.checks: list[tuple[str, float, str, str, bool]] = found["checks"]

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"Diagnosis({self.cause!r}, gain={self.gain:.2f}, remedy={self.remedy!r})"

    def table(self) -> str:
        """The figures beside what is usual in the field."""
        return "\n".join(f"  {'ok ' if good else '!! '} {name:<16}{value:>12,.1f} {unit:<16} ({rule})"
                         for name, value, unit, rule, good in self.checks)


def diagnose(before: list[Sight], after: list[Sight], data: str | None = None, *, foreign: bool = False,
             together: bool = False) -> Diagnosis:
    """What the sights say; together: with those of all ranks of torch.distributed."""
    if together:
        all_ranks = _of_all_ranks((before, after))
        after = [s for _, a in all_ranks for s in a]
        before = [s for b, _ in all_ranks for s in b]
        before = before if len(before) == len(after) else []
    function = _slowest(before, after)
    return Diagnosis(_stoker.diagnose(before, after, data, foreign, function), function)


def sight(core: Any, calls: Any) -> Sight:
    """What is to be seen of a loader now, with the time in each function of its chains."""
    seen: Sight = core.sight()
    if calls is not None:
        seen["functions"] = calls.spent()
    return seen


def _slowest(before: list[Sight], after: list[Sight]) -> str | None:
    """The function that took most time between two moments."""
    spent: dict[str, float] = {}
    for sign, sights in ((-1, before), (1, after)):
        for name, seconds in (item for s in sights for item in s.get("functions", {}).items()):
            spent[name] = spent.get(name, 0.0) + sign * seconds
    name = max(spent, key=spent.__getitem__, default=None)
    return name if name is not None and spent[name] > 0 else None


def _of_all_ranks(mine: Any) -> list[Any]:
    import torch.distributed as dist
    if not (dist.is_available() and dist.is_initialized()):
        invalid("ranks=True asks all ranks of torch.distributed, which is not initialized: call "
                "init_process_group() before, or leave ranks out")
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, mine)
    return gathered


def _size(n: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"


def report(s: dict[str, Any], found: Diagnosis) -> str:
    """stats() for people."""
    wait, ring, wall = s["wait"], s["ring"], max(s["elapsed_s"], 1e-9)
    spent = {**s["stages"], "idle": max(s["stages"]["idle"] - wait["reads_s"], 0.0), "waiting for reads": wait["reads_s"]}
    total = sum(spent.values()) or 1.0
    lines = [
        f"{s['handed_out']:,} samples in {s['batches']:,} batches, {s['handed_out'] / wall:,.0f} samples/s, "
        f"{_size(s['bytes'] / wall)}/s, {wall:,.1f} s since open (first batch after {s['first_batch_s']:.2f} s)",
        f"loop: waited {wait['data_s']:.2f} s for data ({100 * wait['data_s'] / wall:.1f} %), {wait['ledger_s']:.2f} s ledger, "
        f"{wait['repair_s']:.2f} s repairs" + (f"; waits now, for {wait['now_s']:.1f} s" if wait["now_s"] else ""),
        f"ring: {ring['ready']} ready and {ring['open']} open of {ring['ahead']} ahead (at most {ring['slots']})",
        f"workers: {s['workers']}; " + ", ".join(f"{name} {100 * v / total:.0f} %" for name, v in spent.items() if v),
        f"memory: {_size(s['memory'])} of {_size(s['memory_limit'])}, peak {_size(s['memory_peak'])}; "
        + ", ".join(f"{name} {_size(v)}" for name, v in s["memory_of"].items()),
        f"reads: {_size(s['bytes'])}, {s['cold_reads']:,} waited for ({s['remote_reads']:,} remote, "
        f"by {s['cold_by'] or 'nothing so far'}), {s['retried_reads']:,} retried; {s['skipped']:,} samples skipped",
    ]
    lines += [f"now: {wait['for']['text']}"] if wait["for"] else []
    lines += [f"worker {i}: {d['stage']} for {d['seconds']:.3f} s" for i, d in enumerate(s["doing"][:8])]
    return "\n".join([*lines, found.table(), found.sentence])
