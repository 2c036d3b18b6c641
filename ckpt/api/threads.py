# SPDX-License-Identifier: MIT
"""Work in a thread that a task waits for, and that cancelling the task never tears.

What has not begun is not done any more; what has begun is finished, and the task is
cancelled then. A rollback that a guard makes is finished in any case.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")


async def run(executor: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    """Do the work in a thread; a task that is cancelled meanwhile waits for its end."""
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
    future = executor.submit(copy_context().run, work)
    task = asyncio.current_task()
    for _ in range(await _end_of(asyncio.wrap_future(future))):
        assert task is not None, "somebody has cancelled it"
        if hasattr(task, "uncancel"):
            task.uncancel()
        task.cancel()  # comes with the next thing that is waited for
    return future.result()


async def _end_of(waiting: asyncio.Future[T]) -> int:
    """Wait for it whatever happens; returns how often the task was cancelled meanwhile."""
    cancelled = 0
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            cancelled += 1
    if not waiting.cancelled():
        waiting.exception()  # asked for, so that nobody misses it
    return cancelled
