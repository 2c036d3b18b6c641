# SPDX-License-Identifier: MIT
"""Where settings come from, and how each is spelled and read there.

ROWS is the table of settings: to add one, add a field to Settings and a row here (those of
retention are in `policy`). A source is what the repository's own file, git config, the
environment or flags say, by the keys of rows; whether it is followed is for `settings` to say.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import eq, ge
from typing import Any, NamedTuple

from ckpt.errors import UsageError

Value = bool | int | float | str | tuple[str, ...]
LARGEST = 2**63 - 1
NO_LIMIT = LARGEST
TRIGGERS = (
    *("pre-commit", "pre-merge-commit", "pre-rebase", "pre-push", "post-checkout"),
    *("ckpt-save", "ckpt-prune", "guard", "wrapper"),
    *("claude-code", "codex", "gemini", "cursor"),
)
EVERY_TRIGGER = "all"
TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


class SettingsError(UsageError):
    """A setting is unknown, of the wrong type or of no use; the place is in the message."""


# -- Types


class Unfit(Exception):
    def __init__(self, expected: str, got: object) -> None:
        self.expected, self.got = expected, got


class Type(NamedTuple):
    """`read` checks a value as TOML and Python have it, and returns None for a wrong one; `typed`
    makes such a value of text. The values of a type of which there can be `many` add up from
    source to source; of any other the last wins."""

    expected: str
    read: Callable[[Any], Value | None]
    typed: Callable[[str], object] = lambda text: text
    many: bool = False

    def of_value(self, raw: object) -> Value:
        value = self.read(raw)
        if value is None:
            raise Unfit(self.expected, raw)
        return value

    def of_text(self, text: str) -> Value:
        try:
            return self.of_value(self.typed(text))
        except Unfit:
            raise Unfit(self.expected, text) from None


_NUMBER = "[0-9]{1,19}"
_SIZE = r"(?ai)([0-9]{1,19})(?:\.([0-9]{1,9}))? ?([a-z]*)"
_BYTES = {"": 1, "b": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("kmgt", start=1)
    # A bare letter is binary, as in git's own numbers.
    for suffix, base in (("", 1024), ("ib", 1024), ("b", 1000))
}
# In lower case only: `6M` may be meant as months.
_DURATION = r"(?a)([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(ms|s|m|h|d|w|mo|y)"
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SECONDS |= {"mo": 30 * 86400, "y": 365 * 86400}
_BREAK = "[\0\r\n]"


def _is_number(raw: object, least: int) -> bool:
    return isinstance(raw, int) and not isinstance(raw, bool) and least <= raw <= LARGEST


def _size(raw: object) -> int | None:
    if not isinstance(raw, str):
        return raw if isinstance(raw, int) and _is_number(raw, 1) else None
    match = re.fullmatch(_SIZE, raw)
    fraction, unit = (match[2] or "", _BYTES.get(match[3].lower(), 0)) if match else ("", 0)
    size = int(match[1] + fraction) * unit // 10 ** len(fraction) if match else 0
    return size if 0 < size <= LARGEST and not (fraction and unit == 1) else None


def _duration(raw: object) -> float | None:
    match = re.fullmatch(_DURATION, raw) if isinstance(raw, str) else None
    seconds = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    return seconds if 0 < seconds <= 100 * _SECONDS["y"] else None


def _limited(read: Callable[[object], int | None]) -> Callable[[object], int | None]:
    """Read a number for which `none` or 0 is no limit."""

    def limit(raw: object) -> int | None:
        is_none = raw == "none" or (raw == 0 and not isinstance(raw, bool))
        return NO_LIMIT if is_none else read(raw)

    return limit


def _patterns(raw: object) -> tuple[str, ...] | None:
    # A line break or a `!` would let one list take back what another denies.
    is_fit = isinstance(raw, list | tuple) and all(
        isinstance(each, str)
        and each.strip()
        and each[0] not in "!#"
        and not re.search(_BREAK, each)
        for each in raw
    )
    return tuple(raw) if is_fit and isinstance(raw, list | tuple) else None


def _triggers(raw: object) -> tuple[str, ...] | None:
    is_fit = isinstance(raw, list | tuple) and set(map(str, raw)) <= {EVERY_TRIGGER, *TRIGGERS}
    return tuple(raw) if is_fit and isinstance(raw, list | tuple) else None


def _to_bool(text: str) -> object:
    return text.lower() in TRUE if text.lower() in TRUE + _FALSE else text


def _to_number(text: str) -> object:
    return int(text) if re.fullmatch(_NUMBER, text) else text


def _to_triggers(text: str) -> object:
    if text.lower() in TRUE + _FALSE:
        return (EVERY_TRIGGER,) if text.lower() in TRUE else ()
    return text.split(":")


BOOL = Type("true or false", lambda raw: raw if isinstance(raw, bool) else None, _to_bool)
NUMBER = Type("a number such as 5", lambda raw: raw if _is_number(raw, 0) else None, _to_number)
COUNT = Type(
    'a number such as 20000, or "none"',
    _limited(lambda raw: raw if isinstance(raw, int) and _is_number(raw, 1) else None),
    _to_number,
)
SIZE = Type('a size such as "50MiB"', _size)
LIMIT = Type(
    'a size such as "1GiB", or "none"', _limited(_size), lambda text: 0 if text == "0" else text
)
DURATION = Type('a time such as "2s", "500ms" or "7d"', _duration)
PATTERNS = Type(
    'a list of patterns such as ["*.log"], each on one line and not beginning with "!" or "#"',
    _patterns,
    lambda text: None if "[:" in text else text.split(":"),
    many=True,
)
TRIGGER_NAMES = Type(
    f'a list of triggers: "{EVERY_TRIGGER}" or some of {", ".join(TRIGGERS)}',
    _triggers,
    _to_triggers,
    many=True,
)
ON_ERROR = Type('"warn" or "block"', lambda raw: raw if raw in ("warn", "block") else None)


# -- Rows


class Row(NamedTuple):
    """One setting: its type, and how far the repository's file is followed.

    `heard(value, default)` is asked of a value from that file; None follows any. The part of a
    list that comes from other sources is also put into the field `trusted`.
    """

    key: str
    type: Type
    help: str
    heard: Callable[[Any, Any], bool] | None = None
    trusted: str | None = None

    @property
    def git(self) -> str:
        return "ckpt." + re.sub("_([a-z])", lambda found: found[1].upper(), self.key)

    @property
    def env(self) -> str:
        return "CKPT_" + self.key.replace(".", "_").upper()


ROWS = (
    Row("enabled", BOOL, "let hooks and other triggers take checkpoints", ge),
    Row("max_file_size", SIZE, "leave out untracked files larger than this", ge),
    Row(
        "max_new_bytes",
        LIMIT,
        "leave out untracked files when a checkpoint adds more than this",
        ge,
    ),
    Row(
        "max_new_files",
        COUNT,
        "leave out untracked files when a checkpoint adds more than so many",
        ge,
    ),
    Row("include", PATTERNS, "ignored files to save all the same", None, "trusted_include"),
    Row("deny", PATTERNS, "untracked files never to save, besides the built-in lists"),
    Row("allow", PATTERNS, "untracked files to save although the built-in lists deny them", eq),
    Row("disable", TRIGGER_NAMES, "triggers that take no checkpoints", eq),
    Row(
        "hook_budget", DURATION, "how long a hook may take before it leaves out untracked files", ge
    ),
    Row(
        "guard_budget",
        DURATION,
        "how long the guard may take before it leaves out untracked files",
        ge,
    ),
    Row("on_error", ON_ERROR, "what a hook that fails does to the git command: warn or block", eq),
)
BY_KEY = {row.key: row for row in ROWS}
RETENTION = "retention."


def is_of_retention(key: str) -> bool:
    return (key + ".").startswith(RETENTION)


def _rows_by_word(key: str) -> Mapping[str, Row]:
    """The rows that a key may be one of, by what all ways of writing their keys have in common."""
    rows: Iterable[Row] = ROWS
    if is_of_retention(key):
        from ckpt.settings.policy import ROWS as rows
    return {_word(row.key): row for row in rows}


def _word(key: str) -> str:
    return key.replace("_", "").replace(".", "").lower()


# -- Sources

ORIGINS = ("repository file", "git config", "environment", "flag")
_PLAIN_KEY = r"(?a)[\w.-]+"


class Source(NamedTuple):
    """Raw values by key, from one place or several of one kind."""

    kind: str
    name: str
    values: Mapping[str, object]
    places: Mapping[str, str] = {}

    @property
    def trusted(self) -> bool:
        return self.kind != "repository file"

    def place(self, key: str) -> str:
        """Where a value is, as an error names it."""
        return self.places.get(key, f"{self.name}: {printable(key)}")


def from_git_config(items: Iterable[tuple[str, str, str]]) -> Source:
    """From the (name, value, file) of section `ckpt`, the name in git's lower case."""
    values: dict[str, Any] = {}
    files: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    for name, value, file in items:
        row = _rows_by_word(name.lower()).get(_word(name))
        key, spelling = (row.key, row.git) if row else (name, f"ckpt.{printable(name)}")
        if row and row.type.many:
            values[key] = (*values.get(key, ()), value)
            files[key] = list(dict.fromkeys((*files.get(key, ()), file)))
        else:
            values[key], files[key] = value, [file]
        places[key] = f"{', '.join(files[key])}: {spelling}"
    return Source("git config", "git config", values, places)


def from_environ(env: Mapping[str, str]) -> Source:
    """Only the names of rows count: other programs use CKPT_ too. Empty is not set."""
    rows: Iterable[Row] = ROWS
    if any(name.startswith("CKPT_RETENTION_") for name in env):
        rows = (*rows, *_rows_by_word(RETENTION).values())
    values = {row.key: env[row.env] for row in rows if env.get(row.env)}
    return Source("environment", "environment", values, {row.key: row.env for row in rows})


def from_pyproject(text: bytes, name: str = "pyproject.toml") -> Source:
    if b"ckpt" not in text:  # spares most repositories a TOML parser
        return Source("repository file", name, {})
    table: Any = _toml(text, name)
    for depth, key in enumerate(("tool", "ckpt"), start=1):
        table = table.get(key, {})
        if not isinstance(table, dict):
            place = f"{name}: {'.'.join(('tool', 'ckpt')[:depth])}"
            raise SettingsError(f"{place}: expected a table, got {shown(table)}", hint=mend(name))
    values = dict(flat(table))
    places = {key: f"{name}: tool.ckpt.{printable(key)}" for key in values}
    return Source("repository file", name, values, places)


def from_ckpt_toml(text: bytes, name: str = "ckpt.toml") -> Source:
    return Source("repository file", name, dict(flat(_toml(text, name))))


# The parser takes hours over a key of many parts.
_LONG_KEY = rb"""(?<![\w\\-])(?:(?:[\w-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')[ \t]*\.[ \t]*){64}"""


def _toml(text: bytes, name: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    long_key = re.search(_LONG_KEY, text)
    try:
        if long_key is None:
            return tomllib.loads(text.decode())
        line = text.count(b"\n", 0, long_key.start()) + 1
        reason = f"key of too many parts (at line {line})"
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        reason = f"not UTF-8 (at line {line})"
    except RecursionError:
        reason = "nested too deeply"
    except ValueError as error:
        reason = str(error)
    raise SettingsError(f"{name}: invalid TOML: {reason[:1].lower()}{reason[1:]}", hint=mend(name))


def flat(
    table: Mapping[str, object], prefix: str = "", depth: int = 3
) -> Iterator[tuple[str, object]]:
    """Tables within tables become dotted keys; no setting of ours is deeper than three."""
    for key, value in table.items():
        if isinstance(value, dict) and value and depth > 1:
            yield from flat(value, f"{prefix}{key}.", depth - 1)
        else:
            yield prefix + key, value


# -- What they say


def row_of(source: Source, key: str) -> Row | None:
    """The row of a key; None for an empty table of rows. Refuses what is no setting."""
    if key in BY_KEY:
        return BY_KEY[key]
    rows = _rows_by_word(key)
    by_key = {row.key: row for row in rows.values()}
    if key in by_key:
        return by_key[key]
    if is_of_retention(key):
        from ckpt.settings.policy import FEATURE, FEATURES_STAY

        if key.startswith(FEATURE):
            raise SettingsError(f"{source.place(key)}: {FEATURES_STAY}", hint="leave it out")
    if any(known.startswith(key + ".") for known in by_key):
        raw = source.values[key]
        if raw == {}:
            return None
        told = f"{source.place(key)}: expected a table, got {shown(raw)}"
        raise SettingsError(told, hint=_way_out(source, key, f"ckpt.{key}"))
    from difflib import get_close_matches

    is_git = source.kind == "git config"
    spelled = {word: row.git if is_git else row.key for word, row in rows.items()}
    if not is_of_retention(key):
        spelled["retention"] = "ckpt.retention.*" if is_git else "retention"
    close = get_close_matches(_word(key), spelled, n=1)
    hint = "known: " + ", ".join(spelled.values())
    if close:
        hint = f"did you mean '{spelled[close[0]]}'?"
    raise SettingsError(f"{source.place(key)}: unknown key", hint=hint)


def value_of(source: Source, row: Row) -> Value:
    raw = source.values[row.key]
    try:
        # TOML has types of its own: there, a text is never a boolean or a list.
        if isinstance(raw, str) and source.trusted:
            return row.type.of_text(raw)
        return row.type.of_value(raw)
    except Unfit as unfit:
        raise SettingsError(
            f"{source.place(row.key)}: expected {unfit.expected}, got {shown(unfit.got)}",
            hint=_way_out(source, row.key, row.git),
        ) from None


def note(source: Source, row: Row) -> str:
    """What to say of a setting that the repository's file may not make."""
    return (
        f"{source.place(row.key)} = {shown(source.values[row.key])} is ignored: "
        f"only git config ({row.git}), {row.env} or a flag may say that"
    )


def _way_out(source: Source, key: str, git: str) -> str:
    """What to type about a value that is wrong; `git` is the key's name in git config."""
    if source.kind == "git config":
        return f"git config --show-origin --get-all {git}"
    if source.kind == "environment":
        return f"unset {source.place(key)}"
    return mend(source.name) if source.kind == "repository file" else "git ckpt help"


def mend(file: str) -> str:
    return f"mend it in '{file}'; 'git ckpt help' tells of every setting"


def shown(raw: object) -> str:
    """A raw value for a message: on one line, short, without control characters."""
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
    return key if re.fullmatch(_PLAIN_KEY, key) else shown(key)
