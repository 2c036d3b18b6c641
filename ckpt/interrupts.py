# SPDX-License-Identifier: MIT
"""Signals that end a command: the first ends it in order, and one more changes nothing.

SIGTERM and SIGHUP would kill a process on the spot, with locks and temporary files left. So they
count as Ctrl-C does: what is under way is cleared up, and then we die of them, for whoever waits
to see. Ctrl-C at a terminal comes twice, from the terminal and from the git that started us; the
second must not break into the clearing up. Only if that hangs, another one is the end.

Where Python would lose what it has just made, a process above all, it is held back for a moment.
Where Python would lose the interrupt itself, in a callback of a dying object as each import has
one, it strikes again just outside.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
from time import monotonic
from types import FrameType
from typing import NoReturn

PATIENCE = 2.0

_came: list[tuple[int, float]] = []
_threads: list[int] = []  # that of the handler, once there is one
_holds: list[None] = []


def install() -> None:
    """What is ignored stays so: think of `nohup`, and of commands in the background."""
    if sys.platform == "win32":
        return
    _threads.append(_thread.get_ident())
    _catch_lost()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    if not _came:
        _came.append((number, monotonic()))
        if not _holds:
            raise KeyboardInterrupt
    if monotonic() - _came[0][1] > PATIENCE:
        _die_of(number)


def _catch_lost() -> None:
    """See to an interrupt that Python drops; whatever else it drops is told as before."""
    tell = sys.unraisablehook

    def dropped(what: sys.UnraisableHookArgs) -> None:
        if not _came or not issubclass(what.exc_type, KeyboardInterrupt):
            tell(what)
            return
        # Raised here, it would be dropped again: so with the next step of whoever is outside.
        outside = sys._getframe().f_back
        if outside is not None:
            outside.f_trace = _strike
            sys.settrace(_strike)

    sys.unraisablehook = dropped


def _strike(frame: FrameType, event: str, argument: object) -> NoReturn:
    """Python takes a trace function that fails away by itself."""
    raise KeyboardInterrupt


class Held:
    """While this is entered, what comes is noted, and breaks in at the end of it.

    To be entered where one can be interrupted again, with what was made in hand. Does nothing in
    other threads, which nothing interrupts, nor in programs with handlers of their own.
    """

    def __enter__(self) -> None:
        self._is_ours = _thread.get_ident() in _threads and not _came
        if self._is_ours:
            _holds.append(None)

    def __exit__(self, *_: object) -> None:
        if self._is_ours:
            _holds.pop()
            if _came and not _holds:
                raise KeyboardInterrupt


def stop_in_fork() -> None:
    """In a copy of our process, which has nothing to clear up: let signals end it at once, also
    one that has just come."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if _threads else ():
        if signal.getsignal(number) == _interrupt:
            signal.signal(number, signal.SIG_DFL)
    if _came:
        os._exit(1)


def ignore() -> None:
    """All is done: what comes now comes too late."""
    if sys.platform != "win32" and not _came:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)


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
