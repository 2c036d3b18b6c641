# SPDX-License-Identifier: MIT
"""What became of each trigger last: its newest success and its newest failure.

A trigger has nobody to talk to: it warns on standard error, which an editor may throw
away, and lets git go on. What it leaves here is what `status` and `doctor` tell later.

The file has one slot of fixed length a trigger and is written in place, so that a
failure can be noted even when the disk is full. It is no more than a notice: a slot
that was torn by two writers or damaged reads as empty, and what cannot be written
(a read-only repository) is let go.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from ckpt import disk

_NAME = "triggers"
_SLOT = 1024
_LONGEST_MESSAGE = 700
_END_OF_TIME = 253402300800.0  # the year 10000


@dataclass(frozen=True, slots=True)
class Success:
    at: float
    seconds: float
    outcome: str
    id: str


@dataclass(frozen=True, slots=True)
class Failure:
    """`count` failures in a row, the last of them at that time for that reason."""

    at: float
    count: int
    message: str


@dataclass(frozen=True, slots=True)
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
    """The notices of one worktree; `names` give each trigger its slot."""

    def __init__(self, private_dir: str, names: Sequence[str]) -> None:
        self._path = os.path.join(private_dir, _NAME)
        self._names = names

    def read(self, trigger: str) -> TriggerNotes:
        try:
            start = self._names.index(trigger) * _SLOT
            return _parse(disk.read_private(self._path)[start : start + _SLOT])
        except (OSError, ValueError):  # no file, or no slot for one of that name
            return TriggerNotes()

    def note_success(self, trigger: str, success: Success) -> None:
        self._write(trigger, TriggerNotes(success, self.read(trigger).failure))

    def note_failure(self, trigger: str, at: float, message: str) -> None:
        before = self.read(trigger)
        count = 1
        if before.failure is not None and before.is_failing:
            count += before.failure.count
        failure = Failure(at, count, _line(message))
        self._write(trigger, TriggerNotes(before.success, failure))

    def told(self, trigger: str, message: str, since: float) -> bool:
        """Whether a failure for that reason was noted since a time."""
        failure = self.read(trigger).failure
        return failure is not None and failure.at >= since and failure.message == _line(message)

    def prepare(self) -> None:
        """Take the room that the notices need, while there is some."""
        if not os.path.lexists(self._path):
            self._write(self._names[0], TriggerNotes())

    def _write(self, trigger: str, notes: TriggerNotes) -> None:
        try:
            disk.ensure_dir(os.path.dirname(self._path))
            start, size = self._names.index(trigger) * _SLOT, len(self._names) * _SLOT
            disk.overwrite_private(self._path, _text(notes), start, size)
        except (OSError, ValueError):
            pass


def _line(message: str) -> str:
    """A message as a slot can hold it."""
    text = " ".join(message.split()).encode("utf-8", "backslashreplace")
    return text[:_LONGEST_MESSAGE].decode("utf-8", "ignore")


def _text(notes: TriggerNotes) -> bytes:
    lines = []
    if notes.success is not None:
        s = notes.success
        lines.append(f"success\t{s.at!r}\t{s.seconds!r}\t{s.outcome}\t{s.id}")
    if notes.failure is not None:
        f = notes.failure
        lines.append(f"failure\t{f.at!r}\t{f.count}\t{f.message}")
    return "".join(line + "\n" for line in lines).encode().ljust(_SLOT, b"\0")


def _parse(slot: bytes) -> TriggerNotes:
    success, failure = None, None
    try:
        for line in slot.rstrip(b"\0").decode().splitlines():
            word, *values = line.split("\t")
            if word == "success":
                seconds = _number(values[1])
                success = Success(_number(values[0]), seconds, values[2], values[3])
            elif word == "failure":
                failure = Failure(_number(values[0]), int(values[1]), values[2])
    except (ValueError, IndexError):
        return TriggerNotes()
    return TriggerNotes(success, failure)


def _number(text: str) -> float:
    """Seconds, or a time that a calendar has."""
    number = float(text)
    if not 0 <= number < _END_OF_TIME:
        raise ValueError(text)
    return number
