# SPDX-License-Identifier: MIT
"""Every change that ckpt makes to a disk passes through here.

One narrow place to write, link, rename, remove and flush. Nothing here decides
anything; who calls decides. Reading needs no such place and is done with `os`.

Paths may be relative to a directory handle (`dir_fd`), which is how the worktree is
written: no call in this module follows a symbolic link in its last component.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import os
import sys
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

Path = str | bytes

# From here on, one flush of everything is quicker than one for each file.
MANY_FILES = 500
_THREADS = 8
_THREADS_PAY = 3


def create(path: Path, mode: int = 0o600, *, dir_fd: int | None = None) -> int:
    """Open a new file for writing; it must not exist."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags, mode, dir_fd=dir_fd)


def open_or_create(path: Path, flags: int, mode: int = 0o600) -> int:
    """Open a file that stays where it is, a log or a lock, and is made if it is not there."""
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
    """Take away all that is in a file, if there is anything."""
    if os.fstat(fd).st_size:
        os.ftruncate(fd, 0)


def fsync(fd: int) -> None:
    os.fsync(fd)


def fsync_files(paths: Sequence[Path], others: Collection[Path] = ()) -> None:
    """Make the contents of files durable; many at once, where the system can do that. `others`
    need not be there any more."""
    _flush_all(_flush, paths, others)


def fsync_dirs(paths: Sequence[Path], others: Collection[Path] = ()) -> None:
    """Make the names in folders durable, likewise."""
    _flush_all(fsync_dir, paths, others)


def _flush_all(
    flush: Callable[[Path], None],
    paths: Sequence[Path],
    others: Collection[Path],
) -> None:
    every = [*paths, *others]
    if sync_instead_of(len(every)):
        return

    def flush_one(path: Path) -> None:
        try:
            flush(path)
        except FileNotFoundError:
            if path not in others:
                raise

    _at_once(flush_one, every)


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # no pipe is waited for
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def fsync_dir(path: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError:  # some file systems cannot, and need not
        pass
    finally:
        os.close(fd)


def _at_once(flush: Callable[[Path], None], paths: Sequence[Path]) -> None:
    """Call a function for each path, in several threads: what waits for the disk together is
    written together, and takes little longer than one. The first error is raised."""
    if len(paths) < _THREADS_PAY:
        for path in paths:
            flush(path)
        return
    todo = list(paths)
    errors: list[BaseException] = []
    ends = [_thread.allocate_lock() for _ in range(min(len(paths), _THREADS))]

    def work(end: _thread.LockType) -> None:
        try:
            while todo and not errors:
                flush(todo.pop())
        except IndexError:  # another thread took the last
            pass
        except BaseException as error:
            errors.append(error)
        finally:
            end.release()

    for end in ends:
        end.acquire()
        try:
            _thread.start_new_thread(work, (end,))
        except RuntimeError:  # there can be no more of them
            work(end)
    for end in ends:
        end.acquire()
    if errors:
        raise errors[0]


def syncs_instead_of(count: int) -> bool:
    """Whether for so many files everything is flushed, so that no more need be named."""
    return count > MANY_FILES and sys.platform == "linux"


def sync_instead_of(count: int) -> bool:
    """Flush everything, if so many files are to be flushed that it is quicker."""
    if not syncs_instead_of(count):
        return False
    os.sync()  # on Linux, unlike elsewhere, it returns when all is written
    return True


def rename(source: Path, target: Path, *, dir_fd: int | None = None) -> None:
    os.rename(source, target, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


def set_aside(path: bytes, temporary: bytes, *, dir_fd: int) -> None:
    """Take a file's name away and keep the file, to look at it before it goes."""
    os.rename(path, temporary, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)


def link(source: Path, target: Path) -> None:
    """Give a finished file its name; fails if the name is taken."""
    os.link(source, target, follow_symlinks=False)


def symlink(target: Path, path: Path, *, dir_fd: int | None = None) -> None:
    os.symlink(target, path, dir_fd=dir_fd)


def unlink(path: Path, *, dir_fd: int | None = None) -> None:
    os.unlink(path, dir_fd=dir_fd)


def discard(path: Path, *, dir_fd: int | None = None) -> None:
    """Take away what will not be finished. Where that fails it is left to the next command, as
    what a killed process leaves is: there is something worse to tell."""
    try:
        unlink(path, dir_fd=dir_fd)
    except OSError:
        pass
    except BaseException:  # an interrupt must not keep us from it
        with suppress(OSError):
            os.unlink(path, dir_fd=dir_fd)
        raise


def mkdir(path: Path, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
    os.mkdir(path, mode, dir_fd=dir_fd)


def make_folders(path: str, top: str | None = None) -> list[str]:
    """Create a folder and those above it, as far as they are not there; returns the new ones.
    FileNotFoundError if `top` is among them, which is never made."""
    missing, new = [], []
    while not os.path.isdir(path):
        if path == top:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        missing.append(path)
        path = os.path.dirname(path) or "."
    for folder in reversed(missing):
        try:
            mkdir(folder)
        except FileExistsError:  # another process was quicker
            continue
        new.append(folder)
    return new


def rmdir(path: Path, *, dir_fd: int | None = None) -> None:
    os.rmdir(path, dir_fd=dir_fd)


def chmod(fd: int, mode: int) -> None:
    os.fchmod(fd, mode)


def utime(path: Path) -> None:
    """Set a file's times to now."""
    os.utime(path)


def temporary_name(prefix: str, random: int = 8) -> str:
    """A name that nobody has, with so many random bytes."""
    return prefix + os.urandom(random).hex()


@contextmanager
def replacing(path: str, temporary: str, mode: int = 0o600) -> Iterator[int]:
    """A new file to write to, which takes its place in one step, flushed, if all goes well."""
    fd = _create_locked(temporary, mode)
    try:
        yield fd
        fsync(fd)
        rename(temporary, path)
    except BaseException:
        discard(temporary)
        raise
    finally:
        os.close(fd)


def _create_locked(path: str, mode: int) -> int:
    """A new file with a lock that tells who clears up that we live, where there are such locks."""
    while True:
        fd = create(path, mode)
        try:
            with suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_EX)
            # Before it was locked, it may have been taken for a dead process's.
            if os.fstat(fd).st_nlink:
                return fd
        except BaseException:
            discard(path)
            os.close(fd)
            raise
        os.close(fd)


def overwrite(path: str, data: bytes, offset: int, size: int) -> None:
    """Write into the middle of a private file of that size, which is made if it is not there.

    Nothing is flushed, and once the file is there no space is needed.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        missing = size - os.fstat(fd).st_size
        if missing > 0:
            os.pwrite(fd, bytes(missing), size - missing)
        os.pwrite(fd, data, offset)
    finally:
        os.close(fd)


def append_private(path: str, data: bytes) -> None:
    """Add to the end of a private file, which is made if it is not there; nothing is flushed."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        os.write(fd, data)
    finally:
        os.close(fd)
