# SPDX-License-Identifier: MIT
"""Read settings from the repository's own file, git config, the environment and flags.

ROWS and RETENTION_ROWS are the tables of settings; a new one needs a row here and a field in
Settings, Rules or Policy. Left out: merging the sources, and which the repository's file may set.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import eq, ge
from typing import Any, NamedTuple

from ckpt.errors import UsageError
from ckpt.models import Kind

Value = bool | int | float | str | tuple[str, ...]
LARGEST = 2**63 - 1
NO_LIMIT = LARGEST
GIT_HOOKS = ("pre-commit", "pre-merge-commit", "pre-rebase", "pre-push", "post-checkout")
AGENTS = ("claude-code", "codex", "gemini", "cursor")
TRIGGERS = (*GIT_HOOKS, "ckpt-save", "ckpt-prune", "guard", "wrapper", *AGENTS)
EVERY_TRIGGER = "all"
_HINT = "'git ckpt help' tells of every setting"
TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


# -- Types


class Type(NamedTuple):
    """The type of a setting. `read` converts a value of TOML or Python, or its text; None if it is
    invalid. Sources add to the values of a type with `many`; otherwise the last wins."""

    expected: str
    read: Callable[[Any], Value | None]
    many: bool = False


_SIZE = r"(?ai)([0-9]{1,19})(?:\.([0-9]{1,9}))? ?([a-z]*)"
_BYTES = {"": 1, "b": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("kmgt", start=1)
    # A bare letter is binary, as in git's own numbers.
    for suffix, base in (("", 1024), ("ib", 1024), ("b", 1000))
}
# In lower case only: `6M` could mean months.
_DURATION = r"(?a)([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(ms|s|m|h|d|w|mo|y)"
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SECONDS |= {"mo": 30 * 86400, "y": 365 * 86400}


def _bool(raw: object) -> bool | None:
    if isinstance(raw, bool):
        return raw
    word = raw.lower() if isinstance(raw, str) else None
    return True if word in TRUE else False if word in _FALSE else None


def _number(raw: object, least: int = 0) -> int | None:
    if isinstance(raw, str) and re.fullmatch("[0-9]{1,19}", raw):
        raw = int(raw)
    if not isinstance(raw, int) or isinstance(raw, bool):
        return None
    return raw if least <= raw <= LARGEST else None


def _size(raw: object) -> int | None:
    match = re.fullmatch(_SIZE, raw) if isinstance(raw, str) else None
    if match is None:
        return _number(raw, least=1)
    fraction, unit = match[2] or "", _BYTES.get(match[3].lower(), 0)
    size = int(match[1] + fraction) * unit // 10 ** len(fraction)
    return size if 0 < size <= LARGEST and not (fraction and unit == 1) else None


def _duration(raw: object) -> float | None:
    match = re.fullmatch(_DURATION, raw) if isinstance(raw, str) else None
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    return seconds if 0 < seconds <= 100 * _SECONDS["y"] else None


def _unlimited(raw: object) -> int | None:
    return NO_LIMIT if raw == "none" or _number(raw) == 0 else None


def _words(raw: object) -> tuple[str, ...] | None:
    words = raw.split(":") if isinstance(raw, str) else raw
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words):
        return None
    return tuple(words)


def _patterns(raw: object) -> tuple[str, ...] | None:
    words = None if isinstance(raw, str) and "[:" in raw else _words(raw)
    # A line break or a `!` could re-include paths that another list denies.
    is_fit = words is not None and all(
        word.strip() and word[0] not in "!#" and not re.search("[\0\r\n]", word) for word in words
    )
    return words if is_fit else None


def _triggers(raw: object) -> tuple[str, ...] | None:
    if _bool(raw) is not None:
        return (EVERY_TRIGGER,) if _bool(raw) else ()
    words = _words(raw)
    return words if words is not None and {*words} <= {EVERY_TRIGGER, *TRIGGERS} else None


BOOL = Type("true or false", _bool)
NUMBER = Type("a number such as 5", _number)
COUNT = Type('a number such as 20000, or "none"', lambda raw: _unlimited(raw) or _number(raw, 1))
SIZE = Type('a size such as "50MiB"', _size)
LIMIT = Type('a size such as "1GiB", or "none"', lambda raw: _unlimited(raw) or _size(raw))
DURATION = Type('a time such as "2s", "500ms" or "7d"', _duration)
PATTERNS = Type(
    'a list of patterns such as ["*.log"], each on one line and not beginning with "!" or "#"',
    _patterns,
    many=True,
)
TRIGGER_NAMES = Type(
    f'a list of triggers: "{EVERY_TRIGGER}" or some of {", ".join(TRIGGERS)}', _triggers, many=True
)
ON_ERROR = Type('"warn" or "block"', lambda raw: raw if raw in ("warn", "block") else None)


# -- Rows


class Row(NamedTuple):
    """A setting. A value from the repository's file is ignored unless `heard(value, default)` is
    true; without `heard` it is always used."""

    key: str
    type: Type
    heard: Callable[[Any, Any], bool] | None = None

    @property
    def git(self) -> str:
        return "ckpt." + re.sub("_([a-z])", lambda found: found[1].upper(), self.key)

    @property
    def env(self) -> str:
        return "CKPT_" + self.key.replace(".", "_").upper()


ROWS = (
    Row("enabled", BOOL, ge),
    Row("max_file_size", SIZE, ge),
    Row("max_new_bytes", LIMIT, ge),
    Row("max_new_files", COUNT, ge),
    Row("include", PATTERNS),
    Row("deny", PATTERNS),
    Row("allow", PATTERNS, eq),
    Row("disable", TRIGGER_NAMES, eq),
    Row("hook_budget", DURATION, ge),
    Row("guard_budget", DURATION, ge),
    Row("on_error", ON_ERROR, eq),
)
RETENTION = "retention."
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
CAPS = (
    Row(RETENTION + "automatic", BOOL),
    Row(RETENTION + "max_checkpoints", COUNT, ge),
    Row(RETENTION + "max_bytes", LIMIT, ge),
)
RETENTION_ROWS = CAPS + tuple(
    Row(f"{RETENTION}{kind}.{rule}", of, ge)
    for kind in Kind
    if kind is not Kind.FEATURE
    for rule, (of, _) in RULES.items()
)
BY_KEY = {row.key: row for row in (*ROWS, *RETENTION_ROWS)}


# -- Sources


class Said(NamedTuple):
    """A value of a key from a source, with its place; the repository's file is not `trusted`."""

    key: str
    raw: object
    place: str
    trusted: bool = True


def from_git_config(items: Iterable[tuple[str, str, str]]) -> list[Said]:
    """Read the (name, value, file) of section `ckpt`; git has names in lower case."""
    rows = {key.replace("_", ""): row for key, row in BY_KEY.items()}
    found = []
    for name, value, file in items:
        row = rows.get(name.lower())
        if row is None:
            found.append(Said(name, value, f"{file}: ckpt.{_key(name)}"))
        else:
            raw = (value,) if row.type.many else value
            found.append(Said(row.key, raw, f"{file}: {row.git}"))
    return found


def from_environ(env: Mapping[str, str]) -> list[Said]:
    """Read the variables of known settings, ignoring empty ones and other CKPT_ variables."""
    return [Said(row.key, env[row.env], row.env) for row in BY_KEY.values() if env.get(row.env)]


def from_flags(flags: Mapping[str, object]) -> list[Said]:
    return [Said(key, raw, f"settings: {_key(key)}") for key, raw in _flat(flags)]


def from_pyproject(text: bytes) -> list[Said]:
    name = "pyproject.toml"
    if b"ckpt" not in text:  # avoids importing a TOML parser in most repositories
        return []
    tool = _toml(text, name).get("tool")
    table = tool.get("ckpt") if isinstance(tool, dict) else None
    return _of_file(table, f"{name}: tool.ckpt.") if isinstance(table, dict) else []


def from_ckpt_toml(text: bytes) -> list[Said]:
    name = "ckpt.toml"
    return _of_file(_toml(text, name), f"{name}: ")


def _of_file(table: Mapping[str, object], place: str) -> list[Said]:
    return [Said(key, raw, place + _key(key), trusted=False) for key, raw in _flat(table)]


# The parser takes hours for a key of many parts.
_LONG_KEY = rb"""(?<![\w\\-])(?:(?:[\w-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')[ \t]*\.[ \t]*){64}"""


def _toml(text: bytes, name: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        if re.search(_LONG_KEY, text) is None:
            return tomllib.loads(text.decode())
        reason = "key of too many parts"
    except RecursionError:
        reason = "nested too deeply"
    except ValueError as error:  # also if it is not UTF-8
        reason = str(error)
    raise UsageError(f"{name}: invalid TOML: {reason[:1].lower()}{reason[1:]}", hint=_HINT)


def _flat(
    table: Mapping[str, object], prefix: str = "", depth: int = 3
) -> Iterator[tuple[str, object]]:
    """Flatten nested tables to dotted keys, up to the three levels that settings have."""
    for key, value in table.items():
        if isinstance(value, dict) and depth > 1:
            yield from _flat(value, f"{prefix}{key}.", depth - 1)
        else:
            yield prefix + key, value


# -- Values


def row_of(said: Said) -> Row:
    """Return the row of a key; UsageError if it is unknown."""
    key, place = said.key, said.place
    if key in BY_KEY:
        return BY_KEY[key]
    if any(known.startswith(key + ".") for known in BY_KEY):
        raise UsageError(f"{place}: expected a table, got {_shown(said.raw)}", hint=_HINT)
    if key.startswith(f"{RETENTION}{Kind.FEATURE}."):
        told = f"{place}: checkpoints of kind 'feature' are kept until they are dropped by hand"
        raise UsageError(told, hint="leave it out")
    from difflib import get_close_matches

    word = place.rpartition(": ")[2].removeprefix("tool.ckpt.")
    spelled = [row.git if word.startswith("ckpt.") else row.key for row in BY_KEY.values()]
    close = get_close_matches(word, spelled, n=1)
    hint = f"did you mean '{close[0]}'?" if close else _HINT
    raise UsageError(f"{place}: unknown key", hint=hint)


def value_of(said: Said, row: Row) -> Value:
    value = row.type.read(said.raw)
    if value is None:
        told = f"{said.place}: expected {row.type.expected}, got {_shown(said.raw)}"
        raise UsageError(told, hint=_HINT)
    return value


def note(said: Said, row: Row) -> str:
    """Return the note on a setting that the repository's file may not change."""
    return (
        f"{said.place} = {_shown(said.raw)} is ignored: "
        f"only git config ({row.git}), {row.env} or a flag may say that"
    )


def _shown(raw: object) -> str:
    """Format a raw value for a message: one short line without control characters."""
    from json import dumps

    if isinstance(raw, int) and abs(raw) > LARGEST:
        return "a number out of range"
    text = dumps(raw, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _key(key: str) -> str:
    return key if re.fullmatch(r"(?a)[\w.-]+", key) else _shown(key)
