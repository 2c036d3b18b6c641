# SPDX-License-Identifier: MIT
"""What a rollback is going to do, found out without touching anything.

The target is validated down to the last byte that will be needed, the present captured and
compared with it. What comes out is all that the rollback then carries out; a dry run ends here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain

from ckpt.engine import head, journal, nested, scan_cache
from ckpt.engine.apply import below_files, limited, needed_blobs, without
from ckpt.engine.capture import capture
from ckpt.engine.conversions import Smudger, Unrestorable
from ckpt.engine.journal import Action, BranchMove, FileState, HeadMove
from ckpt.engine.plan import Plan, is_file, make_plan
from ckpt.engine.present import Present
from ckpt.engine.reading import NEVER
from ckpt.engine.recorded import Recorded
from ckpt.engine.sessions import Write, decide
from ckpt.engine.sessions import look as look_at_content
from ckpt.errors import CkptError, Refused, RollbackError
from ckpt.git import index as staging
from ckpt.git.index import Index
from ckpt.git.objects import MissingObject
from ckpt.git.operation import in_progress
from ckpt.git.record import Texts
from ckpt.git.refs import HeadMoved
from ckpt.git.repository import Repository
from ckpt.locks import Waiting, check_free
from ckpt.models import SkipReason
from ckpt.paths import is_within, to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.write import Worktree

MAX_UNTRACKED_REMOVALS = 1000
_PATIENCE = 0.5  # seconds: an editor's `git status` may hold a lock for a moment
_LONGEST_LINK = 4095
_BUDGETED = (SkipReason.OVERSIZE, SkipReason.BUDGET)


@dataclass(frozen=True)
class RollbackOptions:
    """`paths` limit the rollback; `consented` are paths whose removal needs no `yes`.

    When `undoing`, it is said what the rollback did that is taken back: files that it
    `created` go and those that it `replaced` or removed come back, also if ignored now, and
    branches that it moved besides HEAD's are `returning`. The safety checkpoint that it made is
    `known` by its commit.

    With a `ledger`, only what the agent wrote and nobody changed since goes back. `state` is what
    the safety checkpoint shall hold of tracked objects; if the caller `moves_state`, one is taken
    even if no file changes. `waiting` is told if another process holds the lock for long.
    """

    paths: tuple[bytes, ...] = ()
    head: bool = False
    index: bool = True
    dry_run: bool = False
    overwrite_ignored: bool = False
    yes: bool = False
    recurse: bool = False
    consented: Container[bytes] = frozenset()
    created: frozenset[bytes] = frozenset()
    replaced: frozenset[bytes] = frozenset()
    returning: tuple[BranchMove, ...] = ()
    undoing: bool = False
    known: str | None = None
    ledger: Mapping[bytes, Write] | None = None
    state: Texts = field(default_factory=dict)
    moves_state: bool = False
    progress: Callable[[int, int], None] | None = None
    waiting: Waiting | None = None


@dataclass(frozen=True)
class Prepared:
    """What a rollback is going to do. `index` is the wanted one, None if the index stays; of the
    target's entries, those of `unstaged` stay out. `paths` are the only ones that may change."""

    present: Present
    plan: Plan
    paths: tuple[bytes, ...]
    index: Index | None
    unstaged: Mapping[bytes, str]
    changes_index: bool
    changes_operation: bool
    move: HeadMove | None

    @property
    def is_idle(self) -> bool:
        changes = self.changes_index or self.changes_operation or self.move is not None
        return self.plan.is_empty and not changes


def prepare(
    repo: Repository,
    settings: Settings,
    target: Recorded,
    options: RollbackOptions,
    worktree: Worktree,
    smudger: Smudger,
) -> Prepared:
    """Validate the target, capture the present and plan; the caller holds the worktree's lock."""
    preparation = _Preparation(repo, settings, target, options, worktree, smudger)
    preparation.check_target()
    return preparation.prepare()


class _Preparation:
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
        self._settings = settings
        self._target = target
        self._options = options
        self._worktree = worktree
        self._smudger = smudger
        self._present: Present

    def check_target(self) -> None:
        repo, target, options = self._repo, self._target, self._options
        journal.check_ready(repo.private_dir)
        repo.refs.clear_dead()
        check_locks(repo, None)
        if target.is_foreign:
            from ckpt.engine import foreign

            foreign.check_target(target, head=options.head)
        if options.head:
            head.check_move(repo, target)
            head.check_operation_objects(target)
        elif not options.paths:
            moved = repo.refs.head().commit != target.head.commit
            now, then = in_progress(repo.git_dir), target.operation.files.operation
            head.check_operation(now, then, target.checkpoint.id, head_moved=moved)
        for limit in () if options.undoing else options.paths:
            nested.check_limit(target, limit)
            if not self._target_knows(limit) and self._worktree.lstat(limit) is None:
                raise CkptError(
                    f"pathspec '{to_str(limit)}' did not match any file of "
                    f"checkpoint '{target.checkpoint.id}'",
                    hint=f"git ckpt diff --name-status {target.checkpoint.id}",
                )

    def _target_knows(self, limit: bytes) -> bool:
        target = self._target
        staged = (entry.path for entry in target.index.entries)
        known = chain(target.state_files, target.manifest.empty_folders, staged)
        return target.entry_at(limit) is not None or any(is_within(p, (limit,)) for p in known)

    def prepare(self) -> Prepared:
        target, options, repo = self._target, self._options, self._repo
        plan, paths = self._look()
        present = self._present
        plan = plan.leaving(self._unrestorable(plan))
        now = present.staged.index if options.index and not self._is_staged() else None
        index, unstaged = None, dict[bytes, str]()
        if now is not None:
            unstaged = self._unstaged(plan, now, paths)
            index = limited(without(target.index, unstaged), now, paths)
            self._check_staged(index, now, plan)
            plan = plan._replace(blocked={**unstaged, **plan.blocked})
        move = None
        if options.head:
            move = head.plan_move(repo, present, target, options.returning)
            if repo.refs.head() != present.head:
                raise HeadMoved  # since it was looked at, and nothing was done yet
        plan = plan.keeping(nested.left_alone(target, present, options.paths))
        plan = plan.keeping(nested.gone(target, self._worktree, options.paths))
        return Prepared(
            present,
            plan,
            paths,
            index,
            unstaged,
            now is not None and index is not None and not staging.same(index, now),
            options.head and head.differs(present.operation.files, target.operation.files),
            move,
        )

    def _look(self) -> tuple[Plan, tuple[bytes, ...]]:
        """Capture and plan. What stands in the way, or a budget left out, is captured as well if
        it may go; only then can be told what else is in the way."""
        options, limits = self._options, self._options.paths
        created = frozenset(p for p in options.created if is_file(self._worktree, p))
        ours = created | {p for p in options.replaced if is_file(self._worktree, p)}
        if not self._target.is_foreign:
            places = (p for p in self._target.state_files if not limits or is_within(p, limits))
            ours |= {path for path in places if is_file(self._worktree, path)}
        force: frozenset[bytes] = frozenset()
        given_up = created
        while True:
            plan, paths = self._capture(force, given_up)
            more = {path for path in ours if self._present.entry(path) is None} - force
            more = more or self._over_budget(plan) - force
            if options.overwrite_ignored and not more:
                more = {*plan.obstacles} - force
                given_up |= ours | more
            if not more:
                return plan, paths
            force |= more

    def _over_budget(self, plan: Plan) -> set[bytes]:
        """What a budget left out and the plan is about: what stands in the way, and what was made
        since in such numbers that only a part of it would go."""
        skipped, limits = self._present.skipped, self._options.paths
        new = (path for path, reason in skipped.items() if reason is SkipReason.BUDGET)
        new = (path for path in new if not limits or is_within(path, limits))
        found = {path for path in new if self._target.left_out(path) is None}
        return found | {path for path in plan.obstacles if skipped.get(path) in _BUDGETED}

    def _capture(
        self, force: frozenset[bytes], given_up: frozenset[bytes]
    ) -> tuple[Plan, tuple[bytes, ...]]:
        try:
            return self._captured(force, given_up)
        except MissingObject:  # maybe one that only the cache names, and that can be made again
            scan_cache.forget(self._repo)
            return self._captured(force, given_up)

    def _captured(
        self, force: frozenset[bytes], given_up: frozenset[bytes]
    ) -> tuple[Plan, tuple[bytes, ...]]:
        options, repo, target = self._options, self._repo, self._target
        objects = repo.objects.scratch() if options.dry_run else repo.objects
        present = self._present = capture(
            repo,
            self._settings,
            objects,
            force=tuple(sorted(force)),
            progress=options.progress,
            cache=scan_cache.load(repo),
            clock=NEVER if options.dry_run else scan_cache.clock(repo),
        )
        undone = options.created | options.replaced

        def plan_of(paths: tuple[bytes, ...]) -> Plan:
            return make_plan(
                present, present.tree, target, objects, self._worktree, paths, given_up, undone
            )

        plan = plan_of(options.paths)
        if options.ledger is None:
            return plan, options.paths
        top, limits = os.fsencode(repo.worktree), options.paths
        decision = decide(
            {action.path for action in plan.actions},
            {p: w for p, w in options.ledger.items() if not limits or is_within(p, limits)},
            lambda path: look_at_content(os.path.join(top, path)),
            [path for path in target.state_files if not limits or is_within(path, limits)],
            {action.path for action in plan.removals},
        )
        kept = {**plan.kept, **decision.kept}
        return plan_of(decision.limits).keeping(kept), decision.limits

    def _unrestorable(self, plan: Plan) -> dict[bytes, str]:
        """Read all that is to be written to files; returns what has to be left, with reasons."""
        left = {}
        with self._naming("'git ckpt list' shows other checkpoints"):
            for action in plan.writes:
                after = action.after
                if after is None or not _changes_content(action):
                    continue
                try:
                    if not self._worktree.takes_names_of(action.path):
                        left[action.path] = "the file system takes no name that long"
                    if after.is_link and not self._is_link_possible(after):
                        left[action.path] = "no file system takes this link target"
                    self._smudger.check(after)
                except Unrestorable as error:
                    left[action.path] = str(error)
        return left

    def _is_link_possible(self, state: FileState) -> bool:
        objects = self._repo.objects
        if (objects.size(state.entry.id) or 0) > _LONGEST_LINK:
            return False
        target = objects.read(state.entry.id, b"blob")
        return bool(target) and b"\0" not in target

    def _check_staged(self, index: Index, now: Index, plan: Plan) -> None:
        """Read what the index shall name, and neither does at present nor is written to files: git
        would commit what is damaged, and find out later."""
        afters = [action.after for action in plan.writes if _changes_content(action)]
        read = {after.entry.id for after in afters if after is not None and after.origin is None}
        objects, target = self._repo.objects, self._target.checkpoint.id
        with self._naming(f"'git ckpt rollback --no-index {target}' leaves what is staged"):
            for blob in needed_blobs(index, now) - read:
                if objects.lacks(blob):
                    raise MissingObject(blob, "missing staged object")
                if objects.has(blob):  # else it is at the remote of a partial clone
                    objects.check(blob, b"blob")

    @contextmanager
    def _naming(self, way: str) -> Iterator[None]:
        """Say of a missing object whose it is, and what can be done without it."""
        try:
            yield
        except MissingObject as error:
            raise RollbackError(
                f"checkpoint '{self._target.checkpoint.id}' is damaged: {error.message}",
                hint=f"nothing was touched; {way}",
                details=error.details,
            ) from error

    def _unstaged(self, plan: Plan, now: Index, limits: tuple[bytes, ...]) -> dict[bytes, str]:
        """What the target has staged and stays out of the index, with the reasons. Of a foreign
        index, nothing gets in that is neither tracked nor held nor written here: git would take
        what is ignored for tracked, and checkpoints with it."""
        index = self._target.index
        hindered = below_files(index, now, limits) if limits else {}
        found = {p: f"'{to_str(f)}' is staged, so not staged" for p, f in hindered.items()}
        if not self._target.is_foreign:
            return found
        held = {entry.path for entry in now.entries} | {action.path for action in plan.writes}
        for path in {entry.path for entry in index.entries} - held - self._present.entries.keys():
            if not limits or is_within(path, limits):
                reason = plan.blocked.get(path, "not in this worktree")
                found[path] = f"{reason}, so not staged"
        return found

    def _is_staged(self) -> bool:
        """Whether the index is the target's."""
        target, entries = self._target, self._present.index_entries
        if target.is_foreign:
            return False
        return staging.is_stored(target.objects, target.state_tree, entries)


def _changes_content(action: Action) -> bool:
    before, after = action.before, action.after
    return before is None or after is None or before.entry.id != after.entry.id


def check_removals(plan: Plan, present: Present, consented: Container[bytes]) -> None:
    """Refuse to remove more than anyone is likely to mean."""
    most = len(plan.removals)
    if 2 * most <= present.least_files and most <= MAX_UNTRACKED_REMOVALS:
        return
    removed = [action.path for action in plan.removals if action.path not in consented]
    tracked = {entry.path for entry in present.staged.index.entries}
    untracked = [path for path in removed if path not in tracked]
    total = len(present.entries)
    if 2 * len(removed) > total or len(untracked) > MAX_UNTRACKED_REMOVALS:
        raise Refused(
            f"this rollback would remove {len(removed)} of {total} files",
            hint="look with --dry-run, then repeat the command with --yes",
            details={"removed": [to_str(path) for path in removed]},
        )


def check_locks(repo: Repository, move: HeadMove | None) -> None:
    """Refuse while git is at work with the index, or with a ref that is to move."""
    if not repo.owns_index:
        raise Refused(
            f"GIT_INDEX_FILE names another index: '{repo.env.get('GIT_INDEX_FILE')}'",
            hint="a rollback inside a git hook would change the index git is using",
        )
    files = [repo.index_path]
    if move is not None:
        ends = [end for other in move.others for end in (other.before, other.after)]
        comes_or_goes = None in (move.branch_before, move.after.commit, *ends)
        files += repo.refs.files_of(move.branches, removes=comes_or_goes)
    check_free(files, repo.private_dir, patience=_PATIENCE)
