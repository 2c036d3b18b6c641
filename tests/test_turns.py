# SPDX-License-Identifier: MIT
"""Turns: one checkpoint for each, taken without ever getting in the agent's way."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from byhand import worktree

from ckpt import CheckpointManager, SaveResult


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return worktree(tmp_path / "repo")


@pytest.fixture(params=[None, "agent"])
def opened(top: Path, request: pytest.FixtureRequest) -> Iterator[CheckpointManager]:
    """Without a session, turns are the manager's own; with one, they are on disk."""
    with CheckpointManager(top, session=request.param) as manager:
        yield manager


def told(result: SaveResult) -> tuple[str, str | None]:
    return result.outcome.value, result.reason


def test_a_turn_has_at_most_one_checkpoint(opened: CheckpointManager, top: Path) -> None:
    (top / "file").write_text("1")
    first = opened.ensure("write_file")
    (top / "file").write_text("2")
    second = opened.ensure("patch")

    assert told(first) == ("created", None)
    assert told(second) == ("skipped", "duplicate")
    assert not second
    assert opened.new_turn() == opened.turn == 1
    assert told(opened.ensure("patch")) == ("created", None)
    assert [c.description for c in opened] == ["write_file", "patch"]
    assert {c.kind for c in opened} == {"auto"}


def test_an_unchanged_worktree_has_its_checkpoint_already(opened: CheckpointManager) -> None:
    first = opened.ensure()
    opened.new_turn()
    again = opened.ensure()

    assert told(again) == ("unchanged", None)
    assert again.id == first.id
    assert told(opened.ensure()) == ("skipped", "duplicate")


def test_a_manager_that_is_disabled_says_so(opened: CheckpointManager) -> None:
    opened.enabled = False
    assert told(opened.ensure()) == told(opened.create()) == ("skipped", "disabled")
    opened.enabled = True

    assert told(opened.ensure()) == ("created", None)


def test_triggers_that_are_off_take_no_checkpoint(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CKPT_DISABLE", "1")

    assert told(CheckpointManager(top).ensure()) == ("skipped", "disabled")


def test_a_failure_is_told_and_the_next_one_tries_again(
    opened: CheckpointManager, top: Path
) -> None:
    opened.track("state", state := {"bad": object()})
    first = opened.ensure()
    state.clear()

    assert first.outcome == "failed"
    assert "'state.bad'" in str(first.reason)
    assert told(opened.ensure()) == ("created", None)


def test_a_repository_that_is_gone_is_a_failure_and_no_exception(
    opened: CheckpointManager, top: Path
) -> None:
    os.rename(top, top.parent / "elsewhere")

    assert opened.ensure().outcome == "failed"


def test_of_many_threads_one_takes_the_checkpoint_and_all_have_it_then(
    opened: CheckpointManager, top: Path
) -> None:
    (top / "file").write_text("1")
    results: list[SaveResult] = []
    known: list[int] = []

    def work() -> None:
        results.append(opened.ensure())
        known.append(len(opened))

    threads = [Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(map(told, results))[0] == ("created", None)
    assert [told(r) for r in results].count(("skipped", "duplicate")) == 5
    assert known == [1] * 6


def test_managers_of_one_session_share_its_turns(top: Path) -> None:
    one, two = (CheckpointManager(top, session="agent") for _ in range(2))
    (top / "file").write_text("1")
    one.new_turn()

    assert one.ensure()
    assert told(two.ensure()) == ("skipped", "duplicate")
    assert two.turn == 1


def test_state_only_managers_have_turns_too(top: Path) -> None:
    manager = CheckpointManager(top, worktree=False)

    assert told(manager.ensure()) == ("created", None)
    assert told(manager.ensure()) == ("skipped", "duplicate")


@pytest.mark.parametrize("place", [Path, str, lambda name: f"./{name}"])
def test_what_the_agent_wrote_goes_and_what_a_person_edited_stays(
    opened: CheckpointManager, top: Path, place: Callable[[str], str | Path]
) -> None:
    for name in ("agent", "both", "mine"):
        (top / name).write_text("then")
    opened.ensure()
    for name in ("agent", "both", "new"):
        (top / name).write_text("agent")
        opened.record_write(top / name if place is Path else top / place(name))
    (top / "both").write_text("me")
    (top / "mine").write_text("me")

    result = opened.rollback("latest", keep_edits=True)

    assert sorted(result.written) == ["agent"]
    assert result.removed == ("new",)
    assert {item.path for item in result.kept} == {"both", "mine"}
    assert (top / "both").read_text() == (top / "mine").read_text() == "me"


def test_the_agents_work_goes_back_in_several_steps(opened: CheckpointManager, top: Path) -> None:
    (top / "file").write_text("then")
    for turn in ("first", "second"):
        opened.create(turn)
        (top / "file").write_text(f"agent in its {turn} turn")
        opened.record_write(top / "file")

    assert opened.rollback("second", keep_edits=True).written == ("file",)
    done = opened.rollback("first", keep_edits=True)

    assert (done.written, done.kept) == (("file",), ())
    assert (top / "file").read_text() == "then"
