# SPDX-License-Identifier: MIT
"""Agent state as text: all that JSON has, and what programs have besides, there and back.

Dates and times, bytes, sets, tuples, decimals, UUIDs and keys that are no strings are JSON
objects with the key `$ckpt`. What comes back is equal to what was given and shares nothing with
it; a subclass comes back as the class below it, a time zone as its offset. What cannot be held is
refused, with the place where it stands. Nothing is unpickled or evaluated.
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from math import isfinite
from typing import Any

from ckpt import jsontext
from ckpt.errors import UsageError

_TAG, _VALUE = "$ckpt", "value"
MOST_LEVELS = 200
_LONGEST_PLACE = 200  # characters of a message
_HINT = (
    "pass objects, lists, strings, finite numbers, true, false, null, "
    "dates, times, bytes, sets and tuples"
)


def dump(value: Any, where: str) -> bytes:
    """The text of a value; UsageError names the place, below `where`, that cannot be held."""
    try:
        return json.dumps(_encoded(value, where, 0), ensure_ascii=False).encode("utf-8") + b"\n"
    except RecursionError:
        raise _refusal(where, "it is nested too deeply") from None


def load(data: bytes) -> Any:
    """The value that `dump` was given; ValueError if it has written no such text."""
    try:
        return _decoded(jsontext.load(data))
    except (ArithmeticError, AttributeError, KeyError, RecursionError, TypeError) as error:
        raise ValueError(f"not a stored value ({error!r})") from None


def plain(value: Any) -> Any:
    """A value as other programs may read it: ISO text for dates and times, base 64 for bytes,
    lists for sets and tuples, text for decimals, UUIDs and keys."""
    if isinstance(value, Mapping):
        found = {_plain_key(key): plain(item) for key, item in value.items()}
        if len(found) == len(value):
            return found
        return [[plain(key), plain(item)] for key, item in value.items()]  # 1 and "1", say
    if isinstance(value, set | frozenset):
        return _in_order(map(plain, value))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes):
        return _base64(value)
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _plain_key(key: Any) -> str:
    text = plain(key)
    return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)


# -- there -----------------------------------------------------------------------


def _encoded(value: Any, where: str, level: int) -> Any:
    if level > MOST_LEVELS:
        raise _refusal(where, "it is nested too deeply, or holds itself")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _checked(str.__str__(value), where)
    if isinstance(value, int):
        return _checked(int(value), where)
    if isinstance(value, float):
        if not isfinite(value):
            raise _refusal(where, f"it is {value}")
        return float(value)
    if isinstance(value, Mapping):
        return _encoded_mapping(value, where, level)
    if isinstance(value, list):
        return _encoded_items(value, where, level)
    if isinstance(value, tuple):
        return _tagged("tuple", _encoded_items(value, where, level))
    if isinstance(value, set | frozenset):
        word = "set" if isinstance(value, set) else "frozenset"
        items = (_encoded(item, where, level + 1) for item in frozenset(value))
        return _tagged(word, _in_order(items))
    return _encoded_scalar(value, where)


def _encoded_items(items: list[Any] | tuple[Any, ...], where: str, level: int) -> list[Any]:
    # Copied first, as sets and mappings are: another thread may add to it.
    return [_encoded(each, f"{where}[{n}]", level + 1) for n, each in enumerate(tuple(items))]


def _encoded_mapping(value: Mapping[Any, Any], where: str, level: int) -> Any:
    items = tuple(value.items())
    if all(isinstance(key, str) for key, _ in items) and _TAG not in value:
        return {
            _checked(str.__str__(key), f"{where}.{key}"): _encoded(
                item, f"{where}.{key}", level + 1
            )
            for key, item in items
        }
    pairs = []
    for key, item in items:
        place = f"{where}[{key!r}]"
        pairs.append([_encoded(key, place, level + 1), _encoded(item, place, level + 1)])
    return _tagged("dict", pairs)


def _encoded_scalar(value: Any, where: str) -> Any:
    if isinstance(value, bytes | bytearray):
        return _tagged("bytes", _base64(value))
    if isinstance(value, datetime):
        return _tagged("datetime", value.isoformat())
    if isinstance(value, date | time):
        if isinstance(value, time) and value.tzinfo is not None and value.utcoffset() is None:
            raise _refusal(where, "its time zone has no offset without a date")
        return _tagged("date" if isinstance(value, date) else "time", value.isoformat())
    if isinstance(value, timedelta):
        return _tagged("timedelta", [value.days, value.seconds, value.microseconds])
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if name == "decimal.Decimal" and value.is_nan():
        raise _refusal(where, f"it is {value}")
    if name in ("decimal.Decimal", "uuid.UUID"):
        return _tagged(name.rpartition(".")[2].lower(), str(value))
    raise _refusal(where, f"it is of type '{name.removeprefix('builtins.')}'")


def _checked(value: str | int, where: str) -> Any:
    """A text that UTF-8 can hold, or a number that Python can write and read again."""
    try:
        str(value).encode("utf-8")
    except UnicodeEncodeError:
        raise _refusal(where, "it is half a character") from None
    except ValueError:
        raise _refusal(where, "it has too many digits") from None
    return value


def _tagged(kind: str, value: Any) -> dict[str, Any]:
    return {_TAG: kind, _VALUE: value}


def _in_order(items: Iterable[Any]) -> list[Any]:
    """The items of a set, always in the same order, so that equal sets are one blob."""
    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _base64(value: bytes | bytearray) -> str:
    return b2a_base64(value, newline=False).decode("ascii")


def _refusal(where: str, reason: str) -> UsageError:
    where = where.encode("utf-8", "backslashreplace").decode("utf-8")
    place = where if len(where) <= _LONGEST_PLACE else where[: _LONGEST_PLACE - 1] + "…"
    return UsageError(
        f"'{place}' is not JSON, nor what ckpt keeps besides: {reason}",
        hint=_HINT,
        details={"key": where},
    )


# -- and back --------------------------------------------------------------------


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _TAG not in value:
        return {key: _decoded(item) for key, item in value.items()}
    return _DECODERS[value[_TAG]](value[_VALUE])


def _bytes(text: str) -> bytes:
    raw = a2b_base64(text)
    if _base64(raw) != text:
        raise ValueError("not base 64")
    return raw


def _decimal(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)


def _uuid(text: str) -> Any:
    from uuid import UUID

    return UUID(text)


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "bytes": _bytes,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "decimal": _decimal,
    "dict": lambda pairs: {_decoded(key): _decoded(item) for key, item in pairs},
    "frozenset": lambda items: frozenset(map(_decoded, items)),
    "set": lambda items: set(map(_decoded, items)),
    "time": time.fromisoformat,
    "timedelta": lambda parts: timedelta(*parts),
    "tuple": lambda items: tuple(map(_decoded, items)),
    "uuid": _uuid,
}
