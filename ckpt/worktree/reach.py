# SPDX-License-Identifier: MIT
"""Look at paths of any length, and never through a link.

A system call takes a path of some 4,096 bytes (1,024 on macOS), a file system has no such
bound: a folder can be made inside a folder for as long as one likes. What is longer than
a call takes is reached in several, each from a handle on a folder further down. For all
other paths, which is nearly always, each function here is the one of `os`.

A folder may become a link while it is looked into, and lead to what is none of the worktree's. So
who reads a content asks the system where the file is that was opened. If that is not what was
meant, or the system does not tell, it is opened once more, folder by folder. Paths are absolute
and without links, as a worktree's own is.

Only for looking; what changes files goes by handle from the top (`write`).
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

# A file with holes can be larger than all memory. Git hears nothing of rules from 100 MB on, and
# takes no longer file for a `.git` that leads elsewhere.
LARGEST_TEXT = 16 << 20
_LARGEST_GITFILE = 1 << 20

# Every system takes this much, with room for a name at its end.
LONGEST = 700

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# On the way a folder need not be readable, where the system knows handles for that.
_STEP_FLAGS = _FOLDER_FLAGS | getattr(os, "O_PATH", 0)
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_GET_PATH = 50  # F_GETPATH of macOS

# By these git knows a git dir, whatever its name.
IN_GIT_DIR = frozenset((b"HEAD", b"objects", b"refs"))


class FarChild:
    """What os.scandir tells of a name, for a folder that no path reaches."""

    __slots__ = ("_status", "name")

    def __init__(self, name: bytes, status: os.stat_result | OSError) -> None:
        self.name = name
        self._status = status

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        assert not follow_symlinks
        status = self._status
        return not isinstance(status, OSError) and stat.S_ISDIR(status.st_mode)

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        assert not follow_symlinks
        if isinstance(self._status, OSError):
            raise self._status
        return self._status


Child = os.DirEntry[bytes] | FarChild


def children(folder: bytes) -> list[os.DirEntry[bytes]] | list[FarChild]:
    """What is in a folder, in no order."""
    if len(folder) <= LONGEST:
        with os.scandir(folder) as listing:
            return list(listing)
    with (
        _near(folder) as (handle, rest),
        _opened(rest, _FOLDER_FLAGS, handle) as inner,
    ):
        return [_far_child(os.fsencode(name), inner) for name in os.listdir(inner)]


def _far_child(name: bytes, folder: int) -> FarChild:
    try:
        return FarChild(name, os.stat(name, dir_fd=folder, follow_symlinks=False))
    except OSError as error:
        return FarChild(name, error)


def lstat(path: bytes) -> os.stat_result:
    if len(path) <= LONGEST:
        return os.lstat(path)
    with _near(path) as (handle, rest):
        return os.stat(rest, dir_fd=handle, follow_symlinks=False)


def readlink(path: bytes) -> bytes:
    """Where a link leads that is no further than its own name says."""
    if len(path) <= LONGEST:
        # The folder is not a link, and there is none on the way to it.
        folder, name = os.path.split(path)
        with suppress(NotADirectoryError), _opened(folder, _STEP_FLAGS) as handle:
            if _place_of(handle) == folder:
                return os.readlink(name, dir_fd=handle)
    with _folder_of(path) as (handle, name):
        return os.readlink(name, dir_fd=handle)


def open_file(path: bytes) -> int:
    """A handle to read from; never through a link, and without waiting for a pipe's writer."""
    if len(path) <= LONGEST:
        fd = os.open(path, _FILE_FLAGS)
        if _place_of(fd) == path:
            return fd
        os.close(fd)
    with _folder_of(path) as (handle, name):
        return os.open(name, _FILE_FLAGS, dir_fd=handle)


@contextmanager
def _opened(path: bytes, flags: int, folder: int | None = None) -> Iterator[int]:
    fd = os.open(path, flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _place_of(fd: int) -> bytes | None:
    """The path at which an open file is; None where the system does not tell."""
    try:
        if sys.platform == "darwin":
            import fcntl

            return fcntl.fcntl(fd, _GET_PATH, bytes(1024)).partition(b"\0")[0]
        return os.readlink(b"/proc/self/fd/%d" % fd)
    except OSError:
        return None


def read_plain_file(path: bytes, most: int = LARGEST_TEXT) -> bytes | None:
    """A file's content, if it is one and no longer; git follows no link to a `.gitignore`."""
    try:
        fd = open_file(path)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        with open(fd, "rb", closefd=False) as file:
            text = file.read(most + 1)
            return text if len(text) <= most else None
    except OSError:
        return None
    finally:
        os.close(fd)


def is_nested_repository(path: bytes) -> bool:
    """True if a folder is a repository of its own: a `.git` file, or a git dir in `.git`."""
    dot_git = os.path.join(path, b".git")
    try:
        status = lstat(dot_git)
    except OSError:
        return False
    if stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode):
        try:
            lstat(os.path.join(dot_git, b"HEAD"))
        except OSError:
            return False
        return True
    text = read_plain_file(dot_git, _LARGEST_GITFILE)
    return text is not None and text.startswith(b"gitdir:")


def is_repository(path: bytes) -> bool:
    """True of such a folder, and of a git dir under any name."""
    if is_nested_repository(path):
        return True
    try:
        return all(lstat(os.path.join(path, name)) for name in sorted(IN_GIT_DIR))
    except OSError:
        return False


@contextmanager
def _near(path: bytes) -> Iterator[tuple[int, bytes]]:
    """A handle on a folder on the way, and the path from there: short enough for a call."""
    handle = os.open(b"/" if path.startswith(b"/") else b".", _STEP_FLAGS)
    try:
        rest = path.lstrip(b"/")
        while len(rest) > LONGEST:
            folder, _, _ = rest[:LONGEST].rpartition(b"/")
            if not folder:  # a name that no file system takes: the call will say so
                break
            handle, behind = os.open(folder, _STEP_FLAGS, dir_fd=handle), handle
            os.close(behind)
            rest = rest[len(folder) + 1 :]
        yield handle, rest
    finally:
        os.close(handle)


@contextmanager
def _folder_of(path: bytes) -> Iterator[tuple[int, bytes]]:
    """A handle on the folder that a path is in, reached without a link, and the last name."""
    *folders, name = path.lstrip(b"/").split(b"/")
    handle = os.open(b"/" if path.startswith(b"/") else b".", _STEP_FLAGS)
    try:
        for folder in filter(None, folders):
            handle, behind = _step(handle, folder), handle
            os.close(behind)
        yield handle, name
    finally:
        os.close(handle)


def _step(handle: int, folder: bytes) -> int:
    try:
        return os.open(folder, _STEP_FLAGS, dir_fd=handle)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(folder, dir_fd=handle, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), folder) from None
        raise
