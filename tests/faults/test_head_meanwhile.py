# SPDX-License-Identifier: MIT
"""Someone moves HEAD while a rollback moves it, or its recovery does.

It moves from where it was read and from nowhere else: the commit that somebody has made
meanwhile may be held by nothing but HEAD.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from faults.rollbacks import Scene, checkpoints, off_branch, other_branch, same_branch
from faults.striking import Blow, Driver, kill
from helpers import git

WAYS = ["--continue", "--abort"]
COMMIT = "git commit -q --allow-empty -m 'by hand'; git rev-parse HEAD >> .git/by-hand"
SWITCH = "git symbolic-ref HEAD refs/heads/other; git rev-parse HEAD > .git/by-hand"
MOMENTS = {
    "amid the files": Blow(1, "rename", "edited"),
    "before the index": Blow(1, "link", "/index.lock"),
    "at the last moment": Blow(1, "link", "/HEAD.lock"),
}
# From where a recovery has all files to write, and flushes them.
CRASHES = {
    "--continue": kill(1, "rename", "edited"),
    "--abort": kill(1, "rename", "/last-rollback"),
}
BEFORE_HEAD = Blow(1, "fsync", "src/edited")


def at(blow: Blow, command: str) -> Blow:
    return replace(blow, command=("sh", "-c", command))


def head(top: Path) -> bytes:
    return (top / ".git/HEAD").read_bytes()


def by_hand(top: Path) -> list[str]:
    """The commits at which somebody has left HEAD."""
    return (top / ".git/by-hand").read_text().split()


def check_held(top: Path, *commits: str) -> None:
    """Checkpoints hold the commits, whatever the reflogs know."""
    held = git("rev-list", *checkpoints(top), cwd=top).split()
    assert set(commits) <= set(held)


@pytest.mark.parametrize("nth", [2, 9, 17, 19])
def test_a_commit_made_after_the_first_look_is_seen_before_anything_is_done(
    driver: Driver, tmp_path: Path, nth: int
) -> None:
    """While objects are told to be in use, from the first file to the last tree."""
    scene = same_branch(tmp_path / "before")
    top = scene.copy()
    ran = driver.run(top, *scene.words, "--json", blow=at(Blow(nth, "utime"), COMMIT))

    assert ran.code == 0, ran
    (commit,) = by_hand(top)
    assert ran.json["head"]["before"]["commit_hash"] == commit
    assert git("rev-parse", f"{ran.json['safety']['ref']}^1", cwd=top).strip() == commit
    assert driver.run(top, "undo").code == 0
    assert git("rev-parse", "HEAD", cwd=top).strip() == commit


def stopped(driver: Driver, scene: Scene, blow: Blow) -> Path:
    top = scene.copy()
    ran = driver.run(top, *scene.words, blow=blow)
    assert ran.code == 4, ran
    assert "the rollback stopped half way: HEAD moved while the rollback ran" in ran.stderr
    return top


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("when", MOMENTS)
@pytest.mark.parametrize("command", [COMMIT, SWITCH], ids=["commit", "switch"])
def test_a_head_that_moves_while_the_rollback_runs_is_not_overwritten(
    command: str, when: str, way: str, driver: Driver, tmp_path: Path
) -> None:
    scene = off_branch(tmp_path / "before")

    top = stopped(driver, scene, at(MOMENTS[when], command))

    (commit,), moved = by_hand(top), head(top)
    assert moved != scene.before.head
    assert git("rev-parse", "HEAD", cwd=top).strip() == commit
    recovered = driver.run(top, "rollback", way)
    assert recovered.code == 0, recovered
    scene.check(top, scene.after if way == "--continue" else scene.before)
    check_held(top, commit)
    if way == "--continue":
        assert driver.run(top, "undo", "--yes").code == 0
        assert head(top) == moved


def test_undo_returns_to_a_commit_made_on_the_branch_that_the_rollback_left(
    driver: Driver, tmp_path: Path
) -> None:
    top = stopped(driver, other_branch(tmp_path / "before"), at(MOMENTS["amid the files"], COMMIT))
    (commit,) = by_hand(top)
    assert driver.run(top, "rollback", "--continue").code == 0
    assert head(top) == b"ref: refs/heads/topic/one\n"
    assert git("rev-parse", "main", cwd=top).strip() == commit

    assert driver.run(top, "undo", "--yes").code == 0

    assert head(top) == b"ref: refs/heads/main\n"
    assert git("rev-parse", "main", cwd=top).strip() == commit


@pytest.mark.parametrize("way", WAYS)
def test_a_head_that_moves_while_the_recovery_runs_is_saved_first(
    way: str, driver: Driver, tmp_path: Path
) -> None:
    scene = off_branch(tmp_path / "before")
    top = scene.copy()
    assert driver.run(top, *scene.words, blow=CRASHES[way]).killed

    recovered = driver.run(top, "rollback", way, blow=at(BEFORE_HEAD, COMMIT))

    assert recovered.code == 4, recovered
    assert "HEAD moved while the rollback ran" in recovered.stderr
    (commit,) = by_hand(top)
    assert git("rev-parse", "HEAD", cwd=top).strip() == commit
    assert driver.run(top, "rollback", way).code == 0
    scene.check(top, scene.after if way == "--continue" else scene.before)
    check_held(top, commit)
