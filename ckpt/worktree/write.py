# SPDX-License-Identifier: MIT
"""Change files of a worktree, with every path-safety rule in this one place.

Each folder on the way is opened by handle, one component at a time, and never through
a symbolic link: a link swapped in between two calls cannot send a write elsewhere. A
file appears under its name whole or not at all (temporary file, then rename). Nothing
here decides what to change, and nothing is removed but one file or one empty folder.

What remains: between looking at a file and replacing it, another process may still
write to it. The caller looks immediately before, as near as user space allows.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from types import TracebackType

from ckpt import disk
from ckpt.errors import CkptError
from ckpt.worktree.scan import TEMPORARY_NAME, TEMPORARY_PREFIX

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A folder that somebody uses stays; some file systems cannot flush one, and need not.
_IN_USE = (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY)
_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP)

# Asked when all is ready for a change: False if it must not be made after all.
Unchanged = Callable[[], bool]


class UnsafePath(CkptError):
    """A path that would leave the worktree, enter a git dir or pass through a link."""


class Worktree:
    """Handle on the folder at the top; a context manager."""

    def __init__(self, top: bytes) -> None:
        self._top = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._open_path: bytes | None = None
        self._open_fd = -1

    def __enter__(self) -> Worktree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._close_folder()
        os.close(self._top)

    # -- looking -----------------------------------------------------------------

    def lstat(self, path: bytes) -> os.stat_result | None:
        """The stat data of a path; None if it, or a folder on its way, is not there."""
        folder, name = _split(path)
        try:
            return os.stat(name, dir_fd=self._folder(folder), follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError, UnsafePath):
            return None

    def names(self, folder: bytes) -> list[bytes]:
        """What is in a folder; nothing if there is no such folder."""
        try:
            return [os.fsencode(name) for name in os.listdir(self._folder(folder))]
        except (FileNotFoundError, NotADirectoryError, UnsafePath):
            return []

    def read(self, path: bytes) -> bytes:
        """The content of a file, or the target of a link."""
        folder, name = _split(path)
        handle = self._folder(folder)
        if stat.S_ISLNK(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
            return os.readlink(name, dir_fd=handle)
        fd = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle
        )
        with open(fd, "rb") as file:
            return file.read()

    # -- changing ----------------------------------------------------------------

    def write_file(
        self, path: bytes, data: bytes, permissions: int, unchanged: Unchanged
    ) -> os.stat_result | None:
        """Put a regular file at `path`, replacing a file or link there; returns its stat data."""
        folder, name = _split(path)
        handle = self._folder(folder, create=True)
        temporary = _temporary_name()
        fd = disk.create(temporary, 0o600, dir_fd=handle)
        try:
            disk.write(fd, data, path)
            disk.chmod(fd, permissions, path)
            if not unchanged():
                self._drop(temporary, handle)
                return None
            disk.rename(temporary, name, dir_fd=handle)
            return os.fstat(fd)
        except BaseException:
            self._drop(temporary, handle)
            raise
        finally:
            os.close(fd)

    def write_link(self, path: bytes, target: bytes, unchanged: Unchanged) -> os.stat_result | None:
        """Put a symbolic link at `path`, replacing a file or link there."""
        folder, name = _split(path)
        handle = self._folder(folder, create=True)
        temporary = _temporary_name()
        disk.symlink(target, temporary, dir_fd=handle)
        try:
            if not unchanged():
                self._drop(temporary, handle)
                return None
            disk.rename(temporary, name, dir_fd=handle)
        except BaseException:
            self._drop(temporary, handle)
            raise
        return os.stat(name, dir_fd=handle, follow_symlinks=False)

    def set_permissions(self, path: bytes, permissions: int) -> os.stat_result:
        folder, name = _split(path)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(name, flags, dir_fd=self._folder(folder))
        try:
            disk.chmod(fd, permissions, path)
            return os.fstat(fd)
        finally:
            os.close(fd)

    def remove_file(self, path: bytes) -> None:
        """Remove one file or link; no matter if it is gone already."""
        folder, name = _split(path)
        try:
            disk.unlink(name, dir_fd=self._folder(folder))
        except (FileNotFoundError, NotADirectoryError):
            pass

    def make_folder(self, path: bytes) -> None:
        self._folder(path, create=True)

    def remove_folder(self, path: bytes) -> bool:
        """Remove a folder if it is empty; tells whether it is gone."""
        self._close_folder()
        folder, name = _split(path)
        try:
            disk.rmdir(name, dir_fd=self._folder(folder))
        except (FileNotFoundError, NotADirectoryError, UnsafePath):
            return self.lstat(path) is None
        except OSError as error:
            if error.errno not in _IN_USE:
                raise
            return False
        return True

    def sync(self, path: bytes) -> None:
        """Make a file's content, or the names in a folder, durable."""
        folder, name = _split(path)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            fd = os.open(name or b".", flags, dir_fd=self._folder(folder))
        except (OSError, UnsafePath):  # a link, or gone again: nothing of ours to flush
            return
        try:
            disk.fsync(fd, path)
        except OSError as error:
            if error.errno not in _CANNOT_FLUSH:
                raise
        finally:
            os.close(fd)

    def clear_temporaries(self, folder: bytes) -> None:
        """Remove half-written files that a killed rollback left in a folder."""
        for name in self.names(folder):
            if TEMPORARY_NAME.fullmatch(name):
                disk.unlink(name, dir_fd=self._folder(folder))

    # -- folders by handle ---------------------------------------------------------

    def _folder(self, path: bytes, create: bool = False) -> int:
        """A handle on a folder, valid until the next call; kept for the next path in it."""
        if path == b"":
            return self._top
        if path != self._open_path:
            self._close_folder()
            self._open_fd = self._descend(path, create)
            self._open_path = path
        return self._open_fd

    def _descend(self, path: bytes, create: bool) -> int:
        fd = os.dup(self._top)
        for name in path.split(b"/"):
            try:
                _check(name, path)
                child = _open_child(fd, name, create)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise UnsafePath(
                        f"'{_shown(path)}' lies behind a symbolic link", hint="remove the link"
                    ) from None
                raise
            finally:
                os.close(fd)
            fd = child
        return fd

    def _close_folder(self) -> None:
        if self._open_path is not None:
            os.close(self._open_fd)
            self._open_path = None

    def _drop(self, temporary: bytes, handle: int) -> None:
        try:
            os.unlink(temporary, dir_fd=handle)
        except FileNotFoundError:
            pass


def _open_child(fd: int, name: bytes, create: bool) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=fd)
    except FileNotFoundError:
        if not create:
            raise
    try:
        disk.mkdir(name, dir_fd=fd)
    except FileExistsError:
        pass
    return os.open(name, _FOLDER_FLAGS, dir_fd=fd)


def _split(path: bytes) -> tuple[bytes, bytes]:
    folder, _, name = path.rpartition(b"/")
    if name or folder:
        _check(name, path)
    return folder, name


def _check(name: bytes, path: bytes) -> None:
    if name in (b"", b".", b"..") or name.lower() == b".git" or b"\0" in name:
        raise UnsafePath(f"refusing to touch '{_shown(path)}'", hint="the path is not safe")


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")


def _temporary_name() -> bytes:
    return disk.temporary_name(TEMPORARY_PREFIX.decode()).encode()
