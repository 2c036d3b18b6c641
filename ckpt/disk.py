# SPDX-License-Identifier: MIT
"""Write files atomically and durably, and hold git's locks and our own.

Writes never follow a symbolic link in the last component. Our locks are flock locks, which end
with their process. Git's lock `<path>.lock` is a hard link to a flocked private file `lock-*`
that contains its path, so the lock of a killed command is known to be stale. Without hard links
or flock, a stale lock remains, as git's own do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from ckpt.errors import Busy

Path = str | bytes

# -- Writing

_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def create(path: Path, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
    """Create a file and open it for reading and writing; it must not exist."""
    return os.open(path, _NEW, mode, dir_fd=dir_fd)


def write(fd: int, data: bytes | memoryview) -> None:
    """Write all of `data`."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def discard(path: Path, *, dir_fd: int | None = None) -> None:
    """Remove an unfinished file, or leave it to the next command if that fails."""
    try:
        os.unlink(path, dir_fd=dir_fd)
    except OSError:
        pass
    except BaseException:  # an interrupt must not leave it behind
        with suppress(OSError):
            os.unlink(path, dir_fd=dir_fd)
        raise


def temporary_name(prefix: str) -> str:
    """Return a unique file name."""
    return prefix + os.urandom(8).hex()


@contextmanager
def replacing(path: str, folder: str, mode: int = 0o600, *, durable: bool = True) -> Iterator[int]:
    """Yield a new file in `folder`, on the same file system, then rename it to `path`."""
    temporary = os.path.join(folder, temporary_name(UNFINISHED))
    with open(create_locked(temporary, mode), "r+b", buffering=0) as file:
        try:
            yield file.fileno()
            if durable:
                os.fsync(file.fileno())
            os.rename(temporary, path)
        except BaseException:
            discard(temporary)
            raise
    if durable:
        fsync([os.path.dirname(path)])


def create_locked(path: str, mode: int = 0o600) -> int:
    """Create a file and lock it, which marks it as used by a running process."""
    while True:
        fd = create(path, mode)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            # Another process may have removed it as stale before it was locked.
            if os.fstat(fd).st_nlink:
                return fd
        except BaseException:
            discard(path)
            os.close(fd)
            raise
        os.close(fd)


# -- Durability

MANY_FILES = 500  # above which one sync() is faster
_THREADS = 8
_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP)  # for directories, on some file systems


def fsync(paths: Collection[Path]) -> None:
    """Flush files and directories to disk, in parallel."""
    if sync_instead_of(len(paths)):
        return
    todo, errors, threads = iter(paths), [], []

    def work() -> None:
        try:
            for path in todo:
                with suppress(FileNotFoundError):
                    flush(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            errors.append(error)

    if len(paths) > 2:
        from threading import Thread

        threads = [Thread(target=work) for _ in range(min(len(paths), _THREADS) - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def flush(fd: int) -> None:
    """Flush an open file or directory to disk, then close it."""
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise
    finally:
        os.close(fd)


def sync_instead_of(count: int) -> bool:
    """Call sync() if that is faster than flushing `count` files; return whether it is."""
    if count <= MANY_FILES or sys.platform != "linux":
        return False
    os.sync()  # waits for the disk on Linux only
    return True


# -- Reading files that git and the user write

LARGE = 1 << 31  # for an index of ten million files, or as many packed refs
SMALL = 1 << 24  # for any other file


def opened(path: str | bytes) -> int:
    """Open a regular file for reading, following links; refuse pipes and devices."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    status = os.fstat(fd)
    # /dev/null stands for a missing file, such as a configuration.
    if stat.S_ISREG(status.st_mode) or os.path.samestat(status, os.stat(os.devnull)):
        return fd
    os.close(fd)
    raise OSError(errno.ENXIO, "not a regular file", path)


def read(path: str | bytes, most: int = SMALL) -> bytes:
    """Return the contents of a file of at most `most` bytes."""
    with open(opened(path), "rb", buffering=0) as file:
        if os.fstat(file.fileno()).st_size > most:
            raise OSError(errno.ENXIO, "file too large", path)
        return file.read()


# -- Private files and directories, mode 0600 and 0700, in `ckpt/` of a git directory or a user

OPEN, WRITABLE = 0o077, 0o022  # permission bits of group and others
UNFINISHED = ".tmp-"  # prefix of temporary files


def ensure_dir(path: str) -> None:
    """Create a private directory, unless it exists; raise NotADirectoryError for a file or link,
    FileNotFoundError if the parent directory is missing."""
    if not os.path.lexists(path):
        with suppress(FileExistsError):  # created by another process
            os.mkdir(path, 0o700)
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


def names_in(path: str) -> list[str]:
    """List a directory; return nothing if it is missing, unreadable, a file or a link."""
    try:
        return [] if os.path.islink(path) else os.listdir(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def replace(path: str, *parts: bytes, durable: bool = True) -> None:
    """Replace a private file atomically; a cache need not be durable."""
    folder = os.path.dirname(path)
    ensure_dir(folder)
    with replacing(path, folder, durable=durable) as fd:
        for part in parts:
            write(fd, part)


def read_private(path: str, refused: int = WRITABLE) -> bytes:
    """Read a file owned by this user; raise OSError if it has permission bits in `refused`."""
    with open(os.open(path, _LOOK), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        is_own = status.st_uid == os.geteuid() and not status.st_mode & refused
        if not is_own or not stat.S_ISREG(status.st_mode) or status.st_size > LARGE:
            raise PermissionError(errno.EPERM, "not a private file", path)
        return file.read()


def open_private(path: str, flags: int = os.O_RDWR) -> int:
    """Open a private file, creating it and its directory if missing."""
    ensure_dir(os.path.dirname(path))
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)


def overwrite_private(path: str, data: bytes) -> None:
    """Overwrite the start of a private file, unflushed; once written, it needs no more space."""
    with open(open_private(path), "r+b", buffering=0) as file:
        os.pwrite(file.fileno(), data, 0)


def append(path: str, data: bytes) -> None:
    """Append to a private file, without flushing it."""
    with open(open_private(path, os.O_WRONLY | os.O_APPEND), "ab", buffering=0) as file:
        os.write(file.fileno(), data)


def remove(path: str) -> None:
    """Remove a private file durably, if it exists."""
    with suppress(FileNotFoundError):
        os.unlink(path)
        fsync([os.path.dirname(path)])


# -- Locks between our commands

JOURNAL = "journal"  # in a worktree's private directory while a rollback is in progress
_POLL = 0.01  # seconds


def try_lock(fd: int, mode: int) -> bool | None:
    """Take a lock; return False if another process holds it, None if locks are unsupported."""
    try:
        fcntl.flock(fd, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # unsupported by the file system, as for directories on NFS
        return None
    return True


@contextmanager
def locking(fd: int, mode: int, timeout: float, place: str) -> Iterator[None]:
    """Hold a lock on an open file, then close it; raise Busy after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    try:
        while try_lock(fd, mode) is False:
            if time.monotonic() >= deadline:
                raise Busy(
                    f"another ckpt command is at work in this {place}",
                    hint="wait for it to end, then try again",
                )
            time.sleep(_POLL)
        yield
    finally:
        try_lock(fd, fcntl.LOCK_UN)  # a forked process may have the file open
        os.close(fd)


def worktree_lock(
    private_dir: str, *, exclusive: bool, timeout: float
) -> AbstractContextManager[object]:
    """Lock a worktree: shared for a save, exclusive for a rollback."""
    try:
        fd = open_private(os.path.join(private_dir, "lock"))
    except PermissionError:  # owned by another user, as after `sudo git commit`
        if exclusive:
            raise
        return nullcontext()
    return locking(fd, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, timeout, "worktree")


def prune_lock(common_dir: str, *, timeout: float) -> AbstractContextManager[object]:
    """Lock the trash of a repository."""
    try:
        fd = open_private(os.path.join(common_dir, "ckpt", "prune-lock"))
    except PermissionError:
        return nullcontext()
    return locking(fd, fcntl.LOCK_EX, timeout, "repository")


# -- Rollbacks in progress


def journal_exists(private_dir: str) -> bool:
    return os.path.lexists(os.path.join(private_dir, JOURNAL))


def is_rolling_back(private_dir: str) -> bool:
    """Return whether another process is rolling back this worktree."""
    lock = os.path.join(private_dir, "lock")
    if journal_exists(private_dir):
        with suppress(OSError), open(os.open(lock, _LOOK), "rb") as file:
            return try_lock(file.fileno(), fcntl.LOCK_SH) is False
    return False


def is_interrupted(private_dir: str) -> bool:
    """Return whether a rollback was interrupted here and is not running."""
    is_dead = journal_exists(private_dir) and not is_rolling_back(private_dir)
    return is_dead and journal_exists(private_dir)


# -- Git's lock on a file

LOCK = "lock-"  # prefix of the private files
_PATIENCE = 1.0  # seconds that git too waits for a lock
_FOLDER_PATIENCE = 1.0  # seconds in which git may remove the directory again
# Errors of file systems without hard links.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}


@contextmanager
def holding(path: str, private_dir: str, *, patience: float = _PATIENCE) -> Iterator[None]:
    """Hold git's lock on a file, waiting up to `patience` seconds for it."""
    ensure_dir(private_dir)
    private, lock = os.path.join(private_dir, temporary_name(LOCK)), path + ".lock"
    with open(create_locked(private), "r+b", buffering=0) as file:
        inode = os.fstat(file.fileno())
        try:
            write(file.fileno(), os.fsencode(os.path.relpath(path, private_dir)))
            inode = _take(private, lock, time.monotonic() + patience)
            yield
        finally:
            try:
                _unlink_same(lock, inode)
                discard(private)
            except KeyboardInterrupt:  # which must not leave them behind
                _unlink_same(lock, inode)
                discard(private)
                raise


def _take(private: str, lock: str, deadline: float) -> os.stat_result:
    while True:
        try:
            try:
                os.link(private, lock, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                os.close(create(lock, 0o666))
            return os.lstat(lock)
        except FileNotFoundError:  # git removes directories without refs
            if time.monotonic() > deadline + _FOLDER_PATIENCE:
                raise
            os.makedirs(os.path.dirname(lock), exist_ok=True)
        except FileExistsError:
            _wait(lock, os.path.dirname(private), deadline)


def _unlink_same(lock: str, inode: os.stat_result) -> None:
    with suppress(FileNotFoundError, NotADirectoryError):
        if os.path.samestat(os.lstat(lock), inode):
            os.unlink(lock)


def replace_held(path: str, contents: bytes, folder: str, mode: int | None = None) -> None:
    """Replace a file of git or the user, keeping its permissions unless `mode` is given."""
    with replacing(path, folder, mode or 0o666) as fd:
        if mode is None:
            with suppress(FileNotFoundError):
                os.fchmod(fd, stat.S_IMODE(os.stat(path).st_mode))
        write(fd, contents)


def check_free(paths: Iterable[str], private_dir: str, *, patience: float) -> None:
    """Wait until git's locks on these files are free; raise Busy after `patience` seconds."""
    deadline = time.monotonic() + patience
    for lock in (path + ".lock" for path in paths):
        while os.path.lexists(lock):
            _wait(lock, private_dir, deadline)


def _wait(lock: str, private_dir: str, deadline: float) -> None:
    """Remove a stale lock of ours, or wait a moment for it."""
    clear_dead(private_dir)
    if os.path.lexists(lock):
        if time.monotonic() >= deadline:
            raise Busy(
                f"unable to lock '{lock.removesuffix('.lock')}': '{lock}' exists",
                hint="another git process seems to be running; wait for it, or remove that file",
            )
        time.sleep(_POLL)


# -- Stale files


def clear_dead(folder: str, *, dry_run: bool = False) -> list[str]:
    """Remove the files of killed processes, and the git locks they name; return the files."""
    cleared = []
    for name in sorted(names_in(folder)):
        if not name.startswith((LOCK, UNFINISHED)):
            continue
        path = os.path.join(folder, name)
        with suppress(OSError), open(os.open(path, _LOOK), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            is_file = stat.S_ISREG(status.st_mode)
            if not is_file or not try_lock(file.fileno(), fcntl.LOCK_EX):
                continue
            if not os.fstat(file.fileno()).st_nlink:  # removed by another command
                continue
            cleared.append(path)
            if name.startswith(LOCK) and not dry_run:
                with suppress(OSError, ValueError):
                    named = os.fsdecode(read_private(path))
                    _unlink_same(os.path.join(folder, named) + ".lock", status)
            if not dry_run:
                discard(path)
    return cleared
