# SPDX-License-Identifier: MIT
"""Finish an interrupted rollback, or go back to the state before it.

Both directions are the same work: the journal's actions, forwards or reversed, applied
to whatever is there now. Each path is first compared with both states; what is neither
(`strangers`) is saved as another safety checkpoint before anything is touched. Only the
checkpoint of the goal is needed: if the other one is gone, all that is not as in the goal
is strange.
"""

from __future__ import annotations

import os

from ckpt.engine import begun, journal, operation
from ckpt.engine.apply import Applier
from ckpt.engine.changes import Action, FolderChange, HeadMove
from ckpt.engine.conversions import Smudger
from ckpt.engine.head import (
    branches_to_return,
    head_report,
    move_head,
    move_other_branch,
    strayed,
)
from ckpt.engine.journal import Journal
from ckpt.engine.last_rollback import finish
from ckpt.engine.pending import FINISH, TAKE_BACK
from ckpt.engine.recorded import Recorded
from ckpt.engine.recovery_states import opened_edits, opened_goal, opened_other
from ckpt.engine.refusals import branches_of, check_locks, clear_locks
from ckpt.engine.restage import known_files, restage, until_settled
from ckpt.engine.rollback import UNDO
from ckpt.engine.rollback_report import listed
from ckpt.engine.snapshot import LOCK_TIMEOUT
from ckpt.engine.strangers import Strangers
from ckpt.engine.worktree_place import check_place
from ckpt.models import HEAD_FILE, Checkpoint, RollbackResult, Skipped
from ckpt.paths import folders_of, to_str
from ckpt.settings import Settings
from ckpt.store import staging
from ckpt.store.kernel_lock import Waiting, worktree_lock
from ckpt.store.repository import Repository
from ckpt.values import replace, value_class
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
) -> RollbackResult:
    lock = worktree_lock(repo.private_dir, exclusive=True, timeout=LOCK_TIMEOUT, waiting=waiting)
    with (
        lock,
        Worktree(os.fsencode(repo.worktree), repo.git_dirs) as worktree,
    ):
        smudger = Smudger(repo)
        record = journal.read(repo.private_dir)
        check_place(repo, record.worktree, FINISH if forwards else TAKE_BACK)
        worktree.rollback = record.name
        goal = opened_goal(repo, record, forwards)
        if not record.operation and not record.paths:
            comes_along = operation.comes_along(repo, goal, head=record.asked_head)
            record = replace(record, operation=comes_along)
        try:
            return _Recovery.open(repo, settings, record, worktree, smudger, goal, forwards).go()
        except BaseException:
            repo.objects.discard()
            raise


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
    ) -> _Recovery:
        def note(saved: Checkpoint) -> None:
            journal.note_edits(repo.private_dir, saved.id, saved.commit)

        other = opened_other(repo, record, forwards)
        target, safety = (goal, other) if forwards else (other, goal)
        if safety is not None:
            record = replace(record, actions=_between(safety, record.actions))
        earlier = opened_edits(repo, record)
        strangers = Strangers(repo, settings, worktree, record, safety, target, earlier, note)
        before = None if safety is None else safety.checkpoint
        return cls(repo, record, worktree, smudger, forwards, goal, before, strangers)

    def go(self) -> RollbackResult:
        repo, record = self.repo, self.record
        clear_locks(repo, *branches_of(record.head))
        check_locks(repo, record.head)
        actions = record.actions if self.forwards else _reversed(record.actions)
        folders = record.folders if self.forwards else _reversed(record.folders)
        applier = Applier(
            repo.objects, self.smudger, self.worktree, None, self.strangers.save_first, folders
        )
        applier.open_folders()  # somebody may have closed again what the rollback had opened
        begun.clear(repo, self.worktree, self.smudger, record.actions)
        restages = record.index or (record.asked_index and self._misleads())
        self.strangers.save_all(index=restages, head=self._stray() is None)
        if record.operation:
            operation.clear(repo)
        applier.files(actions, self._folders_to_remove())
        applier.folders(self._folders_to_make())
        applier.sync()
        restaged = restages and until_settled(lambda: self._restage(applier))
        move = self._move()  # read before anybody looks at it: from there it moves, or not at all
        left = self._left_head()
        if left is None:
            self.strangers.save_head()
        else:
            move = None
        before = repo.refs.head() if move is None else move.before
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
            kept=listed(record.kept if self.forwards else {}),
            skipped=(*listed(self._left(applier)), *([] if left is None else [left])),
            folders_changed=self._changes_folders(),
            index_changed=record.index or restaged,
            head=head_report(repo, before, self.goal, move),
            undo_command=UNDO if self.forwards else None,
        )

    def _left(self, applier: Applier) -> dict[bytes, str]:
        if not self.forwards:
            return applier.done.blocked
        return {**self.record.unstaged, **self.record.blocked, **applier.done.blocked}

    def _changes_folders(self) -> bool:
        changes = ((c.before, c.after) for c in self.record.folders)
        bits = any(None not in change and change[0] != change[1] for change in changes)
        return bits or bool(self.record.make_folders)

    def _folders_to_remove(self) -> tuple[bytes, ...]:
        if self.forwards:
            return self.record.remove_folders
        created = (a.path for a in self.record.actions if a.before is None)
        made = {*self.record.make_folders, *folders_of(self.record.make_folders)}
        made |= folders_of(created)
        kept = {*self.goal.manifest.empty_folders, *filter(self.goal.has_submodule, made)}
        return tuple(sorted(made - kept, key=len, reverse=True))

    def _folders_to_make(self) -> tuple[bytes, ...]:
        if self.forwards:
            return self.record.make_folders
        empty = set(self.goal.manifest.empty_folders)
        return tuple(folder for folder in self.record.remove_folders if folder in empty)

    def _restage(self, applier: Applier) -> bool:
        """Write the index; False if only its stat data were wrong, or nothing was."""
        staged = staging.read_staged(self.repo)
        wanted = self.strangers.index_of(self.goal, staged.index)
        changes = not staging.same(wanted, staged.index)
        if not changes and not self._misleads():
            return False
        self.strangers.save_index(staged.index)
        touched = {action.path for action in self.record.actions}
        known = known_files(self.worktree, self.goal, wanted, applier.known)
        restage(self.repo, wanted, staged, known, touched)
        return changes

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
            return operation.strayed(self.repo, self.goal) if self.record.operation else None
        return strayed(self.repo, planned, planned.after if self.forwards else planned.before)

    def _left_head(self) -> Skipped | None:
        """HEAD, if it stays where it is. An operation would go on from another commit than it
        should, and stays out with it; so does one that has ended where HEAD was not to move."""
        planned, reason = self.record.head, self._stray()
        if reason is None:
            may_differ = self.record.asked_head or self.record.paths
            ended = None if may_differ else operation.ended(self.repo, self.goal)
            return None if ended is None else Skipped(HEAD_FILE, ended)
        if planned is not None and not self.forwards:
            self._put_branches_back(planned, but=self.repo.refs.head().branch)
        wanted = self.goal.operation.files.operation if self.record.operation else None
        if wanted is not None:
            reason += f"; so the {wanted.name} is not put back"
        return Skipped(HEAD_FILE, reason)

    def _move(self) -> HeadMove | None:
        """The move from wherever HEAD is now."""
        planned, read = self.record.head, self.repo.refs.read
        if planned is None:
            return None
        wanted = planned.after if self.forwards else planned.before
        moves = planned.others if self.forwards else branches_to_return(planned)
        others = (other for other in moves if other.branch != wanted.branch)
        others = (other for other in others if read(other.branch) == other.before)
        now = read(wanted.branch) if wanted.branch is not None else None
        return HeadMove(self.repo.refs.head(), wanted, now, tuple(others))

    def _put_branches_back(self, planned: HeadMove, but: bytes | None) -> None:
        """Aborting, the branches that the rollback moved return to where they stood."""
        message = f"ckpt: rollback to {self.goal.checkpoint.id}".encode()
        for moved in branches_to_return(planned):
            if moved.branch != but:
                move_other_branch(self.repo, moved, message)

    def _finish(self, applier: Applier, move: HeadMove | None, *, has_head: bool) -> None:
        if self.forwards:
            record, saved = self.record, self.strangers.checkpoint
            if saved is not None:  # an undo returns to what there was before this
                state = Recorded(self.repo, saved)
                record = replace(
                    record,
                    safety=saved.id,
                    safety_commit=saved.commit,
                    actions=_between(state, record.actions),
                    head=self._move_since(state, move),
                )
            if not has_head:
                record = replace(record, head=None, asked_head=False)
            finish(self.repo, record, applier.done)
        else:
            journal.take_back(self.repo.private_dir)

    def _move_since(self, saved: Recorded, move: HeadMove | None) -> HeadMove | None:
        """How HEAD has moved since a state was saved: as it did now, unless that was saved before
        some of it was done."""
        since = move if self.strangers.is_of_the_start else self.record.head
        return None if since is None else replace(since, before=saved.head)


def _between(safety: Recorded, actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """Actions that begin at the safety checkpoint, which may be later than the plan: what
    changed while the rollback ran was saved in another one."""
    return tuple(replace(action, before=safety.file_at(action.path)) for action in actions)


def _reversed(changes: tuple[_Change, ...]) -> tuple[_Change, ...]:
    return tuple(change.reversed() for change in changes)
