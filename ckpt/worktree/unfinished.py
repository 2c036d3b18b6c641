# SPDX-License-Identifier: MIT
"""Files that a rollback has begun to write and not yet named.

They bear the name that the rollback has in its journal: whoever finds one after a crash knows
whose it is, and takes no other file for one.
"""

from __future__ import annotations

from ckpt import disk
from ckpt.patterns import lazy_pattern

_PREFIX = ".ckpt-tmp-"
_NAME = lazy_pattern(rb"\.ckpt-tmp-([0-9a-f]*)-[0-9a-f]{16}")


def unfinished_name(rollback: bytes) -> bytes:
    """A new one."""
    return disk.temporary_name(f"{_PREFIX}{rollback.decode()}-").encode()


def is_unfinished(name: bytes, rollback: bytes | None) -> bool:
    """Whether a file of this name is one that a rollback has begun to write."""
    if rollback is None:
        return False
    found = _NAME.fullmatch(name)
    return found is not None and found[1] == rollback
