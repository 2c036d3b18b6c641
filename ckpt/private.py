# SPDX-License-Identifier: MIT
"""Files and folders that only their owner reads, in ckpt's folder of a git dir or of a user.

They are replaced in one step and never through a link: whoever may write to a git dir must
not choose what we read there, what we write over, or what we clear away. So a file that others
could have written is not read, nor is it closed to them: closed, it would be believed. One that
they can only read, as `chmod -R` or a copy leaves it, is what we wrote.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress

from ckpt import disk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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
        disk.mkdir(path, 0o700)
    except FileExistsError:
        if not _is_folder(path):  # else another process was quicker
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None


def ensure_user_dir(path: str) -> None:
    """The same below the home folder, where those around it may not be there yet."""
    disk.make_folders(os.path.dirname(path))
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
    temporary = os.path.join(folder, disk.temporary_name(UNFINISHED))
    with disk.replacing(path, temporary) as fd:
        disk.write(fd, data)
    disk.fsync_dir(folder)


def read(path: str, refused: int = WRITABLE, most: int = LARGEST) -> bytes:
    """A file that only its owner could have written, and not too large; OSError for any other.
    `refused` are the bits that it may not have."""
    with open(opened(path, refused, most), "rb") as file:
        return file.read()


def opened(path: str, refused: int = WRITABLE, most: int = LARGEST) -> int:
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

    from ckpt import owners

    git_dir = os.path.dirname(os.path.dirname(path))
    close = f"chmod 600 {quote(path)}"
    if owners.is_others(status, git_dir):
        command = owners.claim([path], git_dir)
        return f"'{path}' belongs to {owners.name_of(status.st_uid)}", f"{command} && {close}"
    if status.st_mode & WRITABLE and _keeps_bits(os.path.dirname(path)):
        return f"other users could have written to '{path}'", close
    return None


def _keeps_bits(folder: str) -> bool:
    """Whether a file there has the bits that it is made with; some file systems have their own
    for all, which tell nothing."""
    path = os.path.join(folder, disk.temporary_name(UNFINISHED))
    try:
        fd = disk.create(path)
    except OSError:
        return True
    try:
        return not os.fstat(fd).st_mode & WRITABLE
    finally:
        disk.discard(path)
        os.close(fd)


def append(path: str, data: bytes) -> None:
    """Add to the end of a file that stays where it is, or make it; nothing is flushed."""
    _close_again(path)
    disk.append_private(path, data)


def overwrite(path: str, data: bytes, offset: int, size: int) -> None:
    """Write into the middle of one (see `disk.overwrite`)."""
    _close_again(path)
    disk.overwrite(path, data, offset, size)


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
        disk.chmod(fd, 0o700 if is_folder else 0o600)
    finally:
        os.close(fd)


def move_aside(path: str, aside: str) -> None:
    """Give a file another name, under which nobody believes it any more, and close it."""
    disk.rename(path, aside)
    with suppress(OSError):
        if is_open(aside):
            close(aside)


def remove(path: str) -> None:
    """Take a private file away, durably; no matter if it was not there. FileNotFoundError if the
    git dir is gone, where it may be still."""
    folder = os.path.dirname(path)
    try:
        disk.unlink(path)
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(folder)):
            raise
        return
    disk.fsync_dir(folder)


def replace_cache(path: str, parts: Iterable[bytes]) -> None:
    """Put a file that can be made again in its place in one step, mode 0600. OSError if
    another process is at it.

    Nothing is flushed: whoever reads it has to find out whether all of it is there. What a
    process leaves that dies here, the next one writes over.
    """
    temporary = unfinished(path)
    fd = disk.open_or_create(temporary, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(fd), os.lstat(temporary)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), temporary)
        try:
            disk.truncate(fd)
            for part in parts:
                disk.write(fd, part)
            disk.rename(temporary, path)
        except BaseException:
            disk.discard(temporary)
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
        disk.unlink(path)
        return
    for name in names_in(path):
        remove_tree(os.path.join(path, name))
    disk.rmdir(path)
