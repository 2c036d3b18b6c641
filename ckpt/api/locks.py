# SPDX-License-Identifier: MIT
"""A lock among the threads of one process, and of no other.

A fork takes along what its parent's threads were in the middle of, but not the threads: a lock
that one of them held would be held for ever.
"""

from __future__ import annotations

import os
from _thread import RLock  # what `threading` offers too, without its 3 ms


class ThreadLock:
    """Held by one thread at a time, which may enter it again; new in a new process."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._lock = RLock()
        self._depth = 0

    @property
    def is_foreign(self) -> bool:
        """Whether this was made, or last entered, in the process that ours was forked from."""
        return self._pid != os.getpid()

    @property
    def is_entered_again(self) -> bool:
        """For whoever is in it: whether the same thread was in it already."""
        return self._depth > 1

    def acquire(self, timeout: float = -1) -> bool:
        """Enter; False if another thread stays in it for so many seconds."""
        if self.is_foreign:
            self._renew()
        if not self._lock.acquire(timeout=timeout):
            return False
        self._depth += 1
        return True

    def __enter__(self) -> ThreadLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        self._depth = max(self._depth - 1, 0)
        try:
            self._lock.release()
        except RuntimeError:  # forked by whoever is in it
            pass
