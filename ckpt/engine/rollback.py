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

from ckpt.engine import journal
from ckpt.engine.apply import Applied, Applier
from ckpt.engine.capture import Present, capture
from ckpt.engine.catalog import Catalog
from ckpt.engine.head import (
    branch_to_keep,
    branch_to_return,
    check_move,
    head_report,
    move_head,
    plan_move,
)
from ckpt.engine.journal import BranchMove, FileState, HeadMove, Journal, LastRollback
from ckpt.engine.plan import Plan, make_plan
from ckpt.engine.recorded import Recorded
from ckpt.engine.restage import limited, needed_blobs, restage
from ckpt.engine.snapshot import LOCK_TIMEOUT, SaveRequest, write
from ckpt.errors import Busy, CkptError, NotFound, Refused, RollbackError
from ckpt.models import Checkpoint, HeadReport, Kind, RollbackResult, Skipped, SkipReason
from ckpt.paths import is_within, to_str
from ckpt.settings import Settings
from ckpt.store import staging
from ckpt.store.index import Index
from ckpt.store.lock import clear_own_locks, worktree_lock
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.operation import Operation, in_progress
from ckpt.store.repository import Repository
from ckpt.store.trees import lookup, walk, write_tree
from ckpt.worktree.write import Worktree

MAX_UNTRACKED_REMOVALS = 1000
UNDO = "git ckpt undo"
_BUDGETED = (SkipReason.OVERSIZE, SkipReason.BUDGET)


@dataclass(frozen=True, slots=True)
class RollbackOptions:
    """`paths` limit the rollback; `consented` are paths whose removal needs no `yes`.

    An undo says what the rollback did that it takes back: files that it `created` go, also
    where they are ignored now, and the branch `left` returns.
    """

    paths: tuple[bytes, ...] = ()
    head: bool = False
    index: bool = True
    dry_run: bool = False
    overwrite_ignored: bool = False
    yes: bool = False
    consented: frozenset[bytes] = frozenset()
    created: frozenset[bytes] = frozenset()
    left: BranchMove | None = None
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
    ):
        run = _Rollback(repo, settings, Recorded(repo, target), options, worktree)
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
        left=branch_to_return(last.move),
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
    ) -> None:
        self._repo = repo
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
        if self._options.dry_run:
            return self._foresee(plan, present, changes_index, move)
        if plan.is_empty and not changes_index and move is None:
            return self._report(plan, Applied(), None, changes_index, move, present)
        self._check_removals(plan, present)
        safety = self._save_safety(present, move)
        record = self._journal(plan, safety, changes_index, move)
        journal.write(self._repo.private_dir, record)
        try:
            return self._apply(record, plan, present, safety, index, changes_index)
        except (OSError, Busy) as error:
            raise _interrupted(error) from error

    # -- before anything is touched ---------------------------------------------------

    def _check_target(self) -> None:
        target, now = self._target, in_progress(self._repo.git_dir)
        then = target.manifest.operation
        check_operation(now, then, self._options, target.checkpoint.id)
        if self._options.head:
            check_move(self._repo, target)
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
        present, plan = self._capture_and_plan(created, created)
        overwrite = self._options.overwrite_ignored
        force = created | (plan.obstacles if overwrite else _oversize(plan, present))
        if force > created:
            present, plan = self._capture_and_plan(force, force if overwrite else created)
        return present, plan

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
        return plan_move(self._repo, present, self._target, self._options.left)

    def _wanted_index(self, present: Present) -> Index | None:
        if not self._options.index:
            return None
        return limited(self._target.index, present.staged.index, self._options.paths)

    def _validate(self, plan: Plan, present: Present, index: Index | None) -> None:
        """Read every blob that will be needed, so that damage shows before the first change."""
        objects = self._repo.objects
        try:
            for action in plan.writes:
                if action.after is not None and (
                    action.before is None or action.before.entry.id != action.after.entry.id
                ):
                    objects.read(action.after.entry.id, b"blob")
            for blob in needed_blobs(index, present.staged.index):
                if not objects.has(blob):
                    raise MissingObject(blob, "missing staged object")
        except MissingObject as error:
            raise RollbackError(
                f"checkpoint '{self._target.checkpoint.id}' is damaged: {error.message}",
                hint="nothing was touched; 'git ckpt list' shows other checkpoints",
                details=error.details,
            ) from error

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
            keep=branch_to_keep(present, move),
        )
        saved = write(self._repo, present, request).checkpoint
        if saved is None:
            raise RollbackError("the safety checkpoint was not made", hint="git ckpt save")
        return saved

    def _journal(
        self, plan: Plan, safety: Checkpoint, changes_index: bool, move: HeadMove | None
    ) -> Journal:
        return Journal(
            target=self._target.checkpoint.id,
            safety=safety.id,
            paths=self._options.paths,
            actions=tuple(plan.actions),
            make_folders=tuple(plan.make_folders),
            remove_folders=tuple(plan.remove_folders),
            index=changes_index,
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
        def save_first(path: bytes, state: FileState, status: os.stat_result) -> None:
            """A file changed after the safety checkpoint: make another that has it."""
            nonlocal safety, record
            data = self._worktree.read(path)
            entry = state.entry._replace(id=self._repo.objects.add(b"blob", data))
            present.entries[path], present.stats[path] = entry, status
            present.absent.discard(path)
            safety = self._save_safety(present, record.head)
            record = replace(record, safety=safety.id)
            journal.write(self._repo.private_dir, record)

        applier = Applier(self._repo.objects, self._worktree, present.stats, save_first)
        applier.files(record.actions, record.remove_folders)
        applier.folders(record.make_folders)
        applier.sync()
        if index is not None and changes_index:
            staged = staging.read_staged(self._repo)
            if not staging.same(staged.index, present.staged.index):
                present.staged = staged
                safety = self._save_safety(present, record.head)
                record = replace(record, safety=safety.id)
                journal.write(self._repo.private_dir, record)
                index = limited(self._target.index, staged.index, self._options.paths)
            restage(self._repo, index, staged, applier.known)
        if record.head is not None:
            move_head(self._repo, record.head, self._target.checkpoint.id)
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


def _oversize(plan: Plan, present: Present) -> set[bytes]:
    """What stands in the way only because of its size: the safety checkpoint takes it."""
    return {path for path in plan.obstacles if present.skipped.get(path) in _BUDGETED}


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


def check_operation(
    now: Operation | None, then: Operation | None, options: RollbackOptions, target: str
) -> None:
    """Files of one operation and the HEAD of another must not meet in a commit."""
    if now == then or options.paths:
        return
    was = f"in the middle of a {then.name}" if then else "with no operation in progress"
    has = f"a {now.name} is in progress" if now else "none is in progress now"
    raise Refused(
        f"checkpoint '{target}' was taken {was}, but {has}",
        hint=f"restore single files with 'git ckpt rollback {target} -- PATH', "
        "or end the operation with git first",
    )


def finish(repo: Repository, record: Journal, done: Applied) -> None:
    """The rollback is complete: remember it for `undo`, and forget the journal."""
    new = (a.path for a in record.actions if a.before is None and a.after is not None)
    last = LastRollback(
        record.target,
        record.safety,
        record.paths,
        index=record.asked_index,
        head=record.asked_head,
        overwrite=record.asked_overwrite,
        created=tuple(path for path in new if path not in done.blocked),
        move=record.head,
    )
    journal.remember(repo.private_dir, last)
    journal.remove(repo.private_dir)
