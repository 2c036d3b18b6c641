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
import select
import signal
import subprocess
from time import monotonic, sleep

from ckpt.errors import CkptError
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

GRACE = 10.0  # seconds between the request to end and the end
_POLL = 0.02
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_PASSED_ON = (
    *_FROM_TERMINAL,
    *(signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2),
)
# What the terminal sends to its foreground only concerns those who are in our group.
_TO_OUR_GROUP = (signal.SIGTSTP, signal.SIGWINCH)


class NoSuchCommand(CkptError):
    exit_code = 127


class NotExecutable(CkptError):
    exit_code = 126


@value_class
class Ended:
    """How a command ended; `signal` is what it died of."""

    status: int
    signal: int | None = None
    timed_out: bool = False

    @property
    def exit_code(self) -> int:
        """As a shell, and `timeout`, would tell it."""
        if self.timed_out:
            return 124
        return self.status if self.signal is None else 128 + self.signal


class HeldSignals:
    """While this is entered, signals that would end us are noted; `wait` tells of them."""

    def __enter__(self) -> HeldSignals:
        self._reader, self._writer = os.pipe()
        for fd in (self._reader, self._writer):
            os.set_blocking(fd, False)
        self._wakeup = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._before = {signal.SIGCHLD: signal.signal(signal.SIGCHLD, _note)}
        self.hold(_PASSED_ON)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reader)
        os.close(self._writer)

    def hold(self, numbers: Sequence[signal.Signals]) -> None:
        """Note these too. What is ignored stays so, also for the command: think of `nohup`."""
        for number in numbers:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._before[number] = signal.signal(number, _note)

    def wait(self, seconds: float | None) -> list[int]:
        """The signals that came, each once; waits for the first, but not for ever."""
        if not select.select([self._reader], [], [], seconds)[0]:
            return []
        return list(dict.fromkeys(os.read(self._reader, 4096)))


def _note(number: int, frame: object) -> None:
    """The number is in the pipe by now."""


def check(command: Sequence[str], start: str, env: Mapping[str, str]) -> None:
    """Refuse a command that is not there, or cannot be run, before anything is done for it."""
    word = command[0]
    folders = [""] if "/" in word else env.get("PATH", os.defpath).split(os.pathsep)
    places = [os.path.join(start, folder, word) for folder in folders]
    files = [place for place in places if word and os.path.isfile(place)]
    if any(os.access(place, os.X_OK) for place in files):
        return
    if "/" in word and os.path.isdir(places[0]):
        raise NotExecutable(f"'{word}' is a folder", hint="name a program to run after '--'")
    if files:
        raise NotExecutable(f"'{word}' is not executable", hint=f"chmod +x {files[0]}")
    raise NoSuchCommand(f"command '{word}' was not found", hint="name a program to run after '--'")


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
        child = _start(command, start, env, stdout)
        return _Child(child, signals).wait()
    signals.hold(_TO_OUR_GROUP)
    child = _start(command, start, env, stdout, own_group=True)
    with _Terminal(child) as terminal:
        return _Group(child, signals, terminal, timeout, grace).wait()


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
            close_fds=False,
            preexec_fn=os.setpgrp if own_group else None,
        )
    except FileNotFoundError as error:
        raise NoSuchCommand(f"cannot run '{command[0]}': {error.strerror}") from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        hint = "a script needs a first line such as '#!/bin/sh'"
        is_script = isinstance(error, OSError) and error.errno == errno.ENOEXEC
        raise NotExecutable(
            f"cannot run '{command[0]}': {why}", hint=hint if is_script else None
        ) from None
    started.returncode = 0  # we are the one who waits for it
    return started.pid


class _Child:
    """A command in our own process group."""

    def __init__(self, pid: int, signals: HeldSignals) -> None:
        self._pid = pid
        self._signals = signals

    def wait(self) -> Ended:
        while True:
            ended = self._look()
            if ended is not None:
                return ended
            for number in self._signals.wait(None):
                self._pass_on(number)

    def _look(self) -> Ended | None:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        return _ended(status) if pid else None

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGCHLD or (number in _FROM_TERMINAL and _is_foreground()):
            return  # the terminal has told everyone in the group
        _kill(self._pid, number)


class _Group:
    """A command with a process group of its own and a time limit."""

    def __init__(
        self, pid: int, signals: HeldSignals, terminal: _Terminal, timeout: float, grace: float
    ) -> None:
        self._pid = pid
        self._signals = signals
        self._terminal = terminal
        self._deadlines = _deadlines(timeout, grace)
        self._next, self._due = next(self._deadlines)
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
        return Ended(ended.status, ended.signal, timed_out=True)

    def _look(self) -> Ended | None:
        pid, status = os.waitpid(self._pid, os.WNOHANG | os.WUNTRACED)
        if not pid:
            return None
        if os.WIFSTOPPED(status):
            if self._terminal.is_lent:
                self._stop_all(os.getpgrp())
            return None
        return _ended(status)

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGCHLD:
            return
        self._kill(number)
        if number == signal.SIGTSTP:
            self._stop_all(0)

    def _stop_all(self, group: int) -> None:
        """Stop as the command did, so that the shell sees it; from here on when it goes on."""
        self._terminal.take_back()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        if group:  # the terminal told the command only
            os.killpg(group, signal.SIGTSTP)
        else:
            os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        self._terminal.lend()
        self._kill(signal.SIGCONT)

    def _end(self) -> None:
        self._timed_out = True
        self._kill(self._next)
        if self._next == signal.SIGTERM:
            self._kill(signal.SIGCONT)  # one that is stopped would not see it
        self._next, self._due = next(self._deadlines)

    def _sweep(self) -> None:
        """The command is gone; so shall be, by the same deadlines, what it has started."""
        while _kill_group(self._pid, 0):
            if monotonic() >= self._due:
                self._kill(signal.SIGKILL)
                return
            sleep(_POLL)

    def _kill(self, number: int) -> None:
        _kill_group(self._pid, number)


class _Terminal:
    """The foreground of the terminal, lent to a process group if it was ours."""

    def __init__(self, group: int) -> None:
        self._group = group
        self._fd: int | None = None
        self.is_lent = False

    def __enter__(self) -> _Terminal:
        # In a pipeline others of our group may need the terminal.
        if os.isatty(0) and os.isatty(1):
            self._fd = _open_terminal()
        self.lend()
        _kill_group(self._group, signal.SIGCONT)  # it may have asked for it too early
        return self

    def __exit__(self, *_: object) -> None:
        self.take_back()
        if self._fd is not None:
            os.close(self._fd)

    def lend(self) -> None:
        if self._fd is not None and _foreground(self._fd) == os.getpgrp():
            self.is_lent = self._give(self._group)

    def take_back(self) -> None:
        if self.is_lent:
            self.is_lent = False
            self._give(os.getpgrp())

    def _give(self, group: int) -> bool:
        if self._fd is None:
            return False
        handler = signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # we are in the background
        try:
            os.tcsetpgrp(self._fd, group)
            return True
        except OSError:  # the terminal, or the group, is gone
            return False
        finally:
            signal.signal(signal.SIGTTOU, handler)


def _ended(status: int) -> Ended:
    code = os.waitstatus_to_exitcode(status)
    return Ended(code) if code >= 0 else Ended(128 - code, signal=-code)


def _deadlines(timeout: float, grace: float) -> Iterator[tuple[signal.Signals, float]]:
    due = monotonic() + timeout
    yield signal.SIGTERM, due
    while True:
        yield signal.SIGKILL, monotonic() + grace


def _is_foreground() -> bool:
    fd = _open_terminal()
    if fd is None:
        return False
    try:
        return _foreground(fd) == os.getpgrp()
    finally:
        os.close(fd)


def _open_terminal() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


def _foreground(terminal: int) -> int | None:
    try:
        return os.tcgetpgrp(terminal)
    except OSError:
        return None


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended, or become somebody else's


def _kill_group(group: int, number: int) -> bool:
    """False if nobody is left in the group."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def die_of(number: int) -> None:
    """End as the command did, so that whoever waits for us sees the same."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
    os.kill(os.getpid(), number)
