# SPDX-License-Identifier: MIT
"""Files that a rollback has begun to write and not yet named, or has taken a name from.

They bear the name that the rollback has in its journal, and a mark of the file that they are
meant for: whoever finds one after a crash knows whose it is, and takes no other file for one.
"""

from __future__ import annotations

from binascii import crc32

from ckpt import disk
from ckpt.patterns import lazy_pattern

_PREFIX = ".ckpt-tmp-"
_NAME = lazy_pattern(rb"\.ckpt-tmp-([0-9a-f]*)-([0-9a-f]{8})[0-9a-f]{8}")


def unfinished_name(rollback: bytes, name: bytes) -> bytes:
    """A new one, in the place of a file of that name."""
    return disk.temporary_name(f"{_PREFIX}{rollback.decode()}-{_mark(name)}", 4).encode()


def is_unfinished(name: bytes, rollback: bytes | None) -> bool:
    """Whether a file of this name is one that a rollback has begun to write."""
    if rollback is None:
        return False
    found = _NAME.fullmatch(name)
    return found is not None and found[1] == rollback


def is_meant_for(unfinished: bytes, name: bytes) -> bool:
    """Whether it may have been made in the place of a file of that name."""
    found = _NAME.fullmatch(unfinished)
    return found is not None and found[2].decode() == _mark(name)


def _mark(name: bytes) -> str:
    return f"{crc32(name):08x}"
