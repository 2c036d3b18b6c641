# SPDX-License-Identifier: MIT
"""The Python API: save, look at, go back to and drop the checkpoints of one worktree.

    with CheckpointManager("path/to/project") as manager:
        saved = manager.create("before-refactor")
        …
        manager.rollback(saved)

A manager may be used from several threads, a repository by several processes. Like the command
line, it reads the environment as git does. A method imports what only it needs.
"""

from __future__ import annotations

import os
from _thread import RLock
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
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
from ckpt.engine import catalog
from ckpt.engine.catalog import Catalog
from ckpt.errors import Busy, CkptError, DiskError, NotFound, Refused, UsageError
from ckpt.git.record import texts_of
from ckpt.git.repository import Repository, discover
from ckpt.locks import is_interrupted, running_rollback
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

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ckpt.api.blocks import Guard
    from ckpt.api.tracking import TrackedObjects
    from ckpt.api.turns import Turns
    from ckpt.engine.prepare import RollbackOptions
    from ckpt.engine.prune import PruneResult
    from ckpt.engine.sessions import Write
    from ckpt.engine.snapshot import SaveRequest
    from ckpt.locks import Waiting
    from ckpt.settings.policy import Policy
    from ckpt.settings.settings import Settings

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


T = TypeVar("T")
Checkpoints = list[Checkpoint]  # `list` is a method below
DroppedOnes = list[Dropped]
CheckpointCallback = Callable[[Checkpoint], object]
RollbackCallback = Callable[[RollbackResult], object]
OnCheckpoint = TypeVar("OnCheckpoint", bound=CheckpointCallback)
OnRollback = TypeVar("OnRollback", bound=RollbackCallback)

_A_MOMENT = 0.005  # seconds for which the configuration read on opening counts as the present one
_TIME_TO_PRUNE = 2.0  # seconds, now and then


def failure(callback: Callable[..., Any], error: Exception) -> str:
    """The warning about a callback that failed."""
    name = getattr(callback, "__qualname__", None) or repr(callback)
    return f"callback '{name}' failed: {type(error).__name__}: {error}"


class CheckpointManager:
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
        check_texts(session=session)
        if settings is not None:
            from ckpt.settings.settings import Settings

            check_type("settings", settings, (Settings, Mapping), "Settings or a mapping")
        name = as_path(path)
        try:
            self._start = os.path.realpath(name)
            self._repo = _open(name, os.environ if environ is None else environ, store)
        except OSError as error:  # as where the current folder is gone
            raise error if isinstance(error, CkptError) else DiskError(error) from error
        self._given = settings
        self._session = session
        self._scope = Scope.FULL if worktree else Scope.STATE
        self._tracked: TrackedObjects | None = None
        self._on_checkpoint: list[CheckpointCallback] = []
        self._on_rollback: list[RollbackCallback] = []
        self._begin()
        self._fresh_until = monotonic() + _A_MOMENT
        self.enabled = enabled
        self.progress: Callable[[int, int], None] | None = None
        self.waiting: Waiting | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close open pack files; the manager can be used again afterwards.

        Waits for other threads. In the midst of another call, it is that which closes at its end.
        """
        with self._alone():
            self._is_closing = True

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
        from ckpt.engine.snapshot import SaveRequest

        check_texts(name=name, description=description, session=session, trigger=trigger)
        check_mappings(metadata=metadata, context=context)
        kind = as_kind(kind)
        if not self.enabled or (kind in TRIGGERED and self._is_off(trigger)):
            return SaveResult(Outcome.SKIPPED, reason="disabled")
        with self._working(writes=True):
            files = self._state_files(() if state_files is None else state_files)
            given = (data, metadata, context, features)
            turn = None if self._tracked is None else self._tracked.turn()
            if turn is not None:
                context = {"turn": turn, **(context or {})}
            state = texts_of(
                data=data,
                metadata=metadata,
                context=context,
                features=as_features(features, files),
            )
            request = SaveRequest(
                name=name,
                description=description,
                kind=kind,
                trigger=trigger or "api",
                session=session if session is not None else self._session,
                state=state if self._tracked is None else {**state, **self._tracked.texts()},
                state_files=files,
                state_is_given=bool(files) or any(part is not None for part in given),
                pinned=pin,
            )
            result = self._save(request, recurse)
        return self._tell_saved(result)

    def _save(self, request: SaveRequest, recurse: bool) -> SaveResult:
        """Take the checkpoint, and drop now and then what no rule keeps any more."""
        from ckpt.engine import snapshot

        save: Callable[..., SaveResult] = snapshot.save
        if recurse:
            from ckpt.engine import recurse as with_nested

            check_has_worktree(self._scope)
            save = with_nested.save
        if self._scope is Scope.STATE:
            from ckpt.engine import state

            result = state.save(self._repo, request)
        else:
            result = save(
                self._repo, self.settings, request, progress=self.progress, waiting=self.waiting
            )
        is_new = result.outcome in (Outcome.CREATED, Outcome.PARTIAL)
        if is_new and snapshot.count_save(self._repo.private_dir):
            from ckpt.engine.prune import prune_by_itself

            prune_by_itself(self._repo, self.forgiving_settings, result.id or "", _TIME_TO_PRUNE)
        return result

    def _state_files(self, paths: Iterable[str | os.PathLike[str]]) -> tuple[bytes, ...]:
        files = self._limits(paths)
        if files:
            from ckpt.engine.state import check_places

            check_has_worktree(self._scope)
            check_places(self._repo, files)
        return files

    def _is_off(self, trigger: str | None) -> bool:
        from ckpt.settings.settings import disabled_by_env

        return disabled_by_env(self._repo.env, trigger) or not self.settings.allows(trigger)

    def on_checkpoint(self, callback: OnCheckpoint) -> OnCheckpoint:
        """Have a function called with every checkpoint that this manager takes.

        Can be used as a decorator, and more than once. A callback that fails is one of the
        result's `warnings`, and undoes nothing.
        """
        self._on_checkpoint.append(callback)
        return callback

    def _tell_saved(self, result: SaveResult) -> SaveResult:
        if result.checkpoint is None or result.outcome is Outcome.UNCHANGED:
            return result
        warnings = _call_all(self._on_checkpoint, result.checkpoint)
        return replace(result, warnings=(*result.warnings, *warnings)) if warnings else result

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
        """Stop saving an object and putting it back."""
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
    ) -> RollbackResult:
        """Bring back a checkpoint, whole or only some paths. The present is saved first.

        With `recurse`, repositories inside go back to the checkpoints that were taken of them
        together with this one, their HEAD included, each with an undo of its own. With
        `keep_edits`, only what the agent wrote (see `record_write`) and nobody has changed since
        goes back; whose writes these are, the checkpoint's session tells, or `session`.
        """
        check_keep_edits(keep_edits, session, head=head, recurse=recurse)
        limits = self._limits(paths or ())
        if paths is not None and not limits:
            raise UsageError("no paths were named", hint="leave paths out to restore everything")
        options = self._options(
            paths=limits,
            head=head,
            index=index,
            dry_run=dry_run,
            overwrite_ignored=overwrite_ignored,
            recurse=recurse,
            yes=yes,
        )
        with self._working(writes=not dry_run):
            target = self._find(which)
            if self._scope is Scope.STATE or target.scope is Scope.STATE:
                result = self._restore_state(target, options)
            else:
                if keep_edits:
                    options = replace(options, ledger=self._ledger(target, session))
                if recurse:
                    from ckpt.engine.recurse import rollback
                else:
                    from ckpt.engine.rollback import rollback
                go = partial(rollback, self._repo, self.forgiving_settings, target)
                result = self._with_objects(target, options, go)
        return self._tell_rolled_back(result)

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

    def undo(self, *, dry_run: bool = False, yes: bool = False) -> RollbackResult:
        """Take back the last rollback of this worktree; a second call redoes it."""
        from ckpt.engine.rollback import undo, undo_target

        check_has_worktree(self._scope)
        options = self._options(dry_run=dry_run, yes=yes)
        with self._working(writes=not dry_run):
            repo, settings = self._repo, self.forgiving_settings
            _, target = undo_target(repo)
            result = self._with_objects(target, options, partial(undo, repo, settings))
        return self._tell_rolled_back(result)

    def resume_rollback(self) -> RollbackResult:
        """Finish a rollback that was interrupted."""
        from ckpt.engine import journal, recovery

        check_has_worktree(self._scope)
        with self._working(writes=True):
            safety = journal.read(self._repo.private_dir).safety
            result = recovery.resume(self._repo, self.forgiving_settings, self.waiting)
            found = Catalog(self._repo)
            # If the rollback had put objects back, its safety checkpoint holds them.
            if found.commit_of(safety) is not None and found.get(safety).tracked:
                result = self._put_back(result)
        return self._tell_rolled_back(result)

    def abort_rollback(self) -> RollbackResult:
        """Return to the state before a rollback that was interrupted."""
        from ckpt.engine.recovery import abort

        check_has_worktree(self._scope)
        with self._working(writes=True):
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

    def _options(self, **options: Any) -> RollbackOptions:
        from ckpt.api import turns  # noqa: F401  # the files to be changed may be our own
        from ckpt.engine.prepare import RollbackOptions

        return RollbackOptions(progress=self.progress, waiting=self.waiting, **options)

    def _tell_rolled_back(self, result: RollbackResult) -> RollbackResult:
        """Let the ledgers of agents know of it, then the callbacks."""
        if result.dry_run:
            return result
        from ckpt.api.turns import note_return

        note_return(self._repo, self.__dict__.get("_turns"), result)
        warnings = _call_all(self._on_rollback, result)
        return replace(result, warnings=warnings) if warnings else result

    def _restore_state(self, target: Checkpoint, options: RollbackOptions) -> RollbackResult:
        """Put back tracked objects only; no file, index or ref is touched."""
        if options.paths:
            raise UsageError(
                f"checkpoint '{target.id}' is rolled back without files",
                hint="leave the paths out",
            )
        result = RollbackResult(target, None, dry_run=options.dry_run)
        return result if options.dry_run else self._put_back(result)

    def _put_back(self, result: RollbackResult) -> RollbackResult:
        """Tracked objects become what the target of a rollback has of them."""
        if self._tracked is None:
            return result
        restoration = self._tracked.prepare(result.target.tracked)
        restoration.apply()
        return replace(result, restored=restoration.names)

    def _with_objects(
        self,
        target: Checkpoint,
        options: RollbackOptions,
        go: Callable[[RollbackOptions], RollbackResult],
    ) -> RollbackResult:
        """Put tracked objects back together with the files: both, or neither."""
        if self._tracked is None or options.dry_run or options.paths:
            return go(options)
        restoration = self._tracked.prepare(target.tracked)
        if not restoration.names:
            return go(options)
        now = self._tracked.texts(forgiving=True)
        options = replace(options, state=now, moves_state=restoration.differs(now))
        restoration.apply()
        try:
            return replace(go(options), restored=restoration.names)
        except BaseException:
            restoration.revert()
            raise

    # -- looking -----------------------------------------------------------------

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

        with self._working(writes=False):
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
        from collections import Counter

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
        """Drop one checkpoint; it stays in the trash."""
        from ckpt.engine import trash

        with self._working(writes=True):
            checkpoint = self._find(which)
            trash.drop(self._repo, checkpoint)
            return checkpoint

    def clear(self, *, everything: bool = False) -> int:
        """Drop all checkpoints of this session, or of this worktree if `everything` may go.

        They stay in the trash. What is pinned and features are kept. Returns how many went.
        """
        from ckpt.engine import trash

        if self._session is None and not everything:
            raise UsageError(
                "without a session, clear() would drop the checkpoints of all of them",
                hint="clear(everything=True), or CheckpointManager(…, session=…)",
            )
        count = 0
        with self._working(writes=True):
            for checkpoint in self.list():
                if checkpoint.pinned or checkpoint.kind is Kind.FEATURE:
                    continue
                try:
                    trash.drop(self._repo, checkpoint)
                    count += 1
                except (NotFound, Refused):  # dropped by another process, or named by a journal
                    continue
        return count

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
            chosen = (
                [*self] if which is None else sorted(map(self._find, which), key=lambda one: one.id)
            )
            return export(self._repo, self._scope, chosen, path)

    def import_(self, file: str | os.PathLike[str]) -> Checkpoints:
        """Read checkpoints that `export` wrote, into this session if there is one.

        Returns those that are new here. Ids that are taken are given anew; all is checked first.
        """
        from ckpt.api.transfer import import_

        with self._working(writes=True):
            path = os.path.join(self._start, as_path(file))
            return import_(self._repo, self._scope, path, self._session)

    def prune(self, policy: Policy | None = None, *, dry_run: bool = False) -> PruneResult:
        """Drop what no rule keeps, into the trash; each decision comes with its reasons.

        Without a policy, that of the settings counts.
        """
        from ckpt.engine.prune import prune
        from ckpt.settings.policy import Policy

        check_type("policy", policy, (Policy, type(None)), "a Policy")
        with self._working(writes=True):
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
        with self._working(writes=True):
            return trash.restore(self._repo, as_word(which), known)

    def pin(self, which: Which, pinned: bool = True) -> Checkpoint:
        """Protect a checkpoint from retention, or (`pinned=False`) no longer."""
        with self._working(writes=True):
            checkpoint = self._find(which)
            return catalog.set_pinned(self._repo, checkpoint, pinned)

    def unpin(self, which: Which) -> Checkpoint:
        return self.pin(which, pinned=False)

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

            description = readable(reason)
            with self._reading():
                return once(
                    self._turns, lambda: self.create(kind=Kind.AUTO, description=description)
                )
        except Busy:
            return SaveResult(Outcome.SKIPPED, reason="busy")
        except Exception as error:  # an agent goes on without a checkpoint
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
        from ckpt.engine.sessions import ledger_of

        return ledger_of(self._repo.private_dir, target, session, self._session)

    # -- one call at a time ------------------------------------------------------

    def _begin(self) -> None:
        self._pid, self._lock, self._depth = os.getpid(), RLock(), 0
        self._is_at_work = self._is_closing = False

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """For notes in the private files, which other calls do not disturb."""
        try:
            self._repo.check_there()
            yield
        except (CkptError, OSError) as error:
            if isinstance(error, BrokenPipeError):  # of a callback's own output
                raise
            self._repo.check_there()  # if it was moved away, that is the reason
            if isinstance(error, CkptError):
                raise
            raise DiskError(error) from error

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Alone in this process, for what only looks at checkpoints."""
        with self._alone(), self._noting():
            yield

    @contextmanager
    def _working(self, *, writes: bool) -> Iterator[None]:
        """Alone in this process, with the present configuration, and not in the midst of another
        such call: both would take what the other has added for their own."""
        with self._reading():
            if self._is_at_work:  # called by a callback, or by a signal's handler
                raise Busy(
                    "another call of this manager is under way in the same thread",
                    hint="call it when that one has returned",
                )
            self._is_at_work = True
            try:
                if monotonic() > self._fresh_until:
                    self._repo = self._repo.reloaded()
                    self.__dict__.pop("settings", None)
                    self.__dict__.pop("forgiving_settings", None)
                self._fresh_until = 0.0
                if writes:
                    self._repo.check_writable()
                yield
            finally:
                self._is_at_work = False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._pid != os.getpid():  # a fork, in which what is open is the parent's
            self._repo = replace(self._repo)
            self._begin()
        with self._lock:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._is_closing and not self._depth:
                    self._is_closing = False
                    self._repo.close()

    def _limits(self, paths: Iterable[str | os.PathLike[str]]) -> tuple[bytes, ...]:
        """Paths relative to the folder that was opened, as paths of the repository."""
        check_paths(paths)
        return tuple(map(self._limit, paths))

    def _limit(self, path: str | os.PathLike[str]) -> bytes:
        return repo_paths.relative_to_top(as_path(path), self._repo.worktree, self._start)


def _open(path: str, env: Mapping[str, str], store: str) -> Repository:
    """The repository around a folder, or (`user`) the store that is kept for one without."""
    if store == "repo":
        return discover(path, env)
    if store != "user":
        raise UsageError(f"unknown store '{store}'", hint="one of repo, user")
    from ckpt.engine.private_store import open_store

    return open_store(path, env)


def _call_all(callbacks: Iterable[Callable[[T], object]], value: T) -> tuple[str, ...]:
    """Call each with a value; returns a warning for each that failed."""
    warnings = []
    for callback in tuple(callbacks):
        try:
            callback(value)
        except Exception as error:  # of the caller's own code
            warnings.append(failure(callback, error))
    return tuple(warnings)
