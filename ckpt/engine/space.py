# SPDX-License-Identifier: MIT
"""Measure the disk space of checkpoints.

Objects in the trees of HEAD, now or at the time of a checkpoint, are not counted. Objects of other
branches are counted, and deltas are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from ckpt.git.objects import MissingObject, ObjectID
from ckpt.git.record import read_commit
from ckpt.git.repository import Repository
from ckpt.git.trees import TooMany, UnsafeTree, reach
from ckpt.models import Checkpoint

_FEW = 100_000  # objects, which take about a second


class Held(NamedTuple):
    """Bytes held by checkpoints, and those held by dropped ones only."""

    total: int
    trash: int


def held(
    repo: Repository, living: Sequence[Checkpoint], dropped: Sequence[Checkpoint]
) -> Held | None:
    """Return the space that checkpoints hold; None if there are too many objects to count."""
    try:
        space = Space(repo, [*living, *dropped], _FEW)
        for found in living:
            space.add(found)
        total = space.total
        for found in dropped:
            space.add(found)
    except TooMany:
        return None
    return Held(total, space.total - total)


class Space:
    """The total space of checkpoints; raises TooMany above `most` objects."""

    def __init__(
        self, repo: Repository, checkpoints: Sequence[Checkpoint], most: int | None = None
    ) -> None:
        self._objects = repo.objects
        self._most = most
        self._held: set[ObjectID] = set()
        self.total = 0
        head = repo.refs.head().commit
        heads = {ObjectID(c.head_commit.encode()) for c in checkpoints if c.head_commit}
        for each in heads | ({head} if head else set()):
            self._held |= self._below(each)

    def add(self, checkpoint: Checkpoint, limit: int | None = None) -> bool:
        """Add a checkpoint unless the total would exceed the limit."""
        new: set[ObjectID] = set()
        for each in (checkpoint.commit, checkpoint.state_commit):
            commit = ObjectID(each.encode())
            if commit not in self._held:
                new |= {commit} | self._below(commit)
        size = sum(map(self._objects.disk_size, new))
        if limit is not None and self.total + size > limit:
            return False
        self._held |= new
        self.total += size
        return True

    def _below(self, commit: ObjectID) -> set[ObjectID]:
        """Return the objects in a commit's tree that are not counted yet."""
        found: set[ObjectID] = set()
        most = None if self._most is None else self._most - len(self._held)
        with suppress(MissingObject, UnsafeTree):
            reach(self._objects, read_commit(self._objects, commit).tree, found, self._held, most)
        return found
