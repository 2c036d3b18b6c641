# SPDX-License-Identifier: MIT
"""Locks between ckpt commands, and git's lock on a file, `<path>.lock`.

Between our own commands: kernel locks (flock), which die with their process. A git lock that
we hold is a hard link to a private file `lock-*` that we keep locked in the kernel, so a lock
that a killed command left behind can be told from any other program's and removed. Where the
file system has no hard links or no flock, a stale lock stays, as git's own do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from ckpt import disk
from ckpt.errors import Busy, Refused

JOURNAL = "journal"  # a rollback's, in a worktree's private folder while it is not done
_POLL = 0.02  # seconds
_SILENT = 2.0  # seconds of waiting that are not reported
_FLAGS = os.O_RDWR | os.O_NOFOLLOW
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# What file systems without flock answer; NFS locks no directory.
_NO_LOCKS = {
    *(errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP),
    *(errno.EBADF, errno.EISDIR, errno.EINVAL),
}

# Called once, with the reason, when a command waits for long.
Waiting = Callable[[str], None]


# -- Kernel locks


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


def acquire(
    fd: int,
    mode: int,
    deadline: float,
    poll: float = _POLL,
    tell: Callable[[], None] = lambda: None,
) -> bool:
    """Take a lock, waiting for it until the deadline; False if another process kept it."""
    while try_lock(fd, mode) is False:
        if time.monotonic() >= deadline:
            return False
        tell()
        time.sleep(poll)
    return True


@contextmanager
def releasing(fd: int) -> Iterator[None]:
    """Release the lock on a file afterwards, also where a forked process has it open too."""
    try:
        yield
    finally:
        try_lock(fd, fcntl.LOCK_UN)


@contextmanager
def worktree_lock(
    private_dir: str, *, exclusive: bool, timeout: float, waiting: Waiting | None = None
) -> Iterator[None]:
    """Hold the worktree's lock: shared by saves, exclusive for a rollback.

    A rollback that waits holds the folder's own lock, at which saves wait too, for half of their
    time: else a new save could always come first. Where the private files are another user's,
    saves go on without a lock.
    """
    disk.ensure_dir(private_dir)
    start = time.monotonic()
    deadline, mode = start + timeout, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    try:
        fd = disk.open_or_create(os.path.join(private_dir, "lock"), _FLAGS)
    except PermissionError:  # another user's, as `sudo git commit` leaves it
        if exclusive:
            raise
        yield
        return
    try:
        tell = _teller(fd, waiting)
        turn = os.open(private_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with releasing(turn):
                until = deadline if exclusive else start + timeout / 2
                is_next = acquire(turn, mode, until, tell=tell) or not exclusive
                if not is_next or not acquire(fd, mode, deadline, tell=tell):
                    raise _busy(fd, "worktree")
        finally:
            os.close(turn)
        with releasing(fd):
            if exclusive:
                _sign(fd)
            yield
    finally:
        os.close(fd)


def _teller(fd: int, waiting: Waiting | None) -> Callable[[], None]:
    """Report once, after some time, which command is waited for."""
    until = time.monotonic() + _SILENT if waiting is not None else float("inf")

    def tell() -> None:
        nonlocal until
        if waiting is not None and time.monotonic() >= until:
            until = float("inf")
            waiting(_at_work(fd, "worktree"))

    return tell


def _exclusive_holder(private_dir: str) -> str | None:
    """Which process holds the worktree's lock exclusively, in words; None if none does."""
    try:
        fd = os.open(os.path.join(private_dir, "lock"), _LOOK)
    except OSError:
        return None
    try:
        return _holder(fd)
    finally:
        os.close(fd)


def _sign(fd: int) -> None:
    """Write our process id into a lock file, for the messages of those who wait."""
    with suppress(OSError):  # the disk may be full
        disk.truncate(fd)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)


def _holder(fd: int) -> str | None:
    """The process that holds a lock exclusively, in words; None if none does."""
    with releasing(fd):
        if try_lock(fd, fcntl.LOCK_SH) is not False:
            return None
    pid = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
    return f"process {pid}" if pid else "another process"


def _busy(fd: int, place: str) -> Busy:
    return Busy(_at_work(fd, place), hint="wait for it to end, then try again")


def _at_work(fd: int, place: str) -> str:
    holder = _holder(fd)
    return f"another ckpt command is at work in this {place}{f' ({holder})' if holder else ''}"


@contextmanager
def prune_lock(common_dir: str, *, timeout: float) -> Iterator[None]:
    """Be the only command that changes the trash of a repository."""
    with _common_lock(common_dir, "prune-lock", timeout):
        yield


@contextmanager
def _common_lock(common_dir: str, name: str, timeout: float) -> Iterator[None]:
    private_dir = os.path.join(common_dir, "ckpt")
    disk.ensure_dir(private_dir)
    try:
        fd = disk.open_or_create(os.path.join(private_dir, name), _FLAGS)
    except PermissionError:  # another user's, in a shared repository
        yield
        return
    try:
        if not acquire(fd, fcntl.LOCK_EX, time.monotonic() + timeout):
            raise _busy(fd, "repository")
        with releasing(fd):
            _sign(fd)
            yield
    finally:
        os.close(fd)


# -- Whether a rollback is at work in a worktree, or died there


def journal_exists(private_dir: str) -> bool:
    return os.path.lexists(os.path.join(private_dir, JOURNAL))


def running_rollback(private_dir: str) -> str | None:
    """The process that is rolling back this worktree, in words; None if none is."""
    if not journal_exists(private_dir):
        return None
    return _exclusive_holder(private_dir)


def is_interrupted(private_dir: str) -> bool:
    """Whether a rollback died here. One that is at work, or ends at this moment, did not."""
    is_dead = journal_exists(private_dir) and running_rollback(private_dir) is None
    return is_dead and journal_exists(private_dir)


# -- Repositories that several users write to (core.sharedRepository)

_GROUP, _EVERYBODY = 0o660, 0o664
_NAMED = {
    **dict.fromkeys(("", "umask", "false", "no", "off", "0"), 0),
    **dict.fromkeys(("group", "true", "yes", "on", "1"), _GROUP),
    **dict.fromkeys(("all", "world", "everybody", "2"), _EVERYBODY),
}


class Sharing(NamedTuple):
    """Permission bits for what is written: added to those that the umask left or, if `exact`,
    instead of them. `top` is the git dir, which is never created."""

    bits: int = 0
    exact: bool = False
    top: str | None = None

    def adjust(self, path: str) -> None:
        """Give a new file or folder the bits of a shared one."""
        if not self.bits:
            return
        mode = os.lstat(path).st_mode
        wanted = self.bits if mode & stat.S_IWUSR else self.bits & ~0o222
        if stat.S_ISDIR(mode):
            wanted |= (wanted & 0o444) >> 2 | stat.S_ISGID
        if not self.exact:
            wanted |= stat.S_IMODE(mode)
        if wanted != stat.S_IMODE(mode):
            os.chmod(path, wanted)

    def make_folders(self, path: str) -> None:
        """Make a folder and those above it."""
        for folder in disk.make_folders(path, self.top):
            self.adjust(folder)


NOT_SHARED = Sharing()


def read_sharing(value: str | None) -> Sharing:
    """What a value of core.sharedRepository asks for."""
    word = (value or "").lower()
    if word in _NAMED:
        return Sharing(_NAMED[word])
    mode = int(word, 8) if set(word) <= set("01234567") else 0
    if mode & 0o600 != 0o600:
        raise Refused(
            f"bad value '{value}' of core.sharedRepository",
            hint="git config core.sharedRepository group",
        )
    return Sharing(mode & 0o666, exact=True)


# -- Git's lock on a file

SECOND_NAME = "lock-"
_LOCK_POLL = 0.005  # seconds
_FOLDER_PATIENCE = 1.0  # seconds in which git may remove the folder again
# What systems answer where a file cannot have a second name.
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}


@contextmanager
def holding(
    path: str, private_dir: str, *, patience: float = 0.0, sharing: Sharing = NOT_SHARED
) -> Iterator[None]:
    """Hold git's lock on a file, waiting for it up to `patience` seconds."""
    disk.ensure_dir(private_dir)
    private = os.path.join(private_dir, disk.temporary_name(SECOND_NAME))
    lock = path + ".lock"
    fd = disk.create_locked(private, 0o666)
    inode = os.fstat(fd)
    try:
        inode = _take(private, lock, time.monotonic() + patience, sharing) or inode
        yield
    finally:
        try:
            with suppress(FileNotFoundError):
                if os.path.samestat(os.lstat(lock), inode):
                    disk.unlink(lock)
            disk.discard(private)
        finally:
            os.close(fd)


def _take(private: str, lock: str, deadline: float, sharing: Sharing) -> os.stat_result | None:
    while True:
        try:
            disk.link(private, lock)
            return None
        except FileNotFoundError:  # git removes folders without refs
            if not os.path.exists(private) or time.monotonic() > deadline + _FOLDER_PATIENCE:
                raise
            sharing.make_folders(os.path.dirname(lock))
        except FileExistsError:
            _wait(lock, os.path.dirname(private), deadline)
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
            with suppress(FileExistsError):
                fd = disk.create(lock, 0o666)
                try:
                    return os.fstat(fd)
                finally:
                    os.close(fd)
            _wait(lock, os.path.dirname(private), deadline)


def replace_locked(
    path: str,
    contents: bytes,
    private_dir: str,
    still_valid: Callable[[], bool] = lambda: True,
    *,
    patience: float = 0.0,
    sharing: Sharing = NOT_SHARED,
) -> bool:
    """Replace a file of git's under git's lock; False if `still_valid` says no under it."""
    with holding(path, private_dir, patience=patience, sharing=sharing):
        if not still_valid():
            return False
        replace_held(path, contents, private_dir, sharing)
    return True


def replace_held(
    path: str, contents: bytes, private_dir: str, sharing: Sharing = NOT_SHARED
) -> None:
    """Replace a file whose lock is held, durably; its permission bits stay."""
    temporary = os.path.join(private_dir, disk.temporary_name(disk.UNFINISHED))
    with disk.replacing(path, temporary, 0o666) as fd:
        try:
            disk.chmod(fd, stat.S_IMODE(os.stat(path).st_mode))
        except FileNotFoundError:
            sharing.adjust(temporary)
        disk.write(fd, contents)
    disk.fsync_dir(os.path.dirname(path))


def check_free(paths: Iterable[str], private_dir: str, *, patience: float) -> None:
    """Wait until no process holds git's lock on any of these files; Busy if one keeps it."""
    deadline = time.monotonic() + patience
    for lock in (path + ".lock" for path in paths):
        while os.path.lexists(lock):
            _wait(lock, private_dir, deadline)


def _wait(lock: str, private_dir: str, deadline: float) -> None:
    """Wait a moment for a lock, unless a killed command of ours left it: that is removed."""
    for private, found in _dead(private_dir, SECOND_NAME):
        with suppress(FileNotFoundError):
            if os.path.samestat(os.lstat(lock), found):
                disk.unlink(lock)
                disk.discard(private)
                return
    if time.monotonic() >= deadline:
        raise locked(lock.removesuffix(".lock"))
    time.sleep(_LOCK_POLL)


def locked(path: str) -> Busy:
    return Busy(
        f"unable to lock '{path}': '{path}.lock' exists",
        hint="another git process seems to be running; wait for it, or remove that file",
    )


# -- What killed commands left behind


def _dead(folder: str, prefix: str) -> Iterator[tuple[str, os.stat_result]]:
    """Private files of killed processes; while one is yielded, no other process takes it."""
    for name in sorted(disk.names_in(folder)):
        if not name.startswith(prefix):
            continue
        path = os.path.join(folder, name)
        with _if_dead(path) as found:
            if found is not None:
                yield path, found


@contextmanager
def _if_dead(path: str) -> Iterator[os.stat_result | None]:
    """The status of a file that was being written when its process died, else None."""
    try:
        fd = os.open(path, _LOOK)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        yield None
        return
    try:
        found = os.fstat(fd)
        is_dead = stat.S_ISREG(found.st_mode) and try_lock(fd, fcntl.LOCK_EX)
        yield os.fstat(fd) if is_dead and os.fstat(fd).st_nlink else None
    finally:
        os.close(fd)


def clear_own_locks(private_dir: str, paths: Iterable[str]) -> None:
    """Remove what killed commands left: locks on `paths`, all that they lock, and private
    files."""
    clear_dead_locks(private_dir, lambda: paths)
    clear_unfinished(private_dir)


def clear_dead_locks(private_dir: str, paths: Callable[[], Iterable[str]]) -> bool:
    """Remove the locks of killed commands on `paths`; True if there was one."""
    files: list[str] | None = None
    cleared = False
    for private, dead in _dead(private_dir, SECOND_NAME):
        if files is None:
            files = [*paths()] if dead.st_nlink > 1 else None
        for lock in (path + ".lock" for path in files or ()):
            with suppress(FileNotFoundError, NotADirectoryError):
                if os.path.samestat(os.lstat(lock), dead):
                    disk.unlink(lock)
                    cleared = True
        disk.discard(private)
    return cleared


def dead_locks(private_dir: str) -> list[str]:
    """The private files of killed commands; each may have a lock by another name."""
    return [path for path, _ in _dead(private_dir, SECOND_NAME)]


def clear_unfinished(folder: str, prefix: str = disk.UNFINISHED) -> None:
    """Remove files that killed commands did not finish."""
    for path in dead_unfinished(folder, prefix):
        disk.discard(path)


def dead_unfinished(folder: str, prefix: str = disk.UNFINISHED) -> Iterator[str]:
    """Such files; while one is yielded, no other process takes it."""
    yield from (path for path, _ in _dead(folder, prefix))


def is_dead(path: str) -> bool:
    """Whether a file was being written (see `disk.replacing`) when its process was killed."""
    with _if_dead(path) as found:
        return found is not None


def remove_dead(path: str) -> None:
    """Remove such a file."""
    with _if_dead(path) as found:
        if found is not None:
            disk.unlink(path)
