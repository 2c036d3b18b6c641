# SPDX-License-Identifier: MIT
"""Finish an interrupted rollback, or go back to the state before it.

Both directions are the same work: the journal's actions, forwards or reversed, applied
to whatever is there now. Each path is first compared with both states. Where something
is neither, a person or a program worked on after the crash, and the present is saved as
another safety checkpoint before anything is touched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ckpt.engine import journal
from ckpt.engine.apply import Applier, look
from ckpt.engine.capture import capture
from ckpt.engine.catalog import Catalog
from ckpt.engine.head import head_report, move_head
from ckpt.engine.journal import Action, FileState, HeadMove, Journal
from ckpt.engine.recorded import Recorded
from ckpt.engine.restage import limited, restage
from ckpt.engine.rollback import UNDO, check_index_free, finish
from ckpt.engine.snapshot import LOCK_TIMEOUT, SaveRequest, write
from ckpt.errors import RollbackError
from ckpt.models import Checkpoint, Kind, RollbackResult, Skipped
from ckpt.paths import folders_of, to_str
from ckpt.settings import Settings
from ckpt.store import staging
from ckpt.store.index import Index
from ckpt.store.lock import clear_own_locks, worktree_lock
from ckpt.store.objects import ObjectID
from ckpt.store.repository import Repository
from ckpt.worktree.write import Worktree


def resume(repo: Repository, settings: Settings) -> RollbackResult:
    """`rollback --continue`: reach the target after all."""
    return _recover(repo, settings, forwards=True)


def abort(repo: Repository, settings: Settings) -> RollbackResult:
    """`rollback --abort`: return to the safety checkpoint."""
    return _recover(repo, settings, forwards=False)


def _recover(repo: Repository, settings: Settings, *, forwards: bool) -> RollbackResult:
    with (
        worktree_lock(repo.private_dir, exclusive=True, timeout=LOCK_TIMEOUT),
        Worktree(os.fsencode(repo.worktree)) as worktree,
    ):
        record = journal.read(repo.private_dir)
        try:
            return _Recovery.open(repo, settings, record, worktree, forwards).go()
        except BaseException:
            repo.objects.discard()
            raise


@dataclass(frozen=True)
class _Recovery:
    repo: Repository
    settings: Settings
    record: Journal
    worktree: Worktree
    forwards: bool
    origin: Recorded
    goal: Recorded
    saved: set[bytes] = field(default_factory=set)

    @classmethod
    def open(
        cls,
        repo: Repository,
        settings: Settings,
        record: Journal,
        worktree: Worktree,
        forwards: bool,
    ) -> _Recovery:
        catalog = Catalog(repo)
        safety = Recorded(repo, catalog.get(record.safety))
        target = Recorded(repo, catalog.get(record.target))
        origin, goal = (safety, target) if forwards else (target, safety)
        return cls(repo, settings, record, worktree, forwards, origin, goal)

    def go(self) -> RollbackResult:
        repo, record = self.repo, self.record
        branches = (record.head.before.branch, record.head.after.branch) if record.head else ()
        clear_own_locks(repo.private_dir, [repo.index_path, *repo.refs.lock_candidates(*branches)])
        check_index_free(repo)
        self._clear_temporaries()
        late = self._save_strangers()
        actions = record.actions if self.forwards else _reversed(record.actions)
        applier = Applier(repo.objects, self.worktree, None, self._save_first)
        applier.files(actions, self._folders_to_remove())
        applier.folders(self._folders_to_make())
        applier.sync()
        if record.index:
            self._restage(applier)
        before = repo.refs.head()
        move = self._move()
        if move is not None:
            move_head(repo, move, self.goal.checkpoint.id)
        self._finish()
        return RollbackResult(
            target=self.goal.checkpoint,
            safety=late if late is not None else self._safety(),
            written=tuple(map(to_str, applier.done.written)),
            removed=tuple(map(to_str, applier.done.removed)),
            skipped=tuple(
                Skipped(to_str(path), reason)
                for path, reason in sorted(applier.done.blocked.items())
            ),
            index_changed=record.index,
            head=head_report(repo, before, self.goal, move),
            undo_command=UNDO if self.forwards else None,
        )

    def _safety(self) -> Checkpoint:
        return (self.origin if self.forwards else self.goal).checkpoint

    def _clear_temporaries(self) -> None:
        for folder in {action.path.rpartition(b"/")[0] for action in self.record.actions}:
            self.worktree.clear_temporaries(folder)

    def _save_strangers(self) -> Checkpoint | None:
        """Save the present if any of it is neither the state before nor the one wanted."""
        strangers = [a.path for a in self.record.actions if self._is_strange(a)]
        self.saved.update(strangers)
        if not strangers and not self._index_is_strange() and not self._head_is_strange():
            return None
        return self._save(strangers)

    def _save(self, strangers: list[bytes]) -> Checkpoint:
        present = capture(self.repo, self.settings, self.repo.objects, force=tuple(strangers))
        request = SaveRequest(
            kind=Kind.SAFETY,
            trigger="recovery",
            description="Changes made after a rollback was interrupted.",
            keep=self._branch_to_keep(),
        )
        saved = write(self.repo, present, request).checkpoint
        missing = [path for path in strangers if path in present.skipped]
        if saved is None or missing:
            raise RollbackError(
                f"cannot save '{to_str(missing[0])}' before it is overwritten"
                if missing
                else "the safety checkpoint was not made",
                hint="move it away, then repeat the command",
            )
        return saved

    def _save_first(self, path: bytes, _state: FileState, _status: os.stat_result) -> None:
        """A file may still change between the first look and its turn."""
        if path not in self.saved:
            self._save([path])

    def _is_strange(self, action: Action) -> bool:
        status = self.worktree.lstat(action.path)
        if status is None:
            return False
        try:
            found = look(self.repo.objects, self.worktree, action.path, status)
        except OSError:
            return True
        return found is not None and found not in (action.before, action.after)

    def _index_is_strange(self) -> bool:
        if not self.record.index:
            return False
        now = staging.read_staged(self.repo).index
        expected = (self._index_of(self.goal), self._index_of(self.origin))
        return not any(staging.same(now, index) for index in expected)

    def _index_of(self, state: Recorded) -> Index:
        """What the index is in a state, where the rollback is limited to paths."""
        safety = self.origin if self.forwards else self.goal
        return limited(state.index, safety.index, self.record.paths)

    def _head_is_strange(self) -> bool:
        move = self.record.head
        return move is not None and self.repo.refs.head() not in (move.before, move.after)

    def _branch_to_keep(self) -> tuple[ObjectID, ...]:
        move = self.record.head
        branch = move.after.branch if move is not None else None
        commit = self.repo.refs.read(branch) if branch is not None else None
        return () if commit is None else (commit,)

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
        wanted = self._index_of(self.goal)
        staged = staging.read_staged(self.repo)
        if staging.same(wanted, staged.index):
            return
        restage(self.repo, wanted, staged, applier.known)

    def _move(self) -> HeadMove | None:
        """The move from wherever HEAD is now; what it leaves was saved if it was strange."""
        planned = self.record.head
        if planned is None:
            return None
        if self.forwards:
            branch = planned.after.branch
            now = self.repo.refs.read(branch) if branch is not None else None
            return HeadMove(self.repo.refs.head(), planned.after, now)
        self._put_branch_back(planned)
        branch = planned.before.branch
        now = self.repo.refs.read(branch) if branch is not None else None
        return HeadMove(self.repo.refs.head(), planned.before, now)

    def _put_branch_back(self, planned: HeadMove) -> None:
        """Aborting, the branch that the rollback went to returns to where it stood."""
        branch = planned.after.branch
        if branch is None or branch == planned.before.branch:
            return
        now = self.repo.refs.read(branch)
        if now == planned.after.commit and now != planned.branch_before:
            message = f"ckpt: rollback to {self.goal.checkpoint.id}".encode()
            self.repo.refs.move_branch(branch, now, planned.branch_before, message)

    def _finish(self) -> None:
        if self.forwards:
            finish(self.repo, self.record)
        else:
            journal.remove(self.repo.private_dir)


def _reversed(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    return tuple(action.reversed() for action in actions)
