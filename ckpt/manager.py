# SPDX-License-Identifier: MIT
"""The Python API: a thin face over the engine.

    from ckpt import CheckpointManager

    with CheckpointManager("path/to/project") as manager:
        saved = manager.create("before-refactor")
        …
        manager.rollback(saved)
        manager.undo()

One manager serves one worktree and may be used from several threads; several
processes may use the same repository. Like the command line, and unlike the engine
below, it looks at the process's environment, as git would. What it can tell of the
checkpoints that there are is in `api.reader`, what becomes of them in `api.keeper`; here
is what takes them and goes back. What only some methods need is imported by them: a
command waits for no more than its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, partial
from time import monotonic
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from ckpt import paths as repo_paths
from ckpt.api.arguments import (
    Which,
    as_features,
    as_kind,
    as_moment,
    as_path,
    as_word,
    check_has_files,
    check_has_worktree,
    check_keep_edits,
    check_mappings,
    check_paths,
    check_texts,
    check_type,
)
from ckpt.api.blocks import Guard, ThreadLock
from ckpt.api.tracking import TrackedObjects
from ckpt.api.turns import Turns
from ckpt.engine import catalog, journal, trash
from ckpt.engine.catalog import Catalog
from ckpt.engine.journal import has_sessions, is_interrupted, running_rollback
from ckpt.engine.prepare import RollbackOptions, check_ended
from ckpt.engine.prune import PruneResult
from ckpt.engine.rollback import find_same, rollback, undo
from ckpt.engine.sessions import Write
from ckpt.engine.snapshot import SaveRequest, count_save
from ckpt.errors import Busy, CkptError, DiskError, NotFound, Refused, UsageError
from ckpt.git.record import Texts, texts_of
from ckpt.git.repository import Repository, discover
from ckpt.locks import Waiting
from ckpt.models import (
    TRIGGERED,
    Checkpoint,
    DiffResult,
    Dropped,
    FeatureState,
    Kind,
    Outcome,
    RollbackResult,
    SaveResult,
    Scope,
    Summary,
)
from ckpt.settings.policy import Policy
from ckpt.settings.settings import Settings

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    T = TypeVar("T")

    class RollbackKeywords(TypedDict, total=False):
        """What `rollback` takes besides the checkpoint."""

        paths: Iterable[str | os.PathLike[str]] | None
        head: bool
        dry_run: bool
        index: bool
        overwrite_ignored: bool
        recurse: bool
        yes: bool
        keep_edits: bool
        session: str | None
        trust: bool

    CheckpointCallback = Callable[[Checkpoint], object]
    RollbackCallback = Callable[[RollbackResult], object]
    OnCheckpoint = TypeVar("OnCheckpoint", bound=CheckpointCallback)
    OnRollback = TypeVar("OnRollback", bound=RollbackCallback)


def call_all(callbacks: Iterable[Callable[[T], Any]], value: T) -> tuple[str, ...]:
    """Call each with a value; returns what is to be told of those that failed."""
    warnings = []
    for callback in tuple(callbacks):
        try:
            callback(value)
        except Exception as error:  # of the caller's own code
            warnings.append(failure(callback, error))
    return tuple(warnings)


def failure(callback: Callable[..., Any], error: Exception) -> str:
    name = getattr(callback, "__qualname__", None) or repr(callback)
    return f"callback '{name}' failed: {type(error).__name__}: {error}"


# -- A worktree that is open for use: its repository and settings, and whose turn it is

# How long the configuration that was read on opening may be taken for that of now, in seconds.
_A_MOMENT = 0.005
# How many seconds whoever closes waits: not for ever, as he may hold what others wait for.
_LONG = 60.0


class OpenedWorktree:
    def __init__(
        self,
        path: str | os.PathLike[str],
        env: Mapping[str, str],
        store: str,
        settings: Settings | Mapping[str, Any] | None,
    ) -> None:
        if settings is not None:
            from ckpt.settings.settings import Settings

            check_type("settings", settings, (Settings, Mapping), "Settings or a mapping")
        name = as_path(path)
        with _telling_of_the_disk():  # the current folder may be gone, say
            self._start = os.path.realpath(name)
            self._repo = _open(name, env, store)
        self._given = settings
        self._mutex = ThreadLock()
        self._is_closing = self._is_at_work = False
        self._fresh_until = monotonic() + _A_MOMENT

    @property
    def repository(self) -> Repository:
        return self._repo

    @cached_property
    def settings(self) -> Settings:
        """The settings in force; raises `UsageError` if a source of them is wrong."""
        from ckpt.settings.settings import Settings, load_settings

        if isinstance(self._given, Settings):
            return self._given
        return load_settings(self._repo, self._given)

    @cached_property
    def forgiving_settings(self) -> Settings:
        """Settings for going back: a broken settings file must not stop that."""
        from ckpt.settings.settings import Settings, load_forgiving

        if isinstance(self._given, Settings):
            return self._given
        return load_forgiving(self._repo, self._given)

    @property
    def rollback_interrupted(self) -> bool:
        """True if a rollback died in this worktree and awaits `resume` or `abort`."""
        return is_interrupted(self._repo.private_dir)

    @property
    def rollback_running(self) -> str | None:
        """The process that is rolling back this worktree, in words; None if none is."""
        return running_rollback(self._repo.private_dir)

    def close(self) -> None:
        """Let go of open pack files; the manager can be used again afterwards.

        Waits for what other threads are at. What goes on for long, or is what this is called from,
        lets go when it ends.
        """
        if self._mutex.is_foreign:
            self._leave_to_parent()
            return
        self._is_closing = True
        # When Python ends, other threads stand still.
        if self._mutex.acquire(timeout=0 if sys.is_finalizing() else _LONG):
            try:
                self._close_if_asked()
            finally:
                self._mutex.release()

    def _close_if_asked(self) -> None:
        if self._is_closing and not self._mutex.is_entered_again:
            self._is_closing = False
            self._repo.close()

    def _leave_to_parent(self) -> None:
        """Begin anew in a fork: what is open is the parent's, which may be in the midst of it."""
        self._repo = replace(self._repo)
        self._is_closing = self._is_at_work = False

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Of the disk, and of a repository that was moved away meanwhile: whatever is missed then,
        that is why."""
        try:
            with _telling_of_the_disk():
                yield
        except CkptError:
            self._repo.check_there()
            raise

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Beside what others do, for what is noted in the private files."""
        with self._telling():
            self._repo.check_there()
            yield

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Alone in this process, for what looks at checkpoints only."""
        with self._alone(), self._noting():
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Alone in this process, and where refs can be written."""
        with self._looking():
            self._repo.check_writable()
            yield

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """Alone in this process, with the configuration and settings of now, and not amid
        another such call: both would take what was added, or its end, for their own."""
        with self._alone(), self._telling():
            if self._is_at_work:  # a callback calls, or a signal's handler
                raise Busy(
                    "another call of this manager is under way in the same thread",
                    hint="call it when that one has returned",
                )
            try:
                self._is_at_work = True
                self._refresh()
                yield
            finally:
                self._is_at_work = False

    def _refresh(self) -> None:
        if monotonic() > self._fresh_until:
            self._repo = self._repo.reloaded()
            self.__dict__.pop("settings", None)
            self.__dict__.pop("forgiving_settings", None)
        self._fresh_until = 0.0

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._mutex.is_foreign:
            self._leave_to_parent()
        with self._mutex:
            try:
                yield
            finally:
                self._close_if_asked()

    def _limits(self, paths: Iterable[str | os.PathLike[str]]) -> tuple[bytes, ...]:
        """Paths as callers have them, from the folder that was opened, as the repository's."""
        check_paths(paths)
        return tuple(map(self._limit, paths))

    def _limit(self, path: str | os.PathLike[str]) -> bytes:
        return repo_paths.relative_to_top(as_path(path), self._repo.worktree, self._start)


@contextmanager
def _telling_of_the_disk() -> Iterator[None]:
    try:
        yield
    except (CkptError, BrokenPipeError):  # the last is about somebody who reads what we tell
        raise
    except OSError as error:
        raise DiskError(error) from error


def _open(path: str, env: Mapping[str, str], store: str) -> Repository:
    """The repository around a folder, or (`user`) the store that is kept for one without."""
    if store == "repo":
        return discover(path, env)
    if store != "user":
        raise UsageError(f"unknown store '{store}'", hint="one of repo, user")
    from ckpt.engine.private_store import open_store

    return open_store(path, env)


# -- What is asked of all checkpoints of a manager at once: a summary, or that they go


def summarise(newest_first: Sequence[Checkpoint]) -> Summary:
    return Summary(
        count=len(newest_first),
        kinds=_counted(checkpoint.kind.value for checkpoint in newest_first),
        names=_counted(c.name for c in newest_first if c.name is not None),
        first=newest_first[-1] if newest_first else None,
        last=newest_first[0] if newest_first else None,
    )


def _counted(words: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return dict(sorted(counts.items()))


def clear(repo: Repository, checkpoints: Iterable[Checkpoint]) -> int:
    """Move them to the trash, but for those that are kept for good or needed; tells how many."""
    count = 0
    for checkpoint in checkpoints:
        if checkpoint.pinned or checkpoint.kind is Kind.FEATURE:
            continue
        try:
            trash.drop(repo, checkpoint)
            count += 1
        except (NotFound, Refused):  # somebody else was quicker, or a journal names it
            continue
    return count


# -- The part of a manager that looks at checkpoints and changes nothing

Checkpoints = list[Checkpoint]


class CheckpointReader(OpenedWorktree):
    """What `CheckpointManager` can tell of the checkpoints that there are."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        env: Mapping[str, str],
        store: str,
        settings: Settings | Mapping[str, Any] | None,
        session: str | None,
        scope: Scope,
    ) -> None:
        check_texts(session=session)
        super().__init__(path, env, store, settings)
        self._session = session
        self._scope = scope

    def list(
        self,
        *,
        kind: Kind | str | None = None,
        name: str | None = None,
        session: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        all_worktrees: bool = False,
    ) -> Checkpoints:
        """Checkpoints of this worktree (and session, if the manager has one), newest first."""
        check_texts(name=name, session=session)
        with self._reading():
            found = Catalog(self._repo)
            return catalog.select(
                found if all_worktrees else found.here(),
                kind=None if kind is None else as_kind(kind),
                name=name,
                session=session if session is not None else self._session,
                scope=Scope.STATE if self._scope is Scope.STATE else None,
                since=None if since is None else as_moment(since),
                until=None if until is None else as_moment(until),
            )

    def get(self, which: Which) -> Checkpoint:
        """The checkpoint of an id, a name, a unique prefix or `latest~N`; raises `NotFound`."""
        with self._reading():
            return self._find(which)

    def _find(self, which: Which) -> Checkpoint:
        return Catalog(self._repo).resolve(as_word(which), self._scope, self._session)

    def by_name(self, name: str) -> Checkpoints:
        """All checkpoints of that name, newest first."""
        return self.list(name=name)

    def latest(self, name: str | None = None, kind: Kind | str | None = None) -> Checkpoint | None:
        """The newest checkpoint; safety checkpoints count only if asked for by kind, foreign ones
        only if they are not of a time to come."""
        found = (c for c in self.list(name=name, kind=kind) if c.scope is self._scope)
        found = (c for c in found if catalog.is_timely(c))
        if kind is None:
            found = (c for c in found if catalog.counts_as_latest(c, self._scope))
        return next(found, None)

    def since(self, moment: datetime) -> Checkpoints:
        """Checkpoints later than a moment, newest first."""
        return self.list(since=as_moment(moment))

    def between(self, first: datetime, last: datetime) -> Checkpoints:
        """Checkpoints between two moments, both included, newest first."""
        first, last = as_moment(first), as_moment(last)
        return [c for c in self.list(until=last) if c.timestamp >= first]

    def __len__(self) -> int:
        return len(self.list())

    def __iter__(self) -> Iterator[Checkpoint]:
        """Oldest first."""
        return reversed(self.list())

    def __bool__(self) -> bool:
        return True

    def diff(
        self,
        which: Which,
        other: Which | None = None,
        *,
        paths: Iterable[str | os.PathLike[str]] = (),
        patch: bool = True,
    ) -> DiffResult:
        """What changed from a checkpoint to another one, or to the worktree now."""
        from ckpt.engine.diff import diff

        with self._looking():
            found = Catalog(self._repo)
            words = [as_word(which)] if other is None else [as_word(which), as_word(other)]
            chosen = [found.resolve(word, self._scope, self._session) for word in words]
            for checkpoint in chosen:
                check_has_files(checkpoint)
            return diff(
                self._repo,
                self.forgiving_settings,
                chosen[0],
                chosen[1] if len(chosen) > 1 else None,
                self._limits(paths),
                with_patch=patch,
            )

    def summary(self) -> Summary:
        """How many checkpoints there are of each kind and name, the first and the last."""

        return summarise(self.list())


# -- The part of a manager that decides which checkpoints there are: what stays, goes, comes in

DroppedOnes = list[Dropped]


def _by_id(checkpoint: Checkpoint) -> str:
    return checkpoint.id


class CheckpointKeeper(CheckpointReader):
    """What `CheckpointManager` can do with the checkpoints that there are."""

    def delete(self, which: Which) -> Checkpoint:
        """Drop one checkpoint; it stays in the trash."""
        from ckpt.engine import trash

        with self._writing():
            checkpoint = self._find(which)
            trash.drop(self._repo, checkpoint)
            return checkpoint

    def clear(self, *, everything: bool = False) -> int:
        """Drop all checkpoints of this session, or of this worktree if `everything` may go.

        They stay in the trash. What is pinned and features are kept. Returns how many went.
        """
        if self._session is None and not everything:
            raise UsageError(
                "without a session, clear() would drop the checkpoints of all of them",
                hint="clear(everything=True), or CheckpointManager(…, session=…)",
            )

        with self._writing():
            return clear(self._repo, self.list())

    def export(self, file: str | os.PathLike[str], which: Iterable[Which] | None = None) -> int:
        """Write some checkpoints, or all of `list`, to a file; returns how many.

        State-only managers write JSON, others a git bundle, which needs the commits that HEAD
        was at, but not the project's history.
        """
        from ckpt.api.transfer import export

        path = os.path.join(self._start, as_path(file))
        if isinstance(which, str):
            raise UsageError("which must be a list of checkpoints, not one string", hint="[which]")
        with self._reading():
            chosen = [*self] if which is None else sorted(map(self._find, which), key=_by_id)
            return export(self._repo, self._scope, chosen, path)

    def import_(self, file: str | os.PathLike[str]) -> Checkpoints:
        """Read checkpoints that `export` wrote, into this session if there is one.

        Returns those that are new here. Ids that are taken are given anew; all is checked first.
        """
        from ckpt.api.transfer import import_

        with self._writing():
            path = os.path.join(self._start, as_path(file))
            return import_(self._repo, self._scope, path, self._session)

    def prune(self, policy: Policy | None = None, *, dry_run: bool = False) -> PruneResult:
        """Drop what no rule keeps, into the trash; each decision comes with its reasons.

        Without a policy, that of the settings counts.
        """
        from ckpt.engine.prune import prune
        from ckpt.settings.policy import Policy

        check_type("policy", policy, (Policy, type(None)), "a Policy")
        with self._writing():
            return prune(self._repo, policy or self.settings.policy, dry_run=dry_run)

    def trash(self) -> DroppedOnes:
        """Dropped checkpoints that can be brought back, newest first."""
        from ckpt.engine import trash

        with self._reading():
            return trash.dropped(self._repo)

    def restore_dropped(self, which: Which) -> Checkpoint:
        """Bring a dropped checkpoint back; or the very one that is given, if its ref was taken
        away by other means and git has not collected it yet."""
        from ckpt.engine import trash

        given = which.checkpoint if isinstance(which, SaveResult) else which
        known = given if isinstance(given, Checkpoint) else None
        with self._writing():
            return trash.restore(self._repo, as_word(which), known)

    def pin(self, which: Which, pinned: bool = True) -> Checkpoint:
        """Protect a checkpoint from retention, or (`pinned=False`) no longer."""
        with self._writing():
            checkpoint = self._find(which)
            return catalog.set_pinned(self._repo, checkpoint, pinned)

    def unpin(self, which: Which) -> Checkpoint:
        return self.pin(which, pinned=False)


# -- What `create` was given, made into what the engine is asked for

_TIME_TO_PRUNE = 2.0  # seconds, now and then


@dataclass(frozen=True, slots=True)
class GivenState:
    """State that a caller passes for one checkpoint; UsageError if it cannot be stored."""

    data: Any
    metadata: Mapping[str, Any] | None
    context: Mapping[str, Any] | None
    features: FeatureState | Mapping[str, Any] | None
    files: tuple[bytes, ...]

    @property
    def is_given(self) -> bool:
        parts = (self.data, self.metadata, self.context, self.features)
        return bool(self.files) or any(part is not None for part in parts)

    def texts(self, tracked: TrackedObjects | None) -> Texts:
        """All of it as it will be stored, with the objects that are tracked."""
        context = self.context
        turn = None if tracked is None else tracked.turn()
        if turn is not None:
            context = {"turn": turn, **(context or {})}
        texts = texts_of(
            data=self.data,
            metadata=self.metadata,
            context=context,
            features=as_features(self.features, self.files),
        )
        return texts if tracked is None else {**texts, **tracked.texts()}


def request_of(
    repo: Repository,
    scope: Scope,
    state: GivenState,
    tracked: TrackedObjects | None,
    *,
    name: str | None,
    description: str | None,
    kind: Kind | str,
    trigger: str | None,
    session: str | None,
    pin: bool,
) -> SaveRequest:
    if state.files:
        from ckpt.engine.state import check_places

        check_has_worktree(scope)
        check_places(repo, state.files)
    return SaveRequest(
        name=name,
        description=description,
        kind=as_kind(kind),
        trigger=trigger or "api",
        session=session,
        state=state.texts(tracked),
        state_files=state.files,
        state_is_given=state.is_given,
        pinned=pin,
    )


def save(
    repo: Repository,
    settings: Callable[[], Settings],
    scope: Scope,
    request: SaveRequest,
    *,
    forgiving: Callable[[], Settings],
    recurse: bool,
    progress: Callable[[int, int], None] | None,
    waiting: Waiting | None,
) -> SaveResult:
    """Take the checkpoint; settings matter only for one of files. What no rule keeps any more may
    go then, by the forgiving ones."""
    result = _save(repo, settings, scope, request, recurse, progress, waiting)
    if result.outcome in (Outcome.CREATED, Outcome.PARTIAL) and count_save(repo.private_dir):
        from ckpt.engine.prune import prune_by_itself

        prune_by_itself(repo, forgiving, result.id or "", _TIME_TO_PRUNE)
    return result


def _save(
    repo: Repository,
    settings: Callable[[], Settings],
    scope: Scope,
    request: SaveRequest,
    recurse: bool,
    progress: Callable[[int, int], None] | None,
    waiting: Waiting | None,
) -> SaveResult:
    if scope is Scope.STATE:
        from ckpt.engine import state as state_only

        check_has_worktree(Scope.STATE if recurse else Scope.FULL)
        return state_only.save(repo, request)
    if recurse:
        from ckpt.engine import recurse as engine_recurse

        save = engine_recurse.save
        return save(repo, settings(), request, progress=progress, waiting=waiting)
    from ckpt.engine import snapshot

    return snapshot.save(repo, settings(), request, progress=progress, waiting=waiting)


# -- Rollbacks as the API offers them: files and tracked objects together, or objects alone


def roll_back(
    repo: Repository,
    settings: Settings,
    target: Checkpoint,
    options: RollbackOptions,
    tracked: TrackedObjects | None,
) -> RollbackResult:
    """Bring back a checkpoint of files, with the objects unless only some paths are wanted."""

    def go(options: RollbackOptions) -> RollbackResult:
        if options.recurse:
            from ckpt.engine import recurse

            return recurse.rollback(repo, settings, target, options)
        return rollback(repo, settings, target, options)

    return _with_objects(tracked, target, options, go)


def take_back(
    repo: Repository, settings: Settings, options: RollbackOptions, tracked: TrackedObjects | None
) -> RollbackResult:
    """Undo the last rollback, of the objects too if it had put them back."""

    def go(options: RollbackOptions) -> RollbackResult:
        return undo(repo, settings, options)

    check_ended(repo)
    last = journal.last_rollback(repo.private_dir)
    if last is None:
        return go(options)
    safety, known = last.safety, last.safety_commit
    target = find_same(repo, Catalog(repo), safety, known, trust=options.trust)
    return _with_objects(tracked, target, options, go)


def resume(
    repo: Repository, settings: Settings, tracked: TrackedObjects | None, waiting: Waiting | None
) -> RollbackResult:
    """Finish a rollback that was interrupted, and with it that of the objects."""
    from ckpt.engine import recovery

    safety = journal.read(repo.private_dir).safety
    result = recovery.resume(repo, settings, waiting)
    catalog = Catalog(repo)
    if tracked is None or catalog.commit_of(safety) is None or not catalog.get(safety).tracked:
        return result
    restoration = tracked.prepare(result.target.tracked)
    restoration.apply()
    return replace(result, restored=restoration.names)


def aftermath(
    repo: Repository, turns: Turns | None, callbacks: Iterable[Callable[[RollbackResult], object]]
) -> Callable[[RollbackResult], RollbackResult]:
    """What follows a rollback: ledgers hear of it, then callbacks do. Asked for before it, since
    the files that it changes may be our own."""

    note: Callable[[RollbackResult], None] | None = None
    if turns is not None or has_sessions(repo.private_dir):
        from ckpt.api.turns import note_return

        note = partial(note_return, repo, turns)

    def follow(result: RollbackResult) -> RollbackResult:
        if result.dry_run:
            return result
        if note is not None:
            note(result)
        warnings = call_all(callbacks, result)
        return replace(result, warnings=warnings) if warnings else result

    return follow


def restore_state(
    target: Checkpoint, options: RollbackOptions, tracked: TrackedObjects | None
) -> RollbackResult:
    """Bring back what a checkpoint holds besides files; no file, index or ref is touched."""
    if options.paths:
        raise UsageError(
            f"checkpoint '{target.id}' is rolled back without files", hint="leave the paths out"
        )
    result = RollbackResult(target, None, dry_run=options.dry_run)
    if tracked is None or options.dry_run:
        return result
    restoration = tracked.prepare(target.tracked)
    restoration.apply()
    return replace(result, restored=restoration.names)


def _with_objects(
    tracked: TrackedObjects | None,
    target: Checkpoint,
    options: RollbackOptions,
    go: Callable[[RollbackOptions], RollbackResult],
) -> RollbackResult:
    """Put tracked objects back together with the files: both, or neither."""
    if tracked is None or options.dry_run or options.paths:
        return go(options)
    restoration = tracked.prepare(target.tracked)
    if not restoration.names:
        return go(options)
    now = tracked.texts_if_possible()
    options = replace(options, state=now, moves_state=restoration.differs(now))
    restoration.apply()
    try:
        return replace(go(options), restored=restoration.names)
    except BaseException:
        restoration.revert()
        raise


# -- The Python API: a thin face over the engine


class CheckpointManager(CheckpointKeeper):
    """Save, look at and go back to checkpoints of one worktree."""

    def __init__(
        self,
        path: str | os.PathLike[str] = ".",
        *,
        session: str | None = None,
        enabled: bool = True,
        worktree: bool = True,
        store: str = "repo",
        settings: Settings | Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        env = os.environ if environ is None else environ
        scope = Scope.FULL if worktree else Scope.STATE
        super().__init__(path, env, store, settings, session, scope)
        self.enabled = enabled
        self._tracked: TrackedObjects | None = None
        self._on_checkpoint: list[CheckpointCallback] = []
        self._on_rollback: list[RollbackCallback] = []
        self.progress: Callable[[int, int], None] | None = None
        self.waiting: Waiting | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- saving ------------------------------------------------------------------

    def create(
        self,
        name: str | None = None,
        *,
        description: str | None = None,
        kind: Kind | str = Kind.MANUAL,
        data: Any = None,
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        features: FeatureState | Mapping[str, Any] | None = None,
        state_files: Iterable[str | os.PathLike[str]] | None = None,
        session: str | None = None,
        pin: bool = False,
        recurse: bool = False,
        trigger: str | None = None,
    ) -> SaveResult:
        """Take a checkpoint. The result is true when a checkpoint holds the state.

        Files of `state_files` are kept and come back whatever the rules say of them, also if they
        are ignored. With `recurse`, submodules and other repositories inside get checkpoints of
        their own.
        """
        check_texts(name=name, description=description, session=session, trigger=trigger)
        check_mappings(metadata=metadata, context=context)
        if not self.enabled or (as_kind(kind) in TRIGGERED and self._is_off(trigger)):
            return SaveResult(Outcome.SKIPPED, reason="disabled")
        with self._writing():
            # Here, as a signal's handler that calls in the midst of it could not import it.

            files = () if state_files is None else self._limits(state_files)
            request = request_of(
                self._repo,
                self._scope,
                GivenState(data, metadata, context, features, files),
                self._tracked,
                name=name,
                description=description,
                kind=kind,
                trigger=trigger,
                session=session if session is not None else self._session,
                pin=pin,
            )
            result = save(
                self._repo,
                lambda: self.settings,
                self._scope,
                request,
                forgiving=lambda: self.forgiving_settings,
                recurse=recurse,
                progress=self.progress,
                waiting=self.waiting,
            )
        return self._told_saved(result)

    def on_checkpoint(self, callback: OnCheckpoint) -> OnCheckpoint:
        """Have a function called with every checkpoint that this manager takes.

        Several may be; one that fails is told by the result's `warnings`, and undoes nothing.
        Can stand before the function as a decorator.
        """
        self._on_checkpoint.append(callback)
        return callback

    def _told_saved(self, result: SaveResult) -> SaveResult:
        if not self._on_checkpoint or result.checkpoint is None:
            return result
        if result.outcome is Outcome.UNCHANGED:
            return result

        told = call_all(self._on_checkpoint, result.checkpoint)
        return replace(result, warnings=(*result.warnings, *told))

    def _is_off(self, trigger: str | None) -> bool:
        from ckpt.settings.settings import disabled_by_env

        return disabled_by_env(self._repo.env, trigger) or not self.settings.allows(trigger)

    def track(self, name: str, thing: Any, *, turn: str | None = None) -> None:
        """Save an object with every checkpoint and put it back, in place, on every rollback.

        A pydantic model, a dataclass, a dict, a list, or anything with `capture()` and
        `restore(state)`. `turn` names the attribute (or key) in which it counts its turns;
        checkpoints have that as `context["turn"]`.
        """
        check_texts(name=name, turn=turn)
        from ckpt.api.tracking import TrackedObjects

        with self._alone():
            if self._tracked is None:
                self._tracked = TrackedObjects()
            self._tracked.add(name, thing, turn)

    def untrack(self, name: str) -> None:
        """Neither save an object nor put it back any more."""
        with self._alone():
            if self._tracked is not None:
                self._tracked.remove(name)

    # -- going back --------------------------------------------------------------

    def rollback(
        self,
        which: Which,
        paths: Iterable[str | os.PathLike[str]] | None = None,
        *,
        head: bool = False,
        dry_run: bool = False,
        index: bool = True,
        overwrite_ignored: bool = False,
        recurse: bool = False,
        yes: bool = False,
        keep_edits: bool = False,
        session: str | None = None,
        trust: bool = False,
    ) -> RollbackResult:
        """Bring back a checkpoint, whole or only some paths. The present is saved first.

        With `recurse`, repositories inside go back to the checkpoints that were taken of them
        together with this one, their HEAD included, each with an undo of its own. With
        `keep_edits`, only what the agent wrote (see `record_write`) and nobody has changed since
        goes back; whose writes these are, the checkpoint's session tells, or `session`. With
        `trust`, a checkpoint that was not made here is taken as it is.
        """
        from ckpt.engine.prepare import RollbackOptions

        check_keep_edits(keep_edits, session, head=head, recurse=recurse)
        limits = self._limits(paths or ())
        if paths is not None and not limits:
            raise UsageError("no paths were named", hint="leave paths out to restore everything")
        options = RollbackOptions(
            paths=limits,
            head=head,
            index=index,
            dry_run=dry_run,
            overwrite_ignored=overwrite_ignored,
            recurse=recurse,
            yes=yes,
            trust=trust,
            progress=self.progress,
            waiting=self.waiting,
        )
        follow = self._aftermath()
        with self._looking() if dry_run else self._writing():
            target = self._find(which)
            if self._scope is Scope.STATE or target.scope is Scope.STATE:
                result = restore_state(target, options, self._tracked)
            else:
                if keep_edits:
                    options = replace(options, ledger=self._ledger(target, session))
                settings = self.forgiving_settings
                result = roll_back(self._repo, settings, target, options, self._tracked)
        return follow(result)

    def rollback_to_latest(self, **options: Unpack[RollbackKeywords]) -> RollbackResult:
        """Roll back to the newest checkpoint; takes the options of `rollback`."""
        newest = self.latest()
        if newest is None:
            raise NotFound(
                "there is no checkpoint to roll back to"
                + (f" in session '{self._session}'" if self._session is not None else ""),
                hint="git ckpt list",
                details={"available": []},
            )
        return self.rollback(newest, **options)

    def undo(
        self, *, dry_run: bool = False, yes: bool = False, trust: bool = False
    ) -> RollbackResult:
        """Take back the last rollback of this worktree; a second call redoes it. With `trust`,
        also if the state before it is in another's checkpoint by now, taken as it is."""
        from ckpt.engine.prepare import RollbackOptions

        check_has_worktree(self._scope)
        options = RollbackOptions(
            dry_run=dry_run,
            yes=yes,
            trust=trust,
            progress=self.progress,
            waiting=self.waiting,
        )
        follow = self._aftermath()
        with self._looking() if dry_run else self._writing():
            result = take_back(self._repo, self.forgiving_settings, options, self._tracked)
        return follow(result)

    def resume_rollback(self) -> RollbackResult:
        """Finish a rollback that was interrupted."""

        check_has_worktree(self._scope)
        follow = self._aftermath()
        with self._writing():
            settings = self.forgiving_settings
            result = resume(self._repo, settings, self._tracked, self.waiting)
        return follow(result)

    def abort_rollback(self) -> RollbackResult:
        """Return to the state before a rollback that was interrupted."""
        from ckpt.engine.recovery import abort

        check_has_worktree(self._scope)
        with self._writing():
            return abort(self._repo, self.forgiving_settings, self.waiting)

    def guard(self, name: str | None = None) -> Guard:
        """A block, or as a decorator a function, that leaves everything as it was if it raises.

        For `with`, `async with`, functions and coroutine functions. The rollback is whole: HEAD,
        branch and tracked objects too; what was created since goes. The exception survives.
        """
        check_texts(name=name)
        from ckpt.api.blocks import Guard

        return Guard(self, name)

    def on_rollback(self, callback: OnRollback) -> OnRollback:
        """Have a function called with the result of every rollback and undo; see on_checkpoint."""
        self._on_rollback.append(callback)
        return callback

    def _aftermath(self) -> Callable[[RollbackResult], RollbackResult]:

        return aftermath(self._repo, self.__dict__.get("_turns"), self._on_rollback)

    # -- turns -------------------------------------------------------------------

    @cached_property
    def _turns(self) -> Turns:
        from ckpt.api.turns import turns_of

        return turns_of(self._repo.private_dir, self._session)

    @property
    def turn(self) -> int:
        """The number of the agent's turn; 0 before the first."""
        return self._turns.turn

    def new_turn(self) -> int:
        """The agent begins another turn, for which `ensure` takes another checkpoint."""
        with self._noting():
            return self._turns.new_turn()

    def ensure(self, reason: str | None = None) -> SaveResult:
        """Have a checkpoint for this turn before something is changed; never raises.

        The outcome is `skipped` with the reason `disabled`, `duplicate` (this turn has one) or
        `busy`, `unchanged` with the checkpoint that has it all already, or `failed` and why.
        """
        if not self.enabled:
            return SaveResult(Outcome.SKIPPED, reason="disabled")
        try:
            from ckpt.api.turns import once, readable

            told = readable(reason)
            with self._reading():
                return once(self._turns, lambda: self.create(kind=Kind.AUTO, description=told))
        except Busy:
            return SaveResult(Outcome.SKIPPED, reason="busy")
        except Exception as error:  # an agent goes on without a checkpoint, and is told
            return SaveResult(Outcome.FAILED, reason=str(error) or type(error).__name__)

    def record_write(self, path: str | os.PathLike[str], *, existed: bool | None = None) -> None:
        """The agent has written to a file, or removed it: `keep_edits` goes by this.

        `existed` tells, if that is known, whether something was there before.
        """
        from ckpt.engine.sessions import look

        relative = self._limit(path)
        place = os.path.join(os.fsencode(self._repo.worktree), relative)
        with self._noting():
            self._turns.record(relative, look(place), existed=existed)

    def _ledger(self, target: Checkpoint, session: str | None) -> Mapping[bytes, Write]:
        """What the agent wrote: in a session that is known to others too, or in none."""
        if session is None and self._session is None and target.session is None:
            return self._turns.writes()
        from ckpt.engine.plan import ledger_of

        return ledger_of(self._repo.private_dir, target, session, self._session)
