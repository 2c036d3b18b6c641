# SPDX-License-Identifier: MIT
"""What is neither the state before an interrupted rollback nor the one that it was to reach.

A person or a program has worked on since. Such files, folders, index, operation and HEAD are
found here, and saved as another safety checkpoint before recovery changes anything. So is what
only a checkpoint held that is gone by now (`safety` or `target` is then None).

That checkpoint is what `undo` returns to. So it holds every file that recovery may change, with
what the first safety checkpoint had of tracked objects and of repositories in the worktree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from stat import S_ISLNK, S_ISREG

import ckpt.worktree.named  # noqa: F401  # imported now: later, other code may lie in its place
from ckpt.engine import operation
from ckpt.engine.apply import Found, look
from ckpt.engine.capture import capture
from ckpt.engine.changes import Action, FileState, FolderChange
from ckpt.engine.folders import OPEN
from ckpt.engine.holding import hold
from ckpt.engine.journal import Journal
from ckpt.engine.nested import link
from ckpt.engine.recorded import Recorded, file_state
from ckpt.engine.restage import limited, outside
from ckpt.engine.rollback import MOST_SAVES
from ckpt.engine.snapshot import SaveRequest, write
from ckpt.errors import RollbackError
from ckpt.models import Checkpoint, Kind, NestedState
from ckpt.paths import to_str
from ckpt.settings import Settings
from ckpt.store import staging
from ckpt.store.agent_state import Texts, tracked_text
from ckpt.store.index import Index
from ckpt.store.objects import ObjectID
from ckpt.store.refs import Head
from ckpt.store.repository import Repository
from ckpt.worktree.write import Worktree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    _State = TypeVar("_State")


class Strangers:
    """Finds and saves them; what was saved once is no stranger any more.

    `checkpoint` is the last that holds any. `nested` are the checkpoints to which the
    repositories in the worktree return if it returns to this one.
    """

    def __init__(
        self,
        repo: Repository,
        settings: Settings,
        worktree: Worktree,
        record: Journal,
        safety: Recorded | None,
        target: Recorded | None,
        nested: Mapping[bytes, Checkpoint],
    ) -> None:
        self._repo = repo
        self._settings = settings
        self._worktree = worktree
        self._record = record
        self._safety = safety
        self._target = target
        self._nested = nested
        self._files: dict[bytes, FileState | None] = {}
        self._indexes: list[Index] = []
        self._heads: list[Head] = []
        self._branches: list[ObjectID | None] = []
        self._times = 0
        self.checkpoint: Checkpoint | None = None

    def save_all(self, *, head: bool) -> None:
        """Save the present if any of it is strange, or if no safety checkpoint is left. A HEAD
        that is going to stay where it is (not `head`) need not be saved."""
        record = self._record
        files = [action.path for action in record.actions if self._is_strange(action)]
        index = staging.read_staged(self._repo).index
        if (
            files
            or self._safety is None
            or self._has_strange_index(index)
            or (head and self._has_strange_head())
            or any(map(self._is_strange_folder, record.folders))
            or self._has_strange_operation()
        ):
            self._save(files)

    def save_first(self, found: Found) -> bool:
        """A file may still change between the first look and its turn."""
        changed = [path for path, (state, _) in found.items() if self._files.get(path) != state]
        if changed and self._times == MOST_SAVES:
            return False
        if changed:
            self._times += 1
            self._save(changed)
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
        if self._safety is None:
            return limited(state.index, now, paths)
        before = self._safety.index
        ours = [before]
        if self._target is not None:
            ours.append(limited(self._target.index, before, paths))
        untouched = any(staging.same(outside(now, paths), outside(i, paths)) for i in ours)
        return limited(state.index, before if untouched else now, paths)

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
        status = self._worktree.lstat(action.path)
        if status is None:
            return False
        try:
            found = look(self._repo.objects, self._worktree, action.path, status)
        except OSError:
            return True
        return found is not None and found not in self._held(action.before, action.after)

    def _is_strange_folder(self, change: FolderChange) -> bool:
        """Someone set other permission bits; the owner's own were ours to set."""
        bits = self._worktree.folder_permissions(change.path)
        known = [known | OPEN for known in (change.before, change.after) if known is not None]
        return bits is not None and change.before is not None and bits | OPEN not in known

    def _has_strange_index(self, now: Index) -> bool:
        if not self._record.index:
            return False
        expected = (self.index_of(state, now) for state in self._states)
        return not any(staging.same(now, index) for index in (*expected, *self._indexes))

    def _has_strange_operation(self) -> bool:
        known = (state.operation.files for state in self._states)
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
        present.nested = link(self._linked(present.nested), self._nested)
        request = SaveRequest(
            kind=Kind.SAFETY,
            trigger="recovery",
            description="Changes made after a rollback was interrupted.",
            state=self._tracked(),
            keep=() if branch is None else (branch,),
        )
        unheld = hold(self._repo, present, changing)
        missing = [path for path in paths if path in present.skipped or path in unheld]
        if missing:
            raise RollbackError(
                f"cannot save '{to_str(missing[0])}' before it is overwritten",
                hint="move it away, then repeat the command",
            )
        self.checkpoint = write(self._repo, present, request).checkpoint
        for path in paths:
            entry, converted = present.entries.get(path), present.converted.get(path)
            self._files[path] = file_state(path, entry, present.modes, converted)
        self._indexes.append(present.staged.index)
        self._heads.append(present.head)
        self._branches.append(branch)

    @property
    def _paths(self) -> Iterator[bytes]:
        return (action.path for action in self._record.actions)

    def _is_file(self, path: bytes) -> bool:
        status = self._worktree.lstat(path)
        return status is not None and (S_ISREG(status.st_mode) or S_ISLNK(status.st_mode))

    def _linked(self, states: Iterable[NestedState]) -> list[NestedState]:
        """Repositories that did not go back are as the first safety checkpoint has them."""
        if self._safety is None or not self._record.asked_recurse:
            return [*states]
        known = {s.path: s for s in self._safety.manifest.nested if s.checkpoint is not None}
        return [known.get(state.path, state) for state in states]

    def _tracked(self) -> Texts:
        tracked = {} if self._safety is None else self._safety.checkpoint.tracked
        texts = (tracked_text(name, value) for name, value in tracked.items())
        return {path: text for each in texts for path, text in each.items()}
