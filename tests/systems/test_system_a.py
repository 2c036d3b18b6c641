# SPDX-License-Identifier: MIT
"""What a checkpoint manager for autonomous coding does, line by line, through `ckpt.aio`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt_here, git

from ckpt import Kind, NotFound, Outcome
from ckpt.aio import CheckpointManager


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


@pytest.fixture
def project(repo: Path) -> Path:
    """A project whose agent keeps a list of features (ignored) and a progress file."""
    (repo / ".gitignore").write_text("*.log\nbuild/\nfeature_list.json\n")
    git("commit", "-qam", "ignore")
    (repo / "feature_list.json").write_text('{"auth-001": "done"}\n')
    (repo / "progress.txt").write_text("one done\n")
    (repo / "src/app.py").write_text("print('half way')\n")
    return repo


STATE: dict[str, Any] = {
    "features": {"current": "auth-003", "completed": ["auth-001", "auth-002"]},
    "context": {"session_number": 5, "token_usage": 45000},
    "state_files": ["feature_list.json", "progress.txt"],
}


# Creating and going back on a project folder, awaited


@in_a_loop
async def test_a_checkpoint_is_made_and_gone_back_to(project: Path) -> None:
    async with CheckpointManager(project) as manager:
        saved = await manager.create("before-refactor", description="Before the refactoring.")
        (project / "src/app.py").write_text("broken")
        done = await manager.rollback(saved.id or "")
        assert done.written == ("src/app.py",)

        (project / "src/app.py").unlink()
        latest = await manager.rollback_to_latest()
        assert latest.target.name == "before-refactor"
        assert latest.target.description == "Before the refactoring."
    assert (project / "src/app.py").read_text() == "print('half way')\n"


# What is captured


@in_a_loop
async def test_one_checkpoint_holds_git_features_progress_and_context(project: Path) -> None:
    async with CheckpointManager(project) as manager:
        saved = (await manager.create("auth-003", **STATE)).checkpoint
        assert saved is not None
        found = await manager.get(saved.id)

    assert found.git_state.commit_hash == git("rev-parse", "HEAD").strip()
    assert found.git_state.branch == "main"
    assert set(found.git_state.dirty_files) >= {"progress.txt", "src/app.py"}
    assert found.feature_state is not None
    assert found.feature_state.current == "auth-003"
    assert found.feature_state.completed == ("auth-001", "auth-002")
    assert found.context == {"session_number": 5, "token_usage": 45000}
    path = found.feature_state.snapshot_path
    assert path is not None
    assert git("show", f"{found.state_commit}:{path}") == '{"auth-001": "done"}\n'
    # Theirs lists the dirty files and does not keep what is in them.
    assert git("show", f"{found.commit}:src/app.py") == "print('half way')\n"


def test_the_same_is_told_as_json(project: Path) -> None:
    asyncio.run(_create(project, "auth-003", **STATE))

    told = ckpt_here("show", "auth-003", "--json", code=0).json["checkpoint"]
    assert told["feature_state"]["current"] == "auth-003"
    assert told["context"] == {"session_number": 5, "token_usage": 45000}
    assert told["git_state"]["branch"] == "main"


async def _create(project: Path, name: str, **options: Any) -> None:
    async with CheckpointManager(project) as manager:
        await manager.create(name, **options)


# Going back


@in_a_loop
async def test_the_commit_the_features_and_the_progress_come_back(project: Path) -> None:
    head = git("rev-parse", "HEAD")
    async with CheckpointManager(project) as manager:
        await manager.create("auth-003", **STATE)
        (project / "feature_list.json").write_text("{}\n")
        (project / "progress.txt").unlink()
        (project / "scratch.tmp").write_text("temporary\n")
        (project / "trace.log").write_text("ignored\n")
        git("commit", "-qam", "by the agent")
        theirs = git("rev-parse", "HEAD").strip()

        done = await manager.rollback("auth-003", head=True)

    assert git("rev-parse", "HEAD") == head
    assert (project / "feature_list.json").read_text() == '{"auth-001": "done"}\n'
    assert (project / "progress.txt").read_text() == "one done\n"
    assert (project / "src/app.py").read_text() == "print('half way')\n"
    assert not (project / "scratch.tmp").exists()
    assert (project / "trace.log").read_text() == "ignored\n", "it was never captured"
    assert done.safety is not None
    assert git("merge-base", "--is-ancestor", theirs, done.safety.commit) == ""


# Types


@in_a_loop
async def test_there_is_a_kind_for_each_of_their_types(project: Path) -> None:
    async with CheckpointManager(project) as manager:
        for kind in (Kind.AUTO, Kind.MANUAL, Kind.FEATURE, Kind.SESSION):
            (project / "progress.txt").write_text(f"{kind}\n")
            assert await manager.create(kind=kind)

        found = [one.kind async for one in manager]
        assert found == [Kind.AUTO, Kind.MANUAL, Kind.FEATURE, Kind.SESSION]
        assert await manager.clear(everything=True) == 3
        assert [one.kind async for one in manager] == [Kind.FEATURE]


# Those who use it


@in_a_loop
async def test_a_failure_is_recovered_from(project: Path) -> None:
    async with CheckpointManager(project) as manager:
        with pytest.raises(ZeroDivisionError):
            async with manager.guard("risky step"):
                git("commit", "-qam", "by the agent")
                (project / "src/app.py").unlink()
                raise ZeroDivisionError

    assert (project / "src/app.py").read_text() == "print('half way')\n"
    assert git("log", "-1", "--format=%s") == "ignore\n"


def test_a_command_that_fails_is_recovered_from(project: Path) -> None:
    words = ["--on-failure", "rollback", "--", "sh", "-c", "rm -r src; exit 1"]

    ckpt_here("run", *words, code=1)

    assert (project / "src/app.py").read_text() == "print('half way')\n"


@in_a_loop
async def test_an_agent_has_one_checkpoint_before_the_changes_of_a_turn(project: Path) -> None:
    async with CheckpointManager(project, session="5") as manager:
        outcomes = []
        for turn in range(3):
            await manager.new_turn()
            outcomes += [(await manager.ensure("edit")).outcome for _ in range(2)]
            (project / "src/app.py").write_text(f"turn {turn}\n")

        assert outcomes == [Outcome.CREATED, Outcome.SKIPPED] * 3
        await manager.rollback("latest~1")
    assert (project / "src/app.py").read_text() == "turn 0\n"


@in_a_loop
async def test_what_a_context_tracker_knows_goes_back_with_the_files(project: Path) -> None:
    @dataclass
    class Tracker:
        session_number: int
        token_usage: int

    tracker = Tracker(5, 45000)
    async with CheckpointManager(project) as manager:
        manager.track("tracker", tracker)
        await manager.create("start")
        tracker.token_usage = 90000
        (project / "progress.txt").write_text("two done\n")
        await manager.rollback("start")

    assert tracker == Tracker(5, 45000)
    assert (project / "progress.txt").read_text() == "one done\n"


@in_a_loop
async def test_a_loop_goes_through_a_whole_session(project: Path) -> None:
    """Three features; the second fails and is tried again from where it began."""
    done: list[str] = []
    async with CheckpointManager(project, session="6") as manager:
        await manager.create(kind="session")
        for feature in ("auth-003", "auth-004", "auth-004", "auth-005"):
            await manager.ensure(feature)
            (project / f"{feature}.py").write_text("code\n")
            if feature == "auth-004" and "failed" not in done:
                done.append("failed")
                assert (await manager.rollback_to_latest(head=True)).removed == ("auth-004.py",)
            else:
                done.append(feature)
                (project / "feature_list.json").write_text(json.dumps(done))
                await manager.create(
                    feature,
                    kind="feature",
                    features={"current": feature, "completed": done},
                    state_files=["feature_list.json"],
                )
            await manager.new_turn()

        features = await manager.list(kind="feature")
        assert [one.name for one in features] == ["auth-005", "auth-004", "auth-003"]
        assert (await manager.rollback("auth-003")).target.name == "auth-003"
    assert json.loads((project / "feature_list.json").read_text()) == ["auth-003"]
    assert not (project / "auth-005.py").exists()


# What is open in theirs


@in_a_loop
async def test_ids_made_in_one_moment_do_not_collide(project: Path) -> None:
    async with CheckpointManager(project) as one, CheckpointManager(project) as other:
        made = await asyncio.gather(*(m.create() for m in (one, other) * 10))

        assert len({saved.id for saved in made}) == 20
        assert await one.count() == 20


@in_a_loop
async def test_checkpoints_can_be_listed_and_deleted(project: Path) -> None:
    async with CheckpointManager(project) as manager:
        first, second = await manager.create("first"), await manager.create("second")
        await manager.delete(first)

        assert [one.id for one in await manager.list()] == [second.id]
        with pytest.raises(NotFound) as raised:
            await manager.rollback("first")
        assert raised.value.details["available"]


@in_a_loop
async def test_uncommitted_work_survives_a_rollback(project: Path) -> None:
    async with CheckpointManager(project) as manager:
        await manager.create("start")
        (project / "src/app.py").write_text("an hour of work\n")
        await manager.rollback("start", head=True)
        assert (project / "src/app.py").read_text() == "print('half way')\n"

        await manager.undo()
    assert (project / "src/app.py").read_text() == "an hour of work\n"
