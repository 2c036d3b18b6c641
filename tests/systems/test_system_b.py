# SPDX-License-Identifier: MIT
"""An in-memory checkpoint manager of an agent session, its whole job done through ckpt.

The adapter has the names that programs of that system use; each test is a line of the table
of what it does. What theirs lost with the process is on disk here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from byhand import worktree

from ckpt import Checkpoint, CheckpointManager, RollbackError, Summary


class SessionCheckpoints:
    """The adapter."""

    def __init__(self, folder: Path, session: str, on_checkpoint: Any = None) -> None:
        self._m = CheckpointManager(folder, session=session, worktree=False)
        if on_checkpoint is not None:
            self._m.on_checkpoint(on_checkpoint)

    def create(self, name: str, data: Any, metadata: dict[str, Any] | None = None) -> Checkpoint:
        made = self._m.create(name, data=data, metadata=metadata).checkpoint
        assert made is not None
        if len(self._m) > 50:
            self._thin()
        return made

    def _thin(self) -> None:
        """Keep the first, the last 20 and the newest of each name between."""
        _, *middle = self._m
        named = {checkpoint.name: checkpoint for checkpoint in middle[:-20]}
        for checkpoint in middle[:-20]:
            if named[checkpoint.name] is not checkpoint:
                self._m.delete(checkpoint)

    def get(self, checkpoint_id: str) -> Checkpoint:
        return self._m.get(checkpoint_id)

    def get_by_name(self, name: str) -> list[Checkpoint]:
        return self._m.by_name(name)

    def get_latest(self, name: str | None = None) -> Checkpoint | None:
        return self._m.latest(name)

    def get_all(self) -> list[Checkpoint]:
        return self._m.list()

    def get_since(self, moment: datetime) -> list[Checkpoint]:
        return self._m.since(moment)

    def get_between(self, first: datetime, last: datetime) -> list[Checkpoint]:
        return self._m.between(first, last)

    def rollback_to(self, checkpoint_id: str) -> Any:
        return self._m.rollback(checkpoint_id).data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._m, {"import_from": "import_"}.get(name, name))

    def __len__(self) -> int:
        return len(self._m)

    def __iter__(self) -> Iterator[Checkpoint]:
        return iter(self._m)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return worktree(tmp_path / "repo")


@pytest.fixture
def made(folder: Path) -> SessionCheckpoints:
    return SessionCheckpoints(folder, "one")


def test_the_adapter_fits_on_a_screen() -> None:
    lines = Path(__file__).read_text().split("\n")
    start = lines.index("class SessionCheckpoints:")
    end = lines.index("@pytest.fixture")

    assert end - start <= 60


def test_create_keeps_data_and_metadata_of_this_session_with_aware_times(
    made: SessionCheckpoints, folder: Path
) -> None:
    before = datetime.now(timezone.utc)
    found = made.create("plan", {"steps": [1]}, {"by": "me"})

    assert (found.name, found.data, found.metadata) == ("plan", {"steps": [1]}, {"by": "me"})
    assert before <= found.timestamp <= datetime.now(timezone.utc)
    assert found.session == "one"
    again = SessionCheckpoints(folder, "one")  # another process, later
    assert again.get(found.id).data == {"steps": [1]}
    assert len(SessionCheckpoints(folder, "two")) == 0


def test_the_same_questions_have_the_same_answers(made: SessionCheckpoints) -> None:
    a, b, c = (made.create(name, name) for name in ("x", "y", "x"))

    assert made.get(b.id) == b
    assert made.get_by_name("x") == [c, a]
    assert (made.get_latest(), made.get_latest("y"), made.get_latest("z")) == (c, b, None)
    assert made.get_all() == [c, b, a]
    assert made.get_since(a.timestamp) == [c, b]
    assert made.get_between(a.timestamp, b.timestamp) == [b, a]
    assert made.get_between(b.timestamp, b.timestamp + timedelta(0)) == [b]


def test_rollback_returns_the_data_and_an_unknown_id_says_which_there_are(
    made: SessionCheckpoints,
) -> None:
    found = made.create("x", {"a": [1]})
    made.create("y", {"a": [1, 2]})

    assert made.rollback_to(found.id) == {"a": [1]}
    with pytest.raises(RollbackError) as caught:
        made.rollback_to("20200101-000000-000-zzzz")
    assert found.id in caught.value.details["available"]


def test_past_fifty_the_first_the_last_twenty_and_the_newest_of_each_name_stay(
    made: SessionCheckpoints,
) -> None:
    for number in range(51):
        made.create(f"n{number % 4}", number)

    kept = [checkpoint.data for checkpoint in made]
    assert kept == [0, 27, 28, 29, 30, *range(31, 51)]


def test_summary_and_clear(made: SessionCheckpoints) -> None:
    a, _, c = (made.create(name, 1) for name in ("x", "y", "x"))
    summary: Summary = made.summary()

    assert (summary.count, summary.names) == (3, {"x": 2, "y": 1})
    assert (summary.first, summary.last) == (a, c)
    assert summary.duration == c.timestamp - a.timestamp
    assert made.clear() == 3
    assert len(made) == 0


def test_a_callback_hears_of_each_checkpoint(folder: Path) -> None:
    heard: list[str | None] = []
    note: Callable[[Checkpoint], None] = lambda checkpoint: heard.append(checkpoint.name)  # noqa: E731 - passed on as one
    made = SessionCheckpoints(folder, "one", note)
    made.create("x", 1)
    made.create("y", 2)

    assert heard == ["x", "y"]


def test_export_is_json_and_an_import_makes_no_ids_collide(
    made: SessionCheckpoints, folder: Path, tmp_path: Path
) -> None:
    made.create("x", {"a": 1})
    made.create("y", {"a": 2})
    made.export(tmp_path / "session.json")
    other = SessionCheckpoints(folder, "two")

    other.import_from(tmp_path / "session.json")
    other.import_from(tmp_path / "session.json")

    assert json.loads((tmp_path / "session.json").read_text())["checkpoints"][0]["name"] == "x"
    assert [c.data for c in other] == [{"a": 1}, {"a": 2}]
    assert {c.id for c in other}.isdisjoint(c.id for c in made)
    assert len(made) == 2


def test_data_are_copied_and_len_and_iteration_work(made: SessionCheckpoints) -> None:
    data = {"list": [1]}
    found = made.create("x", data)
    data["list"].append(2)
    made.get(found.id).data["list"].append(3)

    assert made.get(found.id).data == {"list": [1]}
    assert len(made) == 1
    assert [checkpoint.id for checkpoint in made] == [found.id]
