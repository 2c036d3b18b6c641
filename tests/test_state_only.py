# SPDX-License-Identifier: MIT
"""Managers that keep state only: no file is looked at, none is touched."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from byhand import files_below, worktree
from helpers import ckpt_here

from ckpt import CheckpointManager, NotFound, Refused, UsageError, documents


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = worktree(tmp_path / "repo")
    (top / "file").write_text("then")
    return top


@pytest.fixture
def manager(top: Path) -> Iterator[CheckpointManager]:
    with CheckpointManager(top, worktree=False) as manager:
        yield manager


@pytest.fixture
def full(top: Path) -> Iterator[CheckpointManager]:
    with CheckpointManager(top) as manager:
        yield manager


def test_a_save_looks_at_no_file_and_holds_none(
    manager: CheckpointManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = manager.create("plan", data={"when": date(2026, 1, 1)}, description="why").checkpoint

    assert saved is not None
    assert (saved.scope, saved.name, saved.description) == ("state", "plan", "why")
    assert saved.data == {"when": date(2026, 1, 1)}
    assert (saved.head_commit, saved.git_state.dirty_files, saved.skipped) == (None, (), ())
    assert saved.tree == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    assert documents.checkpoint(saved)["scope"] == "state"


def test_a_rollback_returns_the_data_and_touches_nothing(
    manager: CheckpointManager, top: Path
) -> None:
    state = {"turn": 1}
    manager.track("state", state)
    saved = manager.create(data=[1, 2])
    state["turn"] = 2
    (top / "file").write_text("now")
    (top / ".git/index.lock").write_text("")  # another git is at work
    before = files_below(top)

    result = manager.rollback(saved)

    assert (result.data, result.state, result.restored) == (
        [1, 2],
        {"state": {"turn": 1}},
        ("state",),
    )
    assert (result.safety, result.written, result.removed) == (None, (), ())
    assert state == {"turn": 1}
    assert files_below(top) == before


def test_a_dry_run_changes_no_object(manager: CheckpointManager) -> None:
    state = {"turn": 1}
    manager.track("state", state)
    saved = manager.create()
    state["turn"] = 2

    assert manager.rollback(saved, dry_run=True).state == {"state": {"turn": 1}}
    assert state == {"turn": 2}


def test_each_kind_of_manager_has_its_own_latest(
    manager: CheckpointManager, full: CheckpointManager
) -> None:
    assert (manager.latest(), full.latest()) == (None, None)
    files, state = full.create("same"), manager.create("same", kind="session")

    assert full.latest() == full.get("latest") == full.get("same") == files.checkpoint
    assert manager.latest() == manager.get("latest") == manager.get("same") == state.checkpoint
    assert full.latest(kind="session") is None
    assert full.latest(name="same") == files.checkpoint
    assert (len(manager), len(full)) == (1, 2)
    with pytest.raises(NotFound):
        manager.get("latest~1")


def test_a_full_manager_rolls_back_to_state_without_touching_files(
    manager: CheckpointManager, full: CheckpointManager, top: Path
) -> None:
    saved = manager.create(data=1)
    (top / "file").write_text("now")

    assert full.rollback(saved).data == 1
    assert (top / "file").read_text() == "now"
    assert len(full) == 1


def test_a_state_manager_takes_the_state_of_a_full_checkpoint_alone(
    manager: CheckpointManager, full: CheckpointManager, top: Path
) -> None:
    saved = full.create(data=1)
    (top / "file").write_text("now")

    assert manager.rollback(saved).data == 1
    assert (top / "file").read_text() == "now"


def test_what_is_about_files_is_refused(manager: CheckpointManager, top: Path) -> None:
    saved = manager.create()

    for call in (
        manager.undo,
        manager.resume_rollback,
        manager.abort_rollback,
        lambda: manager.create(state_files=["file"]),
        lambda: manager.create(recurse=True),
    ):
        with pytest.raises(Refused, match="state only"):
            call()
    for call in (lambda: manager.diff(saved), lambda: manager.rollback(saved, ["file"])):
        with pytest.raises(UsageError, match="files"):
            call()
    assert len(manager) == 1


def test_a_trigger_on_unchanged_state_makes_no_second_checkpoint(top: Path) -> None:
    state = {"turn": 1}
    managers = [CheckpointManager(top, worktree=False, session=name) for name in ("a", "b")]
    for manager in managers:
        manager.track("state", state)
    first = managers[0].create(kind="auto")

    again = managers[0].create(kind="auto")

    assert (again.outcome, again.id) == ("unchanged", first.id)
    assert managers[1].create(kind="auto").outcome == "created"
    state["turn"] = 2
    assert managers[0].create(kind="auto").outcome == "created"


def test_one_of_state_that_goes_by_other_rules_does_not_stand_in_for_it(top: Path) -> None:
    with CheckpointManager(top, worktree=False, session="a") as manager:
        manager.track("state", {"turn": 1})
        manager.create(kind="session")
        first, again = manager.create(kind="auto"), manager.create(kind="auto")

    assert (first.outcome, again.outcome, again.id) == ("created", "unchanged", first.id)


def test_ids_grow_and_order_is_kept_however_quick_the_saves_are(manager: CheckpointManager) -> None:
    made = [manager.create(data=number).id for number in range(20)]

    assert made == sorted(made)
    assert [c.data for c in manager] == [*range(20)]


def test_it_can_be_dropped_brought_back_and_pinned(manager: CheckpointManager) -> None:
    saved = manager.create("x", data=1)
    manager.delete(saved)
    manager.restore_dropped("x")

    assert manager.pin("x").pinned
    assert manager.get("x").data == 1


def test_commands_show_it_and_roll_back_without_touching_files(
    manager: CheckpointManager, top: Path
) -> None:
    saved = manager.create("plan", data={"step": 3})
    (top / "file").write_text("now")

    shown = ckpt_here("-C", str(top), "show", "plan", code=0).stdout
    rolled = ckpt_here("-C", str(top), "rollback", "plan", code=0).stdout

    assert '"step": 3' in shown
    assert f"No file was touched: checkpoint {saved.id} 'plan' holds agent state only" in rolled
    assert (top / "file").read_text() == "now"
    assert ckpt_here("-C", str(top), "rollback").code == 3
