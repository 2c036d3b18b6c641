# SPDX-License-Identifier: MIT
"""The value types passed between layers and returned to callers.

All are named tuples, which import three times as fast as dataclasses. Paths are `str` with
surrogate escapes. Agent state and other details are read on first use, so that listing
checkpoints reads only their commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

REF_PREFIX = "refs/checkpoints/"
TRASH_PREFIX = "refs/checkpoints-trash/"
GONE_REPOSITORY = "repository that is not there any more"  # reason of a kept path


class _Word(str, Enum):
    """An enum whose members are strings."""

    def __str__(self) -> str:
        return str(self.value)


class Kind(_Word):
    """Why a checkpoint was taken, which determines how long it is kept."""

    MANUAL = "manual"
    FEATURE = "feature"
    AUTO = "auto"
    SESSION = "session"
    HOOK = "hook"
    SAFETY = "safety"


TRIGGERED = (Kind.AUTO, Kind.HOOK)
BY_HAND = (Kind.MANUAL, Kind.FEATURE)  # kept until dropped by hand


class Scope(_Word):
    FULL = "full"
    STATE = "state"


class Outcome(_Word):
    """The outcome of a save."""

    CREATED = "created"
    UNCHANGED = "unchanged"
    PARTIAL = "partial"
    SKIPPED = "skipped"
    FAILED = "failed"


class SkipReason(_Word):
    """Why a checkpoint omits a path that exists and is not ignored."""

    OVERSIZE = "oversize"
    BUDGET = "budget"
    UNREADABLE = "unreadable"
    DENIED = "denied"
    SPECIAL = "special"
    NESTED = "nested"


class Skipped(NamedTuple):
    """A path that was skipped, and why: a `SkipReason`, or the reason of a rollback."""

    path: str
    reason: str


class GitState(NamedTuple):
    """The state of HEAD: `commit_hash` is None when unborn, `branch` when detached."""

    commit_hash: str | None
    branch: str | None
    dirty_files: tuple[str, ...] = ()


class FeatureState(NamedTuple):
    current: str | None = None
    completed: tuple[str, ...] = ()
    snapshot_path: str | None = None


class Stats(NamedTuple):
    """The size of a diff; lines of binary files do not count."""

    files_changed: int = 0
    insertions: int = 0
    deletions: int = 0


class NestedState(NamedTuple):
    """A repository inside the worktree, with its own checkpoint or the reason it has none."""

    path: str
    commit_hash: str | None
    branch: str | None
    dirty: bool | None
    checkpoint: str | None = None
    problem: str | None = None
    checkpoint_commit: str | None = None


class Modes(NamedTuple):
    """Permission bits of files, which git's trees round to 644 and 755, and of directories.

    `plain` and `executable` are the defaults, `others` the files that differ; `folder` is the
    default of directories, None if unrecorded, and `folders` those that differ."""

    plain: int = 0o644
    executable: int = 0o755
    others: Mapping[bytes, int] = {}
    folder: int | None = None
    folders: Mapping[bytes, int] = {}

    def of_folder(self, path: bytes) -> int | None:
        return None if self.folder is None else self.folders.get(path, self.folder)

    def within(self, mask: int) -> Modes:
        """Return these modes without the bits outside `mask`."""
        return Modes(
            self.plain & mask,
            self.executable & mask,
            {path: own & mask for path, own in self.others.items()},
            None if self.folder is None else self.folder & mask,
            {path: own & mask for path, own in self.folders.items()},
        )

    def of(self, path: bytes, is_executable: bool) -> int:
        usual = self.executable if is_executable else self.plain
        return self.others.get(path, usual)


class Details(NamedTuple):
    """The state tree of a checkpoint; `tracked` maps names of objects to their states."""

    skipped: tuple[Skipped, ...] = ()
    data: Any = None
    metadata: Mapping[str, Any] | None = None
    context: Mapping[str, Any] | None = None
    features: FeatureState | None = None
    operation: str | None = None
    nested: tuple[NestedState, ...] = ()
    tracked: Mapping[str, Any] = {}
    state_files: tuple[str, ...] = ()


class Source:
    """Functions that read the details of a checkpoint; all sources compare equal."""

    def __init__(
        self,
        details: Callable[[Checkpoint], Details] = lambda _: Details(),
        dirty_files: Callable[[Checkpoint], tuple[str, ...]] = lambda _: (),
    ) -> None:
        self.details, self.dirty_files = details, dirty_files

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source)

    def __hash__(self) -> int:
        return 0


class _Facts(NamedTuple):
    """The fields recorded in the commit of a checkpoint."""

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
    pinned: bool = False
    partial: bool = False
    during_rollback: bool = False
    foreign: bool = False  # made in another repository, or by hand
    head_commit: str | None = None
    branch: str | None = None
    stats: Stats = Stats()
    source: Source = Source()


def _detail(read: Callable[[Details], T]) -> cached_property[T]:
    return cached_property(lambda checkpoint: read(checkpoint.details))


class Checkpoint(_Facts):
    """A checkpoint; its details are read on first use."""

    @property
    def ref(self) -> str:
        return REF_PREFIX + self.id

    @cached_property
    def details(self) -> Details:
        return self.source.details(self)

    @cached_property
    def git_state(self) -> GitState:
        return GitState(self.head_commit, self.branch, self.source.dirty_files(self))

    operation = _detail(lambda found: found.operation)
    nested = _detail(lambda found: found.nested)
    feature_state = _detail(lambda found: found.features)
    data = _detail(lambda found: found.data)
    metadata = _detail(lambda found: found.metadata)
    context = _detail(lambda found: found.context)
    tracked = _detail(lambda found: found.tracked)
    state_files = _detail(lambda found: found.state_files)
    skipped = _detail(lambda found: found.skipped)


class Dropped(NamedTuple):
    """A checkpoint in the trash, and the day on which it was dropped."""

    checkpoint: Checkpoint
    day: date
    ref: str


class SaveResult(NamedTuple):
    """The result of a save, true if a checkpoint holds the state; `warnings` are other failures."""

    outcome: Outcome
    checkpoint: Checkpoint | None = None
    reason: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def id(self) -> str | None:
        return self.checkpoint.id if self.checkpoint else None

    def __bool__(self) -> bool:
        return self.outcome in (Outcome.CREATED, Outcome.UNCHANGED, Outcome.PARTIAL)


class Summary(NamedTuple):
    """Checkpoints counted by kind and name, and the first and the last of them."""

    count: int  # type: ignore[assignment]  # tuple.count is not needed
    kinds: Mapping[str, int]
    names: Mapping[str, int]
    first: Checkpoint | None
    last: Checkpoint | None

    @property
    def duration(self) -> timedelta:
        """Return the time between the first and the last checkpoint."""
        if self.first is None or self.last is None:
            return timedelta()
        return self.last.timestamp - self.first.timestamp


class FileChange(NamedTuple):
    """A path of a diff; `status` is A, M, D or T, as in git."""

    path: str
    status: str
    insertions: int
    deletions: int
    binary: bool = False


class DiffResult(NamedTuple):
    """The changes between two checkpoints, or to the worktree if `to` is None."""

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
    """The operation in progress, such as a merge, before and after a rollback; None if none."""

    before: str | None
    after: str | None


class BranchReport(NamedTuple):
    """A branch that a rollback moved; its commit is None where it does not exist."""

    name: str
    before: str | None
    after: str | None


class HeadReport(NamedTuple):
    """What a rollback did to HEAD, to other branches, and to the operation, None if unchanged;
    `ahead` and `behind` count commits relative to the checkpoint's HEAD."""

    moved: bool
    before: GitState
    after: GitState
    ahead: int | None = None
    behind: int | None = None
    operation: OperationReport | None = None
    branches: tuple[BranchReport, ...] = ()


class NestedResult(NamedTuple):
    """The result of a rollback with `recurse` in a repository inside the worktree."""

    path: str
    result: RollbackResult


class RollbackResult(NamedTuple):
    """What a rollback did, or would do; when an interrupted one is resumed, `safety` is the safety
    checkpoint of later changes, if there were any."""

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

    @property
    def data(self) -> Any:
        return self.target.data

    @property
    def state(self) -> Mapping[str, Any] | None:
        """Return the saved states of tracked objects; `restored` names those put back."""
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
        """Return whether no path was skipped, here or in a nested repository."""
        return not self.skipped and all(child.result.is_complete for child in self.nested)


# States of a trigger: `missing` was never installed here, `replaced` was removed by another
# tool, `foreign` can only be installed by editing a file shared with others.
INSTALLED, MISSING, REPLACED, FOREIGN = "installed", "missing", "replaced", "foreign"


class Finding(NamedTuple):
    """The state of a trigger, and the command that fixes it if something is wrong."""

    trigger: str
    state: str
    detail: str
    mend: str | None = None
