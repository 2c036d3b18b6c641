# SPDX-License-Identifier: MIT
"""A command of the user's, run as if nobody stood between it and those who started us.

It gets our standard streams and open files, and stays in our process group: what a terminal
sends (Ctrl-C, Ctrl-Z, a new window size) reaches it without us, and a shell's job control and
pipelines work as before. What is sent to us alone is passed on. We outlive it, whatever comes.

With a time limit it gets a process group of its own, because that can be ended as a whole
without ending whoever called us; the terminal's foreground then goes to it and back.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from contextlib import contextmanager
from shlex import quote
from time import monotonic, sleep

from ckpt.errors import CkptError
from ckpt.process.signals import FROM_TERMINAL, HeldSignals
from ckpt.process.terminal import Foreground, is_foreground
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

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


@value_class
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
