# SPDX-License-Identifier: MIT
"""Guards: what is as before when the block or function raised, and what the caller sees."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from byhand import worktree
from seam import observe

from ckpt import CheckpointManager, Refused, UsageError


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = worktree(tmp_path / "repo")
    (top / "file").write_text("then")
    return top


@pytest.fixture
def manager(top: Path) -> Iterator[CheckpointManager]:
    with CheckpointManager(top, session="agent") as manager:
        yield manager


class Odd(Exception):
    pass


def ruin(top: Path) -> None:
    (top / "file").write_text("ruined")
    for number in range(5):  # more than half of all files
        (top / f"new{number}").write_text("x")


def is_whole(top: Path) -> bool:
    names = {path.name for path in top.iterdir()} - {".git"}
    return names == {"file"} and (top / "file").read_text() == "then"


@pytest.mark.parametrize("error", [Odd, KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_a_block_that_raises_leaves_everything_as_before(
    manager: CheckpointManager, top: Path, error: type[BaseException]
) -> None:
    state = {"turn": 1}
    manager.track("state", state)
    raised = error("why")

    with pytest.raises(error) as caught, manager.guard("risky step") as guard:
        ruin(top)
        state["turn"] = 2
        raise raised

    assert caught.value is raised
    assert not getattr(raised, "__notes__", ())
    assert is_whole(top)
    assert state == {"turn": 1}
    assert guard.result is not None
    assert guard.result.target.name == "risky step"
    assert guard.result.safety is not None


def test_a_block_that_ends_well_keeps_what_it_did(manager: CheckpointManager, top: Path) -> None:
    with manager.guard() as guard:
        ruin(top)
        checkpoint = guard.checkpoint

    assert not is_whole(top)
    assert checkpoint is not None
    assert (checkpoint.name, checkpoint.kind) == ("guard", "auto")
    assert guard.checkpoint is None
    assert guard.result is None


def test_what_the_block_did_can_be_had_back(manager: CheckpointManager, top: Path) -> None:
    with pytest.raises(Odd), manager.guard():
        ruin(top)
        raise Odd
    manager.undo(yes=True)

    assert (top / "file").read_text() == "ruined"


def test_nested_guards_each_go_back_to_their_own(manager: CheckpointManager, top: Path) -> None:
    with manager.guard("outer"):
        (top / "file").write_text("outer")
        with pytest.raises(Odd), manager.guard("inner"):
            ruin(top)
            raise Odd
        assert (top / "file").read_text() == "outer"
        assert not (top / "new0").exists()


def test_a_guard_is_for_one_block_at_a_time(manager: CheckpointManager, top: Path) -> None:
    with manager.guard() as guard:
        ruin(top)
        with pytest.raises(UsageError, match="in use"), guard:
            pytest.fail("it was entered")
    with guard:
        assert guard.checkpoint is not None


def test_a_failing_rollback_is_a_note_and_hides_nothing(
    manager: CheckpointManager, top: Path
) -> None:
    raised = Odd("why")
    with pytest.raises(Odd) as caught, manager.guard("risky") as guard:
        checkpoint = guard.checkpoint
        ruin(top)
        (top / ".git/index.lock").write_text("")
        raise raised

    assert checkpoint is not None
    (note,) = caught.value.__notes__
    assert f"git ckpt rollback --head {checkpoint.id}" in note
    assert "index.lock" in note


def test_a_rollback_that_dies_half_way_is_to_be_continued(
    manager: CheckpointManager, top: Path
) -> None:
    def interrupt(operation: str, path: str) -> None:
        if operation == "unlink" and os.fsdecode(path).endswith("new3"):
            raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt, match="the first") as caught, manager.guard("risky"):
            ruin(top)
            observe(interrupt)
            raise KeyboardInterrupt("the first")
    finally:
        observe(None)

    assert "KeyboardInterrupt; try: git ckpt rollback --continue" in caught.value.__notes__[0]
    manager.resume_rollback()
    assert is_whole(top)


def test_a_checkpoint_that_was_dropped_meanwhile_is_found_in_the_trash(
    manager: CheckpointManager, top: Path
) -> None:
    with pytest.raises(Odd), manager.guard() as guard:
        assert guard.checkpoint is not None
        manager.delete(guard.checkpoint)
        ruin(top)
        raise Odd

    assert is_whole(top)


def test_what_could_not_go_back_is_noted(manager: CheckpointManager, top: Path) -> None:
    with pytest.raises(Odd) as caught, manager.guard():
        (top / "file").unlink()
        (top / "file").mkdir()
        (top / "file/.git").mkdir()
        (top / "file/.git/HEAD").write_text("x")
        raise Odd

    assert "'file'" in caught.value.__notes__[0]


def test_without_a_checkpoint_the_block_is_not_entered(
    manager: CheckpointManager, top: Path
) -> None:
    manager.track("state", {"bad": object()})

    with pytest.raises(UsageError), manager.guard():
        pytest.fail("it was entered")


def test_a_disabled_manager_guards_nothing(manager: CheckpointManager, top: Path) -> None:
    manager.enabled = False

    with pytest.raises(Odd), manager.guard() as guard:
        assert guard.checkpoint is None
        ruin(top)
        raise Odd

    assert not is_whole(top)
    assert len(manager) == 0


# As a decorator


def test_every_call_of_a_decorated_function_has_its_own_checkpoint(
    manager: CheckpointManager, top: Path
) -> None:
    @manager.guard("step")
    def step(text: str, *, fails: bool = False) -> str:
        """What it does."""
        (top / "file").write_text(text)
        if fails:
            raise Odd
        return text.upper()

    assert (step.__name__, step.__doc__) == ("step", "What it does.")
    assert step("one") == "ONE"
    with pytest.raises(Odd):
        step("two", fails=True)
    assert (top / "file").read_text() == "one"
    assert len(manager.by_name("step")) == 2


# In tasks


def test_an_async_block_goes_back_when_its_task_is_cancelled(
    manager: CheckpointManager, top: Path
) -> None:
    async def work(begun: asyncio.Event) -> None:
        async with manager.guard("step"):
            ruin(top)
            begun.set()
            await asyncio.sleep(3600)

    async def main() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(work(begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert is_whole(top)


def test_while_a_rollback_is_interrupted_nothing_is_begun(
    manager: CheckpointManager, top: Path
) -> None:
    (top / ".git/ckpt").mkdir(exist_ok=True)
    (top / ".git/ckpt/journal").write_text("x")

    with pytest.raises(Refused, match="was interrupted"), manager.guard():
        pytest.fail("it was entered")
