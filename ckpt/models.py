# SPDX-License-Identifier: MIT
"""The values that walk between the layers and out to the caller.

All are immutable; those that only carry facts are named tuples, which import in a third of the
time. Paths are `str` as the file system has them (surrogate escapes stand for bytes that are not
UTF-8). What is large or rarely asked for (agent state, skipped paths) is read from the checkpoint
on first use, so that a list of a thousand of them reads only commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

REF_PREFIX = "refs/checkpoints/"
TRASH_PREFIX = "refs/checkpoints-trash/"
HEAD_FILE = ".git/HEAD"  # as a path that was left alone, which no file of a worktree can have
GONE_REPOSITORY = "repository that is not there any more"  # as the reason of a rollback


class _Word(str, Enum):
    """An enum whose members are the words people type and programs read."""

    def __str__(self) -> str:
        return str(self.value)


class Kind(_Word):
    """Why a checkpoint exists, which decides how long it is kept."""

    MANUAL = "manual"
    FEATURE = "feature"
    AUTO = "auto"
    SESSION = "session"
    HOOK = "hook"
    SAFETY = "safety"


TRIGGERED = (Kind.AUTO, Kind.HOOK)
BY_HAND = (Kind.MANUAL, Kind.FEATURE)  # kept until they are dropped by hand


class Scope(_Word):
    FULL = "full"
    STATE = "state"


class Outcome(_Word):
    """What became of a save."""

    CREATED = "created"
    UNCHANGED = "unchanged"
    PARTIAL = "partial"
    SKIPPED = "skipped"
    FAILED = "failed"


class SkipReason(_Word):
    """Why a path that exists and is not ignored is not in a checkpoint."""

    OVERSIZE = "oversize"
    BUDGET = "budget"
    UNREADABLE = "unreadable"
    DENIED = "denied"
    SPECIAL = "special"
    NESTED = "nested"


class Skipped(NamedTuple):
    """A path that was left alone, and why: a `SkipReason`, or a reason of a rollback."""

    path: str
    reason: str


class GitState(NamedTuple):
    """Where HEAD stood: `commit_hash` is None when unborn, `branch` when detached."""

    commit_hash: str | None
    branch: str | None
    dirty_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class FeatureState:
    current: str | None = None
    completed: tuple[str, ...] = ()
    snapshot_path: str | None = None


class Stats(NamedTuple):
    """The worktree against HEAD's commit; lines of binary files do not count."""

    files_changed: int = 0
    insertions: int = 0
    deletions: int = 0


class NestedState(NamedTuple):
    """A repository inside the worktree: a submodule that is there, or an untracked one.

    `dirty` is what git calls new commits, modified content or untracked content; None if that
    could not be told. `checkpoint` is the id of its own checkpoint, taken with `recurse`, and
    `checkpoint_commit` the commit that it had, which an older ckpt did not note; `problem` says
    why there is none.
    """

    path: str
    commit_hash: str | None
    branch: str | None
    dirty: bool | None
    checkpoint: str | None = None
    problem: str | None = None
    checkpoint_commit: str | None = None


class Details(NamedTuple):
    """The part of a checkpoint that its state tree holds."""

    skipped: tuple[Skipped, ...] = ()
    data: Any = None
    metadata: Mapping[str, Any] | None = None
    context: Mapping[str, Any] | None = None
    features: FeatureState | None = None
    operation: str | None = None
    nested: tuple[NestedState, ...] = ()
    tracked: Mapping[str, Any] = {}
    state_files: tuple[str, ...] = ()


def _detail(read: Callable[[Details], T]) -> cached_property[T]:
    return cached_property(lambda checkpoint: read(checkpoint.details))


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint, as recorded by its commit."""

    id: str
    name: str | None
    description: str | None
    kind: Kind
    trigger: str | None
    scope: Scope
    timestamp: datetime
    commit: str
    tree: str
    state_commit: str
    worktree: str
    session: str | None
    pinned: bool
    partial: bool
    during_rollback: bool
    head_commit: str | None
    branch: str | None
    stats: Stats
    _details: Callable[[], Details] = field(repr=False, compare=False)
    _dirty_files: Callable[[], tuple[str, ...]] = field(repr=False, compare=False)
    _lacks: Callable[[str, str], bool] | None = field(default=None, repr=False, compare=False)

    @property
    def ref(self) -> str:
        return REF_PREFIX + self.id

    @cached_property
    def details(self) -> Details:
        return self._details()

    @property
    def foreign(self) -> bool:
        """Whether it was made elsewhere, or by hand: the record of those made here lacks it."""
        return self._lacks is not None and self._lacks(self.id, self.commit)

    @cached_property
    def git_state(self) -> GitState:
        return GitState(self.head_commit, self.branch, self._dirty_files())

    # The merge, rebase or other operation of git's that was in progress.
    operation = _detail(lambda found: found.operation)
    # The repositories inside the worktree, as they were.
    nested = _detail(lambda found: found.nested)
    feature_state = _detail(lambda found: found.features)
    data = _detail(lambda found: found.data)
    metadata = _detail(lambda found: found.metadata)
    context = _detail(lambda found: found.context)
    # The states of tracked objects, by their names.
    tracked = _detail(lambda found: found.tracked)
    # Files that were named to be kept whatever the rules say.
    state_files = _detail(lambda found: found.state_files)
    skipped = _detail(lambda found: found.skipped)


class Dropped(NamedTuple):
    """A checkpoint in the trash, and the day on which it went there."""

    checkpoint: Checkpoint
    day: date
    ref: str


@dataclass(frozen=True)
class SaveResult:
    """True when a checkpoint holds the state as it was at the call.

    `warnings` are about what failed besides, such as a callback.
    """

    outcome: Outcome
    checkpoint: Checkpoint | None = None
    reason: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def id(self) -> str | None:
        return self.checkpoint.id if self.checkpoint else None

    def __bool__(self) -> bool:
        return self.outcome in (Outcome.CREATED, Outcome.UNCHANGED, Outcome.PARTIAL)


@dataclass(frozen=True)
class Summary:
    """All checkpoints of a manager: how many of each kind and name, the first and the last."""

    count: int
    kinds: Mapping[str, int]
    names: Mapping[str, int]
    first: Checkpoint | None
    last: Checkpoint | None

    @property
    def duration(self) -> timedelta:
        """From the first to the last."""
        if self.first is None or self.last is None:
            return timedelta()
        return self.last.timestamp - self.first.timestamp


class FileChange(NamedTuple):
    """One path of a diff: status is git's letter, A M D or T."""

    path: str
    status: str
    insertions: int
    deletions: int
    binary: bool = False


@dataclass(frozen=True)
class DiffResult:
    """`to` is None when the second side is the worktree as it is now."""

    from_: Checkpoint
    to: Checkpoint | None
    files: tuple[FileChange, ...]
    patch: bytes

    @property
    def stats(self) -> Stats:
        return Stats(
            len(self.files),
            sum(f.insertions for f in self.files),
            sum(f.deletions for f in self.files),
        )


class OperationReport(NamedTuple):
    """The operation in progress (a merge, a rebase …) before and after; None: there was none."""

    before: str | None
    after: str | None


class BranchReport(NamedTuple):
    """A branch that a rollback moved though HEAD is not on it, from one commit to another; None
    where there is no such branch."""

    name: str
    before: str | None
    after: str | None


class HeadReport(NamedTuple):
    """What a rollback did to HEAD, or left: `ahead` commits that the checkpoint's HEAD lacks.

    `operation` is None where a rollback leaves it alone. `branches` are those that moved
    and HEAD was not on.
    """

    moved: bool
    before: GitState
    after: GitState
    ahead: int | None = None
    behind: int | None = None
    operation: OperationReport | None = None
    branches: tuple[BranchReport, ...] = ()


class NestedResult(NamedTuple):
    """What a rollback with `recurse` did in a repository inside the worktree."""

    path: str
    result: RollbackResult


@dataclass(frozen=True)
class RollbackResult:
    """What a rollback did; with `dry_run`, what it would do (`safety` is then None).

    `foreign`: the target was not made in this repository. `began_from` is the safety
    checkpoint of an interrupted rollback, if what was changed since is in another (`safety`).
    """

    target: Checkpoint
    safety: Checkpoint | None
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    kept: tuple[Skipped, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    folders_changed: bool = False
    index_changed: bool = False
    head: HeadReport | None = None
    dry_run: bool = False
    undo_command: str | None = None
    nested: tuple[NestedResult, ...] = ()
    restored: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    foreign: bool = False
    began_from: Checkpoint | None = None

    @property
    def data(self) -> Any:
        return self.target.data

    @property
    def state(self) -> Mapping[str, Any] | None:
        """The states of tracked objects that the target holds; `restored` names those of them
        that were put back."""
        return self.target.tracked or None

    @property
    def changed(self) -> bool:
        head = self.head
        moved = head is not None and (head.moved or head.operation is not None)
        files = self.written or self.removed or self.folders_changed
        here = bool(files or self.index_changed or moved)
        return here or any(child.result.changed for child in self.nested)

    @property
    def is_complete(self) -> bool:
        """False if something was left, here or in a nested repository."""
        return not self.skipped and all(child.result.is_complete for child in self.nested)


# What a finding says of a trigger: `missing` was never installed here; `replaced` was, and
# another tool removed it; `foreign` could only be installed by editing a file of others.
INSTALLED, MISSING, REPLACED, FOREIGN = "installed", "missing", "replaced", "foreign"


class Finding(NamedTuple):
    """The state of an installed trigger, and the command that fixes it if something is wrong."""

    trigger: str
    state: str
    detail: str
    mend: str | None = None
