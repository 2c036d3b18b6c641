# SPDX-License-Identifier: MIT
"""Capture the present: what is on disk, in the index and at HEAD, at one moment.

Takes tracked and untracked files with their exact bytes, links, permission bits, empty
folders, the index, HEAD and whether an operation is under way. Ignored files, secrets,
dependency folders, untracked files that are too large or too many, nested repositories
and special files are left out, all but the first by name. Contents come from the scan cache
or git's index where stat data prove them; everything else is read.

Blobs go to the object store that is passed in. Nothing else is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from ckpt.engine.collector import without_collector
from ckpt.engine.gather import NEVER, Clock
from ckpt.engine.looking import Look
from ckpt.engine.present import Present
from ckpt.engine.scan_cache import ScanCache
from ckpt.settings import Settings
from ckpt.store.objects import ObjectID, ObjectStore
from ckpt.store.operation_record import read_now
from ckpt.store.repository import Repository
from ckpt.store.staging import index_mtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.worktree.deadline import Deadline

_READ_ATTEMPTS = 4


def capture(
    repo: Repository,
    settings: Settings,
    objects: ObjectStore,
    *,
    force: tuple[bytes, ...] = (),
    progress: Callable[[int, int], None] | None = None,
    cache: ScanCache | None = None,
    clock: Clock = NEVER,
    reads_index: bool = True,
    deadline: Deadline | None = None,
) -> Present:
    """Capture the worktree of `repo`, and the paths of `force` whatever the rules say.

    After the deadline no untracked file is read and no folder of such walked; they are listed.
    If git moves HEAD, the index or an operation on meanwhile, files of two states would mix; if
    somebody moves a folder, its files may be met at neither place. Then the capture is taken
    again, a few times at most, and what was missed in the last is listed. What others only make
    or remove is reason for one more. Without `reads_index`, the index is read only if something
    in it is needed.
    """
    read: Mapping[bytes, tuple[ObjectID, os.stat_result]] = {}
    for attempt in range(_READ_ATTEMPTS):
        look = Look(repo, settings, objects, force, progress, clock, deadline, read)
        with without_collector():
            present = look.run(cache)
        if reads_index:
            present.staged  # noqa: B018  # it is read here, so that it is of the same moment
        missed = [p for p, status in look.missed.items() if not status or clock.is_earlier(status)]
        is_whole = not missed and (attempt > 0 or not (look.missed or look.vanished))
        is_over = is_whole or (deadline is not None and deadline.is_over)
        if _is_still(repo, present) and is_over:
            break
        read = look.reader.read(clock)
    if missed:
        present.leave_out(missed)
    return present


def _is_still(repo: Repository, present: Present) -> bool:
    """False if git has been at work since the capture began."""
    return (
        present.head == repo.refs.head()
        and present.index.mtime_ns == index_mtime(repo)
        and present.operation == read_now(repo.refs)
    )
