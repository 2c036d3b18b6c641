# SPDX-License-Identifier: MIT
"""Plan the permission bits of folders: which change, which are made, which are in the way.

A folder comes back with the bits it had, also one that a rollback makes anew. A folder
that its owner may not write to would stop the files inside from coming back: it is opened
for as long as the rollback lasts. Every folder whose bits are touched is in the journal,
so a crash in between loses none.

Left alone: the top of the worktree, folders that the target says nothing about, everything
in what the present checkpoint left out, and folders in which it could read nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpt.engine.capture import Present
from ckpt.engine.changes import FolderChange
from ckpt.engine.recorded import Recorded
from ckpt.models import SkipReason
from ckpt.paths import folders_above, folders_of, is_within
from ckpt.worktree.modes import Modes
from ckpt.worktree.write import Worktree

# What its owner needs to change the names in a folder.
OPEN = 0o700


def plan_permissions(
    present: Present,
    now: Modes,
    target: Recorded,
    worktree: Worktree,
    limits: tuple[bytes, ...],
    *,
    changing: Iterable[bytes],
    needed: Iterable[bytes],
    doomed: Iterable[bytes],
) -> tuple[FolderChange, ...]:
    """`changing` are the paths where a name comes or goes, `needed` the folders that must
    be there in the end, `doomed` those that go."""
    then = target.manifest.modes
    after: dict[bytes, int | None] = {}
    for folder in {path.rpartition(b"/")[0] for path in changing}:
        bits = present.bits(folder)
        if bits is not None and bits & OPEN != OPEN:
            after[folder] = bits
    after |= dict.fromkeys(folder for folder in doomed if present.bits(folder) is not None)
    for folder in needed:
        if present.bits(folder) is None and worktree.folder_permissions(folder) is None:
            after[folder] = then.of_folder(folder)
    unread = _unread(present)
    for folder in _differing(present, now, target, limits):
        if folder not in unread:
            after[folder] = then.of_folder(folder)
    return tuple(
        FolderChange(folder, present.bits(folder), bits) for folder, bits in sorted(after.items())
    )


def unread_folders(
    present: Present, now: Modes, target: Recorded, limits: tuple[bytes, ...]
) -> set[bytes]:
    """Folders that keep other bits than the target's, because nothing in them can be read."""
    unread = _unread(present)
    return unread.intersection(_differing(present, now, target, limits) if unread else ())


def _unread(present: Present) -> set[bytes]:
    """Folders that hold something, none of which is in the present checkpoint: from that, no
    undo could tell that they were there."""
    skipped = present.skipped.items()
    unread = folders_of(path for path, why in skipped if why is SkipReason.UNREADABLE)
    if unread:
        unread -= folders_of(
            [*present.entries.keys() - present.absent.keys(), *present.empty_folders]
        )
    return unread


def _differing(
    present: Present, now: Modes, target: Recorded, limits: tuple[bytes, ...]
) -> Iterator[bytes]:
    """Folders that both states have, with different bits."""
    then = target.manifest.modes
    if then.folder is None:
        return
    usual = now.folder == then.folder
    candidates = now.folders.keys() | then.folders.keys() if usual else present.folders.keys()
    for folder in sorted(candidates):
        bits = present.bits(folder)
        if bits in (None, then.of_folder(folder)) or not target.has_folder(folder):
            continue
        if limits and not is_within(folder, limits):
            continue
        if not any(place in present.skipped for place in (folder, *folders_above(folder))):
            yield folder


def folders_needed(paths: Iterable[bytes], folders: Iterable[bytes]) -> set[bytes]:
    """Every folder above some files, and some folders with all above them."""
    folders = set(folders)
    return folders | folders_of(folders) | folders_of(paths)
