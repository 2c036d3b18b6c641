# SPDX-License-Identifier: MIT
"""Where settings come from, and how each is spelled there.

ROWS is the table of settings: to add one, add a field to Settings and a row here. Git config and
the environment are read here; the repository's own file is read by `setting_files`, and what
counts in the end is for `settings` to say. The rows for retention, of which there are many and
which few repositories have, are in `setting_retention`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import eq, ge
from typing import TYPE_CHECKING, Any, Literal

from ckpt.errors import UsageError

if TYPE_CHECKING:
    Origin = Literal["repository file", "git config", "environment", "flag"]

Value = bool | int | float | str | tuple[str, ...]
LARGEST = 2**63 - 1
NO_LIMIT = LARGEST
TRIGGERS = (
    *("pre-commit", "pre-merge-commit", "pre-rebase", "pre-push", "post-checkout"),
    *("ckpt-save", "ckpt-prune", "guard", "wrapper"),
    *("claude-code", "codex", "gemini", "cursor"),
)
EVERY_TRIGGER = "all"
ON_ERROR_WORDS = ("warn", "block")
TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")
_SIZE = re.compile(r"(?ai)([0-9]{1,19})(?:\.([0-9]{1,9}))? ?([a-z]*)")
# In lower case only: `6M` may be meant as months.
_DURATION = re.compile(r"(?a)([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(ms|s|m|h|d|w|mo|y)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SECONDS |= {"mo": 30 * 86400, "y": 365 * 86400}
_LONGEST = 100 * _SECONDS["y"]
_NUMBER = re.compile("[0-9]{1,19}")
_BREAK = re.compile("[\0\r\n]")
_UNITS = {"": 1, "b": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("kmgt", start=1)
    # A bare letter is binary, as in git's own numbers.
    for suffix, base in (("", 1024), ("ib", 1024), ("b", 1000))
}


class Unfit(Exception):
    def __init__(self, expected: str, got: object) -> None:
        self.expected, self.got = expected, got


@dataclass(frozen=True, slots=True)
class Type:
    """How a raw value is read: typed, as TOML and Python have it, or as text.

    The values of a type of which there can be `many` add up from source to source;
    of any other the last wins.
    """

    of_value: Callable[[object], Value]
    of_text: Callable[[str], Value]
    many: bool = False


def _bool(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise Unfit("true or false", raw)
    return raw


def _bool_of_text(text: str) -> bool:
    if text.lower() not in TRUE + _FALSE:
        raise Unfit("true or false", text)
    return text.lower() in TRUE


def _size(raw: object) -> int:
    if isinstance(raw, str):
        return _size_of_text(raw)
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 < raw <= LARGEST:
        raise Unfit('a size such as "50MiB"', raw)
    return raw


def _size_of_text(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match:
        fraction, unit = match[2] or "", _UNITS.get(match[3].lower(), 0)
        size: int = int(match[1] + fraction) * unit // 10 ** len(fraction)
        if 0 < size <= LARGEST and not (fraction and unit == 1):
            return size
    raise Unfit('a size such as "50MiB"', text)


def _limit(raw: object) -> int:
    """A size, or that there is none to observe."""
    if raw in ("none", 0) and not isinstance(raw, bool):
        return NO_LIMIT
    try:
        return _size(raw)
    except Unfit:
        raise Unfit('a size such as "1GiB", or "none"', raw) from None


def _count(raw: object) -> int:
    if raw in ("none", 0) and not isinstance(raw, bool):
        return NO_LIMIT
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 < raw <= LARGEST:
        raise Unfit('a number such as 20000, or "none"', raw)
    return raw


def _number(raw: object) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 <= raw <= LARGEST:
        raise Unfit("a number such as 5", raw)
    return raw


def _number_of_text(text: str) -> int:
    return _number(int(text) if _NUMBER.fullmatch(text) else text)


def _count_of_text(text: str) -> int:
    return _count(int(text) if _NUMBER.fullmatch(text) else text)


def _limit_of_text(text: str) -> int:
    return _limit(0 if text == "0" else text)


def _patterns(raw: object) -> tuple[str, ...]:
    if not isinstance(raw, list | tuple):
        raise Unfit('a list of patterns such as ["*.log"]', raw)
    return tuple(map(_pattern, raw))


def _patterns_of_text(text: str) -> tuple[str, ...]:
    if "[:" in text:
        raise Unfit("patterns with ':' between them and not within", text)
    return _patterns(text.split(":"))


def _pattern(raw: object) -> str:
    # A line break or a `!` would let one list take back what another denies.
    if not isinstance(raw, str) or not raw.strip() or raw[0] in "!#" or _BREAK.search(raw):
        raise Unfit('a pattern such as "*.log", on one line, not beginning with "!" or "#"', raw)
    return raw


def duration(raw: object) -> float:
    """Seconds, from a number with a unit."""
    match = _DURATION.fullmatch(raw) if isinstance(raw, str) else None
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if not 0 < seconds <= _LONGEST:
        raise Unfit('a time such as "2s", "500ms" or "7d"', raw)
    return seconds


def _on_error(raw: object) -> str:
    if raw not in ON_ERROR_WORDS:
        raise Unfit(" or ".join(f'"{word}"' for word in ON_ERROR_WORDS), raw)
    return str(raw)


def _trigger_names(raw: object) -> tuple[str, ...]:
    if not isinstance(raw, list | tuple):
        raise Unfit('a list of triggers such as ["guard"]', raw)
    for name in raw:
        if name not in (EVERY_TRIGGER, *TRIGGERS):
            raise Unfit(f'"{EVERY_TRIGGER}" or some of {", ".join(TRIGGERS)}', name)
    return tuple(raw)


def _trigger_names_of_text(text: str) -> tuple[str, ...]:
    if text.lower() in TRUE + _FALSE:
        return (EVERY_TRIGGER,) if text.lower() in TRUE else ()
    return _trigger_names(text.split(":"))


BOOL = Type(_bool, _bool_of_text)
SIZE = Type(_size, _size_of_text)
LIMIT = Type(_limit, _limit_of_text)
COUNT = Type(_count, _count_of_text)
NUMBER = Type(_number, _number_of_text)
PATTERNS = Type(_patterns, _patterns_of_text, many=True)
DURATION = Type(duration, duration)
ON_ERROR = Type(_on_error, _on_error)
TRIGGER_NAMES = Type(_trigger_names, _trigger_names_of_text, many=True)


# -- Where settings come from, and how each is spelled there

RETENTION = "retention."
RETENTION_ENV = "CKPT_RETENTION_"
_PLAIN_KEY = re.compile(r"(?a)[\w.-]+")


class SettingsError(UsageError):
    """A setting is unknown, of the wrong type or of no use; the place is in the message."""


# Rows


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
