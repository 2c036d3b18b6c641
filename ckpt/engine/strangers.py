# SPDX-License-Identifier: MIT
"""What is neither the state before an interrupted rollback nor the one that it was to reach.

A person or a program has worked on since. Such files, folders, index, operation and HEAD are
found here, and saved as another safety checkpoint before recovery changes anything. So is what
only a checkpoint held that is gone by now (`safety` or `target` is then None).

That checkpoint is what `undo` returns to. So it holds every file that recovery may change, with
what the first safety checkpoint had of tracked objects, and what was saved before and has been
replaced since (see `carrying`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from stat import S_ISLNK, S_ISREG

import ckpt.worktree.named  # noqa: F401  # imported now: later, other code may lie in its place
from ckpt.engine import operation
from ckpt.engine.apply import Found, look
from ckpt.engine.capture import capture
from ckpt.engine.carrying import (
    carry_files,
    carry_head,
    carry_index,
    holds_git,
    leave_out_sparse,
)
from ckpt.engine.changes import Action, FileState, FolderChange
from ckpt.engine.folders import OPEN
from ckpt.engine.holding import hold
from ckpt.engine.journal import Journal
from ckpt.engine.present import Present
from ckpt.engine.recorded import Recorded
from ckpt.engine.restage import limited, outside, without
from ckpt.engine.rollback import MOST_SAVES
from ckpt.engine.snapshot import SaveRequest, write
from ckpt.errors import RollbackError
from ckpt.models import Checkpoint, Kind
from ckpt.paths import to_str
from ckpt.settings import Settings
from ckpt.store import staging
from ckpt.store.agent_state import Texts, tracked_text
from ckpt.store.index import Index
from ckpt.store.objects import ObjectID
from ckpt.store.refs import Head
from ckpt.store.repository import Repository
from ckpt.store.streams import UnreadableFile
from ckpt.worktree.write import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _State = TypeVar("_State")


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
