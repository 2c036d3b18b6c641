# SPDX-License-Identifier: MIT
"""Writes the JSON of a checkpoint's own records: sorted keys, one level a space, ASCII.

The same text as `json.dumps(document, sort_keys=True, indent=1)`, which takes 2 ms to import,
and 3 for `re` before it. Left out, and left to `json`: numbers that are no integers, keys
that are no strings, and whatever is no JSON.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    def _quoted(text: str) -> str: ...

else:
    try:
        from _json import encode_basestring_ascii as _quoted
    except ImportError:
        from json.encoder import encode_basestring_ascii as _quoted

_WORDS = {None: "null", True: "true", False: "false"}


class _Unknown(Exception):
    """Json must say."""


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
