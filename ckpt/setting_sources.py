# SPDX-License-Identifier: MIT
"""Where settings come from, and how each is spelled there.

ROWS is the table of settings: to add one, add a field to Settings and a row here. Git config and
the environment are read here; the repository's own file is read by `setting_files`, and what
counts in the end is for `settings` to say. The rows for retention, of which there are many and
which few repositories have, are in `setting_retention`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import eq, ge

from ckpt.errors import UsageError
from ckpt.patterns import lazy_pattern
from ckpt.setting_types import (
    BOOL,
    COUNT,
    DURATION,
    LARGEST,
    LIMIT,
    ON_ERROR,
    PATTERNS,
    SIZE,
    TRIGGER_NAMES,
    Type,
    Unfit,
    Value,
)
from ckpt.values import field, value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    Origin = Literal["repository file", "git config", "environment", "flag"]

RETENTION = "retention."
RETENTION_ENV = "CKPT_RETENTION_"
_PLAIN_KEY = lazy_pattern(r"(?a)[\w.-]+")


class SettingsError(UsageError):
    """A setting is unknown, of the wrong type or of no use; the place is in the message."""


# Rows


@value_class
class Row:
    """One setting: how it is spelled and read, and how far the repository's file is heard.

    `heard(value, default)` is asked of a value from that file; None hears any. The part
    of such a list that comes from other sources is also put into the field `trusted`.
    """

    key: str
    type: Type
    git: str
    env: str
    help: str
    heard: Callable[[Any, Any], bool] | None = None
    trusted: str | None = None


ROWS = (
    Row(
        "enabled",
        BOOL,
        "ckpt.enabled",
        "CKPT_ENABLED",
        "let hooks and other triggers take checkpoints",
        ge,
    ),
    Row(
        "max_file_size",
        SIZE,
        "ckpt.maxFileSize",
        "CKPT_MAX_FILE_SIZE",
        "leave out untracked files larger than this",
        ge,
    ),
    Row(
        "max_new_bytes",
        LIMIT,
        "ckpt.maxNewBytes",
        "CKPT_MAX_NEW_BYTES",
        "leave out untracked files when a checkpoint adds more than this",
        ge,
    ),
    Row(
        "max_new_files",
        COUNT,
        "ckpt.maxNewFiles",
        "CKPT_MAX_NEW_FILES",
        "leave out untracked files when a checkpoint adds more than so many",
        ge,
    ),
    Row(
        "include",
        PATTERNS,
        "ckpt.include",
        "CKPT_INCLUDE",
        "ignored files to save all the same",
        trusted="trusted_include",
    ),
    Row(
        "deny",
        PATTERNS,
        "ckpt.deny",
        "CKPT_DENY",
        "untracked files never to save, besides the built-in lists",
    ),
    Row(
        "allow",
        PATTERNS,
        "ckpt.allow",
        "CKPT_ALLOW",
        "untracked files to save although the built-in lists deny them",
        eq,
    ),
    Row(
        "disable",
        TRIGGER_NAMES,
        "ckpt.disable",
        "CKPT_DISABLE",
        "triggers that take no checkpoints",
        eq,
    ),
    Row(
        "hook_budget",
        DURATION,
        "ckpt.hookBudget",
        "CKPT_HOOK_BUDGET",
        "how long a hook may take before it leaves out untracked files",
        ge,
    ),
    Row(
        "guard_budget",
        DURATION,
        "ckpt.guardBudget",
        "CKPT_GUARD_BUDGET",
        "how long the guard may take before it leaves out untracked files",
        ge,
    ),
    Row(
        "on_error",
        ON_ERROR,
        "ckpt.onError",
        "CKPT_ON_ERROR",
        "what a hook that fails does to the git command: warn or block",
        eq,
    ),
)
BY_KEY = {row.key: row for row in ROWS}
BY_GIT_NAME = {row.git.removeprefix("ckpt.").lower(): row for row in ROWS}


# Sources

ORIGINS: tuple[Origin, ...] = ("repository file", "git config", "environment", "flag")


@value_class
class Source:
    """Raw values by key, from one place or several of one kind."""

    kind: Origin
    name: str
    values: Mapping[str, object]
    places: Mapping[str, str] = field(default_factory=dict)

    @property
    def trusted(self) -> bool:
        return self.kind != "repository file"

    def place(self, key: str) -> str:
        """Where a value stands, as an error names it."""
        return self.places.get(key, f"{self.name}: {printable(key)}")


def from_git_config(items: Iterable[tuple[str, str, str]]) -> Source:
    """From the (name, value, file) of section `ckpt`, the name in git's lower case."""
    values: dict[str, Any] = {}
    files: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    for name, value, file in items:
        row = BY_GIT_NAME.get(name)
        key, spelling = (row.key, row.git) if row else (name, f"ckpt.{printable(name)}")
        if row and row.type.many:
            values[key] = (*values.get(key, ()), value)
            files[key] = list(dict.fromkeys((*files.get(key, ()), file)))
        else:
            values[key], files[key] = value, [file]
        places[key] = f"{', '.join(files[key])}: {spelling}"
    return Source("git config", "git config", values, places)


def from_environ(env: Mapping[str, str]) -> Source:
    """Only the names in ROWS count, and those for retention: other programs use CKPT_ too.
    Empty is not set."""
    values = {row.key: env[row.env] for row in ROWS if env.get(row.env)}
    places = {row.key: row.env for row in ROWS}
    for name in env:
        if name.startswith(RETENTION_ENV) and env[name]:
            key = RETENTION + name.removeprefix(RETENTION_ENV).lower()
            values[key], places[key] = env[name], name
    return Source("environment", "environment", values, places)


def is_of_retention(key: str) -> bool:
    return key.startswith(RETENTION) or key + "." == RETENTION


# What they say


def value_of(source: Source, row: Row, raw: object) -> Value:
    try:
        # TOML has types of its own: there, a text is never a boolean or a list.
        if isinstance(raw, str) and source.trusted:
            return row.type.of_text(raw)
        return row.type.of_value(raw)
    except Unfit as unfit:
        raise SettingsError(
            f"{source.place(row.key)}: expected {unfit.expected}, got {shown(unfit.got)}",
            hint=way_out(source, row.key, row.git),
        ) from None


def way_out(source: Source, key: str, git: str) -> str:
    """What to type about a value that is wrong; `git` is the key's name in git config."""
    if source.kind == "git config":
        return f"git config --show-origin --get-all {git}"
    if source.kind == "environment":
        return f"unset {source.place(key)}"
    return mend(source.name) if source.kind == "repository file" else "git ckpt help"


def mend(file: str) -> str:
    """What to do about a file of settings; only a person can."""
    return f"mend it in '{file}'; 'git ckpt help' tells of every setting"


def unknown(source: Source, key: str, known: Mapping[str, str]) -> SettingsError:
    """What to say of a key that is none; `known` are the ways in which keys may be typed there,
    each with how it is best spelled."""
    from difflib import get_close_matches

    close = get_close_matches(key.lower(), known, n=1)
    hint = f"did you mean '{known[close[0]]}'?" if close else "known: " + ", ".join(known.values())
    return SettingsError(f"{source.place(key)}: unknown key", hint=hint)


def note(source: Source, row: Row, raw: object) -> str:
    return (
        f"{source.place(row.key)} = {shown(raw)} is ignored: "
        f"only git config ({row.git}), {row.env} or a flag may say that"
    )


def shown(raw: object) -> str:
    """A raw value for a message: on one line, short, nothing in it that a terminal obeys."""
    from json import dumps

    if isinstance(raw, list | tuple) and not all(isinstance(item, str) for item in raw):
        return "a list"
    if isinstance(raw, dict):
        return "a table"
    if isinstance(raw, int) and abs(raw) > LARGEST:
        return "a number out of range"
    text = dumps(raw, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def printable(key: str) -> str:
    return key if _PLAIN_KEY.fullmatch(key) else shown(key)
