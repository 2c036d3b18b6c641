# SPDX-License-Identifier: MIT
"""Read and write the JSON of ckpt's own records: sorted keys, one level a space, ASCII."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any


def load(data: bytes) -> Any:
    """What the text says; ValueError if it is not JSON, or nested deeper than Python can follow.

    Unlike `json`, refuses numbers that are not finite: JSON cannot say them.
    """
    try:
        return json.loads(data, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise ValueError("nested too deep") from None


def dump(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, indent=1).encode("ascii") + b"\n"


def text_or_none(value: object) -> str | None:
    """A value that is to be text, or null; ValueError for any other."""
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is not a string")
    return value


def _finite(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text:.40} is not a finite number")
    return number
