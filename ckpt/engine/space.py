# SPDX-License-Identifier: MIT
"""Measure the disk space of checkpoints.

Objects at the same path in HEAD, now or at the time of a checkpoint, are not counted. Objects of
other branches are counted, and deltas are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import NamedTuple

from ckpt.git.objects import MissingObject, ObjectID
from ckpt.git.record import INDEX, read_commit
from ckpt.git.repository import Repository
from ckpt.git.trees import FOLDER, GITLINK, UnsafeTree, read_tree
from ckpt.models import Checkpoint

_FEW = 20_000  # trees to read, which takes about a second

Children = dict[bytes, tuple[int, ObjectID]]  # mode and id by name


class TooMany(Exception):
    """Checkpoints that take more trees to measure than the caller allows."""


class Held(NamedTuple):
    """Bytes held by checkpoints, and those held by dropped ones only."""

    total: int
    trash: int


def held(
    repo: Repository, living: Sequence[Checkpoint], dropped: Sequence[Checkpoint]
) -> Held | None:
    """Return the space that checkpoints hold; None if there are too many trees to read."""
    try:
        space = Space(repo, _FEW)
        for found in living:
            space.add(found)
        total = space.total
        for found in dropped:
            space.add(found)
    except TooMany:
        return None
    return Held(total, space.total - total)


class Space:
    """The total space of checkpoints; raises TooMany if `most` trees have been read.

    Trees are compared with those of HEAD, now and then, and only what differs is read.
    """

    def __init__(self, repo: Repository, most: float = inf) -> None:
        self._objects = repo.objects
        self._left = most
        self._head = repo.refs.head().commit
        self._read: dict[ObjectID, Children] = {}
        self._held: set[ObjectID] = set()
        self.total = 0

    def add(self, checkpoint: Checkpoint, limit: int | None = None) -> bool:
        """Add a checkpoint unless the total would exceed the limit."""
        then = ObjectID((checkpoint.head_commit or "").encode())
        heads = [tree for tree in map(self._tree, (self._head, then)) if tree]
        new: set[ObjectID] = set()
        for each in (checkpoint.commit, checkpoint.state_commit):
            commit = ObjectID(each.encode())
            tree = None if commit in self._held else self._tree(commit)
            if tree is not None:
                new.add(commit)
                with suppress(MissingObject, UnsafeTree):
                    self._add_new(tree, heads, new)
        size = sum(map(self._objects.disk_size, new))
        if limit is not None and self.total + size > limit:
            return False
        self._held |= new
        self.total += size
        return True

    def _tree(self, commit: ObjectID | None) -> ObjectID | None:
        with suppress(MissingObject):
            return read_commit(self._objects, commit).tree if commit else None
        return None

    def _add_new(self, tree: ObjectID, heads: list[ObjectID], new: set[ObjectID]) -> None:
        """Add the objects of a tree that are not at the same path in `heads`. In a state tree, the
        index is compared with them."""
        todo = [(tree, heads)]
        while todo:
            tree, beside = todo.pop()
            if tree in beside or tree in new or tree in self._held:
                continue
            new.add(tree)
            others = [self._children(other) for other in beside]
            for name, (mode, child) in self._children(tree).items():
                same = [other[name] for other in others if name in other]
                if mode == FOLDER:
                    below = [id for kind, id in same if kind == FOLDER]
                    todo.append((child, heads if name == INDEX and not below else below))
                elif mode != GITLINK and (mode, child) not in same and child not in self._held:
                    new.add(child)

    def _children(self, tree: ObjectID) -> Children:
        if tree not in self._read:
            self._left -= 1
            if self._left < 0:
                raise TooMany
            entries = read_tree(self._objects, tree)
            self._read[tree] = {name: (mode, child) for name, mode, child in entries}
        return self._read[tree]
