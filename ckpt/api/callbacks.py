# SPDX-License-Identifier: MIT
"""Callbacks: called after the deed, several of them, each whatever the others do.

One that fails is told as a warning of the result and undoes nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    T = TypeVar("T")


def call_all(callbacks: Iterable[Callable[[T], Any]], value: T) -> tuple[str, ...]:
    """Call each with a value; returns what is to be told of those that failed."""
    warnings = []
    for callback in tuple(callbacks):
        try:
            callback(value)
        except Exception as error:  # of the caller's own code
            warnings.append(failure(callback, error))
    return tuple(warnings)


def failure(callback: Callable[..., Any], error: Exception) -> str:
    name = getattr(callback, "__qualname__", None) or repr(callback)
    return f"callback '{name}' failed: {type(error).__name__}: {error}"
