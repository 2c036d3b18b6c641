# SPDX-License-Identifier: MIT
"""Run the filter drivers of git's configuration, with a time limit.

`clean` and `smudge` run once for each file, through the shell; `process` once for all files, with
version 2 of git's protocol for long-running filters (without `delay`). Contents go from file to
file. dulwich's are not used: they have no time limit and deadlock over a full stderr.
"""

from __future__ import annotations

import codecs
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
_BOMS = {
    "16LE": codecs.BOM_UTF16_LE,
    "16BE": codecs.BOM_UTF16_BE,
    "32LE": codecs.BOM_UTF32_LE,
    "32BE": codecs.BOM_UTF32_BE,
}
# What git counts as unprintable in text; a final ^Z is allowed.
_UNPRINTABLE = bytes({*range(32), 127} - {*b"\b\t\033\f\r\n"})


class Unconvertible(Exception):
    """Content that is not in the encoding that the attributes name."""


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
    driver = attributes.get(b"filter")
    text = attributes.get(b"text")
    if text not in (True, False, b"auto", b"input"):
        text = attributes.get(b"crlf")  # the old name of the attribute
    asked = Conversion(
        _line_endings(text, attributes.get(b"eol"), autocrlf),
        _gets_crlf(text, attributes.get(b"eol"), autocrlf, eol),
        attributes.get(b"ident") is True,
        _encoding(attributes.get(b"working-tree-encoding")),
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


def _encoding(state: State) -> str | None:
    if not isinstance(state, bytes) or not state.isascii():
        return None
    name = state.decode()
    return None if not name or _utf(name) == "8" else name


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
        data = _decode(asked.encoding, data)
    if b"\r\n" in data and _gets_lf(asked.line_endings, data, index_blob):
        data = data.replace(b"\r\n", b"\n")
    return re.sub(rb"\$Id:[^$\n]*\$", b"$Id$", data) if asked.ident else data


def _gets_lf(kind: LineEndings, data: bytes, index_blob: Callable[[], bytes | None]) -> bool:
    """Text that was added with CRLF stays so, or the file would differ from its blob."""
    if kind is not LineEndings.AUTO or is_binary(data):
        return kind is LineEndings.TEXT
    blob = index_blob()
    return blob is None or b"\r\n" not in blob or is_binary(blob)


def checkout(asked: Conversion, blob: bytes, ident: bytes) -> bytes:
    """Return what git writes to disk, without a driver; `ident` is the id for `$Id$`."""
    data = blob
    if asked.ident:
        # An id with blanks inside is another system's, and stays.
        pattern = rb"\$Id(?:\$|:(?:[^$\n](?:[^$\n ]*[^$\n])?)?\$)"
        data = re.sub(pattern, b"$Id: %s $" % ident, data)
    is_auto = asked.line_endings is LineEndings.AUTO and not (b"\r" in blob or is_binary(blob))
    if asked.checkout_crlf and (is_auto or asked.line_endings is LineEndings.TEXT):
        data = re.sub(rb"(?<!\r)\n", b"\r\n", data)
    return _encode(asked.encoding, data) if asked.encoding is not None and data else data


def is_binary(data: bytes) -> bool:
    """Guess as git does for `text=auto`."""
    carriage_returns, crlf = data.count(b"\r"), data.count(b"\r\n")
    if carriage_returns != crlf or b"\0" in data:
        return True
    unprintable = len(data) - len(data.translate(None, _UNPRINTABLE))
    printable = len(data) - unprintable - crlf - data.count(b"\n")
    return printable >> 7 < unprintable - data.endswith(b"\x1a")


def _utf(encoding: str) -> str | None:
    """Return `16LE` for `utf-16le`; git takes `UTF16LE` for the same."""
    upper = encoding.upper()
    return upper[3:].removeprefix("-") if upper.startswith("UTF") else None


def _decode(encoding: str, data: bytes) -> bytes:
    """Convert to UTF-8; `UTF-16` needs a byte order mark, `UTF-16LE` must not have one."""
    kind = _utf(encoding) or ""
    marks = tuple(bom for order, bom in _BOMS.items() if order[:2] == kind[:2])
    if kind in _BOMS and data.startswith(marks):
        raise Unconvertible(f"a byte order mark is prohibited in {encoding}")
    if kind in ("16", "32") and not data.startswith(marks):
        raise Unconvertible(f"a byte order mark is required in {encoding}")
    try:
        return data.decode(_codec(encoding)).encode()
    except (LookupError, ValueError) as error:
        raise Unconvertible(str(error)) from None


def _encode(encoding: str, data: bytes) -> bytes:
    order = (_utf(encoding) or "").removesuffix("-BOM")
    try:
        if encoding.upper().endswith("-BOM") and order in _BOMS:
            return _BOMS[order] + data.decode().encode(f"utf-{order}")
        return data.decode().encode(_codec(encoding))
    except (LookupError, ValueError) as error:
        raise Unconvertible(str(error)) from None


def _codec(encoding: str) -> str:
    kind = _utf(encoding)
    return encoding if kind is None else f"utf-{kind[:2] if kind.endswith('-BOM') else kind}"


# -- Run the filter drivers of git's configuration, with a time limit

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
        is_once = driver.process is None
        command = getattr(driver, direction) if is_once else driver.process
        if not command:
            return None
        if command in self._given_up:
            raise FilterFailed(self._given_up[command])
        until = time.monotonic() + self._seconds()
        try:
            if is_once:
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

    def _seconds(self) -> float:
        most, deadline = self._timeout, self._deadline
        left = most if deadline is None else min(most, deadline.left())
        if not left:  # it would be started only to be killed
            raise TimedOut
        return left

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
        output = self.file()
        child = None
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
    lines = [line for line in log.read().decode("utf-8", "replace").split("\n") if line.strip()]
    return ": ".join([how if code else "the process ended", *(line.strip() for line in lines[-1:])])


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
            raise FilterFailed("the process answers without end")
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
