# SPDX-License-Identifier: Apache-2.0
"""Which settings are fastest: every cell of a grid is tried, a table says what it gave."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .errors import invalid


class Sweep:
    """Cells with their batches per second, the best first; print() shows the table, or a heat map of two settings.

    rows: [(settings, batches per second)]; best: the settings of the first; line: how to call the factory with them.
    """

    def __init__(self, name: str, rows: list[tuple[dict[str, Any], float]], grid: dict[str, list[Any]]) -> None:
        self.rows = sorted(rows, key=lambda row: -row[1])
        self.best = self.rows[0][0]
        self.line = f"{name}({', '.join(f'{k}={v!r}' for k, v in self.best.items())})"
        self._grid = grid

    def __str__(self) -> str:
        body = self._map() if len(self._grid) == 2 else self._table()
        return f"{body}\n\n{self.line}    # {self.rows[0][1]:,.1f} batches/s"

    def _table(self) -> str:
        return "\n".join(f"  {rate:>12,.1f} batches/s   " + ", ".join(f"{k}={v!r}" for k, v in cell.items())
                         for cell, rate in self.rows)

    def _map(self) -> str:
        (down, left), (across, top) = self._grid.items()
        rate = {(repr(c[down]), repr(c[across])): r for c, r in self.rows}
        high = self.rows[0][1]
        lines = [f"  batches/s: {down} down, {across} across", "  " + " " * 10 + "".join(f"{v!r:>14}" for v in top)]
        for v in left:
            cells = [rate[repr(v), repr(w)] for w in top]
            lines.append(f"  {v!r:>10}" + "".join(f"{' .:-=+*#%@'[min(int(9.99 * r / high), 9)]:>3}{r:>11,.1f}" for r in cells))
        return "\n".join(lines)


def sweep(make_loader: Callable[..., Iterable[Any]], grid: Mapping[str, Iterable[Any]], *, batches: int = 50,
          warmup: int = 5) -> Sweep:
    """Time `batches` batches of make_loader(**settings) for every combination of `grid`, and say which is fastest.

    The first `warmup` batches of each are not counted.  Loaders that end earlier are counted as far as they go.
    """
    if not callable(make_loader):
        invalid(f"sweep() takes a function that makes a loader, not {make_loader!r}")
    values = {name: list(choices) for name, choices in dict(grid).items()}
    if not values or not all(values.values()):
        invalid("sweep() needs a grid with at least one value of each setting, as {\"num_workers\": [1, 2, 4]}")
    rows = [(cell, _rate(make_loader(**cell), batches, warmup))
            for cell in (dict(zip(values, combination)) for combination in itertools.product(*values.values()))]
    return Sweep(getattr(make_loader, "__name__", "make_loader"), rows, values)


def _rate(loader: Iterable[Any], batches: int, warmup: int) -> float:
    it, seen, start = iter(loader), 0, time.perf_counter()
    for seen, _ in enumerate(it, 1):
        if seen == warmup:
            start = time.perf_counter()
        if seen == warmup + batches:
            break
    took = time.perf_counter() - start
    counted = seen - warmup if seen > warmup else seen
    del it
    if hasattr(loader, "close"):
        loader.close()
    if not seen:
        invalid("sweep(): a loader gave no batch")
    return counted / max(took, 1e-9)
