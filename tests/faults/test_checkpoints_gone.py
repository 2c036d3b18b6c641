# SPDX-License-Identifier: MIT
"""A rollback was killed, and then somebody removed a checkpoint that it was about.

Either way out needs only the checkpoint to which it leads. What the other one held, and the
worktree still has, is saved before it is overwritten.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from faults.rollbacks import SCENES, Scene, checkpoints, differences, leftovers, look, whole
from faults.striking import Driver, kill
from helpers import fsck, git, tree_state, verified
from scenes import write

CRASHES = {
    "amid the files": kill(1, "rename", "edited"),
    "before the end": kill(1, "rename", "/last-rollback"),
}
TRIED = ["whole", "by path", "other branch", "same branch", "operation"]


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


@pytest.mark.parametrize("when", CRASHES)
@pytest.mark.parametrize("name", TRIED)
def test_without_the_target_the_way_back_is_open(
    name: str, when: str, driver: Driver, tmp_path: Path
) -> None:
    scene = SCENES[name](tmp_path / "before")
    top, target, _ = crash(driver, scene, when)
    lose(top, target)
    git("gc", "-q", "--prune=now", cwd=top)
    half = files(top)

    recovered = driver.run(top, "rollback", "--abort", "--json")

    assert recovered.code == 0, recovered
    assert differences(look(top), scene.before) == []
    assert leftovers(top) == []
    assert fsck(top) == [] and verified(top) == []
    # What was of the target is of a checkpoint again.
    saved = recovered.json["safety"]["id"]
    assert driver.run(top, "rollback", saved, "--head", "--yes").code == 0
    assert files(top) == half


@pytest.mark.parametrize("when", CRASHES)
@pytest.mark.parametrize("name", TRIED)
def test_without_the_safety_checkpoint_the_way_on_is_open(
    name: str, when: str, driver: Driver, tmp_path: Path
) -> None:
    scene = SCENES[name](tmp_path / "before")
    top, _, safety = crash(driver, scene, when)
    lose(top, safety)
    half = files(top)

    recovered = driver.run(top, "rollback", "--continue", "--json")

    assert recovered.code == 0, recovered
    assert differences(look(top), scene.after) == []
    assert leftovers(top) == []
    assert fsck(top) == [] and verified(top) == []
    assert driver.run(top, "undo", "--yes").code == 0
    assert files(top) == half


def test_without_the_safety_checkpoint_an_ignored_file_is_saved_before_it_goes(
    driver: Driver, tmp_path: Path
) -> None:
    git("init", "-q", cwd=tmp_path)
    write(tmp_path, "results", "then\n")
    write(tmp_path, "source", "then\n")
    assert driver.run(tmp_path, "save", "it").code == 0
    write(tmp_path, "results", "now\n")
    write(tmp_path, "source", "now\n")
    write(tmp_path, ".git/info/exclude", "results\n")
    words = ("rollback", "it", "--overwrite-ignored", "--yes")
    assert driver.run(tmp_path, *words, blow=kill(1, "rename", "results")).killed
    lose(tmp_path, max(checkpoints(tmp_path)).rpartition("/")[2])

    assert driver.run(tmp_path, "rollback", "--continue").code == 0

    assert (tmp_path / "results").read_text() == "then\n"
    assert driver.run(tmp_path, "undo").code == 0
    assert (tmp_path / "results").read_text() == "now\n"


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
    assert f"'git ckpt rescue' may find it; 'git ckpt rollback {other}' " in refused.stderr
    assert files(top) == half
    for words in (("status",), ("doctor",)):
        told = driver.run(top, *words).stdout
        assert f"git ckpt rollback {other}" in told and f"rollback {way}" not in told
    assert driver.run(top, "rescue", "1").code == 0
    assert driver.run(top, "rollback", way).code == 0
    scene.check(top, scene.after if way == "--continue" else scene.before)


def test_a_checkpoint_in_the_trash_is_brought_back_first(driver: Driver, tmp_path: Path) -> None:
    scene = whole(tmp_path / "before")
    top, target, safety = crash(driver, scene)
    for each in (target, safety):
        commit = git("rev-parse", f"refs/checkpoints/{each}", cwd=top).strip()
        git("update-ref", f"refs/checkpoints-trash/20991231/{each}", commit, cwd=top)
    lose(top, target, safety)

    for way, goal in (("--continue", target), ("--abort", safety)):
        refused = driver.run(top, "rollback", way)
        assert (refused.code, refused.stderr.splitlines()[1]) == (
            4,
            f"hint: git ckpt restore-dropped {goal}",
        )
    assert f"mend: git ckpt restore-dropped {target}" in driver.run(top, "doctor", "--fix").stdout
    assert driver.run(top, "restore-dropped", target).code == 0
    assert driver.run(top, "rollback", "--continue").code == 0
    assert differences(look(top), scene.after) == []


def test_where_all_is_gone_doctor_tells_how_to_give_the_rollback_up(
    driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top, target, safety = crash(driver, scene)
    lose(top, target, safety)
    half = files(top)

    for way in ("--continue", "--abort"):
        assert "'git ckpt doctor' tells" in driver.run(top, "rollback", way).stderr
    assert "end the rollback:   git ckpt doctor\n" in driver.run(top, "status").stdout
    told = driver.run(top, "doctor", "--fix").stdout
    assert "both are gone" in told and "git ckpt rescue" in told
    assert "rollback --continue" not in told
    command = told.partition("to give that rollback up: ")[2].splitlines()[0]
    subprocess.run(command, shell=True, check=True)

    assert files(top) == half
    assert target in (top / ".git/ckpt/journal.broken").read_text()
    assert driver.run(top, "save", "anew").code == 0
    assert driver.run(top, "rollback", "anew").code == 0
