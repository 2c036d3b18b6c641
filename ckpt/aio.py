# SPDX-License-Identifier: MIT
"""The same API for programs that use asyncio: every name awaitable.

    from ckpt.aio import CheckpointManager

    async with CheckpointManager("path/to/project") as manager:
        saved = await manager.create("before-refactor")
        async with manager.guard("risky step"):
            …

The work is done in a thread, one thing at a time for each manager. A task that is cancelled
meanwhile waits for what has begun to end, so that nothing is left half done; what has not
begun is not done. `async for` goes through the checkpoints, oldest first; for `len` there
is `count`. What is about objects of this process (`track`, callbacks, `progress`) is not
awaited. Callbacks may be coroutine functions.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from os import PathLike
from typing import Any, TypeVar

from ckpt import manager as blocking
from ckpt.api import threads
from ckpt.api.callbacks import failure
from ckpt.api.guards import Guard
from ckpt.arguments import Which, check_texts
from ckpt.engine.prune import PruneResult
from ckpt.engine.retention import Policy
from ckpt.models import (
    Checkpoint,
    DiffResult,
    Dropped,
    FeatureState,
    Kind,
    Outcome,
    RollbackResult,
    SaveResult,
    Summary,
)
from ckpt.settings import Settings
from ckpt.values import replace

T = TypeVar("T")
Path = str | PathLike[str]
Checkpoints = list[Checkpoint]
DroppedOnes = list[Dropped]
CheckpointCallback = Callable[[Checkpoint], object]
RollbackCallback = Callable[[RollbackResult], object]


class CheckpointManager:
    """Save, look at and go back to checkpoints of one worktree, without blocking the loop."""

    def __init__(
        self,
        path: Path = ".",
        *,
        session: str | None = None,
        enabled: bool = True,
        worktree: bool = True,
        store: str = "repo",
        settings: Settings | Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._blocking = blocking.CheckpointManager(
            path,
            session=session,
            enabled=enabled,
            worktree=worktree,
            store=store,
            settings=settings,
            environ=environ,
        )
        self._executor: ThreadPoolExecutor | None = None
        self._on_checkpoint: list[CheckpointCallback] = []
        self._on_rollback: list[RollbackCallback] = []

    @property
    def blocking(self) -> blocking.CheckpointManager:
        """The manager that does the work; for use where no loop runs."""
        return self._blocking

    @property
    def settings(self) -> Settings:
        return self._blocking.settings

    @property
    def enabled(self) -> bool:
        return self._blocking.enabled

    @enabled.setter
    def enabled(self, enabled: bool) -> None:
        self._blocking.enabled = enabled

    @property
    def rollback_interrupted(self) -> bool:
        return self._blocking.rollback_interrupted

    async def _run(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return await threads.run(self._thread(), partial(work, *args, **kwargs))

    def _thread(self) -> ThreadPoolExecutor:
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "ckpt")
        return self._executor

    async def close(self) -> None:
        """Wait for what has begun, and let go of open files and the thread."""
        await self._run(self._blocking.close)
        self._thread().shutdown(wait=False)
        self._executor = None

    async def __aenter__(self) -> CheckpointManager:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- saving ------------------------------------------------------------------

    async def create(
        self,
        name: str | None = None,
        *,
        description: str | None = None,
        kind: Kind | str = Kind.MANUAL,
        data: Any = None,
        metadata: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | None = None,
        features: FeatureState | Mapping[str, Any] | None = None,
        state_files: Iterable[Path] = (),
        session: str | None = None,
        pin: bool = False,
        recurse: bool = False,
        trigger: str | None = None,
    ) -> SaveResult:
        saved = await self._run(
            self._blocking.create,
            name,
            description=description,
            kind=kind,
            data=data,
            metadata=metadata,
            context=context,
            features=features,
            state_files=state_files,
            session=session,
            pin=pin,
            recurse=recurse,
            trigger=trigger,
        )
        return await self._told_saved(saved)

    async def ensure(self, reason: str | None = None) -> SaveResult:
        return await self._told_saved(await self._run(self._blocking.ensure, reason))

    async def new_turn(self) -> int:
        return await self._run(self._blocking.new_turn)

    async def record_write(self, path: Path, *, existed: bool | None = None) -> None:
        await self._run(self._blocking.record_write, path, existed=existed)

    def track(self, name: str, thing: Any, *, turn: str | None = None) -> None:
        self._blocking.track(name, thing, turn=turn)

    def untrack(self, name: str) -> None:
        self._blocking.untrack(name)

    def on_checkpoint(self, callback: CheckpointCallback) -> CheckpointCallback:
        self._on_checkpoint.append(callback)
        return callback

    def on_rollback(self, callback: RollbackCallback) -> RollbackCallback:
        self._on_rollback.append(callback)
        return callback

    # -- looking -----------------------------------------------------------------

    async def list(
        self,
        *,
        kind: Kind | str | None = None,
        name: str | None = None,
        session: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        all_worktrees: bool = False,
    ) -> Checkpoints:
        return await self._run(
            self._blocking.list,
            kind=kind,
            name=name,
            session=session,
            since=since,
            until=until,
            all_worktrees=all_worktrees,
        )

    async def get(self, which: Which) -> Checkpoint:
        return await self._run(self._blocking.get, which)

    async def by_name(self, name: str) -> Checkpoints:
        return await self._run(self._blocking.by_name, name)

    async def latest(
        self, name: str | None = None, kind: Kind | str | None = None
    ) -> Checkpoint | None:
        return await self._run(self._blocking.latest, name, kind)

    async def since(self, moment: datetime) -> Checkpoints:
        return await self._run(self._blocking.since, moment)

    async def between(self, first: datetime, last: datetime) -> Checkpoints:
        return await self._run(self._blocking.between, first, last)

    async def summary(self) -> Summary:
        return await self._run(self._blocking.summary)

    async def count(self) -> int:
        return await self._run(len, self._blocking)

    async def __aiter__(self) -> AsyncIterator[Checkpoint]:
        for checkpoint in reversed(await self.list()):
            yield checkpoint

    async def diff(
        self,
        which: Which,
        other: Which | None = None,
        *,
        paths: Iterable[Path] = (),
        patch: bool = True,
    ) -> DiffResult:
        return await self._run(self._blocking.diff, which, other, paths=paths, patch=patch)

    # -- going back --------------------------------------------------------------

    async def rollback(
        self,
        which: Which,
        paths: Iterable[Path] | None = None,
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
        result = await self._run(
            self._blocking.rollback,
            which,
            paths,
            head=head,
            dry_run=dry_run,
            index=index,
            overwrite_ignored=overwrite_ignored,
            recurse=recurse,
            yes=yes,
            keep_edits=keep_edits,
            session=session,
        )
        return await self._told(result)

    async def rollback_to_latest(self, **options: Any) -> RollbackResult:
        result = await self._run(self._blocking.rollback_to_latest, **options)
        return await self._told(result)

    async def undo(self, *, dry_run: bool = False, yes: bool = False) -> RollbackResult:
        return await self._told(await self._run(self._blocking.undo, dry_run=dry_run, yes=yes))

    async def resume_rollback(self) -> RollbackResult:
        return await self._told(await self._run(self._blocking.resume_rollback))

    async def abort_rollback(self) -> RollbackResult:
        return await self._run(self._blocking.abort_rollback)

    def guard(self, name: str | None = None) -> Guard:
        """For `async with`, and before coroutine functions."""
        check_texts(name=name)
        return _Guard(self, name)

    # -- keeping -----------------------------------------------------------------

    async def delete(self, which: Which) -> Checkpoint:
        return await self._run(self._blocking.delete, which)

    async def prune(self, policy: Policy | None = None, *, dry_run: bool = False) -> PruneResult:
        return await self._run(self._blocking.prune, policy, dry_run=dry_run)

    async def clear(self, *, everything: bool = False) -> int:
        return await self._run(self._blocking.clear, everything=everything)

    async def trash(self) -> DroppedOnes:
        return await self._run(self._blocking.trash)

    async def restore_dropped(self, which: Which) -> Checkpoint:
        return await self._run(self._blocking.restore_dropped, which)

    async def pin(self, which: Which, pinned: bool = True) -> Checkpoint:
        return await self._run(self._blocking.pin, which, pinned)

    async def unpin(self, which: Which) -> Checkpoint:
        return await self._run(self._blocking.unpin, which)

    async def export(self, file: Path, which: Iterable[Which] | None = None) -> int:
        return await self._run(self._blocking.export, file, which)

    async def import_(self, file: Path) -> Checkpoints:
        return await self._run(self._blocking.import_, file)

    # -- callbacks, in the loop --------------------------------------------------

    async def _told_saved(self, saved: SaveResult) -> SaveResult:
        if saved.checkpoint is None or saved.outcome is Outcome.UNCHANGED:
            return saved
        warnings = await _call_all(self._on_checkpoint, saved.checkpoint)
        return replace(saved, warnings=(*saved.warnings, *warnings))

    async def _told(self, result: RollbackResult) -> RollbackResult:
        if result.dry_run:
            return result
        warnings = await _call_all(self._on_rollback, result)
        return replace(result, warnings=(*result.warnings, *warnings))


class _Guard(Guard):
    """Tells the callbacks of its manager, in the loop."""

    def __init__(self, manager: CheckpointManager, name: str | None) -> None:
        super().__init__(manager.blocking, name)
        self._aio = manager

    def _again(self) -> Guard:
        return self._aio.guard(self._name)

    async def _tell_saved(self, checkpoint: Checkpoint) -> None:
        await self._aio._told_saved(SaveResult(Outcome.CREATED, checkpoint))

    async def _tell(self, result: RollbackResult) -> None:
        try:
            await self._aio._told(result)
        except asyncio.CancelledError:  # the error that the guard was about is the one to see
            task = asyncio.current_task()
            if task is not None:
                task.cancel()


async def _call_all(callbacks: Iterable[Callable[[T], object]], value: T) -> list[str]:
    warnings = []
    for callback in tuple(callbacks):
        try:
            called = callback(value)
            if inspect.isawaitable(called):
                await _awaited(called)
        except Exception as error:  # of the caller's own code
            warnings.append(failure(callback, error))
    return warnings


async def _awaited(called: Awaitable[object]) -> None:
    await called
