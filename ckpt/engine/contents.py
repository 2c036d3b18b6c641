# SPDX-License-Identifier: MIT
"""From a file that others may be writing to a blob that some moment really had.

A content counts only if the stat data before and after it are the same and its length
is the one they tell; otherwise it is read again, a few times at most. If a file changed just
before, another change in the same tick of the clock would not show, and it is read twice. A
large file goes to the object store in pieces. An error on the way in is kept apart from one of the
object store: the first costs one path, the second the checkpoint.
"""

from __future__ import annotations

import os
import stat
import time

from ckpt.engine.gather import Clock
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.streams import LARGE, UnreadableFile
from ckpt.worktree import reach
from ckpt.worktree.identity import identity

_ATTEMPTS = 4


class VanishedFile(Exception):
    """Nothing is left at a path where there was a file."""


def add_stable(objects: ObjectStore, path: bytes) -> tuple[ObjectID, os.stat_result]:
    """Add the content of a file or link; with the stat data that it had before and after.

    VanishedFile or UnreadableFile if that is not possible.
    """
    for _ in range(_ATTEMPTS):
        try:
            data, status = _read(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise VanishedFile(path) from error
        except OSError as error:
            raise UnreadableFile(error.errno, error.strerror) from error
        if status is not None:
            return objects.add(b"blob", data), status
        added = _add_large(objects, path)
        if added is not None:
            return added
    raise UnreadableFile.changing()


def _read(path: bytes) -> tuple[bytes, os.stat_result | None]:
    """The content of a link or a small file; without stat data if it has to be read again."""
    before = reach.lstat(path)
    if stat.S_ISLNK(before.st_mode):
        data, after = reach.readlink(path), reach.lstat(path)
    elif before.st_size > LARGE:
        return b"", None
    else:
        began = time.time_ns()
        data, before, after = _read_file(path)
        if is_fresh(before, began):
            again, _, after = _read_file(path)
            if again != data:
                return b"", None
    is_stable = identity(before) == identity(after) and len(data) == after.st_size
    return data, after if is_stable else None


def _read_file(path: bytes) -> tuple[bytes, os.stat_result, os.stat_result]:
    fd = reach.open_file(path)
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise UnreadableFile.changing()
        with open(fd, "rb", closefd=False) as file:
            return file.read(before.st_size + 1), before, os.fstat(fd)
    finally:
        os.close(fd)


def _add_large(objects: ObjectStore, path: bytes) -> tuple[ObjectID, os.stat_result] | None:
    """Add a file that is not to be held in memory; None if it is not large, or is changing."""
    try:
        fd = reach.open_file(path)
    except OSError:
        return None
    try:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode) or before.st_size <= LARGE:
            return None
        blob = objects.add_file(fd, before.st_size)  # which reads it twice in any case
        after = os.fstat(fd)
        return (blob, after) if identity(before) == identity(after) else None
    except UnreadableFile:
        return None
    finally:
        os.close(fd)


def is_fresh(status: os.stat_result, now: int) -> bool:
    """Whether a file could have changed once more by then with the same stat data."""
    return not Clock(now).is_settled(status)
