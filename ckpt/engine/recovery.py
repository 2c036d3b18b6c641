# SPDX-License-Identifier: MIT
"""Finish an interrupted rollback, or go back to the state before it.

Both directions are the same work: the journal's actions, forwards or reversed, applied
to whatever is there now. Each path is first compared with both states; what is neither
(`strangers`) is saved as another safety checkpoint before anything is touched. Only the
checkpoint of the goal is needed: if the other one is gone, all that is not as in the goal
is strange.

Repositories that went back together with this one go first, whatever has become of them:
the journal here holds theirs, and doing it all once more is harmless.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from ckpt.configure import load_forgiving
from ckpt.engine import family, journal, operation
from ckpt.engine.apply import Applier
from ckpt.engine.catalog import Catalog
from ckpt.engine.changes import Action, FileState, FolderChange, HeadMove
from ckpt.engine.head import (
    branches_to_return,
    head_report,
    move_head,
    move_other_branch,
    strayed,
)
from ckpt.engine.journal import Journal, NestedJournal
from ckpt.engine.last_rollback import finish
from ckpt.engine.nested import open_nested
from ckpt.engine.recorded import Recorded, file_state, opened
from ckpt.engine.refusals import branches_of, check_locks, clear_locks
from ckpt.engine.restage import known_files, restage
from ckpt.engine.rollback import UNDO
from ckpt.engine.rollback_report import listed
from ckpt.engine.smudging import Smudger
from ckpt.engine.snapshot import LOCK_TIMEOUT
from ckpt.engine.strangers import Strangers
from ckpt.engine.way_out import GoalGone, check_goal, instead, is_as_begun
from ckpt.errors import CkptError, Refused
from ckpt.models import HEAD_FILE, Checkpoint, NestedResult, RollbackResult, Skipped
from ckpt.paths import folders_of, to_bytes, to_str
from ckpt.settings import Settings
from ckpt.store import staging
from ckpt.store.kernel_lock import Waiting, worktree_lock
from ckpt.store.repository import Repository
from ckpt.store.trees import FOLDER, lookup
from ckpt.values import replace, value_class
from ckpt.worktree.reach import is_nested_repository
from ckpt.worktree.write import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _Change = TypeVar("_Change", Action, FolderChange)


def resume(repo: Repository, settings: Settings, waiting: Waiting | None = None) -> RollbackResult:
    """`rollback --continue`: reach the target after all."""
    return _recover(repo, settings, forwards=True, waiting=waiting)


def abort(repo: Repository, settings: Settings, waiting: Waiting | None = None) -> RollbackResult:
    """`rollback --abort`: return to the safety checkpoint."""
    return _recover(repo, settings, forwards=False, waiting=waiting)


def _recover(
    repo: Repository,
    settings: Settings,
    *,
    forwards: bool,
    waiting: Waiting | None = None,
    given: NestedJournal | None = None,
    place: str = "",
) -> RollbackResult:
    """`given` is the journal that a repository around this one has kept for it."""
    lock = worktree_lock(repo.private_dir, exclusive=True, timeout=LOCK_TIMEOUT, waiting=waiting)
    with (
        lock,
        Worktree(os.fsencode(repo.worktree), repo.git_dirs) as worktree,
        Smudger(repo) as smudger,
    ):
        if given is not None:
            _take_over(repo, given, forwards)
        record = journal.read(repo.private_dir)
        goal = _opened_goal(repo, record, forwards)
        nested, gone = _recover_nested(repo, record, forwards, place)
        try:
            recovery = _Recovery.open(
                repo, settings, record, worktree, smudger, goal, forwards, _before(nested)
            )
            result = recovery.go()
            return replace(result, nested=nested, skipped=(*result.skipped, *gone))
        except BaseException:
            repo.objects.discard()
            raise


def _take_over(repo: Repository, given: NestedJournal, forwards: bool) -> None:
    """Begin with the given journal, unless the rollback got as far as to write its own:
    that may know a later safety checkpoint."""
    if not journal.exists(repo.private_dir):
        check_goal(repo, journal.load(given.document), forwards=forwards)
        journal.rewrite(repo.private_dir, given)
    elif journal.read(repo.private_dir).family != given.document["family"]:
        raise Refused("another rollback was interrupted there", hint="git ckpt rollback --abort")


def _recover_nested(
    repo: Repository, record: Journal, forwards: bool, place: str
) -> tuple[tuple[NestedResult, ...], list[Skipped]]:
    """What became of the nested repositories, and those that are gone or new by now."""
    results, gone = [], []
    for given in record.nested:
        path = to_str(given.path)
        if not is_nested_repository(os.path.join(os.fsencode(repo.worktree), given.path)):
            gone.append(Skipped(path, "not there"))
            continue
        inside = os.path.join(place, path)
        try:
            with family.naming(inside), open_nested(repo, given.path) as nested:
                nested.check_writable()
                settings = load_forgiving(nested)
                result = _recover(nested, settings, forwards=forwards, given=given, place=inside)
                results.append(NestedResult(path, result))
        except GoalGone:  # it was cloned anew, say
            gone.append(Skipped(path, "its checkpoints are gone"))
    return tuple(results), gone


@value_class(slots=False)
class _Recovery:
    repo: Repository
    record: Journal
    worktree: Worktree
    smudger: Smudger
    forwards: bool
    goal: Recorded
    safety: Checkpoint | None
    strangers: Strangers

    @classmethod
    def open(
        cls,
        repo: Repository,
        settings: Settings,
        record: Journal,
        worktree: Worktree,
        smudger: Smudger,
        goal: Recorded,
        forwards: bool,
        nested: Mapping[bytes, Checkpoint],
    ) -> _Recovery:
        other = _opened_other(repo, record, forwards)
        target, safety = (goal, other) if forwards else (other, goal)
        if safety is not None:
            record = replace(record, actions=_between(safety, record.actions))
        strangers = Strangers(repo, settings, worktree, record, safety, target, nested)
        before = None if safety is None else safety.checkpoint
        return cls(repo, record, worktree, smudger, forwards, goal, before, strangers)

    def go(self) -> RollbackResult:
        repo, record = self.repo, self.record
        clear_locks(repo, *branches_of(record.head))
        check_locks(repo, record.head)
        self._clear_temporaries()
        self.strangers.save_all(head=self._stray() is None)
        if record.operation:
            operation.clear(repo)
        actions = record.actions if self.forwards else _reversed(record.actions)
        folders = record.folders if self.forwards else _reversed(record.folders)
        applier = Applier(
            repo.objects, self.smudger, self.worktree, None, self.strangers.save_first, folders
        )
        applier.files(actions, self._folders_to_remove())
        applier.folders(self._folders_to_make())
        applier.sync()
        if record.index or (record.asked_index and self._misleads()):
            self._restage(applier)
        left = self._left_head()
        if left is None:
            self.strangers.save_head()
        before = repo.refs.head()
        move = self._move() if left is None else None
        if move is not None:
            move_head(repo, move, self.goal.checkpoint.id)
        if record.operation and left is None:
            operation.install(repo, self.goal.operation)
        self._finish(applier, move, has_head=left is None)
        saved = self.strangers.checkpoint
        return RollbackResult(
            target=self.goal.checkpoint,
            safety=saved or self.safety,
            began_from=self.safety if self.forwards and saved is not None else None,
            written=tuple(map(to_str, applier.done.written)),
            removed=tuple(map(to_str, applier.done.removed)),
            skipped=(*listed(applier.done.blocked), *([] if left is None else [left])),
            folders_changed=self._changes_folders(),
            index_changed=record.index,
            head=head_report(repo, before, self.goal, move),
            undo_command=UNDO if self.forwards else None,
        )

    def _changes_folders(self) -> bool:
        changes = ((c.before, c.after) for c in self.record.folders)
        bits = any(None not in change and change[0] != change[1] for change in changes)
        return bits or bool(self.record.make_folders)

    def _clear_temporaries(self) -> None:
        for folder in {action.path.rpartition(b"/")[0] for action in self.record.actions}:
            self.worktree.clear_temporaries(folder)

    def _folders_to_remove(self) -> tuple[bytes, ...]:
        if self.forwards:
            return self.record.remove_folders
        created = (a.path for a in self.record.actions if a.before is None)
        made = {*self.record.make_folders, *folders_of(self.record.make_folders)}
        made |= folders_of(created)
        kept = set(self.goal.manifest.empty_folders)
        return tuple(sorted(made - kept, key=len, reverse=True))

    def _folders_to_make(self) -> tuple[bytes, ...]:
        if self.forwards:
            return self.record.make_folders
        empty = set(self.goal.manifest.empty_folders)
        return tuple(folder for folder in self.record.remove_folders if folder in empty)

    def _restage(self, applier: Applier) -> None:
        staged = staging.read_staged(self.repo)
        wanted = self.strangers.index_of(self.goal, staged.index)
        if staging.same(wanted, staged.index) and not self._misleads():
            return
        self.strangers.save_index(staged.index)
        touched = {action.path for action in self.record.actions}
        known = known_files(self.worktree, self.goal, wanted, applier.known)
        restage(self.repo, wanted, staged, known, touched)

    def _misleads(self) -> bool:
        """Whether git may go by stat data of before: a converted file of another size is
        changed to it, whatever it holds."""
        states = (s for action in self.record.actions for s in (action.before, action.after))
        converted = any(state is not None and state.origin is not None for state in states)
        return converted or staging.misleads(self.goal.index)

    def _stray(self) -> str | None:
        """Why HEAD and its branch have to stay where they are, if they have."""
        planned = self.record.head
        if planned is None:
            return None
        return strayed(self.repo, planned, planned.after if self.forwards else planned.before)

    def _left_head(self) -> Skipped | None:
        """HEAD, if it stays where it is. An operation would go on from another commit than it
        should, and stays out with it."""
        planned, reason = self.record.head, self._stray()
        if planned is None or reason is None:
            return None
        if not self.forwards:
            self._put_branches_back(planned, but=self.repo.refs.head().branch)
        wanted = self.goal.operation.files.operation if self.record.operation else None
        if wanted is not None:
            reason += f"; so the {wanted.name} is not put back"
        return Skipped(HEAD_FILE, reason)

    def _move(self) -> HeadMove | None:
        """The move from wherever HEAD is now; what it leaves was saved if it was strange."""
        planned = self.record.head
        if planned is None:
            return None
        if self.forwards:
            now = self.strangers.branch_now()
            read = self.repo.refs.read
            others = tuple(other for other in planned.others if read(other.branch) == other.before)
            return HeadMove(self.repo.refs.head(), planned.after, now, others)
        self._put_branches_back(planned)
        branch = planned.before.branch
        now = self.repo.refs.read(branch) if branch is not None else None
        return HeadMove(self.repo.refs.head(), planned.before, now)

    def _put_branches_back(self, planned: HeadMove, but: bytes | None = None) -> None:
        """Aborting, the branches that the rollback moved return to where they stood."""
        message = f"ckpt: rollback to {self.goal.checkpoint.id}".encode()
        for moved in branches_to_return(planned):
            if moved.branch != but:
                move_other_branch(self.repo, moved, message)

    def _finish(self, applier: Applier, move: HeadMove | None, *, has_head: bool) -> None:
        if self.forwards:
            record, saved = self.record, self.strangers.checkpoint
            if saved is not None:  # an undo returns to what there was before this
                actions = _between(Recorded(self.repo, saved), record.actions)
                record = replace(record, safety=saved.id, actions=actions, head=move)
            if not has_head:
                record = replace(record, head=None, asked_head=False)
            finish(self.repo, record, applier.done)
        else:
            journal.take_back(self.repo.private_dir)


def _before(nested: Iterable[NestedResult]) -> dict[bytes, Checkpoint]:
    """The states of the repositories in the worktree from before all this."""
    saved = {to_bytes(inside.path): inside.result.safety for inside in nested}
    return {path: safety for path, safety in saved.items() if safety is not None}


def _opened_goal(repo: Repository, record: Journal, forwards: bool) -> Recorded:
    """The state to go to, unless it is another one by now. A ref may have been fetched anew since
    the rollback began: git must not go by what it says now."""
    check_goal(repo, record, forwards=forwards)
    checkpoint = Catalog(repo).get(record.target if forwards else record.safety)
    if not forwards and checkpoint.commit == record.safety_commit:
        return Recorded(repo, checkpoint)  # which the rollback made itself
    trust = forwards and record.asked_trust and is_as_begun(repo, record, forwards)
    goal = opened(repo, checkpoint, trust)
    try:
        if goal.is_foreign and not trust:
            from ckpt.engine import foreign

            foreign.check_target(goal, head=record.asked_head)
        if goal.is_foreign and record.operation:
            from ckpt.engine.operation_objects import check_objects

            check_objects(goal.objects, goal.operation)
        if not is_as_begun(repo, record, forwards):
            raise Refused(
                f"checkpoint '{checkpoint.id}' is another one by now than when the rollback began"
            )
    except Refused as error:
        hint = instead(repo, record, forwards=forwards)
        raise Refused(error.message, hint=hint, details=error.details) from None
    return goal


def _opened_other(repo: Repository, record: Journal, forwards: bool) -> Recorded | None:
    """The state that is not gone to, if it is still that of then, and whole: only compared with,
    it must not keep anyone from the goal."""
    if not is_as_begun(repo, record, not forwards):
        return None
    try:
        checkpoint = Catalog(repo).get(record.safety if forwards else record.target)
        state = Recorded(repo, checkpoint)
        _, _, _ = state.manifest, state.index, state.operation
    except CkptError:
        return None
    return state


def _between(safety: Recorded, actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Actions that begin at the safety checkpoint, which may be later than the plan: what
    changed while the rollback ran was saved in another one."""
    modes = safety.manifest.modes

    def before(action: Action) -> FileState | None:
        entry = lookup(safety.objects, safety.tree, action.path)
        if entry is None or entry.mode == FOLDER or action.path in safety.absent:
            return None
        return file_state(action.path, entry, modes, safety.converted(action.path, entry))

    return tuple(replace(action, before=before(action)) for action in actions)


def _reversed(changes: tuple[_Change, ...]) -> tuple[_Change, ...]:
    return tuple(change.reversed() for change in changes)
