# SPDX-License-Identifier: MIT
"""Rollbacks as the API offers them: files and tracked objects together, or objects alone.

Objects are put back first, because that can be taken back at once: if the files then cannot
follow, the objects are again what they were.
"""

from __future__ import annotations

from functools import partial

from ckpt.engine import journal
from ckpt.engine.catalog import Catalog
from ckpt.engine.last_rollback import find_same
from ckpt.engine.pending import has_sessions
from ckpt.engine.prepare import RollbackOptions
from ckpt.engine.refusals import check_ended
from ckpt.engine.rollback import rollback
from ckpt.engine.undo import undo
from ckpt.errors import UsageError
from ckpt.models import Checkpoint, RollbackResult
from ckpt.settings import Settings
from ckpt.store.repository import Repository
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from typing import TypedDict

    from ckpt.api.turns import Turns
    from ckpt.store.kernel_lock import Waiting
    from ckpt.tracking.objects import TrackedObjects

    class RollbackKeywords(TypedDict, total=False):
        """What `rollback` takes besides the checkpoint."""

        paths: Iterable[str | os.PathLike[str]] | None
        head: bool
        dry_run: bool
        index: bool
        overwrite_ignored: bool
        recurse: bool
        yes: bool
        keep_edits: bool
        session: str | None
        trust: bool


def roll_back(
    repo: Repository,
    settings: Settings,
    target: Checkpoint,
    options: RollbackOptions,
    tracked: TrackedObjects | None,
) -> RollbackResult:
    """Bring back a checkpoint of files, with the objects unless only some paths are wanted."""

    def go(options: RollbackOptions) -> RollbackResult:
        if options.recurse:
            from ckpt.engine import recurse

            return recurse.rollback(repo, settings, target, options)
        return rollback(repo, settings, target, options)

    return _with_objects(tracked, target, options, go)


def take_back(
    repo: Repository, settings: Settings, options: RollbackOptions, tracked: TrackedObjects | None
) -> RollbackResult:
    """Undo the last rollback, of the objects too if it had put them back."""

    def go(options: RollbackOptions) -> RollbackResult:
        return undo(repo, settings, options)

    check_ended(repo)
    last = journal.last_rollback(repo.private_dir)
    if last is None:
        return go(options)
    safety, known = last.safety, last.safety_commit
    target = find_same(repo, Catalog(repo), safety, known, trust=options.trust)
    return _with_objects(tracked, target, options, go)


def resume(
    repo: Repository, settings: Settings, tracked: TrackedObjects | None, waiting: Waiting | None
) -> RollbackResult:
    """Finish a rollback that was interrupted, and with it that of the objects."""
    from ckpt.engine import recovery

    safety = journal.read(repo.private_dir).safety
    result = recovery.resume(repo, settings, waiting)
    catalog = Catalog(repo)
    if tracked is None or catalog.commit_of(safety) is None or not catalog.get(safety).tracked:
        return result
    restoration = tracked.prepare(result.target.tracked)
    restoration.apply()
    return replace(result, restored=restoration.names)


def aftermath(
    repo: Repository, turns: Turns | None, callbacks: Iterable[Callable[[RollbackResult], object]]
) -> Callable[[RollbackResult], RollbackResult]:
    """What follows a rollback: ledgers hear of it, then callbacks do. Asked for before it, since
    the files that it changes may be our own."""
    from ckpt.api.callbacks import call_all

    note: Callable[[RollbackResult], None] | None = None
    if turns is not None or has_sessions(repo.private_dir):
        from ckpt.api.turns import note_return

        note = partial(note_return, repo, turns)

    def follow(result: RollbackResult) -> RollbackResult:
        if result.dry_run:
            return result
        if note is not None:
            note(result)
        warnings = call_all(callbacks, result)
        return replace(result, warnings=warnings) if warnings else result

    return follow


def restore_state(
    target: Checkpoint, options: RollbackOptions, tracked: TrackedObjects | None
) -> RollbackResult:
    """Bring back what a checkpoint holds besides files; no file, index or ref is touched."""
    if options.paths:
        raise UsageError(
            f"checkpoint '{target.id}' is rolled back without files", hint="leave the paths out"
        )
    result = RollbackResult(target, None, dry_run=options.dry_run)
    if tracked is None or options.dry_run:
        return result
    restoration = tracked.prepare(target.tracked)
    restoration.apply()
    return replace(result, restored=restoration.names)


def _with_objects(
    tracked: TrackedObjects | None,
    target: Checkpoint,
    options: RollbackOptions,
    go: Callable[[RollbackOptions], RollbackResult],
) -> RollbackResult:
    """Put tracked objects back together with the files: both, or neither."""
    if tracked is None or options.dry_run or options.paths:
        return go(options)
    restoration = tracked.prepare(target.tracked)
    if not restoration.names:
        return go(options)
    now = tracked.texts_if_possible()
    options = replace(options, state=now, moves_state=restoration.differs(now))
    restoration.apply()
    try:
        return replace(go(options), restored=restoration.names)
    except BaseException:
        restoration.revert()
        raise
