# SPDX-License-Identifier: Apache-2.0
"""What max_seconds= takes where a number does not say enough."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Seconds:
    """Batches of at most so many seconds of sound.  quadratic: a row of s seconds counts s + s * s / quadratic, as attention costs."""

    most: float
    quadratic: float | None = None
