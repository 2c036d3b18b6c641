# SPDX-License-Identifier: MIT
"""Print text, colour, JSON and progress; each command decides what to print.

Results go to standard output; warnings, hints and errors to standard error. `--json` prints a
single document and nothing else, `-q` only errors. Colour and progress appear only on a
terminal, colour only without NO_COLOR.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any, TextIO, TypeVar

from ckpt.errors import CkptError, Interrupted
from ckpt.render import Paint, printable, size

T = TypeVar("T")

_COLOURS = {"id": "33", "bold": "1", "dim": "2", "red": "31", "green": "32", "cyan": "36"}
# Replaced by ESC when a line is printed; random, so that no file name contains it.
_MARK = os.urandom(8).hex()
_COMMANDS = {"undo", "rollback_command"}  # the fields of documents that hold a command


class Output:
    """The output of one command."""

    def __init__(self, env: Mapping[str, str], *, as_json: bool = False) -> None:
        self.store = "repo"
        self.as_json = as_json
        self.quiet = False
        self._env = env
        self._progress: Progress | None = None

    def tell(
        self,
        value: T,
        document: Callable[[T], Mapping[str, Any]] | None,
        rows: Callable[[T, Paint, int], Iterable[str]],
    ) -> None:
        """Print a result as rows, or with --json as a document, by default of its fields."""
        if self.as_json:
            from ckpt import documents

            self.document((document or documents.of)(value))
        elif not self.quiet:
            for row in rows(value, self.paint, self.width()):
                self.line(row)

    def line(self, text: str = "") -> None:
        self._say(self._typed(text), sys.stdout)

    def document(self, content: Mapping[str, Any]) -> None:
        import json

        commands = {key: self._typed(text) for key in _COMMANDS if (text := content.get(key))}
        print(json.dumps({**content, **commands}))

    def raw(self, data: bytes) -> None:
        if not (self.quiet or self.as_json):
            self.clear()
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def warning(self, text: str) -> None:
        self._say(f"warning: {text}", sys.stderr)

    def hint(self, text: str) -> None:
        self.note(f"hint: {text}")

    def note(self, text: str) -> None:
        """Print a line on standard error, when another program uses standard output."""
        self._say(self._typed(text), sys.stderr)

    def error(self, problem: CkptError) -> None:
        if self.as_json:
            from ckpt import documents

            self.document(documents.document(error=problem))
            return
        is_ended = isinstance(problem, Interrupted)
        label = "" if is_ended else self.paint("red", "error:", sys.stderr) + " "
        self._print(label + problem.message, sys.stderr)
        if problem.hint:
            self._print(self._typed(f"hint: {problem.hint}"), sys.stderr)

    def progress(self) -> Progress | None:
        """Return a progress display, or None if standard error is not a terminal."""
        if self.quiet or self.as_json or self._env.get("TERM") == "dumb" or not sys.stderr.isatty():
            return None
        self._progress = Progress(sys.stderr)
        return self._progress

    def clear(self) -> None:
        """Erase the progress line."""
        if self._progress is not None:
            self._progress.clear()

    def paint(self, style: str, text: str, stream: TextIO | None = None) -> str:
        if not text or not self.colours(stream or sys.stdout):
            return text
        return f"{_MARK}[{_COLOURS[style]}m{text}{_MARK}[0m"

    def colours(self, stream: TextIO) -> bool:
        is_plain = self._env.get("NO_COLOR") or self._env.get("TERM") == "dumb"
        return not is_plain and stream.isatty()

    def width(self) -> int:
        """Return the width of the terminal, unlimited for a pipe."""
        return _columns(sys.stdout, 10_000)

    def _typed(self, command: str) -> str:
        """Add --store to the commands in a text."""
        named = "git ckpt " if self.store == "repo" else f"git ckpt --store {self.store} "
        return command.replace("git ckpt ", named)

    def _say(self, text: str, stream: TextIO) -> None:
        if not (self.quiet or self.as_json):
            self._print(text, stream)

    def _print(self, text: str, stream: TextIO) -> None:
        """Print one line, escaping all control characters except our own colours."""
        self.clear()
        print(printable(text).replace(_MARK, "\033"), file=stream)


def _columns(stream: TextIO, otherwise: int) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or otherwise
    except (OSError, ValueError):
        return otherwise


_PATIENCE = 0.5
_INTERVAL = 0.1
_CLEAR = "\r\033[K"


class Progress:
    """A progress line on a terminal, called with the number of files and bytes read."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._next = clock() + _PATIENCE
        self._is_shown = False

    def __call__(self, files: int, bytes: int = 0) -> None:
        now = self._clock()
        if now >= self._next:
            self._next = now + _INTERVAL
            self._is_shown = True
            text = f"ckpt: reading files: {files:,}" + (f" ({size(bytes)})" if bytes else "")
            self._write(_CLEAR + text[: _columns(self._stream, 80) - 1])

    def clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._write(_CLEAR)

    def _write(self, drawn: str) -> None:
        self._stream.write(drawn)
        self._stream.flush()
