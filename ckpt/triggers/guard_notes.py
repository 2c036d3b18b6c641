# SPDX-License-Identifier: MIT
"""Which git commands the guard has taken a checkpoint for.

A small file that `hooks/guard` reads as well: a line for each process, with its number, the
moment it started, until when the note holds, and the worktree. It holds for minutes only: a
script may run for hours under one git command, while somebody works in the same files. Lost or
unreadable, it costs a checkpoint too many.
"""

from __future__ import annotations

import os
import time

from ckpt import private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.triggers.processes import Process

_SECONDS = 300
_LONGEST_NUMBER = 20
_SIZE = 4096  # of the file, always: so that it can be written when the disk is full


class Notes:
    """The notes in one file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def has(self, process: Process, worktree: str) -> bool:
        wanted = [str(process.pid), process.started]
        return any(line[:2] == wanted and line[3] == _line(worktree) for line in self._read())

    def add(self, process: Process, worktree: str) -> None:
        """Note a process; if that cannot be, the next call saves once more."""
        until = str(_now() + _SECONDS)
        newest_first = [[str(process.pid), process.started, until, _line(worktree)], *self._read()]
        text = os.fsencode("".join(" ".join(line) + "\n" for line in newest_first))
        whole_lines = text[: text.rfind(b"\n", 0, _SIZE) + 1]
        try:
            private.ensure_dir(os.path.dirname(self._path))
            private.overwrite(self._path, whole_lines.ljust(_SIZE, b"\n"), 0, _SIZE)
        except OSError:
            pass

    def _read(self) -> list[list[str]]:
        """Those that still hold; after the machine was started anew there are none."""
        now = _now()
        try:
            lines = os.fsdecode(private.read(self._path)).split("\n")
        except OSError:
            return []
        notes = [line.split(" ", 3) for line in lines]
        return [note for note in notes if len(note) == 4 and _holds(note[2], now)]


def _line(worktree: str) -> str:
    """On one line; a path that is not, the shell does not find, and asks us."""
    return worktree.replace("\n", "\\n")


def _holds(until: str, now: int) -> bool:
    is_number = until.isdecimal() and len(until) <= _LONGEST_NUMBER
    return is_number and now < int(until) <= now + _SECONDS


def _now() -> int:
    """Seconds since the machine was started, as the shell reads them too."""
    try:
        with open("/proc/uptime", "rb") as file:
            return int(file.read().partition(b".")[0])
    except (OSError, ValueError):
        return int(time.monotonic())
