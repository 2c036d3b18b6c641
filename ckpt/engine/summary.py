# SPDX-License-Identifier: MIT
"""What a checkpoint says about itself in one line: what differs from HEAD, and how much.

Counted once, when the checkpoint is made, and stored with it. Trees that were compared last time
are not compared again, and of a file that was changed long ago the lines are not counted again:
they are remembered by the two blobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ckpt.git import record
from ckpt.git.formats import ObjectID
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.trees import GITLINK, TreeEntry, diff_trees
from ckpt.models import Stats
from ckpt.paths import to_str

Counts = dict[bytes, tuple[int, int]]

# Larger files count as changed, their lines do not: counting must not hold up a save.
_COUNTED_SIZE = 1 << 20


class Compared(NamedTuple):
    """What was found on comparing the worktree and the index with a commit."""

    commit: bytes | None
    tree: bytes
    index_tree: bytes
    dirty: tuple[bytes, ...]
    stats: tuple[int, int, int]
    counts: Counts

    def dirty_files(self) -> tuple[str, ...]:
        """Return the paths that differ from HEAD, in the worktree or the index."""
        return tuple(map(to_str, self.dirty))


def compare(
    objects: ObjectStore,
    commit: ObjectID | None,
    tree: ObjectID,
    index: ObjectID,
    before: Compared | None,
) -> tuple[Compared, set[ObjectID]]:
    """Compare a worktree's tree and an index's with a commit; return the blobs in which they
    differ too, unless that was known from `before`."""
    if before is not None and before[:3] == (commit, tree, index):
        return before, set()
    head = None if commit is None else record.read_commit(objects, commit).tree
    changes = {path: (was, now) for path, was, now in diff_trees(objects, head, tree)}
    staged = {path: now for path, _, now in diff_trees(objects, head, index)}
    counts: Counts = {}
    known = {} if before is None else before.counts
    stats = count_lines(objects, changes.values(), known, counts)
    numbers = (stats.files_changed, stats.insertions, stats.deletions)
    dirty = tuple(sorted({*changes, *staged}))
    entries = (*staged.values(), *(now for _, now in changes.values()))
    new = {entry.id for entry in entries if entry is not None and entry.mode != GITLINK}
    return Compared(commit, tree, index, dirty, numbers, counts), new


def count_lines(
    objects: ObjectStore,
    changes: Iterable[tuple[TreeEntry | None, TreeEntry | None]],
    known: Counts | None = None,
    asked: Counts | None = None,
) -> Stats:
    """Count the lines that came and went; `known` are counts by two blobs, all that were asked
    for are put into `asked`."""
    files = insertions = deletions = 0
    for before, after in changes:
        files += 1
        key = b"%s %s" % (_id(before), _id(after))
        found = None if known is None else known.get(key)
        if found is None:
            from ckpt.git import linediff

            try:
                found = linediff.count(_text(objects, before), _text(objects, after))
            except MissingObject:  # a partial clone need not have HEAD's blobs
                continue
        if asked is not None:
            asked[key] = found
        insertions += found[0]
        deletions += found[1]
    return Stats(files, insertions, deletions)


def _id(entry: TreeEntry | None) -> bytes:
    return b"" if entry is None or entry.mode == GITLINK else entry.id


def _text(objects: ObjectStore, entry: TreeEntry | None) -> bytes:
    if entry is None or entry.mode == GITLINK:
        return b""
    size = objects.size(entry.id)
    return b"\0" if size is not None and size > _COUNTED_SIZE else objects.read(entry.id, b"blob")
