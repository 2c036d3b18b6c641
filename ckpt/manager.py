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
from collections.abc import Mapping
from functools import cached_property

from ckpt.api.keeper import CheckpointKeeper
from ckpt.arguments import (
    Which,
    as_kind,
    check_has_worktree,
    check_keep_edits,
    check_mappings,
    check_texts,
)
from ckpt.errors import Busy, NotFound, UsageError
from ckpt.models import TRIGGERED, Checkpoint, Kind, Outcome, SaveResult, Scope
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from typing_extensions import Self, Unpack

    from ckpt.api.going_back import RollbackKeywords
    from ckpt.api.guards import Guard
    from ckpt.api.turns import Turns
    from ckpt.engine.session_state import Write
    from ckpt.models import FeatureState, RollbackResult
    from ckpt.settings import Settings
    from ckpt.store.kernel_lock import Waiting
    from ckpt.tracking.objects import TrackedObjects

    CheckpointCallback = Callable[[Checkpoint], object]
    RollbackCallback = Callable[[RollbackResult], object]
    OnCheckpoint = TypeVar("OnCheckpoint", bound=CheckpointCallback)
    OnRollback = TypeVar("OnRollback", bound=RollbackCallback)


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
            from ckpt.api.saving import GivenState, request_of, save

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
        from ckpt.api.callbacks import call_all

        told = call_all(self._on_checkpoint, result.checkpoint)
        return replace(result, warnings=(*result.warnings, *told))

    def _is_off(self, trigger: str | None) -> bool:
        from ckpt.settings import disabled_by_env

        return disabled_by_env(self._repo.env, trigger) or not self.settings.allows(trigger)

    def track(self, name: str, thing: Any, *, turn: str | None = None) -> None:
        """Save an object with every checkpoint and put it back, in place, on every rollback.

        A pydantic model, a dataclass, a dict, a list, or anything with `capture()` and
        `restore(state)`. `turn` names the attribute (or key) in which it counts its turns;
        checkpoints have that as `context["turn"]`.
        """
        check_texts(name=name, turn=turn)
        from ckpt.tracking.objects import TrackedObjects

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
        from ckpt.api.going_back import restore_state, roll_back
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
        from ckpt.api.going_back import take_back
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
        from ckpt.api.going_back import resume

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
        from ckpt.api.guards import Guard

        return Guard(self, name)

    def on_rollback(self, callback: OnRollback) -> OnRollback:
        """Have a function called with the result of every rollback and undo; see on_checkpoint."""
        self._on_rollback.append(callback)
        return callback

    def _aftermath(self) -> Callable[[RollbackResult], RollbackResult]:
        from ckpt.api.going_back import aftermath

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
        from ckpt.engine.session_state import look

        relative = self._limit(path)
        place = os.path.join(os.fsencode(self._repo.worktree), relative)
        with self._noting():
            self._turns.record(relative, look(place), existed=existed)

    def _ledger(self, target: Checkpoint, session: str | None) -> Mapping[bytes, Write]:
        """What the agent wrote: in a session that is known to others too, or in none."""
        if session is None and self._session is None and target.session is None:
            return self._turns.writes()
        from ckpt.engine.keep_edits import ledger_of

        return ledger_of(self._repo.private_dir, target, session, self._session)
