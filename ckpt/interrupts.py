# SPDX-License-Identifier: MIT
"""Handle SIGTERM and SIGHUP like Ctrl-C, so that a command cleans up before it ends.

Ctrl-C often arrives twice, from the terminal and from the git that started us. The second is
ignored while the first is handled, unless that takes too long.
"""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # without the enums of signal, which take 2 ms

PATIENCE = 2.0  # seconds
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_came: list[tuple[int, float]] = []


def install() -> None:
    """Handle the signals, except those already ignored, as under `nohup`."""
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    if not _came:
        _came.append((number, monotonic()))
        raise KeyboardInterrupt
    if monotonic() - _came[0][1] > PATIENCE:
        _die_of(number)


def has_come() -> bool:
    """Return whether a signal has been received."""
    return bool(_came)


def stop_in_fork() -> None:
    """Let signals end a forked process at once, without cleanup."""
    for number in _SIGNALS:
        if signal.getsignal(number) == _interrupt:
            signal.signal(number, signal.SIG_DFL)
    if _came:
        os._exit(1)


def end() -> None:
    """Die of the received signal, unless it is Ctrl-C, which has an exit code."""
    if _came and _came[0][0] != signal.SIGINT:
        _die_of(_came[0][0])


def _die_of(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
