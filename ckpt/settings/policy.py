# SPDX-License-Identifier: MIT
"""Retention as values: rules for each kind of checkpoint, caps on all, and their settings.

What follows from them for given checkpoints is decided in `engine.retention`. A policy that would
keep nothing of a kind is refused. To add a rule, add a field to
Rules and a row to RULES.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import ge
from typing import Any

from ckpt.errors import UsageError
from ckpt.models import Kind
from ckpt.settings.sources import (
    BOOL,
    COUNT,
    DURATION,
    LIMIT,
    NO_LIMIT,
    NUMBER,
    RETENTION,
    Row,
    SettingsError,
    Source,
    Type,
    Value,
    note,
)

_WEEK = 7 * 86400
_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


@dataclass(frozen=True)
class Rules:
    """What to keep of a group; what any of them keeps stays.

    `within` is in seconds. Of the hours, days, weeks and months that have a checkpoint, the newest
    of each of the last so many stays. `latest_per_name` keeps the newest of each name among those
    that no other rule keeps.
    """

    forever: bool = False
    last: int = 0
    within: float = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    first: int = 0
    latest_per_name: bool = False

    @property
    def are_empty(self) -> bool:
        return self == Rules()

    def fault(self) -> str | None:
        """What is wrong with them, if anything: the rules …"""
        for name in COUNTED:
            count = getattr(self, name)
            if not isinstance(count, int) or count < 0:
                return f"have '{name}' {count!r}, which is not a number of checkpoints"
        if not isinstance(self.within, int | float) or not 0 <= self.within < float("inf"):
            return f"have 'within' {self.within!r}, which is not a number of seconds"
        if self.are_empty:
            return "keep nothing"
        if self.forever and self != Rules(forever=True):
            return "keep everything ('forever'), so that the others mean nothing"
        return None

    def words(self) -> str:
        """What they keep, for whoever asks why something was not."""
        counted = [f"{name} {getattr(self, name)}" for name in COUNTED if getattr(self, name)]
        told = [f"within {span(self.within)}"] if self.within else []
        return ", ".join(counted + told + ["newest of each name"] * self.latest_per_name)


COUNTED = ("last", "hourly", "daily", "weekly", "monthly", "first")
DEFAULTS: Mapping[Kind, Rules] = {
    Kind.MANUAL: Rules(forever=True),
    Kind.FEATURE: Rules(forever=True),
    Kind.AUTO: Rules(last=5),
    Kind.SESSION: Rules(last=3),
    Kind.HOOK: Rules(last=50, within=_WEEK),
    Kind.SAFETY: Rules(last=20, within=_WEEK),
}
MAX_CHECKPOINTS = 500


@dataclass(frozen=True)
class Policy:
    """Rules for each kind, the usual ones for those that are left out; then the caps.

    `max_checkpoints` is how many a worktree may have, `max_bytes` how much all checkpoints of a
    repository may hold that nothing else does; None is no limit.
    """

    kinds: Mapping[Kind, Rules] = field(default_factory=lambda: DEFAULTS)
    max_checkpoints: int | None = MAX_CHECKPOINTS
    max_bytes: int | None = None

    def rules(self, kind: Kind) -> Rules:
        return self.kinds.get(kind, DEFAULTS[kind])

    def check(self) -> None:
        """Refuse what cannot be meant."""
        from collections.abc import Mapping

        if not isinstance(self.kinds, Mapping) or not all(
            isinstance(rules, Rules) for rules in self.kinds.values()
        ):
            raise UsageError(
                "expected a dictionary of kinds, each with its Rules",
                hint="for example Policy({Kind.HOOK: Rules(last=5)})",
            )
        for kind, rules in self.kinds.items():
            if not isinstance(kind, Kind):
                raise UsageError(
                    f"expected a kind such as Kind.HOOK, got {kind!r}", hint="from ckpt import Kind"
                )
            fault = rules.fault()
            if fault is not None:
                raise UsageError(
                    f"the rules for kind '{kind}' {fault}", hint="for example Rules(last=5)"
                )
        for name in ("max_checkpoints", "max_bytes"):
            most = getattr(self, name)
            if most is not None and (not isinstance(most, int) or most < 1):
                raise UsageError(f"{name} must be at least 1", hint="leave it out for no limit")


def size(count: int) -> str:
    """A number of bytes, likewise."""
    amount, unit = float(count), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.4g} {unit}"


def span(seconds: float) -> str:
    """A time as people write it."""
    for name, length in _UNITS:
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g}{name}"
    return f"{seconds:g}s"


# -- Retention as a user sets it: rules for each kind, caps, and whether ckpt prunes by itself

FEATURE = f"{RETENTION}{Kind.FEATURE}."
FEATURES_STAY = "checkpoints of kind 'feature' are kept until they are dropped by hand"
KINDS = tuple(kind for kind in Kind if kind is not Kind.FEATURE)
RULES: Mapping[str, tuple[Type, str]] = {
    "forever": (BOOL, "keep all, until dropped by hand"),
    "last": (NUMBER, "keep the newest so many"),
    "within": (DURATION, "keep what is no older than this"),
    "hourly": (NUMBER, "keep the newest of each of the last so many hours"),
    "daily": (NUMBER, "keep the newest of each of the last so many days"),
    "weekly": (NUMBER, "keep the newest of each of the last so many weeks"),
    "monthly": (NUMBER, "keep the newest of each of the last so many months"),
    "first": (NUMBER, "keep the oldest so many"),
    "latest_per_name": (BOOL, "of those that no other rule keeps, keep the newest of each name"),
}
_SWITCH, _COUNT, _BYTES = "automatic", "max_checkpoints", "max_bytes"
CAPS = (
    Row(RETENTION + _SWITCH, BOOL, "drop what no rule keeps after a save"),
    Row(RETENTION + _COUNT, COUNT, "how many checkpoints a worktree may have", ge),
    Row(RETENTION + _BYTES, LIMIT, "how much checkpoints may hold that nothing else does", ge),
)
ROWS = CAPS + tuple(
    Row(f"{RETENTION}{kind}.{rule}", of, help, ge)
    for kind in KINDS
    for rule, (of, help) in RULES.items()
)
_DEFAULT_CAPS: Mapping[str, Any] = {_SWITCH: True, _COUNT: MAX_CHECKPOINTS, _BYTES: NO_LIMIT}


def read(said: Iterable[tuple[Source, Mapping[Row, Value]]]) -> tuple[Policy, bool, list[str]]:
    """The policy that follows from what sources say, the highest last; whether ckpt prunes by
    itself; and what was not followed."""
    rules: dict[Kind, Rules] = {}
    origins: dict[Kind, str] = {}
    caps: dict[str, Any] = dict(_DEFAULT_CAPS)
    notes: list[str] = []
    for source, values in said:
        named: dict[Kind, dict[str, Any]] = {}
        for row, value in values.items():
            word, _, rule = row.key.removeprefix(RETENTION).rpartition(".")
            kind = Kind(word) if word else None
            if not source.trusted and not _is_heard(row, kind, rule, value):
                notes.append(note(source, row))
            elif kind is None:
                caps[rule] = value
            else:
                named.setdefault(kind, {})[rule] = value
                origins[kind] = row.key
        for kind, changes in named.items():
            rules[kind] = replace(Rules(), **changes)
            if not source.trusted and not rules[kind].forever:
                rules[kind] = replace(DEFAULTS[kind], **changes)
            elif (fault := rules[kind].fault()) is not None:
                place = source.place(origins[kind])
                told = f"{place}: the rules for kind '{kind}' {fault}"
                raise SettingsError(told, hint="name at least one, such as last = 5")
    most = {name: None if caps[name] == NO_LIMIT else caps[name] for name in (_COUNT, _BYTES)}
    policy = Policy(rules, most[_COUNT], most[_BYTES])
    return policy, bool(caps[_SWITCH]), notes


def _is_heard(row: Row, kind: Kind | None, rule: str, value: Value) -> bool:
    """Whether a value keeps more than is kept anyway."""
    if row.heard is None:
        return True
    if kind is None:
        return row.heard(value, _DEFAULT_CAPS[rule])
    usual = DEFAULTS[kind]
    return (not usual.forever or rule == "forever") and row.heard(value, getattr(usual, rule))
