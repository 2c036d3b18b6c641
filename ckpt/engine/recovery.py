# SPDX-License-Identifier: MIT
"""Finish an interrupted rollback, or go back to the state before it.

Both directions are the same work: the journal's actions, forwards or reversed, applied to
whatever is there now. One rule keeps what others did meanwhile: if anything is neither as in
the one state nor as in the other, the present goes into a new safety checkpoint first. Only the
checkpoint of the goal is needed; if the other one is gone, all that is not as in the goal counts
as unknown.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from ckpt.engine import head, journal, trash
from ckpt.engine.apply import (
    OPEN,
    Applier,
    Found,
    limited,
    look,
    restage,
    until_settled,
    without,
    writes_converted,
)
from ckpt.engine.capture import capture
from ckpt.engine.catalog import Catalog
from ckpt.engine.conversions import Smudger
from ckpt.engine.head import branches_to_return, head_report, move_head, strayed
from ckpt.engine.journal import ABORT, CONTINUE, Action, FileState, FolderChange, HeadMove, Journal
from ckpt.engine.prepare import check_locks
from ckpt.engine.recorded import Recorded, opened
from ckpt.engine.rollback import MOST_SAVES, UNDO, hold, listed
from ckpt.engine.snapshot import LOCK_TIMEOUT, SaveRequest, write
from ckpt.errors import CkptError, Refused, RollbackError
from ckpt.git import index as staging
from ckpt.git import record as made_here
from ckpt.git.formats import ObjectID
from ckpt.git.index import Index
from ckpt.git.record import Texts, tracked_text
from ckpt.git.refs import Head
from ckpt.git.repository import Repository
from ckpt.git.streams import UnreadableFile
from ckpt.locks import Waiting, worktree_lock
from ckpt.models import HEAD_FILE, REF_PREFIX, Checkpoint, Kind, RollbackResult, Skipped
from ckpt.paths import folders_of, to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.write import Worktree

_Change = TypeVar("_Change", Action, FolderChange)


def resume(repo: Repository, settings: Settings, waiting: Waiting | None = None) -> RollbackResult:
    """`rollback --continue`: reach the target after all."""
    return _recover(repo, settings, waiting, forwards=True)


def abort(repo: Repository, settings: Settings, waiting: Waiting | None = None) -> RollbackResult:
    """`rollback --abort`: return to the safety checkpoint."""
    return _recover(repo, settings, waiting, forwards=False)


def _recover(
    repo: Repository, settings: Settings, waiting: Waiting | None, *, forwards: bool
) -> RollbackResult:
    lock = worktree_lock(repo.private_dir, exclusive=True, timeout=LOCK_TIMEOUT, waiting=waiting)
    with lock, Worktree(os.fsencode(repo.worktree), repo.git_dirs) as worktree:
        record = journal.read(repo.private_dir)
        journal.check_place(repo, record.worktree, CONTINUE if forwards else ABORT)
        worktree.rollback = record.name
        goal = _opened_goal(repo, record, forwards)
        other = _opened_other(repo, record, forwards)
        if not record.operation and not record.paths:
            comes_along = head.comes_along(repo, goal, head=record.asked_head)
            record = replace(record, operation=comes_along)
        try:
            return _Recovery(repo, settings, record, worktree, goal, other, forwards).go()
        finally:
            repo.objects.discard()


# -- The two states


def open_ways(repo: Repository, record: Journal) -> tuple[str, ...]:
    """The commands that end a rollback, or bring back what that needs; none if all is gone."""
    ways = {CONTINUE: True, ABORT: False}
    there = tuple(way for way, forwards in ways.items() if _is_there(repo, record, forwards))
    lost = {item.checkpoint.id for item in trash.dropped(repo)} if not there else set()
    return there or tuple(
        f"git ckpt restore-dropped {name}"
        for name in (record.target, record.safety)
        if name in lost
    )


def _is_there(repo: Repository, record: Journal, forwards: bool) -> bool:
    """Whether the checkpoint of a way is there, and the one that it was."""
    name, known = _named(record, forwards)
    commit = repo.refs.checkpoint(name)
    return commit is not None and made_here.is_same(repo.common_dir, name, commit.decode(), known)


def _named(record: Journal, forwards: bool) -> tuple[str, str | None]:
    if forwards:
        return record.target, record.target_commit
    return record.safety, record.safety_commit


def _opened_goal(repo: Repository, record: Journal, forwards: bool) -> Recorded:
    """The state to go to; refused before anything is touched if it is not there any more."""
    name, known = _named(record, forwards)
    if _is_there(repo, record, forwards):
        goal = opened(repo, Catalog(repo).get(name), known if not forwards else None)
        if goal.is_foreign:
            from ckpt.engine import foreign

            foreign.check_target(goal, head=record.asked_head)
        if record.asked_head:
            head.check_operation_objects(goal)
        return goal
    needs = f"the interrupted rollback needs checkpoint '{name}', which"
    if name in {item.checkpoint.id for item in trash.dropped(repo)}:
        raise Refused(f"{needs} was dropped", hint=f"git ckpt restore-dropped {name}")
    other = ""
    if _is_there(repo, record, not forwards):
        other = f"'{ABORT}' returns to the state before" if forwards else ""
        other = other or f"'{CONTINUE}' finishes the rollback"
    aside = "'git ckpt doctor' tells how to give the rollback up, which leaves files as they are"
    if repo.refs.checkpoint(name) is None:
        hint = f"'git ckpt rescue' may find it; {other or aside}"
        raise Refused(f"{needs} is gone", hint=hint)
    ways = [bring_back_ref(repo, name, known), other]
    raise Refused(
        f"checkpoint '{name}' is another one by now than when the rollback began",
        hint="; ".join(filter(None, ways)) or aside,
    )


def bring_back_ref(repo: Repository, checkpoint_id: str, known: str | None) -> str | None:
    """How to put back the ref of a checkpoint whose commit is known and still here."""
    if known is None or repo.objects.kind(ObjectID(known.encode())) != b"commit":
        return None
    return f"'git update-ref {REF_PREFIX}{checkpoint_id} {known}' brings that one back"


def _opened_other(repo: Repository, record: Journal, forwards: bool) -> Recorded | None:
    """The state that is not gone to. Only compared with, it must not keep anyone from the goal."""
    if not _is_there(repo, record, not forwards):
        return None
    try:
        state = Recorded(repo, Catalog(repo).get(_named(record, not forwards)[0]))
        _, _, _ = state.manifest, state.index, state.operation
    except CkptError:
        return None
    return state


# -- The way from the one to the other


def _since(state: Recorded, actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """The same actions, begun at a state."""
    return tuple(action._replace(before=state.file_at(action.path)) for action in actions)


class _Recovery:
    """One recovery; the caller holds the worktree's lock.

    `saved` is the newest checkpoint of what was unknown; an index or a HEAD that is in one of
    them is not unknown any more.
    """

    def __init__(
        self,
        repo: Repository,
        settings: Settings,
        record: Journal,
        worktree: Worktree,
        goal: Recorded,
        other: Recorded | None,
        forwards: bool,
    ) -> None:
        self._repo = repo
        self._settings = settings
        self._worktree = worktree
        self._smudger = Smudger(repo)
        self._goal = goal
        self._forwards = forwards
        self._target: Recorded | None = goal if forwards else other
        self._safety: Recorded | None = other if forwards else goal
        self._written = record
        if self._safety is not None:  # later than the plan, if files changed while it ran
            record = replace(record, actions=_since(self._safety, record.actions))
        self._record = record
        self._saved: list[Recorded] = []
        self._start: Recorded | None = None  # what there was before this recovery
        self._has_edits = False

    def go(self) -> RollbackResult:
        repo, record = self._repo, self._record
        repo.refs.clear_dead()
        check_locks(repo, record.head)
        folders = self._directed(record.folders)
        applier = Applier(
            repo.objects, self._smudger, self._worktree, None, self._save_first, folders
        )
        applier.open_folders()  # somebody may have closed again what the rollback had opened
        self._clear_unfinished()
        converts = any(map(writes_converted, record.actions))
        restages = record.index or (record.asked_index and converts)
        self._save_unknown(restages)
        if record.operation:
            head.clear(repo)
        applier.files(self._directed(record.actions), self._folders_to_remove())
        applier.folders(self._folders_to_make())
        applier.sync()
        restaged = restages and until_settled(lambda: self._restage(applier, converts))
        move, left = self._move(), self._why_head_stays()  # read first: from there it moves
        before = repo.refs.head() if move is None or left else move.before
        if left is not None:
            move = None
        elif move is not None:
            if self._is_head_unknown():
                self._save([])
            move_head(repo, move, self._goal.checkpoint.id)
        if record.operation and left is None:
            head.install(repo, self._goal.operation)
        self._finish(applier, move, moves_head=left is None)
        return self._report(applier, restaged, before, move, left)

    def _directed(self, changes: tuple[_Change, ...]) -> tuple[_Change, ...]:
        return changes if self._forwards else tuple(change.reversed() for change in changes)

    def _finish(self, applier: Applier, move: HeadMove | None, *, moves_head: bool) -> None:
        if not self._forwards:
            journal.remove(self._repo.private_dir)
            return
        record, start = self._record, self._start
        # An undo returns to what there was before this, if that was neither of the two states.
        if start is not None and (self._has_edits or moves_head):
            saved = start.checkpoint
            record = replace(
                record,
                safety=saved.id,
                safety_commit=saved.commit,
                actions=_since(start, record.actions),
                head=None if move is None else move._replace(before=start.head),
            )
        if not moves_head:
            record = replace(record, head=None, asked_head=False)
        if record != self._written:
            journal.write(self._repo.private_dir, record)
        journal.complete(self._repo.private_dir, record, applier.done.blocked)

    def _report(
        self,
        applier: Applier,
        restaged: bool,
        before: Head,
        move: HeadMove | None,
        left: str | None,
    ) -> RollbackResult:
        record, done = self._record, applier.done
        safety = None if self._safety is None else self._safety.checkpoint
        saved = self._saved[-1].checkpoint if self._saved else None
        blocked = done.blocked
        if self._forwards:
            blocked = {**record.unstaged, **record.blocked, **done.blocked}
        bits = any(None not in (c.before, c.after) for c in record.folders if c.before != c.after)
        return RollbackResult(
            target=self._goal.checkpoint,
            safety=saved or safety,
            began_from=safety if self._forwards and saved is not None else None,
            written=tuple(map(to_str, done.written)),
            removed=tuple(map(to_str, done.removed)),
            kept=listed(record.kept if self._forwards else {}),
            skipped=(*listed(blocked), *([] if left is None else [Skipped(HEAD_FILE, left)])),
            folders_changed=bits or bool(record.make_folders),
            index_changed=record.index or restaged,
            head=head_report(self._repo, before, self._goal, move),
            undo_command=UNDO if self._forwards else None,
        )

    # -- folders, index and HEAD

    def _folders_to_remove(self) -> tuple[bytes, ...]:
        if self._forwards:
            return self._record.remove_folders
        created = (action.path for action in self._record.actions if action.before is None)
        folders = self._record.make_folders
        made = {*folders, *folders_of(folders), *folders_of(created)}
        made -= {*self._goal.manifest.empty_folders, *filter(self._goal.has_submodule, made)}
        return tuple(sorted(made, key=len, reverse=True))

    def _folders_to_make(self) -> tuple[bytes, ...]:
        if self._forwards:
            return self._record.make_folders
        empty = set(self._goal.manifest.empty_folders)
        return tuple(folder for folder in self._record.remove_folders if folder in empty)

    def _index_of(self, state: Recorded, now: Index) -> Index:
        """What the rollback makes the index in a state; outside its paths it stays."""
        index = state.index
        if state is self._target:
            index = without(index, self._record.unstaged)
        return limited(index, now, self._record.paths)

    def _restage(self, applier: Applier, converts: bool) -> bool:
        """Write the index; False if only its stat data were wrong, or nothing was."""
        staged = staging.read_staged(self._repo)
        wanted = self._index_of(self._goal, staged.index)
        changes = not staging.same(wanted, staged.index)
        if not (changes or converts):
            return False
        if self._is_index_unknown(staged.index):
            self._save([])
        restage(self._repo, wanted, staged, applier.known)
        return changes

    def _move(self) -> HeadMove | None:
        """The move from wherever HEAD is now."""
        planned, read = self._record.head, self._repo.refs.read
        if planned is None:
            return None
        wanted = planned.after if self._forwards else planned.before
        moves = planned.others if self._forwards else branches_to_return(planned)
        others = (m for m in moves if m.branch != wanted.branch and read(m.branch) == m.before)
        now = None if wanted.branch is None else read(wanted.branch)
        return HeadMove(self._repo.refs.head(), wanted, now, tuple(others))

    def _why_head_stays(self) -> str | None:
        """Why HEAD, its branch and the operation stay as they are, if they have to: somebody
        committed to that branch, or ended the operation."""
        record, goal = self._record, self._goal
        if record.head is not None:
            wanted = record.head.after if self._forwards else record.head.before
            reason = strayed(self._repo, record.head, wanted)
        elif record.operation:
            reason = head.strayed_operation(self._repo, goal)
        else:
            is_free = record.asked_head or record.paths
            return None if is_free else head.ended(self._repo, goal)
        operation = goal.operation.files.operation if record.operation else None
        if reason is not None and operation is not None:
            reason += f"; so the {operation.name} is not put back"
        return reason

    # -- what is neither as in the one state nor as in the other

    def _save_unknown(self, restages: bool) -> None:
        """Save the present if any of what is going to change is unknown."""
        record = self._record
        files = [action.path for action in record.actions if self._is_unknown(action)]
        states = [state for state in (self._safety, self._target) if state is not None]
        self._has_edits = bool(
            files
            or self._safety is None
            or (restages and self._is_index_unknown(staging.read_staged(self._repo).index))
            or any(map(self._is_folder_unknown, record.folders))
        )
        if (
            self._has_edits
            or (record.head is not None and self._is_head_unknown())
            or (
                record.operation
                and head.is_unknown(self._repo, *(state.operation.files for state in states))
            )
        ):
            self._save(files)
            self._start = self._saved[0]

    def _is_saved(self, path: bytes, state: FileState) -> bool:
        return any(saved.file_at(path) == state for saved in self._saved)

    def _is_unknown(self, action: Action) -> bool:
        try:
            found = self._at(action.path)
        except OSError:
            return True
        known = [] if self._safety is None else [action.before]
        known += [] if self._target is None else [action.after]
        return found is not None and found not in known

    def _at(self, path: bytes) -> FileState | None:
        """The file at a path, by its content."""
        status = self._worktree.lstat(path)
        if status is None:
            return None
        return look(self._repo.objects, self._worktree, path, status)

    def _is_index_unknown(self, now: Index) -> bool:
        states = (state for state in (self._safety, self._target) if state is not None)
        known = [*(self._index_of(state, now) for state in states)]
        known += [saved.index for saved in self._saved]
        return not any(staging.same(now, index) for index in known)

    def _is_head_unknown(self) -> bool:
        move, now = self._record.head, self._repo.refs.head()
        if move is None or any(saved.head == now for saved in self._saved):
            return False
        known = [] if self._safety is None else [move.before]
        return now not in known + ([] if self._target is None else [move.after])

    def _is_folder_unknown(self, change: FolderChange) -> bool:
        """Somebody set other permission bits; the owner's own were ours to set."""
        bits = self._worktree.folder_permissions(change.path)
        known = {own | OPEN for own in (change.before, change.after) if own is not None}
        return bits is not None and change.before is not None and bits | OPEN not in known

    def _save_first(self, found: Found) -> bool:
        """Save files that changed since they were first looked at."""
        unsaved = [path for path, (state, _) in found.items() if not self._is_saved(path, state)]
        if unsaved and len(self._saved) == MOST_SAVES:
            return False
        if unsaved:
            self._save(unsaved)
        if not all(self._is_saved(path, state) for path, (state, _) in found.items()):
            raise UnreadableFile.changing()  # what was saved is another content: look again
        return True

    def _save(self, paths: list[bytes]) -> None:
        """Save the present; `paths` are files that it has to hold."""
        repo = self._repo
        files = (action.path for action in self._record.actions)
        forced = tuple({*paths, *filter(self._is_file, files)})
        present = capture(repo, self._settings, repo.objects, force=forced)
        present, unreadable = hold(repo, self._worktree, present, forced)
        lacking = (p for p in paths if self._is_file(p) and present.entry(p) is None)
        for path in (*(p for p in paths if p in unreadable), *lacking):
            raise RollbackError(
                f"cannot save '{to_str(path)}' before it is overwritten",
                hint="move it away, then repeat the command",
            )
        move = self._record.head
        branches = () if move is None else tuple(map(repo.refs.read, move.branches))
        kept = {c for c in branches if c and c != present.head.commit and repo.objects.has(c)}
        request = SaveRequest(
            kind=Kind.SAFETY,
            trigger="recovery",
            description="Changes made after a rollback was interrupted.",
            keep=tuple(sorted(kept)),
            state=self._tracked(),
        )
        saved = write(repo, present, request).checkpoint
        assert isinstance(saved, Checkpoint), "a safety checkpoint always gets a ref"
        self._saved.append(Recorded(repo, saved))

    def _tracked(self) -> Texts:
        tracked = {} if self._safety is None else self._safety.checkpoint.tracked
        texts = (tracked_text(name, value) for name, value in tracked.items())
        return {path: text for each in texts for path, text in each.items()}

    def _is_file(self, path: bytes) -> bool:
        status = self._worktree.lstat(path)
        return status is not None and (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode))

    # -- temporary files of the rollback that died

    def _clear_unfinished(self) -> None:
        """Remove them."""
        for folder in {action.path.rpartition(b"/")[0] for action in self._record.actions}:
            with suppress(PermissionError):  # no save takes them, and files in there are listed
                for path in self._worktree.unfinished(folder):
                    self._worktree.discard(path)
