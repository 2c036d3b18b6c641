# SPDX-License-Identifier: MIT
"""The last success and the last failure of each trigger, for `status` and `doctor`.

One file of fixed length, written in place, so that a failure can be recorded on a full disk. A
corrupt file reads as empty, and write errors are ignored.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any, NamedTuple

from ckpt import disk

_SIZE = 1 << 15
_LONGEST_MESSAGE = 700  # characters
_END_OF_TIME = 253402300800.0  # the year 10000


class Success(NamedTuple):
    at: float
    seconds: float
    outcome: str
    id: str


class Failure(NamedTuple):
    """`times` failures in a row, the last one `at` that time with that message."""

    at: float
    times: int
    message: str


class TriggerNotes(NamedTuple):
    """The last success and failure of one trigger in one worktree."""

    success: Success | None = None
    failure: Failure | None = None

    @property
    def is_failing(self) -> bool:
        """Return whether nothing has succeeded since the last failure."""
        if self.failure is None:
            return False
        return self.success is None or self.failure.at > self.success.at


class TriggerLog:
    """The notes of one worktree."""

    def __init__(self, private_dir: str) -> None:
        self._path = os.path.join(private_dir, "triggers")

    def _read(self) -> dict[str, Any]:
        with suppress(OSError, TypeError, ValueError, RecursionError):
            return dict(json.loads(disk.read_private(self._path)))
        return {}

    def read(self, trigger: str) -> TriggerNotes:
        with suppress(KeyError, TypeError, ValueError):
            success, failure = self._read()[trigger]
            if all(each is None or 0 <= each[0] < _END_OF_TIME for each in (success, failure)):
                return TriggerNotes(success and Success(*success), failure and Failure(*failure))
        return TriggerNotes()

    def note_success(self, trigger: str, success: Success) -> None:
        self._write(trigger, TriggerNotes(success, self.read(trigger).failure))

    def note_failure(self, trigger: str, at: float, message: str) -> None:
        before = self.read(trigger)
        failed = before.failure.times if before.failure and before.is_failing else 0
        line = " ".join(message.split())[:_LONGEST_MESSAGE]
        line = line.encode("utf-8", "backslashreplace").decode()
        self._write(trigger, TriggerNotes(before.success, Failure(at, failed + 1, line)))

    def _write(self, trigger: str, notes: TriggerNotes) -> None:
        with suppress(OSError):
            text = json.dumps({**self._read(), trigger: notes}, ensure_ascii=False).encode()
            disk.overwrite_private(self._path, text.ljust(_SIZE)[:_SIZE])
