# SPDX-License-Identifier: MIT
"""Encode and decode JSON: ckpt's own records, and agent state.

Agent state may also contain dates, times, bytes, sets, tuples, decimals, UUIDs, and keys that
are not strings; these are stored as objects with the key `$ckpt`. A subclass is restored as its
base class. Other types are refused. Nothing is unpickled or evaluated.
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from importlib import import_module
from math import isfinite
from typing import Any

from ckpt.errors import UsageError

MOST_LEVELS = 200
_TAG, _VALUE = "$ckpt", "value"


# -- Records


def load(data: bytes, object_hook: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    """Parse JSON; raise ValueError also for non-finite numbers and excessive nesting."""
    try:
        return json.loads(
            data, object_hook=object_hook, parse_float=_finite, parse_constant=_finite
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dump(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, indent=1).encode("ascii") + b"\n"


def text_or_none(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is not a string")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text:.40} is not a finite number")
    return number


# -- Agent state


def dump_state(value: Any, where: str) -> bytes:
    """Encode a value; raise UsageError with the path, below `where`, of an unsupported one."""
    try:
        text = json.dumps(_encoded(value, where, 0), ensure_ascii=False)
    except ValueError as error:  # an integer with more digits than Python converts
        raise _refusal(where, str(error)) from None
    return text.encode("utf-8", "backslashreplace") + b"\n"


def load_state(data: bytes) -> Any:
    """Decode a value encoded by `dump_state`; raise ValueError for any other text."""
    try:
        value = load(data, _decoded)
        _encoded(value, "", 0)  # check the nesting
        return value
    except (ArithmeticError, AttributeError, KeyError, TypeError, UsageError) as error:
        raise ValueError(f"not a stored value ({error!r})") from None


def base64(value: bytes | bytearray) -> str:
    return b2a_base64(value, newline=False).decode("ascii")


# The types that JSON lacks, and how to decode them.
_BUILTIN: dict[str, Callable[[Any], Any]] = {
    **{cls.__name__: cls for cls in (dict, frozenset, set, tuple)},
    "bytes": a2b_base64,
}
_IMPORTED = {"datetime.date", "datetime.datetime", "datetime.time", "decimal.Decimal", "uuid.UUID"}


def _encoded(value: Any, where: str, level: int) -> Any:
    if level > MOST_LEVELS:
        raise _refusal(where, "it is nested too deeply, or contains itself")
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float) and isfinite(value):
        return value
    # Copy containers first: another thread may add to them.
    if isinstance(value, Mapping):
        pairs = []
        for key, item in tuple(value.items()):
            place = f"{where}.{key}" if isinstance(key, str) else f"{where}[{key!r}]"
            pairs.append((_encoded(key, place, level + 1), _encoded(item, place, level + 1)))
        if all(isinstance(key, str) and key != _TAG for key, _ in pairs):
            return dict(pairs)
        return {_TAG: "dict", _VALUE: pairs}
    if isinstance(value, list | tuple):
        parts = enumerate(tuple(value))
        items = [_encoded(item, f"{where}[{n}]", level + 1) for n, item in parts]
        return items if isinstance(value, list) else {_TAG: "tuple", _VALUE: items}
    if isinstance(value, set | frozenset):
        items = [_encoded(item, where, level + 1) for item in tuple(value)]
        items.sort(key=json.dumps)  # equal sets give the same blob
        return {_TAG: "set" if isinstance(value, set) else "frozenset", _VALUE: items}
    if isinstance(value, bytes | bytearray):
        return {_TAG: "bytes", _VALUE: base64(value)}
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if name in _IMPORTED and value == value:
        return {_TAG: name, _VALUE: value.isoformat() if "datetime" in name else str(value)}
    raise _refusal(where, f"it is {value}" if isinstance(value, float) else f"it is a '{name}'")


def _decoded(found: dict[str, Any]) -> Any:
    if _TAG not in found:
        return found
    tag, value = found[_TAG], found[_VALUE]
    if tag not in _IMPORTED:
        return _BUILTIN[tag](value)
    module, _, name = tag.partition(".")
    cls = getattr(import_module(module), name)
    return getattr(cls, "fromisoformat", cls)(value)


def _refusal(where: str, reason: str) -> UsageError:
    return UsageError(
        f"'{where}' is not JSON, nor a type that ckpt stores besides: {reason}",
        hint="pass objects, lists, strings, finite numbers, true, false, null, "
        "dates, times, bytes, sets and tuples",
        details={"key": where},
    )
