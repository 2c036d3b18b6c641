# SPDX-License-Identifier: MIT
"""Convert file contents as git does: line endings, encodings, `$Id$` and clean drivers.

A driver's `clean` command runs once per file, in its own session and with a time limit, unlike
dulwich's. Left out: `process`; a driver with nothing else fails, and its file is stored
unconverted. On checkout also `smudge`, `ident` and `working-tree-encoding`, since checkpoints hold
the exact bytes.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import IO, Literal, NamedTuple

from ckpt.git.rules import Attributes
from ckpt.worktree.scan import Deadline

# The bytes that git counts as unprintable; a final ^Z is allowed.
_UNPRINTABLE = bytes({*range(32), 127} - {*b"\b\t\033\f\r\n"})


class Unconvertible(Exception):
    """A content that git would refuse to convert, a conversion that is not supported, or a driver
    that failed, timed out or has no clean command."""


class Conversion(NamedTuple):
    """The conversion of a path. `line_endings`: keep CRLF, convert it to LF, or detect text."""

    line_endings: Literal["keep", "text", "auto"]
    checkout_crlf: bool
    ident: bool
    encoding: str | None
    driver: str | None


def _is_on(autocrlf: str | None) -> bool:
    return autocrlf is not None and autocrlf.lower() not in ("false", "no", "off", "0")


def conversion(
    attributes: Attributes, autocrlf: str | None, eol: str | None = None
) -> Conversion | None:
    """Return the conversion for attributes, core.autocrlf and core.eol; None if there is none."""
    driver, encoding = attributes.get(b"filter"), attributes.get(b"working-tree-encoding")
    text, attribute = attributes.get(b"text"), attributes.get(b"eol")
    if text not in (True, False, b"auto", b"input"):
        text = attributes.get(b"crlf")  # the old name of the attribute
    has_eol = attribute in (b"lf", b"crlf")
    endings: Literal["keep", "text", "auto"] = "keep"
    if text == b"auto":
        endings = "auto"
    elif text is not False:
        if text in (True, b"input") or has_eol:
            endings = "text"
        elif _is_on(autocrlf):
            endings = "auto"
    if has_eol:
        gets_crlf = attribute == b"crlf"
    elif text == b"input" or (autocrlf or "").lower() == "input":
        gets_crlf = False
    else:
        gets_crlf = _is_on(autocrlf) or (eol or "").lower() == "crlf"
    name = encoding.decode() if isinstance(encoding, bytes) and encoding.isascii() else ""
    asked = Conversion(
        endings,
        gets_crlf,
        attributes.get(b"ident") is True,
        None if name.lower() in ("", "utf-8", "utf8") else name,
        driver.decode("utf-8", "surrogateescape") if isinstance(driver, bytes) else None,
    )
    return None if asked == ("keep", gets_crlf, False, None, None) else asked


def clean(asked: Conversion, data: bytes, index_blob: Callable[[], bytes | None]) -> bytes:
    """Convert content to what git would store; Unconvertible if git would refuse to add the file.

    `index_blob` returns the content of the path in the index."""
    if asked.encoding is not None and data:
        codec = re.sub(r"(?i)^(utf-?\d\d)[lb]e-bom$", r"\1", asked.encoding)
        try:
            data = data.decode(codec).encode()
        except (LookupError, ValueError) as error:
            raise Unconvertible(str(error)) from None
    gets_lf = b"\r\n" in data and asked.line_endings != "keep"
    if gets_lf and asked.line_endings == "auto":
        # Text that was added with CRLF keeps it: the file would differ from its blob.
        blob = None if is_binary(data) else index_blob()
        gets_lf = not is_binary(data) and (blob is None or b"\r\n" not in blob or is_binary(blob))
    if gets_lf:
        data = data.replace(b"\r\n", b"\n")
    return re.sub(rb"\$Id:[^$\n]*\$", b"$Id$", data) if asked.ident else data


def checkout(asked: Conversion, blob: bytes) -> bytes:
    """Convert a blob to what git writes; Unconvertible unless only line endings are converted."""
    if asked.driver is not None:
        raise Unconvertible(f"filter '{asked.driver}'")
    if asked.encoding is not None or (asked.ident and b"$Id" in blob):
        raise Unconvertible("an encoding or $Id$ of its own")
    is_auto = asked.line_endings == "auto" and not (b"\r" in blob or is_binary(blob))
    if asked.checkout_crlf and (is_auto or asked.line_endings == "text"):
        return re.sub(rb"(?<!\r)\n", b"\r\n", blob)
    return blob


def is_binary(data: bytes) -> bool:
    """Detect binary content as git does for `text=auto`."""
    carriage_returns, crlf = data.count(b"\r"), data.count(b"\r\n")
    if carriage_returns != crlf or b"\0" in data:
        return True
    unprintable = len(data) - len(data.translate(None, _UNPRINTABLE))
    printable = len(data) - unprintable - crlf - data.count(b"\n")
    return printable >> 7 < unprintable - data.endswith(b"\x1a")


# -- Drivers

TIMEOUT = 60.0  # seconds that a driver may take for one file


def read_drivers(items: Iterable[tuple[str, str, str]]) -> dict[str, str | None]:
    """Return the clean command of each driver in the section `filter` of git's configuration: empty
    if content is not converted, None if the driver has only a process."""
    found: dict[str, dict[str, str]] = {}
    for key, value, _ in items:
        name, dot, variable = key.rpartition(".")
        if dot:
            found.setdefault(name, {})[variable] = value
    return {
        name: told.get("clean", None if told.get("process") else "") for name, told in found.items()
    }


class Filters(NamedTuple):
    """The filter drivers of a worktree. `scratch` is an existing directory for temporary files;
    after the deadline every driver fails."""

    drivers: Mapping[str, str | None]
    top: str
    env: Mapping[str, str]
    hung: set[str]  # commands that timed out
    timeout: float = TIMEOUT
    scratch: str | None = None
    deadline: Deadline | None = None

    def file(self) -> IO[bytes]:
        return tempfile.TemporaryFile(dir=self.scratch)

    def clean(self, name: str, path: bytes, source: IO[bytes]) -> IO[bytes]:
        """Convert a real file, from its current offset, with the clean command of a driver; a
        command that timed out is not run again."""
        command, left = self.drivers[name], self.timeout
        if self.deadline is not None:
            left = min(left, self.deadline.left())
        if command is None or command in self.hung or not left:
            raise Unconvertible
        output = self.file()
        try:
            self._run(command, path, source, output, left)
        except BaseException:
            output.close()
            raise
        output.seek(0)
        return output

    def _run(
        self, command: str, path: bytes, source: IO[bytes], output: IO[bytes], timeout: float
    ) -> None:
        child = None
        try:
            child = subprocess.Popen(
                ["sh", "-c", _with_path(command, path)],
                stdin=source,
                stdout=output,
                stderr=subprocess.DEVNULL,
                cwd=self.top,
                env=self.env,
                start_new_session=True,  # to kill its children with it
            )
            if child.wait(timeout):
                raise Unconvertible
        except subprocess.TimeoutExpired:
            self.hung.add(command)
            raise Unconvertible from None
        except (OSError, ValueError):
            raise Unconvertible from None
        finally:
            if child is not None and child.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def _with_path(command: str, path: bytes) -> bytes:
    """Replace `%f` with the path, quoted for the shell, and `%%` with a percent sign."""
    meaning = {b"%%": b"%", b"%f": os.fsencode(shlex.quote(os.fsdecode(path)))}
    return re.sub(rb"%[%f]", lambda found: meaning[found[0]], os.fsencode(command))
