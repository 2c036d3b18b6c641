# SPDX-License-Identifier: MIT
"""What `git ckpt run` does: a checkpoint, a command, and what the command changed.

Without the checkpoint the command does not run. Everything since counts as the command's: a
rollback afterwards is complete, HEAD too, and removes what was created without asking. A failure
after the command has ended is reported and does not change the exit status. When its time is up, a
command is ended with what it started: its process group, at a terminal the processes below it.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from math import inf
from shlex import quote
from time import monotonic, sleep
from typing import Any, NamedTuple

from ckpt import ids
from ckpt.errors import CkptError, NotFound, Refused
from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint, DiffResult, GitState, Kind, RollbackResult, SaveResult
from ckpt.triggers.processes import below

TRIGGER = "run"
GRACE = 10.0  # seconds from SIGTERM to SIGKILL
TIMED_OUT, NOT_EXECUTABLE, NOT_FOUND = 124, 126, 127
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_ENDING = (*_FROM_TERMINAL, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_LONGEST = 86_400.0  # seconds, of one wait
_POLL = 0.02
_NAME_ONE = "name a program to run after '--'"


class CannotRun(CkptError):
    """The command was not started; `status` is the exit status that shells use then."""

    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


class Ended(NamedTuple):
    """How a command ended; `signal` is what it died of, if it did."""

    exit_code: int
    signal: int | None = None
    timed_out: bool = False

    @property
    def is_success(self) -> bool:
        return self.exit_code == 0


class HeldSignals:
    """While this is entered, signals that would end us are noted; `wait` returns them."""

    def __enter__(self) -> HeldSignals:
        self._reader, self._writer = os.pipe()
        for fd in (self._reader, self._writer):
            os.set_blocking(fd, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        before = signal.signal(signal.SIGCHLD, _note)
        self._before: dict[signal.Signals, Any] = {signal.SIGCHLD: before}
        for number in _ENDING:
            # What is ignored stays so, also for the command: think of `nohup`.
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, _note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, seconds: float) -> list[int]:
        """The signals that came, each once; waits for the first, but not for ever."""
        if not select.select([self._reader], [], [], max(0.0, min(seconds, _LONGEST)))[0]:
            return []
        return list(dict.fromkeys(os.read(self._reader, 4096)))


def _note(number: int, frame: object) -> None:
    """The number is in the pipe by now."""


def die_of(number: int) -> None:
    """End as the command did, so that our caller sees the same."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # no core file of ours
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def check(command: Sequence[str], start: str, env: Mapping[str, str]) -> None:
    """Refuse a command that does not exist, or cannot be run, before anything is done for it."""
    word = command[0]
    folders = [""] if "/" in word else env.get("PATH", os.defpath).split(os.pathsep)
    places = [os.path.join(start, folder, word) for folder in folders] if word else []
    files = [place for place in places if os.path.isfile(place)]
    if any(os.access(place, os.X_OK) for place in files):
        return
    if files:
        hint = f"chmod +x {quote(word if '/' in word else files[0])}"
        raise CannotRun(NOT_EXECUTABLE, f"'{word}' is not executable", hint)
    if "/" in word and os.path.isdir(places[0]):
        raise CannotRun(NOT_EXECUTABLE, f"'{word}' is a folder", _NAME_ONE)
    raise CannotRun(NOT_FOUND, f"command '{word}' was not found", _NAME_ONE)


def run(
    command: Sequence[str],
    signals: HeldSignals,
    *,
    start: str,
    env: Mapping[str, str],
    stdout: int | None = None,
    timeout: float | None = None,
    grace: float = GRACE,
) -> Ended:
    """Run a command to its end; it works in `start`, and `stdout` is ours by default."""
    # At a terminal it stays in our group, which gets what is typed there.
    has_group = timeout is not None and not os.isatty(0)
    try:
        started = subprocess.Popen(
            command,
            cwd=start,
            env=env,
            stdout=stdout,
            close_fds=False,  # make, say, passes some on to its children
            preexec_fn=os.setpgrp if has_group else None,
        )
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        raise CannotRun(
            NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE,
            f"cannot run '{command[0]}': {getattr(error, 'strerror', None) or error}",
            "a script needs a first line such as '#!/bin/sh'" if number == errno.ENOEXEC else None,
        ) from None
    started.returncode = 0  # not to be waited for by `subprocess`
    child = _Child(started.pid, has_group)
    due = inf if timeout is None else monotonic() + timeout
    last_word, timed_out = signal.SIGTERM, False
    while (ended := child.ended()) is None:
        for number in signals.wait(due - monotonic()):
            is_told = number in _FROM_TERMINAL and not has_group and _is_foreground()
            if number != signal.SIGCHLD and not is_told:
                child.kill(number)
        if monotonic() >= due:
            timed_out = True
            child.kill_all(last_word)
            last_word, due = signal.SIGKILL, monotonic() + grace
    if not timed_out:
        return ended
    while child.kill_all(0):  # what it has started ends by the same deadline
        if monotonic() >= due:
            child.kill_all(signal.SIGKILL)
            break
        sleep(_POLL)
    return Ended(TIMED_OUT, ended.signal, timed_out=True)


class _Child:
    """A command, with a process group of its own or in ours."""

    def __init__(self, pid: int, has_group: bool) -> None:
        self._pid, self._has_group = pid, has_group
        self._started = {pid}

    def ended(self) -> Ended | None:
        found, status = os.waitpid(self._pid, os.WNOHANG)
        if not found:
            return None
        code = os.waitstatus_to_exitcode(status)
        return Ended(code) if code >= 0 else Ended(128 - code, signal=-code)

    def kill(self, number: int) -> bool:
        return _sent(os.killpg if self._has_group else os.kill, self._pid, number)

    def kill_all(self, number: int) -> bool:
        """Signal it and what it has started; False if none of them is left."""
        if self._has_group:
            return _sent(os.killpg, self._pid, number)
        self._started.update(below(self._pid))
        sent = [_sent(os.kill, pid, number) for pid in self._started]
        return any(sent)


def _sent(kill: Callable[[int, int], None], pid: int, number: int) -> bool:
    try:
        kill(pid, number)
        if number:
            kill(pid, signal.SIGCONT)  # a stopped process would not act on it
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's by now
        pass
    return True


def _is_foreground() -> bool:
    """Whether the terminal sends what is typed there to our group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


# -- Before the command, and after it


class Moved(NamedTuple):
    """HEAD before and after; `commits` are those that it has gained, None if unknown."""

    before: GitState
    after: GitState
    commits: int | None


class RunResult(NamedTuple):
    """`changed` is None if not requested, or unknown; `head` also if it did not move.

    `problems` came up after the command had ended, each with its hint.
    """

    command: tuple[str, ...]
    checkpoint: Checkpoint
    ended: Ended
    changed: DiffResult | None = None
    head: Moved | None = None
    after: SaveResult | None = None
    rollback: RollbackResult | None = None
    problems: tuple[CkptError, ...] = ()

    @property
    def rollback_command(self) -> str:
        return f"git ckpt rollback --head {self.checkpoint.id}"


def begin(manager: CheckpointManager, name: str | None, session: str | None) -> Checkpoint:
    """Take the checkpoint before; raises if there is none to go back to."""
    if manager.rollback_interrupted:
        raise Refused(
            "a rollback was interrupted in this worktree",
            hint="git ckpt rollback --continue, or git ckpt rollback --abort",
        )
    if session is None:
        session = "run-" + ids.new_id(datetime.now(timezone.utc), None)
    saved = manager.create(name, kind=Kind.SESSION, session=session, trigger=TRIGGER)
    if saved.checkpoint is None:
        raise CkptError(f"no checkpoint was taken: {saved.reason}", hint="git ckpt status")
    return saved.checkpoint


def look(manager: CheckpointManager, result: RunResult) -> RunResult:
    """What has changed since the checkpoint before, and where HEAD has gone."""
    try:
        _find_again(manager, result.checkpoint)
        return result._replace(
            changed=manager.diff(result.checkpoint, patch=False),
            head=_moved(manager, result.checkpoint),
        )
    except Exception as error:  # whatever it is, the way back comes after it
        return _with_problem(result, "cannot tell what changed", error)


def save_after(manager: CheckpointManager, result: RunResult) -> RunResult:
    before = result.checkpoint
    name = None if before.name is None else f"{before.name}-after"
    try:
        saved = manager.create(name, kind=Kind.AUTO, session=before.session, trigger=TRIGGER)
    except (CkptError, OSError) as error:
        return _with_problem(result, "no checkpoint was taken after it", error)
    return result._replace(after=saved)


def roll_back(manager: CheckpointManager, result: RunResult) -> RunResult:
    """Return to the checkpoint before. What the command did is in the safety checkpoint."""
    from ckpt.engine.head import WITHOUT_HEAD

    try:
        _find_again(manager, result.checkpoint)
        done = manager.rollback(result.checkpoint, head=True, yes=True)
    except (CkptError, OSError) as error:
        if isinstance(error, CkptError) and error.hint == WITHOUT_HEAD:
            error.hint = f"leave HEAD where it is: git ckpt rollback {result.checkpoint.id}"
        return _with_problem(result, "not rolled back", error)
    return result._replace(rollback=done)


def _find_again(manager: CheckpointManager, checkpoint: Checkpoint) -> None:
    """Many checkpoints may have been taken since, so that retention has dropped it."""
    try:
        manager.get(checkpoint)
    except NotFound:
        manager.restore_dropped(checkpoint)


def _moved(manager: CheckpointManager, before: Checkpoint) -> Moved | None:
    from ckpt.git.formats import ObjectID
    from ckpt.git.reachability import ahead_behind
    from ckpt.git.refs import branch_name

    repo = manager.repository
    head = repo.refs.head()
    then = GitState(before.head_commit, before.branch)
    now = GitState(None if head.commit is None else head.commit.decode(), branch_name(head))
    if then == now:
        return None
    if head.commit is None or then.commit_hash is None:
        return Moved(then, now, None)
    counts = ahead_behind(repo.objects, head.commit, ObjectID(then.commit_hash.encode()))
    return Moved(then, now, None if counts is None else counts[0])


def _with_problem(result: RunResult, what: str, error: Exception) -> RunResult:
    told = error.strerror if isinstance(error, OSError) else None
    problem = error if isinstance(error, CkptError) else CkptError(told or str(error))
    problem.message = f"{what}: {problem.message}"
    return result._replace(problems=(*result.problems, problem))
