# SPDX-License-Identifier: MIT
"""What the index or HEAD names and the object store has not, as after a power cut: git does not
flush all that it writes.

Nothing brings it back. But it is no reason to save nothing of all else, which may be about to be
overwritten by the very command that makes git work again: a checkpoint is made without it, and is
partial. Instead of what was staged it has what HEAD has, as if nothing had been, and a conflict
stays one as long as any of its sides is there: a path that is only left out would be staged as
removed. A rollback replaces the index and leaves HEAD's commit, so it waits until they are mended.
"""

from __future__ import annotations

from ckpt.errors import Refused
from ckpt.paths import folders_above, folders_of, to_str
from ckpt.store import staging
from ckpt.store.index import ASSUME_VALID, SKIP_WORKTREE, Index, IndexEntry
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.record import read_commit
from ckpt.store.refs import Head
from ckpt.store.staging import Staged
from ckpt.store.trees import FOLDER, GITLINK, lookup, read_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ckpt.engine.present import Present
    from ckpt.store.objects import ObjectStore
    from ckpt.store.repository import Repository
    from ckpt.store.trees import Entries

_MOST_TOLD = 10


def gone_of_index(objects: ObjectStore, index: Index) -> list[IndexEntry]:
    """What is staged and is not there; in a partial clone nobody can tell."""
    if objects.is_partial:
        return []
    entries = [e for e in index.entries if e.mode != GITLINK and not e.intent_to_add]
    whole = objects.whole({ObjectID(entry.id) for entry in entries})
    return [entry for entry in entries if entry.id not in whole]


def gone_of_head(objects: ObjectStore, head: Head) -> str | None:
    """What of HEAD cannot be read, if anything: its commit, or a tree of that."""
    if head.commit is None or objects.is_partial:
        return None
    lacks = "the commit at HEAD is gone"
    try:
        top = read_commit(objects, head.commit).tree
        lacks = "a tree of the commit at HEAD is gone"
        todo, seen = [top], {top}
        while todo:
            folders = {child for _, mode, child in read_tree(objects, todo.pop()) if mode == FOLDER}
            todo += folders - seen
            seen |= folders
    except MissingObject:
        return lacks
    return None


def is_any(repo: Repository) -> bool:
    index = staging.read_staged(repo).index
    lacks = gone_of_head(repo.objects, repo.refs.head())
    return lacks is not None or bool(gone_of_index(repo.objects, index))


def leave_out(objects: ObjectStore, present: Present) -> None:
    """Have the present hold neither, and tell so. Where HEAD was is not known then: without its
    commit, its branch would be one that has none yet."""
    index = present.staged.index
    entries = gone_of_index(objects, index)
    lacks = gone_of_head(objects, present.head)
    present.gone = (*_told(entries), *([] if lacks is None else [lacks]))
    if lacks is not None:
        present.head = Head(None, None)
    if present.gone:  # also of HEAD alone, the scan cache shall not know
        remaining = _without(objects, index, entries, present.head.commit)
        present.restage(Staged(remaining, present.staged.mtime_ns))


def _without(
    objects: ObjectStore, index: Index, gone: list[IndexEntry], head: ObjectID | None
) -> Index:
    """An index but for some entries; where nothing of a path is left, it is as at HEAD, unless
    something else has its place."""
    left_out = set(gone)
    entries = [entry for entry in index.entries if entry not in left_out]
    files = {entry.path for entry in entries}
    folders = folders_of(files)
    paths = {entry.path: entry for entry in gone if entry.path not in files}
    if head is not None and paths:
        at_head = _at(objects, read_commit(objects, head).tree, paths)
        fitting = (e for e in at_head if e.path not in folders)
        entries += (e for e in fitting if files.isdisjoint(folders_above(e.path)))
    entries.sort(key=lambda entry: (entry.path, entry.stage))
    return Index(index.version, entries, {}, index.hash_len)


def _at(
    objects: ObjectStore, tree: ObjectID, paths: Mapping[bytes, IndexEntry]
) -> Iterator[IndexEntry]:
    """What a tree has at some paths and can be read, with the flags of other entries there."""
    known: dict[ObjectID, Entries] = {}
    for path, entry in paths.items():
        found = lookup(objects, tree, path, known)
        if found is not None and found.mode != FOLDER and objects.whole([found.id]):
            marks = entry.flags & (ASSUME_VALID | SKIP_WORKTREE)
            yield IndexEntry.of(path, found.id, found.mode)._replace(flags=marks)


def _told(entries: list[IndexEntry]) -> Iterator[str]:
    paths = _paths(entries)
    yield from (f"what was staged of '{path}' is gone" for path in paths[:_MOST_TOLD])
    if len(paths) > _MOST_TOLD:
        yield f"what was staged of {len(paths) - _MOST_TOLD} more files is gone"


def _paths(entries: list[IndexEntry]) -> list[str]:
    return [to_str(path) for path in sorted({entry.path for entry in entries})]


def refusal(repo: Repository) -> Refused | None:
    """Why no rollback can begin, if that is because of the index or HEAD."""
    from shlex import quote  # for a hint that few see

    lacks = gone_of_head(repo.objects, repo.refs.head())
    if lacks is not None:
        return Refused(
            f"{lacks}, and no checkpoint could hold it",
            hint="'git update-ref HEAD @{1}' goes back to where its branch was before, "
            "and leaves all files; then try again",
        )
    paths = _paths(gone_of_index(repo.objects, staging.read_staged(repo).index))
    if not paths:
        return None
    name = paths[0]
    return Refused(
        f"what was staged of '{name}' is gone, and no checkpoint could hold it",
        hint=f"'git add -- {quote(name)}' stages the file as it is now, "
        f"'git reset -- {quote(name)}' what HEAD has; then try again",
        details={"gone": paths},
    )
