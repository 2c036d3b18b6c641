# SPDX-License-Identifier: MIT
"""What a checkpoint says about itself in one line: what differs from HEAD, and how much.

Counted once, when the checkpoint is made, and stored with it. Of a file that was changed long
ago the lines are not counted again at each save: `Counts` remembers them by the two blobs.
Nor are trees compared if it is known what differed last time, and what has changed since.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckpt.git import record
from ckpt.git.formats import ObjectID
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.trees import GITLINK, TreeEntry, diff_trees
from ckpt.models import Stats
from ckpt.paths import to_str

if TYPE_CHECKING:
    from ckpt.engine.capture import Present

    Changes = dict[bytes, tuple[TreeEntry | None, TreeEntry | None]]

# Larger files count as changed, their lines do not: counting must not hold up a save.
_COUNTED_SIZE = 1 << 20


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found on comparing with a commit's tree, for the next time: the changes in the
    worktree, the paths that differ in the index, and the lines that were counted."""

    commit: ObjectID | None
    head_tree: ObjectID | None
    changes: Changes
    staged: tuple[bytes, ...]
    counts: dict[bytes, tuple[int, int]]

    def dirty_files(self) -> tuple[str, ...]:
        """The paths that differ from HEAD, in the worktree or the index."""
        return tuple(map(to_str, sorted({*self.staged, *self.changes})))

    def plain(self) -> tuple[Any, ...]:
        """The same as data that `marshal` takes."""
        changes = {
            path: tuple(None if entry is None else tuple(entry) for entry in pair)
            for path, pair in self.changes.items()
        }
        return self.commit, self.head_tree, changes, self.staged, self.counts

    @classmethod
    def of(cls, plain: tuple[Any, ...]) -> Compared:
        commit, head_tree, changes, staged, counts = plain
        entries = {
            path: (before and TreeEntry(*before), after and TreeEntry(*after))
            for path, (before, after) in changes.items()
        }
        return cls(commit, head_tree, entries, staged, counts)


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
            from ckpt.git import linediff

            found = linediff.count(_text(objects, before), _text(objects, after))
        self.asked[key] = found
        return found


def summarise(
    objects: ObjectStore, present: Present, tree: ObjectID, index: ObjectID
) -> tuple[Stats, Compared]:
    """What differs from HEAD, in the worktree (counted) and in the index (named)."""
    before = None if present.source is None else present.source.compared
    commit = present.head.commit
    if before is not None and before.commit == commit:
        head_tree = before.head_tree
    else:
        head_tree = None if commit is None else record.read_commit(objects, commit).tree
    is_same_head = before is not None and before.head_tree == head_tree
    if before is not None and is_same_head and present.delta is not None:
        changes = _carried_on(before.changes, present.delta)
    else:
        changes = {path: (was, now) for path, was, now in diff_trees(objects, head_tree, tree)}
    if before is not None and is_same_head and present.knows_index:
        staged = before.staged
    else:
        staged = tuple(path for path, _, _ in diff_trees(objects, head_tree, index))
    counts = Counts(None if before is None else before.counts)
    stats = count_lines(objects, changes.values(), counts)
    return stats, Compared(commit, head_tree, changes, staged, counts.asked)


def _carried_on(changes: Changes, delta: Changes) -> Changes:
    """What differs from HEAD, from what did so before and what has changed since."""
    now = dict(changes)
    for path, (before, after) in delta.items():
        first = now[path][0] if path in now else before
        now[path] = first, after
        if first == after:
            del now[path]
    return now


def count_lines(
    objects: ObjectStore,
    changes: Iterable[tuple[TreeEntry | None, TreeEntry | None]],
    counts: Counts | None = None,
) -> Stats:
    counts = counts or Counts()
    files = insertions = deletions = 0
    for before, after in changes:
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
