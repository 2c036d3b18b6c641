# SPDX-License-Identifier: MIT
"""Turns and writes of an agent that is known to no other process.

A manager with a session shares them on disk with the agent's hooks (`engine.session_state`);
one without keeps them here, under the same names, for as long as it lives.
"""

from __future__ import annotations

from _thread import RLock
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ckpt.engine.sessions import (
    ABSENT,
    NO_FILE,
    SEEN,
    WROTE,
    Content,
    SessionState,
    Write,
    brought_back,
    every_session,
    summed,
)
from ckpt.errors import Busy
from ckpt.git.repository import Repository
from ckpt.models import Outcome, RollbackResult, SaveResult
from ckpt.paths import to_bytes

if TYPE_CHECKING:
    from ckpt.engine.sessions import Record


class MemoryTurns:
    def __init__(self) -> None:
        self.turn = 0
        self._is_claimed = False
        self._saves = 0
        self._records: list[Record] = []
        self._mutex = RLock()

    def new_turn(self) -> int:
        with self._mutex:
            self.turn += 1
            self._is_claimed = False
            return self.turn

    @property
    def is_claimed(self) -> bool:
        """Whether this turn has its checkpoint, or a callback of its save asks for another."""
        return self._is_claimed or self._saves > 1

    def note_saved(self, turn: int) -> None:
        with self._mutex:
            self._is_claimed |= turn == self.turn

    @contextmanager
    def saving(self, timeout: float) -> Iterator[None]:
        with self._mutex:
            self._saves += 1
            try:
                yield
            finally:
                self._saves -= 1

    def record(self, path: bytes, content: Content, *, existed: bool | None = None) -> None:
        with self._mutex:
            if existed is not None:
                self._records.append((SEEN if existed else ABSENT, self.turn, NO_FILE, path))
            self._records.append((WROTE, self.turn, content, path))

    def writes(self) -> Mapping[bytes, Write]:
        with self._mutex:
            return summed(self._records)

    def went_back(self, top: str, paths: Iterable[bytes]) -> None:
        for path, content in brought_back(self.writes(), top, paths):
            self.record(path, content)


# How long to wait for another process that is saving for the same turn, in seconds.
_PATIENCE = 10.0
_LONGEST_REASON = 10_000

Turns = SessionState | MemoryTurns


def readable(reason: object) -> str | None:
    """A reason as a checkpoint can hold it: an odd one, or a long, must not cost the checkpoint."""
    if reason is None:
        return None
    text = str(reason)[:_LONGEST_REASON].replace("\0", "\\0")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def turns_of(private_dir: str, session: str | None) -> Turns:
    return MemoryTurns() if session is None else SessionState(private_dir, session)


def note_return(repo: Repository, own: Turns | None, result: RollbackResult) -> None:
    """Tell every ledger of a rollback. What cannot be noted is let go: then `keep_edits` takes
    the agent's work for that of a person, and keeps it."""
    paths = [to_bytes(path) for path in (*result.written, *result.removed)]
    ledgers: list[Turns] = [*every_session(repo.private_dir)] if paths else []
    for turns in [*ledgers, own] if isinstance(own, MemoryTurns) else ledgers:
        try:
            turns.went_back(repo.worktree, paths)
        except (OSError, Busy):
            continue


def once(turns: Turns, save: Callable[[], SaveResult]) -> SaveResult:
    """Save, unless this turn has its checkpoint; what came to nothing may be tried again."""
    with turns.saving(_PATIENCE):
        turn = turns.turn
        if turns.is_claimed:
            return SaveResult(Outcome.SKIPPED, reason="duplicate")
        saved = save()
        if saved:
            turns.note_saved(turn)
        return saved
