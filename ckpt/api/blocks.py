# SPDX-License-Identifier: MIT
"""Guards: a block, or a function, whose failure rolls everything back.

A checkpoint is taken on entry. If the block raises anything, also Ctrl-C or the cancelling of
its task, the rollback is complete: HEAD, branch, operation and tracked objects too, and what was
created since is removed without asking. The exception propagates; a rollback that fails adds a
note to it.
"""

from __future__ import annotations

import functools
import inspect
import sys
from _thread import RLock, get_ident
from collections.abc import Callable
from contextvars import copy_context
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ckpt.engine.head import WITHOUT_HEAD
from ckpt.errors import CkptError, NotFound, Refused, UsageError
from ckpt.models import Checkpoint, Kind, RollbackResult

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    from ckpt.manager import CheckpointManager

    T = TypeVar("T")
    F = TypeVar("F", bound=Callable[..., Any])


# -- Work in a thread that a task waits for, and that cancelling the task never tears


async def run(executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Do the work in a thread; a task that is cancelled meanwhile waits for its end."""
    import asyncio

    future = executor.submit(copy_context().run, work)
    waiting = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        if not future.cancel():
            await _end_of(waiting)
        raise


async def run_to_end(executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """The same for what must be done although the task is being cancelled, or is again."""
    import asyncio

    future = executor.submit(copy_context().run, work)
    task = asyncio.current_task()
    for _ in range(await _end_of(asyncio.wrap_future(future))):
        assert task is not None, "only a task can be cancelled"
        if hasattr(task, "uncancel"):
            task.uncancel()
        task.cancel()  # comes with the next thing that is waited for
    return future.result()


async def _end_of(waiting: asyncio.Future[T]) -> int:
    """Wait for it whatever happens; returns how often the task was cancelled meanwhile."""
    import asyncio

    cancelled = 0
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            cancelled += 1
    if not waiting.cancelled():
        waiting.exception()  # or asyncio warns that it was never retrieved
    return cancelled


# -- Guards

TRIGGER = "api"


class Guard:
    """A context manager, for `with` and `async with`, and a decorator; can be used again, also
    by several threads or tasks at a time.

    `checkpoint` is what the innermost block that was entered goes back to, None while the
    manager is disabled; `result` is what the last rollback did.
    """

    def __init__(self, manager: CheckpointManager, name: str | None) -> None:
        self._manager = manager
        self._name = name
        self._entered: list[tuple[object, Checkpoint | None]] = []
        self._mutex = RLock()
        self._executor: ThreadPoolExecutor | None = None
        self.result: RollbackResult | None = None

    @property
    def checkpoint(self) -> Checkpoint | None:
        with self._mutex:
            return self._entered[self._innermost()][1] if self._entered else None

    def __enter__(self) -> Guard:
        self._enter(self._save())
        return self

    def _enter(self, checkpoint: Checkpoint | None) -> None:
        with self._mutex:
            self._entered.append((_who(), checkpoint))

    def _leave(self) -> Checkpoint | None:
        with self._mutex:
            return self._entered.pop(self._innermost())[1]

    def _innermost(self) -> int:
        """Whose block ends: that of the same thread or task. A generator, say, may be ended by
        another than began it; then it is the last."""
        who = _who()
        mine = (at for at in reversed(range(len(self._entered))) if self._entered[at][0] == who)
        return next(mine, -1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        checkpoint = self._leave()
        if error is not None and checkpoint is not None:
            self._return(checkpoint, error)

    async def __aenter__(self) -> Guard:
        checkpoint = await run(self._thread(), self._save)
        if checkpoint is not None:
            await self._tell_saved(checkpoint)
        self._enter(checkpoint)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        checkpoint = self._leave()
        try:
            if error is not None and checkpoint is not None:
                back = functools.partial(self._return, checkpoint, error)
                result = await run_to_end(self._thread(), back)
                if result is not None:
                    await self._tell(result)
        finally:
            if not self._entered:
                self._thread().shutdown(wait=False)
                self._executor = None

    async def _tell_saved(self, checkpoint: Checkpoint) -> None:
        """A hook for callbacks in the loop, as is the next."""

    async def _tell(self, result: RollbackResult) -> None: ...

    def __call__(self, function: F) -> F:
        """Guard every call of a function, each by a checkpoint of its own."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UsageError(
                f"'{function.__qualname__}' is a generator, which runs while others do",
                hint="put 'with manager.guard(…):' into it",
            )
        wrapper: Any
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                async with self._again():
                    return await function(*args, **kwargs)
        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with self._again():
                    return function(*args, **kwargs)

        guarded: F = wrapper
        return guarded

    def _again(self) -> Guard:
        return Guard(self._manager, self._name)

    def _thread(self) -> ThreadPoolExecutor:
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor

            self._executor = ThreadPoolExecutor(1, "ckpt-guard")
        return self._executor

    def _save(self) -> Checkpoint | None:
        saved = self._manager.create(self._name or "guard", kind=Kind.AUTO, trigger=TRIGGER)
        if saved.checkpoint is None and saved.reason != "disabled":
            raise CkptError(f"no checkpoint was taken: {saved.reason}", hint="git ckpt status")
        if saved.checkpoint is not None and saved.checkpoint.during_rollback:
            raise Refused(
                "a rollback was interrupted in this worktree",
                hint="git ckpt rollback --continue, or --abort",
            )
        return saved.checkpoint

    def _return(self, checkpoint: Checkpoint, error: BaseException) -> RollbackResult | None:
        try:
            result = self.result = self._roll_back(checkpoint)
            left = [item.path for item in result.skipped]
            if left:
                _note(error, f"ckpt: rolled back, but for {', '.join(map(repr, left))}")
            return result
        except BaseException as problem:  # also a second Ctrl-C: the first error is the one to see
            _note(
                error,
                f"ckpt: the rollback to '{checkpoint.id}' failed: "
                f"{str(problem) or type(problem).__name__}; "
                f"try: git ckpt rollback {self._words(checkpoint, problem)}",
            )
            return None

    def _words(self, checkpoint: Checkpoint, problem: BaseException) -> str:
        """With which a person may succeed where a rollback has failed."""
        if self._manager.rollback_interrupted:
            return "--continue"
        leaves_head = isinstance(problem, CkptError) and problem.hint == WITHOUT_HEAD
        return checkpoint.id if leaves_head else f"--head {checkpoint.id}"

    def _roll_back(self, checkpoint: Checkpoint) -> RollbackResult:
        try:
            return self._manager.rollback(checkpoint, head=True, yes=True)
        except NotFound:  # many checkpoints were taken since: retention may have dropped it
            self._manager.restore_dropped(checkpoint)
            return self._manager.rollback(checkpoint, head=True, yes=True)


def _who() -> object:
    """The task that runs, or where there is none, the thread."""
    if "asyncio" in sys.modules:
        try:
            task: object = sys.modules["asyncio"].current_task()
        except RuntimeError:  # no loop runs in this thread
            task = None
        if task is not None:
            return task
    return get_ident()


def _note(error: BaseException, text: str) -> None:
    """What `add_note` does, also on a Python that has none and does not show it."""
    try:
        vars(error)["__notes__"] = [*getattr(error, "__notes__", ()), text]
    except Exception:  # an error that is made otherwise than others
        pass
