# SPDX-License-Identifier: MIT
"""Git's lock on a file, `<path>.lock`.

Ours are made as a second name of a private file, so that one left behind by a kill can
be told from anybody else's by its inode, and as the private file is locked by the kernel
while its process lives, such a lock is taken away by whoever finds it, never a living
process's or another program's. Where there are no second names, or no locks of the
kernel's, nothing can be told, and what is left by a kill stays, as git's own do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from ckpt import disk
from ckpt.errors import Busy
from ckpt.private import UNFINISHED, ensure_dir, names_in
from ckpt.store.kernel_lock import close_locked, keep_from_forks, try_lock
from ckpt.store.sharing import NOT_SHARED, Sharing

_POLL_SECONDS = 0.005
_FOLDER_SECONDS = 1.0
SECOND_NAME = "lock-"
# What systems say of a second name for a file where they have none.
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}

# What they say of a name that is no private file of ours: gone, another user's, a folder, a link,
# a socket.
_NOT_OURS = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM),
    *(errno.EISDIR, errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EOPNOTSUPP),
}


class Lock:
    """Git's lock on a file, while it is held."""

    def __init__(self, path: str, private_dir: str) -> None:
        self._path = path
        self._private_dir = private_dir

    def replace(self, contents: bytes) -> None:
        """Give the file other contents and stay locked, as more is to be done with it."""
        with _private_file(self._private_dir) as (fd, private):
            _like(fd, private, self._path)
            disk.write(fd, contents)
            disk.fsync(fd)
            disk.rename(private, self._path)
        disk.fsync_dir(os.path.dirname(self._path))


def replace_locked(
    path: str,
    contents: bytes,
    private_dir: str,
    still_valid: Callable[[], bool] = lambda: True,
    *,
    patience: float = 0.0,
    sharing: Sharing = NOT_SHARED,
) -> bool:
    """Replace a file of git's under git's lock; False if `still_valid` says no under it.

    Waits for another's lock as long as `patience` says, and makes the folders that are
    missing, also those that git took away as empty just now.
    """
    lock = path + ".lock"
    with _private_file(private_dir) as (fd, private):
        _like(fd, private, path)
        sharing.adjust(private)
        disk.write(fd, contents)
        disk.fsync(fd)
        with _taken(private, path, patience, sharing):
            if not still_valid():
                return False
            disk.rename(lock, path)
    disk.fsync_dir(os.path.dirname(path))
    return True


@contextmanager
def holding(
    path: str, private_dir: str, *, patience: float = 0.0, sharing: Sharing = NOT_SHARED
) -> Iterator[Lock]:
    """Hold git's lock on a file, whether or not that is replaced."""
    with (
        _private_file(private_dir) as (_, private),
        _taken(private, path, patience, sharing),
    ):
        yield Lock(path, private_dir)


@contextmanager
def holding_all(
    paths: Iterable[str], private_dir: str, *, sharing: Sharing = NOT_SHARED
) -> Iterator[list[str]]:
    """Hold git's locks on several files, those that nobody else holds now: which they are."""
    with _private_file(private_dir) as (_, private), ExitStack() as stack:
        held = []
        for path in paths:
            with suppress(Busy):
                stack.enter_context(_taken(private, path, 0.0, sharing))
                held.append(path)
        yield held


@contextmanager
def _private_file(private_dir: str) -> Iterator[tuple[int, str]]:
    """A new file of ours and its handle, with a kernel lock on it while we live."""
    fd, private = _create_private(private_dir)
    keep_from_forks(fd)
    try:
        yield fd, private
    except _LockStays:
        raise
    except BaseException:
        disk.discard(private)
        raise
    else:
        disk.discard(private)
    finally:
        close_locked(fd)


def _create_private(private_dir: str) -> tuple[int, str]:
    ensure_dir(private_dir)
    while True:
        private = os.path.join(private_dir, disk.temporary_name(SECOND_NAME))
        fd = disk.create(private, 0o666)
        try:
            # Before it was locked, who clears up may have taken it for a dead process's.
            if try_lock(fd, fcntl.LOCK_EX) is not False and os.fstat(fd).st_nlink:
                return fd, private
        except BaseException:
            disk.discard(private)
            os.close(fd)
            raise
        disk.discard(private)
        os.close(fd)


def _like(fd: int, private: str, path: str) -> None:
    """Give the new file the bits of the one it replaces: a repository may be shared."""
    try:
        disk.chmod(fd, os.stat(path).st_mode & 0o777)
    except (FileNotFoundError, NotADirectoryError):
        pass


@contextmanager
def _taken(private: str, path: str, patience: float, sharing: Sharing) -> Iterator[None]:
    """Hold the lock on `path`, which is the private file by a second name."""
    lock = path + ".lock"
    inode = _inode(private)  # known before, as an interrupt may come when the lock is just there
    try:
        _take(private, path, time.monotonic() + patience, sharing)
        inode = _inode(lock)  # a copy has its own
        yield
        # Unless it has become the file: the next of its name is another's.
        if inode is not None and _inode(lock) == inode:
            disk.unlink(lock)
    except BaseException:
        if inode is not None and _inode(lock) == inode:
            _remove(lock)
        raise


class _LockStays(OSError):
    """A lock cannot be taken away. It can be told from another process's, later, only while
    the private file has its name."""


def _remove(lock: str) -> None:
    try:
        disk.unlink(lock)
    except OSError as error:
        raise _LockStays(error.errno, error.strerror, lock) from error
    except BaseException:
        disk.discard(lock)
        raise


def _take(private: str, path: str, deadline: float, sharing: Sharing) -> None:
    lock = path + ".lock"
    while True:
        try:
            return _link(private, lock)
        except FileNotFoundError:
            if not os.path.exists(private) or time.monotonic() > deadline + _FOLDER_SECONDS:
                raise
            sharing.make_folders(os.path.dirname(path))
        except FileExistsError:
            _wait(path, os.path.dirname(private), deadline)


def check_free(paths: Iterable[str], private_dir: str, *, patience: float) -> None:
    """Wait until nobody holds git's locks on files, but not for ever, before anything is done
    that needs them."""
    deadline = time.monotonic() + patience
    for path in paths:
        while os.path.lexists(path + ".lock"):
            _wait(path, private_dir, deadline)


def _wait(path: str, private_dir: str, deadline: float) -> None:
    """For a moment, while a file is locked; not if that was by a process of ours that died."""
    if clear_dead_locks(private_dir, lambda: [path]):
        return
    if time.monotonic() >= deadline:
        raise _held(path)
    time.sleep(_POLL_SECONDS)


def _held(path: str) -> Busy:
    from ckpt.store.lock_holder import maker_of

    lock = path + ".lock"
    maker = maker_of(lock)
    if maker is None:
        hint = "another git process seems to be running; wait for it, or remove that file"
        return Busy(f"unable to lock '{path}': '{lock}' exists", hint=hint)
    message = f"unable to lock '{path}': '{lock}' is held by process {maker}"
    return Busy(message, hint="wait for it to end, then try again")


def _link(private: str, lock: str) -> None:
    try:
        disk.link(private, lock)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _copy(private, lock)


def _copy(private: str, lock: str) -> None:
    """Where a file can have one name only: a lock as git makes it."""
    fd = disk.create(lock, stat.S_IMODE(os.stat(private).st_mode))
    try:
        with open(private, "rb") as file:
            disk.write(fd, file.read())
        disk.fsync(fd)
    except BaseException:
        disk.discard(lock)
        raise
    finally:
        os.close(fd)


def clear_own_locks(private_dir: str, paths: Iterable[str]) -> None:
    """Remove what killed processes left: their locks on `paths` and their private files."""
    clear_dead_locks(private_dir, lambda: paths)
    clear_unfinished(private_dir)


def clear_unfinished(folder: str, prefix: str = UNFINISHED) -> None:
    """Remove files that killed processes have not finished, private ones or others of ours."""
    for path in dead_unfinished(folder, prefix):
        disk.discard(path)


def dead_unfinished(folder: str, prefix: str = UNFINISHED) -> Iterator[str]:
    """Such files; while one is at hand, nobody else takes it."""
    for name in sorted(_names_in(folder, prefix)):
        path = os.path.join(folder, name)
        with _dead(path) as inode:
            if inode is not None:
                yield path


def remove_dead(path: str) -> None:
    """Remove a file that a process was writing (see `disk.replacing`) when it was killed."""
    with _dead(path) as inode:
        if inode is not None:
            disk.unlink(path)


def is_dead(path: str) -> bool:
    """Whether there is such a file."""
    with _dead(path) as inode:
        return inode is not None


def clear_dead_locks(private_dir: str, paths: Callable[[], Iterable[str]]) -> bool:
    """Remove their locks only; True if there was one. Those of living processes stay."""
    left = _names_in(private_dir, SECOND_NAME)
    files = [*paths()] if left else []
    cleared = False
    for name in left:
        private = os.path.join(private_dir, name)
        with _dead(private) as inode:
            if inode is None:
                continue
            for path in files:
                if _inode(path + ".lock") == inode:
                    disk.unlink(path + ".lock")
                    cleared = True
            is_published = any(_inode(path) == inode for path in files)
            # Else by it alone another lock can be told from git's.
            if is_published or _names_of(private) == 1:
                disk.discard(private)
    return cleared


def dead_locks(private_dir: str) -> list[str]:
    """The private files of processes that were killed; each may have a lock by another name."""
    found = []
    for name in sorted(_names_in(private_dir, SECOND_NAME)):
        private = os.path.join(private_dir, name)
        with _dead(private) as inode:
            if inode is not None:
                found.append(private)
    return found


@contextmanager
def _dead(private: str) -> Iterator[tuple[int, int] | None]:
    """The inode of a private file whose process has died, held so that nobody else clears it."""
    try:
        fd = _open(private)
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise
        yield None
        return
    try:
        yield _inode_if_free(fd)
    finally:
        os.close(fd)


def _open(private: str) -> int:
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(private, os.O_RDWR | flags)  # as NFS wants it for a lock
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return os.open(private, os.O_RDONLY | flags)


def _inode_if_free(fd: int) -> tuple[int, int] | None:
    if not try_lock(fd, fcntl.LOCK_EX):
        return None
    found = os.fstat(fd)
    is_file = stat.S_ISREG(found.st_mode) and found.st_nlink
    return (found.st_dev, found.st_ino) if is_file else None


def _names_of(path: str) -> int:
    """How many names a file has; one if it has lost this one just now, as its process ended."""
    try:
        return os.lstat(path).st_nlink
    except FileNotFoundError:
        return 1


def _names_in(private_dir: str, prefix: str) -> list[str]:
    return [name for name in names_in(private_dir) if name.startswith(prefix)]


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
