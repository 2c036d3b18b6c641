# SPDX-License-Identifier: MIT
"""Which process holds a lock, for the message to somebody whom it keeps waiting.

The kernel knows who holds a lock of its own; where it does not tell, the lock's file may say.
Git's locks are files that mean something by being there: their maker is known only while it
has the file open. Nothing is ever decided by what is found here: numbers of processes repeat.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def holder_of(fd: int) -> str | None:
    """A process that holds the kernel's lock on an open file."""
    locks = _kernel_locks()
    if locks is None:  # a killed one may still stand there, whose number may be another's by now
        return os.pread(fd, 32, 0).decode("ascii", "replace").strip() or None
    return _among(locks, os.fstat(fd))


def maker_of(path: str) -> str | None:
    """The process that made a lock file of git's, ours or another's."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    # Ours is another name of a file that its process has locked.
    locker = _among(_kernel_locks() or [], status)
    return locker or next(_who_have_open(os.path.realpath(path)), None)


def _kernel_locks() -> list[list[str]] | None:
    """The locks that there are, as Linux tells; None elsewhere."""
    try:
        with open("/proc/locks", encoding="ascii") as file:
            return [line.split() for line in file]
    except (OSError, ValueError):
        return None


def _among(locks: list[list[str]], status: os.stat_result) -> str | None:
    """Some file systems give their files another device than the kernel does."""
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    found = None
    for _, kind, _, _, pid, at, *_ in (words for words in locks if len(words) == 8):
        # Those who only wait have an arrow more; of another container a process has no number.
        where, _, inode = at.rpartition(":")
        if kind == "FLOCK" and inode == str(status.st_ino) and int(pid) > 0:
            if where == device:
                return pid
            found = found or pid
    return found


def _who_have_open(path: str) -> Iterator[str]:
    """The user's processes, or for root anybody's, that have a file open."""
    for pid in filter(str.isdigit, _names("/proc")):
        for name in _names(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{name}") == path:
                    yield pid
            except OSError:
                continue


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
