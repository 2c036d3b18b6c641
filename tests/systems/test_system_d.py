# SPDX-License-Identifier: MIT
"""Rollback of a running session object, its whole job done through ckpt.

The adapter has the names that programs of that system use; each test is a line of the table
of what it does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from byhand import worktree

from ckpt import Checkpoint, CheckpointManager, RollbackError


class StateRollback:
    """The adapter: at most 10 snapshots of one object, the oldest out first."""

    def __init__(self, folder: Path, session_id: str, session: Any, most: int = 10) -> None:
        self._m = CheckpointManager(folder, session=session_id, worktree=False)
        self._m.track("session", session)
        self._session = session
        self._most = most

    def snapshot(self, label: str | None = None) -> str:
        saved = self._m.create(label, context={"turn": self._session.turn_count})
        assert saved.id is not None
        for oldest in self._m.list()[self._most :]:
            self._m.delete(oldest)
        return saved.id

    def rollback_to(self, snapshot_id: str) -> None:
        self._m.rollback(snapshot_id)

    def rollback_last(self) -> None:
        self._m.rollback_to_latest()

    def list(self) -> list[dict[str, Any]]:
        return [self._listed(checkpoint) for checkpoint in self._m]

    @staticmethod
    def _listed(found: Checkpoint) -> dict[str, Any]:
        assert found.context is not None
        turn = found.context["turn"]
        return {"id": found.id, "label": found.name, "at": found.timestamp, "turn": turn}

    def count(self) -> int:
        return len(self._m)


@dataclass
class Message:
    text: str
    at: datetime


@dataclass
class Session:
    turn_count: int = 0
    messages: list[Message] = field(default_factory=list)
    tools: set[str] = field(default_factory=set)


AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


@pytest.fixture
def session() -> Session:
    return Session(1, [Message("hello", AT)], {"read"})


@pytest.fixture
def made(tmp_path: Path, session: Session) -> StateRollback:
    return StateRollback(worktree(tmp_path / "repo"), "one", session)


def test_the_adapter_fits_on_a_screen() -> None:
    lines = Path(__file__).read_text().split("\n")
    start = lines.index("class StateRollback:")
    end = lines.index("class Message:")

    assert end - start <= 60


def test_the_object_comes_back_in_place_and_dates_are_dates(
    made: StateRollback, session: Session
) -> None:
    snapshot = made.snapshot("before")
    session.turn_count = 2
    session.messages[0].text = "changed"
    session.messages.append(Message("more", AT))
    session.tools.clear()

    made.rollback_to(snapshot)

    assert session == Session(1, [Message("hello", AT)], {"read"})
    assert isinstance(session.messages[0].at, datetime)


def test_the_last_one_can_be_meant_without_its_id(made: StateRollback, session: Session) -> None:
    made.snapshot()
    session.turn_count = 2
    made.snapshot()
    session.turn_count = 3

    made.rollback_last()

    assert session.turn_count == 2


def test_errors_tell_which_snapshots_there_are(made: StateRollback, session: Session) -> None:
    with pytest.raises(RollbackError) as nothing:
        made.rollback_last()
    snapshot = made.snapshot()
    with pytest.raises(RollbackError) as unknown:
        made.rollback_to("20200101-000000-000-zzzz")

    assert nothing.value.details["available"] == []
    assert unknown.value.details["available"] == [snapshot]
    assert unknown.value.hint


def test_ten_are_kept_and_the_oldest_goes_first(made: StateRollback, session: Session) -> None:
    for turn in range(12):
        session.turn_count = turn
        made.snapshot(f"turn {turn}")

    assert made.count() == 10
    listed = made.list()
    assert [item["turn"] for item in listed] == [*range(2, 12)]
    assert listed[0]["label"] == "turn 2"
    assert listed[0]["at"] <= listed[1]["at"]


def test_a_damaged_snapshot_leaves_the_object_as_it_is(
    tmp_path: Path, made: StateRollback, session: Session
) -> None:
    other = CheckpointManager(tmp_path / "repo", session="one", worktree=False)
    other.track("session", {"turn_count": 5, "messages": [{"text": "no date"}], "tools": set()})
    damaged = other.create().id
    before = Session(1, [Message("hello", AT)], {"read"})

    assert damaged is not None
    with pytest.raises(RollbackError, match="does not fit"):
        made.rollback_to(damaged)
    assert session == before


def test_what_would_not_come_back_is_said_at_the_snapshot(
    made: StateRollback, session: Session
) -> None:
    session.tools.add(object())  # type: ignore[arg-type]  # as a careless program does

    with pytest.raises(Exception, match=r"session\.tools"):
        made.snapshot()
    assert made.count() == 0
