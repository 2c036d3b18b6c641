# SPDX-License-Identifier: MIT
"""The types that a setting can have, and how a raw value is read as one.

Each type reads two kinds of raw value: one that has a type of its own, from TOML or
Python, and plain text, from git config or the environment. What does not fit raises
`Unfit`, which says what was expected; where the value stood is for `settings` to add.
"""

from __future__ import annotations

from collections.abc import Callable

from ckpt.patterns import lazy_pattern
from ckpt.values import value_class

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
_SIZE = lazy_pattern(r"(?ai)([0-9]{1,19})(?:\.([0-9]{1,9}))? ?([a-z]*)")
# In lower case only: `6M` may be meant as months.
_DURATION = lazy_pattern(r"(?a)([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(ms|s|m|h|d|w|mo|y)")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SECONDS |= {"mo": 30 * 86400, "y": 365 * 86400}
_LONGEST = 100 * _SECONDS["y"]
_NUMBER = lazy_pattern("[0-9]{1,19}")
_BREAK = lazy_pattern("[\0\r\n]")
_UNITS = {"": 1, "b": 1} | {
    prefix + suffix: base**power
    for power, prefix in enumerate("kmgt", start=1)
    # A bare letter is binary, as in git's own numbers.
    for suffix, base in (("", 1024), ("ib", 1024), ("b", 1000))
}


class Unfit(Exception):
    def __init__(self, expected: str, got: object) -> None:
        self.expected, self.got = expected, got


@value_class
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
