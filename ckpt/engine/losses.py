# SPDX-License-Identifier: MIT
"""What a save misses while it is at work, and whether to try again.

A prune without grace also takes objects that are still being written, and those that only an index
named which is another by now: another attempt finds all that it needs. What the index or HEAD
names still is gone for good, and left out by the next attempt.
"""

from __future__ import annotations

import os

from ckpt.store.objects import MissingObject, ObjectsPruned
from ckpt.store.temporaries import TEMPORARY_OBJECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.engine.present import Present
    from ckpt.store.repository import Repository


class Losses:
    """Those of the attempts at one checkpoint."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._missed: set[str] = set()
        self._leaves_out = False

    def leave_out(self, present: Present) -> None:
        """Take out of the present what turned out to be gone for good."""
        if self._leaves_out:
            from ckpt.engine.gone import leave_out

            leave_out(self._repo.objects, present)

    def may_pass(self, error: Exception) -> bool:
        """Whether another attempt may do without what this one has missed, or find it."""
        if isinstance(error, MissingObject):
            return self._may_pass(error.details["object"])
        gone = error.filename if isinstance(error, FileNotFoundError) else None
        return isinstance(error, ObjectsPruned) or TEMPORARY_OBJECT in os.fsdecode(gone or "")

    def _may_pass(self, name: str) -> bool:
        is_known = name in self._missed
        self._missed.add(name)
        if not self._leaves_out:
            from ckpt.engine.gone import is_any  # which few ever need

            self._leaves_out = is_any(self._repo)
            is_known = is_known and not self._leaves_out
        return not is_known
