# SPDX-License-Identifier: MIT
"""What `git ckpt run` does: a checkpoint, a command, and what the command changed.

Without the checkpoint the command does not run. Everything since counts as the command's: a
rollback afterwards is complete, HEAD too, and removes what was created without asking. A failure
after the command has ended is reported and does not change the exit status. With a time limit the
command has a process group of its own, which gets the terminal, and is ended with all it started.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from shlex import quote
from time import monotonic, sleep
from typing import Any

from ckpt import ids
from ckpt.errors import CkptError, NotFound, Refused
from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint, DiffResult, GitState, Kind, RollbackResult, SaveResult

TRIGGER = "run"
GRACE = 10.0  # seconds from SIGTERM to SIGKILL
TIMED_OUT, NOT_EXECUTABLE, NOT_FOUND = 124, 126, 127
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_ENDING = (*_FROM_TERMINAL, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
# What comes to our group, and so not to one of its own.
_TO_OUR_GROUP = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
_LONGEST = 86_400.0  # seconds, of one wait
_POLL = 0.02
_NAME_ONE = "name a program to run after '--'"


class CannotRun(CkptError):
    """The command was not started; `status` is the exit status that shells use then."""

    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status


@dataclass(frozen=True, slots=True)
class Ended:
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
        self.hold(_ENDING)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reader)
        os.close(self._writer)

    def hold(self, numbers: Iterable[signal.Signals]) -> None:
        """Note these too. What is ignored stays so, also for the command: think of `nohup`."""
        for number in numbers:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, _note)

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
    has_group = timeout is not None
    if has_group:
        signals.hold(_TO_OUR_GROUP)
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
    if timeout is None:
        return _wait(started.pid, signals)
    return _Group(started.pid, signals, timeout, grace).wait()


def _wait(pid: int, signals: HeldSignals) -> Ended:
    """Wait for a command in our own process group."""
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return _ended(status)
        for number in signals.wait(_LONGEST):
            # What is typed at the terminal reaches everyone in the group without us.
            if number != signal.SIGCHLD and not (number in _FROM_TERMINAL and _is_foreground()):
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)


def _ended(status: int) -> Ended:
    code = os.waitstatus_to_exitcode(status)
    return Ended(code) if code >= 0 else Ended(128 - code, signal=-code)


class _Group:
    """A command with a process group of its own and a time limit.

    The group gets the foreground of the terminal while it is ours to give: at once if the command
    has the terminal on both sides, in a pipeline, where others may need it, when it reads.
    """

    def __init__(self, group: int, signals: HeldSignals, timeout: float, grace: float) -> None:
        self._group, self._signals, self._grace = group, signals, grace
        self._due = monotonic() + timeout
        self._last_word, self._timed_out = signal.SIGTERM, False
        self._wants_terminal, self._is_lent = os.isatty(0) and os.isatty(1), False
        self._terminal = _open_terminal()

    def wait(self) -> Ended:
        try:
            self._lend()
            self._kill(signal.SIGCONT)  # it may have read the terminal too early
            ended = self._wait()
        finally:
            self._take_back()
            if self._terminal is not None:
                os.close(self._terminal)
        if not self._timed_out:
            return ended
        while self._kill(0):  # what it has started ends by the same deadline
            if monotonic() >= self._due:
                self._kill(signal.SIGKILL)
                break
            sleep(_POLL)
        return Ended(TIMED_OUT, ended.signal, timed_out=True)

    def _wait(self) -> Ended:
        while True:
            pid, status = os.waitpid(self._group, os.WNOHANG | os.WUNTRACED)
            if pid and not os.WIFSTOPPED(status):
                return _ended(status)
            if pid:
                self._stopped(os.WSTOPSIG(status))
            for number in self._signals.wait(self._due - monotonic()):
                if number == signal.SIGCONT:
                    self._lend()
                if number != signal.SIGCHLD:
                    self._kill(number)
                if number == signal.SIGTSTP:
                    self._stop(lambda: os.kill(os.getpid(), signal.SIGTSTP))
            if monotonic() >= self._due:
                self._timed_out = True
                self._kill(self._last_word)
                self._kill(signal.SIGCONT)  # who is stopped would not hear it
                self._last_word, self._due = signal.SIGKILL, monotonic() + self._grace

    def _stopped(self, number: int) -> None:
        if number in (signal.SIGTTIN, signal.SIGTTOU) and not self._is_lent:
            self._wants_terminal = True
            if self._lend():
                self._kill(signal.SIGCONT)
        elif self._is_lent:  # the terminal signalled the command, not us
            self._stop(lambda: os.killpg(os.getpgrp(), signal.SIGTSTP))

    def _stop(self, stop_us: Callable[[], None]) -> None:
        """Stop as the command did, so that the shell sees it; then both go on."""
        self._take_back()
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        stop_us()
        signal.signal(signal.SIGTSTP, before)
        self._lend()
        self._kill(signal.SIGCONT)

    def _lend(self) -> bool:
        if self._wants_terminal and _group_of(self._terminal) == os.getpgrp():
            self._is_lent = self._give(self._group)
        return self._is_lent

    def _take_back(self) -> None:
        if self._is_lent:
            self._is_lent = False
            self._give(os.getpgrp())

    def _give(self, group: int) -> bool:
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # which would stop us otherwise
        try:
            os.tcsetpgrp(self._terminal or 0, group)
            return True
        except OSError:  # the terminal, or the group, is gone
            return False
        finally:
            signal.signal(signal.SIGTTOU, before)

    def _kill(self, number: int) -> bool:
        """False if nobody is left in the group."""
        try:
            os.killpg(self._group, number)
        except ProcessLookupError:
            return False
        except PermissionError:  # another user's by now
            pass
        return True


def _open_terminal() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


def _group_of(terminal: int | None) -> int | None:
    """The process group that gets what is typed there."""
    try:
        return None if terminal is None else os.tcgetpgrp(terminal)
    except OSError:
        return None


def _is_foreground() -> bool:
    terminal = _open_terminal()
    try:
        return _group_of(terminal) == os.getpgrp()
    finally:
        if terminal is not None:
            os.close(terminal)


# -- Before the command, and after it


@dataclass(frozen=True, slots=True)
class Moved:
    """HEAD before and after; `commits` are those that it has gained, None if nobody can tell."""

    before: GitState
    after: GitState
    commits: int | None


@dataclass(frozen=True, slots=True)
class RunResult:
    """`changed` is None if that was not asked, or cannot be told; so is `head`, or it stayed.

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
        return replace(
            result,
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
    return replace(result, after=saved)


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
    return replace(result, rollback=done)


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
    return replace(result, problems=(*result.problems, problem))
