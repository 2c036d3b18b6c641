# SPDX-License-Identifier: MIT
"""The end of the time that a save may take, for those who work towards it.

Git, pre-commit or an agent waits for a trigger. What is tracked is saved however long that
takes; the rest is looked at and read only until this moment, and what was not reached is
listed. Without a budget there is no deadline, and nobody asks for the time.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class Deadline:
    """So many seconds from now."""

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._end = clock() + seconds

    @property
    def is_over(self) -> bool:
        return self._clock() >= self._end

    def left(self) -> float:
        """Seconds; 0 when it is over."""
        return max(self._end - self._clock(), 0.0)
