# SPDX-License-Identifier: MIT
"""The last success and the last failure of each trigger, for `status` and `doctor`.

One slot of fixed length a trigger, written in place, so that a failure can be noted when the
disk is full. A slot that is damaged reads as empty, and what cannot be written is let go.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from ckpt import disk

_NAME = "triggers"
_SLOT = 1024
_LONGEST_MESSAGE = 700  # bytes
_END_OF_TIME = 253402300800.0  # the year 10000


@dataclass(frozen=True)
class Success:
    at: float
    seconds: float
    outcome: str
    id: str


@dataclass(frozen=True)
class Failure:
    """`count` failures in a row, the last of them at that time for that reason."""

    at: float
    count: int
    message: str


@dataclass(frozen=True)
class TriggerNotes:
    """The last of each, of one trigger in one worktree."""

    success: Success | None = None
    failure: Failure | None = None

    @property
    def is_failing(self) -> bool:
        """Whether nothing has succeeded since the last failure."""
        if self.failure is None:
            return False
        return self.success is None or self.failure.at > self.success.at


class TriggerLog:
    """The notes of one worktree; `names` gives each trigger its slot."""

    def __init__(self, private_dir: str, names: Sequence[str]) -> None:
        self._path = os.path.join(private_dir, _NAME)
        self._names = names

    def read(self, trigger: str) -> TriggerNotes:
        with suppress(OSError, ValueError, TypeError, AttributeError):
            start = self._names.index(trigger) * _SLOT
            slot = json.loads(disk.read_private(self._path)[start : start + _SLOT].rstrip(b"\0"))
            success, failure = slot.get("success"), slot.get("failure")
            if all(each is None or 0 <= each["at"] < _END_OF_TIME for each in (success, failure)):
                return TriggerNotes(
                    None if success is None else Success(**success),
                    None if failure is None else Failure(**failure),
                )
        return TriggerNotes()

    def note_success(self, trigger: str, success: Success) -> None:
        self._write(trigger, TriggerNotes(success, self.read(trigger).failure))

    def note_failure(self, trigger: str, at: float, message: str) -> None:
        before = self.read(trigger)
        failed = before.failure.count if before.failure and before.is_failing else 0
        self._write(trigger, TriggerNotes(before.success, Failure(at, failed + 1, _line(message))))

    def told(self, trigger: str, message: str, since: float) -> bool:
        """Whether a failure for that reason was noted since a time."""
        failure = self.read(trigger).failure
        return failure is not None and failure.at >= since and failure.message == _line(message)

    def prepare(self) -> None:
        """Take the room that the notes need, while there is some."""
        if not os.path.lexists(self._path):
            self._write(self._names[0], TriggerNotes())

    def _write(self, trigger: str, notes: TriggerNotes) -> None:
        with suppress(OSError, ValueError):
            disk.ensure_dir(os.path.dirname(self._path))
            start, size = self._names.index(trigger) * _SLOT, len(self._names) * _SLOT
            slot = json.dumps(asdict(notes), ensure_ascii=False).encode().ljust(_SLOT, b"\0")
            disk.overwrite_private(self._path, slot[:_SLOT], start, size)


def _line(message: str) -> str:
    """A message as a slot can hold it."""
    text = " ".join(message.split()).encode("utf-8", "backslashreplace")
    return text[:_LONGEST_MESSAGE].decode("utf-8", "ignore")
