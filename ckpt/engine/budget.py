# SPDX-License-Identifier: MIT
"""Budgets: how much new and untracked content one checkpoint may bring into the repository.

A build folder that nobody ignores, or a data set, must not double the size of `.git` in
one save. Tracked files are always taken, and what the repository holds already costs
nothing; of the rest the smallest come first, by path where they are equal, so that a
budget holds as many files as it can and the same files get the same answer. What does
not fit is left out and listed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping

from ckpt.models import SkipReason
from ckpt.paths import folders_above, folders_of
from ckpt.settings import Settings
from ckpt.store.objects import ObjectStore
from ckpt.store.streams import UnreadableFile
from ckpt.worktree import reach
from ckpt.worktree.found import Scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.worktree.deadline import Deadline

# From so many paths on, a folder of which nothing was taken stands for all that is in it.
MANY = 1000


def has_room(settings: Settings, files: int, size: int) -> bool:
    """Whether so much that is untracked is taken without a further look."""
    return files <= settings.max_new_files and size <= settings.max_new_bytes


def keep_within(
    found: Scan,
    settings: Settings,
    objects: ObjectStore,
    top: bytes,
    deadline: Deadline | None = None,
) -> None:
    """Leave out of a scan what one checkpoint has no room for, or no time to find out."""
    sizes = {path: found.files[path].st_size for path in found.untracked}
    files, room = settings.max_new_files, settings.max_new_bytes
    if has_room(settings, len(sizes), sum(sizes.values())):
        return
    for path in sorted(sizes, key=lambda path: (sizes[path], path)):
        if deadline is not None and deadline.is_over:
            del found.files[path]
            found.leave_for_later(path)
            continue
        if _is_held(objects, os.path.join(top, path), found.files[path]):
            continue
        if files > 0 and sizes[path] <= room:
            files, room = files - 1, room - sizes[path]
        else:
            del found.files[path]
            found.skipped[path] = SkipReason.BUDGET


def _is_held(objects: ObjectStore, place: bytes, status: os.stat_result) -> bool:
    """Whether the repository has a content; also if it cannot be read, as taking it will tell."""
    try:
        if stat.S_ISLNK(status.st_mode):
            return objects.has(objects.hash(b"blob", reach.readlink(place)))
        fd = reach.open_file(place)
        try:
            now = os.fstat(fd)
            is_file = stat.S_ISREG(now.st_mode)
            return not is_file or objects.has(objects.hash_file(fd, now.st_size))
        finally:
            os.close(fd)
    except (OSError, UnreadableFile):
        return True


def summarised(
    skipped: Mapping[bytes, SkipReason], entries: Callable[[], Iterable[bytes]]
) -> Mapping[bytes, SkipReason]:
    """What was left out, for the manifest: thousands of paths shortened to their folders."""
    over = [path for path, reason in skipped.items() if reason is SkipReason.BUDGET]
    if len(over) <= MANY:
        return skipped
    held = folders_of(entries())
    shorter = dict.fromkeys((_outermost(path, held) for path in over), SkipReason.BUDGET)
    others = {path: skipped[path] for path in skipped.keys() - set(over)}
    return dict(sorted({**shorter, **others}.items()))


def _outermost(path: bytes, held: set[bytes]) -> bytes:
    """The path, or the highest folder above it that holds nothing of the checkpoint."""
    for folder in folders_above(path):
        if folder in held:
            break
        path = folder
    return path
