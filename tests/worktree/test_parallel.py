# SPDX-License-Identifier: MIT
"""Two halves of a piece of work in two processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ckpt.worktree import cache
from ckpt.worktree.cache import both

# The runner of the tests may have threads of its own, which these tests do not mind.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


@pytest.fixture(autouse=True)
def no_traces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Afterwards, no open file and no child of its own is left."""
    monkeypatch.setattr(cache, "_can_fork", lambda: True)
    children: list[int] = []
    fork = os.fork

    def noted_fork() -> int:
        children.append(fork())
        return children[-1]

    monkeypatch.setattr(os, "fork", noted_fork)
    before = os.listdir("/dev/fd")
    yield
    assert os.listdir("/dev/fd") == before
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def test_the_halves_are_done_by_two_processes() -> None:
    one, other = both(os.getpid, os.getpid, pays=True)

    assert one == os.getpid()
    assert other not in (one, 0)


def forks_in_new_process(before: str = "") -> bool:
    """Whether a process of its own would be forked, after it has done something else."""
    code = f"""
import os, sys, threading, _thread
from ckpt.worktree.cache import both
os.sched_getaffinity = lambda pid: {{0, 1}}
{before}
print(len({{*both(os.getpid, os.getpid, pays=True)}}), flush=True)
os._exit(0)
"""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout == "2\n"


@pytest.mark.parametrize(
    "start",
    [
        "threading.Thread(target=threading.Event().wait, daemon=True).start()",
        "_thread.start_new_thread(threading.Event().wait, ())",
    ],
)
def test_a_process_with_threads_is_not_forked(start: str) -> None:
    assert not forks_in_new_process(start)


def test_an_answer_larger_than_a_pipe_comes_whole() -> None:
    parts = [bytes([number % 256]) * 1000 for number in range(5000)]

    assert both(list, lambda: parts, pays=True) == ([], parts)


class Fails:
    """A function that fails in any process but this one, by its own fault or another's."""

    def __init__(self, how: object) -> None:
        self._here = os.getpid()
        self._how = how

    def __call__(self) -> object:
        if os.getpid() == self._here:
            return "done here"
        if isinstance(self._how, int):
            os.kill(os.getpid(), self._how)
        if isinstance(self._how, BaseException):
            raise self._how
        return self._how


@pytest.mark.parametrize(
    "how",
    [
        ValueError("by itself"),
        KeyboardInterrupt(),
        SystemExit(0),
        MemoryError(),
        signal.SIGKILL,
        signal.SIGTERM,
        object(),  # which marshal does not take
    ],
    ids=lambda how: how.name if isinstance(how, signal.Signals) else type(how).__name__,
)
def test_whatever_goes_wrong_with_the_other_process_its_half_is_done_here(
    how: object, capfd: pytest.CaptureFixture[str]
) -> None:
    assert both(lambda: "first", Fails(how), pays=True) == ("first", "done here")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_here_ends_the_other_too(error: type[BaseException]) -> None:
    def fail() -> bytes:
        raise error

    with pytest.raises(error):
        both(fail, lambda: bytes(10_000_000), pays=True)


@pytest.mark.parametrize("name", ["pipe", "fork"])
def test_a_system_that_gives_no_more_processes_is_no_error(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise BlockingIOError(11, "no more")

    monkeypatch.setattr(os, name, fail)

    assert both(os.getpid, os.getpid, pays=True) == (os.getpid(), os.getpid())
