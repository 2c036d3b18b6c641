# SPDX-License-Identifier: MIT
"""Retention as a user sets it: rules for each kind, caps, and whether ckpt prunes by itself.

Whoever names a rule for a kind replaces all rules of that kind that were there before, so that
`last = 5` means the last five and nothing besides. Only the repository's own file cannot: what it
names is added to the usual rules, and what is less than these is not heard. Imported where there
is such a setting, and nowhere else.
"""

from __future__ import annotations

from operator import ge

from ckpt.models import Kind
from ckpt.policy import DEFAULTS, FEATURES_STAY, MAX_CHECKPOINTS, Policy, Rules
from ckpt.setting_sources import (
    RETENTION,
    RETENTION_ENV,
    Row,
    SettingsError,
    Source,
    is_of_retention,
    note,
    shown,
    unknown,
    value_of,
    way_out,
)
from ckpt.setting_types import BOOL, COUNT, DURATION, LIMIT, NO_LIMIT, NUMBER
from ckpt.values import field, replace, value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ckpt.setting_types import Type, Value

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


@value_class(frozen=False)
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
        said = replace(Rules(), **named)
        if source.trusted or said.forever:
            fault = said.fault()
            if fault is not None:
                raise self._error(kind, fault, "name at least one, such as last = 5")
            return said
        return replace(DEFAULTS[kind], **named)

    def policy(self) -> Policy:
        caps = _DEFAULT_CAPS | {name: most for name, most in self.caps.items() if name != _SWITCH}
        limits = {name: None if most == NO_LIMIT else most for name, most in caps.items()}
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
