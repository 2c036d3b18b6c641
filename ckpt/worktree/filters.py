# SPDX-License-Identifier: MIT
"""What git converts in files: line endings by rules, the rest by the drivers of its configuration.

Drivers have a time limit, which dulwich's lack: `clean` and `smudge` run once for each file,
through the shell; `process` once for all files, with version 2 of git's protocol (without
`delay`). Contents go from file to file. Left out: writing `ident` and `working-tree-encoding` to
disk, whose exact bytes a checkpoint keeps.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from enum import Enum
from itertools import islice
from typing import IO, NamedTuple

from ckpt.git.rules import Attributes, AttributeTree, State, asks_for_conversion
from ckpt.interrupts import Held
from ckpt.worktree.scan import Deadline

_OFF = ("false", "no", "off", "0")
# What git counts as unprintable in text; a final ^Z is allowed.
_UNPRINTABLE = bytes({*range(32), 127} - {*b"\b\t\033\f\r\n"})


class Unconvertible(Exception):
    """Content that git would refuse to convert, or that is left to git."""


class LineEndings(Enum):
    """What becomes of CRLF: it stays, it becomes LF, or it does if the content is text."""

    KEEP = "keep"
    TEXT = "text"
    AUTO = "auto"


class Conversion(NamedTuple):
    """What attributes and configuration ask for at one path."""

    line_endings: LineEndings
    checkout_crlf: bool
    ident: bool
    encoding: str | None
    driver: str | None


def converts(autocrlf: str | None, attribute_files: Iterable[bytes]) -> bool:
    """Tell whether configuration or an attributes file asks for a conversion."""
    return _is_on(autocrlf) or any(map(asks_for_conversion, attribute_files))


def _is_on(autocrlf: str | None) -> bool:
    return autocrlf is not None and autocrlf.lower() not in _OFF


def conversion(
    attributes: Attributes, autocrlf: str | None, eol: str | None = None
) -> Conversion | None:
    """Return None if the bytes on disk are those of the blob.

    `autocrlf` and `eol` are the values of core.autocrlf and core.eol.
    """
    driver, encoding = attributes.get(b"filter"), attributes.get(b"working-tree-encoding")
    text, eol_attribute = attributes.get(b"text"), attributes.get(b"eol")
    if text not in (True, False, b"auto", b"input"):
        text = attributes.get(b"crlf")  # the old name of the attribute
    name = encoding.decode() if isinstance(encoding, bytes) and encoding.isascii() else ""
    asked = Conversion(
        _line_endings(text, eol_attribute, autocrlf),
        _gets_crlf(text, eol_attribute, autocrlf, eol),
        attributes.get(b"ident") is True,
        None if name.lower() in ("", "utf-8", "utf8") else name,
        driver.decode("utf-8", "surrogateescape") if isinstance(driver, bytes) else None,
    )
    return None if asked == (LineEndings.KEEP, asked[1], False, None, None) else asked


def _line_endings(text: State, eol: State, autocrlf: str | None) -> LineEndings:
    if text is False:
        return LineEndings.KEEP
    if text == b"auto":
        return LineEndings.AUTO
    if text in (True, b"input") or eol in (b"lf", b"crlf"):
        return LineEndings.TEXT
    return LineEndings.AUTO if _is_on(autocrlf) else LineEndings.KEEP


def _gets_crlf(text: State, attribute: State, autocrlf: str | None, eol: str | None) -> bool:
    if attribute in (b"lf", b"crlf"):
        return attribute == b"crlf"
    if text == b"input" or (autocrlf or "").lower() == "input":
        return False
    return _is_on(autocrlf) or (eol or "").lower() == "crlf"


def converting(
    tree: AttributeTree, autocrlf: str | None, eol: str | None = None
) -> Callable[[bytes], Conversion | None]:
    """Return a function from paths to their conversion."""
    known: dict[int, Conversion | None] = {}  # many paths share their attributes

    def asked(path: bytes) -> Conversion | None:
        attributes = tree.attributes(path)
        if id(attributes) not in known:
            known[id(attributes)] = conversion(attributes, autocrlf, eol)
        return known[id(attributes)]

    return asked


def clean(asked: Conversion, data: bytes, index_blob: Callable[[], bytes | None]) -> bytes:
    """Return what git would store; `index_blob` gives what the index has for the path.

    Raises Unconvertible where git would refuse to add the file.
    """
    if asked.encoding is not None and data:
        codec = re.sub(r"(?i)^(utf-?\d\d)[lb]e-bom$", r"\1", asked.encoding)
        try:
            data = data.decode(codec).encode()
        except (LookupError, ValueError) as error:
            raise Unconvertible(str(error)) from None
    if b"\r\n" in data and _gets_lf(asked.line_endings, data, index_blob):
        data = data.replace(b"\r\n", b"\n")
    return re.sub(rb"\$Id:[^$\n]*\$", b"$Id$", data) if asked.ident else data


def _gets_lf(kind: LineEndings, data: bytes, index_blob: Callable[[], bytes | None]) -> bool:
    """Text that was added with CRLF stays so, or the file would differ from its blob."""
    if kind is not LineEndings.AUTO or is_binary(data):
        return kind is LineEndings.TEXT
    blob = index_blob()
    return blob is None or b"\r\n" not in blob or is_binary(blob)


def checkout(asked: Conversion, blob: bytes) -> bytes:
    """Return what git writes to disk, without a driver."""
    if asked.encoding is not None or (asked.ident and b"$Id" in blob):
        raise Unconvertible("left to git")
    is_auto = asked.line_endings is LineEndings.AUTO and not (b"\r" in blob or is_binary(blob))
    if asked.checkout_crlf and (is_auto or asked.line_endings is LineEndings.TEXT):
        return re.sub(rb"(?<!\r)\n", b"\r\n", blob)
    return blob


def is_binary(data: bytes) -> bool:
    """Guess as git does for `text=auto`."""
    carriage_returns, crlf = data.count(b"\r"), data.count(b"\r\n")
    if carriage_returns != crlf or b"\0" in data:
        return True
    unprintable = len(data) - len(data.translate(None, _UNPRINTABLE))
    printable = len(data) - unprintable - crlf - data.count(b"\n")
    return printable >> 7 < unprintable - data.endswith(b"\x1a")


# -- Drivers

TIMEOUT = 60.0  # seconds that a driver may take for one file
GRACE = 5.0  # seconds for a process to end by itself
_MOST_CONTENT = 65516  # bytes in a packet
_MOST_LINES = 100  # in an answer
_CAPABILITIES = (b"capability=clean", b"capability=smudge")


class FilterFailed(Exception):
    """A driver that gave no content; the message is the reason."""


class TimedOut(FilterFailed):
    """A driver that was killed because it took too long."""

    def __init__(self) -> None:
        super().__init__("timed out")


class Rejected(FilterFailed):
    """A process that does not convert this file, and is ready for the next one."""


class Driver(NamedTuple):
    """The commands of one driver, each of which may be missing."""

    clean: str | None = None
    smudge: str | None = None
    process: str | None = None


def read_drivers(items: Iterable[tuple[str, str, str]]) -> dict[str, Driver]:
    """Read the section `filter` of git's configuration: name, value and file, in order."""
    found: dict[str, Driver] = {}
    for key, value, _ in items:
        name, dot, variable = key.rpartition(".")
        if dot:
            known = found.setdefault(name, Driver())
            if variable in Driver._fields:
                found[name] = known._replace(**{variable: value})
    return found


class Filters:
    """Runs the drivers of one worktree; a process lives until this is closed.

    `scratch` is an existing directory for temporary files. After the deadline every driver has
    timed out.
    """

    def __init__(
        self,
        drivers: Mapping[str, Driver],
        *,
        top: str,
        env: Mapping[str, str],
        timeout: float | None = None,
        scratch: str | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self.drivers = drivers
        self._top = top
        self._env = dict(env)
        self._scratch = scratch
        self._timeout = TIMEOUT if timeout is None else timeout
        self._deadline = deadline
        self._processes: dict[str, _Process] = {}
        self._given_up: dict[str, str] = {}

    def __enter__(self) -> Filters:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        grace = GRACE if self._deadline is None else min(GRACE, self._deadline.left())
        while self._processes:
            self._processes.popitem()[1].close(grace)

    def run(
        self,
        direction: str,
        name: str,
        path: bytes,
        source: IO[bytes],
        blob_id: bytes | None = None,
    ) -> IO[bytes] | None:
        """Convert a real file, read from where it stands; None if no command is configured.

        A command that timed out, or does not speak the protocol, is not tried again.
        """
        driver = self.drivers.get(name, Driver())
        command = getattr(driver, direction) if driver.process is None else driver.process
        if not command:
            return None
        if command in self._given_up:
            raise FilterFailed(self._given_up[command])
        left = self._timeout if self._deadline is None else self._deadline.left()
        until = time.monotonic() + min(self._timeout, left)
        try:
            if not left:  # it would be started only to be killed
                raise TimedOut
            if driver.process is None:
                return self._once(_with_path(command, path), source, until)
            process = self._process(command, until)
            if b"capability=" + direction.encode() not in process.capabilities:
                return None
            return process.convert(direction.encode(), path, source, until, blob_id)
        except TimedOut as error:
            self._given_up[command] = str(error)
            raise

    def file(self) -> IO[bytes]:
        return tempfile.TemporaryFile(dir=self._scratch)

    def _start(
        self, command: str | bytes, stdin: IO[bytes] | int, stdout: IO[bytes] | int, log: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                ["sh", "-c", command],
                stdin=stdin,
                stdout=stdout,
                stderr=log,
                cwd=self._top,
                env=self._env,
                bufsize=0,
                start_new_session=True,  # so that all its children can be killed with it
            )
        except (OSError, ValueError) as error:
            raise FilterFailed(f"cannot start '{os.fsdecode(command)}': {error}") from None

    def _once(self, command: bytes, source: IO[bytes], until: float) -> IO[bytes]:
        """Run a command that turns its standard input into its output."""
        output, child = self.file(), None
        with self.file() as log:
            try:
                with Held():
                    child = self._start(command, source, output, log)
                if child.wait(max(until - time.monotonic(), 0)):
                    raise FilterFailed(_ended(child, log))
            except BaseException as error:
                output.close()
                if child is not None:
                    _kill(child)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise TimedOut from None
                raise
        output.seek(0)
        return output

    def _process(self, command: str, until: float) -> _Process:
        found = self._processes.get(command)
        if found is None or found.is_over:
            log, pipe = self.file(), subprocess.PIPE
            with Held():
                found = _Process(self._start(command, pipe, pipe, log), log, self.file)
                self._processes[command] = found
            try:
                found.greet(until)
            except FilterFailed as error:
                self._given_up[command] = str(error)
                raise
        return found


def _with_path(command: str, path: bytes) -> bytes:
    """Replace `%f` with the path, quoted for the shell, and `%%` with a percent sign."""
    meaning = {b"%%": b"%", b"%f": os.fsencode(shlex.quote(os.fsdecode(path)))}
    return re.sub(rb"%[%f]", lambda found: meaning[found[0]], os.fsencode(command))


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a command with its children, and leave no zombie."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _ended(child: subprocess.Popen[bytes], log: IO[bytes]) -> str:
    """Say how a command ended, with the last line of its errors."""
    code = child.returncode
    how = f"killed by signal {-code}" if code and code < 0 else f"exit code {code}"
    log.seek(max(log.seek(0, os.SEEK_END) - 400, 0))
    last = log.read().decode("utf-8", "replace").strip().rpartition("\n")[2].strip()
    return ": ".join(filter(None, (how if code else "the process ended", last)))


class _Process:
    """A long-running filter; an error that is not about one file only ends it."""

    def __init__(
        self, child: subprocess.Popen[bytes], log: IO[bytes], new_file: Callable[[], IO[bytes]]
    ) -> None:
        assert child.stdin is not None and child.stdout is not None
        self._child, self._in, self._out = child, child.stdin, child.stdout
        self._log, self._new_file = log, new_file
        self._unread = b""
        self._until = 0.0
        self.capabilities: set[bytes] = set()
        self.is_over = False

    def close(self, grace: float = 0) -> None:
        """Let the process end by itself, if it does within so many seconds."""
        self.is_over = True
        with suppress(OSError):
            self._in.close()
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(grace)
        _kill(self._child)
        self._out.close()
        self._log.close()

    @contextmanager
    def _talk(self, until: float) -> Iterator[None]:
        self._until = until
        try:
            yield
        except Rejected:
            raise
        except BaseException:
            self.close()
            raise

    def greet(self, until: float) -> None:
        with self._talk(until):
            os.set_blocking(self._in.fileno(), False)
            self._say(b"git-filter-client", b"version=2")
            if self._answer() != [b"git-filter-server", b"version=2"]:
                raise FilterFailed("does not speak version 2 of git's filter protocol")
            self._say(*_CAPABILITIES)
            self.capabilities = {*_CAPABILITIES}.intersection(self._answer())

    def convert(
        self, direction: bytes, path: bytes, source: IO[bytes], until: float, blob_id: bytes | None
    ) -> IO[bytes]:
        """Return the content that the process gives for that of `source`."""
        if len(path) > _MOST_CONTENT - len(b"pathname=\n"):
            raise Rejected("path too long")
        with self._talk(until), ExitStack() as stack:
            blob = [b"blob=" + blob_id] if blob_id else []
            self._say(b"command=" + direction, b"pathname=" + path, *blob)
            while data := source.read(_MOST_CONTENT):
                self._send(_packet(data))
            self._send(b"0000")
            self._expect_success(direction, "")
            output = stack.enter_context(self._new_file())
            for data in self._packets():
                output.write(data)
            # The answer after the content may be empty, or take the success back.
            self._expect_success(direction, "success")
            output.seek(0)
            stack.pop_all()
            return output

    def _expect_success(self, direction: bytes, status: str) -> None:
        for line in self._answer():
            if line.startswith(b"status="):
                status = line[len(b"status=") :].decode("utf-8", "replace")
        if status == "abort":
            self.capabilities.discard(b"capability=" + direction)
        if status != "success":
            kind = Rejected if status in ("abort", "error") else FilterFailed
            raise kind(f"the process answered '{status}'")

    def _say(self, *lines: bytes) -> None:
        self._send(b"".join(_packet(line + b"\n") for line in lines) + b"0000")

    def _answer(self) -> list[bytes]:
        lines = [line.removesuffix(b"\n") for line in islice(self._packets(), _MOST_LINES + 1)]
        if len(lines) > _MOST_LINES:
            raise FilterFailed("the answer of the process is too long")
        return lines

    def _packets(self) -> Iterator[bytes]:
        """Read up to the next flush packet."""
        while (size := self._receive(4)) != b"0000":
            if not re.fullmatch(rb"[0-9a-fA-F]{4}", size) or int(size, 16) < 4:
                raise FilterFailed("the process does not answer in packets")
            yield self._receive(int(size, 16) - 4)

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._wait(self._in, select.POLLOUT)
            try:
                view = view[os.write(self._in.fileno(), view) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise self._end() from None

    def _receive(self, size: int) -> bytes:
        while len(self._unread) < size:
            self._wait(self._out, select.POLLIN)
            data = os.read(self._out.fileno(), 1 << 17)
            if not data:
                raise self._end()
            self._unread += data
        data, self._unread = self._unread[:size], self._unread[size:]
        return data

    def _wait(self, pipe: IO[bytes], event: int) -> None:
        poll = select.poll()  # select() fails on handles from 1024 on
        poll.register(pipe, event)
        left = self._until - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise TimedOut

    def _end(self) -> FilterFailed:
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(max(min(GRACE, self._until - time.monotonic()), 0))
        return FilterFailed(_ended(self._child, self._log))


def _packet(data: bytes) -> bytes:
    return b"%04x%s" % (len(data) + 4, data)
