# SPDX-License-Identifier: MIT
"""Compare a checkpoint with another one, or with the worktree as it is now.

Only paths whose ids differ are opened, and of large files it is only said that they
differ, as git does with yet larger ones. The present is captured into a scratch store:
a diff leaves no trace in the repository.
"""

from __future__ import annotations

from ckpt import linediff, patchtext
from ckpt.engine import scan_cache
from ckpt.engine.capture import capture
from ckpt.models import Checkpoint, DiffResult, FileChange
from ckpt.paths import is_within, to_str
from ckpt.setting_types import NO_LIMIT
from ckpt.settings import Settings
from ckpt.store.objects import LARGEST_KEPT, ObjectID, ObjectStore
from ckpt.store.repository import Repository
from ckpt.store.trees import GITLINK, Change, TreeEntry, diff_trees
from ckpt.values import replace


def diff(
    repo: Repository,
    settings: Settings,
    before: Checkpoint,
    after: Checkpoint | None,
    limits: tuple[bytes, ...] = (),
    *,
    with_patch: bool = True,
) -> DiffResult:
    """What changed from `before` to `after`, or to the present."""
    objects = repo.objects.scratch()
    if after is None:
        # Nothing is written: without a budget, no file that is there looks as if it were gone.
        settings = replace(settings, max_new_bytes=NO_LIMIT, max_new_files=NO_LIMIT)
        present = capture(repo, settings, objects, cache=scan_cache.load(repo), reads_index=False)
        tree = present.tree(objects)
    else:
        tree = ObjectID(after.tree.encode())
    changes = [
        change
        for change in diff_trees(objects, ObjectID(before.tree.encode()), tree)
        if not limits or is_within(change[0], limits)
    ]
    changes.sort(key=lambda change: change[0])
    files, patches = [], []
    for change in changes:
        files.append(_file_change(objects, change))
        if with_patch:
            patches.append(_patch(objects, change))
    return DiffResult(before, after, tuple(files), b"".join(patches))


def _file_change(objects: ObjectStore, change: Change) -> FileChange:
    path, before, after = change
    old, new = _content(objects, before) or b"", _content(objects, after) or b""
    insertions, deletions = linediff.count(old, new)
    binary = linediff.is_binary(old) or linediff.is_binary(new)
    return FileChange(to_str(path), _status(before, after), insertions, deletions, binary)


def _status(before: TreeEntry | None, after: TreeEntry | None) -> str:
    if before is None:
        return "A"
    if after is None:
        return "D"
    return "M" if before.mode >> 12 == after.mode >> 12 else "T"


def _patch(objects: ObjectStore, change: Change) -> bytes:
    path, before, after = change
    missing = b"0" * objects.object_format.hex_length
    return patchtext.unified(
        _content(objects, before),
        _content(objects, after),
        path=path,
        old_mode=before.mode if before is not None else None,
        new_mode=after.mode if after is not None else None,
        old_id=before.id if before is not None else missing,
        new_id=after.id if after is not None else missing,
    )


def _content(objects: ObjectStore, entry: TreeEntry | None) -> bytes | None:
    if entry is None:
        return None
    if entry.mode == GITLINK:
        return b"Subproject commit " + entry.id + b"\n"
    size = objects.size(entry.id)
    is_elsewhere = size is None and objects.is_partial
    if is_elsewhere or (size is not None and size > LARGEST_KEPT):
        return b"\0" + entry.id  # no text, as far as a diff is concerned, and like itself alone
    return objects.read(entry.id, b"blob")
