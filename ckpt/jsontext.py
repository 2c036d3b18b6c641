# SPDX-License-Identifier: MIT
"""Reads and writes the JSON of ckpt's own records: sorted keys, one level a space, ASCII.

The same text as `json.dumps(document, sort_keys=True, indent=1)`, which takes 2 ms to import,
and 3 for `re` before it. Left out, and left to `json`: numbers that are no integers, keys
that are no strings, and whatever is no JSON. Unlike there, no number is infinite or none at all:
what is read must be writable as JSON again. Nor are there values without end: a few kilobytes of a
checkpoint may unfold into as many as a machine has room for.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def _quoted(text: str) -> str: ...
    def _scan(text: str, start: int) -> tuple[Any, int]: ...


def finite(text: str) -> float:
    """A number; ValueError for one that JSON cannot say."""
    number = float(text)
    if not -_INFINITE < number < _INFINITE:
        raise ValueError(f"{text:.40} is no number of JSON's")
    return number


_INFINITE = float("inf")

if not TYPE_CHECKING:

    class _Rules:
        """How `json` reads, but for those numbers."""

        strict = True
        object_hook = object_pairs_hook = None
        parse_float = parse_constant = finite
        parse_int = int

    try:
        from _json import encode_basestring_ascii as _quoted
        from _json import make_scanner

        _scan = make_scanner(_Rules)
    except ImportError:
        from json.decoder import JSONDecoder
        from json.encoder import encode_basestring_ascii as _quoted

        _scan = JSONDecoder(parse_float=finite, parse_constant=finite).scan_once

_LARGE = 1 << 20  # bytes, from which on it matters how many values there are
_MOST_VALUES = 10_000_000
_PIECE = 1 << 18
_STRING = re.compile(rb'"[^"]*(?:"|\Z)')
_WORDS = {None: "null", True: "true", False: "false"}


class _Unknown(Exception):
    """Json must say."""


def load(data: bytes) -> Any:
    """What `json.loads` gives; that is asked only about what is not plain and right.

    ValueError also for what is nested deeper than Python can follow, or has too many values.
    """
    try:
        return _load(data) if len(data) <= _LARGE else _load_large(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def count(data: bytes, most: int) -> int:
    """How many values there may be in a text. If that could be more than `most`, what is within
    strings does not count."""
    number = 1 + _signs(data)
    return number if number <= most else 1 + _signs_outside_strings(data)


def _signs(data: bytes) -> int:
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _signs_outside_strings(data: bytes) -> int:
    """In one pass and in pieces, as who wrote the text may have meant it to take for ever. Quotes
    that end no string go first; what a string without an end has in it counts."""
    data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    number, begun = 0, b""
    for start in range(0, len(data), _PIECE):
        piece = begun + data[start : start + _PIECE]
        number += _signs(_STRING.sub(b"", piece))
        begun = b'"' if piece.count(b'"') % 2 else b""
    return number + _signs(data[data.rfind(b'"') :] if begun else b"")


def _load_large(data: bytes) -> Any:
    number = count(data, _MOST_VALUES)
    if number > _MOST_VALUES:
        raise ValueError(f"it has {number:,} values")
    was_on = gc.isenabled()
    gc.disable()  # which looks for circles all the time, and a text has none
    try:
        return _load(data)
    finally:
        if was_on:
            gc.enable()


def _load(data: bytes) -> Any:
    try:
        text = data.decode("ascii")
        value, end = _scan(text, 0)
        if not text[end:].strip(" \t\n\r"):
            return value
    except (StopIteration, UnicodeDecodeError, SystemError):
        pass  # the last of them where the scanner wants to raise an error of `json`'s
    import json

    return json.loads(data, parse_float=finite, parse_constant=finite)


def text_or_none(value: object) -> str | None:
    """A value that is to be text, or null; ValueError for any other, as a file may hold it."""
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is no text")
    return value


def dump(document: Mapping[str, Any]) -> bytes:
    try:
        text = _text(document, "\n")
    except (_Unknown, RecursionError):
        import json

        text = json.dumps(document, sort_keys=True, indent=1)
    return text.encode("ascii") + b"\n"


def _text(value: Any, newline: str) -> str:
    """`newline` ends with the indentation that the value stands at."""
    kind = type(value)
    if kind is str:
        return _quoted(value)
    if kind is int:
        return str(value)
    if value is None or kind is bool:
        return _WORDS[value]
    inner = newline + " "
    if kind is list:
        rows = [_text(item, inner) for item in value]
        return f"[{inner}{f',{inner}'.join(rows)}{newline}]" if rows else "[]"
    if kind is dict and all(type(key) is str for key in value):
        rows = [f"{_quoted(key)}: {_text(value[key], inner)}" for key in sorted(value)]
        return f"{{{inner}{f',{inner}'.join(rows)}{newline}}}" if rows else "{}"
    raise _Unknown
