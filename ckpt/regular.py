# SPDX-License-Identifier: MIT
"""Reading files that others write: git's own, and a user's settings.

A pipe in the place of one would be waited for until somebody writes to it, and a device never
ends, which git may not notice because it does not look there. What is no plain file, or larger
than any of its kind, is an error like any other that a disk has, and not read.
"""

from __future__ import annotations

import errno
import os
import stat

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
