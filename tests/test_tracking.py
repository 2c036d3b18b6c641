# SPDX-License-Identifier: MIT
"""Objects that a manager tracks: saved with each checkpoint, put back in place, all or none."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from byhand import worktree

from ckpt import CheckpointManager, RollbackError, UsageError


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return worktree(tmp_path / "repo")


@pytest.fixture
def manager(top: Path) -> Iterator[CheckpointManager]:
    with CheckpointManager(top) as manager:
        yield manager


class Mood(Enum):
    CALM = 1
    BUSY = 2


@dataclass
class Step:
    title: str
    done: bool = False


@dataclass
class Session:
    goal: str
    turn: int = 0
    mood: Mood = Mood.CALM
    began: datetime = datetime(2026, 1, 2, tzinfo=timezone.utc)
    tools: set[str] = field(default_factory=set)
    steps: list[Step] = field(default_factory=list)
    current: Step | None = None
    by_name: dict[str, Step] = field(default_factory=dict)
    span: tuple[date, date] | None = None
    place: Path = Path()


@dataclass(frozen=True)
class Frozen:
    number: int


@dataclass(frozen=True, slots=True)
class Value:
    number: int
    words: tuple[str, ...] = ()


class Counter:
    """Captures and restores itself; told to, it fails half way."""

    def __init__(self) -> None:
        self.number = 0
        self.fails = False

    def capture(self) -> dict[str, int]:
        return {"number": self.number}

    def restore(self, state: dict[str, int]) -> None:
        self.number = state["number"]
        if self.fails:
            self.fails = False
            raise ValueError("the counter is stuck")


# Each kind


def test_a_dataclass_comes_back_in_place_with_all_that_it_holds(
    manager: CheckpointManager,
) -> None:
    step = Step("plan", True)
    session = Session(
        "tests",
        turn=3,
        mood=Mood.BUSY,
        tools={"b", "a"},
        steps=[step],
        current=step,
        by_name={"plan": step},
        place=Path("a/b"),
        span=(date(2026, 1, 1), date(2026, 1, 2)),
    )
    manager.track("session", session)
    saved = manager.create()
    session.__dict__ |= Session("ruined", turn=9, tools={"rm"}).__dict__

    result = manager.rollback(saved)

    assert session == Session(
        "tests",
        turn=3,
        mood=Mood.BUSY,
        tools={"a", "b"},
        steps=[Step("plan", True)],
        current=Step("plan", True),
        by_name={"plan": Step("plan", True)},
        place=Path("a/b"),
        span=(date(2026, 1, 1), date(2026, 1, 2)),
    )
    assert result.restored == ("session",)
    assert result.state is not None
    assert result.state["session"]["tools"] == {"a", "b"}


@pytest.mark.parametrize("thing", [Frozen(1), Value(1, ("a", "b"))])
def test_a_frozen_value_comes_back_in_place(manager: CheckpointManager, thing: Any) -> None:
    before = type(thing)(**{name: getattr(thing, name) for name in thing.__dataclass_fields__})
    manager.track("value", thing)
    saved = manager.create()
    object.__setattr__(thing, "number", 7)

    manager.rollback(saved)

    assert thing == before


def test_a_dict_and_a_list_are_filled_anew(manager: CheckpointManager) -> None:
    state: dict[Any, Any] = {"when": date(2026, 1, 1), 2: [b"x"]}
    log = ["one"]
    manager.track("state", state)
    manager.track("log", log)
    saved = manager.create()
    state.clear()
    log.append("two")

    manager.rollback(saved)

    assert state == {"when": date(2026, 1, 1), 2: [b"x"]}
    assert log == ["one"]


def test_an_object_that_captures_itself_restores_itself(manager: CheckpointManager) -> None:
    counter = Counter()
    manager.track("counter", counter)
    saved = manager.create()
    counter.number = 5

    assert manager.rollback(saved).restored == ("counter",)
    assert counter.number == 0


def test_a_pydantic_model_comes_back_in_place(manager: CheckpointManager) -> None:
    pydantic = pytest.importorskip("pydantic", reason="an extra that need not be installed")

    class Tool(pydantic.BaseModel):  # type: ignore[name-defined, misc]  # known at run time
        name: str
        path: Path

    class Agent(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        model_config = pydantic.ConfigDict(extra="allow")
        turn_count: int = 0
        when: datetime
        price: Decimal = pydantic.Field(alias="cost")
        mood: Mood = Mood.CALM
        tools: list[Tool] = pydantic.Field(default_factory=list)
        tags: set[str] = pydantic.Field(default_factory=set)
        _private: int = 1

    when = datetime(2026, 1, 2, 3, tzinfo=timezone.utc)
    agent = Agent(when=when, cost="1.10", tools=[Tool(name="a", path="x/y")], more=[1], tags={"t"})
    before = agent.model_copy(deep=True)
    manager.track("agent", agent)
    saved = manager.create()
    agent.turn_count, agent.tools, agent.mood, agent._private = 5, [], Mood.BUSY, 2
    agent.other = 1

    manager.rollback(saved)

    assert agent._private == 2
    agent._private = 1
    assert agent == before
    assert isinstance(agent.tools[0], Tool)


# What cannot come back


@pytest.mark.parametrize("thing", [1, "text", object(), Session, {1, 2}, None])
def test_an_object_of_no_known_kind_is_refused(manager: CheckpointManager, thing: Any) -> None:
    with pytest.raises(UsageError, match="'x' cannot be tracked"):
        manager.track("x", thing)


Point = namedtuple("Point", "x y")


@dataclass
class Anything:
    value: Any


@dataclass(frozen=True)
class Key:
    name: str


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (object(), "x.value"),
        (Point(1, 2), "x.value"),
        (Mood.CALM, "x.value"),
        ([Step("a")], "x.value"),
        ({"a": [Point(1, 2)]}, "x.value"),
        ({Mood.CALM: 1}, "x.value"),
        ({Key("a")}, "x"),
    ],
)
def test_what_would_come_back_as_something_else_is_refused_at_the_save(
    manager: CheckpointManager, value: Any, place: str
) -> None:
    manager.track("x", Anything(value))

    with pytest.raises(UsageError) as caught:
        manager.create()

    assert f"'{place}'" in caught.value.message
    assert len(manager) == 0


# All or nothing


def test_if_one_object_fails_all_are_what_they_were_and_no_file_has_changed(
    manager: CheckpointManager, top: Path
) -> None:
    counter, state, step = Counter(), {"a": [1]}, Step("one")
    for name, thing in {"state": state, "counter": counter, "step": step}.items():
        manager.track(name, thing)
    (top / "file").write_text("then")
    saved = manager.create()
    (top / "file").write_text("now")
    counter.number, counter.fails, step.title = 5, True, "two"
    inner = state["a"]
    inner.append(2)

    with pytest.raises(RollbackError, match="the counter is stuck") as caught:
        manager.rollback(saved)

    assert caught.value.details == {"object": "counter", "lost": []}
    assert (counter.number, step.title, state) == (5, "two", {"a": [1, 2]})
    assert state["a"] is inner
    assert (top / "file").read_text() == "now"
    assert [c.kind for c in manager] == ["manual"]


def test_a_saved_state_that_does_not_fit_is_told_before_anything_changes(
    manager: CheckpointManager,
) -> None:
    state = {"a": 1}
    manager.track("state", state)
    manager.track("step", {"title": "x", "other": 1})
    saved = manager.create()
    step = Step("mine")
    manager.track("step", step)
    state["a"] = 2

    with pytest.raises(RollbackError, match="no such field") as caught:
        manager.rollback(saved)

    assert caught.value.details == {"object": "step"}
    assert (state, step) == ({"a": 2}, Step("mine"))


def test_objects_stay_if_the_files_cannot_go_back(manager: CheckpointManager, top: Path) -> None:
    state = {"a": 1}
    manager.track("state", state)
    saved = manager.create()
    state["a"] = 2
    for number in range(3):
        (top / str(number)).write_text("x")

    with pytest.raises(Exception, match="would remove"):
        manager.rollback(saved)

    assert state == {"a": 2}


# Rollback and undo


def test_undo_brings_objects_back_too_and_again(manager: CheckpointManager, top: Path) -> None:
    state = {"turn": 1}
    manager.track("state", state)
    saved = manager.create()
    state["turn"] = 2

    first = manager.rollback(saved)
    then = dict(state)
    manager.undo()
    undone = dict(state)
    manager.undo()

    assert first.safety is not None
    assert (then, undone, state) == ({"turn": 1}, {"turn": 2}, {"turn": 1})


def test_an_object_that_cannot_be_stored_any_more_is_mended_by_going_back(
    manager: CheckpointManager,
) -> None:
    state: dict[str, Any] = {"turn": 1}
    manager.track("state", state)
    saved = manager.create()
    state["turn"] = object()

    manager.rollback(saved)

    assert state == {"turn": 1}


def test_paths_and_dry_runs_leave_objects_alone(manager: CheckpointManager, top: Path) -> None:
    state = {"turn": 1}
    manager.track("state", state)
    (top / "file").write_text("then")
    saved = manager.create()
    state["turn"] = 2
    (top / "file").write_text("now")

    manager.rollback(saved, dry_run=True)
    manager.rollback(saved, paths=[top / "file"])
    manager.undo()

    assert state == {"turn": 2}


def test_an_object_of_which_nothing_was_saved_stays(manager: CheckpointManager) -> None:
    saved = manager.create()
    state = {"turn": 2}
    manager.track("state", state)

    assert manager.rollback(saved).restored == ()
    assert state == {"turn": 2}


def test_a_trigger_makes_no_second_checkpoint_of_the_same_objects(
    manager: CheckpointManager,
) -> None:
    state = {"turn": 1}
    manager.track("state", state)
    first = manager.create(kind="auto")

    again = manager.create(kind="auto")
    state["turn"] = 2
    changed = manager.create(kind="auto")

    assert (again.outcome, again.id) == ("unchanged", first.id)
    assert changed.outcome == "created"
