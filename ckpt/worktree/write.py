# SPDX-License-Identifier: MIT
"""Change files of a worktree; all rules of path safety are here.

Each directory of a path is opened by handle, one component at a time, and never through a
symbolic link, so that a race cannot redirect a write. A file is written to a temporary file and
renamed. It is replaced or removed only if it still has the stat data that the caller gives. Left
out: deciding what to change, and removing more than one file or empty directory.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from binascii import crc32
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

from ckpt import disk, paths
from ckpt.errors import CkptError
from ckpt.paths import folders_above, identity

_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Errors of rmdir for a directory in use, which is kept.
_IN_USE = (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY)

_PREFIX = ".ckpt-tmp-"
_NAME = rb"\.ckpt-tmp-[0-9a-f]{24}"

Found = os.stat_result | None


def is_unfinished(name: bytes) -> bool:
    """Check whether a name is that of an unfinished file of a rollback."""
    return re.fullmatch(_NAME, name) is not None


class UnsafePath(CkptError):
    """A path that leads out of the worktree, into a git dir or through a symbolic link."""


_NOT_THERE = (FileNotFoundError, NotADirectoryError, UnsafePath)


class Worktree:
    """A worktree, as a handle on its directory; a context manager.

    No path leads into `git_dirs`, which are identified by inode. `new_folders` has the permission
    bits of directories to create.
    """

    def __init__(self, top: bytes, git_dirs: Iterable[str] = ()) -> None:
        self._place = top
        self._top = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._closed_to_us = {_inode(os.stat(folder)) for folder in git_dirs}
        self._last: tuple[bytes, int] | None = None  # the last directory opened
        self.new_folders: Mapping[bytes, int] = {}

    def __enter__(self) -> Worktree:
        return self

    def __exit__(self, *_: object) -> None:
        self._close_last()
        os.close(self._top)

    # -- reading -----------------------------------------------------------------

    def lstat(self, path: bytes) -> Found:
        """Return the stat data of a path; None if it does not exist."""
        name = _name(path)
        try:
            return os.stat(name, dir_fd=self._around(path), follow_symlinks=False)
        except _NOT_THERE:
            return None
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            return None

    def is_file(self, path: bytes) -> bool:
        """Check whether a path exists and is not a directory."""
        try:
            status = self.lstat(path)
        except PermissionError:
            return False
        return status is not None and not stat.S_ISDIR(status.st_mode)

    def names(self, folder: bytes) -> list[bytes]:
        """Return the names in a directory; none if it does not exist."""
        try:
            return [os.fsencode(name) for name in os.listdir(self._folder(folder))]
        except _NOT_THERE:
            return []

    def link_target(self, path: bytes) -> bytes:
        """Return the target of a symbolic link; OSError if it is not one."""
        return os.readlink(_name(path), dir_fd=self._around(path))

    def open(self, path: bytes) -> io.FileIO:
        """Open a file for reading."""
        return io.FileIO(os.open(_name(path), _FILE_FLAGS, dir_fd=self._around(path)))

    def in_the_way(self, path: bytes) -> bytes | None:
        """Return the path that prevents the creation of a path's parent directories, if any."""
        try:
            self._around(path)
        except FileNotFoundError:
            pass
        except (NotADirectoryError, UnsafePath):
            for folder in reversed([*folders_above(path)]):
                status = self.lstat(folder)
                if status is None or not stat.S_ISDIR(status.st_mode) or self._is_closed(status):
                    return folder
        return None

    def is_repository(self, path: bytes) -> bool:
        """Check whether a path is a repository, or the git dir of one."""
        return paths.is_repository(os.path.join(self._place, path))

    def _is_closed(self, status: os.stat_result) -> bool:
        return bool(self._closed_to_us) and _inode(status) in self._closed_to_us

    # -- files -------------------------------------------------------------------

    def write_file(
        self, path: bytes, pieces: Iterable[bytes], permissions: int, found: Found
    ) -> Found:
        """Write a regular file and return its stat data; None, with no change, if the path is no
        longer as `found`. An error in `pieces` changes nothing."""
        with self._begun(path) as (temporary, name, handle):
            fd = disk.create(temporary, 0o600, dir_fd=handle)
            try:
                for piece in pieces:
                    disk.write(fd, piece)
                os.fchmod(fd, permissions)
                return os.fstat(fd) if _give(temporary, name, found, handle) else None
            finally:
                os.close(fd)

    def write_link(self, path: bytes, target: bytes, found: Found) -> Found:
        """Write a symbolic link, as `write_file` does."""
        with self._begun(path) as (temporary, name, handle):
            os.symlink(target, temporary, dir_fd=handle)
            return _status(name, handle) if _give(temporary, name, found, handle) else None

    @contextmanager
    def _begun(self, path: bytes) -> Iterator[tuple[bytes, bytes, int]]:
        """Yield a temporary name for a path, its name, and a handle on their directory; after an
        error the temporary file is removed."""
        name, handle = _name(path), self._around(path, create=True)
        temporary = disk.temporary_name(f"{_PREFIX}{crc32(name):08x}").encode()
        try:
            yield temporary, name, handle
        except BaseException:
            disk.discard(temporary, dir_fd=handle)
            raise

    def remove_file(self, path: bytes, found: os.stat_result) -> bool:
        """Remove a file or link; False if it is no longer as `found`."""
        name = _name(path)
        try:
            handle = self._around(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not _is_still(name, found, handle):
            return False
        os.unlink(name, dir_fd=handle)
        return True

    def clear_unfinished(self, folder: bytes) -> None:
        """Remove the unfinished files of killed rollbacks from a directory."""
        for name in self.names(folder):
            path = folder + b"/" + name if folder else name
            if is_unfinished(name) and self.is_file(path):
                with suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(name, dir_fd=self._folder(folder))

    def sync(self, path: bytes) -> None:
        """Flush a file or directory to disk."""
        try:
            name = _name(path) if path else b"."
            fd = os.open(name, _FILE_FLAGS, dir_fd=self._around(path))
        except (OSError, UnsafePath):  # a link, or removed since: nothing to flush
            return
        disk.flush(fd)

    # -- directories -------------------------------------------------------------

    def make_folder(self, path: bytes) -> None:
        self._folder(path, create=True)

    def folder_permissions(self, path: bytes) -> int | None:
        """Return the permission bits of a directory; None if it does not exist."""
        status = self.lstat(path) if path else os.fstat(self._top)
        if status is None or not stat.S_ISDIR(status.st_mode):
            return None
        return status.st_mode & 0o777

    def set_folder_permissions(self, path: bytes, permissions: int) -> None:
        """Set the permission bits of a directory if it exists; keep set-group-ID and sticky."""
        try:
            fd = self._folder(path)
        except _NOT_THERE:
            return
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & 0o777 != permissions:
            os.fchmod(fd, mode & ~0o777 | permissions)

    def remove_folder(self, path: bytes) -> bool:
        """Remove a directory if it is empty; return whether it no longer exists."""
        self._close_last()
        try:
            os.rmdir(_name(path), dir_fd=self._around(path))
        except _NOT_THERE:
            return self.lstat(path) is None
        except OSError as error:
            if error.errno not in _IN_USE:
                raise
            return False
        return True

    # -- by handle -----------------------------------------------------------------

    def _around(self, path: bytes, create: bool = False) -> int:
        """Return a handle on a path's parent directory, valid until the next call."""
        return self._folder(path.rpartition(b"/")[0], create)

    def _folder(self, path: bytes, create: bool = False) -> int:
        """Return a handle on a directory, valid until the next call and cached for it."""
        if not path:
            return self._top
        if self._last is not None and path == self._last[0]:
            return self._last[1]
        self._close_last()
        done, handle = b"", self._top
        for name in path.split(b"/"):
            _check(name, path)
            done = done + b"/" + name if done else name
            inner = self._open_child(handle, name, done, create)
            self._close_last()
            self._last, handle = (done, inner), inner
            if self._is_closed(os.fstat(inner)):
                self._close_last()
                raise UnsafePath(
                    f"'{_shown(done)}' is a git dir", hint="nothing is ever restored into one"
                )
        return handle

    def _open_child(self, fd: int, name: bytes, path: bytes, create: bool) -> int:
        try:
            return os.open(name, _FOLDER_FLAGS, dir_fd=fd)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UnsafePath(
                    f"'{_shown(path)}' is a symbolic link", hint="remove the link"
                ) from None
            if not create and error.errno == errno.ENAMETOOLONG:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
            if not create or error.errno != errno.ENOENT:
                raise
        # Never with more permissions than it will have, but writable to create files in it.
        with suppress(FileExistsError):
            os.mkdir(name, self.new_folders.get(path, 0o777) | 0o700, dir_fd=fd)
        return os.open(name, _FOLDER_FLAGS, dir_fd=fd)

    def _close_last(self) -> None:
        if self._last is not None:
            os.close(self._last[1])
        self._last = None


def _inode(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _name(path: bytes) -> bytes:
    """Return the last component of a path; UnsafePath if it is not a valid file name."""
    name = path.rpartition(b"/")[2]
    _check(name, path)
    return name


def _check(name: bytes, path: bytes) -> None:
    if name in (b"", b".", b"..") or name.lower() == b".git" or b"\0" in name:
        raise UnsafePath(f"refusing to touch '{_shown(path)}'", hint="the path is not safe")


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


def _give(temporary: bytes, name: bytes, found: Found, handle: int) -> bool:
    """Rename a temporary file to its name, if that is still as `found`."""
    if _is_still(name, found, handle):
        os.rename(temporary, name, src_dir_fd=handle, dst_dir_fd=handle)
        return True
    disk.discard(temporary, dir_fd=handle)
    return False


def _is_still(name: bytes, found: Found, handle: int) -> bool:
    now = _status(name, handle)
    if now is None or found is None:
        return now is found
    return identity(now) == identity(found)


def _status(name: bytes, handle: int) -> Found:
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        return None
