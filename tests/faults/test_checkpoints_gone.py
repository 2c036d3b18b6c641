# SPDX-License-Identifier: MIT
"""A rollback was killed, and then somebody removed a checkpoint that it was about.

Either way out needs only the checkpoint to which it leads. What the other one held, and the
worktree still has, is saved before it is overwritten.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from faults.rollbacks import Scene, checkpoints, whole
from faults.striking import Driver, kill
from helpers import git, tree_state

CRASHES = {
    "amid the files": kill(1, "rename", "edited"),
    "before the end": kill(1, "rename", "/last-rollback"),
}


def crash(driver: Driver, scene: Scene, when: str = "amid the files") -> tuple[Path, str, str]:
    """A worktree in which the rollback was killed, and the ids of its target and its safety."""
    top = scene.copy()
    struck = driver.run(top, *scene.words, blow=CRASHES[when])
    assert struck.killed, struck
    (safety,) = checkpoints(top).keys() - scene.checkpoints.keys()
    return top, scene.words[1], safety.rpartition("/")[2]


def lose(top: Path, *ids: str) -> None:
    for each in ids:
        git("update-ref", "-d", f"refs/checkpoints/{each}", cwd=top)
    git("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all", cwd=top)


def files(top: Path) -> dict[bytes, tuple[str, int, bytes]]:
    """Everything but what the killed process was about to give a name."""
    return {path: found for path, found in tree_state(top).items() if b".ckpt-tmp-" not in path}


@pytest.mark.parametrize("way", ["--continue", "--abort"])
def test_the_way_to_a_checkpoint_that_is_gone_is_closed_and_the_other_one_named(
    way: str, driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top, target, safety = crash(driver, scene)
    goal, other = (target, "--abort") if way == "--continue" else (safety, "--continue")
    lose(top, goal)
    half = files(top)

    refused = driver.run(top, "rollback", way)

    assert refused.code == 4
    assert f"needs checkpoint '{goal}', which is gone" in refused.stderr
    assert f"'git ckpt rescue' may find it; or try 'git ckpt rollback {other}'" in refused.stderr
    assert files(top) == half
    assert driver.run(top, "rescue", "1").code == 0
    assert driver.run(top, "rollback", way).code == 0
    scene.check(top, scene.after if way == "--continue" else scene.before)


def test_where_all_is_gone_doctor_tells_how_to_give_the_rollback_up(
    driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top, target, safety = crash(driver, scene)
    lose(top, target, safety)
    half = files(top)

    for way in ("--continue", "--abort"):
        assert "'git ckpt doctor' tells" in driver.run(top, "rollback", way).stderr
    told = driver.run(top, "doctor", "--fix").stdout
    command = told.partition("to give it up: ")[2].splitlines()[0]
    subprocess.run(command, shell=True, check=True)

    assert files(top) == half
    assert target in (top / ".git/ckpt/journal.broken").read_text()
    assert driver.run(top, "save", "anew").code == 0
    assert driver.run(top, "rollback", "anew").code == 0
