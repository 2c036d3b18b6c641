# SPDX-License-Identifier: MIT
"""What retention is told: rules for each kind of checkpoint, and caps on all of them.

Values only: what follows from them for given checkpoints is decided in `engine.retention`, and
who may say them from where is in `setting_retention`. A policy that would keep nothing of a kind,
or whose parts contradict each other, is refused: somebody meant something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import ge
from typing import Any

from ckpt.errors import UsageError
from ckpt.models import BY_HAND, Kind
from ckpt.settings.sources import (
    BOOL,
    COUNT,
    DURATION,
    LIMIT,
    NO_LIMIT,
    NUMBER,
    RETENTION,
    RETENTION_ENV,
    Row,
    SettingsError,
    Source,
    Type,
    Value,
    is_of_retention,
    note,
    shown,
    unknown,
    value_of,
    way_out,
)

_WEEK = 7 * 86400
_UNITS = (("d", 86400), ("h", 3600), ("m", 60))


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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

    def contradiction(self, kind: Kind) -> str | None:
        """What the rules for a kind keep and the number of checkpoints forbids, if anything."""
        if self.max_checkpoints is None or kind in BY_HAND:
            return None
        for name in COUNTED:
            count = getattr(self.rules(kind), name)
            if count > self.max_checkpoints:
                most = f"max_checkpoints is {self.max_checkpoints}"
                return f"have '{name}' {count}, but {most}"
        return None


FEATURES_STAY = "checkpoints of kind 'feature' are kept until they are dropped by hand"


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


def _spelled(key: str) -> tuple[str, str]:
    """A key as git config and the environment have it."""
    first, *others = key.split("_")
    git = first + "".join(word.capitalize() for word in others)
    return f"ckpt.{RETENTION}{git}", RETENTION_ENV + key.replace(".", "_").upper()


def _row(key: str, kind: Type, help: str, compares: bool = True) -> Row:
    return Row(RETENTION + key, kind, *_spelled(key), help, ge if compares else None)


CAPS = (
    _row("automatic", BOOL, "drop what no rule keeps after a save", compares=False),
    _row("max_checkpoints", COUNT, "how many checkpoints a worktree may have"),
    _row("max_bytes", LIMIT, "how much checkpoints may hold that nothing else does"),
)
ROWS = CAPS + tuple(
    _row(f"{kind}.{rule}", of, help) for kind in KINDS for rule, (of, help) in RULES.items()
)
_DEFAULT_CAPS = {"max_checkpoints": MAX_CHECKPOINTS, "max_bytes": NO_LIMIT}
# How a key may be typed in each kind of source.
_BY_KEY = {row.key: row for row in ROWS}
_TYPED: Mapping[str, Mapping[str, Row]] = {
    "repository file": _BY_KEY,
    "git config": {row.git.removeprefix("ckpt.").lower(): row for row in ROWS},
    "environment": {RETENTION + row.env.removeprefix(RETENTION_ENV).lower(): row for row in ROWS},
    "flag": _BY_KEY,
}


@dataclass(slots=True)
class _Reading:
    """What the sources have said so far, and where they said it."""

    rules: dict[Kind, Rules] = field(default_factory=dict)
    caps: dict[str, Value] = field(default_factory=dict)
    origins: dict[Kind, tuple[Source, str]] = field(default_factory=dict)
    cap_is_trusted: bool = False
    notes: list[str] = field(default_factory=list)

    def take(self, source: Source) -> None:
        named: dict[Kind, dict[str, Value]] = {}
        for key, raw in source.values.items():
            row = _BY_KEY[key]
            value = value_of(source, row, raw)
            if not source.trusted and not _is_heard(row, value):
                self.notes.append(note(source, row, raw))
                continue
            kind, rule = _parts(row)
            if kind is None:
                self.caps[rule] = value
                self.cap_is_trusted |= source.trusted and rule == "max_checkpoints"
            else:
                named.setdefault(kind, {})[rule] = value
                self.origins[kind] = source, key
        for kind, rules in named.items():
            self.rules[kind] = self._merged(source, kind, rules)

    def _merged(self, source: Source, kind: Kind, named: Mapping[str, Value]) -> Rules:
        changes: dict[str, Any] = dict(named)
        said = replace(Rules(), **changes)
        if source.trusted or said.forever:
            fault = said.fault()
            if fault is not None:
                raise self._error(kind, fault, "name at least one, such as last = 5")
            return said
        return replace(DEFAULTS[kind], **changes)

    def policy(self) -> Policy:
        caps = _DEFAULT_CAPS | {name: most for name, most in self.caps.items() if name != _SWITCH}
        limits: dict[str, Any] = {
            name: None if most == NO_LIMIT else most for name, most in caps.items()
        }
        policy = replace(Policy(self.rules), **limits)
        for kind, (source, _) in self.origins.items():
            # A file must not be able to spoil what the user has said.
            fault = None if self.cap_is_trusted > source.trusted else policy.contradiction(kind)
            if fault is not None:
                raise self._error(kind, fault, "raise retention.max_checkpoints, or lower the rule")
        return policy

    def _error(self, kind: Kind, fault: str, hint: str) -> SettingsError:
        source, key = self.origins[kind]
        place = source.place(key)
        return SettingsError(f"{place}: the rules for kind '{kind}' {fault}", hint=hint)


_SWITCH = "automatic"


def read(sources: Iterable[Source]) -> tuple[Policy, bool, list[str]]:
    """The policy that follows from sources, the highest last; whether ckpt prunes by itself;
    and what was not followed."""
    reading = _Reading()
    for source in sources:
        reading.take(_by_key(source))
    return reading.policy(), bool(reading.caps.get(_SWITCH, True)), reading.notes


def _by_key(source: Source) -> Source:
    """What a source says of retention, by the keys of rows, however it spells them."""
    values, places = {}, {}
    for key, raw in source.values.items():
        says_nothing = key + "." == RETENTION and raw == {}
        is_foreign = source.kind == "environment" and key not in _TYPED[source.kind]
        if is_of_retention(key) and not says_nothing and not is_foreign:
            row = _row_of(source, key, raw)
            values[row.key], places[row.key] = raw, source.place(key)
            if source.kind == "git config":
                places[row.key] = f"{source.place(key).rpartition(': ')[0]}: {row.git}"
    return replace(source, values=values, places=places)


def _row_of(source: Source, key: str, raw: object) -> Row:
    typed = _TYPED[source.kind]
    if key in typed or key.lower() in typed:
        return typed[key if key in typed else key.lower()]
    word = key.removeprefix(RETENTION).partition(".")[0]
    if word.lower() == Kind.FEATURE:
        raise SettingsError(f"{source.place(key)}: {FEATURES_STAY}", hint="leave it out")
    if word in KINDS and key == RETENTION + word:
        expected = f"expected rules such as {word} = {{last = 5}}"
        told = f"{source.place(key)}: {expected}, got {shown(raw)}"
        raise SettingsError(told, hint=way_out(source, key, f"ckpt.{key}"))
    if key + "." == RETENTION:
        told = f"{source.place(key)}: expected a table, got {shown(raw)}"
        raise SettingsError(told, hint=way_out(source, key, f"ckpt.{key}"))
    is_git = source.kind == "git config"
    raise unknown(
        source, key, {name: row.git if is_git else row.key for name, row in typed.items()}
    )


def _parts(row: Row) -> tuple[Kind | None, str]:
    """The kind that a row is about, if it is about one, and the rule or the cap."""
    kind, _, rule = row.key.removeprefix(RETENTION).rpartition(".")
    return Kind(kind) if kind else None, rule


def _is_heard(row: Row, value: Value) -> bool:
    """Whether it keeps more than is kept anyway."""
    kind, rule = _parts(row)
    if row.heard is None:
        return True
    if kind is None:
        return row.heard(value, _DEFAULT_CAPS[rule])
    usual = DEFAULTS[kind]
    return (not usual.forever or rule == "forever") and row.heard(value, getattr(usual, rule))
