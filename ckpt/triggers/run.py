# SPDX-License-Identifier: MIT
"""A command between two looks at the worktree: what `git ckpt run` does.

A checkpoint before, without which the command does not run; then the command; then what it
changed, and a checkpoint more or the way back, as was asked. Everything that happened since
the first checkpoint counts as the command's: going back is whole, HEAD and all, and takes away
what was created since without asking. Whatever fails after the command has ended is told, and
does not change how the run ends: that is for the command to say.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from shlex import quote
from time import monotonic, sleep
from typing import Any

from ckpt import ids
from ckpt.errors import CkptError, NotFound, Refused
from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint, DiffResult, GitState, Kind, RollbackResult, SaveResult

FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
ENDING = (*FROM_TERMINAL, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_LONGEST = 86_400.0  # seconds


class HeldSignals:
    """While this is entered, signals that would end us are noted; `wait` tells of them."""

    def __enter__(self) -> HeldSignals:
        self._reader, self._writer = os.pipe()
        for fd in (self._reader, self._writer):
            os.set_blocking(fd, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        before = signal.signal(signal.SIGCHLD, _note)
        self._before: dict[signal.Signals, Any] = {signal.SIGCHLD: before}
        self.hold(ENDING)
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

    def wait(self, seconds: float | None) -> list[int]:
        """The signals that came, each once; waits for the first, but not for ever, nor longer than
        the system can."""
        seconds = None if seconds is None else min(seconds, _LONGEST)
        if not select.select([self._reader], [], [], seconds)[0]:
            return []
        return list(dict.fromkeys(os.read(self._reader, 4096)))


def _note(number: int, frame: object) -> None:
    """The number is in the pipe by now."""


def die_of(number: int) -> None:
    """End as the command did, so that whoever waits for us sees the same."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))  # of ours nobody wants one
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


# -- Who is in the foreground of the terminal: that group reads it and gets its Ctrl-C


class Foreground:
    """The foreground of the terminal, lent to a process group while it is ours to give.

    In a pipeline, others of our group may need it: there it is lent only on demand.
    """

    def __init__(self, group: int) -> None:
        self._group = group
        self._fd: int | None = None
        self._is_wanted = False
        self.is_lent = False

    def __enter__(self) -> Foreground:
        self._is_wanted = os.isatty(0) and os.isatty(1)
        self._fd = _open()
        self.lend()
        return self

    def __exit__(self, *_: object) -> None:
        self.take_back()
        if self._fd is not None:
            os.close(self._fd)

    def lend(self) -> None:
        if self._is_wanted and self._fd is not None and _group_of(self._fd) == os.getpgrp():
            self.is_lent = _give(self._fd, self._group)

    def demand(self) -> bool:
        """Somebody in the group was stopped for reaching for the terminal; may it go on?"""
        if self.is_lent:
            return False
        self._is_wanted = True
        self.lend()
        return self.is_lent

    def take_back(self) -> None:
        if self._fd is not None and self.is_lent:
            self.is_lent = False
            _give(self._fd, os.getpgrp())


def is_foreground() -> bool:
    """Whether the terminal sends what is typed there to our group."""
    fd = _open()
    if fd is None:
        return False
    try:
        return _group_of(fd) == os.getpgrp()
    finally:
        os.close(fd)


def _open() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


def _group_of(terminal: int) -> int | None:
    try:
        return os.tcgetpgrp(terminal)
    except OSError:
        return None


def _give(terminal: int, group: int) -> bool:
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # or it would stop us in the background
    try:
        os.tcsetpgrp(terminal, group)
        return True
    except OSError:  # the terminal, or the group, is gone
        return False
    finally:
        signal.signal(signal.SIGTTOU, before)


# -- A command of the user's, run as if nobody stood between it and those who started us

GRACE = 10.0  # seconds from the request to end to the end
TIMED_OUT, NOT_EXECUTABLE, NOT_FOUND = 124, 126, 127
_NAME_ONE = "name a program to run after '--'"
_POLL = 0.02
# What comes to our group, and so not to one of its own.
_TO_OUR_GROUP = (signal.SIGTSTP, signal.SIGCONT, signal.SIGWINCH)
# What stops somebody in the background who reads the terminal, or sets it up.
_FOR_THE_TERMINAL = (signal.SIGTTIN, signal.SIGTTOU)


class CannotRun(CkptError):
    """The command was not started; `status` is what shells say then."""

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


def check(command: Sequence[str], start: str, env: Mapping[str, str]) -> None:
    """Refuse a command that is not there, or cannot be run, before anything is done for it."""
    word = command[0]
    folders = [""] if "/" in word else env.get("PATH", os.defpath).split(os.pathsep)
    places = [os.path.join(start, folder, word) for folder in folders] if word else []
    files = [place for place in places if os.path.isfile(place)]
    if any(os.access(place, os.X_OK) for place in files):
        return
    if "/" in word and os.path.isdir(places[0]):
        raise CannotRun(NOT_EXECUTABLE, f"'{word}' is a folder", _NAME_ONE)
    if files:
        named = word if "/" in word else files[0]
        hint = f"chmod +x {quote(named)}"
        raise CannotRun(NOT_EXECUTABLE, f"'{word}' is not executable", hint)
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
    """Run a command to its end; it works in `start`, and `stdout` is ours unless it says."""
    if timeout is None:
        pid = _start(command, start, env, stdout)
        with _not_left_alone(pid, _kill, grace):
            return _Child(pid, signals).wait()
    signals.hold(_TO_OUR_GROUP)
    group = _start(command, start, env, stdout, own_group=True)
    with _not_left_alone(group, _kill_group, grace), Foreground(group) as foreground:
        _kill_group(group, signal.SIGCONT)  # it may have reached for the terminal too early
        return _Group(group, signals, foreground, timeout, grace).wait()


@contextmanager
def _not_left_alone(pid: int, kill: Callable[[int, int], bool], grace: float) -> Iterator[None]:
    """If waiting for a command fails, whyever, it is ended: nobody would see to it any more."""
    try:
        yield
    except BaseException:
        for number in (signal.SIGTERM, signal.SIGKILL):
            kill(pid, number)
            kill(pid, signal.SIGCONT)
            if _has_ended(pid, monotonic() + grace):
                break
        raise


def _has_ended(pid: int, deadline: float) -> bool:
    try:
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if monotonic() >= deadline:
                return False
            sleep(_POLL)
    except ChildProcessError:  # it was waited for already
        pass
    return True


def _start(
    command: Sequence[str],
    start: str,
    env: Mapping[str, str],
    stdout: int | None,
    *,
    own_group: bool = False,
) -> int:
    try:
        started = subprocess.Popen(
            command,
            cwd=start,
            env=env,
            stdout=stdout,
            close_fds=False,  # make, say, passes some on to its children
            preexec_fn=os.setpgrp if own_group else None,
        )
    except (OSError, ValueError) as error:
        number = getattr(error, "errno", None)
        raise CannotRun(
            NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE,
            f"cannot run '{command[0]}': {getattr(error, 'strerror', None) or error}",
            "a script needs a first line such as '#!/bin/sh'" if number == errno.ENOEXEC else None,
        ) from None
    started.returncode = 0  # not to be waited for by `subprocess`
    return started.pid


class _Child:
    """A command in our own process group."""

    def __init__(self, pid: int, signals: HeldSignals) -> None:
        self._pid = pid
        self._signals = signals

    def wait(self) -> Ended:
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                return _ended(status)
            for number in self._signals.wait(None):
                self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGCHLD or (number in FROM_TERMINAL and is_foreground()):
            return  # the terminal has told everyone in the group
        _kill(self._pid, number)


class _Group:
    """A command with a process group of its own and a time limit."""

    def __init__(
        self,
        group: int,
        signals: HeldSignals,
        foreground: Foreground,
        timeout: float,
        grace: float,
    ) -> None:
        self._group = group
        self._signals = signals
        self._foreground = foreground
        self._deadlines = _deadlines(timeout, grace)
        self._last_word, self._due = next(self._deadlines)
        self._timed_out = False

    def wait(self) -> Ended:
        while True:
            ended = self._look()
            if ended is not None:
                break
            for number in self._signals.wait(max(0.0, self._due - monotonic())):
                self._pass_on(number)
            if monotonic() >= self._due:
                self._end()
        if not self._timed_out:
            return ended
        self._sweep()
        return Ended(TIMED_OUT, ended.signal, timed_out=True)

    def _look(self) -> Ended | None:
        pid, status = os.waitpid(self._group, os.WNOHANG | os.WUNTRACED)
        if not pid:
            return None
        if not os.WIFSTOPPED(status):
            return _ended(status)
        if os.WSTOPSIG(status) in _FOR_THE_TERMINAL and self._foreground.demand():
            _kill_group(self._group, signal.SIGCONT)
        elif self._foreground.is_lent:  # the terminal told the command, not us
            self._stop(os.getpgrp())
        return None

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        if number == signal.SIGCONT:
            self._foreground.lend()
        _kill_group(self._group, number)
        if number == signal.SIGTSTP:
            self._stop(None)

    def _stop(self, group: int | None) -> None:
        """Stop as the command did, so that the shell sees it; go on with it when told to."""
        self._foreground.take_back()
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        if group is None:
            os.kill(os.getpid(), signal.SIGTSTP)
        else:
            os.killpg(group, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)
        self._foreground.lend()
        _kill_group(self._group, signal.SIGCONT)

    def _end(self) -> None:
        self._timed_out = True
        _kill_group(self._group, self._last_word)
        _kill_group(self._group, signal.SIGCONT)  # who is stopped would not hear it
        self._last_word, self._due = next(self._deadlines)

    def _sweep(self) -> None:
        """The command is gone; what it has started shall be, too, by the same deadline."""
        while _kill_group(self._group, 0):
            if monotonic() >= self._due:
                _kill_group(self._group, signal.SIGKILL)
                return
            sleep(_POLL)


def _ended(status: int) -> Ended:
    code = os.waitstatus_to_exitcode(status)
    return Ended(code) if code >= 0 else Ended(128 - code, signal=-code)


def _deadlines(timeout: float, grace: float) -> Iterator[tuple[signal.Signals, float]]:
    yield signal.SIGTERM, monotonic() + timeout
    while True:
        yield signal.SIGKILL, monotonic() + grace


def _kill(pid: int, number: int) -> bool:
    """False if it has ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's by now
        pass
    return True


def _kill_group(group: int, number: int) -> bool:
    """False if nobody is left in the group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's by now
        pass
    return True


# -- A command between two looks at the worktree: what `git ckpt run` does

TRIGGER = "run"


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
    counts = None
    if head.commit is not None and then.commit_hash is not None:
        counts = ahead_behind(repo.objects, head.commit, ObjectID(then.commit_hash.encode()))
    return Moved(then, now, None if counts is None else counts[0])


def _with_problem(result: RunResult, what: str, error: Exception) -> RunResult:
    told = error.strerror if isinstance(error, OSError) else None
    problem = error if isinstance(error, CkptError) else CkptError(told or str(error))
    problem.message = f"{what}: {problem.message}"
    return replace(result, problems=(*result.problems, problem))
