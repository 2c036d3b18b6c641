# SPDX-License-Identifier: MIT
"""Signals that end a command: SIGTERM and SIGHUP count as Ctrl-C does, and clean up first.

Ctrl-C at a terminal often comes twice, from the terminal and from the git that started us. The
second one is ignored while the first is being dealt with, unless that takes too long.
"""

from __future__ import annotations

import os
from _thread import get_ident
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # without the enums of the other, which take 2 ms

PATIENCE = 2.0  # seconds
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_came: list[tuple[int, float]] = []
_main: list[int] = []  # the thread that is interrupted
_holds: list[None] = []


def install() -> None:
    """Handle the signals that are not ignored already, as under `nohup`."""
    _main.append(get_ident())
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    if not _came:
        _came.append((number, monotonic()))
        if not _holds:
            raise KeyboardInterrupt
    if monotonic() - _came[0][1] > PATIENCE:
        _die_of(number)


class Held:
    """Put an interrupt off until the end of this block, which starts a process: else the new
    process would be lost, or a fork would clean up in our place."""

    def __enter__(self) -> None:
        self._holds = get_ident() in _main and not _came
        if self._holds:
            _holds.append(None)

    def __exit__(self, *_: object) -> None:
        if self._holds:
            _holds.pop()
            if _came and not _holds:
                raise KeyboardInterrupt


def stop_in_fork() -> None:
    """Let signals end a fork of ours at once: it has nothing to clean up."""
    for number in _SIGNALS:
        if signal.getsignal(number) == _interrupt:
            signal.signal(number, signal.SIG_DFL)
    if _came:
        os._exit(1)


def end() -> None:
    """Die of the signal that came, for the caller to see; Ctrl-C has an exit code instead."""
    if _came and _came[0][0] != signal.SIGINT:
        _die_of(_came[0][0])


def _die_of(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
