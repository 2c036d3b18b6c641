# SPDX-License-Identifier: MIT
"""One line on a terminal that tells how far long work has come.

Quick work shows nothing: the line appears after half a second, is drawn anew ten times a
second at most, and is taken away before anything else is printed. Who may see it at all is
for `output` to say. A terminal that goes away must not stop the work, so errors end the
drawing and nothing else.
"""

from __future__ import annotations

import os
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

_PATIENCE = 0.5
_INTERVAL = 0.1
_CLEAR = "\r\033[K"
_UNITS = ("KiB", "MiB", "GiB", "TiB")


class Progress:
    """Called with the number of files and bytes that are done."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._next = clock() + _PATIENCE
        self._is_shown = False

    def __call__(self, files: int, bytes: int = 0) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        self._is_shown = True
        self._write(_CLEAR + text(files, bytes)[: self._columns() - 1])

    def clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._write(_CLEAR)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def _write(self, drawn: str) -> None:
        try:
            self._stream.write(drawn)
            self._stream.flush()
        except (OSError, ValueError):
            self._next = float("inf")
            self._is_shown = False


def text(files: int, bytes: int) -> str:
    """`ckpt: reading files: 12,345 (1.2 GiB)`."""
    return f"ckpt: reading files: {files:,}" + (f" ({_size(bytes)})" if bytes else "")


def _size(bytes: int) -> str:
    size, unit = float(bytes), "bytes"
    for larger in _UNITS:
        if size < 1000:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
