# SPDX-License-Identifier: MIT
"""Let a name in a folder change hands without losing what had it at the last moment.

Whoever asks has looked at the file, and saved it. Between that look and the change another
program may write to it, or put another in its place. So the name changes hands in one step,
the file that had it is looked at once more under a temporary name, and only then it goes; if
it is not what was found, it gets its name back. If somebody has it open to write to it, that is
waited for, so far as the caller's patience goes.

Where the file system cannot do that, a look just before has to do. A crash amid this may leave
the only copy of such a late edit under the temporary name: see `engine/begun.py`.
"""

from __future__ import annotations

import errno
import os
import stat

from ckpt import disk, renames
from ckpt.worktree.identity import identity, renamed_identity
from ckpt.worktree.writers import Patience, has_writers

Found = os.stat_result | None


def give(temporary: bytes, name: bytes, found: Found, dir_fd: int, patience: Patience) -> bool:
    """Give a finished file the name of what was found, or of nothing. False if something else
    stands there by now: that stays, and the finished file goes."""
    ours = _status(temporary, dir_fd)
    try:
        is_still = _is_still(name, found, dir_fd)
        is_given = is_still and _swap(temporary, name, found, dir_fd, patience)
    except (FileExistsError, FileNotFoundError):
        is_given = False
    except BaseException:
        _discard(temporary, (ours, found), dir_fd)
        raise
    if not is_given:
        _discard(temporary, (ours,), dir_fd)
    return is_given


def take(
    temporary: bytes, name: bytes, found: os.stat_result, dir_fd: int, patience: Patience
) -> bool:
    """Remove the file that was found; False if something else stands there by now, which stays."""
    try:
        if not _is_still(name, found, dir_fd):
            return False
        _check_no_folder(found, name)
        disk.set_aside(name, temporary, dir_fd=dir_fd)
        if _is_let_go(temporary, found, dir_fd, patience):
            return True
        renames.to_free(temporary, name, dir_fd)
    except (FileExistsError, FileNotFoundError):
        pass
    except BaseException:
        _discard(temporary, (found,), dir_fd)
        raise
    return False


def put_back(temporary: bytes, name: bytes, dir_fd: int) -> None:
    """Give a file its name back, in exchange for what has it now."""
    try:
        renames.exchange(temporary, name, dir_fd)
    except FileNotFoundError:
        renames.to_free(temporary, name, dir_fd)


def _swap(temporary: bytes, name: bytes, found: Found, dir_fd: int, patience: Patience) -> bool:
    if found is None:
        renames.to_free(temporary, name, dir_fd)
        return True
    _check_no_folder(found, name)
    if not renames.exchange(temporary, name, dir_fd):
        disk.rename(temporary, name, dir_fd=dir_fd)
        return True
    if _is_let_go(temporary, found, dir_fd, patience):
        return True
    put_back(temporary, name, dir_fd)
    return False


def _is_let_go(temporary: bytes, found: os.stat_result, dir_fd: int, patience: Patience) -> bool:
    """Remove what has lost its name, if it is still what was found when nobody writes to it."""
    while _is_as_found(temporary, found, dir_fd) and has_writers(temporary, dir_fd):
        if not patience.wait():
            break
    if not _is_as_found(temporary, found, dir_fd):
        return False
    try:
        disk.unlink(temporary, dir_fd=dir_fd)
    except OSError:
        _unlink_again(temporary, dir_fd)
    return True


def _is_as_found(temporary: bytes, found: os.stat_result, dir_fd: int) -> bool:
    status = _status(temporary, dir_fd)
    return status is not None and renamed_identity(status) == renamed_identity(found)


def _unlink_again(temporary: bytes, dir_fd: int) -> None:
    """The change is made: if what is left of it stays, that is no reason to leave the path alone,
    but one to stop, so that recovery takes it away."""
    try:
        disk.unlink(temporary, dir_fd=dir_fd)
    except OSError as error:
        raise OSError(errno.EIO, error.strerror, temporary) from error


def _discard(temporary: bytes, known: tuple[Found, ...], dir_fd: int) -> None:
    """Remove a temporary file if it is one of these; any other is somebody's own."""
    status = _status(temporary, dir_fd)
    identities = [renamed_identity(each) for each in known if each is not None]
    if status is not None and renamed_identity(status) in identities:
        disk.discard(temporary, dir_fd=dir_fd)


def _check_no_folder(found: os.stat_result, name: bytes) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)


def _is_still(name: bytes, found: Found, dir_fd: int) -> bool:
    now = _status(name, dir_fd)
    if now is None or found is None:
        return now is found
    return identity(now) == identity(found)


def _status(name: bytes, dir_fd: int) -> Found:
    try:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
