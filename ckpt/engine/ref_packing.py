# SPDX-License-Identifier: MIT
"""Checkpoint refs into git's `packed-refs`, when they have become many.

A loose ref is a file that git opens for every fetch and every `git log --all`; a packed one is a
line. One that is dropped or pinned later is taken out again by itself. Somebody else who holds
the lock is a reason to leave it for the next time.
"""

from __future__ import annotations

from ckpt.errors import Busy
from ckpt.models import REF_PREFIX, TRASH_PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.store.repository import Repository

MANY_REFS = 100
_OURS = (REF_PREFIX, TRASH_PREFIX)


def pack_refs(repo: Repository, at_least: int = MANY_REFS) -> int:
    """Pack our refs if so many of them are loose; how many were."""
    if repo.refs.loose_count(_OURS) < max(at_least, 1):
        return 0
    try:
        return repo.refs.pack(_OURS, lambda value: repo.objects.kind(value) == b"commit")
    except Busy:
        return 0
