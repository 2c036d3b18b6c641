# SPDX-License-Identifier: MIT
"""Turns and writes of an agent that is known to no other process.

A manager with a session shares them on disk with the agent's hooks (`engine.session_state`);
one without keeps them here, under the same names, for as long as it lives.
"""

from __future__ import annotations

from _thread import RLock
from contextlib import contextmanager

from ckpt.engine.session_state import Content, SessionState, Write
from ckpt.models import Outcome, SaveResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


class MemoryTurns:
    def __init__(self) -> None:
        self.turn = 0
        self._is_claimed = False
        self._writes: dict[bytes, Write] = {}
        self._mutex = RLock()

    def new_turn(self) -> int:
        with self._mutex:
            self.turn += 1
            self._is_claimed = False
            return self.turn

    def claim(self) -> bool:
        """Whether the caller is the first in this turn."""
        with self._mutex:
            is_first = not self._is_claimed
            self._is_claimed = True
            return is_first

    def unclaim(self) -> None:
        with self._mutex:
            self._is_claimed = False

    @contextmanager
    def saving(self, timeout: float) -> Iterator[None]:
        with self._mutex:
            yield

    def record(self, path: bytes, content: Content, *, existed: bool | None = None) -> None:
        with self._mutex:
            known = self._writes.get(path)
            was_absent = None if existed is None else not existed
            created = was_absent if known is None else known.created
            self._writes[path] = Write(content, created, self.turn)

    def writes(self) -> Mapping[bytes, Write]:
        with self._mutex:
            return dict(self._writes)


# How long to wait for another process that is saving for the same turn, in seconds.
_PATIENCE = 10.0

Turns = SessionState | MemoryTurns


def turns_of(private_dir: str, session: str | None) -> Turns:
    return MemoryTurns() if session is None else SessionState(private_dir, session)


def once(turns: Turns, save: Callable[[], SaveResult]) -> SaveResult:
    """Save, unless this turn has its checkpoint; what came to nothing may be tried again."""
    with turns.saving(_PATIENCE):
        if not turns.claim():
            return SaveResult(Outcome.SKIPPED, reason="duplicate")
        saved = None
        try:
            saved = save()
            return saved
        finally:
            if not saved:
                turns.unclaim()
