# SPDX-License-Identifier: MIT
"""What a rollback is going to do, found out without touching anything.

The target is checked down to the last byte that will be needed, the present captured
and compared with it. What comes out is all that the rollback then carries out; a dry
run ends here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from ckpt.engine import head as operation
from ckpt.engine import journal, nested, scan_cache
from ckpt.engine.capture import Present, capture, index_state
from ckpt.engine.changes import Action, BranchMove, FileState, HeadMove
from ckpt.engine.conversions import Smudger, Unrestorable
from ckpt.engine.head import check_move, moved_besides, plan_move
from ckpt.engine.journal import is_interrupted
from ckpt.engine.plan import GIT_DIR, Decision, Plan, in_repositories, make_plan
from ckpt.engine.reading import NEVER
from ckpt.engine.recorded import Recorded
from ckpt.engine.restage import below_files, limited, needed_blobs, without
from ckpt.engine.rules import Included, scan_rules
from ckpt.engine.sessions import Write
from ckpt.errors import Busy, CkptError, Refused, RollbackError, disk_hint
from ckpt.git import index as staging
from ckpt.git.index import Index
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.operation import in_progress
from ckpt.git.record import Texts
from ckpt.git.refs import HeadMoved
from ckpt.git.repository import Repository
from ckpt.git.rules import IgnoreTree
from ckpt.locks import Waiting, check_free, clear_own_locks
from ckpt.models import SkipReason
from ckpt.paths import folders_above, is_within, read_plain_file, to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.write import Worktree

if TYPE_CHECKING:
    Stopped: TypeAlias = OSError | Busy | MissingObject

LONGEST_LINK = 4095
IMPOSSIBLE_LINK = "no file system takes this link target"
IMPOSSIBLE_NAME = "the file system takes no name that long"


def check_contents(
    target: str, objects: ObjectStore, plan: Plan, worktree: Worktree, smudger: Smudger
) -> dict[bytes, str]:
    """Read what is to be written to files; returns what has to be left, with the reasons."""
    lost = {}
    with _naming(target, "'git ckpt list' shows other checkpoints"):
        for action in plan.writes:
            if not worktree.takes_names_of(action.path):
                lost[action.path] = IMPOSSIBLE_NAME
            elif action.after is not None and not _can_be_made(objects, action.after):
                lost[action.path] = IMPOSSIBLE_LINK
            elif action.after is not None and _changes_content(action):
                try:
                    smudger.check(action.after)
                except Unrestorable as error:
                    lost[action.path] = str(error)
    return lost


def check_staged(
    target: str, objects: ObjectStore, index: Index, present: Index, plan: Plan
) -> None:
    """Read what the index shall name, and neither does at present nor is written to files: git
    would commit what is damaged, and find out later."""
    afters = [action.after for action in plan.writes if _changes_content(action)]
    read = {after.entry.id for after in afters if after is not None and after.origin is None}
    with _naming(target, f"'git ckpt rollback --no-index {target}' leaves what is staged"):
        for blob in needed_blobs(index, present) - read:
            if objects.lacks(blob):
                raise MissingObject(blob, "missing staged object")
            if objects.has(blob):  # else it is at the remote of a partial clone
                objects.check(blob, b"blob")


def _changes_content(action: Action) -> bool:
    before, after = action.before, action.after
    return before is None or after is None or before.entry.id != after.entry.id


def _can_be_made(objects: ObjectStore, state: FileState) -> bool:
    """False for a symbolic link that only a tree can hold, not a disk."""
    if not state.is_link:
        return True
    size = objects.size(state.entry.id)
    if size is not None and size > LONGEST_LINK:  # need not be read
        return False
    target = objects.read(state.entry.id, b"blob")
    return 0 < len(target) <= LONGEST_LINK and b"\0" not in target


@contextmanager
def _naming(target: str, way: str) -> Iterator[None]:
    """Say of a missing object whose it is, and what can be done without it."""
    try:
        yield
    except MissingObject as error:
        raise RollbackError(
            f"checkpoint '{target}' is damaged: {error.message}",
            hint=f"nothing was touched; {way}",
            details=error.details,
        ) from error


# -- Entries of somebody else's index that stay out of the index here

_NOT_STAGED = "so not staged"


def unstaged(
    index: Index, present: Present, plan: Plan, rules: Rules, limits: tuple[bytes, ...]
) -> dict[bytes, str]:
    """The paths of an index that stay out, each with the reason."""
    fold = rules.fold
    tracked = {fold(entry.path) for entry in present.staged.index.entries}
    written = {action.path for action in plan.writes}
    found = {}
    for path in {entry.path for entry in index.entries} - written:
        if fold(path) in tracked or (limits and not is_within(path, limits)):
            continue
        reason = None if present.entry(path) is not None else rules.why_hidden(path)
        if reason is not None:
            found[path] = f"{reason}, {_NOT_STAGED}"
    return found


def in_other_repositories(
    index: Index, present: Present, worktree: Worktree, limits: tuple[bytes, ...]
) -> dict[bytes, str]:
    """Those that stay out however much is trusted: tracked, they would be written into another
    repository by the next rollback."""
    paths = {e.path for e in index.entries if not limits or is_within(e.path, limits)}
    found = in_repositories(paths, present, worktree)
    return {path: f"{reason}, {_NOT_STAGED}" for path, reason in found.items()}


class Rules:
    """Those of the present, also for paths at which nothing is."""

    def __init__(
        self, repo: Repository, settings: Settings, present: Present, worktree: Worktree
    ) -> None:
        staged = present.staged if present.index.is_sparse else None
        self._rules = scan_rules(repo, settings, present.excludes, present.index, staged)
        self._present = present
        self._worktree = worktree
        self._top = os.fsencode(repo.worktree)
        ignore_case = self._rules.ignore_case
        self._ignore = IgnoreTree(self._rules.ignore, self._read, ignore_case=ignore_case)
        self._included = Included(settings.include, ignore_case)

    def fold(self, path: bytes) -> bytes:
        return path.lower() if self._rules.ignore_case else path

    def why_hidden(self, path: bytes) -> str | None:
        """Why no checkpoint would hold a path that is not tracked; None if one would."""
        if is_within(path, tuple(self._rules.git_dirs)):
            return GIT_DIR
        skipped = self._present.skipped
        for place in (path, *folders_above(path)):
            if place in skipped:
                return str(skipped[place])
        return self._by_pattern(path)

    def _by_pattern(self, path: bytes) -> str | None:
        is_folder = self._is_folder(path)
        if self._ignore.ignored(path, is_folder):
            is_taken = self._included.takes(path, is_folder, self._ignore)
            return None if is_taken else "ignored"
        deny = self._rules.deny
        denied = deny.ignored(path, is_folder) or any(
            deny.ignored(folder, True) for folder in folders_above(path)
        )
        return str(SkipReason.DENIED) if denied else None

    def _is_folder(self, path: bytes) -> bool:
        try:
            status = self._worktree.lstat(path)
        except OSError:
            return False
        return status is not None and stat.S_ISDIR(status.st_mode)

    def _read(self, folder: bytes) -> bytes | None:
        path = os.path.join(folder, b".gitignore")
        text = read_plain_file(os.path.join(self._top, path))
        return self._rules.absent_ignore_files.get(path) if text is None else text


# -- When a rollback does not begin, and what it says when it stops half way

MAX_UNTRACKED_REMOVALS = 1000
# An editor's `git status` may hold a lock for a moment.
_PATIENCE = 0.5
_RECOVERY = (
    "'git ckpt rollback --continue' finishes it, "
    "'git ckpt rollback --abort' returns to the state before it"
)


def check_ready(repo: Repository) -> None:
    """Refuse to begin while something else is at work, or was and did not finish."""
    if journal.exists(repo.private_dir):
        raise _unfinished()
    journal.check_memory(repo.private_dir)
    clear_locks(repo)
    check_locks(repo, None)


def check_ended(repo: Repository) -> None:
    """Refuse if a rollback died here; for who does not hold the worktree's lock."""
    if is_interrupted(repo.private_dir):
        raise _unfinished()


def _unfinished() -> Refused:
    return Refused("a rollback was interrupted in this worktree", hint=_RECOVERY)


def clear_locks(repo: Repository, *branches: bytes) -> None:
    """Take away what killed processes left locked of the index, HEAD, these branches and our own
    refs."""
    files = [repo.index_path, *repo.refs.lock_candidates(*branches)]
    for private_dir in {repo.private_dir, os.path.join(repo.common_dir, "ckpt")}:
        clear_own_locks(private_dir, files)


def check_locks(repo: Repository, move: HeadMove | None) -> None:
    """Refuse while git is at work with the index, or with a ref that is to move; one that it
    holds for a moment only is waited for."""
    if not repo.owns_index:
        raise Refused(
            f"GIT_INDEX_FILE names another index: '{repo.env.get('GIT_INDEX_FILE')}'",
            hint="a rollback inside a git hook would change the index git is using",
        )
    files = [repo.index_path]
    if move is not None:
        ends = [end for other in move.others for end in (other.before, other.after)]
        comes_or_goes = None in (move.branch_before, move.after.commit, *ends)
        files += repo.refs.files_of(branches_of(move), removes=comes_or_goes)
    check_free(files, repo.private_dir, patience=_PATIENCE)


@contextmanager
def telling_what_is_gone(repo: Repository) -> Iterator[None]:
    """Refuse with a way out where the index or HEAD names what the object store has not."""
    try:
        yield
    except MissingObject as error:
        from ckpt.engine.snapshot import refusal  # which few ever need

        raise refusal(repo) or error from None


def branches_of(move: HeadMove | None) -> list[bytes]:
    """The branches that a move of HEAD touches, or leaves."""
    if move is None:
        return []
    others = (other.branch for other in move.others)
    branches = (move.before.branch, move.after.branch, *others)
    return [branch for branch in branches if branch is not None]


def interrupted(error: Stopped) -> CkptError:
    """Why a rollback stopped half way, and how to go on."""
    kind, cause = _cause(error)
    return kind(f"the rollback stopped half way: {cause}", hint=_RECOVERY)


def not_begun(error: Stopped) -> CkptError:
    """Why a rollback could not even write its journal."""
    kind, cause = _cause(error)
    mend = disk_hint(error) if isinstance(error, OSError) else "wait for it to end"
    return kind(
        f"the rollback did not begin: {cause}",
        hint=f"nothing was touched; {mend}, then try again",
    )


def _cause(error: Stopped) -> tuple[type[Busy] | type[RollbackError], str]:
    if isinstance(error, Busy):
        return Busy, error.message
    if isinstance(error, CkptError):
        return RollbackError, error.message
    return RollbackError, error.strerror or str(error)


def check_removals(prepared: Prepared, consented: Container[bytes]) -> None:
    """Refuse to remove more than anyone is likely to mean."""
    plan, present = prepared.plan, prepared.present
    most = len(plan.removals)
    if 2 * most <= present.least_files and most <= MAX_UNTRACKED_REMOVALS:
        return
    removed = [a.path for a in plan.removals if a.path not in consented]
    tracked = {entry.path for entry in present.staged.index.entries}
    untracked = [path for path in removed if path not in tracked]
    total = len(present.entries)
    if 2 * len(removed) > total or len(untracked) > MAX_UNTRACKED_REMOVALS:
        raise Refused(
            f"this rollback would remove {len(removed)} of {total} files",
            hint="look with --dry-run, then repeat the command with --yes",
            details={"removed": [to_str(path) for path in removed]},
        )


# -- What a rollback is going to do, found out without touching anything

_BUDGETED = (SkipReason.OVERSIZE, SkipReason.BUDGET)


@dataclass(frozen=True, slots=True)
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


@dataclass(slots=True)
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
            from ckpt.engine.head import check_objects

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
            from ckpt.engine import state as state_files

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
        index_state(objects, present)

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
        from ckpt.engine.plan import decide
        from ckpt.engine.sessions import look

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
        """Whether the index is the target's."""
        target, state = self._target, present.index_state
        if state is None:
            return False
        return state.is_in(target.objects, target.state_tree)
