# SPDX-License-Identifier: MIT
"""Our own locks: of the kernel, so that they die with their process.

A rollback holds the worktree's alone, saves hold it together, so that no save ever sees half
a rollback of a living process. Saves that overlap without a gap would never let a rollback in;
so everyone passes a turnstile first, in which a rollback that waits shuts new saves out: the
lock of the folder itself. A save has a time budget, and when half of it is gone it passes all
the same. The lock alone keeps the two apart; the turnstile only says whose turn it is, and
older versions know nothing of it.

On a file system without such locks there is none: the journal marks what was saved meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ckpt import disk, private
from ckpt.errors import Busy

_POLL_SECONDS = 0.02
_PATIENCE_OF_SAVES = 0.5  # of the time they have
_UNTOLD = 2.0  # seconds that whoever waits need not be told of
_FLAGS = os.O_RDWR | os.O_NOFOLLOW
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# What systems say of a lock where they have none.
# NFS has some only for who may write to the file, and so none of a folder.
_NO_LOCKS = {
    *(errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP),
    *(errno.EBADF, errno.EISDIR, errno.EINVAL),
}

# What is called, once, with the reason why a command waits for long.
Waiting = Callable[[str], None]


@contextmanager
def worktree_lock(
    private_dir: str, *, exclusive: bool, timeout: float, waiting: Waiting | None = None
) -> Iterator[None]:
    """Hold the worktree's lock, waiting at most `timeout` seconds for it."""
    private.ensure_dir(private_dir)
    deadline = time.monotonic() + timeout
    fd = disk.open_or_create(os.path.join(private_dir, "lock"), _FLAGS)
    try:
        tell = _teller(fd, waiting)
        with _turn(private_dir, exclusive, deadline, tell) as is_ours:
            mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
            if not is_ours or not acquire(fd, mode, deadline, tell=tell):
                raise _busy(fd, "worktree")
        with releasing(fd):
            if exclusive:
                _sign(fd, os.path.join(private_dir, "lock"))
            yield
    finally:
        os.close(fd)


def _sign(fd: int, path: str) -> None:
    """Say who holds a lock, for those who wait where the kernel does not tell; a full disk may
    keep us from saying it."""
    with suppress(OSError):
        disk.truncate(fd)
        disk.write(fd, b"%d\n" % os.getpid())


def who_is_alone(private_dir: str) -> str | None:
    """Who holds the worktree's lock alone, in words; None if nobody does, or none can tell."""
    try:
        fd = os.open(os.path.join(private_dir, "lock"), _LOOK)
    except OSError:
        return None
    try:
        with releasing(fd):
            return _who(fd) or "another process" if try_lock(fd, fcntl.LOCK_SH) is False else None
    finally:
        os.close(fd)


def _teller(fd: int, waiting: Waiting | None) -> Callable[[], None]:
    """What tells whoever has waited for long, once, whom they wait for."""
    until = time.monotonic() + _UNTOLD if waiting is not None else float("inf")

    def tell() -> None:
        nonlocal until
        if waiting is not None and time.monotonic() >= until:
            until = float("inf")
            waiting(_at_work(fd, "worktree"))

    return tell


@contextmanager
def _turn(
    private_dir: str, exclusive: bool, deadline: float, tell: Callable[[], None]
) -> Iterator[bool]:
    """Stand in the turnstile while we wait for the lock; False if another rollback stands there."""
    fd = os.open(private_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if exclusive:
            is_ours = acquire(fd, fcntl.LOCK_EX, deadline, tell=tell)
        else:
            now = time.monotonic()
            until = now + (deadline - now) * _PATIENCE_OF_SAVES
            acquire(fd, fcntl.LOCK_SH, until, tell=tell)
            is_ours = True
        with releasing(fd):
            yield is_ours
    finally:
        os.close(fd)


@contextmanager
def prune_lock(common_dir: str, *, timeout: float) -> Iterator[None]:
    """Alone change what is in the trash of a repository, and what goes there."""
    with _common_lock(common_dir, "prune-lock", timeout):
        yield


@contextmanager
def gc_lock(common_dir: str, *, timeout: float) -> Iterator[None]:
    """Alone repack what checkpoints hold: two would write the same packs."""
    with _common_lock(common_dir, "gc-lock", timeout):
        yield


@contextmanager
def _common_lock(common_dir: str, name: str, timeout: float) -> Iterator[None]:
    private_dir = os.path.join(common_dir, "ckpt")
    private.ensure_dir(private_dir)
    try:
        fd = disk.open_or_create(os.path.join(private_dir, name), _FLAGS)
    except PermissionError:  # another user's, in a repository that several share
        yield
        return
    try:
        if not acquire(fd, fcntl.LOCK_EX, time.monotonic() + timeout):
            raise _busy(fd, "repository")
        with releasing(fd):
            yield
    finally:
        os.close(fd)


def acquire(
    fd: int,
    mode: int,
    deadline: float,
    poll: float = _POLL_SECONDS,
    tell: Callable[[], None] | None = None,
) -> bool:
    """Take a lock, waiting for it until the deadline; False if it was another's all the time."""
    while try_lock(fd, mode) is False:
        if time.monotonic() >= deadline:
            return False
        if tell is not None:
            tell()
        time.sleep(poll)
    return True


def try_lock(fd: int, mode: int) -> bool | None:
    """Take a lock; False if another process has it, None where there are no such locks."""
    try:
        fcntl.flock(fd, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return None
    return True


@contextmanager
def releasing(fd: int) -> Iterator[None]:
    """Give up the lock on a file afterwards. To close it is not enough where a fork was made that
    has it open too; but what it does not hold, it must not give up."""
    holder = os.getpid()
    keep_from_forks(fd)
    try:
        yield
    finally:
        _locked.discard(fd)
        if os.getpid() == holder:
            try_lock(fd, fcntl.LOCK_UN)


# Files with locks of ours.
_locked: set[int] = set()


def keep_from_forks(fd: int) -> None:
    """Let the lock on a file die with this process, though a fork of it may live on: of one that
    the host program made, say, and that knows nothing of us."""
    _locked.add(fd)


def close_locked(fd: int) -> None:
    _locked.discard(fd)  # first: a fork made now must not take another file for this one
    os.close(fd)


def _leave_to_parent() -> None:
    """In a fork: whoever closes these files later closes something."""
    if _locked:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in _locked:
            os.dup2(nothing, fd, inheritable=False)
        os.close(nothing)
        _locked.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


def _busy(fd: int, place: str) -> Busy:
    return Busy(_at_work(fd, place), hint="wait for it to end, then try again")


def _at_work(fd: int, place: str) -> str:
    who = _who(fd)
    return f"another ckpt command is at work in this {place}{f' ({who})' if who else ''}"


def _who(fd: int) -> str | None:
    from ckpt.store.lock_holder import holder_of

    holder = holder_of(fd)
    return f"process {holder}" if holder else None
