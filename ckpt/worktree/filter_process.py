# SPDX-License-Identifier: MIT
"""One command of a filter driver, started, talked to and ended.

Either a command that turns its standard input into its output, or a process that is asked for
one file after the other, in packets of git's pkt-line format. Nothing waits beyond its
deadline, nothing is left running and nothing is left unreaped.

Left out: which command to run for which file, which is filters.py's.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

from ckpt.interrupts import Held
from ckpt.values import value_class
from ckpt.worktree.filter_errors import FilterFailed, Rejected, TimedOut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO

_MOST_CONTENT = 65516  # in a packet
_LONGEST_PACKET = 65520
_FLUSH = b"0000"
_MOST_LINES = 100  # in an answer
GRACE = 5.0  # seconds for a process to end by itself
_CAPABILITIES = ("clean", "smudge")


@value_class
class Starter:
    """Where and how commands are started."""

    top: str
    env: Mapping[str, str]
    scratch: str | None

    def file(self) -> IO[bytes]:
        return tempfile.TemporaryFile(dir=self.scratch)

    def popen(
        self,
        command: str | bytes,
        stdin: IO[bytes] | int,
        stdout: IO[bytes] | int,
        errors: IO[bytes],
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                ["sh", "-c", command],
                stdin=stdin,
                stdout=stdout,
                stderr=errors,
                cwd=self.top,
                env=self.env,
                bufsize=0,
                start_new_session=True,  # so that all it starts can be killed with it
            )
        except (OSError, ValueError) as error:
            raise FilterFailed(f"cannot start '{os.fsdecode(command)}': {error}") from None

    def once(self, command: bytes, source: IO[bytes], deadline: float) -> IO[bytes]:
        """Run a command from file to file."""
        output = self.file()
        try:
            with self.file() as errors:
                child = None
                try:
                    with Held():
                        child = self.popen(command, source, output, errors)
                    code = child.wait(max(deadline - time.monotonic(), 0))
                except BaseException as error:
                    if child is not None:
                        _kill(child)
                    if isinstance(error, subprocess.TimeoutExpired):
                        raise TimedOut from None
                    raise
                if code:
                    raise FilterFailed(_ended(code) + _last_line(errors))
        except BaseException:
            output.close()
            raise
        output.seek(0)
        return output


def _kill(child: subprocess.Popen[bytes]) -> None:
    """The command with its children, and no zombie left."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()


def _ended(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"killed by signal {-code}"


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0, os.SEEK_END)
    errors.seek(max(errors.tell() - 400, 0))
    lines = errors.read().decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip()]
    return f": {said[-1]}" if said else ""


class FilterProcess:
    """A long-running filter; its first question and answer are made when it is started."""

    def __init__(self, starter: Starter, command: str, deadline: float) -> None:
        self._new_file = starter.file
        self._errors = starter.file()
        self._child: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self._deadline = deadline
        pipe = subprocess.PIPE
        try:
            with Held():
                self._child = starter.popen(command, pipe, pipe, self._errors)
            assert self._child.stdin is not None and self._child.stdout is not None
            self._in, self._out = self._child.stdin.fileno(), self._child.stdout.fileno()
            os.set_blocking(self._in, False)
            self.capabilities = self._greet()
        except BaseException:
            self.kill()
            raise

    def convert(
        self,
        direction: str,
        path: bytes,
        source: IO[bytes],
        deadline: float,
        blob_id: bytes | None = None,
    ) -> IO[bytes]:
        """The content that the process gives for that of `source`."""
        self._deadline = deadline
        if len(path) > _MOST_CONTENT - len(b"pathname=\n"):
            raise Rejected("the path is too long for a packet")
        lines = [b"command=" + direction.encode(), b"pathname=" + path]
        self._say(*lines, *([b"blob=" + blob_id] if blob_id else []))
        while data := source.read(_MOST_CONTENT):
            self._send(_packet(data))
        self._send(_FLUSH)
        self._expect_success(direction, "")
        return self._content(direction)

    def close(self, grace: float) -> None:
        """Let the process end by itself, if it does within so many seconds."""
        assert self._child is not None and self._child.stdin is not None
        with suppress(OSError):
            self._child.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(grace)
        self.kill()

    def kill(self) -> None:
        if self._child is not None:
            _kill(self._child)
        self._errors.close()

    def _greet(self) -> set[str]:
        self._say(b"git-filter-client", b"version=2")
        if self._answer() != [b"git-filter-server", b"version=2"]:
            raise FilterFailed("does not speak version 2 of git's filter protocol")
        self._say(*(b"capability=" + name.encode() for name in _CAPABILITIES))
        answer = self._answer()
        return {name for name in _CAPABILITIES if b"capability=" + name.encode() in answer}

    def _content(self, direction: str) -> IO[bytes]:
        output = self._new_file()
        try:
            for data in self._packets():
                output.write(data)
            # What comes after the content may take the success back, or be empty.
            self._expect_success(direction, "success")
            output.seek(0)
        except BaseException:
            output.close()
            raise
        return output

    def _expect_success(self, direction: str, status: str) -> None:
        for line in self._answer():
            if line.startswith(b"status="):
                status = line[len(b"status=") :].decode("utf-8", "replace")
        if status == "abort":
            self.capabilities.discard(direction)
        if status in ("abort", "error"):
            raise Rejected(f"the process answered '{status}'")
        if status != "success":
            raise FilterFailed(f"the process answered '{status}'")

    def _say(self, *lines: bytes) -> None:
        self._send(b"".join(_packet(line + b"\n") for line in lines) + _FLUSH)

    def _answer(self) -> list[bytes]:
        lines: list[bytes] = []
        for line in self._packets():
            if len(lines) == _MOST_LINES:
                raise FilterFailed("the process answers without end")
            lines.append(line.removesuffix(b"\n"))
        return lines

    def _packets(self) -> Iterator[bytes]:
        """All up to the next flush packet."""
        while True:
            try:
                length = int(self._receive(4), 16)
            except ValueError:
                length = -1
            if length == 0:
                return
            if not 4 <= length <= _LONGEST_PACKET:
                raise FilterFailed("the process does not answer in packets")
            yield self._receive(length - 4)

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._wait(self._in, select.POLLOUT)
            try:
                view = view[os.write(self._in, view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self._ended() from None

    def _receive(self, length: int) -> bytes:
        while len(self._unread) < length:
            self._wait(self._out, select.POLLIN)
            data = os.read(self._out, 1 << 17)
            if not data:
                raise self._ended()
            self._unread += data
        data, self._unread = self._unread[:length], self._unread[length:]
        return data

    def _wait(self, fd: int, event: int) -> None:
        # Not select(), which fails on handles from 1024 on.
        poll = select.poll()
        poll.register(fd, event)
        left = self._left()
        if not left or not poll.poll(left * 1000):
            raise TimedOut

    def _left(self) -> float:
        return max(self._deadline - time.monotonic(), 0)

    def _ended(self) -> FilterFailed:
        assert self._child is not None
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(min(GRACE, self._left()))
        code = self._child.returncode
        how = "the process ended" if not code else _ended(code)
        return FilterFailed(how + _last_line(self._errors))


def _packet(data: bytes) -> bytes:
    return b"%04x%s" % (len(data) + 4, data)
