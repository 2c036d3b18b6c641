# SPDX-License-Identifier: MIT
"""Signals while a command of the user's runs: noted, passed on by others, never our end.

We must outlive the command, to tell what became of it and to roll back. So what would end us
is only noted here, also when it comes a second time, until the last word is said; then we die
of what the command died of.
"""

from __future__ import annotations

import os
import select
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

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
