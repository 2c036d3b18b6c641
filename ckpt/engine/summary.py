# SPDX-License-Identifier: MIT
"""What a checkpoint says about itself in one line: what differs from HEAD, and how much.

Counted once, when the checkpoint is made, and stored with it. Of a file that was changed long
ago the lines are not counted again at each save: `Counts` remembers them by the two blobs.
"""

from __future__ import annotations

from collections.abc import Iterable

from ckpt.models import Stats
from ckpt.store import record
from ckpt.store.objects import MissingObject, ObjectID, ObjectStore
from ckpt.store.refs import Head
from ckpt.store.trees import GITLINK, Change, TreeEntry, diff_trees
from ckpt.values import value_class

# Larger files count as changed, their lines do not: counting must not hold up a save.
_COUNTED_SIZE = 1 << 20


@value_class
class Summary:
    """`dirty` are the paths that differ from HEAD, in the worktree or the index."""

    stats: Stats
    dirty: tuple[bytes, ...]


class Counts:
    """How many lines came and went between two blobs; only what was asked for is kept."""

    def __init__(self, known: dict[bytes, tuple[int, int]] | None = None) -> None:
        self._known = known or {}
        self.asked: dict[bytes, tuple[int, int]] = {}

    def of(
        self, objects: ObjectStore, before: TreeEntry | None, after: TreeEntry | None
    ) -> tuple[int, int]:
        key = b"%s %s" % (_id(before), _id(after))
        found = self._known.get(key) or self.asked.get(key)
        if found is None:
            from ckpt import linediff

            found = linediff.count(_text(objects, before), _text(objects, after))
        self.asked[key] = found
        return found


def summarise(
    objects: ObjectStore, head: Head, tree: ObjectID, index: ObjectID, counts: Counts
) -> Summary:
    """What differs from HEAD, in the worktree (counted) and in the index (named)."""
    head_tree = None
    if head.commit is not None:
        head_tree = record.read_commit(objects, head.commit).tree
    changes = list(diff_trees(objects, head_tree, tree))
    staged = {path for path, _, _ in diff_trees(objects, head_tree, index)}
    dirty = tuple(sorted(staged | {path for path, _, _ in changes}))
    return Summary(count_lines(objects, changes, counts), dirty)


def count_lines(
    objects: ObjectStore, changes: Iterable[Change], counts: Counts | None = None
) -> Stats:
    counts = counts or Counts()
    files = insertions = deletions = 0
    for _, before, after in changes:
        files += 1
        try:
            added, removed = counts.of(objects, before, after)
        except MissingObject:  # a partial clone need not have HEAD's blobs
            continue
        insertions += added
        deletions += removed
    return Stats(files, insertions, deletions)


def _id(entry: TreeEntry | None) -> bytes:
    return b"" if entry is None or entry.mode == GITLINK else entry.id


def _text(objects: ObjectStore, entry: TreeEntry | None) -> bytes:
    if entry is None or entry.mode == GITLINK:
        return b""
    size = objects.size(entry.id)
    return b"\0" if size is not None and size > _COUNTED_SIZE else objects.read(entry.id, b"blob")
