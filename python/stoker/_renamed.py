# SPDX-License-Identifier: Apache-2.0
"""Keys of stats() that have a new name: the old one works for one version, and warns."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

KEYS = {"stages": {"sample": "resample"}, "histograms": {"sample": "resample"}, "gpu": {"mended": "redecoded"}}


class Renamed(dict[str, Any]):
    """A dict that also knows `old` names of keys; len(), iteration and comparison see only the new ones."""

    def __init__(self, values: Mapping[str, Any], old: Mapping[str, str]) -> None:
        super().__init__(values)
        self._old = old

    def __missing__(self, key: str) -> Any:
        if key not in self._old:
            raise KeyError(key)
        return self._by_old(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self._by_old(key) if key in self._old else super().get(key, default)

    def _by_old(self, key: str) -> Any:
        warnings.warn(f'the key "{key}" of stats() is now called "{self._old[key]}"; the old name is gone in the next version',
                      DeprecationWarning, stacklevel=3)
        return self[self._old[key]]

    def __contains__(self, key: object) -> bool:
        return super().__contains__(key) or key in self._old

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def with_old_keys(stats: dict[str, Any]) -> dict[str, Any]:
    """stats(), in place."""
    for part, old in KEYS.items():
        if stats.get(part) is not None:
            stats[part] = Renamed(stats[part], old)
    return stats
