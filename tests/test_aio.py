# SPDX-License-Identifier: MIT
"""The awaitable manager: the same names, in a thread, and nothing torn by cancelling."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from byhand import worktree
from seam import observe

import ckpt
from ckpt import NotFound
from ckpt.aio import CheckpointManager

Main = Callable[[CheckpointManager], Coroutine[Any, Any, None]]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = worktree(tmp_path / "repo")
    (top / "file").write_text("then")
    return top


def run(top: Path, main: Main, **options: Any) -> None:
    async def inner() -> None:
        async with CheckpointManager(top, **options) as manager:
            await main(manager)

    asyncio.run(inner())


def test_it_has_the_names_and_arguments_of_the_other() -> None:
    """But for what a blocking manager has for the commands."""
    for name in dir(ckpt.CheckpointManager):
        if name.startswith("_") or name in ("repository", "forgiving_settings"):
            continue
        member = inspect.getattr_static(ckpt.CheckpointManager, name)
        mine = inspect.getattr_static(CheckpointManager, name)
        if inspect.isfunction(member):
            parameters = [
                (p.name, p.default) for p in inspect.signature(member).parameters.values()
            ]
            found = inspect.signature(mine).parameters.values()
            assert [(p.name, p.default) for p in found] == parameters, name
    opening = inspect.signature(ckpt.CheckpointManager)
    assert [*inspect.signature(CheckpointManager).parameters] == [*opening.parameters]


def test_what_waits_for_the_disk_is_awaited() -> None:
    at_once = {"guard", "track", "on_checkpoint", "on_rollback"}
    for name, member in vars(CheckpointManager).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            assert inspect.iscoroutinefunction(member) != (name in at_once), name


def test_a_whole_life(top: Path) -> None:
    async def main(manager: CheckpointManager) -> None:
        state = {"turn": 1}
        manager.track("state", state)
        saved = await manager.create("before", data={"a": (1,)}, description="why")
        (top / "file").write_text("now")
        state["turn"] = 2

        assert (await manager.get(saved)).data == {"a": (1,)}
        assert [f.path for f in (await manager.diff(saved)).files] == ["file"]
        assert (await manager.rollback(saved)).written == ("file",)
        assert state == {"turn": 1}
        await manager.undo()
        assert (top / "file").read_text() == "now"
        assert (await manager.rollback_to_latest()).target.name == "before"
        assert [c.name async for c in manager if c.kind == "manual"] == ["before"]
        assert await manager.count() == len(await manager.list()) == 4
        latest = await manager.latest(kind="manual")
        assert latest is not None
        assert await manager.by_name("before") == [latest]
        assert await manager.between(latest.timestamp, latest.timestamp) == [latest]
        assert latest not in await manager.since(latest.timestamp)
        assert (await manager.pin(saved)).pinned
        assert not (await manager.unpin(saved)).pinned
        await manager.delete(saved)
        assert [d.checkpoint.name for d in await manager.trash()] == ["before"]
        await manager.restore_dropped("before")
        assert (await manager.summary()).names == {"before": 1}
        assert await manager.clear(everything=True) == 4
        with pytest.raises(NotFound):
            await manager.get("before")

    run(top, main)


def test_turns_and_writes(top: Path) -> None:
    async def main(manager: CheckpointManager) -> None:
        assert (await manager.ensure("x")).outcome == "created"
        assert (await manager.ensure("x")).reason == "duplicate"
        assert await manager.new_turn() == 1
        manager.enabled = False
        assert (await manager.ensure("x")).reason == "disabled"
        manager.enabled = True
        (top / "file").write_text("agent")
        await manager.record_write(top / "file")
        assert (await manager.rollback("latest", keep_edits=True)).written == ("file",)
        assert not manager.rollback_interrupted
        assert manager.settings.enabled

    run(top, main, session="agent")


def test_state_goes_to_a_file_and_comes_back(top: Path, tmp_path: Path) -> None:
    async def main(manager: CheckpointManager) -> None:
        await manager.create("x", data=1)
        assert await manager.export(tmp_path / "x") == 1
        assert await manager.import_(tmp_path / "x") == []

    run(top, main, worktree=False)


def test_the_work_is_in_a_thread_and_one_thing_at_a_time(top: Path) -> None:
    seen: set[str] = set()

    async def main(manager: CheckpointManager) -> None:
        manager.blocking.on_checkpoint(lambda _: seen.add(threading.current_thread().name))
        made = await asyncio.gather(*(manager.create(f"n{number}") for number in range(5)))

        assert [c.name async for c in manager] == [f"n{number}" for number in range(5)]
        assert all(made)

    run(top, main)
    assert seen and threading.current_thread().name not in seen


def test_callbacks_are_called_and_a_failing_one_is_a_warning(top: Path) -> None:
    seen: list[Any] = []

    async def main(manager: CheckpointManager) -> None:
        manager.on_checkpoint(lambda checkpoint: seen.append(checkpoint.name))
        manager.on_checkpoint(lambda _: 1 / 0)
        manager.on_rollback(lambda result: seen.append(result.target.name))
        result = await manager.create("x")
        await manager.rollback(result)
        assert "ZeroDivisionError" in result.warnings[0]
        with pytest.raises(ValueError, match="why"):
            async with manager.guard("step"):
                raise ValueError("why")

    run(top, main)
    assert seen == ["x", "x", "step", "step"]


class Gate:
    """Stops the worker before it makes a ref, until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self._open = threading.Event(), threading.Event()
        observe(self._look)

    def _look(self, operation: str, path: str) -> None:
        if "/refs/checkpoints/" in path:
            self.reached.set()
            assert self._open.wait(60)

    async def wait(self) -> None:
        while not self.reached.is_set():
            await asyncio.sleep(0.001)

    def open(self) -> None:
        self._open.set()


def test_what_has_begun_is_finished_before_a_task_is_cancelled(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(manager: CheckpointManager) -> None:
        gate = Gate(monkeypatch)
        task = asyncio.create_task(manager.create("begun"))
        waiting = asyncio.create_task(manager.create("not begun"))
        await gate.wait()
        task.cancel()
        waiting.cancel()
        await asyncio.sleep(0)
        task.cancel()  # impatience changes nothing
        await asyncio.sleep(0.01)
        assert not task.done()
        assert waiting.done()
        gate.open()
        for cancelled in (task, waiting):
            with pytest.raises(asyncio.CancelledError):
                await cancelled

        assert [c.name async for c in manager] == ["begun"]

    run(top, main)


def test_a_timeout_waits_for_what_has_begun_and_is_one(
    top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(manager: CheckpointManager) -> None:
        gate = Gate(monkeypatch)
        task = asyncio.create_task(asyncio.wait_for(manager.create("x"), 0.01))
        await gate.wait()
        await asyncio.sleep(0.02)
        gate.open()
        with pytest.raises(asyncio.TimeoutError):
            await task
        assert await manager.count() == 1

    run(top, main)


def test_a_guard_rolls_back_when_its_task_is_cancelled(top: Path) -> None:
    async def main(manager: CheckpointManager) -> None:
        begun = asyncio.Event()

        @manager.guard("step")
        async def step() -> None:
            (top / "file").write_text("ruined")
            begun.set()
            await asyncio.sleep(3600)

        task = asyncio.create_task(step())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (top / "file").read_text() == "then"

    run(top, main)
