# SPDX-License-Identifier: MIT
"""How ckpt prints: text, colour, JSON, progress. What is printed, each command says itself.

Results go to standard output, warnings, hints and errors to standard error. With
`--json` there is one document on standard output and nothing else; with `-q` nothing
but errors. Colour and progress appear on a terminal only; colour never under NO_COLOR.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any, TextIO, TypeVar

from ckpt.errors import CkptError
from ckpt.render import Paint, printable, size

T = TypeVar("T")

_COLOURS = {"id": "33", "bold": "1", "dim": "2", "red": "31", "green": "32", "cyan": "36"}
_PAINT = tuple(f"[{code}m" for code in ("0", *_COLOURS.values()))
_COMMANDS = {"undo", "rollback_command"}  # the parts of documents that a person may type


class Output:
    """Where the results of one command go."""

    def __init__(
        self, env: Mapping[str, str], *, as_json: bool, quiet: bool, store: str = "repo"
    ) -> None:
        self._store = store
        self.as_json = as_json
        self.quiet = quiet
        self._env = env
        self._progress: Progress | None = None

    def tell(
        self,
        value: T,
        document: Callable[[T], Mapping[str, Any]],
        rows: Callable[[T, Paint, int], Iterable[str]],
    ) -> None:
        """Print a result: as a document with --json, else line by line."""
        if self.as_json:
            self.document(document(value))
        elif not self.quiet:
            for row in rows(value, self.paint, self.width()):
                self.line(row)

    def line(self, text: str = "") -> None:
        if not (self.quiet or self.as_json):
            self._print(self._typed(text), sys.stdout)

    def document(self, content: Mapping[str, Any]) -> None:
        import json

        commands = {key: self._typed(text) for key in _COMMANDS if (text := content.get(key))}
        print(json.dumps({**content, **commands}, ensure_ascii=True), file=sys.stdout)

    def raw(self, data: bytes) -> None:
        if not (self.quiet or self.as_json):
            self.clear()
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def warning(self, text: str) -> None:
        if not (self.quiet or self.as_json):
            self._print(f"warning: {printable(text)}", sys.stderr)

    def hint(self, text: str) -> None:
        if not (self.quiet or self.as_json):
            self._print(self._typed(f"hint: {printable(text)}"), sys.stderr)

    def note(self, text: str) -> None:
        """A line on standard error, where standard output is another program's."""
        if not (self.quiet or self.as_json):
            self._print(self._typed(text), sys.stderr)

    def waiting(self, text: str) -> None:
        """Say why a command takes so long."""
        self.warning(f"{text}; waiting for it to end")

    def error(self, problem: CkptError) -> None:
        if self.as_json:
            from ckpt import documents

            self.document(documents.error(problem))
            return
        painted = "error:"
        if self.colours(sys.stderr):
            painted = f"\033[{_COLOURS['red']}m{painted}\033[0m"
        self._print(f"{painted} {printable(problem.message)}", sys.stderr)
        if problem.hint:
            self._print(self._typed(f"hint: {printable(problem.hint)}"), sys.stderr)

    def interrupted(self) -> None:
        if self.as_json:
            from ckpt import documents

            self.document(documents.interrupted())
            return
        self.clear()
        print("interrupted", file=sys.stderr)

    def progress(self) -> Progress | None:
        """What to call in the course of long work; None where standard error is no terminal."""
        if self.quiet or self.as_json or self._env.get("TERM") == "dumb" or not sys.stderr.isatty():
            return None
        self._progress = Progress(sys.stderr)
        return self._progress

    def clear(self) -> None:
        """Remove the line of progress."""
        if self._progress is not None:
            self._progress.clear()

    def paint(self, style: str, text: str) -> str:
        if text and self.colours(sys.stdout):
            return f"\033[{_COLOURS[style]}m{text}\033[0m"
        return text

    def colours(self, stream: TextIO) -> bool:
        if self._env.get("NO_COLOR") or self._env.get("TERM") == "dumb":
            return False
        return stream.isatty()

    def width(self) -> int:
        """Columns to fill; a pipe gets everything on one line."""
        try:
            return os.get_terminal_size(sys.stdout.fileno()).columns
        except (OSError, ValueError):
            return 10_000

    def _typed(self, command: str) -> str:
        """A command as it must be typed to reach the same checkpoints."""
        if self._store == "repo":
            return command
        first, *others = command.split("git ckpt ")
        store = f"--store {self._store} "
        return "git ckpt ".join([first, *(store * part[:1].isalpha() + part for part in others)])

    def _print(self, text: str, stream: TextIO) -> None:
        """One line, whatever is in it; `text` may be painted."""
        self.clear()
        print(_printable(text, self.colours(stream)), file=stream)


def _printable(text: str, has_colours: bool) -> str:
    """Escape all control characters but the colours of `paint`."""
    if text.isprintable():
        return text
    first, *rest = text.split("\033")
    parts = [printable(first)]
    for part in rest:
        parts.append("\033" if has_colours and part.startswith(_PAINT) else "\\x1b")
        parts.append(printable(part))
    return "".join(parts)


_PATIENCE = 0.5
_INTERVAL = 0.1
_CLEAR = "\r\033[K"


class Progress:
    """One line on a terminal, called with the number of files and bytes that are read."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._next = clock() + _PATIENCE
        self._is_shown = False

    def __call__(self, files: int, bytes: int = 0) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        self._is_shown = True
        text = f"ckpt: reading files: {files:,}" + (f" ({size(bytes)})" if bytes else "")
        self._write(_CLEAR + text[: self._columns() - 1])

    def clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._write(_CLEAR)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def _write(self, drawn: str) -> None:
        try:
            self._stream.write(drawn)
            self._stream.flush()
        except (OSError, ValueError):
            self._next = float("inf")
            self._is_shown = False
