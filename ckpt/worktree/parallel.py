# SPDX-License-Identifier: MIT
"""Two halves of one piece of work at the same time, where that is safe and pays.

To look at files is mostly waiting for the kernel, which two processes can do at once and
two threads of Python cannot. The second half is done by a fork of this process, which reads,
answers through a pipe and ends; it never writes to a disk. A process with several threads is
not forked, since a copy of it might wait for ever for a lock that another thread held.
Whatever goes wrong with the fork, its half is done here after all.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Callable

from ckpt.interrupts import Held, stop_in_fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")


def both(first: Callable[[], T], second: Callable[[], T], *, pays: bool) -> tuple[T, T]:
    """The results of two functions; that of the second has to be data that `marshal` takes."""
    if not pays or not _can_fork():
        return first(), second()
    answer = _start(second)
    if answer is None:
        return first(), second()
    pid, pipe = answer
    try:
        one = first()
    except BaseException:
        _end(pid, pipe)
        raise
    found = _finish(pid, pipe)
    return one, second() if found is None else found[0]


def _can_fork() -> bool:
    if not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2:
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1  # also those that Python knows nothing of
    except OSError:
        return False


def _start(work: Callable[[], object]) -> tuple[int, int] | None:
    """Begin in a fork; returns its id and where its answer comes from."""
    try:
        reading, writing = os.pipe()
    except OSError:
        return None
    try:
        with Held():  # or an interrupt in the fork would run what clears up here
            pid = os.fork()
            if pid == 0:
                stop_in_fork()
                _work_and_exit(work, reading, writing)
    except OSError:
        os.close(reading)
        os.close(writing)
        return None
    os.close(writing)
    return pid, reading


def _work_and_exit(work: Callable[[], object], reading: int, writing: int) -> None:
    status = 1
    try:
        os.close(reading)
        result: Any = [work()]
        with open(writing, "wb") as pipe:
            pipe.write(marshal.dumps(result))
        status = 0
    finally:  # whatever happened, nothing of the other process may run here
        os._exit(status)


def _finish(pid: int, pipe: int) -> list[Any] | None:
    """The answer, in a list; None if the fork failed."""
    try:
        with open(pipe, "rb", closefd=False) as file:
            data = file.read()
    except BaseException:
        _end(pid, pipe)
        raise
    os.close(pipe)
    try:
        is_done = os.waitpid(pid, 0)[1] == 0
    except ChildProcessError:  # someone else waited for it
        is_done = False
    return marshal.loads(data) if is_done else None


def _end(pid: int, pipe: int) -> None:
    """Its pipe broken, the fork ends too; nobody waits for the answer."""
    os.close(pipe)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
