# SPDX-License-Identifier: MIT
"""Files: the writes that must be durable or atomic, and files that only their owner reads.

Callers decide what to write and where; nothing is decided here. Paths may be relative to a
directory handle (`dir_fd`), which is how the worktree is written. No call that writes follows a
symbolic link in the last component.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

Path = str | bytes

# -- Single steps

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def create(path: Path, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
    """Open a new file for writing; it must not exist."""
    return os.open(path, _NEW, mode, dir_fd=dir_fd)


def open_or_create(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file that stays where it is, a log or a lock; create it if it is missing."""
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except FileNotFoundError:
        return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, mode)


def write(fd: int, data: bytes | memoryview) -> None:
    """Write all of `data`."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def truncate(fd: int) -> None:
    """Empty a file."""
    if os.fstat(fd).st_size:
        os.ftruncate(fd, 0)


def rename(source: Path, target: Path, *, dir_fd: int | None = None) -> None:
    os.rename(source, target, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


def link(source: Path, target: Path) -> None:
    """Give a file a second name; fails if the name is taken."""
    os.link(source, target, follow_symlinks=False)


def symlink(target: Path, path: Path, *, dir_fd: int | None = None) -> None:
    os.symlink(target, path, dir_fd=dir_fd)


def unlink(path: Path, *, dir_fd: int | None = None) -> None:
    os.unlink(path, dir_fd=dir_fd)


def discard(path: Path, *, dir_fd: int | None = None) -> None:
    """Remove an unfinished file; if that fails, the next command does, as after a kill."""
    try:
        unlink(path, dir_fd=dir_fd)
    except OSError:
        pass
    except BaseException:  # an interrupt must not leave it behind
        with suppress(OSError):
            os.unlink(path, dir_fd=dir_fd)
        raise


def mkdir(path: Path, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
    os.mkdir(path, mode, dir_fd=dir_fd)


def rmdir(path: Path, *, dir_fd: int | None = None) -> None:
    os.rmdir(path, dir_fd=dir_fd)


def chmod(fd: int, mode: int) -> None:
    os.fchmod(fd, mode)


def utime(path: Path) -> None:
    """Set a file's times to now."""
    os.utime(path)


def temporary_name(prefix: str, random: int = 8) -> str:
    """A name that no other file has, with so many random bytes."""
    return prefix + os.urandom(random).hex()


def make_folders(path: str, top: str | None = None) -> list[str]:
    """Create a folder and those above it that are missing; returns the new ones.
    FileNotFoundError if `top` is among them, which is never created."""
    missing, new = [], []
    while not os.path.isdir(path):
        if path == top:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        missing.append(path)
        path = os.path.dirname(path) or "."
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another process was quicker
            mkdir(folder)
            new.append(folder)
    return new


# -- Durability

MANY_FILES = 500  # above which one flush of everything is quicker
_THREADS = 8


def fsync(fd: int) -> None:
    os.fsync(fd)


def fsync_dir(path: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # some file systems cannot, and need not
            os.fsync(fd)
    finally:
        os.close(fd)


def fsync_files(paths: Sequence[Path], others: Collection[Path] = ()) -> None:
    """Make the contents of files durable. `others` may be gone by now."""
    _flush_all(_fsync_file, paths, others)


def fsync_dirs(paths: Sequence[Path], others: Collection[Path] = ()) -> None:
    """Make the names in folders durable, likewise."""
    _flush_all(fsync_dir, paths, others)


def _fsync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _flush_all(
    flush: Callable[[Path], None], paths: Sequence[Path], others: Collection[Path]
) -> None:
    """Flush in several threads: what waits for the disk together takes little longer than one."""
    every = [*paths, *others]
    if sync_instead_of(len(every)):
        return
    todo, errors = iter(every), []

    def work() -> None:
        try:
            for path in todo:
                try:
                    flush(path)
                except FileNotFoundError:
                    if path not in others:
                        raise
        except BaseException as error:
            errors.append(error)

    threads = []
    if len(every) > 2:
        from threading import Thread

        threads = [Thread(target=work) for _ in range(min(len(every), _THREADS) - 1)]
    started = []
    for thread in threads:
        with suppress(RuntimeError):  # there can be no more of them
            thread.start()
            started.append(thread)
    work()
    for thread in started:
        thread.join()
    if errors:
        raise errors[0]


def sync_instead_of(count: int) -> bool:
    """Flush everything, if so many files are to be flushed that this is quicker."""
    if count <= MANY_FILES or sys.platform != "linux":
        return False
    os.sync()  # on Linux, unlike elsewhere, it returns when all is written
    return True


@contextmanager
def replacing(
    path: str, temporary: str, mode: int = 0o600, *, durable: bool = True
) -> Iterator[int]:
    """A new file to write to, which takes its place in one step if all goes well."""
    fd = create_locked(temporary, mode)
    try:
        yield fd
        if durable:
            fsync(fd)
        rename(temporary, path)
    except BaseException:
        discard(temporary)
        raise
    finally:
        os.close(fd)


def create_locked(path: str, mode: int = 0o600) -> int:
    """A new file with a kernel lock, by which a cleaning command sees that its process lives."""
    while True:
        fd = create(path, mode)
        try:
            with suppress(OSError):  # there are file systems without locks
                fcntl.flock(fd, fcntl.LOCK_EX)
            # Before it was locked, it may have been removed as a dead process's.
            if os.fstat(fd).st_nlink:
                return fd
        except BaseException:
            discard(path)
            os.close(fd)
            raise
        os.close(fd)


# -- Reading files that git and the user write

LARGE = 1 << 31  # an index of ten million files, the refs of as many branches
SMALL = 1 << 24  # anything else is a text


def opened(path: str | bytes) -> int:
    """A handle to read a regular file with, links followed; no pipe is waited for."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    status = os.fstat(fd)
    # /dev/null stands for a missing file, of settings above all.
    is_null = stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev
    if stat.S_ISREG(status.st_mode) or is_null:
        return fd
    os.close(fd)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.ENXIO, "not a regular file", path)


def read(path: str | bytes, most: int = SMALL) -> bytes:
    """The contents of a file."""
    return read_with_status(path, most)[0]


def read_with_status(path: str | bytes, most: int = SMALL) -> tuple[bytes, os.stat_result]:
    """The contents of a file, and its status when it was read."""
    with open(opened(path), "rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if status.st_size > most:
            raise OSError(errno.ENXIO, "file too large", path)
        return file.read(), status


def beginning(path: str | bytes, length: int) -> bytes:
    """The first bytes of a file."""
    fd = opened(path)
    try:
        return os.read(fd, length)
    finally:
        os.close(fd)


# -- Private files and folders, mode 0600 and 0700, in `ckpt/` of a git dir or of a user

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OPEN, WRITABLE = 0o077, 0o022  # to others
LARGEST = 1 << 28
UNFINISHED = ".tmp-"  # how the names of temporary files begin


def ensure_dir(path: str) -> None:
    """Create a private folder. NotADirectoryError for a link or a file in its place,
    FileNotFoundError if the folder around it is gone."""
    if not os.path.lexists(path):
        with suppress(FileExistsError):  # another process was quicker
            mkdir(path, 0o700)
    if not stat.S_ISDIR(os.lstat(path).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)


def ensure_user_dir(path: str) -> None:
    """Create a private folder, and those around it, below the home folder."""
    make_folders(os.path.dirname(path))
    ensure_dir(path)


def names_in(path: str) -> list[str]:
    """What is in a folder; nothing if it is missing, no folder, or another user's."""
    try:
        fd = os.open(path, _FOLDER)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES):
            raise
        return []
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def replace(path: str, data: bytes) -> None:
    """Write a private file in one step, durably."""
    folder = os.path.dirname(path)
    ensure_dir(folder)
    with replacing(path, os.path.join(folder, temporary_name(UNFINISHED))) as fd:
        write(fd, data)
    fsync_dir(folder)


def replace_cache(path: str, parts: Iterable[bytes]) -> None:
    """Write a private file in one step that can be made again: its reader checks it."""
    temporary = os.path.join(os.path.dirname(path), temporary_name(UNFINISHED))
    with replacing(path, temporary, durable=False) as fd:
        for part in parts:
            write(fd, part)


def read_private(path: str, refused: int = WRITABLE, most: int = LARGEST) -> bytes:
    """The contents of a file that only its owner can have written; OSError for any other.
    `refused` are the permission bits that it may not have."""
    with open(opened_private(path, refused, most), "rb") as file:
        return file.read()


def opened_private(path: str, refused: int = WRITABLE, most: int = LARGEST) -> int:
    """A handle to read such a file with."""
    fd = os.open(path, _FILE)
    try:
        status = os.fstat(fd)
        is_own = status.st_uid == os.geteuid() and not status.st_mode & refused
        if not is_own or not stat.S_ISREG(status.st_mode):
            raise PermissionError(errno.EPERM, "not a private file", path)
        if status.st_size > most:
            raise OSError(errno.ENXIO, "file too large", path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def overwrite_private(path: str, data: bytes, offset: int, size: int) -> None:
    """Write into a private file of fixed size, which is created if it is missing: not flushed,
    and once it exists no space is needed."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        missing = size - os.fstat(fd).st_size
        if missing > 0:
            os.pwrite(fd, bytes(missing), size - missing)
        os.pwrite(fd, data, offset)
    finally:
        os.close(fd)


def append(path: str, data: bytes) -> None:
    """Add to the end of a private file, which is created if it is missing; not flushed."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)


def is_open(path: str) -> bool:
    """Whether other users may read or write a file or folder of ours."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    is_ours = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return is_ours and status.st_uid == os.geteuid() and bool(status.st_mode & OPEN)


def remove(path: str) -> None:
    """Remove a private file, if it exists, durably. FileNotFoundError if the git dir is gone."""
    folder = os.path.dirname(path)
    try:
        unlink(path)
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(folder)):
            raise
        return
    fsync_dir(folder)


def remove_tree(path: str) -> None:
    """Remove a private folder with all that is in it, if it exists; links are not followed."""
    try:
        is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if not is_folder:
        unlink(path)
        return
    for name in names_in(path):
        remove_tree(os.path.join(path, name))
    rmdir(path)
