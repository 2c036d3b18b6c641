# SPDX-License-Identifier: MIT
"""`kill -9` before each operation of a rollback, then `--continue` or `--abort`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from faults.rollbacks import SCENES, Look, Scene, has_journal, look
from faults.striking import Driver, Struck, Sweep, kill, sample
from helpers import git

Record = Callable[[str, object], None]


@pytest.mark.parametrize("way", ["--continue", "--abort"])
@pytest.mark.parametrize("name", SCENES)
def test_a_rollback_killed_anywhere_is_finished_or_taken_back_exactly(
    name: str, way: str, driver: Driver, tmp_path: Path, record_property: Record
) -> None:
    scene = SCENES[name](tmp_path / "before")
    operations = driver.run(scene.copy(), *scene.words).operations

    with Sweep(record_property) as sweep:
        for nth in sample(operations, every=10):
            with sweep.trying((nth, operations[nth - 1])):
                sweep.count("operations of a rollback struck")
                top = scene.copy()
                struck = driver.run(top, *scene.words, blow=kill(nth))
                reached = _recover(driver, scene, top, struck, way)
                if reached == scene.after:
                    _undo(driver, scene, top)
                git("commit", "-q", "--allow-empty", "-m", "not blocked", cwd=top)
                sweep.count("kills survived" if struck.killed else "runs that ended before")


def _recover(driver: Driver, scene: Scene, top: Path, struck: Struck, way: str) -> Look:
    """Bring the rollback to the end asked for; returns the state that is there now."""
    begun = struck.did("rename", "/ckpt/journal")
    ended = struck.did("unlink", "/ckpt/journal")
    assert has_journal(top) == (begun and not ended)
    reached = scene.after
    if not begun:
        assert look(top) == scene.before
        refused = driver.run(top, "rollback", way)
        assert (refused.code, "no rollback was interrupted" in refused.stderr) == (4, True)
        again = driver.run(top, *scene.words)
        assert again.code == 0, again
    elif not ended:
        recovered = driver.run(top, "rollback", way)
        assert recovered.code == 0, recovered
        reached = scene.after if way == "--continue" else scene.before
    scene.check(top, reached)
    return reached


def _undo(driver: Driver, scene: Scene, top: Path) -> None:
    undone = driver.run(top, "undo")
    assert undone.code == 0, undone
    scene.check(top, scene.before)
