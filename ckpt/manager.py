# SPDX-License-Identifier: MIT
"""The Python API: save, inspect, restore and drop the checkpoints of one worktree.

Threads may share a manager, and processes a repository. Like the command line, a manager reads
the environment as git does. Methods import what only they need.
"""

from __future__ import annotations

import os
from _thread import RLock
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

from ckpt import engine
from ckpt.disk import is_interrupted, is_rolling_back
from ckpt.engine import catalog
from ckpt.engine.catalog import Catalog
from ckpt.errors import Busy, CkptError, NotFound, Refused, UsageError, as_ckpt_error
from ckpt.git.record import snapshot_path, texts_of
from ckpt.git.repository import Repository, discover
from ckpt.models import (
    TRIGGERED,
    Checkpoint,
    DiffResult,
    Dropped,
    FeatureState,
    Kind,
    RollbackResult,
    SaveResult,
    Scope,
    Summary,
)
from ckpt.paths import relative_to_top, to_bytes

if TYPE_CHECKING:
    from typing_extensions import Self

    from ckpt.api.blocks import Guard
    from ckpt.api.tracking import TrackedObjects
    from ckpt.engine.prepare import RollbackOptions
    from ckpt.engine.sessions import SessionState, Write
    from ckpt.engine.snapshot import SaveRequest
    from ckpt.engine.trash import PruneResult
    from ckpt.settings.settings import Policy, Settings

T = TypeVar("T")
Which = str | Checkpoint | SaveResult
Checkpoints = list[Checkpoint]  # `list` is a method below
DroppedOnes = list[Dropped]
CheckpointCallback = Callable[[Checkpoint], object]
RollbackCallback = Callable[[RollbackResult], object]
OnCheckpoint = TypeVar("OnCheckpoint", bound=CheckpointCallback)
OnRollback = TypeVar("OnRollback", bound=RollbackCallback)

_TIME_TO_PRUNE = 2.0  # seconds that an automatic prune may take
_WAIT_FOR_TURN = 10.0  # seconds, while another process saves for the same turn
_LONGEST_REASON = 10_000  # characters


class CheckpointManager:
    """Save, inspect and restore checkpoints of one worktree."""

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
        open_: Callable[[str, Mapping[str, str]], Repository] = discover
        if store == "user":
            from ckpt.engine.private_store import open_store as open_
        elif store != "repo":
            raise UsageError(f"unknown store '{store}'", hint="one of repo, user")
        with _disk_errors():  # such as a missing current directory
            self._start = os.path.realpath(path)
            self._repo = open_(os.fspath(path), env)
        self._given = settings
        self._session = session
        self._scope = Scope.FULL if worktree else Scope.STATE
        self._tracked: TrackedObjects | None = None
        self._on_checkpoint: list[CheckpointCallback] = []
        self._on_rollback: list[RollbackCallback] = []
        self._lock, self._is_at_work = RLock(), False
        self._is_fresh = True  # the first call need not reread the configuration
        self.enabled = enabled
        self.progress: Callable[[int, int], None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close open packs after other threads finish; the manager remains usable."""
        with self._lock:
            self._check_idle()
            self._repo.close()

    @property
    def repository(self) -> Repository:
        return self._repo

    @cached_property
    def settings(self) -> Settings:
        """Read the settings; raise `UsageError` if they are invalid."""
        from ckpt.settings.settings import Settings, load_settings

        given = self._given
        return given if isinstance(given, Settings) else load_settings(self._repo, given)

    @cached_property
    def forgiving_settings(self) -> Settings:
        """Read the settings for a rollback, ignoring invalid ones."""
        from ckpt.settings.settings import Settings, load_forgiving

        given = self._given
        return given if isinstance(given, Settings) else load_forgiving(self._repo, given)

    @property
    def rollback_interrupted(self) -> bool:
        """Return whether an interrupted rollback can be resumed or aborted in this worktree."""
        return is_interrupted(self._repo.private_dir)

    @property
    def rollback_running(self) -> bool:
        """Return whether another process is rolling back this worktree."""
        return is_rolling_back(self._repo.private_dir)

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
        """Take a checkpoint, with `recurse` also of submodules and other nested repositories.
        `state_files` are saved even if ignored."""
        kind = Kind(kind)
        if not all(value is None or isinstance(value, Mapping) for value in (metadata, context)):
            raise UsageError("metadata and context are mappings", hint="metadata={key: value}")
        if not self.enabled or (kind in TRIGGERED and self._is_off(trigger)):
            return SaveResult.skipped("disabled")
        with self._working():
            files = self._limits(state_files or ())
            if files:
                check_has_worktree(self._scope)
                engine.snapshot.check_state_files(self._repo, files)
            given = {"data": data, "metadata": metadata, "context": context}
            given["features"] = as_features(features, files)
            tracked = None if self._tracked is None else self._tracked.stored()
            request = engine.snapshot.SaveRequest(
                name=name,
                description=description,
                kind=kind,
                trigger=trigger or "api",
                session=session if session is not None else self._session,
                state=texts_of(**given, tracked=tracked),
                state_files=files,
                state_is_given=bool(files) or any(part is not None for part in given.values()),
                pinned=pin,
                progress=self.progress,
            )
            result = self._save(request, recurse)
        if result.made is None:
            return result
        warnings = _call_all(self._on_checkpoint, result.made)
        return result._replace(warnings=(*result.warnings, *warnings))

    def _save(self, request: SaveRequest, recurse: bool) -> SaveResult:
        """Take the checkpoint, and prune from time to time."""
        if recurse:
            check_has_worktree(self._scope)
        if self._scope is Scope.STATE:
            result = engine.snapshot.save_state(self._repo, request)
        else:
            save = engine.nested.save if recurse else engine.snapshot.save
            result = save(self._repo, self.settings, request)
        if engine.snapshot.count_save(self._repo.private_dir, result):
            settings = self.forgiving_settings
            engine.trash.prune_by_itself(self._repo, settings, result.id or "", _TIME_TO_PRUNE)
        return result

    def _is_off(self, trigger: str | None) -> bool:
        from ckpt.settings.settings import disabled_by_env

        return disabled_by_env(self._repo.env, trigger) or not self.settings.allows(trigger)

    def on_checkpoint(self, callback: OnCheckpoint) -> OnCheckpoint:
        """Call a function with every checkpoint taken; its failure becomes a warning."""
        self._on_checkpoint.append(callback)
        return callback

    def track(self, name: str, thing: Any) -> None:
        """Save an object with every checkpoint and restore it, in place, on every rollback."""
        from ckpt.api.tracking import TrackedObjects

        if self._tracked is None:
            self._tracked = TrackedObjects()
        self._tracked.add(name, thing)

    # -- rolling back ------------------------------------------------------------

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
    ) -> RollbackResult:
        """Restore a checkpoint, or only some paths of it, after saving the current state.

        `recurse` also restores nested repositories to their checkpoints taken with this one;
        `keep_edits` restores only files last written by the agent of the session.
        """
        if keep_edits and (head or recurse):  # writes are recorded for files of this worktree only
            other = "--head" if head else "--recurse"
            raise UsageError(f"--keep-edits and {other} exclude each other", hint="leave one out")
        if session is not None and not keep_edits:
            raise UsageError("a session is for --keep-edits only", hint="add --keep-edits")
        limits = self._limits(paths or ())
        if paths is not None and not limits:
            raise UsageError("no paths were named", hint="leave paths out to restore everything")
        with self._working():
            target = self._find(which)
            result = self._with_objects(
                target,
                self._way_back(target, limits, recurse),
                paths=limits,
                head=head,
                index=index,
                dry_run=dry_run,
                overwrite_ignored=overwrite_ignored,
                yes=yes,
                ledger=self._ledger(target, session) if keep_edits else None,
            )
        return self._tell_rolled_back(result)

    def _way_back(
        self, target: Checkpoint, paths: tuple[bytes, ...], recurse: bool
    ) -> Callable[[RollbackOptions], RollbackResult]:
        if self._scope is Scope.STATE or target.scope is Scope.STATE:
            if paths:
                message = f"checkpoint '{target.id}' is rolled back without files"
                raise UsageError(message, hint="leave the paths out")
            return lambda options: RollbackResult(target, None, dry_run=options.dry_run)
        go = engine.nested.rollback if recurse else engine.rollback.rollback
        return partial(go, self._repo, self.forgiving_settings, target)

    def rollback_to_latest(
        self,
        *,
        head: bool = False,
        dry_run: bool = False,
        yes: bool = False,
        keep_edits: bool = False,
    ) -> RollbackResult:
        """Roll back to the newest checkpoint; see `rollback`."""
        return self.rollback("latest", head=head, dry_run=dry_run, yes=yes, keep_edits=keep_edits)

    def undo(self, *, dry_run: bool = False, yes: bool = False) -> RollbackResult:
        """Undo the last rollback of this worktree; a second call redoes it."""
        check_has_worktree(self._scope)
        with self._working():
            _, target = engine.rollback.undo_target(self._repo)
            go = partial(engine.rollback.undo, self._repo, self.forgiving_settings)
            result = self._with_objects(target, go, dry_run=dry_run, yes=yes)
        return self._tell_rolled_back(result)

    def resume_rollback(self) -> RollbackResult:
        """Finish an interrupted rollback, without changing tracked objects."""
        return self._tell_rolled_back(self._recover(forwards=True))

    def abort_rollback(self) -> RollbackResult:
        """Return to the state before an interrupted rollback."""
        return self._recover(forwards=False)

    def _recover(self, forwards: bool) -> RollbackResult:
        check_has_worktree(self._scope)
        with self._working():
            return engine.recovery.recover(self._repo, self.forgiving_settings, forwards=forwards)

    def guard(self, name: str | None = None) -> Guard:
        """Guard a block or function: if it raises, roll back everything, HEAD included."""
        from ckpt.api.blocks import Guard

        return Guard(self, name)

    def on_rollback(self, callback: OnRollback) -> OnRollback:
        """Call a function with the result of every rollback and undo; see `on_checkpoint`."""
        self._on_rollback.append(callback)
        return callback

    def _tell_rolled_back(self, result: RollbackResult) -> RollbackResult:
        if result.dry_run:
            return result
        return result._replace(warnings=_call_all(self._on_rollback, result))

    def _with_objects(
        self, target: Checkpoint, go: Callable[[RollbackOptions], RollbackResult], **options: Any
    ) -> RollbackResult:
        """Roll back both files and tracked objects, or neither."""
        made = engine.prepare.RollbackOptions
        options["progress"] = self.progress
        if self._tracked is None or options["dry_run"] or options.get("paths"):
            return go(made(**options))
        now = self._tracked.stored(forgiving=True)
        moves = self._tracked.differ(target.tracked, now)
        with self._tracked.put_back(target.tracked) as names:
            if names:
                options |= {"state": texts_of(tracked=now), "moves_state": moves}
            return go(made(**options))._replace(restored=names)

    # -- inspecting --------------------------------------------------------------

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
        """List checkpoints of this worktree and session, newest first."""
        of_kind = None if kind is None else Kind(kind)
        after = None if since is None else as_moment(since)
        last = None if until is None else as_moment(until)
        of_session = session if session is not None else self._session
        with self._reading():
            found = Catalog(self._repo)
            return [
                c
                for c in (found if all_worktrees else found.here())
                if (of_kind is None or c.kind is of_kind)
                and (name is None or c.name == name)
                and (of_session is None or c.session == of_session)
                and (self._scope is Scope.FULL or c.scope is Scope.STATE)
                and (after is None or c.timestamp > after)
                and (last is None or c.timestamp <= last)
            ]

    def get(self, which: Which) -> Checkpoint:
        """Find a checkpoint by id, name, unique prefix or `latest~N`, or raise `NotFound`."""
        with self._reading():
            return self._find(which)

    def _find(self, which: Which) -> Checkpoint:
        return Catalog(self._repo).resolve(as_word(which), self._scope, self._session)

    def by_name(self, name: str) -> Checkpoints:
        return self.list(name=name)

    def latest(self, name: str | None = None, kind: Kind | str | None = None) -> Checkpoint | None:
        """Return the newest checkpoint; safety checkpoints count only if `kind` asks for them."""
        for found in self.list(name=name, kind=kind):
            counts = kind is not None or catalog.counts_as_latest(found, self._scope)
            if counts and found.scope is self._scope and catalog.is_timely(found):
                return found
        return None

    def since(self, moment: datetime) -> Checkpoints:
        """List checkpoints taken after a moment, newest first."""
        return self.list(since=moment)

    def between(self, first: datetime, last: datetime) -> Checkpoints:
        """List checkpoints between two moments, inclusive, newest first."""
        return [c for c in self.list(until=last) if c.timestamp >= as_moment(first)]

    def __len__(self) -> int:
        return len(self.list())

    def __iter__(self) -> Iterator[Checkpoint]:
        """Iterate over the checkpoints, oldest first."""
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
        """Compare a checkpoint with another, or with the worktree."""
        with self._working():
            first = self._find(which)
            second = None if other is None else self._find(other)
            for one in (first, second or first):
                if one.scope is Scope.STATE:
                    message = f"checkpoint '{one.id}' holds agent state only, no files"
                    raise UsageError(message, hint=f"git ckpt show {one.id}")
            limits = self._limits(paths)
            settings = self.forgiving_settings
            return engine.diff.diff(self._repo, settings, first, second, limits, with_patch=patch)

    def summary(self) -> Summary:
        """Count checkpoints by kind and name, and find the first and the last."""
        found = self.list()
        return Summary(
            count=len(found),
            kinds=dict(sorted(Counter(c.kind.value for c in found).items())),
            names=dict(sorted(Counter(c.name for c in found if c.name is not None).items())),
            first=found[-1] if found else None,
            last=found[0] if found else None,
        )

    # -- keeping and dropping ----------------------------------------------------

    def delete(self, which: Which) -> Checkpoint:
        """Move a checkpoint to the trash."""
        with self._working():
            checkpoint = self._find(which)
            engine.trash.drop(self._repo, checkpoint)
            return checkpoint

    def clear(self, *, everything: bool = False) -> int:
        """Drop the checkpoints of this session or worktree, except pinned and feature ones."""
        if self._session is None and not everything:
            raise UsageError(
                "without a session, clear() would drop the checkpoints of all of them",
                hint="clear(everything=True), or CheckpointManager(…, session=…)",
            )
        count = 0
        with self._working():
            for checkpoint in self.list():
                if checkpoint.pinned or checkpoint.kind is Kind.FEATURE:
                    continue
                try:
                    engine.trash.drop(self._repo, checkpoint)
                    count += 1
                except (NotFound, Refused):  # already dropped, or in use by a rollback
                    continue
        return count

    def export(self, file: str | os.PathLike[str], which: Iterable[Which] | None = None) -> int:
        """Export checkpoints to a git bundle, or agent state to JSON; return how many."""
        from ckpt.api.transfer import export

        path = os.path.join(self._start, file)
        with self._reading():
            chosen = (
                [*self] if which is None else sorted(map(self._find, which), key=lambda one: one.id)
            )
            return export(self._repo, self._scope, chosen, path)

    def import_(self, file: str | os.PathLike[str]) -> Checkpoints:
        """Import an exported file into this session, if any; return the new checkpoints."""
        from ckpt.api.transfer import import_

        with self._working():
            path = os.path.join(self._start, file)
            return import_(self._repo, self._scope, path, self._session)

    def prune(self, policy: Policy | None = None, *, dry_run: bool = False) -> PruneResult:
        """Drop the checkpoints that no rule of the policy (default: from the settings) keeps."""
        with self._working():
            return engine.trash.prune(self._repo, policy or self.settings.policy, dry_run=dry_run)

    def trash(self) -> DroppedOnes:
        """List dropped checkpoints that can be restored, newest first."""
        with self._reading():
            return engine.trash.dropped(self._repo)

    def restore_dropped(self, which: Which) -> Checkpoint:
        """Restore a dropped checkpoint."""
        with self._working():
            return engine.trash.restore(self._repo, as_word(which))

    def pin(self, which: Which, pinned: bool = True) -> Checkpoint:
        """Protect a checkpoint from being pruned, or stop protecting it."""
        with self._working():
            checkpoint = self._find(which)
            return catalog.set_pinned(self._repo, checkpoint, pinned)

    def unpin(self, which: Which) -> Checkpoint:
        return self.pin(which, pinned=False)

    # -- turns -------------------------------------------------------------------

    @cached_property
    def _turns(self) -> SessionState:
        """Open the turns of the session, shared with its hooks, or of this manager."""
        own = f"manager {os.getpid()} {os.urandom(8).hex()}"
        session = own if self._session is None else self._session
        return engine.sessions.SessionState(self._repo.private_dir, session)

    @property
    def turn(self) -> int:
        """Return the number of the agent's current turn; 0 before the first."""
        return self._turns.read().turn

    def new_turn(self) -> int:
        """Begin a new turn of the agent, for which `ensure` takes a new checkpoint."""
        with self._reading():
            return self._turns.new_turn()

    def ensure(self, reason: str | None = None) -> SaveResult:
        """Take a checkpoint unless this turn has one; never raise. The reason of the result is
        `disabled`, `duplicate`, `busy`, or an error."""
        if not self.enabled:
            return SaveResult.skipped("disabled")
        try:
            description = None if reason is None else str(reason)[:_LONGEST_REASON]
            with self._reading(), self._turns.saving(_WAIT_FOR_TURN):
                now = self._turns.read()
                if now.is_claimed:
                    return SaveResult.skipped("duplicate")
                saved = self.create(kind=Kind.AUTO, description=description)
                if saved:
                    self._turns.claim(now.turn)
                return saved
        except Busy:
            return SaveResult.skipped("busy")
        except Exception as error:  # a failed save must not stop the agent
            return SaveResult.failed(str(error) or type(error).__name__)

    def record_write(self, path: str | os.PathLike[str], *, existed: bool | None = None) -> None:
        """Record, for `keep_edits`, that the agent wrote or removed a file, and whether the file
        existed before, if known."""
        (relative,) = self._limits([path])
        place = os.path.join(os.fsencode(self._repo.worktree), relative)
        with self._reading():
            self._turns.record(relative, engine.sessions.look(place), existed=existed)

    def _ledger(self, target: Checkpoint, session: str | None) -> Mapping[bytes, Write]:
        """Return the agent's writes in a session, or those recorded by this manager."""
        session = session or target.session or self._session
        if session is not None:
            return engine.sessions.SessionState(self._repo.private_dir, session).read().writes
        if "_turns" in self.__dict__:
            return self._turns.read().writes
        raise UsageError(
            f"checkpoint '{target.id}' belongs to no session, so nobody knows what an agent wrote",
            hint="name the session with --session, or roll back without --keep-edits",
        )

    # -- locking -----------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Lock out other threads, and check that the repository exists."""
        with self._lock, _disk_errors():
            self._repo.check_there()
            try:
                yield
            except (CkptError, OSError):
                self._repo.check_there()  # a missing repository explains the error
                raise

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Do the same with a reread configuration, and refuse nested calls."""
        with self._reading():
            self._check_idle()
            self._is_at_work = True
            try:
                if not self._is_fresh:
                    self._repo = self._repo.reloaded()
                    self.__dict__.pop("settings", None)
                    self.__dict__.pop("forgiving_settings", None)
                self._is_fresh = False
                yield
            finally:
                self._is_at_work = False

    def _check_idle(self) -> None:
        if self._is_at_work:  # called from a callback or a signal handler
            raise Busy(
                "another call of this manager is under way in the same thread",
                hint="call it when that one has returned",
            )

    def _limits(self, paths: Iterable[str | os.PathLike[str]]) -> tuple[bytes, ...]:
        """Convert paths relative to the opened directory to repository paths."""
        named = [paths] if isinstance(paths, str) else paths
        top = self._repo.worktree
        return tuple(relative_to_top(os.fspath(path), top, self._start) for path in named)


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise as_ckpt_error(error) from error


def _call_all(callbacks: Iterable[Callable[[T], object]], value: T) -> tuple[str, ...]:
    """Call each callback with a value; return a warning for each that failed."""
    warnings = []
    for callback in tuple(callbacks):
        try:
            callback(value)
        except Exception as error:  # raised by the caller's code
            name = getattr(callback, "__qualname__", None) or repr(callback)
            warnings.append(f"callback '{name}' failed: {type(error).__name__}: {error}")
    return tuple(warnings)


# -- Checking arguments


def check_has_worktree(scope: Scope) -> None:
    if scope is Scope.STATE:
        raise Refused(
            "this manager keeps state only and touches no files",
            hint="open CheckpointManager(path) without worktree=False",
        )


def as_features(
    features: FeatureState | Mapping[str, Any] | None, state_files: Sequence[bytes] = ()
) -> FeatureState | None:
    """Check the features; their snapshot is by default the first state file."""
    if features is None:
        return None
    try:
        given: Any = features if isinstance(features, FeatureState) else FeatureState(**features)
        current, completed, path = given
        texts = (current or "", path or "", *(completed or ()))
        if isinstance(completed, str) or not all(isinstance(text, str) for text in texts):
            raise TypeError
    except TypeError:
        raise UsageError(
            "features has current, completed and snapshot_path, named by strings, and nothing else",
            hint="features={'current': 'auth-003', 'completed': ['auth-001']}",
        ) from None
    wanted = state_files[0] if path is None and state_files else to_bytes(path or "")
    if wanted in state_files:  # record its path in the checkpoint
        path = snapshot_path(wanted)
    return FeatureState(current, tuple(completed or ()), path)


def as_word(which: Which) -> str:
    if isinstance(which, str):
        return which
    if which.id is None:
        raise UsageError("this result holds no checkpoint", hint="look at its .outcome")
    return which.id


def as_moment(moment: datetime) -> datetime:
    """Add the local time zone to a moment that has none."""
    return moment if moment.tzinfo is not None else moment.astimezone()
