# SPDX-License-Identifier: MIT
"""Signals that end a command: the first ends it in order, and one more changes nothing.

SIGTERM and SIGHUP would kill a process on the spot, with locks and temporary files left. So they
count as Ctrl-C does: what is under way is cleared up, and then we die of them, for whoever waits
to see. Ctrl-C at a terminal comes twice, from the terminal and from the git that started us; the
second must not break into the clearing up. Only if that hangs, another one is the end.
"""

from __future__ import annotations

import os
import sys
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the other one takes 2 ms

PATIENCE = 2.0

_came: list[tuple[int, float]] = []


def install() -> None:
    """What is ignored stays so: think of `nohup`, and of commands in the background."""
    if sys.platform == "win32":
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    if not _came:
        _came.append((number, monotonic()))
        raise KeyboardInterrupt
    if monotonic() - _came[0][1] > PATIENCE:
        _die_of(number)


def came() -> bool:
    """Whether it is over, and what fails now fails for that."""
    return bool(_came)


def end() -> None:
    """Die of what interrupted us. Ctrl-C has an exit code instead."""
    if _came and _came[0][0] != signal.SIGINT:
        _die_of(_came[0][0])


def _die_of(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
