# SPDX-License-Identifier: MIT
"""Locks: ours on a worktree, and git's on a file.

Ours is a kernel lock, which dies with its process: a rollback holds it alone, saves
hold it together, so that no save ever sees half a rollback of a living process.

Git's is a file `<path>.lock`. Ours are made as a second name of a private file, so
that one left behind by a kill can be told from anybody else's by its inode and is
taken away by the recovery, never another process's.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ckpt import disk
from ckpt.errors import Busy

_POLL_SECONDS = 0.02


@contextmanager
def worktree_lock(private_dir: str, *, exclusive: bool, timeout: float) -> Iterator[None]:
    """Hold the worktree's lock, waiting at most `timeout` seconds for it."""
    disk.ensure_private_dir(private_dir)
    path = os.path.join(private_dir, "lock")
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _acquire(fd, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, timeout)
        if exclusive:
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(fd)


def _acquire(fd: int, mode: int, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            return fcntl.flock(fd, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise _busy(fd) from None
        time.sleep(_POLL_SECONDS)


def _busy(fd: int) -> Busy:
    holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
    who = f" (process {holder})" if holder else ""
    return Busy(
        f"another ckpt command is at work in this worktree{who}",
        hint="wait for it to end, then try again",
    )


def replace_locked(
    path: str, contents: bytes, private_dir: str, still_valid: Callable[[], bool] = lambda: True
) -> bool:
    """Replace a file of git's under git's lock; False if `still_valid` says no under it."""
    disk.ensure_private_dir(private_dir)
    private = os.path.join(private_dir, disk.temporary_name("lock-"))
    lock = path + ".lock"
    fd = disk.create(private, 0o666)
    try:
        _like(fd, path)
        disk.write(fd, contents, private)
        disk.fsync(fd, private)
        _take(private, lock, path)
        if not still_valid():
            disk.unlink(lock)
            return False
        disk.rename(lock, path)
    except BaseException:
        # Nobody could tell it from another process's once the private name is gone.
        if _same_file(private, lock):
            os.unlink(lock)
        raise
    finally:
        os.close(fd)
        _forget(private)
    disk.fsync_dir(os.path.dirname(path))
    return True


@contextmanager
def holding(path: str, private_dir: str) -> Iterator[None]:
    """Hold git's lock on a file without replacing it."""
    disk.ensure_private_dir(private_dir)
    private = os.path.join(private_dir, disk.temporary_name("lock-"))
    os.close(disk.create(private, 0o666))
    try:
        _take(private, path + ".lock", path)
        try:
            yield
        finally:
            disk.unlink(path + ".lock")
    finally:
        _forget(private)


def _like(fd: int, path: str) -> None:
    """Give the new file the bits of the one it replaces: a repository may be shared."""
    try:
        os.fchmod(fd, os.stat(path).st_mode & 0o777)
    except FileNotFoundError:
        pass


def _take(private: str, lock: str, path: str) -> None:
    try:
        disk.link(private, lock)
    except FileExistsError:
        raise Busy(
            f"unable to lock '{path}': '{lock}' exists",
            hint="another git process seems to be running; wait for it, or remove that file",
        ) from None


def _forget(private: str) -> None:
    try:
        os.unlink(private)
    except FileNotFoundError:
        pass


def clear_own_locks(private_dir: str, paths: Iterable[str]) -> None:
    """Remove what a killed process left: its locks on `paths` and its private files."""
    try:
        left = [name for name in os.listdir(private_dir) if name.startswith(("lock-", ".tmp-"))]
    except FileNotFoundError:
        return
    for name in left:
        private = os.path.join(private_dir, name)
        for path in paths:
            if _same_file(private, path + ".lock"):
                disk.unlink(path + ".lock")
        disk.unlink(private)


def _same_file(first: str, second: str) -> bool:
    try:
        return os.path.samefile(first, second)
    except FileNotFoundError:
        return False
