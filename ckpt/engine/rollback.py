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
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace

from ckpt.engine import journal, operation
from ckpt.engine.apply import Applied, Applier, keep
from ckpt.engine.capture import Present, capture
from ckpt.engine.catalog import Catalog
from ckpt.engine.head import (
    branches_to_return,
    check_move,
    commits_to_keep,
    head_report,
    move_head,
    plan_move,
)
from ckpt.engine.journal import BranchMove, FileState, HeadMove, Journal, LastRollback
from ckpt.engine.plan import Plan, make_plan
from ckpt.engine.recorded import Recorded
from ckpt.engine.restage import limited, needed_blobs, restage
from ckpt.engine.smudging import Smudger, Unrestorable
from ckpt.engine.snapshot import LOCK_TIMEOUT, SaveRequest, write
from ckpt.errors import Busy, CkptError, NotFound, Refused, RollbackError
from ckpt.models import Checkpoint, HeadReport, Kind, RollbackResult, Skipped, SkipReason
from ckpt.paths import is_within, to_str
from ckpt.settings import Settings
from ckpt.store import staging
from ckpt.store.index import Index
from ckpt.store.lock import clear_own_locks, worktree_lock
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.operation import in_progress
from ckpt.store.operation_record import read_now
from ckpt.store.repository import Repository
from ckpt.store.trees import lookup, walk, write_tree
from ckpt.worktree.write import Worktree

MAX_UNTRACKED_REMOVALS = 1000
UNDO = "git ckpt undo"
_BUDGETED = (SkipReason.OVERSIZE, SkipReason.BUDGET)


@dataclass(frozen=True, slots=True)
class RollbackOptions:
    """`paths` limit the rollback; `consented` are paths whose removal needs no `yes`.

    An undo says what the rollback did that it takes back: files that it `created` go, and
    those that it `replaced` come back, also where they are ignored now, and branches that it moved besides HEAD's are `returning`.
    """

    paths: tuple[bytes, ...] = ()
    head: bool = False
    index: bool = True
    dry_run: bool = False
    overwrite_ignored: bool = False
    yes: bool = False
    consented: frozenset[bytes] = frozenset()
    created: frozenset[bytes] = frozenset()
    replaced: frozenset[bytes] = frozenset()
    returning: tuple[BranchMove, ...] = ()
    check_paths: bool = True
    progress: Callable[[int], None] | None = None


def rollback(
    repo: Repository, settings: Settings, target: Checkpoint, options: RollbackOptions
) -> RollbackResult:
    """Bring the worktree, the index and (if asked) HEAD back to `target`."""
    if b"" in options.paths:  # the top of the worktree is all of it
        options = replace(options, paths=())
    with (
        worktree_lock(repo.private_dir, exclusive=True, timeout=LOCK_TIMEOUT),
        Worktree(os.fsencode(repo.worktree)) as worktree,
        Smudger(repo) as smudger,
    ):
        run = _Rollback(repo, settings, Recorded(repo, target), options, worktree, smudger)
        try:
            return run.go()
        except BaseException:
            repo.objects.discard()
            raise


def undo(repo: Repository, settings: Settings, options: RollbackOptions) -> RollbackResult:
    """Take back the last rollback that finished in this worktree; again: redo it."""
    last = journal.last_rollback(repo.private_dir)
    if last is None:
        raise NotFound(
            "there is no rollback to undo in this worktree",
            hint="'git ckpt list --kind safety' shows the states before earlier rollbacks",
            details={"available": []},
        )
    catalog = Catalog(repo)
    scope = replace(
        options,
        paths=last.paths,
        head=last.head,
        index=last.index,
        overwrite_ignored=last.overwrite,
        consented=_paths_of(repo, catalog, last.target),
        created=frozenset(last.created),
        replaced=frozenset(last.replaced),
        returning=branches_to_return(last.move),
        check_paths=False,
    )
    return rollback(repo, settings, catalog.get(last.safety), scope)


def _paths_of(repo: Repository, catalog: Catalog, checkpoint_id: str) -> frozenset[bytes]:
    """What a rollback may have brought: an undo takes that away without asking."""
    if catalog.commit_of(checkpoint_id) is None:
        return frozenset()
    tree = ObjectID(catalog.get(checkpoint_id).tree.encode())
    return frozenset(path for path, _ in walk(repo.objects, tree))


class _Rollback:
    """The state of one rollback while it runs; the caller holds the lock."""

    def __init__(
        self,
        repo: Repository,
        settings: Settings,
        target: Recorded,
        options: RollbackOptions,
        worktree: Worktree,
        smudger: Smudger,
    ) -> None:
        self._repo = repo
        self._smudger = smudger
        self._settings = settings
        self._target = target
        self._options = options
        self._worktree = worktree

    def go(self) -> RollbackResult:
        check_ready(self._repo)
        self._check_target()
        present, plan = self._look()
        index = self._wanted_index(present)
        move = self._wanted_move(present)
        self._validate(plan, present, index)
        changes_index = index is not None and not staging.same(index, present.staged.index)
        changes_operation = self._changes_operation(present)
        if self._options.dry_run:
            return self._foresee(plan, present, changes_index, move)
        if plan.is_empty and not changes_index and not changes_operation and move is None:
            return self._report(plan, Applied(), None, changes_index, move, present)
        self._check_removals(plan, present)
        safety = self._save_safety(present, move)
        record = self._journal(plan, safety, changes_index, changes_operation, move)
        journal.write(self._repo.private_dir, record)
        try:
            return self._apply(record, plan, present, safety, index, changes_index)
        except (OSError, Busy) as error:
            raise _interrupted(error) from error

    # -- before anything is touched ---------------------------------------------------

    def _check_target(self) -> None:
        target = self._target
        if self._options.head:
            check_move(self._repo, target)
        elif not self._options.paths:
            now = in_progress(self._repo.git_dir)
            operation.check_operation(now, target.manifest.operation, target.checkpoint.id)
        if self._options.check_paths:
            self._check_limits()

    def _check_limits(self) -> None:
        """A path that neither state knows is a typing mistake."""
        for limit in self._options.paths:
            if limit and self._worktree.lstat(limit) is None and not self._target_knows(limit):
                raise CkptError(
                    f"pathspec '{to_str(limit)}' did not match any file of "
                    f"checkpoint '{self._target.checkpoint.id}'",
                    hint=f"git ckpt diff --name-status {self._target.checkpoint.id}",
                )

    def _target_knows(self, limit: bytes) -> bool:
        target = self._target
        if lookup(target.objects, target.tree, limit) is not None:
            return True
        staged = (entry.path for entry in target.index.entries)
        return any(is_within(path, (limit,)) for path in staged)

    def _look(self) -> tuple[Present, Plan]:
        created = frozenset(filter(self._is_file, self._options.created))
        ours = created | frozenset(filter(self._is_file, self._options.replaced))
        present, plan = self._capture_and_plan(ours, created)
        overwrite = self._options.overwrite_ignored
        force = ours | (plan.obstacles if overwrite else set())
        force |= self._unaffordable(plan, present)
        if force > ours:
            present, plan = self._capture_and_plan(force, force if overwrite else created)
        return present, plan

    def _unaffordable(self, plan: Plan, present: Present) -> set[bytes]:
        """What a budget left out and the plan is about: the safety checkpoint takes it.

        That is what stands in the way, and what was made since in such numbers that only
        a part of it would go.
        """
        in_the_way = {path for path in plan.obstacles if present.skipped.get(path) in _BUDGETED}
        limits = self._options.paths
        return in_the_way | {
            path
            for path, reason in present.skipped.items()
            if reason is SkipReason.BUDGET
            and (not limits or is_within(path, limits))
            and self._target.left_out(path) is None
        }

    def _is_file(self, path: bytes) -> bool:
        status = self._worktree.lstat(path)
        return status is not None and not stat.S_ISDIR(status.st_mode)

    def _capture_and_plan(
        self, force: frozenset[bytes], given_up: frozenset[bytes]
    ) -> tuple[Present, Plan]:
        options = self._options
        objects = self._repo.objects.scratch() if options.dry_run else self._repo.objects
        present = capture(
            self._repo,
            self._settings,
            objects,
            force=tuple(sorted(force)),
            progress=options.progress,
        )
        tree = write_tree(objects, present.entries)
        plan = make_plan(
            present, tree, self._target, objects, self._worktree, options.paths, given_up
        )
        return present, plan

    def _wanted_move(self, present: Present) -> HeadMove | None:
        if not self._options.head:
            return None
        return plan_move(self._repo, present, self._target, self._options.returning)

    def _changes_operation(self, present: Present) -> bool:
        wanted = self._target.operation.files if self._options.head else present.operation.files
        return operation.differs(present.operation.files, wanted)

    def _wanted_index(self, present: Present) -> Index | None:
        if not self._options.index:
            return None
        return limited(self._target.index, present.staged.index, self._options.paths)

    def _validate(self, plan: Plan, present: Present, index: Index | None) -> None:
        """Read every content that will be needed, so that damage shows before the first change.

        What a filter driver does not give any more is left as it is.
        """
        objects = self._repo.objects
        lost = {}
        try:
            for action in plan.writes:
                if action.after is not None and (
                    action.before is None or action.before.entry.id != action.after.entry.id
                ):
                    try:
                        self._smudger.check(action.path, action.after)
                    except Unrestorable as error:
                        lost[action.path] = str(error)
            for blob in needed_blobs(index, present.staged.index):
                if objects.lacks(blob):
                    raise MissingObject(blob, "missing staged object")
        except MissingObject as error:
            raise RollbackError(
                f"checkpoint '{self._target.checkpoint.id}' is damaged: {error.message}",
                hint="nothing was touched; 'git ckpt list' shows other checkpoints",
                details=error.details,
            ) from error
        plan.leave(lost)

    def _check_removals(self, plan: Plan, present: Present) -> None:
        if self._options.yes:
            return
        removed = [a.path for a in plan.removals if a.path not in self._options.consented]
        tracked = {entry.path for entry in present.staged.index.entries}
        untracked = [path for path in removed if path not in tracked]
        total = len(present.entries)
        if 2 * len(removed) > total or len(untracked) > MAX_UNTRACKED_REMOVALS:
            raise Refused(
                f"this rollback would remove {len(removed)} of {total} files",
                hint="look with --dry-run, then repeat the command with --yes",
                details={"removed": [to_str(path) for path in removed]},
            )

    def _save_safety(self, present: Present, move: HeadMove | None) -> Checkpoint:
        request = SaveRequest(
            kind=Kind.SAFETY,
            trigger="rollback",
            description=f"The state before the rollback to {self._target.checkpoint.id}.",
            keep=commits_to_keep(present, move),
        )
        saved = write(self._repo, present, request).checkpoint
        if saved is None:
            raise RollbackError("the safety checkpoint was not made", hint="git ckpt save")
        return saved

    def _journal(
        self,
        plan: Plan,
        safety: Checkpoint,
        changes_index: bool,
        changes_operation: bool,
        move: HeadMove | None,
    ) -> Journal:
        return Journal(
            target=self._target.checkpoint.id,
            safety=safety.id,
            paths=self._options.paths,
            actions=tuple(plan.actions),
            make_folders=tuple(plan.make_folders),
            remove_folders=tuple(plan.remove_folders),
            folders=plan.folders,
            index=changes_index,
            operation=changes_operation,
            head=move,
            asked_index=self._options.index,
            asked_head=self._options.head,
            asked_overwrite=self._options.overwrite_ignored,
        )

    # -- from here on the worktree changes ----------------------------------------------

    def _apply(
        self,
        record: Journal,
        plan: Plan,
        present: Present,
        safety: Checkpoint,
        index: Index | None,
        changes_index: bool,
    ) -> RollbackResult:
        def save_again() -> None:
            """The present changed after the safety checkpoint: make another that has it."""
            nonlocal safety, record
            safety = self._save_safety(present, record.head)
            record = replace(record, safety=safety.id)
            journal.write(self._repo.private_dir, record)

        def save_first(path: bytes, state: FileState, status: os.stat_result) -> None:
            entry = keep(self._repo.objects, self._worktree, path, state)
            present.entries[path], present.stats[path] = entry, status
            present.converted.pop(path, None)
            present.absent.discard(path)
            save_again()

        if record.operation:
            now = read_now(self._repo.refs)
            if now != present.operation:
                present.operation = now
                save_again()
            operation.clear(self._repo)
        applier = Applier(
            self._repo.objects,
            self._smudger,
            self._worktree,
            present.stats,
            save_first,
            record.folders,
        )
        applier.files(record.actions, record.remove_folders)
        applier.folders(record.make_folders)
        applier.sync()
        if index is not None and changes_index:
            staged = staging.read_staged(self._repo)
            if not staging.same(staged.index, present.staged.index):
                present.staged = staged
                save_again()
                index = limited(self._target.index, staged.index, self._options.paths)
            restage(self._repo, index, staged, applier.known)
        if record.head is not None:
            move_head(self._repo, record.head, self._target.checkpoint.id)
        if record.operation:
            operation.install(self._repo, self._target.operation.files)
        finish(self._repo, record, applier.done)
        return self._report(plan, applier.done, safety, changes_index, record.head, present)

    # -- reports --------------------------------------------------------------------

    def _foresee(
        self, plan: Plan, present: Present, changes_index: bool, move: HeadMove | None
    ) -> RollbackResult:
        foreseen = Applied(
            written=[action.path for action in plan.writes],
            removed=[action.path for action in plan.removals],
        )
        return self._report(plan, foreseen, None, changes_index, move, present)

    def _report(
        self,
        plan: Plan,
        done: Applied,
        safety: Checkpoint | None,
        changes_index: bool,
        move: HeadMove | None,
        present: Present,
    ) -> RollbackResult:
        blocked = sorted({**plan.blocked, **done.blocked}.items())
        head: HeadReport = head_report(self._repo, present.head, self._target, move)
        if self._changes_operation(present):
            then = self._target.operation.files
            head = replace(head, operation=operation.report(present.operation.files, then))
        return RollbackResult(
            target=self._target.checkpoint,
            safety=safety,
            written=tuple(map(to_str, done.written)),
            removed=tuple(map(to_str, done.removed)),
            kept=tuple(Skipped(to_str(p), reason) for p, reason in sorted(plan.kept.items())),
            skipped=tuple(Skipped(to_str(path), reason) for path, reason in blocked),
            index_changed=changes_index,
            head=head,
            dry_run=self._options.dry_run,
            undo_command=UNDO if safety is not None else None,
        )


def _interrupted(error: OSError | Busy) -> CkptError:
    """Why a rollback stopped half way, and how to go on."""
    busy = isinstance(error, Busy)
    cause = error.message if isinstance(error, Busy) else error.strerror or str(error)
    return (Busy if busy else RollbackError)(
        f"the rollback stopped half way: {cause}",
        hint="'git ckpt rollback --continue' finishes it, "
        "'git ckpt rollback --abort' returns to the state before it",
    )


def check_ready(repo: Repository) -> None:
    """Refuse to begin while something else is at work, or was and did not finish."""
    if journal.exists(repo.private_dir):
        raise Refused(
            "a rollback was interrupted in this worktree",
            hint="'git ckpt rollback --continue' finishes it, "
            "'git ckpt rollback --abort' returns to the state before it",
        )
    clear_own_locks(repo.private_dir, [repo.index_path, *repo.refs.lock_candidates()])
    check_index_free(repo)


def check_index_free(repo: Repository) -> None:
    if not repo.owns_index:
        raise Refused(
            f"GIT_INDEX_FILE names another index: '{repo.index_path}'",
            hint="a rollback inside a git hook would change the index git is using",
        )
    if os.path.lexists(repo.index_path + ".lock"):
        raise Busy(
            f"'{repo.index_path}.lock' exists: another git process is using the index",
            hint="wait for it to end; if none runs, remove that file",
        )


def finish(repo: Repository, record: Journal, done: Applied) -> None:
    """The rollback is complete: remember it for `undo`, and forget the journal."""
    put = [a for a in record.actions if a.after is not None and a.path not in done.blocked]
    last = LastRollback(
        record.target,
        record.safety,
        record.paths,
        index=record.asked_index,
        head=record.asked_head,
        overwrite=record.asked_overwrite,
        created=tuple(action.path for action in put if action.before is None),
        replaced=tuple(action.path for action in put if action.before is not None),
        move=record.head,
    )
    journal.remember(repo.private_dir, last)
    journal.remove(repo.private_dir)
