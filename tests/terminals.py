# SPDX-License-Identifier: MIT
"""A terminal of our own, with a program in it: what is typed, shown, and how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence

LIMIT = 60.0  # seconds; only a program that hangs takes them


class Terminal:
    """A program that is the session leader of a new terminal; `shown` is all it has printed."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str] = os.environ) -> None:
        self.shown = ""
        self._status: int | None = None
        self._mark = 0
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.execvpe(words[0], words, env)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until this is shown, after what was waited for before."""
        deadline = time.monotonic() + LIMIT
        while text not in self.shown[self._mark :]:
            assert self._read(deadline), f"no {text!r} in {self.shown!r}"
        self._mark = self.shown.index(text, self._mark) + len(text)

    def end(self) -> int:
        """Wait for its end; its exit code, or minus the signal that it died of."""
        deadline = time.monotonic() + LIMIT
        while self._read(deadline):
            pass
        return self.status()

    def status(self) -> int:
        if self._status is None:
            self._status = os.waitpid(self.pid, 0)[1]
        return os.waitstatus_to_exitcode(self._status)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _read(self, deadline: float) -> bool:
        """False when nobody has the terminal open any more."""
        ready = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))[0]
        assert ready, f"nothing more came after {self.shown!r}"
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # so Linux tells that the other end is closed
            return False
        self.shown += data.decode("utf-8", "replace")
        return bool(data)
