# SPDX-License-Identifier: MIT
"""Programs that use the API, read by a type checker as their authors would have it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="a tool for developers, in the extra 'dev'")

RIGHT = """
import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from typing_extensions import assert_type

import ckpt.aio
from ckpt import Checkpoint, CheckpointManager, Kind, RollbackResult, SaveResult, Summary


@dataclass
class Session:
    turn: int = 0


def told(checkpoint: Checkpoint) -> None: ...


class Manager(CheckpointManager): ...


def main() -> None:
    with CheckpointManager(".", session="s", worktree=False) as m:
        m.track("session", Session())
        m.on_checkpoint(told)
        assert_type(m.on_checkpoint(str), type[str])
        assert_type(m.rollback_to_latest(head=True), RollbackResult)
        saved = m.create("x", kind="feature", data={1: b""}, context={"turn": 1}, state_files=["a"])
        assert_type(saved, SaveResult)
        assert_type(m.ensure("write"), SaveResult)
        assert_type(m.latest(kind=Kind.AUTO), Checkpoint | None)
        assert_type(m.rollback(saved, head=True), RollbackResult)
        assert_type(m.rollback(saved).data, Any)
        assert_type(m.summary(), Summary)
        assert_type(m.summary().duration, timedelta)
        assert_type(m.clear(everything=True), int)
        assert_type([c.id for c in m], list[str])
        with m.guard("step") as guard:
            assert_type(guard.checkpoint, Checkpoint | None)


m = CheckpointManager()
with Manager() as mine:
    assert_type(mine, Manager)


@m.guard("step")
def step(number: int) -> str:
    return str(number)


assert_type(step(1), str)


async def work() -> None:
    async with ckpt.aio.CheckpointManager(".") as m:
        assert_type(await m.create("x"), SaveResult)
        assert_type(await m.list(kind="auto"), list[Checkpoint])
        assert_type(await m.latest("x"), Checkpoint | None)
        assert_type(await m.rollback_to_latest(head=True), RollbackResult)
        async with m.guard("step"):
            pass
        async for checkpoint in m:
            assert_type(checkpoint, Checkpoint)

        @m.guard("step")
        async def careful(number: int) -> str:
            return str(number)

        assert_type(await careful(1), str)


asyncio.run(work())
"""

WRONG = """
import ckpt.aio
from ckpt import CheckpointManager

m = CheckpointManager(worktree="no")
m.create(5)
m.rollback(None)
m.create("x").checkpoint.id
step: int = m.guard("step")(str)(1)
m.rollback_to_latest(heads=True)
made = ckpt.aio.CheckpointManager().create(5)
back = ckpt.aio.CheckpointManager().rollback_to_latest(heads=True)
"""


def checked(tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "program.py").write_text(text)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"MYPYPATH": str(Path(__file__).resolve().parents[2]), "PATH": ""},
    )
    return [line for line in ran.stdout.split("\n") if ": error: " in line]


@pytest.mark.slow
def test_a_program_is_checked_as_it_should_be(tmp_path: Path) -> None:
    assert checked(tmp_path, RIGHT) == []

    found = [line.split(":")[1] for line in checked(tmp_path, WRONG)]
    assert found == ["5", "6", "7", "8", "9", "10", "11", "12"]
