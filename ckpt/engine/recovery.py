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
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from stat import S_ISLNK, S_ISREG
from typing import TYPE_CHECKING, TypeVar

from ckpt.engine import head, journal
from ckpt.engine import head as operation
from ckpt.engine.apply import Applier, Found, look
from ckpt.engine.capture import Present, capture, sparse_entries, status_off_disk
from ckpt.engine.catalog import Catalog
from ckpt.engine.changes import Action, FileState, FolderChange, HeadMove
from ckpt.engine.conversions import Converted, Smudger, Unrestorable
from ckpt.engine.folders import OPEN
from ckpt.engine.head import branches_to_return, head_report, move_head, move_other_branch, strayed
from ckpt.engine.journal import FINISH, TAKE_BACK, Journal, check_place
from ckpt.engine.prepare import branches_of, check_locks, clear_locks
from ckpt.engine.recorded import Recorded, file_state, opened
from ckpt.engine.restage import (
    limited,
    needed_blobs,
    outside,
    restage,
    until_settled,
    without,
    writes_converted,
)
from ckpt.engine.rollback import MOST_SAVES, UNDO, finish, hold, listed
from ckpt.engine.snapshot import LOCK_TIMEOUT, SaveRequest, write
from ckpt.engine.way_out import check_goal, instead, is_as_begun, is_still
from ckpt.errors import CkptError, Refused, RollbackError
from ckpt.git import index
from ckpt.git import index as staging
from ckpt.git.formats import ObjectID
from ckpt.git.index import Index, Staged
from ckpt.git.objects import MissingObject, ObjectStore
from ckpt.git.record import Texts, tracked_text
from ckpt.git.refs import Head
from ckpt.git.repository import Repository
from ckpt.git.streams import UnreadableFile
from ckpt.git.trees import GITLINK
from ckpt.locks import Waiting, worktree_lock
from ckpt.models import HEAD_FILE, Checkpoint, Kind, RollbackResult, Skipped
from ckpt.paths import folders_above, folders_of, to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.write import Worktree, is_meant_for

if TYPE_CHECKING:
    Ours = Mapping[bytes, Collection[FileState | None]]
    _State = TypeVar("_State")
    _Change = TypeVar("_Change", Action, FolderChange)


def clear(
    repo: Repository, worktree: Worktree, smudger: Smudger, actions: tuple[Action, ...]
) -> None:
    """Remove it, unless it was tracked and edited since, or is somebody's own."""
    left = list(_left(worktree, actions))
    entries = index.read_staged(repo).index.entries if left else ()
    tracked = {entry.path: entry.id for entry in entries}
    for path, meant in left:
        with suppress(PermissionError):
            if path in tracked:
                state = _state(repo, worktree, path)
                is_ours = state is not None and state.entry.id == tracked[path]
            else:
                is_ours = _settle(repo, worktree, smudger, path, meant)
            if is_ours:
                worktree.discard(path)


def _left(
    worktree: Worktree, actions: tuple[Action, ...]
) -> Iterator[tuple[bytes, tuple[Action, ...]]]:
    """Each of these files, and what it may have been meant for."""
    for folder in {action.path.rpartition(b"/")[0] for action in actions}:
        with suppress(PermissionError):  # no save takes them, and files in there are listed
            for path in worktree.unfinished(folder):
                yield path, tuple(action for action in actions if _is_for(path, action))


def _is_for(unfinished: bytes, action: Action) -> bool:
    folder, _, name = action.path.rpartition(b"/")
    within, _, its_name = unfinished.rpartition(b"/")
    return folder == within and is_meant_for(its_name, name)


def _settle(
    repo: Repository,
    worktree: Worktree,
    smudger: Smudger,
    path: bytes,
    meant: tuple[Action, ...],
) -> bool:
    """Whether such a file may go; one that may not gets its name back, if that can be."""
    if not meant or _is_known(repo, worktree, smudger, path, meant):
        return True
    action = meant[0]
    if worktree.lstat(action.path) is not None:
        there = _state(repo, worktree, action.path)
        if there is None or there not in (action.before, action.after):
            return False
    with suppress(FileExistsError):
        worktree.put_back(path, action.path)
    return _is_known(repo, worktree, smudger, path, meant)


def _is_known(
    repo: Repository,
    worktree: Worktree,
    smudger: Smudger,
    path: bytes,
    meant: tuple[Action, ...],
) -> bool:
    """Whether it is gone, or is as one of the two states has it, or as far as it was written."""
    found = _state(repo, worktree, path)
    if found is None:
        return worktree.lstat(path) is None
    for action in meant:
        for state in (action.before, action.after):
            if state is None or found.is_link != state.is_link:
                continue
            if found.entry.id == state.entry.id:
                return True
            if not found.is_link and _begins(worktree, path, smudger.pieces(state)):
                return True
    return False


def _begins(worktree: Worktree, path: bytes, pieces: Iterable[bytes]) -> bool:
    """Whether a file has nothing but the beginning of a content."""
    with worktree.open(path) as file, suppress(MissingObject, Unrestorable):
        for piece in pieces:
            part = file.read(len(piece))
            if part != piece:
                return piece.startswith(part)
        return not file.read(1)
    return False


def _state(repo: Repository, worktree: Worktree, path: bytes) -> FileState | None:
    """What a path holds; None also if it is no file, or cannot be read."""
    try:
        status = worktree.lstat(path)
        return None if status is None else look(repo.objects, worktree, path, status)
    except OSError:
        return None


# -- What was saved before of an interrupted rollback, carried over into what is saved now


def carry_files(earlier: Recorded, present: Present, record: Journal, ours: Ours) -> None:
    """Have the present hold what there was at the paths of `ours`, and in folders around them."""
    changed = _changed(earlier, present, ours)
    for path in changed:
        present.drop(path)
    for path, state in changed.items():
        if state is not None:
            _put(earlier.objects, present, path, state)
    _carry_folders(earlier, present, record, changed)


def _changed(earlier: Recorded, present: Present, ours: Ours) -> dict[bytes, FileState | None]:
    """What there was where we have changed it since, so far as it can be there together with
    what others have put into the worktree."""
    were = dict(_replaced(earlier, present, ours))
    others = {*present.entries, *present.skipped} - were.keys()
    folders = folders_of(others)

    def fits(path: bytes) -> bool:
        return path not in folders and others.isdisjoint(folders_above(path))

    return {path: then for path, then in were.items() if then is None or fits(path)}


def _replaced(
    earlier: Recorded, present: Present, ours: Ours
) -> Iterator[tuple[bytes, FileState | None]]:
    modes = present.modes
    for path in ours.keys() - present.skipped.keys() - earlier.manifest.skipped.keys():
        entry = None if path in present.absent else present.entries.get(path)
        now = file_state(path, entry, modes, present.converted.get(path))
        then = earlier.file_at(path) if now in ours[path] else now
        if then != now and (then is None or _is_held(earlier.objects, then)):
            yield path, then


def _is_held(objects: ObjectStore, state: FileState) -> bool:
    """Whether it can be held once more; the checkpoint that holds it may be damaged."""
    is_raw = state.origin is not None and not state.origin.in_lfs
    needed = {state.git_entry.id, *([state.entry.id] if is_raw else ())}
    return state.entry.mode != GITLINK and all(map(objects.has, needed))


def _put(objects: ObjectStore, present: Present, path: bytes, state: FileState) -> None:
    mode = stat.S_IFLNK | 0o777 if state.is_link else stat.S_IFREG | state.permissions
    present.entries[path] = state.git_entry
    present.stats[path] = status_off_disk(mode, _size(objects, state))
    if state.origin is not None:
        present.converted[path] = Converted(state.entry.id, state.origin.in_lfs)


def _size(objects: ObjectStore, state: FileState) -> int:
    """So many bytes it had on disk, by which git may judge it."""
    return objects.size(state.entry.id) or 0


def _carry_folders(
    earlier: Recorded, present: Present, record: Journal, changed: Collection[bytes]
) -> None:
    """Folders with nothing in them, and the bits of all; the files are in their places."""
    empty = _empty_folders(earlier, present, record)
    left = {*present.empty_folders} - empty
    there = folders_of({*present.entries, *present.skipped, *empty}) | empty
    gone = (left | folders_of({*changed, *left})) - there
    bits = {folder: own for folder, own in present.folders.items() if folder not in gone}
    ours = {change.path for change in record.folders if _is_put_there(change, bits)}
    for folder in there & ours | there - bits.keys():
        then = earlier.manifest.modes.of_folder(folder) if earlier.has_folder(folder) else None
        if then is not None:
            bits[folder] = then
    if empty != {*present.empty_folders} or bits != present.folders:
        present.empty_folders, present.folders = tuple(sorted(empty)), bits
        present.mark_edited()


def _empty_folders(earlier: Recorded, present: Present, record: Journal) -> set[bytes]:
    """Those that there were, so far as a rollback makes or empties them, and all others."""
    ours = {*record.make_folders, *record.remove_folders}
    ours |= folders_of({*ours, *(action.path for action in record.actions)})
    empty = {f for f in present.empty_folders if f not in ours or earlier.has_folder(f)}
    empty |= ours.intersection(earlier.manifest.empty_folders)
    others = {*present.entries, *present.skipped}
    taken = others | folders_of(others)
    free = {f for f in empty - taken if others.isdisjoint(folders_above(f))}
    return free - folders_of(free)


def _is_put_there(change: FolderChange, bits: Mapping[bytes, int]) -> bool:
    """Whether a folder has the bits of one of the states; the owner's own were ours to set."""
    now = bits.get(change.path)
    ours = {own | OPEN for own in (change.before, change.after) if own is not None}
    return now is not None and now | OPEN in ours


def holds_git(earlier: Recorded, present: Present) -> bool:
    """Whether what was staged, and the commit at HEAD, can be held once more."""
    objects, head = earlier.objects, earlier.head.commit
    needed = needed_blobs(earlier.index, present.staged.index)
    is_staged = objects.is_partial or not objects.missing(needed)
    return is_staged and (head is None or objects.has(head))


def carry_index(earlier: Recorded, present: Present, limits: tuple[bytes, ...]) -> None:
    """Have the present hold what was staged; outside the limits, what is staged now."""
    index = limited(earlier.index, present.staged.index, limits)
    present.restage(Staged(index, present.index.mtime_ns))
    is_sparse = any(entry.skip_worktree for entry in index.entries)
    present.index = replace(present.index, is_sparse=is_sparse)


def carry_head(earlier: Recorded, present: Present) -> None:
    """Have the present hold where HEAD was."""
    present.head = earlier.head
    present.cache = None


def leave_out_sparse(present: Present) -> None:
    """Have the present hold what a sparse checkout leaves out, by the index that it has now."""
    if present.absent or present.index.is_sparse:
        on_disk = {p: e for p, e in present.entries.items() if p not in present.absent}
        present.absent = sparse_entries(on_disk, present.staged, present.skipped)
        present.entries = on_disk | present.absent
        present.mark_edited()


# -- What is neither the state before an interrupted rollback nor the one that it was to reach


class Strangers:
    """Finds and saves them; what was saved once is no stranger any more, also if that was done
    by a recovery that was interrupted (`earlier`).

    `checkpoint` is the last that holds any, and `note` is told of each before anything changes.
    It `is_of_the_start` if nothing was changed or saved before this recovery began to save.
    """

    def __init__(
        self,
        repo: Repository,
        settings: Settings,
        worktree: Worktree,
        record: Journal,
        safety: Recorded | None,
        target: Recorded | None,
        earlier: Recorded | None,
        note: Callable[[Checkpoint], None],
    ) -> None:
        self._repo = repo
        self._settings = settings
        self._worktree = worktree
        self._record = record
        self._safety = safety
        self._target = target
        self._earlier = earlier
        self._note = note
        self._indexes: list[Index] = [] if earlier is None else [earlier.index]
        self._heads: list[Head] = [] if earlier is None else [earlier.head]
        self._branches: list[ObjectID | None] = []
        self._restages = False
        self._is_under_way = False
        self._times = 0
        self.is_of_the_start = False
        self.checkpoint = None if earlier is None else earlier.checkpoint

    def save_all(self, *, index: bool, head: bool) -> None:
        """Save the present if any of it is strange, or if no checkpoint of it is left. An index
        or a HEAD that is going to stay as it is (not `index`, not `head`) need not be saved."""
        record = self._record
        self._restages = index
        files = [action.path for action in record.actions if self._is_strange(action)]
        if (
            files
            or self._safety is self._earlier is None
            or (index and self._has_strange_index(staging.read_staged(self._repo).index))
            or (head and self._has_strange_head())
            or any(map(self._is_strange_folder, record.folders))
            or self._has_strange_operation()
        ):
            self.is_of_the_start = self._earlier is None
            self._save(files)
        self._is_under_way = True

    def save_first(self, found: Found) -> bool:
        """A file may still change between the first look and its turn."""
        changed = [path for path, (state, _) in found.items() if self._saved(path) != state]
        if changed and self._times == MOST_SAVES:
            return False
        if changed:
            self._times += 1
            self._save(changed)
        if any(self._saved(path) != found[path][0] for path in changed):
            raise UnreadableFile.changing()  # what was saved is another content: look again
        return True

    def save_index(self, now: Index) -> None:
        if self._has_strange_index(now):
            self._save([])

    def save_head(self) -> None:
        if self._has_strange_head():
            self._save([])

    def index_of(self, state: Recorded, now: Index) -> Index:
        """What the index is in a state; outside the rollback's paths, what others made of it."""
        paths = self._record.paths
        wanted = state.index
        if state is self._target:
            wanted = without(wanted, self._record.unstaged)
        if self._safety is None:
            return limited(wanted, now, paths)
        before = self._safety.index
        ours = [before]
        if self._target is not None:
            index = without(self._target.index, self._record.unstaged)
            ours.append(limited(index, before, paths))
        untouched = any(staging.same(outside(now, paths), outside(i, paths)) for i in ours)
        return limited(wanted, before if untouched else now, paths)

    def branch_now(self) -> ObjectID | None:
        """Where the branch stands that the rollback takes HEAD to."""
        move = self._record.head
        branch = None if move is None else move.after.branch
        return None if branch is None else self._repo.refs.read(branch)

    # -- what is strange

    @property
    def _states(self) -> list[Recorded]:
        return [state for state in (self._safety, self._target) if state is not None]

    def _held(self, before: _State, after: _State) -> list[_State]:
        """Of what was before and what shall be, that which a checkpoint still holds."""
        held = [before] if self._safety is not None else []
        return held if self._target is None else [*held, after]

    def _is_strange(self, action: Action) -> bool:
        try:
            status = self._worktree.lstat(action.path)
            if status is None:
                return False
            found = look(self._repo.objects, self._worktree, action.path, status)
        except OSError:
            return True
        known = (*self._held(action.before, action.after), self._saved(action.path))
        return found is not None and found not in known

    def _saved(self, path: bytes) -> FileState | None:
        return None if self._earlier is None else self._earlier.file_at(path)

    def _is_strange_folder(self, change: FolderChange) -> bool:
        """Someone set other permission bits; the owner's own were ours to set."""
        bits = self._worktree.folder_permissions(change.path)
        ours = [change.before, change.after]
        if self._earlier is not None:
            ours.append(self._earlier.manifest.modes.of_folder(change.path))
        known = [known | OPEN for known in ours if known is not None]
        return bits is not None and change.before is not None and bits | OPEN not in known

    def _has_strange_index(self, now: Index) -> bool:
        return not any(staging.same(now, index) for index in (*self._expected(now), *self._indexes))

    def _expected(self, now: Index) -> Iterator[Index]:
        """What the index is in the states of the rollback."""
        return (self.index_of(state, now) for state in self._states)

    def _has_strange_operation(self) -> bool:
        saved = [] if self._earlier is None else [self._earlier]
        known = (state.operation.files for state in (*self._states, *saved))
        return self._record.operation and operation.is_strange(self._repo, *known)

    def _has_strange_head(self) -> bool:
        move = self._record.head
        if move is None:
            return False
        branches = (move.branch_before, move.after.commit, *self._branches)
        heads = (*self._held(move.before, move.after), *self._heads)
        return self._repo.refs.head() not in heads or self.branch_now() not in branches

    # -- saving it

    def _save(self, paths: list[bytes]) -> None:
        branch = self.branch_now()
        changing = tuple({*paths, *filter(self._is_file, self._paths)})
        present = capture(self._repo, self._settings, self._repo.objects, force=changing)
        unheld = hold(self._repo, present, changing)
        missing = [path for path in paths if path in unheld or self._lacks(present, path)]
        if missing:
            raise RollbackError(
                f"cannot save '{to_str(missing[0])}' before it is overwritten",
                hint="move it away, then repeat the command",
            )
        self._indexes.append(present.staged.index)
        self._heads.append(present.head)
        self._branches.append(branch)
        self._write(present, branch)

    def _write(self, present: Present, branch: ObjectID | None) -> None:
        keep = {branch, present.head.commit}
        base = self._base
        if base is not None:
            self._carry(base, present)
            keep |= {base.head.commit, *base.kept}
        kept = (c for c in keep - {present.head.commit} if c and self._repo.objects.has(c))
        request = SaveRequest(
            kind=Kind.SAFETY,
            trigger="recovery",
            description="Changes made after a rollback was interrupted.",
            state=self._tracked(),
            keep=tuple(sorted(kept)),
        )
        self.checkpoint = write(self._repo, present, request).checkpoint
        if self.checkpoint is not None:
            self._note(self.checkpoint)
            self._earlier = Recorded(self._repo, self.checkpoint)

    @property
    def _base(self) -> Recorded | None:
        """What the worktree was before recoveries changed it, so far as that is known: what they
        have saved. If nothing, they have only changed what the rollback was to change."""
        is_changed = self._is_under_way and self._earlier is None
        return self._safety if is_changed else self._earlier

    def _carry(self, base: Recorded, present: Present) -> None:
        actions = self._record.actions
        ours = {action.path: self._held(action.before, action.after) for action in actions}
        carry_files(base, present, self._record, ours)
        self._carry_git(base, present)
        leave_out_sparse(present)

    def _carry_git(self, base: Recorded, present: Present) -> None:
        """Index, HEAD and, where it goes along with HEAD, the operation: all of them or none."""
        if not holds_git(base, present):
            return
        record, index, move = self._record, present.staged.index, self._record.head
        expected = self._expected(index) if self._restages else ()
        has_our_index = any(staging.same(index, each) for each in expected)
        has_our_head = move is not None and present.head in self._held(move.before, move.after)
        if record.operation or (record.asked_head and present.operation != base.operation):
            known = (state.operation.files for state in (*self._states, base))
            if (
                operation.has_strange(present.operation.files, *known)
                or not (has_our_index or staging.same(index, base.index))
                or not (has_our_head or present.head == base.head)
            ):
                return
            present.operation = base.operation
        if has_our_index:
            carry_index(base, present, record.paths)
        if has_our_head:
            carry_head(base, present)

    def _lacks(self, present: Present, path: bytes) -> bool:
        """Whether a file is there that the present does not hold, for whatever reason."""
        if path in present.skipped:
            return True
        return path not in present.entries and self._is_file(path)

    @property
    def _paths(self) -> Iterator[bytes]:
        return (action.path for action in self._record.actions)

    def _is_file(self, path: bytes) -> bool:
        status = self._worktree.lstat(path)
        return status is not None and (S_ISREG(status.st_mode) or S_ISLNK(status.st_mode))

    def _tracked(self) -> Texts:
        tracked = {} if self._safety is None else self._safety.checkpoint.tracked
        texts = (tracked_text(name, value) for name, value in tracked.items())
        return {path: text for each in texts for path, text in each.items()}


# -- The states that an interrupted rollback lies between, as far as they are those of then


def opened_goal(repo: Repository, record: Journal, forwards: bool) -> Recorded:
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
        if goal.is_foreign and record.asked_head:
            from ckpt.engine.head import check_objects

            check_objects(goal.objects, goal.operation)
        if not is_as_begun(repo, record, forwards):
            raise Refused(
                f"checkpoint '{checkpoint.id}' is another one by now than when the rollback began"
            )
    except Refused as error:
        hint = instead(repo, record, forwards=forwards)
        raise Refused(error.message, hint=hint, details=error.details) from None
    return goal


def opened_other(repo: Repository, record: Journal, forwards: bool) -> Recorded | None:
    """The state that is not gone to, if it is still that of then, and whole: only compared with,
    it must not keep anyone from the goal."""
    if not is_as_begun(repo, record, not forwards):
        return None
    return _opened_whole(repo, record.safety if forwards else record.target)


def opened_edits(repo: Repository, record: Journal) -> Recorded | None:
    """What a recovery that was interrupted in turn had found and saved, if that is still there."""
    if record.edits is None or not is_still(repo, record.edits, record.edits_commit):
        return None
    return _opened_whole(repo, record.edits)


def _opened_whole(repo: Repository, checkpoint_id: str) -> Recorded | None:
    try:
        state = Recorded(repo, Catalog(repo).get(checkpoint_id))
        _, _, _ = state.manifest, state.index, state.operation
    except CkptError:
        return None
    return state


# -- Finish an interrupted rollback, or go back to the state before it


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
            comes_along = head.comes_along(repo, goal, head=record.asked_head)
            record = replace(record, operation=comes_along)
        try:
            return _Recovery.open(repo, settings, record, worktree, smudger, goal, forwards).go()
        except BaseException:
            repo.objects.discard()
            raise


@dataclass(frozen=True)
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
        clear(repo, self.worktree, self.smudger, record.actions)
        converts = any(map(writes_converted, record.actions))
        restages = record.index or (record.asked_index and converts)
        self.strangers.save_all(index=restages, head=self._stray() is None)
        if record.operation:
            head.clear(repo)
        applier.files(actions, self._folders_to_remove())
        applier.folders(self._folders_to_make())
        applier.sync()
        restaged = restages and until_settled(lambda: self._restage(applier, converts))
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
            head.install(repo, self.goal.operation)
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

    def _restage(self, applier: Applier, converts: bool) -> bool:
        """Write the index; False if only its stat data were wrong, or nothing was."""
        staged = index.read_staged(self.repo)
        wanted = self.strangers.index_of(self.goal, staged.index)
        changes = not index.same(wanted, staged.index)
        if not (changes or converts):
            return False
        self.strangers.save_index(staged.index)
        restage(self.repo, wanted, staged, applier.known)
        return changes

    def _stray(self) -> str | None:
        """Why HEAD and its branch have to stay where they are, if they have."""
        planned = self.record.head
        if planned is None:
            return head.strayed_operation(self.repo, self.goal) if self.record.operation else None
        return strayed(self.repo, planned, planned.after if self.forwards else planned.before)

    def _left_head(self) -> Skipped | None:
        """HEAD, if it stays where it is. An operation would go on from another commit than it
        should, and stays out with it; so does one that has ended where HEAD was not to move."""
        planned, reason = self.record.head, self._stray()
        if reason is None:
            may_differ = self.record.asked_head or self.record.paths
            ended = None if may_differ else head.ended(self.repo, self.goal)
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
