# SPDX-License-Identifier: MIT
"""The API for asyncio programs, with the arguments and results of `ckpt.CheckpointManager`.

Calls run in a thread, one at a time; a cancelled task waits until its call returns. `count`
replaces `len`. Callbacks are functions, called in that thread.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Lock, get_running_loop
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from ckpt.api.blocks import Guard, in_thread
from ckpt.manager import CheckpointManager as Blocking
from ckpt.models import Checkpoint
from ckpt.settings.settings import Settings

if TYPE_CHECKING:
    from typing_extensions import Self

    from ckpt.manager import OnCheckpoint, OnRollback

    P = ParamSpec("P")
    T = TypeVar("T")
    Method = Callable[Concatenate["CheckpointManager", P], Coroutine[Any, Any, T]]


def _awaitable(work: Callable[Concatenate[Blocking, P], T]) -> Method[P, T]:
    """Wrap a method of the blocking manager to run in a thread."""

    @wraps(work)
    async def method(self: CheckpointManager, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(partial(work, self.blocking, *args, **kwargs))

    return method


def _opening(
    open_: Callable[Concatenate[Blocking, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[CheckpointManager, P], None]]:
    """Copy the signature of the blocking manager's `__init__`."""
    return wraps(open_)


def _same(name: str) -> Any:
    """Delegate an attribute to the blocking manager."""

    def set_it(self: CheckpointManager, value: object) -> None:
        setattr(self.blocking, name, value)

    return property(lambda self: getattr(self.blocking, name), set_it)


class CheckpointManager:
    """Save, inspect and restore checkpoints of one worktree without blocking the event loop."""

    @_opening(Blocking.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        self.blocking = Blocking(*args, **options)  # also for use where no loop runs
        self._loop: AbstractEventLoop | None = None
        self._lock = Lock()

    enabled: bool = _same("enabled")
    settings: Settings = _same("settings")
    rollback_interrupted: bool = _same("rollback_interrupted")
    rollback_running: bool = _same("rollback_running")
    turn: int = _same("turn")
    # Called in the worker thread.
    progress: Callable[[int, int], None] | None = _same("progress")

    async def _run(self, work: Callable[[], T]) -> T:
        if self._loop is not get_running_loop():
            self._loop, self._lock = get_running_loop(), Lock()
        async with self._lock:
            return await in_thread(work)

    async def close(self) -> None:
        """Wait for running calls, then close open files."""
        await self._run(self.blocking.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    create = _awaitable(Blocking.create)
    ensure = _awaitable(Blocking.ensure)
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

    rollback = _awaitable(Blocking.rollback)
    rollback_to_latest = _awaitable(Blocking.rollback_to_latest)
    undo = _awaitable(Blocking.undo)
    resume_rollback = _awaitable(Blocking.resume_rollback)
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
        return await self._run(partial(len, self.blocking))

    async def __aiter__(self) -> AsyncIterator[Checkpoint]:
        for checkpoint in reversed(await self.list()):
            yield checkpoint

    def guard(self, name: str | None = None) -> Guard:
        """Guard an `async with` block or a coroutine function."""
        return self.blocking.guard(name)

    def track(self, name: str, thing: Any) -> None:
        self.blocking.track(name, thing)

    def on_checkpoint(self, callback: OnCheckpoint) -> OnCheckpoint:
        return self.blocking.on_checkpoint(callback)

    def on_rollback(self, callback: OnRollback) -> OnRollback:
        return self.blocking.on_rollback(callback)
