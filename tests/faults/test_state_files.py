# SPDX-License-Identifier: MIT
"""A rollback of ignored state files that fails at each of its steps: never a third state."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from byhand import worktree
from helpers import fsck, verified
from seam import observe

from ckpt import CheckpointManager, CkptError

NAMES = ("changed.state", "gone.state", "new.state", "file")


def look(top: Path) -> dict[str, str | None]:
    return {n: (top / n).read_text() if (top / n).exists() else None for n in NAMES}


def scene(top: Path) -> tuple[dict[str, str | None], dict[str, str | None]]:
    """A checkpoint and what was done since; what it was then, and what it is now."""
    worktree(top)
    (top / ".gitignore").write_text("*.state\n")
    for name in ("changed.state", "gone.state", "file"):
        (top / name).write_text("then")
    then = look(top)
    with CheckpointManager(top) as manager:
        manager.create(state_files=[name for name in NAMES if name.endswith(".state")])
    (top / "changed.state").write_text("now")
    (top / "gone.state").unlink()
    (top / "new.state").write_text("now")
    (top / "file").write_text("now")
    return then, look(top)


class Failing:
    """Fails the n-th time that something is written to disk."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, operation: str, path: str) -> None:
        self.left -= 1
        if self.left == 0:
            raise OSError(28, "No space left on device")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of dulwich
def test_whatever_fails_the_files_are_as_then_or_as_now(tmp_path: Path) -> None:
    then, now = scene(tmp_path / "before")
    number, failed = -2, 0
    while True:
        number += 3  # at odd and even ones in turn
        top = tmp_path / str(number)
        shutil.copytree(tmp_path / "before", top, symlinks=True)
        failing = Failing(number)
        observe(failing)
        try:
            with CheckpointManager(top) as manager:
                manager.rollback("latest")
        except (CkptError, OSError):
            failed += 1
        finally:
            observe(None)
        if failing.left > 0:
            break
        with CheckpointManager(top) as manager:
            if not manager.rollback_interrupted:
                assert look(top) in (then, now), number
            elif number % 2:
                manager.resume_rollback()
                assert look(top) == then, number
            else:
                manager.abort_rollback()
                assert look(top) == now, number
        shutil.rmtree(top)

    assert look(top) == then
    assert failed > 10
    assert fsck(top) == []
    assert verified(top) == []
