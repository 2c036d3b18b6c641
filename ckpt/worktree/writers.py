# SPDX-License-Identifier: MIT
"""Whether a program has a file open to write to it, and how long it is waited for.

What it writes when the file has lost its name is lost. Most programs open a file, write and
close it within a moment: so that moment is granted, and those that keep a file open for ever
get no more than that.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the other one takes 2 ms

_MOMENT = 0.005
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Patience:
    """How long writers are waited for, all of them together."""

    def __init__(self, seconds: float = 2) -> None:
        self._left = seconds

    def wait(self) -> bool:
        """Wait a moment; False if there is no time left for it."""
        if self._left <= 0:
            return False
        time.sleep(_MOMENT)
        self._left -= _MOMENT
        return True


def has_writers(name: bytes, dir_fd: int) -> bool:
    """Whether anybody can write to a file without opening it, also through a mapping; False where
    the system does not tell."""
    set_lease = getattr(fcntl, "F_SETLEASE", None)
    if set_lease is None:
        return False
    try:
        fd = os.open(name, _OPEN, dir_fd=dir_fd)
    except OSError:
        return False
    try:
        # Whoever opens it now is told to us, by a signal that ends nobody; closing it is the end.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, set_lease, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(fd)
    return False
