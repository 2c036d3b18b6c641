# SPDX-License-Identifier: MIT
"""Agent state as text: all that JSON has, and what programs have besides, there and back.

Dates and times, bytes, sets, tuples, decimals, UUIDs and keys that are no strings are JSON
objects with the key `$ckpt`; everything else is the JSON that it would be anyway. What comes
back is equal to what was given and shares nothing with it; of a subclass it is the class
below it that comes back, of a time zone its offset. What cannot be held is refused, with
the place where it stands.

Nothing is unpickled or evaluated: a text can only become values of these types.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

from ckpt.errors import UsageError

_TAG, _VALUE = "$ckpt", "value"
MOST_LEVELS = 200
_HINT = (
    "pass objects, lists, strings, finite numbers, true, false, null, "
    "dates, times, bytes, sets and tuples"
)
_FAR = 1 << 64  # integers beyond may be too long to be read again
_MOST_ALIKE = 100  # values of one hash
_ONE_HASH = f"more than {_MOST_ALIKE} values of one hash"
_LONGEST_PLACE = 200  # of which a message tells all; what holds itself has a long one


def dump(value: Any, where: str) -> bytes:
    """The text of a value; UsageError names the place, below `where`, that cannot be held."""
    import json

    try:
        return json.dumps(_encoded(value, where, 0), ensure_ascii=False).encode("utf-8") + b"\n"
    except RecursionError:
        raise _refusal(where, "it is nested too deeply") from None


def load(data: bytes) -> Any:
    """The value that `dump` was given; ValueError if it has written no such text."""
    from ckpt import jsontext

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
    return _plain_text(value)


def _plain_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    import json

    text = plain(key)
    return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)


def _plain_text(value: Any) -> str:
    if isinstance(value, bytes):
        return _base64(value)
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value)


# -- there -----------------------------------------------------------------------


def _encoded(value: Any, where: str, level: int) -> Any:
    if level > MOST_LEVELS:
        raise _refusal(where, "it is nested too deeply, or holds itself")
    kind = type(value)
    if value is None or kind is bool:
        return value
    if isinstance(value, str):
        return _checked_text(str.__str__(value), where)
    if isinstance(value, int):
        return _checked_integer(int(value), where)
    if isinstance(value, float):
        return _checked_float(float(value), where)
    if isinstance(value, Mapping):
        return _encoded_mapping(value, where, level)
    if isinstance(value, list):
        return _encoded_items(value, where, level)
    if isinstance(value, tuple):
        return _tagged("tuple", _encoded_items(value, where, level))
    if isinstance(value, set | frozenset):
        word = "set" if isinstance(value, set) else "frozenset"
        if _have_one_hash(value := frozenset(value)):
            raise _refusal(where, _ONE_HASH)
        return _tagged(word, _in_order(_encoded(item, where, level + 1) for item in value))
    return _encoded_scalar(value, where)


def _encoded_items(items: list[Any] | tuple[Any, ...], where: str, level: int) -> list[Any]:
    # It may grow or shrink meanwhile in another thread: it is copied first, as sets are.
    found = []
    for number, item in enumerate(tuple(items)):
        found.append(_encoded(item, f"{where}[{number}]", level + 1))
    return found


def _encoded_mapping(value: Mapping[Any, Any], where: str, level: int) -> Any:
    items = tuple(value.items())
    if all(isinstance(key, str) for key, _ in items) and _TAG not in value:
        found = {}
        for key, item in items:
            place = f"{where}.{key}"
            found[_checked_text(str.__str__(key), place)] = _encoded(item, place, level + 1)
        return found
    if _have_one_hash(key for key, _ in items):
        raise _refusal(where, _ONE_HASH)
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


def _tagged(kind: str, value: Any) -> dict[str, Any]:
    return {_TAG: kind, _VALUE: value}


def _have_one_hash(values: Iterable[Any]) -> bool:
    """Whether many do: a set or dict compares each with all of the others, and numbers can be made
    by the hundred thousand that take it hours."""
    alike: dict[int, int] = {}
    for value in values:
        code = hash(value)
        alike[code] = alike.get(code, 0) + 1
    return max(alike.values(), default=0) > _MOST_ALIKE


def _in_order(items: Iterable[Any]) -> list[Any]:
    """The items of a set, always in the same order, so that equal sets are one blob."""
    import json

    return sorted(items, key=lambda item: json.dumps(item, sort_keys=True))


def _base64(value: bytes | bytearray) -> str:
    return b2a_base64(value, newline=False).decode("ascii")


def _checked_text(text: str, where: str) -> str:
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise _refusal(where, "it is half a character") from None
    return text


def _checked_integer(number: int, where: str) -> int:
    if not -_FAR < number < _FAR:
        try:
            str(number)
        except ValueError:
            raise _refusal(where, "it has too many digits") from None
    return number


def _checked_float(number: float, where: str) -> float:
    if number - number != 0:
        raise _refusal(where, f"it is {number}")
    return number


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


def _pairs(pairs: list[Any]) -> dict[Any, Any]:
    keys = _told_apart(key for key, _ in pairs)
    return {key: _decoded(item) for key, (_, item) in zip(keys, pairs, strict=True)}


def _told_apart(items: Iterable[Any]) -> list[Any]:
    """Values for a set, or for the keys of a dict."""
    found = [_decoded(item) for item in items]
    if _have_one_hash(found):
        raise ValueError(_ONE_HASH)
    return found


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "bytes": _bytes,
    "date": lambda text: date.fromisoformat(text),
    "datetime": lambda text: datetime.fromisoformat(text),
    "decimal": _decimal,
    "dict": _pairs,
    "frozenset": lambda items: frozenset(_told_apart(items)),
    "set": lambda items: set(_told_apart(items)),
    "time": lambda text: time.fromisoformat(text),
    "timedelta": lambda parts: timedelta(*parts),
    "tuple": lambda items: tuple(map(_decoded, items)),
    "uuid": _uuid,
}
