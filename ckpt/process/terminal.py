# SPDX-License-Identifier: MIT
"""Who is in the foreground of the terminal: that group reads it and gets its Ctrl-C.

Nothing else of a terminal is ever changed. Where there is none, all of this does nothing.
"""

from __future__ import annotations

import os
import signal


class Foreground:
    """The foreground of the terminal, lent to a process group while it is ours to give.

    In a pipeline, others of our group may need it: there it is lent only on demand.
    """

    def __init__(self, group: int) -> None:
        self._group = group
        self._fd: int | None = None
        self._is_wanted = False
        self.is_lent = False

    def __enter__(self) -> Foreground:
        self._is_wanted = os.isatty(0) and os.isatty(1)
        self._fd = _open()
        self.lend()
        return self

    def __exit__(self, *_: object) -> None:
        self.take_back()
        if self._fd is not None:
            os.close(self._fd)

    def lend(self) -> None:
        if self._is_wanted and self._fd is not None and _group_of(self._fd) == os.getpgrp():
            self.is_lent = _give(self._fd, self._group)

    def demand(self) -> bool:
        """Somebody in the group was stopped for reaching for the terminal; may it go on?"""
        if self.is_lent:
            return False
        self._is_wanted = True
        self.lend()
        return self.is_lent

    def take_back(self) -> None:
        if self._fd is not None and self.is_lent:
            self.is_lent = False
            _give(self._fd, os.getpgrp())


def is_foreground() -> bool:
    """Whether the terminal sends what is typed there to our group."""
    fd = _open()
    if fd is None:
        return False
    try:
        return _group_of(fd) == os.getpgrp()
    finally:
        os.close(fd)


def _open() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


def _group_of(terminal: int) -> int | None:
    try:
        return os.tcgetpgrp(terminal)
    except OSError:
        return None


def _give(terminal: int, group: int) -> bool:
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # or it would stop us in the background
    try:
        os.tcsetpgrp(terminal, group)
        return True
    except OSError:  # the terminal, or the group, is gone
        return False
    finally:
        signal.signal(signal.SIGTTOU, before)
