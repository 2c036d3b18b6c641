# SPDX-License-Identifier: MIT
"""The files and folders in which loose refs are, whatever stands in their place.

Folders come and go as refs do, another process may take either away at any moment, and a link,
a pipe or a folder where a file should be is read as what git reads there.
"""

from __future__ import annotations

import errno
import os
import stat

from ckpt import disk, regular
from ckpt.errors import is_want
from ckpt.store.ref_names import is_safe

SYMREF = b"ref: "
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


def read_loose(path: str) -> bytes | None:
    """The contents of a ref's file; None where there is none. A link is a symbolic ref."""
    try:
        fd = os.open(path, _OPEN | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        if error.errno != errno.ELOOP:
            raise
        return _read_link(path)
    try:
        return os.read(fd, 4096)
    except IsADirectoryError:
        return None
    finally:
        os.close(fd)


def _read_link(path: str) -> bytes | None:
    """Of old, a symbolic link stood for `ref: `; any other link is followed."""
    try:
        target = os.fsencode(os.readlink(path))
        return SYMREF + target if is_safe(target) else _read_followed(path)
    except OSError:
        return None


def _read_followed(path: str) -> bytes | None:
    """The first bytes of a file; a pipe or a device is not waited for."""
    fd = os.open(path, _OPEN)
    try:
        return os.read(fd, 4096) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)


def read_anyhow(path: str) -> bytes | None:
    """The same where a file that cannot be read says nothing."""
    try:
        return read_loose(path)
    except OSError as error:
        if is_want(error):
            raise
        return b""


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def inode_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def remove_file(path: str) -> None:
    try:
        disk.unlink(path)
    except FileNotFoundError:
        pass


def remove_empty(path: str) -> None:
    """Take away folders with nothing in them, where a file shall stand: as git does."""
    for folder, _, _ in os.walk(path, topdown=False):
        _remove_if_empty(folder)


def remove_empty_above(path: str, top: str) -> None:
    """Take away the folders that the last ref in them leaves empty, up to `top`."""
    folder = os.path.dirname(path)
    while folder.startswith(top + "/") and _remove_if_empty(folder):
        folder = os.path.dirname(folder)


def _remove_if_empty(folder: str) -> bool:
    try:
        disk.rmdir(folder)
    except OSError:  # in use, or gone already
        return False
    return True


def read_file(path: str) -> bytes:
    try:
        return regular.read(path)
    except OSError as error:
        if is_want(error):
            raise
        return b""
