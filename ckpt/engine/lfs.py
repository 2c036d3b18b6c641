# SPDX-License-Identifier: MIT
"""What is known of Git LFS: its pointers, and where it keeps the contents they stand for.

A pointer is what git stores of a file with the filter `lfs`. Its content may be in the local
store of the repository, from which `git lfs prune` takes what HEAD does not name. It is
looked at here and never written; contents that only a server has are left to the driver.
"""

from __future__ import annotations

import os
import stat

from ckpt.hashing import sha256
from ckpt.patterns import lazy_pattern
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.repository import Repository
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

DRIVER = "lfs"
_PIECE = 1 << 18
_LARGEST_POINTER = 1024
_POINTER = lazy_pattern(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:[a-z0-9.-]+ .*\n)*?"
    rb"oid sha256:([0-9a-f]{64})\nsize ([0-9]{1,18})\n"
)


@value_class
class Pointer:
    """The SHA-256 of a content, in hexadecimal, and its size."""

    oid: str
    size: int


def read_pointer(objects: ObjectStore, blob: ObjectID) -> Pointer | None:
    """None for a blob that is no pointer, or is not here."""
    size = objects.size(blob)
    if size is None or size > _LARGEST_POINTER:
        return None
    found = _POINTER.fullmatch(objects.read(blob, b"blob"))
    return None if found is None else Pointer(found[1].decode(), int(found[2]))


class LocalStore:
    """The contents that Git LFS has on this disk; all worktrees of a repository share them."""

    def __init__(self, repo: Repository) -> None:
        storage = repo.config.get("lfs.storage") or "lfs"
        self._folder = os.path.join(repo.common_dir, storage, "objects")

    def has(self, pointer: Pointer) -> bool:
        """Whether a file of the right size is there; nobody has read it."""
        try:
            return _is_content(os.stat(self._place(pointer)), pointer)
        except OSError:
            return False

    def holds(self, pointer: Pointer) -> bool:
        """Whether the content is there, read to its end."""
        file = self.open(pointer)
        if file is None:
            return False
        digest = sha256(expected=pointer.size)
        with file:
            while piece := file.read(_PIECE):
                digest.update(piece)
        return digest.hexdigest() == pointer.oid

    def open(self, pointer: Pointer) -> IO[bytes] | None:
        try:
            fd = os.open(self._place(pointer), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        if _is_content(os.fstat(fd), pointer):
            return os.fdopen(fd, "rb")
        os.close(fd)
        return None

    def _place(self, pointer: Pointer) -> str:
        oid = pointer.oid
        return os.path.join(self._folder, oid[:2], oid[2:4], oid)


def _is_content(status: os.stat_result, pointer: Pointer) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_size == pointer.size
