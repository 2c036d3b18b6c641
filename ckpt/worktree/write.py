# SPDX-License-Identifier: MIT
"""Change files of a worktree, with every path-safety rule in this one place.

Each folder on the way is opened by handle, one component at a time, and never through
a symbolic link: a link swapped in between two calls cannot send a write elsewhere. A
file appears under its name whole or not at all (temporary file, then rename). To replace or
remove one, the caller gives the stat data that were found, which are compared just before.
Nothing here decides what to change, and nothing is removed but one file or one empty folder.
"""

from __future__ import annotations

import errno
import io
import os
import re
import stat
from binascii import crc32
from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import TracebackType

from ckpt import disk, paths
from ckpt.errors import CkptError
from ckpt.paths import identity

_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A folder in use stays; some file systems cannot flush one, and need not.
_IN_USE = (errno.ENOTEMPTY, errno.EEXIST, errno.EBUSY)
_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP)

# From so many levels down, handles on the folders above are kept: going there again from
# the top for each of a few thousand nested folders would take minutes.
_DEEP = 64
_KEPT = 64

_PREFIX = ".ckpt-tmp-"
_NAME = rb"\.ckpt-tmp-([0-9a-f]*)-[0-9a-f]{16}"

Found = os.stat_result | None


def is_unfinished(name: bytes, rollback: bytes | None) -> bool:
    """Whether a file of this name is one that a rollback has begun to write."""
    found = None if rollback is None else re.fullmatch(_NAME, name)
    return found is not None and found[1] == rollback


class UnsafePath(CkptError):
    """A path that would leave the worktree, enter a git dir or pass through a link."""


class Worktree:
    """Handle on the folder at the top; a context manager. No path leads into `git_dirs`, which
    may lie in the worktree under any name, and are known by what they are.

    `new_folders` are the permission bits of folders that may have to be made, `made` are those
    that were. `rollback` is the name by which its journal knows the files that are begun here.
    """

    def __init__(self, top: bytes, git_dirs: Iterable[str] = ()) -> None:
        self._place = top
        self._top = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._closed_to_us = {_identity(os.stat(folder)) for folder in git_dirs}
        self._open: list[tuple[bytes, int]] = []  # each above the next
        self.new_folders: Mapping[bytes, int] = {}
        self.made: set[bytes] = set()
        self.rollback = b""

    def __enter__(self) -> Worktree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._close_folders(b"")
        os.close(self._top)

    # -- looking -----------------------------------------------------------------

    def lstat(self, path: bytes) -> os.stat_result | None:
        """The stat data of a path; None if it, or a folder on its way, is not there."""
        folder, name = _split(path)
        try:
            return os.stat(name, dir_fd=self._folder(folder), follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError, UnsafePath):
            return None
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            return None

    def takes_names_of(self, path: bytes) -> bool:
        """False if the file system has no room for a name that long."""
        return max(map(len, path.split(b"/"))) <= os.fpathconf(self._top, "PC_NAME_MAX")

    def names(self, folder: bytes) -> list[bytes]:
        """What is in a folder; nothing if there is no such folder."""
        try:
            return [os.fsencode(name) for name in os.listdir(self._folder(folder))]
        except (FileNotFoundError, NotADirectoryError, UnsafePath):
            return []

    def link_target(self, path: bytes) -> bytes:
        """Where a link points; OSError if it is none."""
        folder, name = _split(path)
        return os.readlink(name, dir_fd=self._folder(folder))

    def open(self, path: bytes) -> io.FileIO:
        """A file, to be read in pieces."""
        folder, name = _split(path)
        return io.FileIO(os.open(name, _FILE_FLAGS, dir_fd=self._folder(folder)))

    def in_the_way(self, path: bytes) -> bytes | None:
        """What stands where a folder on the way to a path would have to be."""
        folder = _split(path)[0]
        try:
            self._folder(folder)
        except FileNotFoundError:
            return None
        except (NotADirectoryError, UnsafePath):
            reached = len(self._open[-1][0]) + 1 if self._open else 0
            end = folder.find(b"/", reached)
            return folder if end < 0 else folder[:end]
        return None

    def is_git_dir(self, path: bytes) -> bool:
        """Whether a path is one that nothing may lead into."""
        status = self.lstat(path)
        return status is not None and _identity(status) in self._closed_to_us

    def is_repository(self, path: bytes) -> bool:
        """Whether a path is another repository, or the git dir of one."""
        place = os.path.join(self._place, path)
        if not paths.is_repository(place):
            return False
        return _identity(paths.lstat(place)) not in self._closed_to_us

    # -- changing ----------------------------------------------------------------

    def write_file(
        self, path: bytes, pieces: Iterable[bytes], permissions: int, found: Found
    ) -> os.stat_result | None:
        """Put a regular file at `path`, in place of the file or link that was found there, or of
        nothing; returns its stat data.

        None if something else stands there by now. If the pieces end with an error, nothing has
        happened.
        """
        folder, name = _split(path)
        handle = self._folder(folder, create=True)
        temporary = self._temporary(name)
        fd = disk.create(temporary, 0o600, dir_fd=handle)
        try:
            for piece in pieces:
                disk.write(fd, piece)
            disk.chmod(fd, permissions)
            return os.fstat(fd) if self._give(temporary, name, found, handle) else None
        except BaseException:
            disk.discard(temporary, dir_fd=handle)
            raise
        finally:
            os.close(fd)

    def write_link(self, path: bytes, target: bytes, found: Found) -> os.stat_result | None:
        """Put a symbolic link at `path`, likewise."""
        folder, name = _split(path)
        handle = self._folder(folder, create=True)
        temporary = self._temporary(name)
        disk.symlink(target, temporary, dir_fd=handle)
        try:
            if not self._give(temporary, name, found, handle):
                return None
        except BaseException:
            disk.discard(temporary, dir_fd=handle)
            raise
        return _status(name, handle)

    def _temporary(self, name: bytes) -> bytes:
        """A new name for what will stand in the place of a file of that name."""
        prefix = f"{_PREFIX}{self.rollback.decode()}-{crc32(name):08x}"
        return disk.temporary_name(prefix, 4).encode()

    def _give(self, temporary: bytes, name: bytes, found: Found, handle: int) -> bool:
        """Give a finished file the name of what was found, if that still stands there."""
        if _is_still(name, found, handle):
            disk.rename(temporary, name, dir_fd=handle)
            return True
        disk.discard(temporary, dir_fd=handle)
        return False

    def set_permissions(self, path: bytes, permissions: int) -> os.stat_result | None:
        """Set a file's bits; None, and nothing done, if it has other names that they count for."""
        folder, name = _split(path)
        fd = os.open(name, _FILE_FLAGS, dir_fd=self._folder(folder))
        try:
            if os.fstat(fd).st_nlink > 1:
                return None
            disk.chmod(fd, permissions)
            return os.fstat(fd)
        finally:
            os.close(fd)

    def remove_file(self, path: bytes, found: os.stat_result) -> bool:
        """Remove the file or link that was found; False if it is another by now, or gone."""
        folder, name = _split(path)
        try:
            handle = self._folder(folder)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not _is_still(name, found, handle):
            return False
        disk.unlink(name, dir_fd=handle)
        return True

    def discard(self, unfinished: bytes) -> None:
        """Remove an unfinished file."""
        folder, name = _split(unfinished)
        with suppress(FileNotFoundError, NotADirectoryError):
            disk.unlink(name, dir_fd=self._folder(folder))

    def make_folder(self, path: bytes) -> None:
        self._folder(path, create=True)

    def folder_permissions(self, path: bytes) -> int | None:
        """The permission bits of a folder; None if there is none."""
        status = self.lstat(path)
        if status is None or not stat.S_ISDIR(status.st_mode):
            return None
        return stat.S_IMODE(status.st_mode) & 0o777

    def set_folder_permissions(self, path: bytes, permissions: int) -> None:
        """Set a folder's bits, if there is one; what is set-group-ID or sticky stays so."""
        try:
            fd = self._folder(path)
        except (FileNotFoundError, NotADirectoryError, UnsafePath):
            return
        mode = stat.S_IMODE(os.fstat(fd).st_mode)
        if mode & 0o777 != permissions:
            disk.chmod(fd, mode & ~0o777 | permissions)

    def remove_folder(self, path: bytes) -> bool:
        """Remove a folder if it is empty; tells whether it is gone."""
        self._close_folders(path)
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
        try:
            fd = os.open(name or b".", _FILE_FLAGS, dir_fd=self._folder(folder))
        except (OSError, UnsafePath):  # a link, or gone again: nothing of ours to flush
            return
        try:
            disk.fsync(fd)
        except OSError as error:
            if error.errno not in _CANNOT_FLUSH:
                raise
        finally:
            os.close(fd)

    def unfinished(self, folder: bytes) -> list[bytes]:
        """Half-written files of the rollback that it left in a folder when it was killed."""
        prefix = folder + b"/" if folder else b""
        names = (name for name in self.names(folder) if is_unfinished(name, self.rollback))
        return [path for path in map(prefix.__add__, names) if self._is_no_folder(path)]

    def _is_no_folder(self, path: bytes) -> bool:
        status = self.lstat(path)
        return status is not None and not stat.S_ISDIR(status.st_mode)

    # -- folders by handle ---------------------------------------------------------

    def _folder(self, path: bytes, create: bool = False) -> int:
        """A handle on a folder, valid until the next call; kept for the next path in it."""
        if path == b"":
            return self._top
        if not self._open or path != self._open[-1][0]:
            self._descend(path, create)
        return self._open[-1][1]

    def _descend(self, path: bytes, create: bool) -> None:
        """Open each folder on the way, from the nearest that is open already."""
        kept = _KEPT if path.count(b"/") >= _DEEP else 1
        while self._open and not (kept > 1 and path.startswith(self._open[-1][0] + b"/")):
            os.close(self._open.pop()[1])
        done = self._open[-1][0] if self._open else b""
        for name in path[len(done) + 1 if done else 0 :].split(b"/"):
            _check(name, path)
            fd = self._open[-1][1] if self._open else self._top
            done = done + b"/" + name if done else name
            inner = self._open_child(fd, name, done, create)
            if self._closed_to_us and _identity(os.fstat(inner)) in self._closed_to_us:
                os.close(inner)
                raise UnsafePath(
                    f"'{_shown(done)}' is a git dir", hint="nothing is ever restored into one"
                )
            self._open.append((done, inner))
            if len(self._open) > kept:
                os.close(self._open.pop(0)[1])

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
        try:
            # Never open to more people than it will be, and to us, who must fill it.
            disk.mkdir(name, self.new_folders.get(path, 0o777) | 0o700, dir_fd=fd)
            self.made.add(path)
        except FileExistsError:
            pass
        return os.open(name, _FOLDER_FLAGS, dir_fd=fd)

    def _close_folders(self, path: bytes) -> None:
        """Forget the handles on a folder and on those below it; without a path, on all."""
        while self._open and (not path or (self._open[-1][0] + b"/").startswith(path + b"/")):
            os.close(self._open.pop()[1])


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


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
