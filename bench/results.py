# SPDX-License-Identifier: MIT
"""What was measured, as values: the rows of the table, and how numbers are written.

Pure: nothing is run or printed here. A time that was not measured is absent, never a zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from statistics import median
from typing import Any


class Unit(str, Enum):
    """What a number counts."""

    SHARE = "share"  # of the alternative's
    SECONDS = "seconds"
    BYTES = "bytes"
    COUNT = "count"
    SECONDS_MORE = "seconds more"
    PERCENT_MORE = "percent more"


@dataclass(frozen=True, slots=True)
class Goal:
    limit: float
    unit: Unit = Unit.SHARE


def amount(value: float, unit: Unit) -> str:
    if unit is Unit.SHARE:
        return f"{value:.2f}"
    if unit is Unit.SECONDS:
        return duration(value)
    if unit is Unit.BYTES:
        return size(value)
    if unit is Unit.COUNT:
        return f"{value:,.0f}"
    return f"+ {value * 1000:.0f} ms" if unit is Unit.SECONDS_MORE else f"+ {value:.0f} %"


def size(value: float) -> str:
    if value >= 10**6:
        return f"{value / 10**6:.0f} MB" if value >= 10**7 else f"{value / 10**6:.1f} MB"
    return f"{value / 1000:.0f} kB"


def duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.01 else f"{seconds * 1000:.1f} ms"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `ours` and `theirs` are seconds, unless `values` says otherwise."""

    key: str
    work: str
    against: str
    goal: Goal | None
    ours: Sequence[float] = ()
    theirs: Sequence[float] = ()
    values: Unit = Unit.SECONDS
    problem: str = ""
    note: str = ""

    @property
    def value(self) -> float | None:
        """What the goal is compared with."""
        if not self.ours:
            return None
        unit = Unit.SHARE if self.goal is None else self.goal.unit
        if unit is Unit.SECONDS_MORE:
            return median(self._turn_by_turn(lambda ours, theirs: ours - theirs))
        if unit is Unit.PERCENT_MORE:
            return median(self._turn_by_turn(lambda ours, theirs: 100 * (ours / theirs - 1)))
        if unit is not Unit.SHARE:
            return max(self.ours)  # memory and the like: the worst counts
        return median(self.ours) / median(self.theirs) if self.theirs else None

    def _turn_by_turn(self, compare: Callable[[float, float], float]) -> list[float]:
        """Both sides of a turn ran one right after the other: what is busy is so for both."""
        return [compare(*turn) for turn in zip(self.ours, self.theirs, strict=True)]

    @property
    def verdict(self) -> str:
        if self.problem:
            return self.problem if self.problem == "not yet" else "failed"
        if self.goal is None or self.value is None:
            return ""
        return "pass" if self.value <= self.goal.limit else "miss"

    def _ratio_of_minima(self) -> float | None:
        """On a busy machine this says more than the medians do."""
        if self.values is not Unit.SECONDS or not (self.ours and self.theirs):
            return None
        return min(self.ours) / min(self.theirs)

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "work": self.work,
            "against": self.against or None,
            "goal": {"limit": self.goal.limit, "unit": self.goal.unit.value} if self.goal else None,
            "measured": _rounded(self.value),
            "verdict": self.verdict or None,
            "values": self.values.value,
            "ours": _summary(self.ours),
            "theirs": _summary(self.theirs),
            "ratio_of_minima": _rounded(self._ratio_of_minima()),
            "problem": self.problem.partition("\n")[0] or None,
            "note": self.note or None,
        }


def _summary(values: Sequence[float]) -> dict[str, Any] | None:
    if not values:
        return None
    return {
        "median": _rounded(median(values)),
        "min": _rounded(min(values)),
        "all": [_rounded(value) for value in values],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)
