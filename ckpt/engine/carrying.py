# SPDX-License-Identifier: MIT
"""What was saved before of an interrupted rollback, carried over into what is saved now.

A recovery saves what it finds, and then replaces it. If it has to save once more, or is itself
interrupted and the next one has to, nothing of that is left on disk: a checkpoint of what is
there would hold the later edits only, and `undo` bring back nothing else. So where the present
is as a state of the rollback has it, it counts as put there by us, and the new checkpoint holds
what the one before it (`earlier`) had in that place. What a person has done since stays, also
where it excludes what was there before.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterator, Mapping

from ckpt.engine.changes import FileState, FolderChange
from ckpt.engine.conversions import Converted
from ckpt.engine.folders import OPEN
from ckpt.engine.journal import Journal
from ckpt.engine.looking import sparse_entries
from ckpt.engine.present import Present, status_off_disk
from ckpt.engine.recorded import Recorded, file_state
from ckpt.engine.restage import limited, needed_blobs
from ckpt.paths import folders_above, folders_of
from ckpt.store.objects import ObjectStore
from ckpt.store.staging import Staged
from ckpt.store.trees import GITLINK
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    # By path, what the states of a rollback have there; None for nothing.
    Ours = Mapping[bytes, Collection[FileState | None]]


def carry_files(earlier: Recorded, present: Present, record: Journal, ours: Ours) -> None:
    """Have the present hold what there was at the paths of `ours`, and in folders around them."""
    changed = _changed(earlier, present, ours)
    for path in changed:
        present.drop(path)
    for path, state in changed.items():
        if state is not None:
            _put(earlier.objects, present, path, state)
    _carry_folders(earlier, present, record, changed)


def _changed(earlier: Recorded, present: Present, ours: Ours) -> dict[bytes, FileState | None]:
    """What there was where we have changed it since, so far as it can be there together with
    what others have put into the worktree."""
    were = dict(_replaced(earlier, present, ours))
    others = {*present.entries, *present.skipped} - were.keys()
    folders = folders_of(others)

    def fits(path: bytes) -> bool:
        return path not in folders and others.isdisjoint(folders_above(path))

    return {path: then for path, then in were.items() if then is None or fits(path)}


def _replaced(
    earlier: Recorded, present: Present, ours: Ours
) -> Iterator[tuple[bytes, FileState | None]]:
    modes = present.modes
    for path in ours.keys() - present.skipped.keys() - earlier.manifest.skipped.keys():
        entry = None if path in present.absent else present.entries.get(path)
        now = file_state(path, entry, modes, present.converted.get(path))
        then = earlier.file_at(path) if now in ours[path] else now
        if then != now and (then is None or _is_held(earlier.objects, then)):
            yield path, then


def _is_held(objects: ObjectStore, state: FileState) -> bool:
    """Whether it can be held once more; the checkpoint that holds it may be damaged."""
    is_raw = state.origin is not None and not state.origin.in_lfs
    needed = {state.git_entry.id, *([state.entry.id] if is_raw else ())}
    return state.entry.mode != GITLINK and all(map(objects.has, needed))


def _put(objects: ObjectStore, present: Present, path: bytes, state: FileState) -> None:
    mode = stat.S_IFLNK | 0o777 if state.is_link else stat.S_IFREG | state.permissions
    present.entries[path] = state.git_entry
    present.stats[path] = status_off_disk(mode, _size(objects, state))
    if state.origin is not None:
        present.converted[path] = Converted(state.entry.id, state.origin.in_lfs)


def _size(objects: ObjectStore, state: FileState) -> int:
    """So many bytes it had on disk, by which git may judge it."""
    return objects.size(state.entry.id) or 0


def _carry_folders(
    earlier: Recorded, present: Present, record: Journal, changed: Collection[bytes]
) -> None:
    """Folders with nothing in them, and the bits of all; the files are in their places."""
    empty = _empty_folders(earlier, present, record)
    left = {*present.empty_folders} - empty
    there = folders_of({*present.entries, *present.skipped, *empty}) | empty
    gone = (left | folders_of({*changed, *left})) - there
    bits = {folder: own for folder, own in present.folders.items() if folder not in gone}
    ours = {change.path for change in record.folders if _is_put_there(change, bits)}
    for folder in there & ours | there - bits.keys():
        then = earlier.manifest.modes.of_folder(folder) if earlier.has_folder(folder) else None
        if then is not None:
            bits[folder] = then
    if empty != {*present.empty_folders} or bits != present.folders:
        present.empty_folders, present.folders = tuple(sorted(empty)), bits
        present.mark_edited()


def _empty_folders(earlier: Recorded, present: Present, record: Journal) -> set[bytes]:
    """Those that there were, so far as a rollback makes or empties them, and all others."""
    ours = {*record.make_folders, *record.remove_folders}
    ours |= folders_of({*ours, *(action.path for action in record.actions)})
    empty = {f for f in present.empty_folders if f not in ours or earlier.has_folder(f)}
    empty |= ours.intersection(earlier.manifest.empty_folders)
    others = {*present.entries, *present.skipped}
    taken = others | folders_of(others)
    free = {f for f in empty - taken if others.isdisjoint(folders_above(f))}
    return free - folders_of(free)


def _is_put_there(change: FolderChange, bits: Mapping[bytes, int]) -> bool:
    """Whether a folder has the bits of one of the states; the owner's own were ours to set."""
    now = bits.get(change.path)
    ours = {own | OPEN for own in (change.before, change.after) if own is not None}
    return now is not None and now | OPEN in ours


def holds_git(earlier: Recorded, present: Present) -> bool:
    """Whether what was staged, and the commit at HEAD, can be held once more."""
    objects, head = earlier.objects, earlier.head.commit
    needed = needed_blobs(earlier.index, present.staged.index)
    is_staged = objects.is_partial or not objects.missing(needed)
    return is_staged and (head is None or objects.has(head))


def carry_index(earlier: Recorded, present: Present, limits: tuple[bytes, ...]) -> None:
    """Have the present hold what was staged; outside the limits, what is staged now."""
    index = limited(earlier.index, present.staged.index, limits)
    present.restage(Staged(index, present.index.mtime_ns))
    is_sparse = any(entry.skip_worktree for entry in index.entries)
    present.index = replace(present.index, is_sparse=is_sparse)


def carry_head(earlier: Recorded, present: Present) -> None:
    """Have the present hold where HEAD was."""
    present.head = earlier.head
    present.cache = None


def leave_out_sparse(present: Present) -> None:
    """Have the present hold what a sparse checkout leaves out, by the index that it has now."""
    if present.absent or present.index.is_sparse:
        on_disk = {p: e for p, e in present.entries.items() if p not in present.absent}
        present.absent = sparse_entries(on_disk, present.staged, present.skipped)
        present.entries = on_disk | present.absent
        present.mark_edited()
