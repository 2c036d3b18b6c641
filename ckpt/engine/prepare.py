# SPDX-License-Identifier: MIT
"""What a rollback is going to do, found out without touching anything.

The target is checked down to the last byte that will be needed, the present captured
and compared with it. What comes out is all that the rollback then carries out; a dry
run ends here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Mapping
from itertools import chain

from ckpt.engine import nested, operation, scan_cache
from ckpt.engine.capture import capture
from ckpt.engine.changes import BranchMove, HeadMove
from ckpt.engine.conversions import Smudger
from ckpt.engine.gather import NEVER
from ckpt.engine.head import check_move, moved_besides, plan_move
from ckpt.engine.index_state import index_state
from ckpt.engine.needed import check_contents, check_staged
from ckpt.engine.plan import Plan, make_plan
from ckpt.engine.present import Present
from ckpt.engine.recorded import Recorded
from ckpt.engine.refusals import check_ready, telling_what_is_gone
from ckpt.engine.restage import below_files, limited, without
from ckpt.errors import CkptError
from ckpt.models import SkipReason
from ckpt.paths import is_within, to_str
from ckpt.settings import Settings
from ckpt.store import staging
from ckpt.store.index import Index
from ckpt.store.objects import MissingObject
from ckpt.store.operation import in_progress
from ckpt.store.refs import HeadMoved
from ckpt.store.repository import Repository
from ckpt.values import field, value_class
from ckpt.worktree.write import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.engine.keep_edits import Decision
    from ckpt.engine.session_state import Write
    from ckpt.store.agent_state import Texts
    from ckpt.store.kernel_lock import Waiting

_BUDGETED = (SkipReason.OVERSIZE, SkipReason.BUDGET)


@value_class
class RollbackOptions:
    """`paths` limit the rollback; `consented` are paths whose removal needs no `yes`.

    When `undoing`, it is said what the rollback did that is taken back: files that it
    `created` go and those that it `replaced` come back, also where they are ignored now, and
    branches that it moved besides HEAD's are `returning`. The safety checkpoint that it made is
    `known` by its commit, whatever else tells what was made here.

    With a `ledger`, only what the agent wrote and nobody changed since goes back.

    With `trust`, a checkpoint that others made is taken for one that was made here.

    `state` is what the safety checkpoint shall hold of tracked objects; if the caller
    `moves_state`, one is taken even if no file changes. `waiting` is told if another process
    holds the lock for long.
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
    trust: bool = False
    ledger: Mapping[bytes, Write] | None = None
    state: Texts = field(default_factory=dict)
    moves_state: bool = False
    progress: Callable[[int, int], None] | None = None
    waiting: Waiting | None = None


@value_class(frozen=False)
class Prepared:
    """What a rollback is going to do; nothing is touched yet.

    `index` is the wanted one; None if nothing is asked of it, or if it is staged already.
    `paths` are the only ones that change, or none if all may. `unstaged` are those that the
    target has staged and the wanted index does not, with the reasons.
    """

    present: Present
    plan: Plan
    index: Index | None
    move: HeadMove | None
    changes_index: bool
    changes_operation: bool
    paths: tuple[bytes, ...] = ()
    unstaged: Mapping[bytes, str] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        changes = self.changes_index or self.changes_operation or self.move is not None
        return self.plan.is_empty and not changes


class Preparation:
    """Looks at the target and the present; the caller holds the lock."""

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
        self._paths = options.paths

    def check(self) -> None:
        """Refuse what can be refused before the present is looked at."""
        check_ready(self._repo)
        if not self._is_trusted:
            from ckpt.engine import foreign

            foreign.check_target(self._target, head=self._options.head)
        self._check_target()

    @property
    def _is_trusted(self) -> bool:
        return not self._target.is_foreign or self._options.trust

    def prepare(self) -> Prepared:
        present, plan = self._look()
        index = None
        if self._options.index and not self._is_staged(present):
            index = limited(self._target.index, present.staged.index, self._paths)
        move = self._wanted_move(present)
        target, objects = self._target.checkpoint.id, self._repo.objects
        plan.leave(check_contents(target, objects, plan, self._worktree, self._smudger))
        if index is not None:
            check_staged(target, objects, index, present.staged.index, plan)
        unstaged = {} if index is None else self._unstaged(present, plan)
        if unstaged:
            wanted = without(self._target.index, unstaged)
            index = limited(wanted, present.staged.index, self._paths)
            plan.blocked = unstaged | plan.blocked
        changes_index = index is not None and not staging.same(index, present.staged.index)
        return Prepared(
            present,
            plan,
            index,
            move,
            changes_index,
            self._changes_operation(present),
            self._paths,
            unstaged,
        )

    def _unstaged(self, present: Present, plan: Plan) -> dict[bytes, str]:
        """What the target has staged and stays out of the index, with the reasons."""
        index, limits = self._target.index, self._paths
        hindered = below_files(index, present.staged.index, limits) if limits else {}
        found = {p: f"'{to_str(f)}' is staged, so not staged" for p, f in hindered.items()}
        if not self._target.is_foreign:
            return found
        from ckpt.engine.unstaged import Rules, in_other_repositories, unstaged

        if self._options.trust:
            return found | in_other_repositories(index, present, self._worktree, limits)
        rules = Rules(self._repo, self._settings, present, self._worktree)
        return found | unstaged(index, present, plan, rules, limits)

    def _check_target(self) -> None:
        target = self._target
        if self._options.head:
            check_move(self._repo, target)
            if target.is_foreign or not self._options.undoing:  # else it was so when it was saved
                self._check_operation()
        elif not self._options.paths:
            now = in_progress(self._repo.git_dir)
            operation.check_operation(
                now,
                target.manifest.operation,
                target.checkpoint.id,
                head_moved=self._repo.refs.head().commit != target.head.commit,
            )
        if not self._options.undoing:
            self._check_limits()

    def _check_operation(self) -> None:
        if self._target.operation.files.contents:
            from ckpt.engine.operation_objects import check_objects

            check_objects(self._repo.objects, self._target.operation)

    def _check_limits(self) -> None:
        """A path that neither state knows is a typing mistake."""
        for limit in self._options.paths:
            nested.check_limit(self._target, limit)
            if limit and not self._target_knows(limit) and self._worktree.lstat(limit) is None:
                raise CkptError(
                    f"pathspec '{to_str(limit)}' did not match any file of "
                    f"checkpoint '{self._target.checkpoint.id}'",
                    hint=f"git ckpt diff --name-status {self._target.checkpoint.id}",
                )

    def _target_knows(self, limit: bytes) -> bool:
        target = self._target
        if target.entry_at(limit) is not None:
            return True
        staged = (entry.path for entry in target.index.entries)
        known = chain(target.state_files, target.manifest.empty_folders, staged)
        return any(is_within(path, (limit,)) for path in known)

    def _look(self) -> tuple[Present, Plan]:
        created = frozenset(filter(self._is_file, self._options.created))
        ours = created | frozenset(filter(self._is_file, self._options.replaced))
        if self._target.state_files and self._is_trusted:
            from ckpt.engine import state_files

            limits = self._options.paths
            ours |= frozenset(state_files.existing(self._target, self._worktree, limits))
        present, plan = self._capture_and_plan(frozenset(), created)
        overwrite = self._options.overwrite_ignored
        force = frozenset(path for path in ours if present.entry(path) is None)
        if force:  # only with them can be told what else is in the way
            present, plan = self._capture_and_plan(force, created)
        more = self._unaffordable(plan, present) | (plan.obstacles if overwrite else set())
        if not more <= force:
            force |= more
            present, plan = self._capture_and_plan(force, ours | force if overwrite else created)
        return present, plan

    def _unaffordable(self, plan: Plan, present: Present) -> set[bytes]:
        """What a budget left out and the plan is about: the safety checkpoint takes it.

        That is what stands in the way, and what was made since in such numbers that only
        a part of it would go.
        """
        in_the_way = {path for path in plan.obstacles if present.skipped.get(path) in _BUDGETED}
        limits = self._paths
        return in_the_way | {
            path
            for path, reason in present.skipped.items()
            if reason is SkipReason.BUDGET
            and (not limits or is_within(path, limits))
            and self._target.left_out(path) is None
        }

    def _is_file(self, path: bytes) -> bool:
        try:
            status = self._worktree.lstat(path)
        except PermissionError:
            return False
        return status is not None and not stat.S_ISDIR(status.st_mode)

    def _capture_and_plan(
        self, force: frozenset[bytes], given_up: frozenset[bytes]
    ) -> tuple[Present, Plan]:
        try:
            return self._captured_and_planned(force, given_up)
        except MissingObject:  # maybe one that only the cache names, and that can be made again
            scan_cache.forget(self._repo)
            with telling_what_is_gone(self._repo), self._repo.objects.wary():
                return self._captured_and_planned(force, given_up)

    def _captured_and_planned(
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
            cache=scan_cache.load(self._repo),
            clock=NEVER if options.dry_run else scan_cache.clock(self._repo),
            reads_index=False,
        )
        tree = present.tree(objects)
        index_state(objects, present, tree)

        def plan(paths: tuple[bytes, ...]) -> Plan:
            target, worktree = self._target, self._worktree
            undone = options.created | options.replaced
            return make_plan(present, tree, target, objects, worktree, paths, given_up, undone)

        planned = plan(options.paths)
        if options.ledger is not None:
            decision = self._decide(planned, options.ledger)
            self._paths = decision.limits
            kept = planned.kept | decision.kept
            planned = plan(self._paths)
            planned.kept |= kept
        return present, planned

    def _decide(self, plan: Plan, ledger: Mapping[bytes, Write]) -> Decision:
        """Whose the changes of a plan are. State files go back with the state they belong to."""
        from ckpt.engine.keep_edits import decide
        from ckpt.engine.session_state import look

        top = os.fsencode(self._repo.worktree)
        limits = self._options.paths
        written = ledger
        if limits:
            written = {path: write for path, write in ledger.items() if is_within(path, limits)}
        return decide(
            {action.path for action in plan.actions},
            written,
            lambda path: look(os.path.join(top, path)),
            [path for path in self._target.state_files if not limits or is_within(path, limits)],
            {action.path for action in plan.removals},
        )

    def _wanted_move(self, present: Present) -> HeadMove | None:
        if not self._options.head:
            return None
        returning = self._options.returning
        move = plan_move(self._repo, present, self._target, returning)
        if self._repo.refs.head() != present.head:
            raise HeadMoved  # since it was looked at, and nothing was done yet
        if move is not None and not self._is_trusted:
            from ckpt.engine import foreign

            moving = (other.branch for other in moved_besides(move) if other not in returning)
            foreign.check_branches(self._target, moving)
        return move

    def _changes_operation(self, present: Present) -> bool:
        wanted = self._target.operation.files if self._options.head else present.operation.files
        return operation.differs(present.operation.files, wanted)

    def _is_staged(self, present: Present) -> bool:
        """Whether the index is the target's, and git believes nothing that is not so."""
        target, state = self._target, present.index_state
        if state is None or state.misleads:
            return False
        return state.is_in(target.objects, target.state_tree)
