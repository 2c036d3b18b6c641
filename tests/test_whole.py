# SPDX-License-Identifier: MIT
"""Callbacks, summary, clear, and state-only checkpoints as a file."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from byhand import worktree

from ckpt import Checkpoint, CheckpointManager, CkptError, RollbackResult, UsageError


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return worktree(tmp_path / "repo")


@pytest.fixture
def manager(top: Path) -> Iterator[CheckpointManager]:
    with CheckpointManager(top, worktree=False, session="agent") as manager:
        yield manager


# Callbacks


def test_every_callback_is_called_and_a_failing_one_is_told(manager: CheckpointManager) -> None:
    seen: list[Checkpoint] = []

    @manager.on_checkpoint
    def broken(checkpoint: Checkpoint) -> None:
        raise ValueError("no such luck")

    manager.on_checkpoint(seen.append)
    saved = manager.create("x")

    assert saved
    assert seen == [saved.checkpoint]
    (warning,) = saved.warnings
    assert "broken" in warning
    assert "ValueError: no such luck" in warning
    assert len(manager) == 1


def test_callbacks_hear_of_no_checkpoint_that_was_not_taken(manager: CheckpointManager) -> None:
    seen: list[Checkpoint] = []
    manager.create(kind="auto")
    manager.on_checkpoint(seen.append)
    manager.create(kind="auto")
    manager.enabled = False
    manager.create()

    assert seen == []


def test_callbacks_hear_of_rollbacks_and_undo_but_not_of_dry_runs(top: Path) -> None:
    manager = CheckpointManager(top)
    seen: list[RollbackResult] = []
    manager.on_rollback(seen.append)
    manager.on_rollback(lambda result: 1 / 0)
    (top / "file").write_text("then")
    saved = manager.create()
    (top / "file").write_text("now")

    manager.rollback(saved, dry_run=True)
    result = manager.rollback(saved)
    manager.undo()

    assert [r.target.id for r in seen] == [saved.id, result.safety and result.safety.id]
    assert "ZeroDivisionError" in result.warnings[0]


# Summary and clear


def test_a_summary_counts_kinds_and_names(manager: CheckpointManager) -> None:
    empty = manager.summary()
    manager.create("a")
    manager.create("b", kind="feature")
    manager.create("a", kind="session")
    manager.create()
    found = manager.summary()

    assert (empty.count, empty.first, empty.last, empty.duration) == (0, None, None, timedelta())
    assert found.count == 4
    assert found.kinds == {"feature": 1, "manual": 2, "session": 1}
    assert found.names == {"a": 2, "b": 1}
    assert found.first is not None
    assert found.last is not None
    assert (found.first.name, found.last.name) == ("a", None)
    assert found.duration == found.last.timestamp - found.first.timestamp


def test_clear_drops_the_session_but_for_what_is_kept_for_good(
    manager: CheckpointManager, top: Path
) -> None:
    manager.create("plain")
    manager.create("kept", pin=True)
    manager.create("done", kind="feature")
    other = CheckpointManager(top, worktree=False)
    other.create("other")

    assert manager.clear() == 1
    assert [c.name for c in manager] == ["kept", "done"]
    assert [item.checkpoint.name for item in manager.trash()] == ["plain"]
    with pytest.raises(UsageError, match="without a session"):
        other.clear()
    assert other.clear(everything=True) == 1
    manager.restore_dropped("plain")
    assert [c.name for c in manager] == ["plain", "kept", "done"]


# As a file


def filled(manager: CheckpointManager) -> CheckpointManager:
    state = {"turn": 1}
    manager.track("a/b", state)
    manager.create("one", data={"when": date(2026, 1, 1)}, metadata={"k": (1,)}, description="why")
    state["turn"] = 2
    manager.create("two", context={"turn": 5}, features={"current": "x"}, kind="feature", pin=True)
    return manager


def told(checkpoint: Checkpoint) -> tuple[Any, ...]:
    return (
        *(checkpoint.name, checkpoint.description, checkpoint.kind, checkpoint.timestamp),
        *(checkpoint.pinned, checkpoint.data, checkpoint.metadata, checkpoint.context),
        *(checkpoint.feature_state, checkpoint.tracked, checkpoint.scope),
    )


def test_what_was_exported_is_the_same_in_another_repository(
    manager: CheckpointManager, tmp_path: Path
) -> None:
    file = tmp_path / "state.json"
    count = filled(manager).export(file)
    other = CheckpointManager(worktree(tmp_path / "other"), worktree=False, session="there")

    made = other.import_(file)

    assert count == len(made) == len(other) == 2
    assert [*map(told, other)] == [*map(told, manager)]
    assert [c.id for c in other] == [c.id for c in manager]
    assert {c.session for c in other} == {"there"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["schema"] == 1


def test_what_is_here_already_is_not_imported_again(
    manager: CheckpointManager, tmp_path: Path
) -> None:
    filled(manager).export(tmp_path / "x")

    assert manager.import_(tmp_path / "x") == []
    assert len(manager) == 2


def changed(manager: CheckpointManager, file: Path, **item: Any) -> None:
    """Export one checkpoint, with something changed."""
    manager.create("one", data=1)
    manager.export(file)
    document = json.loads(file.read_text())
    document["checkpoints"][-1] |= item
    file.write_text(json.dumps(document))


def test_an_id_that_is_taken_is_given_anew(manager: CheckpointManager, tmp_path: Path) -> None:
    changed(manager, tmp_path / "x", state={"data.json": 2})
    (made,) = manager.import_(tmp_path / "x")
    (known,) = [c for c in manager if c.id != made.id]

    assert made.id[:20] == known.id[:20]
    assert (known.data, made.data) == (1, 2)


@pytest.mark.parametrize(
    "item",
    [
        {"id": "../../heads/main"},
        {"id": 5},
        {"timestamp": "yesterday"},
        {"timestamp": "2026-01-01"},
        {"timestamp": "0001-01-01T00:00:00+00:00"},
        {"timestamp": "0001-01-01T00:00:00+14:00"},
        {"timestamp": "1970-01-01T00:00:00+14:00"},
        {"timestamp": "9999-12-31T23:59:59+00:00"},
        {"name": "-x"},
        {"name": 5},
        {"kind": "odd"},
        {"description": "nul\0"},
        {"session": "half \ud800"},
        {"trigger": "half \ud800"},
        {"state": []},
        {"state": {"../x": 1}},
        {"state": {"files.json": {"files": []}}},
        {"state": {"tracked.json": [1]}},
        {"state": {"tracked/a.json": 1}},
        {"state": {"data.json": {"$ckpt": "os.system", "value": "true"}}},
        {"state": {"metadata.json": [1]}},
        {"state": {"context.json": "text"}},
        {"state": {"features.json": []}},
        {"state": {"features.json": {"completed": 5}}},
    ],
    ids=ascii,
)
def test_a_file_that_holds_no_checkpoint_is_refused_whole(
    manager: CheckpointManager, tmp_path: Path, item: dict[str, Any]
) -> None:
    other = CheckpointManager(worktree(tmp_path / "other"), worktree=False)
    manager.create("a good one before it")
    changed(manager, tmp_path / "x", **item)

    with pytest.raises(UsageError, match="not a file of state checkpoints"):
        other.import_(tmp_path / "x")
    assert len(other) == 0


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": "x"}', "[" * 100_000])
def test_a_file_of_another_kind_is_refused(
    manager: CheckpointManager, tmp_path: Path, text: str
) -> None:
    (tmp_path / "x").write_text(text)

    with pytest.raises(UsageError, match="not a file of state checkpoints"):
        manager.import_(tmp_path / "x")


def test_a_file_that_cannot_be_read_or_written_is_told(
    manager: CheckpointManager, tmp_path: Path
) -> None:
    with pytest.raises(CkptError, match="No such file"):
        manager.import_(tmp_path / "nowhere")
    with pytest.raises(CkptError, match="cannot write"):
        manager.export(tmp_path / "no/where")
    with pytest.raises(CkptError, match="cannot write"):
        manager.export(tmp_path)
