# SPDX-License-Identifier: MIT
"""Roll back to a checkpoint, and undo a rollback, without losing the present.

The steps: validate the target; capture the present and plan; save the present as the safety
checkpoint; write the journal; change files, then the index, then HEAD; end the journal. No file
changes before the journal is written. Every step can be repeated, so after a crash `recovery` can
continue or abort.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ckpt.disk import journal_exists, prune_lock, worktree_lock
from ckpt.engine import head, journal, scan_cache, sessions
from ckpt.engine.apply import Applied, Applier
from ckpt.engine.catalog import Catalog, still_holds
from ckpt.engine.checkpoint import Recorded
from ckpt.engine.head import head_report
from ckpt.engine.journal import Action, Journal
from ckpt.engine.plan import Plan
from ckpt.engine.prepare import Preparation, RollbackOptions, check_removals
from ckpt.engine.snapshot import LOCK_TIMEOUT, SaveRequest, again_if_pruned, write
from ckpt.engine.working_state import Present
from ckpt.errors import Busy, CkptError, NotFound, Refused, RollbackError, disk_hint
from ckpt.git.objects import MissingObject
from ckpt.git.operation import clear, install, read_now
from ckpt.git.repository import Repository
from ckpt.models import Checkpoint, Kind, RollbackResult, Skipped
from ckpt.paths import to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.write import Worktree

UNDO = "git ckpt undo"


def rollback(
    repo: Repository, settings: Settings, target: Checkpoint, options: RollbackOptions
) -> RollbackResult:
    """Restore the worktree, the index and (on request) HEAD to `target`."""
    if b"" in options.paths:  # the top of the worktree
        options = replace(options, paths=())
    return run(repo, settings, lambda: (target, options))


def run(
    repo: Repository,
    settings: Settings,
    choose: Callable[[], tuple[Checkpoint, RollbackOptions]],
) -> RollbackResult:
    """Roll back to what `choose` returns, which is called with the lock held."""

    def attempt() -> RollbackResult:
        private_dir, top = repo.private_dir, os.fsencode(repo.worktree)
        lock = worktree_lock(private_dir, exclusive=True, timeout=LOCK_TIMEOUT)
        with lock, Worktree(top, repo.git_dirs) as worktree:
            target, options = choose()
            found = Recorded(repo, target)
            present, plan, record = Preparation(repo, settings, found, options, worktree).run()
            return _Rollback(repo, worktree, found, options, present, plan, record).go()

    return again_if_pruned(repo, attempt)


@dataclass
class _Rollback:
    """The steps of a rollback, which save concurrent changes before overwriting them. The caller
    holds the worktree's lock. `safety` is the newest safety checkpoint taken here.
    """

    repo: Repository
    worktree: Worktree
    target: Recorded
    options: RollbackOptions
    present: Present
    plan: Plan
    record: Journal
    safety: Checkpoint | None = None
    done: Applied = field(default_factory=Applied)

    def go(self) -> RollbackResult:
        options, resumed, plan = self.options, self.options.resumes, self.plan
        present, record = self.present, self.record
        changes = (record.files, record.folders, record.index, record.operation, record.head)
        is_idle = not (any(changes) or options.moves_state or resumed is not None)
        if options.dry_run or is_idle:
            written = [action.path for action in plan.writes]
            removed = [action.path for action in plan.removals]
            self.done = Applied(written, removed)
            return self._report()
        if not options.yes:
            check_removals(plan, present, options.changed)
        if resumed is None or resumed.has_edits(self.target, present, plan, record):
            self._save(present)
        try:
            if resumed is None:
                self._begin()
            self._change()
            self._complete()
            sessions.note_rollback(self.repo.private_dir)
        except (OSError, Busy, MissingObject) as error:
            raise _stopped(error, journal_exists(self.repo.private_dir)) from error
        return self._report()

    def _save(self, present: Present) -> Present:
        """Take a safety checkpoint of the present. The journal names the newest one, except in a
        recovery, where it keeps the one that an abort returns to."""
        repo, record, resumed = self.repo, self.record, self.options.resumes
        trigger, description = "rollback", f"The state before the rollback to {record.target}."
        if resumed is not None:
            trigger, description = "recovery", "Changes made after a rollback was interrupted."
        request = SaveRequest(
            kind=Kind.SAFETY,
            trigger=trigger,
            description=description,
            keep=head.commits_to_keep(present.head, record.head),
            state=self.options.state,
        )
        saved = self.safety = write(repo, present, request).checkpoint
        assert saved is not None  # only a trigger's save may be skipped
        if present.source is not None:  # may be pruned, now that this one exists
            present = present._replace(source=scan_cache.held_by(present.source, saved))
        self.present = present
        self.record = replace(record, safety=saved.id)
        if resumed is None and journal_exists(repo.private_dir):
            journal.write(repo.private_dir, self.record)
        return present

    def _begin(self) -> None:
        """Write the journal under the prune lock, or refuse if a checkpoint it needs was dropped.
        A later prune sees the journal."""
        with prune_lock(self.repo.common_dir, timeout=LOCK_TIMEOUT):
            for needed in filter(None, (self.target.checkpoint, self.safety)):
                tree, state = needed.tree.encode(), needed.state_commit.encode()
                if not still_holds(self.repo, needed.id, tree, state):
                    raise Refused(
                        "the rollback did not begin: "
                        f"checkpoint '{needed.id}' was dropped meanwhile",
                        hint="nothing was touched; "
                        f"'git ckpt restore-dropped {needed.id}' may bring it back",
                    )
            journal.write(self.repo.private_dir, self.record)

    def _change(self) -> None:
        """Change files, directories, index and HEAD; a changing operation is cleared first."""
        repo, plan, target = self.repo, self.plan, self.target
        record, resumed = self.record, self.options.resumes
        if record.operation:
            now = read_now(repo.refs)
            if now != self.present.operation:
                self._save(self.present._replace(operation=now))
            clear(repo.git_dir, repo.private_dir)
        applier = Applier(repo, self.worktree, self.present, self._save, plan)
        applier.files()
        applier.folders()
        applier.sync(record.files)
        resized = resumed is not None or any(map(_writes_converted, plan.actions))
        if record.index or (record.asked_index and resized):
            applier.restage(target.index, record.paths)
        self.done = applier.done
        if record.head is not None:
            head.move_head(repo, record.head, target.checkpoint.id)
        if record.operation and record.asked_head and target.operation.contents:
            install(repo.git_dir, repo.private_dir, target.operation)

    def _complete(self) -> None:
        """End the journal, without the blocked paths, which an undo need not change."""
        private_dir, resumed = self.repo.private_dir, self.options.resumes
        if resumed is not None and not resumed.forwards:
            journal.remove(private_dir)
            return
        written = self.record if resumed is None else resumed.record
        # If nothing was edited in between, an undo returns to the start of that rollback.
        record = written if self.safety is None else self.record
        done = tuple(path for path in record.files if path not in self.done.blocked)
        record = replace(record, files=done)
        if record != written:
            journal.write(private_dir, record)
        journal.complete(private_dir)

    def _report(self) -> RollbackResult:
        repo, target, record, resumed = self.repo, self.target, self.record, self.options.resumes
        forwards = resumed is None or resumed.forwards
        safety = self.safety or (None if resumed is None else resumed.safety(target))
        return RollbackResult(
            target=target.checkpoint,
            safety=safety,
            written=tuple(map(to_str, self.done.written)),
            removed=tuple(map(to_str, self.done.removed)),
            kept=_listed(self.plan.kept if forwards else {}),
            skipped=_listed({**self.plan.blocked, **self.done.blocked}),
            folders_changed=record.changes_folders,
            index_changed=record.index,
            head=head_report(repo, self.present, target, record),
            dry_run=self.options.dry_run,
            undo_command=UNDO if forwards and safety else None,
            foreign=target.checkpoint.foreign,
        )


def _listed(paths: Mapping[bytes, str]) -> tuple[Skipped, ...]:
    """Return paths with the reasons why they were not changed."""
    return tuple(Skipped(to_str(path), reason) for path, reason in sorted(paths.items()))


def _writes_converted(action: Action) -> bool:
    """Return whether the size in the index may be wrong, so that git sees a change."""
    return any(s is not None and s.is_converted for s in (action.before, action.after))


def _stopped(error: OSError | Busy | MissingObject, is_begun: bool) -> CkptError:
    """Return the error of a rollback that stopped, before or after its journal was written."""
    kind = Busy if isinstance(error, Busy) else RollbackError
    if isinstance(error, CkptError):
        cause, mend = error.message, "wait for it to end"
    else:
        cause, mend = error.strerror or str(error), disk_hint(error)
    if is_begun:
        return kind(f"the rollback stopped half way: {cause}", hint=journal.unfinished().hint)
    return kind(
        f"the rollback did not begin: {cause}", hint=f"nothing was touched; {mend}, then try again"
    )


# -- Undo, a rollback with the paths and options of the last one


def undo_target(repo: Repository) -> tuple[Journal, Checkpoint]:
    """Return the last completed rollback of this worktree and its safety checkpoint."""
    journal.check_ended(repo.private_dir)
    last = journal.last_rollback(repo.private_dir)
    if last is None:
        raise NotFound(
            "there is no rollback to undo in this worktree",
            hint="'git ckpt list --kind safety' shows the states before earlier rollbacks",
            details={"available": []},
        )
    return last, Catalog(repo).get(last.safety)


def undo(repo: Repository, settings: Settings, options: RollbackOptions) -> RollbackResult:
    """Undo the last completed rollback of this worktree; a second undo redoes it."""

    def choose() -> tuple[Checkpoint, RollbackOptions]:
        last, safety = undo_target(repo)
        scope = replace(
            options, paths=last.paths, head=last.asked_head, index=last.asked_index, earlier=last
        )
        return safety, scope

    return run(repo, settings, choose)
