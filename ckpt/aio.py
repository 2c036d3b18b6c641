# SPDX-License-Identifier: MIT
"""The same API for programs that use asyncio: every name awaitable.

    async with CheckpointManager("path/to/project") as manager:
        saved = await manager.create("before-refactor")

Arguments and results are those of `ckpt.CheckpointManager`. The work is done in a thread, one
thing at a time; a task that is cancelled meanwhile waits for what has begun to end. For `len`
there is `count`. Callbacks may be coroutine functions; `track` and they are not awaited.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial, wraps
from os import PathLike, getpid
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ckpt.api import blocks
from ckpt.api.arguments import check_texts
from ckpt.api.blocks import Guard
from ckpt.manager import CheckpointManager as Blocking
from ckpt.manager import failure
from ckpt.models import Checkpoint, Outcome, RollbackResult, SaveResult
from ckpt.settings.settings import Settings

if TYPE_CHECKING:
    from typing_extensions import Self

    from ckpt.manager import CheckpointCallback, OnCheckpoint, OnRollback, RollbackCallback

    P = ParamSpec("P")
    T = TypeVar("T")
    Told = TypeVar("Told", SaveResult, RollbackResult)
    Method = Callable[Concatenate["CheckpointManager", P], Coroutine[Any, Any, T]]


def _awaitable(work: Callable[Concatenate[Blocking, P], T]) -> Method[P, T]:
    """A method of the other manager, done in the thread of this one."""

    @wraps(work)
    async def method(self: CheckpointManager, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(partial(work, self._blocking, *args, **kwargs))

    return method


def _told(work: Callable[Concatenate[Blocking, P], Told]) -> Method[P, Told]:
    """The same for what callbacks hear of."""

    @wraps(work)
    async def method(self: CheckpointManager, /, *args: P.args, **kwargs: P.kwargs) -> Told:
        return await self._tell(await self._run(partial(work, self._blocking, *args, **kwargs)))

    return method


def _same(name: str) -> Any:
    """An attribute of the other manager, read and set there."""

    def set_it(self: CheckpointManager, value: object) -> None:
        setattr(self._blocking, name, value)

    return property(lambda self: getattr(self._blocking, name), set_it)


class CheckpointManager:
    """Save, look at and go back to checkpoints of one worktree, without blocking the loop."""

    def __init__(
        self,
        path: str | PathLike[str] = ".",
        *,
        session: str | None = None,
        enabled: bool = True,
        worktree: bool = True,
        store: str = "repo",
        settings: Settings | Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._blocking = Blocking(
            path,
            session=session,
            enabled=enabled,
            worktree=worktree,
            store=store,
            settings=settings,
            environ=environ,
        )
        self._executor: ThreadPoolExecutor | None = None
        self._pid = getpid()
        self._on_checkpoint: list[CheckpointCallback] = []
        self._on_rollback: list[RollbackCallback] = []

    @property
    def blocking(self) -> Blocking:
        """The manager that does the work; for use where no loop runs."""
        return self._blocking

    enabled: bool = _same("enabled")
    settings: Settings = _same("settings")
    rollback_interrupted: bool = _same("rollback_interrupted")
    rollback_running: str | None = _same("rollback_running")
    turn: int = _same("turn")
    # Called in the thread.
    progress: Callable[[int, int], None] | None = _same("progress")
    waiting: Callable[[str], None] | None = _same("waiting")

    async def _run(self, work: Callable[[], T]) -> T:
        return await blocks.run(self._thread(), work)

    def _thread(self) -> ThreadPoolExecutor:
        if self._executor is None or self._pid != getpid():  # a fork has none of our threads
            self._executor, self._pid = ThreadPoolExecutor(1, "ckpt"), getpid()
        return self._executor

    async def close(self) -> None:
        """Wait for what has begun, and let go of open files and the thread."""
        await self._run(self._blocking.close)
        self._thread().shutdown(wait=False)
        self._executor = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    create = _told(Blocking.create)
    ensure = _told(Blocking.ensure)
    new_turn = _awaitable(Blocking.new_turn)
    record_write = _awaitable(Blocking.record_write)

    list = _awaitable(Blocking.list)
    get = _awaitable(Blocking.get)
    by_name = _awaitable(Blocking.by_name)
    latest = _awaitable(Blocking.latest)
    since = _awaitable(Blocking.since)
    between = _awaitable(Blocking.between)
    summary = _awaitable(Blocking.summary)
    diff = _awaitable(Blocking.diff)

    rollback = _told(Blocking.rollback)
    rollback_to_latest = _told(Blocking.rollback_to_latest)
    undo = _told(Blocking.undo)
    resume_rollback = _told(Blocking.resume_rollback)
    abort_rollback = _awaitable(Blocking.abort_rollback)

    delete = _awaitable(Blocking.delete)
    clear = _awaitable(Blocking.clear)
    prune = _awaitable(Blocking.prune)
    trash = _awaitable(Blocking.trash)
    restore_dropped = _awaitable(Blocking.restore_dropped)
    pin = _awaitable(Blocking.pin)
    unpin = _awaitable(Blocking.unpin)
    export = _awaitable(Blocking.export)
    import_ = _awaitable(Blocking.import_)

    async def count(self) -> int:
        return await self._run(partial(len, self._blocking))

    async def __aiter__(self) -> AsyncIterator[Checkpoint]:
        for checkpoint in reversed(await self.list()):
            yield checkpoint

    def guard(self, name: str | None = None) -> Guard:
        """For `async with`, and before coroutine functions."""
        check_texts(name=name)
        return _Guard(self, name)

    def track(self, name: str, thing: Any, *, turn: str | None = None) -> None:
        self._blocking.track(name, thing, turn=turn)

    def untrack(self, name: str) -> None:
        self._blocking.untrack(name)

    def on_checkpoint(self, callback: OnCheckpoint) -> OnCheckpoint:
        self._on_checkpoint.append(callback)
        return callback

    def on_rollback(self, callback: OnRollback) -> OnRollback:
        self._on_rollback.append(callback)
        return callback

    async def _tell(self, result: Told) -> Told:
        """Call the callbacks, in the loop."""
        warnings: list[str] = []
        if isinstance(result, RollbackResult):
            if not result.dry_run:
                warnings = await _call_all(self._on_rollback, result)
        elif result.checkpoint is not None and result.outcome is not Outcome.UNCHANGED:
            warnings = await _call_all(self._on_checkpoint, result.checkpoint)
        return replace(result, warnings=(*result.warnings, *warnings))


class _Guard(Guard):
    """Tells the callbacks of its manager, in the loop."""

    def __init__(self, manager: CheckpointManager, name: str | None) -> None:
        super().__init__(manager.blocking, name)
        self._aio = manager

    def _again(self) -> Guard:
        return self._aio.guard(self._name)

    async def _tell_saved(self, checkpoint: Checkpoint) -> None:
        await self._aio._tell(SaveResult(Outcome.CREATED, checkpoint))

    async def _tell(self, result: RollbackResult) -> None:
        await self._aio._tell(result)


async def _call_all(callbacks: Iterable[Callable[[T], object]], value: T) -> list[str]:
    warnings = []
    for callback in tuple(callbacks):
        try:
            called: Any = callback(value)
            if inspect.isawaitable(called):
                await called
        except Exception as error:  # of the caller's own code
            warnings.append(failure(callback, error))
    return warnings
