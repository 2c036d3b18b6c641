# SPDX-License-Identifier: MIT
"""What git believes of files by their stat data alone, where that is not what they hold.

Git does not open a file whose stat data are those in its index, nor one whose size is
another. Where contents are converted, it may so take a file for unchanged although other
attributes apply to it by now, or for changed although it would be stored just as it is.
`git status` tells what git believes; so a rollback has to bring that back as well.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping

from ckpt.engine.present import Present
from ckpt.store import record
from ckpt.store.index import IndexEntry, matches
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.trees import TreeEntry, diff_trees

Written = tuple[TreeEntry, os.stat_result]


def stale(present: Present) -> set[bytes]:
    """Files that git takes for changed because of their size, and are not."""
    if not present.converts:  # then a file of another size has another content
        return set()
    sizes = present.sizes()
    differing = {
        path
        for path, size in present.staged_sizes()
        if size not in (0, sizes.get(path, 0) & 0xFFFFFFFF)
    }
    entries = present.staged_at(differing)
    return {e.path for e in entries if _is_same(present, e) and _has_other_size(present, e)}


def unseen(present: Present, changed: Collection[bytes] | None) -> set[bytes]:
    """Files that git takes for unchanged because of their stat data, and are not; `changed`
    are all that are not as staged, if that is known."""
    entries = present.staged.index.entries if changed is None else present.staged_at(changed)
    return {entry.path for entry in entries if _is_unseen(present, entry)}


def _is_unseen(present: Present, entry: IndexEntry) -> bool:
    found = present.entry(entry.path)
    is_changed = found is not None and found.id != entry.id and not entry.stage
    return is_changed and _is_older(present, entry) and _matches(present, entry)


def is_seen_through(present: Present, tree: ObjectID, objects: ObjectStore) -> bool:
    """True if no file misleads git that did not do so before; a quick answer, which needs
    nothing of the index but its tree, and may be false without need."""
    state, written = present.index.state, present.index.mtime_ns
    if state is None or written is None:
        return False
    if any(status.st_ctime_ns <= written + 1_000_000_000 for status in present.fresh.values()):
        return False  # else the index has no such stat data
    if not present.converts:
        return True
    staged = ObjectID(state[record.INDEX][1])
    return present.fresh.keys() <= {path for path, _, _ in diff_trees(objects, staged, tree)}


def misled(
    present: Present,
    believed: Collection[bytes],
    files: Mapping[bytes, Written],
    edited: Collection[bytes],
    *,
    converts: bool,
) -> set[bytes]:
    """Paths of which the present index would make git believe something else than it shall.

    `believed` are those of which it does so now. `files` were written, and some of them
    converted, now or before, if it `converts`; of the others the stat data have not changed.
    `edited` are those that git shall see as changed, as far as other trees hold them than before;
    of files that were written it does so anyway.
    """
    outgrown = _outgrown(present, files) if converts else set()
    return {*believed} | _trusted(present, edited) | outgrown


def _trusted(present: Present, edited: Collection[bytes]) -> set[bytes]:
    """Edited files that git would not open: they were not when other attributes applied."""
    return {e.path for e in present.staged_at(edited) if _matches(present, e)}


def _outgrown(present: Present, files: Mapping[bytes, Written]) -> set[bytes]:
    """Files of another size than in the index that were written and are not changed by it."""
    return {
        entry.path
        for entry in present.staged_at(files.keys())
        if files[entry.path][0] == (entry.mode, entry.id)
        and entry.size not in (0, files[entry.path][1].st_size & 0xFFFFFFFF)
    }


def _is_same(present: Present, entry: IndexEntry) -> bool:
    found = present.entry(entry.path)
    return found is not None and found.id == entry.id and not entry.stage


def _has_other_size(present: Present, entry: IndexEntry) -> bool:
    status = present.status(entry.path)
    is_file = status is not None and stat.S_ISREG(status.st_mode)
    return is_file and status is not None and entry.size != status.st_size & 0xFFFFFFFF


def _is_older(present: Present, entry: IndexEntry) -> bool:
    """Git opens a file that is as young as the index, and as a rule it counts in seconds."""
    written = present.index.mtime_ns
    return written is not None and entry.mtime_s < written // 1_000_000_000


def _matches(present: Present, entry: IndexEntry) -> bool:
    status = present.fresh.get(entry.path) or present.status(entry.path)
    return status is not None and matches(entry, status)
