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
from _thread import get_ident
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ckpt.engine.head import WITHOUT_HEAD
from ckpt.errors import CkptError, NotFound, Refused, UsageError
from ckpt.models import Checkpoint, Kind, RollbackResult

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from ckpt.manager import CheckpointManager

    T = TypeVar("T")
    F = TypeVar("F", bound=Callable[..., Any])


async def run(executor: ThreadPoolExecutor, work: Callable[[], T], *, always: bool = False) -> T:
    """Do the work in a thread. A task that is cancelled meanwhile waits for the end of what has
    begun, and with `always` of what has not."""
    import asyncio

    future = executor.submit(copy_context().run, work)
    waiting = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        while not (waiting.done() or (not always and future.cancel())):
            try:
                await asyncio.wait([waiting])
            except asyncio.CancelledError:  # once more
                continue
        if not waiting.cancelled() and waiting.done():
            waiting.exception()  # or asyncio warns that it was never retrieved
        raise


TRIGGER = "api"


class Guard:
    """A context manager, for `with` and `async with`, and a decorator; can be used again, but
    not by two threads or tasks at a time.

    `checkpoint` is what the innermost block that was entered goes back to, None while the
    manager is disabled; `result` is what the last rollback did.
    """

    def __init__(self, manager: CheckpointManager, name: str | None) -> None:
        self._manager = manager
        self._name = name
        self._entered: list[Checkpoint | None] = []
        self._user: object = None
        self._executor: ThreadPoolExecutor | None = None
        self.result: RollbackResult | None = None

    @property
    def checkpoint(self) -> Checkpoint | None:
        return self._entered[-1] if self._entered else None

    def __enter__(self) -> Guard:
        with self._entering():
            self._entered[-1] = self._save()
        return self

    @contextmanager
    def _entering(self) -> Iterator[None]:
        """Refuse to mix the blocks of two: each would go back to the other's checkpoint."""
        who = _who()
        if self._entered and self._user != who:
            raise UsageError(
                "this guard is in use by another thread or task",
                hint="call manager.guard(…) for each block",
            )
        self._user = who
        self._entered.append(None)
        try:
            yield
        except BaseException:
            self._entered.pop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        checkpoint = self._entered.pop()
        if error is not None and checkpoint is not None:
            self._return(checkpoint, error)

    async def __aenter__(self) -> Guard:
        with self._entering():
            checkpoint = self._entered[-1] = await run(self._thread(), self._save)
            if checkpoint is not None:
                await self._tell_saved(checkpoint)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        checkpoint = self._entered.pop()
        try:
            if error is not None and checkpoint is not None:
                back = functools.partial(self._return, checkpoint, error)
                result = await run(self._thread(), back, always=True)
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
            leaves_head = isinstance(problem, CkptError) and problem.hint == WITHOUT_HEAD
            way = f"{'' if leaves_head else '--head '}{checkpoint.id}"
            way = "--continue" if self._manager.rollback_interrupted else way
            _note(
                error,
                f"ckpt: the rollback to '{checkpoint.id}' failed: "
                f"{str(problem) or type(problem).__name__}; "
                f"try: git ckpt rollback {way}",
            )
            return None

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
