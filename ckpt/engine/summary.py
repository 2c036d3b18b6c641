# SPDX-License-Identifier: MIT
"""What a checkpoint says about itself in one line: what differs from HEAD, and how much.

Counted once, when the checkpoint is made, and stored with it. What differed last time is carried
on, and of a file that was changed long ago the lines are not counted again: they are remembered
by the two blobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ckpt.git import record
from ckpt.git.formats import ObjectID
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.trees import GITLINK, TreeEntry, diff_trees
from ckpt.models import Stats

Changes = dict[bytes, tuple[TreeEntry | None, TreeEntry | None]]
Counts = dict[bytes, tuple[int, int]]

# Larger files count as changed, their lines do not: counting must not hold up a save.
_COUNTED_SIZE = 1 << 20


class Compared(NamedTuple):
    """What was found on comparing the worktree and the index with a commit, its tree being
    `head`: what differs, as it was and is, and how many lines."""

    commit: ObjectID | None
    tree: ObjectID
    index_tree: ObjectID
    head: ObjectID | None
    changes: Changes
    staged: Changes
    stats: tuple[int, int, int]
    counts: Counts

    @property
    def dirty(self) -> set[bytes]:
        """The paths that differ from the commit, in the worktree or the index."""
        return {*self.changes, *self.staged}

    def plain(self) -> tuple[Any, ...]:
        """Return the same as data that `marshal` takes."""
        changes, staged = (
            {path: tuple(e and tuple(e) for e in pair) for path, pair in each.items()}
            for each in (self.changes, self.staged)
        )
        return (*self[:4], changes, staged, *self[6:])

    @classmethod
    def of(cls, plain: tuple[Any, ...]) -> Compared:
        changes, staged = (
            {p: (w and TreeEntry(*w), n and TreeEntry(*n)) for p, (w, n) in each.items()}
            for each in plain[4:6]
        )
        return cls._make((*plain[:4], changes, staged, *plain[6:]))


def compare(
    objects: ObjectStore,
    commit: ObjectID | None,
    tree: ObjectID,
    index: ObjectID,
    before: Compared | None,
) -> tuple[Compared, set[ObjectID]]:
    """Compare a worktree's tree and an index's with a commit; return the blobs, too, in which
    they differ from what was known `before`, and the commit if that is another."""
    if before is not None and before[:3] == (commit, tree, index):
        return before, set()
    known = before
    if before is not None and before.commit == commit:
        head = before.head
    else:
        head = None if commit is None else record.read_commit(objects, commit).tree
    if before is None or before.head != head:
        before = Compared(commit, tree, index, head, {}, {}, (0, 0, 0), {})
        edited, restaged = (_differences(objects, head, each) for each in (tree, index))
    else:
        edited = _differences(objects, before.tree, tree)
        restaged = _differences(objects, before.index_tree, index)
    changes, staged = _carried(before.changes, edited), _carried(before.staged, restaged)
    counts: Counts = {}
    stats = count_lines(objects, changes.values(), before.counts, counts)
    numbers = (stats.files_changed, stats.insertions, stats.deletions)
    new = {
        now.id
        for _, now in (*edited.values(), *restaged.values())
        if now is not None and now.mode != GITLINK
    }
    if commit is not None and (known is None or known.commit != commit):
        new.add(commit)
    return Compared(commit, tree, index, head, changes, staged, numbers, counts), new


def _differences(objects: ObjectStore, old: ObjectID | None, new: ObjectID) -> Changes:
    return {path: (was, now) for path, was, now in diff_trees(objects, old, new)}


def _carried(changes: Changes, later: Changes) -> Changes:
    """Put together what differed and what has changed since."""
    found = dict(changes)
    for path, (was, now) in later.items():
        first = found[path][0] if path in found else was
        found[path] = first, now
        if first == now:
            del found[path]
    return found


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
