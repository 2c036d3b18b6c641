# SPDX-License-Identifier: MIT
"""The checkpoint manager of an autonomous coding loop, its whole job done through ckpt.aio.

The adapter has the names that programs of that system use; each test is a line of the table
of what it does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from helpers import git

from ckpt import Checkpoint, RollbackResult
from ckpt.aio import CheckpointManager

FILES = ("feature_list.json", "claude-progress.txt")


class AutonomousCheckpoints:
    """The adapter."""

    def __init__(self, project: Path, number: int) -> None:
        self.manager = CheckpointManager(project, session=f"session-{number}")
        self._project, self._number, self.tokens = project, number, 0

    async def create_checkpoint(
        self, name: str, description: str = "", kind: str = "manual"
    ) -> Checkpoint:
        saved = await self.manager.create(
            name,
            description=description,
            kind=kind,
            features=self._features(),
            context={"session_number": self._number, "token_usage": self.tokens},
            state_files=FILES,
        )
        assert saved.checkpoint is not None
        return saved.checkpoint

    def _features(self) -> dict[str, Any]:
        features = json.loads((self._project / FILES[0]).read_text())
        done = [item["id"] for item in features if item["done"]]
        todo = [item["id"] for item in features if not item["done"]]
        return {"current": todo[0] if todo else None, "completed": done}

    async def rollback(self, checkpoint_id: str) -> RollbackResult:
        return await self.manager.rollback(checkpoint_id, head=True)

    async def rollback_to_latest(self) -> RollbackResult:
        return await self.manager.rollback_to_latest(head=True)


def feature_list(*done: str) -> str:
    return json.dumps([{"id": f"auth-{n}", "done": f"auth-{n}" in done} for n in range(3)])


@pytest.fixture
def loop(repo: Path) -> AutonomousCheckpoints:
    (repo / ".git/info").mkdir(exist_ok=True)
    (repo / ".git/info/exclude").write_text("claude-progress.txt\n*.log\n")
    (repo / "feature_list.json").write_text(feature_list("auth-0"))
    (repo / "claude-progress.txt").write_text("one done\n")
    (repo / "README.md").write_text("uncommitted\n")
    return AutonomousCheckpoints(repo, 5)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_the_adapter_fits_on_a_screen() -> None:
    lines = Path(__file__).read_text().split("\n")
    start = lines.index("class AutonomousCheckpoints:")

    assert lines.index("def feature_list(*done: str) -> str:") - start <= 60


def test_one_checkpoint_holds_git_features_progress_and_context(
    loop: AutonomousCheckpoints, repo: Path
) -> None:
    async def work() -> None:
        loop.tokens = 45000
        found = await loop.create_checkpoint("before", "why")

        assert found.git_state.commit_hash == git("rev-parse", "HEAD").strip()
        assert found.git_state.branch == "main"
        assert found.git_state.dirty_files == ("README.md", "feature_list.json")
        assert found.feature_state is not None
        assert (found.feature_state.current, found.feature_state.completed) == (
            "auth-1",
            ("auth-0",),
        )
        place = f"{found.state_commit}:{found.feature_state.snapshot_path}"
        assert git("show", place) == feature_list("auth-0")
        assert found.context == {"session_number": 5, "token_usage": 45000}
        assert git("show", f"{found.ref}:README.md") == "uncommitted\n"  # theirs did not keep it

    run(work())


def test_rollback_resets_git_restores_the_files_and_takes_away_what_is_new(
    loop: AutonomousCheckpoints, repo: Path
) -> None:
    async def work() -> None:
        head = git("rev-parse", "HEAD")
        found = await loop.create_checkpoint("before")
        (repo / "feature_list.json").write_text("[]")
        (repo / "claude-progress.txt").unlink()
        (repo / "README.md").write_text("committed\n")
        (repo / "temporary.py").write_text("x")
        git("add", "README.md")
        git("commit", "-qm", "bad")
        (repo / "mine.log").write_text("never captured")

        await loop.rollback(found.id)

        assert git("rev-parse", "HEAD") == head
        assert (repo / "README.md").read_text() == "uncommitted\n"
        assert (repo / "feature_list.json").read_text() == feature_list("auth-0")
        assert (repo / "claude-progress.txt").read_text() == "one done\n"
        assert not (repo / "temporary.py").exists()
        assert (repo / "mine.log").read_text() == "never captured"
        await loop.manager.undo()  # nothing of the bad step is lost either
        assert (repo / "temporary.py").exists()
        assert git("log", "-1", "--format=%s").strip() == "bad"

    run(work())


def test_its_types_are_kinds(loop: AutonomousCheckpoints) -> None:
    async def work() -> None:
        for kind in ("auto", "manual", "feature", "session"):
            assert (await loop.create_checkpoint(kind, kind=kind)).kind == kind
        latest = await loop.rollback_to_latest()
        assert latest.target.name == "session"

    run(work())


def test_an_error_recoverer_a_coding_agent_and_a_context_tracker_use_it(
    loop: AutonomousCheckpoints, repo: Path
) -> None:
    async def work() -> None:
        context = {"tokens": 1}
        loop.manager.track("context", context)
        assert (await loop.manager.ensure("before changes")).outcome == "created"
        with pytest.raises(RuntimeError):
            async with loop.manager.guard("step"):
                (repo / "README.md").write_text("broken")
                context["tokens"] = 2
                raise RuntimeError("tests fail")
        assert (repo / "README.md").read_text() == "uncommitted\n"
        assert context == {"tokens": 1}

    run(work())


def test_ids_of_one_second_differ_and_there_are_list_and_delete(
    loop: AutonomousCheckpoints,
) -> None:
    async def work() -> None:
        made = [await loop.create_checkpoint("x") for _ in range(5)]
        assert len({found.id for found in made}) == 5
        assert await loop.manager.list() == made[::-1]
        await loop.manager.delete(made[0].id)
        assert await loop.manager.count() == 4

    run(work())
