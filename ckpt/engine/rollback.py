# SPDX-License-Identifier: MIT
"""Rollback: back to a checkpoint, exactly, without ever losing the present.

In this order, and nothing is touched before the fourth step: validate the target down
to the last byte it needs; capture the present; plan; save the present as the safety
checkpoint; write the journal; change files, then the index, then HEAD; forget the
journal. Each step can be repeated, so a crash at any line leaves a state from which
`recovery` goes either way.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, ExitStack, suppress

from ckpt.engine import beginning, journal, nested, operation, refusals, scan_cache
from ckpt.engine.apply import Applied, Applier, Found, keep
from ckpt.engine.changes import FileState, HeadMove
from ckpt.engine.conversions import Smudger
from ckpt.engine.head import commits_to_keep, move_head
from ckpt.engine.holding import hold_changing, prove_changing
from ckpt.engine.journal import Journal, LastRollback
from ckpt.engine.last_rollback import finish
from ckpt.engine.losses import Losses
from ckpt.engine.prepare import Preparation, Prepared, RollbackOptions
from ckpt.engine.present import Present
from ckpt.engine.publishing import LONGEST_WAIT
from ckpt.engine.recorded import Recorded, opened
from ckpt.engine.restage import (
    known_files,
    limited,
    misled_files,
    restage,
    until_settled,
    without,
)
from ckpt.engine.rollback_report import foreseen, report
from ckpt.engine.snapshot import LAST_ATTEMPT, LOCK_TIMEOUT, SaveRequest, write
from ckpt.errors import Busy, Refused, RollbackError
from ckpt.models import Checkpoint, Kind, RollbackResult
from ckpt.settings import Settings
from ckpt.store import staging
from ckpt.store.kernel_lock import worktree_lock
from ckpt.store.objects import MissingObject, ObjectsPruned
from ckpt.store.operation_record import read_now
from ckpt.store.pruning import wait_for_pruning
from ckpt.store.refs import HeadMoved
from ckpt.store.repository import Repository
from ckpt.values import replace
from ckpt.worktree.write import UnsafePath, Worktree

UNDO = "git ckpt undo"

# Files that change while it runs are saved so many times; from then on they are left alone.
MOST_SAVES = 10

# Of a worktree that differs in so few files from what the scan cache knows, that need not know
# what is about to go again.
_FEW = 64


def rollback(
    repo: Repository,
    settings: Settings,
    target: Checkpoint,
    options: RollbackOptions,
    undone: LastRollback | None = None,
) -> RollbackResult:
    """Bring the worktree, the index and (if asked) HEAD back to `target`; `undone` is the rollback
    that this takes back, and has to be the last one still when nobody else can begin another."""
    if b"" in options.paths:  # the top of the worktree is all of it
        options = replace(options, paths=())
    losses = Losses(repo)
    for attempt in range(LAST_ATTEMPT + 1):
        with ExitStack() as stack:
            stack.enter_context(_locked(repo, options))
            if undone is not None and journal.last_rollback(repo.private_dir) != undone:
                raise Refused(
                    "another rollback has ended in this worktree meanwhile",
                    hint="look at what it did, then try again",
                )
            try:
                found = opened(repo, target, options.trust, options.known)
                return _Rollback(repo, settings, found, options, stack).go()
            except (ObjectsPruned, HeadMoved, MissingObject) as error:  # nothing is touched yet
                is_lost = isinstance(error, MissingObject) and not losses.may_pass(error)
                if is_lost or attempt == LAST_ATTEMPT:
                    raise
            finally:  # also if there was nothing to do: git prunes what is left lying about
                repo.objects.discard()
        wait_for_pruning(repo.common_dir, repo.config, LONGEST_WAIT)
    raise AssertionError("the last attempt returns or raises")


def _locked(repo: Repository, options: RollbackOptions) -> AbstractContextManager[None]:
    return worktree_lock(
        repo.private_dir, exclusive=True, timeout=LOCK_TIMEOUT, waiting=options.waiting
    )


class _Rollback:
    """The state of one rollback while it runs; the caller holds the lock.

    What is opened on the way is closed with `stack`.
    """

    _prepared: Prepared
    _safety: Checkpoint
    _record: Journal

    def __init__(
        self,
        repo: Repository,
        settings: Settings,
        target: Recorded,
        options: RollbackOptions,
        stack: ExitStack,
    ) -> None:
        self._repo = repo
        self._settings = settings
        self._target = target
        self._options = options
        self._worktree = stack.enter_context(Worktree(os.fsencode(repo.worktree), repo.git_dirs))
        self._smudger = Smudger(repo)
        self._name = os.urandom(8).hex()
        self._worktree.rollback = self._name.encode()
        self._saves = 0
        self._has_begun = False

    def go(self) -> RollbackResult:
        self.prepare()
        if self._options.dry_run or self.is_idle:
            return self.foresee()
        self.check_removals()
        self.secure()
        try:
            beginning.begin(self._repo, self._record, self._target.checkpoint, self._safety)
            self._has_begun = True
            return self._apply(self._prepared)
        except (OSError, Busy, MissingObject) as error:
            begun = self._has_begun or journal.exists(self._repo.private_dir)
            raise (refusals.interrupted if begun else refusals.not_begun)(error) from error

    @property
    def is_idle(self) -> bool:
        return self._prepared.is_idle and not self._options.moves_state

    # -- before anything is touched ---------------------------------------------------

    def prepare(self) -> None:
        preparation = Preparation(
            self._repo, self._settings, self._target, self._options, self._worktree, self._smudger
        )
        preparation.check()
        prepared = self._prepared = preparation.prepare()
        limits = self._options.paths
        prepared.plan.kept |= nested.left_alone(self._target, prepared.present, limits)
        prepared.plan.kept |= nested.gone(self._target, self._worktree, limits)
        self._options = replace(self._options, paths=prepared.paths)

    def check_removals(self) -> None:
        if not self._options.yes:
            refusals.check_removals(self._prepared, self._options.consented)

    def secure(self) -> Checkpoint:
        """Save the present; gives back the safety checkpoint."""
        present, plan, move = self._prepared.present, self._prepared.plan, self._prepared.move
        refusals.check_locks(self._repo, move)
        if present.source is not None and len(present.fresh) <= _FEW:
            present.cache = None
        with refusals.telling_what_is_gone(self._repo), self._repo.objects.wary():
            try:
                hold_changing(self._repo, present, plan)
                prove_changing(self._repo, self._worktree, self._smudger, present, plan)
                self._safety = self._save_safety(present, move)
            except (MissingObject, ObjectsPruned):  # maybe of a checkpoint that has gone
                scan_cache.forget(self._repo)
                raise
        self._record = beginning.journal_of(
            self._repo,
            self._target.checkpoint,
            self._safety,
            self._prepared,
            self._options,
            self._name,
        )
        return self._safety

    def _save_safety(self, present: Present, move: HeadMove | None) -> Checkpoint:
        request = SaveRequest(
            kind=Kind.SAFETY,
            trigger="rollback",
            description=f"The state before the rollback to {self._target.checkpoint.id}.",
            keep=commits_to_keep(present, move),
            state=self._options.state,
        )
        saved = write(self._repo, present, request).checkpoint
        if saved is None:
            raise RollbackError("the safety checkpoint was not made", hint="git ckpt save")
        if present.source is not None:  # whose own checkpoint may go, now that this one is there
            present.source = scan_cache.held_by(present.source, saved)
        return saved

    # -- from here on the worktree changes ----------------------------------------------

    def _save_again(self) -> None:
        """The present changed after the safety checkpoint: make another that has it."""
        self._safety = self._save_safety(self._prepared.present, self._record.head)
        safety = self._safety
        self._record = replace(self._record, safety=safety.id, safety_commit=safety.commit)
        journal.write(self._repo.private_dir, self._record)

    def _save_first(self, found: Found) -> bool:
        """Save what changed, unless so much did already that it would never end."""
        if self._saves == MOST_SAVES:
            return False
        first, *others = found
        self._keep(first, *found[first])
        self._saves += 1
        for path in others:
            with suppress(OSError, UnsafePath):  # it is looked at again when it is its turn
                self._keep(path, *found[path])
        self._save_again()
        return True

    def _keep(self, path: bytes, state: FileState, status: os.stat_result) -> None:
        entry = keep(self._repo.objects, self._worktree, path, state)
        self._prepared.present.put(path, entry, status)

    def _apply(self, prepared: Prepared) -> RollbackResult:
        record, present = self._record, prepared.present
        if record.operation:
            now = read_now(self._repo.refs)
            if now != present.operation:
                present.operation = now
                self._save_again()
            operation.clear(self._repo)
        applier = Applier(
            self._repo.objects,
            self._smudger,
            self._worktree,
            present.status,
            self._save_first,
            record.folders,
        )
        applier.files(record.actions, record.remove_folders)
        applier.folders(record.make_folders)
        applier.sync()
        if self._options.index:
            self._restage(prepared, applier)
        if record.head is not None:
            move_head(self._repo, record.head, self._target.checkpoint.id)
        if record.operation:
            operation.install(self._repo, self._target.operation)
        finish(self._repo, self._record, applier.done)
        return self._report(applier.done, self._safety)

    def _restage(self, prepared: Prepared, applier: Applier) -> None:
        """Write the index, if another is wanted, or if git would go by stat data of before."""
        index = prepared.index
        misled = misled_files(prepared, self._target, self._record.actions, applier.done.files)
        misleads = index is not None and staging.misleads(index)
        if prepared.changes_index or misled or misleads:
            until_settled(lambda: self._put_index(prepared, applier, misled))

    def _put_index(self, prepared: Prepared, applier: Applier, misled: set[bytes]) -> None:
        present = prepared.present
        staged = staging.read_staged(self._repo)
        is_late = present.staged.mtime_ns != present.index.mtime_ns  # it is not of that moment
        if is_late or not staging.same(staged.index, present.staged.index):
            present.restage(staged)
            self._save_again()
            prepared.index = None
        index = prepared.index
        if index is None:
            wanted = without(self._target.index, prepared.unstaged)
            index = limited(wanted, staged.index, self._options.paths)
        known = known_files(self._worktree, self._target, index, applier.known)
        restage(self._repo, index, staged, known, misled)

    # -- reports --------------------------------------------------------------------

    def foresee(self) -> RollbackResult:
        return self._report(foreseen(self._prepared.plan), None)

    def _report(self, done: Applied, safety: Checkpoint | None) -> RollbackResult:
        return report(
            self._repo,
            self._target,
            self._prepared,
            done,
            safety,
            UNDO,
            dry_run=self._options.dry_run,
        )
