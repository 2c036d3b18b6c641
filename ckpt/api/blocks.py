# SPDX-License-Identifier: MIT
"""Guards: blocks and functions that are rolled back if they raise.

Any exception, including Ctrl-C and cancellation, restores the state on entry: files, HEAD, branch,
operation and tracked objects. Files created since are removed without asking. The exception
propagates; a rollback that fails adds a note to it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from ckpt.engine.journal import check_ended
from ckpt.errors import CkptError, NotFound, UsageError
from ckpt.models import Checkpoint, Kind, RollbackResult

if TYPE_CHECKING:
    from ckpt.manager import CheckpointManager

    T = TypeVar("T")
    F = TypeVar("F", bound=Callable[..., Any])


async def in_thread(work: Callable[[], T]) -> T:
    """Run a function in a thread; if the task is cancelled, wait until it returns."""
    import asyncio

    future = asyncio.get_running_loop().run_in_executor(None, copy_context().run, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with suppress(asyncio.CancelledError):  # cancelled again
                await asyncio.wait([future])
        future.exception()  # or asyncio warns that it was never retrieved
        raise


class Guard:
    """A context manager for `with` and `async with`, and a decorator; not reentrant. It returns to
    `checkpoint`; `result` is that of the last rollback."""

    def __init__(self, manager: CheckpointManager, name: str | None) -> None:
        self._manager, self._name = manager, name or "guard"
        self.checkpoint: Checkpoint | None = None
        self.result: RollbackResult | None = None

    def __enter__(self) -> Guard:
        if self.checkpoint is not None:
            raise UsageError("this guard is in use", hint="call manager.guard(…) for each block")
        self.result = None
        self.checkpoint = save_before(self._manager, self._name, kind=Kind.AUTO, trigger="api")
        return self

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        checkpoint, self.checkpoint = self.checkpoint, None
        if error is not None and checkpoint is not None:
            self._return(checkpoint, error)

    async def __aenter__(self) -> Guard:
        from asyncio import CancelledError

        try:
            return await in_thread(self.__enter__)
        except CancelledError:
            self.checkpoint = None
            raise

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        await in_thread(functools.partial(self.__exit__, kind, error, None))

    def __call__(self, function: F) -> F:
        """Guard every call of a function with its own checkpoint."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise UsageError(
                f"'{function.__qualname__}' is a generator, which runs while others do",
                hint="put 'with manager.guard(…):' into it",
            )
        wrapper: Any
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def wrapper(*args: Any, **kwargs: Any) -> Any:
                async with Guard(self._manager, self._name):
                    return await function(*args, **kwargs)
        else:

            @functools.wraps(function)
            def wrapper(*args: Any, **kwargs: Any) -> Any:
                with Guard(self._manager, self._name):
                    return function(*args, **kwargs)

        guarded: F = wrapper
        return guarded

    def _return(self, checkpoint: Checkpoint, error: BaseException) -> None:
        try:
            result = self.result = return_to(self._manager, checkpoint)
            if result.skipped:
                left = ", ".join(repr(item.path) for item in result.skipped)
                _note(error, f"ckpt: rolled back, but for {left}")
        except BaseException as problem:  # even a second Ctrl-C must not hide the first error
            is_begun = self._manager.rollback_interrupted
            way = "--continue" if is_begun else f"--head {checkpoint.id}"
            reason = f"failed: {str(problem) or type(problem).__name__}"
            way = f"try: git ckpt rollback {way}"
            _note(error, f"ckpt: the rollback to '{checkpoint.id}' {reason}; {way}")


def save_before(manager: CheckpointManager, name: str | None, **options: Any) -> Checkpoint | None:
    """Take the checkpoint to return to, or return None if the manager is disabled."""
    check_ended(manager.repository.private_dir)
    saved = manager.create(name, **options)
    if saved.checkpoint is None and saved.reason != "disabled":
        raise CkptError(f"no checkpoint was taken: {saved.reason}", hint="git ckpt status")
    return saved.checkpoint


def return_to(manager: CheckpointManager, checkpoint: Checkpoint) -> RollbackResult:
    """Roll back everything, HEAD included, even to a checkpoint that was pruned meanwhile."""
    try:
        return manager.rollback(checkpoint, head=True, yes=True)
    except NotFound:
        manager.restore_dropped(checkpoint)
        return manager.rollback(checkpoint, head=True, yes=True)


def _note(error: BaseException, text: str) -> None:
    """Add a note to an exception, like `add_note`, which Python 3.10 lacks."""
    with suppress(Exception):  # some exceptions have no writable __dict__
        vars(error)["__notes__"] = [*getattr(error, "__notes__", ()), text]
