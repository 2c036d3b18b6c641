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
import stat
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

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
    fd = create_locked(temporary, mode)
    try:
        yield fd
        fsync(fd)
        rename(temporary, path)
    except BaseException:
        discard(temporary)
        raise
    finally:
        os.close(fd)


def create_locked(path: str, mode: int) -> int:
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


# -- Reading files that others write: git's own, and a user's settings

# An index of ten million files, the refs of as many branches; anything else is a text.
LARGE = 1 << 31
SMALL = 1 << 24


def opened(path: str | bytes) -> int:
    """A handle to read a file with, links followed."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode) and not _is_null_device(status):
            raise OSError(errno.ENXIO, "not a regular file", path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _is_null_device(status: os.stat_result) -> bool:
    """By which people say that there is none of a file, of settings above all."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev


def read(path: str | bytes, most: int = SMALL) -> bytes:
    """All that is in a file."""
    return read_with_status(path, most)[0]


def read_with_status(path: str | bytes, most: int = SMALL) -> tuple[bytes, os.stat_result]:
    """The same, and what the file was when it was read."""
    fd = opened(path)
    with open(fd, "rb", buffering=0) as file:
        status = os.fstat(fd)
        if status.st_size > most:
            raise OSError(errno.ENXIO, "too large for what it is", path)
        return file.read(), status


def beginning(path: str | bytes, length: int) -> bytes:
    """The first bytes of a file, or fewer."""
    fd = opened(path)
    try:
        return os.read(fd, length)
    finally:
        os.close(fd)


# -- Files and folders that only their owner reads, in ckpt's folder of a git dir or of a user

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
OPEN, WRITABLE = 0o077, 0o022  # to others
# In a repository that came with an archive, a file of a terabyte takes a few bytes.
LARGEST = 1 << 28
UNFINISHED = ".tmp-"  # how names of files begin that are written before they take their place


def ensure_dir(path: str) -> None:
    """Create a folder that only its owner can enter. A link in its place leads to what is not
    ours to write or clear away: NotADirectoryError. FileNotFoundError if the folder around it is
    gone, as with a repository that was moved away: no new one is begun in its place."""
    if _is_folder(path):
        return
    try:
        mkdir(path, 0o700)
    except FileExistsError:
        if not _is_folder(path):  # else another process was quicker
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None


def ensure_user_dir(path: str) -> None:
    """The same below the home folder, where those around it may not be there yet."""
    make_folders(os.path.dirname(path))
    ensure_dir(path)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def names_in(path: str) -> list[str]:
    """What is in a private folder; nothing if there is none, or something else in its place, or
    another user's."""
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
    """Put `data` at `path` in one step, mode 0600, durable when this returns."""
    folder = os.path.dirname(path)
    ensure_dir(folder)
    temporary = os.path.join(folder, temporary_name(UNFINISHED))
    with replacing(path, temporary) as fd:
        write(fd, data)
    fsync_dir(folder)


def read_private(path: str, refused: int = WRITABLE, most: int = LARGEST) -> bytes:
    """A file that only its owner could have written, and not too large; OSError for any other.
    `refused` are the bits that it may not have."""
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
            raise OSError(errno.ENXIO, "too large for what it is", path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def doubt(path: str, status: os.stat_result) -> tuple[str, str] | None:
    """Why a file in ckpt's folder of a git dir may be another's word, and the command by which a
    person says that it is not. Ours is also what belongs to whose the git dir is: by the settings
    there we go anyway."""
    from shlex import quote

    from ckpt import errors

    git_dir = os.path.dirname(os.path.dirname(path))
    close = f"chmod 600 {quote(path)}"
    if errors.is_others(status, git_dir):
        command = errors.claim([path], git_dir)
        return f"'{path}' belongs to {errors.name_of(status.st_uid)}", f"{command} && {close}"
    if status.st_mode & WRITABLE and _keeps_bits(os.path.dirname(path)):
        return f"other users could have written to '{path}'", close
    return None


def _keeps_bits(folder: str) -> bool:
    """Whether a file there has the bits that it is made with; some file systems have their own
    for all, which tell nothing."""
    path = os.path.join(folder, temporary_name(UNFINISHED))
    try:
        fd = create(path)
    except OSError:
        return True
    try:
        return not os.fstat(fd).st_mode & WRITABLE
    finally:
        discard(path)
        os.close(fd)


def append(path: str, data: bytes) -> None:
    """Add to the end of a file that stays where it is, or make it; nothing is flushed."""
    _close_again(path)
    append_private(path, data)


def overwrite_private(path: str, data: bytes, offset: int, size: int) -> None:
    """Write into the middle of one (see `disk.overwrite`)."""
    _close_again(path)
    overwrite(path, data, offset, size)


def _close_again(path: str) -> None:
    with suppress(OSError):  # some file systems have bits of their own
        if is_open(path) and not is_writable(path):
            close(path)


def is_open(path: str) -> bool:
    """Whether others may do anything with a file or folder of ours."""
    return _lets_others(path, OPEN)


def is_writable(path: str) -> bool:
    """Whether others may have written to a file of ours, or put something into a folder."""
    return _lets_others(path, WRITABLE)


def _lets_others(path: str, bits: int) -> bool:
    try:
        status = os.lstat(path)
    except OSError:
        return False
    is_ours = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    return is_ours and status.st_uid == os.geteuid() and bool(status.st_mode & bits)


def close(path: str) -> None:
    """Take from others all that they may do with a file or folder."""
    fd = os.open(path, _FILE)
    try:
        is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        chmod(fd, 0o700 if is_folder else 0o600)
    finally:
        os.close(fd)


def move_aside(path: str, aside: str) -> None:
    """Give a file another name, under which nobody believes it any more, and close it."""
    rename(path, aside)
    with suppress(OSError):
        if is_open(aside):
            close(aside)


def remove(path: str) -> None:
    """Take a private file away, durably; no matter if it was not there. FileNotFoundError if the
    git dir is gone, where it may be still."""
    folder = os.path.dirname(path)
    try:
        unlink(path)
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(folder)):
            raise
        return
    fsync_dir(folder)


def replace_cache(path: str, parts: Iterable[bytes]) -> None:
    """Put a file that can be made again in its place in one step, mode 0600. OSError if
    another process is at it.

    Nothing is flushed: whoever reads it has to find out whether all of it is there. What a
    process leaves that dies here, the next one writes over.
    """
    temporary = unfinished(path)
    fd = open_or_create(temporary, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(fd), os.lstat(temporary)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), temporary)
        try:
            truncate(fd)
            for part in parts:
                write(fd, part)
            rename(temporary, path)
        except BaseException:
            discard(temporary)
            raise
    finally:
        os.close(fd)


def unfinished(path: str) -> str:
    """Where `replace_cache` writes what shall be there."""
    return path + ".new"


def is_left_over(path: str) -> bool:
    """Whether a process died, or is at work, in `replace_cache`."""
    return os.path.lexists(unfinished(path))


def remove_tree(path: str) -> None:
    """Take a private folder away with all that is in it; no matter if it was not there."""
    try:
        is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return
    if not is_folder:  # a link is taken away, never what it leads to
        unlink(path)
        return
    for name in names_in(path):
        remove_tree(os.path.join(path, name))
    rmdir(path)
